"""Stopping what takes long: Ctrl-C on the command line, and a callback that raises, at every stage."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import ethoscade
import pytest
from ethoscade import memory
from ethoscade.frontend import read_tflite
from ethoscade.judge import litert
from ethoscade.judge.verification import random_inputs
from ethoscade.testing import mobilenet_v1, tiny_conv

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and groups of processes are POSIX's")

HANGS = 120
"""Seconds after which a child counts as one that cannot be stopped."""

# Runs the command line, and says when the function that argument 1 names is called for the first time.
CHILD = """
import importlib, sys
from ethoscade.__main__ import main
*path, name = sys.argv[1].split(".")
# A function of a module, or a method of a class of one.
depth = next(n for n in range(len(path), 0, -1) if path[n - 1] == path[n - 1].lower())
owner = importlib.import_module(".".join(path[:depth]))
for part in path[depth:]:
    owner = getattr(owner, part)
function = getattr(owner, name)
def announced(*arguments, **named):
    print("now", flush=True)
    return function(*arguments, **named)
setattr(owner, name, announced)
sys.exit(main(sys.argv[2:]))
"""


def interrupted(when: str, arguments: list[str]) -> tuple[int, str]:
    """Status and stderr of the command line, interrupted when it calls the function `when`."""
    command = [sys.executable, "-c", CHILD, when, *arguments]
    pipe = subprocess.PIPE
    # Whoever runs the tests may have SIGINT ignored, as a shell does for what runs in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        child = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    finally:
        signal.signal(signal.SIGINT, before)
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "now\n"
        # As a terminal does: its own children get the signal as well.
        os.killpg(child.pid, signal.SIGINT)
        try:
            _, err = child.communicate(timeout=HANGS)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            raise
        return child.returncode, err


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A network whose exact frontier takes minutes."""
    path = tmp_path_factory.mktemp("interrupts") / "net.tflite"
    path.write_bytes(mobilenet_v1(0.5, 64))
    return str(path)


@pytest.fixture(scope="module")
def buffers(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Buffers that are searched for minutes."""
    rows = [f"b{n},{n * 7919 % 900},{n * 7919 % 900 + 5 + n % 40},{1 + n * 104_729 % 9973}" for n in range(900)]
    path = tmp_path_factory.mktemp("interrupts") / "buffers.csv"
    path.write_text("\n".join(["id,lower,upper,size", *rows]) + "\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("when", "command"),
    [
        ("ethoscade.pipeline.prepared.read_tflite", "compile"),
        ("ethoscade._core.plan_weights", "compile"),
        ("ethoscade.codegen.vela.encode_weights", "compile --weight-encoder vela"),
        ("ethoscade._core.Search", "compile"),
        ("ethoscade._core.Search", "compile --sram 100KiB"),
        ("ethoscade.scheduling.schedule.arrange", "compile"),
        ("ethoscade.codegen.command_stream.generate", "compile"),
        ("ethoscade.cli.compile.write_together", "compile"),
        ("ethoscade._core.Search", "frontier"),
        ("ethoscade.judge.litert.Session.run", "verify"),
        ("ethoscade.run.judgement.run_artifact_steps", "verify"),
        ("ethoscade.run.host_c.build", "verify --target c"),
        ("ethoscade.run.host_c._execute", "verify --target c"),
    ],
)
def test_ctrl_c_ends_every_stage_in_one_line_and_writes_nothing(
    when: str, command: str, model: str, tmp_path: Path
) -> None:
    if "litert" in when:
        pytest.importorskip("ai_edge_litert")
    if "host_c" in when and shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path / "out"
    exact = ["--epsilon", "0"] if "search" in when.lower() else []
    name, *options = command.split()
    written = ["-o", str(folder), "--emit", "tflite,mlf"] if name == "compile" else []
    status, err = interrupted(when, [name, model, *options, *exact, *written])
    assert (status, err) == (130, "ethoscade: interrupted\n")
    assert not folder.exists() or not list(folder.iterdir())


def test_nothing_outlives_a_reference_whose_time_is_stopped_as_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that is no daemon would keep the process until a reference had taken too long."""
    pytest.importorskip("ai_edge_litert")
    graph = read_tflite(tiny_conv())
    begun: list[threading.Thread] = []
    start = threading.Timer.start

    def interrupted_start(timer: threading.Timer) -> None:
        start(timer)
        begun.append(timer)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Timer, "start", interrupted_start)
    with litert.Session(graph.source, graph.name) as session, pytest.raises(KeyboardInterrupt):
        session.run([0], graph.inputs, graph.outputs, [])
    (timer,) = begun
    timer.join(HANGS)
    assert timer.daemon and not timer.is_alive()


@pytest.mark.parametrize("algorithm", ["best", "exact", "hill_climb"])
def test_ctrl_c_ends_memory_planning(algorithm: str, buffers: str, tmp_path: Path) -> None:
    output = tmp_path / "placed.csv"
    arguments = [
        "plan-memory",
        buffers,
        "--algorithm",
        algorithm,
        "--iterations",
        "4000000000",
        "--output",
        str(output),
    ]
    status, err = interrupted("ethoscade._core.plan_memory", arguments)
    assert (status, err) == (130, "ethoscade: interrupted\n")
    assert not output.exists()


class Stop(Exception):
    """What a caller's callback raises."""


def stopping_at(stage: str, turn: int, seen: list[str]) -> Callable[[str], None]:
    """A callback that raises when it is told of a stage for the `turn`-th time; on the caller's thread only."""
    caller = threading.get_ident()

    def progress(name: str) -> None:
        assert threading.get_ident() == caller
        seen.append(name)
        if seen.count(stage) == turn:
            raise Stop(stage)

    return progress


@pytest.mark.parametrize(
    ("stage", "turn"),
    [("import", 1), ("encode", 1), ("encode", 5), ("plan", 1), ("plan", 3), ("place", 1), ("codegen", 1)],
)
def test_progress_ends_every_stage(stage: str, turn: int) -> None:
    seen: list[str] = []
    with pytest.raises(Stop, match=stage):
        ethoscade.compile(mobilenet_v1(0.5, 64), optimise="balanced", progress=stopping_at(stage, turn, seen))
    assert seen[-1] == stage and seen.count(stage) == turn


def test_progress_ends_planning_that_would_take_minutes() -> None:
    model = mobilenet_v1(0.5, 64)
    with pytest.raises(Stop):
        ethoscade.frontier(model, epsilon=0, progress=stopping_at("plan", 4, []))


def test_a_tick_ends_memory_planning_on_any_thread() -> None:
    rows = [memory.Buffer(f"b{n}", n * 37 % 90, n * 37 % 90 + 5 + n % 7, 1 + n * 104_729 % 9973) for n in range(200)]

    def stop() -> None:
        raise Stop

    def plan(threads: int, found: list[BaseException]) -> None:
        try:
            memory.plan(rows, algorithm="hill_climb", iterations=4_000_000_000, threads=threads, tick=stop)
        except Stop as stopped:
            found.append(stopped)

    for threads in (1, 4):
        found: list[BaseException] = []
        other = threading.Thread(target=plan, args=(threads, found))
        other.start()
        other.join(HANGS)
        assert len(found) == 1


def test_a_machine_that_was_stopped_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal comes at once, so that the run is stopped before its end or found done; either way nothing is lost."""
    compiled = ethoscade.compile(tiny_conv())
    inputs = random_inputs(compiled.source, 0)
    want = compiled.simulate(inputs)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the signal may come as late as inside the run
            os.kill(os.getpid(), signal.SIGINT)
            compiled.simulate(inputs)
    finally:
        signal.signal(signal.SIGINT, before)
    again = compiled.simulate(inputs)
    assert all((again.outputs[name] == want.outputs[name]).all() for name in want.outputs)


def test_nothing_that_asks_changes_what_is_found() -> None:
    model = mobilenet_v1(0.25, 96)
    ticked = ethoscade.frontier(model, progress=lambda _: None)
    assert ticked.points == ethoscade.frontier(model).points


# Ctrl-C while the core reads a field of the device, or with argument 2 a field of that field: there it is a TypeError.
AT_FIELD = """
import sys
from ethoscade.__main__ import main
from ethoscade.scheduling import problem
class Stopped:
    @property
    def accelerator(self):
        if sys.argv[2:]:
            return self
        raise KeyboardInterrupt
    @property
    def name(self):
        raise KeyboardInterrupt
real = problem._core.CascaderGraph
problem._core.CascaderGraph = lambda tensors, parts, _, *numbers: real(tensors, parts, Stopped(), *numbers)
sys.exit(main(["compile", sys.argv[1]]))
"""


@pytest.mark.parametrize("deeper", [[], ["deeper"]], ids=["field", "field of a field"])
def test_ctrl_c_while_the_core_reads_a_field_is_no_error(deeper: list[str], model: str) -> None:
    command = [sys.executable, "-c", AT_FIELD, model, *deeper]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False)
    assert (done.returncode, done.stderr) == (130, "ethoscade: interrupted\n")


# Imported by every interpreter that finds it: Ctrl-C as the module of this name is imported, once.
AT_IMPORT = """
import os, sys
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["STOP_AT"]:
            sys.meta_path.remove(self)
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stop())
"""


@pytest.mark.parametrize("name", ["ethoscade.errors", "logging", "argparse", "ethoscade.cli.compile", "numpy"])
@pytest.mark.parametrize("script", [False, True], ids=["-m", "script"])
def test_ctrl_c_during_imports_prints_no_traceback(name: str, script: bool, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(AT_IMPORT, encoding="utf-8")
    # What pip writes for the entry point of `[project.scripts]`.
    console = tmp_path / "ethoscade"
    console.write_text("import sys\nfrom ethoscade.__main__ import program\nsys.exit(program())\n", encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), str(Path(ethoscade.__file__).parents[1])])
    start = [str(console)] if script else ["-m", "ethoscade"]
    done = subprocess.run(
        [sys.executable, *start, "compile", "net.tflite"],
        env={**os.environ, "PYTHONPATH": path, "STOP_AT": name},
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "ethoscade: interrupted\n")


# As `python -m ethoscade`, and says when the function that argument 1 names is called.
PROGRAM = CHILD.replace("import main", "import program").replace(
    "sys.exit(main(sys.argv[2:]))", "sys.argv = ['ethoscade', *sys.argv[2:]]\nsys.exit(program())"
)


@pytest.mark.parametrize(
    ("when", "command"),
    [
        ("ethoscade.run.host_c.build", "verify --target c"),
        ("ethoscade.run.host_c._execute", "verify --target c"),
        ("ethoscade.judge.litert.Session.run", "verify"),
        ("ethoscade.cli.compile.write_together", "compile -o out --emit tflite,mlf"),
    ],
)
def test_sigterm_leaves_no_temporary_folder(when: str, command: str, model: str, tmp_path: Path) -> None:
    if "litert" in when:
        pytest.importorskip("ai_edge_litert")
    if "host_c" in when and shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    temporary, work = tmp_path / "temporary", tmp_path / "work"
    temporary.mkdir()
    work.mkdir()
    name, *options = command.split()
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, when, name, model, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=work,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "now\n"
        child.terminate()
        try:
            _, err = child.communicate(timeout=HANGS)
        except subprocess.TimeoutExpired:
            child.kill()
            raise
    assert (child.returncode, err) == (143, "ethoscade: terminated\n")
    assert not list(temporary.iterdir()) and not list(work.glob("out/*"))


# Sends SIGTERM as soon as the function of `os` that argument 1 names has made something in the temporary folder.
AT_CREATION = """
import os, signal, sys
from ethoscade.__main__ import program
make = getattr(os, sys.argv[1])
def ended(path, *arguments, **named):
    made = make(path, *arguments, **named)
    if str(path).startswith(os.environ["TMPDIR"]):
        os.kill(os.getpid(), signal.SIGTERM)
    return made
setattr(os, sys.argv[1], ended)
sys.argv = ["ethoscade", *sys.argv[2:]]
sys.exit(program())
"""


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="this system cannot hold signals back")
@pytest.mark.parametrize("makes", ["open", "mkdir"])
def test_sigterm_as_something_temporary_is_made_leaves_nothing(makes: str, model: str, tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", AT_CREATION, makes, "verify", "--target", "c", model],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (143, "ethoscade: terminated\n")
    assert not list(temporary.iterdir())
