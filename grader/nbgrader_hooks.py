"""What puts our sandbox, judge and cards into nbgrader; nbgrader itself is not edited."""

import json
import os
import sys
import warnings
from pathlib import Path

import nbformat
from nbconvert.preprocessors import ClearMetadataPreprocessor
from nbgrader import utils as nbutils
from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    ClearOutput,
    DeduplicateIds,
    Execute,
    IgnorePattern,
    LimitOutput,
    NbGraderPreprocessor,
    OverwriteCells,
    OverwriteKernelspec,
    SaveAutoGrades,
)
from sqlalchemy.exc import SAWarning
from traitlets import Bool

from grader import course_files, grade, tiers
from grader.exports import SafeCsv
from grader.normalise import Unreadable, normalise, read_cells
from grader.safe_html import clean, markdown_to_html
from utils.chapters import find_chapter


def configure(c):
    """Set up nbgrader's configuration for a course folder."""
    # nbgrader's own queries; nothing is lost, and a teacher cannot act on it
    warnings.filterwarnings("ignore", "Object of type <Submitted", SAWarning)
    # nbgrader calls `alembic` by name, and finds it only where the environment is active
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    c.CourseDirectory.course_id = "attention"
    c.CourseDirectory.source_directory = "solutions"
    c.CourseDirectory.release_directory = "notebooks"
    c.GenerateAssignment.force = True  # notebooks/ is generated: the same bytes again
    c.Autograde.pre_convert_hook = make_readable
    c.Autograde.sanitize_preprocessors = [
        Normalise,
        ClearOutput,
        DeduplicateIds,
        OverwriteKernelspec,
        OverwriteCells,
        CheckCellMetadata,
    ]
    c.Autograde.autograde_preprocessors = [
        RunAndJudge,
        IgnorePattern,
        ClearMetadataPreprocessor,
        LimitOutput,
        SaveVerdicts,
        AssignLatePenalties,
        CheckCellMetadata,
    ]
    c.ExportApp.plugin_class = SafeCsv
    c.HTMLExporter.sanitize_html = True
    c.HTMLExporter.filters = {"clean_html": clean, "markdown2html": markdown_to_html}


def chapter_of(assignment):
    """The course's chapter of this assignment, or None for one of the teacher's own."""
    try:
        return find_chapter(assignment)
    except LookupError:
        return None


def make_readable(assignment, student, notebooks):
    """Put a notebook that nbgrader can read in place of one that it cannot.

    Else it would stop there and leave an earlier submission's score. What can
    be saved is saved; of bytes that are no notebook only the reason is left, and
    they get their zero. The submission as it came is kept beside it.
    """
    chapter = chapter_of(assignment)
    for name in notebooks if chapter else ():
        path = Path(name)
        submitted = path.read_bytes()
        try:
            cells = read_cells(submitted)
        except Unreadable as error:
            cells = [{"cell_type": "markdown", "metadata": {}, "source": str(error)}]
        else:
            if _nbformat_reads(submitted):
                continue
        path.with_suffix(".ipynb.as_submitted").write_bytes(submitted)
        released = course_files.released(chapter, Path.cwd())
        readable = {**released, "cells": cells, "nbformat_minor": 4}
        path.write_text(json.dumps(readable), encoding="utf-8")


def _nbformat_reads(submitted):
    try:
        nbformat.reads(submitted.decode(), as_version=4)
    except Exception:  # whatever it stumbles over
        return False
    return True


class Normalise(NbGraderPreprocessor):
    """Brings a notebook back to the released shape, before nbgrader's own checks stumble."""

    def preprocess(self, nb, resources):
        chapter = chapter_of(resources["nbgrader"]["assignment"])
        if chapter is None:
            return nb, resources
        # nbgrader works in the course folder
        released = course_files.released(chapter, Path.cwd())
        notebook, repairs = normalise(json.dumps(nb).encode(), released)
        for repair in repairs:
            self.log.warning("%s: %s", resources["nbgrader"]["student"], repair)
        return nbformat.from_dict(notebook), resources


class RunAndJudge(Execute):
    """Stands where nbgrader runs the notebook: runs it in the sandbox and judges the answers.

    Each test cell shows the verdict's card, each other cell what it printed and
    drew. The scores go on to SaveVerdicts in `resources`. A teacher's own
    assignment is run as nbgrader runs it.
    """

    trust_submissions = Bool(
        False, help="Run submissions where nothing walls them off from your files and network."
    ).tag(config=True)

    def preprocess(self, nb, resources, **kwargs):
        chapter = chapter_of(resources["nbgrader"]["assignment"])
        if chapter is None:
            return super().preprocess(nb, resources, **kwargs)
        root = Path.cwd()
        released = course_files.released(chapter, root)
        secret = course_files.secret(root)
        tier = tiers.for_others(self.trust_submissions)
        store = course_files.results(root)
        graded = grade.grade(json.dumps(nb).encode(), chapter, released, secret, tier, store)
        self.log.info("Ran behind: %s", graded.result.tier)
        resources["verdicts"] = graded.verdicts
        return nbformat.from_dict(grade.with_outputs(graded)), resources


class SaveVerdicts(SaveAutoGrades):
    """Writes this run's scores to the gradebook; what a person has set there is not touched."""

    def preprocess(self, nb, resources):
        self.verdicts = resources.get("verdicts", {})
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
