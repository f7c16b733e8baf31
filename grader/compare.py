"""Does an answer agree with the wanted value, and if not, how does one say so?"""

from dataclasses import dataclass

import numpy as np

from utils.wire import Other, TooLarge, as_array

NUMBER = (bool, int, float, np.ndarray, np.generic)


@dataclass(frozen=True)
class Within:
    """How close is close enough: `atol` where given, else `rtol`, which is wider for float32."""

    rtol: float = 1e-6
    atol: float | None = None

    def allowed(self, wanted):
        """How far each entry of an array may be off.

        `rtol` of the largest entry of its row. Rounding grows with what went in,
        not with what is left after terms have cancelled: a row of small numbers
        is allowed 0.3 of what the largest row is, and 0.1 * rtol at least.
        """
        if self.atol is not None or wanted.size == 0:
            return self.atol or 0.0
        rtol = max(self.rtol, {"f4": 1e-4, "f2": 1e-2}.get(wanted.dtype.str[1:], 0))
        size = np.abs(np.where(np.isfinite(wanted), wanted, 0)).astype(np.float64)
        row = size.max(axis=-1, keepdims=True) if size.ndim else size
        return rtol * np.maximum(row, max(0.3 * size.max(), 0.1))


USUAL = Within()


class Misfit(Exception):
    """The answer cannot be compared with what is wanted; `name` says in which way."""

    def __init__(self, name, sentence):
        super().__init__(sentence)
        self.name = name
        self.sentence = sentence


def arrays(value):
    """`value` with an array for every list of numbers in it: what a list is compared as."""
    if isinstance(value, tuple):
        return tuple(map(arrays, value))
    array = as_array(value) if isinstance(value, list) else None
    return value if array is None else array


def conform(value, wanted):
    """`value` in the structure of `wanted`: arrays for numbers, tuples for tuples.

    Raises Misfit with a sentence that says what came back instead.
    """
    if isinstance(wanted, tuple):
        return tuple(map(conform, items(value, wanted), wanted))
    if isinstance(wanted, NUMBER):
        return _numeric(value, np.asarray(wanted))
    if not isinstance(value, type(wanted)):
        raise Misfit(*_wrong_type(value, wanted))
    return value


def items(value, wanted):
    """The parts of `value` where a tuple like `wanted` is wanted. Raises Misfit."""
    array = as_array(value) if isinstance(value, list) else value
    if isinstance(array, np.ndarray) and array.ndim and array.shape[0] == len(wanted):
        return list(array)
    if isinstance(value, tuple | list) and len(value) == len(wanted):
        return value
    raise Misfit(*_wrong_type(value, wanted))


def _numeric(value, wanted):
    array = np.asarray(value) if isinstance(value, NUMBER) else as_array(value)
    if isinstance(value, tuple):
        array = as_array(list(value))
    if isinstance(value, list) and not value:
        array = np.zeros(0)
    if array is None:
        raise Misfit(*_wrong_type(value, wanted))
    if isinstance(value, list) and not wanted.shape:
        raise Misfit(*_wrong_type(value, wanted))
    if array.shape != wanted.shape:
        raise Misfit("wrong_shape", f"the shape is {array.shape}; wanted is {wanted.shape}")
    return array


def _wrong_type(value, wanted):
    name = "returns_none" if value is None else "wrong_type"
    if isinstance(value, TooLarge):
        name = "too_large"
    remedy = " Is a return missing?" if value is None else ""
    return name, f"what came back is {describe(value)}; wanted is {describe(wanted)}.{remedy}"


def describe(value):
    """`value` in a few words: "an array of shape (2, 3)", "None", "a generator"."""
    match value:
        case None:
            return "None"
        case TooLarge(bytes=0):
            return f"a collection of {value.shape[0]:,} items"
        case TooLarge():
            return f"an array of shape {value.shape}, {value.bytes / 1e6:,.0f} MB"
        case Other(type="ndarray"):
            return "an array that holds no real numbers"
        case Other():
            return _with_article(value.type)
        case np.ndarray() if value.shape:
            return f"an array of shape {value.shape}"
        case bool():
            return str(value)
        case np.ndarray(dtype=np.dtypes.BoolDType()) | np.bool_():
            return str(bool(value))
        case int() | float() | np.ndarray() | np.generic():
            return f"the number {float(value):.6g}"
        case str():
            return f"the string {value[:40]!r}"
        case tuple():
            return f"a tuple of {len(value)}: " + ", ".join(map(describe, value[:4]))
        case list() if value and all(isinstance(item, str) for item in value):
            return f"a list of {len(value)} strings"
        case list() if (array := as_array(value)) is not None:
            return f"a list of shape {array.shape}"
        case list():
            return f"a list of {len(value)}"
    return _with_article(type(value).__name__)


def _with_article(name):
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"


def close(value, wanted, within=USUAL):
    """Does a conformed `value` agree with `wanted`? NaN agrees with NaN only where it is wanted."""
    if isinstance(wanted, tuple):
        return all(close(v, w, within) for v, w in zip(value, wanted, strict=True))
    if not isinstance(wanted, NUMBER):
        try:
            return bool(value == wanted)
        except ValueError:  # arrays inside lists do not say whether they are equal
            return False
    return bool(np.all(agree(value, wanted, within)))


def agree(value, wanted, within=USUAL):
    """Entry by entry: a bool array of the shape of `wanted`."""
    value, wanted = np.asarray(value), np.asarray(wanted)
    if wanted.dtype.kind == "b":
        return value == wanted
    with np.errstate(invalid="ignore"):
        gap = np.abs(value.astype(np.float64) - wanted.astype(np.float64))
    return (
        (gap <= within.allowed(wanted)) | (value == wanted) | (np.isnan(value) & np.isnan(wanted))
    )


def alike(a, b, within=USUAL):
    """Do two answers to the same case, right or wrong, agree?"""
    if isinstance(a, Other) or isinstance(b, Other):
        return isinstance(a, Other) and isinstance(b, Other) and a.type == b.type
    b = arrays(b)
    try:
        return close(conform(a, b), b, within)
    except Misfit:
        return False
