"""Putting finished bytes on disk: whole or not at all, and files that belong together under a list of their hashes.

Owns the one way in which files reach the file system, symbolic links and left-overs included. Knows nothing of what is
in them.

Bytes are staged beside their target and renamed over it. Of several files the list of hashes is renamed first, so that
a process killed in between leaves a list that the files do not fit. The list has the format of `sha256sum`, which
checks it as well (`sha256sum -c`). Folders are locked while they are written to: two writers take turns, and whatever
is still staged there when the lock is free has lost its writer.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import CodegenError, ConfigError

if TYPE_CHECKING:
    import hashlib

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there, hence nothing is known to be left over
    fcntl = None  # type: ignore[assignment]

MANIFEST_SUFFIX = ".sha256"

_STAGED_PREFIX = ".ethoscade-"
# Files of ours, and the folders in which version 0.1.0 staged.
_LEFT_OVER = re.compile(r"\.ethoscade-([0-9a-f]{16}|[a-z0-9_]{8})")
_LOCK_TRIES, _LOCK_PAUSE_SECONDS = 600, 0.05
_MANIFEST_LINE = re.compile(rb"(\\?)([0-9a-f]{64}) [ *](.+)")
_MOST_MANIFEST_BYTES = 1 << 20


def write_whole(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write `data` to `path` in one step, never half a file; return the path.

    Missing folders are created and symbolic links followed; what is replaced keeps its permissions. Raises
    `CodegenError` with the path and the system's reason.
    """
    target = Path(path)
    _put({target: data})
    return target


def read_whole(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """The bytes of a file or of a pipe. Raises `ConfigError` with path and reason, also beyond `most_bytes`.

    Devices are refused, and a pipe without a writer is empty: they would never end, or never begin.
    """
    what = f"it has more than {most_bytes:,} bytes"
    try:
        kind = os.stat(path).st_mode
        if stat.S_ISREG(kind) or stat.S_ISFIFO(kind):
            with open(path, "rb", opener=_without_waiting) as file:
                os.set_blocking(file.fileno(), True)
                data = file.read(most_bytes + 1)
            if len(data) <= most_bytes:
                return data
        else:
            what = "it is a folder" if stat.S_ISDIR(kind) else "it is no file"
    except OSError as error:
        raise ConfigError(f"cannot read '{os.fspath(path)}': {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"cannot read {os.fspath(path)!r}: {error}") from error
    raise ConfigError(f"cannot read '{os.fspath(path)}': {what}")


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def refuse_same(read: Mapping[str, str | None], written: Mapping[str, str | None]) -> None:
    """Refuses to write one file twice, or over one that is read. Raises `ConfigError` with what both are for."""
    seen = {_real_path(path): name for name, path in read.items() if path}
    for name, path in written.items():
        if path:
            first = seen.setdefault(_real_path(path), name)
            if first != name:
                raise ConfigError(f"{first} and {name} are the same file, '{path}'; the one would destroy the other")


def absolute_path(path: str | os.PathLike[str]) -> Path:
    """The path from the root on. Raises `ConfigError` where the working folder, which it is relative to, is gone."""
    try:
        return Path(os.path.abspath(path))
    except FileNotFoundError as error:
        raise _no_working_folder(path) from error


def _real_path(path: str | os.PathLike[str]) -> str:
    """The path behind its symbolic links. Raises as `absolute_path` does."""
    try:
        return os.path.realpath(path)
    except FileNotFoundError as error:
        raise _no_working_folder(path) from error


def _no_working_folder(path: str | os.PathLike[str]) -> ConfigError:
    return ConfigError(
        f"cannot find '{os.fspath(path)}': the working folder was deleted; change to a folder that exists, "
        f"or name the path from the root on"
    )


def write_together(folder: str | os.PathLike[str], files: Mapping[str, bytes], manifest: str) -> dict[str, Path]:
    """Write `files` by their names in `folder`, and `manifest` with the hashes of all; return the files' paths by name.

    Nothing is replaced before everything has been written beside it. Raises as `write_whole`.
    """
    root = Path(folder)
    try:
        listed = b"".join(_manifest_line(name, data) for name, data in sorted(files.items()))
    except UnicodeEncodeError as error:
        raise CodegenError(f"cannot write into {str(root)!r}: not a valid path ({error})") from error
    _put({root / manifest: listed, **{root / name: data for name, data in files.items()}})
    return {name: root / name for name in files}


def strangers(manifest: str | os.PathLike[str]) -> dict[str, bool]:
    """The files that a list of hashes names, by name: whether each is missing or another than it was.

    Raises `ConfigError` for a file that cannot be read or is no such list.
    """
    path = Path(manifest)
    found: dict[str, bool] = {}
    try:
        for line in read_whole(path, _MOST_MANIFEST_BYTES).splitlines():
            match = _MANIFEST_LINE.fullmatch(line)
            name = os.fsdecode(_unescaped(match[3]) if match[1] else match[3]) if match else ""
            if match is None or os.path.isabs(name) or ".." in Path(name).parts:
                raise ConfigError(f"'{path}' is no list of hashes as `sha256sum` writes it: {line[:100]!r}")
            found[name] = _hash_of(path.parent / name) != match[2].decode()
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read '{path}': {getattr(error, 'strerror', None) or error}") from error
    return found


def _sha256(data: bytes = b"") -> hashlib._Hash:
    # It loads OpenSSL, and most commands write a single file, which needs no list.
    import hashlib

    return hashlib.sha256(data)


def _manifest_line(name: str, data: bytes) -> bytes:
    raw = os.fsencode(name)
    escaped = raw.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
    mark = b"\\" if escaped != raw else b""
    return mark + _sha256(data).hexdigest().encode() + b"  " + escaped + b"\n"


def _unescaped(name: bytes) -> bytes:
    plain = {b"\\\\": b"\\", b"\\n": b"\n", b"\\r": b"\r"}
    return re.sub(rb"\\[\\nr]", lambda found: plain[found[0]], name)


def _hash_of(path: Path) -> str | None:
    if not path.is_file():
        return None
    digest = _sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _put(files: Mapping[Path, bytes]) -> None:
    """Replace all `files`, in this order, once all their bytes are on the disk."""
    targets = {path: _target(path) for path in files}
    owners: dict[Path, Path] = {}
    for path, target in targets.items():
        if target in owners:
            raise CodegenError(f"cannot write '{path}': '{owners[target]}' is the same file, '{target}'")
        owners[target] = path
    folders = sorted({target.parent for target in targets.values()})
    now = next(iter(files))
    staged: dict[Path, Path] = {}
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as locks:
            for folder in folders:
                locks.enter_context(_alone_in(folder))
            try:
                for now in files:
                    # Known before it is there, so that no signal between the two leaves it behind.
                    staged[now] = targets[now].parent / f"{_STAGED_PREFIX}{os.urandom(8).hex()}"
                    _stage(staged[now], files[now], targets[now])
                interrupts: list[KeyboardInterrupt] = []
                for now in files:
                    _rename(staged[now], targets[now], interrupts)
                if interrupts:
                    raise interrupts[0]
            finally:
                for left in staged.values():
                    left.unlink(missing_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise CodegenError(f"cannot write '{now}': '{error.filename}' is not a folder") from error
    except OSError as error:
        raise CodegenError(f"cannot write '{now}': {error.strerror or error}") from error


def _rename(staged: Path, target: Path, interrupts: list[KeyboardInterrupt]) -> None:
    """Put a staged file in its place. Ctrl-C is noted and waits: half of the files replaced is worse than all."""
    done = False
    while not done:
        try:
            if staged.exists():
                os.replace(staged, target)
            done = True
        except KeyboardInterrupt as interrupt:
            interrupts.append(interrupt)


def _target(path: Path) -> Path:
    """Where the bytes of `path` will lie: behind its symbolic links. Refuses what cannot be replaced by a file."""
    try:
        real = Path(_real_path(path))
        status = os.lstat(real)
    except FileNotFoundError:
        return real
    except NotADirectoryError as error:
        raise CodegenError(f"cannot write '{path}': '{real.parent}' is not a folder") from error
    except OSError as error:
        raise CodegenError(f"cannot write '{path}': {error.strerror or error}") from error
    except ValueError as error:
        raise CodegenError(f"cannot write {os.fspath(path)!r}: not a valid path ({error})") from error
    if stat.S_ISLNK(status.st_mode):
        raise CodegenError(f"cannot write '{path}': it is a symbolic link that leads in a circle")
    if stat.S_ISDIR(status.st_mode):
        raise CodegenError(f"cannot write '{path}': it is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise CodegenError(f"cannot write '{path}': it is a device, a pipe or a socket; files are written whole")
    if not os.access(real, os.W_OK):
        raise CodegenError(f"cannot write '{path}': it is read-only")
    return real


def _stage(path: Path, data: bytes, target: Path) -> None:
    """`data` on the disk as a new file.

    Its permissions are those of what it will replace, else those of any new file.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    with open(handle, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(handle)
    with contextlib.suppress(FileNotFoundError):
        os.chmod(path, stat.S_IMODE(os.stat(target).st_mode))


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep other writers out of `folder`, and remove what writers that were killed left there."""
    handle = _lock(folder)
    if handle is None:
        yield
        return
    try:
        _remove_left_overs(folder)
        yield
    finally:
        # Closing is not enough where a child process was forked meanwhile: it has the handle too.
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _lock(folder: Path) -> int | None:
    """A handle that holds the folder's lock; None where there are no locks (some network drives)."""
    if fcntl is None:
        return None
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        for _ in range(_LOCK_TRIES):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return handle
            except BlockingIOError:
                time.sleep(_LOCK_PAUSE_SECONDS)
    except OSError:
        os.close(handle)
        return None
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    seconds = round(_LOCK_TRIES * _LOCK_PAUSE_SECONDS)
    raise CodegenError(
        f"cannot write into '{folder}': another process has been writing there for {seconds} seconds; wait for it, or "
        "end it"
    )


def _remove_left_overs(folder: Path) -> None:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in list(entries):
            if not _LEFT_OVER.fullmatch(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                import shutil

                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.is_file(follow_symlinks=False):
                os.unlink(entry.path)
