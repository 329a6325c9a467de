"""What convolutions of all kinds and fully connected share: constant weights, bias and per-channel scales.

Owns the step from TFLite's weight tensors to `stage.Weights` and the constraints on them. Formulas are
`ir.quantised`'s.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import numpy.typing as npt

from ..ir import Array, DType, Graph, Operator, Tensor, Window
from ..ir.operators import OPERATORS
from ..ir.quantised import MAX_WIDE_SHIFT, effective_scales, zero_point_of
from ..util.records import dataclass
from . import limits, views
from .constraints import SUMS, Case, Constraint, OneType, feature_maps, named_types
from .npu import Rounding, Weights

_PIECE_WEIGHTS = 1 << 16
"""Weights that are looked at together."""
_EASY_BIAS = limits.MAX_ACCUMULATOR - limits.LARGEST_VALUE * limits.MAX_WEIGHT_SUM
"""A bias up to this fits the accumulator with any weights that fit it."""


def operands(graph: Graph, op: Operator) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """Input, weights, bias (or None) and output tensors. Raises `ModelFormatError` where one of them is missing."""
    values = OPERATORS[op.kind].data_input
    last = max(values, 1) + 1
    bias = op.inputs[last] if len(op.inputs) > last else None
    return graph.read(op, values), graph.read(op, 1), None if bias is None else graph.tensors[bias], graph.made(op)


@dataclass(frozen=True)
class ConstantWeights(Constraint):
    """Weights are constants of `rank` dimensions, of which `output_axis` runs over output channels."""

    rank: int
    output_axis: int
    sum_limit: int = limits.MAX_WEIGHT_SUM

    def __str__(self) -> str:
        return (
            f"weights are constant, with one scale or one for each output channel, and one zero point; the magnitudes "
            f"of one channel's add up to at most {self.sum_limit}"
        )

    def _against(self, case: Case) -> str | None:
        weights = case.graph.read(case.op, 1)
        if weights.data is None:
            return f"weights '{weights.name}' are not constant"
        if len(weights.shape) != self.rank:
            return f"weights '{weights.name}' have shape {weights.shape}; {self.rank} dimensions are needed"
        if weights.quantisation is None:
            return f"weights '{weights.name}' have no quantisation"
        if weights.quantisation.axis not in (None, self.output_axis):
            return (
                f"weights '{weights.name}' are quantised along axis {weights.quantisation.axis}, not along the outputs"
            )
        channels = weights.shape[self.output_axis]
        count = len(weights.quantisation.scales)
        if count not in (1, channels):
            return (
                f"weights '{weights.name}' have {count} scales; 1 or {channels}, one per output channel, are possible"
            )
        if len(set(weights.quantisation.zero_points)) > 1:
            return f"weights '{weights.name}' have different zero points per channel; one is possible"
        heaviest = int(_magnitudes(weights, self.output_axis).max(initial=0))
        if heaviest > self.sum_limit:
            return f"magnitudes of one channel's weights add up to {heaviest}; the limit is {self.sum_limit}"
        return None


@dataclass(frozen=True)
class ConstantBias(Constraint):
    """The bias, where there is one, is a constant of one of `types` up to `most`, one for each output channel."""

    output_axis: int
    most: int = limits.MAX_BIAS
    types: tuple[DType, ...] = (DType.INT32, DType.INT64)

    def __str__(self) -> str:
        return f"a bias is a constant of {named_types(self.types, 'or')}, of at most {self.most} in magnitude"

    def _against(self, case: Case) -> str | None:
        _, weights, bias, _ = operands(case.graph, case.op)
        channels = weights.shape[self.output_axis]
        if bias is None:
            return None
        if bias.data is None:
            return f"bias '{bias.name}' is not constant"
        if bias.data.size != channels:
            return f"bias '{bias.name}' has {bias.data.size} elements; there are {channels} output channels"
        if bias.dtype not in self.types:
            return f"bias '{bias.name}' is {bias.dtype.value}; {named_types(self.types)} are possible"
        largest = max(abs(int(bias.data.max())), abs(int(bias.data.min())))
        return f"bias '{bias.name}' reaches {largest}; the limit is {self.most}" if largest > self.most else None


@dataclass(frozen=True)
class Accumulators(Constraint):
    """Sums, with the bias, stay within 32 bits, wherever they matter to the output; within 40 where they are wide."""

    output_axis: int

    def __str__(self) -> str:
        return f"{SUMS}; of int16 without a bias of int32, within 40 bits, and factors below 2^{MAX_WIDE_SHIFT}"

    def _against(self, case: Case) -> str | None:
        ifm, weights, bias, ofm = operands(case.graph, case.op)
        reals = effective_scales(case.op.kind, ifm, weights, ofm)
        if ifm.dtype is DType.INT16:
            return _scales_of_int16(reals, weights, bias, self.output_axis)
        return _scales(reals, weights, bias, self.output_axis)


def takes(rank: int, output_axis: int) -> tuple[Constraint, ...]:
    """What all weighted operators demand, for weights of `rank` dimensions of which `output_axis` is the outputs'."""
    return (
        feature_maps(),
        OneType(weights=1),
        ConstantWeights(rank, output_axis),
        ConstantBias(output_axis),
        Accumulators(output_axis),
    )


def _magnitudes(weights: Tensor, output_axis: int) -> npt.NDArray[np.int64]:
    """The sum of |weight| behind each output channel. Precondition: the weights are constant."""
    channels = np.moveaxis(weights.constant(), output_axis, 0)
    zero_point = _zero_point(weights)
    wide = np.int16 if channels.dtype.itemsize == 1 else np.int64
    # A few channels at a time: wide integers take several times the file's bytes.
    step = max(_PIECE_WEIGHTS * len(channels) // max(channels.size, 1), 1)
    found = np.zeros(len(channels), np.int64)
    for first in range(0, len(channels), step):
        centred = channels[first : first + step].astype(wide) - wide(zero_point)
        found[first : first + step] = np.abs(centred).reshape(len(centred), -1).sum(axis=1, dtype=np.int64)
    return found


def _scales(reals: tuple[float, ...], weights: Tensor, bias: Tensor | None, output_axis: int) -> str | None:
    constant = np.zeros(1, np.int64)
    if bias is not None and bias.data is not None:
        constant = np.abs(bias.data.reshape(-1).astype(np.int64))
    if max(reals) < 0.5 and int(constant.max()) <= _EASY_BIAS:
        return None
    sums = limits.LARGEST_VALUE * _magnitudes(weights, output_axis) + constant
    factors = np.broadcast_to(np.array(reals), sums.shape)
    # What rounds to zero does so whichever way a sum wraps: dead channels have such biases.
    matter = np.minimum(sums, 1 << 31) * factors >= 0.49
    # None is wrong where the largest sum would bear the largest shift.
    if not matter.any() or limits.rescale(float(factors[matter].max()), int(sums[matter].max())) is None:
        return None
    wrong = (
        limits.rescale(float(real), int(most))
        for real, most, matters in zip(factors, sums, matter, strict=True)
        if matters
    )
    return next((why for why in wrong if why is not None), None)


def _scales_of_int16(reals: tuple[float, ...], weights: Tensor, bias: Tensor | None, output_axis: int) -> str | None:
    constant = np.zeros(1, np.int64)
    if bias is not None and bias.data is not None:
        constant = np.abs(bias.data.reshape(-1).astype(np.int64))
    most = limits.largest_value(DType.INT16) * _magnitudes(weights, output_axis) + constant
    check = limits.wide_rescale if bias is None or bias.dtype is DType.INT64 else limits.rescale
    factors = np.broadcast_to(np.array(reals), most.shape)
    wrong = (check(float(real), int(largest)) for real, largest in zip(factors, most, strict=True))
    return next((why for why in wrong if why is not None), None)


def is_wide(graph: Graph, op: Operator) -> bool:
    """Whether kernels sum in 64 bits and scale by 16: with int16, unless a bias of int32 makes them sum in 32."""
    ifm, _, bias, _ = operands(graph, op)
    return ifm.dtype is DType.INT16 and (bias is None or bias.dtype is DType.INT64)


def rounding(graph: Graph, op: Operator) -> Rounding:
    """How outputs are rounded: once where sums are wide."""
    return Rounding.NATURAL if is_wide(graph, op) else Rounding.TFL


def sums(graph: Graph, op: Operator, output_axis: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The smallest and largest accumulator, bias included, that each output channel can have."""
    ifm, weights, bias, _ = operands(graph, op)
    values = weights.constant()
    zero_point = _zero_point(weights)
    centred = values if zero_point == 0 else values.astype(np.int16) - np.int16(zero_point)
    others = tuple(axis for axis in range(values.ndim) if axis != output_axis)
    up = np.maximum(centred, 0).sum(axis=others, dtype=np.int64)
    down = np.minimum(centred, 0).sum(axis=others, dtype=np.int64)
    least, most = (limit - zero_point_of(ifm) for limit in ifm.dtype.limits)
    added = np.int64(0) if bias is None or bias.data is None else bias.data.astype(np.int64).reshape(-1)
    return up * least + down * most + added, up * most + down * least + added


def _zero_point(weights: Tensor) -> int:
    """The zero point that kernels subtract: int8 convolution weights are symmetric, whatever the file says.

    FULLY_CONNECTED has two dimensions and no such rule.
    """
    quantisation = weights.quantisation
    if quantisation is None or (weights.dtype is DType.INT8 and len(weights.shape) == 4):
        return 0
    return quantisation.zero_points[0]


def constants(graph: Graph, op: Operator, ohwi: Array, scale: tuple[int, int] | None = None) -> Weights:
    """The operation's constants; `ohwi` are the stored weights rearranged to (outputs, height, width, inputs).

    `scale` is the NPU's for all channels where it is not TFLite's fixed-point form of the real factor.
    """
    ifm, weights, bias, ofm = operands(graph, op)
    channels = ohwi.shape[0]
    if scale is None:
        reals = effective_scales(op.kind, ifm, weights, ofm)
        of_reals = limits.wide_scales if is_wide(graph, op) else limits.npu_scales
        multipliers, shifts = of_reals(reals)
    else:
        multipliers, shifts = (np.array([part], np.int64) for part in scale)
    if len(multipliers) == 1:
        multipliers, shifts = multipliers.repeat(channels), shifts.repeat(channels)
    values = np.zeros(channels, np.int64) if bias is None or bias.data is None else bias.data.astype(np.int64)
    return Weights(
        values=cast(npt.NDArray[np.integer], ohwi),
        bias=values.reshape(-1),
        multipliers=multipliers,
        shifts=shifts,
        zero_point=_zero_point(weights),
    )


def spread(constants: Weights, window: Window) -> Weights:
    """The constants for `views.densest` of a window: where it has more taps, weights of zero between the others."""
    dense, stored = views.densest(window), constants.values
    if (dense.kernel_h, dense.kernel_w) == (window.kernel_h, window.kernel_w):
        return constants
    outputs, _, _, depth = stored.shape
    values = np.full((outputs, dense.kernel_h, dense.kernel_w, depth), constants.zero_point, stored.dtype)
    down, right = window.dilation_h // dense.dilation_h, window.dilation_w // dense.dilation_w
    values[:, ::down, ::right] = stored
    return replace(constants, values=values)
