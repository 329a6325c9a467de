"""Weights compressed in every order: exact lengths, decoders that share nothing, and Vela's streams beside ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ethoscade import CodegenError, _core
from ethoscade.codegen import vela
from ethoscade.targets.target import ACCELERATORS
from hypothesis import given, settings
from hypothesis import strategies as st
from weight_streams import positions, read

Volume = npt.NDArray[np.int16]

MORE = 48
"""Bytes that a drawn stream may be longer than Vela's: small volumes of one value, or of few in each channel, are.

Those of public models are held to 16 in `test_weight_models.py`.
"""


@st.composite
def orders(draw: st.DrawFn) -> dict[str, Any]:
    depthwise = draw(st.booleans())
    accelerator = ACCELERATORS[draw(st.sampled_from(["ethos-u55-32", "ethos-u55-256", "ethos-u65-256"]))]
    side = st.one_of(st.just(1), st.integers(1, 11))
    inputs = 1 if depthwise else draw(st.integers(1, 70))
    return {
        "accelerator": accelerator,
        "shape": (draw(st.integers(1, 40)), draw(side), draw(side), inputs),
        "block_depth": accelerator.micro_block[2] * draw(st.integers(1, 6)),
        "depthwise": depthwise,
        "part_kernel": draw(st.booleans()) and not depthwise,
        "wide": draw(st.booleans()),
        "dilation": (draw(st.integers(1, 2)), draw(st.integers(1, 2))),
    }


@st.composite
def volumes(draw: st.DrawFn) -> tuple[dict[str, Any], Volume]:
    """An order and weights: one value, some few, bell-shaped, extremes, each channel its own, empty channels."""
    order = draw(orders())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape, kind = order["shape"], draw(st.integers(0, 5))
    most = draw(st.sampled_from([1, 3, 20, 127, 255]))
    if kind == 0:
        values = np.full(shape, draw(st.integers(-255, 255)))
    elif kind == 1:
        values = rng.integers(-most, most + 1, shape)
    elif kind == 2:
        values = np.clip(np.rint(rng.normal(draw(st.integers(-30, 30)), most / 4, shape)), -255, 255)
    elif kind == 3:
        values = rng.choice(np.array([-255, 0, 255]), shape)
    elif kind == 4:
        values = rng.integers(-240, 241, (shape[0], 1, 1, 1)) + rng.integers(-3, 4, shape)
    else:
        values = rng.integers(-most, most + 1, shape) * (rng.random((shape[0], 1, 1, 1)) < 0.3)
    values = np.where(rng.random(shape) < draw(st.sampled_from([0, 0.2, 0.9, 0.999])), 0, values)
    return order, values.astype(np.int16)


def row(order: dict[str, Any]) -> Any:
    micro = order["accelerator"].micro_block[2]
    kinds = order["depthwise"], order["part_kernel"], order["wide"]
    return (order["shape"], order["block_depth"], micro, *kinds, order["dilation"])


def ours(order: dict[str, Any], values: Volume) -> bytes:
    """The stream; that its length is known before is checked here."""
    volume = (values.astype("<i2").tobytes(), "int16", 0)
    planned = _core.plan_weights(volume, row(order))
    stream = planned.write(volume)
    assert len(stream) == planned.length_bytes and len(stream) % 16 == 0
    return stream


def theirs(order: dict[str, Any], values: Volume) -> bytes:
    kinds = order["depthwise"], order["part_kernel"], 16 if order["wide"] else 8
    return vela.encode_weights(order["accelerator"], values, 0, order["dilation"], order["block_depth"], *kinds)


def in_order(order: dict[str, Any], values: Volume) -> list[int]:
    places = positions(*row(order))
    return [0 if at is None else int(values[at]) for at in places]


@settings(max_examples=40, deadline=None)
@given(volumes())
def test_streams_hold_their_weights(given_: tuple[dict[str, Any], Volume]) -> None:
    from ethosu import mlw_codec

    order, values = given_
    stream, want = ours(order, values), in_order(order, values)
    assert read(stream) == want
    assert list(mlw_codec.decode(bytearray(stream))) == want


# Both encoders search: which volumes they are compared on is the same in every run.
@settings(max_examples=60, deadline=None, derandomize=True)
@given(volumes())
def test_streams_are_no_larger_than_velas(given_: tuple[dict[str, Any], Volume]) -> None:
    order, values = given_
    other = theirs(order, values)
    assert read(other) == in_order(order, values)
    assert len(ours(order, values)) <= len(other) + MORE


@settings(max_examples=25, deadline=None)
@given(orders(), st.integers(0, 2**32 - 1), st.integers(-128, 127))
def test_zero_points_are_subtracted(order: dict[str, Any], seed: int, zero_point: int) -> None:
    """Of bytes with a sign and without one: weights have nine bits then."""
    values = np.random.default_rng(seed).integers(-128, 128, order["shape"])
    want = in_order(order, values.astype(np.int16) - np.int16(zero_point))
    for dtype, shift in (("int8", 0), ("uint8", 128)):
        volume = ((values + shift).astype(dtype).tobytes(), dtype, zero_point + shift)
        planned = _core.plan_weights(volume, row(order))
        assert read(planned.write(volume)) == want


@pytest.mark.parametrize("core", [0, 1])
def test_each_of_two_cores_has_every_other_channel(core: int) -> None:
    """Its blocks are half as deep."""
    values = np.random.default_rng(5).integers(-9, 10, (37, 3, 2, 20)).astype(np.int16)
    own = values[core::2]
    volume = (values.tobytes(), "int16", 0)
    both = _core.plan_weights(volume, (values.shape, 32, 8, False, False, False, (1, 1)), (core, 2))
    places = positions(own.shape, 16, 8, False, False, False, (1, 1))
    assert read(both.write(volume)) == [0 if at is None else int(own[at]) for at in places]


def test_what_cannot_be_encoded_is_named() -> None:
    order = ((1, 1, 1, 2), 8, 8, False, False, False, (1, 1))
    with pytest.raises(CodegenError, match="a weight is 256; weights are -255 to 255"):
        _core.plan_weights((np.array([0, 256], "<i2").tobytes(), "int16", 0), order)
    with pytest.raises(CodegenError, match="3 weights for a volume"):
        _core.plan_weights((bytes(3), "int8", 0), order)
    with pytest.raises(CodegenError, match="dilations are 1 or 2"):
        _core.plan_weights((bytes(2), "int8", 0), (*order[:-1], (3, 1)))
