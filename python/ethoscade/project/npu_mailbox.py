"""The NPU of boards that have none: jobs from a mailbox in memory in common, executed by the simulator on that memory.

Owns the mailbox's layout (`files/common/npu_mailbox.c` is the other side) and the thread that watches it.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import mmap
import threading
from collections.abc import Iterator
from pathlib import Path

from ..errors import ProjectError
from ..run.simulator import driver_interface
from .npu_parts import first_part

_REGIONS = 8
_IDLE_SECONDS = 0.0005
_RUNG, _ANSWERED = 1, 2
_ALIGNMENT = 16


class _Mailbox(ctypes.Structure):
    _fields_ = (
        ("bell", ctypes.c_uint32),
        ("result", ctypes.c_int32),
        ("regions", ctypes.c_uint32),
        ("program_bytes", ctypes.c_uint32),
        ("program", ctypes.c_uint64),
        ("bases", ctypes.c_uint64 * _REGIONS),
        ("sizes", ctypes.c_uint64 * _REGIONS),
    )


class NpuServer:
    """Executes the jobs that come by `path`, of which the first `size` bytes are watched, until it is closed.

    `complaint` is what the simulator said of the last job that it refused, "" if there was none. `hazards` are its
    sentences about accesses that nothing puts in order, of all jobs so far.
    """

    def __init__(self, path: Path, size: int) -> None:
        try:
            with path.open("r+b") as file:
                self._memory = mmap.mmap(file.fileno(), size)
        except (OSError, ValueError) as error:
            raise ProjectError(f"cannot map {size:,} bytes of '{path}', the memory in common: {error}") from error
        self._size = size
        self._mailbox: _Mailbox | None = _Mailbox.from_buffer(self._memory)
        self._start = ctypes.addressof(self._mailbox)
        self._driver = ctypes.CDLL(str(driver_interface()[1]))
        self._driver.ethoscade_sim_last_error.restype = ctypes.c_char_p
        self._driver.ethosu_reserve_driver.restype = ctypes.c_void_p
        self._driver.ethoscade_sim_hazard.restype = ctypes.c_char_p
        self.complaint = ""
        self.hazards: list[str] = []
        self._operations: int | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching and let go of the memory."""
        if self._mailbox is None:
            return
        self._over.set()
        self._thread.join()
        self._mailbox = None
        self._memory.close()

    @contextlib.contextmanager
    def stopping_after(self, operations: int) -> Iterator[None]:
        """Meanwhile jobs end after a number of kernels and transfers, as if these were all of them."""
        self._operations = operations
        try:
            yield
        finally:
            self._operations = None

    def _watch(self) -> None:
        mailbox = self._mailbox
        assert mailbox is not None, "the thread is started after it and joined before it goes"
        while not self._over.wait(_IDLE_SECONDS):
            if mailbox.bell == _RUNG:
                mailbox.result = self._execute(mailbox)
                mailbox.bell = _ANSWERED

    def _execute(self, mailbox: _Mailbox) -> int:
        count = mailbox.regions
        places = [(mailbox.program, mailbox.program_bytes), *zip(mailbox.bases, mailbox.sizes, strict=True)]
        if count > _REGIONS or any(base + size > self._size for base, size in places[: count + 1]):
            self.complaint = "a job is not within the memory in common"
            return -1
        # A region without bytes is told as NULL: nothing may touch it.
        bases = (ctypes.c_uint64 * count)(*(self._start + base if size else 0 for base, size in places[1 : count + 1]))
        sizes = (ctypes.c_size_t * count)(*(size for _, size in places[1 : count + 1]))
        payload = ctypes.string_at(self._start + mailbox.program, mailbox.program_bytes)
        if self._operations is not None:
            try:
                payload = first_part(payload, self._operations)
            except ProjectError as error:
                self.complaint = str(error)
                return -1
        kept = ctypes.create_string_buffer(len(payload) + _ALIGNMENT)
        program = -(-ctypes.addressof(kept) // _ALIGNMENT) * _ALIGNMENT
        ctypes.memmove(program, payload, len(payload))
        # Other mailboxes of this process use the same device, in turn.
        device = ctypes.c_void_p(self._driver.ethosu_reserve_driver())
        status = self._driver.ethosu_invoke_v3(
            device, ctypes.c_void_p(program), ctypes.c_int(len(payload)), bases, sizes, ctypes.c_int(count), None
        )
        self._driver.ethosu_release_driver(device)
        if status:
            self.complaint = self._driver.ethoscade_sim_last_error().decode(errors="replace")
        else:
            numbers = map(ctypes.c_size_t, itertools.count())
            told = itertools.takewhile(bool, map(self._driver.ethoscade_sim_hazard, numbers))
            self.hazards += [sentence.decode(errors="replace") for sentence in told]
        return int(status)
