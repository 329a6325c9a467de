"""Sweeps on Dask: a real scheduler and real workers, as processes of this machine; one is killed in the middle."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import ethoscade
import pytest
from command_line_support import Capture, run
from ethoscade import ConfigError
from ethoscade.sweeps.cluster import cluster
from ethoscade.sweeps.rows import merged
from sweeping import BUDGETS, TARGETS, Here, networks

HANGS = 120
"""Seconds after which a process counts as one that does not start."""


@contextmanager
def dask(name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """One of Dask's programs."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{name}", "--no-dashboard", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def machines(folder: Path, count: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The address of a scheduler and so many workers, once all of them are there."""
    found = folder / "scheduler.json"
    file = ["--scheduler-file", str(found)]
    with ExitStack() as stack:
        stack.enter_context(dask("scheduler", "--host", "127.0.0.1", "--port", "0", *file))
        until(found.exists)
        workers = [stack.enter_context(dask("worker", "--nthreads", "1", "--no-nanny", *file)) for _ in range(count)]
        address = json.loads(found.read_text(encoding="utf-8"))["address"]

        def all_there() -> bool:
            with cluster(address) as (_, threads):
                return threads == count

        until(all_there)
        yield address, workers


def until(is_so: Callable[[], bool]) -> None:
    """Wait for processes to start."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < HANGS
        time.sleep(0.1)


def test_a_worker_that_is_killed_loses_nothing_and_nothing_comes_twice(tmp_path: Path, capfd: Capture) -> None:
    pytest.importorskip("distributed")
    expected = ethoscade.sweep(networks(), TARGETS, BUDGETS, Here(), output=tmp_path / "here.csv").collect()
    rows = []
    with machines(tmp_path, 2) as (address, workers), cluster(address) as (executor, threads):
        assert threads == 2
        with ethoscade.sweep(networks(), TARGETS, BUDGETS, executor, output=tmp_path / "dask.csv") as sweep:
            for row in sweep:
                rows.append(row)
                if len(rows) == 3:
                    os.kill(workers[0].pid, signal.SIGKILL)
        assert workers[0].wait() == -signal.SIGKILL and workers[1].poll() is None
        for name, data in networks().items():
            (tmp_path / f"{name}.tflite").write_bytes(data)
        options = ["--targets", *TARGETS, "--budgets", *map(str, BUDGETS), "-o", str(tmp_path / "command.csv")]
        status, out, err = run(["sweep", str(tmp_path), "--dask", address, *options], capfd)
        assert (status, err) == (0, "") and out.startswith(f"{sweep.questions} questions answered: ")
    assert len(rows) == len(expected) and merged(rows) == list(expected)
    assert len({(tmp_path / f"{who}.csv").read_bytes() for who in ("here", "dask", "command")}) == 1


def test_no_scheduler_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is left open, which the garbage collector would close in the middle of the next attempt."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr("ethoscade.sweeps.cluster._PATIENCE_SECONDS", 0.5)
    for address in ("tcp://127.0.0.1:1", "nowhere", "", "tcp://"):
        with pytest.raises(ConfigError, match="no Dask scheduler answers") as refused, cluster(address):
            pass
        # What the error's traceback holds on to is still there.
        clients = [thing for thing in gc.get_objects() if issubclass(type(thing), distributed.Client)]
        assert refused.value.__cause__ is not None and clients
        assert {client.status for client in clients} == {"closed"}


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ConfigError, match=r"ethoscade\[dask\]"), cluster("tcp://127.0.0.1:1"):
        pass
