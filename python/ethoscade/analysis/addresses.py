"""Where everything of a compiled network lies: each buffer of the arena and each range of the constants.

Owns the rows of the address table and reading them off a placed program. Places nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..codegen.artifact import Artifact
from ..lowering.npu import NpuGraph
from ..scheduling.program import Arrangement, CallOperator, Program, ProgramBuffer, Step, in_fast
from ..targets.target import Target
from ..util.records import dataclass
from .explanation import buffer_names, operation_at


@dataclass(frozen=True)
class Address:
    """Bytes [address, address + size_bytes) of a pool in the target's `memory`.

    Pools are "arena", "fast" (the NPU's own memory, where it has one beside the arena), "input" (where each external
    input begins at 0) and "constants".
    `kind` is "tensor", "rolling", "weights" (a copy of constants) or "workspace" in both, and "weights", "scales",
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


def addresses_of(artifact: Artifact, target: Target, npu: NpuGraph, arranged: Arrangement) -> tuple[Address, ...]:
    """The address table: arena and fast memory, each by address and time, then the constants by address."""
    found = list(_buffers(artifact, target, npu, arranged))
    found.sort(key=lambda of: (of.pool, of.address, of.first_step or 0, of.names))
    return (*found, *_constants(artifact, target))


def _buffers(artifact: Artifact, target: Target, npu: NpuGraph, arranged: Arrangement) -> Iterator[Address]:
    graph, program, offsets = artifact.graph, arranged.program, arranged.offsets
    buffers, fast, inputs = program.buffers, in_fast(arranged), target.inputs
    external = {program.tensor_buffers[tensor] for tensor in artifact.external}
    arena = ("arena", target.arena.name)
    pools = dict.fromkeys(fast, ("fast", target.cache.name))
    pools |= {} if inputs is None else dict.fromkeys(external, ("input", inputs.name))
    known = buffer_names(graph, npu, program)
    tensors: dict[int, list[str]] = {}
    for tensor, place in program.tensor_buffers.items():
        tensors.setdefault(place, []).append(graph.tensors[tensor].name)
    names = [tuple(dict.fromkeys([known[i], *sorted(tensors.get(i, ()))])) for i in range(len(buffers))]
    shared = _sharing(buffers, arranged)
    for i, buffer in enumerate(buffers):
        pool, memory = pools.get(i, arena)
        yield Address(
            names=names[i],
            kind=buffer.kind,
            memory=memory,
            pool=pool,
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


def _sharing(buffers: Sequence[ProgramBuffer], arranged: Arrangement) -> list[list[int]]:
    """Of each buffer those that have some of its bytes during common steps: few are in use at once."""
    offsets, pools = arranged.offsets, arranged.pools
    found: list[list[int]] = [[] for _ in buffers]
    active: list[int] = []
    for i in sorted(range(len(buffers)), key=lambda i: buffers[i].first_step):
        active = [j for j in active if buffers[j].last_step > buffers[i].first_step]
        for j in active:
            if pools[i] != pools[j]:
                continue
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
