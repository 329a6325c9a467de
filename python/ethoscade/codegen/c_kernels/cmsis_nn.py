"""CMSIS-NN's functions instead of our kernels: CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED of int8 and int16.

Owns which operators they take bit by bit, the calls, the bytes that they work in, and the check of the library's header
against what is called. The library itself is the firmware's. What it does not take exactly stays with our kernels.
Interface and sizes: Include/arm_nnfunctions.h and the buffer sizes beside its sources, of CMSIS-NN 7.0.0.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ...errors import ConfigError
from ...ir import Activation, ConvAttrs, DType, FullyConnectedAttrs, Graph, Operator, Tensor, Window
from ...ir.quantised import activation_range, effective_scales, multiplier_and_shift, zero_point_of
from ...util.arguments import shown
from ...util.files import read_whole
from ...util.records import dataclass
from .kernel import Call, Operands, arrays, elements
from .texts import source

NAME = "cmsis-nn"
"""What a user says for it; with ":c", ":dsp" or ":mve" behind, only for a build of the library for such a core."""

CORES = ("c", "dsp", "mve")
VARIABLE = "CMSIS_NN"
"""The environment variable with the default of the library's folder."""

_HEADERS = ("arm_nnfunctions.h", "Include/arm_nnfunctions.h")
_MOST_BYTES = 1 << 24
# What is called, and how many parameters it has.
_DECLARED = {
    "arm_convolve_wrapper_s8": 11,
    "arm_convolve_wrapper_s8_get_buffer_size": 4,
    "arm_convolve_wrapper_s16": 11,
    "arm_convolve_wrapper_s16_get_buffer_size": 4,
    "arm_depthwise_conv_wrapper_s8": 11,
    "arm_depthwise_conv_wrapper_s8_get_buffer_size": 4,
    "arm_depthwise_conv_wrapper_s16": 11,
    "arm_depthwise_conv_wrapper_s16_get_buffer_size": 4,
    "arm_fully_connected_s8": 11,
    "arm_fully_connected_per_channel_s8": 11,
    "arm_fully_connected_s8_get_buffer_size": 1,
    "arm_fully_connected_s16": 11,
    "arm_fully_connected_s16_get_buffer_size": 1,
    "arm_vector_sum_s8": 7,
}
# Sums of int16 times int8 stay in 32 bits, which the convolution of int16 adds in.
_MOST_SUMMED = 512
# What the library shifts by one at last must be 32 bits wide by then.
_LARGEST_RESULT = 2**30
# Channels that the library's depthwise convolutions take at once with MVE.
_BLOCK = 124


@dataclass(frozen=True)
class CmsisNn:
    """The library: the cores that its scratch is planned for, and its folder."""

    cores: tuple[str, ...] = CORES
    folder: str = ""


def is_meant(kernels: object) -> bool:
    """Whether a user's choice of kernels is this library, and not a file."""
    return isinstance(kernels, str) and kernels.split(":")[0] == NAME


def read(kernels: str, folder: str | os.PathLike[str] | None) -> CmsisNn:
    """The library by what a user says, "cmsis-nn" or "cmsis-nn:mve", its header in `folder` checked.

    Raises `ConfigError` for a core that there is not, no folder, or a header that has other functions.
    """
    core = kernels.removeprefix(NAME).removeprefix(":")
    if ":" in kernels and core not in CORES:
        raise ConfigError(f"kernels is {shown(kernels)}; behind '{NAME}:' comes {', '.join(CORES[:-1])} or {CORES[-1]}")
    told = folder or os.environ.get(VARIABLE)
    if not told:
        raise ConfigError(
            f"kernels '{NAME}' are checked against the library's headers: tell CMSIS-NN's folder by --cmsis-nn "
            f"(cmsis_nn in Python) or the environment variable {VARIABLE}"
        )
    header = next((path for path in (Path(told) / name for name in _HEADERS) if path.is_file()), None)
    if header is None:
        raise ConfigError(f"'{told}' is no folder of CMSIS-NN: it has no {_HEADERS[1]}")
    _check(header)
    return CmsisNn((core,) if core else CORES, str(Path(told).resolve()))


def _check(header: Path) -> None:
    text = read_whole(header, _MOST_BYTES).decode("utf-8", "replace")
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
    found = {name: given.count(",") + 1 for name, given in re.findall(r"\b(arm_\w+)\s*\(([^(){};]*)\)\s*;", text)}
    for name, parameters in _DECLARED.items():
        if found.get(name) != parameters:
            told = f"with {found[name]} parameters" if name in found else "nowhere"
            raise ConfigError(
                f"'{header}' declares {name} {told}, and the sources would call it with {parameters}; take CMSIS-NN "
                f"7.0.0 or newer"
            )


# --- what it takes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Weighted:
    """An operator that the library does: its tensors, factors by output channel, limits of results, function suffix."""

    ifm: Tensor
    weights: Tensor
    ofm: Tensor
    bias: Tensor | None
    factors: Sequence[tuple[int, int]]
    limits: tuple[int, int]
    pointers: Mapping[str, str]

    @property
    def suffix(self) -> str:
        return "s8" if self.ifm.dtype is DType.INT8 else "s16"

    @property
    def params(self) -> dict[str, int]:
        """The members that all structs of parameters have; the library adds offsets to values."""
        low, high = self.limits
        offsets = {"input_offset": -zero_point_of(self.ifm), "output_offset": zero_point_of(self.ofm)}
        return offsets | {"activation.min": low, "activation.max": high}


def write(graph: Graph, operator: Operator, operands: Operands, library: CmsisNn) -> Call | None:
    """The operator's call of the library, None for one that is not the library's or would not be exact."""
    attrs = operator.attrs
    if isinstance(attrs, ConvAttrs) and operator.kind in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        of = _read(graph, operator, attrs.activation, operands)
        if of is not None:
            write_one = _conv if operator.kind == "CONV_2D" else _depthwise
            return write_one(of, attrs, library)
    if isinstance(attrs, FullyConnectedAttrs) and operator.kind == "FULLY_CONNECTED":
        of = _read(graph, operator, attrs.activation, operands)
        return None if of is None else _dense(of, library)
    return None


def _read(graph: Graph, operator: Operator, activation: Activation, operands: Operands) -> _Weighted | None:
    ifm, weights, ofm = graph.read(operator, 0), graph.read(operator, 1), graph.made(operator)
    index = operator.inputs[2] if len(operator.inputs) > 2 else None
    bias = None if index is None else graph.tensors[index]
    is_wide = ifm.dtype is DType.INT16
    added = DType.INT64 if is_wide else DType.INT32
    if (
        ifm.dtype not in (DType.INT8, DType.INT16)
        or ofm.dtype is not ifm.dtype
        or weights.dtype is not DType.INT8
        or not weights.is_constant
        or any(t.quantisation is None or len(t.quantisation.scales) == 0 for t in (ifm, weights, ofm))
        or (bias is not None and (bias.dtype is not added or not bias.is_constant))
    ):
        return None
    channels = ofm.shape[-1]
    reals = list(effective_scales(operator.kind, ifm, weights, ofm))
    factors = [multiplier_and_shift(real) for real in reals]
    # The library shifts to the left in 32 bits, and to the right by less than 31.
    if len(factors) not in (1, channels) or any(not -31 < shift <= 0 for _, shift in factors):
        return None
    if is_wide:
        summed = elements(weights) // channels if operator.kind != "DEPTHWISE_CONV_2D" else elements(weights)
        most = 2**15 * 2**7 * summed
        most += 0 if bias is None or bias.data is None else int(np.abs(bias.data.astype(float)).max())
        if most * max(reals) >= _LARGEST_RESULT or (operator.kind == "CONV_2D" and summed > _MOST_SUMMED):
            return None
    pointers = {
        "input": operands.source(operator.input(0)),
        "filter": operands.source(operator.input(1)),
        "bias": "NULL" if index is None else operands.source(index),
        "output": operands.target(operator.outputs[0]),
    }
    limits = activation_range(ofm.quantisation, ofm.dtype, activation)
    return _Weighted(ifm, weights, ofm, bias, factors, limits, pointers)


# --- the calls --------------------------------------------------------------------------------------------------------


def _conv(of: _Weighted, attrs: ConvAttrs, library: CmsisNn) -> Call | None:
    channels, height, width, depth = of.weights.shape
    window = attrs.window
    if depth != of.ifm.shape[3] or window.pad_left > window.dilated_w:
        return None
    summed = height * width * depth
    if of.suffix == "s16":
        sizes = {"c": 4 * summed, "dsp": 4 * summed, "mve": 8 * _up(summed, 8)}
    elif (height, width, window.dilation_h, window.dilation_w, window.pad_top, window.pad_left) == (1, 1, 1, 1, 0, 0):
        # With armclang a pair of rows is widened.
        sizes = {"c": 0, "dsp": 4 * depth, "mve": 0}
    else:
        sizes = {"c": 4 * _up(summed, 4), "dsp": 4 * _up(summed, 4), "mve": 4 * _up(summed, 16)}
    # What MVE copies of a single row, padding no wider than the window included, are less than four windows.
    declared = _struct("cmsis_nn_conv_params", "params", of.params | _steps(window))
    dims = (of.ifm.shape, (channels, height, width, depth), of.ofm.shape)
    return _call(of, f"arm_convolve_wrapper_{of.suffix}", declared, dims, max(sizes[core] for core in library.cores))


def _depthwise(of: _Weighted, attrs: ConvAttrs, library: CmsisNn) -> Call | None:
    _, height, width, channels = of.weights.shape
    depth, window = of.ifm.shape[3], attrs.window
    if channels % depth:
        return None
    area = height * width
    if of.suffix == "s16":
        sizes = {"c": 0, "dsp": 2 * depth * area, "mve": 8 * depth * area + 8}
    else:
        # A single channel becomes a convolution with MVE, its weights turned round beside that one's scratch.
        turned = 4 * _up(area, 16) + channels * area if depth == 1 else 0
        sizes = {"c": 0, "dsp": 2 * depth * area, "mve": max(4 * _BLOCK * area, turned)}
    members = of.params | {"ch_mult": channels // depth} | _steps(window)
    declared = _struct("cmsis_nn_dw_conv_params", "params", members)
    dims = (of.ifm.shape, (1, height, width, channels), of.ofm.shape)
    needed = max(sizes[core] for core in library.cores)
    return _call(of, f"arm_depthwise_conv_wrapper_{of.suffix}", declared, dims, needed)


def _dense(of: _Weighted, library: CmsisNn) -> Call | None:
    channels, depth = of.weights.shape
    batches = elements(of.ifm) // depth
    is_per_channel = len(of.factors) > 1
    if of.suffix == "s16" and (is_per_channel or zero_point_of(of.weights)):
        return None
    offset = -zero_point_of(of.weights)
    declared = _struct("cmsis_nn_fc_params", "params", of.params | {"filter_offset": offset})
    dims = ((batches, 1, 1, depth), (depth, 1, 1, channels), (batches, 1, 1, channels))
    sums = ""
    needed = 0
    if of.suffix == "s8":
        needed = 4 * channels if "mve" in library.cores else 0
        pointers = f"{_as('int8_t', of.pointers['filter'])}, {-zero_point_of(of.ifm)}, {offset}, {_bias(of)}"
        sums = (
            f"if (context.size > 0) {{\n"
            f"  (void)arm_vector_sum_s8((int32_t*)context.buf, {depth}, {channels}, {pointers});\n}}\n"
        )
    name = "arm_fully_connected_per_channel_s8" if is_per_channel else f"arm_fully_connected_{of.suffix}"
    size = f"arm_fully_connected_{of.suffix}_get_buffer_size(&filter_dims)"
    return _call(of, name, declared, dims, needed, size=size, before=sums, is_per_channel=is_per_channel)


def _call(
    of: _Weighted,
    name: str,
    declared: str,
    dims: tuple[Sequence[int], Sequence[int], Sequence[int]],
    needed: int,
    *,
    size: str = "",
    before: str = "",
    is_per_channel: bool = True,
) -> Call:
    """The statements that set the structs up and call `name`; `needed` bytes are planned for its context."""
    size = size or f"{name}_get_buffer_size(&params, &input_dims, &filter_dims, &output_dims)"
    channels = of.ofm.shape[-1]
    kind = of.ifm.dtype.value
    if is_per_channel:
        each = of.factors if len(of.factors) > 1 else [of.factors[0]] * channels
        quant = arrays({"multipliers": [m for m, _ in each], "shifts": [s for _, s in each]})
        # The library's struct has pointers to what it only reads.
        members = {name: f"(int32_t*)(uintptr_t){name}s" for name in ("multiplier", "shift")}
        quant += _struct("cmsis_nn_per_channel_quant_params", "quant", members)
    else:
        (multiplier, shift), *_ = of.factors
        quant = _struct("cmsis_nn_per_tensor_quant_params", "quant", {"multiplier": multiplier, "shift": shift})
    bias = _bias(of)
    if name == "arm_convolve_wrapper_s16":
        # A member that is constant can only be initialised: data, is_int32_bias.
        declared += f"const cmsis_nn_bias_data bias = {{{bias}, false}};\n"
        bias = "&bias"
    named = dict(zip(("input", "filter", "output"), dims, strict=True)) | {"bias": (1, 1, 1, channels)}
    for what, shape in named.items():
        declared += _struct("cmsis_nn_dims", f"{what}_dims", dict(zip("nhwc", shape, strict=True)))
    buffer = {"buf": "WORKSPACE" if needed else "NULL", "size": size}
    context = (
        f"{_struct('cmsis_nn_context', 'context', buffer)}\nif (context.size > {needed}) {{\n  return TOO_SMALL;\n}}\n"
    )
    arguments = (
        f"&context, &params, &quant, &input_dims, {_as(f'{kind}', of.pointers['input'])}, &filter_dims, "
        f"{_as('int8_t', of.pointers['filter'])}, &bias_dims, {bias}, &output_dims, "
    )
    return Call(
        name,
        f"{quant}{declared}{context}{before}",
        (source("cmsis_nn.c"),),
        needed,
        status=f"{name}({arguments}({kind}_t*)(void*)({of.pointers['output']})) == ARM_CMSIS_NN_SUCCESS",
    )


def _steps(window: Window) -> dict[str, int]:
    pairs = {
        "stride": (window.stride_h, window.stride_w),
        "padding": (window.pad_top, window.pad_left),
        "dilation": (window.dilation_h, window.dilation_w),
    }
    return {f"{name}.{axis}": value for name, (h, w) in pairs.items() for axis, value in (("h", h), ("w", w))}


def _struct(kind: str, name: str, members: Mapping[str, object]) -> str:
    """A variable of a struct, its members set by name: C++17 has no designated initialisers."""
    return f"{kind} {name};\n" + "".join(f"{name}.{member} = {value};\n" for member, value in members.items())


def _bias(of: _Weighted) -> str:
    kind = "int64_t" if of.suffix == "s16" else "int32_t"
    return "NULL" if of.bias is None else _as(kind, of.pointers["bias"])


def _as(kind: str, pointer: str) -> str:
    """A pointer to bytes as one to elements, which lie aligned."""
    kind = kind if kind.endswith("_t") else f"{kind}_t"
    return f"(const {kind}*)(const void*)({pointer})"


def _up(count: int, step: int) -> int:
    return -(-count // step) * step
