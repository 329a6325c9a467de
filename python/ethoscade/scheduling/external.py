"""External inputs: those that the caller keeps in a memory of their own.

The NPU reads rows of them there, as often as a schedule wants.

Owns which of a network's inputs these are, and why they cannot be. Where that memory is, the target says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ..errors import ConfigError
from ..ir import Graph
from .specs import PartSpec, TensorSpec

MOST_INPUTS = 5
"""The NPU has eight regions, and three are those of constants, arena and fast memory."""


def with_external_inputs(
    graph: Graph, ids: Mapping[int, int], tensors: Sequence[TensorSpec], parts: Iterable[PartSpec]
) -> list[TensorSpec]:
    """The tensors with every input of the network external, numbered in the network's order.

    `ids` are dense ids of graph tensors. Raises `ConfigError` for more inputs than the NPU has regions, and for one
    that an operator on the CPU reads or that is an output as well.
    """
    given = list(dict.fromkeys(graph.given))
    if len(given) > MOST_INPUTS:
        raise ConfigError(
            f"'{graph.name}' has {len(given)} inputs, and an NPU reads at most {MOST_INPUTS} in a memory of their own; "
            f"leave input_memory out"
        )
    found = list(tensors)
    for number, index in enumerate(given):
        tensor = found[ids[index]]
        if tensor.is_output:
            raise ConfigError(
                f"input '{tensor.name}' of '{graph.name}' is an output as well, and is given back in the arena; leave "
                f"input_memory out"
            )
        found[ids[index]] = replace(tensor, external=number)
    for part in parts:
        tensors_read = (found[read.tensor] for read in part.inputs)
        read = next((tensor for tensor in tensors_read if tensor.external is not None), None)
        if part.kernel is None and read is not None:
            raise ConfigError(
                f"operator '{part.name}' on the CPU reads input '{read.name}', and looks for it in the arena; with "
                f"io='int8' (--io int8) a QUANTIZE at the border is the caller's, else leave input_memory out"
            )
    return found
