"""The one writer to nbgrader's gradebook.

nbgrader's own calls commit and look up cell by cell, two hundred times for a
submission; here a class is read and written at once, with the same tables.
"""

import nbformat
from nbgrader.api import (
    Comment,
    Grade,
    Gradebook,
    MissingEntry,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
)
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import SaveCells
from nbgrader.utils import parse_utc
from sqlalchemy import select
from sqlalchemy.orm import load_only, selectinload
from traitlets.config.loader import PyFileConfigLoader

from grader import course_files


class StaleGradebook(RuntimeError):
    """The gradebook holds scores for other cells than those handed out now."""


def course_of(root):
    """nbgrader's idea of this course folder, by its nbgrader_config.py.

    Raises FileNotFoundError where there is none.
    """
    (root / "nbgrader_config.py").stat()
    config = PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config()
    config.CourseDirectory.root = str(root)
    return CourseDirectory(config=config)


def enter_chapter(chapter, root, course):
    """The chapter's cells and points, as `nbgrader generate_assignment` enters them.

    Raises StaleGradebook where that would drop cells that have scores.
    """
    released = nbformat.from_dict(course_files.released(chapter, root))
    with Gradebook(course.db_url, course.course_id) as book:
        book.update_or_create_assignment(chapter.name, course_id=course.course_id)
        if _cells_of(book, chapter) == _cells_in(released):
            return
    names = {"assignment": chapter.name, "notebook": chapter.name, "db_url": course.db_url}
    try:
        SaveCells().preprocess(released, {"nbgrader": names})
    except RuntimeError:
        raise StaleGradebook(
            f"The gradebook has scores for other cells than {chapter.name} has now. Export what "
            "you want to keep (scores set by hand go with it), then: "
            f"nbgrader db assignment remove {chapter.name} --force"
        ) from None


def _cells_in(released):
    metas = [(cell, cell["metadata"].get("nbgrader", {})) for cell in released["cells"]]
    return {
        (m["grade_id"], m.get("points") if m.get("grade") else None, m.get("checksum"))
        for cell, m in metas
        if m.get("grade_id")
    }


def _cells_of(book, chapter):
    try:
        notebook = book.find_notebook(chapter.name, chapter.name)
    except MissingEntry:
        return set()
    worth = {cell.name: cell.max_score for cell in notebook.grade_cells}
    return {(cell.name, worth.get(cell.name), cell.checksum) for cell in notebook.source_cells}


def write(submissions, chapter, course):
    """Record what was graded; scores of this run replace earlier ones, a person's stay."""
    graded = {one.student: one for one in submissions if one.finished}
    with Gradebook(course.db_url, course.course_id) as book:
        notebook = book.find_notebook(chapter.name, chapter.name)
        names = {c.id: c.name for c in (*notebook.grade_cells, *notebook.solution_cells)}
        entries = _entries(book, notebook)
        entries |= _new_entries(book, notebook, graded.keys() - entries.keys())
        for student, one in graded.items():
            submitted = _time_of(one.path.with_name("timestamp.txt"))
            entries[student].assignment.timestamp = submitted
            _enter(entries[student], one.finished, names)
        book.db.commit()


def _entries(book, notebook):
    """{student: SubmittedNotebook}, with grades and comments, of those that have one already."""
    sums = (
        load_only(SubmittedNotebook.id),  # not the many sums that nbgrader adds to each row
        selectinload(SubmittedNotebook.assignment).load_only(
            SubmittedAssignment.student_id, SubmittedAssignment.timestamp
        ),
        selectinload(SubmittedNotebook.grades).load_only(
            Grade.cell_id, Grade.auto_score, Grade.manual_score, Grade.needs_manual_grade
        ),
        selectinload(SubmittedNotebook.comments).load_only(Comment.cell_id, Comment.auto_comment),
    )
    query = select(SubmittedNotebook).where(SubmittedNotebook.notebook_id == notebook.id)
    found = book.db.execute(query.options(*sums)).scalars()
    return {one.assignment.student_id: one for one in found}


def _new_entries(book, notebook, students):
    """The same for these students, with a grade a graded cell and a comment a solution."""
    known = set(book.db.execute(select(Student.id)).scalars())
    book.db.add_all(Student(id=student) for student in students if student not in known)
    book.db.flush()
    entries = {}
    for student in students:
        submission = SubmittedAssignment(assignment=notebook.assignment, student_id=student)
        entry = SubmittedNotebook(notebook=notebook, assignment=submission)
        entry.grades = [Grade(cell_id=cell.id) for cell in notebook.grade_cells]
        entry.comments = [Comment(cell_id=cell.id) for cell in notebook.solution_cells]
        entries[student] = entry
    book.db.add_all(entries.values())
    return entries


def _time_of(stamp):
    """What intake or nbgrader noted as the time of submission, or None."""
    try:
        with open(stamp, encoding="utf-8") as file:
            return parse_utc(file.read(100).strip())
    except (OSError, ValueError, OverflowError):
        return None


def _enter(entry, finished, names):
    for grade in entry.grades:
        grade.auto_score = finished.scores.get(names[grade.cell_id], 0.0)
        # what a person has marked does not go back into the queue of things to mark
        grade.needs_manual_grade = grade.auto_score is None and grade.manual_score is None
    for comment in entry.comments:
        unanswered = names[comment.cell_id] in finished.unanswered
        comment.auto_comment = "No response." if unanswered else None
