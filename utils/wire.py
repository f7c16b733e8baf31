"""Values as bytes: JSON and plain `.npy`, never pickle, and a reader that trusts nothing.

    message = magic, JSON length (u32), JSON, then each array as length (u32) and .npy bytes

The reader is what stands between a student's process and the grader, so it
checks every length before it reads, every dtype against a list, and every
shape against the bytes that came with it.
"""

import json
import math
import re
import struct
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from io import BytesIO

import numpy as np

MAGIC = b"AFP1"
MAX_ARRAY_BYTES = 16 << 20
MAX_JSON_BYTES = 4 << 20
MAX_MESSAGE_BYTES = 128 << 20
MAX_DEPTH = 32
MAX_NDIM = 8
MAX_TEXT = 10_000
MAX_ITEMS = 10_000  # of a list, tuple or dict; a longer list of numbers travels as an array
DTYPES = {"|b1", "|i1", "|u1"} | {f"<{kind}{size}" for kind in "iu" for size in (2, 4, 8)}
DTYPES |= {"<f2", "<f4", "<f8"}
NPY_HEADER = re.compile(
    rb"\{'descr': '([<|][biuf]\d)', 'fortran_order': False, 'shape': \(((?:\d+,? ?)*)\), \} *\n"
)


class WireError(ValueError):
    """The bytes are not a message of ours; the text says what is wrong with them."""


@dataclass(frozen=True)
class Other:
    """Stands for a value that does not travel: its type and the start of its repr."""

    type: str
    text: str = ""


@dataclass(frozen=True)
class TooLarge:
    """Stands for an array beyond `MAX_ARRAY_BYTES`."""

    shape: tuple
    bytes: int


@dataclass(frozen=True)
class Rng:
    """Stands, among a case's inputs, for a fresh `np.random.Generator` of this seed."""

    seed: int


@dataclass(frozen=True)
class Code:
    """Stands, among a case's inputs, for the function `specimen` that this source defines."""

    source: str


# ---- writing -------------------------------------------------------------------------


def pack(value):
    """`value` as one message. Whatever cannot travel is replaced by `Other` or `TooLarge`."""
    blobs = []
    text = json.dumps(_encode(value, blobs, 0), allow_nan=False).encode()
    parts = [MAGIC, struct.pack("<I", len(text)), text]
    for blob in blobs:
        parts += [struct.pack("<I", len(blob)), blob]
    return b"".join(parts)


def _encode(value, blobs, depth):
    if depth > MAX_DEPTH - 4:
        return _encode_other(value)
    if value is None or type(value) is bool:
        return value
    if isinstance(value, str):
        return _clip(str(value), MAX_TEXT)
    if isinstance(value, Fraction | Decimal):
        value = float(value)
    if type(value) is bytes:
        blobs.append(value)
        return {"$bytes": len(blobs) - 1}
    if type(value) is int:
        return value if abs(value) < 2**63 else _encode_other(value)
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if type(value) is TooLarge:
        return {"$large": [list(value.shape), value.bytes]}
    if type(value) is Rng:
        return {"$rng": value.seed}
    if type(value) is Code:
        return {"$code": value.source}
    if type(value) is Other:
        return {"$other": [value.type, value.text]}
    if isinstance(value, tuple | dict) and len(value) > MAX_ITEMS:
        return {"$large": [[len(value)], 0]}
    if isinstance(value, tuple):
        return {"$tuple": [_encode(item, blobs, depth + 1) for item in value]}
    if isinstance(value, dict):
        pairs = [[_encode(item, blobs, depth + 1) for item in pair] for pair in value.items()]
        return {"$dict": pairs}
    if isinstance(value, list) and len(value) > MAX_ITEMS:
        array = as_array(value)
        return {"$large": [[len(value)], 0]} if array is None else _encode_array(array, blobs)
    if isinstance(value, list):
        return [_encode(item, blobs, depth + 1) for item in value]
    array = as_array(value)
    return _encode_other(value) if array is None else _encode_array(array, blobs)


def _encode_other(value):
    try:
        text = _clip(repr(value), 80)
    except Exception:
        text = ""
    return {"$other": [_clip(type(value).__name__, 80), text]}


def _clip(text, length):
    return text[:length].encode(errors="replace").decode()


def _encode_array(array, blobs):
    if array.nbytes > MAX_ARRAY_BYTES:
        return {"$large": [list(array.shape), array.nbytes]}
    array = np.array(array, dtype=array.dtype.newbyteorder("<"), order="C", subok=False)
    out = BytesIO()
    np.lib.format.write_array(out, array, version=(1, 0), allow_pickle=False)
    blobs.append(out.getvalue())
    return {"$npy": len(blobs) - 1}


def as_array(value):
    """`value` as a numeric NumPy array if `np.asarray` makes one of it, else None.

    Lists of strings, ragged lists, strings and generators give None; torch
    tensors are detached; wider floats than float64 are narrowed.
    """
    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu()
            value = value.float() if "bfloat16" in str(value.dtype) else value
        elif not hasattr(value, "__array__") and not (isinstance(value, list) and value):
            return None
        array = np.asarray(value)
        numbers = array.dtype == object and all(hasattr(item, "__float__") for item in array.flat)
        if numbers or (array.dtype.kind == "f" and array.dtype.itemsize > 8):
            array = array.astype(np.float64)
    except Exception:
        return None
    return array if array.dtype.newbyteorder("<").str in DTYPES and array.ndim <= MAX_NDIM else None


# ---- reading -------------------------------------------------------------------------


def unpack(data, inputs=False):
    """The value in a message. Raises WireError, and nothing else, on bytes of any other kind.

    Generators and functions are read only where `inputs` says that they come from the grader.
    """
    try:
        return _unpack(data, inputs)
    except (struct.error, UnicodeError, RecursionError, OverflowError, MemoryError) as error:
        raise WireError(f"unreadable message: {type(error).__name__}") from None


def _unpack(data, inputs):
    if len(data) > MAX_MESSAGE_BYTES or data[:4] != MAGIC:
        raise WireError("not a message of this format, or too long")
    (length,) = struct.unpack_from("<I", data, 4)
    if length > MAX_JSON_BYTES or 8 + length > len(data):
        raise WireError("the JSON part is longer than the message or the cap")
    tree = _strict_json(data[8 : 8 + length])
    blobs, at = [], 8 + length
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        if at + 4 + size > len(data):
            raise WireError("an array is cut short")
        blobs.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return _decode(tree, _Context(blobs, inputs), 0)


def _strict_json(text):
    def pairs(items):
        if len({key for key, _ in items}) != len(items):
            raise WireError("a JSON key stands twice")
        return dict(items)

    def integer(digits):
        if len(digits) > 20:
            raise WireError("a JSON integer is too long")
        return int(digits)

    def real(digits):
        number = float(digits)
        if not math.isfinite(number):
            raise WireError("a JSON number is not finite")
        return number

    def constant(name):
        raise WireError(f"JSON does not know {name}")

    try:
        return json.loads(
            text.decode(),
            object_pairs_hook=pairs,
            parse_int=integer,
            parse_float=real,
            parse_constant=constant,
        )
    except json.JSONDecodeError as error:
        raise WireError(f"not JSON: {error.msg}") from None


@dataclass(frozen=True)
class _Context:
    """What a value is decoded with: the arrays that came along, and whether it may hold inputs."""

    blobs: list
    inputs: bool


def _decode(tree, context, depth):
    if depth > MAX_DEPTH:
        raise WireError("nested too deeply")
    if isinstance(tree, str):
        tree.encode()  # a lone surrogate raises UnicodeError
        return tree
    if isinstance(tree, list):
        return [_decode(item, context, depth + 1) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if len(tree) != 1:
        raise WireError("an object of JSON must be one tagged value")
    ((tag, body),) = tree.items()
    return _decode_tagged(tag, body, context, depth)


def _decode_tagged(tag, body, context, depth):
    match tag, body:
        case "$npy", int() if 0 <= body < len(context.blobs) and type(body) is int:
            return read_npy(context.blobs[body])
        case "$bytes", int() if 0 <= body < len(context.blobs) and type(body) is int:
            return context.blobs[body]
        case "$float", ("nan" | "inf" | "-inf"):
            return float(body)
        case "$rng", int() if context.inputs:
            return Rng(body)
        case "$code", str() if context.inputs:
            return Code(body)
        case "$tuple", list():
            return tuple(_decode(item, context, depth + 1) for item in body)
        case "$dict", list() if all(isinstance(p, list) and len(p) == 2 for p in body):
            return _decode_dict(body, context, depth)
        case "$other", [str(name), str(text)]:
            return Other(name[:80], text[:80])
        case "$large", [list(shape), int(size)] if all(type(n) is int for n in shape):
            return TooLarge(tuple(shape[:MAX_NDIM]), size)
    raise WireError(f"no such tagged value: {tag[:20]}")


def _decode_dict(pairs, context, depth):
    try:
        return {_decode(k, context, depth + 1): _decode(v, context, depth + 1) for k, v in pairs}
    except TypeError:
        raise WireError("a dict key is not hashable") from None


def read_npy(blob):
    """The array in the bytes of a version 1.0 `.npy` file, every part of the header checked."""
    if blob[:8] != b"\x93NUMPY\x01\x00":
        raise WireError("not a .npy file of version 1.0")
    (length,) = struct.unpack_from("<H", blob, 8)
    header = NPY_HEADER.fullmatch(blob[10 : 10 + length])
    if length > 512 or not header:
        raise WireError("the .npy header is not one this course writes")
    dtype = header[1].decode()
    shape = tuple(int(n) for n in header[2].replace(b",", b" ").split() if len(n) < 10)
    if dtype not in DTYPES or len(shape) > MAX_NDIM or header[2].count(b",") > MAX_NDIM:
        raise WireError(f"dtype {dtype} or shape {shape} is not allowed")
    body = blob[10 + length :]
    if len(body) > MAX_ARRAY_BYTES or math.prod(shape) * np.dtype(dtype).itemsize != len(body):
        raise WireError("the .npy shape does not fit its bytes")
    return np.frombuffer(body, dtype=dtype).reshape(shape).copy()
