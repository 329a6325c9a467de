"""Runs a compiled network whose rows are handed over one after the other: the caller is camera and display.

Owns what of that a caller sees. The run itself is `inference`'s.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from types import TracebackType

import numpy as np
import numpy.typing as npt

from ..codegen.artifact import Artifact, FeedCall
from ..errors import ConfigError
from ..ir import Array
from ..util.progress import no_progress
from .execution import player_of, program_of
from .inference import Device, DeviceRun, ExecutionResult, TakenRows
from .inputs import checked_inputs

_FAILED = "the run ended by an error; begin() begins another"


class StreamedRun:
    """A network on the simulated NPU, from its reset on, whose rows the caller hands over; a context manager.

    `wanted` says which rows of the input come next, and `feed` hands them over; `ready` says which rows of the output
    are there, and `take` takes them. `result` is there when nothing is wanted or ready any longer. Then `begin` begins
    the next run; what variables hold lives on. To give a run up, begin another.
    """

    def __init__(self, artifact: Artifact, inputs: Mapping[str, npt.ArrayLike] | None = None) -> None:
        """Begin the first run. Raises `ConfigError` without a streamed input or output, and as `begin` does."""
        if not artifact.feeds and not artifact.takes:
            raise ConfigError(
                f"'{artifact.name}' takes inputs and gives outputs as a whole; compile it with stream_input or "
                f"stream_output"
            )
        self._artifact = artifact
        self._closing = contextlib.ExitStack()
        self._device = Device(program_of(artifact), self._closing.enter_context(player_of(artifact)))
        self.begin(inputs)

    def begin(self, inputs: Mapping[str, npt.ArrayLike] | None = None) -> None:
        """Begin a run, on `inputs` by tensor name where the input is not streamed; one under way is given up.

        Raises `ConfigError` for other inputs than those of the network, and for any where rows of them are handed over.
        """
        if self._artifact.feeds and inputs:
            raise ConfigError(f"the input of '{self._artifact.name}' is handed over by feed(), row by row")
        given = {} if self._artifact.feeds else checked_inputs(self._artifact.graph, inputs or {})
        self._run: DeviceRun = self._device.run(given, no_progress)
        self._stop: FeedCall | TakenRows | None = None
        self._result: ExecutionResult | None = None
        self._go_on(None)

    @property
    def wanted(self) -> range:
        """The next rows of the input; none while rows are ready, and at the end of a run."""
        feed = self._stop
        return range(feed.row, feed.row + feed.rows) if isinstance(feed, FeedCall) else range(0)

    @property
    def ready(self) -> range:
        """The next rows of the output; none while rows are wanted, and at the end of a run."""
        call = self._stop.call if isinstance(self._stop, TakenRows) else None
        return range(0) if call is None else range(call.row, call.row + call.rows)

    @property
    def result(self) -> ExecutionResult:
        """What the run made. Raises `ConfigError` while rows are wanted or ready, and where an error ended the run."""
        if self._result is None and self._stop is None:
            raise ConfigError(_FAILED)
        if self._result is None:
            rows, what = (self.wanted, "wanted") if self.wanted else (self.ready, "ready")
            how = "hand them over by feed()" if self.wanted else "take them by take()"
            raise ConfigError(f"rows {rows.start} to {rows.stop} are {what} first: {how}")
        return self._result

    def feed(self, rows: npt.ArrayLike) -> None:
        """Hand over the `wanted` rows, in the input's type, and run as far as they go.

        Their shape is free as long as the bytes are theirs, row by row. Raises `ConfigError` for another type or number
        of elements, while rows are ready, and at the end of a run.
        """
        feed = self._stop
        if not isinstance(feed, FeedCall):
            raise ConfigError(self._refusal("no rows are wanted"))
        tensor = self._artifact.graph.tensors[feed.tensor]
        try:
            array, dtype = np.asarray(rows), tensor.dtype
        except ValueError as error:
            raise ConfigError(f"rows of '{tensor.name}' are no array: {error}") from error
        if array.dtype != dtype.numpy or array.nbytes != feed.rows * feed.row_bytes:
            elements = feed.row_bytes // dtype.size_bytes
            raise ConfigError(
                f"rows {feed.row} to {feed.row + feed.rows} of '{tensor.name}' are {feed.rows} times {elements} "
                f"elements of {dtype.value}; given is {array.dtype} of shape {array.shape}"
            )
        self._go_on(np.ascontiguousarray(array).tobytes())

    def take(self) -> Array:
        """Take the `ready` rows, [rows, elements of a row], and run on.

        Raises `ConfigError` while rows are wanted, and at the end of a run.
        """
        taken = self._stop
        if not isinstance(taken, TakenRows):
            raise ConfigError(self._refusal("no rows are ready"))
        self._go_on(None)
        found: Array = np.frombuffer(taken.rows, self._artifact.graph.tensors[taken.call.tensor].dtype.numpy).copy()
        return found.reshape(taken.call.rows, -1)

    def _refusal(self, nothing: str) -> str:
        if self._stop is not None:
            return f"{nothing}: {'feed' if self.wanted else 'take'}() comes first"
        return _FAILED if self._result is None else "all rows have been handed over; begin() begins another run"

    def _go_on(self, rows: bytes | None) -> None:
        """Up to where rows are wanted or ready, or the end. Where none are, the last ones had time to arrive."""
        self._stop = None
        try:
            stop = self._run.send(rows)
            while isinstance(stop, FeedCall) and not stop.rows:
                stop = self._run.send(b"")
        except StopIteration as end:
            self._result = end.value
        else:
            self._stop = stop

    def close(self) -> None:
        """End what plays operators on the CPU, if anything does."""
        self._closing.close()

    def __enter__(self) -> StreamedRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
