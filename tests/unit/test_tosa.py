"""TOSA files: what ExecuTorch writes, what Arm's reference model makes of each operator, and what is refused how."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import ethoscade
import numpy as np
import pytest
from ethoscade.errors import EthoscadeError, ModelFormatError, UnsupportedOperatorError
from ethoscade.frontend import read_model
from ethoscade.frontend.tosa import read_tosa
from ethoscade.frontend.tosa.operators import TOSA_READERS
from ethoscade.ir import DType, tosa
from ethoscade.ir.tosa_operators import TOSA_OPERATORS
from ethoscade.judge import reference, tosa_model
from ethoscade.testing import tiny_conv
from model_files import NO_TOSA, tosa_paths
from tosa_files import OPS, OperatorOf, TosaFile
from tosa_judging import VECTORS, evaluate, features, judge
from tosa_networks import DRAWS, network

# What ExecuTorch 1.5's Arm backend can write for the profile INT of TOSA 1.0 (`ts.Op` in its backends/arm/operators),
# and does not read here.
NOT_READ = {"COND_IF", "WHILE_LOOP", "CUSTOM"}


@pytest.mark.parametrize("path", tosa_paths() or [None], ids=lambda path: path.stem if path else "none")
def test_what_executorch_writes_is_computed_exactly(path: Path | None) -> None:
    """Stored outputs are those of Arm's TOSA reference model, tosa-tools 2026.5.0."""
    if path is None:
        pytest.skip(NO_TOSA)
    graph = read_model(path)
    assert graph.operators and all(op.kind in TOSA_OPERATORS for op in graph.operators)
    stored = np.load(path.with_suffix(".npz"))
    seeds = sorted({name.rpartition("_")[2] for name in stored})
    assert len(seeds) == 2
    for seed in seeds:
        inputs = {graph.tensors[index].name: stored[f"input{n}_{seed}"] for n, index in enumerate(graph.given)}
        values = reference.run(graph, inputs).values
        for n, index in enumerate(graph.outputs):
            expected = stored[f"output{n}_{seed}"]
            assert values[index].dtype == expected.dtype
            np.testing.assert_array_equal(values[index], expected)


def vectors() -> list[tuple[bytes, list[Any], list[Any]]]:
    """The stored vectors: a file, inputs, and the outputs of Arm's reference model."""
    stored = np.load(VECTORS)
    count = sum(name.endswith("_file") for name in stored)

    def listed(stem: str) -> list[Any]:
        return [stored[f"{stem}_{i}"] for i in range(sum(name.startswith(f"{stem}_") for name in stored))]

    return [(stored[f"{n}_file"].tobytes(), listed(f"{n}_input"), listed(f"{n}_output")) for n in range(count)]


def test_each_operator_computes_what_arms_model_does() -> None:
    shown = set()
    for content, inputs, expected in vectors():
        graph, outputs = evaluate(content, inputs)
        assert outputs is not None
        for ours, theirs in zip(outputs, expected, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs, graph.operators[0].kind)
        first = graph.operators[0]
        types = [graph.tensors[i].dtype for i in (*first.inputs, *first.outputs)]
        shown.add((first.kind, *(types[-2:] if TOSA_OPERATORS[first.kind].is_list else types)))
    wanted = {(row.name, *form) for row in TOSA_OPERATORS.values() for form in row.forms}
    assert shown == wanted, "every operator, in every form that is read, has a vector"


def test_tables_have_the_same_kinds() -> None:
    kinds = list(TOSA_OPERATORS)
    assert set(kinds) == set(TOSA_READERS) == set(reference.TOSA_MEANINGS) == {f"tosa.{kind.lower()}" for kind in DRAWS}
    numbers = [OPS.index(kind.removeprefix("tosa.").upper()) for kind in kinds]
    assert numbers == sorted(numbers)


def test_random_networks_draw_every_form_and_attribute() -> None:
    forms, said = set(), set()
    for kind in DRAWS:
        row = TOSA_OPERATORS[f"tosa.{kind.lower()}"]
        for seed in range(120):
            file = network(f"{kind} {seed}", [kind])
            said |= {one for one in features(file) if len(one) != 2}
            first = next(op for op in file.operators if op.inputs)
            names = (*first.inputs[: len(row.forms[0]) - 1], *first.outputs)
            forms.add((row.name, *(DType[file.tensors[name].dtype] for name in names)))
    assert forms == {(row.name, *form) for row in TOSA_OPERATORS.values() for form in row.forms}
    assert {("RESIZE", "mode", 1), ("RESIZE", "mode", 2), ("CONV2D", "local_bound", True)} <= said
    assert {("ARITHMETIC_RIGHT_SHIFT", "round", is_rounding) for is_rounding in (False, True)} <= said
    rescales = {one[1:] for one in said if one[0] == "RESCALE"}
    # In the order of names: input_unsigned, output_unsigned, per_channel, rounding_mode, scale32.
    assert {one[3:] for one in rescales} == {(1, False), (1, True), (2, False), (2, True), (3, True)}
    assert {one[:2] for one in rescales} == {(False, False), (False, True), (True, False)}
    assert {one[2] for one in rescales} == {False, True}


def test_every_attribute_takes_several_values() -> None:
    """A field that nobody draws, or that is drawn in one way alone, ends here."""
    values: dict[tuple[str, str], set[Any]] = defaultdict(set)
    for kind in DRAWS:
        for seed in range(25):
            attrs = read_tosa(network(f"{kind} {seed}", [kind]).bytes()).operators[0].attrs
            for field in dataclasses.fields(attrs) if attrs is not None else ():
                values[type(attrs).__name__, field.name].add(getattr(attrs, field.name))
    records = {one.__name__: one for one in get_args(tosa.TosaAttrs)}
    assert set(values) == {(name, field.name) for name, one in records.items() for field in dataclasses.fields(one)}
    single = {place for place, found in values.items() if len(found) == 1}
    assert single == {("AveragePool", "accumulator")}, "the specification knows one"
    assert values["Rescale", "rounding"] == set(tosa.RescaleRounding)
    assert values["Resize", "mode"] == set(tosa.ResizeMode)


@pytest.mark.skipif(not tosa_model.is_installed(), reason=f"set {tosa_model.INTERPRETER} to a Python with tosa-tools")
def test_random_networks_beside_arms_model() -> None:
    with tosa_model.TosaModel() as model:
        verdicts = {seed: judge(model, network(seed)) for seed in range(150)}
    assert set(verdicts.values()) <= {"equal", "unpredictable"}, verdicts
    assert sum(verdict == "equal" for verdict in verdicts.values()) > 130


def test_the_identifier_decides_and_not_the_name(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(network(1, ["ADD"]).bytes())
    graph = read_model(path)
    assert (graph.name, graph.operators[0].kind) == ("net", "tosa.add")
    assert read_model(tiny_conv()).operators[0].kind == "CONV_2D"
    with pytest.raises(ModelFormatError, match=r"net\.tflite'.*'TFL3'.*a TOSA file, which `frontend\.read_model`"):
        ethoscade.compile(path)
    with pytest.raises(ModelFormatError, match=r"'TOSA' of TOSA files.*a TensorFlow Lite file"):
        read_tosa(tiny_conv())


def rescaled(**changes: Any) -> TosaFile:
    """int8 -> int32 -> int8 with three channels: the second RESCALE is per channel; `changes` are its attributes."""
    file = TosaFile()
    x = file.input(np.zeros((1, 2, 2, 3), np.int8), "INT8")
    zero = file.constant([0], "INT32")
    shared = {"scale32": True, "rounding_mode": 1, "input_unsigned": False, "output_unsigned": False}
    widen = [file.constant([1 << 30], "INT32"), file.constant([11], "INT8"), file.constant([-4], "INT8"), zero]
    wide = file.add("RESCALE", [x, *widen], (1, 2, 2, 3), "INT32", per_channel=False, **shared)
    back = [file.constant([7, 8, 9], "INT32"), file.constant([37, 38, 39], "INT8"), zero, file.constant([5], "INT8")]
    y = file.add("RESCALE", [wide, *back], (1, 2, 2, 3), "INT8", **{**shared, "per_channel": True, **changes})
    file.outputs = [y]
    return file


def test_parameters_are_attributes_and_only_values_are_inputs() -> None:
    graph = read_tosa(rescaled().bytes(), "net")
    first, second = graph.operators
    assert first.attrs == tosa.Rescale((1 << 30,), (11,), -4, 0, tosa.RescaleRounding.SINGLE)
    assert second.attrs == tosa.Rescale((7, 8, 9), (37, 38, 39), 0, 5, tosa.RescaleRounding.SINGLE)
    assert [len(op.inputs) for op in graph.operators] == [1, 1]
    assert [op.source_index for op in graph.operators] == [4, 8]
    assert all(tensor.quantisation is None for tensor in graph.tensors)
    assert not graph.tensors[graph.outputs[0]].is_constant


def test_int48_has_six_bytes_in_a_file() -> None:
    values = np.array([-(1 << 47), -1, 0, 1, (1 << 47) - 1])
    file = network(1, ["ADD"])
    name = file.constant(values, "INT48")
    file.outputs.append(file.add("IDENTITY", [name], (5,), "INT48"))
    graph = read_tosa(file.bytes())
    tensor = next(one for one in graph.tensors if one.name == name)
    assert (tensor.dtype, tensor.dtype.limits, tensor.dtype.numpy) == (
        DType.INT48, (-(1 << 47), (1 << 47) - 1), np.dtype("int64"),
    )  # fmt: skip
    np.testing.assert_array_equal(tensor.constant(), values)


def test_a_zero_point_may_be_given_once_a_channel() -> None:
    """ExecuTorch 1.5 writes as many bytes as there are channels for the zero point of weights, of shape [1]."""
    file = network("CONV2D 5", ["CONV2D"])
    name = next(op for op in file.operators if op.kind == "CONV2D").inputs[4]
    point = file.tensors[name].data
    file.tensors[name].data = point * 7
    assert read_tosa(file.bytes()).operators[0].attributes(tosa.Convolution).weight_zero_point == int.from_bytes(
        point, "little", signed=True
    )
    file.tensors[name].data = point * 6 + bytes([point[0] ^ 1])
    with pytest.raises(ModelFormatError, match="has 7 bytes; it takes 1"):
        read_tosa(file.bytes())


REFUSED = {
    **dict.fromkeys(("COND_IF", "WHILE_LOOP"), "without data-dependent branches"),
    **dict.fromkeys(("VARIABLE", "VARIABLE_WRITE", "VARIABLE_READ"), "make the state an input and an output"),
    "CUSTOM": "keep it out of the delegate",
    **dict.fromkeys(
        (
            "FFT2D", "RFFT2D", "ERF", "SIGMOID", "TANH", "POW", "CEIL", "COS", "EXP", "FLOOR", "LOG", "RECIPROCAL",
            "RSQRT", "SIN", "REDUCE_PRODUCT",
        ),
        "quantise the whole network",
    ),
}  # fmt: skip


def test_every_operator_is_read_or_refused() -> None:
    assert set(OPS) == {*DRAWS, *REFUSED, "CONST", "CONST_SHAPE", "UNKNOWN"}
    assert set(REFUSED) >= NOT_READ


@pytest.mark.parametrize("kind", REFUSED)
def test_operators_are_refused_by_name(kind: str) -> None:
    file = rescaled()
    file.operators.append(OperatorOf(kind, [file.inputs[0]], [file.outputs[0]]))
    with pytest.raises(UnsupportedOperatorError, match=f"'{file.outputs[0]}' .tosa.{kind.lower()}. .*{REFUSED[kind]}"):
        read_tosa(file.bytes())


def _retyped(file: TosaFile, name: str, dtype: str) -> TosaFile:
    file.tensors[name].dtype = dtype
    return file


@pytest.mark.parametrize(
    ("dtype", "words"), [("FP32", "quantise the whole network"), ("INT4", "quantise weights to int8")]
)
def test_types_are_refused_by_name(dtype: str, words: str) -> None:
    file = rescaled()
    name = file.inputs[0]
    where = f"operator 'rescale_.*' .tosa.rescale. has tensor '{name}' of type {dtype}; .*{words}"
    with pytest.raises(UnsupportedOperatorError, match=where):
        read_tosa(_retyped(file, name, dtype).bytes())


def test_forms_outside_of_the_profile_are_refused_with_those_that_are_defined() -> None:
    file = network("ADD 1", ["ADD"])
    for name in (name for op in file.operators for name in (*op.inputs, *op.outputs)):
        if file.tensors[name].dtype == "INT32" and not file.tensors[name].data:
            file.tensors[name].dtype = "INT16"
    with pytest.raises(UnsupportedOperatorError, match=r"of int16 from .*defines, on integers: int32, int32 to int32"):
        read_tosa(file.bytes())


def _change(file: TosaFile, place: int, **fields: Any) -> None:
    """Change a tensor that the last operator has at a place."""
    name = file.operators[-1].inputs[place]
    file.tensors[name] = dataclasses.replace(file.tensors[name], **fields)


def _make_input(file: TosaFile, place: int) -> None:
    """Give the last operator's operand at run time."""
    name = file.operators[-1].inputs[place]
    _change(file, place, data=b"")
    file.operators = [op for op in file.operators if op.outputs != [name]]
    file.inputs.append(name)


def _attributes_of(file: TosaFile, table: str) -> None:
    """Give the last operator the attributes of another kind, or none ("UNKNOWN")."""
    file.operators[-1].table, file.operators[-1].attributes = table, {}


CONTRADICTIONS: dict[str, tuple[Callable[[TosaFile], Any], type[EthoscadeError], str]] = {
    "shift": (lambda f: _change(f, 2, data=bytes([37, 63, 39])), ModelFormatError, "shifts by 63; .*defines 2 to 62"),
    "multiplier": (lambda f: _change(f, 1, data=b"\xff" * 12), ModelFormatError, "each is at least 0"),
    "channels": (lambda f: _change(f, 1, shape=(2,), data=bytes(8)), ModelFormatError, r"it takes int32\[3\]"),
    "multiplier type": (lambda f: _change(f, 1, dtype="INT16", data=bytes(6)), ModelFormatError, r"takes int32\[3\]"),
    "bytes": (lambda f: _change(f, 1, data=bytes(11)), ModelFormatError, "has 11 bytes; it takes 12"),
    "no values": (lambda f: _change(f, 2, data=b""), ModelFormatError, "of which the file has no values"),
    "run time": (lambda f: _make_input(f, 2), UnsupportedOperatorError, "known only at run time"),
    "zero point": (lambda f: _change(f, 3, data=b"\1\0\0\0"), ModelFormatError, "has 1 as its .*that of int32 is 0"),
    "shape": (lambda f: setattr(f.tensors[f.outputs[0]], "shape", (1, 4, 1, 3)), ModelFormatError, r"\[1, 2, 2, 3\]"),
    "operands": (lambda f: f.operators[-1].inputs.pop(), ModelFormatError, "has 4 operands; it takes 5"),
    "no tensor": (lambda f: f.operators[-1].inputs.__setitem__(1, "x"), ModelFormatError, "'x'.*no tensor"),
    "two outputs": (lambda f: f.operators[-1].outputs.append("y"), ModelFormatError, "has 2 outputs"),
    "twice": (lambda f: setattr(f.tensors[f.outputs[0]], "name", f.inputs[0]), ModelFormatError, "in the file twice"),
    "extent": (lambda f: setattr(f.tensors[f.outputs[0]], "shape", (0,)), ModelFormatError, "at least 1 are possible"),
    "size": (lambda f: setattr(f.tensors[f.outputs[0]], "shape", (1 << 30, 8)), ModelFormatError, "an arena ends"),
    "variable": (lambda f: _change(f, 0, is_variable=True), UnsupportedOperatorError, "is a variable"),
    "unranked": (lambda f: _change(f, 0, is_unranked=True), UnsupportedOperatorError, "has no fixed shape"),
    "no input": (lambda f: f.inputs.clear(), ModelFormatError, "has no inputs"),
    "input": (lambda f: f.inputs.append("z"), ModelFormatError, "inputs name 'z'"),
    "constant input": (lambda f: f.inputs.append(f.operators[-1].inputs[1]), ModelFormatError, "has constant data"),
    "input twice": (lambda f: f.inputs.append(f.inputs[0]), ModelFormatError, "name a tensor twice"),
    "order": (lambda f: f.operators.reverse(), ModelFormatError, "before anything makes it"),
    "version": (lambda f: setattr(f, "version", (1, 1, 0, False)), ModelFormatError, r"TOSA 1\.1;.*'TOSA-1\.0\+INT'"),
    "blocks": (lambda f: setattr(f, "blocks", 2), UnsupportedOperatorError, "has 2 blocks"),
    "nothing": (lambda f: f.operators.clear(), ModelFormatError, "has no operators"),
    "attributes": (lambda f: _attributes_of(f, "UNKNOWN"), ModelFormatError, "has no attributes"),
    "others": (lambda f: _attributes_of(f, "CLAMP"), ModelFormatError, "attributes of kind 11; its own are 66"),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_contradictions_are_named(case: str) -> None:
    file = rescaled()
    change, error, words = CONTRADICTIONS[case]
    change(file)
    with pytest.raises(error, match=words):
        read_tosa(file.bytes())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rounding_mode": 0}, "rounding mode 0; it takes 1"),
        ({"scale32": False}, r"it takes int16\[3\]"),
        ({"scale32": False, "rounding_mode": 3}, "rounds twice with multipliers of 16 bits"),
        ({"output_unsigned": True}, "one side of two with 8 or 16 bits"),
        ({"per_channel": False}, r"it takes int32\[1\]"),
    ],
)
def test_contradictions_of_rescale_are_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelFormatError, match=words):
        read_tosa(rescaled(**changes).bytes())


# Attributes that break an ERROR_IF of the specification, each in a network of its kind.
BROKEN: list[tuple[str, str, Any, str]] = [
    ("CONV2D", "stride", [0, 1], "each is at least 1"),
    ("CONV2D", "pad", [-1, 0, 0, 0], "each is at least 0"),
    ("CONV2D", "pad", [0, 0, 0], "3 numbers as its padding; it takes 4"),
    ("CONV2D", "dilation", [1 << 20, 1 << 20], "moves a window|writes tensor"),
    ("CONV3D", "acc_type", 7, "accumulates in FP32"),
    ("DEPTHWISE_CONV2D", "acc_type", 99, "accumulates in 99"),
    ("AVG_POOL2D", "acc_type", 6, "accumulates in INT48; .* takes INT32"),
    ("AVG_POOL2D", "kernel", [0, 1], "each is at least 1"),
    ("MAX_POOL2D", "pad", [9, 9, 9, 9], "each is less"),
    ("TRANSPOSE_CONV2D", "out_pad", [-99, 0, 0, 0], "each is at least"),
    ("RESIZE", "mode", 0, "it takes 1 .nearest. or 2"),
    ("CLAMP", "min_val", b"", "limit of 0 bytes"),
    ("TRANSPOSE", "perms", [7, 7, 7], "numbers as its permutation|names each of"),
    ("REDUCE_SUM", "axis", -1, "has axis -1"),
    ("ARGMAX", "axis", 6, "has axis 6"),
    ("CONCAT", "axis", 6, "has axis 6"),
    ("REVERSE", "axis", 6, "has axis 6"),
]


@pytest.mark.parametrize(("kind", "field", "value", "words"), BROKEN)
def test_attributes_that_the_specification_forbids_are_named(kind: str, field: str, value: Any, words: str) -> None:
    file = network(f"{kind} 3", [kind])
    operator = next(op for op in file.operators if op.kind == kind)
    operator.attributes = {**operator.attributes, field: value}
    with pytest.raises(ModelFormatError, match=words):
        read_tosa(file.bytes())


def wrong(kind: str, operands: list[tuple[Any, str]], shape: tuple[int, ...], dtype: str, **attributes: Any) -> bytes:
    """A file of one operator. Operands are shapes ("SHAPE"), constants of one element in a tuple, or inputs."""
    file, names = TosaFile(), []
    for value, its in operands:
        if its == "SHAPE":
            names.append(file.shape(value))
        else:
            make = file.input if isinstance(value, np.ndarray) else file.constant
            names.append(make(value, its))
    file.outputs = [file.add(kind, names, shape, dtype, **attributes)]
    return file.bytes()


IMAGE = np.zeros((1, 4, 4, 2), np.int8)
CONV = {"stride": [1, 1], "dilation": [1, 1], "acc_type": 5}
POINTS = [((0,), "INT8"), ((0,), "INT8")]
WEIGHTS = np.zeros((3, 1, 1, 2), np.int8)
ROWS, INDICES = np.zeros((1, 4, 2), np.int8), np.zeros((1, 5), np.int32)


def _conv(bias: int, pad: list[int], stride: int) -> bytes:
    operands = [(IMAGE, "INT8"), (WEIGHTS, "INT8"), (np.zeros(bias), "INT32"), *POINTS]
    return wrong("CONV2D", operands, (1, 4, 4, 3), "INT32", **{**CONV, "pad": pad, "stride": [stride, 1]})


def _resize(scale: list[int], offset: int, border: int) -> bytes:
    shapes = [(scale, "SHAPE"), ([offset, 0], "SHAPE"), ([border, 0], "SHAPE")]
    return wrong("RESIZE", [(IMAGE, "INT8"), *shapes], (1, 4, 4, 2), "INT8", mode=1)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (_conv(2, [0, 0, 0, 0], 1), "a bias of 2 elements; its 3 output channels take 1 or 3"),
        (_conv(3, [0, 0, 0, 0], 2), "by 2 over 4 elements.* end at the last element"),
        (_conv(3, [0, 0, 0, 1], 1), r"writes tensor .* \[1, 4, 5, 3\]"),
        (_resize([1, 1, 1, 1], 16, 16), "the offset 16 and the border 16"),
        (_resize([1, 16, 1, 1], 0, 0), "the scale 1/16"),
        (_resize([4097, 1, 1, 1], 0, 0), "the scale 4097/1"),
        (_resize([2, 4, 1, 1], 0, 0), "divides 6 steps of 1/2 pixel by 4"),
        (
            wrong("SLICE", [(ROWS, "INT8"), ([0, 2, 0], "SHAPE"), ([1, 3, 2], "SHAPE")], (1, 3, 2), "INT8"),
            r"takes \[1, 3, 2\] elements from \[0, 2, 0\] on of .* they lie inside",
        ),
        (wrong("RESHAPE", [(ROWS, "INT8"), ([3, 3], "SHAPE")], (3, 3), "INT8"), "both have as many elements"),
        (wrong("RESHAPE", [(ROWS, "INT8"), ([2, 4], "SHAPE")], (4, 2), "INT8"), "its parameter says"),
        (wrong("TRANSPOSE", [(ROWS, "INT8")], (1, 1, 2), "INT8", perms=[0, 0, 2]), "names each of 3 axes once"),
        (
            wrong("SCATTER", [(ROWS, "INT8"), (INDICES, "INT32"), (np.zeros((1, 5, 2)), "INT8")], (1, 4, 2), "INT8"),
            "writes 5 rows into 4",
        ),
        (wrong("CLAMP", [(ROWS, "INT8")], (1, 4, 2), "INT8", min_val=b"\5", max_val=b"\4"), "nothing is left"),
        (wrong("MUL", [(ROWS, "INT8"), (ROWS, "INT8"), ((1,), "INT8")], (1, 4, 2), "INT32"), "by 1; .*others 0"),
        (wrong("ADD", [(np.zeros((2, 3)), "INT32"), (np.zeros((3, 2)), "INT32")], (3, 3), "INT32"), "equal, or 1"),
        (wrong("ADD", [(np.zeros((2, 3)), "INT32"), (np.zeros(3), "INT32")], (2, 3), "INT32"), "takes 2 dimensions"),
        (wrong("MATMUL", [(ROWS, "INT8"), (ROWS, "INT8"), *POINTS], (1, 4, 2), "INT32"), "the others take"),
    ],
)  # fmt: skip
def test_shapes_that_contradict_each_other_are_named(content: bytes, words: str) -> None:
    with pytest.raises(ModelFormatError, match=words):
        read_tosa(content)


def test_a_shape_stands_in_the_file_once() -> None:
    content = network("SLICE 1", ["SLICE"]).bytes()
    with pytest.raises(ModelFormatError, match="shape 'shape_0' stands in the file twice"):
        read_tosa(content.replace(b"shape_1", b"shape_0"))


def test_what_the_specification_leaves_open_has_no_result() -> None:
    file = TosaFile()
    x = file.input(np.array([(1 << 31) - 1]), "INT32")
    file.outputs = [file.add("ADD", [x, file.constant([1], "INT32")], (1,), "INT32")]
    graph = read_tosa(file.bytes())
    with pytest.raises(
        UnsupportedOperatorError, match="that a result fits int32 does not hold; the TOSA specification"
    ):
        reference.run(graph, {x: file.values[0]})
    np.testing.assert_array_equal(
        reference.run(graph, {x: file.values[0] - 1}).outputs[file.outputs[0]], [(1 << 31) - 1]
    )


def test_inexact_rounding_is_computed_as_single_rounding() -> None:
    """The specification's bound for INEXACT_ROUND holds the exact, once rounded result."""
    single, inexact = rescaled(), rescaled(rounding_mode=2)
    values = np.arange(-6, 6, dtype=np.int8).reshape(1, 2, 2, 3)
    results = [evaluate(file.bytes(), [values])[1] for file in (single, inexact)]
    assert results[0] is not None and results[1] is not None
    np.testing.assert_array_equal(results[0][0], results[1][0])
    assert read_tosa(inexact.bytes()).operators[1].attributes(tosa.Rescale).rounding is tosa.RescaleRounding.INEXACT


def test_the_model_is_a_stranger_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = read_tosa(rescaled().bytes())
    monkeypatch.delenv(tosa_model.INTERPRETER, raising=False)
    assert not tosa_model.is_installed()
    with tosa_model.TosaModel() as model, pytest.raises(EthoscadeError, match=f"set {tosa_model.INTERPRETER} to"):
        model.run(graph, [])
    monkeypatch.setenv(tosa_model.INTERPRETER, "/nowhere/python")
    with tosa_model.TosaModel() as model, pytest.raises(EthoscadeError, match="which does not run"):
        model.run(graph, [])
