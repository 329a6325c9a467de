"""A timing report as people and machines read it: the JSON of `simulate --timing`, a few lines of text.

Owns wording and schema; what happened when is the timing model's, and `trace` draws it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..run.timing import TimingReport

_TEXT_OPERATORS = 5


def timing_json(reports: Sequence[tuple[str, TimingReport]]) -> dict[str, Any]:
    """The `timing` object of `simulate --json`: totals, and the operators and commands of each call."""
    return {
        "cycles": sum(report.cycles for _, report in reports),
        "lower_bound_cycles": sum(report.lower_bound_cycles for _, report in reports),
        "macs": sum(report.macs for _, report in reports),
        "calls": [_call_json(name, report) for name, report in reports],
    }


def timing_text(reports: Sequence[tuple[str, TimingReport]]) -> str:
    """Totals and the most expensive operators, a few lines."""
    lines = []
    for name, report in reports:
        lines.append(
            f"{name}: {report.cycles:,} cycles, {100 * report.utilisation:.1f}% of the MACs; "
            f"no order of its operations takes less than {report.lower_bound_cycles:,}"
        )
        shares = sorted(report.bound_cycles.items(), key=lambda share: -share[1])
        lines.append("  bound by " + ", ".join(f"{what} {_percent(part, report.cycles)}" for what, part in shares))
        for memory in report.memories.values():
            busy = _percent(memory.busy_cycles, report.cycles)
            lines.append(
                f"  {memory.memory}: {memory.read_bytes:,} bytes read, {memory.written_bytes:,} written, {busy}"
            )
        for operator in sorted(report.operators, key=lambda operator: -operator.cycles)[:_TEXT_OPERATORS]:
            stripes = f", {operator.kernels} stripes" if operator.kernels > 1 else ""
            lines.append(f"  {operator.cycles:>12,} cycles  {operator.label} ({operator.bound}{stripes})")
    return "\n".join(lines)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f}%" if whole else "0%"


def _call_json(name: str, report: TimingReport) -> dict[str, Any]:
    return {
        "name": name,
        "cycles": report.cycles,
        "lower_bound_cycles": report.lower_bound_cycles,
        "mac_engine_cycles": report.mac_engine_cycles,
        "output_stage_cycles": report.output_stage_cycles,
        "dma_cycles": report.dma_cycles,
        "macs": report.macs,
        "utilisation": round(report.utilisation, 6),
        "bound_cycles": report.bound_cycles,
        "memories": {
            memory.memory: {
                "read_bytes": memory.read_bytes,
                "written_bytes": memory.written_bytes,
                "busy_cycles": memory.busy_cycles,
            }
            for memory in report.memories.values()
        },
        "operators": [
            {
                "label": operator.label,
                "kernels": operator.kernels,
                "cycles": operator.cycles,
                "macs": operator.macs,
                "utilisation": round(operator.utilisation, 6),
                "bound": operator.bound,
                "bytes": dict(operator.bytes),
                "transfers": operator.transfers,
                "transfer_cycles": operator.transfer_cycles,
            }
            for operator in report.operators
        ],
        "commands": [
            {
                "command": command.command,
                "kind": command.kind,
                "label": command.label,
                "stripe": command.stripe,
                "start": command.start,
                "cycles": command.cycles,
                "bound": command.bound,
                "read_bytes": dict(command.read_bytes),
                "written_bytes": dict(command.written_bytes),
            }
            for command in report.commands
        ],
    }
