"""Where everything of a compiled network lies: each buffer of the arena and each range of the constants.

Owns the rows of the address table and reading them off a placed program. Places nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..codegen.artifact import Artifact
from ..lowering.npu import NpuGraph
from ..scheduling.program import CallOperator, Program, ProgramBuffer, Step
from ..target import Target
from .explanation import buffer_names, operation_at


@dataclass(frozen=True)
class Address:
    """Bytes [address, address + size_bytes) of a pool, "arena" or "constants", in the target's `memory`.

    `kind` is "tensor", "rolling", "weights" (a copy of constants) or "workspace" in the arena, and "weights", "scales",
    "operand" or "table" in the constants. `names` are the tensors that lie there, or the operators whose constants they
    are. In the arena it lives in steps [first_step, last_step) of the program, from operator `first` to `last`;
    constants always live, and both are None. `shares` names those that have some of these bytes during common steps,
    as an output has that grows over an input that dies row by row. Others may have them at other times.
    """

    names: tuple[str, ...]
    kind: str
    memory: str
    pool: str
    address: int
    size_bytes: int
    first_step: int | None
    last_step: int | None
    first: str
    last: str
    shares: tuple[str, ...]


def addresses_of(
    artifact: Artifact, target: Target, npu: NpuGraph, program: Program, offsets: Sequence[int]
) -> tuple[Address, ...]:
    """The address table: the arena by address and time, then the constants by address."""
    arena = list(_arena(artifact, target, npu, program, offsets))
    return (*sorted(arena, key=lambda of: (of.address, of.first_step or 0, of.names)), *_constants(artifact, target))


def _arena(
    artifact: Artifact, target: Target, npu: NpuGraph, program: Program, offsets: Sequence[int]
) -> Iterator[Address]:
    graph, buffers = artifact.graph, program.buffers
    known = buffer_names(graph, npu, program)
    tensors: dict[int, list[str]] = {}
    for tensor, place in program.tensor_buffers.items():
        tensors.setdefault(place, []).append(graph.tensors[tensor].name)
    names = [tuple(dict.fromkeys([known[i], *sorted(tensors.get(i, ()))])) for i in range(len(buffers))]
    shared = _sharing(buffers, offsets)
    for i, buffer in enumerate(buffers):
        yield Address(
            names=names[i],
            kind=buffer.kind,
            memory=target.arena.name,
            pool="arena",
            address=offsets[i],
            size_bytes=buffer.size_bytes,
            first_step=buffer.first_step,
            last_step=buffer.last_step,
            first=_operator(artifact, npu, program, buffer.first_step),
            last=_operator(artifact, npu, program, buffer.last_step - 1),
            shares=tuple(dict.fromkeys(names[other][0] for other in shared[i])),
        )


def _constants(artifact: Artifact, target: Target) -> Iterator[Address]:
    together: dict[tuple[int, int, str], list[str]] = {}
    for place in artifact.constant_places:
        together.setdefault((place.offset, place.size_bytes, place.kind), []).append(place.operator)
    for (offset, size, kind), operators in sorted(together.items()):
        names = tuple(dict.fromkeys(operators))
        yield Address(names, kind, target.constants.name, "constants", offset, size, None, None, "", "", ())


def _sharing(buffers: Sequence[ProgramBuffer], offsets: Sequence[int]) -> list[list[int]]:
    """Of each buffer those that have some of its bytes during common steps: few are in use at once."""
    found: list[list[int]] = [[] for _ in buffers]
    active: list[int] = []
    for i in sorted(range(len(buffers)), key=lambda i: buffers[i].first_step):
        active = [j for j in active if buffers[j].last_step > buffers[i].first_step]
        for j in active:
            if offsets[i] < offsets[j] + buffers[j].size_bytes and offsets[j] < offsets[i] + buffers[i].size_bytes:
                found[i].append(j)
                found[j].append(i)
        active.append(i)
    return found


def _operator(artifact: Artifact, npu: NpuGraph, program: Program, number: int) -> str:
    """Whose step it is; "" where a program has none."""
    if not 0 <= number < len(program.steps):
        return ""
    step: Step = program.steps[number]
    index = step.operator if isinstance(step, CallOperator) else operation_at(npu, program, step).operator
    return artifact.graph.operators[index].name
