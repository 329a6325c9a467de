"""The tables of a network's original file, for operators that stay on the CPU.

Owns the way from an `Operator` to its table in the file that it was read from, and what may not be lost on it.
"""

from __future__ import annotations

from typing import Any

from ..errors import CodegenError
from ..frontend.flatbuffer import Ledger, checked, open_root
from ..ir import Graph, Operator, schema
from ..ir.opcodes import builtin_code


class Origins:
    """The operators of one network in its file. Those on the CPU are not checked yet, and read warily."""

    def __init__(self, graph: Graph) -> None:
        self.ledger = Ledger(len(graph.source))
        self._source: Any = open_root(schema.Model, graph.source, self.ledger) if graph.source else None

    def table(self, operator: Operator) -> Any:
        """The operator's table. Raises `CodegenError` if there is none, or it does not hold all of the operator."""
        subgraph = None if self._source is None else checked(self._source.Subgraphs(0), "subgraph", self.ledger)
        if operator.source_index is None or subgraph is None or operator.source_index >= subgraph.OperatorsLength():
            raise CodegenError(
                f"operator '{operator.name}' ({operator.kind}) cannot be copied: the original model is not at hand"
            )
        origin = checked(subgraph.Operators(operator.source_index), f"operator '{operator.name}'", self.ledger)
        if origin.LargeCustomOptionsSize():
            raise CodegenError(f"operator '{operator.name}' ({operator.kind}) has options outside the model's tables")
        return origin

    def code(self, operator: Operator, origin: Any) -> tuple[int, bytes, int]:
        """Builtin number, custom code (empty for a builtin) and version behind an operator's table."""
        source_code = checked(self._source.OperatorCodes(origin.OpcodeIndex()), "operator code", self.ledger)
        number = builtin_code(source_code)
        if number is None:
            raise CodegenError(f"operator '{operator.name}' ({operator.kind}) has a code that names no operator")
        return number, source_code.CustomCode() or b"", source_code.Version()
