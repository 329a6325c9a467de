"""Temporary files and folders that no signal leaves behind.

Owns their creation: Ctrl-C and SIGTERM wait until an object owns what was created, and removes it.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO


def make_folder(prefix: str) -> tempfile.TemporaryDirectory[str]:
    """A folder that goes with its object."""
    with _signals_held():
        return tempfile.TemporaryDirectory(prefix=prefix)


def make_file() -> IO[bytes]:
    """A file without a name, which goes when it is closed."""
    with _signals_held():
        return tempfile.TemporaryFile()


@contextmanager
def _signals_held() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait for the end of the block, where the system can hold signals (Windows cannot)."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
