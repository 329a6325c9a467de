"""BATCH_MATMUL: products of rows and their sums over depth; with a constant on either side a convolution.

Both operands are seen as rows of as many channels as a sum has terms; one that lies otherwise is transposed first, by
copies. The NPU repeats one row of an operand over many rows of the other one: each such operation makes a row or a
column of products, of 32 bits, and one operation sums up the channels of all. The left operand's rows stay rows, so
that a stripe of few of them has few products at a time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import numpy as np
import numpy.typing as npt

from ..ir import Activation, BatchMatMulAttrs, DType, Graph, Operator, Tensor
from ..ir.quantised import activation_range, product_scale, zero_point_of
from ..util.records import dataclass
from . import constraints, limits, moves, operands, views
from .family import Family
from .feature_maps import (
    Area,
    Channels,
    ConstantMap,
    FeatureMap,
)
from .maker import AS_IS, Maker
from .npu import (
    NpuGraphBuilder,
    OperationKind,
    Scale,
    Weights,
)

MOST_PRODUCTS = 512
"""Operations that together make all products; of twice as many the schedule takes more than twice as long."""


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

    @property
    def image(self) -> views.Shape3:
        """All results, each row a pixel."""
        return self.plane[0], 1, self.columns

    @property
    def repeats_left(self) -> bool:
        """Whether rows of the left operands are repeated, and not columns of the right ones: what there is less of."""
        return self.rows < self.columns

    @property
    def turned(self) -> Products:
        """The same results transposed, of transposed operands in the other order."""
        return Products(self.columns, self.terms, self.rows, tuple((b, a) for a, b in self.pairs))


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
    scale = Scale(*limits.npu_scale(product_scale(left, right, graph.made(op))))
    first = None if left.is_constant else _rows(make, op.input(0), left, attrs.adj_x)
    second = None if right.is_constant else _rows(make, op.input(1), right, not attrs.adj_y)
    if second is None:
        assert first is not None, "the family takes one constant"
        _convolve(make, first, _matrices(right, not attrs.adj_y), of, builder.view(op.outputs[0], of.image), scale)
    elif first is None:
        ofm = builder.view(op.outputs[0], (*of.plane, 1))
        beside = 1 in (of.rows, of.columns)
        made = (
            replace(ofm, shape=of.turned.image)
            if beside
            else make.temporary(of.turned.image, ofm.dtype, ofm.zero_point)
        )
        _convolve(make, second, _matrices(left, attrs.adj_x), of.turned, made, scale)
        if not beside:
            _turn(make, made, (of.columns, of.rows), ofm)
    else:
        made = make.temporary((*of.plane, of.terms), DType.INT32)
        _multiply(make, first, second, of, made)
        ofm = builder.view(op.outputs[0], (*of.plane, 1))
        clamp = activation_range(graph.made(op).quantisation, graph.made(op).dtype, attrs.activation)
        if op.inputs[2:]:
            bias = graph.read(op, 2).constant().astype(np.int32).reshape(1, -1, 1)
            sums = make.sum(made)
            made = make.temporary(sums.shape, DType.INT32)
            make.point(OperationKind.ADD, sums, ConstantMap(bias, DType.INT32), made, AS_IS)
        make.sum(made, ofm, scale, clamp)


def _multiply(make: Maker, first: FeatureMap, second: FeatureMap, of: Products, made: FeatureMap) -> None:
    """The products of each pair of rows, by repeating rows of the operand that has fewer of them."""
    by_rows = of.repeats_left
    for number, (a, b) in enumerate(of.pairs):
        for place in range(of.rows if by_rows else of.columns):
            if by_rows:
                box = _box(made, (1, of.columns), (number * of.rows + place, 0))
                many, one = (
                    replace(second, shape=(second.shape[0] // of.columns, of.columns, of.terms)),
                    _row(first, a * of.rows + place),
                )
                top = (b, 0)
            else:
                box = _box(made, (of.rows, 1), (number * of.rows, place))
                many, one, top = first, _row(second, b * of.columns + place), (a * of.rows, 0)
            make.point(OperationKind.MUL, many, one, box, AS_IS, first=top)


def _convolve(make: Maker, ifm: FeatureMap, constant: Matrices, of: Products, ofm: FeatureMap, scale: Scale) -> None:
    """A convolution with each matrix of a constant; with an only one a single one of all rows."""
    channels = np.ones(of.columns, np.int64)
    alone = len(constant.values) == 1 and len(of.pairs) * of.rows == ifm.shape[0]
    pieces = [(0, 0, 0, len(of.pairs))] if alone else [(n, a, b, 1) for n, (a, b) in enumerate(of.pairs)]
    for number, a, b, count in pieces:
        weights = Weights(
            values=constant.values[b].reshape(of.columns, 1, 1, of.terms),
            bias=0 * channels,
            multipliers=scale.multiplier * channels,
            shifts=scale.shift * channels,
            zero_point=constant.zero_point,
        )
        box = _box(ofm, (count * of.rows, 1), (number * of.rows, 0))
        make.weigh(ifm, box, weights, together=True, first=(a * of.rows, 0))


# --- operands --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Matrices:
    """A constant operand: stored values (number, rows, terms), less a zero point."""

    values: npt.NDArray[np.integer]
    zero_point: int


def _matrices(tensor: Tensor, transposed: bool) -> Matrices:
    stored = cast(npt.NDArray[np.integer], tensor.constant()).reshape(-1, *tensor.shape[-2:])
    return Matrices(stored.swapaxes(1, 2) if transposed else stored, zero_point_of(tensor))


def _rows(make: Maker, source: int, tensor: Tensor, transposed: bool) -> FeatureMap:
    """All matrices of an operand as rows of one pixel each, the terms its channels."""
    height, width = tensor.shape[-2:]
    rows = _count(tensor) * height
    whole = make.builder.view(source, (rows, 1, width))
    if not transposed:
        return whole
    if 1 in (height, width):
        return replace(whole, shape=(rows * width // height, 1, height))
    turned = make.temporary((_count(tensor) * width, height, 1), tensor.dtype)
    _turn(make, replace(whole, zero_point=0), (height, width), turned)
    return replace(turned, shape=(_count(tensor) * width, 1, height), zero_point=whole.zero_point)


def _turn(make: Maker, ifm: FeatureMap, size: tuple[int, int], ofm: FeatureMap) -> None:
    """Matrices of `size`, one below the other, each transposed: a copy for each. Stored values stay as they are."""
    height, width = size
    total = math.prod(ifm.shape)
    left = total - (width - 1) - (height - 1) * width
    for number in range(total // (height * width)):
        some = Channels(number * height * width, left)
        view = replace(ifm, shape=(width, height, 1), strides=(1, width), channels=some, zero_point=0)
        make.copy(view, _box(replace(ofm, zero_point=0), (width, height), (number * width, 0)))


def _row(rows: FeatureMap, place: int) -> FeatureMap:
    """One row of an operand: some channels of all its elements as those of one pixel."""
    height, _, terms = rows.shape
    some = None if height == 1 else Channels(place * terms, height * terms)
    return replace(rows, shape=(1, 1, terms), channels=some)


def _box(whole: FeatureMap, size: tuple[int, int], first: tuple[int, int]) -> FeatureMap:
    """Some rows and columns of an output."""
    place = None if size == whole.shape[:2] else Area(first, whole.shape[:2])
    return replace(whole, shape=(*size, whole.shape[2]), place=place)


def _count(tensor: Tensor) -> int:
    return math.prod(tensor.shape[:-2])


# --- limits ----------------------------------------------------------------------------------------------------------


def _pieces(case: constraints.Case) -> str | None:
    left, right = case.values
    if left.is_constant and right.is_constant:
        return f"'{left.name}' and '{right.name}' are both constants; one is made while the network runs"
    of = products(case.graph, case.op)
    is_constant = left.is_constant or right.is_constant
    count = len(of.pairs) * (1 if is_constant else min(of.rows, of.columns))
    most = moves.MAX_BOXES if is_constant else MOST_PRODUCTS
    if count > most:
        return (
            f"{len(of.pairs)} products of {of.rows}x{of.terms} and {of.terms}x{of.columns} take {count} operations "
            f"that make one tensor; at most {most} are possible"
        )
    return None


def _sums(case: constraints.Case) -> str | None:
    left, right = case.values
    attrs, of = case.op.attributes(BatchMatMulAttrs), products(case.graph, case.op)
    most = of.terms * operands.largest(left) * operands.largest(right)
    for constant, transposed in ((left, attrs.adj_x), (right, not attrs.adj_y)):
        if constant.is_constant:
            matrices = _matrices(constant, transposed)
            weights = np.abs(matrices.values.astype(np.int64) - matrices.zero_point).sum(axis=2)
            most = int(weights.max()) * limits.LARGEST_VALUE
    if case.op.inputs[2:]:
        most += int(np.abs(case.graph.read(case.op, 2).constant().astype(np.int64)).max())
    return limits.rescale(product_scale(left, right, case.ofm), most)


def _bias(case: constraints.Case) -> str | None:
    """Why bias or activation of a FULLY_CONNECTED do not fit its products, or None."""
    left, right = case.values
    if not case.op.inputs[2:] and case.op.attributes(BatchMatMulAttrs).activation is Activation.NONE:
        return None
    if left.is_constant or right.is_constant:
        return "it has a bias or an activation beside a constant operand, which are a convolution's"
    bias = case.graph.read(case.op, 2) if case.op.inputs[2:] else None
    if bias is None or (bias.data is not None and bias.dtype is DType.INT32):
        return None
    return f"bias '{bias.name}' is {'made while the network runs' if bias.data is None else bias.dtype.value}"


def _seen(case: constraints.Case) -> constraints.Views:
    of, (left, right) = products(case.graph, case.op), case.values
    sides = ((left, of.rows), (right, of.columns))
    seen = [(tensor, (_count(tensor) * rows, 1, of.terms)) for tensor, rows in sides]
    return [*seen, (case.ofm, of.image)]


MATRIX_FAMILIES: Mapping[str, Family] = {
    "BATCH_MATMUL": Family(
        "products of each row of one operand with all columns of the other, and one sum over depth; with a constant "
        "a 1x1 convolution",
        (
            constraints.FeatureMaps((DType.INT8,), constants=True),
            constraints.OneType(),
            constraints.Rule(
                f"one operand at most is a constant, and at most {MOST_PRODUCTS} operations make the products: as "
                "many as there are rows on the left or columns on the right, in all; with a constant one for each of "
                f"the results, at most {moves.MAX_BOXES}",
                _pieces,
            ),
            constraints.Sizes(_seen),
            constraints.Rule(
                "bias and activation of what was a FULLY_CONNECTED: the bias a constant of int32, no other operand one",
                _bias,
            ),
            constraints.Rule(constraints.SUMS, _sums),
        ),
        lower,
    )
}
