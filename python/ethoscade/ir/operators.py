"""The operators of TensorFlow Lite that ethoscade knows: one row for each kind, and nothing about how any room does it.

Owns what is true of a kind for every room: its attributes, its options table in a file, whether it moves anything.
Readers, meanings, NPU families, C kernels and the test builders stand in their own rooms, in tables that `keyed` holds
to the rows here.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from ..util.records import dataclass
from . import schema
from .attributes import (
    AddAttrs,
    ArgMaxAttrs,
    ArithmeticAttrs,
    BatchMatMulAttrs,
    ConcatenationAttrs,
    ConvAttrs,
    FullyConnectedAttrs,
    GatherAttrs,
    GeluAttrs,
    LeakyReluAttrs,
    LstmAttrs,
    LstmInputs,
    MirrorPadAttrs,
    PackAttrs,
    PadAttrs,
    PoolAttrs,
    ReductionAttrs,
    ResizeBilinearAttrs,
    ResizeNearestAttrs,
    ReverseAttrs,
    SoftmaxAttrs,
    SplitAttrs,
    StridedSliceAttrs,
    SvdfAttrs,
    SvdfInputs,
    TableAttrs,
    TileAttrs,
    TransposeAttrs,
    TransposeConvAttrs,
    UnpackAttrs,
)
from .graph import Operator
from .tensor import Activation

_Entry = TypeVar("_Entry")


@dataclass(frozen=True)
class OperatorKind:
    """One kind of operator.

    `name` is TFLite's builtin name, `attributes` the class of `Operator.attrs` (None for kinds without attributes of
    interest), `options` the schema's table of options (None if the kind has none), `int8_version` the operator version
    from which runtimes expect int8; uint8 operators are of version 1.

    `data_input` is the place of the first input with values, by whose type a kernel is chosen, `data_inputs` how many
    there are from there on (None: all); the others are parameters. `activation` is what a stand-alone
    activation computes. `reshapes` says that it gives the same elements another shape, `in_place` that its input and
    output may be the same bytes, `looks_at_values` that its output depends on the elements of its input at all.
    `updates` are the places of the inputs that it writes over, its state: an `Operator` that the frontend understands
    has the new values as outputs behind its own, in this order.
    """

    name: str
    attributes: type | None = None
    options: str | None = None
    int8_version: int = 1
    data_input: int = 0
    data_inputs: int | None = 1
    activation: Activation | None = None
    reshapes: bool = False
    in_place: bool = False
    looks_at_values: bool = True
    updates: tuple[int, ...] = ()


_ROWS = (
    OperatorKind("ABS", None, "AbsOptions"),
    OperatorKind("ADD", AddAttrs, "AddOptions", 2, data_inputs=2),
    OperatorKind("ARG_MAX", ArgMaxAttrs, "ArgMaxOptions", 2),
    OperatorKind("AVERAGE_POOL_2D", PoolAttrs, "Pool2DOptions", 2),
    OperatorKind("BATCH_MATMUL", BatchMatMulAttrs, "BatchMatMulOptions", 2, data_inputs=2),
    OperatorKind("CONCATENATION", ConcatenationAttrs, "ConcatenationOptions", 2, data_inputs=None),
    OperatorKind("CONV_2D", ConvAttrs, "Conv2DOptions", 3),
    OperatorKind("DEPTHWISE_CONV_2D", ConvAttrs, "DepthwiseConv2DOptions", 3),
    OperatorKind("DEQUANTIZE", None, "DequantizeOptions"),
    OperatorKind("DIV", ArithmeticAttrs, "DivOptions", 2, data_inputs=2),
    OperatorKind("ELU"),
    OperatorKind("EXP", None, "ExpOptions"),
    OperatorKind("EXPAND_DIMS", None, "ExpandDimsOptions", reshapes=True),
    OperatorKind("FULLY_CONNECTED", FullyConnectedAttrs, "FullyConnectedOptions", 4),
    OperatorKind("GATHER", GatherAttrs, "GatherOptions", 2),
    OperatorKind("GELU", GeluAttrs, "GeluOptions"),
    OperatorKind("HARD_SWISH", None, "HardSwishOptions"),
    OperatorKind("L2_NORMALIZATION", None, "L2NormOptions", 2),
    OperatorKind("LEAKY_RELU", LeakyReluAttrs, "LeakyReluOptions"),
    OperatorKind("LOG"),
    OperatorKind("LOGISTIC", int8_version=2),
    OperatorKind("LOG_SOFTMAX", None, "LogSoftmaxOptions", 2),
    OperatorKind("MAXIMUM", None, "MaximumMinimumOptions", 2, data_inputs=2),
    OperatorKind("MAX_POOL_2D", PoolAttrs, "Pool2DOptions", 2),
    OperatorKind("MEAN", ReductionAttrs, "ReducerOptions", 2),
    OperatorKind("MINIMUM", None, "MaximumMinimumOptions", 2, data_inputs=2),
    OperatorKind("MIRROR_PAD", MirrorPadAttrs, "MirrorPadOptions", 2),
    OperatorKind("MUL", ArithmeticAttrs, "MulOptions", 2, data_inputs=2),
    OperatorKind("NEG", None, "NegOptions"),
    OperatorKind("PACK", PackAttrs, "PackOptions", data_inputs=None),
    OperatorKind("PAD", PadAttrs, "PadOptions", 2),
    OperatorKind("PADV2", PadAttrs, "PadV2Options", 2),
    OperatorKind("PRELU", data_inputs=2),
    OperatorKind("QUANTIZE", TableAttrs, "QuantizeOptions", 2),
    OperatorKind("REDUCE_MAX", ReductionAttrs, "ReducerOptions", 2),
    OperatorKind("REDUCE_MIN", ReductionAttrs, "ReducerOptions", 2),
    OperatorKind("RELU", int8_version=2, activation=Activation.RELU),
    OperatorKind("RELU6", int8_version=2, activation=Activation.RELU6),
    OperatorKind("RELU_0_TO_1"),
    OperatorKind("RELU_N1_TO_1", activation=Activation.RELU_N1_TO_1),
    OperatorKind("RESHAPE", None, "ReshapeOptions", reshapes=True, in_place=True),
    OperatorKind("RESIZE_BILINEAR", ResizeBilinearAttrs, "ResizeBilinearOptions", 2),
    OperatorKind("RESIZE_NEAREST_NEIGHBOR", ResizeNearestAttrs, "ResizeNearestNeighborOptions", 2),
    OperatorKind("REVERSE_V2", ReverseAttrs, "ReverseV2Options"),
    OperatorKind("RSQRT"),
    OperatorKind("SHAPE", None, "ShapeOptions", looks_at_values=False),
    OperatorKind("SLICE", StridedSliceAttrs, "SliceOptions", 2),
    OperatorKind("SOFTMAX", SoftmaxAttrs, "SoftmaxOptions", 2),
    OperatorKind("SPLIT", SplitAttrs, "SplitOptions", 2, data_input=1),
    OperatorKind("SPLIT_V", SplitAttrs, "SplitVOptions", 2),
    OperatorKind("SQRT"),
    OperatorKind("SQUARED_DIFFERENCE", None, "SquaredDifferenceOptions", 2, data_inputs=2),
    OperatorKind("SQUEEZE", None, "SqueezeOptions", reshapes=True, in_place=True),
    OperatorKind("STRIDED_SLICE", StridedSliceAttrs, "StridedSliceOptions"),
    OperatorKind("SUB", ArithmeticAttrs, "SubOptions", 2, data_inputs=2),
    OperatorKind("SUM", ReductionAttrs, "ReducerOptions", 2),
    OperatorKind("SVDF", SvdfAttrs, "SVDFOptions", 3, updates=(SvdfInputs.state,)),
    OperatorKind("TANH", int8_version=2),
    OperatorKind("TILE", TileAttrs, "TileOptions"),
    OperatorKind("TRANSPOSE", TransposeAttrs, "TransposeOptions", 2),
    OperatorKind("TRANSPOSE_CONV", TransposeConvAttrs, "TransposeConvOptions", 3, data_input=2),
    OperatorKind(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        LstmAttrs,
        "UnidirectionalSequenceLSTMOptions",
        3,
        updates=(LstmInputs.hidden, LstmInputs.cell),
    ),
    OperatorKind("UNPACK", UnpackAttrs, "UnpackOptions", 2),
)

OPERATORS: Mapping[str, OperatorKind] = MappingProxyType({row.name: row for row in _ROWS})
"""The rows by kind, in the alphabet's order."""

RESHAPES = frozenset(row.name for row in _ROWS if row.reshapes)
"""Kinds that move nothing: the same elements in another shape."""

ACTIVATION_OPERATORS: Mapping[str, Activation] = MappingProxyType(
    {row.name: row.activation for row in _ROWS if row.activation is not None}
)
"""What each stand-alone activation computes."""

CALLERS = frozenset(
    {
        "IF",
        "WHILE",
        "CALL",
        "CALL_ONCE",
        "STABLEHLO_CASE",
        "STABLEHLO_COMPOSITE",
        "STABLEHLO_CUSTOM_CALL",
        "STABLEHLO_REDUCE",
        "STABLEHLO_REDUCE_WINDOW",
        "STABLEHLO_SCATTER",
        "STABLEHLO_SORT",
        "STABLEHLO_WHILE",
    }
)
"""Kinds whose options name other subgraphs of the file by number."""

RESOURCE_KINDS = frozenset({"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE"})
"""Kinds that read and write variables outside of all tensors: the frontend makes `ir.Variable`s of them."""

CODE_OF_ACTIVATION: Mapping[Activation, int] = MappingProxyType(
    {
        Activation.NONE: schema.ActivationFunctionType.NONE,
        Activation.RELU: schema.ActivationFunctionType.RELU,
        Activation.RELU_N1_TO_1: schema.ActivationFunctionType.RELU_N1_TO_1,
        Activation.RELU6: schema.ActivationFunctionType.RELU6,
    }
)
"""The schema's numbers of fused activations."""


def updated(operator: Operator) -> tuple[tuple[int, int], ...]:
    """The tensors that an operator writes over, each with what is there afterwards, an output of it."""
    row = OPERATORS.get(operator.kind)
    if row is None or not row.updates or operator.opaque is not None:
        return ()
    made = operator.outputs[-len(row.updates) :]
    return tuple((operator.input(place), after) for place, after in zip(row.updates, made, strict=True))


def own_outputs(operator: Operator) -> tuple[int, ...]:
    """An operator's outputs as its file has them: without the new values of what it writes over."""
    return operator.outputs[: len(operator.outputs) - len(updated(operator))]


def keyed(*parts: Mapping[str, _Entry]) -> Mapping[str, _Entry]:
    """The parts as one read-only table by kind, in the order of `OPERATORS`.

    Raises `AssertionError` for a kind that has no row, or that two parts have: both are mistakes of this package.
    """
    found: dict[str, _Entry] = {}
    for part in parts:
        for kind, entry in part.items():
            if kind not in OPERATORS:
                raise AssertionError(f"{kind} has no row in the table of operators")
            if kind in found:
                raise AssertionError(f"{kind} stands in two parts of one table")
            found[kind] = entry
    return MappingProxyType({kind: found[kind] for kind in OPERATORS if kind in found})


class KindTable(Mapping[str, _Entry]):
    """A read-only table by kind, in the order of `OPERATORS`, whose parts are imported when one of their kinds is.

    `parts` tells of each, as "module.NAME" in the `package`, which kinds it has: a process waits for no other's code.
    """

    def __init__(self, package: str, parts: Mapping[str, Sequence[str]]) -> None:
        self._package, self._parts = package, parts
        self._homes = keyed(*(dict.fromkeys(kinds, part) for part, kinds in parts.items()))
        self._found: dict[str, _Entry] = {}

    def __getitem__(self, kind: str) -> _Entry:
        """Raises `AssertionError` if a part has other kinds than it is said to have: a mistake of this package."""
        if kind not in self._found:
            home = self._homes[kind]
            module, _, name = home.rpartition(".")
            part: Mapping[str, _Entry] = getattr(importlib.import_module(f".{module}", self._package), name)
            if set(part) != set(told := self._parts[home]):
                raise AssertionError(f"{home} has {', '.join(part)}, and is said to have {', '.join(told)}")
            self._found.update(part)
        return self._found[kind]

    def __contains__(self, kind: object) -> bool:
        return kind in self._homes

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)
