"""What compiling leaves alone: everything that belongs to the whole process, in one thread and in many."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import tracemalloc
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ethoscade
import numpy as np
import pytest
from ethoscade import Compiled
from ethoscade.codegen import tflite
from ethoscade.codegen.artifact import NpuCall
from ethoscade.targets.target import ACCELERATORS
from ethoscade.testing import mobilenet_v1, residual_network, tiny_conv

# Threads compile for accelerators that Vela has not met yet while the main thread prints.
PRINTING = """
import sys, threading
import ethoscade
from ethoscade.targets.target import ACCELERATORS
from ethoscade.testing import tiny_conv

model = tiny_conv()
start = threading.Barrier(len(ACCELERATORS) + 1)
def work(name):
    start.wait()
    ethoscade.compile(model, accelerator=name)
threads = [threading.Thread(target=work, args=(name,)) for name in ACCELERATORS]
for thread in threads: thread.start()
start.wait()
count = 0
while any(thread.is_alive() for thread in threads):
    print("line", count)
    count += 1
for thread in threads: thread.join()
assert sys.stdout is sys.__stdout__
print(count)
"""


def test_printing_goes_on_while_threads_compile() -> None:
    done = subprocess.run([sys.executable, "-c", PRINTING], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    *lines, count = done.stdout.splitlines()
    assert lines == [f"line {n}" for n in range(int(count))]


def content(compiled: Compiled) -> tuple[bytes, ...]:
    """Everything that would be written."""
    payloads = [call.payload for call in compiled.artifact.calls if isinstance(call, NpuCall)]
    return (tflite.write(compiled.artifact), compiled.artifact.constants, *payloads)


def test_threads_compile_the_bytes_that_one_alone_does() -> None:
    models = [tiny_conv(), mobilenet_v1(0.25, 32), residual_network(blocks=2, channels=8, resolution=16)]
    jobs = [(model, name) for model in models for name in ACCELERATORS if not name.endswith("512")]

    def run(job: tuple[bytes, str]) -> tuple[bytes, ...]:
        return content(ethoscade.compile(job[0], accelerator=job[1]))

    alone = [run(job) for job in jobs]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, jobs * 2)) == alone * 2


def settings() -> dict[str, Any]:
    """What a process has once."""
    return {
        "stdout": sys.stdout,
        "stderr": sys.stderr,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "warnings": list(warnings.filters),
        "numpy errors": np.geterr(),
        "numpy printing": np.get_printoptions(),
        "numpy random": np.random.get_state()[1].tolist(),  # type: ignore[union-attr, unused-ignore]  # noqa: NPY002
        "recursion": sys.getrecursionlimit(),
        "switching": sys.getswitchinterval(),
        "hook": sys.excepthook,
        "threads": threading.active_count(),
    }


@pytest.mark.parametrize(
    "use",
    [
        lambda: ethoscade.compile(mobilenet_v1(0.25, 32)),
        lambda: ethoscade.frontier(tiny_conv()),
        lambda: ethoscade.compile(tiny_conv()).explain(),
        lambda: ethoscade.compile(tiny_conv()).timing(),
    ],
)
def test_nothing_that_a_process_has_once_changes(use: Callable[[], object]) -> None:
    before = settings()
    use()
    assert settings() == before


def test_many_compilations_leave_nothing_behind() -> None:
    model, runs = mobilenet_v1(0.25, 32), 4

    def compile_all() -> int:
        for _ in range(runs):
            ethoscade.compile(model)
        gc.collect()
        # Python remembers the names of some thousand attributes.
        getattr(sys, "_clear_type_cache", lambda: None)()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        compile_all()
        before = compile_all()
        grown = compile_all() - before
    finally:
        tracemalloc.stop()
    assert grown < 512 * runs, grown
