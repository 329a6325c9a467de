"""What the reader makes of right files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from calls import count_calls
from ethoscade import ir
from ethoscade.errors import ConfigError, ModelFormatError, UnsupportedOperatorError
from ethoscade.frontend import read_tflite
from ethoscade.judge import reference
from ethoscade.lowering import support
from ethoscade.targets.target import ACCELERATORS
from ethoscade.testing import ModelBuilder
from model_files import NO_MODELS, model_paths
from tflite_files import FLOAT32, INT8, INT16, INT32, UINT8, File, Op, T, constant, conv_file


def one_op(kind, inputs, output, options_name=None, options=None, extra=()):
    """A file of one operator; `extra` tensors are constants after the inputs."""
    tensors = (*inputs, *extra, output)
    return File(
        tensors,
        (Op(kind, range(len(tensors) - 1), (len(tensors) - 1,), options_name, options or {}),),
        range(len(inputs)),
        (len(tensors) - 1,),
    )


def read_op(file: File) -> ir.Operator:
    graph = read_tflite(file.bytes())
    assert len(graph.operators) == 1
    return graph.operators[0]


def test_a_convolution_is_read_whole():
    data = conv_file(stride=2).bytes()
    graph = read_tflite(data, "net")
    op = graph.operators[0]
    assert (graph.name, graph.source, graph.inputs, graph.outputs) == ("net", data, (0,), (3,))
    assert (op.kind, op.name, op.inputs, op.outputs, op.source_index, op.opaque) == (
        "CONV_2D", "output", (0, 1, 2), (3,), 0, None,
    )  # fmt: skip
    assert op.attrs == ir.ConvAttrs(ir.Window(3, 3, 2, 2, 1, 1, 0, 0, 1, 1))
    weights = graph.tensors[1]
    assert weights.quantisation == ir.Quantisation((0.25,) * 6, (0,) * 6, 0)
    assert weights.data is not None and weights.data.dtype == np.int8
    assert graph.tensors[0].quantisation == ir.Quantisation((0.5,), (3,))


def test_constants_are_read_only_views_of_the_file():
    data = conv_file().bytes()
    weights = read_tflite(data).tensors[1].data
    assert weights is not None and not weights.flags.writeable
    assert np.shares_memory(weights, np.frombuffer(data, np.uint8))


@pytest.mark.parametrize(
    ("extent", "kernel", "stride", "dilation", "pads"),
    [
        (8, 3, 1, 1, (1, 1)),
        (8, 3, 2, 1, (0, 1)),
        (7, 3, 2, 1, (1, 1)),
        (8, 2, 1, 1, (0, 1)),
        (8, 3, 1, 2, (2, 2)),
        (8, 1, 2, 1, (0, 0)),
        (4, 5, 3, 1, (2, 2)),
    ],
)
def test_same_becomes_explicit_padding(extent, kernel, stride, dilation, pads):
    file = conv_file((1, extent, extent, 2), kernel=(kernel, kernel), stride=stride)
    op = read_op(file.operator(0, options={"DilationHFactor": dilation, "DilationWFactor": dilation}))
    w = op.attrs.window
    assert ((w.pad_top, w.pad_bottom), (w.pad_left, w.pad_right)) == (pads, pads)


def test_valid_has_no_padding():
    file = conv_file().operator(0, options={"Padding": 1}).tensor(3, shape=(1, 6, 6, 6))
    assert read_op(file).attrs.window == ir.Window(3, 3)


@pytest.mark.parametrize("multiplier", [0, 2])
def test_depthwise_multiplier_from_shapes(multiplier):
    file = one_op(
        "DEPTHWISE_CONV_2D",
        (T("x", (1, 5, 5, 3)),),
        T("y", (1, 3, 3, 6)),
        "DepthwiseConv2DOptions",
        {"Padding": 1, "StrideH": 1, "StrideW": 1, "DepthMultiplier": multiplier, "FusedActivationFunction": 3},
        (T("w", (1, 3, 3, 6), scales=(0.1,) * 6, zero_points=(0,) * 6, axis=3, data=[1] * 54),),
    )
    attrs = read_op(file).attrs
    assert attrs == ir.ConvAttrs(ir.Window(3, 3), ir.Activation.RELU6, 2)


def test_a_stray_axis_of_a_per_tensor_scale_is_ignored():
    graph = read_tflite(conv_file().tensor(0, axis=7).bytes())
    assert graph.tensors[0].quantisation == ir.Quantisation((0.5,), (3,))


def test_a_stray_axis_of_a_bias_means_its_only_one():
    graph = read_tflite(conv_file().tensor(2, axis=3).bytes())
    assert graph.tensors[2].quantisation.axis == 0


@pytest.mark.parametrize("kind", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_pools(kind):
    options = {"Padding": 1, "StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 3}
    file = one_op(kind, (T("x", (1, 4, 5, 3), UINT8),), T("y", (1, 2, 2, 3), UINT8), "Pool2DOptions", options)
    assert read_op(file).attrs == ir.PoolAttrs(ir.Window(2, 3, 2, 2))


@pytest.mark.parametrize("fields", [{}, {"AlignCorners": True}, {"HalfPixelCenters": True}])
def test_resize_nearest_neighbor(fields):
    size = T("size", (2,), INT32, (), (), data=[5, 6])
    file = one_op(
        "RESIZE_NEAREST_NEIGHBOR",
        (T("x", (1, 4, 3, 2)),),
        T("y", (1, 5, 6, 2)),
        "ResizeNearestNeighborOptions",
        fields,
        (size,),
    )
    assert read_op(file).attrs == ir.ResizeNearestAttrs((5, 6), "AlignCorners" in fields, "HalfPixelCenters" in fields)


@pytest.mark.parametrize(("keep", "shape"), [(False, (6, 5)), (True, (2, 3, 5))])
def test_fully_connected(keep, shape):
    weights = T("w", (5, 4), data=[1] * 20)
    file = one_op(
        "FULLY_CONNECTED",
        (T("x", (2, 3, 4)),),
        T("y", shape),
        "FullyConnectedOptions",
        {"KeepNumDims": keep},
        (weights,),
    )
    assert read_op(file).attrs == ir.FullyConnectedAttrs(keep_num_dims=keep)
    absent = read_op(file.operator(0, inputs=(0, 1, -1)))
    assert absent.inputs == (0, 1, None) and absent.opaque is None


def test_add_repeats_the_smaller():
    file = one_op("ADD", (T("a", (1, 4, 4, 8)), T("b", (8,))), T("y", (1, 4, 4, 8)), "AddOptions", {})
    assert read_op(file).attrs == ir.AddAttrs()


def test_mean_axes_are_positive_and_ascending():
    file = one_op(
        "MEAN",
        (T("x", (1, 4, 4, 8)),),
        T("y", (1, 8)),
        "ReducerOptions",
        {"KeepDims": False},
        (constant("a", [-2, 1]),),
    )
    assert read_op(file).attrs == ir.ReductionAttrs((1, 2), False)


def test_pad_and_softmax():
    amounts = constant("p", [0, 0, 1, 2, 0, 1, 0, 0], (4, 2))
    file = one_op("PAD", (T("x", (1, 4, 4, 8)),), T("y", (1, 7, 5, 8)), extra=(amounts,))
    assert read_op(file).attrs == ir.PadAttrs(((0, 0), (1, 2), (0, 1), (0, 0)))
    file = one_op("SOFTMAX", (T("x", (1, 9)),), T("y", (1, 9)), "SoftmaxOptions", {"Beta": 0.5})
    assert read_op(file).attrs == ir.SoftmaxAttrs(0.5)


def test_split_sizes_are_resolved():
    x, pieces = T("x", (1, 4, 4, 9)), (T("y", (1, 4, 4, 2)), T("z", (1, 4, 4, 7)))
    sizes, axis = constant("sizes", [2, -1]), constant("axis", [-1], ())
    op = Op("SPLIT_V", (0, 3, 4), (1, 2), "SplitVOptions", {"NumSplits": 2})
    assert read_op(File((x, *pieces, sizes, axis), (op,), (0,), (1, 2))).attrs == ir.SplitAttrs(3, (2, 7), 0)
    op = Op("SPLIT", (3, 0), (1, 2), "SplitOptions", {"NumSplits": 2})
    halves = (T("y", (1, 2, 4, 9)), T("z", (1, 2, 4, 9)))
    found = read_op(File((x, *halves, constant("axis", [1], ())), (op,), (0,), (1, 2)))
    assert found.attrs == ir.SplitAttrs(1, (2, 2), 1)
    other = (T("y", (1, 2, 4, 9)), T("z", (1, 2, 4, 9), scales=(0.25,)))
    assert read_op(File((x, *other, constant("axis", [1], ())), (op,), (0,), (1, 2))).attrs == found.attrs


def test_concatenation():
    inputs = (T("x", (1, 4, 4, 2)), T("y", (1, 4, 4, 7)))
    options = {"Axis": -1, "FusedActivationFunction": 0}
    file = one_op("CONCATENATION", inputs, T("z", (1, 4, 4, 9)), "ConcatenationOptions", options)
    assert read_op(file).attrs == ir.ConcatenationAttrs(3)
    assert "fused activation" in (read_op(file.operator(0, options={"FusedActivationFunction": 1})).opaque or "")
    for changed in (file.tensor(1, scales=(0.25,)), file.tensor(1, type=UINT8)):
        assert read_op(changed).attrs == ir.ConcatenationAttrs(3)


def test_strided_slice_masks_are_resolved():
    extra = (constant("b", [5, -3]), constant("e", [0, 9]), constant("s", [-2, 1]))
    options = {"BeginMask": 1, "EndMask": 1, "ShrinkAxisMask": 2}
    file = one_op("STRIDED_SLICE", (T("x", (6, 4, 2)),), T("y", (3, 2)), "StridedSliceOptions", options, extra)
    assert read_op(file).attrs == ir.StridedSliceAttrs(((5, -1, -2), (1, 2, 1), (0, 2, 1)))


@pytest.mark.parametrize(
    ("begin", "options", "made", "ranges"),
    [
        ([0, 1], {"EllipsisMask": 1}, (6, 4, 1), ((0, 6, 1), (0, 4, 1), (1, 2, 1))),
        ([1, 0], {"EllipsisMask": 2}, (1, 4, 2), ((1, 2, 1), (0, 4, 1), (0, 2, 1))),
        ([1, 0, 1], {"EllipsisMask": 2, "ShrinkAxisMask": 4}, (1, 4), ((1, 2, 1), (0, 4, 1), (1, 2, 1))),
        ([0, 1], {"NewAxisMask": 1}, (1, 1, 4, 2), ((1, 2, 1), (0, 4, 1), (0, 2, 1))),
        ([1, 0, 1], {"NewAxisMask": 2, "ShrinkAxisMask": 1}, (1, 1, 2), ((1, 2, 1), (1, 2, 1), (0, 2, 1))),
        ([0, 1, 0], {"EllipsisMask": 1, "NewAxisMask": 4}, (6, 4, 1, 1), ((0, 6, 1), (0, 4, 1), (1, 2, 1))),
        ([1, 0], {"EllipsisMask": 2, "NewAxisMask": 2}, (1, 4, 2), ((1, 2, 1), (0, 4, 1), (0, 2, 1))),
    ],
)
def test_axes_that_no_begin_is_for(begin, options, made, ranges):
    """An ellipsis stands for the axes that are left, wherever it is; a new axis takes none."""
    ends, steps = constant("e", [n + 1 for n in begin]), constant("s", [1] * len(begin))
    extra = (constant("b", begin), ends, steps)
    file = one_op("STRIDED_SLICE", (T("x", (6, 4, 2)),), T("y", made), "StridedSliceOptions", options, extra)
    assert read_op(file).attrs == ir.StridedSliceAttrs(ranges)


def fused(code: int, kind: int) -> File:
    """An addition with an activation."""
    options = {"FusedActivationFunction": code, "PotScaleInt16": False}
    return one_op("ADD", (T("a", (1, 4), kind), T("b", (1, 4), kind)), T("c", (1, 4), kind), "AddOptions", options)


@pytest.mark.parametrize("kind", [INT8, UINT8, INT16])
@pytest.mark.parametrize("code", [4, 5])
def test_activations_without_bounds_have_no_effect_on_quantised_numbers(code, kind):
    assert read_op(fused(code, kind)).attrs == ir.AddAttrs(ir.Activation.NONE)


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (fused(4, INT32), "TANH"),
        (conv_file().operator(0, kind="SIN", options_name=None), "SIN"),
        (conv_file().operator(0, kind="my_op", options_name=None), "my_op"),
    ],
)
def test_what_is_not_understood_is_kept_with_a_reason(file, reason):
    op = read_op(file)
    assert op.opaque is not None and reason in op.opaque
    assert op.attrs is None and op.source_index == 0


def mixed_split() -> File:
    """A SPLIT of which one piece has another scale."""
    op = Op("SPLIT", (3, 0), (1, 2), "SplitOptions", {"NumSplits": 2})
    pieces = (T("y", (1, 2, 4, 9)), T("z", (1, 2, 4, 9), scales=(0.25,)))
    return File((T("x", (1, 2, 4, 18)), *(replace(t, shape=(1, 2, 4, 9)) for t in pieces), constant("axis", [3], ())),
                (op,), (0,), (1, 2))  # fmt: skip


def mixed_concatenation() -> File:
    """A CONCATENATION of inputs of two scales."""
    inputs = (T("x", (1, 4, 4, 2)), T("y", (1, 4, 4, 7), scales=(0.25,)))
    options = {"Axis": -1, "FusedActivationFunction": 0}
    return one_op("CONCATENATION", inputs, T("z", (1, 4, 4, 9)), "ConcatenationOptions", options)


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (replace(conv_file().tensor(1, data=None), inputs=(0, 1)), "'weights' are not constant"),
        (conv_file().tensor(3, type=UINT8, zero_points=(5,)), "'input' int8, 'weights' int8, 'output' uint8"),
        (conv_file().tensor(0, scales=(), zero_points=()), "'input' has no quantisation"),
        (conv_file().tensor(0, type=INT16, zero_points=(0,)).tensor(3, type=INT16), "int16 with zero point -5; only 0"),
        (mixed_concatenation(), "'x' has scale 0.5 and zero point 0, 'y' 0.25 and 0"),
        (mixed_concatenation().tensor(1, type=UINT8, scales=(0.5,)), "'x' int8, 'y' uint8, 'z' int8"),
    ],
)
def test_what_the_npu_does_not_take_is_read_all_the_same(file, reason):
    """The reader knows what it says; the family says why not."""
    graph = read_tflite(file.bytes())
    (op,) = graph.operators
    assert op.opaque is None and op.attrs is not None
    assert reason in (support(graph, op, ACCELERATORS["ethos-u55-256"]) or "")
    assert not reference.is_known(graph, op) or op.kind == "CONV_2D"


def test_pieces_of_another_scale_are_stored_values_as_they_are():
    graph = read_tflite(mixed_split().bytes())
    (op,) = graph.operators
    assert op.opaque is None and support(graph, op, ACCELERATORS["ethos-u55-256"]) is None
    value = np.arange(144, dtype=np.int8).reshape(1, 2, 4, 18)
    pieces = reference.run(graph, {"x": value}).outputs
    assert np.array_equal(np.concatenate([pieces["y"], pieces["z"]], axis=3), value)


def test_pad_by_an_amount_known_only_at_run_time_is_opaque():
    file = one_op("PAD", (T("x", (1, 4)), T("p", (2, 2), INT32, (), ())), T("y", (1, 6)))
    assert "not constant" in (read_op(file).opaque or "")
    file = one_op("PAD", (T("x", (1, 4)),), T("y", (1, 6)), extra=(constant("p", [0, 0, 1, 1], (2, 2)),))
    assert "missing" in (read_op(file.operator(0, inputs=(0, -1))).opaque or "")


def test_a_compiled_file_is_read():
    plain = {"scales": (), "zero_points": ()}
    file = File(
        (
            T("stream", (8,), UINT8, **plain, data=b"COP1abcd"),
            T("read_only", (0,), UINT8, **plain),
            T("scratch", (64,), UINT8, **plain),
            T("x", (1, 4)),
            T("y", (1, 4)),
        ),
        (Op("ethos-u", (0, 1, 2, 2, 3), (4,)),),
        (3,),
        (4,),
        {"OfflineMemoryAllocation": b"\x01\x00"},
    )
    graph = read_tflite(file.bytes())
    assert graph.operators[0].kind == "ethos-u" and "already compiled" in (graph.operators[0].opaque or "")
    assert dict(graph.metadata) == {"OfflineMemoryAllocation": b"\x01\x00"}
    assert graph.tensors[0].is_constant and graph.tensors[2].is_variable and not graph.tensors[3].is_variable


def test_a_variable_may_be_read_from_the_start():
    file = File((T("x", (1, 4)), T("s", (1, 9), variable=True), T("y", (1, 4))), (Op("RNN", (0, 1), (2,)),), (0,), (2,))
    assert read_tflite(file.bytes()).tensors[1].is_variable


def test_names_are_unique():
    graph = read_tflite(conv_file().tensor(1, name="input").tensor(2, name="").bytes())
    assert [t.name for t in graph.tensors] == ["input", "input#1", "tensor_2", "output"]


def test_the_first_of_several_subgraphs_is_read():
    assert len(read_tflite(replace(conv_file(), subgraphs=3).bytes()).operators) == 1


def test_a_float_model_is_refused_with_advice():
    file = conv_file()
    for i in range(4):
        file = file.tensor(i, type=FLOAT32, scales=(), zero_points=())
    with pytest.raises(UnsupportedOperatorError, match=r"not quantised.*full-integer") as caught:
        read_tflite(file.bytes())
    assert caught.value.operator == "output"


def test_float_ends_around_a_quantised_network_are_kept_for_the_cpu():
    file = conv_file()
    floats = T("real", (1, 8, 8, 4), FLOAT32, (), ())
    file = File((*file.tensors, floats), (Op("QUANTIZE", (4,), (0,)), *file.operators), (4,), (3,))
    graph = read_tflite(file.bytes())
    reasons = [support(graph, op, ACCELERATORS["ethos-u55-256"]) for op in graph.operators]
    assert reasons == ["input 'real' is float32; int8, uint8 and int16 are possible", None]


def test_sources(tmp_path: Path):
    path = tmp_path / "net.tflite"
    path.write_bytes(conv_file().bytes())
    assert read_tflite(path).name == read_tflite(str(path)).name == "net"
    assert read_tflite(path, "other").name == "other"
    assert read_tflite(bytearray(path.read_bytes())).name == "model"


@pytest.mark.parametrize("what", ["missing", "directory", "device", "null byte", "unreadable"])
def test_sources_that_cannot_be_read_are_named(tmp_path: Path, what: str):
    path = str(tmp_path / "net.tflite")
    if what == "directory":
        path = str(tmp_path)
    elif what == "device":
        path = os.devnull
    elif what == "null byte":
        path = "net\0.tflite"
    elif what == "unreadable":
        Path(path).touch(mode=0)
        if os.access(path, os.R_OK):
            pytest.skip("this user may read everything")
    with pytest.raises(ModelFormatError, match="cannot read"):
        read_tflite(path)


def test_a_source_that_is_no_model():
    with pytest.raises(ConfigError, match="int"):
        read_tflite(42)  # type: ignore[arg-type]


UNDERSTOOD: dict[str, set[str]] = {
    **{key: set() for key in ("vww_96_int8", "resnet8_int8", "kws_ref_int8", "ad01_int8", "person_detect")},
    **{key: set() for key in ("micro_speech", "hello_world_int8", "har", "mobilenet_v1_1.0_224_int8_rand")},
    **{key: set() for key in ("mobilenet_v1_0.25_128_uint8", "mobilenet_v2_1.0_224_ptq")},
    "mobilenet_v1_1.0_224_embed_uint8": set(),
    "hps_89ops": set(),
    "keyword_scrambled_8bit": {"QUANTIZE", "SOFTMAX"},
    "alexa_resource": set(),
}
"""Kinds of operators that are kept unread, for networks of which more is known than that they can be read."""


@pytest.mark.skipif(not model_paths(), reason=NO_MODELS)
@pytest.mark.parametrize("path", model_paths(), ids=lambda p: p.stem)
def test_real_models_are_understood(path: Path):
    graph = read_tflite(path).verify()
    left = {op.kind for op in graph.operators if op.opaque}
    if path.stem in UNDERSTOOD:
        assert left <= UNDERSTOOD[path.stem]


def test_reading_takes_no_longer_with_more_weights():
    """A megabyte of weights is never walked in Python: what is done depends on operators and tensors alone."""

    def model(channels: int) -> bytes:
        builder = ModelBuilder(per_channel=False)
        builder.conv2d(builder.input((1, 2, 2, channels)), channels, 1)
        return builder.build()

    small, large = model(8), model(1024)
    assert len(large) > 1 << 20
    assert count_calls(lambda: read_tflite(large)) == count_calls(lambda: read_tflite(small))


def transposed(shape, given=True):
    stated = T("shape", (4,), INT32, (), (), data=[1, *shape, 5] if given else None)
    tensors = (stated, T("w", (5, 3, 2, 3), data=[1] * 90), T("x", (1, 4, 3, 3)), T("y", (1, *shape, 5)))
    options = {"Padding": 0, "StrideH": 2, "StrideW": 2}
    op = Op("TRANSPOSE_CONV", (0, 1, 2), (3,), "TransposeConvOptions", options)
    return read_op(File(tensors, (op,), (2,) if given else (0, 2), (3,)))


def test_transpose_conv():
    window = ir.Window(3, 2, 2, 2, pad_bottom=1)
    assert transposed((8, 6)).attrs == ir.TransposeConvAttrs(window, (8, 6))
    assert transposed((8, 6), given=False).attrs.size == (8, 6)
    assert "makes 3x3 of its output, and not the 4x3" in transposed((6, 6)).opaque
