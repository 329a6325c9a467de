"""Operators that contradict themselves and that some runtime runs all the same: on the CPU, with a reason.

Whether a runtime runs them is what LiteRT says of the file, as it is written.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from ethoscade.errors import ModelFormatError, UnsupportedOperatorError
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType
from ethoscade.judge import litert, reference
from ethoscade.judge.verification import random_inputs
from ethoscade.testing import ModelBuilder
from tflite import TensorType
from tflite_files import FLOAT32, INT8, INT16, INT32, UINT8, File, Op, T, constant, conv_file

REDUCER = ("ReducerOptions", {"KeepDims": True})
HUGE = {"scales": (1e30,), "zero_points": (0,)}


def one(kind: str, shapes: list[tuple[int, ...]], extra: T | None = None, options: tuple = (None, {})) -> File:
    """An operator of tensors of these shapes, the last of which it makes, and perhaps a constant."""
    tensors = [T(f"t{i}", s) for i, s in enumerate(shapes)]
    inputs = list(range(len(shapes) - 1))
    if extra is not None:
        tensors.append(extra)
    op = Op(kind, [*inputs, *([len(shapes)] if extra is not None else [])], (len(shapes) - 1,), *options)
    return File(tensors, (op,), inputs, (len(shapes) - 1,))


def depthwise(multiplier: int) -> File:
    options = {"Padding": 1, "StrideH": 1, "StrideW": 1, "DepthMultiplier": multiplier}
    return File(
        (T("x", (1, 5, 5, 3)), T("w", (1, 3, 3, 6), data=[1] * 54), T("y", (1, 3, 3, 6))),
        (Op("DEPTHWISE_CONV_2D", (0, 1), (2,), "DepthwiseConv2DOptions", options),),
        (0,),
        (2,),
    )


def rescaled(kind: str, options: str | None = None) -> File:
    """A factor of 10^18 or more from input to output."""
    tensors = [T("x", (1, 4, 4, 2), scales=(1e6,)), T("y", (1, 4, 4, 2), scales=(1e-15,))]
    inputs: tuple[int, ...] = {"ADD": (0, 0), "MEAN": (0, 2)}.get(kind, (0,))
    if kind == "MEAN":
        tensors = [tensors[0], replace(tensors[1], shape=(1, 1, 1, 2)), constant("axes", [1, 2])]
    return File(tensors, (Op(kind, inputs, (1,), options, {"KeepDims": True} if kind == "MEAN" else {}),), (0,), (1,))


def product(scale: float) -> File:
    return File(
        (T("x", (1, 4)), T("z", (1, 4), scales=(scale,)), T("y", (1, 4))),
        (Op("MUL", (0, 1), (2,), "MulOptions"),),
        (0, 1),
        (2,),
    )


def moved(given: int, made: int) -> File:
    reshape = Op("RESHAPE", (0,), (1,), "ReshapeOptions", {"NewShape": (2, 2)})
    return File((T("x", (1, 4), given), T("y", (2, 2), made)), (reshape,), (0,), (1,))


CARRIED = {
    "a factor of a product": (product(1e30), "it multiplies its results by 1e+30"),
    "a factor of a convolution": (conv_file().tensor(1, **HUGE), "kernels agree below 2^31"),
    "a factor of a quantisation": (rescaled("QUANTIZE"), "kernels agree below 2^31"),
    "a factor of an activation": (rescaled("RELU"), "kernels agree below 2^31"),
    "a factor of a mean": (rescaled("MEAN", "ReducerOptions"), "kernels agree below 2^31"),
    "an unknown activation": (conv_file().operator(0, options={"FusedActivationFunction": 77}), "activation 77"),
    "another multiplier": (depthwise(3), "depth multiplier is 3; 'w' makes 6 channels of 3"),
    "resizing without options": (
        one("RESIZE_NEAREST_NEIGHBOR", [(1, 2, 2, 1), (1, 4, 4, 1)], constant("s", [4, 4])),
        "it has no ResizeNearestNeighborOptions",
    ),
    "a slope without options": (one("LEAKY_RELU", [(1, 4), (1, 4)]), "it has no LeakyReluOptions"),
    "an infinite slope": (
        one("LEAKY_RELU", [(1, 4), (1, 4)], None, ("LeakyReluOptions", {"Alpha": float("inf")})), "alpha is inf",
    ),
    "bytes of another type": (moved(UINT8, INT8), "it takes bytes of uint8 for int8"),
    "a zero point beyond its type": (conv_file().tensor(0, zero_points=(128,)), "'input' has zero point 128"),
    "a zero point of uint8": (moved(UINT8, UINT8).tensor(0, zero_points=(-1,)), "outside of uint8"),
    "a zero point of a bias": (conv_file().tensor(2, scales=(1.0,), zero_points=(2**40,)), "outside of int32"),
    "a negative scale": (one("RELU", [(1, 4), (1, 4)]).tensor(0, scales=(-1.0,)), "'t0' has scale -1.0"),
    "a scale of zero": (
        conv_file().tensor(1, scales=(0.0,), zero_points=(0,), data=[0] * 215 + [1]), "'weights' has scale 0.0",
    ),
}  # fmt: skip
"""Files that LiteRT runs as they are written, and a part of the reason."""


def carried(file: File, why: str) -> None:
    """The file compiles, and its operator is on the CPU for that reason."""
    (operator,) = read_tflite(file.bytes()).operators
    assert why in (operator.opaque or "") and operator.attrs is None
    (told,) = ethoscade.compile(file.bytes()).operators
    assert told.where == "cpu" and why in told.reason


@pytest.mark.parametrize("what", CARRIED)
def test_what_a_runtime_runs_is_carried_to_the_cpu(what: str) -> None:
    carried(*CARRIED[what])


@pytest.mark.parametrize("what", CARRIED)
def test_litert_runs_it(what: str) -> None:
    pytest.importorskip("ai_edge_litert", reason='LiteRT is not installed: pip install "ethoscade[verify]"')
    takers = pytest.importorskip("takers", reason="children under limits need Linux")
    assert takers.litert(CARRIED[what][0].bytes()) == takers.TAKES


@pytest.mark.parametrize("what", CARRIED)
def test_it_has_a_verdict(what: str) -> None:
    """Right as far as it is judged, or named as not judged."""
    pytest.importorskip("ai_edge_litert", reason='LiteRT is not installed: pip install "ethoscade[verify]"')
    check = ethoscade.compile(CARRIED[what][0].bytes()).verify()
    assert check.ok and (check.elements or check.not_judged)


@pytest.mark.parametrize(("given", "made"), [(UINT8, INT8), (INT8, UINT8)])
def test_bytes_are_moved_as_litert_moves_them(given: int, made: int) -> None:
    pytest.importorskip("ai_edge_litert", reason='LiteRT is not installed: pip install "ethoscade[verify]"')
    graph = read_tflite(moved(given, made).bytes())
    value = np.array([[0, 1, 128, 255]], np.uint8).view(graph.tensors[0].dtype.numpy)
    with litert.Session(graph.source, graph.name) as session:
        (expected,) = session.run([0], [0], [1], [{0: value}])
    found = reference.run(graph, {"x": value}).outputs["y"]
    assert found.dtype == expected[1].dtype == graph.tensors[1].dtype.numpy
    np.testing.assert_array_equal(found, expected[1])


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (conv_file().operator(0, options_name=None), "it has no Conv2DOptions; the file is incomplete"),
        (one("SOFTMAX", [(1, 4), (1, 4)], None, ("SoftmaxOptions", {"Beta": float("nan")})), "beta is nan"),
        (one("MEAN", [(1, 4), (1, 4)], T("a", (1,), FLOAT32, (), (), data=[1]), REDUCER), "axes 'a' is float32"),
        (rescaled("ADD", "AddOptions"), "kernels agree below 2^31"),
        (one("RELU6", [(1, 4), (1, 4)]).tensor(0, scales=(1e-12,)).tensor(1, scales=(1e-12,)), "the bound 6 in units"),
        (one("RELU", [(1, 4), (1, 4)]).tensor(1, scales=(0.0,)), "'t1' has scale 0.0"),
    ],
)
def test_what_only_its_kernel_cares_about_is_carried_as_well(file: File, why: str) -> None:
    """LiteRT is in doubt of these: it refuses some, and divides by the scale of others."""
    carried(file, why)


def test_other_operators_stay_on_the_npu() -> None:
    """One operator in doubt is no reason against its neighbours."""
    tensors = [T("x", (1, 4)), T("a", (1, 4)), T("z", (1, 4), scales=(1e30,)), T("b", (1, 4)), T("y", (1, 4))]
    operators = (
        Op("ADD", (0, 0), (1,), "AddOptions"),
        Op("MUL", (1, 2), (3,), "MulOptions"),
        Op("ADD", (3, 3), (4,), "AddOptions"),
    )
    compiled = ethoscade.compile(File(tensors, operators, (0, 2), (4,)).bytes())
    assert [(op.kind, op.where) for op in compiled.operators] == [("ADD", "npu"), ("MUL", "cpu"), ("ADD", "npu")]


@pytest.mark.parametrize("extra", [1, 64])
def test_constants_longer_than_their_shape(extra: int) -> None:
    """Runtimes read as much as the shape has: Vela pads constants to 16 bytes."""
    plain = conv_file()
    longer = plain.tensor(1, data=[*plain.tensors[1].data, *[7] * extra])
    values = [read_tflite(file.bytes()).tensors[1].data for file in (plain, longer)]
    np.testing.assert_array_equal(*values)
    takers = pytest.importorskip("takers", reason="children under limits need Linux")
    assert takers.litert(longer.bytes()) == takers.TAKES


NO_QUANTISATION = {"scales": (), "zero_points": ()}
UNREAD = {
    "nothing along an axis": T("u", (3, 131091, 0, 11), data=[1] * 8),
    "no place for it": T("u", (65536, 65536)),
    "forty dimensions": T("u", (1,) * 40),
    "text": T("u", (1, 4), TensorType.STRING, **NO_QUANTISATION),
    "complex numbers": T("u", (1, 4), TensorType.COMPLEX64, **NO_QUANTISATION),
    "a list": T("u", (1, 4), TensorType.VARIANT, **NO_QUANTISATION),
    "a handle": T("u", (1, 4), TensorType.RESOURCE, **NO_QUANTISATION),
    "halves of bytes": T("u", (1, 4), TensorType.INT4),
    "a scale that is no number": T("u", (1, 4), scales=(float("nan"),)),
}
"""Tensors that no runtime could compute with, and that LiteRT loads."""
UNLOADED = {
    "less than nothing along an axis": T("u", (1, -8)),
    "an unknown type": T("u", (1, 4), 99, **NO_QUANTISATION),
    "no such buffer": T("u", (1, 4), buffer=77),
    "a short constant": T("u", (1, 4), data=[1, 2]),
    "a constant variable": T("u", (1, 4), data=[1] * 4, variable=True),
    "another number of zero points": T("u", (1, 4), zero_points=(0, 0)),
    "another number of scales": T("u", (1, 4), scales=(1.0,) * 3, zero_points=(0,) * 3, axis=1),
}
"""Tensors over which LiteRT refuses a file, read or not, and other runtimes do not."""


def beside(tensor: T) -> File:
    """A convolution, and a tensor to which no operator, input or output refers."""
    file = conv_file()
    return replace(file, tensors=(*file.tensors, tensor))


@pytest.mark.parametrize("what", [*UNREAD, *UNLOADED])
def test_a_tensor_that_nobody_reads_is_no_reason_against_a_file(what: str, tmp_path: Path) -> None:
    file = beside({**UNREAD, **UNLOADED}[what])
    graph = read_tflite(file.bytes())
    assert [tensor.name for tensor in graph.tensors] == [tensor.name for tensor in file.tensors]
    compiled = ethoscade.compile(file.bytes())
    assert [op.where for op in compiled.operators] == ["npu"]
    inputs = random_inputs(graph, 0)
    expected = ethoscade.compile(conv_file().bytes()).simulate(inputs).outputs
    np.testing.assert_array_equal(compiled.simulate(inputs).outputs["output"], expected["output"])
    read_tflite(compiled.save(tmp_path / "made.tflite"))


def test_many_tensors_that_nothing_reads_are_no_reason_either() -> None:
    """The operators are gone through once, not for each of these tensors: a file may not be read over so often."""
    count = 800
    chain = [T(f"t{number}", (1, 4)) for number in range(count + 1)]
    unread = [T(f"u{number}", (1, 4), scales=(float("nan"),)) for number in range(count)]
    operators = [Op("RELU", (number,), (number + 1,)) for number in range(count)]
    graph = read_tflite(File((*chain, *unread), tuple(operators), (0,), (count,)).bytes())
    assert len(graph.operators) == count and len(graph.tensors) == 2 * count + 1


@pytest.mark.parametrize("what", [*UNREAD, *UNLOADED])
def test_a_tensor_that_is_read_is_one(what: str) -> None:
    """A custom operator reads it: its options are not checked, so that only the tensor is wrong."""
    file = File((T("x", (1, 4)), T("y", (1, 4)), {**UNREAD, **UNLOADED}[what]), (Op("f", (0, 2), (1,)),), (0,), (1,))
    with pytest.raises((ModelFormatError, UnsupportedOperatorError), match="'u'"):
        read_tflite(file.bytes())


@pytest.mark.parametrize("what", UNREAD)
def test_litert_loads_tensors_that_nobody_reads(what: str) -> None:
    takers = pytest.importorskip("takers", reason="children under limits need Linux")
    assert takers.litert(beside(UNREAD[what]).bytes()) == takers.TAKES


def short_depthwise(dense: bool) -> tuple[bytes, np.ndarray]:
    """int16 with a bias of int32: a DEPTHWISE_CONV_2D, or the CONV_2D that has its weights and zeros beside them."""
    rng = np.random.default_rng(5)
    kernel, bias = rng.integers(-127, 128, (3, 2, 4)), rng.integers(-(2**20), 2**20, 4)
    apart = kernel.transpose(2, 0, 1)[..., None] * np.eye(4, dtype=np.int64)[:, None, None, :]
    weights = apart if dense else kernel[None]
    tensors = (
        T("x", (1, 6, 5, 4), INT16, (2.0**-14,)),
        T("w", weights.shape, scales=(0.01, 0.02, 0.03, 0.04), zero_points=(0,) * 4, axis=0 if dense else 3,
          data=weights.ravel().tolist()),
        T("b", (4,), INT32, (), (), data=bias.tolist()),
        T("y", (1, 4, 4, 4), INT16, (2.0**-13,)),
    )  # fmt: skip
    name = "Conv2DOptions" if dense else "DepthwiseConv2DOptions"
    of_kind = {"QuantizedBiasType": INT32} if dense else {"DepthMultiplier": 1}
    options = {"Padding": 1, "StrideH": 1, "StrideW": 1, **of_kind}
    op = Op("CONV_2D" if dense else "DEPTHWISE_CONV_2D", (0, 1, 2), (3,), name, options)
    return File(tensors, (op,), (0,), (3,)).bytes(), rng.integers(-(2**15), 2**15, (1, 6, 5, 4)).astype(np.int16)


def test_a_depthwise_convolution_of_int16_with_a_bias_of_int32_is_that_of_a_convolution() -> None:
    """No runtime has the kernel; converters write it, and the sums are those of the CONV_2D, which LiteRT has."""
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    data, x = short_depthwise(dense=False)
    compiled = ethoscade.compile(data)
    assert [op.where for op in compiled.operators] == ["npu"]
    judge = interpreter.Interpreter(
        model_content=short_depthwise(dense=True)[0],
        experimental_op_resolver_type=interpreter.OpResolverType.BUILTIN_REF,
    )
    judge.allocate_tensors()
    judge.set_tensor(judge.get_input_details()[0]["index"], x)
    judge.invoke()
    expected = judge.get_tensor(judge.get_output_details()[0]["index"])
    np.testing.assert_array_equal(compiled.simulate({"x": x}).outputs["y"], expected)
    assert len(np.unique(expected)) > 20


def test_builders_make_them_too() -> None:
    """The generator draws biases of int32 for depthwise convolutions of int16."""
    b = ModelBuilder(dtype=DType.INT16, narrow_biases=True, seed=3)
    b.depthwise(b.input((1, 5, 5, 3)), 3)
    graph = read_tflite(b.build())
    assert graph.tensors[graph.operators[0].input(2)].dtype is DType.INT32
    assert [op.where for op in ethoscade.compile(b.build()).operators] == ["npu"]
