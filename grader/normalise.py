"""A submitted notebook, brought back to the shape of the released one.

Ids, points, tests and cell types come from the released copy; the student's
code comes from the cells with the ids of solutions. Each repair is named.
"""

import copy
import json


class Unreadable(ValueError):
    """The bytes are not a notebook; the text says why."""


def normalise(submitted, released):
    """(notebook, [repair, ...]): the student's cells with the released tests among them.

    `submitted` is bytes, `released` a notebook as a dict; so is what comes back.
    Raises Unreadable.
    """
    notebook = _parse(submitted)
    wanted = {_grade_id(cell): cell for cell in released["cells"] if _grade_id(cell)}
    cells, repairs = _once_each(notebook["cells"], wanted)
    cells = [_restored(cell, wanted, repairs) for cell in cells]
    _insert_missing(cells, wanted, repairs)
    return {**released, "cells": cells}, repairs


def _parse(submitted):
    try:
        notebook = json.loads(submitted)
        for cell in notebook["cells"]:
            if cell["cell_type"] not in ("code", "markdown", "raw"):
                raise ValueError(f"unknown cell type {cell['cell_type']!r}")
            cell["source"] = "".join(cell["source"])
            if not isinstance(cell.get("metadata"), dict):
                cell["metadata"] = {}
            if not isinstance(cell["metadata"].get("nbgrader", {}), dict):
                del cell["metadata"]["nbgrader"]
            if cell["cell_type"] == "code":
                cell["outputs"], cell["execution_count"] = [], None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Unreadable(f"This is not a notebook: {error}.") from None
    return notebook


def _grade_id(cell):
    name = cell["metadata"].get("nbgrader", {}).get("grade_id")
    return name if isinstance(name, str) else None


def _once_each(cells, wanted):
    """The cells with every released id on at most one: of several, the last that was worked on."""
    chosen, repairs = {}, []
    for index, cell in enumerate(cells):
        name = _grade_id(cell)
        if name in chosen:
            repairs.append(f"{name} stood twice; the last one that was filled in counts.")
        if name in wanted and (name not in chosen or cell["source"] != wanted[name]["source"]):
            chosen[name] = index
    kept = []
    for index, cell in enumerate(cells):
        name = _grade_id(cell)
        if name is None or chosen.get(name) == index:
            kept.append(copy.deepcopy(cell))
        elif name not in wanted:
            repairs.append(f"{name} is no cell of this chapter; it is kept as an ordinary one.")
            kept.append({**copy.deepcopy(cell), "metadata": {}})
    return kept, repairs


def _restored(cell, wanted, repairs):
    name = _grade_id(cell)
    if name is None:
        return cell
    original = copy.deepcopy(wanted[name])
    if _is_test(original):
        if cell["source"] != original["source"]:
            repairs.append(f"{name}: the test was edited; the released one is used.")
        return original
    if cell["cell_type"] != original["cell_type"]:
        repairs.append(f"{name}: the cell's type was changed back to {original['cell_type']}.")
    return {**original, "source": cell["source"]}


def _insert_missing(cells, wanted, repairs):
    """Put back each released cell that is gone, after the one it followed."""
    previous = None
    for name, original in wanted.items():
        at = {_grade_id(cell): index for index, cell in enumerate(cells)}
        if name not in at:
            repairs.append(f"{name} was missing; it was put back as released.")
            cells.insert(at.get(previous, len(cells) - 1) + 1, copy.deepcopy(original))
        previous = name


def _is_test(cell):
    """A graded cell that the student does not write."""
    meta = cell["metadata"]["nbgrader"]
    return bool(meta.get("locked")) or (bool(meta.get("grade")) and not meta.get("solution"))
