"""What the benches share: the public models, Vela in a child process, streams under the timing model, CPU seconds.

Owns no figures.
"""

from __future__ import annotations

import csv
import math
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "models"))

import vela_file
from ethoscade import Compiled, Curve
from ethoscade.codegen.artifact import NpuCall
from ethoscade.frontend import read_tflite
from ethoscade.ir import Graph, Operator
from ethoscade.pipeline.compiler import Network, carry_out, prepare, search
from ethoscade.run.timing import TimingReport, simulate_timing
from ethoscade.targets.target import Target, load_target
from model_files import NO_MODELS, model_folder

Result = TypeVar("Result")

ACCELERATOR = "ethos-u55-256"
SYSTEM_CONFIG = "Ethos_U55_High_End_Embedded"
MEMORY_MODE = "Shared_Sram"
CORES = ("regor", "legacy")

SHARED_MODELS = (
    "mobilenet_v1_1.0_224_embed_uint8",
    "mobilenet_v2_1.0_224_ptq",
    "mobilenet_v1_0.25_128_uint8",
    "vww_96_int8",
    "person_detect",
    "resnet8_int8",
    "kws_ref_int8",
)


def named_models(names: Sequence[str]) -> list[Path]:
    """The files of the models (names or paths), `SHARED_MODELS` if none is named. Ends the bench if there is none."""
    folder = model_folder()
    paths = []
    for name in names or SHARED_MODELS:
        path = Path(name) if name.endswith(".tflite") else (folder or Path()) / f"{name}.tflite"
        if not path.is_file():
            sys.exit(NO_MODELS if folder is None else f"no file {path}")
        paths.append(path)
    return paths


def default_target() -> Target:
    """The system that Vela's figures and ours are compared on."""
    return load_target(ACCELERATOR, SYSTEM_CONFIG, MEMORY_MODE)


def cpu_seconds(work: Callable[[], Result]) -> tuple[Result, float]:
    """A result and the CPU time that it took this process."""
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


def network_of(model: Path, target: Target) -> Network:
    """A model made ready for scheduling."""
    return prepare(read_tflite(model), target)


def run_limited(command: Sequence[str], seconds: int, megabytes: int) -> tuple[str, str]:
    """What a child process printed, and what became of it in a few words; the latter is empty if it ended well.

    It may take so many seconds of CPU time and so much address space, and ten times the seconds in all.
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))

    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=10 * seconds, preexec_fn=limit, env=alone
        )
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
        return output, f"hang: waits for {10 * seconds} s"
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return done.stdout, f"hang: stopped after {seconds} s"
    if done.returncode < 0:
        return done.stdout, f"killed by signal {-done.returncode}"
    if done.returncode:
        said = done.stderr.strip().splitlines() or done.stdout.strip().splitlines() or [f"status {done.returncode}"]
        return done.stdout, f"traceback: {said[-1]}"
    return done.stdout, ""


def every_point(network: Network, curve: Curve | None = None) -> Iterator[Compiled]:
    """The network compiled at each point of its frontier, ascending in SRAM; weights are encoded once."""
    curve = curve or search(network)
    return (carry_out(network, curve, proposal) for proposal in curve.proposals)


def payloads_of(compiled: Compiled) -> tuple[bytes, ...]:
    """The command streams of a compiled network."""
    return tuple(call.payload for call in compiled.artifact.calls if isinstance(call, NpuCall))


@dataclass(frozen=True)
class Cost:
    """The streams of one network under the timing model, in cycles.

    `mac_engine`, `sram` and `flash` are what each of them is busy with; `flash_once` is the flash's share if every
    constant were read once. No order of the operations takes less than `bound`.
    """

    cycles: int
    mac_engine: int
    sram: int
    flash: int
    flash_once: int

    @property
    def bound(self) -> int:
        """The busiest of MAC engine, SRAM and flash, every constant read once."""
        return max(self.mac_engine, self.sram, self.flash_once)


def cost_of(payloads: Iterable[bytes], target: Target) -> Cost:
    """Add up the streams of one network."""
    reports: list[TimingReport] = [simulate_timing(payload, target) for payload in payloads]
    constants, arena = target.constants.name, target.arena.name
    once = sum(report.constant_bytes + report.memories[constants].command_bytes for report in reports)
    rate = target.constants.bytes_per_cycle
    return Cost(
        cycles=sum(report.cycles for report in reports),
        mac_engine=sum(report.mac_engine_cycles for report in reports),
        sram=sum(report.memories[arena].busy_cycles for report in reports),
        flash=sum(report.memories[constants].busy_cycles for report in reports),
        flash_once=once * rate[1] // rate[0],
    )


@dataclass(frozen=True)
class VelaRun:
    """What Vela made of a model: payloads, SRAM bytes and its own total of cycles."""

    payloads: tuple[bytes, ...]
    sram_bytes: int
    own_cycles: int


def vela_command(model: Path, core: str, mode: str, output: Path, target: Target | None = None) -> list[str]:
    """Vela's command line for a model, on the default target if none is given."""
    accelerator, system, memory = ACCELERATOR, SYSTEM_CONFIG, MEMORY_MODE
    if target is not None:
        accelerator, system, memory = target.accelerator.name, target.system_config, target.memory_mode
    command = [sys.executable, "-m", "ethosu.vela", str(model), "--output-dir", str(output), "--optimise", mode]
    command += ["--accelerator-config", accelerator, "--system-config", system, "--memory-mode", memory]
    return command + (["--debug-force-legacy-core"] if core == "legacy" else [])


def run_vela(model: Path, core: str, mode: str, folder: Path, arena_bytes: int | None = None) -> VelaRun | None:
    """Vela's command line in a child process, into an own folder of `folder`; None if it dies.

    `mode` is "Size" or "Performance"; only the latter looks at `arena_bytes`. What the folder holds is used again.
    """
    output = folder / f"{model.stem}.{mode}.{core}{'' if arena_bytes is None else f'.{arena_bytes}'}"
    command = vela_command(model, core, mode, output)
    command += [] if arena_bytes is None else ["--arena-cache-size", str(arena_bytes)]
    compiled = output / f"{model.stem}_vela.tflite"
    if not compiled.is_file():
        output.mkdir(parents=True, exist_ok=True)
        alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        if subprocess.run(command, capture_output=True, env=alone).returncode or not compiled.is_file():
            return None
    calls = [op for op in vela_file.read(compiled).operators if not isinstance(op, str)]
    with open(next(output.glob("*_summary_*.csv")), encoding="utf-8", newline="") as text:
        own_cycles = round(float(next(csv.DictReader(text))["cycles_total"]))
    return VelaRun(tuple(call.payload for call in calls), max(call.scratch[1] for call in calls), own_cycles)


def macs_of(graph: Graph, operator: Operator) -> int:
    """Products that an operator with weights sums up, by its shapes alone; 0 for operators without weights."""
    tensors = [None if t is None else graph.tensors[t] for t in operator.inputs]
    made = math.prod(graph.made(operator).shape) if operator.outputs else 0
    weights = tensors[1].shape if len(tensors) > 1 and tensors[1] is not None else ()
    if operator.kind == "CONV_2D" and len(weights) == 4:
        return made * math.prod(weights[1:])
    if operator.kind == "DEPTHWISE_CONV_2D" and len(weights) == 4:
        return made * weights[1] * weights[2]
    if operator.kind in ("FULLY_CONNECTED", "BATCH_MATMUL") and weights:
        return made * weights[-1]
    if operator.kind == "TRANSPOSE_CONV" and len(weights) == 4 and tensors[2] is not None:
        return math.prod(tensors[2].shape) * math.prod(weights[:3])
    if operator.kind in ("SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM") and tensors[0] is not None:
        steps = math.prod(tensors[0].shape[:-1])
        return steps * sum(math.prod(t.shape) for t in tensors if t is not None and t.is_constant and len(t.shape) == 2)
    return 0


def kib(size_bytes: float) -> str:
    """Bytes in KiB, to a tenth."""
    return f"{size_bytes / 1024:.1f}"


def millions(cycles: int) -> str:
    """A number of cycles in millions."""
    return f"{cycles / 1e6:.3f}"


def put_table(found: Sequence[tuple[str, tuple[str, bool]]], head: str, page: Path | None) -> int:
    """Print a table of models, each with its row and whether that is right, and put it into a page if all are.

    It takes the place of the page's table with the same head. Returns the exit status, 3 if a row is wrong.
    """
    rows = "".join(row for _, (row, _) in found)
    wrong = [name for name, (_, is_right) in found if not is_right]
    print(f"{head}{rows}{len(found)} models; wrong: {', '.join(wrong) or 'none'}")
    if page is not None and not wrong:
        before, _, after = page.read_text(encoding="utf-8").partition(head)
        page.write_text(f"{before}{head}{rows}\n{after.partition(chr(10) * 2)[2]}", encoding="utf-8")
    return 3 if wrong else 0
