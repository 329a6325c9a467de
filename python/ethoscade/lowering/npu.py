"""NPU operations on whole feature maps: everything that an Ethos-U can be asked to do, as data.

Owns the one type between the operator families and everything after them: operations, on the views of tensors that
`feature_maps` has. An operation is complete: its emitter needs neither the TFLite operator nor the graph. An
operator may be lowered to several of them, with temporaries between: tensors that no TFLite tensor corresponds to, and
that are scheduled, placed and rolled like any other. `NpuGraphBuilder` is how a family makes both.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

import numpy as np
import numpy.typing as npt

from ..ir import DType, Graph, Window
from ..util.records import dataclass
from .feature_maps import Area, Channels, ConstantMap, FeatureMap, NpuTensor, Scalar
from .te import Compute, Propagator, propagator


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

    def of_channels(self, channels: slice) -> Weights:
        """The constants of some output channels."""
        return replace(
            self,
            values=self.values[channels],
            bias=self.bias[channels],
            multipliers=self.multipliers[channels],
            shifts=self.shifts[channels],
        )


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

    `aliases` are the graph's tensors that are other ones' bytes: these are seen in their place, and no operation makes
    them. `sliced` are the operators that are done by slices of channels.
    """

    tensors: tuple[NpuTensor, ...]
    operations: tuple[NpuOperation, ...]
    aliases: Mapping[int, int] = field(default_factory=dict)
    sliced: tuple[int, ...] = ()


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
