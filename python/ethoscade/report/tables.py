"""Tables of compilations as CSV and JSON: a row for each operator, with Vela's columns first, and where all bytes lie.

Owns columns and their words. Computes nothing.
"""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..analysis.addresses import Address
from ..analysis.cpu_time import CpuOperatorTime
from ..analysis.table import OperatorRow, OperatorTable
from ..page.parts import Cell
from ..pipeline.compiled import Compiled

# Vela's words for memories, by ours.
_ACCESS = {"SRAM AC": "Sram", "DRAM AC": "Dram", "OnFlash AC": "OnChipFlash", "OffFlash AC": "OffChipFlash"}
_BOUNDS = ("compute", "output", "latency", "waiting")


def operators_csv(compilations: Iterable[Compiled], cpu: str | None = None) -> bytes:
    """A row for each operator of each network, as UTF-8; nothing without one. docs/csv.md tells the columns.

    Operators on the CPU are estimated on the core `cpu`, if one is given.
    """
    tables = [(one, one.table()) for one in compilations]
    memories = list(dict.fromkeys(memory.memory for _, table in tables for memory in table.memories))
    rows = []
    for one, table in tables:
        on_cpu = iter(one.cpu_time(cpu).operators)
        for row in table.rows:
            time = next(on_cpu) if row.where == "cpu" else None
            rows.append(_operator_cells(one, table, row, memories, time))
    return _csv(rows)


def addresses_csv(compilations: Iterable[Compiled]) -> bytes:
    """A row for each buffer of the arena and each range of the constants of each network, as UTF-8."""
    return _csv([_address_cells(one, row) for one in compilations for row in one.addresses()])


def table_json(table: OperatorTable) -> dict[str, Any]:
    """The keys `memories` and `operator_rows` of `compile --json`: the fields of `MemoryTraffic` and `OperatorRow`."""
    return {
        "memories": [dataclasses.asdict(memory) for memory in table.memories],
        "operator_rows": [_plain(row) for row in table.rows],
    }


def addresses_json(rows: Iterable[Address]) -> list[dict[str, Any]]:
    """The key `addresses` of `compile --json`: the fields of `Address`."""
    return [_plain(row) for row in rows]


def _plain(row: OperatorRow | Address) -> dict[str, Any]:
    """The fields of a row by name, mappings as objects and tuples as lists."""
    cells = {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    return {
        name: dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
        for name, value in cells.items()
    }


def _operator_cells(
    compiled: Compiled, table: OperatorTable, row: OperatorRow, memories: Sequence[str], time: CpuOperatorTime | None
) -> dict[str, Cell]:
    """Vela's columns, by its names and in its order, then ours."""
    known = [name for name in memories if name in _ACCESS.values()]
    cells: dict[str, Cell] = {
        "Original Operator": row.kind,
        "NNG Operator": "+".join(row.operation_kinds),
        "Target": row.where.upper(),
        "Staging Usage": row.live_bytes,
        "Peak% (Staging)": _percent(row.live_bytes or 0, table.sram_bytes),
        "Op Cycles": row.cycles,
        "Network% (cycles)": _percent(row.cycles, table.cycles),
        "NPU": row.engine_cycles,
        **{column: row.memory_cycles.get(memory, 0) for column, memory in _ACCESS.items()},
        "MAC Count": row.macs,
        "Network% (MAC)": _percent(row.macs, sum(other.macs for other in table.rows)),
        "Util% (MAC)": 100 * row.utilisation,
        "Name": row.name,
        "Network": compiled.name,
        "Budget Bytes": compiled.budget_bytes,
        "Milliseconds": row.milliseconds,
        "Cascade": row.cascade,
        "Bound": row.bound,
        **{f"Cycles {bound}": row.bound_cycles.get(bound, 0) for bound in (*_BOUNDS, *memories)},
        "Cycles Alone": row.alone_cycles,
        "Operations": row.operations,
        "Copies": row.copies,
        **{f"{name} Cycles": row.memory_cycles.get(name, 0) for name in memories if name not in known},
        **{f"{name} Read": row.read_bytes.get(name, 0) for name in memories},
        **{f"{name} Written": row.written_bytes.get(name, 0) for name in memories},
        "CPU Cycles Least": None if time is None else time.least_cycles,
        "CPU Cycles Most": None if time is None else time.most_cycles,
        "Done By": row.done_by,
        "Reason": row.reason,
    }
    return cells


def _address_cells(compiled: Compiled, row: Address) -> dict[str, Cell]:
    first, *others = row.names
    return {
        "Network": compiled.name,
        "Budget Bytes": compiled.budget_bytes,
        "Name": first,
        "Also": " | ".join(others),
        "Kind": row.kind,
        "Pool": row.pool,
        "Memory": row.memory,
        "Address": row.address,
        "Size": row.size_bytes,
        "First Step": row.first_step,
        "Last Step": row.last_step,
        "First Operator": row.first,
        "Last Operator": row.last,
        "Shares Bytes With": " | ".join(row.shares),
    }


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


def _csv(rows: Sequence[Mapping[str, Cell]]) -> bytes:
    if not rows:
        return b""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode("utf-8", "surrogateescape")
