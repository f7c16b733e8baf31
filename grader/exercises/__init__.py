"""Every exercise of the course, by its id."""

import difflib
import functools
import importlib

from utils.chapters import CHAPTERS
from utils.errors import UnknownExercise


@functools.cache
def all_exercises():
    """{id: Exercise} in the order of the chapters and, inside one, of the declarations."""
    found = {}
    for chapter in CHAPTERS:
        module = importlib.import_module(f"grader.exercises.{chapter.concept}")
        found |= {exercise.id: exercise for exercise in module.EXERCISES}
    return found


def of_chapter(concept):
    return [e for e in all_exercises().values() if e.chapter == concept]


def find(exercise_id):
    """The exercise of this id. Raises UnknownExercise, a LookupError that names the nearest ids."""
    found = all_exercises()
    if isinstance(exercise_id, str) and exercise_id in found:
        return found[exercise_id]
    near = difflib.get_close_matches(str(exercise_id), found, n=3, cutoff=0.4) or list(found)[:3]
    raise UnknownExercise(f"There is no exercise {exercise_id!r}. Near to it: {', '.join(near)}.")
