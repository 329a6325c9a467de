"""Which channels of which tensors hold one value whatever the network is given, and which value.

Owns that analysis: it begins at weights that are all zero and at biases, and follows the constants through whatever
keeps them exactly. What is not told is unknown, never wrong. Changes nothing, and knows nothing of who may do without.

ConstantChannels run along the last axis. Values are stored integers, the zero point included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ..ir import (
    EIGHT_BIT,
    AddAttrs,
    ConcatenationAttrs,
    ConvAttrs,
    DType,
    FullyConnectedAttrs,
    Graph,
    Integers,
    Operator,
    PadAttrs,
    PoolAttrs,
    ReductionAttrs,
    TableAttrs,
    Tensor,
    Window,
)
from ..ir.operators import ACTIVATION_OPERATORS, keyed
from ..ir.quantised import (
    ADD_HEADROOM_BITS,
    MAX_LEFT_SHIFT,
    activation_range,
    effective_scales,
    mean_multiplier,
    multiplier_and_shift,
    scale_of,
    zero_point_of,
)
from ..util.records import dataclass
from .draft import same_values

WEIGHTED = ("CONV_2D", "FULLY_CONNECTED")
"""Kinds that sum up over all channels of their input."""

Mask = npt.NDArray[np.bool_]

INT32 = (-(1 << 31), (1 << 31) - 1)


@dataclass(frozen=True, eq=False)
class ConstantChannels:
    """The channels of one tensor: `values[c]` is what channel c holds everywhere, where `known[c]`."""

    values: Integers
    known: Mask

    @staticmethod
    def unknown(count: int) -> ConstantChannels:
        """ConstantChannels of which nothing is known."""
        return ConstantChannels(np.zeros(count, np.int64), np.zeros(count, np.bool_))

    @staticmethod
    def of(values: Sequence[int | None]) -> ConstantChannels:
        """Values by channel, None where there is no constant."""
        return ConstantChannels(
            np.array([0 if value is None else value for value in values], np.int64),
            np.array([value is not None for value in values], np.bool_),
        )

    def listed(self) -> list[int | None]:
        """Values by channel, None where there is no constant."""
        return [int(v) if known else None for v, known in zip(self.values, self.known, strict=True)]

    def mapped(self, change: Callable[[int], int | None]) -> ConstantChannels:
        """Each constant through a function that may lose it."""
        if not self.known.any():
            return ConstantChannels.unknown(len(self.known))
        return ConstantChannels.of([None if value is None else change(value) for value in self.listed()])


def has_dead_weights(graph: Graph) -> bool:
    """Whether any operator with weights has an output, or an input, all of whose weights are zero.

    Without one there is no constant channel, and no unused one.
    """
    for op in graph.operators:
        if op.opaque is not None or op.kind not in (*WEIGHTED, "DEPTHWISE_CONV_2D"):
            continue
        weights = graph.read(op, 1)
        if weights.data is None or not weights.shape:
            continue
        if op.kind == "DEPTHWISE_CONV_2D":
            alive = np.any(weights.data != _weight_zero_point(weights), axis=tuple(range(len(weights.shape) - 1)))
            if not alive.all():
                return True
        else:
            found = weighs(weights, weights.shape[-1])
            if not (found.any(axis=0).all() and found.any(axis=1).all()):
                return True
    return False


def has_constant_weights(graph: Graph, op: Operator) -> bool:
    """Whether weights and bias are constants, where the operator is of a kind that has any."""
    if op.kind not in (*WEIGHTED, "DEPTHWISE_CONV_2D"):
        return True
    return all(t is None or graph.tensors[t].is_constant for t in op.inputs[1:3])


def constant_channels(graph: Graph, on_npu: Collection[int]) -> dict[int, ConstantChannels]:
    """What is known of every tensor that an operator on the NPU makes of 8-bit values, by tensor index.

    `on_npu` are the indices of operators there.

    A tensor has as many channels as its maker gives it: once reshapes are folded its last axis may hold several pixels.
    """
    found: dict[int, ConstantChannels] = {}
    for index, op in enumerate(graph.operators):
        if index not in on_npu or len(op.outputs) != 1:
            continue
        made = graph.made(op)
        if made.dtype in EIGHT_BIT and made.shape:
            read = [_read(graph, op, t, found) for t in op.inputs]
            follow = _VALUES.get(op.kind, _nothing) if has_constant_weights(graph, op) else _nothing
            channels = follow(graph, op, read)
            if made.shape[-1] % len(channels.known) == 0:
                found[op.outputs[0]] = channels
    return found


def _read(graph: Graph, op: Operator, tensor: int | None, found: Mapping[int, ConstantChannels]) -> ConstantChannels:
    """What is known of an operand by its last axis; only FULLY_CONNECTED may look past a shape that a reshape left."""
    shape = () if tensor is None else graph.tensors[tensor].shape
    last = shape[-1] if shape else 1
    held = None if tensor is None else found.get(tensor)
    fits = held is not None and (len(held.known) == last or op.kind == "FULLY_CONNECTED")
    return held if held is not None and fits else ConstantChannels.unknown(last)


_Follow = Callable[[Graph, Operator, Sequence[ConstantChannels]], ConstantChannels]


def _nothing(graph: Graph, op: Operator, read: Sequence[ConstantChannels]) -> ConstantChannels:
    """An operator that keeps no constants that anyone here knows of; it has as many channels as its result's last axis.

    Where it works channel by channel and writes another shape, it has its input's.
    """
    last = graph.made(op).shape[-1]
    count = len(read[0].known) if read and graph.made(op).shape != graph.read(op).shape else last
    return ConstantChannels.unknown(count if last % count == 0 else last)


# --- weighted operators -----------------------------------------------------------------------------------------------


def _weight_zero_point(weights: Tensor) -> int:
    """What kernels subtract of weights: those of int8 convolutions are symmetric, whatever a file says."""
    symmetric = weights.dtype is DType.INT8 and len(weights.shape) == 4
    return 0 if symmetric or weights.quantisation is None else weights.quantisation.zero_points[0]


def weighs(weights: Tensor, channels: int) -> Mask:
    """Whether outputs depend on channels, as (outputs, channels), for inputs that hold pixels of `channels`."""
    stored = weights.constant()
    taps = stored.reshape(stored.shape[0], -1, channels)
    found: Mask = (taps != _weight_zero_point(weights)).any(axis=1)
    return found


def folded_sums(graph: Graph, op: Operator, held: ConstantChannels, which: Mask) -> Integers:
    """What constant channels, those that are `which`, add to each output of a weighted operator: (outputs, channels).

    Only those that are not the input's zero point add anything, and only these have columns.
    """
    weights = graph.read(op, 1)
    stored = weights.constant()
    offset = held.values - zero_point_of(graph.read(op))
    adding = which & (offset != 0)
    taps = stored.reshape(stored.shape[0], -1, len(which))[..., adding].astype(np.int64)
    found: Integers = (taps - _weight_zero_point(weights)).sum(axis=1) * offset[adding]
    return found


def bias_of(graph: Graph, op: Operator, outputs: int) -> Integers:
    """The bias for each output channel, 0 where there is none."""
    if len(op.inputs) < 3 or op.inputs[2] is None:
        return np.zeros(outputs, np.int64)
    return graph.read(op, 2).constant().astype(np.int64).reshape(-1)


def is_padded(window: Window) -> bool:
    """Whether some windows see padding, which holds the zero point."""
    return any((window.pad_top, window.pad_left, window.pad_bottom, window.pad_right))


def met_by(graph: Graph, op: Operator, read: ConstantChannels) -> ConstantChannels:
    """The channels of its input as CONV_2D and FULLY_CONNECTED count them; unknown where those are not its maker's."""
    inputs = graph.read(op, 1).shape[-1]
    count = len(read.known)
    fits = inputs % count == 0 if op.kind == "FULLY_CONNECTED" else inputs == count
    return read if fits else ConstantChannels.unknown(inputs)


def foldable(graph: Graph, op: Operator, read: ConstantChannels) -> Mask:
    """Which constant channels of its input a weighted operator could have in its bias as well."""
    padded = isinstance(op.attrs, ConvAttrs) and is_padded(op.attrs.window)
    same: Mask = read.values == zero_point_of(graph.read(op))
    return read.known & (same | (not padded))


def _weighted(graph: Graph, op: Operator, read: Sequence[ConstantChannels]) -> ConstantChannels:
    """CONV_2D and FULLY_CONNECTED: constant where all weights that are not zero meet constants."""
    met = met_by(graph, op, read[0])
    usable = foldable(graph, op, met)
    known: Mask = np.logical_not((weighs(graph.read(op, 1), len(usable)) & ~usable).any(axis=1))
    return _output(graph, op, folded_sums(graph, op, met, usable).sum(axis=1), known)


def _depthwise(graph: Graph, op: Operator, read: Sequence[ConstantChannels]) -> ConstantChannels:
    weights = graph.read(op, 1)
    taps = weights.constant().reshape(-1, weights.shape[-1]).astype(np.int64) - _weight_zero_point(weights)
    count = weights.shape[-1]
    source = np.arange(count) // (count // len(read[0].known))
    usable = foldable(graph, op, read[0])[source]
    known: Mask = np.logical_or(usable, ~(taps != 0).any(axis=0))
    offset = np.where(usable, read[0].values[source] - zero_point_of(graph.read(op)), 0)
    return _output(graph, op, taps.sum(axis=0) * offset, known)


def _output(graph: Graph, op: Operator, sums: Integers, known: Mask) -> ConstantChannels:
    """Bias, scale, zero point and clamp of constant sums."""
    if not known.any():
        return ConstantChannels.unknown(len(known))
    ifm, weights, ofm = graph.read(op), graph.read(op, 1), graph.made(op)
    reals = effective_scales(op.kind, ifm, weights, ofm)
    reals = reals * len(sums) if len(reals) == 1 else reals
    activation = op.attrs.activation if isinstance(op.attrs, (ConvAttrs, FullyConnectedAttrs)) else None
    assert activation is not None, "operators with weights have one; the caller sees to it that it is no opaque one"
    lowest, highest = activation_range(ofm.quantisation, ofm.dtype, activation)
    found: list[int | None] = []
    for total, real, is_known in zip(sums + bias_of(graph, op, len(sums)), reals, known, strict=True):
        scaled = rescaled(int(total), real) if is_known else None
        # Kernels of fully connected layers round once or twice: a constant is what both agree on.
        if scaled is not None and op.kind == "FULLY_CONNECTED" and scaled != rescaled_once(int(total), real):
            scaled = None
        found.append(None if scaled is None else min(max(scaled + zero_point_of(ofm), lowest), highest))
    return ConstantChannels.of(found)


# --- the kernels' arithmetic on single integers -----------------------------------------------------------------------


def _multiplied(value: int, significand: int, shift: int) -> int | None:
    """value * significand * 2**(shift - 31), rounded twice as kernels do; None where 32 bits do not hold it."""
    raised = value << max(shift, 0)
    if shift > MAX_LEFT_SHIFT or not INT32[0] <= raised <= INT32[1]:
        return None
    high = (raised * significand + (1 << 30)) >> 31
    right = max(-shift, 0)
    if right == 0:
        return high
    rounded = (abs(high) + (1 << (right - 1))) >> right
    return rounded if high >= 0 else -rounded


def rescaled(value: int, real: float) -> int | None:
    """value * real, rounded twice as kernels do; None where 32 bits do not hold it."""
    return _multiplied(value, *multiplier_and_shift(real))


def rescaled_once(value: int, real: float) -> int:
    """value * real, rounded once, halves away from zero."""
    product = value * real
    return int(math.copysign(math.floor(abs(product) + 0.5), product))


def _stored(value: int | None, tensor: Tensor, limits: tuple[int, int] | None = None) -> int | None:
    """A scaled integer with the tensor's zero point, clamped."""
    lowest, highest = limits or tensor.dtype.limits
    return None if value is None else min(max(value + zero_point_of(tensor), lowest), highest)


# --- operators without weights ----------------------------------------------------------------------------------------


def _add(graph: Graph, op: Operator, read: Sequence[ConstantChannels]) -> ConstantChannels:
    a, b, ofm = graph.read(op), graph.read(op, 1), graph.made(op)
    if len(read[0].known) != len(read[1].known):
        return _nothing(graph, op, read)
    if not (read[0].known & read[1].known).any():
        return ConstantChannels.unknown(len(read[0].known))
    limits = activation_range(ofm.quantisation, ofm.dtype, op.attributes(AddAttrs).activation)
    twice = 2.0 * max(scale_of(a), scale_of(b))

    def raised(value: int, tensor: Tensor) -> int | None:
        return rescaled((value - zero_point_of(tensor)) << ADD_HEADROOM_BITS, scale_of(tensor) / twice)

    def total(x: int | None, y: int | None) -> int | None:
        parts = (None if x is None else raised(x, a), None if y is None else raised(y, b))
        if parts[0] is None or parts[1] is None:
            return None
        factor = twice / ((1 << ADD_HEADROOM_BITS) * scale_of(ofm))
        return _stored(rescaled(parts[0] + parts[1], factor), ofm, limits)

    return ConstantChannels.of([total(x, y) for x, y in zip(read[0].listed(), read[1].listed(), strict=True)])


def _rescaling(graph: Graph, op: Operator, read: Sequence[ConstantChannels]) -> ConstantChannels:
    """QUANTIZE between integers: the ratio of the scales is taken in double, or results are in a table."""
    ifm, ofm = graph.read(op), graph.made(op)
    if ifm.dtype not in EIGHT_BIT:
        return _nothing(graph, op, read)
    if isinstance(op.attrs, TableAttrs):
        results, lowest = op.attrs.results, ifm.dtype.limits[0]
        return read[0].mapped(lambda v: results[v - lowest])
    ratio = scale_of(ifm) / scale_of(ofm)
    return read[0].mapped(lambda v: _stored(rescaled(v - zero_point_of(ifm), ratio), ofm))


def _activation(graph: Graph, op: Operator, read: Sequence[ConstantChannels]) -> ConstantChannels:
    ifm, ofm = graph.read(op), graph.made(op)
    ratio = float(np.float32(scale_of(ifm)) / np.float32(scale_of(ofm)))
    limits = activation_range(ofm.quantisation, ofm.dtype, ACTIVATION_OPERATORS[op.kind])
    return read[0].mapped(lambda v: _stored(rescaled(v - zero_point_of(ifm), ratio), ofm, limits))


def _pooled(graph: Graph, op: Operator, read: Sequence[ConstantChannels]) -> ConstantChannels:
    """The mean and the largest of equal numbers are that number; padding takes no part."""
    ofm = graph.made(op)
    if not same_values(graph.read(op), ofm):
        return _nothing(graph, op, read)
    lowest, highest = activation_range(ofm.quantisation, ofm.dtype, op.attributes(PoolAttrs).activation)
    return read[0].mapped(lambda v: min(max(v, lowest), highest))


def _added_up(graph: Graph, op: Operator, read: Sequence[ConstantChannels]) -> ConstantChannels:
    ifm, ofm, axes = graph.read(op), graph.made(op), op.attributes(ReductionAttrs).axes
    if len(ifm.shape) - 1 in axes or ifm.dtype not in EIGHT_BIT:
        return _nothing(graph, op, read)
    count = math.prod(ifm.shape[axis] for axis in axes)
    real = scale_of(ifm) / scale_of(ofm)
    factor = mean_multiplier(real, count) if op.kind == "MEAN" else multiplier_and_shift(real)
    return read[0].mapped(lambda v: _stored(_multiplied(count * (v - zero_point_of(ifm)), *factor), ofm))


def _padded(graph: Graph, op: Operator, read: Sequence[ConstantChannels]) -> ConstantChannels:
    """PAD puts the zero point around: what holds something else is no longer one value."""
    before, after, *_ = op.attributes(PadAttrs).paddings[-1]
    if (before, after) != (0, 0) or not same_values(graph.read(op), graph.made(op)):
        return _nothing(graph, op, read)
    zero_point = zero_point_of(graph.made(op))
    return read[0].mapped(lambda v: v if v == zero_point else None)


def _copied(graph: Graph, op: Operator, read: Sequence[ConstantChannels]) -> ConstantChannels:
    return read[0] if same_values(graph.read(op), graph.made(op)) else _nothing(graph, op, read)


def _joined(graph: Graph, op: Operator, read: Sequence[ConstantChannels]) -> ConstantChannels:
    """CONCATENATION: one behind the other along channels, else constant where all parts hold the same."""
    ofm = graph.made(op)
    if not all(same_values(graph.read(op, place), ofm) for place in range(len(op.inputs))):
        return _nothing(graph, op, read)
    if op.attributes(ConcatenationAttrs).axis == len(graph.read(op).shape) - 1:
        values, known = ([getattr(part, name) for part in read] for name in ("values", "known"))
        return ConstantChannels(np.concatenate(values), np.concatenate(known))
    return ConstantChannels.of(
        [v[0] if len(set(v)) == 1 else None for v in zip(*(part.listed() for part in read), strict=True)]
    )


_VALUES: Mapping[str, _Follow] = keyed(
    dict.fromkeys(ACTIVATION_OPERATORS, _activation),
    {
        "ADD": _add,
        "AVERAGE_POOL_2D": _pooled,
        "CONCATENATION": _joined,
        "CONV_2D": _weighted,
        "DEPTHWISE_CONV_2D": _depthwise,
        "FULLY_CONNECTED": _weighted,
        "MAX_POOL_2D": _pooled,
        "MEAN": _added_up,
        "PAD": _padded,
        "QUANTIZE": _rescaling,
        "RESIZE_NEAREST_NEIGHBOR": _copied,
        "SUM": _added_up,
    },
)
"""What becomes of constants in operators of each kind; others lose them."""
