"""What long work tells meanwhile: a fraction that never falls, a log, and a line on a terminal that goes away."""

from __future__ import annotations

import io
import json
import logging
import os
import pickle
import random
import re
import select
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ethoscade
import pytest
from ethoscade import memory
from ethoscade.__main__ import main
from ethoscade.cli import working as lines
from ethoscade.judge.verification import random_inputs
from ethoscade.testing import mobilenet_v1, tiny_conv
from ethoscade.util.progress import OptimalityGap, Progress, Stopwatch, WorkStage, one_of_many, portion

MODEL = mobilenet_v1(0.25, 32)
ALL = ["import", "encode", "plan", "place", "codegen"]


@pytest.fixture(scope="module")
def compiled() -> ethoscade.Compiled:
    return ethoscade.compile(tiny_conv())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("progress") / "net.tflite"
    path.write_bytes(MODEL)
    return str(path)


# What functions tell.


def works(compiled: ethoscade.Compiled) -> Iterator[tuple[str, Callable[[Progress], Any], list[str]]]:
    """All that takes a progress: its name, a call, and the stages that it goes through."""
    small = tiny_conv()
    prepared = ethoscade.prepare(small)
    inputs = random_inputs(compiled.source, 0)
    buffers = [memory.Buffer("a", 0, 2, 16)]
    file = Path("net_ethosu.tflite")
    yield "compile", lambda p: ethoscade.compile(small, progress=p), ALL
    yield "budget", lambda p: ethoscade.compile(small, sram="60KiB", progress=p), ALL
    yield "many", lambda p: ethoscade.compile_many({"a": small, "b": small}, progress=p), ALL
    yield "prepare", lambda p: ethoscade.prepare(small, progress=p), ALL[:2]
    yield "frontier", lambda p: ethoscade.frontier(small, progress=p), ALL[:3]
    yield "prepared frontier", lambda p: prepared.frontier(progress=p), ["plan"]
    yield "prepared compile", lambda p: prepared.compile(progress=p), ALL[2:]
    yield "fits", lambda p: prepared.fits("60KiB", progress=p), ["plan"]
    yield "plan", lambda p: ethoscade.plan(small, "cortex-m55", progress=p), ["import", "plan"]
    yield "check", lambda p: ethoscade.check(small, progress=p), ["import", "encode", "place"]
    yield "simulate", lambda p: compiled.simulate(inputs, progress=p), ["simulate"]
    yield "steps", lambda p: compiled.simulate_steps([inputs] * 3, progress=p), ["simulate"]
    yield "file", lambda p: ethoscade.simulate(compiled.save(file), inputs, progress=p), ["simulate"]
    yield "memory", lambda p: memory.plan(buffers, progress=p), ["place"]


def test_every_function_tells_stages_and_a_fraction_that_never_falls(
    compiled: ethoscade.Compiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, work, stages in works(compiled):
        seen: list[WorkStage] = []
        work(seen.append)
        assert list(dict.fromkeys(map(str, seen))) == stages, name
        fractions = [step.fraction for step in seen]
        assert fractions == sorted(fractions) and fractions[0] == 0 and fractions[-1] == 1, name
        assert all(type(fraction) is float for fraction in fractions)


def test_verify_tells_each_seed(compiled: ethoscade.Compiled) -> None:
    pytest.importorskip("ai_edge_litert")
    seen: list[WorkStage] = []
    assert compiled.verify(4, progress=seen.append).ok
    assert {0.0, 0.25, 0.5, 0.75, 1.0} == {step.fraction for step in seen} and set(seen) == {"verify"}


class Enough(Exception):
    """What ends work of which enough was seen."""


def test_no_stage_is_told_of_at_its_ends_alone() -> None:
    """Encoding counts operations, the search what it enumerates: of one that takes minutes the first seconds."""
    seen: list[WorkStage] = []

    def look(step: WorkStage) -> None:
        seen.append(step)
        if len({one.fraction for one in seen if one == "plan"}) == 4:
            raise Enough

    with pytest.raises(Enough):
        ethoscade.frontier(mobilenet_v1(0.5, 64), epsilon=0, progress=look)
    assert len({step.fraction for step in seen if step == "encode"}) > 29
    fractions = [step.fraction for step in seen]
    assert fractions == sorted(fractions) and fractions[-1] < 1


def test_a_step_is_the_name_of_a_stage() -> None:
    step = WorkStage("plan", 0.5)
    assert (step, f"{step}", step.fraction, step.gap) == ("plan", "plan", 0.5, None) and {step: 1}["plan"] == 1
    assert pickle.loads(pickle.dumps(step)).fraction == 0.5
    gap = OptimalityGap(103, 100)
    assert pickle.loads(pickle.dumps(WorkStage("place", 0.0, gap))).gap == gap


# The gap of a memory plan.


def hard_buffers() -> list[memory.Buffer]:
    """A third of all pairs in conflict: no search proves a plan of these best in any time that a test has."""
    rng = random.Random(5)
    names = [f"b{n}" for n in range(90)]
    return [
        memory.Buffer(
            name, n, n + 1, rng.randint(1, 9_999), conflicts=tuple(b for b in names[:n] if rng.random() < 0.33)
        )
        for n, name in enumerate(names)
    ]


def gaps_of(steps: list[WorkStage]) -> list[tuple[int, int]]:
    return [(step.gap.best_bytes, step.gap.lower_bound_bytes) for step in steps if step.gap is not None]


def is_narrowing(gaps: list[tuple[int, int]]) -> bool:
    peaks, bounds = [peak for peak, _ in gaps], [bound for _, bound in gaps]
    return peaks == sorted(peaks, reverse=True) and bounds == sorted(bounds)


@pytest.mark.parametrize("algorithm", ["best", "exact", "hill_climb"])
def test_a_memory_search_tells_its_gap_long_before_its_end(algorithm: str) -> None:
    buffers: list[memory.Buffer] = hard_buffers()
    seen: list[WorkStage] = []
    # No plan needs less than any two buffers in conflict.
    sizes = {buffer.name: buffer.size_bytes for buffer in buffers}
    two = max(buffer.size_bytes + sizes[other] for buffer in buffers for other in buffer.conflicts)

    def look(step: WorkStage) -> None:
        seen.append(step)
        if len(set(gaps_of(seen))) == 2:
            raise Enough

    with pytest.raises(Enough):
        # It would take hours.
        memory.plan(buffers, algorithm=algorithm, iterations=4_000_000_000, progress=look)
    gaps = gaps_of(seen)
    assert seen[0].gap is None and is_narrowing(gaps) and gaps[0][1] >= two
    assert gaps[-1][0] <= memory.plan(buffers, algorithm="greedy_by_size").peak_bytes


@pytest.mark.parametrize("threads", [1, 3])
def test_the_last_gap_of_a_memory_search_is_its_answer(threads: int) -> None:
    seen: list[WorkStage] = []
    found = memory.plan(hard_buffers(), iterations=8_000, threads=threads, progress=seen.append)
    gaps = gaps_of(seen)
    assert is_narrowing(gaps) and gaps[-1] == (found.peak_bytes, found.lower_bound_bytes)
    assert found.offsets == memory.plan(hard_buffers(), iterations=8_000).offsets
    seen.clear()
    # A proved answer has a gap of nothing; one in two pools is told of the first.
    pools = (memory.Pool("small", 96), memory.Pool("large"))
    buffers = [memory.Buffer(f"b{n}", n % 3, n % 3 + 3, 16 + 8 * n) for n in range(6)]
    two = memory.plan(buffers, pools=pools, threads=threads, progress=seen.append)
    assert gaps_of(seen)[-1] == (two.peaks["small"], two.lower_bounds["small"])


def test_a_gap_is_a_sentence() -> None:
    assert str(OptimalityGap(1_234_000, 1_200_000)) == "best 1,234,000 bytes, at least 1,200,000 (2.8 % above)"
    assert str(OptimalityGap(1_234_000, 1_234_000)) == "best 1,234,000 bytes, which is optimal"
    assert str(OptimalityGap(5, 0)) == "best 5 bytes, at least 0"


def test_portions_are_parts_of_what_they_are_in() -> None:
    seen: list[float | None] = []
    tick = portion(portion(lambda part=None: seen.append(part), 0.5, 1), 0, 0.5)
    for part in (0, 0.5, 1):
        tick(part)
    tick()
    assert seen == [0.5, 0.625, 0.75, None]
    steps: list[WorkStage] = []
    told = one_of_many(steps.append, 1, 4)
    assert told is not None and one_of_many(None, 0, 1) is None
    told(WorkStage("plan", 0.5))
    assert (steps[0], steps[0].fraction) == ("plan", 0.375)


def test_a_stopwatch_never_goes_back() -> None:
    seen: list[float] = []
    watch = Stopwatch(lambda step: seen.append(step.fraction), ("import", "plan"))
    watch.begin("import")
    watch.tick(0.9)
    watch.tick(0.1)
    watch.begin("plan")
    watch.tick(7.0)
    watch.begin("something else")
    watch.end()
    assert seen == sorted(seen) and 0 < seen[1] == seen[2] < seen[3] < 1 and seen[4:] == [1, 1, 1]


# The log.


def test_the_log_has_stages_with_sizes_and_seconds(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ethoscade"):
        ethoscade.compile(MODEL)
    said = [record.getMessage() for record in caplog.records]
    assert [one.split(":")[0] for one in said] == ALL
    assert all(re.search(r"[a-z]; \d+\.\d{3} s$", one) for one in said)
    assert re.match(r"import: 'model', \d+ operators; ", said[0])
    assert re.search(r"[\d,]+ operators on the NPU as [\d,]+ operations, 0 on the CPU, [\d,]+ bytes", said[1])
    assert re.search(r"[\d,]+ points from [\d,]+ bytes on, [\d,]+ Plans", said[2])
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "ethoscade"):
        ethoscade.compile(MODEL, accelerator="none")
    assert any("stays on the CPU: no NPU" in record.getMessage() for record in caplog.records)


def test_nothing_is_said_by_default(model: str) -> None:
    code = f"import ethoscade; ethoscade.compile({model!r}, board='imx93', sram='1MiB')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_verbose_commands_log_and_quiet_ones_are_quiet(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["compile", model, "-o", str(tmp_path), "--json"]
    logger = logging.getLogger("ethoscade")
    before = (logger.level, list(logger.handlers))
    found = {}
    for more in ("", "-v", "-vv"):
        assert main([*command, *more.split()]) == 0
        out, found[more] = capsys.readouterr()
        assert json.loads(out)["model"] == "net"
    assert found[""] == ""
    assert [line.split(":")[0] for line in found["-v"].splitlines()] == ALL
    assert len(found["-vv"].splitlines()) > 20 and "blocks of" in found["-vv"]
    assert (logger.level, list(logger.handlers)) == before
    too_much = ["--board", "imx93", "--sram", "1MiB"]
    assert main([*command, *too_much]) == 0 and "more than board" in capsys.readouterr().err
    assert main([*command, *too_much, "-q"]) == 0 and capsys.readouterr().err == ""
    assert main([*command, "--sram", "16", "-q"]) == 1 and "does not fit" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*command, "-q", "-v"])


# The line.

# What a terminal's line is drawn of; a second is made short, as no test waits for a clock.
CHILD = """
import sys
from ethoscade.cli import working
from ethoscade.__main__ import main
working.AFTER_SECONDS = working._PAUSE_SECONDS = float(sys.argv[1])
sys.exit(main(sys.argv[2:]))
"""


def on_a_terminal(after: str, *command: str) -> tuple[int, str, str]:
    """Status, stdout, and what a terminal gets as stderr."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    child = subprocess.Popen([sys.executable, "-c", CHILD, after, *command], stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    said = b""
    with child:
        assert child.stdout is not None
        while True:
            ready, _, _ = select.select([ours], [], [], 0.05)
            try:
                more = os.read(ours, 65536) if ready else b""
            except OSError:  # how Linux says that nobody has the other end any more
                break
            said += more
            if not more and child.poll() is not None:
                break
        out = child.stdout.read().decode()
    os.close(ours)
    return child.returncode, out, said.decode()


def left_over(said: str) -> str:
    """What stays on a terminal's screen, line by line."""
    screen = []
    for line in said.replace("\r\n", "\n").split("\n"):
        cells: list[str] = []
        for drawn in line.split("\r"):
            cells[: len(drawn)] = drawn
        screen.append("".join(cells).rstrip())
    return "\n".join(screen)


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_terminal_gets_a_line_of_which_nothing_stays(model: str, more: tuple[str, ...]) -> None:
    status, out, said = on_a_terminal("0", "frontier", model, *more)
    assert status == 0 and (json.loads(out) if more else out)
    shares = [int(share) for share in re.findall(r"\[#* *\] +(\d+) %", said)]
    assert len(shares) > 5 and shares == sorted(shares) and 0 <= shares[0] < shares[-1] <= 100
    assert "\rencode [" in said and "\rplan [" in said
    assert left_over(said) == ""


def test_a_terminal_gets_the_gap_of_a_memory_search(tmp_path: Path) -> None:
    path = str(tmp_path / "buffers.csv")
    memory.write_csv(path, hard_buffers())
    command = ("plan-memory", path, "--iterations", "8000", "--json")
    status, out, said = on_a_terminal("0", *command)
    answer = json.loads(out)
    pattern = r"place best ([\d,]+) bytes, at least ([\d,]+) \((\d+\.\d) % above\)"
    gaps = [tuple(int(number.replace(",", "")) for number in found[:2]) for found in re.findall(pattern, said)]
    assert status == 0 and len(gaps) > 1 and is_narrowing(gaps)
    assert gaps[-1] == (answer["peak_bytes"], answer["lower_bound_bytes"])
    assert left_over(said) == ""
    # Nowhere else is it printed, nor does the answer depend on it.
    assert on_a_terminal("0", *command, "-q")[2] == "" and on_a_terminal("1000", *command)[2] == ""
    done = subprocess.run([sys.executable, "-c", CHILD, "0", *command], capture_output=True, text=True)
    quiet = json.loads(done.stdout)
    assert done.stderr == "" and quiet | {"seconds": 0} == answer | {"seconds": 0}


def test_the_line_waits_a_second(model: str) -> None:
    assert lines.AFTER_SECONDS == 1.0
    assert on_a_terminal("1000", "frontier", model)[2] == ""


def test_what_else_is_said_has_lines_of_its_own(model: str, tmp_path: Path) -> None:
    command = ("compile", model, "-o", str(tmp_path / "out"))
    _, _, said = on_a_terminal("0", *command, "-v")
    assert [line.split(":")[0] for line in left_over(said).splitlines()] == ALL
    status, _, said = on_a_terminal("0", *command, "--sram", "16")
    assert status == 1 and re.fullmatch(r"ethoscade: 'net' does not fit[^\n]*\n", left_over(said))
    assert on_a_terminal("0", *command, "-q")[2] == ""


def test_whoever_is_no_terminal_gets_no_line(model: str) -> None:
    done = subprocess.run([sys.executable, "-c", CHILD, "0", "frontier", model], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_line_is_no_longer_than_its_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", "20")
    line = lines.ProgressLine(_began=time.monotonic() - 10)
    line(WorkStage("plan", 0.5))
    line(WorkStage("plan", 0.6))  # too soon
    assert stream.getvalue() == "\rplan [############ "
    line.clear()
    line.clear()
    assert left_over(stream.getvalue()) == "" and stream.getvalue().count("\r") == 3


def test_work_that_fails_takes_its_line_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(lines, "AFTER_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt), lines.working(Namespace(quiet=False), "net") as progress:  # noqa: PT012
        assert progress is not None
        progress(WorkStage("plan", 0.5))
        raise KeyboardInterrupt
    said = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert "net: plan [" in said and left_over(said) == ""
