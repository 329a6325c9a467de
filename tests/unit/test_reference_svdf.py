"""SVDF as the reference has it, over runs in a row: drawn ones against both runtimes, and what wraps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, Graph, Quantisation, SvdfInputs, Tensor
from ethoscade.ir.quantised import svdf_scales
from ethoscade.judge import reference
from ethoscade.judge.reference.formulas import memory_factors
from graphs import GraphMaker
from in_a_row import in_micro, steps_of
from reference_support import drawn_operator, needs_litert


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
def test_drawn_states_in_a_row_equal_the_runtimes(dtype: DType) -> None:
    """Micro's, and LiteRT's own where the state is one that it knows."""
    compared = 0
    for seed in range(80):
        model = drawn_operator("SVDF", seed, DType.INT8)
        graph = read_tflite(model)
        (op,) = graph.operators
        if graph.read(op, SvdfInputs.state).dtype is not dtype:
            continue
        name, shape = graph.tensors[graph.given[0]].name, graph.read(op).shape
        steps = steps_of(shape, DType.INT8, 14)
        runs = reference.run_steps(graph, [{name: step["x"]} for step in steps])
        mine = [next(iter(run.outputs.values())) for run in runs]
        np.testing.assert_array_equal(in_micro(model, steps), mine, err_msg=f"seed {seed}")
        if dtype is DType.INT16:
            np.testing.assert_array_equal(in_litert(model, steps), mine, err_msg=f"seed {seed}")
        compared += 1
    assert compared > 15


def in_litert(model: bytes, steps: list[dict[str, np.ndarray]]) -> list[np.ndarray]:
    """What LiteRT makes in runs in a row, keeping the state itself."""
    needs_litert()
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    (given,), (made,) = interpreter.get_input_details(), interpreter.get_output_details()
    found = []
    for inputs in steps:
        interpreter.set_tensor(given["index"], inputs["x"])
        interpreter.invoke()
        found.append(interpreter.get_tensor(made["index"]))
    return found


def test_what_leaves_8_bits_beyond_the_zero_point_wraps() -> None:
    """100 and a newest value of 127 are 227, stored as -29: 129 below the zero point, which are weighed by a half."""
    maker = GraphMaker()
    x = maker.input((1, 1), Quantisation((1.0,), (0,)))
    maker.svdf(x, 1, 2, zero_point=100, use_bias=False)
    svdf = maker.operators[-1]
    ones = Quantisation((1.0,), (0,))
    for place, data, quantisation in (
        (SvdfInputs.of_input, [[1]], ones),
        (SvdfInputs.in_time, [[0, 1]], Quantisation((0.5,), (0,))),
        (SvdfInputs.state, None, Quantisation((1.0,), (100,))),
    ):
        value = None if data is None else np.array(data, np.int8)
        index = svdf.input(place)
        maker.tensors[index] = replace(maker.tensors[index], quantisation=quantisation, data=value)
    for index, quantisation in zip(svdf.outputs, (ones, Quantisation((1.0,), (100,))), strict=True):
        maker.tensors[index] = replace(maker.tensors[index], quantisation=quantisation)
    graph = maker.graph()
    state = np.array([[5, 6]], np.int8)
    for given, stored, made in ((127, -29, -64), (27, 127, 14), (28, -128, -114), (-100, 0, -50)):
        values = {x: np.array([[given]], np.int8), svdf.input(SvdfInputs.state): state}
        found = reference.run_operator(graph, svdf, {**values, **constants(graph)})
        assert [found[t].tolist() for t in svdf.outputs] == [[[made]], [[6, stored]]]


def test_factors_are_no_float32() -> None:
    """Micro's are products and quotients in double; rounded to float32 one result in some hundred thousands differs."""
    scales = [float(np.float32(scale)) for scale in (0.05, 0.0064678, 0.0042457, 0.0268817, 0.0907592)]
    tensors = [
        Tensor(name, (1,), DType.INT8, Quantisation((scale,), (0,)))
        for name, scale in zip("xwtsy", scales, strict=True)
    ]
    (x, w, t, s, y), (ifm, weights, times, state, ofm) = scales, tensors
    expected = (x * w / s, s * t / y)
    assert expected != tuple(float(np.float32(factor)) for factor in expected)
    assert svdf_scales(ifm, weights, times, state, ofm) == expected
    assert memory_factors(ifm, weights, state, times, ofm) == expected


def constants(graph: Graph) -> dict[int, np.ndarray]:
    return {index: tensor.data for index, tensor in enumerate(graph.tensors) if tensor.data is not None}
