"""The two streams of the command line: what was asked for goes to stdout, complaints to stderr.

Owns what happens when one of them is closed, full or cannot spell a character. Knows nothing of what is said.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO

from ..errors import EthoscadeError


class OutputError(EthoscadeError):
    """What a command found could not be printed."""


class ReaderGone(EthoscadeError):
    """The reader of stdout closed it (`| head`): no error, and no more output."""


def show(text: str) -> None:
    """Print `text` on stdout and see it out.

    Raises `ReaderGone` for a pipe without a reader, `OutputError` for a stream that is closed or a disk that is full.
    """
    if sys.stdout is None:
        raise OutputError("cannot print the result: stdout is closed")
    try:
        sys.stdout.write(_spelled(f"{text}\n", sys.stdout))
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        raise _refused(error) from error


def complain(text: str, program: str = "ethoscade", output: str = "") -> None:
    """Write one line to stderr, and a tool's `output` below it; a failure of this is ignored."""
    if sys.stderr is not None:
        line = " ".join(text.splitlines())
        lines = "".join(f"{said}\n" for said in [f"{program}: {line}{':' if output else ''}", *output.splitlines()])
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(_spelled(lines, sys.stderr))
            sys.stderr.flush()


def _spelled(text: str, stream: TextIO) -> str:
    """`text` with escapes for what the stream's encoding has no character for."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _refused(error: OSError | ValueError) -> EthoscadeError:
    _abandon(sys.stdout)
    if isinstance(error, BrokenPipeError):
        return ReaderGone("stdout has no reader any more")
    return OutputError(f"cannot print the result: {getattr(error, 'strerror', None) or error}")


def _abandon(stream: TextIO) -> None:
    """Lets what is still buffered go nowhere: the interpreter would try once more at its end, and fail aloud."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
