"""What streamed inputs and outputs ask of their caller: bytes held, and time between rows.

Owns these figures and reading them off an artefact. The time of operators on the CPU is not among them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..codegen.artifact import Artifact, FeedCall, NpuCall, TakeCall
from ..targets.target import Target
from ..util.records import dataclass


@dataclass(frozen=True)
class Arrival:
    """An input in `feeds` of `rows` rows (the last one may have fewer), of `row_bytes` each.

    They arrive in `held_bytes` of the arena. The NPU works at most `longest_cycles` between two feeds. In that time the
    caller must keep further rows itself, or, where `is_ahead`, can hand over the next feed. After the last feed the NPU
    works for `last_cycles`.
    """

    rows: int
    feeds: int
    row_bytes: int
    held_bytes: int
    is_ahead: bool
    longest_cycles: int
    last_cycles: int

    def lines(self, clock_hz: float) -> list[tuple[str, str]]:
        """The same in words of a report, for an NPU of this clock."""
        feeds = "a feed" if self.feeds == 1 else f"{self.feeds:,} feeds"
        meanwhile = ", while the NPU works" if self.is_ahead else ""
        return [
            ("input arrives", f"{feeds} of {_rows(self.rows, self.row_bytes)}{meanwhile}; {_held(self.held_bytes)}"),
            ("  between feeds", f"the NPU works {_time(self.longest_cycles, clock_hz)} at most"),
            ("  after the last", _time(self.last_cycles, clock_hz)),
        ]


@dataclass(frozen=True)
class Departure:
    """An output in `takes` of at most `rows` rows, of `row_bytes` each, which lie in `held_bytes` of the arena.

    Before the first take the NPU works for `first_cycles`, between two of them at most `longest_cycles`.
    """

    rows: int
    takes: int
    row_bytes: int
    held_bytes: int
    first_cycles: int
    longest_cycles: int

    def lines(self, clock_hz: float) -> list[tuple[str, str]]:
        """The same in words of a report, for an NPU of this clock."""
        takes = "a take" if self.takes == 1 else f"{self.takes:,} takes"
        most = "at most " if self.takes > 1 < self.rows else ""
        return [
            ("output leaves", f"{takes} of {most}{_rows(self.rows, self.row_bytes)}; {_held(self.held_bytes)}"),
            ("  before the first", _time(self.first_cycles, clock_hz)),
            ("  between takes", f"the NPU works {_time(self.longest_cycles, clock_hz)} at most"),
        ]


def arrival_of(artifact: Artifact, target: Target) -> Arrival | None:
    """The arrival of the streamed input; None where inputs are there as a whole."""
    feeds = [feed for feed in artifact.feeds if feed.rows]
    if not feeds:
        return None
    between = _between(artifact, target, FeedCall)
    held, rows, longest = _held_bytes(feeds), max(feed.rows for feed in feeds), max(between[1:-1], default=0)
    return Arrival(rows, len(feeds), feeds[0].row_bytes, held, feeds[0].is_ahead, longest, between[-1])


def departure_of(artifact: Artifact, target: Target) -> Departure | None:
    """The departure of the streamed output; None where outputs are there as a whole."""
    takes = artifact.takes
    if not takes:
        return None
    between = _between(artifact, target, TakeCall)
    rows, longest = max(take.rows for take in takes), max(between[1:-1], default=0)
    return Departure(rows, len(takes), takes[0].row_bytes, _held_bytes(takes), between[0], longest)


def _between(artifact: Artifact, target: Target, kind: type[FeedCall | TakeCall]) -> list[int]:
    """Cycles of the NPU before the first call of a kind, between them, and after the last one."""
    from ..run.played import played

    between = [0]
    for call in artifact.calls:
        if isinstance(call, kind):
            between.append(0)
        elif isinstance(call, NpuCall):
            between[-1] += played(call.payload, target)[0][0]
    return between


def _held_bytes(calls: Sequence[FeedCall | TakeCall]) -> int:
    return max(call.offset + call.rows * call.row_bytes for call in calls) - min(call.offset for call in calls)


def _rows(rows: int, row_bytes: int) -> str:
    return f"{'a row' if rows == 1 else f'{rows} rows'} ({rows * row_bytes:,} bytes)"


def _held(size_bytes: int) -> str:
    return f"{size_bytes:,} bytes are held"


def _time(cycles: int, clock_hz: float) -> str:
    return f"{cycles:,} cycles = {1000 * cycles / clock_hz:.3f} ms"
