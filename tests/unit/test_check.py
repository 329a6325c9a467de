"""`check`: figures without a search, and advice whose every number is what the network, changed so, makes of it."""

from __future__ import annotations

import math
from pathlib import Path

import ethoscade
import pytest
from command_line_support import RESIDUAL, Capture, resized_classifier, run, run_json, written
from ethoscade import Advice, Check
from ethoscade.ir import DType
from ethoscade.scheduling import schedule as scheduling
from ethoscade.testing import ModelBuilder, keyword_spotting, mobilenet_v1

SPOTTER = keyword_spotting()


def advice(found: Check, topic: str) -> list[Advice]:
    return [one for one in found.advice if one.topic == topic]


def convolution(channels: int, made: int = 32, kernel: int = 3, *, depthwise: bool = False) -> bytes:
    """One convolution that takes most of the cycles."""
    b = ModelBuilder("convolution")
    x = b.input((1, 32, 32, channels), name="in")
    x = b.depthwise(x, kernel, name="conv") if depthwise else b.conv2d(x, made, kernel, name="conv")
    b.max_pool(x, 2, stride=2)
    return b.build()


def engine_cycles(model: bytes) -> int:
    return next(row.engine_cycles for row in ethoscade.check(model).table.rows if "CONV" in row.kind)


def test_rows_are_those_of_the_compilation_and_add_up() -> None:
    found, compiled = ethoscade.check(resized_classifier()), ethoscade.compile(resized_classifier())
    for row, other in zip(found.table.rows, compiled.table().rows, strict=True):
        for name in ("name", "kind", "where", "reason", "macs"):
            assert getattr(row, name) == getattr(other, name)
        assert row.cascade is None
    assert sum(row.cycles for row in found.table.rows) == found.table.cycles
    assert found.npu_programs == len(compiled.timing()) == 2
    assert (found.name, found.target) == (compiled.name, compiled.target)


def test_nothing_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("search", "make_search"):
        monkeypatch.setattr(scheduling, name, lambda *_: pytest.fail("it searched"))
    found = ethoscade.check(RESIDUAL)
    assert found.sram_bytes == found.peak.live_bytes > 0
    assert ethoscade.check(RESIDUAL).advice == found.advice


@pytest.mark.parametrize("model", [RESIDUAL, SPOTTER, mobilenet_v1(0.25, 32)])
def test_no_schedule_brings_weights_faster(model: bytes) -> None:
    found, curve = ethoscade.check(model), ethoscade.frontier(model)
    assert 0 < found.weight_cycles <= curve.points[-1][1]
    assert found.sram_bytes == curve.uncascaded_bytes
    assert ethoscade.check(model, memory_mode="Sram_Only").weight_cycles == 0


def test_weights_that_take_longer_than_the_rest_are_told() -> None:
    b = ModelBuilder("dense")
    b.fully_connected(b.input((1, 512)), 512, name="wide")
    found = ethoscade.check(b.build())
    (told,) = advice(found, "bound by weights")
    assert told.operators == ("wide",) and told.cycles == found.weight_cycles > found.table.cycles
    assert f"{found.weight_cycles:,} cycles at best" in told.found and "no schedule is faster" in told.found
    assert not advice(ethoscade.check(b.build(), memory_mode="Sram_Only"), "bound by weights")


@pytest.mark.parametrize("channels", [1, 3, 7])
def test_spare_lanes_of_channels_in_cost_the_same(channels: int) -> None:
    """Up to as many channels as the advice says, and not one more."""
    found = ethoscade.check(convolution(channels))
    (told,) = advice(found, "channels")
    assert told.operators == ("conv",) and f"{channels} channel" in told.found
    assert f"({channels} become {4 * channels})" in told.change and "up to 8 channels cost about as much" in told.change
    assert engine_cycles(convolution(8)) < 1.07 * engine_cycles(convolution(channels))
    assert engine_cycles(convolution(9)) > 1.8 * engine_cycles(convolution(8))
    used = 100 * channels / 8 * 9 / 12
    assert f"uses {used:.0f} % of" in told.found
    row = next(row for row in found.table.rows if row.kind == "CONV_2D")
    assert told.cycles == row.engine_cycles - math.ceil(row.engine_cycles * channels * 9 / (8 * 12))


def test_spare_lanes_of_channels_out_cost_the_same() -> None:
    found = ethoscade.check(convolution(32, 33))
    (told,) = advice(found, "channels")
    assert (
        "33 channels out, taken 8 at a time" in told.found and told.change == "40 channels out cost about as much as 33"
    )
    assert engine_cycles(convolution(32, 40)) == pytest.approx(engine_cycles(convolution(32, 33)), rel=0.02)
    assert engine_cycles(convolution(32, 41)) > 1.05 * engine_cycles(convolution(32, 40))
    assert not advice(ethoscade.check(convolution(32, 32)), "channels"), "full lanes need no advice"


def test_a_full_convolution_costs_what_a_depthwise_one_of_eight_channels_does() -> None:
    (told,) = advice(ethoscade.check(convolution(8, depthwise=True)), "depthwise")
    assert told.operators == ("conv",)
    full, depthwise = engine_cycles(convolution(8, 8)), engine_cycles(convolution(8, depthwise=True))
    assert full < 1.15 * depthwise < engine_cycles(convolution(16, 16)) / 2
    assert not advice(ethoscade.check(convolution(16, depthwise=True)), "depthwise")


def test_operators_on_the_cpu_are_told_with_value_and_way_out() -> None:
    found = ethoscade.check(resized_classifier())
    (told,) = advice(found, "on the CPU")
    (row,) = (row for row in found.table.rows if row.where == "cpu")
    assert told.operators == (row.name,) and row.reason in told.found and "docs/support.md" in told.change
    (cut,) = advice(found, "NPU programs")
    assert cut.operators == (row.name,) and found.npu_programs == 2
    assert found.advice[:2] == (told, cut), "what is not on the NPU comes first"


def test_an_operator_at_an_end_cuts_nothing() -> None:
    b = ModelBuilder("ended")
    b.resize_nearest(b.conv2d(b.input((1, 8, 8, 4)), 4, 3), (7, 5))
    found = ethoscade.check(b.build())
    assert advice(found, "on the CPU") and not advice(found, "NPU programs") and found.npu_programs == 1


def bordered() -> bytes:
    b = ModelBuilder("bordered")
    x = b.quantize(b.input((1, 16, 16, 4), dtype=DType.FLOAT32, name="floats"))
    b.dequantize(b.conv2d(x, 4, 3))
    return b.build()


def test_float_borders_are_told_by_bytes_and_gone_with_io() -> None:
    (told,) = advice(ethoscade.check(bordered()), "float borders")
    elements = 2 * 16 * 16 * 4
    assert f"{4 * elements:,} bytes, {elements:,} if quantised" in told.found and "--io int8" in told.change
    assert f"the CPU converts {elements:,} elements" in told.found
    assert not advice(ethoscade.check(bordered()), "on the CPU"), "the borders are told once"
    assert not advice(ethoscade.check(bordered(), io="int8"), "float borders")


def test_a_last_softmax_that_costs_much_is_told() -> None:
    found = ethoscade.check(SPOTTER)
    (told,) = advice(found, "last operator")
    row = next(row for row in found.table.rows if row.kind == "SOFTMAX")
    assert told.cycles == row.cycles and f"{row.operations} operations, for 12 numbers" in told.found
    assert f"{100 * row.cycles / found.table.cycles:.1f} % of the cycles" in told.found


def test_sixteen_bits_and_moves_are_told() -> None:
    b = ModelBuilder("wide", dtype=DType.INT16)
    x = b.conv2d(b.input((1, 16, 16, 16)), 16, 3, name="conv")
    b.output(b.concatenate([x, x]))
    found = ethoscade.check(b.build())
    assert advice(found, "16 bits")[0].operators == ("conv",)
    costs = [one.cycles for one in found.advice if one.cycles]
    assert costs == sorted(costs, reverse=True)


def test_tensors_that_bound_are_told_with_their_bytes() -> None:
    b = ModelBuilder("sum")
    x = b.input((1, 32, 32, 32))
    b.add(b.conv2d(x, 32, 1, name="conv"), x, name="sum")
    found = ethoscade.check(b.build())
    (told,) = advice(found, "bound by tensors")
    rows = [row for row in found.table.rows if row.bound == "Sram"]
    assert set(told.operators) == {row.name for row in rows} and told.cycles == sum(row.cycles for row in rows)
    moved = sum(row.read_bytes["Sram"] + row.written_bytes["Sram"] for row in rows)
    assert f"{moved:,} bytes" in told.found and "needs 32 to be compute-bound" in told.found, (
        "256 MACs, 8 bytes a cycle"
    )


def test_without_an_npu_there_is_no_npu_to_advise_on() -> None:
    found = ethoscade.check(RESIDUAL, accelerator="none")
    assert {row.where for row in found.table.rows} == {"cpu"} and found.npu_programs == 0
    assert found.weight_cycles == 0


def test_the_command_prints_the_same_and_ends_well(tmp_path: Path, capfd: Capture) -> None:
    model = written(tmp_path / "net.tflite", resized_classifier())
    check = ethoscade.check(model)
    found = run_json(["check", model], capfd)
    assert [one["found"] for one in found["advice"]] == [one.found for one in check.advice]
    assert found["cycles"] == check.table.cycles and found["operators"]["cpu"] == 1
    assert [row["name"] for row in found["operator_rows"]] == [row.name for row in check.table.rows]
    status, text, _ = run(["check", model, "--operators"], capfd)
    assert status == 0
    for row in check.table.rows:
        assert f"{row.kind} '{row.name}'" in text or not row.operations
    words = " ".join(text.split())
    assert all(one.found in words and one.change in words for one in check.advice)
    assert not list(tmp_path.glob("*ethosu*")), "nothing is written"


def test_floats_inside_are_one_piece_of_advice() -> None:
    """However many kinds and tensors their reasons name; borders are not among them."""
    b = ModelBuilder("floats")
    x = b.conv2d(b.input((1, 8, 8, 4)), 4, 3, name="conv")
    y = b.float_function("SQUARE", b.dequantize(x), lambda real: real * real)
    z = b.float_function("LOG", b.dequantize(b.max_pool(x, 3, stride=1, padding="SAME")), lambda real: real + 9)
    b.output(b.quantize(y, name="first"), b.quantize(z, name="second"))
    found = ethoscade.check(b.build())
    refused = [row.name for row in found.table.rows if row.where == "cpu"]
    (told,) = advice(found, "on the CPU")
    assert list(told.operators) == refused and len(refused) > 1
    assert "1 LOG" in told.found and "full-integer quantisation" in told.change
