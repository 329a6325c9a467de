"""Operators that only give bytes another name and shape, and which of them the NPU therefore has without an operation.

Owns that decision, and where in the order such an operator stands. An alias whose bytes the NPU makes is the NPU's, as
is one that no operator of the CPU reads: the NPU's operations see the first tensor's bytes, and the first NPU call that
makes or reads these hands them to the network's caller by all of their names. Where no operation on the NPU sees the
bytes, or an operator of the CPU made them and another one reads them, renaming them is a call of the CPU; the NPU
copies them where the CPU would have nothing else to do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..ir import Graph, Operator
from ..ir.operators import RESHAPES
from ..lowering import aliases, reshapes
from ..util.frozen import FrozenMap
from ..util.records import dataclass


@dataclass(frozen=True)
class Renaming:
    """NPU operators (by index) without operations, and for each of their outputs the tensor whose bytes it is."""

    operators: frozenset[int]
    roots: Mapping[int, int]

    def among(self, graph: Graph, order: Sequence[int], on_npu: Sequence[bool]) -> list[int]:
        """An order of all other operators with these in it: right behind who makes their bytes, if that is the NPU.

        Else right before the first on the NPU that reads them, by whatever name.
        """
        followers: dict[int, list[int]] = {}
        for i in sorted(self.operators):
            followers.setdefault(self.roots[graph.operators[i].outputs[0]], []).append(i)
        found: list[int] = []
        for i in order:
            op = graph.operators[i]
            # Operators of a file stand behind those that they need, and so do all of one root.
            for t in op.inputs if on_npu[i] else ():
                found += () if t is None else followers.pop(self.roots.get(t, t), ())
            found.append(i)
            for t in op.outputs if on_npu[i] else ():
                found += followers.pop(t, ())
        return found


def renamed(graph: Graph, reasons: Sequence[str | None], refused: Collection[int]) -> Renaming:
    """The operators that the NPU has by doing nothing.

    `reasons` are those for which operators stay on the CPU, None for the NPU's; `refused` operators stay there.
    """
    sources = {
        i: source
        for i, op in enumerate(graph.operators)
        if i not in refused and (reasons[i] is None or op.kind in RESHAPES)
        if (source := aliases.source(graph, op)) is not None
    }
    while True:
        chosen = _chosen(graph, reasons, sources)
        copied = [i for i in sources if i not in chosen and reasons[i] is None]
        if not copied:
            break
        # What the NPU copies it makes: what depends on it is looked at once more.
        sources = {i: source for i, source in sources.items() if i not in copied}
    roots: dict[int, int] = {}
    for i in sorted(chosen):
        roots[graph.operators[i].outputs[0]] = roots.get(sources[i], sources[i])
    return Renaming(frozenset(chosen), FrozenMap(roots))


def _chosen(graph: Graph, reasons: Sequence[str | None], sources: Mapping[int, int]) -> set[int]:
    made: set[int] = set()
    for i, op in enumerate(graph.operators):
        if sources[i] in made if i in sources else reasons[i] is None:
            made.update(op.outputs)
    chosen: set[int] = set()
    consumers = graph.consumers()
    for i in reversed(sources):
        tensor = graph.operators[i].outputs[0]
        readers = consumers.get(tensor, ())
        alone = all(r in chosen or reasons[r] is None for r in readers)
        if tensor not in graph.outputs:
            seen = bool(readers)
        else:
            seen = any(
                reasons[r] is None and r not in sources for t in (sources[i], tensor) for r in consumers.get(t, ())
            )
        if tensor in made or (alone and seen):
            chosen.add(i)
    return chosen


def copied(graph: Graph, reasons: Sequence[str | None], refused: Collection[int], found: Renaming) -> frozenset[int]:
    """The operators that would be all of the CPU's, and whose bytes the NPU can copy: none where it has others."""
    left = [i for i in range(len(graph.operators)) if reasons[i] is not None and i not in found.operators]

    def can_be(i: int) -> bool:
        op = graph.operators[i]
        is_name = i not in refused and op.kind in RESHAPES and aliases.source(graph, op) is not None
        return is_name and reshapes.can_be_copied(graph.read(op))

    return frozenset(left if all(map(can_be, left)) else ())


def why_called(graph: Graph, op: Operator, found: Renaming) -> str:
    """Why an understood reshape is a call of the CPU, in a sentence without a full stop."""
    if (why := aliases.why_copied(graph, op)) is not None:
        return why
    before, after = graph.read(op), graph.made(op)
    producer = graph.producer()
    maker = producer.get(found.roots.get(op.input(0), op.input(0)))
    given = "given from outside" if maker is None else f"made on the CPU by '{graph.operators[maker].name}'"
    readers = (graph.operators[i] for i in graph.consumers().get(op.outputs[0], ()) if i not in found.operators)
    reader = next((r for r in readers), None)
    wanted = "leaves the network" if reader is None or op.outputs[0] in graph.outputs else f"is read by '{reader.name}'"
    return (
        f"its input '{before.name}' is {given} and its output '{after.name}' {wanted}; it takes no call where the NPU "
        f"makes the one or alone reads the other"
    )
