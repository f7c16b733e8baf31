"""Notebooks filled in as students would fill them, from nothing but the released copy."""

import copy
import json

from grader import course_files
from utils.chapters import CHAPTERS

CHAPTER = CHAPTERS[0]


def released(chapter=CHAPTER):
    return course_files.released(chapter)


def instructor_bytes(chapter=CHAPTER):
    return (course_files.ROOT / "solutions" / chapter.name / f"{chapter.name}.ipynb").read_bytes()


def fill(answers, chapter=CHAPTER):
    """Bytes of the released notebook with `answers`, {exercise id: source}, in its solution cells.

    A source is what the student leaves in the cell; a written answer goes by its own id.
    """
    notebook = copy.deepcopy(released(chapter))
    cells = {c["metadata"].get("nbgrader", {}).get("grade_id"): c for c in notebook["cells"]}
    for name, source in answers.items():
        cells[name if name not in cells or f"{name}_solution" not in cells else f"{name}_solution"][
            "source"
        ] = source
    return json.dumps(notebook).encode()


# A student who got half of it: right answers in ways of their own, and common mistakes.
MIXED = {
    "hard_lookup": """
def hard_lookup(query, keys, values):
    table = {}
    for k, v in zip(keys, values):
        if k not in table:
            table[k] = v
    return table[query]
""",
    "similarity": """
def similarity(query, keys):
    # einsum is easier to read for me
    return np.einsum("...i,ji->...j", query, keys)
""",
    "softmax": """
def softmax(x, axis=-1):
    print("softmax called with", np.shape(x))
    return np.exp(x) / np.sum(np.exp(x), axis=axis, keepdims=True)
""",
    "cat_sat_weights": "cat_sat_weights = (0.09, 0.67, 0.24)  # softmax of 0, 2, 1",
    "soft_lookup": """
import warnings

def soft_lookup(query, keys, values, temperature=1.0):
    warnings.warn("check the temperature!")
    if temperature <= 0:
        raise ValueError("temperature?")
    s = np.asarray(query) @ np.asarray(keys).T / temperature
    s = s - s.max(axis=-1, keepdims=True)
    w = np.exp(s)
    w = w / w.sum(axis=-1, keepdims=True)
    return w @ np.asarray(keys), w
""",
    "cat_sat_output": "cat_sat_output = [.14, .576, .284]",
    "softmax_jacobian": """
def softmax_jacobian(p):
    n = len(p)
    J = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            J[i, j] = p[i] * (1 - p[i]) if i == j else -p[i] * p[j]
    return J
""",
    "query_gradient": """
def query_gradient(query, keys, values, target):
    s = keys @ query
    w = np.exp(s - s.max()); w = w / w.sum()
    r = w @ values - target
    return keys.T @ (w * (values @ r))
""",
    "why_soft": "Because argmax has no gradient and softmax has one for every key.",
}
MIXED_FINDS = {
    "hard_lookup": None,
    "similarity": None,
    "softmax": "no_maximum",
    "cat_sat_weights": "not_divided",
    "soft_lookup": "averages_keys",
    "cat_sat_output": None,
    "temperature_for": "not_written",
    "softmax_jacobian": None,
    "query_gradient": "jacobian_without_outer",
    "learn_query": "not_written",
}
