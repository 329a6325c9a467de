"""Copies into joins that are left out: boxes are read where they come from, or made where they go."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from end_to_end import carry_out, network_of
from ethoscade.ir import DType
from ethoscade.lowering import copies
from ethoscade.lowering.npu import Scalar
from ethoscade.pipeline.compiler import Network, search
from ethoscade.scheduling.schedule import from_proposal
from ethoscade.testing import ModelBuilder, Value
from promised_cycles import broken_promises

Build = Callable[[ModelBuilder, Value], Value]


def model_of(build: Build, dtype: DType = DType.INT8, shape: tuple[int, ...] = (1, 9, 10, 8)) -> bytes:
    b = ModelBuilder(dtype=dtype, seed=7)
    b.output(build(b, b.input(shape)))
    return b.build()


def check(network: Network) -> None:
    """The leanest Proposal and the fastest one: replayed, bit-exact, free of hazards, as fast as promised."""
    curve = search(network)
    for index in {0, len(curve.points) - 1}:
        assert not list(broken_promises(network, curve, index))
        carry_out(network, from_proposal(network.problem, curve.proposals[index]), seed=index)


def copied(network: Network) -> int:
    """Copies of boxes that are left."""
    return sum(map(copies.is_copy, network.npu.operations))


def numbers(network: Network) -> int:
    return sum(isinstance(operation.ifm2, Scalar) for operation in network.npu.operations)


def residual(b: ModelBuilder, x: Value) -> Value:
    """What narrow face detectors are full of: fewer channels are padded to as many as are added."""
    return b.add(b.conv2d(x, 20, 1), b.pad(x, ((0, 0), (0, 0), (0, 0), (0, 12))))


def padded_everywhere(b: ModelBuilder, x: Value) -> Value:
    """The padded one comes first and lies in the middle of rows, columns and channels."""
    wide = b.conv2d(b.resize_nearest(x, (18, 20)), 40, 1)
    return b.add(b.pad(b.max_pool(wide, 2), ((0, 0), (4, 5), (3, 7), (0, 0))), wide)


def difference(b: ModelBuilder, x: Value) -> Value:
    """Either operand of a difference, and one scale for each."""
    paddings = ((0, 0), (0, 0), (0, 0), (4, 4))
    left = b.binary("SUB", b.pad(x, paddings), b.conv2d(x, 16, 3))
    return b.binary("SUB", b.conv2d(left, 24, 3), b.pad(left, paddings))


def products(b: ModelBuilder, x: Value) -> Value:
    y = b.conv2d(x, 24, 3)
    y = b.binary("MUL", b.pad(x, ((0, 0), (0, 0), (0, 0), (16, 0))), y)
    y = b.quantize(y, x.quantisation)
    return b.binary("MAXIMUM", y, b.pad(x, ((0, 0), (0, 0), (0, 0), (0, 16))))


def repeated(b: ModelBuilder, x: Value) -> Value:
    """One number for each channel goes with all rows and columns, one for each column with all channels."""
    y = b.concatenate([x, b.max_pool(x, 3, stride=1, padding="SAME")], axis=3)
    y = b.binary("MUL", y, b.mean(b.conv2d(x, 16, 1)))
    y = b.concatenate([y, b.average_pool(y, 3, stride=1, padding="SAME")], axis=1)
    return b.leaky_relu(b.binary("MUL", y, b.conv2d(b.resize_nearest(x, (18, 10)), 1, 1)))


def of_joins(b: ModelBuilder, x: Value) -> Value:
    """A join of joins is one, and so is one that is given another scale."""
    inner = b.concatenate([x, b.max_pool(x, 3, stride=1, padding="SAME")], axis=2)
    outer = b.concatenate([inner, b.concatenate([x, x], axis=2)], axis=1)
    return b.conv2d(b.quantize(outer, b.conv2d(x, 8, 1).quantisation), 8, 3)


def made_there(b: ModelBuilder, x: Value) -> Value:
    """A pool of what is joined too, and a sum with it."""
    y = b.conv2d(x, 16, 3)
    first = b.max_pool(y, 5, stride=1, padding="SAME")
    second = b.max_pool(first, 5, stride=1, padding="SAME")
    return b.conv2d(b.concatenate([y, first, second], axis=3), 8, 1)


LEFT_OUT: dict[str, tuple[Build, int, int]] = {
    # Copies that are left, and operations with a number where there was a padded operand.
    "residual": (residual, 0, 1),
    "padded_everywhere": (padded_everywhere, 1, 4),
    "difference": (difference, 0, 4),
    "products": (products, 0, 2),
    "repeated": (repeated, 0, 0),
    "of_joins": (of_joins, 3, 0),
    "made_there": (made_there, 2, 0),
}


@pytest.mark.parametrize("accelerator", ["ethos-u55-256", "ethos-u65-256"])
@pytest.mark.parametrize(("build", "left", "scalars"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_nothing_is_copied_that_can_be_read_or_made_in_place(
    build: Build, left: int, scalars: int, accelerator: str
) -> None:
    found = network_of(model_of(build, DType.UINT8 if accelerator.endswith("65-256") else DType.INT8), accelerator)
    assert (copied(found), numbers(found)) == (left, scalars)
    check(found)
