"""How the NPU sees two operands that are repeated to one shape, and which of them it reads first.

Owns the step from TFLite's broadcasting, of any rank and on either side, to height, width and depth, and constants as
second operands. The NPU repeats the second operand alone, from one row, column or channel to all of the first one's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from ..ir import Array, DType, Graph, Operator, Tensor
from ..quantised import zero_point_of
from . import constraints, limits, views
from .npu import ConstantMap, FeatureMap, NpuGraphBuilder, Scalar

SCALAR_RANGE = range(-(1 << 15), 1 << 15)
"""What a number may be that stands for a second operand: its register has 16 bits."""


@dataclass(frozen=True)
class Pairing:
    """Two operands of a result of shape `whole`: what is seen of each, and which one the NPU reads `first` (0 or 1).

    `repeated` is the shape that both are repeated to; the operator may write its elements in another one.
    """

    whole: views.Shape3
    repeated: tuple[int, ...]
    seen: tuple[views.Shape3, views.Shape3]
    first: int

    @property
    def second(self) -> int:
        """Which one may be repeated."""
        return 1 - self.first


def pair(a: Tensor, b: Tensor) -> Pairing | str:
    """How the NPU sees two operands, or why it cannot."""
    if a.is_constant and b.is_constant:
        return f"'{a.name}' and '{b.name}' are both constants; one is made while the network runs"
    shapes = [a.shape, b.shape]
    found, result = _folded(*shapes), np.broadcast_shapes(a.shape, b.shape)
    if found is None and (a.is_constant or b.is_constant):
        # A constant can be repeated beforehand.
        shapes[0 if a.is_constant else 1] = result
        found = _folded(*shapes)
    if found is None:
        return f"shapes {a.shape} and {b.shape} are repeated along dimensions that do not fold into three"
    whole = tuple(map(max, *found))
    for first in (0, 1):
        if found[first] == whole and not (a, b)[first].is_constant:
            return Pairing((whole[0], whole[1], whole[2]), result, found, first)
    if a.is_constant or b.is_constant:
        repeated = b if a.is_constant else a
        return (
            f"'{repeated.name}' of shape {repeated.shape} is repeated to a constant's; the NPU repeats constants alone"
        )
    return f"shapes {a.shape} and {b.shape} are both repeated; the NPU repeats one of two operands"


def pair_of(graph: Graph, op: Operator) -> Pairing:
    """The operands of an operator. Precondition: they are possible."""
    found = pair(graph.read(op, 0), graph.read(op, 1))
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


def second_operand(
    graph: Graph, op: Operator, builder: NpuGraphBuilder, seen: Pairing, zero_point: int | None = None
) -> FeatureMap | ConstantMap | Scalar:
    """The operand that is read second; another `zero_point` than its own may be subtracted."""
    place = seen.second
    tensor = graph.read(op, place)
    if zero_point is None:
        zero_point = zero_point_of(tensor)
    if tensor.data is None:
        return builder.view(op.input(place), seen.seen[place], zero_point)
    return constant(tensor.data, tensor.dtype, seen, zero_point)


def constant(values: Array, dtype: DType, seen: Pairing, zero_point: int = 0) -> ConstantMap | Scalar:
    """The constant one of two operands: a number where all `values` are one that fits."""
    if (values == values.flat[0]).all() and int(values.flat[0]) in SCALAR_RANGE:
        return Scalar(int(values.flat[0]), dtype, zero_point)
    shape = seen.seen[seen.second]
    if values.size != math.prod(shape):
        values = np.broadcast_to(values, seen.repeated)
    return ConstantMap(np.ascontiguousarray(values, dtype.numpy).reshape(shape), dtype, zero_point)


@dataclass(frozen=True)
class Repeated(constraints.Constraint):
    """The operands' shapes fold into height, width and depth, and one of them, no constant, is the result's."""

    def __str__(self) -> str:
        return (
            "one input at most is a constant or repeated, the other one has the output's shape, and both fold into "
            "three dimensions"
        )

    def _against(self, case: constraints.Case) -> str | None:
        found = pair(*case.values)
        return found if isinstance(found, str) else None


def seen_shapes(case: constraints.Case) -> constraints.Views:
    """What the NPU sees of the output. Precondition: the operands are possible."""
    found = pair(*case.values)
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
