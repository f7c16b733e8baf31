"""The plots of the course: quiet, labelled, told apart without colour."""

import matplotlib.pyplot as plt
import numpy as np

from utils.palette import BLUE, GREEN, GREY, INK, PURPLE, VERMILLION

STYLES = [(BLUE, "-"), (VERMILLION, "--"), (GREEN, "-."), (PURPLE, ":"), (INK, (0, (5, 1, 1, 1)))]


def bars(labels, heights, title="", ylabel="weight"):
    """One bar a label, with its number on top."""
    _, ax = plt.subplots(figsize=(5, 2.4))
    drawn = ax.bar(labels, heights, color=BLUE, width=0.6)
    ax.bar_label(drawn, fmt="%.2f", padding=2)
    ax.tick_params(axis="x", rotation=45 if len(labels) > 5 else 0)
    ax.margins(y=0.2)
    _quiet(ax, title, "", ylabel)


def lines(x, curves, title="", xlabel="", ylabel="", logx=False, logy=False):
    """`curves` is `{label: y}`; each is told from the others by dashes as well as by colour.

    `logx` and `logy` ask for a logarithmic axis; 2 in place of True marks powers of two.
    A linear y axis begins at 0 where nothing is negative.
    """
    _, ax = plt.subplots(figsize=(5.5, 2.8))
    for (label, y), (colour, dashes) in zip(curves.items(), STYLES, strict=False):
        ax.plot(x, y, color=colour, linestyle=dashes, label=label)
    if len(curves) > 1:
        ax.legend(frameon=False)
    for log, scale, axis in ((logx, ax.set_xscale, ax.xaxis), (logy, ax.set_yscale, ax.yaxis)):
        if log:
            scale("log", base=2 if log == 2 else 10)
        if log == 2:
            axis.set_major_formatter("{x:g}")
    if not logy and all(np.all(np.asarray(y) >= 0) for y in curves.values()):
        ax.set_ylim(bottom=0)
    _quiet(ax, title, xlabel, ylabel)


def histograms(samples, edges, xlabel="", ylabel=""):
    """Outlines on one axis, `{label: values}`, with counts on a logarithmic scale."""
    _, ax = plt.subplots(figsize=(6, 2.8))
    for (label, values), (colour, dashes) in zip(samples.items(), STYLES, strict=False):
        ax.hist(values, edges, histtype="step", color=colour, linestyle=dashes, label=label)
    ax.set_yscale("log")
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    _quiet(ax, "", xlabel, ylabel)


def bars_side_by_side(panels, xlabel="", ylabel="weight"):
    """`panels` is `{title: weights}`: bars from 0 to 1, the same scale in each."""
    shape = {"sharey": True, "layout": "constrained", "squeeze": False}
    _, ((*axes,),) = plt.subplots(1, len(panels), figsize=(4 * len(panels), 2.6), **shape)
    for ax, (title, heights) in zip(axes, panels.items(), strict=True):
        ax.bar(range(1, len(heights) + 1), heights, color=BLUE)
        ax.set_ylim(0, 1.05)
        _quiet(ax, title, xlabel, ylabel if ax is axes[0] else "")


def steps_of_lookup(scores, weights, values, out, labels):
    """The whole look-up in one row: scores, weights, and the values blended into the output."""
    _, (left, middle, right) = plt.subplots(1, 3, figsize=(9, 2.6), layout="constrained")
    left.barh(labels, scores, color=GREY)
    middle.barh(labels, weights, color=BLUE)
    right.barh(labels, values, color=GREY, alpha=0.5)
    right.axvline(out, color=GREEN, linewidth=3)
    right.annotate("out", (out, -0.45), (6, 0), textcoords="offset points", color=GREEN)
    titles = ("scores: q·k", "weights: softmax", "values and out")
    for ax, title in zip((left, middle, right), titles, strict=True):
        ax.invert_yaxis()
        _quiet(ax, title, "", "")


def heat_map(values, rows, columns, title=""):
    """Weights as a map, dark for much; the number stands in every cell worth reading."""
    values = np.asarray(values)
    _, ax = plt.subplots(figsize=(0.6 * len(columns) + 1.5, 0.42 * len(rows) + 1.2))
    ax.imshow(values, cmap="Blues", vmin=0, vmax=max(1.0, values.max()), aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        if value >= 0.1:
            ink = "white" if value > 0.55 else INK
            ax.text(j, i, f"{value:.2f}", ha="center", va="center", color=ink, fontsize=9)
    ax.set_xticks(range(len(columns)), columns, rotation=45, ha="right")
    ax.set_yticks(range(len(rows)), rows)
    _quiet(ax, title, "is read", "reads")


def masks(tables):
    """`tables` is `{title: mask}`: a filled cell with a dot may be read, an empty one may not."""
    _, axes = plt.subplots(
        1, len(tables), figsize=(2.4 * len(tables), 2.7), layout="constrained", squeeze=False
    )
    for ax, (title, mask) in zip(axes[0], tables.items(), strict=True):
        mask = np.atleast_2d(np.asarray(mask, dtype=bool))
        rows, columns = mask.shape
        ax.pcolormesh(mask, cmap="Blues", vmin=0, vmax=1.6, edgecolors=GREY, linewidth=0.5)
        i, j = np.nonzero(mask)
        ax.plot(j + 0.5, i + 0.5, ".", color=INK, markersize=4)
        ax.set(xticks=np.arange(columns) + 0.5, yticks=np.arange(rows) + 0.5)
        ax.set(xticklabels=range(columns), yticklabels=range(rows), aspect="equal")
        ax.invert_yaxis()
        _quiet(ax, title, "key", "query")


def _quiet(ax, title, xlabel, ylabel):
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    ax.spines[["top", "right"]].set_visible(False)
