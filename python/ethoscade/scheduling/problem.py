"""The cascader's problem: Parts and tensors of a lowered network, as the Rust core takes them.

Owns the translation from stages and CPU operators to Parts. No weights and no activations go in.
The dataclasses are read attribute by attribute by `_core`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from .. import _core
from ..devices import DeviceDescription
from ..ir import Graph
from ..lowering.stage import FeatureMap, Layout, Primitive, Stage
from ..lowering.te import Access, Axis, Compute, Propagator, index, propagator
from ..target import Memories, Target
from ..util.frozen import FrozenMap


@dataclass(frozen=True)
class EncodingSpec:
    """Constants encoded once: OFM block depth, weight order, bytes."""

    block_depth: int
    part_kernel: bool
    bytes: int = 0


@dataclass(frozen=True)
class SlicedSpec:
    """Constants encoded in slices of `depth` output channels: OFM block depth, weight order, bytes of each slice."""

    depth: int
    block_depth: int
    part_kernel: bool
    bytes: tuple[int, ...] = ()


@dataclass(frozen=True)
class KernelSpec:
    """What the cost of an NPU operation depends on; `constant_bytes` are encoded weights plus scales.

    `offsets`: zero points of first input, output and second input, and the limits of the output. `joined` are, of a
    Part that joins its inputs, the operations that copy each of them; its own figures are those of all together.
    """

    primitive: str
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    ifm_depth: int
    ofm_depth: int
    clamped: bool
    offsets: tuple[int, int, int, int, int]
    part_kernel: bool
    block_depth: int
    constant_bytes: int
    staged: EncodingSpec | None = None
    sliced: SlicedSpec | None = None
    joined: tuple[KernelSpec, ...] = ()


@dataclass(frozen=True)
class TensorSpec:
    """A feature map: plane in pixels (height, width), bytes of a pixel, layout in memory ("NHWC" or "NHCWB16")."""

    name: str
    plane: tuple[int, int]
    pixel_bytes: int
    layout: str
    is_input: bool
    is_output: bool


@dataclass(frozen=True)
class InputSpec:
    """One read of a Part: dense tensor id, propagator, plane and pixel as the Part sees them, first channel read."""

    tensor: int
    propagator: Propagator
    plane: tuple[int, int]
    pixel_bytes: int
    first_channel: int = 0


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
    """How a stage's constants are encoded: OFM block depth, weight order, how many bytes they take.

    `staged` is how they are encoded for being copied as a whole, None for the same; `sliced` how in slices, if at all.
    """

    block_depth: int
    part_kernel: bool
    constant_bytes: int = 0
    staged: EncodingSpec | None = None
    sliced: SlicedSpec | None = None


@dataclass(frozen=True, eq=False)
class Problem:
    """A CascaderGraph and how its dense ids relate to the network's.

    `parts` holds for each Part ("stage", stage index) or ("operator", graph operator index); a Part that joins its
    inputs has a stage for each of them, and the first one's index. `ids` holds the dense tensor id of each graph tensor
    that lives in the arena. A reshape's output has the id of its input: they are the same bytes. `memories` are those
    of the device.
    """

    core: _core.CascaderGraph
    parts: tuple[tuple[str, int], ...]
    ids: Mapping[int, int]
    specs: tuple[PartSpec, ...]
    tensors: tuple[TensorSpec, ...]
    memories: Memories

    def stages(self, part: int) -> range:
        """Indices of the stages that NPU Part `part` runs: one, or one for each input that it joins."""
        _, first = self.parts[part]
        kernel = self.specs[part].kernel
        return range(first, first + max(1, len(kernel.joined) if kernel is not None else 0))

    def is_interior(self, part: int, last: int) -> bool:
        """Whether nobody wants the output of NPU Part `part` after Part `last`."""
        tensor = self.specs[part].outputs[0]
        readers = (spec for spec in self.specs[last + 1 :] for read in spec.inputs if read.tensor == tensor)
        return not self.tensors[tensor].is_output and next(readers, None) is None


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
        offsets=(
            stage.inputs[0].zero_point,
            stage.output.zero_point,
            stage.inputs[-1].zero_point,
            *stage.clamp,
        ),
        part_kernel=encoding.part_kernel,
        block_depth=encoding.block_depth,
        constant_bytes=encoding.constant_bytes,
        staged=encoding.staged,
        sliced=encoding.sliced,
    )


WHOLE_BYTES = 24 * 1024
"""Constants beyond this are encoded in slices as well."""

SLICE_BYTES = 32 * 1024
"""Slices hold about so many bytes of raw weights."""

MOST_SLICES = 16
"""Slices of one operator: as each reads the whole input, thin ones of large weights cost more than they spare."""

_SLICE_CHANNELS = 16


def raw_bytes(stage: Stage) -> int:
    """Bytes of a stage's constants as they are: a byte for each weight, ten for the bias and scale of each channel."""
    return 0 if stage.weights is None else stage.weights.values.size + 10 * stage.weights.bias.size


def choose_encoding(stage: Stage, target: Target | DeviceDescription) -> Encoding:
    """Weight order and OFM block depth of the cheapest unstriped operation, before the constants are encoded.

    Constants that are copied are encoded for that, large convolutions in slices too where copies run beside operations.
    Stages without constants get the depth of their block. Returns block depth 0 if no block fits SHRAM, or the buffer
    of a described device.
    """
    raw = raw_bytes(stage)
    spec = kernel_spec(stage, Encoding(0, False, raw))
    plane = stage.output.shape[:2]
    layouts = (stage.inputs[0].layout.value, stage.output.layout.value)
    found = _core.choose_weight_encoding(target, spec, plane, layouts)
    if found is None:
        return Encoding(0, False)
    in_place, staged = found
    encoding = Encoding(in_place.block_depth, in_place.part_kernel)
    if raw == 0 or target.constants_in_sram:
        return encoding
    if staged != in_place:
        encoding = replace(encoding, staged=EncodingSpec(staged.block_depth, staged.part_kernel))
    count = min(max(-(-raw // SLICE_BYTES), 2 if raw > WHOLE_BYTES else 1), MOST_SLICES)
    depth = -(-stage.output.shape[2] // count)
    depth = -(-depth // _SLICE_CHANNELS) * _SLICE_CHANNELS
    if stage.primitive is not Primitive.CONVOLUTION or depth >= stage.output.shape[2] or not target.copies_ahead:
        return encoding
    part = replace(spec, ofm_depth=depth, constant_bytes=raw * depth // stage.output.shape[2])
    found = _core.choose_weight_encoding(target, part, plane, layouts)
    if found is None:
        return encoding
    return replace(encoding, sliced=SlicedSpec(depth, found[1].block_depth, found[1].part_kernel))


def unencoded(stage: Stage, encoding: Encoding) -> Encoding:
    """The encoding with the bytes of constants that nobody compresses."""
    raw, sliced = raw_bytes(stage), encoding.sliced
    if sliced is not None:
        channels = stage.output.shape[2]
        starts = range(0, channels, sliced.depth)
        sizes = tuple(raw * min(sliced.depth, channels - start) // channels for start in starts)
        sliced = replace(sliced, bytes=sizes)
    return replace(encoding, constant_bytes=raw, sliced=sliced)


def build(
    graph: Graph,
    order: Sequence[int],
    stages: Sequence[Stage],
    encodings: Sequence[Encoding],
    target: Target | DeviceDescription,
    workspaces: Mapping[int, int] | None = None,
) -> Problem:
    """The CascaderGraph of a lowered network.

    `order` is the execution order of graph operators; an operator without stages is opaque, with `workspaces` bytes.
    """
    by_operator: dict[int, list[int]] = {}
    for number, stage in enumerate(stages):
        by_operator.setdefault(stage.operator, []).append(number)
    ids = _dense_ids(graph, order, stages, by_operator)
    tensors = _tensor_specs(graph, ids, stages)
    parts: list[PartSpec] = []
    origin: list[tuple[str, int]] = []
    for operator in order:
        if operator in by_operator:
            for _, made in groupby(by_operator[operator], key=lambda number: stages[number].output.tensor):
                numbers = list(made)
                specs = [_stage_part(stages[number], encodings[number], ids) for number in numbers]
                parts.append(specs[0] if len(specs) == 1 else _joint_part(specs))
                origin.append(("stage", numbers[0]))
        else:
            parts.append(_opaque_part(graph, operator, ids, tensors, (workspaces or {}).get(operator, 0)))
            origin.append(("operator", operator))
    core = _core.CascaderGraph(tensors, parts, target, [number for _, number in origin], tuple(ids.items()))
    return Problem(core, tuple(origin), FrozenMap(ids), tuple(parts), tuple(tensors), target.memories)


def _dense_ids(
    graph: Graph, order: Sequence[int], stages: Sequence[Stage], by_operator: Mapping[int, Sequence[int]]
) -> dict[int, int]:
    """Graph tensors that live in the arena to dense ids, in order of appearance."""
    ids: dict[int, int] = {}
    count = 0

    def see(tensor: int, same_as: int | None = None) -> None:
        nonlocal count
        if tensor not in ids:
            ids[tensor] = count if same_as is None else ids[same_as]
            count += same_as is None

    for tensor in graph.inputs:
        see(tensor)
    for operator in order:
        for number in by_operator.get(operator, ()):
            for view in stages[number].inputs:
                see(view.tensor)
            see(stages[number].output.tensor)
        if operator not in by_operator:
            op = graph.operators[operator]
            live = [t for t in op.inputs if t is not None and not graph.tensors[t].is_constant]
            for tensor in live:
                see(tensor)
            for tensor in op.outputs:
                # A variable changes under its readers' hands: what is taken from it needs bytes of its own.
                shared = op.kind in _RESHAPES and op.opaque is None and live and not graph.tensors[live[0]].is_variable
                see(tensor, live[0] if shared else None)
    return ids


_RESHAPES = frozenset({"RESHAPE", "SQUEEZE"})


def _tensor_specs(graph: Graph, ids: Mapping[int, int], stages: Sequence[Stage]) -> list[TensorSpec]:
    """Planes and layouts are the producer's; for what no stage makes, the first reading stage's."""
    views: dict[int, FeatureMap] = {}
    for stage in stages:
        for view in stage.inputs:
            views.setdefault(ids[view.tensor], view)
    views.update({ids[stage.output.tensor]: stage.output for stage in stages})
    specs: dict[int, TensorSpec] = {}
    for index_, dense in ids.items():
        tensor = graph.tensors[index_]
        seen = views.get(dense)
        height, width, _ = (1, 1, 0) if seen is None else seen.shape
        # A variable keeps its value between runs: it is there from the start and wanted to the end.
        known = specs.get(dense)
        specs[dense] = TensorSpec(
            known.name if known else tensor.name,
            (height, width),
            tensor.size_bytes // (height * width),
            (Layout.NHWC if seen is None else seen.layout).value,
            (known is not None and known.is_input) or index_ in graph.inputs or tensor.is_variable,
            (known is not None and known.is_output) or index_ in graph.outputs or tensor.is_variable,
        )
    return [specs[dense] for dense in range(len(specs))]


def _stage_part(stage: Stage, encoding: Encoding, ids: Mapping[int, int]) -> PartSpec:
    inputs = tuple(
        InputSpec(
            ids[view.tensor],
            derived,
            view.shape[:2],
            view.pixel_channels * view.dtype.size_bytes,
            view.first_channel,
        )
        for view, derived in zip(stage.inputs, stage.propagators(), strict=True)
    )
    return PartSpec(stage.name, inputs, (ids[stage.output.tensor],), kernel_spec(stage, encoding))


def _joint_part(copies: Sequence[PartSpec]) -> PartSpec:
    """The Part whose stripes are those of `copies` in turn, each of which makes some channels of one tensor."""
    kernels = tuple(copy.kernel for copy in copies if copy.kernel is not None)
    inputs = tuple(read for copy in copies for read in copy.inputs)
    whole = replace(
        kernels[0],
        ifm_depth=sum(kernel.ifm_depth for kernel in kernels),
        ofm_depth=sum(kernel.ofm_depth for kernel in kernels),
        joined=kernels,
    )
    return PartSpec(copies[0].name, inputs, copies[0].outputs, whole)


def _identity() -> Propagator:
    axes = tuple(Axis(name, 1) for name in "nhwc")
    read = Access(0, (index(n=1), index(h=1), index(w=1), index(c=1)), (1, 1, 1, 1))
    return propagator(Compute("opaque", (axes[0], axes[1], axes[2], axes[3]), (), (read,)), read)


def _opaque_part(
    graph: Graph, operator: int, ids: Mapping[int, int], tensors: Sequence[TensorSpec], workspace_bytes: int
) -> PartSpec:
    op = graph.operators[operator]
    reads = [t for t in op.inputs if t is not None and t in ids]
    inputs = tuple(InputSpec(ids[t], _identity(), tensors[ids[t]].plane, tensors[ids[t]].pixel_bytes) for t in reads)
    made = tuple(ids[t] for t in op.outputs if ids[t] not in {read.tensor for read in inputs})
    return PartSpec(op.name, inputs, made, None, workspace_bytes)
