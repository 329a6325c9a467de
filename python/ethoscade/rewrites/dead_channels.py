"""remove_dead_channels: constant or unused channels are removed.

Owns the decision, what it leaves behind and its report. What is constant is `channel_values`' matter, who needs
a channel `channel_groups`'. A constant that a convolution reads moves into its bias; where windows are padded it goes
only if it is the zero point, by which they are padded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np

from ..ir import Array, ConvAttrs, DType, Graph, Operator, Quantisation, Tensor
from ..util.frozen import FrozenMap
from ..util.records import dataclass
from .channel_groups import CHANNELWISE, Groups
from .channel_values import (
    WEIGHTED,
    ConstantChannels,
    Mask,
    bias_of,
    constant_channels,
    foldable,
    folded_sums,
    has_dead_weights,
    met_by,
)
from .draft import OnNpu

GRAIN = 8
"""ConstantChannels that the NPU computes with together, and bytes that the narrowest of its memories move at once."""


@dataclass(frozen=True)
class DeadChannels:
    """What became of the dead output channels of one operator with weights: the constant ones and the unused ones.

    `removed` of `dead` channels are gone; `kept` tells for the others why they stayed, by sentences with counts.
    """

    operator: str
    kind: str
    channels: int
    dead: int
    removed: int
    kept: Mapping[str, int]


def remove_dead_channels(graph: Graph, on_npu: OnNpu) -> tuple[Graph, tuple[DeadChannels, ...]]:
    """The graph without the dead channels that it can do without, and a report of each operator that has some.

    Only operators on the NPU change, network inputs and outputs keep their channels. Returns the very graph that it was
    given where nothing goes.
    """
    if not has_dead_weights(graph):
        return graph, ()
    taken = frozenset(i for i, op in enumerate(graph.operators) if op.opaque is None and on_npu(graph, op))
    channels = constant_channels(graph, taken)
    groups = Groups(graph, channels, taken)
    gone = _chosen(channels, groups)
    left = dict(_left(channels, groups, gone))
    told = tuple(_told(graph, channels, groups, gone, taken))
    if not left:
        return graph, told
    smaller = _without(graph, channels, left)
    # Fewer channels ask less of the NPU: should it not take a smaller operator all the same, all channels stay.
    if not all(on_npu(smaller, smaller.operators[index]) for index in taken):
        return graph, tuple(_told(graph, channels, groups, set(), taken))
    return smaller, told


def _chosen(channels: Mapping[int, ConstantChannels], groups: Groups) -> set[int]:
    """The groups that go.

    A tensor keeps a channel at least. One that had a multiple of 8 channels keeps a multiple of 8: memories move 8
    bytes at once, so that pixels of other sizes straddle them, and the NPU computes 8 channels together, so that a part
    of them costs as much as all. The last ones stay for that.
    """
    gone = groups.spare
    while True:
        before = len(gone)
        for tensor in channels:
            members = groups.groups_of(tensor)
            if gone.isdisjoint(members):
                continue
            count = sum(group not in gone for group in members)
            wanted = max(-(-count // GRAIN) * GRAIN if len(members) % GRAIN == 0 else count, 1)
            for group in reversed(members):
                if count < wanted and group in gone:
                    gone.remove(group)
                    count = sum(member not in gone for member in members)
        if len(gone) == before:
            return gone


def _left(channels: Mapping[int, ConstantChannels], groups: Groups, gone: set[int]) -> Iterator[tuple[int, Mask]]:
    """The channels that stay of each tensor that loses some."""
    for tensor in channels:
        members = groups.groups_of(tensor)
        if not gone.isdisjoint(members):
            yield tensor, np.array([group not in gone for group in members], np.bool_)


def _told(
    graph: Graph, channels: Mapping[int, ConstantChannels], groups: Groups, gone: set[int], taken: Collection[int]
) -> Iterator[DeadChannels]:
    spare = groups.spare
    for op in (op for i, op in enumerate(graph.operators) if i in taken):
        if op.kind not in (*WEIGHTED, "DEPTHWISE_CONV_2D") or op.outputs[0] not in channels:
            continue
        held, members = channels[op.outputs[0]], groups.groups_of(op.outputs[0])
        if not held.known.any() and spare.isdisjoint(members):
            continue
        removed = sum(group in gone for group in members)
        kept: Counter[str] = Counter()
        for group, known in zip(members, held.known, strict=True):
            why = groups.why_needed(group)
            if group not in gone and (known or why is None):
                kept[why or _why_left(len(members))] += 1
        if removed or kept:
            dead = removed + sum(kept.values())
            yield DeadChannels(op.name, op.kind, len(members), dead, removed, FrozenMap(sorted(kept.items())))


def _why_left(channels: int) -> str:
    return f"a multiple of {GRAIN} channels stays" if channels % GRAIN == 0 else "one channel stays"


# --- the graph without them -------------------------------------------------------------------------------------------


def _without(graph: Graph, channels: Mapping[int, ConstantChannels], left: Mapping[int, Mask]) -> Graph:
    """The graph with only those channels that are `left` of the tensors named there."""
    tensors = list(graph.tensors)
    for tensor, keep in left.items():
        *outer, last = tensors[tensor].shape
        tensors[tensor] = replace(tensors[tensor], shape=(*outer, last // len(keep) * int(keep.sum())))

    def own(tensor: Tensor) -> int:
        tensors.append(tensor)
        return len(tensors) - 1

    operators: list[Operator] = []
    for op in graph.operators:
        touched = any(t in left for t in (*op.inputs, *op.outputs))
        if not touched or op.kind not in (*WEIGHTED, *CHANNELWISE, "DEPTHWISE_CONV_2D"):
            operators.append(op)
            continue
        narrow = _narrow_channelwise
        if op.kind in WEIGHTED:
            narrow = _narrow_weighted
        elif op.kind == "DEPTHWISE_CONV_2D":
            narrow = _narrow_depthwise
        changed, constants = narrow(graph, op, channels, left)
        inputs = list(changed.inputs)
        for place, constant in constants.items():
            inputs += [None] * (place + 1 - len(inputs))
            inputs[place] = own(constant)
        operators.append(replace(changed, inputs=tuple(inputs)))
    return replace(graph, tensors=tuple(tensors), operators=tuple(operators)).verify()


_Narrowed = tuple[Operator, dict[int, Tensor]]
"""An operator, and the constants that it reads from now on by place."""


def _narrow_weighted(
    graph: Graph, op: Operator, channels: Mapping[int, ConstantChannels], left: Mapping[int, Mask]
) -> _Narrowed:
    """CONV_2D and FULLY_CONNECTED: rows and columns of the weights go, constants go into the bias."""
    weights, source = graph.read(op, 1), op.input(0)
    stored = weights.constant()
    outputs = left.get(op.outputs[0], np.ones(len(stored), np.bool_))
    inputs = left.get(source)
    bias = bias_of(graph, op, len(stored))
    if inputs is not None:
        held = met_by(graph, op, channels[source])
        bias = bias + folded_sums(graph, op, held, ~inputs & foldable(graph, op, held)).sum(axis=1)
        stored = stored[..., np.tile(inputs, stored.shape[-1] // len(inputs))]
    return op, _constants(graph, op, weights, stored[outputs], bias, outputs)


def _narrow_depthwise(
    graph: Graph, op: Operator, channels: Mapping[int, ConstantChannels], left: Mapping[int, Mask]
) -> _Narrowed:
    weights = graph.read(op, 1)
    stored = weights.constant()
    outputs = left.get(op.outputs[0])
    if outputs is None:
        return op, {}
    attrs = op.attributes(ConvAttrs)
    if op.input(0) not in left:
        attrs = replace(attrs, depth_multiplier=int(outputs.sum()) // graph.read(op).shape[-1])
    bias = bias_of(graph, op, stored.shape[-1])
    return replace(op, attrs=attrs), _constants(graph, op, weights, stored[..., outputs], bias, outputs)


def _constants(
    graph: Graph, op: Operator, weights: Tensor, stored: Array, bias: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    outputs: Mask,
) -> dict[int, Tensor]:  # fmt: skip
    """The weights and, where there is one or has to be, the bias of the outputs that are left."""
    found = {1: replace(weights, shape=stored.shape, data=_frozen(stored), quantisation=_of(weights, outputs))}
    before = graph.tensors[op.inputs[2]] if len(op.inputs) > 2 and op.inputs[2] is not None else None
    if before is None and not bias.any():
        return found
    kept = bias[outputs]
    if before is None:
        before = Tensor(f"{op.name}/bias", kept.shape, DType.INT32)
    data = _frozen(kept.astype(before.dtype.numpy))
    found[2] = replace(before, shape=kept.shape, data=data, quantisation=_of(before, outputs))
    return found


def _of(tensor: Tensor, outputs: Mask) -> Quantisation | None:
    """The quantisation of the outputs that are left."""
    quantisation = tensor.quantisation
    if quantisation is None or quantisation.axis is None or len(quantisation.scales) == 1:
        return quantisation
    scales = tuple(s for s, keep in zip(quantisation.scales, outputs, strict=True) if keep)
    zero_points = quantisation.zero_points
    if len(zero_points) == len(outputs):
        zero_points = tuple(z for z, keep in zip(zero_points, outputs, strict=True) if keep)
    return replace(quantisation, scales=scales, zero_points=zero_points)


def _narrow_channelwise(
    graph: Graph, op: Operator, channels: Mapping[int, ConstantChannels], left: Mapping[int, Mask]
) -> _Narrowed:
    """Constant operands with a value for each channel lose those that go; parameters such as axes stay."""
    keep = left[op.outputs[0]]
    found: dict[int, Tensor] = {}
    for place, index in enumerate(op.inputs):
        tensor = None if index is None else graph.tensors[index]
        if tensor is None or tensor.data is None or tensor.dtype is not graph.made(op).dtype:
            continue
        if tensor.shape[-1:] == (len(keep),) and len(keep) > 1:
            data = _frozen(tensor.data[..., keep])
            found[place] = replace(tensor, shape=data.shape, data=data)
    return op, found


def _frozen(data: Array) -> Array:
    data = np.ascontiguousarray(data)
    data.flags.writeable = False
    return data
