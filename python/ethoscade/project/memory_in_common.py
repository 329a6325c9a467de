"""A child process with memory in common with this one: a file that both map. Owns the file and what watches it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import ProjectError
from ..util.temporary import make_folder
from .npu_mailbox import NpuServer
from .streams import ProcessStream
from .template import Board


def started(command: Callable[[Path], Sequence[str]], file_bytes: int, npu_bytes: int) -> Board:
    """Start the `command` for a file of `file_bytes`, sparse and all zeros; the NPU sees `npu_bytes`, none if 0."""
    # A folder, so that the file is away with it whatever a process does to the file.
    folder = make_folder("ethoscade-board-")
    server = None
    try:
        path = Path(folder.name) / "memory"
        try:
            with path.open("wb") as file:
                file.truncate(file_bytes)
        except OSError as error:
            raise ProjectError(f"cannot make '{path}', the memory in common: {error.strerror}") from error
        server = NpuServer(path, npu_bytes) if npu_bytes else None

        def end() -> None:
            if server is not None:
                server.close()
            folder.cleanup()

        stream = ProcessStream(command(path), end)
    except BaseException:
        if server is not None:
            server.close()
        folder.cleanup()
        raise
    return Board(stream, server)
