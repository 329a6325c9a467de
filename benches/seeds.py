"""Sweeps over seeds that can be stopped and go on: counts kept in a file, faults told as they come.

Owns the order of seeds and the file. What a seed means, and what is counted, is the sweep's own.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Protocol, TypeVar


class Tallied(Protocol):
    """What a sweep has seen of the seeds below `next_seed`; faults are sentences."""

    next_seed: int
    faults: list[str]

    def to_json(self) -> str:
        """The counts as a file keeps them."""
        ...


Tally = TypeVar("Tally", bound=Tallied)


def add_arguments(parser: argparse.ArgumentParser, count: int, what: str) -> None:
    """`--seeds`, by default `count` from 0 on, `--seconds` and `--state`; a seed stands for a `what`."""
    parser.add_argument("--seeds", type=_range, default=range(count), help=f"FIRST:END or one (default: 0:{count})")
    parser.add_argument("--seconds", type=float, help=f"begin no {what} after so many")
    parser.add_argument("--state", type=Path, metavar="FILE", help="keep the counts here, and go on from them")


def tally_of(state: Path | None, new: Callable[[], Tally], read: Callable[[str], Tally]) -> Tally:
    """The counts that a file keeps, told with their faults, else new ones."""
    if state is None or not state.is_file():
        return new()
    tally = read(state.read_text(encoding="utf-8"))
    print("\n".join([f"going on at seed {tally.next_seed}", *tally.faults]), flush=True)
    return tally


def sweep_all(
    seeds: Collection[int], sweep: Callable[[int], None], tally: Tallied, seconds: float | None, state: Path | None
) -> Iterator[str]:
    """Sweep the seeds that the tally has not seen, and yield faults as they come, for so many seconds."""
    began = time.monotonic()
    for seed in seeds:
        if seed < tally.next_seed:
            continue
        if seconds is not None and time.monotonic() - began >= seconds:
            return
        told = len(tally.faults)
        sweep(seed)
        tally.next_seed = seed + 1
        if state is not None:
            state.parent.mkdir(parents=True, exist_ok=True)
            state.write_text(tally.to_json(), encoding="utf-8")
        yield from tally.faults[told:]


def _range(text: str) -> range:
    first, _, last = text.partition(":")
    return range(int(first), int(last)) if last else range(int(first), int(first) + 1)
