"""What every writer asks of an `Artifact` before it writes: which tensors it touches, and that they lie right.

Owns questions about an artefact, no format. The checks here catch our own mistakes before a device would.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from ..errors import CodegenError
from ..frontend import ETHOS_U
from ..ir import EIGHT_BIT, DType, Graph, Operator, Tensor, Variable
from ..ir.operators import OPERATORS, updated
from ..lowering.aliases import root
from .artifact import Artifact, ArtifactCall, CpuCall, FeedCall, NpuCall, TakeCall
from .operations import INPUT_REGION

ALIGNMENT_BYTES = 16
CACHE_LINE_BYTES = 32
"""A line of the Cortex-M55's and M85's data cache: the default of emitted C."""
LARGEST_BYTES = 2**31 - 1


def resources(artifact: Artifact) -> tuple[Variable, ...]:
    """The variables that a .tflite keeps as resources: all but the variable tensors that CPU operators write over."""
    made = {t for _, operator in cpu_operators(artifact) for t in operator.outputs}
    return tuple(v for v in artifact.graph.variables if not v.in_place or v.after not in made)


def carried_over(artifact: Artifact) -> tuple[tuple[int, ...], ...]:
    """What is to be copied once a run has ended, so that the next one finds its state: variables, by number, in turn.

    One alone is given what its `after` holds. Several change places: the first is given what the second one has, and so
    on, the last what the first one had. A variable that lies in one place has nothing to copy.
    """
    variables, offsets = artifact.graph.variables, artifact.offsets
    source = {n: offsets.get(v.after) for n, v in enumerate(variables) if offsets.get(v.after) != offsets[v.before]}
    place = {offsets[variables[number].before]: number for number in source}
    found: list[tuple[int, ...]] = []
    while source:
        # What nobody is to be given any more may be written over.
        free = next((n for n in source if offsets[variables[n].before] not in source.values()), None)
        turn = [next(iter(source)) if free is None else free]
        while free is None and (at := place[source[turn[-1]] or 0]) != turn[0]:
            turn.append(at)
        found.append(tuple(turn))
        for number in turn:
            del source[number]
    return tuple(found)


def input_region(artifact: Artifact, index: int) -> int | None:
    """The region of an external input; None of any other tensor."""
    return INPUT_REGION + artifact.external.index(index) if index in artifact.external else None


def npu_calls(artifact: Artifact) -> tuple[NpuCall, ...]:
    """The NPU's calls in order."""
    return tuple(call for call in artifact.calls if isinstance(call, NpuCall))


def cpu_operators(artifact: Artifact) -> tuple[tuple[CpuCall, Operator], ...]:
    """The CPU's calls in order, each with its operator."""
    return tuple(
        (call, artifact.graph.operators[call.operator]) for call in artifact.calls if isinstance(call, CpuCall)
    )


def distinct_payloads(artifact: Artifact) -> tuple[bytes, ...]:
    """Every different payload once, in order of first use."""
    return tuple(dict.fromkeys(call.payload for call in npu_calls(artifact)))


def call_tensors(artifact: Artifact, call: ArtifactCall) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Indices of the tensors that a call reads (constants too, absent inputs left out) and of those that it writes."""
    if isinstance(call, NpuCall):
        return call.inputs, call.outputs
    if isinstance(call, FeedCall):
        return (), (call.tensor,)
    if isinstance(call, TakeCall):
        return (call.tensor,), ()
    operator = artifact.graph.operators[call.operator]
    return tuple(t for t in operator.inputs if t is not None), operator.outputs


def lifetimes(artifact: Artifact) -> dict[int, tuple[int, int]]:
    """When tensors that the caller brings or a call makes are whole in the arena: after how many calls, until how many.

    Beyond that their bytes may be others'. Of a variable, whose value before a run no call makes, nothing is said.
    """
    graph = artifact.graph
    first, last = dict.fromkeys(graph.given, 0), dict[int, int]()
    for number, call in enumerate(artifact.calls):
        read, made = call_tensors(artifact, call)
        first.update(dict.fromkeys(made, number + 1))
        last.update(dict.fromkeys(read, number))
    kept = [variable.after for variable in graph.variables]
    last.update(dict.fromkeys((*graph.handed_out, *kept), len(artifact.calls)))
    # A taken row may be others'.
    takes = [number for number, call in enumerate(artifact.calls) if isinstance(call, TakeCall)]
    last.update({call.tensor: takes[0] for call in artifact.takes})
    return {index: (begun, max(begun, last.get(index, begun))) for index, begun in first.items()}


def touched_tensors(artifact: Artifact) -> tuple[int, ...]:
    """Indices, ascending, of the network's inputs and outputs and of every tensor that a call reads or writes."""
    found = {*artifact.graph.inputs, *artifact.graph.outputs}
    for call in artifact.calls:
        for group in call_tensors(artifact, call):
            found.update(group)
    return tuple(sorted(found))


def whole_lines(size_bytes: int, line_bytes: int = CACHE_LINE_BYTES) -> int:
    """A number of bytes in whole cache lines."""
    return -(-size_bytes // line_bytes) * line_bytes


def padded(data: bytes) -> bytes:
    """`data` filled with zeros to a multiple of 16 bytes; never empty, since an empty buffer means "no constant"."""
    return data + bytes(-len(data) % ALIGNMENT_BYTES) if data else bytes(ALIGNMENT_BYTES)


def verify(artifact: Artifact) -> Artifact:
    """Check that a device would take the artefact and return it.

    Raises `CodegenError`: a payload that the driver would refuse for its size, an arena or a tensor off the 16-byte
    grid (the driver checks base addresses), an arena or constants beyond 2 GiB, a tensor without a place or beyond the
    arena, outputs that overlap.
    """
    if artifact.arena_bytes % ALIGNMENT_BYTES or artifact.arena_bytes < 0:
        raise CodegenError(f"the arena of '{artifact.name}' is {artifact.arena_bytes} bytes, not a multiple of 16")
    fast_bytes = artifact.fast_bytes or 0
    if fast_bytes % ALIGNMENT_BYTES or fast_bytes < 0:
        raise CodegenError(f"the fast memory of '{artifact.name}' is {fast_bytes} bytes, not a multiple of 16")
    if max(artifact.arena_bytes, fast_bytes, len(artifact.constants)) > LARGEST_BYTES:
        raise CodegenError(
            f"'{artifact.name}' needs an arena of {artifact.arena_bytes} bytes, {fast_bytes} bytes of fast memory and "
            f"{len(artifact.constants)} bytes of constants; offsets in all are signed 32-bit numbers, which end at "
            f"{LARGEST_BYTES}"
        )
    if len(artifact.constants) % ALIGNMENT_BYTES:
        raise CodegenError(f"the constants of '{artifact.name}' are {len(artifact.constants)} bytes, not 16 times n")
    for call in artifact.calls:
        if isinstance(call, NpuCall) and (not call.payload or len(call.payload) % 4):
            raise CodegenError(
                f"the payload of NPU call '{call.name}' is {len(call.payload)} bytes: the driver takes whole words only"
            )
        if isinstance(call, CpuCall) and call.workspace_offset + call.workspace_bytes > artifact.arena_bytes:
            raise CodegenError(
                f"the workspace of operator '{artifact.graph.operators[call.operator].name}' ends at byte "
                f"{call.workspace_offset + call.workspace_bytes} of an arena of {artifact.arena_bytes}"
            )
    for rows in artifact.handovers:
        if rows.offset + rows.rows * rows.row_bytes > artifact.arena_bytes:
            raise CodegenError(
                f"rows of '{artifact.graph.tensors[rows.tensor].name}' are handed over up to byte "
                f"{rows.offset + rows.rows * rows.row_bytes} of an arena of {artifact.arena_bytes}"
            )
    for index in touched_tensors(artifact):
        tensor = artifact.graph.tensors[index]
        if not tensor.is_constant and index not in artifact.elsewhere:
            _check_place(artifact, index, tensor)
    _check_together(artifact, artifact.graph.inputs, "inputs")
    _check_together(artifact, artifact.graph.outputs, "outputs")
    for _, operator in cpu_operators(artifact):
        if (fault := overwritten(artifact.graph, operator, artifact.offsets)) is not None:
            raise CodegenError(fault)
    _check_state(artifact)
    return artifact


def _check_state(artifact: Artifact) -> None:
    """Raise where a call reads what a variable tensor held before an operator on the CPU wrote over it."""
    writer: dict[int, str] = {}
    for call in artifact.calls:
        read, _ = call_tensors(artifact, call)
        late = next((t for t in read if t in writer), None)
        if late is not None:
            raise CodegenError(
                f"variable '{artifact.graph.tensors[late].name}' is read once operator '{writer[late]}' has written "
                f"over it"
            )
        operator = artifact.graph.operators[call.operator] if isinstance(call, CpuCall) else None
        if operator is not None:
            writer |= {before: operator.name for before, _ in updated(operator)}


def may_overlay(graph: Graph, operator: Operator) -> bool:
    """Whether an operator on the CPU may write over its input as it reads it, from front to back.

    These are QUANTIZE from float32 to 8 bits and DEQUANTIZE from 8 bits to float32, in our C and in TensorFlow Lite
    Micro's portable kernels: one loop, each value read before its result is written. With 16 bits a C++ compiler may
    take the two arrays for different ones, and change the order; chars may be anybody's bytes.
    """
    narrow, wide = ("outputs", "inputs") if operator.kind == "QUANTIZE" else ("inputs", "outputs")
    if operator.kind not in ("QUANTIZE", "DEQUANTIZE") or operator.opaque is not None:
        return False
    small, large = ([graph.tensors[t] for t in getattr(operator, side) if t is not None] for side in (narrow, wide))
    return (
        len(small) == len(large) == 1
        and small[0].dtype in EIGHT_BIT
        and large[0].dtype is DType.FLOAT32
        and 4 * small[0].size_bytes == large[0].size_bytes
    )


def distance(graph: Graph, operator: Operator) -> int:
    """How far from its output's first byte an operator that `may_overlay` must find its input's, at the least.

    From front to back, value i goes to bytes from `size * i` of the output on when those from `size * (i + 1)` of the
    input on are still to be read. What shrinks is safe from distance 0 on; what grows is if both end together.
    """
    return max(graph.made(operator).size_bytes - graph.read(operator).size_bytes, 0)


def overwritten(graph: Graph, operator: Operator, offsets: Mapping[int, int]) -> str | None:
    """Why an operator on the CPU would overwrite an input before it has read it, in one sentence, or None.

    `offsets` are those of tensors in one memory; others are left out. An NPU program's memories hold all that it makes.
    """
    if operator.kind == ETHOS_U:
        return None
    row = OPERATORS.get(operator.kind)
    written_over = updated(operator)
    for source, target in itertools.product(dict.fromkeys(operator.inputs), operator.outputs):
        if source is None or source not in offsets or target not in offsets or graph.tensors[source].is_constant:
            continue
        if (source, target) in written_over:
            continue
        (start, end), (first, last) = ((offsets[t], offsets[t] + graph.tensors[t].size_bytes) for t in (source, target))
        safe = (may_overlay(graph, operator) and start - first >= distance(graph, operator)) or (
            row is not None and row.in_place and start == first
        )
        if max(start, first) < min(end, last) and not safe:
            return (
                f"operator '{operator.name}' ({operator.kind}) writes tensor '{graph.tensors[target].name}' at bytes "
                f"{first} to {last} of the arena over its input '{graph.tensors[source].name}' at {start} to {end}, "
                f"which it has not read by then"
            )
    return None


def _check_place(artifact: Artifact, index: int, tensor: Tensor) -> None:
    offset = artifact.offsets.get(index)
    if offset is None:
        raise CodegenError(f"tensor '{tensor.name}' of '{artifact.name}' is used but has no place in the arena")
    if offset % ALIGNMENT_BYTES or offset < 0:
        raise CodegenError(f"tensor '{tensor.name}' lies at byte {offset} of the arena, which is not a multiple of 16")
    if offset + tensor.size_bytes > artifact.arena_bytes:
        raise CodegenError(
            f"tensor '{tensor.name}' ends at byte {offset + tensor.size_bytes} of an arena of {artifact.arena_bytes}"
        )


def _check_together(artifact: Artifact, indices: tuple[int, ...], what: str) -> None:
    # All inputs are in the arena when the first call starts and all outputs when the last has ended.
    tensors = artifact.graph.tensors
    spans = sorted(
        (artifact.offsets[i], artifact.offsets[i] + tensors[i].size_bytes, i)
        for i in dict.fromkeys(indices)
        if not tensors[i].is_constant and i not in artifact.elsewhere
    )
    for (_, end, first), (start, _, second) in itertools.pairwise(spans):
        same = end - start == tensors[first].size_bytes == tensors[second].size_bytes
        if start < end and not (same and root(artifact.graph, first) == root(artifact.graph, second)):
            raise CodegenError(
                f"the network's {what} '{tensors[first].name}' and '{tensors[second].name}' overlap in the arena"
            )
