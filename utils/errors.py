"""Errors that a reader is meant to read: in a notebook they are one line, without a traceback."""


class OneLine(Exception):
    """IPython asks an exception how to show its traceback; these show their sentence alone."""

    kind = "Error"

    def _render_traceback_(self):
        return [f"{self.kind}: {self}"]


class CheckFailed(OneLine, AssertionError):
    """The answer does not pass; the text is the verdict."""

    kind = "AssertionError"


class UnknownExercise(OneLine, LookupError):
    """There is no exercise of this id; the text names the nearest."""

    kind = "LookupError"


class NotReady(OneLine, RuntimeError):
    """Package and notebook do not fit together; the text says what to do."""

    kind = "RuntimeError"
