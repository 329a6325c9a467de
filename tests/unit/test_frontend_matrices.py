"""Readers of BATCH_MATMUL, SVDFs and LSTMs: contradictions are errors, what `ir` has no words for stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from ethoscade.errors import ModelFormatError
from ethoscade.frontend import read_tflite
from ethoscade.ir import BatchMatMulAttrs, DType, LstmAttrs, LstmInputs, Quantisation, SvdfAttrs, SvdfInputs
from ethoscade.testing import ModelBuilder


def matmul(
    a: tuple[int, ...], b: tuple[int, ...], made: tuple[int, ...], adj_x: bool = False, adj_y: bool = False
) -> bytes:
    """BATCH_MATMUL of such shapes, whether they go together or not."""
    builder = ModelBuilder()
    x, y = builder.input(a), builder.input(b)
    fields = {"AdjX": adj_x, "AdjY": adj_y}
    q = Quantisation((1.0,), (0,))
    builder._operator("BATCH_MATMUL", [x.index, y.index], made, lambda: np.zeros(made), q, fields, "y")
    return builder.build()


@pytest.mark.parametrize(
    ("shapes", "why"),
    [
        (((2, 3), (4, 5), (2, 5)), r"multiplies 'input0' of shape \[2, 3\] and 'input1' of shape \[4, 5\]"),
        (((2, 3), (3, 5), (2, 5), True), r"of shape \[2, 3\] \(transposed\) and"),
        (((2, 4, 3), (3, 3, 5), (2, 4, 5)), r"of shape \[3, 3, 5\]"),
        (((2, 3), (3, 5), (5, 2)), r"its inputs make \[2, 5\]"),
        (((3,), (3, 5), (5,)), "it takes 2 to 5 dimensions"),
    ],
)
def test_shapes_that_do_not_go_together(shapes: tuple, why: str) -> None:
    with pytest.raises(ModelFormatError, match=why):
        read_tflite(matmul(*shapes))


def test_matrices_are_read_as_they_are_meant() -> None:
    graph = read_tflite(matmul((4, 1, 3, 2), (5, 7, 3), (4, 5, 2, 7), True, True))
    assert graph.operators[0].attrs == BatchMatMulAttrs(True, True)


def lstm(change: Callable[[ModelBuilder, list[int]], object] = lambda b, inputs: None, **fields: int | float) -> bytes:
    """An LSTM with inputs and options changed."""
    b = ModelBuilder()
    b.lstm(b.input((1, 2, 3)), 4, cell_clip=0.5)
    record = b._operators[-1]
    inputs = list(record.inputs)
    change(b, inputs)
    b._operators[-1] = replace(record, inputs=tuple(inputs), fields={**record.fields, **fields})
    return b.build()


def with_input(place: int, shape: tuple[int, ...], dtype: DType) -> Callable[[ModelBuilder, list[int]], None]:
    """That input is another constant."""

    def change(b: ModelBuilder, inputs: list[int]) -> None:
        data = np.ones(shape, dtype.numpy)
        inputs[place] = b._tensor(f"other{place}", shape, dtype, Quantisation((0.01,), (0,)), data).index

    return change


def absent(place: int) -> Callable[[ModelBuilder, list[int]], None]:
    """That input is not there."""
    return lambda b, inputs: inputs.__setitem__(place, -1)


def test_an_lstm_has_its_state_as_inputs_and_outputs() -> None:
    graph = read_tflite(lstm())
    (op,) = graph.operators
    assert op.attrs == LstmAttrs(False, 0.5) and len(op.outputs) == 3
    assert [v.before for v in graph.variables] == [op.inputs[LstmInputs.hidden], op.inputs[LstmInputs.cell]]
    assert [v.after for v in graph.variables] == list(op.outputs[1:])


@pytest.mark.parametrize(
    ("change", "fields", "why"),
    [
        (absent(1), {}, "input gate follows from its forget gate"),
        (with_input(9, (4,), DType.INT16), {}, "peepholes"),
        (with_input(16, (4, 4), DType.INT8), {}, "a projection"),
        (with_input(20, (4,), DType.INT16), {}, "normalised gates"),
        (with_input(2, (4, 3), DType.INT16), {}, "with 'other2' of int16"),
        (with_input(13, (4,), DType.INT64), {}, "with 'other13' of int64"),
        (None, {"FusedActivationFunction": 1}, "another activation than TANH"),
    ],
)
def test_forms_of_an_lstm_without_words(change: Callable | None, fields: dict[str, int], why: str) -> None:
    graph = read_tflite(lstm(change, **fields) if change else lstm(**fields))
    (op,) = graph.operators
    assert why in (op.opaque or "") and op.attrs is None and graph.variables == ()
    assert graph.tensors[op.inputs[LstmInputs.cell]].is_variable, "its state is the kernel's own"


@pytest.mark.parametrize(
    ("place", "shape", "dtype"), [(3, (4, 2), DType.INT8), (6, (4, 3), DType.INT8), (14, (5,), DType.INT32)]
)
def test_shapes_of_an_lstm_that_contradict_each_other(place: int, shape: tuple[int, ...], dtype: DType) -> None:
    with pytest.raises(
        ModelFormatError, match=rf"of shape \[{', '.join(map(str, shape))}\] \(input {place}\); 4 cells"
    ):
        read_tflite(lstm(with_input(place, shape, dtype)))


@pytest.mark.parametrize("scale", [0.0005, 4.0])
def test_cells_whose_scale_is_none_that_kernels_shift_by(scale: float) -> None:
    b = ModelBuilder()
    b.lstm(b.input((1, 2, 3)), 4, cell_scale=scale)
    assert f"of scale {scale:g}; powers of two" in (read_tflite(b.build()).operators[0].opaque or "")


def svdf(change: Callable[[ModelBuilder, list[int]], object] = lambda b, inputs: None, **fields: int) -> bytes:
    """An SVDF of three features and six filters, with inputs and options changed."""
    b = ModelBuilder()
    b.svdf(b.input((2, 3)), 3, 4, rank=2)
    record = b._operators[-1]
    inputs = list(record.inputs)
    change(b, inputs)
    b._operators[-1] = replace(record, inputs=tuple(inputs), fields={**record.fields, **fields})
    return b.build()


def with_quantisation(place: int, quantisation: Quantisation) -> Callable[[ModelBuilder, list[int]], None]:
    """That input's scales and zero points are others."""

    def change(b: ModelBuilder, inputs: list[int]) -> None:
        b._tensors[inputs[place]] = replace(b._tensors[inputs[place]], quantisation=quantisation)

    return change


def test_an_svdf_has_its_state_as_input_and_output() -> None:
    for model in (svdf(), svdf(absent(SvdfInputs.bias))):
        graph = read_tflite(model)
        (op,), (variable,) = graph.operators, graph.variables
        assert op.attrs == SvdfAttrs(2) and op.outputs[1:] == (variable.after,)
        assert variable.before == op.inputs[SvdfInputs.state] and variable.initial.shape == (2, 24)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (with_input(1, (6, 3), DType.UINT8), "a state of int8 and 'other1' of uint8"),
        (with_input(2, (6, 4), DType.INT16), "a state of int8 and 'other2' of int16"),
        (with_input(3, (3,), DType.INT64), "a state of int8 and 'other3' of int64"),
        (with_quantisation(1, Quantisation((0.1,), (1,))), "of zero point 1"),
        (with_quantisation(2, Quantisation((0.1,) * 6, (0,) * 6, 0)), "of no single scale"),
        (with_quantisation(2, Quantisation((1e30,), (0,))), "kernels agree below 2^31"),
        (with_input(1, (6, 3, 1), DType.INT8), "an SVDF with weights 'other1' of shape [6, 3, 1]"),
    ],
)
def test_forms_of_an_svdf_without_words(change: Callable, why: str) -> None:
    graph = read_tflite(svdf(change))
    (op,) = graph.operators
    assert why in (op.opaque or "") and op.attrs is None and graph.variables == ()
    assert graph.tensors[op.inputs[SvdfInputs.state]].is_variable, "its state is the kernel's own"


@pytest.mark.parametrize(
    ("change", "fields", "why"),
    [
        (with_input(1, (6, 2), DType.INT8), {}, r"of shape \[6, 2\] \(input 1\); 6 filters of 3 features"),
        (with_input(2, (6, 5), DType.INT8), {}, r"of shape \[2, 24\] \(input 4\); 6 filters of 3 features, .* 5 runs"),
        (with_input(3, (6,), DType.INT32), {}, r"of shape \[6\] \(input 3\)"),
        (lambda b, inputs: None, {"Rank": 4}, "has 6 filters of rank 4"),
        (lambda b, inputs: None, {"Rank": 0}, "has 6 filters of rank 0"),
        (lambda b, inputs: None, {"Rank": 1}, r"its inputs make \[2, 6\]|\(input 3\)"),
        (absent(2), {}, r"has no weights in time \(input 2\)"),
        (lambda b, inputs: inputs.pop(), {}, "has 4 inputs; it takes 5"),
    ],
)
def test_an_svdf_that_contradicts_itself(change: Callable, fields: dict[str, int], why: str) -> None:
    with pytest.raises(ModelFormatError, match=why):
        read_tflite(svdf(change, **fields))
