"""`ethoscade compile --sram 200KiB,300KiB`: one model for several budgets, read, encoded and searched once.

Owns how budgets are named: each has a folder of its own, named after it, in the folder of the output. What cannot
be does not keep the others from being written; it is named, and the exit status says so.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import ConfigError, EthoscadeError
from ..pipeline.compiled import Compiled
from ..pipeline.prepared import prepare
from ..report import summary
from ..targets.target import budget_of
from . import console, tables
from .common import DIFFERENT, DONE, FAULTY, model_of, print_report, tell_of_board, told
from .working import working

Writer = Callable[[Compiled, Path], tuple[dict[str, Any], str, int]]
_OF_ONE_BUDGET = ("sram", "optimise", "epsilon", "line_bytes")


def compile_all(args: argparse.Namespace, write: Writer, *, is_c: bool) -> int:
    """Compile for each budget of `--sram` and write what fits, C among it or not; returns the exit status."""
    budgets = _budgets(args.sram)
    options = told(args, is_c=is_c)
    of_one = {name: options.pop(name) for name in _OF_ONE_BUDGET} | {"sram": None}
    with working(args) as progress:
        network = prepare(model_of(args.model), **options, progress=progress)
    reports, texts, statuses, made = [], [], [], []
    for name, budget in budgets.items():
        try:
            with working(args, name) as progress:
                compiled = network.compile(**of_one | {"sram": budget}, progress=progress)
            tell_of_board(args, compiled)
            report, text, status = write(compiled, Path(args.output) / name)
        except EthoscadeError as error:
            report, status = summary.error_json(error) | {"budget_bytes": budget}, FAULTY
            console.complain(f"budget {name}: {error}")
        else:
            made.append(compiled)
            texts.append(text)
        reports.append(report)
        statuses.append(status)
    written = tables.write(args, made) if made else {}
    if made:
        texts.append(_comparison(made))
    report = {"schema_version": summary.SCHEMA_VERSION, "compilations": reports, "tables": written}
    if made or args.json:
        print_report(args, report, "\n\n".join(texts) + tables.listing(written))
    return next((status for status in (DIFFERENT, FAULTY) if status in statuses), DONE)


def _budgets(text: str) -> dict[str, int]:
    """The budgets in bytes by the names of their folders. Raises `ConfigError`."""
    found: dict[str, int] = {}
    for part in text.split(","):
        size = budget_of(part)
        name = f"{size // 1024}KiB" if size % 1024 == 0 else f"{size}B"
        if name in found:
            raise ConfigError(f"--sram {text} has the budget of {size} bytes twice; give each once")
        found[name] = size
    return found


def _comparison(made: list[Compiled]) -> str:
    """A line for each budget."""
    rows = (
        f"{one.budget_bytes:>12,}  {one.sram_bytes:>12,}  {one.cycles:>14,}  {one.milliseconds:>9.3f}" for one in made
    )
    return "\n".join([f"{'budget':>12}  {'SRAM bytes':>12}  {'cycles':>14}  {'ms':>9}", *rows])
