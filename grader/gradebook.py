"""The one writer to nbgrader's gradebook: scores, and the notebooks that feedback is made of."""

import contextlib
import os

import nbformat
from nbgrader.api import Gradebook
from nbgrader.apps import NbGrader
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from traitlets.config.loader import PyFileConfigLoader

from grader import nbgrader_hooks


def write(submissions, chapter, root):
    """Record what was graded; scores of this run replace earlier ones, a person's stay.

    Where the gradebook is, the course folder's nbgrader_config.py says.
    """
    config = PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config()
    config.CourseDirectory.root = str(root)
    config.NbGrader.log_level = "ERROR"
    course = CourseDirectory(config=config)
    _enter_chapter(chapter, course, config)
    for one in submissions:
        if one.graded is not None:
            _enter_submission(one, chapter, course)


def _enter_chapter(chapter, course, config):
    """What `nbgrader generate_assignment` does: the chapter's cells and points in the gradebook."""
    course.assignment_id = chapter.name
    application = NbGrader(config=config)
    GenerateAssignment(coursedir=course, parent=application).start()


def _enter_submission(one, chapter, course):
    notebook = nbgrader_hooks.shown(one.graded)
    with Gradebook(course.db_url, course.course_id) as book:
        book.update_or_create_student(one.student)
        book.update_or_create_submission(chapter.name, one.student)
    names = {"assignment": chapter.name, "notebook": chapter.name, "student": one.student}
    resources = {
        "nbgrader": {**names, "db_url": course.db_url},
        "verdicts": one.graded.verdicts,
    }
    notebook, _ = nbgrader_hooks.SaveVerdicts().preprocess(notebook, resources)
    path = course.format_path(course.autograded_directory, one.student, chapter.name)
    os.makedirs(path, exist_ok=True)
    target = os.path.join(path, f"{chapter.name}.ipynb")
    with contextlib.suppress(FileNotFoundError):
        os.remove(target)  # nbgrader's own are read-only
    nbformat.write(notebook, target)
