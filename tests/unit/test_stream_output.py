"""An output whose rows are taken as they are made, each once and in order, exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ethoscade
import numpy as np
import pytest
from command_line_support import Capture, run, run_json, written
from end_to_end import network_of
from ethoscade import CodegenError, ConfigError
from ethoscade.codegen.artifact import FeedCall, NpuCall, TakeCall
from ethoscade.ir import Quantisation
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from ethoscade.pipeline.compiled import Compiled
from ethoscade.pipeline.compiler import search
from ethoscade.run import host_c
from ethoscade.run.execution import run_artifact_steps
from ethoscade.run.simulator import Machine
from ethoscade.targets.target import ACCELERATORS, Streaming
from ethoscade.testing import ModelBuilder
from promised_cycles import broken_promises
from raw_reader import RawProgram
from streamed_networks import image, joined_output, operators_behind, segmentation


def odd_rows() -> bytes:
    """Rows that no take divides."""
    b = ModelBuilder("odd_rows")
    b.depthwise(b.conv2d(b.input((1, 23, 9, 3), name="input"), 8, 3), 3)
    return b.build()


def element_wise() -> bytes:
    """The last operation could write over what it reads."""
    b = ModelBuilder("element_wise")
    b.add(x := b.conv2d(b.input((1, 12, 10, 8), name="input"), 16, 3), b.depthwise(x, 3))
    return b.build()


def reshaped() -> bytes:
    """The output under another name, in another shape."""
    b = ModelBuilder("reshaped")
    b.reshape(b.conv2d(b.input((1, 12, 10, 8), name="input"), 8, 3), (1, 120, 8))
    return b.build()


def with_state() -> bytes:
    """Steps of an audio network, with a variable beside what is handed out."""
    b = ModelBuilder("with_state")
    x = b.lstm(b.reshape(b.conv2d(b.input((1, 6, 1, 8), name="input"), 8, 1), (1, 6, 8)), 12)
    b.conv2d(b.reshape(x, (1, 6, 1, 12)), 16, 1)
    return b.build()


MODELS: dict[str, Callable[[], bytes]] = {
    made.__name__: made
    for made in (segmentation, odd_rows, element_wise, reshaped, joined_output, with_state, operators_behind)
}
WAYS: list[dict[str, Any]] = [
    {"stream_output": 1},
    {"stream_output": 2, "stream_input": 1},
    {"stream_output": 5, "stream_input": 2, "stream_ahead": True},
    {"stream_output": 1000},
]


def compiled(name: str, way: int = 0, optimise: str = "size", **options: Any) -> Compiled:
    return ethoscade.compile(MODELS[name](), optimise=optimise, **WAYS[way], **options)


@pytest.mark.parametrize("way", range(len(WAYS)))
@pytest.mark.parametrize("optimise", ["size", "fastest"])
@pytest.mark.parametrize("name", MODELS)
def test_results_are_exact_and_bytes_as_promised(name: str, optimise: str, way: int) -> None:
    found = compiled(name, way, optimise)
    check = found.verify(seeds=2)
    assert check.ok and check.hazards == 0 and check.sram_touched_bytes == found.sram_bytes
    takes = found.artifact.takes
    assert [take.row for take in takes] == list(np.cumsum([0, *(take.rows for take in takes[:-1])]))
    assert all(0 < take.rows <= WAYS[way]["stream_output"] for take in takes)
    (output,) = (found.artifact.graph.tensors[index] for index in found.artifact.graph.handed_out)
    assert sum(take.rows * take.row_bytes for take in takes) == output.size_bytes


@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize("name", MODELS)
def test_streams_are_those_that_were_promised(name: str, accelerator: str) -> None:
    number = list(MODELS).index(name)
    network = network_of(MODELS[name](), accelerator, [None, Streaming(2)][number % 2], 1 + number % 3)
    curve = search(network)
    for index in {0, len(curve.points) - 1}:
        assert list(broken_promises(network, curve, index)) == []


def test_no_more_of_it_is_held_than_was_made_and_not_taken() -> None:
    whole = ethoscade.frontier(segmentation()).floor_bytes
    for rows in (1, 2, 4):
        made = ethoscade.compile(segmentation(), optimise="size", stream_output=rows)
        departure = made.departure
        # The last convolution makes two rows of an enlarged image at a time.
        assert departure is not None and departure.held_bytes <= (rows + 2) * departure.row_bytes
        assert made.sram_bytes < whole / 2
    least = compiled("segmentation").sram_bytes
    with pytest.raises(ethoscade.BudgetError, match=f"needs {least} bytes"):
        ethoscade.compile(segmentation(), sram=least - 16, stream_output=1)


@pytest.mark.parametrize("name", ["segmentation", "odd_rows", "joined_output"])
def test_rows_are_there_when_they_are_taken(name: str) -> None:
    """By the artefact alone: what lies at a take's place then is the reference's rows."""
    made = compiled(name)
    inputs = random_inputs(made.source, 3)
    (expected,) = reference.run(made.source, inputs).outputs.values()
    rows = np.ascontiguousarray(expected).reshape(-1, made.artifact.takes[0].row_bytes)
    (given,) = inputs.values()
    size = made.artifact.arena_bytes
    machine = Machine(made.artifact.accelerator, [made.artifact.constants, size, (1, 0, size)])
    machine.write(1, made.artifact.offsets[made.artifact.graph.given[0]], given.tobytes())
    taken = 0
    for call in made.artifact.calls:
        if isinstance(call, NpuCall):
            assert machine.run(call.payload).warnings == ()
        elif isinstance(call, TakeCall):
            end = call.offset + call.rows * call.row_bytes
            assert machine.find_uninitialised(1, call.offset, end) is None
            found = np.frombuffer(machine.read(1, call.offset, end - call.offset), np.int8).reshape(call.rows, -1)
            assert np.array_equal(found, rows[call.row : call.row + call.rows])
            taken += call.rows
    assert taken == len(rows)


def test_rows_behind_the_end_of_a_ring_are_taken_at_its_beginning() -> None:
    """Takes of three rows from a ring of four, two of which are made at a time: most lie in two pieces."""
    from ethoscade.pipeline import compiler
    from ethoscade.scheduling.schedule import Group, Schedule, Split

    network = network_of(odd_rows(), taken_rows=3)
    last = len(network.problem.specs) - 1
    schedule = Schedule((Group(0, last, tuple(Split(part, "height", 2) for part in range(last))),))
    arranged = compiler.scheduling.arrange(network.problem, schedule)
    artifact = compiler.emit(network, arranged)
    sizes = [take.rows for take in artifact.takes]
    assert sum(sizes) == 23 and {1, 2, 3} == set(sizes)
    inputs = random_inputs(network.source, 1)
    (result,) = run_artifact_steps(artifact, [inputs])
    (found,), (expected,) = result.outputs.values(), reference.run(network.source, inputs).outputs.values()
    assert result.faults == () and np.array_equal(found, expected)


def test_a_caller_that_takes_too_early_is_told() -> None:
    made = compiled("odd_rows")
    calls = list(made.artifact.calls)
    first = next(number for number, call in enumerate(calls) if isinstance(call, TakeCall))
    calls.insert(0, calls.pop(first))
    (result,) = run_artifact_steps(replace(made.artifact, calls=tuple(calls)), [random_inputs(made.source, 1)])
    assert any("the caller reads byte" in fault and "never written" in fault for fault in result.faults)


# --- who hands rows over ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", range(len(WAYS)))
@pytest.mark.parametrize("name", ["segmentation", "with_state", "operators_behind"])
def test_a_caller_takes_rows(name: str, way: int) -> None:
    made = compiled(name, way)
    steps = [random_inputs(made.source, seed) for seed in (1, 2)]
    expected = reference.run_steps(made.source, steps)
    is_fed = bool(made.artifact.feeds)
    with made.stream(None if is_fed else steps[0]) as stream:
        for inputs, result in zip(steps, expected, strict=True):
            stream.begin(None if is_fed else inputs)
            (given,), (wanted,) = inputs.values(), result.outputs.values()
            rows = np.ascontiguousarray(given).reshape(given.shape[1], -1)
            taken = []
            while stream.wanted or stream.ready:
                assert not (stream.wanted and stream.ready)
                if stream.wanted:
                    stream.feed(rows[stream.wanted.start : stream.wanted.stop])
                else:
                    ready = stream.ready
                    taken.append(stream.take())
                    assert len(taken[-1]) == len(ready)
            assert np.array_equal(np.concatenate(taken).ravel(), wanted.ravel())
            (whole,) = stream.result.outputs.values()
            assert np.array_equal(whole, wanted) and stream.result.faults == ()
            assert stream.result.arena_touched_bytes == made.artifact.arena_bytes


def test_what_a_caller_does_out_of_turn_is_refused() -> None:
    made = compiled("segmentation", 1)
    inputs = random_inputs(made.source, 1)
    (given,) = inputs.values()
    rows = given.reshape(24, -1)
    with pytest.raises(ConfigError, match=r"is handed over by feed\(\), row by row"):
        made.stream(inputs)
    with made.stream() as stream:
        with pytest.raises(ConfigError, match=r"no rows are ready: feed\(\) comes first"):
            stream.take()
        while stream.wanted:
            stream.feed(rows[stream.wanted.start : stream.wanted.stop])
        with pytest.raises(ConfigError, match=r"no rows are wanted: take\(\) comes first"):
            stream.feed(rows[:1])
        with pytest.raises(ConfigError, match=r"rows 0 to 2 are ready first: take them by take\(\)"):
            _ = stream.result
        stream.take()
    with pytest.raises(ConfigError, match=r"input 'input' of .* was not given"):
        compiled("segmentation").stream()


@pytest.mark.parametrize("way", range(len(WAYS)))
@pytest.mark.parametrize("name", MODELS)
def test_a_run_of_the_emitted_c_fills_a_whole_output(name: str, way: int) -> None:
    made = compiled(name, way)
    inputs = random_inputs(made.artifact.graph, 5)
    expected = made.simulate_steps([inputs, inputs])
    with host_c.HostLibrary(made.artifact) as library:
        for ran, result in zip(library.run_steps([inputs, inputs]), expected, strict=True):
            assert ran.hazards == 0 and ran.arena_bytes == made.artifact.arena_bytes
            assert all(np.array_equal(ran.outputs[key], value) for key, value in result.outputs.items())


@pytest.mark.parametrize("way", [0, 2])
def test_raw_files_have_the_takes_among_the_calls(tmp_path: Path, way: int) -> None:
    made = compiled("segmentation", way)
    inputs = random_inputs(made.artifact.graph, 3)
    program = RawProgram(made.write_raw(tmp_path / "net.npz"))
    expected = made.simulate(inputs).outputs
    assert all(np.array_equal(program.run(inputs)[key], value) for key, value in expected.items())
    assert program.hazards == 0
    assert sum("takes" in call for call in program.told["calls"]) == len(made.artifact.takes)


def test_reports_say_how_it_leaves(tmp_path: Path, capfd: Capture) -> None:
    model = written(tmp_path / "net.tflite", segmentation())
    arguments = ["compile", model, "--stream-output", "2", "--optimise", "size", "--emit", "c,raw", "-o", str(tmp_path)]
    report = run_json(arguments, capfd)
    departure = report["departure"]
    assert (departure["takes"], departure["rows"], departure["row_bytes"]) == (12, 2, 640)
    assert report["arrival"] is None and 0 < departure["longest_cycles"] < departure["first_cycles"]
    page = tmp_path / "report.html"
    _, text, _ = run([*arguments, "--explain", "--report", str(page)], capfd)
    assert "12 takes of at most 2 rows (1,280 bytes); 1,280 bytes are held" in text and "before the first" in text
    assert "(arena, inputs and held rows of the output included)" in text
    assert "rows taken 'conv_2d3': 12 x 2x20x32, " in text and page.stat().st_size > 10_000
    listed = run_json(["frontier", model, "--stream-output", "2"], capfd)
    # C counts whole cache lines.
    assert -(-listed["floor_bytes"] // 32) * 32 == report["sram_bytes"] == report["floor_bytes"]
    assert run(["verify", model, "--stream-output", "3", "--stream-input", "2"], capfd)[0] == 0
    made = compiled("segmentation", 1)
    made.record()
    made.trace(tmp_path / "trace.perfetto-trace")
    assert len(made.addresses()) > 0 and sum(row.cycles for row in made.table().rows) == made.cycles


# --- what cannot be ---------------------------------------------------------------------------------------------------


def two_outputs() -> bytes:
    b = ModelBuilder("two_outputs")
    x = b.conv2d(b.input((1, 12, 10, 8), name="input"), 8, 3)
    b.output(b.conv2d(x, 8, 3), b.depthwise(x, 3))
    return b.build()


def one_row() -> bytes:
    b = ModelBuilder("one_row")
    b.fully_connected(b.input((1, 64), name="input"), 8)
    return b.build()


def float_output() -> bytes:
    b = ModelBuilder("float_output")
    b.dequantize(b.conv2d(b.input((1, 8, 8, 4), name="input"), 8, 3))
    return b.build()


IN_DRAM = {"accelerator": "ethos-u65-256", "system_config": "Ethos_U65_High_End", "memory_mode": "Dedicated_Sram"}


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (two_outputs, {}, "has 2 outputs, and rows of one alone can be taken in order"),
        (one_row, {}, "output '.*' of 'model' has a single row"),
        (float_output, {}, "on the CPU makes output '.*' as a whole.*--io int8"),
        (segmentation, {"stream_output": 0}, "stream_output is 0"),
        (segmentation, {"accelerator": "none"}, "stream_output is '2'; it describes the memories of an NPU"),
        (segmentation, IN_DRAM, "stream_output is 2, .* lost whenever the NPU waits for the caller"),
        (image, {}, "output '.*' of 'model' has a single row"),
    ],
)
def test_what_cannot_be_taken_row_by_row_is_refused(
    model: Callable[[], bytes], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        ethoscade.compile(model(), **{"stream_output": 2, **options})


def kept() -> bytes:
    """The output is what the next run begins with, under another name."""
    b = ModelBuilder("kept")
    total = b.variable((1, 8, 6, 8), Quantisation((0.1,), (0,)))
    made = b.add(total, b.input((1, 8, 6, 8), name="input"), output=total.quantisation)
    b.assign(total, made)
    b.output(b.reshape(made, (1, 48, 8)))
    return b.build()


def test_an_output_that_is_kept_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"output 'reshape\d*' of .* is kept as state, as a whole"):
        ethoscade.compile(kept(), stream_output=2)


def test_state_may_lie_where_a_streamed_output_lay(tmp_path: Path) -> None:
    """At the end of a run rows that were taken are gone: what is copied over them then does no harm."""
    b, scale = ModelBuilder("over_rows"), Quantisation((0.1,), (0,))
    total = b.variable((1, 8, 6, 8), scale)
    x = b.leaky_relu(b.input((1, 8, 6, 8), name="input"), output=scale)
    made = b.conv2d(b.add(x, total, output=scale), 8, 3)
    b.assign(total, x)
    b.output(made)
    for optimise in ("size", "fastest"):
        compiled = ethoscade.compile(b.build(), optimise=optimise, stream_output=2)
        steps = [random_inputs(compiled.source, seed) for seed in (1, 2, 3)]
        expected = reference.run_steps(compiled.source, steps)
        with host_c.HostLibrary(compiled.artifact) as library:
            for ran, step in zip(library.run_steps(steps), expected, strict=True):
                assert all(np.array_equal(ran.outputs[key], value) for key, value in step.outputs.items())


def test_headers_say_what_becomes_of_rows(tmp_path: Path) -> None:
    said = {}
    for name, ways in (("in", {"stream_input": 2}), ("out", {"stream_output": 2}), ("both", WAYS[1])):
        found = ethoscade.compile(segmentation(), optimise="size", line_bytes=32, **ways).write_c(tmp_path / name)
        header = next(path for path in found.values() if path.suffix == ".h").read_text()
        said[name] = " ".join(header.replace("\n * ", " ").split())
    unread = "What is left of the input is not looked at."
    assert [unread in said[name] for name in said] == [True, False, True]
    assert ["_ROWS_AT_ONCE" in said[name] for name in said] == [True] * 3
    copied = "_begin copies inputs to their places"
    assert [copied in said[name] for name in said] == [False, True, False]
    assert "`rows` of the other is 0" in said["both"]


def test_a_border_of_floats_is_the_callers() -> None:
    assert ethoscade.compile(float_output(), io="int8", stream_output=2).verify(seeds=1).ok


def test_writers_that_give_outputs_as_a_whole_refuse(tmp_path: Path, capfd: Capture) -> None:
    with pytest.raises(CodegenError, match="TensorFlow Lite Micro gives outputs as a whole"):
        compiled("segmentation").save(tmp_path / "net.tflite")
    with pytest.raises(CodegenError, match="has rows handed over while it runs, which executor 'graph'"):
        compiled("segmentation", line_bytes=32).write_c(tmp_path, executor="graph")
    assert list(tmp_path.iterdir()) == []
    model = written(tmp_path / "net.tflite", segmentation())
    status, _, err = run(["compile", model, "--stream-output", "2", "-o", str(tmp_path / "out")], capfd)
    assert status == 1 and "TensorFlow Lite Micro" in err and "Traceback" not in err
    status, _, err = run(["compile", model, "--stream-output", "none"], capfd)
    assert status == 2 and "--stream-output" in err


def test_rows_that_arrive_later_make_no_row_late() -> None:
    """Both at once: each take comes as soon as the feeds are there."""
    made = compiled("odd_rows", 1)
    fed = taken = 0
    for call in made.artifact.calls:
        if isinstance(call, FeedCall):
            fed = call.row + call.rows
        elif isinstance(call, TakeCall):
            taken = call.row + call.rows
            # Two convolutions of three rows need two rows below, and takes are of two rows.
            assert fed <= min(taken + 3, 23)
    assert (fed, taken) == (23, 23)
