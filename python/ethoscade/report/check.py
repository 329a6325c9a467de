"""What `ethoscade check` found, as people and machines read it.

Owns wording and schema. Computes nothing.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator
from typing import Any

from ..analysis.explanation import short
from ..analysis.table import OperatorRow
from ..pipeline.check import Check
from .summary import SCHEMA_VERSION
from .tables import table_json

_COSTLIEST = 12
_WIDTH = 110


def check_json(found: Check) -> dict[str, Any]:
    """The object that `check --json` prints."""
    npu = sum(row.where == "npu" for row in found.table.rows)
    return {
        "schema_version": SCHEMA_VERSION,
        "model": found.name,
        "accelerator": found.target.accelerator.name,
        "system_config": found.target.system_config,
        "memory_mode": found.target.memory_mode,
        "operators": {"npu": npu, "cpu": len(found.table.rows) - npu},
        "npu_programs": found.npu_programs,
        "sram_bytes": found.sram_bytes,
        "flash_bytes": found.flash_bytes,
        "cycles": found.table.cycles,
        "weight_cycles": found.weight_cycles,
        "macs": found.table.macs,
        "utilisation": found.table.utilisation,
        "peak": dataclasses.asdict(found.peak),
        **table_json(found.table),
        "advice": [dataclasses.asdict(advice) for advice in found.advice],
        "warnings": list(found.warnings),
    }


def check_text(found: Check, every_operator: bool = False) -> str:
    """What was found, in words: operators by cost, those on the CPU with the reason, advice."""
    return "\n".join([*_head(found), "", *_operators(found, every_operator), *_on_cpu(found), *_advice(found)])


def _head(found: Check) -> Iterator[str]:
    rows, table = found.table.rows, found.table
    npu = sum(row.where == "npu" for row in rows)
    yield f"model      {found.name}"
    yield f"target     {found.target.accelerator.name}, {found.target.system_config}, {found.target.memory_mode}"
    programs = f"{found.npu_programs} NPU program{'' if found.npu_programs == 1 else 's'}"
    yield f"operators  {npu} on the NPU in {programs}, {len(rows) - npu} on the CPU"
    yield (
        f"by layer   {found.sram_bytes:,} bytes of SRAM; {table.cycles:,} cycles without weight loading; loading the "
        f"weights takes {found.weight_cycles:,}; {100 * table.utilisation:.1f} % of the MACs in use"
    )


def _operators(found: Check, every_operator: bool) -> Iterator[str]:
    rows = [row for row in found.table.rows if row.operations]
    shown = rows if every_operator else sorted(rows, key=lambda row: -row.cycles)[:_COSTLIEST]
    yield f"{'cycles':>12}  {'share':>6}  {'MACs used':>9}  {'bound by':<12}  operator"
    yield from (_row(found, row) for row in shown)
    if len(shown) < len(rows):
        yield f"{'':>12}  and {len(rows) - len(shown)} more, which --operators lists"


def _row(found: Check, row: OperatorRow) -> str:
    share, used = 100 * row.cycles / found.table.cycles, 100 * row.utilisation
    return f"{row.cycles:>12,}  {share:>5.1f}%  {used:>8.1f}%  {row.bound:<12}  {row.kind} '{short(row.name)}'"


def _on_cpu(found: Check) -> Iterator[str]:
    on_cpu = [row for row in found.table.rows if row.where == "cpu"]
    if on_cpu:
        yield ""
        yield "on the CPU:"
        yield from (f"  {row.kind} '{short(row.name)}': {row.reason}" for row in on_cpu)
    if found.warnings:
        yield ""
        yield from (f"TensorFlow Lite Micro: {warning}" for warning in found.warnings)


def _advice(found: Check) -> Iterator[str]:
    yield ""
    if not found.advice:
        yield "no advice: nothing was found that would help"
    for number, advice in enumerate(found.advice, start=1):
        yield from textwrap.wrap(f"{number}. {advice.topic}: {advice.found}", _WIDTH, subsequent_indent="   ")
        yield from textwrap.wrap(f"   -> {advice.change}", _WIDTH, subsequent_indent="      ")
