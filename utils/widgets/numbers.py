"""Numbers as the figures write them."""


def fix(x, digits=2):
    """A number with fixed decimals, and never "-0.00"."""
    return f"{round(float(x), digits) + 0.0:.{digits}f}"


def pair(point):
    """A point of a plane, as "(0.40, 1.20)"."""
    return f"({', '.join(fix(x) for x in point)})"


def markdown_table(head, rows):
    """Columns of numbers, set right, beside a first column of names, set left."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
