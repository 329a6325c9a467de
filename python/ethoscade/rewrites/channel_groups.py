"""ConstantChannels that stand or fall together: a channel of one tensor and those that are made of it one by one.

Owns who ties channels to each other and who cannot do without one, and why. Decides nothing about removal.

A channel is needed unless everything that reads it can do without: a weighted operator can where its weights for it are
zero or where it is a constant that goes into the bias; an operator that works channel by channel can where its own
result's channel is not needed either. The producer of a channel never needs it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from ..ir import ConcatenationAttrs, Graph, Operator, PadAttrs, ReductionAttrs
from ..ir.operators import ACTIVATION_OPERATORS
from ..ir.quantised import zero_point_of
from .channel_values import (
    INT32,
    WEIGHTED,
    ConstantChannels,
    Mask,
    bias_of,
    foldable,
    folded_sums,
    has_constant_weights,
    met_by,
    weighs,
)

CHANNELWISE = frozenset(
    {
        *ACTIVATION_OPERATORS,
        "ABS",
        "ADD",
        "AVERAGE_POOL_2D",
        "MAX_POOL_2D",
        "MEAN",
        "PAD",
        "QUANTIZE",
        "RESIZE_NEAREST_NEIGHBOR",
        "SUM",
    }
)
"""Kinds of which each channel of the result depends on that channel of the operands alone."""

_Nodes = npt.NDArray[np.intp]
"""Channels of all tensors, numbered one tensor behind the other."""


class Groups:
    """Groups of channels, and the first reason why each one is needed.

    A channel is (tensor index, place); `on_npu` are indices of operators. Only tensors with an entry in `channels` have
    any that could go.
    """

    def __init__(self, graph: Graph, channels: Mapping[int, ConstantChannels], on_npu: Collection[int]) -> None:
        self.graph = graph
        self.channels = channels
        self._first: dict[int, int] = {}
        size = 0
        for tensor, held in channels.items():
            self._first[tensor] = size
            size += len(held.known)
        self._ties: list[tuple[_Nodes, _Nodes]] = []
        self._needs: list[tuple[_Nodes, Sequence[str]]] = []
        for index, op in enumerate(graph.operators):
            if index in on_npu:
                self._take(op)
            else:
                self._pin_all(op, "on the CPU")
        for tensor in graph.outputs:
            self._pin(tensor, "it leaves the network")
        roots = _joined(size, self._ties)
        self._roots: list[int] = roots.tolist()
        self._reasons = self._first_reasons(roots)

    @property
    def spare(self) -> set[int]:
        """The unused groups."""
        return set(self._roots) - self._reasons.keys()

    def why_needed(self, group: int) -> str | None:
        """What cannot do without a group, in a sentence without a full stop, or None."""
        return self._reasons.get(group)

    def groups_of(self, tensor: int) -> list[int]:
        """The group of each channel of a tensor, by its number."""
        first = self._first[tensor]
        return self._roots[first : first + len(self.channels[tensor].known)]

    # What operators tie together, and what they need.

    def _take(self, op: Operator) -> None:
        if not has_constant_weights(self.graph, op):
            self._pin_all(op, "and its weights are not constant")
        elif op.kind == "CONV_2D" and self.graph.read(op, 1).shape[-1] != self.graph.read(op).shape[-1]:
            self._pin_all(op, "whose groups of channels are equally large")
        elif op.kind in WEIGHTED:
            self._weighted(op)
        elif op.kind == "DEPTHWISE_CONV_2D":
            self._depthwise(op)
        elif op.kind == "CONCATENATION":
            self._concatenation(op)
        elif op.kind in CHANNELWISE:
            self._channelwise(op)
        else:
            self._pin_all(op, "which takes its channels as they are")

    def _weighted(self, op: Operator) -> None:
        source = op.input(0)
        if source not in self.channels:
            return
        held = self.channels[source]
        met = met_by(self.graph, op, held)
        if met is not held:
            self._pin(source, f"{_who(op)} reads it in another shape")
            return
        spared = spared_by(self.graph, op, held)
        zero_point = zero_point_of(self.graph.read(op))
        takes_any = foldable(self.graph, op, held)
        whats = (
            "it is not constant",
            f"it is not the zero point {zero_point} that pads it",
            "the bias would not hold it",
        )
        reads = [f"{_who(op)} reads {self._name(source)}, where {what}" for what in whats]
        # Channels are many, sentences few.
        which = np.where(takes_any, 2, np.where(held.known, 1, 0))
        needed = np.flatnonzero(~spared)
        self._needs.append((self._first[source] + needed, [reads[what] for what in which[needed].tolist()]))

    def _depthwise(self, op: Operator) -> None:
        source, result = op.input(0), op.outputs[0]
        inputs, outputs = self.graph.read(op).shape[-1], self.graph.read(op, 1).shape[-1]
        if inputs == 1 and outputs > 1:
            self._pin(source, f"{_who(op)} makes all of its channels of one")
        elif self._has(source, inputs) and self._has(result, outputs):
            channels = np.arange(outputs)
            self._tie(source, channels // (outputs // inputs), result, channels)
        else:
            self._pin_all(op, "and its other side keeps its channels")

    def _channelwise(self, op: Operator) -> None:
        result, shape = op.outputs[0], self.graph.made(op).shape
        last = self.graph.read(op).shape[-1:]
        count = last[0] if last else 0
        operands = [t for t in op.inputs if t is not None and not self.graph.tensors[t].is_constant]
        kept = not self._mixes(op) and all(self._has(t, count) for t in (*operands, result))
        # A constant operand goes along where it has a value for each channel, or one for all.
        constants = [self.graph.tensors[t] for t in op.inputs if t is not None and self.graph.tensors[t].is_constant]
        kept = kept and all(t.shape[-1:] == (count,) or t.dtype is not self.graph.made(op).dtype for t in constants
                            if np.prod(t.shape, dtype=np.int64) != 1)  # fmt: skip
        if not kept or not shape:
            self._pin_all(op, "and not all that it reads and writes has the same channels")
            return
        for operand in operands:
            self._tie(operand, np.arange(count), result, np.arange(count))

    def _mixes(self, op: Operator) -> bool:
        """Whether the operator reaches across channels."""
        rank = len(self.graph.read(op).shape)
        if isinstance(op.attrs, ReductionAttrs):
            return rank - 1 in op.attrs.axes
        return isinstance(op.attrs, PadAttrs) and op.attrs.paddings[-1] != (0, 0)

    def _concatenation(self, op: Operator) -> None:
        result, shape = op.outputs[0], self.graph.made(op).shape
        sizes = [self.graph.read(op, place).shape[-1] for place in range(len(op.inputs))]
        along = op.attributes(ConcatenationAttrs).axis == len(self.graph.read(op).shape) - 1
        count = sum(sizes) if along else sizes[0]
        parts = [op.input(place) for place in range(len(op.inputs))]
        if not shape or not self._has(result, count) or not all(map(self._has, parts, sizes)):
            self._pin_all(op, "and not all that it joins is made of channels that could go")
            return
        first = 0
        for part, size in zip(parts, sizes, strict=True):
            self._tie(part, np.arange(size), result, first + np.arange(size))
            first += size if along else 0

    # Bookkeeping.

    def _has(self, tensor: int, count: int) -> bool:
        """Whether a tensor has a number of channels, pixel by pixel."""
        last = self.graph.tensors[tensor].shape[-1:]
        return tensor in self.channels and len(self.channels[tensor].known) == count and last[0] % count == 0

    def _name(self, tensor: int) -> str:
        return f"'{self.graph.tensors[tensor].name}'"

    def _tie(self, a: int, channels_a: _Nodes, b: int, channels_b: _Nodes) -> None:
        self._ties.append((self._first[a] + channels_a, self._first[b] + channels_b))

    def _pin(self, tensor: int, why: str) -> None:
        if tensor in self.channels:
            count = len(self.channels[tensor].known)
            self._needs.append((self._first[tensor] + np.arange(count), [why] * count))

    def _first_reasons(self, roots: _Nodes) -> dict[int, str]:
        """The reason of each group that is needed: the first one that there was for any of its channels."""
        if not self._needs:
            return {}
        groups, first = np.unique(roots[np.concatenate([places for places, _ in self._needs])], return_index=True)
        reasons = list(chain.from_iterable(reasons for _, reasons in self._needs))
        return {group: reasons[place] for group, place in zip(groups.tolist(), first.tolist(), strict=True)}

    def _pin_all(self, op: Operator, why: str) -> None:
        for tensor in (*op.inputs, *op.outputs):
            if tensor is not None:
                verb = "makes" if tensor in op.outputs else "reads"
                self._pin(tensor, f"{_who(op)} {verb} {self._name(tensor)}, {why}")


def _joined(size: int, ties: Sequence[tuple[_Nodes, _Nodes]]) -> _Nodes:
    """For each place the first one that it is tied to, by however many others between them."""
    roots = np.arange(size)
    if not ties:
        return roots
    one, other = (np.concatenate(side) for side in zip(*ties, strict=True))
    while True:
        before = roots.copy()
        least = np.minimum(before[one], before[other])
        # Both hear of it, and so do those that they were told of: steps double from turn to turn.
        for told in (one, other, before[one], before[other]):
            np.minimum.at(roots, told, least)
        roots = roots[roots]
        if np.array_equal(roots, before):
            return roots


def spared_by(graph: Graph, op: Operator, held: ConstantChannels) -> Mask:
    """Which channels of its input a weighted operator can do without: weights of zero, or a constant for the bias."""
    unread: Mask = np.logical_not(weighs(graph.read(op, 1), len(held.known)).any(axis=0))
    constant = foldable(graph, op, held)
    folded = folded_sums(graph, op, held, constant)
    sums = np.abs(folded).sum(axis=1) + np.abs(bias_of(graph, op, len(folded)))
    # The bias must hold all of them, whichever go.
    if sums.max(initial=0) > INT32[1]:
        constant &= held.values == zero_point_of(graph.read(op))
    spared: Mask = unread | constant
    return spared


def _who(op: Operator) -> str:
    return f"'{op.name}' ({op.kind})"
