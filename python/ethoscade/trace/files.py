"""Compiled files on record and timed, ours and other compilers'.

Owns which system a file is timed on, and what it says of its operations; streams are read by others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..codegen import provenance
from ..errors import ModelFormatError
from ..ir import ETHOS_U, Graph, Operator
from ..run.compiled_file import accelerator_of, arena_places, has_fast_memory, npu_operators
from ..run.timing import TimingReport, simulate_timing
from ..targets.target import Target, load_target
from .operators import told_by_stream
from .record import CpuSource, NpuSource, Record, record

# System and memory mode of files whose fast scratch is a memory of its own: Vela's own default for the Ethos-U65.
_DEDICATED = ("Ethos_U65_Client_Server", "Dedicated_Sram")


def time_file(
    graph: Graph,
    system_config: str | None = None,
    memory_mode: str | None = None,
    config: str | None = None,
    board: str | None = None,
) -> list[tuple[str, TimingReport]]:
    """Time each `ethos-u` operator of a compiled file: (operator's name, report).

    Operations bear the names of the network's operators if the file gives them (`provenance`). A file whose fast
    scratch is a memory of its own is timed as Dedicated_Sram unless `memory_mode` says otherwise. Raises
    `ModelFormatError` for a file without such operators or with names for other streams, `SimulationError` for a
    damaged payload, `ConfigError` for a system that does not exist.
    """
    calls = npu_operators(graph)
    reports = []
    for operator, labels in zip(calls, _labels(graph, len(calls)), strict=True):
        payload = _payload(graph, operator)
        target = _target(graph, operator, payload, system_config, memory_mode, config, board)
        report = simulate_timing(payload, target, labels)
        operations = sum(command.bound != "waiting" for command in report.commands)
        if provenance.ENTRY in graph.metadata and len(labels) != operations:
            raise ModelFormatError(
                f"metadata '{provenance.ENTRY}' names {len(labels)} operations; '{operator.name}' has {operations}",
                operator=operator.name,
            )
        reports.append((operator.name, report))
    return reports


def target_of(
    graph: Graph,
    system_config: str | None = None,
    memory_mode: str | None = None,
    config: str | None = None,
    board: str | None = None,
) -> Target:
    """The system on which `time_file` times the first NPU call of a compiled file. Raises as that does."""
    first = npu_operators(graph)[0]
    return _target(graph, first, _payload(graph, first), system_config, memory_mode, config, board)


def record_file(
    graph: Graph,
    reports: Sequence[tuple[str, TimingReport]],
    target: Target,
    cpu_microseconds: Mapping[int, float] | None = None,
) -> Record:
    """Put an inference of a compiled file on record; `reports` are those of `time_file` on the same target.

    `cpu_microseconds` are estimates by operator on the CPU; the others are not counted. Raises as `time_file`, and
    `ModelFormatError` for a file that does not say where its tensors lie.
    """
    npu = npu_operators(graph)
    labels = iter(_labels(graph, len(npu)))
    timed = iter(report for _, report in reports)
    calls: list[NpuSource | CpuSource] = []
    for index, operator in enumerate(graph.operators):
        if operator.kind != ETHOS_U:
            calls.append(CpuSource(index, microseconds=(cpu_microseconds or {}).get(index)))
            continue
        payload, report = _payload(graph, operator), next(timed)
        told = told_by_stream(payload, report, next(labels))
        calls.append(NpuSource(operator.name, payload, report, operator.outputs, told))
    return record(graph, target, calls, arena_places(graph), has_fast_memory(graph, npu[0]))


def _labels(graph: Graph, calls: int) -> Sequence[tuple[str, ...]]:
    """The operators' names of each call's operations, in words for people; empty where the file has none."""
    entry = graph.metadata.get(provenance.ENTRY)
    names = provenance.short(provenance.decode(entry)) if entry is not None else ((),) * calls
    if len(names) != calls:
        raise ModelFormatError(f"metadata '{provenance.ENTRY}' is for {len(names)} calls; the file has {calls}")
    return names


def _payload(graph: Graph, operator: Operator) -> bytes:
    first = operator.inputs[0] if operator.inputs else None
    data = graph.tensors[first].data if first is not None else None
    if data is None:
        raise ModelFormatError(f"operator '{operator.name}' has no constant payload", operator=operator.name)
    return data.tobytes()


def _target(
    graph: Graph,
    operator: Operator,
    payload: bytes,
    system_config: str | None,
    memory_mode: str | None,
    config: str | None,
    board: str | None,
) -> Target:
    """The system that the caller names; what is left open follows from the file."""
    if memory_mode is None and has_fast_memory(graph, operator):
        memory_mode = _DEDICATED[1]
        system_config = system_config or _DEDICATED[0]
    return load_target(accelerator_of(payload), system_config, memory_mode, config, board)
