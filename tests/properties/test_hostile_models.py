"""Damaged and malicious files end in an `EthoscadeError`, soon, and never in the reader's safety net."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import flatbuffers
import pytest
from calls import count_calls
from ethoscade.errors import EthoscadeError, ModelFormatError
from ethoscade.frontend import read_tflite
from ethoscade.ir import Graph
from ethoscade.rewrites import simplify
from graphs import on_npu
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from model_files import NO_MODELS, model_paths
from tflite_files import File, Op, T, constant, conv_file

SMALL = [p for p in model_paths() if p.stat().st_size <= 64 * 1024]


def varied_file() -> bytes:
    """One file with most kinds of operators and constants."""
    window = {"Padding": 0, "StrideH": 2, "StrideW": 2}
    return File(
        (
            T("x", (1, 6, 6, 2)),
            T("w", (4, 3, 3, 2), scales=(0.5,) * 4, zero_points=(0,) * 4, data=[1] * 72),
            T("c", (1, 3, 3, 4)),
            T("p", (1, 2, 2, 4)),
            constant("axes", [1, 2]),
            T("m", (1, 4)),
            constant("shape", [4, -1]),
            T("r", (4, 1)),
            constant("pads", [0, 0, 1, 1], (2, 2)),
            T("y", (4, 3)),
        ),
        (
            Op("CONV_2D", (0, 1, -1), (2,), "Conv2DOptions", {**window, "DilationHFactor": 1, "DilationWFactor": 1}),
            Op("MAX_POOL_2D", (2,), (3,), "Pool2DOptions", {**window, "FilterHeight": 2, "FilterWidth": 2}),
            Op("MEAN", (3, 4), (5,), "ReducerOptions", {"KeepDims": False}),
            Op("RESHAPE", (5, 6), (7,), "ReshapeOptions", {"NewShape": [4, 1]}),
            Op("PAD", (7, 8), (9,), "PadOptions"),
        ),
        (0,),
        (9,),
        {"note": b"hello"},
    ).bytes()


VARIED = varied_file()


def survive(data: bytes) -> Graph | None:
    """Read and simplify; None if that was refused properly."""
    try:
        return simplify(read_tflite(data), on_npu).verify()
    except EthoscadeError as error:
        assert error.__cause__ is None, f"the safety net caught {error.__cause__!r}"  # noqa: PT017
        assert str(error)  # noqa: PT017
        return None


def flipped(data: bytes, rng: random.Random) -> bytes:
    """The bytes with one to four of them changed, extremes being likelier than chance."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        changed[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(changed)


def test_the_file_itself_is_fine():
    assert survive(VARIED) is not None


def test_every_truncation():
    for length in range(len(VARIED)):
        assert survive(VARIED[:length]) is None or length > len(VARIED) - 16


def test_byte_flips():
    rng = random.Random(20240229)
    read = sum(survive(flipped(VARIED, rng)) is not None for _ in range(4000))
    assert 0 < read < 4000


def test_every_word_at_its_extremes():
    for offset in range(0, len(VARIED) - 3, 4):
        for word in (0, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF):
            survive(VARIED[:offset] + struct.pack("<I", word) + VARIED[offset + 4 :])


@seed(1)
@settings(max_examples=1500, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=200), st.booleans())
def test_random_bytes(data, with_header):
    survive(b"\x10\0\0\0TFL3" + data if with_header else data)


@seed(2)
@settings(max_examples=1500, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.integers(0, len(VARIED) - 1), st.integers(0, 255)), min_size=1, max_size=12))
def test_patches(patches):
    data = bytearray(VARIED)
    for offset, value in patches:
        data[offset] = value
    survive(bytes(data))


@seed(3)
@settings(max_examples=300, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.integers(8, len(VARIED)), st.binary(min_size=1, max_size=64))
def test_insertions(offset, extra):
    survive(VARIED[:offset] + extra + VARIED[offset:])


def shared_vector_bomb(operators: int, indices: int) -> bytes:
    """A file whose many operators all point to one long list of inputs."""
    import tflite

    b = flatbuffers.Builder(1024)
    b.StartVector(4, indices, 4)
    for _ in range(indices):
        b.PrependInt32(-1)
    inputs = b.EndVector()
    tflite.OperatorStart(b)
    tflite.OperatorAddInputs(b, inputs)
    operator = tflite.OperatorEnd(b)
    b.StartVector(4, operators, 4)
    for _ in range(operators):
        b.PrependUOffsetTRelative(operator)
    vector = b.EndVector()
    tflite.OperatorCodeStart(b)
    code = tflite.OperatorCodeEnd(b)
    b.StartVector(4, 1, 4)
    b.PrependUOffsetTRelative(code)
    codes = b.EndVector()
    tflite.SubGraphStart(b)
    tflite.SubGraphAddOperators(b, vector)
    subgraph = tflite.SubGraphEnd(b)
    b.StartVector(4, 1, 4)
    b.PrependUOffsetTRelative(subgraph)
    subgraphs = b.EndVector()
    tflite.ModelStart(b)
    tflite.ModelAddVersion(b, 3)
    tflite.ModelAddOperatorCodes(b, codes)
    tflite.ModelAddSubgraphs(b, subgraphs)
    b.Finish(tflite.ModelEnd(b), b"TFL3")
    return bytes(b.Output())


def test_sharing_does_not_multiply_work():
    data = shared_vector_bomb(50_000, 50_000)

    def read() -> None:
        with pytest.raises(ModelFormatError, match=r"so often|make|inputs"):
            read_tflite(data)

    assert count_calls(read) < 100 * 50_000


def test_more_operators_than_anybody_has():
    with pytest.raises(ModelFormatError, match="at most 65536"):
        read_tflite(shared_vector_bomb(70_000, 1))


def test_a_vector_that_claims_four_billion():
    data = bytearray(conv_file().bytes())
    # The weights are the only run of 216 bytes: find the length in front of them.
    where = data.index(struct.pack("<I", 216))
    data[where : where + 4] = b"\xff\xff\xff\xff"
    with pytest.raises(ModelFormatError, match="4294967295"):
        read_tflite(bytes(data))


@pytest.mark.skipif(not SMALL, reason=NO_MODELS)
@pytest.mark.parametrize("path", SMALL, ids=lambda p: p.stem)
def test_real_models_with_damage(path: Path):
    data = path.read_bytes()
    rng = random.Random(path.stem)
    # Most of a model is weights, where a flip is not damage: aim at the ends, where the tables are.
    for _ in range(100):
        survive(flipped(data, rng))
        survive(data[: rng.randrange(len(data))])
        head, tail = flipped(data[:4096], rng) + data[4096:], data[:-4096] + flipped(data[-4096:], rng)
        survive(head)
        survive(tail)
