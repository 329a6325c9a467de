"""`ethoscade sweep`: many models on many targets within many budgets; rows as they come, and a page of them.

Owns its arguments, the bar that shows how far it is, and what is printed.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from concurrent.futures import Executor
from fractions import Fraction
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..page.document import render
from ..report import summary
from ..sweeps.cluster import cluster
from ..sweeps.driver import Sweep, sweep
from ..sweeps.needs import Needs, needs_of
from ..sweeps.questions import BUDGET_WORDS
from ..sweeps.rows import SweepRow
from ..sweeps.sweep_page import sweep_page
from ..util.files import refuse_same, write_whole
from ..util.progress import WorkStage
from . import arguments
from .common import DONE, print_report
from .working import working


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Adds what the command takes to its parser."""
    command.set_defaults(run=run)
    arguments.add_json(command)
    command.add_argument("models", metavar="MODEL", nargs="+", help=".tflite files, or folders of them")
    command.add_argument(
        "--targets",
        nargs="+",
        action="extend",
        metavar="TARGET",
        help="ACCELERATOR[/SYSTEM_CONFIG[/MEMORY_MODE]], also with *, or a board (default: every accelerator)",
    )
    arguments.add_config(command)
    command.add_argument(
        "--budgets",
        nargs="+",
        action="extend",
        metavar="SIZE",
        help=f"sizes such as 300KiB, or {', '.join(BUDGET_WORDS)} (default: frontier)",
    )
    command.add_argument(
        "-o", "--output", metavar="FILE", default="sweep.csv", help="rows, .csv or .parquet (default: sweep.csv)"
    )
    command.add_argument("--page", metavar="HTML", help="write a page: which NPU and how much SRAM the networks need")
    command.add_argument("--latency", type=_above_zero, metavar="MS", help="milliseconds that the page asks about")
    command.add_argument(
        "--share", type=_percentage, default=Fraction(1), metavar="PERCENT", help="of all networks (default: 100)"
    )
    where = command.add_mutually_exclusive_group()
    where.add_argument("--jobs", type=arguments.positive, metavar="N", help="processes (default: one a processor)")
    where.add_argument(
        "--dask", metavar="ADDRESS", help="a Dask scheduler, for other machines (needs the extra 'dask')"
    )
    command.add_argument("--timeout", type=_above_zero, metavar="SECONDS", help="give up a question after so long")
    command.add_argument("--seconds", action="store_true", help="a column of what each answer took")
    arguments.add_interface(command)
    arguments.add_epsilon(command)
    arguments.add_dead_channels(command)
    arguments.add_weight_encoder(command)


def run(args: argparse.Namespace) -> int:
    """`ethoscade sweep`."""
    models = list(_models(args.models))
    refuse_same({f"the model {path}": path for path in models}, {"--output": args.output, "--page": args.page})
    with contextlib.ExitStack() as stack:
        executor, window = stack.enter_context(cluster(args.dask)) if args.dask else (None, None)
        rows = stack.enter_context(_asked(args, models, executor, window and 2 * window))
        found = list(_watched(args, rows))
    needs = needs_of(found)
    written = [args.output]
    if args.page:
        written.append(args.page)
        write_whole(args.page, render(sweep_page(needs, found[0].version, args.latency, args.share)).encode())
    lines = [_counted(rows, found), *_told(needs, args), *(f"wrote {path}" for path in written)]
    print_report(args, _report(rows, found, needs, args), "\n".join(lines))
    return DONE


def _parted(given: list[str] | None) -> list[str] | None:
    """Words with commas between them as words of their own, as other commands take them; files stay what they are."""
    if given is None:
        return None
    return [part for word in given for part in ([word] if word.endswith(".toml") else word.split(","))]


def _asked(args: argparse.Namespace, models: list[str], executor: Executor | None, window: int | None) -> Sweep:
    more: dict[str, Any] = {"targets": _parted(args.targets), "budgets": _parted(args.budgets)}
    return sweep(
        models,
        executor=executor,
        output=args.output,
        jobs=args.jobs,
        window=window,
        timeout=args.timeout,
        config=args.config,
        epsilon=args.epsilon,
        dead_channels=not args.keep_dead_channels,
        weight_encoder=args.weight_encoder,
        io=args.io,
        seconds=args.seconds,
        **{name: value for name, value in more.items() if value},
    )


def _models(given: list[str]) -> Iterator[str]:
    """The files named, and those of folders in the order of their names. Raises `ConfigError` for what is not there."""
    for text in given:
        path = Path(text)
        if path.is_dir():
            inside = sorted(str(one) for one in path.glob("*.tflite"))
            if not inside:
                raise ConfigError(f"there is no .tflite file in the folder '{text}'")
            yield from inside
        elif not path.exists():
            raise ConfigError(f"cannot read '{text}': no such file")
        else:
            yield text


def _watched(args: argparse.Namespace, sweep: Sweep) -> Iterator[SweepRow]:
    """The rows; on a terminal a line on stderr says how far it is."""
    errors = 0
    with working(args) as progress:
        for row in sweep:
            errors += bool(row.error)
            if progress is not None:
                done = f"{sweep.answered:,} of {sweep.questions:,} questions, {errors:,} errors"
                progress(WorkStage(done, sweep.answered / sweep.questions))
            yield row


def _counted(sweep: Sweep, rows: list[SweepRow]) -> str:
    errors = sum(bool(row.error) for row in rows)
    before = f", {sweep.known:,} of them before" if sweep.known else ""
    return f"{sweep.questions:,} questions answered{before}: {len(rows):,} rows, {errors:,} of them errors"


def _told(needs: Needs, args: argparse.Namespace) -> Iterator[str]:
    """The page's answer in a line, and each target's."""
    count, limit = needs.count_of(args.share), args.latency
    within = "" if limit is None else f" in {limit:g} ms"
    found = needs.smallest(args.share, limit)
    for of in needs.targets:
        size = of.sram_for(count, limit)
        fast = sum(of.sram_of(model, limit) is not None for model in of.fronts)
        room = f"only {fast}{within}" if size is None else f"{count}{within}: {size / 1024:,.1f} KiB"
        yield f"  {of.target}: {len(of.fronts)} of {len(needs.models)} networks run; {room}"
    if found is not None:
        yield f"smallest NPU for {count} of {len(needs.models)} networks{within}: {found[0].target}"


def _report(sweep: Sweep, rows: list[SweepRow], needs: Needs, args: argparse.Namespace) -> dict[str, Any]:
    count, limit = needs.count_of(args.share), args.latency
    found = needs.smallest(args.share, limit)
    return {
        "schema_version": summary.SCHEMA_VERSION,
        "questions": sweep.questions,
        "known": sweep.known,
        "rows": len(rows),
        "errors": sum(bool(row.error) for row in rows),
        "networks": len(needs.models),
        "asked": {"networks": count, "milliseconds": limit},
        "targets": [
            {"target": of.target, "networks": len(of.fronts), "sram_bytes": of.sram_for(count, limit)}
            for of in needs.targets
        ],
        "smallest": None if found is None else {"target": found[0].target, "sram_bytes": found[1]},
        "output": args.output,
        "page": args.page,
    }


def _above_zero(text: str) -> float:
    number = arguments.fraction(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not above 0")
    return float(number)


def _percentage(text: str) -> Fraction:
    number = arguments.fraction(text.removesuffix("%"))
    if not 0 < number <= 100:
        raise argparse.ArgumentTypeError(f"'{text}' is not a percentage above 0 and up to 100")
    return number / 100
