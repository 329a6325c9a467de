"""Functions of one 16-bit element: tables between whose entries is interpolated, and what the NPU computes itself.

Owns the 513 samples with which TFLite's kernels of int16 fill their tables, in float32, as the NPU's table of bases and
slopes, and the operations of LEAKY_RELU and of RELUs. The zero points of int16 are 0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ir import DType, Graph, LeakyReluAttrs, Operator, Tensor
from ..ir.operators import ACTIVATION_OPERATORS
from ..ir.quantised import activation_range, scale_of
from . import constraints, functions, limits, views
from .feature_maps import FeatureMap
from .maker import AS_IS, Maker
from .npu import (
    Function,
    NpuGraphBuilder,
    OperationKind,
    Scale,
    Table,
)

_STEPS = 512
_LOWEST, _HIGHEST = DType.INT16.limits
_BUILT_IN = {"LOGISTIC": Function.SIGMOID, "TANH": Function.TANH}
_LARGEST_SCALE = 16 / 3
"""Beyond it an input in units of 1/12288, which kernels keep in 32 bits, leaves them."""


def table(op: Operator, ifm: Tensor, ofm: Tensor) -> Table:
    """Bases and slopes of a function, each as the kernel has it. Raises `functions.NoResult`."""
    samples = _samples(_real(op, ofm), scale_of(ifm), scale_of(ofm))
    slopes = np.diff(samples)
    if np.abs(slopes).max() > _HIGHEST:
        raise functions.NoResult("neighbouring entries of its table lie further apart than 16 bits count")
    return Table(np.stack([samples[:-1], slopes], axis=1).astype("<i2").tobytes())


def _real(op: Operator, ofm: Tensor) -> functions.RealFunction:
    if op.kind == "RSQRT":
        largest = np.float32(_HIGHEST) * np.float32(scale_of(ofm))
        return lambda x: np.float32(1) / np.sqrt(x) if x > 0 else largest
    found = functions.real_function(op, ofm)
    assert found is not None, "only functions of reals have tables of 16 bits"
    return found


def _samples(real: Callable[[np.float32], np.float32], scale: float, made: float) -> np.ndarray:
    """Each sample is moved by half of what interpolation errs in the middle of its step."""
    with np.errstate(over="ignore", invalid="ignore"):
        unit, result = np.float32(scale), np.float32(made)
        first, last = unit * np.float32(_LOWEST), unit * np.float32(_HIGHEST)
        step = (last - first) / np.float32(_STEPS)
        inverse = np.float32(1 << 16) / (result * np.float32(_HIGHEST) - result * np.float32(_LOWEST))
        places = [first + np.float32(number) * step for number in range(_STEPS + 1)]
        found = []
        for number, place in enumerate(places[:-1]):
            sample = _whole(real(place) * inverse)
            following = real(places[number + 1]) * inverse
            middle = _whole(real(place + step / np.float32(2)) * inverse)
            error = _whole((following + sample) / np.float32(2)) - middle
            found.append(sample - _whole(error / np.float32(2)))
        found.append(_whole(real(last) * inverse))
    return np.clip(np.array(found, np.float64), _LOWEST, _HIGHEST).astype(np.int64)


def _whole(x: np.float32) -> np.float32:
    """The nearest whole number in float32, halves away from zero."""
    if not np.isfinite(x):
        raise functions.NoResult("it leaves the range of float32, where devices differ")
    found: np.float32 = np.float32(np.copysign(np.floor(np.abs(np.float64(x)) + 0.5), x))
    return found


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One to three operations. Precondition: a family of `lookup` takes the operator."""
    op = graph.operators[op_index]
    shape = views.image_shape(graph.read(op).shape)
    make = Maker(op.name, op_index, builder)
    ifm, ofm = builder.view(op.input(0), shape), builder.view(op.outputs[0], shape)
    tensors = graph.read(op), graph.made(op)
    if op.kind in _BUILT_IN:
        # Told the real scale of its input, the NPU's function scales as the kernel does.
        scale = Scale(*limits.npu_scale(scale_of(tensors[0])))
        make.copy(ifm, ofm, scale, _BUILT_IN[op.kind])
    elif op.kind == "LEAKY_RELU":
        _leaky_relu(make, op, ifm, ofm, tensors)
    elif op.kind in ACTIVATION_OPERATORS:
        scale = Scale(*limits.npu_scale(_ratio(*tensors)))
        clamp = activation_range(tensors[1].quantisation, DType.INT16, ACTIVATION_OPERATORS[op.kind])
        make.copy(ifm, ofm, scale, clamp=clamp)
    elif op.kind == "NEG":
        _negative(make, ifm, ofm)
    else:
        make.look_up(ifm, ofm, table(op, *tensors))


def _negative(make: Maker, ifm: FeatureMap, ofm: FeatureMap) -> None:
    """Each number from 0; the smallest, whose opposite is saturated, less all of 65535: it stays, as in the kernel."""

    def short(kind: OperationKind, a: FeatureMap, b: FeatureMap | int, swap_operands: bool = False) -> FeatureMap:
        made = make.temporary(ifm.shape, DType.INT16)
        scaling = None if kind is OperationKind.MAXIMUM else AS_IS
        return make.point(kind, a, b, made, scaling, swap_operands=swap_operands)

    opposite = short(OperationKind.SUB, ifm, 0, swap_operands=True)
    is_smallest = short(OperationKind.SUB, short(OperationKind.MAXIMUM, ifm, -_HIGHEST), ifm)
    half = short(OperationKind.MUL, is_smallest, _LOWEST)
    make.point(OperationKind.ADD, short(OperationKind.ADD, opposite, half), half, ofm, AS_IS)


def _leaky_relu(
    make: Maker,
    op: Operator,
    ifm: FeatureMap,
    ofm: FeatureMap,
    tensors: tuple[Tensor, Tensor],
) -> None:
    """What is positive and what is negative each times its factor, the other being 0, and their sum.

    The difference if the slope is negative: factors have no sign, as in the kernels, so that halves are rounded alike.
    """
    slope = _slope(op, *tensors)
    positive, negative = (
        make.point(
            OperationKind.MUL,
            ifm,
            1,
            make.temporary(ifm.shape, DType.INT16),
            Scale(*limits.npu_scale(factor)),
            clamp=clamp,
        )
        for factor, clamp in ((_ratio(*tensors), (0, _HIGHEST)), (abs(slope), (_LOWEST, 0)))
    )
    make.point(OperationKind.SUB if slope < 0 else OperationKind.ADD, positive, negative, ofm, AS_IS)


def _ratio(ifm: Tensor, ofm: Tensor) -> float:
    return float(np.float32(scale_of(ifm)) / np.float32(scale_of(ofm)))


def _slope(op: Operator, ifm: Tensor, ofm: Tensor) -> float:
    alpha = np.float32(op.attributes(LeakyReluAttrs).alpha)
    return float(np.float32(scale_of(ifm)) * alpha / np.float32(scale_of(ofm)))


def undefined(case: constraints.Case) -> str | None:
    """Why the NPU and the kernels of int16 do not agree on all results of an operator, or None."""
    op, ifm, ofm = case.op, case.ifm, case.ofm
    for tensor in (ifm, ofm):
        if tensor.quantisation is not None and tensor.quantisation.zero_point:
            return f"'{tensor.name}' has zero point {tensor.quantisation.zero_point}; that of int16 is 0"
    if op.kind in _BUILT_IN:
        if scale_of(ofm) != 1 / 32768:
            return f"its output has scale {scale_of(ofm):g}; kernels make it with 1/32768"
        if scale_of(ifm) >= _LARGEST_SCALE:
            return f"its input has scale {scale_of(ifm):g}; from {_LARGEST_SCALE:g} on kernels leave 32 bits"
        return None
    if op.kind in ACTIVATION_OPERATORS:
        return limits.rescale(_ratio(ifm, ofm), -_LOWEST)
    if op.kind == "NEG":
        return None
    if op.kind == "LEAKY_RELU":
        factors = (_ratio(ifm, ofm), abs(_slope(op, ifm, ofm)))
        return next((why for factor in factors if (why := limits.rescale(factor, -_LOWEST)) is not None), None)
    try:
        table(op, ifm, ofm)
    except functions.NoResult as why:
        return str(why)
    return None
