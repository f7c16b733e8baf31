"""The one writer to nbgrader's gradebook.

nbgrader's own calls commit and look up cell by cell, two hundred times for a
submission; here a class is read and written at once, with the same tables.
"""

import contextlib
import json
from pathlib import Path

from filelock import FileLock
from nbgrader.api import (
    Comment,
    Grade,
    Gradebook,
    GradeCell,
    MissingEntry,
    Notebook,
    SolutionCell,
    SourceCell,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
)
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import parse_utc
from sqlalchemy import select
from sqlalchemy.orm import load_only, selectinload
from traitlets.config.loader import PyFileConfigLoader

from grader import course_files
from grader.normalise import grade_id


def course_of(root):
    """nbgrader's idea of this course folder, by its nbgrader_config.py.

    Raises FileNotFoundError where there is none.
    """
    (root / "nbgrader_config.py").stat()
    config = PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config()
    config.CourseDirectory.root = str(root)
    return CourseDirectory(config=config)


@contextlib.contextmanager
def _alone(course):
    """The gradebook, while no other run in this course folder has it: one writer at a time."""
    folder = Path(course.root, ".course")
    folder.mkdir(exist_ok=True)
    with FileLock(folder / "gradebook.lock"), Gradebook(course.db_url, course.course_id) as book:
        yield book


def enter_chapter(chapter, root, course):
    """The chapter's cells and points, as `nbgrader generate_assignment` enters them.

    Raises StaleGradebook where that would drop cells that have scores.
    """
    released = course_files.released(chapter, root)
    with _alone(course) as book:
        assignment = book.update_or_create_assignment(chapter.name, course_id=course.course_id)
        notebook = _notebook(book, chapter)
        wanted = _cells(released)
        if notebook and notebook.submissions and _ids(notebook) != wanted.keys():
            raise course_files.StaleGradebook(
                f"The gradebook has scores for other cells than {chapter.name} has now. Export "
                "what you want to keep (scores set by hand go with it), then: "
                f"nbgrader db assignment remove {chapter.name} --force"
            )
        if notebook and _ids(notebook) != wanted.keys():
            book.remove_notebook(chapter.name, chapter.name)
            notebook = None
        if notebook is None:
            notebook = Notebook(name=chapter.name, assignment=assignment)
            notebook.kernelspec = json.dumps(released["metadata"].get("kernelspec", {}))
            book.db.add(notebook)
        _enter_cells(book, notebook, wanted)
        book.db.commit()


def _notebook(book, chapter):
    try:
        return book.find_notebook(chapter.name, chapter.name)
    except MissingEntry:
        return None


def _ids(notebook):
    return {cell.name for cell in notebook.source_cells}


def _cells(released):
    return {grade_id(cell): cell for cell in released["cells"] if grade_id(cell)}


def _enter_cells(book, notebook, wanted):
    """The rows of each cell: what it is worth, if graded; where an answer goes; what it holds."""
    graded, solutions, sources = (
        {cell.name: cell for cell in cells}
        for cells in (notebook.grade_cells, notebook.solution_cells, notebook.source_cells)
    )
    for name, cell in wanted.items():
        meta, kind = cell["metadata"]["nbgrader"], cell["cell_type"]
        if meta.get("grade"):
            row = graded.get(name) or GradeCell(name=name, notebook=notebook)
            row.max_score, row.cell_type = float(meta["points"]), kind
            book.db.add(row)
        if meta.get("solution") and name not in solutions:
            book.db.add(SolutionCell(name=name, notebook=notebook))
        row = sources.get(name) or SourceCell(name=name, notebook=notebook)
        row.cell_type, row.locked = kind, bool(meta.get("locked"))
        row.source, row.checksum = cell["source"], meta.get("checksum")
        book.db.add(row)


def write(submissions, chapter, course):
    """Record what was graded; scores of this run replace earlier ones, a person's stay."""
    graded = {one.student: one for one in submissions if one.finished}
    with _alone(course) as book:
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
