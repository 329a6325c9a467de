"""BATCH_MATMUL: products of rows and their sums over depth; with a constant on the right a convolution.

Both operands are seen as rows of as many channels as a sum has terms; one that lies otherwise is transposed first, by
copies. The NPU repeats one row of an operand over many rows of the other one: each such operation makes a row or a
column of products, of 32 bits, and one operation sums up the channels of all. The left operand's rows stay rows, so
that a stripe of few of them has few products at a time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt

from ..ir import BatchMatMulAttrs, DType, Graph, Operator, Tensor
from ..quantised import product_scale, zero_point_of
from . import constraints, limits, moves, operands
from .family import Family
from .maker import AS_IS, Maker
from .npu import Area, Channels, ConstantMap, FeatureMap, NpuGraphBuilder, OperationKind, Scale, Weights


@dataclass(frozen=True)
class Products:
    """Matrices of `rows` x `terms` times ones of `terms` x `columns`, for each of `pairs` of their numbers."""

    rows: int
    terms: int
    columns: int
    pairs: tuple[tuple[int, int], ...]

    @property
    def plane(self) -> tuple[int, int]:
        """Rows of all results, one below the other, and columns."""
        return len(self.pairs) * self.rows, self.columns

    def repeats_left(self, left: Tensor) -> bool:
        """Whether the left operand's rows are repeated over the right one's columns: constants are, else what is less.

        As the NPU repeats its second operand, and a constant can be no other.
        """
        return left.is_constant or self.rows < self.columns


def products(graph: Graph, op: Operator) -> Products:
    """What is multiplied with what. Precondition: shapes go together, as the reader sees to."""
    attrs, left, right = op.attributes(BatchMatMulAttrs), graph.read(op).shape, graph.read(op, 1).shape
    rows, terms = left[-2:][::-1] if attrs.adj_x else left[-2:]
    leading = np.broadcast_shapes(left[:-2], right[:-2])
    first, second = (
        np.broadcast_to(np.arange(math.prod(own)).reshape(own), leading).reshape(-1).tolist()
        for own in (left[:-2], right[:-2])
    )
    columns = right[-2] if attrs.adj_y else right[-1]
    return Products(rows, terms, columns, tuple(zip(first, second, strict=True)))


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """Convolutions, or products and one sum of them. Precondition: its family takes it."""
    op = graph.operators[op_index]
    attrs, of, make = op.attributes(BatchMatMulAttrs), products(graph, op), Maker(op.name, op_index, builder)
    left, right = graph.read(op), graph.read(op, 1)
    scale = Scale(*limits.npu_scale(_factor(graph, op)))
    if right.data is not None:
        first, columns = _rows(make, op, 0, left, attrs.adj_x), _matrices(right, not attrs.adj_y)
        _convolve(make, first, columns, zero_point_of(right), of, builder.view(op.outputs[0], _image(of)), scale)
        return
    second = _rows(make, op, 1, right, not attrs.adj_y)
    made = make.temporary((*of.plane, of.terms), DType.INT32)
    if of.repeats_left(left):
        each = _each_row(make, op, left, attrs.adj_x)
        many = replace(second, shape=(_count(right), of.columns, of.terms))
        for number, (a, b) in enumerate(of.pairs):
            for row in range(of.rows):
                box = _box(made, (1, of.columns), (number * of.rows + row, 0))
                make.point(OperationKind.MUL, many, each[a * of.rows + row], box, AS_IS, first=(b, 0))
    else:
        many = _rows(make, op, 0, left, attrs.adj_x)
        for number, (a, b) in enumerate(of.pairs):
            for column in range(of.columns):
                box = _box(made, (of.rows, 1), (number * of.rows, column))
                one = _row(second, b * of.columns + column)
                make.point(OperationKind.MUL, many, one, box, AS_IS, first=(a * of.rows, 0))
    make.sum(made, builder.view(op.outputs[0], (*of.plane, 1)), scale)


def _convolve(
    make: Maker,
    ifm: FeatureMap,
    columns: npt.NDArray[np.integer],
    zero_point: int,
    of: Products,
    ofm: FeatureMap,
    scale: Scale,
) -> None:
    """A convolution for each matrix of constants, (number, outputs, terms); one if there is one."""
    channels = np.ones(of.columns, np.int64)
    pieces = [(0, 0, 0, len(of.pairs))] if len(columns) == 1 else [(n, a, b, 1) for n, (a, b) in enumerate(of.pairs)]
    for number, a, b, count in pieces:
        weights = Weights(
            values=columns[b].reshape(of.columns, 1, 1, of.terms),
            bias=0 * channels,
            multipliers=scale.multiplier * channels,
            shifts=scale.shift * channels,
            zero_point=zero_point,
        )
        box = _box(ofm, (count * of.rows, 1), (number * of.rows, 0))
        make.weigh(ifm, box, weights, together=True, above=a * of.rows)


# --- operands --------------------------------------------------------------------------------------------------------


def _rows(make: Maker, op: Operator, place: int, tensor: Tensor, transposed: bool) -> FeatureMap:
    """All matrices of an operand as rows of one pixel each, the terms its channels."""
    builder, source, count = make.builder, op.input(place), _count(tensor)
    height, width = tensor.shape[-2:]
    whole = (count * height, 1, width)
    if not transposed or 1 in (height, width):
        rows, terms = (width, height) if transposed else (height, width)
        return builder.view(source, (count * rows, 1, terms))
    turned = make.temporary((count * width, height, 1), tensor.dtype)
    for number in range(count):
        ifm = builder.strided(source, whole, (width, height, 1), (1, width), number * height * width)
        make.copy(ifm, _box(turned, (width, height), (number * width, 0)))
    return replace(turned, shape=(count * width, 1, height), zero_point=zero_point_of(tensor))


def _row(rows: FeatureMap, place: int) -> FeatureMap:
    """One row of an operand: some channels of all its elements as those of one pixel."""
    height, _, terms = rows.shape
    some = None if height == 1 else Channels(place * terms, height * terms)
    return replace(rows, shape=(1, 1, terms), channels=some)


def _matrices(tensor: Tensor, transposed: bool) -> npt.NDArray[np.integer]:
    """A constant operand's matrices, (number, rows, terms)."""
    stored = cast(npt.NDArray[np.integer], tensor.constant()).reshape(-1, *tensor.shape[-2:])
    return np.ascontiguousarray(stored.swapaxes(1, 2)) if transposed else stored


def _each_row(make: Maker, op: Operator, left: Tensor, transposed: bool) -> Sequence[FeatureMap | ConstantMap]:
    """The rows of the left operand, one by one."""
    if left.data is None:
        rows = _rows(make, op, 0, left, transposed)
        return [_row(rows, place) for place in range(rows.shape[0])]
    matrices = _matrices(left, transposed)
    stored = matrices.reshape(-1, 1, 1, matrices.shape[2])
    return [ConstantMap(row, left.dtype, zero_point_of(left)) for row in stored]


def _box(whole: FeatureMap, size: tuple[int, int], first: tuple[int, int]) -> FeatureMap:
    """Some rows and columns of an output."""
    place = None if size == whole.shape[:2] else Area(first, whole.shape[:2])
    return replace(whole, shape=(*size, whole.shape[2]), place=place)


def _count(tensor: Tensor) -> int:
    return math.prod(tensor.shape[:-2])


def _image(of: Products) -> tuple[int, int, int]:
    return of.plane[0], 1, of.columns


# --- limits ----------------------------------------------------------------------------------------------------------


def _factor(graph: Graph, op: Operator) -> float:
    return product_scale(graph.read(op), graph.read(op, 1), graph.made(op))


def _operations(of: Products, left: Tensor, right: Tensor) -> int:
    if right.is_constant:
        return len(of.pairs) if _count(right) > 1 else 1
    return len(of.pairs) * (of.rows if of.repeats_left(left) else of.columns)


def _pieces(case: constraints.Case) -> str | None:
    left, right = case.values
    if left.is_constant and right.is_constant:
        return f"'{left.name}' and '{right.name}' are both constants; one is made while the network runs"
    of = products(case.graph, case.op)
    count = max(_operations(of, left, right), _count(left), _count(right))
    if count > moves.MAX_BOXES:
        return (
            f"{len(of.pairs)} products of {of.rows}x{of.terms} and {of.terms}x{of.columns} take {count} operations "
            f"that make one tensor; at most {moves.MAX_BOXES} are possible"
        )
    return None


def _sums(case: constraints.Case) -> str | None:
    left, right = case.values
    of, real = products(case.graph, case.op), _factor(case.graph, case.op)
    if right.data is None:
        return limits.rescale(real, of.terms * operands.largest(left) * operands.largest(right))
    axis = -1 if case.op.attributes(BatchMatMulAttrs).adj_y else -2
    weights = np.abs(right.data.astype(np.int64) - zero_point_of(right)).sum(axis=axis)
    return limits.rescale(real, int(weights.max()) * limits.largest_value(left.dtype))


def _seen(case: constraints.Case) -> constraints.Views:
    of, (left, right) = products(case.graph, case.op), case.values
    sides = ((left, of.rows), (right, of.columns))
    seen = [(tensor, (_count(tensor) * rows, 1, of.terms)) for tensor, rows in sides]
    return [*seen, (case.ofm, _image(of))]


MATRIX_FAMILIES: Mapping[str, Family] = {
    "BATCH_MATMUL": Family(
        "products of each row of one operand with all rows of the other, and one sum over depth; with a constant on "
        "the right a 1x1 convolution",
        (
            constraints.FeatureMaps((DType.INT8,), constants=True),
            constraints.OneType(),
            constraints.Rule(
                f"one operand at most is a constant, and at most {moves.MAX_BOXES} operations make the products: as "
                "many as there are rows on the left or columns on the right, in all; with a constant on the right one "
                "for each of its matrices",
                _pieces,
            ),
            constraints.Sizes(_seen),
            constraints.Rule(constraints.SUMS, _sums),
        ),
        lower,
    )
}
