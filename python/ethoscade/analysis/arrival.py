"""What a streamed input asks of its caller: how long the NPU works between feeds.

Owns these figures and reading them off an artefact. The time of operators on the CPU is not among them.
"""

from __future__ import annotations

from ..codegen.artifact import Artifact, FeedCall, NpuCall
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
        rows = "a row" if self.rows == 1 else f"{self.rows} rows"
        meanwhile = ", while the NPU works" if self.is_ahead else ""
        held = (
            f"{feeds} of {rows} ({self.rows * self.row_bytes:,} bytes){meanwhile}; {self.held_bytes:,} bytes are held"
        )
        longest, last = (
            f"{cycles:,} cycles = {1000 * cycles / clock_hz:.3f} ms"
            for cycles in (self.longest_cycles, self.last_cycles)
        )
        return [
            ("input arrives", held),
            ("  between feeds", f"the NPU works {longest} at most"),
            ("  after the last", last),
        ]


def arrival_of(artifact: Artifact, target: Target) -> Arrival | None:
    """The arrival of the streamed input; None where inputs are there as a whole."""
    feeds = [feed for feed in artifact.feeds if feed.rows]
    if not feeds:
        return None
    from ..run.played import played

    between = [0]
    for call in artifact.calls:
        if isinstance(call, FeedCall):
            between.append(0)
        elif isinstance(call, NpuCall):
            between[-1] += played(call.payload, target)[0][0]
    begin, end = min(feed.offset for feed in feeds), max(feed.offset + feed.rows * feed.row_bytes for feed in feeds)
    return Arrival(
        max(feed.rows for feed in feeds),
        len(feeds),
        feeds[0].row_bytes,
        end - begin,
        feeds[0].is_ahead,
        max(between[1:-1], default=0),
        between[-1],
    )
