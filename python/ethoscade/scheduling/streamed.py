"""A streamed input or output: its rows are handed over in order, each once, as they are used or made.

Owns which input or output that is, why it cannot be, and the Part that stands for the arrival or departure of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..errors import ConfigError
from ..ir import Graph
from ..lowering.te import Propagator
from ..targets.target import Streaming
from .specs import InputSpec, PartSpec, TensorSpec


def streamed_input(graph: Graph) -> int:
    """The index of the streamed input.

    Raises `ConfigError` for a network with another number of inputs than one, and for an input that is an output.
    """
    given = list(dict.fromkeys(graph.given))
    if len(given) != 1:
        raise ConfigError(
            f"'{graph.name}' has {len(given)} inputs, and rows of one alone can arrive in order; leave stream_input out"
        )
    if given[0] in graph.handed_out:
        raise ConfigError(
            f"input '{graph.tensors[given[0]].name}' of '{graph.name}' is an output as well, and is given back as a "
            f"whole; leave stream_input out"
        )
    return given[0]


def as_it_arrives(
    graph: Graph, tensor: TensorSpec, readers: Sequence[PartSpec], number: int, streaming: Streaming
) -> tuple[TensorSpec, PartSpec]:
    """The streamed input as a Part makes it, and this Part.

    `readers` are the Parts that read it, `number` is its dense id, `streaming` says in which pieces it arrives. Raises
    `ConfigError` for an input of one row or without a reader, and for one that an operator on the CPU reads, which
    must be whole.
    """
    if not readers:
        raise ConfigError(f"no operator reads input '{tensor.name}' of '{graph.name}'; leave stream_input out")
    on_cpu = next((part for part in readers if part.kernel is None), None)
    if on_cpu is not None:
        raise ConfigError(
            f"operator '{on_cpu.name}' on the CPU reads input '{tensor.name}' as a whole; with io='int8' (--io int8) a "
            f"QUANTIZE at the border is the caller's, else leave stream_input out"
        )
    height, width = tensor.plane
    if height == 1:
        raise ConfigError(
            f"input '{tensor.name}' of '{graph.name}' has a single row, of {width} pixels, which arrives at once; "
            f"leave stream_input out"
        )
    rows = min(streaming.rows, height)
    arrival = PartSpec(f"rows of {tensor.name}", (), (number,), None, feed_rows=rows, is_fed_ahead=streaming.is_ahead)
    return replace(tensor, is_input=False), arrival


def streamed_output(graph: Graph) -> int:
    """The index of the streamed output.

    Raises `ConfigError` for a network with another number of outputs than one, and for an output without a
    maker.
    """
    made = list(dict.fromkeys(graph.handed_out))
    if len(made) != 1:
        raise ConfigError(
            f"'{graph.name}' has {len(made)} outputs, and rows of one alone can be taken in order; leave stream_output "
            f"out"
        )
    tensor = graph.tensors[made[0]]
    if made[0] in graph.given or tensor.is_constant:
        what = "a constant" if tensor.is_constant else "an input"
        raise ConfigError(
            f"output '{tensor.name}' of '{graph.name}' is {what}, which no operator makes; leave stream_output out"
        )
    return made[0]


def as_it_leaves(
    graph: Graph, tensor: TensorSpec, maker: PartSpec, numbers: tuple[int, int], rows: int
) -> tuple[TensorSpec, TensorSpec, PartSpec]:
    """The streamed output before and behind its departure, and the Part between.

    `numbers` are the dense ids of both tensors. Raises `ConfigError` for an output of one row, and for one that an
    operator on the CPU makes, as a whole.
    """
    output = graph.tensors[streamed_output(graph)]
    if maker.kernel is None:
        border = "with io='int8' (--io int8) a DEQUANTIZE at the border is the caller's, else "
        raise ConfigError(
            f"operator '{maker.name}' on the CPU makes output '{output.name}' as a whole; "
            f"{border if output.dtype.is_float else ''}leave stream_output out"
        )
    if tensor.updates is not None or tensor.is_state:
        raise ConfigError(
            f"output '{output.name}' of '{graph.name}' is kept as state, as a whole; leave stream_output out"
        )
    height, width = tensor.plane
    if height == 1:
        raise ConfigError(
            f"output '{output.name}' of '{graph.name}' has a single row, of {width} pixels, which is made at once; "
            f"leave stream_output out"
        )
    number, left = numbers
    read = InputSpec(number, Propagator.identity(), tensor.plane, tensor.pixel_bytes)
    departure = PartSpec(f"take {tensor.name}", (read,), (left,), None, take_rows=min(rows, height))
    return replace(tensor, is_output=False), replace(tensor, pixel_bytes=0), departure
