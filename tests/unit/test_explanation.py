"""Explanations: what they say is what the program does, added up a second time."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import ethoscade
import pytest
from command_line_support import resized_classifier
from end_to_end import network_of
from ethoscade import BudgetError, Compiled
from ethoscade.__main__ import main
from ethoscade.analysis.explanation import explain
from ethoscade.scheduling import schedule as scheduling
from ethoscade.scheduling.program import CallOperator, Stripe
from ethoscade.scheduling.schedule import Backwards, Bands, CacheRead, ComputeAt, Group, RollingBuffer, Schedule, Split
from ethoscade.testing import ModelBuilder, inception_modules, inverted_residuals, tiny_conv

MODEL = resized_classifier()


@pytest.fixture(scope="module")
def leanest() -> Compiled:
    return ethoscade.compile(MODEL, optimise="size")


def alive_bytes(compiled: Compiled, step: int) -> int:
    return sum(buffer.live_bytes(step) for buffer in compiled.program.buffers)


@pytest.mark.parametrize("model", [MODEL, tiny_conv(), inverted_residuals(), inception_modules()])
@pytest.mark.parametrize("optimise", ["size", "performance"])
def test_the_peak_is_the_largest_step(model: bytes, optimise: str) -> None:
    compiled = ethoscade.compile(model, optimise=optimise)
    explanation = compiled.explain()
    sums = [alive_bytes(compiled, step) for step in range(len(compiled.program.steps))]
    peak = explanation.peak
    assert peak.live_bytes == max(sums) == sums[peak.step] <= explanation.arena_bytes == compiled.sram_bytes
    assert explanation.steps == len(sums)
    assert max(group.peak.live_bytes for group in explanation.groups) == peak.live_bytes
    for one in (peak, *(group.peak for group in explanation.groups)):
        assert sum(buffer.live_bytes for buffer in one.alive) == one.live_bytes == sums[one.step]
        assert list(one.alive) == sorted(one.alive, key=lambda buffer: -buffer.live_bytes)
        assert one.operator in {op.name for op in compiled.operators}


@pytest.mark.parametrize("optimise", ["size", "performance"])
def test_temporaries_have_names(optimise: str) -> None:
    builder = ModelBuilder("resized")
    x = builder.conv2d(builder.input((1, 9, 8, 3)), 16, 3)
    builder.conv2d(builder.resize_nearest(x, (36, 32), name="larger"), 4, 3)
    compiled = ethoscade.compile(builder.build(), optimise=optimise)
    explanation = compiled.explain()
    named = {buffer.name for group in explanation.groups for buffer in group.buffers}
    assert "temporary 1 of 'larger'" in named and all(named)
    assert "temporary 1 of 'larger'" in str(explanation) or not any(group.cascade for group in explanation.groups)
    assert any("temporary 1 of 'larger'" in buffer.name for buffer in compiled.program.buffers)


@pytest.mark.parametrize("optimise", ["size", "performance"])
def test_a_concatenation_is_one_operator_of_several_operations(optimise: str) -> None:
    compiled = ethoscade.compile(inception_modules(modules=1), optimise=optimise)
    explained = [operator for group in compiled.explain().groups for operator in group.operators]
    (joint,) = (operator for operator in explained if operator.kind == "CONCATENATION + CONV_2D")
    index = next(i for i, op in enumerate(compiled.artifact.graph.operators) if op.kind == "CONCATENATION")
    steps = [
        s
        for s in compiled.program.steps
        if isinstance(s, Stripe) and compiled.npu.operations[s.stage].operator == index
    ]
    assert joint.operations == len(steps) >= 3
    assert joint.recomputed == 0 and joint.stripe[2] == 16 and joint.weights != "none"


def test_the_runner_up_is_in_another_group(leanest: Compiled) -> None:
    explanation = leanest.explain()
    steps = [group.peak.step for group in explanation.groups]
    assert explanation.elsewhere is not None and explanation.elsewhere.step in set(steps) - {explanation.peak.step}
    others = [group.peak.live_bytes for group in explanation.groups if group.peak.step != explanation.peak.step]
    assert explanation.elsewhere.live_bytes == max(others)


def test_groups_are_the_schedules(leanest: Compiled) -> None:
    explanation = leanest.explain()
    assert [group.cascade for group in explanation.groups if group.cascade] == list(range(1, leanest.cascades + 1))
    operations = [op for group in explanation.groups for op in group.operators]
    assert len(operations) == len(leanest.problem.parts)
    assert sum(op.operations for op in operations) == sum(isinstance(s, Stripe) for s in leanest.program.steps)
    calls = sum(isinstance(s, CallOperator) for s in leanest.program.steps)
    assert sum(op.operations == 0 for op in operations) == calls == 1
    for group in explanation.groups:
        rolling = [buffer for buffer in group.buffers if buffer.kind == "rolling"]
        assert len(rolling) == sum(op.output == "rolling" for op in group.operators)
        assert not rolling or group.cascade is not None


def test_decisions_of_a_schedule_by_hand() -> None:
    """Two 3x3 convolutions in two bands: stripes, the band's overlap made twice, rolling and staged."""
    network = network_of(tiny_conv())
    parts = network.problem.specs
    decisions = (
        Bands(1, "width", 2),
        Split(0, "height", 2),
        ComputeAt(0, 1, "height"),
        RollingBuffer(0, "height"),
        CacheRead(0),
        Split(1, "height", 1),
    )
    assert len(parts) == 2
    schedule = Schedule((Group(0, 1, decisions),))
    arranged = scheduling.arrange(network.problem, schedule)
    (group,) = explain(network.graph, network.npu, network.problem, schedule, arranged).groups
    program = arranged.program
    first, last = group.operators
    made = [step.output for step in program.steps if isinstance(step, Stripe) and step.stage == 0]
    pixels = sum((box.y1 - box.y0) * (box.x1 - box.x0) for box in made)
    height, width, depth = network.npu.operations[0].ofm.shape
    assert (group.cascade, group.axis, group.bands) == (1, "height", 2)
    assert first.stripe == (2, max(box.x1 - box.x0 for box in made), depth)
    assert first.recomputed == pixels - height * width > 0
    assert (first.output, first.weights, last.output, last.weights) == ("rolling", "staged", "whole", "in place")
    assert first.held == (made[0].rows, made[0].columns)
    assert last.stripe[0] == 1 and last.recomputed == 0
    assert {buffer.kind for buffer in group.buffers} == {"tensor", "rolling", "weights"}


def test_rows_that_are_joined_in_vain_are_not_told() -> None:
    """Of two unequal images one above the other the network goes on with the first, and with half of it."""
    b = ModelBuilder("half")
    first = b.conv2d(b.input((1, 8, 6, 8)), 8, 3, name="first")
    second = b.quantize(b.depthwise(first, 3, stride=2, name="second"), first.quantisation)
    second = b.resize_nearest(second, (8, 6))
    joined = b.concatenate([first, b.split(second, (3, 5), axis=1)[0]], axis=1, name="joined")
    b.output(b.conv2d(b.split(joined, (4, 7), axis=1)[0], 8, 3))
    for optimise in ("size", "performance"):
        compiled = ethoscade.compile(b.build(), optimise=optimise)
        explanation = compiled.explain()
        told = {operator.name: operator for group in explanation.groups for operator in group.operators}
        made = {compiled.npu.operations[s.stage].name for s in compiled.program.steps if isinstance(s, Stripe)}
        assert set(told) == made and all(operator.recomputed >= 0 for operator in told.values())
        assert sum(op.operations for op in told.values()) == sum(isinstance(s, Stripe) for s in compiled.program.steps)
    assert "second" not in told and told["joined"].recomputed == told["first"].recomputed == 0


@pytest.mark.parametrize("backwards", [True, False])
def test_the_direction_of_stripes_is_told(backwards: bool) -> None:
    network = network_of(tiny_conv())
    turn = (Backwards(0, "height"),) if backwards else ()
    groups = (Group(0, 0, (*turn, Split(0, "height", 2))), Group(1, 1, (Split(1, "height", 2),)))
    schedule = Schedule(groups)
    arranged = scheduling.arrange(network.problem, schedule)
    program = arranged.program
    made = [step.output.y0 for step in program.steps if isinstance(step, Stripe) and step.stage == 0]
    assert made == sorted(made, reverse=backwards)
    explanation = explain(network.graph, network.npu, network.problem, schedule, arranged)
    assert [group.backwards for group in explanation.groups] == [backwards, False]
    assert str(explanation).count("from the far end on") == backwards


def test_a_refusal_lists_what_is_alive(leanest: Compiled) -> None:
    with pytest.raises(BudgetError) as caught:
        ethoscade.compile(MODEL, sram=16)
    error, peak = caught.value, leanest.explain().peak
    assert (error.floor_bytes, error.operator, error.alive) == (leanest.sram_bytes, peak.operator, peak.alive)


def test_text_names_everything(leanest: Compiled) -> None:
    explanation = leanest.explain()
    text = str(explanation)
    for group in explanation.groups:
        for operator in group.operators:
            assert f"'{operator.name.split(';')[0]}" in text
        for buffer in group.peak.alive if group.cascade else ():
            assert f"{buffer.live_bytes:,} bytes" in text
    assert f"{explanation.arena_bytes:,} bytes" in text and f"step {explanation.peak.step} of" in text


def test_the_command_line_explains(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model.tflite"
    model.write_bytes(MODEL)
    command = ["compile", str(model), "-o", str(tmp_path), "--explain"]
    explanation = ethoscade.compile(MODEL, optimise="size").explain()
    assert main([*command, "--optimise", "size"]) == 0
    assert str(explanation) in capfd.readouterr().out
    assert main([*command, "--optimise", "size", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)["explanation"]
    assert found == json.loads(json.dumps(dataclasses.asdict(explanation)))
    assert main([*command, "--sram", "16"]) == 1
    out, err = capfd.readouterr()
    assert err.count("\n") == 1
    assert out.splitlines()[0].startswith("alive at operator")
    assert len(out.splitlines()) == 1 + len(explanation.peak.alive)
    assert main([*command, "--sram", "16", "--json"]) == 1
    found = json.loads(capfd.readouterr().out)
    assert found["alive"] == [dataclasses.asdict(buffer) for buffer in explanation.peak.alive]
