"""The network between the rooms: frozen tensors, operators and graphs with dense indices.

Owns the data model and its `verify()`. Does not read files, does not decide where an operator runs, and knows
nothing of schedules. A stage takes a `Graph` and returns another one; nothing here is mutated.

Shapes are NHWC tuples of positive ints. Windows carry explicit padding: "SAME" and "VALID" end in the frontend.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from .errors import ModelFormatError
from .util.frozen import FrozenMap

Array = npt.NDArray[np.generic]
Integers = npt.NDArray[np.int64]
"""Stored values, or sums of them, in an integer type that holds them all."""
"""The values of one tensor."""

ETHOS_U = "ethos-u"
"""Kind of the custom operator that holds an NPU's commands."""


class DType(enum.Enum):
    """Element type of a tensor; the value is NumPy's name for it."""

    INT8 = "int8"
    UINT8 = "uint8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    UINT32 = "uint32"
    INT64 = "int64"
    UINT64 = "uint64"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BOOL = "bool"

    @property
    def numpy(self) -> np.dtype:
        """The NumPy dtype."""
        return np.dtype(self.value)

    @property
    def size_bytes(self) -> int:
        """Bytes of one element."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        """Whether elements are real numbers."""
        return self.numpy.kind == "f"

    @property
    def is_integer(self) -> bool:
        """Whether elements are whole numbers, signed or not; truth values are not."""
        return self.numpy.kind in "iu"

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type."""
        info = np.iinfo(self.value)
        return int(info.min), int(info.max)


EIGHT_BIT = (DType.INT8, DType.UINT8)
"""The types that most kernels compute with."""

QUANTISED = (*EIGHT_BIT, DType.INT16)
"""These and int16, of which zero points are 0."""


class Activation(enum.Enum):
    """Activation fused into an operator (TFLite `ActivationFunctionType`)."""

    NONE = "none"
    RELU = "relu"
    RELU_N1_TO_1 = "relu_n1_to_1"
    RELU6 = "relu6"


@dataclass(frozen=True)
class Quantisation:
    """real = scale * (stored - zero_point); one entry per tensor, or one per slice along `axis`.

    `scales` are the file's float32 values, finite and positive, held as Python floats without rounding. Only a constant
    may have the scale 0, where every element that it is for is zero.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None

    @property
    def scale(self) -> float:
        """The scale of a per-tensor quantisation."""
        return self.scales[0]

    @property
    def zero_point(self) -> int:
        """The zero point of a per-tensor quantisation."""
        return self.zero_points[0]


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor: a constant if `data` is there, else a value that an operator or the caller provides.

    `is_variable` marks memory that no operator makes and that its readers change in place: the state of a recurrent
    operator, the scratch of an already compiled one. A variable may be read from the start.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    quantisation: Quantisation | None = None
    data: Array | None = field(default=None, repr=False)
    is_variable: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether the value is known at compile time."""
        return self.data is not None

    def constant(self) -> Array:
        """The value of a constant. Raises `ModelFormatError` where there is none before the network runs."""
        if self.data is None:
            raise ModelFormatError(f"tensor '{self.name}' is not constant", tensor=self.name)
        return self.data

    def reset_value(self) -> Array:
        """What a variable tensor holds before the first run (TFLite's ResetVariableTensors): 0, int8 its zero point."""
        value = self.quantisation.zero_point if self.dtype is DType.INT8 and self.quantisation is not None else 0
        return np.full(self.shape, value, self.dtype.numpy)

    @property
    def size_bytes(self) -> int:
        """Bytes of the packed tensor."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.size_bytes


@dataclass(frozen=True)
class Window:
    """Geometry of a sliding window, in elements; padding is explicit and per side."""

    kernel_h: int
    kernel_w: int
    stride_h: int = 1
    stride_w: int = 1
    dilation_h: int = 1
    dilation_w: int = 1
    pad_top: int = 0
    pad_left: int = 0
    pad_bottom: int = 0
    pad_right: int = 0

    @property
    def dilated_h(self) -> int:
        """Rows that the dilated kernel spans."""
        return (self.kernel_h - 1) * self.dilation_h + 1

    @property
    def dilated_w(self) -> int:
        """Columns that the dilated kernel spans."""
        return (self.kernel_w - 1) * self.dilation_w + 1


@dataclass(frozen=True)
class ConvAttrs:
    """CONV_2D (weights OHWI) and DEPTHWISE_CONV_2D (weights 1HWC; `depth_multiplier` outputs per input channel)."""

    window: Window
    activation: Activation = Activation.NONE
    depth_multiplier: int = 1


@dataclass(frozen=True)
class TransposeConvAttrs:
    """TRANSPOSE_CONV (weights OHWI): what undoes the strides of a convolution.

    `window` is that convolution's, over the output, of which `size` are the height and width: input pixel (y, x) adds
    the weights times its value to the outputs from (y * stride_h - pad_top, x * stride_w - pad_left) on.
    """

    window: Window
    size: tuple[int, int]
    activation: Activation = Activation.NONE


@dataclass(frozen=True)
class PoolAttrs:
    """AVERAGE_POOL_2D and MAX_POOL_2D."""

    window: Window
    activation: Activation = Activation.NONE


@dataclass(frozen=True)
class FullyConnectedAttrs:
    """FULLY_CONNECTED with weights (outputs, inputs)."""

    activation: Activation = Activation.NONE
    keep_num_dims: bool = False


@dataclass(frozen=True)
class BatchMatMulAttrs:
    """BATCH_MATMUL: whether the last two axes of the left and of the right operand change places first."""

    adj_x: bool = False
    adj_y: bool = False


@dataclass(frozen=True)
class LstmAttrs:
    """UNIDIRECTIONAL_SEQUENCE_LSTM: whether time is the first axis and not the second; the largest cell, 0 for any."""

    time_major: bool = False
    cell_clip: float = 0.0


class LstmInputs:
    """Places of an LSTM's inputs. Of the gates in the order input, forget, cell, output: number `update` is the cell's.

    `hidden` and `cell` are the state.
    """

    of_input = (1, 2, 3, 4)
    of_state = (5, 6, 7, 8)
    peepholes = (9, 10, 11)
    biases = (12, 13, 14, 15)
    projection = (16, 17)
    hidden, cell = 18, 19
    norms = (20, 21, 22, 23)
    update = 2
    parameters = (*of_input, *of_state, *biases)


@dataclass(frozen=True)
class SvdfAttrs:
    """SVDF: how many filters there are for each unit.

    Kernels of integers heed no fused activation: converters choose the output's range so that it is one.
    """

    rank: int = 1


class SvdfInputs:
    """Places of an SVDF's inputs: weights of the input and of what is remembered of each filter, and the state."""

    of_input, in_time, bias, state = 1, 2, 3, 4
    parameters = (of_input, in_time, bias)


@dataclass(frozen=True)
class AddAttrs:
    """ADD of two tensors."""

    activation: Activation = Activation.NONE


@dataclass(frozen=True)
class ArithmeticAttrs:
    """SUB, MUL or DIV of two tensors."""

    activation: Activation = Activation.NONE


@dataclass(frozen=True)
class SoftmaxAttrs:
    """SOFTMAX over the last axis."""

    beta: float = 1.0


@dataclass(frozen=True)
class LeakyReluAttrs:
    """LEAKY_RELU: what is negative is multiplied by `alpha`."""

    alpha: float


@dataclass(frozen=True)
class GeluAttrs:
    """GELU, exact or by its approximation with a hyperbolic tangent."""

    approximate: bool = False


@dataclass(frozen=True)
class TableAttrs:
    """QUANTIZE in the place of functions of one element: a result for each stored value, the lowest first.

    No file says it; rules make it.
    """

    results: tuple[int, ...]


@dataclass(frozen=True)
class ReductionAttrs:
    """MEAN, REDUCE_MAX, REDUCE_MIN and SUM over `axes` (non-negative, ascending)."""

    axes: tuple[int, ...]
    keep_dims: bool


@dataclass(frozen=True)
class ArgMaxAttrs:
    """ARG_MAX along `axis` (non-negative): where the first of the largest elements is, as int32 or int64."""

    axis: int


@dataclass(frozen=True)
class PadAttrs:
    """PAD and PADV2; (before, after) for each dimension, of the stored value `fill`, None for the zero point."""

    paddings: tuple[tuple[int, int], ...]
    fill: int | None = None


@dataclass(frozen=True)
class MirrorPadAttrs:
    """MIRROR_PAD; (before, after) for each dimension. The outermost elements are repeated where it is `symmetric`."""

    paddings: tuple[tuple[int, int], ...]
    symmetric: bool


@dataclass(frozen=True)
class TileAttrs:
    """TILE: how often the tensor is repeated along each dimension."""

    multiples: tuple[int, ...]


@dataclass(frozen=True)
class ReverseAttrs:
    """REVERSE_V2 along `axes` (non-negative, ascending)."""

    axes: tuple[int, ...]


@dataclass(frozen=True)
class GatherAttrs:
    """GATHER: the elements number `indices` (non-negative) along `axis` (non-negative), in that order."""

    axis: int
    indices: tuple[int, ...]


@dataclass(frozen=True)
class TransposeAttrs:
    """TRANSPOSE of a tensor of `extents` to one whose axes are its axes `permutation` (non-negative), in this order.

    On the NPU the tensor read may have another shape with as many elements.
    """

    permutation: tuple[int, ...]
    extents: tuple[int, ...]

    @property
    def moves(self) -> bool:
        """Whether any element changes its place: not where only axes of extent 1 do."""
        places = [axis for axis in self.permutation if self.extents[axis] > 1]
        return places != sorted(places)


@dataclass(frozen=True)
class ResizeNearestAttrs:
    """RESIZE_NEAREST_NEIGHBOR of an image to another (height, width); see `quantised.nearest_indices`."""

    size: tuple[int, int]
    align_corners: bool = False
    half_pixel_centers: bool = False


@dataclass(frozen=True)
class ResizeBilinearAttrs:
    """RESIZE_BILINEAR of an image to another (height, width); see `quantised.bilinear_taps`."""

    size: tuple[int, int]
    align_corners: bool = False
    half_pixel_centers: bool = False


@dataclass(frozen=True)
class StridedSliceAttrs:
    """STRIDED_SLICE with masks resolved, SLICE: (begin, end, stride) for each dimension, as Python's `range` counts.

    A negative stride may end at -1 (before element 0). `shrink_axes` are the dimensions of extent 1 that vanish.
    """

    ranges: tuple[tuple[int, int, int], ...]
    shrink_axes: tuple[int, ...] = ()


@dataclass(frozen=True)
class PackAttrs:
    """PACK of equal tensors along a new dimension `axis` (non-negative)."""

    axis: int


@dataclass(frozen=True)
class UnpackAttrs:
    """UNPACK along the dimension `axis` (non-negative), which vanishes."""

    axis: int


@dataclass(frozen=True)
class SplitAttrs:
    """SPLIT and SPLIT_V: the first `sizes[0]` elements along `axis` (non-negative) into the first output, and so on.

    `operand` is the index of the input that is split; the others say how.
    """

    axis: int
    sizes: tuple[int, ...]
    operand: int


@dataclass(frozen=True)
class ConcatenationAttrs:
    """CONCATENATION of tensors of one quantisation along `axis` (non-negative)."""

    axis: int


Attrs = (
    ConvAttrs
    | TransposeConvAttrs
    | PoolAttrs
    | FullyConnectedAttrs
    | BatchMatMulAttrs
    | LstmAttrs
    | SvdfAttrs
    | AddAttrs
    | ArithmeticAttrs
    | SoftmaxAttrs
    | LeakyReluAttrs
    | GeluAttrs
    | TableAttrs
    | ReductionAttrs
    | ArgMaxAttrs
    | PadAttrs
    | MirrorPadAttrs
    | TileAttrs
    | ReverseAttrs
    | GatherAttrs
    | TransposeAttrs
    | ResizeNearestAttrs
    | ResizeBilinearAttrs
    | StridedSliceAttrs
    | PackAttrs
    | UnpackAttrs
    | SplitAttrs
    | ConcatenationAttrs
    | None
)


_Class = TypeVar("_Class")


@dataclass(frozen=True)
class Operator:
    """One operator. `kind` is TFLite's builtin name (or a custom operator's code); an absent optional input is None.

    `attrs` is None for kinds without attributes of interest and for kinds the frontend only carries along.
    `source_index` is the operator's place in the file it came from, None for one that a rewrite made.
    `opaque` says that the frontend did not look into it: it can only stay on the CPU, for the reason given.
    `intermediates` are tensors that lend an LSTM their quantisation; no bytes of them exist.

    The shape of an operator follows from its inputs and attrs, not from its output tensor: once reshapes are folded,
    an operator for the NPU may write a tensor of another shape with the same number of elements in the same order,
    and FULLY_CONNECTED and TRANSPOSE may read one. Operators for the CPU have the shapes that the file gave them.
    """

    kind: str
    name: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    attrs: Attrs = None
    source_index: int | None = None
    opaque: str | None = None
    intermediates: tuple[int, ...] = ()

    def attributes(self, wanted: type[_Class]) -> _Class:
        """`attrs` as the class that the operator's kind has. Raises `ModelFormatError` if they are of another."""
        if not isinstance(self.attrs, wanted):
            raise ModelFormatError(
                f"operator '{self.name}' ({self.kind}) has attributes {self.attrs!r}; it takes {wanted.__name__}",
                operator=self.name,
                value=self.attrs,
            )
        return self.attrs

    def input(self, place: int) -> int:
        """The tensor index of the input at `place`. Raises `ModelFormatError` if it is absent."""
        found = self.inputs[place] if place < len(self.inputs) else None
        if found is None:
            raise ModelFormatError(
                f"operator '{self.name}' ({self.kind}) has no input {place}", operator=self.name, value=place
            )
        return found


@dataclass(frozen=True, eq=False)
class Variable:
    """State that lives on: what `after` holds at the end of a run, `before` holds at the start of the next one.

    Both are tensors of the graph, by index, of one type and shape. Before the first run `before` holds `initial`. So a
    run is a function of its inputs and its state, and nothing in it changes under a reader's hands.

    `in_place` says that the file has one tensor for both, a variable tensor that the operator which makes `after`
    writes over; else they are what a READ_VARIABLE makes and an ASSIGN_VARIABLE stores, of the resource called `name`.
    """

    name: str
    before: int
    after: int
    initial: Array = field(repr=False)
    in_place: bool = False


@dataclass(frozen=True, eq=False)
class Graph:
    """Tensors and operators by dense index, operators in execution order.

    `inputs` hold a value before the first operator, `outputs` are wanted after the last: first those of the caller, in
    the file's order, then the state in the order of `variables`, `before` and `after`.
    `source` holds the bytes of the file (operators that stay on the CPU are copied from it), `metadata` the file's
    named metadata buffers.
    """

    name: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    source: bytes = field(default=b"", repr=False)
    metadata: Mapping[str, bytes] = field(default_factory=lambda: FrozenMap({}), repr=False)
    variables: tuple[Variable, ...] = ()

    @property
    def given(self) -> tuple[int, ...]:
        """The inputs that the caller brings: all but the state."""
        return self.inputs[: len(self.inputs) - len(self.variables)]

    @property
    def handed_out(self) -> tuple[int, ...]:
        """The outputs that the caller gets: all but the state."""
        return self.outputs[: len(self.outputs) - len(self.variables)]

    @property
    def kept(self) -> tuple[int, ...]:
        """The tensors whose bytes hold state from the end of one run to the start of the next."""
        variables = (i for i, tensor in enumerate(self.tensors) if tensor.is_variable)
        return (*variables, *(variable.before for variable in self.variables))

    def read(self, operator: Operator, place: int = 0) -> Tensor:
        """The tensor that `operator` reads at `place`. Raises `ModelFormatError` if that input is absent."""
        return self.tensors[operator.input(place)]

    def made(self, operator: Operator, place: int = 0) -> Tensor:
        """The tensor that `operator` writes at `place`."""
        return self.tensors[operator.outputs[place]]

    def producer(self) -> dict[int, int]:
        """Tensor index to the index of the operator that makes it."""
        return {t: i for i, op in enumerate(self.operators) for t in op.outputs}

    def consumers(self) -> dict[int, tuple[int, ...]]:
        """Tensor index to the indices of the operators that read it, ascending, without repetition."""
        found: dict[int, list[int]] = {}
        for i, op in enumerate(self.operators):
            for t in dict.fromkeys(t for t in op.inputs if t is not None):
                found.setdefault(t, []).append(i)
        return {t: tuple(readers) for t, readers in found.items()}

    def verify(self) -> Graph:
        """Check the invariants of the data model and return self.

        Raises `ModelFormatError`: an index out of range, a tensor made twice or read before it is made, a constant
        whose data has another shape or type, an output that nobody makes. NPU programs may write what is there already.
        """
        known = set(self.inputs) | {i for i, t in enumerate(self.tensors) if t.is_constant or t.is_variable}
        self._check_variables()
        for index in (*self.inputs, *self.outputs):
            self._check_index(index, "graph")
        for tensor in self.tensors:
            # Compiled files and scalar reshapes carry constants without elements; a value has at least one.
            if any(d <= 0 for d in tensor.shape) and not (tensor.is_constant and tensor.shape == (0,)):
                raise ModelFormatError(
                    f"tensor '{tensor.name}' has shape {tensor.shape}: every dimension must be at least 1",
                    tensor=tensor.name,
                    value=tensor.shape,
                )
            if tensor.data is not None and (
                tensor.data.shape != tensor.shape or tensor.data.dtype != tensor.dtype.numpy
            ):
                raise ModelFormatError(
                    f"constant '{tensor.name}' holds {tensor.data.dtype}{tensor.data.shape}, "
                    f"its tensor says {tensor.dtype.value}{tensor.shape}",
                    tensor=tensor.name,
                    value=tensor.data.shape,
                )
        for op in self.operators:
            for t in op.inputs:
                if t is None:
                    continue
                self._check_index(t, op.name)
                if t not in known:
                    raise ModelFormatError(
                        f"operator '{op.name}' ({op.kind}) reads tensor '{self.tensors[t].name}' before anything "
                        f"makes it: operators are out of order or an input is missing",
                        operator=op.name,
                        tensor=self.tensors[t].name,
                        value=t,
                    )
            for t in op.intermediates:
                self._check_index(t, op.name)
            for t in op.outputs:
                self._check_index(t, op.name)
                rewritten = op.kind == ETHOS_U and not self.tensors[t].is_constant
                if t in known and not rewritten:
                    raise ModelFormatError(
                        f"operator '{op.name}' ({op.kind}) writes tensor '{self.tensors[t].name}', which is a "
                        f"constant, a variable, an input or already made",
                        operator=op.name,
                        tensor=self.tensors[t].name,
                        value=t,
                    )
                known.add(t)
        for t in self.outputs:
            if t not in known:
                raise ModelFormatError(
                    f"graph output '{self.tensors[t].name}' is made by no operator",
                    tensor=self.tensors[t].name,
                    value=t,
                )
        return self

    def _check_variables(self) -> None:
        state = [[getattr(variable, end) for variable in self.variables] for end in ("before", "after")]
        if state != [list(self.inputs[len(self.given) :]), list(self.outputs[len(self.handed_out) :])]:
            raise AssertionError(f"the variables of '{self.name}' are not the last of its inputs and outputs")
        for variable in self.variables:
            for index in (variable.before, variable.after):
                self._check_index(index, variable.name)
                tensor, initial = self.tensors[index], variable.initial
                if (tensor.size_bytes, tensor.dtype.numpy) != (initial.nbytes, initial.dtype):
                    raise ModelFormatError(
                        f"variable '{variable.name}' starts as {initial.dtype}{initial.shape}, and its tensor "
                        f"'{tensor.name}' is {tensor.dtype.value}{tensor.shape}",
                        tensor=tensor.name,
                        value=tensor.shape,
                    )

    def _check_index(self, index: int, where: str) -> None:
        if not 0 <= index < len(self.tensors):
            raise ModelFormatError(
                f"'{where}' refers to tensor {index}; the file has {len(self.tensors)}", operator=where, value=index
            )
