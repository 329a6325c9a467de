"""Runs a compiled network whose input arrives row by row: the caller is the camera.

Owns what of that a caller sees. The run itself is `inference`'s.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from types import TracebackType

import numpy as np
import numpy.typing as npt

from ..codegen.artifact import Artifact, FeedCall
from ..errors import ConfigError
from ..util.progress import no_progress
from .execution import player_of, program_of
from .inference import Device, ExecutionResult

_FAILED = "the run ended by an error; begin() begins another"


class StreamedRun:
    """A network on the simulated NPU, from its reset on, whose rows the caller hands over; a context manager.

    `wanted` says which rows come next, `feed` hands them over, and `result` is there when all have been. Then `begin`
    begins the next run; what variables hold lives on. To give a run up, begin another.
    """

    def __init__(self, artifact: Artifact) -> None:
        """Begin the first run. Raises `ConfigError` without a streamed input."""
        if not artifact.feeds:
            raise ConfigError(f"'{artifact.name}' takes its inputs as a whole; compile it with stream_input")
        self._tensor = artifact.graph.tensors[artifact.feeds[0].tensor]
        self._closing = contextlib.ExitStack()
        self._device = Device(program_of(artifact), self._closing.enter_context(player_of(artifact)))
        self.begin()

    def begin(self) -> None:
        """Begin a run; one under way is given up."""
        self._run: Generator[FeedCall, bytes, ExecutionResult] = self._device.run({}, no_progress)
        self._wanted: FeedCall | None = None
        self._result: ExecutionResult | None = None
        self._go_on(None)

    @property
    def wanted(self) -> range:
        """The next rows of the input; none at the end of a run."""
        feed = self._wanted
        return range(0) if feed is None else range(feed.row, feed.row + feed.rows)

    @property
    def result(self) -> ExecutionResult:
        """What the run made. Raises `ConfigError` while rows are wanted, and for a run that ended by an error."""
        if self._result is None and self._wanted is None:
            raise ConfigError(_FAILED)
        if self._result is None:
            raise ConfigError(
                f"rows {self.wanted.start} to {self.wanted.stop} are wanted first: hand them over by feed()"
            )
        return self._result

    def feed(self, rows: npt.ArrayLike) -> None:
        """Hand over the `wanted` rows, in the input's type, and run as far as they go.

        Their shape is free as long as the bytes are theirs, row by row. Raises `ConfigError` for another type or number
        of elements, and at the end of a run.
        """
        feed = self._wanted
        if feed is None:
            over = "all rows have been handed over; begin() begins another run"
            raise ConfigError(_FAILED if self._result is None else over)
        try:
            array, dtype = np.asarray(rows), self._tensor.dtype
        except ValueError as error:
            raise ConfigError(f"rows of '{self._tensor.name}' are no array: {error}") from error
        if array.dtype != dtype.numpy or array.nbytes != feed.rows * feed.row_bytes:
            elements = feed.row_bytes // dtype.size_bytes
            raise ConfigError(
                f"rows {feed.row} to {feed.row + feed.rows} of '{self._tensor.name}' are {feed.rows} times {elements} "
                f"elements of {dtype.value}; given is {array.dtype} of shape {array.shape}"
            )
        self._go_on(np.ascontiguousarray(array).tobytes())

    def _go_on(self, rows: bytes | None) -> None:
        """Up to where rows are wanted, or the end. Where none are, the last ones had time to arrive."""
        self._wanted = None
        try:
            feed = next(self._run) if rows is None else self._run.send(rows)
            while not feed.rows:
                feed = self._run.send(b"")
        except StopIteration as end:
            self._result = end.value
        else:
            self._wanted = feed

    def close(self) -> None:
        """End what plays operators on the CPU, if anything does."""
        self._closing.close()

    def __enter__(self) -> StreamedRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
