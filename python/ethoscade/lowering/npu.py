"""NPU operations on whole feature maps: everything that an Ethos-U can be asked to do, as data.

Owns the one type between the operator families and everything after them: tensors, views of them, operations. An
operation is complete: whoever emits it needs neither the TFLite operator nor the graph. An operator may be lowered to
several of them, with temporaries between: tensors that no TFLite tensor corresponds to, and that are scheduled, placed
and rolled like any other. `NpuGraphBuilder` is how a family makes both.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..ir import DType, Graph, Window
from ..util.records import dataclass
from .te import Compute, Propagator, propagator

ARENA = "arena"
"""The pool of feature maps that the memory planner places."""

BRICK_CHANNELS = 16


class OperationKind(enum.Enum):
    """What the NPU is asked to do."""

    CONVOLUTION = "convolution"
    DEPTHWISE = "depthwise"
    AVERAGE_POOL = "average_pool"
    MAX_POOL = "max_pool"
    SUM_OVER_DEPTH = "sum_over_depth"
    MUL = "mul"
    ADD = "add"
    SUB = "sub"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    LEAKY_RELU = "leaky_relu"
    ABS = "abs"
    CLZ = "clz"
    SHR = "shr"
    SHL = "shl"

    @property
    def has_weights(self) -> bool:
        """Whether it reads weights and a scale for each channel."""
        return self in (OperationKind.CONVOLUTION, OperationKind.DEPTHWISE)

    @property
    def is_pool(self) -> bool:
        """Whether it is one of the pools."""
        return self in (OperationKind.AVERAGE_POOL, OperationKind.MAX_POOL, OperationKind.SUM_OVER_DEPTH)

    @property
    def is_elementwise(self) -> bool:
        """Whether it looks at one element of each operand."""
        return not (self.has_weights or self.is_pool)

    @property
    def reads_whole_depth(self) -> bool:
        """Whether every output channel depends on all input channels."""
        return self in (OperationKind.CONVOLUTION, OperationKind.SUM_OVER_DEPTH)


class Rounding(enum.Enum):
    """Output rounding: TFLite's double rounding, half up (ETHOS-U "natural"), or towards zero."""

    TFL = "tfl"
    NATURAL = "natural"
    TRUNCATE = "truncate"


class Upscale(enum.Enum):
    """The input doubled in height and width before it is read: each pixel repeated, or followed by zeros."""

    NONE = "none"
    NEAREST = "nearest"
    ZEROS = "zeros"

    @property
    def factor(self) -> int:
        """Rows and columns that stand for one."""
        return 1 if self is Upscale.NONE else 2


class Layout(enum.Enum):
    """How a feature map's elements follow each other in memory; rows follow each other in both.

    NHWC: within a row pixel by pixel, all channels of each. NHCWB16: within a row in bricks, each of them
    `BRICK_CHANNELS` channels of all the row's pixels.
    """

    NHWC = "NHWC"
    NHCWB16 = "NHCWB16"


class Channels(NamedTuple):
    """Some channels of a pixel: the `first` one of them, and how many the pixel has in memory."""

    first: int
    of: int


class Area(NamedTuple):
    """Some rows and columns of an output that several operations make: the `first` row and column, and those of all."""

    first: tuple[int, int]
    of: tuple[int, int]


@dataclass(frozen=True)
class NpuTensor:
    """A feature map in memory: (height, width, depth) as its maker sees it, or its first reader if no NPU operation is.

    `id` counts the tensors of its `NpuGraph`. `graph_tensor` is the index of the TFLite tensor, None for a temporary
    of one operator. `pool` says which memory it lives in.
    """

    id: int
    name: str
    shape: tuple[int, int, int]
    dtype: DType
    layout: Layout = Layout.NHWC
    pool: str = ARENA
    graph_tensor: int | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements, packed."""
        height, width, depth = self.shape
        return height * width * depth * self.dtype.size_bytes


@dataclass(frozen=True)
class FeatureMap:
    """An operation's view of a tensor, seen as `shape` (height, width, depth).

    The view's bytes are the tensor's bytes, packed. A view of an NHWC tensor whose rows or columns are not the tensor's
    own (a flattened one, say) is simply another shape with the same number of elements. In NHCWB16 the depth is a
    multiple of `BRICK_CHANNELS`, and all views of a tensor have the same shape.

    `channels` says which ones are seen where they are not all of a pixel's; in NHCWB16 they begin and end with a brick.
    `place` says where an output lies that has not all rows and columns; an input has all of them, and which of these
    are read is the index expression's. `zero_point` is what is taken off the stored values of an input, or added to
    those of an output.

    `strides` are elements from row to row and from column to column of an input that is seen in another order than it
    lies in, 0 where all are one: pixel by pixel and whole. `channels` then counts from the tensor's first element, of
    as many as there are from the last pixel's first one on.
    """

    tensor: NpuTensor
    shape: tuple[int, int, int]
    zero_point: int = 0
    channels: Channels | None = None
    place: Area | None = None
    strides: tuple[int, int] | None = None

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.tensor.dtype

    @property
    def layout(self) -> Layout:
        """The layout in memory."""
        return self.tensor.layout

    @property
    def first_channel(self) -> int:
        """The channel in memory that is the view's first."""
        return 0 if self.channels is None else self.channels.first

    @property
    def plane(self) -> tuple[int, int]:
        """Rows and columns in memory."""
        return self.shape[:2] if self.place is None else self.place.of

    @property
    def corner(self) -> tuple[int, int]:
        """The row and column in memory that are the view's first."""
        return (0, 0) if self.place is None else self.place.first

    @property
    def pixel_channels(self) -> int:
        """Channels of a pixel in memory."""
        return self.shape[2] if self.channels is None else self.channels.of

    def apart(self, shape: tuple[int, int, int], strides: tuple[int, int], first: int = 0) -> FeatureMap:
        """The tensor, seen as it lies, with pixels as far apart as `strides` say, from the element `first` on."""
        (height, width, _), (row, column) = shape, strides
        left = math.prod(self.shape) - (height - 1) * row - (width - 1) * column
        return replace(self, shape=shape, strides=strides, channels=Channels(first, left))

    @property
    def byte_strides(self) -> tuple[int, int] | None:
        """`strides` in bytes."""
        if self.strides is None:
            return None
        row, column = self.strides
        return row * self.dtype.size_bytes, column * self.dtype.size_bytes

    @property
    def size_bytes(self) -> int:
        """Bytes of the feature map in memory, channels that the view leaves out included."""
        h, w = self.plane
        if self.strides is not None:
            row, column = self.strides
            return ((h - 1) * row + (w - 1) * column + self.pixel_channels) * self.dtype.size_bytes
        return h * w * self.pixel_channels * self.dtype.size_bytes


@dataclass(frozen=True)
class Scalar:
    """A second operand that is one number: the stored `value`, less `zero_point`. It fits 16 bits."""

    value: int
    dtype: DType
    zero_point: int = 0


@dataclass(frozen=True, eq=False)
class ConstantMap:
    """A second operand that is a constant feature map: the stored `values`, (height, width, depth), less `zero_point`.

    It lies with the other constants, in the order of `layout`, and is read from there.
    """

    values: npt.NDArray[np.integer] = field(repr=False)
    dtype: DType
    zero_point: int = 0
    layout: Layout = Layout.NHWC

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and depth."""
        height, width, depth = self.values.shape
        return height, width, depth

    @property
    def plane(self) -> tuple[int, int]:
        """Rows and columns in memory: all."""
        return self.shape[:2]

    @property
    def corner(self) -> tuple[int, int]:
        """It is read from its first row and column on."""
        return 0, 0

    @property
    def first_channel(self) -> int:
        """It is read from its first channel on."""
        return 0

    @property
    def pixel_channels(self) -> int:
        """Channels of a pixel in memory: all."""
        return self.shape[2]

    @property
    def data(self) -> bytes:
        """Its bytes, little-endian, in the order in which they lie in memory."""
        values: npt.NDArray[np.integer] = np.asarray(self.values, self.dtype.numpy.newbyteorder("<"))
        if self.layout is Layout.NHCWB16:
            height, width, depth = self.shape
            bricks = values.reshape(height, width, depth // BRICK_CHANNELS, BRICK_CHANNELS)
            values = bricks.transpose(0, 2, 1, 3)
        return values.tobytes()


@dataclass(frozen=True, eq=False)
class Weights:
    """Constants of a convolution or depthwise operation.

    `values` less `zero_point` are the weights (-255..255), OHWI; depthwise has I = 1 and O = channels. They are the
    file's own bytes, in whatever order in memory, so that a large model is not held several times. `bias` int64,
    `multipliers` (0..2^32-1) and `shifts` (0..63) have one entry per output channel:
    result = round(accumulator * multiplier * 2^-shift).
    """

    values: npt.NDArray[np.integer] = field(repr=False)
    bias: npt.NDArray[np.int64] = field(repr=False)
    multipliers: npt.NDArray[np.int64] = field(repr=False)
    shifts: npt.NDArray[np.int64] = field(repr=False)
    zero_point: int = 0


@dataclass(frozen=True)
class Scale:
    """One factor for all results: round(accumulator * multiplier * 2^-shift), 31 bits and a shift of 0..63."""

    multiplier: int
    shift: int


UNSCALED = Scale(1 << 30, 30)
"""The factor 1."""


def two_to(power: int) -> Scale:
    """The factor 2^`power`."""
    return Scale(UNSCALED.multiplier, UNSCALED.shift - power)


@dataclass(frozen=True)
class OperandScales:
    """Real scales of both operands and of the result of an ADD or SUB: TFLite's rules make its factors of them.

    Operands of one scale are added as they are if no result can differ, else one of them is rescaled to the other's.
    """

    first: float
    second: float
    result: float


Scaling = Scale | OperandScales | None
"""None: as the weights say, channel by channel; the mean of what a window covers; else as the values come."""


class Function(enum.Enum):
    """What happens to a result before it is stored, unless it is looked up in a table."""

    CLAMP = "clamp"
    TANH = "tanh"
    SIGMOID = "sigmoid"


@dataclass(frozen=True)
class Table:
    """A table in the SHRAM: `data` as the LUT area holds it, 256, 1024 or 2048 bytes. Equal content is one table.

    256 int8 or uint8 for 8-bit results, 256 int32 for 8-bit values looked up as 32 bits, 512 pairs of base and slope
    for 16 bits.
    """

    data: bytes = field(repr=False)

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes of the LUT area."""
        return len(self.data)


@dataclass(frozen=True, eq=False)
class NpuOperation:
    """One NPU operation on whole feature maps.

    `operator` is the index of the graph operator that it serves, `absorbed` are further ones whose work it does as
    well. `clamp` is the inclusive range of stored output values. Elementwise operations have a 1x1 window without
    padding. Of two operands a second one of one row, column or channel, where the first has more, is repeated;
    `swap_operands` makes it the first of a difference or shift. Operations of one operator that follow each other may
    make different boxes (rows, columns, channels) of one output. `same_as` is a table of 256 results that would do the
    same to stored bytes.
    """

    name: str
    operator: int
    kind: OperationKind
    ifm: FeatureMap
    ofm: FeatureMap
    window: Window
    compute: Compute
    clamp: tuple[int, int]
    ifm2: FeatureMap | ConstantMap | Scalar | None = None
    upscale: Upscale = Upscale.NONE
    weights: Weights | None = None
    scaling: Scaling = None
    rounding: Rounding = Rounding.TFL
    function: Function | Table = Function.CLAMP
    swap_operands: bool = False
    absorbed: tuple[int, ...] = ()
    same_as: Table | None = None

    @property
    def serves(self) -> tuple[int, ...]:
        """Graph operators that it serves, in order."""
        return (self.operator, *self.absorbed)

    @property
    def inputs(self) -> tuple[FeatureMap, ...]:
        """The feature maps that it reads, constants not among them: one or two."""
        return (self.ifm, self.ifm2) if isinstance(self.ifm2, FeatureMap) else (self.ifm,)

    @property
    def broadcast(self) -> tuple[bool, bool, bool]:
        """Along which of height, width and depth the second operand is repeated."""
        if not isinstance(self.ifm2, FeatureMap | ConstantMap):
            return False, False, False
        second = self.ifm2.shape if isinstance(self.ifm2, ConstantMap) else self.extents(1)
        height, width, depth = (a != b for a, b in zip(self.extents(0), second, strict=True))
        return height, width, depth

    @property
    def accumulator_bits(self) -> int:
        """Bits of what it sums up in, 32 or 40: sums of values of 16 bits may need more than 32."""
        sums = self.kind.has_weights or self.kind is OperationKind.SUM_OVER_DEPTH
        return 40 if sums and self.ifm.dtype is DType.INT16 else 32

    @property
    def scaling_mode(self) -> str:
        """Where its factors come from: "none", "global", "per_channel" or "operands"."""
        if self.weights is not None:
            return "per_channel"
        if isinstance(self.scaling, OperandScales):
            return "operands"
        return "none" if self.scaling is None else "global"

    def inside(self, number: int) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """The rows and columns of an input that exist to its windows: the first ones, and how many; None for all."""
        access = next(access for access in self.compute.reads if access.operand == number)
        if access.origin is None:
            return None
        return access.origin, access.extents[1:3]

    def extents(self, number: int) -> tuple[int, int, int]:
        """Rows, columns and channels that there are to it of an input."""
        view, inside = self.inputs[number], self.inside(number)
        return view.shape if inside is None else (*inside[1], view.shape[2])

    def propagators(self) -> tuple[Propagator, ...]:
        """One propagator per input feature map, derived from the compute definition."""
        reads = {access.operand: access for access in self.compute.reads}
        return tuple(propagator(self.compute, reads[i]) for i in range(len(self.inputs)))


@dataclass(frozen=True, eq=False)
class NpuGraph:
    """What the NPU does: `tensors` by their ids, `operations` in execution order.

    `aliases` are the graph's tensors that are other ones' bytes: these are seen in their place, and nobody makes them.
    """

    tensors: tuple[NpuTensor, ...]
    operations: tuple[NpuOperation, ...]
    aliases: Mapping[int, int] = field(default_factory=dict)


def renumbered(npu: NpuGraph, operations: Iterable[NpuOperation], tensors: Mapping[int, NpuTensor]) -> NpuGraph:
    """`npu` with other operations and `tensors`, by the ids with which the operations see them; all get new ones."""
    kept = {old: replace(tensor, id=new) for new, (old, tensor) in enumerate(tensors.items())}

    def seen(view: FeatureMap) -> FeatureMap:
        return replace(view, tensor=kept[view.tensor.id])

    def of_kept(operation: NpuOperation) -> NpuOperation:
        second = operation.ifm2
        second = seen(second) if isinstance(second, FeatureMap) else second
        return replace(operation, ifm=seen(operation.ifm), ifm2=second, ofm=seen(operation.ofm))

    return replace(npu, tensors=tuple(kept.values()), operations=tuple(map(of_kept, operations)))


class NpuGraphBuilder:
    """Collects the operations of a graph's operators and the tensors that they touch."""

    def __init__(self, graph: Graph, aliases: Mapping[int, int] | None = None) -> None:
        self._graph = graph
        self._aliases = aliases or {}
        self._tensors: list[NpuTensor] = []
        self._operations: list[NpuOperation] = []
        self._known: dict[int, NpuTensor] = {}
        self._temporaries: dict[int, int] = {}

    def view(
        self,
        tensor: int,
        shape: tuple[int, int, int],
        zero_point: int | None = None,
        channels: Channels | None = None,
        place: Area | None = None,
        dtype: DType | None = None,
    ) -> FeatureMap:
        """The graph's tensor of that index seen as `shape`; another `zero_point` than its own may be subtracted.

        Of an alias the tensor whose bytes it is, with the alias' zero point.

        Its maker may see the same bytes as elements of another `dtype`.
        Precondition: per-tensor quantisation (`limits.feature_map`).
        """
        found, root = self._graph.tensors[tensor], self._aliases.get(tensor, tensor)
        if root not in self._known:
            height, width = shape[:2] if place is None else place.of
            whole = (height, width, shape[2] if channels is None else channels.of)
            self._known[root] = self._new(self._graph.tensors[root].name, whole, dtype or found.dtype, root)
        if zero_point is None:
            zero_point = 0 if found.quantisation is None else found.quantisation.zero_point
        return FeatureMap(self._known[root], shape, zero_point, channels, place)

    def temporary(self, operator: int, shape: tuple[int, int, int], dtype: DType, zero_point: int = 0) -> FeatureMap:
        """A new tensor that lives between operations of the operator of that index, whole."""
        number = self._temporaries[operator] = self._temporaries.get(operator, 0) + 1
        name = f"temporary {number} of '{self._graph.operators[operator].name}'"
        return FeatureMap(self._new(name, shape, dtype, None), shape, zero_point)

    def add(self, operation: NpuOperation) -> None:
        """One more operation, behind all that are there."""
        self._operations.append(operation)

    def graph(self) -> NpuGraph:
        """All that was collected."""
        return NpuGraph(tuple(self._tensors), tuple(self._operations), self._aliases)

    def _new(self, name: str, shape: tuple[int, int, int], dtype: DType, tensor: int | None) -> NpuTensor:
        made = NpuTensor(len(self._tensors), name, shape, dtype, graph_tensor=tensor)
        self._tensors.append(made)
        return made


def graph_tensors(views: Sequence[FeatureMap]) -> dict[int, None]:
    """Indices of the graph's tensors that are seen, in order; temporaries have none."""
    return {view.tensor.graph_tensor: None for view in views if view.tensor.graph_tensor is not None}


def absorbed_operators(operations: Iterable[NpuOperation]) -> frozenset[int]:
    """Graph operators that others' operations carry out, so that they have none of their own."""
    return frozenset(operator for operation in operations for operator in operation.absorbed)


def tables_of(operations: Iterable[NpuOperation]) -> tuple[Table, ...]:
    """The tables that operations look their results up in, each once, in order of first use."""
    return tuple(dict.fromkeys(o.function for o in operations if isinstance(o.function, Table)))
