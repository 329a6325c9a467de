"""Random networks draw every operator, attribute and shape that the reader understands."""

from __future__ import annotations

import dataclasses
import enum
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import get_args

import pytest
import tflite
from ethoscade import ir, testing
from ethoscade.frontend import operators, read_tflite
from ethoscade.ir import QUANTISED, Activation, DType, Graph, Operator, Tensor
from ethoscade.ir.tosa import TosaAttrs
from ethoscade.testing.real_operators import BINARY

SEEDS = range(700)

FIXED = {
    ("AVERAGE_POOL_2D", "window.dilation_h"): "pools have no dilation",
    ("AVERAGE_POOL_2D", "window.dilation_w"): "pools have no dilation",
    ("MAX_POOL_2D", "window.dilation_h"): "pools have no dilation",
    ("MAX_POOL_2D", "window.dilation_w"): "pools have no dilation",
    ("CONV_2D", "depth_multiplier"): "a convolution has none",
    ("TRANSPOSE_CONV", "window.dilation_h"): "the operator has no dilation",
    ("TRANSPOSE_CONV", "window.dilation_w"): "the operator has no dilation",
    ("BATCH_MATMUL", "activation"): "files have none; a FULLY_CONNECTED that becomes one brings its own",
    ("PAD", "fill"): "a pad fills with the zero point",
    ("SPLIT", "operand"): "the one place of the input that is split",
    ("SPLIT_V", "operand"): "the one place of the input that is split",
}
"""Attributes that have one value by definition."""

Seen = dict[tuple[str, str], set[object]]


def leaves(attrs: object, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Attributes by name, those of nested dataclasses with a dot."""
    for field in dataclasses.fields(attrs):  # type: ignore[arg-type]
        value = getattr(attrs, field.name)
        if dataclasses.is_dataclass(value):
            yield from leaves(value, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, value


def ends(graph: Graph, op: Operator) -> tuple[Tensor, Tensor]:
    """The first input that is not a parameter, and the first output."""
    values = [graph.tensors[t] for t in op.inputs if t is not None]
    return next((t for t in values if t.data is None), values[0]), graph.tensors[op.outputs[0]]


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    return [read_tflite(testing.random_network(seed, floats=True)).verify() for seed in SEEDS]


@pytest.fixture(scope="module")
def attributes(graphs: list[Graph]) -> Seen:
    """Values of each attribute of each kind."""
    found: Seen = defaultdict(set)
    for op in (op for graph in graphs for op in graph.operators if op.attrs is not None):
        for name, value in leaves(op.attrs):
            found[op.kind, name].add(value)
    return found


@pytest.fixture(scope="module")
def seen(graphs: list[Graph]) -> Seen:
    """What else tells operators of a kind apart."""
    found: Seen = defaultdict(set)
    for graph in graphs:
        for op in graph.operators:
            ifm, ofm = ends(graph, op)
            found[op.kind, "ranks"].add((len(ifm.shape), len(ofm.shape)))
            found[op.kind, "types"].add((ifm.dtype, ofm.dtype))
            found[op.kind, "absent"].add(None in op.inputs)
            found[op.kind, "constant operands"].add(
                tuple(t is not None and graph.tensors[t].data is not None for t in op.inputs)
            )
            if op.kind in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED") and op.inputs[1] is not None:
                weights = graph.tensors[op.inputs[1]].quantisation
                found[op.kind, "scales"].add(weights is not None and len(weights.scales) > 1)
                found[op.kind, "batch"].add(ifm.shape[0] > 1)
    return found


def ranks(seen: Seen, kind: str) -> set[int]:
    return {pair[0] for pair in seen[kind, "ranks"]}  # type: ignore[index]


def test_every_kind_that_the_reader_knows_is_drawn(graphs: list[Graph]) -> None:
    drawn = {op.kind for graph in graphs for op in graph.operators}
    assert drawn >= set(operators.READERS)


def test_every_attribute_that_the_reader_reads_takes_several_values(attributes: Seen, graphs: list[Graph]) -> None:
    """An attribute added to `ir` that nobody draws, or that is drawn in one way alone, ends here."""
    drawn = {type(op.attrs) for graph in graphs for op in graph.operators}
    made = {ir.TableAttrs: "by a rule", ir.ResourceAttrs: "of compiled files alone"}
    # `test_tosa.py` asks the same of TOSA's.
    assert drawn == set(get_args(ir.Attrs)) - set(get_args(TosaAttrs)) - made.keys(), made
    for (kind, name), values in attributes.items():
        sample = next(iter(values))
        if (kind, name) in FIXED:
            assert len(values) == 1, f"{kind}.{name} is not fixed: {values}"
        elif isinstance(sample, enum.Enum):
            assert values == set(type(sample)), f"{kind}.{name} misses {set(type(sample)) - values}"
        else:
            assert len(values) > 1, f"{kind}.{name} is always {values}"


def test_weights_that_are_made_are_drawn_with_a_bias_and_without(seen: Seen, graphs: list[Graph]) -> None:
    assert seen["FULLY_CONNECTED", "constant operands"] >= {(False, False), (False, False, True)}
    made = [
        op.attributes(ir.FullyConnectedAttrs).activation
        for graph in graphs
        for op in graph.operators
        if op.kind == "FULLY_CONNECTED" and op.attrs is not None and not graph.read(op, 1).is_constant
    ]
    assert len(set(made)) > 1


def test_fills_and_rows_of_constants_are_drawn(seen: Seen, graphs: list[Graph]) -> None:
    assert set(seen["FILL", "constant operands"]) == {(True, True), (True, False)}
    made = {graph.made(op).dtype for graph in graphs for op in graph.operators if op.kind == "FILL"}
    assert made == {DType.INT8, DType.INT16}, "LiteRT has no FILL of uint8"
    rows = {constant[:2] for constant in seen["FULLY_CONNECTED", "constant operands"]}  # type: ignore[index]
    assert rows == {(False, True), (False, False), (True, True), (True, False)}


def test_tiles_are_of_the_first_version_and_of_today_s(graphs: list[Graph]) -> None:
    found = set()
    for graph in graphs:
        model = tflite.Model.GetRootAs(graph.source, 0)
        codes = [model.OperatorCodes(index) for index in range(model.OperatorCodesLength())]
        found |= {code.Version() for code in codes if code.BuiltinCode() == tflite.BuiltinOperator.TILE}
    assert found == {1, 3}


def test_integers_of_32_bits_are_gathered_along_every_axis(graphs: list[Graph]) -> None:
    """Among them a first axis with one element, several times."""
    gathers = [(graph, op) for graph in graphs for op in graph.operators if op.kind == "GATHER" and op.attrs]
    attrs = [
        (op.attributes(ir.GatherAttrs), graph.read(op).shape)
        for graph, op in gathers
        if graph.read(op).dtype is DType.INT32
    ]
    assert {(one.axis == 0, one.axis == len(shape) - 1) for one, shape in attrs} >= {(True, False), (False, True)}
    assert any(one.axis == 0 and shape[0] == 1 and len(one.indices) > 1 for one, shape in attrs)


def test_outputs_are_calibrated_to_nothing(graphs: list[Graph]) -> None:
    """Differences of a value from itself, and scales that make every value the zero point."""
    kinds = {"ADD", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "QUANTIZE"}
    itself, swallowed = set(), set()
    for graph in graphs:
        for op in graph.operators:
            ifm, ofm = ends(graph, op)
            if op.kind == "SUB" and len(set(op.inputs)) == 1:
                itself.add(ifm.dtype)
            if op.kind in kinds and ifm.quantisation and ofm.quantisation and ofm.dtype is not DType.INT32:
                is_lost = ofm.quantisation.scale >= ifm.quantisation.scale * 2.0 ** (8 * ifm.dtype.size_bytes + 1)
                swallowed |= {(op.kind, ifm.dtype)} if is_lost else set()
    assert itself == {dtype for _, dtype in swallowed} == set(QUANTISED)
    assert len({kind for kind, _ in swallowed}) > 2


def test_state_is_drawn_in_all_its_forms(graphs: list[Graph]) -> None:
    """Variables of all types, set to what was made, to an input, to another variable or never, some of them twice."""
    held = [(graph, variable) for graph in graphs for variable in graph.variables]
    assert {graph.tensors[v.before].dtype for graph, v in held} == set(ir.QUANTISED)
    assert {len(graph.tensors[v.before].shape) for graph, v in held} >= {2, 3, 4}
    befores = [{v.before for v in graph.variables} for graph in graphs]
    given = {
        "itself"
        if v.after == v.before
        else "another"
        if any(v.after in of for of in befores if v.before in of)
        else "an input"
        if v.after in graph.given
        else "a result"
        for graph, v in held
    }
    assert given >= {"itself", "another", "an input", "a result"}
    assert any(not graph.variables for graph in graphs)


@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D"])
def test_windows_are_drawn_in_all_their_forms(attributes: Seen, seen: Seen, kind: str) -> None:
    for axis in "hw":
        assert attributes[kind, f"window.kernel_{axis}"] >= {1, 2, 3, 5}
        assert attributes[kind, f"window.stride_{axis}"] >= {1, 2, 3}
        assert attributes[kind, f"window.dilation_{axis}"] >= {1, 2}
    assert seen[kind, "scales"] == seen[kind, "batch"] == {True, False}


def test_pads_of_three_dimensions_are_drawn_ahead_of_windows(graphs: list[Graph]) -> None:
    """As Keras writes a causal Conv1D: PAD, one dimension more by either operator, and a window, dilated or not."""
    found = set()
    for graph in graphs:
        makers = {t: op for op in graph.operators for t in op.outputs}
        for op in graph.operators:
            renamed = makers.get(op.input(0)) if op.kind in ("CONV_2D", "DEPTHWISE_CONV_2D") else None
            pad = makers.get(renamed.input(0)) if renamed and renamed.kind in ("EXPAND_DIMS", "RESHAPE") else None
            if pad and pad.kind == "PAD" and len(graph.read(pad).shape) == 3:
                window = op.attrs.window  # type: ignore[union-attr]
                found.add((op.kind, renamed.kind, window.dilation_h * window.dilation_w > 1))  # type: ignore[union-attr]
    assert found == set(itertools.product(("CONV_2D", "DEPTHWISE_CONV_2D"), ("EXPAND_DIMS", "RESHAPE"), (True, False)))


@pytest.mark.parametrize("kind", ["ADD", "CONCATENATION", "FULLY_CONNECTED", "QUANTIZE", "RESHAPE"])
def test_what_takes_any_shape_gets_every_rank(seen: Seen, kind: str) -> None:
    assert ranks(seen, kind) >= {1, 2, 3, 4}


@pytest.mark.parametrize("kind", ["MEAN", "PAD", "SPLIT", "SPLIT_V", "SOFTMAX", "STRIDED_SLICE"])
def test_what_goes_by_axes_gets_more_than_images(seen: Seen, kind: str) -> None:
    assert ranks(seen, kind) >= {2, 3, 4}


def test_activations_of_their_own_get_every_rank(seen: Seen) -> None:
    kinds = ("RELU", "RELU6", "RELU_N1_TO_1")
    assert set().union(*(ranks(seen, kind) for kind in kinds)) >= {1, 2, 3, 4}


def test_dense_layers_are_drawn_over_everything(seen: Seen, graphs: list[Graph]) -> None:
    kind = "FULLY_CONNECTED"
    assert seen[kind, "ranks"] >= {(4, 4), (4, 2), (3, 3), (3, 2), (2, 2), (1, 1)}
    assert seen[kind, "absent"] == seen[kind, "scales"] == seen[kind, "batch"] == {True, False}
    wide = [
        op
        for graph in graphs
        for op in graph.operators
        if op.kind == kind and getattr(op.attrs, "keep_num_dims", False) and wide_image(graph, op)
    ]
    assert len(wide) > 20


def wide_image(graph: Graph, op: Operator) -> bool:
    """Whether it makes an image wider than 1."""
    shape = graph.tensors[op.outputs[0]].shape
    return len(shape) == 4 and shape[1] > 1 and shape[2] > 1


def test_types_meet_in_all_combinations(seen: Seen) -> None:
    eight = (DType.INT8, DType.UINT8)
    assert seen["QUANTIZE", "types"] >= {(a, b) for a in (*eight, DType.FLOAT32) for b in eight}
    functions = ("ABS", "ADD", "RELU6", "SOFTMAX", "SQUARED_DIFFERENCE")
    of_all = (*functions, "CONV_2D", "AVERAGE_POOL_2D", "SPLIT", "RESIZE_NEAREST_NEIGHBOR")
    assert all(seen[kind, "types"] >= {(t, t) for t in QUANTISED} for kind in of_all)
    assert seen["QUANTIZE", "types"] >= {
        (DType.INT16, DType.INT16),
        (DType.INT16, DType.INT8),
        (DType.INT8, DType.INT16),
        (DType.UINT8, DType.INT16),
    }


def test_biases_of_int16_have_both_types(graphs: list[Graph]) -> None:
    for kind, types in (
        ("CONV_2D", {DType.INT32, DType.INT64}),
        ("FULLY_CONNECTED", {DType.INT32, DType.INT64, None}),
        ("DEPTHWISE_CONV_2D", {DType.INT32, DType.INT64, None}),
    ):
        drawn = set()
        for graph in graphs:
            for op in graph.operators:
                if op.kind == kind and graph.read(op).dtype is DType.INT16:
                    bias = op.inputs[2] if len(op.inputs) > 2 else None
                    drawn.add(None if bias is None else graph.tensors[bias].dtype)
        assert drawn == types


def test_constants_are_operands_on_either_side(seen: Seen) -> None:
    for kind in ("ADD", "MAXIMUM", "MINIMUM", "MUL", "SQUARED_DIFFERENCE", "SUB"):
        assert seen[kind, "constant operands"] >= {(False, False), (True, False), (False, True)}, kind
    assert seen["PRELU", "constant operands"] == {(False, False), (False, True)}


def test_operands_are_repeated_on_either_side_in_every_rank(graphs: list[Graph]) -> None:
    repeated, ranks_, both = set(), set(), 0
    for graph in graphs:
        for op in (op for op in graph.operators if op.kind in BINARY):
            made = graph.tensors[op.outputs[0]].shape
            both += all(math.prod(graph.tensors[t].shape) < math.prod(made) for t in op.inputs if t is not None)
            for place in (0, 1):
                shape = graph.tensors[op.input(place)].shape
                padded = (1,) * (len(made) - len(shape)) + shape
                axes = tuple(i - len(made) for i, (d, e) in enumerate(zip(padded, made, strict=True)) if d < e)
                repeated.add((place, axes[-1] if len(axes) == 1 else len(axes)))
            ranks_.add(len(made))
    assert ranks_ == {1, 2, 3, 4, 5} and both > 1
    assert repeated >= {(1, -1), *((place, how) for place in (0, 1) for how in (-2, -3, 2, 3))}


def test_networks_fork_and_have_several_ends(graphs: list[Graph]) -> None:
    def any_of(what: Callable[[Graph], bool]) -> bool:
        return any(what(graph) for graph in graphs)

    assert any_of(lambda g: len(g.inputs) > 1) and any_of(lambda g: len(g.outputs) > 2)
    assert any_of(lambda g: any(t in g.outputs for t in g.inputs))
    assert any_of(lambda g: any(t in g.outputs for op in g.operators for t in op.inputs))
    assert any_of(lambda g: any(len(readers) > 2 for readers in g.consumers().values()))
    assert any_of(lambda g: any(len(set(op.inputs)) < len(op.inputs) for op in g.operators if op.kind == "ADD"))
    points = [g.tensors[g.inputs[0]].quantisation for g in graphs]
    assert {-128, 127, 0, 255} <= {q.zero_point for q in points if q is not None}
    assert min(q.scale for q in points if q) < 1e-4 and max(q.scale for q in points if q) > 1


def test_all_activations_are_drawn_alone_too(graphs: list[Graph]) -> None:
    kinds = {op.kind for graph in graphs for op in graph.operators}
    assert {activation.name for activation in Activation} - {"NONE"} <= kinds
