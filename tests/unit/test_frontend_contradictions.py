"""Every contradiction has its own sentence, and names the operator, the tensor and the value."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ethoscade.errors import ModelFormatError, UnsupportedOperatorError
from ethoscade.frontend import read_tflite
from tflite_files import FLOAT32, INT64, File, Op, T, constant, conv_file


def refused(file: File | bytes, match: str, **attributes: object) -> None:
    """Reading fails with a matching sentence and the given attributes."""
    with pytest.raises(ModelFormatError, match=match) as caught:
        read_tflite(file if isinstance(file, bytes) else file.bytes())
    assert caught.value.__cause__ is None, "a check should have found this, not the safety net"
    for name, value in attributes.items():
        assert getattr(caught.value, name) == value


def test_empty():
    refused(b"", "0 bytes", value=0)


def test_identifier():
    data = bytearray(conv_file().bytes())
    data[4:8] = b"TFL9"
    refused(bytes(data), "identifier", value=b"TFL9")


def test_root_outside():
    refused(b"\xff\xff\xff\x7fTFL3" + bytes(64), "root", value=0x7FFFFFFF)


def test_version():
    refused(replace(conv_file(), version=1), "version 1", value=1)


def test_no_operators():
    refused(replace(conv_file(), operators=()), "no operators")


def test_no_subgraph():
    refused(replace(conv_file(), subgraphs=0), "no subgraph")


def test_no_inputs():
    refused(replace(conv_file(), inputs=()), "no inputs")


def test_no_outputs():
    refused(replace(conv_file(), outputs=()), "no outputs")


def test_graph_input_out_of_range():
    refused(replace(conv_file(), inputs=(9,)), "tensor 9", value=9)


def test_graph_input_twice():
    refused(replace(conv_file(), inputs=(0, 0)), "twice")


def test_graph_input_constant():
    refused(replace(conv_file(), inputs=(0, 1)), "'weights' has constant data", tensor="weights")


def test_output_shape():
    refused(
        conv_file().tensor(3, shape=(1, 8, 7, 6)), "make .1, 8, 8, 6.", operator="output", tensor="output",
        value=(1, 8, 7, 6),
    )  # fmt: skip


@pytest.mark.parametrize("scale", [float("inf"), float("nan")])
def test_scale(scale):
    refused(conv_file().tensor(0, scales=(scale,)), "scale", tensor="input")


def test_number_of_zero_points():
    refused(conv_file().tensor(1, zero_points=(0, 0)), "6 scales and 2 zero points", tensor="weights", value=2)


def test_number_of_scales():
    file = conv_file().tensor(1, scales=(1.0,) * 5, zero_points=(0,) * 5)
    refused(file, "5 scales for the 6 slices", tensor="weights", value=5)


@pytest.mark.parametrize("axis", [4, -1])
def test_quantised_axis(axis):
    refused(conv_file().tensor(1, axis=axis), "axis", tensor="weights", value=axis)


@pytest.mark.parametrize("field", ["StrideH", "StrideW", "DilationHFactor", "DilationWFactor"])
@pytest.mark.parametrize("value", [0, -2])
def test_window_steps(field, value):
    refused(conv_file().operator(0, options={field: value}), "at least 1", operator="output")


def test_filter_of_a_pool():
    options = {"Padding": 1, "StrideH": 1, "StrideW": 1, "FilterHeight": 0, "FilterWidth": 1}
    file = File(
        (T("x", (1, 4, 4, 2)), T("y", (1, 4, 4, 2))),
        (Op("MAX_POOL_2D", (0,), (1,), "Pool2DOptions", options),),
        (0,),
        (1,),
    )
    refused(file, "filter 0x1", operator="y")


def test_window_larger_than_its_input():
    refused(conv_file((1, 2, 2, 4)).operator(0, options={"Padding": 1}), "does not fit", operator="output")


def test_padding_mode():
    refused(conv_file().operator(0, options={"Padding": 2}), "padding 2", value=2)


@pytest.mark.parametrize("shape", [(1, 0, 8, 4), (1, -8, 8, 4)])
def test_dimensions(shape):
    refused(conv_file().tensor(0, shape=shape), "at least 1", tensor="input", value=shape)


@pytest.mark.parametrize("shape", [(2**31 - 1,) * 4, (1, 2**20, 2**20 + 1, 1), (1, 2**15, 2**8, 2**8)])
def test_huge_shape(shape):
    refused(conv_file().tensor(0, shape=shape), "arena ends at 2147483647", tensor="input", value=shape)


def test_element_type():
    refused(conv_file().tensor(0, type=99, scales=(), zero_points=()), "type 99", tensor="input", value=99)


def test_strings_are_unsupported():
    with pytest.raises(UnsupportedOperatorError, match="STRING"):
        read_tflite(conv_file().tensor(0, type=5, scales=(), zero_points=()).bytes())


@pytest.mark.parametrize("index", [4, -2, 2**31 - 1])
def test_tensor_index(index):
    refused(conv_file().operator(0, inputs=(0, index)), "refers to tensor", value=index)


def test_output_index():
    refused(conv_file().operator(0, outputs=(-1,)), "refers to tensor -1", value=-1)


def test_operator_code():
    refused(conv_file().operator(0, code_index=3), "operator code 3", value=3)


def test_buffer_index():
    refused(conv_file().tensor(1, buffer=9), "buffer 9", tensor="weights", value=9)


def test_buffer_length():
    refused(conv_file().tensor(1, data=[0] * 215), "needs 216 bytes.*has 215", tensor="weights", value=215)


def test_missing_weights():
    refused(conv_file().operator(0, inputs=(0, -1)), "no weights", operator="output")


@pytest.mark.parametrize("inputs", [(0,), (0, 1, 2, 2), ()])
def test_number_of_inputs(inputs):
    refused(conv_file().operator(0, inputs=inputs), "inputs", operator="output", value=len(inputs))


def test_bias_length():
    file = conv_file().tensor(2, shape=(5,), data=[0] * 5, scales=(1.0,), zero_points=(0,))
    refused(file, "bias", operator="output", tensor="bias", value=(5,))


@pytest.mark.parametrize("dtype", [INT64, FLOAT32])
def test_bias_type(dtype):
    refused(conv_file().tensor(2, type=dtype), "bias", operator="output", tensor="bias")


def test_weights_for_other_channels():
    file = conv_file().tensor(1, shape=(6, 3, 3, 3), data=[0] * 162)
    refused(file, "3 input channels", operator="output", tensor="weights", value=3)


def test_rank_of_weights():
    refused(conv_file().tensor(1, shape=(6, 9, 4)), "4 dimensions", operator="output", tensor="weights")


def depthwise(weights: tuple[int, ...]) -> File:
    options = {"Padding": 1, "StrideH": 1, "StrideW": 1, "DepthMultiplier": 2}
    count = weights[0] * weights[1] * weights[2] * weights[3]
    return File(
        (T("x", (1, 5, 5, 3)), T("w", weights, data=[0] * count), T("y", (1, 3, 3, weights[3]))),
        (Op("DEPTHWISE_CONV_2D", (0, 1), (2,), "DepthwiseConv2DOptions", options),),
        (0,),
        (2,),
    )


def test_depthwise_channels():
    refused(depthwise(weights=(1, 3, 3, 7)), "multiple of 3", operator="y", tensor="w")


def test_fully_connected_inputs():
    file = File(
        (T("x", (1, 10)), T("w", (5, 4), data=[0] * 20), T("y", (1, 5))),
        (Op("FULLY_CONNECTED", (0, 1), (2,), "FullyConnectedOptions"),),
        (0,),
        (2,),
    )
    refused(file, "4 inputs", operator="y", tensor="w", value=4)


def simple(kind: str, shapes: list[tuple[int, ...]], extra: T | None = None, options: tuple = (None, {})) -> File:
    tensors = [T(f"t{i}", s) for i, s in enumerate(shapes)]
    inputs = list(range(len(shapes) - 1))
    if extra is not None:
        tensors.append(extra)
    op = Op(kind, [*inputs, *([len(shapes)] if extra is not None else [])], (len(shapes) - 1,), *options)
    return File(tensors, (op,), inputs, (len(shapes) - 1,))


RESIZE = ("ResizeNearestNeighborOptions", {})
REDUCER = ("ReducerOptions", {"KeepDims": True})


@pytest.mark.parametrize(
    ("file", "match"),
    [
        (simple("ADD", [(1, 4), (1, 3), (1, 4)]), "adds"),
        (simple("ADD", [(1, 4), (1, 4), (4, 4)]), "make .1, 4."),
        (simple("MEAN", [(1, 4), (1, 4)], constant("a", [2]), REDUCER), "axis 2 of 2"),
        (simple("MEAN", [(1, 4), (1, 4)], constant("a", [1]), REDUCER), "make .1, 1."),
        (simple("PAD", [(1, 4), (1, 5)], constant("p", [0, 1], (1, 2))), "paddings"),
        (simple("PAD", [(1, 4), (1, 3)], constant("p", [0, 0, 0, -1], (2, 2))), "negative"),
        (simple("PAD", [(1, 4), (1, 5)], constant("p", [0, 0, 1, 1], (2, 2))), "make .1, 6."),
        (simple("RESIZE_NEAREST_NEIGHBOR", [(1, 2, 2, 1), (1, 4, 4, 1)], constant("s", [4]), RESIZE), "a height and"),
        (simple("RESIZE_NEAREST_NEIGHBOR", [(1, 2, 2, 1), (1, 4, 4, 1)], constant("s", [4, 0]), RESIZE), "at least 1"),
        (
            simple("RESIZE_NEAREST_NEIGHBOR", [(1, 2, 2, 1), (1, 4, 4, 1)], constant("s", [4, 3]), RESIZE),
            "4, 3, 1",
        ),
        (simple("RESIZE_NEAREST_NEIGHBOR", [(2, 2, 1), (4, 4, 1)], constant("s", [4, 4]), RESIZE), "4 dimensions"),
        (simple("RESHAPE", [(1, 4), (1, 5)], constant("s", [1, 5])), "4 elements"),
        (simple("RESHAPE", [(1, 4), (4,)], constant("s", [2, -1])), "make .2, 2."),
        (simple("RESHAPE", [(1, 4), (4,)], constant("s", [-1, -1])), "one -1"),
        (simple("RESHAPE", [(1, 4), (4,)], constant("s", [0, 4])), "at least 1"),
        (simple("SQUEEZE", [(1, 4), (4,)], None, ("SqueezeOptions", {"SqueezeDims": [1]})), "extent 1"),
        (simple("EXPAND_DIMS", [(1, 4), (1, 4)], constant("a", [0])), "make .1, 1, 4."),
        (simple("SOFTMAX", [(1, 4), (1, 3)], None, ("SoftmaxOptions", {"Beta": 1.0})), "make .1, 4."),
        (simple("QUANTIZE", [(1, 4), (1, 3)]), "make .1, 4."),
        (simple("RELU6", [(1, 4), (1, 3)]), "make .1, 4."),
        (simple("SHAPE", [(1, 4), (2,)]), "int32 or int64"),
        (simple("CONCATENATION", [(2, 4), (3, 4), (2, 8)], None, ("ConcatenationOptions", {"Axis": 1})), "joins"),
        (simple("CONCATENATION", [(2, 4), (2, 4), (2, 9)], None, ("ConcatenationOptions", {"Axis": 1})), "make .2, 8."),
        (simple("CONCATENATION", [(2, 4), (2, 4), (2, 8)], None, ("ConcatenationOptions", {"Axis": 2})), "axis 2 of 2"),
        (simple("CONCATENATION", [(2, 4), (2,), (2, 8)], None, ("ConcatenationOptions", {"Axis": 1})), "joins"),
        (simple("PACK", [(4,), (3,), (2, 4)], None, ("PackOptions", {"ValuesCount": 2, "Axis": 0})), "packs"),
        (simple("PACK", [(4,), (4,), (2, 4)], None, ("PackOptions", {"ValuesCount": 3, "Axis": 0})), "counts 3"),
        (simple("PACK", [(4,), (4,), (2, 4)], None, ("PackOptions", {"ValuesCount": 2, "Axis": 5})), "axis 5"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_shapes_of_other_operators(file, match):
    refused(file, match, operator=file.tensors[file.outputs[0]].name)


def pieces(sizes: list[int], widths: tuple[int, ...], axis: int = 1, count: int | None = None) -> File:
    """A SPLIT_V of four columns into `sizes`, written to tensors of those `widths`."""
    made = [T(f"t{i}", (2, width)) for i, width in enumerate(widths)]
    tensors = (*made, T("x", (2, 4)), constant("sizes", sizes), constant("axis", [axis], ()))
    first = len(made)
    options = {"NumSplits": len(made) if count is None else count}
    op = Op("SPLIT_V", range(first, first + 3), range(first), "SplitVOptions", options)
    return File(tensors, (op,), (first,), range(first))


@pytest.mark.parametrize(
    ("file", "match"),
    [
        (pieces([1, 3], (1, 2)), "make .2, 3."),
        (pieces([1, 2], (1, 3)), "splits 4 elements along axis 1 into .1, 2."),
        (pieces([-1, -1], (2, 2)), "into .-1, -1."),
        (pieces([4, 0], (4, 1)), "into .4, 0."),
        (pieces([1, 3], (1, 3), axis=2), "axis 2 of 2"),
        (pieces([1, 2, 1], (1, 3)), "3 sizes for 2 pieces"),
        (pieces([1, 3], (1, 3), count=3), "2 outputs; it makes 3"),
    ],
)
def test_pieces_of_a_split(file, match):
    refused(file, match, operator="t0")


def test_equal_pieces():
    tensors = (T("y", (2, 2)), T("z", (2, 2)), T("w", (2, 2)), T("x", (2, 4)), constant("axis", [1], ()))
    op = Op("SPLIT", (4, 3), (0, 1, 2), "SplitOptions", {"NumSplits": 3})
    refused(File(tensors, (op,), (3,), (0, 1, 2)), "4 elements along axis 1 into 3 equal pieces", value=3)


@pytest.mark.parametrize(
    ("begin", "strides", "options", "match"),
    [
        ([0], [0], {}, "stride 0"),
        ([4], [1], {"ShrinkAxisMask": 1}, "element 4 of 4"),
        ([4], [1], {"EndMask": 1}, "nothing"),
        ([0, 0], [1], {}, "2 begins"),
        ([0, 0], [1, 1], {"EllipsisMask": 0}, "2 begins"),
        ([0], [1], {"NewAxisMask": 1}, "make .1, 4."),
    ],
)
def test_strided_slice(begin, strides, options, match):
    tensors = (T("x", (4,)), constant("b", begin), constant("e", [4]), constant("s", strides), T("y", (4,)))
    refused(
        File(tensors, (Op("STRIDED_SLICE", (0, 1, 2, 3), (4,), "StridedSliceOptions", options),), (0,), (4,)), match
    )


def two(first: Op, second: Op) -> File:
    return File(tuple(T(n, (1, 4)) for n in "xyz"), (first, second), (0,), (2,))


def test_operators_out_of_order():
    refused(two(Op("RELU", (1,), (2,)), Op("RELU", (0,), (1,))), "before anything makes it", operator="z", tensor="y")


def test_tensor_made_twice():
    refused(two(Op("RELU", (0,), (2,)), Op("RELU", (0,), (2,))), "already made", tensor="z")


def test_output_never_made():
    refused(two(Op("RELU", (0,), (1,)), Op("RELU", (0,), (0,))), "writes tensor 'x'", tensor="x")
    file = File(tuple(T(n, (1, 4)) for n in "xyz"), (Op("RELU", (0,), (1,)),), (0,), (2,))
    refused(file, "made by no operator", tensor="z")


def test_variable_with_data():
    refused(conv_file().tensor(1, variable=True), "variable", tensor="weights")
