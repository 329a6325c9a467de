"""The program that `workers` starts: calls come in by stdin, results go out by stdout, and it ends when stdin does.

Owns the two streams, so that nothing that a library prints can come between messages.
"""

from __future__ import annotations

import os
import pickle
import queue
import threading
from typing import IO, Any

from .workers import IS_READY, receive, send


def main() -> None:
    """Work until the parent process is gone, even in the middle of a call."""
    calls, results = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.dup2(2, 1)
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_work, args=(waiting, results), daemon=True).start()
    try:
        send(results, IS_READY)
        while True:
            waiting.put(receive(calls))
    except (EOFError, OSError):
        os._exit(0)


def _work(waiting: queue.SimpleQueue[bytes], results: IO[bytes]) -> None:
    while True:
        call = waiting.get()
        reply = reply_of(call)
        try:
            send(results, reply)
        except OSError:
            os._exit(0)


def reply_of(call: bytes) -> bytes:
    """The result of a call, pickled: (True, result) or (False, what was raised)."""
    try:
        function, arguments, named = pickle.loads(call)
        return pickle.dumps((True, function(*arguments, **named)))
    except BaseException as error:  # noqa: BLE001 - it is raised where the call came from
        return _raised(error)


def _raised(error: BaseException) -> bytes:
    """An error that pickles, or else its words."""
    told: Any = error
    try:
        pickle.loads(pickle.dumps(told))
    except Exception:  # noqa: BLE001 - errors of others pickle as they please
        told = RuntimeError(f"{type(error).__name__}: {error}")
    return pickle.dumps((False, told))
