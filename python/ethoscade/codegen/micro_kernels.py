"""TensorFlow Lite Micro's kernels by kind and type, as data, and what of a `.tflite` it could not run.

Owns the table, read from the sources of `COMMIT`: `micro_mutable_op_resolver.h` for the kinds that can be registered,
`kernels/*.cc` for the types that a kernel asks for. The arithmetic that is known bit by bit is `judge.reference`'s
business. Kernels of other cores than Arm's may take more or fewer types.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..frontend import ETHOS_U
from ..ir import DType, Graph, Operator
from ..ir.operators import OPERATORS
from .artifact import Artifact
from .layout import cpu_operators, resources

COMMIT = "90b983c2b3f1480642e040bbd2ddb37b998f3424"
"""The commit of tensorflow/tflite-micro, of 2026-08-20, that the table was read from."""

_F, _B, _W, _I, _L = DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32, DType.INT64
_Types = tuple[DType, ...]
ANY: _Types = tuple(DType)

_BY_TYPES: Mapping[_Types, str] = {
    (_F,): "CEIL COS EXP FLOOR FLOOR_DIV FLOOR_MOD L2_POOL_2D LOG NEG ROUND SIN SQRT SQUARE",
    (_F, _B): (
        "ADD_N ARG_MAX ARG_MIN BATCH_TO_SPACE_ND CUMSUM DEPTH_TO_SPACE ELU GATHER GATHER_ND HARD_SWISH "
        "L2_NORMALIZATION LOG_SOFTMAX MIRROR_PAD REDUCE_MAX REDUCE_MIN RESIZE_BILINEAR RSQRT SPACE_TO_BATCH_ND "
        "SPACE_TO_DEPTH SVDF"
    ),
    (_F, _B, _W): (
        "ABS AVERAGE_POOL_2D BATCH_MATMUL CONV_2D DEPTHWISE_CONV_2D EXPAND_DIMS FULLY_CONNECTED LEAKY_RELU LOGISTIC "
        "MAX_POOL_2D MEAN PRELU RELU RELU6 RESIZE_NEAREST_NEIGHBOR SELECT_V2 SOFTMAX SUM TANH TRANSPOSE "
        "TRANSPOSE_CONV UNIDIRECTIONAL_SEQUENCE_LSTM"
    ),
    (_F, _B, _I): "DIV FILL",
    (_F, _B, _W, _I): "ADD DYNAMIC_UPDATE_SLICE MUL PAD PADV2 SPLIT SPLIT_V SQUARED_DIFFERENCE SUB UNPACK",
    (_F, _B, _I, _L): "GREATER_EQUAL LESS LESS_EQUAL ZEROS_LIKE",
    (_F, _B, _W, _I, _L): "GREATER MAXIMUM MINIMUM PACK",
    (_F, _B, _I, _L, DType.BOOL): "EQUAL NOT_EQUAL",
    (_F, _B, _W, _I, DType.BOOL): "SLICE STRIDED_SLICE",
    (_F, _B, _W, _I, _L, DType.BOOL): "CONCATENATION",
    (_F, _B, DType.UINT8, _W, _I, _L, DType.BOOL): "REVERSE_V2",
    (_F, _B, _W, _I, DType.UINT32, DType.BOOL): "CAST",
    (_B, DType.UINT8, _W): "DEQUANTIZE",
    (_I, _L): "BROADCAST_ARGS",
    (_I,): "EMBEDDING_LOOKUP",
    (DType.BOOL,): "LOGICAL_AND LOGICAL_NOT LOGICAL_OR REDUCE_ALL",
    ANY: (
        "ASSIGN_VARIABLE BROADCAST_TO CALL_ONCE IF READ_VARIABLE RESHAPE SHAPE SQUEEZE VAR_HANDLE WHILE "
        "CIRCULAR_BUFFER TFLM_DECODE TFLite_Detection_PostProcess SignalDelay SignalEnergy SignalFftAutoScale "
        "SignalFilterBank SignalFilterBankLog SignalFilterBankSpectralSubtraction SignalFilterBankSquareRoot "
        "SignalFramer SignalIrfft SignalOverlapAdd SignalPCAN SignalRfft SignalStacker SignalWindow"
    ),
}

MICRO_KERNELS: Mapping[str, _Types] = MappingProxyType(
    dict(sorted((kind, types) for types, kinds in _BY_TYPES.items() for kind in kinds.split()))
    | {ETHOS_U: ANY, "QUANTIZE": (_F, _B, DType.UINT8, _W, _I)}
)
"""Types of the values that the kernel of a kind takes; a kind that is not here cannot be registered."""

QUANTIZE_PAIRS: Mapping[DType, _Types] = MappingProxyType(
    {_F: (_B, _W), _B: (_B, DType.UINT8, _W, _I), DType.UINT8: (_B,), _W: (_B, _W, _I), _I: (_B, _W)}
)
"""What QUANTIZE makes, by what it reads."""

_UNSCALED = frozenset({"ADD", "DIV", "SUB"})
"""Kinds with int32 only without a scale."""

_VALUES_AT: Mapping[str, int] = {"FILL": 1, "SELECT_V2": 1, "SPLIT": 1, "TRANSPOSE_CONV": 2}
"""Where the values are of kinds that do not have them first."""


def misses(graph: Graph, operator: Operator) -> str | None:
    """Why TensorFlow Lite Micro cannot run an operator, in one sentence without a full stop, or None."""
    types = MICRO_KERNELS.get(operator.kind)
    name = f"operator '{operator.name}' ({operator.kind})"
    if types is None:
        return f"{name} has no kernel in TensorFlow Lite Micro"
    dtype = _read_type(graph, operator)
    if dtype is None:
        return None
    if dtype not in types:
        return f"{name} reads {dtype.value}; TensorFlow Lite Micro's kernel takes {_listed(types)}"
    scaled = (t for t in operator.inputs if t is not None and graph.tensors[t].quantisation is not None)
    if dtype is _I and operator.kind in _UNSCALED and (first := next(scaled, None)) is not None:
        return f"{name} reads '{graph.tensors[first].name}' with a scale; TensorFlow Lite Micro takes int32 without one"
    made = graph.made(operator).dtype if operator.outputs else dtype
    if operator.kind == "QUANTIZE" and made not in QUANTIZE_PAIRS[dtype]:
        possible = _listed(QUANTIZE_PAIRS[dtype])
        return f"{name} makes {made.value} of {dtype.value}; TensorFlow Lite Micro's kernel makes {possible}"
    return None


def warnings(artifact: Artifact) -> tuple[str, ...]:
    """Why TensorFlow Lite Micro could not load or run the network's `.tflite`, a sentence for each operator.

    And one more if it needs an interpreter's option.
    """
    graph, count = artifact.graph, len(resources(artifact))
    found = [why for _, operator in cpu_operators(artifact) if (why := misses(graph, operator)) is not None]
    if count:
        found.append(
            f"its state is kept in {count} resource variables, which an interpreter has only if it is given "
            f"`MicroResourceVariables::Create(allocator, {count})`"
        )
    return tuple(found)


def _read_type(graph: Graph, operator: Operator) -> DType | None:
    row = OPERATORS.get(operator.kind)
    place = row.data_input if row is not None else _VALUES_AT.get(operator.kind, 0)
    index = operator.inputs[place] if place < len(operator.inputs) else None
    return None if index is None else graph.tensors[index].dtype


def _listed(types: _Types) -> str:
    *front, last = (dtype.value for dtype in types)
    return f"{', '.join(front)} and {last}" if front else last
