"""CONV_2D, DEPTHWISE_CONV_2D, TRANSPOSE_CONV and FULLY_CONNECTED of integers.

Sums have 32 bits, those of int16 without a bias of int32 have 64, as the reference kernels have them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import (
    QUANTISED,
    Activation,
    ConvAttrs,
    DType,
    FullyConnectedAttrs,
    Graph,
    Operator,
    Tensor,
    TransposeConvAttrs,
    Window,
)
from ...ir.operators import OPERATORS
from ...ir.quantised import (
    MAX_WIDE_SHIFT,
    activation_range,
    effective_scales,
    reduced_multiplier_and_shift,
    zero_point_of,
)
from ...util.records import dataclass
from .kernel import (
    MOST_BOX,
    Call,
    CKernel,
    Operands,
    array,
    arrays,
    call,
    double_literal,
    elements,
    factor,
    kept,
    quantisation_of,
    refuse,
)

# Sums of 64 bits times 15 bits stay in 64 bits.
_LARGEST_BIAS = 2**46
_WINDOWS = {"CONV_2D": "conv_2d", "DEPTHWISE_CONV_2D": "depthwise_conv_2d", "TRANSPOSE_CONV": "transpose_conv"}


@dataclass(frozen=True)
class _Operator:
    """A weighted operator's tensors, the C of its operands, and the width of its sums."""

    ifm: Tensor
    weights: Tensor
    ofm: Tensor
    pointers: str
    sums: int

    @property
    def words(self) -> dict[str, str | DType]:
        return {"TYPE": self.ifm.dtype, "WEIGHT": self.weights.dtype, "SUM": str(self.sums)}


def _read(graph: Graph, operator: Operator, operands: Operands) -> _Operator:
    place = OPERATORS[operator.kind].data_input
    ifm, weights, ofm = graph.read(operator, place), graph.read(operator, 1), graph.made(operator)
    for tensor in (ifm, ofm):
        quantisation_of(operator, tensor)
    wanted = DType.UINT8 if ifm.dtype is DType.UINT8 else DType.INT8
    if weights.dtype is not wanted or weights.quantisation is None:
        refuse(operator, f"its C kernel wants quantised {wanted.value} weights; '{weights.name}' are not")
    at = max(place, 1) + 1
    bias = operator.inputs[at] if len(operator.inputs) > at else None
    sums = 32
    if ifm.dtype is DType.INT16 and (bias is None or graph.tensors[bias].dtype is not DType.INT32):
        sums = 64
    pointer = "NULL"
    if bias is not None:
        _check_bias(operator, graph.tensors[bias], DType.INT64 if sums == 64 else DType.INT32)
        pointer = operands.source(bias)
    sources = [operands.source(operator.input(index)) for index in (place, 1)]
    return _Operator(ifm, weights, ofm, ", ".join([*sources, pointer, operands.target(operator.outputs[0])]), sums)


def _check_bias(operator: Operator, bias: Tensor, wanted: DType) -> None:
    if bias.dtype is not wanted:
        refuse(operator, f"its C kernel adds a bias of {wanted.value}; '{bias.name}' is {bias.dtype.value}")
    if wanted is DType.INT64 and bias.data is not None and abs(bias.data.astype(float)).max() > _LARGEST_BIAS:
        refuse(operator, f"bias '{bias.name}' goes beyond {_LARGEST_BIAS}; products of larger sums leave 64 bits")


def _stage(of: _Operator, kind: str, activation: Activation) -> Sequence[int]:
    """Zero points of input, weights and output, smallest and largest result."""
    # Convolutions with int8 weights are symmetric by specification: kernels ignore a stored zero point.
    symmetric = kind != "FULLY_CONNECTED" and of.weights.dtype is DType.INT8
    limits = activation_range(of.ofm.quantisation, of.ofm.dtype, activation)
    return zero_point_of(of.ifm), 0 if symmetric else zero_point_of(of.weights), zero_point_of(of.ofm), *limits


def _factors(of: _Operator, operator: Operator, channels: int) -> tuple[str, int]:
    """Declarations of `multipliers` and `shifts`, and how far apart those of two channels are."""
    found = []
    for real in effective_scales(operator.kind, of.ifm, of.weights, of.ofm):
        pair = factor(operator, real)
        if of.sums == 64:
            pair = reduced_multiplier_and_shift(real)
            if pair[1] > MAX_WIDE_SHIFT:
                refuse(operator, f"it multiplies by {real:g}; sums of 64 bits by less than 2^{MAX_WIDE_SHIFT}")
        found.append(pair)
    if len(found) not in (1, channels):
        refuse(operator, f"weights '{of.weights.name}' have {len(found)} scales for {channels} output channels")
    return arrays({"multipliers": [m for m, _ in found], "shifts": [s for _, s in found]}), int(len(found) > 1)


def _write_window(graph: Graph, operator: Operator, operands: Operands) -> Call:
    attrs = operator.attrs
    if not isinstance(attrs, (ConvAttrs, TransposeConvAttrs)):
        refuse(operator, operator.opaque or "its window is not known at compile time")
    of = _read(graph, operator, operands)
    window, channels = attrs.window, of.ofm.shape[3]
    reach = _reach(of.ofm, window) if isinstance(attrs, ConvAttrs) else _reach(of.ifm, window)
    if reach > MOST_BOX:
        refuse(operator, f"its window reaches {reach} rows or columns; its C kernel counts to {MOST_BOX}")
    declared, step = _factors(of, operator, channels)
    steps = (window.stride_h, window.stride_w, window.dilation_h, window.dilation_w, window.pad_top, window.pad_left)
    fixed = {
        "shapes": (*of.ifm.shape, *of.weights.shape, *of.ofm.shape),
        "window": steps,
        "stage": _stage(of, operator.kind, attrs.activation),
    }
    file = _WINDOWS[operator.kind]
    function = f"{file}_{of.ifm.dtype.value}_{of.sums}"
    text = f"{arrays(fixed)}{declared}{function}({of.pointers}, shapes, window, stage, multipliers, shifts, {step});"
    return call(f"{file}.c", function, text, **of.words)


def _reach(tensor: Tensor, window: Window) -> int:
    """Rows or columns that a kernel of 32 bits counts."""
    down = tensor.shape[1] * window.stride_h + window.dilated_h + window.pad_top
    return max(down, tensor.shape[2] * window.stride_w + window.dilated_w + window.pad_left)


def _write_dense(graph: Graph, operator: Operator, operands: Operands) -> Call:
    attrs = operator.attrs
    if not isinstance(attrs, FullyConnectedAttrs):
        refuse(operator, operator.opaque or "its attributes are not known")
    of = _read(graph, operator, operands)
    channels, depth = of.weights.shape
    sizes = f"{elements(of.ifm) // depth}, {depth}, {channels}"
    stage = array("stage", _stage(of, operator.kind, attrs.activation))
    if of.ifm.dtype is DType.UINT8:
        real, *others = effective_scales(operator.kind, of.ifm, of.weights, of.ofm)
        if others:
            refuse(operator, "its uint8 weights have a scale per channel; kernels take one")
        text = f"{stage}fully_connected_once_uint8({of.pointers}, {sizes}, stage, {double_literal(real)});"
        return call("fully_connected_once.c", "fully_connected_once_uint8", text, TYPE=DType.UINT8)
    declared, step = _factors(of, operator, channels)
    function = f"fully_connected_{of.ifm.dtype.value}_{of.sums}"
    text = f"{stage}{declared}{function}({of.pointers}, {sizes}, stage, multipliers, shifts, {step});"
    return call("fully_connected.c", function, text, **of.words)


WINDOWED = CKernel(tuple(_WINDOWS), _write_window, kept(*QUANTISED))
DENSE = CKernel(("FULLY_CONNECTED",), _write_dense, kept(*QUANTISED))
