"""GATHER by constant indices: how they fall into copies, what is read where it lies, and what stays on the CPU."""

from __future__ import annotations

import itertools

import ethoscade
import numpy as np
import pytest
from end_to_end import both_ends, network_of
from ethoscade.errors import ModelFormatError
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, Quantisation
from ethoscade.lowering import lower
from ethoscade.lowering.gather import shuffle
from ethoscade.pipeline.compiler import prepare
from ethoscade.pipeline.partition import partition
from ethoscade.targets.target import ACCELERATORS, load_target
from ethoscade.testing import ModelBuilder, Value
from tflite_files import INT32, File, Op, T, constant

U55 = ACCELERATORS["ethos-u55-256"]


def gathered(shape: tuple[int, ...], indices: object, axis: int) -> bytes:
    b = ModelBuilder(seed=3)
    b.gather(b.input(shape), np.array(indices, np.int32), axis)
    return b.build()


def copies(model: bytes) -> int:
    graph = read_tflite(model)
    return len(lower(graph, partition(graph, U55)).operations)


@pytest.mark.parametrize("extents", [(6,), (2, 3), (3, 4), (2, 3, 2), (2, 2, 3, 2)])
def test_permutations_of_axes_are_found_among_indices(extents: tuple[int, ...]) -> None:
    """Whatever permutation is found makes the very indices, and one is found for every permutation of axes."""
    count = int(np.prod(extents))
    for order in itertools.permutations(range(len(extents))):
        indices = np.arange(count).reshape(extents).transpose(order).ravel()
        found = shuffle(count, indices.tolist())
        assert found is not None
        np.testing.assert_array_equal(
            np.arange(count).reshape(found.extents).transpose(found.permutation).ravel(), indices
        )


@pytest.mark.parametrize(
    "indices", [(0, 1, 2, 4, 3, 5), (0, 2, 4), (5, 4, 3, 2, 1, 0), (0, 0, 1, 1, 2, 2), (0, 3, 1, 4, 2, 2), (1, 2, 3)]
)
def test_other_indices_are_no_permutation_of_axes(indices: tuple[int, ...]) -> None:
    assert shuffle(6, indices) is None


@pytest.mark.parametrize(
    ("indices", "axis", "expected"),
    [
        (range(3, 19), 3, 1),  # consecutive
        (range(1, 6, 2), 1, 1),  # every second row
        (range(0, 6, 2), 3, 3),  # every second channel, so that pixels stay pixels
        ([*range(12, 24), *range(12)], 3, 2),  # halves, the other way round
        ([8 * k + n for n in range(8) for k in range(3)], 3, 3),  # groups of channels, by a TRANSPOSE
        ([[0, 1], [2, 3]], 1, 1),  # consecutive, to two dimensions
        (4, 2, 1),
    ],
)
def test_runs_of_indices_are_one_copy_each(indices: object, axis: int, expected: int) -> None:
    indices = list(indices) if isinstance(indices, range) else indices
    assert copies(gathered((1, 6, 5, 24), indices, axis)) == expected


def test_all_elements_in_order_need_no_operation() -> None:
    b = ModelBuilder(seed=3)
    x = b.gather(b.conv2d(b.input((1, 6, 5, 3)), 16, 3), np.arange(16, dtype=np.int32), 3)
    b.conv2d(x, 4, 3)
    assert copies(b.build()) == 2


def test_consecutive_channels_are_read_where_they_are() -> None:
    b = ModelBuilder(seed=3)
    x = b.conv2d(b.input((1, 12, 10, 3)), 32, 3, name="stem")
    some = b.conv2d(b.gather(x, np.arange(5, 21, dtype=np.int32), 3), 4, 3, name="some")
    b.add(some, b.conv2d(x, 4, 3, name="all"), name="both")
    network = prepare(read_tflite(b.build()), load_target("ethos-u55-256"))
    assert {operation.name for operation in network.npu.operations} == {"stem", "some", "all", "both"}


def shuffled(b: ModelBuilder, x: Value) -> Value:
    return b.gather(x, np.arange(16, dtype=np.int32).reshape(4, 4).T.ravel(), 3)


def picked(b: ModelBuilder, x: Value) -> Value:
    return b.gather(x, np.array([15, 2, 3, 4, 0, 9, 11, 13], np.int32), 3)


def columns(b: ModelBuilder, x: Value) -> Value:
    return b.gather(x, np.array([0, 1, 2, 7, 9, 11, 13, 18], np.int32), 2)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16], ids=lambda d: d.value)
@pytest.mark.parametrize("move", [shuffled, picked, columns])
def test_cascades_are_exact_at_both_ends(move: object, dtype: DType) -> None:
    b = ModelBuilder(dtype=dtype, seed=4)
    x = move(b, b.conv2d(b.input((1, 24, 20, 3)), 16, 3))  # type: ignore[operator]
    b.conv2d(x, 4, 3, stride=(2, 2))
    curve = both_ends(network_of(b.build(), "ethos-u55-128"))
    if move is not shuffled:
        between = 2 * 24 * 20 * 16 * dtype.size_bytes
        assert curve.points[0][0] < between // 2, "rows stay rows, so no tensor between is whole"


def unlike(data: np.ndarray, made: tuple[int, ...], axis: int = 1, batch_dims: int = 0, constant: bool = True) -> bytes:
    """A GATHER of 2 by 5 elements whatever the rest says."""
    b = ModelBuilder()
    x = b.input((2, 5))
    if constant:
        given = b._constant("indices", data, DType(data.dtype.name)).index
    else:
        given = b.input(data.shape, dtype=DType.INT32, quantisation=Quantisation((1.0,), (0,))).index
    fields = {"Axis": axis, "BatchDims": batch_dims}
    b._operator("GATHER", [x.index, given], made, lambda: np.zeros(made), x.quantisation, fields, "gather")
    return b.build()


@pytest.mark.parametrize(
    ("data", "made", "axis", "words"),
    [
        (np.array([0, 5], np.int32), (2, 2), 1, "takes element 5 of 5 along axis 1"),
        (np.array([-1], np.int64), (2, 1), 1, "takes element -1 of 5 along axis 1"),
        (np.array([0, 1], np.int32), (2, 3), 1, r"its inputs and indices make \[2, 2\]"),
        (np.array([0], np.int32), (2, 1), 2, "names axis 2 of 2 dimensions"),
        (np.array([0], np.int8), (2, 1), 1, "of type int8; it takes int16, int32 or int64"),
    ],
)
def test_contradictions(data: np.ndarray, made: tuple[int, ...], axis: int, words: str) -> None:
    with pytest.raises(ModelFormatError, match=words):
        read_tflite(unlike(data, made, axis))


@pytest.mark.parametrize(
    ("constant", "batch_dims", "words"),
    [(False, 0, "indices 'input1' are not constant"), (True, 1, "it has 1 batch dimensions")],
)
def test_indices_that_are_not_known_or_differ_stay_on_the_cpu(constant: bool, batch_dims: int, words: str) -> None:
    data = np.array([[0, 1], [2, 3]], np.int32)
    model = unlike(data, (2, 2, 2) if not batch_dims else (2, 2), batch_dims=batch_dims, constant=constant)
    (operator,) = read_tflite(model).operators
    assert operator.opaque is not None and words in operator.opaque


def test_too_many_runs_stay_on_the_cpu_and_say_how_many() -> None:
    order = np.random.default_rng(1).permutation(2000).astype(np.int32)
    compiled = ethoscade.compile(gathered((1, 2000), order, 1))
    (operator,) = compiled.operators
    assert operator.reason is not None and "copies or more; at most 256 operations" in operator.reason


WORDS = [
    (shape, axis, indices)
    for shape in ((3,), (5, 1), (1, 5), (3, 1, 2), (4, 2, 3), (2, 1, 4, 1), (1, 6, 5, 8))
    for axis in range(len(shape))
    for extent in (shape[axis],)
    for indices in {
        tuple(range(extent)), tuple(range(0, extent, 2)), tuple(reversed(range(extent))), (*range(1, extent), 0),
        (extent - 1, 0, 0), tuple(order for half in (0, 1) for order in range(half, extent, 2)),
    }
]  # fmt: skip
"""int32 of every rank with extents of 1 about: indices in order, every second one, turned round, moved on, shuffled."""


@pytest.mark.parametrize(("shape", "axis", "indices"), WORDS)
def test_elements_of_32_bits(shape: tuple[int, ...], axis: int, indices: tuple[int, ...]) -> None:
    """No pool reads them: rows and columns follow each other, or the operator stays on the CPU."""
    made = (*shape[:axis], len(indices), *shape[axis + 1 :])
    file = File(
        (T("x", shape, INT32, (), ()), constant("i", list(indices)), T("y", made, INT32, (), ()), T("a", (1, 4)),
         T("b", (1, 4))),
        (Op("GATHER", (0, 1), (2,), "GatherOptions", {"Axis": axis}), Op("ADD", (3, 3), (4,), "AddOptions")),
        (0, 3),
        (2, 4),
    )  # fmt: skip
    rng = np.random.default_rng(1)
    x = rng.integers(-(2**31), 2**31, shape, np.int32)
    found = ethoscade.compile(file.bytes()).simulate({"x": x, "a": np.zeros((1, 4), np.int8)})
    np.testing.assert_array_equal(found.outputs["y"], np.take(x, indices, axis))
