"""The page of a sweep: which NPU, and how much SRAM, its networks need.

Owns what stands on the page. What networks need is `needs`' to say, how a page is written `page`'s.
"""

from __future__ import annotations

from fractions import Fraction
from statistics import median
from typing import Any

from ..page.parts import Cell, Chapter, Chart, Column, Grid, Page, Tile, Tiles, Words
from .needs import Needs, TargetNeeds

MOST_LISTED, MOST_DRAWN = 2000, 200
"""Rows of the table of networks, and networks whose curves can be chosen."""

_MEANT = (
    "A network fits if a schedule was found with enough SRAM and fast enough. The smaller target has fewer "
    "multiply-accumulates per cycle; of targets with the same NPU, the one with less SRAM is smaller."
)
_SHARES = (Fraction(1), Fraction(9, 10), Fraction(1, 2))
_RUNGS = (*(0.1, 0.2, 0.5), *(1.0, 2.0, 5.0), *(10.0, 20.0, 50.0), *(100.0, 200.0, 500.0), *(1000.0, 2000.0, 5000.0))


def sweep_page(needs: Needs, version: str, milliseconds: float | None = None, share: Fraction = Fraction(1)) -> Page:
    """The page of what a sweep found; `milliseconds` (None for any) and `share` are what it asks about at first."""
    many = len(needs.models)
    targets = f"{len(needs.targets)} {'target' if len(needs.targets) == 1 else 'targets'}"
    chapters = (
        Chapter("answer", "Which NPU, and how much SRAM", _answer(needs, milliseconds, share)),
        Chapter("targets", "Targets", (_targets(needs, milliseconds), _ladder(needs, share))),
        Chapter("networks", "Networks", _networks(needs, milliseconds)),
        *([Chapter("refused", "What does not run", (_refused(needs),))] if needs.refusals else []),
    )
    return Page(
        f"{many} {'network' if many == 1 else 'networks'} on {targets}",
        "SRAM and time by ethoscade's schedules; milliseconds are the NPU's at the configuration's clock",
        chapters,
        f"ethoscade {version}",
    )


def _answer(needs: Needs, milliseconds: float | None, share: Fraction) -> tuple[Words | Tiles | Chart, ...]:
    tiles = [_tile(needs, one, milliseconds) for one in _shares(share)]
    on_cpu = {model for of in needs.targets for model, count in of.cpu_operators.items() if count}
    words = [_MEANT]
    if on_cpu:
        words.append(
            f"{len(on_cpu)} of {len(needs.models)} networks have operators that stay on the CPU of some target: their "
            "time is not counted here."
        )
    curves = {
        "subject": "networks",
        "targets": [
            {
                "name": _short(needs, of),
                "size": of.macs,
                "fronts": [list(map(list, front)) for front in of.fronts.values()],
            }
            for of in needs.targets
        ],
        "count": len(needs.models),
        "time": milliseconds,
        "share": float(100 * share),
    }
    says = "; ".join(f"{_short(needs, of)}: {_says(needs, of, milliseconds)}" for of in needs.targets)
    chart = Chart("needs", "fitting", "Networks that fit, by SRAM", says, curves, ("steps",))
    return Tiles(tuple(tiles)), Words(tuple(words)), chart


def _tile(needs: Needs, share: Fraction, milliseconds: float | None) -> Tile:
    found = needs.smallest(share, milliseconds)
    count = needs.count_of(share)
    label = f"{_percent(share)} of networks{_in_time(milliseconds)}"
    if found is None:
        return Tile(label, "no target", f"not for {count} of {len(needs.models)}", "bad")
    of, sram = found
    return Tile(label, _short(needs, of), f"{_kib(sram)} for {count} of {len(needs.models)}", "good")


def _says(needs: Needs, of: TargetNeeds, milliseconds: float | None) -> str:
    sizes = [of.sram_for(needs.count_of(share), milliseconds) for share in _SHARES]
    told = [f"{_percent(s)} in {_kib(size)}" for s, size in zip(_SHARES, sizes, strict=True) if size is not None]
    return ", ".join(told) or "fewer than half fit"


def _targets(needs: Needs, milliseconds: float | None) -> Grid:
    columns = (
        Column("target", "Target", "text"),
        Column("macs", "MACs", hint="multiply-accumulates a cycle"),
        Column("runs", "Run", hint="networks that run at all"),
        Column("meets", f"Fit{_in_time(milliseconds)}", "share", "share of all networks"),
        *(
            Column(f"kib_{_percent(share)}", f"KiB for {_percent(share)}", hint=f"SRAM{_in_time(milliseconds)}")
            for share in _SHARES
        ),
        Column("median_ms", "Median ms", "time", "of the fastest schedules of networks that run"),
        Column("slowest_ms", "Slowest ms", "time", "of these"),
        Column("cpu", "On CPU", hint="networks with operators that stay on the CPU"),
        Column("memories", "Memories", "text"),
    )
    rows: list[tuple[Cell, ...]] = []
    for of in needs.targets:
        fastest = [time for front in of.fronts.values() if (time := front[-1][1]) is not None]
        meeting = sum(of.sram_of(model, milliseconds) is not None for model in of.fronts)
        sizes = (of.sram_for(needs.count_of(share), milliseconds) for share in _SHARES)
        rows.append(
            (
                _short(needs, of),
                of.macs,
                len(of.fronts),
                meeting / len(needs.models),
                *(_in_kib(size) for size in sizes),
                median(fastest) if fastest else None,
                max(fastest, default=None),
                sum(count > 0 for count in of.cpu_operators.values()),
                f"{of.memory_mode} of {of.system_config}",
            )
        )
    return Grid("targets_table", "Targets, the smallest first", columns, tuple(rows))


def _ladder(needs: Needs, share: Fraction) -> Grid:
    """The smallest target and its SRAM for one time after the other."""
    shares = _shares(share)
    columns = [Column("ms", "At most ms", "number")]
    for one in shares:
        columns.append(Column(f"target_{_percent(one)}", f"Target for {_percent(one)}", "text"))
        columns.append(Column(f"kib_{_percent(one)}", "KiB", hint=f"SRAM for {_percent(one)} of all networks"))

    def cells(rung: float | None) -> tuple[Cell, ...]:
        found = (needs.smallest(one, rung) for one in shares)
        pairs = ((None, None) if one is None else (_short(needs, one[0]), _in_kib(one[1])) for one in found)
        return tuple(cell for pair in pairs for cell in pair)

    # From the first rung that anything meets, as far as more time still helps.
    helping = [rung for rung in _RUNGS if any(cells(rung)) and cells(rung) != cells(None)]
    caption = "The smallest target that is fast enough; without a time, on which the networks run at all"
    rows = tuple((rung, *cells(rung)) for rung in (*helping, None))
    return Grid("ladder", caption, tuple(columns), rows)


def _networks(needs: Needs, milliseconds: float | None) -> tuple[Words | Grid | Chart, ...]:
    columns = (
        Column("network", "Network", "text"),
        Column("target", "Target", "text"),
        Column("floor_kib", "Floor KiB", hint="least SRAM that was found"),
        Column("floor_ms", "Floor ms", "time", "time in that SRAM"),
        Column("fastest_ms", "Fastest ms", "time"),
        Column("fastest_kib", "Fastest KiB", hint="SRAM of the fastest schedule"),
        *([Column("kib", f"KiB{_in_time(milliseconds)}")] if milliseconds is not None else []),
        Column("cpu", "CPU operators", hint="operators that stay on the CPU"),
    )
    rows: list[tuple[Cell, ...]] = []
    for of in needs.targets:
        for model, front in of.fronts.items():
            (floor, floor_time), (size, time) = front[0], front[-1]
            asked = [_in_kib(of.sram_of(model, milliseconds))] if milliseconds is not None else []
            cpu = of.cpu_operators[model]
            rows.append((model, _short(needs, of), _in_kib(floor), floor_time, time, _in_kib(size), *asked, cpu))
    words: tuple[Words, ...] = ()
    if len(rows) > MOST_LISTED:
        words = (Words((f"The table has the {MOST_LISTED:,} of {len(rows):,} that need most.",)),)
        rows = sorted(rows, key=lambda row: -float(row[2] or 0))[:MOST_LISTED]
    grid = Grid("networks_table", "Networks on targets", columns, tuple(rows))
    return (*words, _curves(needs), grid)


def _curves(needs: Needs) -> Chart:
    options: list[dict[str, Any]] = []
    for model in needs.models:
        series = [
            {
                "name": _short(needs, of),
                "steps": True,
                "points": [_point(size, time) for size, time in front if time is not None],
            }
            for of in needs.targets
            if (front := of.fronts.get(model, ())) and front[-1][1] is not None
        ]
        if series:
            data = {"x": {"title": "SRAM (KiB)", "kib": True}, "y": {"title": "ms"}, "series": series, "marks": []}
            options.append({"name": model, "data": data})
    left_out = f"; {len(options) - MOST_DRAWN:,} more are in the file of rows" if len(options) > MOST_DRAWN else ""
    drawn = options[:MOST_DRAWN]
    first = max(range(len(drawn)), key=lambda place: len(drawn[place]["data"]["series"][0]["points"]), default=0)
    return Chart(
        "choice",
        "curves",
        f"One network on all targets{left_out}",
        "A staircase of milliseconds by SRAM for each target; the table below has its ends.",
        {"label": "Network", "kind": "steps", "options": drawn, "first": first},
        ("steps",),
    )


def _point(size: int, time: float) -> list[int | float | str]:
    return [size, time, f"{time:,.3f} ms", _kib(size)]


def _refused(needs: Needs) -> Grid:
    columns = (
        Column("target", "Target", "text"),
        Column("error", "Error", "text"),
        Column("networks", "Networks"),
        Column("which", "Which", "text"),
        Column("message", "The first says", "text"),
    )
    rows = tuple((of.target, of.error, len(of.models), _few(of.models), of.message) for of in needs.refusals)
    return Grid("refusals", "Networks without a single answer, by target and error", columns, rows)


def _few(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more


def _shares(share: Fraction) -> tuple[Fraction, ...]:
    """The figures of every target: the share that is asked about among the usual ones, the largest first."""
    return tuple(sorted({share, *_SHARES}, reverse=True))


def _short(needs: Needs, target: TargetNeeds) -> str:
    """A board by its name, another target by its accelerator and what tells it from others that have that."""
    if "/" not in target.target:
        return target.target
    alike = [of for of in needs.targets if of.accelerator == target.accelerator and "/" in of.target]
    parts = [target.accelerator]
    if len({of.system_config for of in alike}) > 1:
        parts.append(target.system_config)
    if len({of.memory_mode for of in alike}) > 1:
        parts.append(target.memory_mode)
    return "/".join(parts)


def _in_time(milliseconds: float | None) -> str:
    return "" if milliseconds is None else f" in {milliseconds:g} ms"


def _percent(share: Fraction) -> str:
    return f"{float(100 * share):g} %"


def _in_kib(size: int | None) -> float | None:
    return None if size is None else size / 1024


def _kib(size: int) -> str:
    return f"{size / 1024:,.1f} KiB"
