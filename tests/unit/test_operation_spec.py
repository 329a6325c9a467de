"""NPU operations as the core takes them: every kind and figure, and what it refuses by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ethoscade import SchedulingError, _core
from ethoscade.lowering.te import Access, Axis, Compute, Propagator, index, propagator
from ethoscade.scheduling.specs import InputSpec, OperationSpec, PartSpec, TensorSpec
from ethoscade.targets.target import load_target

TARGET = load_target("ethos-u55-128")

POINT = OperationSpec(
    kind="average_pool",
    kernel=(1, 1),
    stride=(1, 1),
    dilation=(1, 1),
    ifm_depth=16,
    ofm_depth=16,
    clamped=False,
    part_kernel=False,
    block_depth=16,
    constant_bytes=0,
)


def doubling(divisor: int = 2) -> Propagator:
    """Reads row h // 2 and column w // 2."""
    axes = (Axis("n", 1), Axis("h", 8), Axis("w", 8), Axis("c", 16))
    read = Access(0, (index(n=1), index(h=1), index(w=1), index(c=1)), (1, 4, 4, 16))
    derived = propagator(Compute("doubled", axes, (), (read,)), read)
    return replace(derived, denominators=(1, divisor, divisor, 1))


def chain(*operations: OperationSpec, doubled: int | None = None) -> tuple[list[TensorSpec], list[PartSpec]]:
    """Operations one after the other on 4x4 pixels, 8x8 from that on which is `doubled`."""
    tensors = [TensorSpec("input", (4, 4), 16, "NHWC", True, False)]
    parts = []
    for number, operation in enumerate(operations):
        side = 4 if doubled is None or number < doubled else 8
        tensors.append(TensorSpec(f"t{number}", (side, side), 16, "NHWC", False, number + 1 == len(operations)))
        before = tensors[number]
        read = InputSpec(number, doubling(2 if number == doubled else 1), before.plane, before.pixel_bytes)
        parts.append(PartSpec(f"p{number}", (read,), (number + 1,), operation))
    return tensors, parts


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "pool"}, "unknown kind of operation 'pool'; choose one of convolution, .*, shl"),
        ({"upscale": "cubic"}, "unknown upscale 'cubic'; choose one of none, nearest, zeros"),
        ({"function": "relu"}, "unknown function 'relu'; choose one of table, clamp, tanh, sigmoid"),
        ({"scaling": "all"}, "unknown scaling 'all'"),
        ({"rounding": "up"}, "unknown rounding 'up'"),
        ({"ifm2": "maps"}, "unknown ifm2 'maps'; known are none, scalar, map, constant"),
        ({"ifm_bits": 4}, "ifm_bits is 4; elements have 8, 16 or 32 bits"),
        ({"ofm_bits": 64}, "ofm_bits is 64"),
        ({"kernel": (0, 1)}, "at least 1"),
        ({"accumulator_bits": 48}, "accumulator_bits is 48; it may be 32 or 40"),
        ({"function": "table"}, "the function is 'table' and table is None"),
        ({"function": "table", "table": 0, "table_bytes": 512}, "table_bytes is 512; tables have 256, 1024 or 2048"),
        ({"table": 3}, "table is 3 and the function 'clamp', which has none"),
        ({"ifm2": "map"}, "average_pool: the second operand is .*; it needs none"),
        ({"kind": "mul"}, "mul: the second operand is None; it needs a map, a constant or a scalar"),
        ({"kind": "mul", "ifm2": "scalar", "broadcast": (True, False, False)}, "only a map is repeated"),
        (
            {"kind": "mul", "ifm2": "constant", "ifm2_layout": "NHWCB"},
            "unknown layout 'NHWCB'; choose one of NHWC, NHCWB16",
        ),
        (
            {"kind": "mul", "ifm2": "constant", "ifm2_layout": "NHCWB16", "broadcast": (False, False, True)},
            r"a constant of 16 channels, repeated \[false, false, true\], has no bricks",
        ),
        (
            {"kind": "mul", "ifm2": "constant", "constant_bytes": 240},
            r"reads a constant of \[4, 4\] pixels, 256 bytes, and has 240 of constants",
        ),
        ({"kind": "abs", "kernel": (3, 3)}, "abs: kernel, stride and dilation of an element-wise operation are 1"),
        ({"kind": "sum_over_depth"}, "sum_over_depth: it makes 1 channel, not 16"),
        ({"scaling": "per_channel"}, "scaling is PerChannel; it is per channel where there are weights"),
        ({"scaling": "operands"}, "only the operands of add and sub are scaled"),
        ({"kind": "convolution", "scaling": "per_channel", "ifm_bits": 32}, "an input of 32 bits has no weights"),
        ({"ofm_bits": 16}, "NPU part 'p0' writes 16 channels of 16 bits to 't0', whose pixels have 16 bytes"),
        ({"ifm_bits": 16}, "reads channels 0 to 16 of 16 bits of 'input', whose pixels have 16 bytes"),
        ({"upscale": "nearest"}, "divides rows and columns of 'input' by .1, 1. and not by 2"),
        ({"kind": "add", "ifm2": "map"}, "NPU part 'p0' has 1 inputs; its kernel reads 2"),
    ],
)
def test_what_cannot_be_is_refused_by_name(changes: dict[str, Any], message: str) -> None:
    tensors, parts = chain(replace(POINT, **changes))
    with pytest.raises(SchedulingError, match=message):
        _core.CascaderGraph(tensors, parts, TARGET)


def test_propagators_divide_by_at_least_one() -> None:
    tensors, parts = chain(POINT)
    read = replace(parts[0].inputs[0], propagator=doubling(0))
    with pytest.raises(SchedulingError, match=r"denominators of a propagator are at least 1, not \[1, 0, 0, 1\]"):
        _core.CascaderGraph(tensors, [replace(parts[0], inputs=(read,))], TARGET)


@pytest.mark.parametrize(("first", "rows"), [(0, [0, 1]), (1, [0, 1]), (2, [1, 2]), (3, [1, 2])])
def test_divided_rows_are_rounded_down_at_both_ends(first: int, rows: list[int]) -> None:
    shape, start = _core.propagate(doubling(), (1, 3, 2, 16), (0, first, 0, 0))
    assert list(range(start[1], start[1] + shape[1])) == rows


def test_a_doubled_chain_that_looks_results_up_is_planned_and_proved() -> None:
    looked_up = replace(POINT, function="table", table=0, table_bytes=256)
    tensors, parts = chain(POINT, replace(POINT, upscale="nearest"), looked_up, doubled=1)
    graph = _core.CascaderGraph(tensors, parts, TARGET)
    for proposal in _core.Search(graph).frontier().proposals:
        _core.check_plans(graph, proposal)


BINARY = ("mul", "add", "sub", "minimum", "maximum", "shr", "shl")


@pytest.mark.parametrize("kind", [*BINARY, "leaky_relu", "abs", "clz", "average_pool", "max_pool"])
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_every_kind_has_a_block_and_a_floor(kind: str, bits: int) -> None:
    spec = replace(POINT, kind=kind, ifm_bits=bits, ofm_bits=bits, ifm_depth=4, ofm_depth=4)
    spec = replace(spec, ifm2="scalar" if kind in BINARY else "none", ifm2_bits=bits)
    assert _core.choose_weight_encoding(TARGET, spec, (8, 8), ("NHWC", "NHWC")) is not None
    graph = _core.CascaderGraph(*chain(spec), TARGET)
    floor = _core.part_floor(graph, 0)
    assert floor is not None
    assert floor.in_one_piece > 0
