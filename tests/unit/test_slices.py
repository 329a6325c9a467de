"""Copies of boxes that are left out: who reads them reads these rows, columns and channels where they are."""

from __future__ import annotations

from collections.abc import Callable

import ethoscade
import numpy as np
import pytest
from end_to_end import carry_out
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, Graph
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from ethoscade.lowering import copies, slices
from ethoscade.lowering.feature_maps import Channels
from ethoscade.lowering.npu import NpuOperation
from ethoscade.pipeline import compiler
from ethoscade.pipeline.searches import explore
from ethoscade.scheduling.schedule import from_proposal
from ethoscade.targets.target import ACCELERATORS, load_target
from ethoscade.testing import ModelBuilder, Value
from promised_cycles import broken_promises

Build = Callable[[ModelBuilder, Value], Value]


def network(build: Build, dtype: DType = DType.INT8, shape: tuple[int, ...] = (1, 12, 10, 8)) -> bytes:
    b = ModelBuilder(dtype=dtype, seed=4)
    build(b, b.input(shape))
    return b.build()


def prepared(model: bytes, accelerator: str = "ethos-u55-256") -> compiler.Network:
    return compiler.prepare(read_tflite(model), load_target(accelerator))


def check(model: bytes, accelerator: str) -> None:
    """As fast as can be and as small, bit-exact with the reference."""
    graph: Graph = read_tflite(model)
    for optimise in ("performance", "size"):
        compiled = ethoscade.compile(model, accelerator=accelerator, optimise=optimise)
        inputs = random_inputs(graph, 1)
        found = compiled.simulate(inputs)
        for name, value in reference.run(graph, inputs).outputs.items():
            np.testing.assert_array_equal(found.outputs[name], value)


def halves(b: ModelBuilder, x: Value, channels: int = 32) -> Value:
    """What YOLOs are full of: half goes on, and is joined with both halves."""
    first, second = b.split(b.conv2d(x, channels, 1, name="stem"), 2)
    more = b.add(second, b.conv2d(b.conv2d(second, channels // 2, 3), channels // 2, 3))
    return b.conv2d(b.concatenate([b.quantize(more, first.quantisation), first, second]), 8, 1)


def narrow(b: ModelBuilder, x: Value) -> Value:
    """Channels that begin within a brick, of a part of a part as well."""
    first, middle = b.split(b.conv2d(x, 24, 1, name="stem"), [6, 18])
    left, right = b.split(middle, [13, 5])
    spread = b.depthwise(left, 3)
    return b.add(b.conv2d(b.concatenate([right, left, first]), 8, 1), b.conv2d(spread, 8, 1))


@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize("build", [halves, narrow])
def test_operations_read_channels_where_they_are(build: Build, accelerator: str) -> None:
    model = network(build, DType.UINT8 if accelerator.endswith("128") else DType.INT8)
    found = prepared(model, accelerator)
    kinds = {found.graph.operators[operation.operator].kind for operation in found.npu.operations}
    assert not kinds & {"SPLIT", "SPLIT_V"}
    stem = next(operation.ofm.tensor for operation in found.npu.operations if operation.name == "stem")
    seen = {view.channels for operation in found.npu.operations for view in operation.inputs if view.tensor == stem}
    if build is halves:
        assert seen == {Channels(0, 32), Channels(16, 32)}
    else:
        assert seen == {Channels(0, 24), Channels(6, 24), Channels(19, 24)}
    for operation in found.npu.operations:
        for read in operation.compute.reads:
            view = operation.inputs[read.operand]
            assert (read.indices[3].constant, read.extents[3]) == (view.first_channel, view.pixel_channels)
    check(model, accelerator)
    curve = compiler.search(found)
    for index in {0, len(curve.points) - 1}:
        assert not list(broken_promises(found, curve, index))


def half_lives_longer(b: ModelBuilder, x: Value) -> Value:
    """The first half would keep the second one in memory, which is done with early."""
    first, second = b.split(b.conv2d(x, 32, 1), 2)
    small = b.max_pool(b.conv2d(b.conv2d(second, 16, 3), 16, 3), 2)
    return b.add(b.conv2d(b.max_pool(first, 2), 16, 1), small)


def given_back(b: ModelBuilder, x: Value) -> Value:
    first, second = b.split(b.conv2d(x, 32, 1), 2)
    added = b.add(first, second)
    b.output(first, second, added)
    return added


def seen_otherwise(b: ModelBuilder, x: Value) -> Value:
    first, second = b.split(b.conv2d(x, 32, 1), 2)
    flat = [b.reshape(half, (1, 10, 12, 16)) for half in (first, second)]
    return b.add(b.depthwise(flat[0], 3), b.depthwise(flat[1], 3))


@pytest.mark.parametrize(("build", "copies"), [(half_lives_longer, 2), (given_back, 2), (seen_otherwise, 2)])
def test_copies_stay_where_they_are_wanted(build: Build, copies: int) -> None:
    model = network(build)
    found = prepared(model)
    kinds = [found.graph.operators[operation.operator].kind for operation in found.npu.operations]
    assert kinds.count("SPLIT") == copies
    check(model, "ethos-u55-256")


def test_a_source_that_is_there_anyway_is_read() -> None:
    """Of two copies the one that is read while somebody still wants all channels goes, and the later one stays."""

    def build(b: ModelBuilder, x: Value) -> Value:
        stem = b.conv2d(x, 32, 1)
        first, second = b.split(stem, 2)
        early = b.conv2d(first, 16, 3)
        whole = b.conv2d(stem, 16, 3)
        late = b.conv2d(b.add(early, whole), 16, 1)
        return b.add(b.conv2d(second, 16, 1), b.conv2d(late, 16, 3))

    model = network(build)
    found = prepared(model)
    copied = [o for o in found.npu.operations if found.graph.operators[o.operator].kind == "SPLIT"]
    assert [operation.ifm.channels for operation in copied] == [Channels(16, 32)]
    check(model, "ethos-u65-256")


def test_operators_without_operations_are_absorbed() -> None:
    compiled = ethoscade.compile(network(halves))
    assert {op.kind: op.where for op in compiled.operators}["SPLIT"] == "npu"


def crops(b: ModelBuilder, x: Value) -> Value:
    """Rows and columns whose edges are edges to all kinds of windows, while the whole is wanted to the end."""
    stem = b.conv2d(x, 16, 1, name="stem")

    def box(rows: tuple[int, int], columns: tuple[int, int], channels: tuple[int, int] = (0, 16)) -> Value:
        first, last = zip(rows, columns, channels, strict=True)
        return b.strided_slice(stem, (0, *first), (1, *last), (1, 1, 1, 1))

    found = [
        b.conv2d(box((3, 9), (2, 9)), 8, 3),
        b.depthwise(box((0, 7), (3, 10), (3, 16)), 3, stride=2),
        b.max_pool(box((5, 12), (0, 10)), 3, stride=2, padding="SAME"),
        b.resize_nearest(box((5, 10), (3, 8)), (10, 10)),
        b.transpose_conv(box((3, 8), (5, 9)), 8, 3),
        b.add(box((1, 7), (0, 4), (0, 8)), box((5, 11), (5, 9), (8, 16))),
        b.binary("MUL", box((2, 7), (0, 10)), box((11, 12), (9, 10))),
        b.mean(box((4, 9), (1, 6))),
    ]
    whole = b.conv2d(stem, 8, 3)
    b.output(*found, whole)
    return whole


def halves_added(b: ModelBuilder, x: Value) -> Value:
    """Nobody reads the whole, but both halves of it at once; a half of a half as well."""
    upper, lower = b.split(b.conv2d(x, 16, 3, name="stem"), 2, axis=1)
    left, right = b.split(b.add(upper, lower), 2, axis=2)
    return b.binary("SUB", right, left)


def is_slice(operation: NpuOperation) -> bool:
    return slices._is_slice(operation)


@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize("build", [crops, halves_added])
def test_operations_read_rows_and_columns_where_they_are(build: Build, accelerator: str) -> None:
    model = network(build, DType.UINT8 if accelerator.endswith("64") else DType.INT8)
    found = prepared(model, accelerator)
    assert not any(map(is_slice, found.npu.operations))
    kinds = {found.graph.operators[operation.operator].kind for operation in found.npu.operations}
    assert not kinds & {"SPLIT", "STRIDED_SLICE"}
    curve = explore(found.problem, 0)
    for index in {0, len(curve.points) - 1}:
        assert not list(broken_promises(found, curve, index))
        carry_out(found, from_proposal(found.problem, curve.proposals[index]), seed=index)


def test_a_half_that_is_read_later_stays_a_copy() -> None:
    """A pool of each half: while the second one runs, the first need not be there."""

    def build(b: ModelBuilder, x: Value) -> Value:
        upper, lower = b.split(b.conv2d(x, 16, 3), 2, axis=1)
        return b.concatenate([b.max_pool(half, 3, stride=1, padding="SAME") for half in (upper, lower)], axis=1)

    model = network(build)
    found = prepared(model)
    assert sum(map(is_slice, found.npu.operations)) == 2
    check(model, "ethos-u55-128")


def test_elements_that_boxes_leave_out_are_found() -> None:
    whole = (range(4), range(4), range(2))
    upper, lower = (range(3), range(4), range(2)), (range(2, 4), range(4), range(2))
    assert copies.is_covered(whole, [upper, lower])
    assert not copies.is_covered(whole, [upper, (range(3, 4), range(1, 4), range(2))])
    assert not copies.is_covered(whole, [upper, (range(2, 4), range(4), range(1))])


def steps_of_four(b: ModelBuilder, x: Value, size: int = 4) -> Value:
    """Pieces that each step of an unrolled recurrent network reads later than the one before."""
    total: Value | None = None
    for piece in b.split(x, x.shape[-1] // size):
        step = b.fully_connected(piece, 16)
        total = step if total is None else b.fully_connected(b.add(total, step), 16)
    assert total is not None
    return total


@pytest.mark.parametrize(("size", "copies"), [(4, 0), (16, 8)])
def test_pieces_are_read_in_place_where_they_would_take_more_than_their_source(size: int, copies: int) -> None:
    """Eight pieces of 4 bytes take 8 x 16 bytes as copies, of 16 bytes as many as their source."""
    found = prepared(network(lambda b, x: steps_of_four(b, x, size), shape=(1, 8 * size)))
    assert sum(map(is_slice, found.npu.operations)) == copies
    # Whether the others are read in place is a choice: copies are saved, and the source stays.
    assert {sum(map(is_slice, one.npu.operations)) for one in found.orders} == {0, copies}
    for one in found.orders:
        curve = explore(one.problem, 0)
        for index in {0, len(curve.points) - 1}:
            carry_out(one, from_proposal(one.problem, curve.proposals[index]), seed=index)


def test_pieces_in_place_take_their_source_alone() -> None:
    """By hand: 32 bytes of pieces, the sum so far and the step, 16 each, and no more while either is made."""
    compiled = ethoscade.compile(network(steps_of_four, shape=(1, 32)), accelerator="ethos-u55-256", optimise="size")
    assert compiled.sram_bytes <= 32 + 3 * 16
    assert compiled.verify(seeds=1).ok
