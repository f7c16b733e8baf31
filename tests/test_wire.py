"""The wire: what goes in comes out, and no bytes whatever get more than a WireError out of the reader."""

import struct

import numpy as np
import pytest
from frames import frame
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from utils import wire
from utils.cases import Answer
from utils.wire import Other, TooLarge, WireError, pack, unpack

DTYPES = st.sampled_from(["?", "i1", "u1", "<i2", "<i4", "<i8", "<u4", "<f2", "<f4", "<f8"])
ARRAYS = DTYPES.flatmap(
    lambda d: hnp.arrays(d, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0))
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | ARRAYS
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)


def equal(a, b):
    if isinstance(a, np.ndarray):
        return (
            isinstance(b, np.ndarray)
            and a.dtype == b.dtype
            and np.array_equal(a, b, a.dtype.kind == "f")
        )
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    return type(a) is type(b) and (a == b or a != a)


@given(VALUES)
def test_what_goes_in_comes_out(value):
    assert equal(value, unpack(pack(value)))


@given(st.binary(max_size=400))
def test_noise_is_refused(data):
    with pytest.raises(WireError):
        unpack(data)
    for message in (wire.MAGIC + data, wire.MAGIC + struct.pack("<I", len(data)) + data):
        try:
            unpack(message)
        except WireError:
            continue


@settings(max_examples=400)
@given(VALUES, st.data())
def test_a_damaged_message_is_refused_or_is_another_value(value, data):
    message = bytearray(pack(value))
    for _ in range(data.draw(st.integers(1, 4))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(message)))
    for damaged in (bytes(message), bytes(message[:cut])):
        try:
            unpack(damaged)
        except WireError:
            continue


def npy(header, body=b"\0" * 16):
    text = header.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


GOOD = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }"


@pytest.mark.parametrize(
    "text",
    [
        b"NaN", b"[Infinity]", b"1e999", b'{"$tuple": [], "$tuple": []}', b"[" * 200_000, b"9" * 5000,
        b'"\\ud800"', b'{"$npy": 0}', b'{"$npy": true}', b'{"$npy": -1}', b'{"$float": "1"}',
        b'{"$pickle": "x"}', b'{"a": 1}', b"{}", b'{"$dict": [[[], 1]]}', b'{"$dict": [[1]]}', b"",
        b'{"$large": [["a"], 1]}', b"\xff", b'"a', b"[1,]", ("[" * 40 + "]" * 40).encode(),
    ],
)  # fmt: skip
def test_json_that_is_not_ours_is_refused(text):
    with pytest.raises(WireError):
        unpack(frame(text))


@pytest.mark.parametrize(
    "blob",
    [
        npy(GOOD.replace("<f8", "|O")),
        npy(GOOD.replace("<f8", "<c16")),
        npy(GOOD.replace("'<f8'", "[('a', '<f8')]")),
        npy(GOOD.replace("<f8", ">f8")),
        npy(GOOD.replace("False", "True")),
        npy(GOOD.replace("(2,)", "(99999999999999,)")),
        npy(GOOD.replace("(2,)", "(1000000, 1000000)")),
        npy(GOOD.replace("(2,)", "(-2,)")),
        npy(GOOD.replace("(2,)", "(3,)")),
        npy(GOOD.replace("(2,)", "(2, 1, 1, 1, 1, 1, 1, 1, 1)")),
        npy(GOOD, b"\0" * 15),
        npy(GOOD)[:40],
        b"\x93NUMPY\x02\x00" + npy(GOOD)[8:],
        b"PK\x03\x04 an archive",
        b"\x80\x04\x95 a pickle",
        b"",
    ],
)
def test_arrays_that_are_not_ours_are_refused(blob):
    assert equal(unpack(frame({"$npy": 0}, npy(GOOD))), np.zeros(2))
    with pytest.raises(WireError):
        unpack(frame({"$npy": 0}, blob))


def test_what_cannot_travel_is_described():
    huge = np.broadcast_to(1.0, (10**5, 10**5))
    assert unpack(pack(huge)) == TooLarge((10**5, 10**5), 8 * 10**10)
    assert unpack(pack(iter([]))).type == "list_iterator"
    assert unpack(pack(np.array(["a"]))).type == "ndarray"
    assert isinstance(unpack(pack(2**70)), Other)

    class Hostile:
        def __repr__(self):
            raise RuntimeError

        def __array__(self, *args, **kwargs):
            raise RuntimeError

    assert unpack(pack(Hostile())) == Other("Hostile")
    loop = []
    loop.append(loop)
    unpack(pack(loop))


@pytest.mark.parametrize(
    "value", [None, (), ("a",) * 9, ("a", "ok", 1, (1,), "", "", "", (), None), [1] * 9]
)
def test_only_answers_are_answers(value):
    with pytest.raises(ValueError):
        Answer.from_wire(value)
