"""The processes of this machine that answer by default: an executor of workers, each killed and replaced alone.

Owns the processes: how they start, what they are sent, how they end. Knows nothing of questions.

The standard library's pool gives up all of its work when one process dies, and does not say whose fault it was. It also
runs the caller's script again in every process. Here each worker is a program of its own that a thread talks to by
pipes, so that a death, or a call that takes too long, is the fault of one call and costs no other call anything.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import IO, Any, ParamSpec, TypeVar

from ..util.files import absolute_path

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_HEAD = struct.Struct(">Q")
IS_READY = b"ready"
_PROGRAM = "from ethoscade.sweeps.worker_process import main; main()"


def send(stream: IO[bytes], data: bytes) -> None:
    """Write one message."""
    stream.write(_HEAD.pack(len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes:
    """Read one message. Raises `EOFError` where the other side is gone."""
    head = stream.read(_HEAD.size)
    if len(head) == _HEAD.size:
        (length,) = _HEAD.unpack(head)
        data = stream.read(length)
        if len(data) == length:
            return data
    raise EOFError("the other side is gone")


class Workers(Executor):
    """A number of processes, each with one call at a time; calls wait for the next that is free.

    A future's result is `BrokenProcessPool` where its worker died, and `TimeoutError` where the call took more seconds
    than `seconds_of` gives its first argument (None for any number). Others are not touched, and a new worker takes the
    place of the old one. Processes start when they are first needed; they have no terminal, and end with this one.
    """

    def __init__(self, jobs: int, seconds_of: Callable[[Any], float | None] = lambda _: None) -> None:
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="ethoscade-sweep")
        self._seconds_of = seconds_of
        self._all = [_Worker() for _ in range(jobs)]
        self._free: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        for worker in self._all:
            self._free.put(worker)

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes that are there now."""
        return tuple(pid for worker in self._all if (pid := worker.pid) is not None)

    def submit(
        self, fn: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Future[Result]:
        """As every executor's; the function is one of a module, and all that passes pickles."""
        return self._threads.submit(self._call, pickle.dumps((fn, args, kwargs)), args[0] if args else None)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End all workers: when they are done, or where futures are cancelled at once."""
        self._threads.shutdown(wait=not cancel_futures and wait, cancel_futures=cancel_futures)
        for worker in self._all:
            worker.end()
        self._threads.shutdown(wait=wait)

    def _call(self, call: bytes, first: Any) -> Any:
        worker = self._free.get()
        try:
            return worker.call(call, self._seconds_of(first))
        finally:
            self._free.put(worker)


class _Worker:
    """One process, started when there is something to do for it and none is there."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    def call(self, call: bytes, seconds: float | None) -> Any:
        """The function's result, or raised what it raised."""
        process = self._started()
        assert process.stdin is not None and process.stdout is not None, "it was started with pipes"
        late = threading.Event()
        timer = None
        try:
            if seconds is not None:
                timer = threading.Timer(seconds, _kill, (process, late))
                timer.daemon = True
                timer.start()
            send(process.stdin, call)
            is_result, value = pickle.loads(receive(process.stdout))
        except (EOFError, OSError):
            status = self._buried(process)
            if late.is_set():
                raise TimeoutError(f"a worker was killed after {seconds:g} seconds") from None
            raise BrokenProcessPool(_how(status)) from None
        finally:
            if timer is not None:
                timer.cancel()
        if is_result:
            return value
        raise value

    def end(self) -> None:
        """End the process, whatever it does, and start no other one."""
        with self._lock:
            self._is_over = True
            process = self._process
        if process is not None:
            self._buried(process)

    def _started(self) -> subprocess.Popen[bytes]:
        """The process, ready for a call. Raises `BrokenProcessPool` for one that does not get so far."""
        with self._lock:
            if self._is_over:
                raise BrokenProcessPool("the workers were ended")
            if self._process is not None and self._process.poll() is None:
                return self._process
            process = self._process = _start()
        assert process.stdout is not None, "it was started with pipes"
        try:
            if receive(process.stdout) != IS_READY:
                raise EOFError
        except (EOFError, OSError):
            raise BrokenProcessPool(_how(self._buried(process))) from None
        return process

    def _buried(self, process: subprocess.Popen[bytes]) -> int:
        """The exit status of a process that is ended."""
        process.kill()
        for stream in (process.stdin, process.stdout):
            assert stream is not None, "it was started with pipes"
            with contextlib.suppress(OSError, ValueError):
                stream.close()
        return process.wait()


def _start() -> subprocess.Popen[bytes]:
    """A worker that imports from where this process does, in a group of its own: Ctrl-C is not for it to decide."""
    paths = [str(absolute_path(path)) for path in sys.path]
    alone = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    flags = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
    command = [sys.executable, "-c", _PROGRAM]
    return subprocess.Popen(
        command, stdin=pipe, stdout=pipe, env=alone, start_new_session=os.name == "posix", creationflags=flags
    )


def _kill(process: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    process.kill()


def _how(status: int) -> str:
    return f"a worker was ended by signal {-status}" if status < 0 else f"a worker ended with status {status}"
