"""What a course folder holds: the released notebooks, their points, results, the secret."""

import contextlib
import json
import os
import secrets
import tempfile
from pathlib import Path

from grader.store import Store

ROOT = Path(__file__).resolve().parent.parent


class StaleGradebook(RuntimeError):
    """The gradebook has scores for other cells than those handed out; the text has the way out."""


def released(chapter, root=ROOT):
    """The released student notebook of a chapter, as a dict."""
    path = root / "notebooks" / chapter.name / f"{chapter.name}.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    return notebook


def points(notebook):
    """{exercise id: points} of a notebook's test cells."""
    metas = [cell["metadata"].get("nbgrader", {}) for cell in notebook["cells"]]
    return {m["grade_id"]: m["points"] for m in metas if m.get("grade") and not m.get("solution")}


def results(root):
    """The store of results that a course folder keeps."""
    return Store(root / ".course" / "results")


def secret(root=ROOT):
    """The key from which hidden cases are made; drawn once for each course folder."""
    path = root / ".course" / "secret"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent) as fresh:
            fresh.write(secrets.token_bytes(32))
            fresh.flush()
            with contextlib.suppress(FileExistsError):
                os.link(fresh.name, path)  # of several at once, the first wins
    return path.read_bytes()
