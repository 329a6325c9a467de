"""Streams of every kind of operation, with every kind of second operand, are what was promised of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from ethoscade.ir import DType, Graph, SoftmaxAttrs, Window
from ethoscade.lowering import expressions, views
from ethoscade.lowering.feature_maps import (
    ConstantMap,
    FeatureMap,
    Layout,
    Scalar,
)
from ethoscade.lowering.npu import (
    UNSCALED,
    Function,
    NpuGraph,
    NpuGraphBuilder,
    NpuOperation,
    OperandScales,
    OperationKind,
    Rounding,
    Scale,
    Table,
    Upscale,
)
from ethoscade.lowering.te import Compute
from ethoscade.pipeline import compiler
from ethoscade.pipeline.searches import explore
from ethoscade.scheduling import schedule as scheduling
from ethoscade.scheduling.program import Stripe
from ethoscade.targets.target import ACCELERATORS, Target, load_target
from graphs import GraphMaker
from promised_cycles import broken_promises

SHAPE = (18, 8, 24)
TABLES = [Table(bytes((k * i) % 256 for i in range(256))) for k in (3, 5)]
WIDE_TABLE = Table(np.arange(256, dtype="<i4").tobytes())


class Maker:
    """Adds operations to the first operator of a graph; what they make are temporaries."""

    def __init__(self, graph: Graph) -> None:
        self.builder = NpuGraphBuilder(graph)

    def point(
        self, kind: OperationKind, a: FeatureMap, b: FeatureMap | ConstantMap | Scalar | None = None, **fields: object
    ) -> FeatureMap:
        """An element-wise operation; the second operand is repeated where it has one row, column or channel."""
        read = b if isinstance(b, FeatureMap | ConstantMap) else None
        compute = expressions.points("x", a.shape, a, read)
        return self.operation(kind, a, a.shape, compute, ifm2=b, **fields)

    def pool(self, kind: OperationKind, a: FeatureMap, window: Window = views.POINT, **fields: object) -> FeatureMap:
        """A pool; the output has as many rows and columns as windows fit with their padding."""
        (height, width, depth), w = a.shape, window
        rows = (height + w.pad_top + w.pad_bottom - w.kernel_h) // w.stride_h + 1
        columns = (width + w.pad_left + w.pad_right - w.kernel_w) // w.stride_w + 1
        shape = (rows, columns, depth)
        compute = expressions.windows("x", window, a.shape, shape)
        return self.operation(kind, a, shape, compute, window=window, **fields)

    def operation(
        self,
        kind: OperationKind,
        a: FeatureMap,
        shape: tuple[int, int, int],
        compute: Compute,
        ofm: FeatureMap | None = None,
        dtype: DType | None = None,
        **fields: object,
    ) -> FeatureMap:
        """Any operation, whose output is a temporary if it is not `ofm`."""
        element = dtype or a.dtype
        made = ofm or self.builder.temporary(0, shape, element, 3 if element is DType.INT8 else 0)
        looks_up = isinstance(fields.get("function"), Table)
        clamp = DType.INT8.limits if looks_up else made.dtype.limits
        given = {"window": views.POINT, "clamp": clamp, **fields}
        self.builder.add(NpuOperation("x", 0, kind, a, made, compute=compute, **given))  # type: ignore[arg-type]
        return made


def every_operation(graph: Graph, *_: object) -> NpuGraph:
    """One after the other, from the graph's input to its output, which is that large again."""
    kinds, make = OperationKind, Maker(graph)
    x = make.builder.view(graph.inputs[0], SHAPE)
    row = make.pool(kinds.MAX_POOL, x, Window(SHAPE[0], 1))
    column = make.pool(kinds.MAX_POOL, x, Window(1, SHAPE[1]))
    x = make.point(kinds.SUB, x, row, swap_operands=True)
    x = make.point(kinds.MINIMUM, x, column, swap_operands=True)
    x = make.point(
        kinds.ADD, x, make.pool(kinds.MAX_POOL, row, Window(1, SHAPE[1])), scaling=OperandScales(0.25, 1.0, 0.5)
    )
    x = make.point(kinds.MAXIMUM, x, Scalar(-20, DType.INT8, 4), clamp=(-100, 90))
    x = make.point(kinds.ABS, x, scaling=Scale(1 << 30, 31), rounding=Rounding.NATURAL)
    x = make.point(kinds.LEAKY_RELU, x, scaling=Scale(1 << 30, 32), function=TABLES[0])
    x = make.pool(kinds.AVERAGE_POOL, x, Window(3, 3, pad_top=1, pad_left=1, pad_bottom=1, pad_right=1))
    x = make.pool(kinds.AVERAGE_POOL, x, scaling=UNSCALED, function=TABLES[1])
    wide = make.point(kinds.SUB, x, Scalar(3, DType.INT8), dtype=DType.INT32, scaling=Scale(1, 0), function=WIDE_TABLE)
    (height, width, depth) = SHAPE
    total = make.operation(
        kinds.SUM_OVER_DEPTH,
        wide,
        (height, width, 1),
        expressions.depths("x", wide),
        scaling=Scale(1 << 30, 30),
        rounding=Rounding.NATURAL,
    )
    shift = make.point(kinds.CLZ, total)
    wide = make.point(kinds.SHR, wide, shift, rounding=Rounding.NATURAL)
    wide = make.point(kinds.SHL, wide, Scalar(4, DType.INT32))
    half = make.point(kinds.MUL, wide, total, dtype=DType.INT16, scaling=Scale(1 << 30, 40), rounding=Rounding.TRUNCATE)
    for function in (Function.TANH, Function.SIGMOID):
        half = make.pool(kinds.AVERAGE_POOL, half, scaling=Scale(1 << 30, 42), function=function)
    half = make.pool(kinds.MAX_POOL, half, Window(2, 2, 2, 2))
    x = make.point(kinds.ADD, half, half, dtype=DType.INT8, scaling=Scale(1 << 30, 38))
    for upscale in (Upscale.NEAREST, Upscale.ZEROS):
        small = make.pool(kinds.MAX_POOL, x, Window(2, 2, 2, 2)) if upscale is Upscale.ZEROS else x
        shape = (2 * small.shape[0], 2 * small.shape[1], depth)
        compute = expressions.points("x", shape, small, upscale=upscale)
        x = make.operation(kinds.AVERAGE_POOL, small, shape, compute, upscale=upscale, scaling=UNSCALED)
    target = make.builder.view(graph.outputs[0], SHAPE)
    make.point(kinds.MINIMUM, x, Scalar(100, DType.INT8), ofm=target)
    return make.builder.graph()


def prepared(
    lower: Callable[..., NpuGraph], shape: tuple[int, int, int], target: Target, monkeypatch: pytest.MonkeyPatch
) -> compiler.Network:
    """A network of one operator that becomes what `lower` makes of it."""
    maker = GraphMaker(seed=3)
    x = maker.input((1, *shape))
    graph = maker.graph([maker.op("SOFTMAX", [x], maker.tensor((1, *shape)), SoftmaxAttrs(1.0))])
    monkeypatch.setattr(compiler, "lower", lower)
    monkeypatch.setattr(compiler, "Support", lambda accelerator: lambda graph, op: None)
    return compiler.prepare(graph, target)


def constant(shape: tuple[int, int, int], dtype: DType = DType.INT8, seed: int = 0) -> ConstantMap:
    """A constant operand of random values."""
    values = np.random.default_rng(seed).integers(*dtype.limits, size=shape, endpoint=True).astype(dtype.numpy)
    return ConstantMap(values, dtype, 3 if dtype is DType.INT8 else 0)


BRICKS = (24, 9, 32)


def constant_operands(graph: Graph, *_: object) -> NpuGraph:
    """Constants of every extent and type, repeated along every axis, in both layouts; two of them are equal."""
    kinds, make = OperationKind, Maker(graph)
    height, width, depth = BRICKS
    x = make.builder.view(graph.inputs[0], BRICKS)
    x = make.point(kinds.ADD, x, constant(BRICKS), scaling=OperandScales(0.25, 1.0, 0.5))
    x = make.pool(kinds.MAX_POOL, x, Window(3, 3, pad_top=1, pad_left=1, pad_bottom=1, pad_right=1))
    x = make.point(kinds.SUB, x, constant((1, 1, depth)), swap_operands=True, scaling=OperandScales(1.0, 0.25, 0.5))
    x = make.point(kinds.MUL, x, constant((height, width, 1)), scaling=Scale(1 << 30, 37))
    x = make.point(kinds.MAXIMUM, x, constant((1, width, depth), seed=1))
    x = make.pool(kinds.AVERAGE_POOL, x, Window(3, 3, pad_top=1, pad_left=1, pad_bottom=1, pad_right=1))
    x = make.point(kinds.MINIMUM, x, constant((height, 1, depth), seed=2), function=TABLES[0])
    x = make.point(kinds.MUL, x, constant((1, width, 1)), scaling=Scale(1 << 30, 36))
    x = make.point(kinds.ADD, x, constant(BRICKS), scaling=Scale(1, 0))
    half = make.point(kinds.MUL, x, Scalar(100, DType.INT8), dtype=DType.INT16, scaling=Scale(1 << 30, 30))
    half = make.point(kinds.SUB, half, constant((height, width, depth), DType.INT16), scaling=Scale(1, 0))
    half = make.point(kinds.SUB, half, constant((1, 1, depth), DType.INT16), dtype=DType.INT32, scaling=Scale(1, 0))
    half = make.point(kinds.MINIMUM, half, constant((1, 1, 1), DType.INT32), dtype=DType.INT16)
    target = make.builder.view(graph.outputs[0], BRICKS)
    make.point(kinds.ADD, half, constant((1, 1, depth), DType.INT16), ofm=target, scaling=Scale(1 << 30, 38))
    return make.builder.graph()


@pytest.mark.parametrize("memory_mode", ["Shared_Sram", "Sram_Only"])
@pytest.mark.parametrize("accelerator", ["ethos-u55-256", "ethos-u55-32", "ethos-u65-256"])
def test_streams_with_constant_operands_are_what_was_promised(
    accelerator: str, memory_mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = prepared(constant_operands, BRICKS, load_target(accelerator, memory_mode=memory_mode), monkeypatch)
    found = {operation.ifm2.layout for operation in network.npu.operations if isinstance(operation.ifm2, ConstantMap)}
    assert found == set(Layout)
    curve = explore(network.problem, 0)
    programs = [scheduling.arrange(network.problem, proposal).program for proposal in curve.proposals]
    stripes = [step for program in programs for step in program.steps if isinstance(step, Stripe)]
    constants = {k for k, o in enumerate(network.npu.operations) if isinstance(o.ifm2, ConstantMap)}
    assert any(step.output.y1 - step.output.y0 < BRICKS[0] for step in stripes if step.stage in constants)
    for index_ in sorted({0, len(curve.points) // 2, len(curve.points) - 1}):
        assert not list(broken_promises(network, curve, index_)), f"{curve.points[index_][0]} bytes"


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_streams_of_every_operation_are_what_was_promised(accelerator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = prepared(every_operation, SHAPE, load_target(accelerator), monkeypatch)
    assert {operation.kind for operation in network.npu.operations} >= set(OperationKind) - {
        OperationKind.CONVOLUTION,
        OperationKind.DEPTHWISE,
    }
    curve = compiler.search(network)
    for index_ in sorted({0, len(curve.points) // 2, len(curve.points) - 1}):
        assert not list(broken_promises(network, curve, index_)), f"{curve.points[index_][0]} bytes"
