"""Chapter 4's figure in numbers and words: who may read whom, and why not.

The masks are written out here, small and private to the figure: to show it must
load no solution of the chapter.
"""

from dataclasses import dataclass

import numpy as np

from utils.widgets.numbers import fix

# Two texts packed into one sequence, and padding up to its length. Segment 0 is padding.
WORDS = ["Rain", "fell", "softly", "Cats", "slept", "well", "pad", "pad"]
SEGMENTS = np.array([1, 1, 1, 2, 2, 2, 0, 0])
PADDING = SEGMENTS == 0
NAMES = [f"“{word}” ({i + 1})" for i, word in enumerate(WORDS)]  # tells one pad from the other
S = len(WORDS)
TEXTS = "Segment 1: Rain fell softly. Segment 2: Cats slept well. Segment 0, padding: pad pad."
SHORT = 5  # queries, when there are fewer than keys: the last tokens

# Designed for the figure: one row a query, one column a key.
SCORES = np.array(
    [
        [0.7, -0.2, 1.8, 0.7, -1.8, 0.4, -0.7, 0.1],
        [1.8, 0.6, 0.4, 1.1, -0.5, -0.5, 1.4, -0.4],
        [0.6, 1.9, 0.2, -1.0, 0.8, 0.2, -0.3, 1.1],
        [1.0, -0.6, 0.4, 0.8, 1.7, -0.9, 0.3, -0.2],
        [-0.4, 0.9, 1.2, 2.1, 0.3, 0.6, -0.8, 0.5],
        [0.9, -0.3, 1.6, 0.4, 1.9, 0.5, 1.0, -0.6],
        [0.2, 0.8, -0.7, 0.5, -0.1, 1.3, 0.6, 0.4],
        [-0.9, 0.3, 0.7, 1.2, 0.1, -0.4, 0.9, 0.5],
    ]
)

CONSTRAINTS = ("causal", "padding", "window", "segment")
ROW, COLUMN = 5, 6  # where the figure starts: “well” and the first pad


@dataclass(frozen=True)
class Choice:
    """What is switched on; `short` means fewer queries than keys, `after` masks too late."""

    causal: bool = True
    padding: bool = True
    window: bool = False
    segment: bool = True
    short: bool = False
    after: bool = False
    width: int = 3

    @property
    def first(self):
        """The place of the first token that asks; queries are aligned to the end."""
        return S - SHORT if self.short else 0

    @property
    def on(self):
        return [name for name in CONSTRAINTS if getattr(self, name)]


CAPTIONS = {
    "In plain words.": "Each switch asks a question of its own: does the key come later, is it "
    "padding, is it too far back, does it belong to another text? A query reads the keys that "
    "every switched-on constraint allows. A query that is left with no key reads nothing: all "
    "its weights are 0.",
    "Technically.": "Each constraint is a boolean mask of shape (T, S), True where a key may be "
    "read; they are combined with a logical and. The mask goes in before softmax, which then "
    "shares out 1 among the keys that are left. Zeroed after softmax instead, the weights of a "
    "row no longer sum to 1: what the forbidden keys had got is lost. With fewer queries "
    "than keys the queries are the last tokens: causal and window count from the end. The scores "
    "were designed.",
}


def masks(choice):
    """Every constraint, on or off, by name: boolean arrays (T, S), True where a key may be read."""
    query = np.arange(choice.first, S)[:, None]  # (T, 1): places in the sequence
    key = np.arange(S)  # (S,)
    same = SEGMENTS[query] == SEGMENTS
    return {
        "causal": key <= query,
        "padding": np.broadcast_to(~PADDING, (len(query), S)),
        "window": (key <= query) & (key > query - choice.width),
        "segment": same & ~PADDING,  # padding is in no segment
    }


def softmax(scores, allowed):
    """Weights `(T, S)` over the allowed keys of each row; a row without one is 0."""
    e = np.where(allowed, np.exp(scores - scores.max(axis=1, keepdims=True)), 0)
    total = e.sum(axis=1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def look(choice):
    """Every number of the figure, as arrays of shape (T, S) or, for a row's sum, (T,)."""
    single = masks(choice)
    scores = SCORES[choice.first :]
    allowed = np.logical_and.reduce([np.ones(scores.shape, bool), *map(single.get, choice.on)])
    free = softmax(scores, np.ones_like(allowed))
    weights = np.where(allowed, free, 0) if choice.after else softmax(scores, allowed)
    return {
        "masks": single,
        "scores": scores,
        "allowed": allowed,
        "free": free,  # as if there were no mask
        "weights": weights,
        "sums": weights.sum(axis=1),
        "lost": 1 - np.where(allowed, free, 0).sum(axis=1),  # by masking after softmax
        "empty": ~allowed.any(axis=1),
    }


# ---- in words; `row` and `column` are places in the sequence ----


def forbids(name, choice, row, column):
    """Why the constraint rules the cell out; empty if it does not, whether on or off."""
    if masks(choice)[name][row - choice.first, column]:
        return ""
    if name == "causal":
        return "the key comes later"
    if name == "padding":
        return "the key is padding"
    if name == "window":
        if column > row:
            return "the key comes later, out of its reach"
        ago = row - column
        return f"the key is {ago} place{'s' * (ago > 1)} back, not among the last {choice.width}"
    if PADDING[row] and PADDING[column]:
        return "both are padding, in no segment"
    if PADDING[row] or PADDING[column]:
        return f"the {'query' if PADDING[row] else 'key'} is padding, in no segment"
    return f"the key is in segment {SEGMENTS[column]}, the query in {SEGMENTS[row]}"


def reasons(choice, row, column):
    """[(constraint, why)] of those that are on and rule the cell out."""
    found = ((name, forbids(name, choice, row, column)) for name in choice.on)
    return [(name, why) for name, why in found if why]


def verdict(choice, row, column):
    """May the key be read, and if not, by which constraints."""
    found = reasons(choice, row, column)
    if not found:
        return "may be read"
    return f"may not be read ({'; '.join(f'{name}: {why}' for name, why in found)})"


def total(state, choice, row):
    """What one row's weights sum to, and what that means."""
    i = row - choice.first
    words = f"{NAMES[row]} may read {state['allowed'][i].sum()} of {S} keys"
    sums = f"its weights sum to {fix(state['sums'][i])}"
    if choice.after:
        right = fix(0 if state["empty"][i] else 1)
        gone = fix(state["lost"][i])
        return f"{words}; {sums}, {gone} is lost (masked before softmax: sum {right})"
    if state["empty"][i]:
        return f"{words}: the row is empty, and its weights are 0"
    return f"{words}; {sums}"


def empties(state, choice):
    """The rows without a key, in a sentence."""
    names = [NAMES[choice.first + i] for i in np.flatnonzero(state["empty"])]
    if not names:
        return "No row is left empty."
    return f"Left with no key: {', '.join(names)}."


def summarise(state, choice, row, column):
    """What is on, the chosen cell, its row and the empty rows, in sentences."""
    on = ", ".join(choice.on) or "no constraint"
    moment = "after softmax" if choice.after else "before softmax"
    weight = fix(state["weights"][row - choice.first, column], 3)
    return (
        f"Mask {moment}: {on}; {S - choice.first} queries, {S} keys. "
        f"Query {NAMES[row]}, key {NAMES[column]}: {verdict(choice, row, column)}. "
        f"Weight {weight}. {total(state, choice, row)}. {empties(state, choice)}"
    )


def lost(state, choice, i):
    """What the row has lost: nothing, masked at the right time."""
    return fix(state["lost"][i]) if choice.after else "–"
