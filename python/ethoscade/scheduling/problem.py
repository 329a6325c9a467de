"""The cascader's problem: Parts and tensors of a lowered network, as the Rust core takes them.

Owns the translation from stages and CPU operators to Parts. No weights and no activations go in.
The dataclasses are read attribute by attribute by `_core`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .. import _core
from ..ir import Graph
from ..lowering.stage import Stage
from ..lowering.te import Access, Axis, Compute, Propagator, index, propagator
from ..target import Target


@dataclass(frozen=True)
class KernelSpec:
    """What the cost of an NPU operation depends on; `constant_bytes` are encoded weights plus scales."""

    primitive: str
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    ifm_depth: int
    ofm_depth: int
    clamped: bool
    part_kernel: bool
    block_depth: int
    constant_bytes: int


@dataclass(frozen=True)
class TensorSpec:
    """A feature map: plane in pixels (height, width), bytes of a pixel."""

    name: str
    plane: tuple[int, int]
    pixel_bytes: int
    is_input: bool
    is_output: bool


@dataclass(frozen=True)
class InputSpec:
    """One read of a Part: dense tensor id, propagator, and the plane as the Part sees it."""

    tensor: int
    propagator: Propagator
    plane: tuple[int, int]


@dataclass(frozen=True)
class PartSpec:
    """An NPU operation (with `kernel`) or an opaque operator (without)."""

    name: str
    inputs: tuple[InputSpec, ...]
    outputs: tuple[int, ...]
    kernel: KernelSpec | None
    workspace_bytes: int = 0


@dataclass(frozen=True)
class Encoding:
    """How a stage's constants are encoded: OFM block depth, weight order, and how many bytes they take."""

    block_depth: int
    part_kernel: bool
    constant_bytes: int = 0


@dataclass(frozen=True, eq=False)
class Problem:
    """A CascaderGraph and how its dense ids relate to the network's.

    `parts` holds for each Part ("stage", stage index) or ("operator", graph operator index); `tensors` the graph tensor
    index of each dense tensor id.
    """

    core: _core.CascaderGraph
    parts: tuple[tuple[str, int], ...]
    tensors: tuple[int, ...]


def kernel_spec(stage: Stage, encoding: Encoding) -> KernelSpec:
    """Cost parameters of a stage."""
    window = stage.window
    low, high = stage.output.dtype.limits
    return KernelSpec(
        primitive=stage.primitive.value,
        kernel=(window.kernel_h, window.kernel_w),
        stride=(window.stride_h, window.stride_w),
        dilation=(window.dilation_h, window.dilation_w),
        ifm_depth=stage.inputs[0].shape[2],
        ofm_depth=stage.output.shape[2],
        clamped=stage.clamp != (low, high),
        part_kernel=encoding.part_kernel,
        block_depth=encoding.block_depth,
        constant_bytes=encoding.constant_bytes,
    )


def choose_encoding(stage: Stage, target: Target) -> Encoding:
    """Weight order and OFM block depth of the cheapest unstriped operation, before the constants are encoded.

    Stages without constants get the depth of their block as well. Returns block depth 0 if no block fits SHRAM.
    """
    raw = 0
    if stage.weights is not None:
        raw = stage.weights.values.size + 10 * stage.weights.bias.size
    found = _core.choose_weight_encoding(target, kernel_spec(stage, Encoding(0, False, raw)), stage.output.shape[:2])
    return Encoding(0, False) if found is None else Encoding(*found)


def build(
    graph: Graph,
    order: Sequence[int],
    stages: Sequence[Stage],
    encodings: Sequence[Encoding],
    target: Target,
    workspaces: Mapping[int, int] | None = None,
) -> Problem:
    """The CascaderGraph of a lowered network.

    `order` is the execution order of graph operators; an operator without stages is opaque, with `workspaces` bytes.
    """
    by_operator: dict[int, list[int]] = {}
    for number, stage in enumerate(stages):
        by_operator.setdefault(stage.operator, []).append(number)
    planes = {stage.output.tensor: stage.output.shape for stage in stages}
    ids = _dense_ids(graph, order, stages, by_operator)
    tensors = [_tensor_spec(graph, tensor, planes.get(tensor)) for tensor in ids]
    parts: list[PartSpec] = []
    origin: list[tuple[str, int]] = []
    for operator in order:
        if operator in by_operator:
            for number in by_operator[operator]:
                parts.append(_stage_part(stages[number], encodings[number], ids))
                origin.append(("stage", number))
        else:
            parts.append(_opaque_part(graph, operator, ids, tensors, (workspaces or {}).get(operator, 0)))
            origin.append(("operator", operator))
    return Problem(_core.CascaderGraph(tensors, parts, target), tuple(origin), tuple(ids))


def _dense_ids(
    graph: Graph, order: Sequence[int], stages: Sequence[Stage], by_operator: Mapping[int, Sequence[int]]
) -> dict[int, int]:
    """Graph tensors that live in the arena to dense ids, in order of appearance."""
    seen: dict[int, None] = dict.fromkeys(graph.inputs)
    for operator in order:
        if operator in by_operator:
            for number in by_operator[operator]:
                seen.update(dict.fromkeys(view.tensor for view in stages[number].inputs))
                seen[stages[number].output.tensor] = None
        else:
            op = graph.operators[operator]
            used = [t for t in (*op.inputs, *op.outputs) if t is not None and not graph.tensors[t].is_constant]
            seen.update(dict.fromkeys(used))
    return {tensor: number for number, tensor in enumerate(seen)}


def _tensor_spec(graph: Graph, index_: int, shape: tuple[int, int, int] | None) -> TensorSpec:
    tensor = graph.tensors[index_]
    if shape is None:
        dims = tensor.shape
        shape = (dims[1], dims[2], dims[3]) if len(dims) == 4 and dims[0] == 1 else (1, 1, tensor.size_bytes)
        element = tensor.dtype.size_bytes if len(dims) == 4 and dims[0] == 1 else 1
    else:
        element = tensor.dtype.size_bytes
    height, width, depth = shape
    # A variable keeps its value between runs: it is there from the start and wanted to the end.
    is_input = index_ in graph.inputs or tensor.is_variable
    is_output = index_ in graph.outputs or tensor.is_variable
    return TensorSpec(tensor.name, (height, width), depth * element, is_input, is_output)


def _stage_part(stage: Stage, encoding: Encoding, ids: Mapping[int, int]) -> PartSpec:
    inputs = tuple(
        InputSpec(ids[view.tensor], derived, view.shape[:2])
        for view, derived in zip(stage.inputs, stage.propagators(), strict=True)
    )
    return PartSpec(stage.name, inputs, (ids[stage.output.tensor],), kernel_spec(stage, encoding))


def _identity() -> Propagator:
    axes = tuple(Axis(name, 1) for name in "nhwc")
    read = Access(0, (index(n=1), index(h=1), index(w=1), index(c=1)), (1, 1, 1, 1))
    return propagator(Compute("opaque", (axes[0], axes[1], axes[2], axes[3]), (), (read,)), read)


def _opaque_part(
    graph: Graph, operator: int, ids: Mapping[int, int], tensors: Sequence[TensorSpec], workspace_bytes: int
) -> PartSpec:
    op = graph.operators[operator]
    reads = [t for t in op.inputs if t is not None and t in ids]
    inputs = tuple(InputSpec(ids[t], _identity(), tensors[ids[t]].plane) for t in reads)
    outputs = tuple(ids[t] for t in op.outputs)
    return PartSpec(op.name, inputs, outputs, None, workspace_bytes)
