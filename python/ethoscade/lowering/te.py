"""Tensor expressions: axes, affine index expressions, reductions, and the propagators that follow from them.

Owns the language in which an operator family says what it computes. Does not own numbers (weights, scales) and does
not schedule. The cascader sees an operation only through the propagators derived here, so an index expression is the
single place where its geometry is written down.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..util.frozen import FrozenMap
from ..util.records import dataclass


@dataclass(frozen=True)
class Axis:
    """A loop of a computation: `name`, over [0, extent). Spatial axes are the output's dimensions in order."""

    name: str
    extent: int
    is_reduction: bool = False


@dataclass(frozen=True)
class Affine:
    """An index: sum of coefficient * axis, plus a constant, the whole divided by `divisor` and rounded down.

    Coefficients are non-negative, the divisor is positive.
    """

    coefficients: Mapping[str, int]
    constant: int = 0
    divisor: int = 1

    def __floordiv__(self, divisor: int) -> Affine:
        """The index divided: `index(h=1) // 2` is the row that stands for rows 2*h and 2*h + 1."""
        return Affine(self.coefficients, self.constant, self.divisor * divisor)


def index(constant: int = 0, /, **coefficients: int) -> Affine:
    """Spell an affine index: `index(-1, h=2, kh=1)` is 2*h + kh - 1."""
    return Affine(FrozenMap({k: v for k, v in coefficients.items() if v}), constant)


@dataclass(frozen=True)
class Access:
    """A read of operand number `operand` at one affine index per dimension (NHWC).

    `extents` is the operand's shape, or with an `origin` that of the image in it with this first row and column. An
    index may leave it: what lies outside is padding and is not read.
    """

    operand: int
    indices: tuple[Affine, Affine, Affine, Affine]
    extents: tuple[int, int, int, int]
    origin: tuple[int, int] | None = None


@dataclass(frozen=True)
class Compute:
    """output[n, h, w, c] = reduce over the reduction axes of f(reads). `axes` are the four spatial axes, NHWC."""

    name: str
    axes: tuple[Axis, Axis, Axis, Axis]
    reductions: tuple[Axis, ...]
    reads: tuple[Access, ...]


@dataclass(frozen=True)
class Propagator:
    """Affine map from an output stripe to the input stripe that it reads (Arm's cascader RFC, "Propagators").

    `transform` is a 4x5 matrix over the augmented stripe shape [n, h, w, c, 1]: input shape = transform . shape.
    `strides` is the 4x4 matrix of index coefficients, `offset` the input index that output index 0 starts at
    (negative in padding): input start = strides . start + offset. Clamping to the tensor is the user's.

    Where an index divides, both are those of the dividend, and `denominators` says by what, for each dimension: the
    first index of the range and the last one are divided and rounded down.
    """

    transform: tuple[tuple[int, ...], ...]
    strides: tuple[tuple[int, ...], ...]
    offset: tuple[int, int, int, int]
    denominators: tuple[int, int, int, int] = (1, 1, 1, 1)

    @staticmethod
    def identity() -> Propagator:
        """That of an operation which makes each element of the one in its place."""
        places = range(4)
        transform = tuple(tuple(int(at == row) for at in range(5)) for row in places)
        return Propagator(transform, tuple(row[:4] for row in transform), (0, 0, 0, 0))


def propagator(compute: Compute, access: Access) -> Propagator:
    """Derive the propagator of one read.

    For an index sum(s_a * a) + sum(d_r * r) + c over a stripe of e_a elements per spatial axis and the full extent E_r
    of every reduction axis, the elements touched are the range that starts at sum(s_a * start_a) + c and is
    sum(s_a * (e_a - 1)) + sum(d_r * (E_r - 1)) + 1 long. Divided by n, they are that range's first and last element
    divided by n, and all between.
    """
    reductions = {axis.name: axis.extent for axis in compute.reductions}
    transform, strides, offset = [], [], []
    for expression in access.indices:
        row = [expression.coefficients.get(axis.name, 0) for axis in compute.axes]
        span = sum(d * (reductions[name] - 1) for name, d in expression.coefficients.items() if name in reductions)
        transform.append((*row, span + 1 - sum(row)))
        strides.append(tuple(row))
        offset.append(expression.constant)
    n, h, w, c = offset
    by_n, by_h, by_w, by_c = (expression.divisor for expression in access.indices)
    return Propagator(tuple(transform), tuple(strides), (n, h, w, c), (by_n, by_h, by_w, by_c))
