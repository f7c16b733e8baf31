"""What puts our sandbox, judge and cards into nbgrader; nbgrader itself is not edited."""

import warnings
from pathlib import Path

import nbformat
from nbconvert.preprocessors import ClearMetadataPreprocessor
from nbgrader import utils as nbutils
from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    IgnorePattern,
    LimitOutput,
    NbGraderPreprocessor,
    SaveAutoGrades,
)
from sqlalchemy.exc import SAWarning

from grader import course_files, grade
from grader.safe_html import clean, markdown_to_html
from utils.chapters import find_chapter


def configure(c):
    """Set up nbgrader's configuration for a course folder."""
    # nbgrader's own queries; nothing is lost, and a teacher cannot act on it
    warnings.filterwarnings("ignore", "Object of type <Submitted", SAWarning)
    c.CourseDirectory.course_id = "attention"
    c.CourseDirectory.source_directory = "solutions"
    c.CourseDirectory.release_directory = "notebooks"
    c.Autograde.autograde_preprocessors = [
        RunAndJudge,
        IgnorePattern,
        ClearMetadataPreprocessor,
        LimitOutput,
        SaveVerdicts,
        AssignLatePenalties,
        CheckCellMetadata,
    ]
    c.HTMLExporter.sanitize_html = True
    c.HTMLExporter.filters = {"clean_html": clean, "markdown2html": markdown_to_html}


class RunAndJudge(NbGraderPreprocessor):
    """Stands where nbgrader runs the notebook: runs it in the sandbox and judges the answers.

    Each test cell shows the verdict's card, each other cell what it printed and
    drew. The scores go on to SaveVerdicts in `resources`.
    """

    def preprocess(self, nb, resources):
        chapter = find_chapter(resources["nbgrader"]["assignment"])
        root = Path.cwd()  # nbgrader works in the course folder
        submitted = nbformat.writes(nb).encode()
        released = course_files.released(chapter, root)
        graded = grade.grade(submitted, chapter, released, course_files.secret(root))
        for repair in graded.repairs:
            self.log.warning("%s: %s", resources["nbgrader"]["student"], repair)
        judged = nbformat.from_dict(graded.notebook)
        _show(judged, graded)
        resources["verdicts"] = graded.verdicts
        return judged, resources


def _show(notebook, graded):
    """Put outputs into the cells: cards under the tests, text and plots under the others."""
    for report in graded.result.cells:
        cell = notebook.cells[report.index]
        verdict = graded.verdicts.get(report.grade_id)
        outputs = [card_output(verdict)] if verdict else report.outputs
        cell.outputs = [nbformat.from_dict(output) for output in outputs]


def card_output(verdict):
    data = {"text/plain": repr(verdict), "text/html": verdict._repr_html_()}
    return {"output_type": "display_data", "data": data, "metadata": {}}


class SaveVerdicts(SaveAutoGrades):
    """Writes this run's scores to the gradebook; what a person has set there is not touched."""

    def preprocess(self, nb, resources):
        self.verdicts = resources["verdicts"]
        return super().preprocess(nb, resources)

    def _add_score(self, cell, resources):
        grade_id = cell.metadata["nbgrader"]["grade_id"]
        found = self.gradebook.find_grade(
            grade_id, self.notebook_id, self.assignment_id, self.student_id
        )
        verdict = self.verdicts.get(grade_id)
        if verdict:
            found.auto_score = verdict.score * found.max_score
        else:
            found.auto_score, _ = nbutils.determine_grade(cell, self.log)
        found.needs_manual_grade = found.auto_score is None and found.manual_score is None
        self.gradebook.db.commit()
