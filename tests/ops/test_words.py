"""Operators of 32 bits: moves, comparisons, sums and products that fit; what may not fit stays on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import ethoscade
import numpy as np
import pytest
from ethoscade import testing
from ethoscade.frontend import read_tflite
from ethoscade.ir import (
    Activation,
    AddAttrs,
    ArgMaxAttrs,
    ArithmeticAttrs,
    ConcatenationAttrs,
    DType,
    Graph,
    MirrorPadAttrs,
    Operator,
    Quantisation,
    ReductionAttrs,
    SplitAttrs,
    StridedSliceAttrs,
    Tensor,
    TransposeAttrs,
)
from ethoscade.judge import reference
from ethoscade.lowering import support
from ethoscade.targets.target import ACCELERATORS
from ethoscade.testing.flatfile import OperatorRecord, TensorRecord, write_file
from graphs import GraphMaker
from npu import check_whole

WORD = DType.INT32
ATTRS = {"ADD": AddAttrs, "MUL": ArithmeticAttrs, "SUB": ArithmeticAttrs}
Make = Callable[[GraphMaker], object]


def indices(m: GraphMaker, shape: tuple[int, ...], depth: int) -> int:
    """An ARG_MAX: numbers of 0 to one less than `depth`, without a quantisation."""
    return m.op("ARG_MAX", [m.input((*shape, depth), dtype=DType.INT8)], plain(m, shape), ArgMaxAttrs(len(shape)))


def plain(m: GraphMaker, shape: tuple[int, ...]) -> int:
    """A tensor without a quantisation."""
    m.tensors.append(Tensor(f"t{len(m.tensors)}", shape, WORD, None))
    return len(m.tensors) - 1


def scaled(m: GraphMaker, shape: tuple[int, ...]) -> int:
    """A QUANTIZE of int16: numbers of 18 bits, of both signs."""
    ifm = m.input(shape, Quantisation((1 / 1024,), (0,)), DType.INT16)
    return m.op("QUANTIZE", [ifm], m.tensor(shape, Quantisation((1 / 4096,), (0,)), WORD))


def number(m: GraphMaker, *values: int) -> int:
    return m.constant(np.array(values, np.int32), None, WORD)


def result(m: GraphMaker, kind: str, a: int, b: int, activation: Activation = Activation.NONE) -> int:
    shape = np.broadcast_shapes(m.tensors[a].shape, m.tensors[b].shape)
    attrs = ATTRS[kind](activation) if kind in ATTRS else None
    return m.op(kind, [a, b], plain(m, shape), attrs)


def total(m: GraphMaker, x: int, axes: tuple[int, ...]) -> int:
    shape = tuple(extent for axis, extent in enumerate(m.tensors[x].shape) if axis not in axes)
    return m.op("SUM", [x], plain(m, shape), ReductionAttrs(axes, keep_dims=False))


ARITHMETIC: dict[str, Make] = {
    "sum_with_a_number": lambda m: result(m, "ADD", indices(m, (1, 6, 5), 21), number(m, 1000)),
    "sum_with_a_large_number": lambda m: result(m, "ADD", number(m, 1 << 20), indices(m, (1, 6, 5), 21)),
    "sum_with_numbers": lambda m: result(m, "ADD", scaled(m, (1, 6, 5, 3)), number(m, -(1 << 30), 7, 1 << 30)),
    "difference_from_a_number": lambda m: result(m, "SUB", number(m, 9), scaled(m, (1, 6, 5, 20))),
    "difference_of_two": lambda m: result(m, "SUB", scaled(m, (1, 6, 5, 20)), scaled(m, (1, 1, 1, 20))),
    "product_with_a_number": lambda m: result(m, "MUL", scaled(m, (1, 6, 5, 20)), number(m, -999)),
    "product_of_two": lambda m: result(m, "MUL", indices(m, (1, 6, 5), 128), indices(m, (1, 6, 5), 100)),
    "steps": lambda m: result(
        m, "SUB", result(m, "ADD", result(m, "MUL", scaled(m, (4, 9)), number(m, 3)), number(m, -5)), number(m, 70000)
    ),
    "total": lambda m: total(m, scaled(m, (1, 6, 5, 20)), (1, 2)),
    "total_over_every_other_axis": lambda m: total(m, scaled(m, (3, 2, 5, 4)), (0, 2)),
    "total_over_all": lambda m: total(m, indices(m, (1, 7, 5), 21), (0, 1, 2)),
    "total_of_one_each": lambda m: total(m, scaled(m, (1, 6, 5, 3)), (0,)),
    "total_behind_a_total": lambda m: total(m, total(m, scaled(m, (4, 9, 7)), (1,)), (0,)),
    "greater": lambda m: result(m, "MAXIMUM", m.input((1, 6, 5, 20), dtype=WORD), m.input((5, 20), dtype=WORD)),
    "lesser": lambda m: result(m, "MINIMUM", m.input((1, 6, 5, 20), dtype=WORD), number(m, -(1 << 31))),
}

MOVES: dict[str, Make] = {
    "transposed": lambda m: m.op(
        "TRANSPOSE", [m.input((2, 4, 6, 8))], m.tensor((2, 8, 4, 6)), TransposeAttrs((0, 3, 1, 2), (2, 4, 6, 8))
    ),
    "mirrored": lambda m: m.op(
        "MIRROR_PAD",
        [m.input((1, 4, 6, 8))],
        m.tensor((1, 7, 8, 8)),
        MirrorPadAttrs(((0, 0), (1, 2), (2, 0), (0, 0)), symmetric=False),
    ),
    "sliced": lambda m: m.op(
        "STRIDED_SLICE",
        [m.input((1, 4, 6, 8))],
        m.tensor((1, 3, 4, 5)),
        StridedSliceAttrs(((0, 1, 1), (1, 4, 1), (2, 6, 1), (3, 8, 1))),
    ),
    "joined": lambda m: m.concatenate([m.input((1, 4, 6, 8)), m.input((1, 4, 6, 3))]),
}


@pytest.mark.parametrize("case", [*ARITHMETIC, *MOVES])
def test_words_are_exact(case: str) -> None:
    for seed, accelerator in enumerate(("ethos-u55-32", "ethos-u55-128", "ethos-u65-256")):
        maker = GraphMaker(WORD if case in MOVES else DType.INT8, seed)
        {**ARITHMETIC, **MOVES}[case](maker)
        graph = maker.graph()
        assert {support(graph, op, ACCELERATORS[accelerator]) for op in graph.operators} == {None}
        check_whole(graph, ACCELERATORS[accelerator], rank=0.5 * seed, seed=seed)


def refusal(make: Make) -> str | None:
    maker = GraphMaker()
    make(maker)
    graph = maker.graph()
    return support(graph, graph.operators[-1], ACCELERATORS["ethos-u55-256"])


LARGEST = (1 << 31) - 1


@pytest.mark.parametrize(
    ("kind", "fits", "beyond"),
    [
        ("ADD", LARGEST - 127, "its results may be 2147483521 to 2147483648"),
        ("MUL", -(LARGEST // 127), "its results may be -2147483767 to 0"),
        ("SUB", -(LARGEST - 127), "its results may be 2147483521 to 2147483648"),
    ],
)
def test_what_fits_is_known_to_the_last_number(kind: str, fits: int, beyond: str) -> None:
    """Indices of 128 channels are 0 to 127."""
    further = fits + (1 if fits > 0 else -1)
    assert refusal(lambda m: result(m, kind, indices(m, (4, 5), 128), number(m, fits))) is None
    found = refusal(lambda m: result(m, kind, indices(m, (4, 5), 128), number(m, further)))
    assert found is not None and beyond in found


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda m: result(m, "ADD", m.input((4, 5), dtype=WORD), number(m, 1)), "may be -2147483647 to 2147483648"),
        (lambda m: total(m, m.input((4, 5), dtype=WORD), (1,)), "sums may be -10737418240 to 10737418235"),
        (lambda m: total(m, scaled(m, (1 << 15, 1)), (0,)), "sums may be -4294967296 to 4294836224"),
        (lambda m: total(m, indices(m, (70000, 2), 9), (0,)), "takes rows of 140000 sums"),
        (lambda m: result(m, "ADD", indices(m, (4, 5), 9), number(m, 1), Activation.RELU), "RELU is fused into it"),
        (
            lambda m: result(m, "MUL", result(m, "ADD", m.input((4, 5), dtype=WORD), number(m, 1)), number(m, 2)),
            "may be -4294967296 to 4294967294",
        ),
        (
            lambda m: m.op(
                "STRIDED_SLICE",
                [m.input((1, 4, 6, 8), dtype=WORD)],
                m.tensor((1, 2, 6, 8), dtype=WORD),
                StridedSliceAttrs(((0, 1, 1), (0, 4, 2), (0, 6, 1), (0, 8, 1))),
            ),
            "every 2th row or column of int32",
        ),
        (
            lambda m: m.op(
                "CONCATENATION",
                [m.input((4, 5), dtype=WORD), m.constant(np.zeros((4, 1), np.int32), None, WORD)],
                m.tensor((4, 6), dtype=WORD),
                ConcatenationAttrs(1),
            ),
            "is a constant of int32",
        ),
    ],
)
def test_reasons_of_words(make: Make, words: str) -> None:
    found = refusal(make)
    assert found is not None and words in found


def test_moves_keep_what_is_known() -> None:
    """Numbers behind a SPLIT are those ahead of it."""
    maker = GraphMaker()
    whole = indices(maker, (4, 6), 128)
    first, second = plain(maker, (4, 2)), plain(maker, (4, 4))
    maker.operators.append(Operator("SPLIT_V", "split", (whole,), (first, second), SplitAttrs(1, (2, 4), 0)))
    result(maker, "ADD", second, number(maker, LARGEST - 127))
    graph = maker.graph()
    assert support(graph, graph.operators[-1], ACCELERATORS["ethos-u55-256"]) is None


def network(kind: str, code: int) -> Graph:
    """Two operands of int32 and their result, as a file."""
    tensors = [TensorRecord(name, (4, 64), WORD) for name in ("a", "b", "c")]
    options = {"ADD": "AddOptions", "MUL": "MulOptions", "SUB": "SubOptions"}.get(kind, "MaximumMinimumOptions")
    fields = {"FusedActivationFunction": code} if kind in ATTRS else {}
    operator = OperatorRecord(kind, 1, (0, 1), (2,), options, fields)
    return read_tflite(write_file("words", tensors, [operator], (0, 1), (2,)))


@pytest.mark.parametrize("code", range(4))
@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM"])
def test_the_meaning_is_litert_s_wherever_it_wraps(kind: str, code: int) -> None:
    pytest.importorskip("ai_edge_litert", reason='LiteRT is not installed: pip install "ethoscade[verify]"')
    from ethoscade.judge.litert import Session

    graph, rng = network(kind, code), np.random.default_rng(code)
    few = rng.integers(*WORD.limits, (2, 4, 64), endpoint=True).astype(np.int32)
    few[:, 0] = rng.integers(-5, 6, (2, 64))
    few[:, 1, :4] = [WORD.limits[0], WORD.limits[1], -1, 0]
    with Session(graph.source, graph.name) as session:
        (found,) = session.run((0,), (0, 1), (2,), [dict(enumerate(few))])
    wanted = reference.run(graph, {"a": few[0], "b": few[1]}).outputs["c"]
    np.testing.assert_array_equal(found[2], wanted)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 2), (0, 1, 2)])
def test_sums_are_litert_s_wherever_they_wrap(axes: tuple[int, ...]) -> None:
    pytest.importorskip("ai_edge_litert", reason='LiteRT is not installed: pip install "ethoscade[verify]"')
    from ethoscade.judge.litert import Session

    tensors = [
        TensorRecord("a", (3, 4, 5), WORD),
        TensorRecord("axes", (len(axes),), WORD, None, np.array(axes, np.int32)),
        TensorRecord("c", tuple(1 if axis in axes else extent for axis, extent in enumerate((3, 4, 5))), WORD),
    ]
    operator = OperatorRecord("SUM", 1, (0, 1), (2,), "ReducerOptions", {"KeepDims": True})
    graph = read_tflite(write_file("words", tensors, [operator], (0,), (2,)))
    given = np.random.default_rng(1).integers(*WORD.limits, (3, 4, 5), endpoint=True).astype(np.int32)
    with Session(graph.source, graph.name) as session:
        (found,) = session.run((0,), (0,), (2,), [{0: given}])
    np.testing.assert_array_equal(found[2], reference.run(graph, {"a": given}).outputs["c"])


@pytest.mark.parametrize("optimise", ["size", "performance"])
def test_words_in_a_compiled_network(optimise: str) -> None:
    """Indices of an image's largest channels, in another order and elsewhere, whole and in stripes."""
    tensors = [
        TensorRecord("x", (1, 24, 20, 16), DType.INT8, Quantisation((0.1,), (3,))),
        TensorRecord("axis", (), WORD, None, np.array(3, np.int32)),
        TensorRecord("index", (1, 24, 20), WORD),
        TensorRecord("three", (), WORD, None, np.array(3, np.int32)),
        TensorRecord("product", (1, 24, 20), WORD),
        TensorRecord("far", (20,), WORD, None, np.arange(20, dtype=np.int32) * 100_000),
        TensorRecord("sum", (1, 24, 20), WORD),
        TensorRecord("order", (3,), WORD, None, np.array([0, 2, 1], np.int32)),
        TensorRecord("y", (1, 20, 24), WORD),
    ]
    none = {"FusedActivationFunction": 0}
    operators = [
        OperatorRecord("ARG_MAX", 2, (0, 1), (2,), "ArgMaxOptions", {"OutputType": 2}),
        OperatorRecord("MUL", 1, (2, 3), (4,), "MulOptions", none),
        OperatorRecord("ADD", 1, (4, 5), (6,), "AddOptions", none),
        OperatorRecord("TRANSPOSE", 1, (6, 7), (8,), "TransposeOptions"),
    ]
    compiled = ethoscade.compile(write_file("words", tensors, operators, (0,), (8,)), optimise=optimise)
    assert not compiled.kinds_on_cpu
    found = compiled.verify(seeds=2)
    assert found.ok and not found.hazards


def test_random_networks_have_words() -> None:
    kinds = set()
    for seed in range(300):
        graph = read_tflite(testing.random_network(seed))
        kinds |= {op.kind for op in graph.operators if graph.tensors[op.outputs[0]].dtype is WORD and op.opaque is None}
    assert kinds >= {"ADD", "MUL", "SUB", "MAXIMUM", "MINIMUM", "SUM", "TRANSPOSE"}
