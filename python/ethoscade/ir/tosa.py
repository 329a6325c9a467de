"""What TOSA 1.0's attributes and parameter operands say: a frozen record for each operator with any.

Owns the fields and their meaning. All of them are integers or enumerations: TOSA has no scales. Zero points, shifts,
multipliers, tables, shapes and paddings are operands in a file, constant by the specification ("CTC"); here they are
fields. `local_bound` and `nan_mode` concern real numbers alone and have no field.
"""

from __future__ import annotations

import enum

from ..util.records import dataclass
from .tensor import DType


class RescaleRounding(enum.Enum):
    """How RESCALE rounds: once, half up; twice, as gemmlowp does; or in any way within the specification's bound."""

    SINGLE = "single"
    DOUBLE = "double"
    INEXACT = "inexact"


class ResizeMode(enum.Enum):
    """How RESIZE makes a pixel of its neighbours."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"


@dataclass(frozen=True)
class Rescale:
    """RESCALE: out = clip(round((x - input_zero_point) * multiplier / 2**shift) + output_zero_point).

    One multiplier (0 or more) and one shift (2 to 62) for the tensor, or one for each element of its last axis.
    `is_scale32` says that multipliers have 32 bits, else 16. An unsigned side holds its elements' bits in a signed
    tensor of 8 or 16 bits; its zero point is the unsigned number.
    """

    multipliers: tuple[int, ...]
    shifts: tuple[int, ...]
    input_zero_point: int
    output_zero_point: int
    rounding: RescaleRounding
    is_scale32: bool = True
    is_input_unsigned: bool = False
    is_output_unsigned: bool = False


@dataclass(frozen=True)
class Convolution:
    """CONV2D (weights OHWI), DEPTHWISE_CONV2D (weights HWCM) and CONV3D (weights ODHWI).

    `stride` and `dilation` have an entry for each axis of the kernel, `pad` two: before and after.
    """

    pad: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    input_zero_point: int
    weight_zero_point: int
    accumulator: DType


@dataclass(frozen=True)
class TransposeConvolution:
    """TRANSPOSE_CONV2D (weights OHWI): `out_pad` (top, bottom, left, right) widens the output, or crops it below 0."""

    out_pad: tuple[int, ...]
    stride: tuple[int, ...]
    input_zero_point: int
    weight_zero_point: int
    accumulator: DType


@dataclass(frozen=True)
class AveragePool:
    """AVG_POOL2D: `kernel` and `stride` (y, x), `pad` (top, bottom, left, right), which the average leaves out."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pad: tuple[int, ...]
    input_zero_point: int
    output_zero_point: int
    accumulator: DType


@dataclass(frozen=True)
class MaxPool:
    """MAX_POOL2D: `kernel` and `stride` (y, x), `pad` (top, bottom, left, right), which never wins."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pad: tuple[int, ...]


@dataclass(frozen=True)
class MatMul:
    """MATMUL: the zero points of [N, H, C] and [N, C, W]."""

    a_zero_point: int
    b_zero_point: int


@dataclass(frozen=True)
class Negate:
    """NEGATE: out = clip(output_zero_point - (x - input_zero_point))."""

    input_zero_point: int
    output_zero_point: int


@dataclass(frozen=True)
class Clamp:
    """CLAMP: the smallest and the largest value of the output."""

    lowest: int
    highest: int


@dataclass(frozen=True)
class ArithmeticRightShift:
    """ARITHMETIC_RIGHT_SHIFT: whether the last bit shifted out is added, which rounds half up."""

    is_rounding: bool


@dataclass(frozen=True)
class Mul:
    """MUL: int32 products are shifted right by `shift` (0 to 63), half up; 0 keeps the lowest 32 bits."""

    shift: int


@dataclass(frozen=True)
class LookupTable:
    """TABLE: 256 results of int8 from -128 on, or 513 values of int16 between which int16 interpolates."""

    values: tuple[int, ...]


@dataclass(frozen=True)
class OneAxis:
    """ARGMAX, CONCAT, REVERSE and REDUCE_*: the axis, from 0 on."""

    axis: int


@dataclass(frozen=True)
class Reshape:
    """RESHAPE: the new shape."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class Pad:
    """PAD: elements of `value` in front of and behind each axis."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    value: int


@dataclass(frozen=True)
class Slice:
    """SLICE: the first element and the number of elements along each axis."""

    start: tuple[int, ...]
    size: tuple[int, ...]


@dataclass(frozen=True)
class TileCounts:
    """TILE: how often each axis is repeated."""

    multiples: tuple[int, ...]


@dataclass(frozen=True)
class Transpose:
    """TRANSPOSE: output axis i is input axis `permutation[i]`."""

    permutation: tuple[int, ...]


@dataclass(frozen=True)
class Resize:
    """RESIZE: output pixel (y, x) lies at ((y * scale_d + offset) / scale_n) of the input, of each axis.

    `scale` is (y_n, y_d, x_n, x_d), `offset` and `border` are (y, x), in units of 1 / scale_n.
    """

    mode: ResizeMode
    scale: tuple[int, ...]
    offset: tuple[int, ...]
    border: tuple[int, ...]


TosaAttrs = (
    Rescale
    | Convolution
    | TransposeConvolution
    | AveragePool
    | MaxPool
    | MatMul
    | Negate
    | Clamp
    | ArithmeticRightShift
    | Mul
    | LookupTable
    | OneAxis
    | Reshape
    | Pad
    | Slice
    | TileCounts
    | Transpose
    | Resize
)
