"""nbgrader, set up for this course: run its plain commands in this folder."""

from grader.nbgrader_hooks import configure

configure(get_config())  # noqa: F821
