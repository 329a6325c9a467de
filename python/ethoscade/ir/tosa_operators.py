"""The operators of TOSA 1.0 on integers: one row for each kind, named as in the MLIR dialect.

Owns what is true of a kind for every room: its record of attributes and the element types that it is defined for, those
of the profile PRO-INT with EXT-INT16 (`typesupport` in the specification's tosa.xml, version 1.0). How a file tells of
them is the frontend's matter, what they compute the judge's.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..util.records import dataclass
from . import tosa
from .tensor import DType

Types = tuple[DType, ...]

_BOOL, _8, _16, _32, _48 = DType.BOOL, DType.INT8, DType.INT16, DType.INT32, DType.INT48
_ANY = (_BOOL, _8, _16, _32)
_INTEGERS = (_8, _16, _32)
_SHORT = (_8, _16)


@dataclass(frozen=True)
class TosaKind:
    """One kind of operator.

    `attributes` is the class of `Operator.attrs`, None for a kind without any. `forms` are the types that it takes:
    those of its values, in the order of the inputs, then that of its output. `is_list` says that it takes one value or
    more, all of the one type that the form has for them. Parameters, which are fields of the attributes, are no inputs.
    """

    name: str
    attributes: type | None
    forms: tuple[Types, ...]
    is_list: bool = False


def _alike(values: int, types: Types) -> tuple[Types, ...]:
    """Forms of `values` inputs and an output, all of one type."""
    return tuple((one,) * (values + 1) for one in types)


_WEIGHTED = ((_8, _8, _32, _32), (_16, _8, _48, _48))
_COMPARED = ((_32, _32, _BOOL),)
_CAST = tuple((a, b) for a in _ANY for b in _ANY if a is not b)
_RESCALED = tuple((a, b) for a in (_8, _16, _32, _48) for b in _INTEGERS)

_ROWS = (
    TosaKind("tosa.argmax", tosa.OneAxis, ((_8, _32), (_16, _32))),
    TosaKind("tosa.avg_pool2d", tosa.AveragePool, _alike(1, _SHORT)),
    TosaKind("tosa.conv2d", tosa.Convolution, _WEIGHTED),
    TosaKind("tosa.conv3d", tosa.Convolution, _WEIGHTED),
    TosaKind("tosa.depthwise_conv2d", tosa.Convolution, _WEIGHTED),
    TosaKind("tosa.matmul", tosa.MatMul, ((_8, _8, _32), (_16, _16, _48))),
    TosaKind("tosa.max_pool2d", tosa.MaxPool, _alike(1, _SHORT)),
    TosaKind("tosa.transpose_conv2d", tosa.TransposeConvolution, _WEIGHTED),
    TosaKind("tosa.clamp", tosa.Clamp, _alike(1, _SHORT)),
    TosaKind("tosa.add", None, _alike(2, (_32,))),
    TosaKind("tosa.arithmetic_right_shift", tosa.ArithmeticRightShift, _alike(2, _INTEGERS)),
    TosaKind("tosa.bitwise_and", None, _alike(2, _INTEGERS)),
    TosaKind("tosa.bitwise_or", None, _alike(2, _INTEGERS)),
    TosaKind("tosa.bitwise_xor", None, _alike(2, _INTEGERS)),
    TosaKind("tosa.intdiv", None, _alike(2, (_32,))),
    TosaKind("tosa.logical_and", None, _alike(2, (_BOOL,))),
    TosaKind("tosa.logical_left_shift", None, _alike(2, _INTEGERS)),
    TosaKind("tosa.logical_right_shift", None, _alike(2, _INTEGERS)),
    TosaKind("tosa.logical_or", None, _alike(2, (_BOOL,))),
    TosaKind("tosa.logical_xor", None, _alike(2, (_BOOL,))),
    TosaKind("tosa.maximum", None, _alike(2, (_32,))),
    TosaKind("tosa.minimum", None, _alike(2, (_32,))),
    TosaKind("tosa.mul", tosa.Mul, tuple((one, one, _32) for one in _INTEGERS)),
    TosaKind("tosa.sub", None, _alike(2, (_32,))),
    TosaKind("tosa.table", tosa.LookupTable, ((_8, _8), (_16, _32))),
    TosaKind("tosa.abs", None, _alike(1, (_32,))),
    TosaKind("tosa.bitwise_not", None, _alike(1, _INTEGERS)),
    TosaKind("tosa.clz", None, _alike(1, (_32,))),
    TosaKind("tosa.logical_not", None, _alike(1, (_BOOL,))),
    TosaKind("tosa.negate", tosa.Negate, _alike(1, _INTEGERS)),
    TosaKind("tosa.select", None, tuple((_BOOL, one, one, one) for one in _ANY)),
    TosaKind("tosa.equal", None, _COMPARED),
    TosaKind("tosa.greater", None, _COMPARED),
    TosaKind("tosa.greater_equal", None, _COMPARED),
    TosaKind("tosa.reduce_all", tosa.OneAxis, _alike(1, (_BOOL,))),
    TosaKind("tosa.reduce_any", tosa.OneAxis, _alike(1, (_BOOL,))),
    TosaKind("tosa.reduce_max", tosa.OneAxis, _alike(1, _INTEGERS)),
    TosaKind("tosa.reduce_min", tosa.OneAxis, _alike(1, _INTEGERS)),
    TosaKind("tosa.reduce_sum", tosa.OneAxis, _alike(1, (_32,))),
    TosaKind("tosa.concat", tosa.OneAxis, _alike(1, _ANY), is_list=True),
    TosaKind("tosa.pad", tosa.Pad, _alike(1, _ANY)),
    TosaKind("tosa.reshape", tosa.Reshape, _alike(1, _ANY)),
    TosaKind("tosa.reverse", tosa.OneAxis, _alike(1, _ANY)),
    TosaKind("tosa.slice", tosa.Slice, _alike(1, _ANY)),
    TosaKind("tosa.tile", tosa.TileCounts, _alike(1, _ANY)),
    TosaKind("tosa.transpose", tosa.Transpose, _alike(1, _ANY)),
    TosaKind("tosa.gather", None, tuple((one, _32, one) for one in _INTEGERS)),
    TosaKind("tosa.scatter", None, tuple((one, _32, one, one) for one in _INTEGERS)),
    TosaKind("tosa.resize", tosa.Resize, ((_8, _8), (_8, _32), (_16, _16), (_16, _48))),
    TosaKind("tosa.cast", None, _CAST),
    TosaKind("tosa.rescale", tosa.Rescale, _RESCALED),
    TosaKind("tosa.identity", None, _alike(1, (*_ANY, _48))),
)

TOSA_OPERATORS: Mapping[str, TosaKind] = MappingProxyType({row.name: row for row in _ROWS})
"""The rows by kind, in the order of the specification's numbers of operators."""
