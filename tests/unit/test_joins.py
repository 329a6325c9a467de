"""Copies into joins that are left out: boxes are read where they come from, or made where they go."""

from __future__ import annotations

from collections.abc import Callable

import ethoscade
import pytest
from end_to_end import carry_out, network_of
from ethoscade.ir import DType
from ethoscade.lowering import copies
from ethoscade.lowering.feature_maps import Scalar
from ethoscade.pipeline.compiler import Network
from ethoscade.pipeline.searches import explore
from ethoscade.scheduling.program import CopyConstants
from ethoscade.scheduling.schedule import CacheRead, Group, Schedule, Split, from_proposal
from ethoscade.targets.target import ACCELERATORS
from ethoscade.testing import ModelBuilder, Value
from promised_cycles import broken_promises

Build = Callable[[ModelBuilder, Value], Value]


def model_of(build: Build, dtype: DType = DType.INT8, shape: tuple[int, ...] = (1, 9, 10, 8)) -> bytes:
    b = ModelBuilder(dtype=dtype, seed=7)
    b.output(build(b, b.input(shape)))
    return b.build()


def check(network: Network) -> None:
    """The leanest Proposal and the fastest one: replayed, bit-exact, free of hazards, as fast as promised."""
    curve = explore(network.problem, 0)
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


def branches(b: ModelBuilder, x: Value) -> Value:
    """Convolutions of all kinds into channels, one of them doubled, with constants beside one that has none."""
    y = b.conv2d(x, 16, 3)
    fixed = y.quantisation
    found = [
        b.conv2d(y, 32, 1, output=fixed),
        b.conv2d(y, 16, 3, output=fixed),
        b.depthwise(y, 3, output=fixed),
        b.max_pool(y, 3, stride=1, padding="SAME"),
        b.transpose_conv(b.max_pool(y, 2, padding="SAME"), 32, 3, size=(9, 10), output=fixed),
        b.resize_nearest(b.max_pool(y, 2, padding="SAME"), (9, 10)),
    ]
    return b.conv2d(b.concatenate(found, axis=3), 8, 3)


def towers(b: ModelBuilder, x: Value) -> Value:
    """Rows and columns that convolutions make, each stripe of all of them of one alone."""
    fixed = b.conv2d(x, 8, 1).quantisation
    upper = b.concatenate([b.conv2d(x, 24, (1, size), output=fixed) for size in (3, 1)], axis=1)
    lower = b.concatenate(
        [b.transpose_conv(x, 24, 3, output=fixed), b.resize_nearest(b.conv2d(x, 24, 1, output=fixed), (18, 20))], axis=2
    )
    return b.conv2d(b.concatenate([upper, b.conv2d(lower, 24, 3, stride=(1, 4), output=fixed)], axis=1), 16, 3)


LEFT_OUT: dict[str, tuple[Build, int, int]] = {
    # Copies that are left, and operations with a number where there was a padded operand.
    "residual": (residual, 0, 1),
    "padded_everywhere": (padded_everywhere, 0, 4),
    "difference": (difference, 0, 4),
    "products": (products, 0, 2),
    "repeated": (repeated, 0, 0),
    "of_joins": (of_joins, 0, 0),
    "made_there": (made_there, 2, 0),
    "branches": (branches, 0, 0),
    "towers": (towers, 1, 0),
}


@pytest.mark.parametrize("accelerator", ["ethos-u55-256", "ethos-u65-256"])
@pytest.mark.parametrize(("build", "left", "scalars"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_nothing_is_copied_that_can_be_read_or_made_in_place(
    build: Build, left: int, scalars: int, accelerator: str
) -> None:
    found = network_of(model_of(build, DType.UINT8 if accelerator.endswith("65-256") else DType.INT8), accelerator)
    assert (copied(found), numbers(found)) == (left, scalars)
    check(found)


def heavy(b: ModelBuilder, x: Value) -> Value:
    """Constants that are worth copying ahead, twice, beside those that nobody has."""
    y = b.conv2d(x, 48, 3)
    found = [b.conv2d(y, 64, 3, output=y.quantisation) for _ in range(2)]
    return b.conv2d(b.concatenate([*found, b.max_pool(y, 3, stride=1, padding="SAME")], axis=3), 8, 1)


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-256"])
def test_each_of_several_operations_has_its_constants_copied_ahead(accelerator: str) -> None:
    """Pieces of one output have constants of their own, each in a buffer of its own."""
    found = network_of(model_of(heavy, shape=(1, 24, 24, 8)), accelerator)
    (part,) = (part for part, spec in enumerate(found.problem.specs) if spec.kernel and spec.kernel.joined)
    staged = Group(part, part, (CacheRead(part),))
    others = [Group(other, other, ()) for other in range(len(found.problem.specs))]
    outcome = carry_out(found, Schedule(tuple(staged if group.first == part else group for group in others)))
    copied_ahead = [step.stage for step in outcome.program.steps if isinstance(step, CopyConstants)]
    convolutions = [number for number in found.problem.operations(part) if found.npu.operations[number].weights]
    assert copied_ahead == convolutions and len(convolutions) == 2
    rows = Group(part, part, (Split(part, "height", 5), CacheRead(part)))
    carry_out(found, Schedule(tuple(rows if group.first == part else group for group in others)))
    chosen = {
        group
        for proposal in explore(found.problem, 0).proposals
        for group in from_proposal(found.problem, proposal).groups
    }
    assert any(group.first <= part <= group.last and CacheRead(part) in group.decisions for group in chosen)
    check(found)


def two_readers(b: ModelBuilder, x: Value) -> Value:
    """A join that is read twice is there, and so is what somebody else reads as well."""
    padded = b.pad(b.conv2d(x, 8, 3), ((0, 0), (0, 0), (0, 0), (0, 8)))
    return b.add(b.add(b.conv2d(x, 16, 1), padded), b.conv2d(padded, 16, 3))


def larger_than_made(b: ModelBuilder, x: Value) -> Value:
    """Many channels would have to wait for the other branch, where few do now."""
    wide = b.conv2d(x, 64, 3)
    few = b.conv2d(wide, 8, 1)
    other = b.conv2d(b.conv2d(x, 8, 3), 8, 3, output=few.quantisation)
    return b.conv2d(b.concatenate([few, other], axis=3), 8, 1)


def given_back(b: ModelBuilder, x: Value) -> Value:
    y = b.conv2d(x, 8, 3)
    b.output(y)
    return b.concatenate([y, b.max_pool(y, 3, stride=1, padding="SAME")], axis=3)


def told(b: ModelBuilder, x: Value) -> Value:
    """Nobody on the NPU but the join reads it; the caller does."""
    y = b.conv2d(x, 8, 3)
    b.output(y)
    return b.concatenate([y, b.conv2d(x, 8, 1, output=y.quantisation)], axis=3)


def in_another_shape(b: ModelBuilder, x: Value) -> Value:
    """What is joined has other rows and columns than what is made, and so the box."""
    y = b.conv2d(x, 8, 3)
    return b.concatenate(
        [b.reshape(y, (1, 10, 9, 8)), b.reshape(b.conv2d(x, 8, 1, output=y.quantisation), (1, 10, 9, 8))], axis=3
    )


def in_windows(b: ModelBuilder, x: Value) -> Value:
    return b.max_pool(b.pad(b.quantize(b.conv2d(x, 8, 1)), ((0, 0), (1, 2), (3, 0), (0, 8))), 2)


@pytest.mark.parametrize(
    ("build", "left"),
    [(two_readers, 2), (larger_than_made, 1), (given_back, 1), (told, 1), (in_another_shape, 2), (in_windows, 12)],
)
def test_copies_stay_where_they_are_wanted(build: Build, left: int) -> None:
    found = network_of(model_of(build))
    assert copied(found) == left
    check(found)


def test_operators_without_operations_are_absorbed() -> None:
    compiled = ethoscade.compile(model_of(residual))
    assert [op.where for op in compiled.operators if op.kind == "PAD"] == ["npu"]
    compiled = ethoscade.compile(model_of(branches))
    assert {op.where for op in compiled.operators} == {"npu"}


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_int16_and_every_accelerator(accelerator: str) -> None:
    check(network_of(model_of(residual, DType.INT16), accelerator))
    check(network_of(model_of(branches), accelerator))
