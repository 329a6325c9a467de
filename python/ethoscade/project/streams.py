"""Streams of bytes to a board: a child process, QEMU or the host's own, or a serial port.

Owns opening, waiting with a limit, and closing them. Looks at no byte.
"""

from __future__ import annotations

import os
import select
import subprocess
import weakref
from collections.abc import Callable, Sequence
from typing import IO, Protocol

from ..errors import ProjectError
from ..util.temporary import make_file

_AT_ONCE = 1 << 16
_LAST_WORDS = 2000


class ByteStream(Protocol):
    """What a template opens, and `Connection` talks over. Both ends may lose, double or change bytes."""

    def send(self, data: bytes) -> None:
        """Send all of `data`. Raises `ProjectError` where the other end is gone."""

    def receive(self, seconds: float) -> bytes:
        """What has come, at least a byte of it, or b"" after a number of seconds. Raises `ProjectError` at the end."""

    def close(self) -> None:
        """Let go of the board; once is enough, and more does no harm."""


class ProcessStream:
    """The standard input and output of a child process, which ends with the stream. `on_close` is called last."""

    def __init__(self, command: Sequence[str], on_close: Callable[[], None] = lambda: None) -> None:
        self._program = command[0]
        self._words = make_file()
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._words, bufsize=0
            )
        except OSError as error:
            self._words.close()
            raise ProjectError(f"cannot start '{command[0]}': {error.strerror}") from error
        # Also for callers that forget to close, and at the interpreter's end: an emulator would run on and on.
        self._end = weakref.finalize(self, _ended, self._process, self._words, on_close)

    def send(self, data: bytes) -> None:
        """See `ByteStream`."""
        assert self._process.stdin is not None, "it was started with a pipe"
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[self._process.stdin.write(rest) or 0 :]
        except OSError as error:
            raise self._gone() from error

    def receive(self, seconds: float) -> bytes:
        """See `ByteStream`."""
        assert self._process.stdout is not None, "it was started with a pipe"
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        if not ready:
            return b""
        data = os.read(self._process.stdout.fileno(), _AT_ONCE)
        if not data:
            raise self._gone()
        return data

    def close(self) -> None:
        """See `ByteStream`."""
        self._end()

    def _gone(self) -> ProjectError:
        self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, self._words.tell() - _LAST_WORDS))
        words = self._words.read().decode(errors="replace").strip()
        return ProjectError(f"'{self._program}' ended{': ' + words if words else ''}")


def _ended(process: subprocess.Popen[bytes], words: IO[bytes], on_close: Callable[[], None]) -> None:
    """End the process, and with it the stream."""
    process.kill()
    process.wait()
    for file in (process.stdin, process.stdout, words):
        if file is not None:
            file.close()
    on_close()


class SerialStream:
    """A serial port, such as /dev/ttyACM0, or a pty."""

    def __init__(self, path: str, baud: int) -> None:
        import termios
        import tty

        speed = getattr(termios, f"B{baud}", None)
        if speed is None:
            raise ProjectError(f"'{path}' cannot be opened at {baud} baud: this system has no such speed")
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_NOCTTY)
            tty.setraw(self._handle)
            modes = termios.tcgetattr(self._handle)
            modes[4] = modes[5] = speed
            termios.tcsetattr(self._handle, termios.TCSANOW, modes)
        except (OSError, termios.error) as error:
            raise ProjectError(f"cannot open serial port '{path}': {error}") from error

    def send(self, data: bytes) -> None:
        """See `ByteStream`."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._handle, rest) :]
        except OSError as error:
            raise ProjectError(f"the serial port is gone: {error.strerror}") from error

    def receive(self, seconds: float) -> bytes:
        """See `ByteStream`."""
        ready, _, _ = select.select([self._handle], [], [], seconds)
        if not ready:
            return b""
        try:
            data = os.read(self._handle, _AT_ONCE)
        except OSError as error:
            raise ProjectError(f"the serial port is gone: {error.strerror}") from error
        if not data:
            raise ProjectError("the serial port is gone")
        return data

    def close(self) -> None:
        """See `ByteStream`."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
