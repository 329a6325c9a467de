"""Operators on the CPU: estimated on a described core, or said to be not counted, in every place; and the floor's."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import ethoscade
import pytest
from command_line_support import Capture, one_sentence, resized_classifier, run, run_json, written
from ethoscade import BudgetError, Compiled, ConfigError
from ethoscade.analysis.cpu_time import cpu_time_of
from ethoscade.ir.operators import OPERATORS
from ethoscade.targets.cpus import CLASSES, CPUS, INSTRUCTIONS, MEASURED, described
from ethoscade.testing import ModelBuilder, tiny_conv

PAGE = (Path(__file__).parents[2] / "docs" / "cpu-time.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    found = ethoscade.compile(resized_classifier())
    assert [op.kind for op in found.cpu_operators] == ["RESIZE_NEAREST_NEIGHBOR"]
    return found


def test_every_operator_that_is_known_has_a_class() -> None:
    assert not set(OPERATORS) - set(CLASSES)
    assert set(MEASURED) <= set(CLASSES)
    assert set(CLASSES.values()) == set(INSTRUCTIONS)
    for ranges in (INSTRUCTIONS, MEASURED):
        assert all(0 <= least <= most and most > 0 for least, most in ranges.values())
    for name, cpu in CPUS.items():
        assert name == cpu.name and cpu.source and cpu.kernels == "cmsis-nn" and cpu.clock_hz is None
        for least, most in (cpu.cycles_per_mac, cpu.cycles_per_instruction):
            assert 0 < least < most


def test_a_class_spans_what_was_measured_of_it() -> None:
    for kind, (least, most) in MEASURED.items():
        bounds = INSTRUCTIONS[CLASSES[kind]]
        assert bounds[0] <= least and most <= bounds[1], kind


def test_the_page_has_the_figures() -> None:
    """Measured instructions, and cycles for each multiply-accumulate that lie in the ranges of their cores."""
    cells = re.findall(r"\| ([A-Z_0-9]+) \| ([\d.]+) to ([\d.]+) ", PAGE)
    assert {kind: (float(least), float(most)) for kind, least, most in cells} == dict(MEASURED)
    core, seen = "", {}
    for line in PAGE.splitlines():
        row = [cell.strip() for cell in line.strip("|").split("|")]
        if len(row) == 7 and re.fullmatch(r"[\d.]+", row[3]):
            core = row[0].lower() or core
            seen.setdefault(core, []).extend(map(float, row[3:]))
    assert set(seen) == set(CPUS) - {"cortex-m55"}
    for name, cycles in seen.items():
        least, most = CPUS[name].cycles_per_mac
        assert least <= min(cycles) < 1.1 * least and most * 0.95 < max(cycles) <= most, name


def test_names_of_cores() -> None:
    assert described("cortex-m7") == CPUS["cortex-m7"]
    assert described("cortex-m4/plain@64MHz") == replace(CPUS["cortex-m4"], kernels="plain", clock_hz=64e6)
    assert described("cortex-m85@1.5GHz").clock_hz == 1.5e9


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("cortex-m3", "cortex-m55"),
        ("", "no description"),
        ("cortex-m55@", "no description"),
        ("cortex-m55/fast", "cmsis-nn or plain"),
        ("cortex-m55@0MHz", "1 Hz"),
        ("cortex-m55@9999GHz", "1 Hz"),
        ("cortex-m55@1.2.3MHz", "1 Hz"),
    ],
)
def test_cores_that_there_are_not_are_refused(text: str, why: str, tmp_path: Path, capfd: Capture) -> None:
    with pytest.raises(ConfigError, match=why):
        described(text)
    model = written(tmp_path / "net.tflite", tiny_conv())
    status, _, err = run(["compile", model, "-o", str(tmp_path / "out"), "--cpu", text], capfd)
    one_sentence(err)
    assert status == 1 and not (tmp_path / "out").exists()


def test_an_element_costs_its_kind_s_instructions(compiled: Compiled) -> None:
    """The largest tensor counts: 7 x 5 x 16 made of 8 x 8 x 16."""
    found = compiled.cpu_time("cortex-m55@100MHz")
    (resized,), cpu = found.operators, CPUS["cortex-m55"]
    least, most = MEASURED["RESIZE_NEAREST_NEIGHBOR"]
    elements = 8 * 8 * 16
    assert resized.least_cycles == int(elements * least * cpu.cycles_per_instruction[0])
    assert resized.most_cycles == -int(-elements * most * cpu.cycles_per_instruction[1] // 1)
    assert found.milliseconds == (resized.least_cycles / 1e5, resized.most_cycles / 1e5)
    assert found.not_counted == ()
    by_default = compiled.cpu_time("cortex-m55")
    assert by_default.clock_hz == compiled.target.core_clock_hz


def test_a_multiply_accumulate_costs_what_the_kernels_take() -> None:
    compiled = ethoscade.compile(tiny_conv(), accelerator="none")
    macs = sum(op.macs for op in compiled.operators)
    for name, cpu in CPUS.items():
        fast, plain = (compiled.cpu_time(f"{name}{kernels}@1MHz").milliseconds for kernels in ("", "/plain"))
        assert fast is not None and plain is not None
        assert fast == pytest.approx([macs * cycles / 1000 for cycles in cpu.cycles_per_mac], abs=0.01)
        for end in (0, 1):
            expected = macs * MEASURED["CONV_2D"][end] * cpu.cycles_per_instruction[end] / 1000
            assert plain[end] == pytest.approx(expected, abs=0.01)
    with pytest.raises(ConfigError, match="cortex-m55@400MHz"):
        compiled.cpu_time("cortex-m55")


def test_what_nobody_knows_is_named_and_not_zero(compiled: Compiled) -> None:
    unknown = [replace(op, kind="CUSTOM") if op.where == "cpu" else op for op in compiled.operators]
    found = cpu_time_of(compiled.artifact.graph, unknown, compiled.target, "cortex-m55")
    assert [of.kind for of in found.not_counted] == ["CUSTOM"] and found.milliseconds is None
    without = compiled.cpu_time()
    assert (without.cpu, without.milliseconds, len(without.not_counted)) == (None, None, 1)


def test_the_report_counts_or_says_that_it_does_not(compiled: Compiled, tmp_path: Path, capfd: Capture) -> None:
    model = written(tmp_path / "net.tflite", resized_classifier())
    out = ["-o", str(tmp_path / "out")]
    _, text, _ = run(["compile", model, *out], capfd)
    assert "  without           CPU operators not counted (1: RESIZE" not in text
    assert "  without           CPU operator not counted (1: RESIZE_NEAREST_NEIGHBOR); --cpu cortex-m55" in text
    found = run_json(["compile", model, *out], capfd)["cpu_time"]
    assert (found["milliseconds"], [of["kind"] for of in found["not_counted"]]) == (None, ["RESIZE_NEAREST_NEIGHBOR"])
    table = tmp_path / "rows.csv"
    told = ["--cpu", "cortex-m4@100MHz", "--csv", str(table)]
    _, text, _ = run(["compile", model, *out, *told], capfd)
    time = compiled.cpu_time("cortex-m4@100MHz")
    assert time.milliseconds is not None
    least, most = time.milliseconds
    assert f"NPU {compiled.milliseconds:,.3f} ms + CPU about {least:,.3f} to {most:,.3f} ms, on a cortex-m4 at" in text
    assert "not counted" not in text
    found = run_json(["compile", model, *out, *told], capfd)["cpu_time"]
    assert (found["cpu"], found["milliseconds"], found["not_counted"]) == ("cortex-m4", [least, most], [])
    cells = {row["Target"]: row for row in csv.DictReader(table.open(encoding="utf-8"))}
    assert (cells["NPU"]["CPU Cycles Least"], cells["NPU"]["CPU Cycles Most"]) == ("", "")
    assert int(cells["CPU"]["CPU Cycles Most"]) == time.operators[0].most_cycles


def test_a_floor_that_the_cpu_sets_is_told_as_that(tmp_path: Path, capfd: Capture) -> None:
    b = ModelBuilder("floored")
    b.conv2d(b.resize_nearest(b.conv2d(b.input((1, 4, 4, 4)), 8, 1), (31, 29), name="resized"), 4, 3, stride=8)
    model = written(tmp_path / "net.tflite", b.build())
    compiled = ethoscade.compile(model)
    assert (compiled.floor.kind, compiled.floor.on_cpu) == ("RESIZE_NEAREST_NEIGHBOR", True)
    _, text, _ = run(["compile", model, "-o", str(tmp_path / "out")], capfd)
    where = f"'{compiled.floor.operator}', RESIZE_NEAREST_NEIGHBOR on the CPU, which needs its tensors whole"
    assert f"  largest at        {where}: {compiled.floor.by_kind()}\n" in text
    found = run_json(["compile", model, "-o", str(tmp_path / "out")], capfd)["floor_set_by"]
    assert (found["kind"], found["on_cpu"], found["operator"]) == (compiled.floor.kind, True, compiled.floor.operator)
    with pytest.raises(BudgetError, match=re.escape(f"at operator {where} (")):
        ethoscade.compile(model, sram=compiled.curve.floor_bytes - 16)


def test_a_floor_that_the_npu_sets_names_its_operator() -> None:
    compiled = ethoscade.compile(tiny_conv())
    leanest = ethoscade.compile(tiny_conv(), optimise="size")
    assert compiled.floor == leanest.floor == leanest.explain().peak and not compiled.floor.on_cpu
    with pytest.raises(BudgetError, match=re.escape(f"at operator '{compiled.floor.operator}' (")):
        ethoscade.compile(tiny_conv(), sram=16)
