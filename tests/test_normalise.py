"""Damage to a notebook's shape is repaired from the released copy, and each repair is named."""

import copy
import json

import pytest
from students import fill, released

from grader.normalise import normalise

RIGHT = "def similarity(query, keys):\n    return query @ keys.T"
NAMES = {"similarity": "a test", "similarity_solution": "a solution"}


def named(notebook):
    return {c["metadata"].get("nbgrader", {}).get("grade_id"): c for c in notebook["cells"]}


def index(notebook, name):
    return next(
        i for i, c in enumerate(notebook["cells"]) if named({"cells": [c]}).keys() == {name}
    )


def damaged(change):
    notebook = json.loads(fill({"similarity": RIGHT}))
    change(notebook)
    return normalise(json.dumps(notebook).encode(), released())


def test_an_honest_notebook_is_not_repaired():
    notebook, repairs = damaged(
        lambda nb: nb["cells"].insert(3, {"cell_type": "code", "source": ["1"]})
    )
    assert repairs == []
    assert named(notebook)["similarity_solution"]["source"] == RIGHT


def test_edited_tests_points_and_types_come_back():
    def change(nb):
        cells = named(nb)
        cells["similarity"]["source"] = "pass"
        cells["similarity"]["metadata"]["nbgrader"]["points"] = 1000
        cells["softmax"]["cell_type"] = "markdown"
        cells["similarity_solution"]["cell_type"] = "raw"

    notebook, repairs = damaged(change)
    cells, wanted = named(notebook), named(released())
    assert cells["similarity"] == wanted["similarity"] and cells["softmax"] == wanted["softmax"]
    assert cells["similarity_solution"]["cell_type"] == "code"
    assert any("similarity: the test was edited" in repair for repair in repairs)
    assert any("type was changed back" in repair for repair in repairs)


def test_deleted_cells_come_back_in_their_place():
    def change(nb):
        nb["cells"] = [
            c for c in nb["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") not in NAMES
        ]

    notebook, repairs = damaged(change)
    assert (
        index(notebook, "similarity_solution")
        < index(notebook, "similarity")
        < index(notebook, "softmax")
    )
    assert len([r for r in repairs if "was missing" in r]) == 2


def test_the_first_cell_comes_back_before_its_test():
    def change(nb):
        nb["cells"] = [c for c in nb["cells"] if "hard_lookup_solution" not in str(c["metadata"])]

    notebook, _ = damaged(change)
    assert index(notebook, "hard_lookup_solution") < index(notebook, "hard_lookup")


@pytest.mark.parametrize("keep_ids", [True, False])
def test_marks_that_an_editor_dropped_are_found_again(keep_ids):
    def change(nb):
        for cell in nb["cells"]:
            cell["metadata"] = {"id": "colab"}
            if not keep_ids:
                del cell["id"]

    notebook, repairs = damaged(change)
    cells = named(notebook)
    assert cells["similarity_solution"]["source"] == RIGHT
    tests = [c for c in notebook["cells"] if c["source"].startswith('check("similarity"')]
    assert tests == [named(released())["similarity"]]
    assert len([r for r in repairs if "recognised" in r]) >= 20
    order = [
        index(notebook, name) for name in ("similarity_solution", "similarity", "softmax_solution")
    ]
    assert order == sorted(order)


def test_of_two_copies_the_one_worked_on_counts():
    for position in (0, -1):

        def change(nb, position=position):
            stub = copy.deepcopy(named(released())["similarity_solution"])
            nb["cells"].insert(position, stub)

        notebook, repairs = damaged(change)
        assert named(notebook)["similarity_solution"]["source"] == RIGHT
        assert any("stood twice" in repair for repair in repairs)


def test_ids_of_the_students_own_making_become_ordinary_cells():
    def change(nb):
        meta = {"nbgrader": {"grade_id": "bonus", "grade": True, "points": 50, "locked": True}}
        nb["cells"].append({"cell_type": "code", "metadata": meta, "source": "1"})
        nb["cells"].append(
            {"cell_type": "code", "metadata": {"nbgrader": "nonsense"}, "source": "2"}
        )

    notebook, repairs = damaged(change)
    assert "bonus" not in named(notebook) and any(
        "no released cell" in repair for repair in repairs
    )
    assert notebook["cells"][-2]["source"] == "1"
