"""A network on a board, driven from here over a stream: inputs, runs, single calls, any tensor, times.

Owns what is asked and when it is asked again. A request bears a number; a board that gets it twice answers twice and
does it once, so whatever the stream loses, doubles or changes, asking again is right. What cannot be had in the end is
a `ProjectError`, never a wrong value.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Mapping
from types import TracebackType

import numpy as np
import numpy.typing as npt

from ..codegen.c.status import describe
from ..errors import ConfigError, ProjectError
from ..ir import Array, DType
from ..util.records import dataclass
from . import frames
from .description import Description, RowsPlace, TensorPlace
from .frames import Command, Frame, Outcome
from .npu_mailbox import NpuServer
from .streams import ByteStream

LINK_VERSION = 1
_TO_THE_END = 0xFFFFFFFF
_HELLO = struct.Struct("<6IQ")
_RUN = struct.Struct("<iI")
_WORD = struct.Struct("<I")
_PAIR = struct.Struct("<II")
_FIRST_WAIT_SECONDS = 0.25
_LONGEST_WAIT_SECONDS = 8.0
_TICKS_BYTES = 8


@dataclass(frozen=True)
class CallTime:
    """How long a call of the last run took by the board's timer."""

    name: str
    where: str
    kind: str
    ticks: int
    seconds: float


class Connection:
    """A board with a project's firmware. A context manager; `ethoscade.connect` opens one.

    A request is sent again where its answer is damaged or late; `patience_seconds` is when that ends in a
    `ProjectError`. `resent` counts the requests that were sent again; `npu` is what plays the NPU of a board without
    one. Methods raise `ProjectError` where the board is silent, gone, or refuses. Where one was interrupted, or an
    answer never came, the next one begins again: a run that stands is dropped, state set up, inputs are wanted.
    """

    def __init__(
        self,
        stream: ByteStream,
        description: Description,
        *,
        patience_seconds: float = 60.0,
        npu: NpuServer | None = None,
    ) -> None:
        self.description = description
        self.resent = 0
        self._calls = self._done = self._payload = self.ticks_per_second = 0
        self._stands = self._is_lost = False
        self._written: set[str] = set()
        self._rows, self._taken = b"", bytearray()
        self._stream, self._patience, self._npu = stream, patience_seconds, npu
        self._frames = frames.Reader()
        # Other than that of whoever talked to the board before.
        self._sequence = int.from_bytes(os.urandom(4), "little")
        try:
            self._greet()
            if self._stands and (description.feeds or description.takes):
                # Its rows are those of another connection.
                self._drop_run()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the board."""
        self._stream.close()

    @property
    def done_calls(self) -> int:
        """Calls that are done of the run that stands, all of them after a run, 0 before the first."""
        return self._done

    def set_input(self, name: str, value: npt.ArrayLike) -> None:
        """Write an input, of the type and shape that the network wants. Wanted before every run.

        Rows of a streamed input are written when the run wants them.

        Raises `ConfigError` for another type or shape, or a name that is no input, `ProjectError` while a run stands.
        """
        inputs = self.description.inputs
        if name not in inputs:
            known = ", ".join(f"'{known}'" for known in inputs)
            raise ConfigError(f"'{self.description.network}' has no input '{name}'; its inputs are {known}")
        if self._stands:
            raise ProjectError(
                f"input '{name}' cannot be written: a run stands after {self._done} of {self._calls} calls; "
                f"finish it with run()"
            )
        place = self.description.tensor(name)
        array = np.asarray(value)
        if array.shape != place.shape or array.dtype != DType(place.dtype).numpy:
            raise ConfigError(
                f"input '{name}' must be {place.dtype} of shape {place.shape}; given is {array.dtype} of shape "
                f"{array.shape}"
            )
        data = np.ascontiguousarray(array).tobytes()
        if name == self.description.streamed_input:
            self._rows = data
        else:
            self._write(self._offset(place), data)
        self._written.add(name)
        self._done = 0

    def run(self, inputs: Mapping[str, npt.ArrayLike] | None = None) -> dict[str, Array]:
        """Run the network, or the rest of a run that stands, and read the outputs by name; `inputs` are set before.

        Raises `ProjectError` with the status that the run returned, or for an input that was not set since the last
        one: others may have its place.
        """
        for name, value in (inputs or {}).items():
            self.set_input(name, value)
        self._run(_TO_THE_END)
        self._stands = False
        return {name: self._output(name) for name in self.description.outputs}

    def _output(self, name: str) -> Array:
        if name != self.description.streamed_output:
            return self.read(name)
        return self.description.tensor(name).decoded(bytes(self._taken))

    def run_call(self, number: int) -> None:
        """Run up to and with call `number`, and stand there, so that tensors can be read; a new run if none stands.

        Raises `ConfigError` for a call that there is not, or that the run which stands has behind it, and as `run`.
        """
        if not 0 <= number < self._calls:
            raise ConfigError(f"there is no call {number!r}: '{self.description.network}' has {self._calls}, from 0 on")
        if self._stands and number < self._done:
            raise ConfigError(
                f"call {number} is done already: the run stands after {self._done} of {self._calls} calls; finish it "
                f"with run(), set the inputs and begin another"
            )
        self._run(number)
        self._stands = True

    def read(self, name: str) -> Array:
        """A tensor as it lies in the arena now.

        Raises `ProjectError` for one that never lies there whole, that is not made yet, or whose place others may have
        by now: its message says after which call to ask.
        """
        place = self.description.tensor(name)
        offset = self._offset(place)
        if place.operations is not None:
            raise ProjectError(f"tensor '{name}' cannot be read: {place.reason}; intermediate() may have it")
        if place.first is not None and place.last is not None and not place.first <= self._done <= place.last:
            when = "before the first call" if place.first == 0 else f"after call {place.first - 1}"
            raise ProjectError(
                f"tensor '{name}' is there from {when} until {place.last} calls are done; {self._done} are. "
                f"run_call({max(place.first - 1, 0)}) in another run stands where it can be read"
            )
        return place.decoded(self._read(offset, place.stored_bytes))

    def intermediate(self, name: str, inputs: Mapping[str, npt.ArrayLike]) -> Array:
        """A tensor as a run on `inputs` makes it, the first one after a reset; its outputs are dropped.

        What an NPU program makes inside can be had where the host plays the NPU: the program is ended there, once.
        Raises `ProjectError` with the reason for what cannot be had, and as `run`.
        """
        place = self.description.tensor(name)
        offset = self._offset(place)
        if place.operations is not None and self._npu is None:
            raise ProjectError(f"tensor '{name}' cannot be read: {place.reason}")
        self._begin_anew(inputs)
        call = (place.first or 0) - 1
        if place.operations is None or self._npu is None:
            if call >= 0:
                self.run_call(call)
            found = self.read(name)
        else:
            if call > 0:
                self.run_call(call - 1)
            with self._npu.stopping_after(place.operations):
                self.run_call(call)
            found = place.decoded(self._read(offset, place.stored_bytes))
        self._finish()
        return found

    def _begin_anew(self, inputs: Mapping[str, npt.ArrayLike]) -> None:
        self._finish()
        for name, value in inputs.items():
            self.set_input(name, value)

    def _finish(self) -> None:
        if self._stands:
            self._run(_TO_THE_END)
            self._stands = False
        if self.description.has_state:
            self.reset()

    def reset(self) -> None:
        """Set the state up again, so that the next run is the first. Raises `ProjectError` while a run stands."""
        (status,) = struct.unpack("<i", self._ask(Command.RESET, b""))
        if status:
            raise ProjectError(f"the board's tvmgen_{self.description.module}_reset returned {describe(status)}")

    def time(self) -> tuple[CallTime, ...]:
        """What each call of the last run took, in ticks of the board's timer and in seconds."""
        ticks: list[int] = []
        while len(ticks) < self._calls:
            count = min(self._calls - len(ticks), self._payload // _TICKS_BYTES)
            ticks += struct.unpack(f"<{count}Q", self._ask(Command.TIMES, _PAIR.pack(len(ticks), count)))
        calls = zip(self.description.calls, ticks, strict=True)
        return tuple(
            CallTime(call.name, call.where, call.kind, count, count / self.ticks_per_second) for call, count in calls
        )

    # --- the board's own words ---

    def _greet(self) -> None:
        answer = self._ask(Command.HELLO, b"")
        version, build, calls, arena, self._payload, self._done, self.ticks_per_second = _HELLO.unpack(answer)
        wanted = self.description
        if version != LINK_VERSION:
            raise ProjectError(f"the board speaks version {version} of the link, and this is version {LINK_VERSION}")
        if (build, calls, arena) != (wanted.build, len(wanted.calls), wanted.arena_bytes):
            raise ProjectError(
                f"the board runs other sources than the project's (build {build:08x}, not {wanted.build:08x}): build "
                f"and flash the project"
            )
        self._calls = calls
        self._stands = self._done > 0

    def _drop_run(self) -> None:
        """End a standing run on what is there; nothing is looked at."""
        self._ask(Command.RUN, _WORD.pack(_TO_THE_END))
        self._stands, self._done = False, 0
        if self.description.has_state:
            self.reset()

    def _lose(self) -> None:
        """Nothing is known of the board any more until it is greeted again."""
        self._is_lost, self._stands, self._done = True, False, 0
        self._written.clear()

    def _offset(self, place: TensorPlace) -> int:
        if place.offset is None:
            raise ProjectError(f"tensor '{place.name}' cannot be read: {place.reason}")
        return place.offset

    def _write(self, offset: int, data: bytes) -> None:
        most = self._payload - _WORD.size
        for at in range(0, len(data), most):
            self._ask(Command.WRITE, _WORD.pack(offset + at) + data[at : at + most])

    def _read(self, offset: int, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            count = min(size - len(found), self._payload)
            answer = self._ask(Command.READ, _PAIR.pack(offset + len(found), count))
            if len(answer) != count:
                raise ProjectError(f"the board answered {len(answer)} bytes where {count} were asked for")
            found += answer
        return bytes(found)

    def _run(self, until: int) -> None:
        missing = [name for name in self.description.inputs if name not in self._written]
        if missing and not self._stands:
            raise ProjectError(
                f"input '{missing[0]}' was not set since the last run, and others may have its place by now"
            )
        self._written.clear()
        try:
            if not self._stands:
                self._taken.clear()
            for rows in sorted((*self.description.feeds, *self.description.takes), key=lambda rows: rows.call):
                if (self._done if self._stands else 0) <= rows.call <= until:
                    self._run_to(rows.call)
                    self._stands = True
                    self._hand_over(rows)
            if not self._stands or self._done <= until:
                self._run_to(until)
        except BaseException:
            self._lose()
            raise

    def _hand_over(self, rows: RowsPlace) -> None:
        if rows in self.description.feeds:
            self._write(rows.offset, self._rows[rows.begin : rows.end])
        else:
            self._taken += self._read(rows.offset, rows.end - rows.begin)

    def _run_to(self, until: int) -> None:
        status, self._done = _RUN.unpack(self._ask(Command.RUN, _WORD.pack(until)))
        if status:
            self._stands = False
            after = self.description.calls[self._done - 1].name if self._done else "its beginning"
            said = "" if self._npu is None else self._npu.complaint
            raise ProjectError(
                f"tvmgen_{self.description.module}_run returned {describe(status)} on the board, after '{after}'"
                f"{': ' + said if said else ''}"
            )

    def _ask(self, command: Command, payload: bytes) -> bytes:
        """The payload of the answer; asks until it is there, and greets a lost board first."""
        if self._is_lost:
            self._is_lost = False
            self._greet()
            if self._stands:
                self._drop_run()
        try:
            answer = self._answered(command, payload)
        except BaseException:
            self._lose()
            raise
        if answer.status != Outcome.DONE:
            names = {status.value: status.name for status in Outcome}
            raise ProjectError(f"the board refused {command.name}: {names.get(answer.status, answer.status)}")
        return answer.payload

    def _answered(self, command: Command, payload: bytes) -> Frame:
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        request = frames.encoded(Frame(self._sequence, command, 0, payload))
        began = time.monotonic()
        wait = _FIRST_WAIT_SECONDS
        while True:
            self._stream.send(request)
            answer = self._answer(command, wait)
            if answer is not None:
                return answer
            if time.monotonic() - began > self._patience:
                raise ProjectError(
                    f"the board does not answer {command.name} within {self._patience:g} seconds, asked again and again"
                )
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS)
            self.resent += 1

    def _answer(self, command: Command, seconds: float) -> Frame | None:
        """The answer to the request that was sent last; None where it did not come, or something came damaged."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            for frame in self._frames.feed(self._stream.receive(left)):
                if frame is None or frame.command == Command.DAMAGED | frames.REPLY:
                    return None
                if frame.sequence == self._sequence and frame.command == command | frames.REPLY:
                    return frame
        return None
