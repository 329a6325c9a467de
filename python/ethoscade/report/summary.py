"""Results as people and machines read them: the text summary and the JSON of the public interface.

Owns wording and schema. Computes nothing.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..analysis.cpu_time import CpuTime
from ..analysis.explanation import Explanation, alive_lines, short
from ..analysis.table import KindOnCpu, StreamTotals
from ..codegen.micro_arena import MicroArena
from ..errors import BudgetError, EthoscadeError
from ..pipeline.compiled import Compiled, Curve
from ..pipeline.interface import InterfaceTensor
from ..rewrites import DeadChannels
from ..targets.target import Target

if TYPE_CHECKING:
    from ..judge.verification import Verification

SCHEMA_VERSION = 1
_TEXT_REASONS = 6


def compile_json(
    compiled: Compiled,
    artifacts: Mapping[str, str],
    verification: Verification | None = None,
    cpu: str | None = None,
) -> dict[str, Any]:
    """The object that `compile --json` and `verify --json` print; `cpu` is the core that the CPU's operators are on."""
    from . import tables

    npu = sum(op.where == "npu" for op in compiled.operators)
    result: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "model": compiled.name,
        "accelerator": compiled.target.accelerator.name,
        "system_config": compiled.target.system_config,
        "memory_mode": compiled.target.memory_mode,
        "board": None if (board := compiled.target.board) is None else board.name,
        "board_sram_bytes": None if board is None else board.sram_bytes,
        "budget_bytes": compiled.budget_bytes,
        "sram_bytes": compiled.sram_bytes,
        "live_bytes": compiled.live_bytes,
        "flash_bytes": compiled.flash_bytes,
        "floor_bytes": compiled.curve.floor_bytes,
        "floor_set_by": dataclasses.asdict(compiled.floor),
        "uncascaded_bytes": compiled.curve.uncascaded_bytes,
        "pools": compiled.pools,
        "workspace_bytes": compiled.workspace_bytes,
        **_time_json(compiled),
        **_choices_json(compiled),
        "cpu_time": _cpu_json(compiled.cpu_time(cpu)),
        "io": compiled.io,
        "input_memory": None if (inputs := compiled.target.inputs) is None else inputs.name,
        "arrival": None if (arrival := compiled.arrival) is None else dataclasses.asdict(arrival),
        "departure": None if (departure := compiled.departure) is None else dataclasses.asdict(departure),
        "inputs": [_interface_json(tensor) for tensor in compiled.interface if tensor.is_input],
        "outputs": [_interface_json(tensor) for tensor in compiled.interface if not tensor.is_input],
        "operators": {"npu": npu, "cpu": len(compiled.operators) - npu},
        "macs": {where: sum(op.macs for op in compiled.operators if op.where == where) for where in ("npu", "cpu")},
        "cpu_kinds": [_kind_json(kind) for kind in compiled.kinds_on_cpu],
        "cpu_operators": [{"name": op.name, "kind": op.kind, "reason": op.reason} for op in compiled.cpu_operators],
        "dead_channels": dead_channels_json(compiled.dead_channels),
        "epsilon": float(compiled.curve.epsilon),
        **tables.table_json(compiled.table()),
        "addresses": tables.addresses_json(compiled.addresses()),
        "cascades": compiled.cascades,
        "npu_commands": compiled.npu_commands,
        "artifacts": dict(artifacts),
        "seconds": {name: round(seconds, 4) for name, seconds in compiled.seconds.items()},
    }
    if verification is not None:
        result["verification"] = verification_json(verification)
    return result


def _board_rows(target: Target) -> list[tuple[str, str]]:
    """What the board has, where one is named."""
    board = target.board
    return [] if board is None else [("board", f"{board.name}, {_size(board.sram_bytes)} of SRAM for the NPU")]


def _time_json(compiled: Compiled) -> dict[str, float | None]:
    """What is counted of time: nothing without an NPU."""
    counted: dict[str, float | None] = {
        "cycles": compiled.cycles,
        "core_clock_hz": compiled.target.core_clock_hz,
        "milliseconds": compiled.milliseconds,
        "inferences_per_second": compiled.inferences_per_second,
        "utilisation": compiled.utilisation,
    }
    return counted if compiled.target.has_npu else dict.fromkeys(counted)


def _choices_json(compiled: Compiled) -> dict[str, Any]:
    """What half of the SRAM would cost, and the knee, null where the search did not look for it; a faster choice."""
    curve = compiled.curve
    if not compiled.cycles:
        return {"half": None, "fastest": None, "knee": None}
    half, faster = curve.fastest_within(compiled.sram_bytes // 2), _faster(compiled)
    return {
        "half": None if half is None else _point_json(half),
        "fastest": None if faster is None else _point_json(faster),
        "knee": _point_json(curve.knee) if curve.is_whole else None,
    }


def _faster(compiled: Compiled) -> tuple[int, int] | None:
    """The fastest point within the budget, where that is not the answer."""
    budget = compiled.budget_bytes
    fitting = [point for point in compiled.curve.points if budget is None or point[0] <= budget]
    return fitting[-1] if fitting and fitting[-1][0] > compiled.sram_bytes else None


def _point_json(point: tuple[int, int]) -> dict[str, int]:
    return {"sram_bytes": point[0], "cycles": point[1]}


def _kind_json(kind: KindOnCpu) -> dict[str, Any]:
    """One entry of `cpu_kinds`."""
    return {
        "kind": kind.kind,
        "operators": kind.operators,
        "macs": kind.macs,
        "macs_share": kind.share,
        "reasons": [{"reason": reason, "operators": list(names)} for reason, names in kind.reasons.items()],
    }


def _kind_rows(kind: KindOnCpu) -> list[tuple[str, str]]:
    """A kind's head, then its reasons, each once with the first of the operators that have it."""
    count = f"{kind.operators} operator{'s' if kind.operators > 1 else ''}"
    rows = [("on the CPU", f"{kind.kind}: {count}, {100 * kind.share:.1f} % of the MACs")]
    for reason, (first, *others) in list(kind.reasons.items())[:_TEXT_REASONS]:
        rows.append(("", f"'{short(first)}'{f' and {len(others)} more' if others else ''}: {reason}"))
    if len(kind.reasons) > _TEXT_REASONS:
        rows.append(("", f"and {len(kind.reasons) - _TEXT_REASONS} reasons more, which --json lists"))
    return rows


def _interface_json(tensor: InterfaceTensor) -> dict[str, Any]:
    """One entry of `inputs` or `outputs`."""
    return {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "size_bytes": tensor.size_bytes,
        "scale": tensor.scale,
        "zero_point": tensor.zero_point,
        "float_in_file": tensor.is_cut,
        "reason": tensor.reason,
    }


def verification_json(check: Verification) -> dict[str, Any]:
    """The `verification` object."""
    return {
        "ok": check.ok,
        "seeds": check.seeds,
        "runs": check.runs,
        "elements": check.elements,
        "mismatches": check.mismatches,
        "max_abs_diff": finite(check.max_abs_diff),
        "hazards": check.hazards,
        "sram_touched_bytes": check.sram_touched_bytes,
        "judge": check.judge,
        "findings": list(check.findings),
        "not_judged": list(check.not_judged),
    }


def dead_channels_json(found: Iterable[DeadChannels]) -> dict[str, Any]:
    """The `dead_channels` object: of every operator that has some how many went, and why others stayed."""
    rows = [
        {
            "name": one.operator,
            "kind": one.kind,
            "channels": one.channels,
            "dead": one.dead,
            "removed": one.removed,
            "kept": dict(one.kept),
        }
        for one in found
    ]
    return {"dead": sum(r["dead"] for r in rows), "removed": sum(r["removed"] for r in rows), "operators": rows}


def finite(difference: float) -> float | None:
    """A difference for JSON, which has no word for the infinite one of a NaN: null."""
    return difference if math.isfinite(difference) else None


def frontier_json(curve: Curve) -> dict[str, Any]:
    """The object that `frontier --json` prints."""
    return {
        "schema_version": SCHEMA_VERSION,
        "core_clock_hz": curve.core_clock_hz,
        "points": [
            {"sram_bytes": size, "cycles": cycles, "milliseconds": milliseconds}
            for (size, cycles), milliseconds in zip(curve.points, _milliseconds(curve), strict=True)
        ],
        "floor_bytes": curve.floor_bytes,
        "knee": _point_json(curve.knee),
        "uncascaded_bytes": curve.uncascaded_bytes,
        "uncascaded_cycles": curve.uncascaded_cycles,
        "stop_reason": curve.stop_reason,
        "epsilon": float(curve.epsilon),
        "plans": curve.plans,
        "proposals": curve.proposals_considered,
        "seconds": round(curve.seconds, 4),
    }


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    """The `explanation` object of `compile --explain --json`: the fields of `Explanation`, tuples as lists."""
    return dataclasses.asdict(explanation)


def refusal_text(error: BudgetError) -> str:
    """What is alive where the smallest schedule peaks, a line for each buffer."""
    head = f"alive at operator '{short(error.operator)}' in the smallest schedule, {_size(error.floor_bytes)}:"
    return "\n".join([head, *alive_lines(error.alive)])


def error_json(error: EthoscadeError) -> dict[str, Any]:
    """The object that any command prints under `--json` when it fails."""
    result: dict[str, Any] = {"error": type(error).__name__, "message": str(error)}
    if isinstance(error, BudgetError):
        result |= {
            "budget_bytes": error.budget_bytes,
            "floor_bytes": error.floor_bytes,
            "operator": error.operator,
            "alive": [dataclasses.asdict(buffer) for buffer in error.alive],
        }
    return result


def _handover_rows(compiled: Compiled) -> list[tuple[str, str]]:
    found = (compiled.arrival, compiled.departure)
    return [row for of in found if of is not None for row in of.lines(compiled.target.core_clock_hz)]


def compile_text(
    compiled: Compiled,
    verification: Verification | None = None,
    cpu: str | None = None,
) -> str:
    """A compilation in a few lines; `cpu` as for `compile_json`."""
    time = compiled.cpu_time(cpu)
    target = compiled.target
    rows = [
        ("model", compiled.name),
        ("target", _target(target)),
        *_board_rows(target),
        ("budget", "none" if compiled.budget_bytes is None else _size(compiled.budget_bytes)),
        *_memory_rows(compiled),
        *_handover_rows(compiled),
        ("flash", _size(compiled.flash_bytes)),
    ]
    if target.has_npu:
        rows += [
            ("cycles", f"{compiled.cycles:,} (cost model, NPU only)"),
            *_time_rows(compiled),
            *_cpu_rows(compiled, time),
            *_traffic_rows(compiled.stream_totals()),
            ("cascades", f"{compiled.cascades} over {_cascaded(compiled)} of {len(compiled.operators)} operators"),
            ("NPU commands", f"{compiled.npu_commands:,}"),
        ]
    else:
        rows += [("cycles", "not counted: those of a CPU are its kernels'"), *_cpu_rows(compiled, time)]
    rows += _dead_rows(compiled.dead_channels)
    rows += [("input" if tensor.is_input else "output", _interface_text(tensor)) for tensor in compiled.interface]
    rows += [row for kind in compiled.kinds_on_cpu for row in _kind_rows(kind)]
    if compiled.npu_commands == 0 and target.has_npu:
        rows.append(("note", "no operator of this model runs on the NPU; there was nothing to compile"))
    rows.append(("seconds", ", ".join(f"{name} {value:.2f}" for name, value in compiled.seconds.items())))
    if verification is not None:
        rows += _verification_rows(verification)
    return _table(rows)


def _target(target: Target) -> str:
    if not target.has_npu:
        return "a CPU alone, accelerator none"
    return f"{target.accelerator.name}, {target.system_config}, {target.memory_mode}"


def _memory_rows(compiled: Compiled) -> list[tuple[str, str]]:
    """The SRAM, the floor and other choices; an arena in DRAM has no floor, as all may lie there."""
    in_use = ("  in use at once", _size(compiled.live_bytes))
    if compiled.target.has_cache:
        arena = f"{_size(compiled.artifact.arena_bytes)} of {compiled.target.arena.name}"
        return [
            ("SRAM", f"{_size(compiled.sram_bytes)}  (the NPU's fast memory)"),
            in_use,
            ("arena", f"{arena}  (inputs and outputs included)"),
        ]
    curve = compiled.curve
    return [
        ("SRAM", f"{_size(compiled.sram_bytes)}  (arena, {_included(compiled.target)})"),
        in_use,
        (
            "  floor",
            _size(curve.floor_bytes) + ("  (upper bound: not searched further)" if curve.floor_is_bound else ""),
        ),
        ("  largest at", f"{compiled.floor.where}: {compiled.floor.by_kind()}"),
        ("  without cascades", _size(curve.uncascaded_bytes)),
        *_choice_rows(compiled),
    ]


def _included(target: Target) -> str:
    """Which inputs and outputs are counted."""
    outputs = "outputs" if target.taken_rows is None else "held rows of the output"
    if target.inputs is not None:
        return f"{outputs} included; inputs lie in {target.inputs.name}"
    return f"{'inputs' if target.streaming is None else 'held rows of the input'} and {outputs} included"


def _choice_rows(compiled: Compiled) -> list[tuple[str, str]]:
    """The fastest, what half of the SRAM would cost, and the knee of a whole frontier."""
    curve = compiled.curve
    if not compiled.cycles:
        return []
    half, point = compiled.sram_bytes // 2, curve.fastest_within(compiled.sram_bytes // 2)
    size, cycles = curve.points[0]
    if point is None and curve.floor_is_bound:
        text = f"{half / 1024:.1f} KiB: not searched; 'ethoscade frontier' shows every choice"
    elif point is None:
        text = f"not enough: the floor is {size / 1024:.1f} KiB, with {_more(cycles, compiled.cycles)} cycles"
    else:
        text = f"{half / 1024:.1f} KiB: {_more(point[1], compiled.cycles)} cycles"
    rows = [("  half the SRAM", text)]
    if (faster := _faster(compiled)) is not None:
        found = f"{faster[0] / 1024:.1f} KiB: {_more(faster[1], compiled.cycles)} cycles (--optimise fastest)"
        rows.insert(0, ("  fastest", found))
    if not curve.is_whole:
        return rows
    size, cycles = curve.knee
    found = f"{size / 1024:.1f} KiB: {_more(cycles, compiled.cycles)} cycles (--optimise balanced)"
    return [*rows, ("  knee", "this" if size == compiled.sram_bytes else found)]


def _more(cycles: int, than: int) -> str:
    return f"{100 * (cycles - than) / than:+.1f} %"


def _time_rows(compiled: Compiled) -> list[tuple[str, str]]:
    """What cycles are in time, and how busy the multipliers are meanwhile; nothing where no cycle is counted."""
    if not compiled.cycles:
        return []
    clock = compiled.target.core_clock_hz / 1e6
    text = f"{compiled.milliseconds:,.3f} ms at {clock:g} MHz, {compiled.inferences_per_second:,.1f} inferences/s"
    return [("  time", text), ("  MACs in use", f"{100 * compiled.utilisation:.1f} % of the NPU's")]


def _cpu_rows(compiled: Compiled, time: CpuTime) -> list[tuple[str, str]]:
    """The time of the operators on the CPU, and those not counted; never left out."""
    rows = []
    if time.milliseconds is not None and time.cpu is not None:
        least, most = time.milliseconds
        rows.append(
            (
                "  with the CPU",
                f"NPU {compiled.milliseconds:,.3f} ms + CPU about {least:,.3f} to {most:,.3f} ms, on {time.core_text}",
            )
        )
    if time.not_counted:
        count, kinds = len(time.not_counted), ", ".join(dict.fromkeys(of.kind for of in time.not_counted))
        why = "" if time.cpu is None else f"; no figure for {'it' if count == 1 else 'them'}"
        text = f"CPU operator{'s' if count > 1 else ''} not counted ({count}: {kinds}){why}"
        rows.append(("  without", f"{text}; --cpu cortex-m55 estimates" if time.cpu is None else text))
    return rows


def _cpu_json(time: CpuTime) -> dict[str, Any]:
    """The `cpu_time` object: a range, and by operator, where a core is described; what is not counted always."""
    return {
        "cpu": None if time.cpu is None else time.cpu.name,
        "kernels": None if time.cpu is None else time.cpu.kernels,
        "source": None if time.cpu is None else time.cpu.source,
        "clock_hz": time.clock_hz,
        "milliseconds": None if time.milliseconds is None else list(time.milliseconds),
        "operators": [dataclasses.asdict(of) for of in time.operators if of.least_cycles is not None],
        "not_counted": [{"name": of.name, "kind": of.kind} for of in time.not_counted],
    }


def _traffic_rows(totals: StreamTotals) -> list[tuple[str, str]]:
    """What an inference moves through each memory, the command stream included, and for how long that keeps it busy."""
    rows = []
    for memory in totals.memories:
        moved = f"{memory.read_bytes + memory.command_bytes:,} bytes read, {memory.written_bytes:,} written"
        busy = 100 * memory.busy_cycles / totals.cycles
        rows.append((f"  {memory.memory}", f"{moved}; busy {busy:.0f} % of the time"))
    return rows


def _dead_rows(found: Sequence[DeadChannels]) -> list[tuple[str, str]]:
    """What became of dead channels, with the commonest reasons why some stay."""
    if not found:
        return []
    dead, removed = sum(one.dead for one in found), sum(one.removed for one in found)
    kept: Counter[str] = Counter()
    for one in found:
        kept.update(one.kept)
    rows = [("dead channels", f"{removed:,} of {dead:,} removed, from {len(found)} operators with weights")]
    rows += [("  kept", f"{count:,}: {why}") for why, count in kept.most_common(_TEXT_REASONS)]
    if len(kept) > _TEXT_REASONS:
        rows.append(
            ("  kept", f"{kept.total() - sum(n for _, n in kept.most_common(_TEXT_REASONS)):,} for other reasons")
        )
    return rows


def _interface_text(tensor: InterfaceTensor) -> str:
    """An input or output as its caller has to treat it."""
    text = f"'{short(tensor.name)}' {tensor.dtype} {list(tensor.shape)}"
    if tensor.scale is not None:
        text += f", scale {tensor.scale:.9g}, zero point {tensor.zero_point}"
    if tensor.is_cut:
        text += f"; to {'quantise' if tensor.is_input else 'dequantise'} it is the caller's business"
    return text + (f"; it stays float: {tensor.reason}" if tensor.reason else "")


def _verification_rows(check: Verification) -> list[tuple[str, str]]:
    inputs = "1 random input" if check.seeds == 1 else f"{check.seeds} random inputs"
    if check.runs > 1:
        inputs = f"{check.runs} runs in a row of " + ("1 seed" if check.seeds == 1 else f"{check.seeds} seeds")
    if check.ok:
        found = f"bit-exact: {check.elements:,} output elements on {inputs} equal the reference"
        if check.not_judged:
            found += ", except for unverified operators"
    else:
        found = (
            f"FAILED: {check.mismatches:,} of {check.elements:,} output elements on {inputs} differ "
            f"(by up to {check.max_abs_diff}), {check.hazards} hazards"
        )
    return [
        ("verified", found),
        ("  reference", check.judge),
        ("  SRAM touched", _size(check.sram_touched_bytes)),
        *(("  not judged", told) for told in check.not_judged),
        *(("  finding", finding) for finding in check.findings),
    ]


def verification_text(artifact: str, model: str, check: Verification) -> str:
    """The verdict on a compiled file."""
    return _table([("artifact", artifact), ("model", model), *_verification_rows(check)])


def micro_json(arena: MicroArena, warnings: Sequence[str]) -> dict[str, Any]:
    """The `tflm` object of `compile --json`: fields of `MicroArena`, in bytes, and what has no kernel."""
    sizes = {f"{name}_bytes": size for name, size in dataclasses.asdict(arena).items()}
    return {"arena_bytes": arena.arena_bytes, "beyond_bytes": arena.beyond_bytes, **sizes, "warnings": list(warnings)}


def micro_text(arena: MicroArena, warnings: Sequence[str]) -> str:
    """What TensorFlow Lite Micro wants, and what it has not."""
    size = f"{_size(arena.arena_bytes)}: {arena.beyond_bytes:,} beyond the planned bytes, with portable kernels"
    return _table([("TFLM's arena", size), *(("  warning", f"{why}; the .tflite cannot run") for why in warnings)])


def frontier_text(curve: Curve) -> str:
    """The curve as a table."""
    lines = [
        f"{'SRAM bytes':>12}  {'KiB':>9}  {'cycles':>14}" + ("" if curve.core_clock_hz is None else f"  {'ms':>9}")
    ]
    lines += [
        f"{size:>12,}  {size / 1024:>9.1f}  {cycles:>14,}" + ("" if milliseconds is None else f"  {milliseconds:>9.3f}")
        for (size, cycles), milliseconds in zip(curve.points, _milliseconds(curve), strict=True)
    ]
    lines.append(
        f"floor {_size(curve.floor_bytes)}; without cascades {_size(curve.uncascaded_bytes)}, "
        f"{curve.uncascaded_cycles:,} cycles; knee {_size(curve.knee[0])}; searched in {curve.seconds:.2f} s"
        f"; {_thinning(curve)}"
    )
    return "\n".join(lines)


def _milliseconds(curve: Curve) -> Sequence[float | None]:
    """The times of a curve's points; None for each where the device has no clock."""
    return (None,) * len(curve.points) if curve.core_clock_hz is None else curve.milliseconds


def _thinning(curve: Curve) -> str:
    """The epsilon of the search, and the limit that truncated it."""
    limits = {"width": "search truncated (beam width); ", "work": "search truncated (work limit); "}
    return f"{limits.get(curve.stop_reason, '')}epsilon {curve.epsilon}"


def _cascaded(compiled: Compiled) -> int:
    return sum(op.cascade is not None for op in compiled.operators)


def _size(size_bytes: int) -> str:
    return f"{size_bytes:,} bytes = {size_bytes / 1024:.1f} KiB"


def _table(rows: Iterable[tuple[str, str]]) -> str:
    rows = list(rows)
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
