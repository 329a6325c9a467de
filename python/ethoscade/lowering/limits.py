"""What the NPU can take: its numeric limits and the checks that several operator families share.

Owns the limits (Ethos-U55/U65 register widths, as Arm's Vela enforces them) and the words in which a limit is reported.
A check returns None, or one reason in plain words with the value found and the limit. Which checks apply to an operator
is its family's business.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..ir import DType, Graph, Operator, Tensor, Window
from ..quantised import MAX_LEFT_SHIFT, multiplier_and_shift

MAX_DIMENSION = 65536
MAX_STRIDE = 3
MAX_DILATION = 2
MAX_KERNEL_ROWS = 64
MAX_KERNEL_ELEMENTS = 4096
MAX_POOL_ROWS = 256
MAX_POOL_ELEMENTS = 65536
MAX_PADDED_AVERAGE = 8
MAX_PAD_BEFORE = 127
MAX_PAD_AFTER = 128
MAX_BIAS = (1 << 39) - 1
MAX_WEIGHT_SUM = 127 * 65536
"""Largest sum of |weight| behind one output: times 255 it stays inside the 32-bit accumulator."""

MAX_ACCUMULATOR = (1 << 31) - 1
LARGEST_VALUE = 255
"""Largest distance of an 8-bit value from its zero point."""

DTYPES = (DType.INT8, DType.UINT8)


def first(reasons: Iterable[str | None]) -> str | None:
    """The first reason there is; later checks of a lazy iterable are not evaluated."""
    return next((reason for reason in reasons if reason is not None), None)


def feature_map(tensor: Tensor, role: str) -> str | None:
    """`tensor` is a non-constant 8-bit value with one scale and zero point; `role` is "input" or "output"."""
    if tensor.is_constant:
        return f"{role} '{tensor.name}' is a constant; the NPU reads feature maps from the arena"
    if tensor.is_variable:
        return f"{role} '{tensor.name}' is a variable, which keeps its value between inferences"
    if tensor.dtype not in DTYPES:
        return f"{role} '{tensor.name}' is {tensor.dtype.value}; int8 and uint8 are possible"
    if tensor.quantisation is None:
        return f"{role} '{tensor.name}' has no quantisation"
    if len(tensor.quantisation.scales) != 1:
        count = len(tensor.quantisation.scales)
        return f"{role} '{tensor.name}' is quantised per channel ({count} scales); one scale is possible"
    return None


def ends(graph: Graph, op: Operator, data_inputs: int = 1) -> str | None:
    """The first `data_inputs` inputs and the only output are feature maps of the NPU."""
    if len(op.outputs) != 1 or len(op.inputs) < data_inputs or any(t is None for t in op.inputs[:data_inputs]):
        return f"{len(op.inputs)} inputs and {len(op.outputs)} outputs; {data_inputs} and 1 are expected"
    inputs = (graph.tensors[t] for t in op.inputs[:data_inputs] if t is not None)
    return first((*(feature_map(t, "input") for t in inputs), feature_map(graph.tensors[op.outputs[0]], "output")))


def same_dtype(*tensors: Tensor) -> str | None:
    """All tensors have one element type."""
    if len({t.dtype for t in tensors}) > 1:
        found = ", ".join(f"'{t.name}' {t.dtype.value}" for t in tensors)
        return f"element types differ ({found}); they must be equal"
    return None


def image(tensor: Tensor) -> str | None:
    """`tensor` is NHWC with batch 1 and dimensions that fit the registers."""
    if len(tensor.shape) != 4:
        return f"'{tensor.name}' has {len(tensor.shape)} dimensions; 4 (NHWC) are needed"
    if tensor.shape[0] != 1:
        return f"'{tensor.name}' has batch {tensor.shape[0]}; only batch 1 is possible"
    return dimensions(tensor.name, tensor.shape[1:])


def dimensions(name: str, shape: tuple[int, ...]) -> str | None:
    """Every dimension of a feature map fits its register."""
    if max(shape) > MAX_DIMENSION:
        return f"'{name}' has a dimension of {max(shape)}; the limit is {MAX_DIMENSION}"
    return None


def elements(tensor: Tensor, natural: tuple[int, int, int]) -> str | None:
    """`tensor` holds as many elements as the output (height, width, depth) that the operator makes."""
    if min(natural) < 1:
        return f"the window leaves an output of {natural} (height, width, depth); every side must be at least 1"
    if int(np.prod(tensor.shape, dtype=np.int64)) != int(np.prod(natural, dtype=np.int64)):
        return f"output '{tensor.name}' has shape {tensor.shape}; the operator makes {natural} (height, width, depth)"
    return dimensions(tensor.name, natural)


def strides(window: Window) -> str | None:
    """Stride and dilation fit the KERNEL_STRIDE register."""
    if max(window.stride_h, window.stride_w) > MAX_STRIDE:
        return f"stride is {window.stride_h}x{window.stride_w}; at most {MAX_STRIDE} is possible"
    if max(window.dilation_h, window.dilation_w) > MAX_DILATION:
        return f"dilation is {window.dilation_h}x{window.dilation_w}; at most {MAX_DILATION} is possible"
    return None


def kernel(window: Window, max_rows: int = MAX_KERNEL_ROWS, max_elements: int = MAX_KERNEL_ELEMENTS) -> str | None:
    """Height and area of the undilated kernel."""
    size = f"{window.kernel_h}x{window.kernel_w}"
    if window.kernel_h > max_rows:
        return f"kernel is {size}; at most {max_rows} rows are possible"
    if window.kernel_h * window.kernel_w > max_elements:
        return f"kernel is {size}, {window.kernel_h * window.kernel_w} elements; at most {max_elements} are possible"
    return None


def padding(window: Window) -> str | None:
    """Padding fits its registers, and no window position lies in padding alone."""
    before, after = max(window.pad_top, window.pad_left), max(window.pad_bottom, window.pad_right)
    if before > MAX_PAD_BEFORE or after > MAX_PAD_AFTER:
        return (
            f"padding is {before} before and {after} after; at most {MAX_PAD_BEFORE} and {MAX_PAD_AFTER} are possible"
        )
    if max(window.pad_top, window.pad_bottom) >= window.dilated_h:
        return (
            f"padding of {window.pad_top} and {window.pad_bottom} rows reaches the kernel's {window.dilated_h}; "
            f"a window may not lie in padding alone"
        )
    if max(window.pad_left, window.pad_right) >= window.dilated_w:
        return (
            f"padding of {window.pad_left} and {window.pad_right} columns reaches the kernel's {window.dilated_w}; "
            f"a window may not lie in padding alone"
        )
    return None


def rescale(real: float, largest: int) -> str | None:
    """The factor from accumulator to output fits the NPU's 32-bit scale and 6-bit shift.

    Sums of up to `largest` stay within 32 bits, before and after the factor shifts them left: where they do not,
    kernels of CPUs wrap and the NPU does not.
    """
    _, shift = multiplier_and_shift(real)
    if shift > MAX_LEFT_SHIFT:
        return f"the factor from accumulator to output is {real:g}; it must be below 2^{MAX_LEFT_SHIFT}"
    return left_shift(shift, largest, real)


def left_shift(shift: int, largest: int, real: float) -> str | None:
    """Sums of up to `largest` stay within 32 bits, also where they are shifted left for the factor `real`."""
    shift = max(shift, 0)
    if largest << shift > MAX_ACCUMULATOR:
        shifted = f", shifted left by {shift} for a factor of {real:g}," if shift else ""
        return f"sums of up to {largest}{shifted} leave 32 bits, where no kernel is defined"
    return None


def npu_scale(real: float) -> tuple[int, int]:
    """TFLite's fixed-point `real` as the NPU writes it: real = scale * 2^-shift, shift in 0..63 (see `rescale`)."""
    significand, shift = multiplier_and_shift(real)
    return significand, 31 - shift
