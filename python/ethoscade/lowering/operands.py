"""How the NPU sees two operands that are repeated to one shape, and which of them it reads first.

Owns the step from TFLite's broadcasting, of any rank and on either side, to height, width and depth, and constants as
second operands. The NPU repeats the second operand alone, from one row, column or channel to all of the first one's: of
two that are both repeated one is made whole beforehand, by copies that read it again and again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
import numpy.typing as npt

from ..ir import Array, DType, Graph, Operator, Tensor
from ..ir.quantised import zero_point_of
from ..util.records import dataclass
from . import constraints, limits, moves, strided, views
from .feature_maps import ConstantMap, FeatureMap, Scalar
from .maker import Maker

SCALAR_RANGE = range(-(1 << 15), 1 << 15)
"""What a number may be that stands for a second operand: its register has 16 bits."""


@dataclass(frozen=True)
class Pairing:
    """Two operands of a result of shape `whole`: what is seen of each, and which one the NPU reads `first` (0 or 1).

    `copies` says of feature maps that are made whole beforehand by which copies. `repeated` is the shape that both are
    repeated to; the operator may write its elements in another one.
    """

    whole: views.Shape3
    repeated: tuple[int, ...]
    seen: tuple[views.Shape3, views.Shape3]
    first: int
    copies: Mapping[int, strided.Way]

    @property
    def second(self) -> int:
        """Which one may be repeated."""
        return 1 - self.first


def pair(a: Tensor, b: Tensor, first: int | None = None) -> Pairing | str:
    """How the NPU sees two operands, or why it cannot; that one `first`, if it is given, of which all else is made."""
    if a.is_constant and b.is_constant:
        return f"'{a.name}' and '{b.name}' are both constants; one is made while the network runs"
    why = ""
    for repeated in _repetitions((a, b)):
        found = _paired((a, b), repeated)
        if isinstance(found, Pairing):
            if first in (None, found.first):
                return found
        else:
            why = found or why
    return why


def _repetitions(tensors: tuple[Tensor, Tensor]) -> list[tuple[int, ...]]:
    """Which operands may be made whole beforehand, the cheapest first: none, constants, the smaller feature map."""
    constants = tuple(place for place in (0, 1) if tensors[place].is_constant)
    maps = sorted({0, 1}.difference(constants), key=lambda place: (math.prod(tensors[place].shape), place))
    ones = [(place,) for place in maps]
    return [(), constants, *ones, *((*one, *constants) for one in ones), tuple(maps)]


def _paired(tensors: tuple[Tensor, Tensor], repeated: tuple[int, ...]) -> Pairing | str | None:
    """How the NPU sees two operands of which some are made whole; why copies cannot; None where it takes more."""
    result = np.broadcast_shapes(*(tensor.shape for tensor in tensors))
    a, b = (result if place in repeated else tensor.shape for place, tensor in enumerate(tensors))
    found = _folded(a, b)
    if found is None:
        return None
    height, width, depth = map(max, *found)
    whole = (height, width, depth)
    first = next((place for place in (0, 1) if found[place] == whole and not tensors[place].is_constant), None)
    if first is None:
        return None
    copies = {}
    for place in (place for place in repeated if not tensors[place].is_constant):
        way = strided.way(_axes(tensors[place].shape, result), whole)
        if isinstance(way, str):
            return f"'{tensors[place].name}' of shape {tensors[place].shape} is repeated to {result}, and {way}"
        copies[place] = way
    return Pairing(whole, result, found, first, copies)


def _axes(shape: tuple[int, ...], result: tuple[int, ...]) -> list[strided.Dimension]:
    """The axes of a result, and how far apart what is repeated along them lies."""
    own = (1,) * (len(result) - len(shape)) + shape
    return [
        strided.Dimension(extent, 0 if own[axis] < extent else math.prod(own[axis + 1 :]))
        for axis, extent in enumerate(result)
    ]


def pair_of(graph: Graph, op: Operator, first: int | None = None) -> Pairing:
    """The operands of an operator, as `pair` finds them. Precondition: they are possible."""
    found = pair(graph.read(op, 0), graph.read(op, 1), first)
    assert isinstance(found, Pairing), found
    return found


def centred(tensor: Tensor) -> npt.NDArray[np.int64]:
    """All values that an operand may have, of a constant those that it has, less its zero point, in rising order."""
    low, high = tensor.dtype.limits
    stored = np.arange(low, high + 1) if tensor.data is None else np.unique(tensor.data)
    return stored.astype(np.int64) - zero_point_of(tensor)


def largest(tensor: Tensor) -> int:
    """The largest distance of an operand's values from its zero point."""
    return limits.largest_value(tensor.dtype) if tensor.data is None else int(np.abs(centred(tensor)).max())


def first_operand(graph: Graph, op: Operator, make: Maker, seen: Pairing, zero_point: int | None = None) -> FeatureMap:
    """The operand that is read first; another `zero_point` than its own may be subtracted."""
    return _feature_map(graph, op, make, seen, seen.first, zero_point)


def second_operand(
    graph: Graph, op: Operator, make: Maker, seen: Pairing, zero_point: int | None = None
) -> FeatureMap | ConstantMap | Scalar:
    """The operand that is read second; another `zero_point` than its own may be subtracted."""
    tensor = graph.read(op, seen.second)
    if tensor.data is None:
        return _feature_map(graph, op, make, seen, seen.second, zero_point)
    if zero_point is None:
        zero_point = zero_point_of(tensor)
    return constant(tensor.data, tensor.dtype, seen, zero_point)


def _feature_map(
    graph: Graph, op: Operator, make: Maker, seen: Pairing, place: int, zero_point: int | None
) -> FeatureMap:
    """An operand that is made while the network runs, itself or its copies."""
    if place not in seen.copies:
        return make.builder.view(op.input(place), seen.seen[place], zero_point)
    tensor, way = graph.read(op, place), seen.copies[place]
    whole = make.temporary(strided.shape_of(way), tensor.dtype)
    strided.copies(make, make.builder.view(op.input(place), views.image_shape(tensor.shape), 0), way, whole)
    return replace(
        whole, shape=seen.seen[place], zero_point=zero_point_of(tensor) if zero_point is None else zero_point
    )


def constant(values: Array, dtype: DType, seen: Pairing, zero_point: int = 0) -> ConstantMap | Scalar:
    """The constant one of two operands: a number where all `values` are one that fits."""
    if (values == values.flat[0]).all() and int(values.flat[0]) in SCALAR_RANGE:
        return Scalar(int(values.flat[0]), dtype, zero_point)
    shape = seen.seen[seen.second]
    if values.size != math.prod(shape):
        values = np.broadcast_to(values, seen.repeated)
    return ConstantMap(np.ascontiguousarray(values, dtype.numpy).reshape(shape), dtype, zero_point)


@dataclass(frozen=True)
class RepeatedOperand(constraints.Constraint):
    """One operand is no constant and has the result's shape, or gets it; both fold into height, width and depth.

    That is the `first` one, if it is given.
    """

    first: int | None = None

    def __str__(self) -> str:
        return (
            f"one input at most is a constant; one at most is repeated, and both fold into three dimensions, or do so "
            f"once at most {moves.MAX_BOXES} copies made one of them whole, or each"
        )

    def _against(self, case: constraints.Case) -> str | None:
        a, b = case.values
        found = pair(a, b, self.first)
        return found if isinstance(found, str) else None


def seen_shapes(case: constraints.Case) -> constraints.Views:
    """What the NPU sees of the output. Precondition: the operands are possible."""
    a, b = case.values
    found = pair(a, b)
    assert isinstance(found, Pairing), found
    return [(case.ofm, found.whole)]


def _folded(a: Sequence[int], b: Sequence[int]) -> tuple[views.Shape3, views.Shape3] | None:
    """Both shapes as height, width and depth, as other operators see such tensors where that is possible."""
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b)
    pairs = list(zip(a, b, strict=True))
    image = [pairs[:-1], [], pairs[-1:]] if rank < 3 else [pairs[:-2], pairs[-2:-1], pairs[-1:]]
    for groups in (image, _runs(pairs)):
        if groups is None:
            continue
        sizes = [tuple(math.prod(both[side] for both in group) for side in (0, 1)) for group in groups]
        if all(one == other or 1 in (one, other) for one, other in sizes) and all(map(_is_uniform, groups)):
            (h, w, c), (y, x, z) = zip(*sizes, strict=True)
            return (h, w, c), (y, x, z)
    return None


def _is_uniform(group: Sequence[tuple[int, int]]) -> bool:
    """Whether all dimensions, but for those of 1, are repeated on the same side, or none is."""
    return len({(m == 1, n == 1) for m, n in group if (m, n) != (1, 1)}) <= 1


def _runs(pairs: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]] | None:
    """Neighbouring dimensions that are repeated alike, in three groups; None if there are more."""
    dims = [both for both in pairs if both != (1, 1)]
    runs = [list(run) for _, run in groupby(dims, key=lambda both: (both[0] == 1, both[1] == 1))]
    if len(runs) > 3:
        return None
    return [*runs[:-1], *([] for _ in range(3 - len(runs))), *runs[-1:]] if runs else [[], [], []]
