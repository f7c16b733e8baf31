"""What honest people do to a notebook costs them nothing."""

import json

import pytest
from students import CHAPTER, fill, instructor_bytes, released

from grader.grade import grade

pytestmark = pytest.mark.slow
SECRET = b"a secret of the tests"


def points(notebook):
    data = json.dumps(notebook, ensure_ascii=False).encode()
    graded = grade(data, CHAPTER, released(), SECRET)
    return {name: verdict.score for name, verdict in graded.verdicts.items()}, graded


def code(source):
    return {
        "cell_type": "code",
        "metadata": {},
        "source": source,
        "outputs": [],
        "execution_count": 7,
    }


def grade_id(cell):
    return cell["metadata"].get("nbgrader", {}).get("grade_id", "")


def source(cell):
    return "".join(cell["source"])


def in_every_solution(line):
    def change(notebook):
        for cell in notebook["cells"]:
            if grade_id(cell).endswith("_solution"):
                cell["source"] = f"{line}\n{source(cell)}"

    return change


def between_all(extra):
    def change(notebook):
        notebook["cells"] = [c for cell in notebook["cells"] for c in (cell, code(extra))]

    return change


def reordered(notebook):
    """Solutions of later exercises first; a test stays behind its solution."""
    cells = notebook["cells"]
    for name in ("softmax_jacobian", "similarity"):
        index = next(i for i, cell in enumerate(cells) if grade_id(cell) == f"{name}_solution")
        cells.insert(2, cells.pop(index))


def with_other_line_ends(notebook):
    for cell in notebook["cells"]:
        if grade_id(cell).endswith("_solution"):
            cell["source"] = source(cell).replace("\n", "\r\n")


def by_another_editor(notebook):
    notebook["nbformat_minor"] = 2
    notebook["metadata"] = {"colab": {"provenance": []}, "widgets": {"state": {"x": "y" * 1000}}}
    for number, cell in enumerate(notebook["cells"]):
        cell.pop("id", None)
        cell["metadata"] = {
            **cell["metadata"],
            "id": f"c{number}",
            "vscode": {"languageId": "python"},
        }


def saved_with_outputs(notebook):
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["execution_count"] = 99
            text = ["x" * 10_000 + "\n"] * 20
            cell["outputs"] = [{"output_type": "stream", "name": "stderr", "text": text}]


HONEST = {
    "warnings in every cell": in_every_solution("import warnings; warnings.warn('take care')"),
    "prints to stderr": in_every_solution("import sys; print('hm', file=sys.stderr)"),
    "prints": in_every_solution("print('so far so good')"),
    "logging": in_every_solution("import logging; logging.error('hm')"),
    "magics": in_every_solution(
        "%matplotlib inline\n%config InlineBackend.figure_format = 'retina'"
    ),
    "timing": between_all("%timeit -n1 -r1 1 + 1"),
    "a shell command": between_all("!true"),
    "a plot": in_every_solution("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()"),
    "another style": in_every_solution("import matplotlib.pyplot as plt; plt.style.use('ggplot')"),
    "cells between ours": between_all("scratch = [n**2 for n in range(10)]\nscratch"),
    "cells that fail between ours": between_all("1 / 0"),
    "a question to the reader": between_all("name = input('your name? ')"),
    "syntax errors between ours": between_all("def half("),
    "other names": in_every_solution("größe = 3; 数 = größe; résumé = '✓'"),
    "a cell of five seconds": lambda nb: nb["cells"].insert(4, code("import time; time.sleep(5)")),
    "reordered cells": reordered,
    "other line ends": with_other_line_ends,
    "another editor": by_another_editor,
    "saved with outputs": saved_with_outputs,
    "a seed of one's own": in_every_solution("import numpy as np; np.random.seed(0)"),
    "errors turned on": in_every_solution(
        "import numpy as np; np.seterr(all='raise', under='ignore')"
    ),
    "another print": in_every_solution("import numpy as np; np.set_printoptions(precision=2)"),
    "typed": in_every_solution("from __future__ import annotations"),
    "a file of one's own": in_every_solution("open('notes.txt', 'w').write('mine')"),
}


@pytest.mark.parametrize("what", HONEST)
def test_honest_work_loses_nothing(what):
    notebook = json.loads(instructor_bytes())
    HONEST[what](notebook)
    scores, graded = points(notebook)
    assert set(scores.values()) == {1}, {
        n: v.message for n, v in graded.verdicts.items() if not v.passed
    }


def test_half_of_it_is_half_of_it_however_it_is_decorated():
    right = "def similarity(query, keys):\n    return query @ keys.T"
    notebook = json.loads(fill({"similarity": right}))
    for change in (between_all("1 / 0"), in_every_solution("import warnings; warnings.warn('!')")):
        change(notebook)
    scores, _ = points(notebook)
    assert scores.pop("similarity") == 1 and set(scores.values()) == {0}
