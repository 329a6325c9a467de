"""Each rule on the smallest network that it changes, and on the ones that it must leave alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from ethoscade import ir
from ethoscade.errors import ModelFormatError
from ethoscade.frontend import read_tflite
from ethoscade.judge import reference
from ethoscade.judge.verification import compare, random_inputs
from ethoscade.rewrites import drop_dead, fold_constants, fold_pad, fold_reshape, fuse_activation, requantise, simplify
from ethoscade.testing import ModelBuilder
from graphs import on_npu
from model_files import NO_MODELS, model_paths
from tflite_files import INT32, UINT8, File, Op, T, constant, conv_file

POOL = ("Pool2DOptions", {"Padding": 1, "StrideH": 1, "StrideW": 1, "FilterHeight": 1, "FilterWidth": 1})
CONV = ("Conv2DOptions", {"Padding": 1, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1})


def kinds(graph: ir.Graph) -> list[str]:
    return [op.kind for op in graph.operators]


def names(graph: ir.Graph, tensors) -> list[str]:
    return [graph.tensors[t].name for t in tensors]


def read(tensors, operators, inputs, outputs) -> ir.Graph:
    """Operators are (kind, inputs, output, options name, options); tensors are referred to by name."""
    index = {t.name: i for i, t in enumerate(tensors)}
    ops = [Op(k, [index[n] for n in ins], [index[out]], *options) for k, ins, out, *options in operators]
    return read_tflite(File(tensors, ops, [index[n] for n in inputs], [index[n] for n in outputs]).bytes())


def weights(name: str, shape) -> T:
    return T(name, shape, data=[1] * int(np.prod(shape)))


def test_nothing_to_do_returns_the_same_graph():
    graph = read_tflite(conv_file().bytes())
    assert simplify(graph, on_npu) is graph


def shape_chain(outputs=("y",)) -> ir.Graph:
    """RESHAPE to (SHAPE(x)[0], 8), as Keras writes it."""
    return read(
        [
            T("x", (2, 2, 4)), T("shape", (3,), INT32, (), ()), constant("b", [0]), constant("e", [1]),
            constant("s", [1]), T("batch", (), INT32, (), ()), constant("eight", [8], ()),
            T("target", (2,), INT32, (), ()), T("y", (2, 8)),
        ],
        [
            ("SHAPE", ["x"], "shape", "ShapeOptions", {}),
            ("STRIDED_SLICE", ["shape", "b", "e", "s"], "batch", "StridedSliceOptions", {"ShrinkAxisMask": 1}),
            ("PACK", ["batch", "eight"], "target", "PackOptions", {"ValuesCount": 2, "Axis": 0}),
            ("RESHAPE", ["x", "target"], "y"),
        ],
        ["x"],
        outputs,
    )  # fmt: skip


def test_fold_constants_computes_the_target_of_a_reshape():
    graph = fold_constants(shape_chain())
    assert kinds(graph) == ["RESHAPE"]
    target = graph.tensors[graph.operators[0].inputs[1]].data
    assert target is not None and target.tolist() == [2, 8] and not target.flags.writeable


def test_fold_constants_leaves_what_the_network_returns():
    graph = fold_constants(shape_chain(("y", "batch")))
    assert kinds(graph) == ["STRIDED_SLICE", "PACK", "RESHAPE"]
    assert fold_reshape(graph, on_npu) is graph, "its target is known only at run time"


def test_fold_constants_slices_backwards():
    graph = read(
        [T("x", (4, 3, 2)), T("shape", (3,), INT32, (), ()), constant("b", [9]), constant("e", [0]),
         constant("s", [-1]), T("back", (3,), INT32, (), ()), T("y", (2, 3, 4))],
        [("SHAPE", ["x"], "shape", "ShapeOptions", {}),
         ("STRIDED_SLICE", ["shape", "b", "e", "s"], "back", "StridedSliceOptions", {"EndMask": 1}),
         ("RESHAPE", ["x", "back"], "y")],
        ["x"], ["y"],
    )  # fmt: skip
    graph = fold_constants(graph)
    assert graph.tensors[graph.operators[0].inputs[1]].data.tolist() == [2, 3, 4]


def test_a_folded_target_must_agree():
    graph = shape_chain()
    tensors = list(graph.tensors)
    tensors[-1] = replace(tensors[-1], shape=(4, 4))
    with pytest.raises(ModelFormatError, match=r"says .2, 8.") as caught:
        simplify(replace(graph, tensors=tuple(tensors)), on_npu)
    assert (caught.value.operator, caught.value.value) == ("y", (4, 4))


def test_fold_reshape_lets_fully_connected_read_the_original():
    graph = read(
        [T("x", (1, 2, 4)), constant("s", [1, 8]), T("flat", (1, 8)), weights("w", (3, 8)), T("y", (1, 3))],
        [("RESHAPE", ["x", "s"], "flat"), ("FULLY_CONNECTED", ["flat", "w"], "y", "FullyConnectedOptions", {})],
        ["x"],
        ["y"],
    )
    graph = simplify(graph, on_npu)
    assert kinds(graph) == ["FULLY_CONNECTED"] and names(graph, graph.operators[0].inputs) == ["x", "w"]
    assert [t.name for t in graph.tensors] == ["x", "w", "y"]


def pooled(last, *, before: T | None = None, also=(), outputs=("y",)) -> ir.Graph:
    """AVERAGE_POOL_2D, RESHAPE, and `last`."""
    return read(
        [T("x", (1, 1, 1, 8)), before or T("p", (1, 1, 1, 8)), constant("s", [1, 8]), T("flat", (1, 8)), T("y", (1, 8)),
         T("z", (1, 1, 1, 8))],
        [("AVERAGE_POOL_2D", ["x"], "p", *POOL), ("RESHAPE", ["p", "s"], "flat"), last, *also],
        ["x"], outputs,
    )  # fmt: skip


SOFTMAX = ("SOFTMAX", ["flat"], "y", "SoftmaxOptions", {"Beta": 1.0})


def test_fold_reshape_lets_the_producer_write_the_result():
    graph = simplify(pooled(SOFTMAX), on_npu)
    assert kinds(graph) == ["AVERAGE_POOL_2D", "SOFTMAX"]
    assert names(graph, graph.operators[0].outputs) == ["flat"] and graph.tensors[1].shape == (1, 8)


def test_fold_reshape_before_a_network_output():
    graph = read(
        [T("x", (1, 1, 1, 8)), T("p", (1, 1, 1, 8)), T("y", (8,))],
        [("MAX_POOL_2D", ["x"], "p", *POOL), ("SQUEEZE", ["p"], "y", "SqueezeOptions", {})],
        ["x"],
        ["y"],
    )
    assert kinds(fold_reshape(graph, on_npu)) == ["MAX_POOL_2D"]


@pytest.mark.parametrize(
    "graph",
    [
        pooled(SOFTMAX, also=[("RELU", ["p"], "z")], outputs=("y", "z")),
        pooled(SOFTMAX, outputs=("y", "p")),
        pooled(SOFTMAX, before=T("p", (1, 1, 1, 8), scales=(0.25,))),
        pooled(("LOGISTIC", ["flat"], "y"), before=T("p", (1, 1, 1, 8), zero_points=(1,))),
    ],
    ids=["read by two", "returned", "scale changes", "zero point changes"],
)
def test_fold_reshape_leaves_shapes_that_somebody_needs(graph):
    assert fold_reshape(graph, on_npu) is graph


def test_fold_reshape_leaves_operators_of_the_cpu_alone():
    graph = pooled(SOFTMAX)
    assert fold_reshape(graph, lambda g, op: False) is graph
    graph = read([T("x", (1, 8)), T("y", (8,))], [("SQUEEZE", ["x"], "y")], ["x"], ["y"])
    assert fold_reshape(graph, on_npu) is graph


def test_a_row_of_reshapes_folds_to_its_last():
    graph = read(
        [T("x", (2, 8)), constant("a", [4, 4]), T("t", (4, 4)), constant("b", [16, -1]), T("y", (16, 1))],
        [("RESHAPE", ["x", "a"], "t"), ("RESHAPE", ["t", "b"], "y")],
        ["x"],
        ["y"],
    )
    graph = simplify(graph, on_npu)
    assert kinds(graph) == ["RESHAPE"] and names(graph, graph.operators[0].inputs) == ["x", "b"]


@pytest.mark.parametrize("kind", ["ADD", "MAXIMUM", "MUL", "PRELU", "SQUARED_DIFFERENCE", "SUB"])
@pytest.mark.parametrize("shape", [(720,), (12, 10, 6), (4, 3, 2, 5, 6)])
def test_constants_are_repeated_to_operands_whatever_shape_is_written(kind, shape):
    b = ModelBuilder()
    constant = b.constant(np.random.default_rng(0).standard_normal((2, 1, 4, 1, 6)))
    x = b.binary(kind, b.input((2, 3, 4, 5, 6)), constant)
    b.conv2d(b.reshape(b.reshape(x, shape), (1, 30, 4, 6)), 4, 1)
    compiled = ethoscade.compile(b.build())
    assert [op.kind for op in compiled.operators] == [kind, "CONV_2D"] and compiled.cpu_operators == ()
    inputs = random_inputs(compiled.source, 0)
    expected = reference.run(compiled.source, inputs).outputs
    assert compare(compiled.simulate(inputs).outputs, expected)[1] == 0


def padded_conv(amounts=(0, 0, 1, 1, 1, 1, 0, 0), kernel=3, **tensor) -> ir.Graph:
    before_h, after_h, before_w, after_w = amounts[2:6]
    extent = (6 + before_h + after_h - kernel + 1, 6 + before_w + after_w - kernel + 1)
    return read(
        [T("x", (1, 6, 6, 2)), constant("amounts", amounts, (4, 2)),
         T("p", (1 + amounts[0], 6 + before_h + after_h, 6 + before_w + after_w, 2 + amounts[7]), **tensor),
         weights("w", (3, kernel, kernel, 2 + amounts[7])), T("y", (1 + amounts[0], *extent, 3))],
        [("PAD", ["x", "amounts"], "p"), ("CONV_2D", ["p", "w"], "y", *CONV)],
        ["x"], ["y"],
    )  # fmt: skip


def test_fold_pad_widens_the_window():
    graph = simplify(padded_conv((0, 0, 0, 2, 1, 2, 0, 0)), on_npu)
    assert kinds(graph) == ["CONV_2D"]
    w = graph.operators[0].attrs.window
    assert (w.pad_top, w.pad_bottom, w.pad_left, w.pad_right) == (0, 2, 1, 2)
    assert names(graph, graph.operators[0].inputs) == ["x", "w"]


@pytest.mark.parametrize(
    "graph",
    [
        padded_conv((0, 0, 3, 0, 0, 0, 0, 0)),
        padded_conv((0, 0, 0, 0, 0, 1, 0, 0), kernel=1),
        padded_conv((1, 0, 1, 1, 1, 1, 0, 0)),
        padded_conv((0, 0, 1, 1, 1, 1, 0, 2)),
        padded_conv(zero_points=(3,)),
    ],
    ids=["as large as the kernel", "kernel of one", "batch", "channels", "other quantisation"],
)
def test_fold_pad_leaves_what_a_window_cannot_say(graph):
    assert fold_pad(graph, on_npu) is graph


def test_fold_pad_leaves_pools_and_operators_of_the_cpu():
    graph = padded_conv()
    assert fold_pad(graph, lambda g, op: False) is graph
    for kind in ("MAX_POOL_2D", "AVERAGE_POOL_2D"):
        pool = replace(graph.operators[1], kind=kind, attrs=ir.PoolAttrs(ir.Window(3, 3)), inputs=(2,))
        changed = replace(graph, operators=(graph.operators[0], pool))
        assert fold_pad(changed, on_npu) is changed


def test_fold_pad_leaves_rows_that_its_readers_see_otherwise():
    """A PAD may write what a RESHAPE behind it made of its rows."""
    graph = read(
        [T("x", (1, 4, 4, 8)), constant("a", [0, 0, 1, 1, 0, 0, 0, 0], (4, 2)), T("p", (1, 6, 4, 8)),
         constant("s", [1, 12, 2, 8]), T("q", (1, 12, 2, 8)), weights("w", (3, 3, 1, 8)), T("y", (1, 10, 2, 3))],
        [("PAD", ["x", "a"], "p"), ("RESHAPE", ["p", "s"], "q"), ("CONV_2D", ["q", "w"], "y", *CONV)],
        ["x"], ["y"],
    )  # fmt: skip
    graph = simplify(graph, on_npu)
    assert kinds(graph) == ["PAD", "CONV_2D"] and graph.operators[1].attrs.window.pad_top == 0


def causal(seen=(1, 1, 12, 4), steps=3, kernel=(1, 3), reader="EXPAND_DIMS") -> ir.Graph:
    """PAD of the pixels of three dimensions, another shape, and a convolution."""
    pixels = seen[1] * seen[2]
    shape = constant("s", [1 if seen[1] == 1 else 2], ()) if reader == "EXPAND_DIMS" else constant("s", seen)
    made = (1, seen[1] - kernel[0] + 1, seen[2] - kernel[1] + 1, 3)
    return read(
        [T("x", (1, pixels - steps, 4)), constant("a", [0, 0, steps, 0, 0, 0], (3, 2)), T("p", (1, pixels, 4)), shape,
         T("q", seen), weights("w", (3, *kernel, 4)), T("y", made)],
        [("PAD", ["x", "a"], "p"), (reader, ["p", "s"], "q"), ("CONV_2D", ["q", "w"], "y", *CONV)],
        ["x"], ["y"],
    )  # fmt: skip


@pytest.mark.parametrize("reader", ["EXPAND_DIMS", "RESHAPE"])
@pytest.mark.parametrize("wide", [True, False])
def test_fold_pad_of_three_dimensions_leaves_a_reshape(wide, reader):
    graph = causal((1, 1, 12, 4), 2, (1, 3), reader) if wide else causal((1, 12, 1, 4), 2, (3, 1), reader)
    graph = simplify(graph, on_npu)
    assert kinds(graph) == ["RESHAPE", "CONV_2D"]
    w = graph.operators[1].attrs.window
    assert (w.pad_top, w.pad_bottom, w.pad_left, w.pad_right) == ((0, 0, 2, 0) if wide else (2, 0, 0, 0))
    assert graph.read(graph.operators[1]).shape == ((1, 1, 10, 4) if wide else (1, 10, 1, 4))


def test_fold_pad_leaves_pixels_that_become_rows():
    """Two of twelve pixels are no column of three rows."""
    graph = simplify(causal((1, 3, 4, 4), 2, (1, 3), "RESHAPE"), on_npu)
    assert kinds(graph) == ["PAD", "CONV_2D"] and graph.operators[1].attrs.window.pad_left == 0


def test_fold_pad_leaves_variables_and_constants():
    """What an ASSIGN_VARIABLE stores before the convolution runs is not what the PAD read."""
    graph = padded_conv()
    x = graph.inputs[0]
    held = tuple(replace(t, is_variable=True) if i == x else t for i, t in enumerate(graph.tensors))
    given = tuple(replace(t, data=np.zeros(t.shape, np.int8)) if i == x else t for i, t in enumerate(graph.tensors))
    for tensors in (held, given):
        changed = replace(graph, tensors=tensors, inputs=())
        assert fold_pad(changed, lambda g, op: True) is changed


def test_a_causal_convolution_takes_no_more_than_vela_s():
    """352 bytes with Vela 5.2.0 `--optimise Size`: input and output of 150 and 180, each from a multiple of 16 on."""
    b = ModelBuilder("causal", seed=5)
    x = b.expand_dims(b.pad(b.input((1, 30, 5)), [(0, 0), (8, 0), (0, 0)]), 1)
    y = b.reshape(b.conv2d(x, 6, (1, 3), dilation=(1, 4), padding="VALID"), (1, 30, 6))
    b.output(y)
    compiled = ethoscade.compile(b.build(), optimise="size")
    assert compiled.sram_bytes <= 352
    assert compiled.verify(1).ok


@pytest.mark.parametrize(("pad", "left"), [(127, ["CONV_2D"]), (128, ["PAD", "CONV_2D"])])
def test_fold_pad_leaves_windows_that_the_npu_does_not_take(pad, left):
    graph = read(
        [T("x", (1, 2, 9, 2)), constant("a", [0, 0, 0, 0, pad, 0, 0, 0], (4, 2)), T("p", (1, 2, 9 + pad, 2)),
         weights("w", (3, 1, 130, 2)), T("y", (1, 2, pad - 120, 3))],
        [("PAD", ["x", "a"], "p"), ("CONV_2D", ["p", "w"], "y", *CONV)],
        ["x"], ["y"],
    )  # fmt: skip
    graph = simplify(graph, on_npu)
    assert kinds(graph) == left and all(on_npu(graph, op) for op in graph.operators)


def test_two_pads_in_a_row():
    graph = read(
        [T("x", (1, 6, 6, 2)), constant("a", [0, 0, 1, 0, 0, 0, 0, 0], (4, 2)), T("p", (1, 7, 6, 2)),
         T("q", (1, 8, 6, 2)), weights("w", (3, 3, 3, 2)), T("y", (1, 6, 4, 3))],
        [("PAD", ["x", "a"], "p"), ("PAD", ["p", "a"], "q"), ("CONV_2D", ["q", "w"], "y", *CONV)],
        ["x"], ["y"],
    )  # fmt: skip
    graph = simplify(graph, on_npu)
    assert kinds(graph) == ["CONV_2D"] and graph.operators[0].attrs.window.pad_top == 2


def activated(kind="RELU6", activation=0, outputs=("y",), **tensor) -> ir.Graph:
    options = ("Pool2DOptions", {**POOL[1], "FusedActivationFunction": activation})
    return read(
        [T("x", (1, 1, 1, 8)), T("p", (1, 1, 1, 8)), T("y", (1, 1, 1, 8), **tensor)],
        [("MAX_POOL_2D", ["x"], "p", *options), (kind, ["p"], "y")],
        ["x"],
        outputs,
    )


@pytest.mark.parametrize("kind", ["RELU", "RELU6", "RELU_N1_TO_1"])
def test_fuse_activation(kind):
    graph = simplify(activated(kind), on_npu)
    assert kinds(graph) == ["MAX_POOL_2D"] and names(graph, graph.operators[0].outputs) == ["y"]
    assert graph.operators[0].attrs.activation is ir.Activation[kind]


@pytest.mark.parametrize(
    "graph",
    [activated(activation=1), activated(outputs=("y", "p")), activated(scales=(0.25,)), activated(kind="TANH")],
    ids=["has one", "read before", "other scale", "another function"],
)
def test_fuse_activation_leaves_the_rest(graph):
    assert fuse_activation(graph, on_npu) is graph


def quantised(outputs=("z",), last="LOGISTIC", **tensor) -> ir.Graph:
    return read(
        [T("x", (1, 8)), T("y", (1, 8), **tensor), T("z", (1, 8))],
        [("QUANTIZE", ["x"], "y"), (last, ["y"], "z")],
        ["x"],
        outputs,
    )


def test_requantise_removes_identities():
    graph = simplify(quantised(), on_npu)
    assert kinds(graph) == ["LOGISTIC"] and names(graph, graph.operators[0].inputs) == ["x"]
    graph = simplify(read([T("x", (1, 8)), T("y", (1, 8)), T("z", (1, 8))],
                          [("LOGISTIC", ["x"], "y"), ("QUANTIZE", ["y"], "z")], ["x"], ["z"]), on_npu)  # fmt: skip
    assert kinds(graph) == ["LOGISTIC"] and names(graph, graph.operators[0].outputs) == ["z"]


@pytest.mark.parametrize(
    "graph",
    [quantised(scales=(0.25,)), quantised(type=UINT8), quantised(zero_points=(1,)), quantised(("y", "z"))],
    ids=["scale", "type", "zero point", "input to output"],
)
def test_requantise_leaves_the_rest(graph):
    assert requantise(graph) is graph


def test_drop_dead_keeps_inputs_and_effects():
    graph = read(
        [T("x", (1, 8)), T("unused", (1, 8)), T("y", (1, 8)), T("dead", (1, 8)), T("state", (1, 8), variable=True),
         T("kept", (1, 8)), weights("w", (8, 8))],
        [("RELU", ["x"], "y"), ("RELU", ["x"], "dead"), ("RNN", ["x", "state"], "kept")],
        ["unused", "x"], ["y"],
    )  # fmt: skip
    graph = drop_dead(graph)
    assert kinds(graph) == ["RELU", "RNN"]
    assert [t.name for t in graph.tensors] == ["x", "unused", "y", "state", "kept"]
    assert names(graph, graph.inputs) == ["unused", "x"] and names(graph, graph.outputs) == ["y"]


def test_thousands_of_operators_take_no_time():
    count = 5000
    tensors = [T(f"t{i}", (1, 8)) for i in range(count + 1)]
    file = File(tensors, [Op("QUANTIZE", (i,), (i + 1,)) for i in range(count)], (0,), (count,))
    assert kinds(simplify(read_tflite(file.bytes()), on_npu)) == ["QUANTIZE"]


# A reshape of a network input, between operators that stay on the CPU, or of a tensor with other readers; a pad of
# channels, or before an operator that is no convolution of the NPU.
KEPT = {
    "micro_speech": {"RESHAPE"},
    **{key: {"PAD"} for key in ("blazeface_front_128", "face_landmarks_192", "hps_89ops")},
    **{key: {"PAD"} for key in ("image_recognition", "simple_transpose_conv")},
    "denoise_16x8": {"PACK"},
}


@pytest.mark.skipif(not model_paths(), reason=NO_MODELS)
@pytest.mark.parametrize("path", model_paths(), ids=lambda p: p.stem)
def test_real_models_keep_their_ends_and_lose_what_moves_nothing(path: Path):
    if path.stem == "alexa_resource":
        pytest.skip("it is refused: its state lives in resource variables")
    before = read_tflite(path)
    after = simplify(before, on_npu)
    assert simplify(after, on_npu) is after
    for ends in ("inputs", "outputs"):
        old = [before.tensors[t] for t in getattr(before, ends)]
        new = [after.tensors[t] for t in getattr(after, ends)]
        assert [(t.name, t.shape, t.dtype) for t in old] == [(t.name, t.shape, t.dtype) for t in new]
    left = {"RESHAPE", "SQUEEZE", "PAD", "SHAPE", "PACK"} & set(kinds(after))
    assert left == KEPT.get(path.stem, set())
