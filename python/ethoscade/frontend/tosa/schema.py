"""Numbers of fields, operators and enumerations in TOSA 1.0 files.

Owns the numbers. Source: `schema/tosa.fbs` of the TOSA serialization library v1.0
(https://git.gitlab.arm.com/tosa/tosa-serialization), also as `bin/tosa.fbs` in the wheel tosa-tools; a field's number
is its place in its table, and a union takes two: its type, then its table.
"""

from __future__ import annotations

import enum

from ...ir import DType


class GraphField(enum.IntEnum):
    """TosaGraph."""

    VERSION = 0
    REGIONS = 1


class VersionField(enum.IntEnum):
    """Version; absent numbers are -1, an absent `DRAFT` is true."""

    MAJOR = 0
    MINOR = 1
    PATCH = 2
    DRAFT = 3


class RegionField(enum.IntEnum):
    """TosaRegion."""

    NAME = 0
    BLOCKS = 1


class BlockField(enum.IntEnum):
    """TosaBasicBlock."""

    NAME = 0
    OPERATORS = 1
    TENSORS = 2
    INPUTS = 3
    OUTPUTS = 4
    SHAPES = 5


class OperatorField(enum.IntEnum):
    """TosaOperator."""

    OP = 0
    ATTRIBUTE_TYPE = 1
    ATTRIBUTE = 2
    INPUTS = 3
    OUTPUTS = 4


class TensorField(enum.IntEnum):
    """TosaTensor."""

    NAME = 0
    SHAPE = 1
    TYPE = 2
    DATA = 3
    VARIABLE = 4
    IS_UNRANKED = 5
    VARIABLE_NAME = 6
    OFFSET = 7
    SIZE = 8


class ShapeField(enum.IntEnum):
    """TosaShape: `DATA` has eight bytes for each of `RANK` numbers."""

    NAME = 0
    RANK = 1
    DATA = 2


class PoolField(enum.IntEnum):
    """AvgPool2dAttribute and MaxPool2dAttribute, of which the fourth field is `nan_mode`."""

    KERNEL = 0
    STRIDE = 1
    PAD = 2
    ACC_TYPE = 3


class ConvField(enum.IntEnum):
    """Conv2dAttribute, Conv3dAttribute and DepthwiseConv2dAttribute."""

    PAD = 0
    STRIDE = 1
    DILATION = 2
    LOCAL_BOUND = 3
    ACC_TYPE = 4


class TransposeConvField(enum.IntEnum):
    """TransposeConv2dAttribute."""

    OUT_PAD = 0
    STRIDE = 1
    LOCAL_BOUND = 2
    ACC_TYPE = 3


class ClampField(enum.IntEnum):
    """ClampAttribute: the limits as bytes of one element."""

    MIN_VAL = 0
    MAX_VAL = 1


class RescaleField(enum.IntEnum):
    """RescaleAttribute."""

    SCALE32 = 0
    ROUNDING_MODE = 1
    PER_CHANNEL = 2
    INPUT_UNSIGNED = 3
    OUTPUT_UNSIGNED = 4


ONLY_FIELD = 0
"""The first field of tables with one of interest: `axis`, `round`, `perms`, `mode`."""

ROUNDING_SINGLE, ROUNDING_INEXACT, ROUNDING_DOUBLE = 1, 2, 3
RESIZE_NEAREST, RESIZE_BILINEAR = 1, 2

TYPE_NAMES = (
    "UNKNOWN", "BOOL", "INT4", "INT8", "INT16", "INT32", "INT48", "FP32", "FP16", "BF16", "SHAPE", "FP8E4M3", "FP8E5M2",
    "FP6E2M3", "FP6E3M2", "FP4E2M1", "FP8UE8M0", "INT64", "MXINT8",
)  # fmt: skip
"""Element types (enum DType) by number; from FP6E2M3 on those of TOSA 1.1."""

DTYPES = {
    TYPE_NAMES.index(name): DType[name] for name in ("BOOL", "INT8", "INT16", "INT32", "INT48")
}  # fmt: skip
"""The element types of the profile PRO-INT with EXT-INT16."""

OPERATOR_NAMES = (
    "UNKNOWN", "ARGMAX", "AVG_POOL2D", "CONV2D", "CONV3D", "DEPTHWISE_CONV2D", "FFT2D", "MATMUL", "MAX_POOL2D",
    "RFFT2D", "TRANSPOSE_CONV2D", "CLAMP", "ERF", "SIGMOID", "TANH", "ADD", "ARITHMETIC_RIGHT_SHIFT", "BITWISE_AND",
    "BITWISE_OR", "BITWISE_XOR", "INTDIV", "LOGICAL_AND", "LOGICAL_LEFT_SHIFT", "LOGICAL_RIGHT_SHIFT", "LOGICAL_OR",
    "LOGICAL_XOR", "MAXIMUM", "MINIMUM", "MUL", "POW", "SUB", "TABLE", "ABS", "BITWISE_NOT", "CEIL", "CLZ", "COS",
    "EXP", "FLOOR", "LOG", "LOGICAL_NOT", "NEGATE", "RECIPROCAL", "RSQRT", "SIN", "SELECT", "EQUAL", "GREATER",
    "GREATER_EQUAL", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PRODUCT", "REDUCE_SUM", "CONCAT",
    "PAD", "RESHAPE", "REVERSE", "SLICE", "TILE", "TRANSPOSE", "GATHER", "SCATTER", "RESIZE", "CAST", "RESCALE",
    "CONST", "IDENTITY", "CUSTOM", "COND_IF", "WHILE_LOOP", "VARIABLE", "VARIABLE_WRITE", "VARIABLE_READ",
    "CONST_SHAPE",
)  # fmt: skip
"""Operators (enum Op) by number: their table in the union of attributes has the same."""
