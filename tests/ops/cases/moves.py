"""Operators that move or rescale values: joins, cuts, pads, transposes, QUANTIZE."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from ethoscade.ir import (
    ConcatenationAttrs,
    DType,
    MirrorPadAttrs,
    PackAttrs,
    PadAttrs,
    Quantisation,
    ReverseAttrs,
    StridedSliceAttrs,
    TileAttrs,
    TransposeAttrs,
)
from graphs import GraphMaker, quantisation


def a_number(m: GraphMaker, shape: tuple[int, ...]) -> int:
    """A constant that is one number everywhere."""
    return m.constant(np.full(shape, 5, m.dtype.numpy), Quantisation((0.1,), (0,)), m.dtype)


def to_words(m: GraphMaker, scale: float) -> int:
    """QUANTIZE of int16, whatever else is tested, to int32."""
    made = m.tensor((1, 9, 7, 21), Quantisation((scale,), (0,)), DType.INT32)
    return m.op("QUANTIZE", [m.input((1, 9, 7, 21), dtype=DType.INT16)], made)


def transposed(m: GraphMaker, shape: tuple[int, ...], permutation: tuple[int, ...]) -> int:
    """TRANSPOSE of an input of that shape."""
    made = [shape[axis] for axis in permutation]
    return m.moved("TRANSPOSE", m.input(shape), made, TransposeAttrs(permutation, shape))


def rejoined(m: GraphMaker, shapes: Sequence[tuple[int, ...]], axis: int, constant: bool = False) -> int:
    """CONCATENATION of uint8, whatever else is tested, of inputs that all have scales and zero points of their own."""
    parts = [m.input(shape, quantisation(m.rng, DType.UINT8), DType.UINT8) for shape in shapes]
    if constant:
        parts[0] = m.values(shapes[0], quantisation(m.rng, DType.UINT8), DType.UINT8)
        m.inputs = parts[1:]
    made = [sum(extents) if place == axis else extents[0] for place, extents in enumerate(zip(*shapes, strict=True))]
    out = m.tensor(made, quantisation(m.rng, DType.UINT8), DType.UINT8)
    return m.op("CONCATENATION", parts, out, ConcatenationAttrs(axis))


MOVES: dict[str, Callable[[GraphMaker], object]] = {
    "concatenate": lambda m: m.concatenate([m.input((1, 9, 7, depth)) for depth in (21, 1, 16)]),
    "concatenate_with_itself": lambda m: m.concatenate([m.input((1, 9, 7, 21))] * 3),
    "concatenate_rows": lambda m: m.concatenate([m.input((3, 16)), m.input((3, 24))], axis=1),
    "concatenate_pieces": lambda m: m.concatenate(m.split(m.input((1, 6, 9, 48)), (16, 32))[::-1]),
    "concatenate_images": lambda m: m.concatenate([m.input((1, rows, 7, 21)) for rows in (4, 1, 9)], axis=1),
    "concatenate_images_of_a_batch": lambda m: m.concatenate([m.input((2, rows, 7, 21)) for rows in (4, 1)], axis=1),
    "concatenate_columns": lambda m: m.concatenate([m.input((1, 5, columns, 16)) for columns in (3, 8, 1)], axis=2),
    "concatenate_batches": lambda m: m.concatenate([m.input((n, 3, 5, 7)) for n in (2, 1)], axis=0),
    "concatenate_a_constant": lambda m: m.concatenate([m.input((1, 9, 7, 21)), m.values((1, 9, 4, 21))], axis=2),
    "concatenate_a_larger_constant": lambda m: m.concatenate([m.values((1, 2, 7, 16)), m.input((1, 2, 7, 1))]),
    "concatenate_one_number": lambda m: m.concatenate([m.input((1, 9, 7, 21)), a_number(m, (1, 2, 7, 21))], axis=1),
    "concatenate_constants_on_both_sides": lambda m: m.concatenate(
        [m.values((2, 1, 6)), m.input((2, 3, 6)), m.values((2, 4, 6))], axis=1
    ),
    "concatenate_of_other_scales": lambda m: rejoined(m, [(1, 9, 7, n) for n in (21, 1, 16)], 3),
    "concatenate_columns_of_other_scales": lambda m: rejoined(m, [(2, 9, n, 5) for n in (3, 4)], 2),
    "concatenate_a_constant_of_another_scale": lambda m: rejoined(m, [(1, n, 7, 5) for n in (3, 4)], 1, constant=True),
    "concatenate_one_of_another_scale": lambda m: rejoined(m, [(1, 3, 7, 5)], 1),
    "concatenate_of_rank_3": lambda m: m.concatenate([m.input((2, n, 6)) for n in (40, 3)], axis=1),
    "concatenate_of_rank_5": lambda m: m.concatenate([m.input((2, 3, n, 2, 6)) for n in (4, 1)], axis=2),
    "split_of_rows": lambda m: m.split(m.input((1, 9, 7, 16)), (1, 6, 2), axis=1),
    "split_of_columns": lambda m: m.split(m.input((1, 9, 7, 5)), (3, 4), axis=2),
    "split_of_rank_5": lambda m: m.split(m.input((2, 3, 4, 2, 5)), (1, 3), axis=2),
    "split": lambda m: m.split(m.input((1, 9, 7, 21)), (7, 7, 7)),
    "split_unevenly": lambda m: m.split(m.input((1, 9, 7, 70)), (1, 32, 16, 21)),
    "split_of_a_row": lambda m: m.split(m.input((3, 40), dtype=m.dtype), (16, 24), axis=1),
    "slice_without_strides": lambda m: m.moved(
        "SLICE", m.input((4, 9, 10)), (2, 5, 10), StridedSliceAttrs(((1, 3, 1), (4, 9, 1), (0, 10, 1)))
    ),
    "slice": lambda m: m.slice(m.input((1, 9, 8, 21)), ((0, 1, 1), (2, 9, 1), (1, 7, 1), (3, 20, 1))),
    "slice_by_strides": lambda m: m.slice(m.input((1, 13, 12, 12)), ((0, 1, 1), (1, 13, 3), (0, 12, 2), (1, 12, 4))),
    "slice_by_large_strides": lambda m: m.slice(
        m.input((2, 15, 12, 5)), ((0, 2, 1), (2, 15, 5), (1, 12, 4), (0, 5, 1))
    ),
    "slice_backwards": lambda m: m.slice(m.input((2, 5, 4)), ((1, -1, -1), (4, -1, -2), (0, 4, 1))),
    "slice_of_rank_5": lambda m: m.slice(
        m.input((2, 4, 3, 5, 6)), ((0, 2, 1), (1, 3, 1), (0, 3, 2), (2, 5, 1), (1, 5, 1))
    ),
    "slice_that_drops_axes": lambda m: m.slice(m.input((3, 7, 5)), ((1, 2, 1), (0, 7, 1), (4, 5, 1)), (0, 2)),
    "pack": lambda m: m.pack([m.input((5, 7)) for _ in range(3)], 0),
    "pack_last": lambda m: m.pack([m.input((5, 7)) for _ in range(3)], 2),
    "pack_images": lambda m: m.pack([m.input((1, 4, 5, 7)) for _ in range(2)], 3),
    "unpack": lambda m: m.unpack(m.input((4, 3, 6)), 1),
    "unpack_last": lambda m: m.unpack(m.input((5, 3, 4)), 2),
    "pad": lambda m: m.moved("PAD", m.input((1, 5, 6, 7)), (1, 8, 9, 12), PadAttrs(((0, 0), (1, 2), (3, 0), (2, 3)))),
    "pad_images_of_a_batch": lambda m: m.moved(
        "PAD", m.input((2, 5, 6, 7)), (2, 8, 6, 7), PadAttrs(((0, 0), (1, 2), (0, 0), (0, 0)))
    ),
    "pad_channels": lambda m: m.moved(
        "PAD", m.input((1, 5, 6, 16)), (1, 5, 6, 48), PadAttrs(((0, 0),) * 3 + ((0, 32),))
    ),
    "pad_more_than_there_is": lambda m: m.moved("PAD", m.input((2, 3)), (9, 8), PadAttrs(((5, 2), (1, 4)))),
    "pad_far_around": lambda m: m.moved(
        "PAD", m.input((1, 4, 6, 5)), (1, 84, 146, 5), PadAttrs(((0, 0), (40, 40), (70, 70), (0, 0)))
    ),
    "pad_far_with_a_value": lambda m: m.moved(
        "PADV2", m.input((2, 1, 1, 3)), (4, 21, 33, 8), PadAttrs(((2, 0), (20, 0), (0, 32), (2, 3)), 5)
    ),
    "pad_with_a_value": lambda m: m.moved(
        "PADV2", m.input((1, 5, 6, 7)), (1, 7, 9, 7), PadAttrs(((0, 0), (1, 1), (3, 0), (0, 0)), 5)
    ),
    "mirror": lambda m: m.moved(
        "MIRROR_PAD", m.input((1, 5, 6, 3)), (1, 8, 7, 3), MirrorPadAttrs(((0, 0), (1, 2), (1, 0), (0, 0)), False)
    ),
    "mirror_symmetrically": lambda m: m.moved(
        "MIRROR_PAD", m.input((3, 4)), (8, 6), MirrorPadAttrs(((3, 2), (0, 2)), True)
    ),
    "tile": lambda m: m.moved("TILE", m.input((1, 3, 4, 5)), (2, 3, 8, 15), TileAttrs((2, 1, 2, 3))),
    "tile_three_hundred_times": lambda m: m.moved(
        "TILE", m.input((1, 1, 1, 4)), (1, 300, 1, 4), TileAttrs((1, 300, 1, 1))
    ),
    "tile_along_all_axes": lambda m: m.moved("TILE", m.input((2, 3, 2, 5)), (6, 60, 8, 10), TileAttrs((3, 20, 4, 2))),
    "gather": lambda m: m.gather(m.input((1, 5, 6, 9)), (7, 0, 1, 2, 2, 8), 3),
    "gather_rows": lambda m: m.gather(m.input((1, 9, 4, 21)), (1, 3, 5, 7, 0), 1),
    "gather_backwards": lambda m: m.gather(m.input((1, 3, 9, 8)), (6, 4, 2, 0), 2),
    "gather_to_more_dimensions": lambda m: m.gather(m.input((6, 5)), (0, 1, 3, 4, 5, 2), 0, (3, 2)),
    "gather_one": lambda m: m.gather(m.input((4, 6, 5)), (2,), 1, ()),
    "gather_that_shuffles_channels": lambda m: m.gather(
        m.input((1, 5, 4, 24)), tuple(8 * k + n for n in range(8) for k in range(3)), 3
    ),
    "gather_that_shuffles_rows": lambda m: m.gather(
        m.input((2, 12, 3, 5)), tuple(2 * n + k for k in range(2) for n in range(6)), 1
    ),
    "slice_to_another_scale": lambda m: m.op(
        "SLICE",
        [m.input((1, 9, 8, 21))],
        m.tensor((1, 5, 8, 20)),
        StridedSliceAttrs(((0, 1, 1), (2, 7, 1), (0, 8, 1), (1, 21, 1))),
    ),
    "slice_backwards_to_another_scale": lambda m: m.op(
        "STRIDED_SLICE",
        [m.input((2, 5, 4))],
        m.tensor((2, 3, 4)),
        StridedSliceAttrs(((1, -1, -1), (4, -1, -2), (0, 4, 1))),
    ),
    "slice_of_the_whole_to_another_scale": lambda m: m.op(
        "SLICE", [m.input((3, 5))], m.tensor((3, 5)), StridedSliceAttrs(((0, 3, 1), (0, 5, 1)))
    ),
    "pad_to_another_scale": lambda m: m.op(
        "PAD", [m.input((1, 5, 6, 7))], m.tensor((1, 8, 9, 7)), PadAttrs(((0, 0), (1, 2), (3, 0), (0, 0)))
    ),
    "pad_with_a_value_of_another_scale": lambda m: m.op(
        "PADV2", [m.input((1, 5, 6, 7))], m.tensor((1, 7, 9, 7)), PadAttrs(((0, 0), (1, 1), (3, 0), (0, 0)), 5)
    ),
    "mirror_to_another_scale": lambda m: m.op(
        "MIRROR_PAD",
        [m.input((1, 5, 6, 3), dtype=DType.INT8)],
        m.tensor((1, 8, 7, 3), dtype=DType.INT8),
        MirrorPadAttrs(((0, 0), (1, 2), (1, 0), (0, 0)), False),
    ),
    "pack_of_other_scales": lambda m: m.op(
        "PACK",
        [m.input((5, 7), dtype=DType.INT8) for _ in range(3)],
        m.tensor((5, 3, 7), dtype=DType.INT8),
        PackAttrs(1),
    ),
    "transpose_to_another_scale": lambda m: m.op(
        "TRANSPOSE", [m.input((2, 6, 9, 5))], m.tensor((2, 9, 6, 5)), TransposeAttrs((0, 2, 1, 3), (2, 6, 9, 5))
    ),
    "tile_to_another_scale": lambda m: m.op(
        "TILE", [m.input((1, 3, 4, 5))], m.tensor((2, 3, 8, 5)), TileAttrs((2, 1, 2, 1))
    ),
    "reverse": lambda m: m.moved("REVERSE_V2", m.input((3, 4, 5)), (3, 4, 5), ReverseAttrs((0, 2))),
    "transpose": lambda m: transposed(m, (7, 19), (1, 0)),
    "transpose_of_six_axes": lambda m: transposed(m, (2, 2, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0)),
    "transpose_of_seven_axes": lambda m: transposed(m, (2, 3, 2, 2, 3, 2, 4), (0, 2, 1, 4, 3, 5, 6)),
    "transpose_of_eight_axes": lambda m: transposed(m, (2, 2, 2, 2, 2, 2, 2, 3), (7, 6, 5, 4, 3, 2, 1, 0)),
    "transpose_of_one_axis": lambda m: transposed(m, (37,), (0,)),
    "transpose_to_channels_first": lambda m: transposed(m, (1, 6, 9, 20), (0, 3, 1, 2)),
    "transpose_to_channels_last": lambda m: transposed(m, (2, 20, 6, 5), (0, 2, 3, 1)),
    "transpose_rows_and_columns": lambda m: transposed(m, (1, 9, 7, 20), (0, 2, 1, 3)),
    "transpose_columns_and_channels": lambda m: transposed(m, (1, 5, 6, 18), (0, 1, 3, 2)),
    "transpose_in_reverse": lambda m: transposed(m, (3, 4, 5, 6), (3, 2, 1, 0)),
    "transpose_rows_of_one": lambda m: transposed(m, (1, 21, 1), (1, 0, 2)),
    "transpose_that_shuffles_channels": lambda m: transposed(m, (1, 7, 6, 3, 8), (0, 1, 2, 4, 3)),
    "transpose_five_axes": lambda m: transposed(m, (2, 3, 2, 5, 4), (4, 1, 3, 0, 2)),
    "quantize": lambda m: m.quantize(m.input((1, 30, 30, 9))),
    "quantize_to_16_bits": lambda m: m.op(
        "QUANTIZE", [m.input((1, 9, 7, 21))], m.tensor((1, 9, 7, 21), dtype=DType.INT16)
    ),
    "quantize_of_five_axes": lambda m: m.quantize(m.input((2, 3, 4, 5, 9))),
    "quantize_to_32_bits": lambda m: to_words(m, 0.011),
    "quantize_to_finer_units_of_32_bits": lambda m: to_words(m, 0.000003),
    "quantize_to_the_other_type": lambda m: m.quantize(
        m.input((1, 30, 30, 9)), DType.UINT8 if m.dtype is DType.INT8 else DType.INT8
    ),
}
