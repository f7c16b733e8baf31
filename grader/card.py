"""A verdict as a reader sees it: a compact HTML card and its plain-text twin."""

from html import escape

import numpy as np

from utils.palette import BLUE, GREEN, VERMILLION

MAX_CELLS = 12


def text(verdict):
    """Three lines for a terminal: the outcome, the groups, the one thing to do."""
    head = "passes" if verdict.passed else "does not pass yet"
    groups = "  ".join(f"{'✓' if ok else '✗'} {name}" for name, ok in verdict.groups.items())
    return f"{verdict.exercise} {head}\n{groups}\n{verdict.message}"


def html(verdict):
    colour, sign = (GREEN, "✓") if verdict.passed else (VERMILLION, "✗")
    head = "passes" if verdict.passed else "does not pass yet"
    groups = " ".join(_group(name, ok) for name, ok in verdict.groups.items())
    return (
        f'<div style="border-left: 4px solid {colour}; padding: 4px 12px; margin: 4px 0">'
        f"<div><strong>{sign} {escape(verdict.exercise)}</strong> {head}</div>"
        f'<div style="font-size: 90%; margin: 4px 0">{groups}</div>'
        f"<div>{_code(verdict.message)}</div>"
        f"{_matrices(verdict.evidence)}</div>"
    )


def _group(name, ok):
    sign, weight = ("✓", "normal") if ok else ("✗", "bold")
    style = f"white-space: nowrap; margin-right: 12px; font-weight: {weight}"
    return f'<span style="{style}">{sign} {escape(name)}</span>'


def _code(message):
    """Escape the message and turn `backticks` into code."""
    parts = escape(message).split("`")
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def _matrices(evidence):
    if evidence is None or max(evidence[1].shape) > MAX_CELLS or evidence[1].size < 2:
        return ""
    tables = _marks(*evidence) if evidence[1].dtype == bool else _heat_maps(*evidence)
    cells = "".join(
        '<td style="padding: 0 12px 0 0; vertical-align: top">'
        f'<div style="text-align: left">{title}</div><table>{rows}</table></td>'
        for title, rows in tables
    )
    return f'<table style="margin: 6px 0"><tr>{cells}</tr></table>'


def _marks(yours, wanted):
    """True and False as ✓ and ·, with a frame round the cells that differ."""
    for title, matrix in (("yours, framed where it differs", yours), ("wanted", wanted)):
        yield title, _rows(matrix, lambda at, x: _mark(x, yours[at] != wanted[at]))


def _mark(x, differs):
    border = "2px solid" if differs else "2px solid transparent"
    style = f"border: {border}; padding: 0 5px; text-align: center; font-size: 80%"
    return f'<td style="{style}">{"✓" if x else "·"}</td>'


def _heat_maps(yours, wanted):
    finite = np.abs(np.where(np.isfinite([yours, wanted]), [yours, wanted], 0))
    top = max(finite.max(), 1e-12)
    pictures = [("yours", yours), ("wanted", wanted), ("yours − wanted", _gap(yours, wanted, top))]
    for title, matrix in pictures:
        yield title, _rows(matrix, lambda _, x: _cell(x, top))


def _gap(yours, wanted, top):
    """The difference: 0 where both are inf or nothing but rounding tells them apart."""
    with np.errstate(all="ignore"):
        gap = yours - wanted
    return np.where((yours == wanted) | (np.abs(gap) < 1e-12 * top), 0.0, gap)


def _rows(matrix, cell):
    """The rows of a table, each cell made from its place and its number."""
    cells = [[cell((i, j), x) for j, x in enumerate(row)] for i, row in enumerate(matrix)]
    return "".join(f"<tr>{''.join(row)}</tr>" for row in cells)


def _cell(x, top):
    """One number on a tint of blue (positive) or vermillion (negative), by size."""
    share = min(abs(x) / top, 1) if np.isfinite(x) else 0
    colour = BLUE if x > 0 else VERMILLION
    tint = f"{colour}{int(share * 110):02x}"
    style = f"background-color: {tint}; padding: 1px 5px; text-align: right; font-size: 80%"
    return f'<td style="{style}">{x:.3g}</td>'
