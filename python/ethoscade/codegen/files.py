"""Putting finished bytes on disk: whole or not at all.

Owns the one way in which artefacts reach the file system. Knows nothing of what is in them.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ..errors import CodegenError


def write_whole(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write `data` to `path` through a temporary sibling, so that nobody ever sees half a file; return the path.

    Missing folders are created. Raises `CodegenError` with the path and the system's reason.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            # mkstemp makes the file private; an artefact gets the permissions that a plain open() would give it.
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except FileExistsError as error:
        raise CodegenError(f"cannot write '{target}': '{target.parent}' is not a folder") from error
    except OSError as error:
        raise CodegenError(f"cannot write '{target}': {error.strerror or error}") from error
    return target


def _umask() -> int:
    # The only portable way to read the mask is to set it.
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
