"""What a compiled file says of itself: its NPU operators and their memories, where tensors lie, who made it.

Owns the reading of it, ours and other compilers', and what of it is wrong. Runs nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ..codegen import provenance
from ..codegen.tflite import OFFLINE_PLAN
from ..errors import ModelFormatError, SimulationError
from ..frontend import ETHOS_U, tensor_counts
from ..ir import Graph, Operator, schema

_PLAN_HEADER_WORDS = 3
# Bits 31:28 of a payload's configuration word (word 2); bits 3:0 are the binary logarithm of the MACs per cycle.
_PRODUCTS = {0: "u55", 1: "u65"}
_U85 = 2


def accelerator_of(payload: bytes) -> str:
    """The accelerator, such as "ethos-u55-256", that a driver payload was made for.

    Raises `SimulationError` for bytes that are not a payload or name a product that does not exist.
    """
    if len(payload) < 12 or payload[:4] != b"COP1":
        raise SimulationError(f"these {len(payload)} bytes are no driver payload: they do not start with COP1")
    (config,) = struct.unpack_from("<I", payload, 8)
    product = _PRODUCTS.get(config >> 28)
    if product is None:
        made_for = "an Ethos-U85" if config >> 28 == _U85 else f"product {config >> 28}, which is unknown"
        raise SimulationError(
            f"the payload is for {made_for} (configuration word {config:#010x}); Ethos-U55 and Ethos-U65 are simulated"
        )
    return f"ethos-{product}-{1 << (config & 0xF)}"


def npu_operators(graph: Graph) -> list[Operator]:
    """The `ethos-u` operators of a compiled file, in order. Raises `ModelFormatError` if there is none."""
    found = [operator for operator in graph.operators if operator.kind == ETHOS_U]
    if not found:
        raise ModelFormatError(
            f"'{graph.name}' is not compiled: it has no '{ETHOS_U}' operator; compile it first, with "
            f"`ethoscade compile` or Vela",
            value=0,
        )
    return found


def is_for_cpu(graph: Graph) -> bool:
    """Whether a compiler left all of a file to the CPU: it says where tensors lie, and starts no NPU."""
    return OFFLINE_PLAN in graph.metadata and all(operator.kind != ETHOS_U for operator in graph.operators)


def maker_of(graph: Graph) -> str:
    """Whose a compiled file is, for messages: "Vela's", "ethoscade's" or "another compiler's"."""
    if provenance.ENTRY in graph.metadata:
        return "ethoscade's"
    description = schema.Model.GetRootAs(graph.source, 0).Description() if graph.source else None
    return "Vela's" if (description or b"").startswith(b"Vela") else "another compiler's"


def file_faults(graph: Graph) -> tuple[str, ...]:
    """What is wrong with a compiled file that is run all the same, a sentence each.

    Raises `ModelFormatError` as `arena_places` does.
    """
    arena_places(graph)
    _words, count, tensors = _plan_of(graph)
    if count == tensors:
        return graph.faults
    return (*graph.faults, f"{_plan_fault(graph)}; the first {tensors} are taken")


def has_fast_memory(graph: Graph, operator: Operator) -> bool:
    """Whether an `ethos-u` operator has a fast scratch (region 2) that is a memory of its own.

    Files do not say so; where it is the arena again, its tensor is the arena's or another one of the same size.
    """
    scratch, fast = (graph.tensors[operand(graph, operator, position)] for position in (2, 3))
    return scratch.size_bytes != fast.size_bytes


def labels(graph: Graph, calls: int) -> tuple[tuple[str, ...], ...]:
    """The operators behind each NPU call's operations, as the file tells them; files of other compilers do not."""
    entry = graph.metadata.get(provenance.ENTRY)
    told = () if entry is None else provenance.short(provenance.decode(entry))
    return told[:calls] + ((),) * (calls - len(told))


def arena_places(graph: Graph) -> dict[int, int]:
    """Arena offsets by tensor from a compiled file's plan; tensors without a place (-1) are left out.

    Raises `ModelFormatError` for a file without a plan, or with one for fewer tensors; one for more counts as far as
    NPU programs find their values by it.
    """
    words, count, tensors = _plan_of(graph)
    if count < tensors or len(words) < _PLAN_HEADER_WORDS + count:
        raise ModelFormatError(
            f"metadata '{OFFLINE_PLAN}' has {len(words)} words for {count} tensors; the file has {tensors}",
            value=count,
        )
    places = words[_PLAN_HEADER_WORDS : _PLAN_HEADER_WORDS + tensor_counts(graph.source)[0]]
    found = {index: int(place) for index, place in enumerate(places) if place >= 0}
    lost = _without_place(graph, found)
    if count > tensors and lost is not None:
        raise ModelFormatError(
            f"{_plan_fault(graph)}, and what operator '{lost}' reads or writes has no place in it; the file is at "
            f"fault, {maker_of(graph)}",
            operator=lost,
            value=count,
        )
    return found | {v.after: found[v.before] for v in graph.variables if v.in_place and v.before in found}


def _plan_of(graph: Graph) -> tuple[npt.NDArray[np.int32], int, int]:
    """The words of a file's plan, how many tensors they are for, and how many the file has."""
    plan = graph.metadata.get(OFFLINE_PLAN)
    if plan is None:
        raise ModelFormatError(f"'{graph.name}' does not say where its tensors lie: no metadata '{OFFLINE_PLAN}'")
    words = np.frombuffer(plan[: len(plan) // 4 * 4], "<i4")
    count = int(words[_PLAN_HEADER_WORDS - 1]) if len(words) >= _PLAN_HEADER_WORDS else -1
    return words, count, sum(tensor_counts(graph.source))


def _plan_fault(graph: Graph) -> str:
    _, count, tensors = _plan_of(graph)
    return (
        f"metadata '{OFFLINE_PLAN}' is for {count} tensors, the file has {tensors}, which TensorFlow Lite Micro refuses"
    )


def _without_place(graph: Graph, places: Mapping[int, int]) -> str | None:
    """An `ethos-u` operator that reads or writes values without a place, or None."""
    for operator in (op for op in graph.operators if op.kind == ETHOS_U):
        for index in (*operator.inputs[len(operator.memories) :], *operator.outputs):
            if index is not None and index not in places and not graph.tensors[index].is_constant:
                return operator.name
    return None


def operand(graph: Graph, operator: Operator, position: int) -> int:
    """The tensor at a position of an `ethos-u` operator. Raises `ModelFormatError` if there is none."""
    index = operator.inputs[position] if position < len(operator.inputs) else None
    if index is None:
        raise ModelFormatError(
            f"operator '{operator.name}' has no input {position}: an '{ETHOS_U}' operator starts with payload, "
            f"constants, scratch and fast scratch",
            operator=operator.name,
            value=position,
        )
    return index


def constant(graph: Graph, operator: Operator, index: int) -> bytes:
    """The bytes of an operand. Raises `ModelFormatError` for a tensor that is not constant."""
    tensor = graph.tensors[index]
    if tensor.data is None:
        raise ModelFormatError(
            f"tensor '{tensor.name}' of operator '{operator.name}' must be constant",
            operator=operator.name,
            tensor=tensor.name,
        )
    return tensor.data.tobytes()
