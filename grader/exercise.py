"""How an exercise is declared: cases, laws and named mistakes around a reference."""

import ast
import functools
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from grader.compare import USUAL, Within
from utils.cases import Case
from utils.wire import Code


@dataclass(frozen=True)
class Mistake:
    """A named wrong implementation, and one sentence for the reader whose answers it explains."""

    name: str
    advice: str
    candidate: Any


@dataclass(frozen=True)
class Law:
    """What holds for every right answer: `holds(case, value) -> bool`, and what to say if not.

    One that holds `to_the_last_bit` is asked of answers that are close enough, too.
    """

    name: str
    advice: str
    holds: Callable[[Case, Any], bool]
    to_the_last_bit: bool = False


@dataclass(frozen=True)
class Together:
    """What holds for the right answers of a whole group: `holds(cases, values) -> bool`."""

    group: str
    name: str
    advice: str
    holds: Callable[[list, list], bool]


@dataclass(frozen=True, eq=False)
class Fault:
    """What is wrong with one answer: its name, and a sentence about what came back.

    One with a name holds no number of a hidden case. `evidence` is a pair of matrices, yours
    and wanted. One that stands `alone` is said without the case it was found in. `hint` is
    said in place of the group's.
    """

    name: str | None
    sentence: str
    evidence: tuple | None = None
    alone: bool = False
    hint: str | None = None


@dataclass(eq=False)
class Exercise:
    """One exercise; its id is the function's name and the grade_id of its test cell.

    `make_cases(rng)` yields cases in the order in which a reader should mend
    them; the first group is the ordinary use, without which nothing counts.
    `results` names the parts of a tuple that is returned. `hints` has a sentence
    for a group, said where nothing better is known.
    `remarks` names groups that are reported but never fail an answer.
    `accept(case, value, wanted)`, where given, replaces the comparison with
    the reference: it returns None or a Fault, and may raise Misfit.
    `form(case, value)` is asked of a value that agrees with the reference's, before
    it is made an array: it returns None or a Fault.
    Where several cases of a group fail, the one of least `rank(case)` is named.
    `together` has what holds for all answers of a group, asked where each passes.
    `order` names the groups first where the cases are shuffled; with
    `all_or_nothing` there is no partial credit. `within` says how close an
    answer must come, where it is not the usual.
    """

    id: str
    chapter: str
    reference: Any
    make_cases: Callable[[np.random.Generator], Iterable[Case]]
    builds_on: tuple = ()
    laws: tuple = ()
    results: tuple = ()
    hints: dict = field(default_factory=dict)
    remarks: dict = field(default_factory=dict)
    accept: Callable | None = None
    form: Callable | None = None
    rank: Callable | None = None
    together: tuple = ()
    within: Within = USUAL
    order: tuple = ()
    all_or_nothing: bool = False
    mistakes: list = field(default_factory=list)

    def cases(self, seed=0, hidden=False):
        """The cases of one seed: same groups and properties for every seed, other numbers."""
        return list(_cases(self, seed, hidden))

    @property
    def groups(self):
        """The names of the groups, in the order in which a reader should mend them."""
        return list(dict.fromkeys([*self.order, *(case.group for case in self.cases())]))

    def mistake(self, advice, name=None):
        """Decorator: declare a wrong implementation, named like the function if not otherwise."""

        def declare(candidate):
            self.mistakes.append(Mistake(name or candidate.__name__, advice, candidate))
            return candidate

        return declare

    def wrong_value(self, name, value, advice):
        """Declare a wrong answer to an exercise that asks for a value."""
        self.mistakes.append(Mistake(name, advice, value))


@functools.lru_cache(maxsize=256)
def _cases(exercise, seed, hidden):
    text = f"{exercise.id}|{seed}|{'hidden' if hidden else 'visible'}"
    rng = np.random.default_rng(list(hashlib.sha256(text.encode()).digest()))
    with np.errstate(all="ignore"):  # whatever a notebook has set for its own arithmetic
        made = list(exercise.make_cases(rng))
    return [replace(case, name=str(number)) for number, case in enumerate(made)]


# Remarks for answers that pass, and could take more than was asked for.
LISTS = "It would also take nested lists if it began with np.asarray."
INTEGERS = "Integers came in once and it failed on them: convert them to floats to be safe."


def signed(rng, *shape):
    """Signed, unsaturated numbers, none of them near 0, no two slices alike."""
    return rng.uniform(0.3, 1.2, shape) * rng.choice([-1.0, 1.0], shape)


def call(group, *args, **kwargs):
    """A case that calls the candidate with these arguments."""
    return Case(group, args, kwargs)


def value(group):
    """A case whose answer is the candidate itself."""
    return Case(group, drive="value")


def specimen(function):
    """The Code of a readable function: renamed, and without the docstring that says what it is."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    definition = tree.body[0]
    definition.name, definition.decorator_list = "specimen", []
    if ast.get_docstring(definition):
        definition.body = definition.body[1:]
    return Code(ast.unparse(tree))
