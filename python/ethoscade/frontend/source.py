"""Where a model comes from: a path or bytes, as immutable bytes and a name.

Owns the messages about files that are not there or cannot be read, and what readers' errors have in common. Does not
look inside files.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path

from ..errors import ConfigError, EthoscadeError, ModelFormatError
from ..ir import Graph

# FlatBuffers address 2 GiB; larger files keep their buffers behind the FlatBuffer, which nobody does for an NPU.
MAX_FILE_BYTES = 2**31


def load(source: str | os.PathLike[str] | bytes | bytearray | memoryview) -> tuple[bytes, str]:
    """The model's bytes and a name for it ("model" if it came without one).

    Raises `ModelFormatError` for a path that cannot be read, `ConfigError` for something that is no model at all.
    """
    if isinstance(source, bytes):
        return source, "model"
    if isinstance(source, (bytearray, memoryview)):
        return bytes(source), "model"
    if not isinstance(source, (str, os.PathLike)):
        raise ConfigError(f"a model is a path or bytes, not {type(source).__name__}")
    path = os.fspath(source)
    if not isinstance(path, str):
        path = os.fsdecode(path)
    try:
        # A pipe or a device would block or never end: ask before opening.
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise ModelFormatError(f"cannot read '{path}': it is a directory, not a model", value=path)
        if not stat.S_ISREG(status.st_mode):
            raise ModelFormatError(f"cannot read '{path}': it is not a regular file", value=path)
        if status.st_size > MAX_FILE_BYTES:
            raise ModelFormatError(
                f"cannot read '{path}': it has {status.st_size} bytes, a model has at most {MAX_FILE_BYTES}",
                value=status.st_size,
            )
        return Path(path).read_bytes(), Path(path).stem or "model"
    except FileNotFoundError as error:
        raise ModelFormatError(f"cannot read '{path}': no such file", value=path) from error
    except PermissionError as error:
        raise ModelFormatError(f"cannot read '{path}': permission denied", value=path) from error
    except OSError as error:
        raise ModelFormatError(f"cannot read '{path}': {error.strerror or error}", value=path) from error
    except ValueError as error:
        raise ModelFormatError(f"cannot read {path!r}: not a valid path", value=path) from error


def read_source(source: str | os.PathLike[str] | bytes, name: str | None, read: Callable[[bytes, str], Graph]) -> Graph:
    """What `read` makes of the model's bytes and its name: `name`, else its file's.

    Raises what `load` and `read` raise; an error of a file that has a path begins with it.
    """
    data, found_name = load(source)
    try:
        return read(data, name or found_name)
    except ModelFormatError as error:
        # A command may read several files: which one is at fault?
        if isinstance(source, (str, os.PathLike)):
            error.args = (f"'{os.fsdecode(source)}': {error}",)
        raise
    except EthoscadeError:
        raise
    except (struct.error, ArithmeticError, LookupError, ValueError, TypeError, MemoryError) as error:
        # The readers' checks should leave nothing to be caught; whatever slips through is still the file's.
        raise ModelFormatError(f"model '{name or found_name}' is damaged: {error}", value=str(error)) from error
