"""What TensorFlow Lite Micro's kernels take of the arena: options and data for good, scratch buffers while they run.

Owns the sizes, by kind, read from the sources of `micro_kernels.COMMIT`: `TfLite...Params` in
`core/c/builtin_op_data.h`, `OpData` structures and requests for buffers in `micro/kernels/*.cc`, the portable kernels.
Enumerations are counted with the four bytes that they have at most, and with what the runtime adds where it is built
for compressed weights (USE_TFLM_COMPRESSION). FULLY_CONNECTED's options are measured: the sources have 16 bytes, and a
later runtime takes more. CMSIS-NN's kernels want other scratch buffers, whose sizes its `arm_*_get_buffer_size`
functions say for each core.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ..frontend import ETHOS_U
from ..ir import BatchMatMulAttrs, DType, Graph, Operator, Tensor
from ..util.records import dataclass

_INT = 4
_LONG = 8
_LOOKUP_ENTRIES_INT16 = 513

_OPTIONS: Mapping[int, str] = {
    4: (
        "ARG_MAX ARG_MIN BATCH_MATMUL CALL_ONCE CUMSUM DEPTH_TO_SPACE DIV L2_NORMALIZATION LEAKY_RELU MEAN MIRROR_PAD "
        "MUL REDUCE_ALL REDUCE_MAX REDUCE_MIN RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR SHAPE SOFTMAX SPACE_TO_DEPTH "
        "SPLIT SPLIT_V SUM"
    ),
    8: "ADD CAST CONCATENATION GATHER IF PACK SUB UNPACK WHILE",
    12: "SVDF",
    16: "UNIDIRECTIONAL_SEQUENCE_LSTM VAR_HANDLE",
    20: "TRANSPOSE_CONV",
    24: "STRIDED_SLICE",
    28: "CONV_2D DEPTHWISE_CONV_2D FULLY_CONNECTED",
    36: "RESHAPE SQUEEZE",
    40: "AVERAGE_POOL_2D L2_POOL_2D MAX_POOL_2D",
}
_OPTION_BYTES = {kind: size for size, kinds in _OPTIONS.items() for kind in kinds.split()}

_DATA: Mapping[tuple[int, int], str] = {
    (0, 4): "ASSIGN_VARIABLE SELECT_V2 SPACE_TO_BATCH_ND VAR_HANDLE",
    (0, 8): "CALL_ONCE CIRCULAR_BUFFER IF RELU6 WHILE",
    (2, 0): "EMBEDDING_LOOKUP",
    (0, 16): "L2_NORMALIZATION LOGISTIC TANH",
    (0, 20): "HARD_SWISH MIRROR_PAD",
    (0, 24): "LEAKY_RELU",
    (0, 28): "ABS DIV PRELU QUANTIZE RELU RSQRT",
    (0, 32): "AVERAGE_POOL_2D DEQUANTIZE EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL MAX_POOL_2D NOT_EQUAL",
    (2, 24): "LOG_SOFTMAX",
    (0, 36): "CUMSUM MUL SVDF",
    (0, 40): "ADD_N",
    (0, 44): "MEAN REDUCE_ALL REDUCE_MAX REDUCE_MIN SUM",
    (0, 52): "SUB",
    (4, 40): "FULLY_CONNECTED",
    (4, 48): "CONCATENATION CONV_2D DEPTHWISE_CONV_2D",
    (0, 56): "PAD PADV2",
    (0, 60): "ADD",
    (2, 72): "TRANSPOSE_CONV",
    (6, 32): "SOFTMAX",
    (0, 84): "STRIDED_SLICE",
    (0, 108): "SQUARED_DIFFERENCE",
    (4, 0): "BATCH_MATMUL",
    (0, 112): "TFLite_Detection_PostProcess",
    (0, 256): "ELU",
    (0, 688): "UNIDIRECTIONAL_SEQUENCE_LSTM",
}
_DATA_SIZES = {kind: size for size, kinds in _DATA.items() for kind in kinds.split()}
"""Pointers and other bytes of the structure that a kernel keeps."""

_QUANTISED = (DType.INT8, DType.INT16)
_COPY_THE_SHAPE = frozenset(
    {"BATCH_MATMUL", "DEPTH_TO_SPACE", "EMBEDDING_LOOKUP", "GATHER", "GATHER_ND", "L2_POOL_2D", "SPACE_TO_DEPTH"}
)
"""Kernels that write their output's shape, for which they keep it in the arena."""


@dataclass(frozen=True)
class KernelBuffers:
    """What one operator's kernel takes of the arena, in bytes: options, each buffer kept, each scratch buffer."""

    options: int = 0
    kept: tuple[int, ...] = ()
    scratch: tuple[int, ...] = ()


def kernel_buffers(graph: Graph, operator: Operator, pointer_bytes: int) -> KernelBuffers:
    """The buffers of an operator's portable kernel. Custom operators but for NPU calls and detections count as none."""
    kind = operator.kind
    kept: tuple[int, ...] = ()
    if kind in _DATA_SIZES:
        pointers, rest = _DATA_SIZES[kind]
        kept = (pointers * pointer_bytes + rest,)
    if kind in _COPY_THE_SHAPE:
        kept += (_shape_bytes(graph.made(operator)),)
    more = _KEPT[kind](graph, operator, pointer_bytes) if kind in _KEPT else ()
    scratch = _SCRATCH[kind](graph, operator, pointer_bytes) if kind in _SCRATCH else ()
    return KernelBuffers(_OPTION_BYTES.get(kind, 0), kept + more, scratch)


def _shape_bytes(tensor: Tensor) -> int:
    """A `TfLiteIntArray` of its extents."""
    return _INT * (1 + len(tensor.shape))


def _channel_factors(axis: int) -> Callable[[Graph, Operator, int], tuple[int, ...]]:
    """Multiplier and shift of each channel along an axis of the weights."""

    def kept(graph: Graph, operator: Operator, _: int) -> tuple[int, ...]:
        return (_INT * graph.read(operator, 1).shape[axis],) * 2

    return kept


def _fully_connected_factors(graph: Graph, operator: Operator, _: int) -> tuple[int, ...]:
    quantisation = graph.read(operator, 1).quantisation
    count = 1 if quantisation is None else len(quantisation.scales)
    return (_INT * count,) * 2 if count > 1 else ()


def _softmax_tables(graph: Graph, operator: Operator, _: int) -> tuple[int, ...]:
    return (2 * _LOOKUP_ENTRIES_INT16,) * 2 if graph.read(operator, 0).dtype is DType.INT16 else ()


def _transposed_operands(graph: Graph, operator: Operator, pointer_bytes: int) -> tuple[int, ...]:
    """BATCH_MATMUL's factors, and each operand that it transposes: a tensor, its shape, its elements."""
    attrs = operator.attrs
    found: tuple[int, ...] = (28,) if graph.read(operator, 0).dtype in _QUANTISED else ()
    adjoint = (attrs.adj_x, attrs.adj_y) if isinstance(attrs, BatchMatMulAttrs) else (True, False)
    for place, is_transposed in enumerate((adjoint[0], not adjoint[1])):
        if is_transposed:
            tensor = graph.read(operator, place)
            found += (2 * pointer_bytes + _INT, _shape_bytes(tensor), tensor.size_bytes)
    return found


def _npu_call(_: Graph, __: Operator, ___: int) -> tuple[int, ...]:
    """`OpData`: three integers."""
    return (3 * _INT,)


_KEPT: Mapping[str, Callable[[Graph, Operator, int], tuple[int, ...]]] = {
    "BATCH_MATMUL": _transposed_operands,
    "CONV_2D": _channel_factors(0),
    "DEPTHWISE_CONV_2D": _channel_factors(3),
    "FULLY_CONNECTED": _fully_connected_factors,
    "SOFTMAX": _softmax_tables,
    "TRANSPOSE_CONV": _channel_factors(0),
    ETHOS_U: _npu_call,
}


def _sums(graph: Graph, operator: Operator, _: int) -> tuple[int, ...]:
    """TRANSPOSE_CONV's sums of all outputs, and its bias of 16 bits made longer."""
    dtype = graph.read(operator, 2).dtype
    bias = operator.inputs[3] if len(operator.inputs) > 3 else None
    found: tuple[int, ...] = ()
    if dtype is DType.INT16 and bias is not None and graph.tensors[bias].dtype is DType.INT16:
        found = (_LONG * math.prod(graph.tensors[bias].shape),)
    each = {DType.INT8: _INT, DType.INT16: _LONG}.get(dtype)
    return found if each is None else (*found, each * math.prod(graph.made(operator).shape))


def _reduction(graph: Graph, operator: Operator, _: int) -> tuple[int, ...]:
    axes = math.prod(graph.read(operator, 1).shape)
    return _INT * len(graph.read(operator, 0).shape), _INT * axes


def _sums_and_reduction(graph: Graph, operator: Operator, pointer_bytes: int) -> tuple[int, ...]:
    sums = _INT * math.prod(graph.made(operator).shape) if graph.read(operator, 0).dtype in _QUANTISED else 0
    return (*((sums,) if sums else ()), *_reduction(graph, operator, pointer_bytes))


def _filters(graph: Graph, operator: Operator, _: int) -> tuple[int, ...]:
    batches, filters = graph.read(operator, 0).shape[0], graph.read(operator, 1).shape[0]
    units = math.prod(graph.made(operator).shape[1:])
    quantised = graph.read(operator, 0).dtype is DType.INT8
    return (_INT * batches * filters, *((_INT * batches * units,) if quantised else ()))


def _gates(graph: Graph, operator: Operator, _: int) -> tuple[int, ...]:
    """Four buffers as large as the cell's state, which is input 19."""
    return (graph.read(operator, 19).size_bytes,) * 4


def _operand_pointers(_: Graph, operator: Operator, pointer_bytes: int) -> tuple[int, ...]:
    return (pointer_bytes * len(operator.inputs),)


def _mirrored(graph: Graph, operator: Operator, _: int) -> tuple[int, ...]:
    return (_INT * len(graph.read(operator, 0).shape),) * 2


def _detections(graph: Graph, operator: Operator, _: int) -> tuple[int, ...]:
    # Few networks have one, and kernels in C take long to import.
    from .c_kernels import detection

    boxes, scores = graph.read(operator, 0).shape[1], graph.read(operator, 1).shape
    options = detection.options(graph, operator)
    most, classes = options["max_detections"], options["num_classes"]
    listed = _INT * most * boxes
    kept = (_INT * boxes,) * 2 + (listed,) * 2 + (_INT * boxes, listed)
    return (
        boxes, 4 * _INT * boxes, _INT * scores[1] * scores[2], *kept, _INT * max(classes, most) * boxes,
        _INT * min(boxes, most) * boxes,
    )  # fmt: skip


def _npu_addresses(_: Graph, operator: Operator, pointer_bytes: int) -> tuple[int, ...]:
    """An address and a size of each tensor of an NPU call."""
    count = len(operator.inputs) + len(operator.outputs)
    return _LONG * count, pointer_bytes * count


_SCRATCH: Mapping[str, Callable[[Graph, Operator, int], tuple[int, ...]]] = {
    "ADD_N": _operand_pointers,
    "MEAN": _sums_and_reduction,
    "MIRROR_PAD": _mirrored,
    "REDUCE_ALL": _reduction,
    "REDUCE_MAX": _reduction,
    "REDUCE_MIN": _reduction,
    "SUM": _sums_and_reduction,
    "SVDF": _filters,
    "TFLite_Detection_PostProcess": _detections,
    "TRANSPOSE_CONV": _sums,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _gates,
    ETHOS_U: _npu_addresses,
}
