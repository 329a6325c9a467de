"""What the caller of a compiled network brings and gets: its inputs and outputs.

Owns how they are described. Which of them lost their float side is `borders`' to decide.
"""

from __future__ import annotations

from ..ir import Graph, Tensor
from ..util.records import dataclass
from .borders import Borders


@dataclass(frozen=True)
class InterfaceTensor:
    """One input or output of a compiled network: its name, element type, shape and bytes.

    The real number that an element q stands for is `scale * (q - zero_point)`; both are None for what is not
    quantised, or has a scale for each channel. `is_cut` says that the file has it as float, behind a QUANTIZE or
    DEQUANTIZE that is now the caller's business; `reason` why it is float still, although that was not asked for.
    """

    name: str
    is_input: bool
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int
    scale: float | None
    zero_point: int | None
    is_cut: bool
    reason: str

    @classmethod
    def of(cls, tensor: Tensor, is_input: bool, is_cut: bool, reason: str) -> InterfaceTensor:
        """The graph's tensor as callers know it."""
        steps = tensor.quantisation if tensor.quantisation is not None and tensor.quantisation.axis is None else None
        scale, zero = (None, None) if steps is None else (steps.scale, steps.zero_point)
        name, dtype, size = tensor.name, tensor.dtype.value, tensor.size_bytes
        return cls(name, is_input, dtype, tensor.shape, size, scale, zero, is_cut, reason)


def interface_of(graph: Graph, borders: Borders) -> tuple[InterfaceTensor, ...]:
    """The inputs of a graph in their order, then the outputs, each once."""
    cut = {border.inside for border in borders.found}
    return tuple(
        InterfaceTensor.of(graph.tensors[t], is_input, t in cut, borders.kept.get(t, ""))
        for is_input, indices in ((True, graph.given), (False, graph.handed_out))
        for t in dict.fromkeys(indices)
    )
