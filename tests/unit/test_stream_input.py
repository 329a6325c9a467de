"""An input that arrives row by row, each once and in order: used as it comes, exactly."""

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
from ethoscade import CodegenError, ConfigError, SchedulingError
from ethoscade.codegen.artifact import CpuCall, FeedCall, NpuCall
from ethoscade.ir import DType
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from ethoscade.pipeline.compiled import Compiled
from ethoscade.pipeline.compiler import search
from ethoscade.run import host_c
from ethoscade.run.execution import run_artifact_steps
from ethoscade.run.simulator import Machine
from ethoscade.run.streaming import StreamedRun
from ethoscade.scheduling import schedule as scheduling
from ethoscade.scheduling.schedule import Backwards, Bands, Group, Schedule, Split
from ethoscade.targets.target import ACCELERATORS, Streaming
from ethoscade.testing import ModelBuilder
from promised_cycles import broken_promises
from raw_reader import RawProgram
from streamed_networks import image, operators_behind, passed_through, with_state


def wide() -> bytes:
    """Nothing is as large as the input."""
    b = ModelBuilder("wide")
    b.mean(b.conv2d(b.conv2d(b.input((1, 48, 48, 16), name="input"), 4, 3, stride=2), 8, 3, stride=2))
    return b.build()


def odd_rows() -> bytes:
    """Rows that no feed divides, of which the last ones are not read."""
    b = ModelBuilder("odd_rows")
    b.conv2d(b.conv2d(b.input((1, 23, 9, 3), name="input"), 8, 3, stride=2, padding="VALID"), 8, 3)
    return b.build()


def cropped() -> bytes:
    """Neither the first rows nor the last ones are read."""
    b = ModelBuilder("cropped")
    b.conv2d(b.strided_slice(b.input((1, 20, 8, 8), name="input"), (0, 5, 1, 0), (1, 15, 7, 8), (1, 1, 1, 1)), 8, 3)
    return b.build()


def sparse() -> bytes:
    """Rows between those that are read, and doubled ones."""
    b = ModelBuilder("sparse")
    x = b.input((1, 16, 8, 8), name="input")
    b.output(b.conv2d(x, 8, 1, stride=3), b.conv2d(b.resize_nearest(x, (32, 16)), 8, 3))
    return b.build()


def shared() -> bytes:
    """Several read the input, one of them long after the others."""
    b = ModelBuilder("shared")
    x = b.input((1, 12, 10, 8), name="input")
    b.add(b.depthwise(b.conv2d(b.conv2d(x, 16, 3), 8, 1), 3), x)
    return b.build()


def reshaped() -> bytes:
    """The input under another name, in another shape."""
    b = ModelBuilder("reshaped")
    b.conv2d(b.reshape(b.input((1, 24, 5, 8), name="input"), (1, 10, 12, 8)), 8, 3)
    return b.build()


MODELS: dict[str, Callable[[], bytes]] = {
    made.__name__: made
    for made in (image, wide, odd_rows, cropped, sparse, shared, reshaped, passed_through, with_state, operators_behind)
}
STREAMED = [Streaming(1), Streaming(2), Streaming(5, True), Streaming(1, True), Streaming(1000)]


def compiled(name: str, streaming: Streaming = STREAMED[0], optimise: str = "size", **options: Any) -> Compiled:
    pieces = {"stream_input": streaming.rows, "stream_ahead": streaming.is_ahead}
    return ethoscade.compile(MODELS[name](), optimise=optimise, **pieces, **options)


def rows_of(made: Compiled, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A random input, and the same row by row."""
    inputs = random_inputs(made.source, seed)
    (whole,) = inputs.values()
    return inputs, np.ascontiguousarray(whole).reshape(-1, made.artifact.feeds[0].row_bytes // whole.itemsize)


@pytest.mark.parametrize("streaming", STREAMED)
@pytest.mark.parametrize("optimise", ["size", "fastest"])
@pytest.mark.parametrize("name", MODELS)
def test_results_are_exact_and_bytes_as_promised(name: str, optimise: str, streaming: Streaming) -> None:
    found = compiled(name, streaming, optimise)
    check = found.verify(seeds=2)
    assert check.ok and check.hazards == 0 and check.sram_touched_bytes == found.sram_bytes
    feeds = [feed for feed in found.artifact.feeds if feed.rows]
    assert [feed.row for feed in feeds] == list(np.cumsum([0, *(feed.rows for feed in feeds[:-1])]))
    assert all(feed.rows == streaming.rows for feed in feeds[:-1]) and feeds[-1].rows <= streaming.rows


@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize("name", MODELS)
def test_streams_are_those_that_were_promised(name: str, accelerator: str) -> None:
    network = network_of(MODELS[name](), accelerator, STREAMED[list(MODELS).index(name) % len(STREAMED)])
    curve = search(network)
    for index in {0, len(curve.points) - 1}:
        assert list(broken_promises(network, curve, index)) == []


def test_no_more_of_it_is_held_than_is_read() -> None:
    """A window of three rows, and the rows of a feed; one feed more where they arrive meanwhile."""
    whole = ethoscade.frontier(MODELS["wide"]()).floor_bytes
    for rows in (1, 2, 4):
        made, ahead = (compiled("wide", Streaming(rows, is_ahead)) for is_ahead in (False, True))
        held = [found.arrival.held_bytes // found.arrival.row_bytes for found in (made, ahead) if found.arrival]
        assert 3 <= held[0] <= -(-(2 + rows) // rows) * rows < held[1] <= held[0] + rows
        assert made.sram_bytes < whole / 4
    least = compiled("wide").sram_bytes
    with pytest.raises(ethoscade.BudgetError, match=f"needs {least} bytes"):
        ethoscade.compile(MODELS["wide"](), sram=least - 16, stream_input=1)


def test_what_is_not_read_is_not_waited_for() -> None:
    """The first rows must pass, the last ones need not: feeds are whole all the same."""
    assert [(feed.row, feed.rows) for feed in compiled("cropped", Streaming(4)).artifact.feeds] == [
        (0, 4), (4, 4), (8, 4), (12, 4)
    ]  # fmt: skip
    assert compiled("odd_rows", Streaming(5)).artifact.feeds[-1].rows == 3


def test_rows_that_arrive_meanwhile_are_read_a_feed_later() -> None:
    """By the artefact alone: no program touches a place from when its rows are on their way until the next feed."""
    for name in ("image", "sparse", "shared", "cropped"):
        made = compiled(name, Streaming(1, True))
        inputs, rows = rows_of(made, 3)
        machine = Machine(
            made.artifact.accelerator,
            [made.artifact.constants, made.artifact.arena_bytes, (1, 0, made.artifact.arena_bytes)],
        )
        arriving: FeedCall | None = None
        for call in made.artifact.calls:
            if isinstance(call, FeedCall):
                if arriving is not None:
                    size = arriving.rows * arriving.row_bytes
                    assert machine.find_uninitialised(1, arriving.offset, arriving.offset + size) == arriving.offset
                    machine.write(1, arriving.offset, rows[arriving.row : arriving.row + arriving.rows])
                arriving = call if call.rows else None
                if arriving is not None:
                    machine.mark_initialised(1, call.offset, call.offset + call.rows * call.row_bytes, False)
            elif isinstance(call, NpuCall):
                assert machine.run(call.payload).warnings == ()
        assert arriving is None, "the last rows are awaited"
        assert inputs


def test_the_simulated_caller_is_as_late_as_it_may_be() -> None:
    """Programs that read a feed at once are wrong where its rows may arrive until the next one."""
    made = compiled("image")
    inputs, _ = rows_of(made, 3)
    calls = list(made.artifact.calls)
    last = max(number for number, call in enumerate(calls) if isinstance(call, FeedCall))
    feeds = [replace(call, is_ahead=True) if isinstance(call, FeedCall) else call for call in calls]
    end = feeds[last]
    assert isinstance(end, FeedCall)
    late = replace(made.artifact, calls=(*feeds, replace(end, row=end.row + end.rows, rows=0)))
    (right,), (wrong,) = (run_artifact_steps(artifact, [inputs]) for artifact in (made.artifact, late))
    assert right.faults == () and any("nobody wrote" in fault for fault in wrong.faults)


def test_a_step_is_short_where_rows_are_used_as_they_come() -> None:
    found = compiled("image").arrival
    whole = ethoscade.compile(image(), optimise="size", stream_input=1000)
    assert found is not None and whole.arrival is not None
    assert (found.feeds, found.rows, whole.arrival.feeds, whole.arrival.rows) == (32, 1, 1, 32)
    assert whole.arrival.longest_cycles == 0 and whole.arrival.last_cycles == whole.cycles
    assert 0 < found.longest_cycles < found.last_cycles < compiled("image").cycles
    assert ethoscade.compile(image()).arrival is None


# --- who hands rows over ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streaming", STREAMED)
@pytest.mark.parametrize("name", ["image", "with_state", "operators_behind", "reshaped"])
def test_a_caller_hands_over_rows(name: str, streaming: Streaming) -> None:
    made = compiled(name, streaming)
    steps = [rows_of(made, seed) for seed in (1, 2)]
    expected = reference.run_steps(made.source, [inputs for inputs, _ in steps])
    with made.stream() as stream:
        for _ in range(2):
            # What is given up has changed nothing.
            if len(made.artifact.feeds) > 1:
                stream.feed(steps[1][1][stream.wanted.start : stream.wanted.stop])
            stream.begin()
        for (_, rows), result in zip(steps, expected, strict=True):
            wanted = []
            while stream.wanted:
                wanted += stream.wanted
                stream.feed(rows[stream.wanted.start : stream.wanted.stop])
            assert wanted == list(range(len(wanted)))
            assert stream.result.faults == () and stream.result.arena_touched_bytes == made.artifact.arena_bytes
            for output, value in result.outputs.items():
                assert np.array_equal(stream.result.outputs[output], value)
            stream.begin()


def test_wrong_rows_are_refused_and_change_nothing() -> None:
    made = compiled("image", Streaming(2))
    inputs, rows = rows_of(made, 1)
    with made.stream() as stream:
        with pytest.raises(ConfigError, match="rows 0 to 2 are wanted first"):
            _ = stream.result
        for wrong, message in (
            (rows[:3], r"2 times 96 elements of int8; given is int8 of shape \(3, 96\)"),
            (rows[:2].astype(np.int16), "given is int16"),
            ([], "given is float64"),
            ([[1, 2], [3]], "are no array"),
        ):
            with pytest.raises(ConfigError, match=message):
                stream.feed(wrong)
        while wanted := stream.wanted:
            stream.feed(rows[wanted.start : wanted.stop].reshape(1, 2, 32, 3))
        with pytest.raises(ConfigError, match="begins another run"):
            stream.feed(rows[:2])
        for name, value in made.simulate(inputs).outputs.items():
            assert np.array_equal(stream.result.outputs[name], value)
    with pytest.raises(ConfigError, match="compile it with stream_input or stream_output"):
        ethoscade.compile(image()).stream()


def test_a_run_that_an_error_ended_takes_no_more_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    made = compiled("image", Streaming(2))
    inputs, rows = rows_of(made, 1)
    with made.stream() as stream:
        with monkeypatch.context() as patch:

            def interrupted(self: Machine, *_: object) -> None:
                raise KeyboardInterrupt

            patch.setattr(Machine, "run", interrupted)
            with pytest.raises(KeyboardInterrupt):
                hand_over(stream, rows)
        for again in (lambda: stream.feed(rows[:2]), lambda: stream.result):
            with pytest.raises(ConfigError, match=r"ended by an error; begin\(\) begins another"):
                again()
        stream.begin()
        hand_over(stream, rows)
        for name, value in made.simulate(inputs).outputs.items():
            assert np.array_equal(stream.result.outputs[name], value)


def hand_over(stream: StreamedRun, rows: np.ndarray) -> None:
    while wanted := stream.wanted:
        stream.feed(rows[wanted.start : wanted.stop])


@pytest.mark.parametrize("streaming", [Streaming(3), Streaming(2, True)])
@pytest.mark.parametrize("name", ["image", "odd_rows", "with_state", "operators_behind", "passed_through"])
def test_a_run_of_the_emitted_c_takes_rows_of_a_whole_input(name: str, streaming: Streaming) -> None:
    made = compiled(name, streaming)
    inputs = random_inputs(made.artifact.graph, 5)
    expected = made.simulate_steps([inputs, inputs])
    with host_c.HostLibrary(made.artifact) as library:
        for ran, result in zip(library.run_steps([inputs, inputs]), expected, strict=True):
            assert ran.hazards == 0 and ran.arena_bytes == made.artifact.arena_bytes
            assert all(np.array_equal(ran.outputs[key], value) for key, value in result.outputs.items())


def test_raw_files_have_the_feeds_among_the_calls(tmp_path: Path) -> None:
    for streaming in (Streaming(2), Streaming(2, True)):
        made = compiled("operators_behind", streaming)
        inputs = random_inputs(made.artifact.graph, 3)
        program = RawProgram(made.write_raw(tmp_path / "net.npz"))
        expected = made.simulate(inputs).outputs
        assert all(np.array_equal(program.run(inputs)[key], value) for key, value in expected.items())
        assert program.hazards == 0
        assert sum(call["on"] == "caller" for call in program.told["calls"]) == len(made.artifact.feeds)


def test_reports_say_how_it_arrives(tmp_path: Path, capfd: Capture) -> None:
    model = written(tmp_path / "net.tflite", wide())
    arguments = ["compile", model, "--stream-input", "2", "--optimise", "size", "--emit", "c,raw", "-o", str(tmp_path)]
    report = run_json(arguments, capfd)
    arrival = report["arrival"]
    assert (arrival["feeds"], arrival["rows"], arrival["row_bytes"], arrival["held_bytes"]) == (24, 2, 768, 3072)
    page = tmp_path / "report.html"
    _, text, _ = run([*arguments, "--explain", "--report", str(page)], capfd)
    assert "24 feeds of 2 rows (1,536 bytes); 3,072 bytes are held" in text and "after the last" in text
    assert "rows that arrive 'input': 24 x 2x48x16, 4x48 kept\n" in text and page.stat().st_size > 10_000
    _, text, _ = run([*arguments, "--stream-ahead"], capfd)
    assert "24 feeds of 2 rows (1,536 bytes), while the NPU works; 4,608 bytes are held" in text
    listed = run_json(["frontier", model, "--stream-input", "2"], capfd)
    assert listed["floor_bytes"] == report["sram_bytes"] == report["floor_bytes"]
    assert run(["verify", model, "--stream-input", "3", "--stream-ahead"], capfd)[0] == 0
    made = compiled("image", Streaming(2))
    made.record()
    made.trace(tmp_path / "trace.perfetto-trace")
    assert len(made.addresses()) > 0 and sum(row.cycles for row in made.table().rows) == made.cycles


# --- what cannot be ---------------------------------------------------------------------------------------------------


def two_inputs() -> bytes:
    b = ModelBuilder("two_inputs")
    first, second = (b.input((1, 12, 10, 8), name=name) for name in ("first", "second"))
    b.add(first, second)
    return b.build()


def one_row() -> bytes:
    b = ModelBuilder("one_row")
    b.fully_connected(b.input((1, 64), name="input"), 8)
    return b.build()


def given_back() -> bytes:
    b = ModelBuilder("given_back")
    x = b.input((1, 8, 6, 8), name="input")
    b.output(b.conv2d(x, 8, 3), x)
    return b.build()


def float_input() -> bytes:
    b = ModelBuilder("float_input")
    b.conv2d(b.quantize(b.input((1, 8, 8, 4), dtype=DType.FLOAT32, name="input")), 8, 3)
    return b.build()


IN_DRAM = {"accelerator": "ethos-u65-256", "system_config": "Ethos_U65_High_End", "memory_mode": "Dedicated_Sram"}


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (two_inputs, {}, "has 2 inputs, and rows of one alone can arrive in order"),
        (one_row, {}, "input 'input' of 'model' has a single row"),
        (given_back, {}, "input 'input' of 'model' is an output as well, and is given back as a whole"),
        (float_input, {}, "on the CPU reads input 'input'.*--io int8"),
        (image, {"stream_input": 0}, "stream_input is 0"),
        (image, {"stream_input": 2.5}, "stream_input is 2.5"),
        (image, {"stream_input": None, "stream_ahead": True}, "stream_ahead is given, and no stream_input"),
        (image, {"input_memory": "OffChipFlash"}, "either arrive once, or lie there"),
        (image, {"accelerator": "none"}, "stream_input is '2'; it describes the memories of an NPU"),
        (image, IN_DRAM, "lost whenever the NPU waits for the caller"),
    ],
)
def test_what_cannot_arrive_row_by_row_is_refused(
    model: Callable[[], bytes], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        ethoscade.compile(model(), **{"stream_input": 2, **options})


def test_a_border_of_floats_is_the_callers() -> None:
    assert ethoscade.compile(float_input(), io="int8", stream_input=2).verify(seeds=1).ok


def test_writers_that_take_inputs_as_a_whole_refuse(tmp_path: Path, capfd: Capture) -> None:
    with pytest.raises(CodegenError, match="TensorFlow Lite Micro takes inputs as a whole"):
        compiled("image").save(tmp_path / "net.tflite")
    with pytest.raises(CodegenError, match="has rows handed over while it runs, which executor 'graph'"):
        compiled("image", line_bytes=32).write_c(tmp_path, executor="graph")
    assert list(tmp_path.iterdir()) == []
    model = written(tmp_path / "net.tflite", image())
    status, _, err = run(["compile", model, "--stream-input", "2", "-o", str(tmp_path / "out")], capfd)
    assert status == 1 and "TensorFlow Lite Micro" in err and "Traceback" not in err
    status, _, err = run(["compile", model, "--stream-input", "none"], capfd)
    assert status == 2 and "--stream-input" in err


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        ((Split(1, "width", 4),), "stripes of rows, from the first one on, and in one band"),
        ((Split(1, "height", 4), Bands(1, "width", 2)), "stripes of rows, from the first one on, and in one band"),
        ((Split(1, "height", 4), Backwards(1, "height")), "stripes of rows, from the first one on, and in one band"),
        ((Split(0, "height", 4),), "the Part hands rows over, 2 at a time"),
    ],
)
def test_decisions_that_want_rows_again_are_refused(decisions: tuple[Any, ...], message: str) -> None:
    network = network_of(image(), streaming=Streaming(2))
    rest = tuple(Group(part, part, ()) for part in range(2, len(network.problem.specs)))
    with pytest.raises(SchedulingError, match=message):
        scheduling.prove(network.problem, Schedule((Group(0, 1, decisions), *rest)))


def test_calls_between_feeds_hand_over_what_others_want() -> None:
    """An operator on the CPU finds its input made by the call before, however many feeds there were."""
    calls = compiled("operators_behind").artifact.calls
    at = next(number for number, call in enumerate(calls) if isinstance(call, CpuCall))
    made = {t for call in calls[:at] if isinstance(call, NpuCall) for t in call.outputs}
    graph = compiled("operators_behind").artifact.graph
    (operator,) = (graph.operators[call.operator] for call in calls if isinstance(call, CpuCall))
    assert operator.inputs[0] in made
