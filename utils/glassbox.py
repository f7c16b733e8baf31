"""Attention in a glass box: plain lists and loops, every index visible, every step printed.

    python -m utils.glassbox                       the course's second worked example
    python utils/glassbox.py --row 2               its last token alone, without the package
    python -m utils.glassbox --file vectors.json   {"q": [[1, 0]], "k": [[0, 1]], "v": [[5]]}
    python -m utils.glassbox --q "[[1, 0]]" --k "[[0, 1]]" --v "[[5]]" --no-mask --scale 1

Nothing but the standard library. T queries and S keys may differ in number: with
the mask they are aligned to the end, so that the last query reads every key.
"""

import argparse
import json
import math
import os
import sys

EXAMPLE = {
    "q": [[1, 0], [0, 1], [1, 1]],
    "k": [[1, 0], [0, 1], [1, 1]],
    "v": [[1, 0], [0, 2], [3, 1]],
}


# ---- attention ----


def attend(q, k, v, scale=None, causal=True):
    """Scaled dot-product attention of one head, as lists.

    q `(T, d_k)`, k `(S, d_k)`, v `(S, d_v)` -> out `(T, d_v)`, weights `(T, S)`.
    `scale` None is 1 / sqrt(d_k). With `causal`, query i reads key j where
    j <= i + S - T; a query left without a key has weights 0 and output 0.
    Raises ValueError, with a sentence, for vectors that do not fit together.
    """
    check(q, k, v, scale)
    rows = [look(i, q, k, v, scale, causal) for i in range(len(q))]
    return [row["out"] for row in rows], [row["weights"] for row in rows]


def look(i, q, k, v, scale=None, causal=True):
    """Every step of query i, by name; each but `top`, `total` and `out` is a list over the keys."""
    T, S, d_k, d_v = len(q), len(k), len(k[0]), len(v[0])
    if scale is None:
        scale = 1 / math.sqrt(d_k)

    dots = [0.0] * S
    for j in range(S):
        for c in range(d_k):
            dots[j] += float(q[i][c]) * k[j][c]
    scores = [scale * dots[j] for j in range(S)]
    allowed = [not causal or j <= i + S - T for j in range(S)]
    for j in range(S):
        if allowed[j] and not math.isfinite(scores[j]):
            raise ValueError(
                f"The score of query {i} and key {j} is too large for a float: "
                "use smaller numbers in q and k."
            )

    # The largest score is subtracted, so that exp never overflows.
    top = max((scores[j] for j in range(S) if allowed[j]), default=0.0)
    shifted = [scores[j] - top if allowed[j] else -math.inf for j in range(S)]
    exponentials = [math.exp(shifted[j]) for j in range(S)]
    total = sum(exponentials)
    weights = [exponentials[j] / total if total else 0.0 for j in range(S)]

    out = [0.0] * d_v
    for j in range(S):
        for c in range(d_v):
            out[c] += weights[j] * v[j][c]
    return {
        "dots": dots,
        "scores": scores,
        "allowed": allowed,
        "top": top,
        "shifted": shifted,
        "exponentials": exponentials,
        "total": total,
        "weights": weights,
        "out": out,
    }


# ---- what fits together, and what does not ----


def check(q, k, v, scale=None):
    """Raise ValueError with one sentence, what is wrong and what to do, unless all fits."""
    for name, rows in (("q", q), ("k", k), ("v", v)):
        check_rows(name, rows)
    if len(q[0]) != len(k[0]):
        raise ValueError(
            f"q has rows of {len(q[0])} numbers and k of {len(k[0])}: "
            "give queries and keys the same width."
        )
    if len(k) != len(v):
        raise ValueError(f"k has {len(k)} rows and v has {len(v)}: give every key one value.")
    if scale is not None and not is_number(scale):
        raise ValueError(f"scale is {scale!r}: give a finite number, or none for 1 / sqrt(d_k).")


def check_rows(name, rows):
    """Raise ValueError unless `rows` are lists of finite numbers, all equally long."""
    shape = f"give {name} as a list of rows, such as [[1, 0], [0, 1]]."
    if not is_list(rows) or not all(is_list(row) for row in rows):
        raise ValueError(f"{name} is no list of lists: {shape}")
    if len(rows) == 0 or len(rows[0]) == 0:
        raise ValueError(f"{name} is empty: {shape}")
    for i, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"{name} is ragged, row {i} has {len(row)} numbers and row 0 has {len(rows[0])}: "
                "make all rows equally long."
            )
        for c, x in enumerate(row):
            if not is_number(x):
                raise ValueError(f"{name}[{i}][{c}] is {cut(x)}: put a finite number there.")


def is_list(x):
    return isinstance(x, (list, tuple))


def is_number(x):
    """A finite number that a float can hold; True and False are none."""
    try:
        return isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x)
    except OverflowError:  # an int of hundreds of digits
        return False


def cut(x):
    """What was found, short enough for a sentence."""
    try:
        text = repr(x)
    except ValueError:  # an int of thousands of digits
        text = "a very long number"
    return text if len(text) <= 40 else text[:37] + "..."


# ---- the steps in words ----


def explain(q, k, v, scale=None, causal=True, only=None):
    """The lines that show every step, for every query or for `only` one."""
    check(q, k, v, scale)
    yield from introduce(q, k, v, scale, causal)
    for i in range(len(q)) if only is None else [only]:
        yield ""
        yield from explain_row(i, q, k, v, scale, causal)


def introduce(q, k, v, scale, causal):
    """The sizes, the scale and the mask."""
    T, S, d_k, d_v = len(q), len(k), len(k[0]), len(v[0])
    yield f"Attention with T = {T} queries, S = {S} keys, d_k = {d_k}, d_v = {d_v}."
    if scale is None:
        yield f"Scale: 1 / sqrt(d_k) = 1 / sqrt({d_k}) = {fix(1 / math.sqrt(d_k))}"
    else:
        yield f"Scale: {given(scale)}, as asked."
    if not causal:
        yield "Mask: none, every query reads every key."
    elif T == S:
        yield "Mask: causal, query i reads key j where j <= i."
    else:
        shift = f"+ {S - T}" if S > T else f"- {T - S}"
        rule = f"j <= i + S - T = i {shift}"
        yield f"Mask: causal, aligned to the end, query i reads key j where {rule}."


def explain_row(i, q, k, v, scale, causal):
    """One query, from its dot products to its output."""
    row = look(i, q, k, v, scale, causal)
    S, d_k = len(k), len(k[0])
    yield f"Query {i}: q[{i}] = {vector(q[i])}"

    yield "  Dot products with the keys, term by term:"
    yield from table(
        added(f"q[{i}] . k[{j}]", [(given(q[i][c]), given(k[j][c])) for c in range(d_k)], dot)
        for j, dot in enumerate(row["dots"])
    )
    yield "  From dot product to weight:"
    yield from table([softmax_head(row, scale, d_k), *softmax_lines(row, S)], gap="  ")
    if not any(row["allowed"]):
        yield "    no key is left to read: weights 0 and output 0"
    yield "  Output, the values weighted and added:"
    yield from table(
        added(f"out[{i}][{c}]", [(fix(row["weights"][j]), given(v[j][c])) for j in range(S)], out)
        for c, out in enumerate(row["out"])
    )


def added(name, products, result):
    """A line of products: name = a * b + c * d = result, one entry a column."""
    signs = ["="] + ["+"] * (len(products) - 1)
    terms = [x for sign, (a, b) in zip(signs, products, strict=True) for x in (sign, a, "*", b)]
    return [name, *terms, "=", fix(result)]


def softmax_head(row, scale, d_k):
    scaled = f"dot / sqrt({d_k})" if scale is None else f"dot * {given(scale)}"
    top, total = (fix(row["top"]), fix(row["total"])) if any(row["allowed"]) else ("max", "sum")
    return ["key", "dot", scaled, "may read", f"minus {top}", "exp", f"exp / {total}"]


def softmax_lines(row, S):
    """One line a key, and the sums; a forbidden key has no number after the mask."""
    for j in range(S):
        yield [
            f"k[{j}]",
            fix(row["dots"][j]),
            fix(row["scores"][j]),
            "yes" if row["allowed"][j] else "no: later",
            fix(row["shifted"][j]),
            fix(row["exponentials"][j]),
            fix(row["weights"][j]),
        ]
    top = fix(row["top"]) if any(row["allowed"]) else "-"
    yield ["max", "", top, "", "", "", ""]
    yield ["sum", "", "", "", "", fix(row["total"]), fix(sum(row["weights"]))]


def table(lines, gap=" "):
    """Columns set right, each as wide as its widest entry."""
    lines = list(lines)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        yield "    " + gap.join(cells).rstrip()


def fix(x):
    """A computed number: three decimals, or an exponent where these would say little."""
    if x == 0 or (0.0005 <= abs(x) < 1e6):
        return f"{x + 0.0:.3f}"
    return f"{x:.3g}"


def given(x):
    """A number as it came in, in brackets if negative."""
    return f"({x:g})" if x < 0 else f"{x:g}"


def vector(row):
    return f"[{', '.join(f'{x:g}' for x in row)}]"


# ---- the command line ----


class OneSentence(argparse.ArgumentParser):
    """A parser whose complaints are one sentence, not a page of usage."""

    def error(self, message):
        raise ValueError(f"{message[0].upper()}{message[1:]}: see --help for the options.")


def parser():
    lines = __doc__.split("\n\n")
    options = OneSentence(
        prog="glassbox",
        description=lines[0],
        epilog="\n\n".join(lines[1:]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    options.add_argument("--file", metavar="vectors.json", help="a JSON file with q, k and v")
    for name in "qkv":
        options.add_argument(f"--{name}", metavar="ROWS", help="a JSON list of rows")
    options.add_argument("--no-mask", action="store_true", help="every query reads every key")
    options.add_argument("--scale", metavar="NUMBER", help="in place of 1 / sqrt(d_k)")
    options.add_argument("--row", metavar="N", help="show query N only, counted from 0")
    return options


def vectors(options):
    """q, k, v from the file, from the options, or from the worked example.

    Raises ValueError with a sentence.
    """
    typed = {name: text for name in "qkv" if (text := getattr(options, name)) is not None}
    if options.file is not None:
        if typed:
            raise ValueError(f"Both --file and --{min(typed)} are given: leave one of them out.")
        found = from_file(options.file)
    elif typed:
        found = {name: from_json(f"--{name}", text) for name, text in typed.items()}
    else:
        found = EXAMPLE
    if missing := [name for name in "qkv" if name not in found]:
        where = options.file or "The command"
        raise ValueError(f"{where} has no {' and no '.join(missing)}: give all of q, k and v.")
    return [found[name] for name in "qkv"]


def from_file(path):
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except OSError as error:
        reason = error.strerror or "it cannot be opened"
        raise ValueError(f"{path} cannot be read ({reason}): give the path of a file.") from None
    except ValueError:  # bytes that are no text, or a path that is none
        raise ValueError(f"{path} is no text in UTF-8: save it as a JSON file.") from None
    found = from_json(path, text)
    if not isinstance(found, dict):
        raise ValueError(f'{path} holds no JSON object: write {{"q": ..., "k": ..., "v": ...}}.')
    if unknown := sorted(set(found) - set("qkv")):
        raise ValueError(f"{path} names {unknown[0]!r}, which is not q, k or v: take it out.")
    return found


def from_json(name, text):
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        place = f" (line {error.lineno}, column {error.colno})" if hasattr(error, "colno") else ""
        raise ValueError(
            f"{name} is not JSON{place}: write lists of numbers, such as [[1, 0], [0, 1]]."
        ) from None


def number(name, text, kind, example):
    """An option as `kind`; None stays None."""
    try:
        return None if text is None else kind(text)
    except ValueError:
        raise ValueError(f"{name} is {cut(text)}: give {example}.") from None


def main(arguments=None):
    """Print the steps; the exit code: 0, or 2 after one sentence on what is wrong."""
    try:
        options = parser().parse_args(arguments)
        q, k, v = vectors(options)
        scale = number("--scale", options.scale, float, "a number, such as 0.5")
        only = number("--row", options.row, int, "a whole number, such as 0")
        check(q, k, v, scale)
        if only is not None and not 0 <= only < len(q):
            raise ValueError(f"--row is {only}: give a row of q, from 0 to {len(q) - 1}.")
        lines = list(explain(q, k, v, scale, not options.no_mask, only))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    try:
        print("\n".join(lines), flush=True)
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
