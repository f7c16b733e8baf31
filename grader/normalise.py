"""A submitted notebook, brought back to the shape of the released one.

Ids, points, tests and cell types come from the released copy; the student's
code comes from the cells with the ids of solutions. Each repair is named.
"""

import copy
import json
import re

MAX_NOTEBOOK_BYTES = 20 << 20
CELL_TYPES = ("code", "markdown", "raw")


class Unreadable(ValueError):
    """The bytes are not a notebook; the text says why."""


def normalise(submitted, released):
    """(notebook, [repair, ...]): the student's cells with the released tests among them.

    `submitted` is bytes, `released` a notebook as a dict; so is what comes back.
    Raises Unreadable.
    """
    cells = read_cells(submitted)
    wanted = {grade_id(cell): cell for cell in released["cells"] if grade_id(cell)}
    repairs = _identify(cells, wanted)
    cells, doubled = _once_each(cells, wanted)
    repairs += doubled
    cells = [_restored(cell, wanted, repairs) for cell in cells]
    _insert_missing(cells, wanted, repairs)
    _give_ids(cells)
    return {**released, "cells": cells}, repairs


def read_cells(submitted):
    """The cells of a notebook in bytes, with sources in one piece and without outputs.

    Metadata that is none is dropped. Raises Unreadable, with a reason.
    """
    if len(submitted) > MAX_NOTEBOOK_BYTES:
        raise Unreadable(f"The notebook is larger than {MAX_NOTEBOOK_BYTES >> 20} MB.")
    try:
        notebook = json.loads(submitted)
    except (ValueError, RecursionError):
        raise Unreadable("This is not a notebook: the file is not JSON.") from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise Unreadable("This is not a notebook of format 4: it has no list of cells.")
    return [_read_cell(number, cell) for number, cell in enumerate(cells, 1)]


def _read_cell(number, cell):
    if not isinstance(cell, dict) or cell.get("cell_type") not in CELL_TYPES:
        raise Unreadable(f"This is not a notebook: cell {number} is no code, Markdown or raw cell.")
    source = cell.get("source")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        raise Unreadable(f"This is not a notebook: the source of cell {number} is no text.")
    metadata = cell.get("metadata") if isinstance(cell.get("metadata"), dict) else {}
    kept = {"nbgrader": metadata["nbgrader"]} if isinstance(metadata.get("nbgrader"), dict) else {}
    if isinstance(metadata.get("tags"), list) and "figure" in metadata["tags"]:
        kept["tags"] = ["figure"]
    read = {
        "cell_type": cell["cell_type"],
        "metadata": kept,
        "source": source.encode("utf-8", "replace").decode(),
    }
    if _are_attachments(cell.get("attachments")):
        read["attachments"] = cell["attachments"]
    if isinstance(cell.get("id"), str) and re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", cell["id"]):
        read["id"] = cell["id"]
    return _as_type(read, cell["cell_type"])


def _are_attachments(value):
    """Pictures that came with a cell: {name: {type: base64}}."""
    return isinstance(value, dict) and all(
        isinstance(bundle, dict) and all(isinstance(data, str) for data in bundle.values())
        for bundle in value.values()
    )


def _as_type(cell, cell_type):
    """The cell with the keys that its type must have, and no others."""
    cell = {k: v for k, v in cell.items() if k not in ("outputs", "execution_count")}
    if cell_type == "code":
        cell.pop("attachments", None)
    code = {"outputs": [], "execution_count": None} if cell_type == "code" else {}
    return {**cell, **code, "cell_type": cell_type}


def grade_id(cell):
    """The id that nbgrader's metadata give a cell, or None."""
    name = cell["metadata"].get("nbgrader", {}).get("grade_id")
    return name if isinstance(name, str) else None


def _identify(cells, wanted):
    """Give back the grade_id to cells whose metadata an editor has dropped; the repairs made."""
    repairs, present = [], {grade_id(cell) for cell in cells}
    by_cell_id = {cell["id"]: name for name, cell in wanted.items()}
    for cell in cells:
        if grade_id(cell) is not None:
            continue
        name = by_cell_id.get(cell.get("id")) or by_content(cell, wanted)
        if name in wanted and name not in present:
            cell["metadata"]["nbgrader"] = {"grade_id": name}
            present.add(name)
            repairs.append(f"{name}: the cell had lost its mark and was recognised.")
    return repairs


def by_content(cell, wanted):
    """The id of a solution or a test by what stands in it: `def softmax(`, `check("softmax", `."""
    source = cell["source"]
    if test := re.match(r'check\("(\w+)", ', source):
        return test[1]
    for name in wanted:
        exercise = name.removesuffix("_solution")
        if name != exercise and re.search(rf"^(def {exercise}\(|{exercise} = )", source, re.M):
            return name
    return None


def _once_each(cells, wanted):
    """The cells with every released id on at most one: of several, the last that was worked on."""
    chosen, repairs = {}, []
    for index, cell in enumerate(cells):
        name = grade_id(cell)
        if name in chosen:
            repairs.append(f"{name} stood twice; the last one that was filled in counts.")
        if name in wanted and (name not in chosen or cell["source"] != wanted[name]["source"]):
            chosen[name] = index
    kept = []
    for index, cell in enumerate(cells):
        name = grade_id(cell)
        if name is not None and chosen.get(name) == index:
            kept.append(cell)
        elif name is None or name not in wanted:
            if name is not None:
                repairs.append("A cell with an id of no released cell is kept as an ordinary one.")
            cell["metadata"].pop("nbgrader", None)
            kept.append(cell)
    return kept, repairs


def _restored(cell, wanted, repairs):
    name = grade_id(cell)
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
    """Put back each released cell that is gone, after the one it followed or before the next."""
    names = list(wanted)
    for place, name in enumerate(names):
        at = {grade_id(cell): index for index, cell in enumerate(cells)}
        if name in at:
            continue
        repairs.append(f"{name} was missing; it was put back as released.")
        after = next((at[n] + 1 for n in reversed(names[:place]) if n in at), None)
        before = next((at[n] for n in names[place:] if n in at), len(cells))
        cells.insert(before if after is None else after, copy.deepcopy(wanted[name]))


def _give_ids(cells):
    """An id of its own for every cell, as the format asks."""
    seen = set()
    for number, cell in enumerate(cells):
        if cell.get("id") in seen or "id" not in cell:
            cell["id"] = f"cell-{number}"
        seen.add(cell["id"])


def _is_test(cell):
    """A graded cell that the student does not write."""
    meta = cell["metadata"]["nbgrader"]
    return bool(meta.get("locked")) or (bool(meta.get("grade")) and not meta.get("solution"))
