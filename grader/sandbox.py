"""One submission in, answers out, nothing else.

A submission runs in a process of its own, walled off by a tier of
`grader.tiers`, on a staged copy of what its chapter may use. Only inputs go in
and only bytes come out, through the strict reader of `utils.wire`; an exit
status never counts as success. A cell that kills or outlives the process costs
its own exercise: the rest runs again without it.
"""

import time
from dataclasses import dataclass

from grader import exercises, tiers, workers
from grader.listening import CellReport, Listener, Result
from grader.normalise import Unreadable, read_cells
from utils import wire
from utils.chapters import CHAPTERS

STAGED = (  # no widgets: figures are not run, and they compute what exercises ask for
    "__init__.py", "cases.py", "chapters.py", "check.py", "data.py", "errors.py", "mailbox.py",
    "palette.py", "plots.py", "progress.py", "time_limit.py", "warm_worker.py", "wire.py",
    "worker.py", "reference/__init__.py",
)  # fmt: skip
RUNS = 4  # the first, and one more after each of at most three cells that end a process


@dataclass(frozen=True)
class Limits:
    """What one submission may use."""

    cell_seconds: float = 60.0
    notebook_seconds: float = 300.0
    memory_bytes: int = 8 << 30  # of addresses, a process
    resident_bytes: int = 4 << 30  # of memory, all processes together
    output_bytes: int = 64 << 20


def run_submission(notebook_bytes, cases, limits=None, tier=None):
    """Run a notebook's code cells on `cases`, {exercise id: [Case]}, and return a Result.

    What is staged goes by the latest chapter among the exercises. Never raises
    for what is in the notebook; raises WorkerFailed when the worker cannot even
    start, which is no student's fault. `tier` is the wall around it, by default
    the best of this machine.
    """
    limits, tier = limits or Limits(), tier or tiers.best()
    started = time.monotonic()
    try:
        reports, sources = _read(notebook_bytes)
    except Unreadable as error:
        return Result("unreadable", str(error))
    result = Result("finished", cells=reports, tier=tier.name)
    files = staged_files(cases)
    inputs = {
        name: wire.pack([case.to_wire() for case in listed]) for name, listed in cases.items()
    }
    for _ in range(RUNS):
        left = limits.notebook_seconds - (time.monotonic() - started)
        fatal = _run_once(result, sources, inputs, files, limits, tier, left)
        if fatal is None:
            break
        sources.pop(fatal)
    result.seconds = time.monotonic() - started
    return result


def _read(notebook_bytes):
    """([CellReport] of code cells, {index: (grade_id, source)} of those to run)."""
    reports, sources = [], {}
    for index, cell in enumerate(read_cells(notebook_bytes)):
        if cell["cell_type"] != "code":
            continue
        grade_id = str(cell["metadata"].get("nbgrader", {}).get("grade_id", ""))
        reports.append(CellReport(index, grade_id))
        if "figure" in cell["metadata"].get("tags", []):
            reports[-1].status = "figure"
        else:
            sources[index] = (grade_id, cell["source"])
    return reports, sources


def staged_files(names):
    """What of `utils` a run of these exercises may hold: references of earlier chapters only."""
    concepts = {exercises.find(name).chapter for name in names}
    chapter = max((c.number for c in CHAPTERS if c.concept in concepts), default=0)
    earlier = [f"reference/{c.concept}.py" for c in CHAPTERS if c.number < chapter]
    return [*STAGED, *earlier, *(["glassbox.py"] if chapter > 4 else [])]


def _run_once(result, sources, inputs, files, limits, tier, seconds):
    """Run the cells once, into `result`. Returns the index of a cell that ended it, or None."""
    request = {
        "cells": [(index, *source) for index, source in sources.items()],
        "inputs": inputs,
        "cell_seconds": limits.cell_seconds,
        "memory_bytes": limits.memory_bytes,
    }
    listener = Listener(result, set(sources), limits)
    with workers.lent(tier, files, [source for _, source in sources.values()]) as worker:
        with workers.memory_watched(worker, limits.resident_bytes) as out_of_memory:
            answers = worker.start(wire.pack(request))
            worker.ended_well = listener.listen(answers, seconds, out_of_memory)
        if not listener.ready and result.status != "too slow":
            raise worker.failed()
    return listener.running
