"""Runs NPU payloads bit-exactly: a machine with memories, and one-shot runs. Knows nothing of who made a payload.

Owns the Python types around the simulator of `_core`; imports nothing of code generation. Regions are the NPU's base
address registers: 0 is the read-only constants and 1 the arena in every payload of a `.tflite` file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from .. import _core
from ..errors import ConfigError
from ..util.arguments import Count, Range, checked, shown
from ..util.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined,unused-ignore]  # Python 3.12

    Region: TypeAlias = "int | Buffer | tuple[int, int, int] | None"
else:
    Region = Any


_MOST_REGIONS = 8
_INCLUDE_FOLDER = Path(__file__).resolve().parents[1] / "include"

Place = Annotated[int, Range(-(1 << 63), (1 << 63) - 1)]
"""A byte of a region as the core takes it: what lies outside of the region is its to refuse."""


@dataclass(frozen=True)
class NpuWarning:
    """A finding that did not stop the run: kind (for example `uninitialised_read`), command index, one sentence.

    `operation` counts the stream's kernels and transfers before the one that it is about. An `accumulator_overflow` is
    reported only where an output depends on what becomes of a sum that the accumulator cannot hold.
    """

    kind: str
    command: int
    operation: int
    message: str


@dataclass(frozen=True)
class Hazard:
    """Two commands that the stream's waits do not order although they touch the same bytes, or a kindred fault.

    `kind` is `read_after_write`, `write_after_read`, `write_after_write`, `read_of_unwritten` or `input_overwritten`.
    `first` and `second` are command indices in the order of the stream; `first` is None for the host or where there is
    none. `[start, end)` is the first range of bytes in `region`, which is None for the NPU's own SHRAM.
    """

    kind: str
    first: int | None
    second: int
    region: int | None
    start: int
    end: int
    message: str


@dataclass(frozen=True)
class NpuReport:
    """What one payload did. Bytes count each row of an operand once per kernel; SHRAM is not counted."""

    commands: int
    kernels: int
    transfers: int
    bytes_read: int
    bytes_written: int
    warnings: tuple[NpuWarning, ...]
    hazards: tuple[Hazard, ...] = ()


@dataclass(frozen=True)
class NpuRun:
    """A payload's report and the memory after it: bytes of each region given, one past the highest byte touched."""

    report: NpuReport
    regions: tuple[bytes | None, ...] = field(repr=False)
    touched_end: tuple[int, ...]


def _plain(data: Any) -> bytes:
    """Any C-contiguous buffer (bytes, bytearray, NumPy array) as bytes."""
    if isinstance(data, bytes):
        return data
    try:
        return memoryview(data).cast("B").tobytes()
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{shown(data)} is no contiguous buffer of bytes: {error}") from error


def _region(region: Any) -> Any:
    if region is None or isinstance(region, (int, tuple)):
        return region
    return _plain(region)


class Machine:
    """An NPU with up to eight regions on which payloads and the host's own operators run in turn.

    A region is a size in bytes (writable, uninitialised), a buffer (read-only constants), a window
    `(earlier region, offset_bytes, size_bytes)` that shares its bytes, or None. Ranges are half-open byte ranges.
    Accesses outside a region and writes to constants raise SimulationError; an unknown accelerator ConfigError.
    """

    @checked()
    def __init__(self, accelerator: str, regions: Sequence[Region]) -> None:
        if len(regions) > _MOST_REGIONS:
            raise ConfigError(f"{len(regions)} regions were given; an NPU has {_MOST_REGIONS}")
        self._machine = _core.Machine(accelerator, [_region(region) for region in regions])
        self.accelerator = self._machine.accelerator

    @checked()
    def write(self, region: Count, offset: Place, data: Any) -> None:
        """Writes a buffer's bytes; they count as initialised and as touched."""
        self._machine.write(region, offset, _plain(data))

    @checked()
    def read(self, region: Count, offset: Place, size: Count) -> bytes:
        """Reads bytes; they count as touched. Whether anybody wrote them is `find_uninitialised`'s question."""
        return self._machine.read(region, offset, size)

    @checked()
    def touch(self, region: Count, start: Place, end: Place) -> None:
        """Counts bytes as touched, for example a CPU operator's workspace."""
        self._machine.touch(region, start, end)

    @checked()
    def mark_initialised(self, region: Count, start: Place, end: Place, value: bool = True) -> None:
        """Sets whether bytes count as written; with False they are forgotten, so that a later reader is found."""
        self._machine.mark_initialised(region, start, end, value)

    @checked()
    def find_uninitialised(self, region: Count, start: Place, end: Place) -> int | None:
        """The first byte never written, as an offset in the region."""
        return self._machine.find_uninitialised(region, start, end)

    @checked()
    def size(self, region: Count) -> int | None:
        """Size of a region in bytes, None if it was not given."""
        return self._machine.size(region)

    @checked()
    def touched_end(self, region: Count) -> int:
        """One past the highest byte that the NPU or the host touched; 0 if none."""
        return self._machine.touched_end(region)

    @checked()
    def watch_input(self, region: Count, start: Place, end: Place) -> None:
        """Watches bytes, a network input that was just written: the report tells when it is overwritten too early.

        A command that reads some bytes of the input and, in the same feature map, others that are no longer it,
        reads a damaged input. A later host write ends the watch of the bytes that it changes.
        """
        self._machine.watch_input(region, start, end)

    @checked()
    def limit_work(self, limit: Count) -> None:
        """Bounds a payload's cost, in multiply-accumulates, elements and bytes moved; more is a SimulationError."""
        self._machine.limit_work(limit)

    @checked()
    def assume(
        self,
        *,
        blockdep_spans_kernels: bool | None = None,
        sub_kernels_are_jobs: bool | None = None,
        kernels_write_in_order: bool | None = None,
    ) -> None:
        """Changes what hazards assume where the hardware is not documented; docs/simulator.md explains each switch."""
        self._machine.assume(
            blockdep_spans_kernels=blockdep_spans_kernels,
            sub_kernels_are_jobs=sub_kernels_are_jobs,
            kernels_write_in_order=kernels_write_in_order,
        )

    @checked()
    def run(self, payload: Any) -> NpuReport:
        """Runs a driver payload to its end.

        Registers start unset; memory and look-up tables stay as they are. Raises SimulationError with `command` for
        the first command that is wrong; what ran before it stays done.
        """
        report = self._machine.run(_plain(payload))
        return NpuReport(
            commands=report.commands,
            kernels=report.kernels,
            transfers=report.transfers,
            bytes_read=report.bytes_read,
            bytes_written=report.bytes_written,
            warnings=tuple(NpuWarning(*warning) for warning in report.warnings),
            hazards=tuple(Hazard(*hazard) for hazard in report.hazards),
        )


@checked()
def run(
    payload: Any,
    regions: Sequence[Region],
    accelerator: str,
    initialised: Mapping[int, Iterable[tuple[int, Any]]] | None = None,
) -> NpuRun:
    """Runs one payload on fresh memories.

    `initialised` maps a region to `(offset_bytes, buffer)` pairs that are written before the run: the network's
    inputs. Everything else of a sized region counts as uninitialised.
    """
    machine = Machine(accelerator, regions)
    for region, pieces in (initialised or {}).items():
        for offset, data in pieces:
            machine.write(region, offset, data)
    report = machine.run(payload)
    touched = tuple(machine.touched_end(region) for region in range(len(regions)))
    sizes = [machine.size(region) for region in range(len(regions))]
    after = tuple(None if size is None else machine.read(region, 0, size) for region, size in enumerate(sizes))
    return NpuRun(report=report, regions=after, touched_end=touched)


@dataclass(frozen=True)
class Library:
    """The simulator as a C library without Python: libethoscade_npu, whose functions `ethoscade_npu.h` declares.

    `path` is the shared library, `include_folder` has the headers, `pkg_config_folder` goes into PKG_CONFIG_PATH for
    the package `ethoscade-npu`. The flags are arguments of a C compiler: what it tells, too.
    """

    path: Path
    include_folder: Path
    pkg_config_folder: Path
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]


def library() -> Library:
    """Where libethoscade_npu is: in the installed package, or where `make library` has put it.

    Raises `ConfigError` if it was not built.
    """
    folder = _INCLUDE_FOLDER.with_name("lib")
    names = [f"libethoscade_npu.{suffix}" for suffix in ("so", "dylib")]
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None and sys.platform == "win32":
        raise ConfigError(
            "there is no libethoscade_npu for Windows; `driver_interface` names what has the same exports"
        )
    if path is None:
        raise ConfigError(
            f"there is no {' or '.join(names)} in '{folder}': run `make library` in a clone, or install ethoscade by "
            f"`pip install`, which builds it"
        )
    link = (f"-L{folder}", f"-Wl,-rpath,{folder}", "-lethoscade_npu")
    return Library(path, _INCLUDE_FOLDER, folder / "pkgconfig", (f"-I{_INCLUDE_FOLDER}",), link)


def driver_interface() -> tuple[Path, Path]:
    """The folder of the headers, and the extension module, which exports to a Python process what they declare.

    A program of its own links the `library` without Python.
    """
    return _INCLUDE_FOLDER, Path(_core.__file__)


@checked()
def disassemble(payload: Any) -> list[str]:
    """The payload's command stream as text, one line per command, after a line each for its config and id words."""
    return _core.disassemble(_plain(payload))
