"""Variables of a compiled file whose operators set them in another order than the model does, as a runtime has them.

Owns READ_VARIABLE, ASSIGN_VARIABLE and CALL_ONCE where a file is run unchanged. What other networks keep are
`ir.Variable`s.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..errors import ModelFormatError
from ..ir import Array, Graph, Operator, ResourceAttrs
from ..ir.operators import RESOURCE_KINDS


class Resources:
    """The variables of one network, from a reset on.

    As in TensorFlow Lite Micro (tensorflow/lite/micro/micro_resource_variable.cc): every byte of an unset one
    is the zero point of what is assigned to it, and a CALL_ONCE sets its ones in the first run alone.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._held: dict[str, bytes] = {}
        self._called: set[str] = set()
        self._fill: dict[str, int] = {}
        for place, kind in ((1, "ASSIGN_VARIABLE"), (0, "READ_VARIABLE")):
            for operator in (op for op in graph.operators if op.kind == kind):
                tensor = graph.read(operator, place) if place else graph.made(operator)
                zero_point = 0 if tensor.quantisation is None else tensor.quantisation.zero_points[0]
                self._fill.setdefault(operator.attributes(ResourceAttrs).variable, zero_point & 0xFF)

    @staticmethod
    def runs(operator: Operator) -> bool:
        """Whether an operator is one of variables, to be run here."""
        return operator.kind in RESOURCE_KINDS

    def run(self, operator: Operator, values: Mapping[int, Array]) -> dict[int, Array]:
        """What an operator makes. Raises `ModelFormatError` for a read of another number of bytes than were set."""
        attrs = operator.attributes(ResourceAttrs)
        if operator.kind == "CALL_ONCE":
            if operator.name not in self._called:
                self._called.add(operator.name)
                self._held |= {name: value.tobytes() for name, value in attrs.values.items()}
            return {}
        if operator.kind == "ASSIGN_VARIABLE":
            self._held[attrs.variable] = values[operator.input(1)].tobytes()
            return {}
        tensor = self._graph.made(operator)
        held = self._held.get(attrs.variable, bytes([self._fill[attrs.variable]]) * tensor.size_bytes)
        if len(held) != tensor.size_bytes:
            raise ModelFormatError(
                f"operator '{operator.name}' (READ_VARIABLE) reads {tensor.size_bytes} bytes of variable "
                f"'{attrs.variable}', which has {len(held)}",
                operator=operator.name,
                value=len(held),
            )
        return {operator.outputs[0]: np.frombuffer(held, tensor.dtype.numpy).reshape(tensor.shape)}
