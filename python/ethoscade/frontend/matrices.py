"""BATCH_MATMUL: products of matrices, of which either may be read transposed, and of which there may be many."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..ir import Attrs, BatchMatMulAttrs, DType, Tensor
from ..ir.quantised import MAX_LEFT_SHIFT, MAX_WIDE_SHIFT, product_scale
from .site import Site

_LEAST_RANK, _MOST_RANK = 2, 5


def batch_matmul(site: Site) -> BatchMatMulAttrs:
    """BATCH_MATMUL of tensors of two to five dimensions, the leading ones repeated as in other operators."""
    site.count(2)
    left, right, options = site.input(0, "left operand"), site.input(1, "right operand"), site.options()
    attrs = BatchMatMulAttrs(bool(options.AdjX()), bool(options.AdjY()))
    for tensor in (left, right):
        if not _LEAST_RANK <= len(tensor.shape) <= _MOST_RANK:
            raise site.fail(
                f"multiplies '{tensor.name}' of shape {list(tensor.shape)}; it takes {_LEAST_RANK} to {_MOST_RANK} "
                f"dimensions",
                tensor=tensor,
                value=tensor.shape,
            )
    site.expect_shape(_made(site, left, right, attrs))
    if site.is_quantised(left, right, site.output):
        most = MAX_WIDE_SHIFT if left.dtype is DType.INT16 else MAX_LEFT_SHIFT
        site.check_factors(product_scale(left, right, site.output), most=most)
    return attrs


def _made(site: Site, left: Tensor, right: Tensor, attrs: BatchMatMulAttrs) -> tuple[int, ...]:
    rows, terms = _matrix(left, attrs.adj_x)
    summed, columns = _matrix(right, attrs.adj_y)
    rank = max(len(left.shape), len(right.shape)) - 2
    a, b = ((1,) * (rank - len(t.shape) + 2) + t.shape[:-2] for t in (left, right))
    if terms != summed or any(m != n and 1 not in (m, n) for m, n in zip(a, b, strict=True)):
        raise site.fail(
            f"multiplies '{left.name}' of shape {list(left.shape)}{' (transposed)' if attrs.adj_x else ''} and "
            f"'{right.name}' of shape {list(right.shape)}{' (transposed)' if attrs.adj_y else ''}",
            tensor=right,
            value=right.shape,
        )
    return (*(n if m == 1 else m for m, n in zip(a, b, strict=True)), rows, columns)


def _matrix(tensor: Tensor, transposed: bool) -> tuple[int, int]:
    height, width = tensor.shape[-2:]
    return (width, height) if transposed else (height, width)


MATRIX_READERS: Mapping[str, Callable[[Site], Attrs]] = {"BATCH_MATMUL": batch_matmul}
