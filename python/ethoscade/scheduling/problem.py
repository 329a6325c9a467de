"""The cascader's problem: Parts and tensors of a lowered network, as the Rust core takes them.

Owns the translation from NPU and CPU operators to Parts. No weights and no activations go in.
The types of both are in `specs`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from .. import _core
from ..ir import Graph
from ..ir.operators import OPERATORS, updated
from ..lowering.feature_maps import (
    ConstantMap,
    FeatureMap,
    Layout,
    Scalar,
)
from ..lowering.npu import (
    NpuGraph,
    NpuOperation,
    OperationKind,
    Table,
    absorbed_operators,
    tables_of,
)
from ..lowering.te import Propagator
from ..targets.target import Memories, Streaming, Target
from ..util.frozen import FrozenMap
from ..util.records import dataclass
from .external import with_external_inputs
from .specs import (
    CallMemory,
    Encoding,
    EncodingSpec,
    InputSpec,
    JoinedSpec,
    OperationSpec,
    PartSpec,
    SlicedSpec,
    StreamSpec,
    TensorSpec,
)
from .streamed import as_it_arrives, as_it_leaves, streamed_input, streamed_output

if TYPE_CHECKING:
    from ..targets.devices import DeviceDescription


@dataclass(frozen=True, eq=False)
class Problem:
    """A CascaderGraph and how its dense ids relate to the network's.

    `parts` holds for each Part ("npu", operation index), ("operator", graph operator index), ("feed", graph tensor
    index) or ("take", graph tensor index); a Part that joins its inputs has an operation for each of them, and the
    first one's index. `ids` holds the dense tensor id of each graph tensor that lives in the arena; temporaries have
    one too, and none of these. A reshape's output has the id of its input, and so has every alias: they are the same
    bytes. `memories` are those of the device.
    """

    core: _core.CascaderGraph
    parts: tuple[tuple[str, int], ...]
    ids: Mapping[int, int]
    specs: tuple[PartSpec, ...]
    tensors: tuple[TensorSpec, ...]
    memories: Memories

    def operations(self, part: int) -> range:
        """Indices of the operations that NPU Part `part` runs: one, or one for each input that it joins."""
        _, first = self.parts[part]
        kernel = self.specs[part].kernel
        return range(first, first + max(1, len(kernel.joined) if kernel is not None else 0))

    def is_interior(self, part: int, last: int) -> bool:
        """Whether the output of NPU Part `part` is not needed after Part `last`."""
        tensor = self.specs[part].outputs[0]
        readers = (spec for spec in self.specs[last + 1 :] for read in spec.inputs if read.tensor == tensor)
        return not self.tensors[tensor].is_output and next(readers, None) is None


def operation_spec(operation: NpuOperation, encoding: Encoding, tables: Mapping[Table, int]) -> OperationSpec:
    """Cost parameters of an operation; `tables` are the ids of tables."""
    window, function, second = operation.window, operation.function, operation.ifm2
    table = function if isinstance(function, Table) else None
    return OperationSpec(
        kind=operation.kind.value,
        kernel=(window.kernel_h, window.kernel_w),
        stride=(window.stride_h, window.stride_w),
        dilation=(window.dilation_h, window.dilation_w),
        upscale=operation.upscale.value,
        ifm_depth=operation.ifm.shape[2],
        ofm_depth=operation.ofm.shape[2],
        ifm_bits=8 * operation.ifm.dtype.size_bytes,
        ifm_signed=operation.ifm.dtype.limits[0] < 0,
        ofm_bits=8 * operation.ofm.dtype.size_bytes,
        ofm_signed=operation.ofm.dtype.limits[0] < 0,
        ifm2=_SECOND_OPERANDS[type(second)],
        ifm2_bits=8 * (operation.ifm if second is None else second).dtype.size_bytes,
        ifm2_layout=(second.layout if isinstance(second, ConstantMap) else Layout.NHWC).value,
        broadcast=operation.broadcast,
        clamped=operation.clamp != operation.ofm.dtype.limits,
        function="table" if isinstance(function, Table) else function.value,
        table=None if table is None else tables[table],
        table_bytes=0 if table is None else table.size_bytes,
        scaling=operation.scaling_mode,
        rounding=operation.rounding.value,
        accumulator_bits=operation.accumulator_bits,
        part_kernel=encoding.part_kernel,
        block_depth=encoding.block_depth,
        constant_bytes=encoding.constant_bytes,
        staged=encoding.staged,
        sliced=encoding.sliced,
        stream=encoding.stream,
    )


_SECOND_OPERANDS = {type(None): "none", Scalar: "scalar", FeatureMap: "map", ConstantMap: "constant"}


def _table_ids(operations: Iterable[NpuOperation]) -> dict[Table, int]:
    """Dense ids of the tables, in order of first use."""
    return {table: number for number, table in enumerate(tables_of(operations))}


WHOLE_BYTES = 24 * 1024
"""Constants beyond this are encoded in slices as well, whatever they are used on."""

SLICE_BYTES = 32 * 1024
"""Slices of these hold about this number of bytes of raw weights."""

SLICED_SHARE, LEAST_SLICE_BYTES = 8, 4 * 1024
"""Slices of fewer constants hold this part of the feature maps' bytes, and at least this number: what is less beside
the feature maps is copied whole."""

MOST_SLICES = 16
"""Slices of one operator: as each reads the whole input, thin ones of large weights cost more than they spare."""

_SLICE_CHANNELS = 16


def raw_bytes(operation: NpuOperation) -> int:
    """Bytes of uncompressed constants. A weight has one, bias and scale of a channel ten, a map its own."""
    weights, second = operation.weights, operation.ifm2
    if isinstance(second, ConstantMap):
        return second.values.size * second.dtype.size_bytes
    return 0 if weights is None else weights.values.size + 10 * weights.bias.size


def choose_encoding(
    operation: NpuOperation, target: Target | DeviceDescription, bytes_of: Callable[[int, bool], int] | None = None
) -> Encoding:
    """Weight order and OFM block depth of the cheapest unstriped operation.

    `bytes_of` are the bytes of its constants, encoded for a block depth and an order (part-kernel-first or not);
    without it all orders are taken to have the raw bytes. Constants that are copied are encoded for that, large
    convolutions in slices too where copies run beside operations. Operations without constants get the depth of their
    block. Returns block depth 0 if no block fits SHRAM, or the buffer of a described device.
    """
    raw = raw_bytes(operation)
    spec = operation_spec(operation, Encoding(0, False, raw), _table_ids([operation]))
    plane = operation.ofm.shape[:2]
    layouts = (operation.ifm.layout.value, operation.ofm.layout.value)
    known: dict[tuple[int, bool], int] = {}
    while True:
        found = _core.choose_weight_encoding(target, spec, plane, layouts, list(known.items()))
        if found is None:
            return Encoding(0, False)
        orders = [(order.block_depth, order.part_kernel) for order in found]
        if bytes_of is None or all(order in known for order in orders):
            break
        # In other orders constants are not shorter than in those that are tried, so far as nobody knows better.
        known.update((order, bytes_of(*order)) for order in orders if order not in known)
        spec = replace(spec, constant_bytes=min(known.values()))
    in_place, staged = found
    encoding = Encoding(in_place.block_depth, in_place.part_kernel)
    if raw == 0 or target.constants_in_sram:
        return encoding
    if staged != in_place:
        encoding = replace(encoding, staged=EncodingSpec(staged.block_depth, staged.part_kernel))
    channels = operation.ofm.shape[2]
    depth = -(-channels // _slices(operation))
    depth = -(-depth // _SLICE_CHANNELS) * _SLICE_CHANNELS
    if operation.kind is not OperationKind.CONVOLUTION or depth >= channels or not target.copies_ahead:
        return encoding
    part = replace(spec, ofm_depth=depth, constant_bytes=raw * depth // channels)
    found = _core.choose_weight_encoding(target, part, plane, layouts)
    if found is None:
        return encoding
    return replace(encoding, sliced=SlicedSpec(depth, found[1].block_depth, found[1].part_kernel))


def _slices(operation: NpuOperation) -> int:
    """In how many slices constants should be encoded; channels decide how many they become."""
    raw = raw_bytes(operation)
    if raw > WHOLE_BYTES:
        return min(max(-(-raw // SLICE_BYTES), 2), MOST_SLICES)
    maps = sum(view.size_bytes for view in (*operation.inputs, operation.ofm))
    return -(-raw // max(maps // SLICED_SHARE, LEAST_SLICE_BYTES))


def unencoded(operation: NpuOperation, encoding: Encoding) -> Encoding:
    """The encoding with the bytes of uncompressed constants."""
    raw, sliced = raw_bytes(operation), encoding.sliced
    if sliced is not None:
        channels = operation.ofm.shape[2]
        starts = range(0, channels, sliced.depth)
        sizes = tuple(raw * min(sliced.depth, channels - start) // channels for start in starts)
        sliced = replace(sliced, bytes=sizes)
    return replace(encoding, constant_bytes=raw, sliced=sliced)


def build(
    graph: Graph,
    order: Sequence[int],
    npu: NpuGraph,
    encodings: Sequence[Encoding],
    target: Target | DeviceDescription,
    calls: Mapping[int, CallMemory] = FrozenMap({}),
) -> Problem:
    """The CascaderGraph of a lowered network.

    `order` is the execution order of graph operators; one without NPU operations is opaque, with its memory of `calls`,
    unless others' operations carry it out or its output is an alias. Where several with NPU operations follow each
    other, these run in the order of `npu`.
    """
    turns = _turns(graph, order, npu)
    ids, dense = _dense_ids(graph, turns, npu)
    tensors, tables = _tensor_specs(graph, ids, npu, dense), _table_ids(npu.operations)
    parts: list[PartSpec] = []
    for where, numbers in turns:
        if where == "npu":
            specs = [_npu_part(npu.operations[number], encodings[number], dense, tables) for number in numbers]
            makers = [npu.operations[number].ofm for number in numbers]
            parts.append(specs[0] if len(specs) == 1 else _joint_part(specs, makers))
        else:
            parts.append(_opaque_part(graph, numbers[0], ids, tensors, calls.get(numbers[0], CallMemory())))
    origin = [(where, numbers[0]) for where, numbers in turns]
    if target.memories.inputs is not None:
        tensors = with_external_inputs(graph, ids, tensors, parts)
    if target.streaming is not None:
        _put_arrival(graph, ids, target.streaming, tensors, parts, origin)
    if target.taken_rows is not None:
        _put_departure(graph, ids, target.taken_rows, tensors, parts, origin)
    core = _core.CascaderGraph(tensors, parts, target, [number for _, number in origin], tuple(ids.items()))
    return Problem(core, tuple(origin), FrozenMap(ids), tuple(parts), tuple(tensors), target.memories)


def _put_arrival(
    graph: Graph,
    ids: Mapping[int, int],
    streaming: Streaming,
    tensors: list[TensorSpec],
    parts: list[PartSpec],
    origin: list[tuple[str, int]],
) -> None:
    """Put the arrival of the streamed input's rows ahead of their first reader."""
    index = streamed_input(graph)
    number = ids[index]
    readers = [at for at, part in enumerate(parts) if any(read.tensor == number for read in part.inputs)]
    tensors[number], arrival = as_it_arrives(graph, tensors[number], [parts[at] for at in readers], number, streaming)
    first = min(readers, default=0)
    parts.insert(first, arrival)
    origin.insert(first, ("feed", index))


def _put_departure(
    graph: Graph,
    ids: Mapping[int, int],
    rows: int,
    tensors: list[TensorSpec],
    parts: list[PartSpec],
    origin: list[tuple[str, int]],
) -> None:
    """Put the departure of the streamed output's rows behind what makes them."""
    index = streamed_output(graph)
    number, left = ids[index], len(tensors)
    maker = next(at for at, part in enumerate(parts) if number in part.outputs)
    tensors[number], taken, departure = as_it_leaves(graph, tensors[number], parts[maker], (number, left), rows)
    tensors.append(taken)
    parts.insert(maker + 1, departure)
    origin.insert(maker + 1, ("take", index))


_Turn = tuple[str, list[int]]
"""What a Part is made of: ("npu", operations of one tensor) or ("operator", the opaque one)."""


def _turns(graph: Graph, order: Sequence[int], npu: NpuGraph) -> list[_Turn]:
    absorbed = absorbed_operators(npu.operations)
    absorbed |= {i for i, op in enumerate(graph.operators) if not npu.aliases.keys().isdisjoint(op.outputs)}
    on_npu = {operation.operator for operation in npu.operations}
    turns: list[_Turn] = []
    for is_npu, run in groupby((i for i in order if i not in absorbed), key=on_npu.__contains__):
        operators = set(run)
        if not is_npu:
            turns += [("operator", [operator]) for operator in order if operator in operators]
            continue
        numbers = [number for number, operation in enumerate(npu.operations) if operation.operator in operators]
        groups = groupby(numbers, key=lambda n: (npu.operations[n].operator, npu.operations[n].ofm.tensor))
        turns += [("npu", list(group)) for _, group in groups]
    return turns


def _dense_ids(graph: Graph, turns: Sequence[_Turn], npu: NpuGraph) -> tuple[dict[int, int], dict[int, int]]:
    """Graph tensors that live in the arena to dense ids, in order of appearance, and the NPU's tensors to the same."""
    ids: dict[int, int] = {}
    temporaries: dict[int, int] = {}
    count = 0

    def see(tensor: int, same_as: int | None = None) -> None:
        nonlocal count
        if tensor in npu.aliases:
            see(npu.aliases[tensor])
        elif tensor not in ids:
            ids[tensor] = count if same_as is None else ids[same_as]
            count += same_as is None

    def see_view(view: FeatureMap) -> None:
        nonlocal count
        if view.tensor.graph_tensor is not None:
            see(view.tensor.graph_tensor)
        elif view.tensor.id not in temporaries:
            temporaries[view.tensor.id] = count
            count += 1

    called = [graph.operators[numbers[0]] for where, numbers in turns if where == "operator"]
    # State is overwritten while copies of it are still read: a copy needs bytes of its own.
    state = {t for t, tensor in enumerate(graph.tensors) if tensor.is_variable}
    state.update(t for op in called for t, _ in updated(op))
    for tensor in graph.inputs:
        see(tensor)
    for where, numbers in turns:
        if where == "npu":
            for operation in (npu.operations[number] for number in numbers):
                for view in (*operation.inputs, operation.ofm):
                    see_view(view)
            continue
        op = graph.operators[numbers[0]]
        live = [t for t in op.inputs if t is not None and not graph.tensors[t].is_constant]
        for tensor in live:
            see(tensor)
        live = [npu.aliases.get(t, t) for t in live]
        written_over = {after: before for before, after in updated(op)}
        for tensor in op.outputs:
            row = OPERATORS.get(op.kind)
            in_place = row is not None and row.in_place and op.opaque is None
            shared = in_place and live and live[0] not in state
            see(tensor, live[0] if shared else written_over.get(tensor))
    ids.update({alias: ids[root] for alias, root in npu.aliases.items() if root in ids})
    known = {t.id: ids[t.graph_tensor] for t in npu.tensors if t.graph_tensor is not None}
    return ids, known | temporaries


def _tensor_specs(graph: Graph, ids: Mapping[int, int], npu: NpuGraph, dense: Mapping[int, int]) -> list[TensorSpec]:
    """Planes and layouts are the producer's; for what no NPU operation makes, the first reading operation's."""
    views: dict[int, FeatureMap] = {}
    for operation in npu.operations:
        for view in operation.inputs:
            if view.strides is None:
                views.setdefault(dense[view.tensor.id], view)
    views.update({dense[operation.ofm.tensor.id]: operation.ofm for operation in npu.operations})
    specs = {
        dense[t.id]: TensorSpec(t.name, t.shape[:2], t.shape[2] * t.dtype.size_bytes, t.layout.value, False, False)
        for t in npu.tensors
        if t.graph_tensor is None
    }
    for index_, number in ids.items():
        tensor = graph.tensors[index_]
        seen = views.get(number)
        height, width = (1, 1) if seen is None else seen.plane
        # A variable tensor keeps its value between runs: it is there from the start and wanted to the end.
        known = specs.get(number)
        specs[number] = TensorSpec(
            known.name if known else tensor.name,
            (height, width),
            tensor.size_bytes // (height * width),
            (Layout.NHWC if seen is None else seen.layout).value,
            (known is not None and known.is_input) or index_ in graph.inputs or tensor.is_variable,
            (known is not None and known.is_output) or index_ in graph.outputs or tensor.is_variable,
        )
    for variable in graph.variables:
        before = ids.get(variable.before)
        if before is not None and before != ids.get(variable.after):
            specs[before] = replace(specs[before], is_state=True)
    for before, after in _updates(graph, ids):
        if specs[before].is_input and not specs[after].is_input and specs[after].is_output:
            specs[after] = replace(specs[after], updates=before)
    return [specs[number] for number in range(len(specs))]


def _updates(graph: Graph, ids: Mapping[int, int]) -> Iterable[tuple[int, int]]:
    """What variables hold before and after a run, as dense ids that none of them shares with another."""
    pairs = [(ids[v.before], ids[v.after]) for v in graph.variables if v.before in ids and v.after in ids]
    counts = Counter(number for pair in pairs for number in set(pair))
    return [pair for pair in pairs if counts[pair[0]] == counts[pair[1]] == 1 and pair[0] != pair[1]]


def _npu_part(
    operation: NpuOperation, encoding: Encoding, dense: Mapping[int, int], tables: Mapping[Table, int]
) -> PartSpec:
    inputs = tuple(
        InputSpec(
            dense[view.tensor.id],
            derived,
            view.shape[:2],
            view.pixel_channels * view.dtype.size_bytes,
            view.first_channel,
            operation.inside(number),
            view.byte_strides,
        )
        for number, (view, derived) in enumerate(zip(operation.inputs, operation.propagators(), strict=True))
    )
    return PartSpec(
        operation.name, inputs, (dense[operation.ofm.tensor.id],), operation_spec(operation, encoding, tables)
    )


def _joint_part(parts: Sequence[PartSpec], makes: Sequence[FeatureMap]) -> PartSpec:
    """The Part whose stripes are those of `parts` in turn, each of which makes a box of one tensor."""
    joined = tuple(
        JoinedSpec(
            # Slices would be pieces of pieces.
            replace(part.kernel, sliced=None),
            (*view.corner, view.first_channel),
            view.shape[:2],
        )
        for part, view in zip(parts, makes, strict=True)
        if part.kernel is not None
    )
    inputs = tuple(read for part in parts for read in part.inputs)
    whole = replace(
        joined[0].operation,
        ifm_depth=sum(one.operation.ifm_depth for one in joined),
        ofm_depth=makes[0].pixel_channels,
        upscale="none",
        constant_bytes=sum(one.operation.constant_bytes for one in joined),
        staged=None,
        sliced=None,
        stream=StreamSpec(),
        joined=joined,
    )
    return PartSpec(parts[0].name, inputs, parts[0].outputs, whole)


def _opaque_part(
    graph: Graph, operator: int, ids: Mapping[int, int], tensors: Sequence[TensorSpec], memory: CallMemory
) -> PartSpec:
    op = graph.operators[operator]
    reads = [t for t in op.inputs if t is not None and t in ids]
    inputs = tuple(
        InputSpec(ids[t], Propagator.identity(), tensors[ids[t]].plane, tensors[ids[t]].pixel_bytes) for t in reads
    )
    made = tuple(ids[t] for t in op.outputs if ids[t] not in {read.tensor for read in inputs})
    return PartSpec(op.name, inputs, made, None, memory.workspace_bytes, memory.overlay)
