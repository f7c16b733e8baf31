"""The two kinds of data that pass between the course and a student's code: cases and answers."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, eq=False)
class Case:
    """Inputs for one call of a candidate; never what should come out.

    `group` says what is tested ("large numbers"); it does not travel, since it
    may say what the answer should be. `name` is the case's number. `drive` says
    how the candidate is used: "call" calls it with `args` and `kwargs`; "value"
    takes it as it is.
    """

    group: str
    args: tuple = ()
    kwargs: dict = field(default_factory=dict)
    name: str = ""
    drive: str = "call"

    def to_wire(self):
        return (self.args, self.kwargs, self.name, self.drive)

    @classmethod
    def from_wire(cls, value):
        return cls("", *value)


STATUSES = ("returned", "raised", "too slow", "not run", "not callable")


@dataclass(frozen=True, eq=False)
class Answer:
    """What came of one case.

    `status` is "returned", "raised", "too slow", "not run" or "not callable".
    `errors` names the exception's class and its bases, `line` the student's
    line that raised it, `raiser` the function it came from. `changed` lists the
    arguments that were modified. `again` is what a second call with the same
    objects gave, where its bytes differ.
    """

    case: str
    status: str
    value: Any = None
    errors: tuple = ()
    message: str = ""
    line: str = ""
    raiser: str = ""
    changed: tuple = ()
    again: Any = None

    def to_wire(self):
        return (self.case, self.status, self.value, self.errors, self.message, self.line,
                self.raiser, self.changed, self.again)  # fmt: skip

    @classmethod
    def from_wire(cls, value):
        """The answer in a decoded message; raises ValueError unless every field has its type."""
        kinds = (str, str, object, tuple, str, str, str, tuple, object)
        if not (
            isinstance(value, tuple)
            and len(value) == len(kinds)
            and all(isinstance(item, kind) for item, kind in zip(value, kinds, strict=True))
            and all(isinstance(name, str) and len(name) <= 100 for name in value[3] + value[7])
            and value[1] in STATUSES
            and (value[3] or value[1] != "raised")
        ):
            raise ValueError("not an answer")
        return cls(*value)
