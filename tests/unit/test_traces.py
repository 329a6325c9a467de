"""Traces of whole networks: every operation in its lane at its time, and counters that are what the arena held."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import ethoscade
import pytest
from codegen_support import vela_files
from command_line_support import RESIDUAL, Capture, one_sentence, resized_classifier, run, run_json, written
from ethoscade import Compiled, ConfigError
from ethoscade.frontend import read_tflite
from ethoscade.judge.verification import random_inputs
from ethoscade.pipeline.recording import record_compiled
from ethoscade.run.execution import run_tflite, sram_touched
from ethoscade.run.timing import simulate_timing
from ethoscade.targets.target import load_target
from ethoscade.testing import inverted_residuals, mobilenet_v1
from ethoscade.trace.files import record_file, target_of, time_file
from ethoscade.trace.operators import cascades_of, told_by_stream
from ethoscade.trace.perfetto import microseconds, trace
from ethoscade.trace.record import Live, Record, RecordedCpu, RecordedOperation
from hypothesis import given
from hypothesis import strategies as st
from streams import Stream
from trace_support import (
    Event,
    check_format,
    counters_of,
    end_of,
    lanes_of,
    nanoseconds,
    processes_of,
    recorded,
    tables_of,
)

ALONE = "operators of the NPU"


@pytest.fixture(scope="module", params=["size", "performance"])
def compiled(request: pytest.FixtureRequest) -> Compiled:
    """A network with cascades, copies and an operator on the CPU between two NPU calls."""
    return ethoscade.compile(resized_classifier(), optimise=request.param)


@pytest.fixture(scope="module")
def cascaded() -> Compiled:
    """Deep cascades with rolling buffers."""
    return ethoscade.compile(mobilenet_v1(alpha=0.25, resolution=64), optimise="size")


def of_file(data: bytes, **system: str) -> Record:
    graph = read_tflite(data)
    return record_file(graph, time_file(graph, **system), target_of(graph, **system))


def saved(compiled: Compiled, folder: Path) -> bytes:
    return compiled.save(folder / "net.tflite").read_bytes()


def operations_of(record: Record) -> list[RecordedOperation]:
    return [operation for call in record.npu_calls for operation in call.operations]


def origins(record: Record, operation: RecordedOperation) -> list[tuple[int, int | str]]:
    """Who made what it reads, tensors of the caller's by name: a file numbers them anew."""
    of = operation.makers
    return [(o.call, record.inputs[o.operation] if o.call < 0 else o.operation) for o in of]


def kernels(events: list[Event]) -> list[tuple[str, float, float]]:
    return sorted((event["name"], event["ts"], event["dur"]) for event in events)


def most(found: dict[str, Any], counter: str) -> int:
    return max(int(event["args"]["bytes"]) for event in counters_of(found, counter))


def test_lanes_hold_every_kernel_once_and_add_up(compiled: Compiled, cascaded: Compiled) -> None:
    for one in (compiled, cascaded):
        record = one.record()
        found = trace(record)
        check_format(found)
        processes = processes_of(found)
        lanes = lanes_of(found)
        cascades = {name: of for name, of in processes.items() if name.startswith("cascade ")}
        assert len(cascades) == one.cascades
        own = [event for of in (*cascades.values(), processes.get(ALONE, {})) for e in of.values() for event in e]
        assert kernels(own) == kernels(lanes["compute"])
        reports = [report for _, report in one.timing()]
        assert found["otherData"]["cycles"] == sum(report.cycles for report in reports)
        running = sum(event["args"]["cycles"] for event in lanes["compute"])
        assert running + sum(report.waiting_cycles for report in reports) == found["otherData"]["cycles"]
        assert sum(event["args"]["cycles"] for event in lanes["DMA"]) == sum(report.dma_cycles for report in reports)
        for memory in reports[0].memories:
            read = sum(e["args"][f"{memory} bytes read"] for e in (*lanes["compute"], *lanes["DMA"]))
            assert read == sum(r.memories[memory].read_bytes - r.memories[memory].command_bytes for r in reports)
        assert {event["args"]["bound"] for event in lanes["compute"]} == {
            what for report in reports for what, cycles in report.bound_cycles.items() if what != "waiting"
        }


def test_a_cascade_is_its_operators_and_their_rows(cascaded: Compiled) -> None:
    """Lanes of a cascade are named after its operators, and the rows of their slices are all of their output's."""
    processes = processes_of(trace(cascaded.record()))
    groups = [group for group in cascaded.explain().groups if group.cascade is not None]
    assert groups
    cut = 0
    for group in groups:
        (lanes,) = (of for name, of in processes.items() if name.startswith(f"cascade {group.cascade}: "))
        assert [len(slices) for slices in lanes.values()] == [operator.operations for operator in group.operators]
        for operator, (name, slices) in zip(group.operators, lanes.items(), strict=True):
            assert name in operator.name.split(";") or name == operator.name
            tensors = {cascaded.artifact.graph.tensors[op.outputs[0]].shape for op in cascaded.artifact.graph.operators
                       if op.name == operator.name}  # fmt: skip
            ((_, height, _, _),) = tensors
            made: set[int] = set()
            for event in slices:
                rows = re.fullmatch(rf"{re.escape(name)} rows? (\d+)(?: to (\d+))?", event["name"])
                if rows is None:
                    assert event["name"] == name
                    made |= set(range(height))
                    continue
                first, last = int(rows[1]), int(rows[2] or rows[1])
                assert event["args"]["ofm"].split("x")[0] == str(last - first + 1)
                made |= set(range(first, last + 1))
                cut += 1
            assert made == set(range(height))
    assert cut > 10


def test_counters_are_the_arena(compiled: Compiled, cascaded: Compiled) -> None:
    for one in (compiled, cascaded):
        record = one.record()
        found = trace(record)
        touched = one.simulate(random_inputs(one.source, 0)).arena_touched_bytes
        assert most(found, "Sram live bytes") == one.live_bytes
        assert -(-most(found, "Sram highest byte in use") // 16) * 16 == touched == one.pools["arena"]
        kinds = {event["ts"]: event["args"] for event in counters_of(found, "Sram live bytes by kind")}
        for event in counters_of(found, "Sram live bytes"):
            assert sum(kinds[event["ts"]].values()) == event["args"]["bytes"]
        steps = [step for call in record.calls for step in getattr(call, "operations", [call])]
        assert len(steps) == len(one.program.steps)
        for at, step in enumerate(steps):
            held = sum(buffer.live_bytes(at) for buffer in one.program.buffers)
            # Buffers hold rows that are dead already, and the rests of 16 bytes.
            assert 0 < step.live["Sram"].bytes <= held == sum(step.buffers.values()) <= one.pools["arena"]
            assert step.live["Sram"].end <= one.pools["arena"]


def test_a_file_tells_the_same_story(compiled: Compiled, cascaded: Compiled, tmp_path: Path) -> None:
    """What is found from a file's streams alone is what the compilation knows."""
    for one in (compiled, cascaded):
        told, found = one.record(), of_file(saved(one, tmp_path))
        check_format(trace(found))
        assert (found.cycles, found.clock_hz) == (told.cycles, told.clock_hz)
        for a, b in zip(operations_of(told), operations_of(found), strict=True):
            assert (a.timed, a.offset, a.operator, a.serves) == (b.timed, b.offset, b.operator, b.serves)
            assert a.live == b.live and origins(told, a) == origins(found, b)
            assert a.cascade == b.cascade or a.timed.kernel is None
        assert most(trace(found), "Sram live bytes") <= one.live_bytes


def test_makers_are_who_the_network_says(compiled: Compiled) -> None:
    """The operators that kernels read from are those that make their operator's inputs."""
    record, graph = compiled.record(), compiled.artifact.graph
    made = {t: op.name for op in graph.operators for t in op.outputs}
    reads = {op.name: {made.get(t) for t in op.inputs if t is not None} for op in graph.operators}
    of_brought = {graph.tensors[t].name for t in graph.inputs}
    names = {op.name.split(";")[0]: op.name for op in graph.operators}
    joined = 0
    for number, call in enumerate(record.calls):
        for step in getattr(call, "operations", [call]):
            if isinstance(step, RecordedOperation) and step.timed.kernel is None:
                assert step.makers == ()
                continue
            reader = names[step.operator if isinstance(step, RecordedOperation) else step.name]
            for origin in step.makers:
                if origin.call < 0:
                    assert record.inputs[origin.operation] in of_brought and None in reads[reader]
                    continue
                source = record.calls[origin.call]
                if isinstance(source, RecordedCpu):
                    assert source.name in reads[reader]
                elif source.operations[origin.operation].timed.kernel is not None:
                    maker = names[source.operations[origin.operation].operator]
                    assert maker == reader or maker in reads[reader]
                    joined += origin.call != number
                else:
                    assert names[source.operations[origin.operation].operator] == reader
    assert joined
    ((name, makers),) = record.outputs
    assert name == graph.tensors[graph.outputs[0]].name and makers


def test_cpu_operators_take_no_time_that_nobody_knows(compiled: Compiled) -> None:
    found = trace(compiled.record())
    lanes = lanes_of(found)
    on_cpu = [op.name for op in compiled.operators if op.where == "cpu"]
    assert [event["name"] for event in lanes["operators"]] == on_cpu and on_cpu
    assert all(event["ph"] == "i" and event["args"]["time"] == "not counted" for event in lanes["operators"])
    reports, parts = compiled.timing(), (compiled.npu, compiled.problem, compiled.schedule, compiled.program)
    estimates = {i: 7.25 for i, op in enumerate(compiled.artifact.graph.operators) if op.name == on_cpu[0]}
    slower = trace(record_compiled(compiled.artifact, compiled.target, *parts, reports, estimates))
    check_format(slower)
    first, *_ = lanes_of(slower)["operators"]
    assert (first["ph"], first["dur"], first["args"]["time"]) == ("X", 7.25, "estimated")
    last, later = lanes["compute"][-1], lanes_of(slower)["compute"][-1]
    assert nanoseconds(later["ts"]) - nanoseconds(last["ts"]) == 7250
    assert "not counted" in found["otherData"]["cpu_operators"]


def test_cpu_operators_take_the_middle_of_their_estimate(compiled: Compiled) -> None:
    core = "cortex-m55@400MHz"
    (time,) = compiled.cpu_time(core).operators
    assert time.least_cycles is not None and time.most_cycles is not None
    (event,) = lanes_of(trace(compiled.record(core)))["operators"]
    assert (event["name"], event["args"]["time"]) == (time.name, "estimated")
    assert event["dur"] == pytest.approx((time.least_cycles + time.most_cycles) / 2 / 400, abs=1e-3)


@given(st.integers(0, 10**15))
def test_times_are_read_as_they_were_meant(time: int) -> None:
    assert nanoseconds(microseconds(time)) == time and abs(microseconds(time) - time / 1000) <= 1e-9 * time


@pytest.mark.parametrize(("clock", "system"), [(5e8, "Ethos_U55_High_End_Embedded"), (2e8, "Ethos_U55_Deep_Embedded")])
def test_time_is_cycles_at_the_clock(clock: float, system: str) -> None:
    target = load_target("ethos-u55-256", system, "Shared_Sram")
    assert target.core_clock_hz == clock
    payload = Stream().max_pool(16).max_pool(32).payload()
    report = simulate_timing(payload, target)
    events = lanes_of(trace(recorded(target, ("call", payload, report))))["front end"]
    assert end_of(events[0]) == report.cycles * 1e9 / clock


def test_slices_touch_at_clocks_that_divide_no_second(tmp_path: Path) -> None:
    """At 333 MHz no cycle is a whole number of nanoseconds."""
    config = tmp_path / "odd.ini"
    config.write_text(
        "[System_Config.Odd]\ncore_clock=333e6\naxi0_port=Sram\naxi1_port=OffChipFlash\nSram_clock_scale=1.0\n"
        "Sram_burst_length=32\nSram_read_latency=32\nSram_write_latency=32\nOffChipFlash_clock_scale=0.125\n"
        "OffChipFlash_burst_length=128\nOffChipFlash_read_latency=64\nOffChipFlash_write_latency=64\n"
        "[Memory_Mode.Shared_Sram]\nconst_mem_area=Axi1\narena_mem_area=Axi0\ncache_mem_area=Axi0\n"
    )
    one = ethoscade.compile(RESIDUAL, optimise="size", system_config="Odd", config=config)
    found = trace(one.record())
    check_format(found)
    total = found["otherData"]["cycles"]
    ends = max(map(end_of, lanes_of(found)["front end"]))
    assert abs(ends - total * 1e9 / 333e6) <= len(one.timing())
    ends_of = {end_of(event) for event in lanes_of(found)["compute"]}
    starts = {nanoseconds(event["ts"]) for event in lanes_of(found)["compute"]}
    touching = [(a.timed.end, b.timed.start) for a, b in itertools.pairwise(operations_of(one.record()))]
    assert len(ends_of & starts) >= len({end for end, start in touching if end == start}) > 0


def test_traces_are_the_same_every_time(cascaded: Compiled, tmp_path: Path) -> None:
    compiled, again = cascaded, ethoscade.compile(mobilenet_v1(alpha=0.25, resolution=64), optimise="size")
    first, second = compiled.trace(tmp_path / "deep" / "a.json"), again.trace(tmp_path / "b.json")
    assert first.read_bytes() == second.read_bytes()
    check_format(json.loads(first.read_text(encoding="utf-8")))


@pytest.mark.parametrize("core", [[], ["--debug-force-legacy-core"]], ids=["regor", "legacy"])
@pytest.mark.parametrize("model", [inverted_residuals(), mobilenet_v1(alpha=0.25, resolution=64)], ids=["ir", "v1"])
def test_velas_files_are_drawn_with_cascades(model: bytes, core: list[str]) -> None:
    """Nobody names Vela's kernels; whose stripes they are is what Vela's own debug database says."""
    made = vela_files(model, "--optimise", "Size", "--enable-debug-db", *core)
    graph = read_tflite(made["model_vela.tflite"], "vela")
    record = of_file(made["model_vela.tflite"])
    found = trace(record)
    check_format(found)
    touched = sram_touched(graph, run_tflite(graph, random_inputs(graph, 0)))
    assert -(-most(found, "Sram highest byte in use") // 16) * 16 == touched
    assert 0 < most(found, "Sram live bytes") <= touched
    tables = tables_of(made["model_debug.xml"])
    queue = {int(row["offset"]): row["optimised_id"] for row in tables["queue"]}
    depths = {row["id"]: int(row["ofm_d"]) for row in tables["optimised"]}
    (call,) = record.npu_calls
    kernels = [(o, o.timed.kernel) for o in call.operations if o.timed.kernel is not None]
    whose: dict[str, set[str]] = {}
    channels: dict[str, dict[str, int]] = {}
    for operation, kernel in kernels:
        whose.setdefault(operation.operator, set()).add(queue[operation.offset])
        channels.setdefault(queue[operation.offset], {})[operation.operator] = kernel.ofm[2]
    assert len(kernels) == len(queue) > len(whose) and all(len(of) == 1 for of in whose.values())
    # Vela cuts operators by channels as well; each part has weights of its own.
    cut = {of: sum(parts.values()) for of, parts in channels.items() if len(parts) > 1}
    assert cut == {of: depths[of] for of in cut}
    assert any(name.startswith("cascade ") for name in processes_of(found))


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("", {}),
        ("aabb", {}),
        ("abab", {"a": 1, "b": 1}),
        ("abacbc", {"a": 1, "b": 1, "c": 1}),
        ("ababcc", {"a": 1, "b": 1}),
        ("ababcdcd", {"a": 1, "b": 1, "c": 2, "d": 2}),
        ("aba", {"a": 1, "b": 1}),
    ],
)
def test_operators_that_take_turns_are_a_cascade(order: str, expected: dict[str, int]) -> None:
    assert cascades_of(list(order)) == expected


def test_like_operators_that_do_not_take_turns_are_two() -> None:
    """Two pools of the same registers, one after the other, are no stripes of one."""
    payload = Stream().max_pool(16).max_pool(16).payload()
    report = simulate_timing(payload, load_target("ethos-u55-256"))
    first, second = told_by_stream(payload, report, [])
    assert first.operator != second.operator and first.cascade is second.cascade is None


def test_live_bytes_by_hand() -> None:
    """A transfer of 64 bytes to 4096; a pool reads 16 of address 0 and writes 16 to its output, which nobody reads."""
    payload = Stream().dma((0, 0), (1, 4096), 64).payload()
    record = recorded(load_target("ethos-u55-256"), ("c", payload, simulate_timing(payload, load_target())))
    (operation,) = operations_of(record)
    assert operation.live == {"Sram": Live(64, 4096 + 64)} and operation.makers == () and operation.serves is None


def test_the_command_line_writes_both(tmp_path: Path, capfd: Capture) -> None:
    model = written(tmp_path / "net.tflite", RESIDUAL)
    files = ["--trace", tmp_path / "t.json", "--debug-db", tmp_path / "d.xml"]
    report = run_json(["compile", model, "-o", tmp_path, *files], capfd)
    assert report["traces"] == {"trace": str(tmp_path / "t.json"), "debug_db": str(tmp_path / "d.xml")}
    check_format(json.loads((tmp_path / "t.json").read_text()))
    status, out, _ = run(["compile", model, "-o", tmp_path, *files], capfd)
    assert status == 0 and f"wrote {tmp_path / 't.json'}" in out and f"wrote {tmp_path / 'd.xml'}" in out


def test_what_cannot_be_written_is_refused_before_compiling(tmp_path: Path, capfd: Capture) -> None:
    model = written(tmp_path / "net.tflite", RESIDUAL)
    for more, said in (
        ([model, "--trace", "t.json"], "--trace is for one model"),
        (["--trace", model], "are the same file"),
        (["--trace", "x", "--debug-db", "./x"], "are the same file"),
        (["--trace", "x", "--csv", "./x"], "are the same file"),
        (["--debug-db", "d.xml", "--emit", "c"], "add tflite"),
    ):
        status, _, err = run(["compile", model, *more, "-o", tmp_path / "out"], capfd)
        one_sentence(err)
        assert status == 1 and said in err
    assert not (tmp_path / "out").exists()


def test_a_trace_goes_where_files_can_be_written(compiled: Compiled, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises((ConfigError, ethoscade.CodegenError)):
        compiled.trace(tmp_path / "file" / "t.json")
