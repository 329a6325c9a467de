"""Which operator runs where, why, and in which order: the graph divided into NPU regions and CPU operators.

Owns the decision and the execution order. What the NPU can do is asked of `lowering`'s families, what it has without an
operation of `renaming`, and of `rewrites` why an operator that becomes a constant elsewhere is still there; this module
adds no limits of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from ..ir import Graph
from ..ir.operators import RESHAPES
from ..lowering import FAMILIES, Support
from ..rewrites import why_kept
from ..targets.target import Accelerator
from ..util.frozen import FrozenMap
from ..util.records import dataclass
from .renaming import Renaming, copied, renamed, why_called


@dataclass(frozen=True)
class Assignment:
    """Where one operator runs: "npu" or "cpu". `reason` is empty on the NPU, else why it cannot run there."""

    where: str
    reason: str = ""


@dataclass(frozen=True)
class Region:
    """A maximal run of NPU operators (graph indices, in execution order).

    `inputs` are the non-constant tensors made outside and read inside, `outputs` those made inside and read outside or
    leaving the graph; both in order of first use.
    """

    operators: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Partition:
    """The division of a graph: one assignment per operator, a valid execution order, and the regions along it.

    `aliases` are the outputs of NPU operators that need no operation, each with the tensor whose bytes it is: one that
    such an operator does not make. In the order such an operator is next to an NPU operation that makes or reads it.
    """

    assignments: tuple[Assignment, ...]
    order: tuple[int, ...]
    regions: tuple[Region, ...]
    aliases: Mapping[int, int] = field(default_factory=FrozenMap)

    @property
    def exposed(self) -> frozenset[int]:
        """The tensors whose bytes others than the NPU look at: what goes in and out of each region."""
        ends = (t for region in self.regions for t in (*region.inputs, *region.outputs))
        return frozenset(self.aliases.get(t, t) for t in ends)

    @property
    def npu_operators(self) -> tuple[int, ...]:
        """Operators on the NPU, in execution order."""
        return tuple(i for i in self.order if self.assignments[i].where == "npu")

    @property
    def cpu_operators(self) -> tuple[int, ...]:
        """Operators on the CPU, in execution order."""
        return tuple(i for i in self.order if self.assignments[i].where == "cpu")


def partition(graph: Graph, accelerator: Accelerator | Support, refused: Mapping[int, str] | None = None) -> Partition:
    """Place every operator and order them so that the NPU is started as rarely as dependencies allow.

    What the NPU takes is asked of the `accelerator`'s support, which may have been asked before. `refused` keeps
    operators (by index) on the CPU for the reasons given, whatever their family says.
    The file's own order is kept where it needs no more starts than the best order.
    """
    refused = refused or {}
    support = accelerator if isinstance(accelerator, Support) else Support(accelerator)
    reasons = [refused.get(i) or support(graph, op) for i, op in enumerate(graph.operators)]
    for i, kept in why_kept(graph).items():
        # A family knows its limits; of a kind that has none a rewrite says what keeps it.
        if graph.operators[i].kind not in FAMILIES:
            reasons[i] = reasons[i] and kept
    found = renamed(graph, reasons, refused)
    if alone := copied(graph, reasons, refused, found):
        reasons = [None if i in alone else reason for i, reason in enumerate(reasons)]
        found = renamed(graph, reasons, refused)
    for i, op in enumerate(graph.operators):
        if i in found.operators:
            reasons[i] = None
        elif op.kind in RESHAPES and reasons[i] is not None:
            reasons[i] = refused.get(i) or op.opaque or why_called(graph, op, found)
    assignments = tuple(Assignment("npu") if reason is None else Assignment("cpu", reason) for reason in reasons)
    on_npu = [p.where == "npu" for p in assignments]
    stated = [i for i in range(len(graph.operators)) if i not in found.operators]
    orders = [stated, *(_alternating(graph, on_npu, found, first) for first in (True, False))]
    order = found.among(graph, min(orders, key=lambda candidate: len(_runs(candidate, on_npu))), on_npu)
    regions = tuple(_region(graph, run) for run in _runs(order, on_npu))
    return Partition(assignments, tuple(order), regions, found.roots)


def beside_state(graph: Graph, divided: Partition) -> dict[int, str]:
    """NPU operators that read a variable tensor which a CPU operator writes over, each with why it belongs to the CPU.

    The runtime chooses the address of such a tensor, and NPU programs have fixed addresses.
    """
    producer, consumers = graph.producer(), graph.consumers()
    found: dict[int, str] = {}
    for variable in graph.variables:
        maker = producer.get(variable.after)
        if not variable.in_place or maker is None or divided.assignments[maker].where == "npu":
            continue
        why = f"its input '{variable.name}' is a variable that '{graph.operators[maker].name}' on the CPU writes over"
        readers = (*consumers.get(variable.before, ()), *consumers.get(variable.after, ()))
        found |= {i: why for i in readers if divided.assignments[i].where == "npu"}
    return found


def reordered(graph: Graph, divided: Partition, first: Sequence[int], last: Sequence[int]) -> Partition:
    """The partition with some operators before and behind all others, which keep their order."""
    rest = [i for i in divided.order if i not in first and i not in last]
    order = (*first, *rest, *last)
    on_npu = [place.where == "npu" for place in divided.assignments]
    return replace(divided, order=order, regions=tuple(_region(graph, run) for run in _runs(order, on_npu)))


def _alternating(graph: Graph, on_npu: Sequence[bool], found: Renaming, npu_first: bool) -> list[int]:
    """Run all that can run on one side, then all that can on the other, and so on; what takes no operation left out.

    A side is only left when nothing on it is ready, so no order with the same start changes sides less often.
    """
    producer = graph.producer()
    read = [[found.roots.get(t, t) for t in op.inputs if t is not None] for op in graph.operators]
    needs = [{producer[t] for t in tensors if t in producer} for tensors in read]
    # Whoever reads a variable may change it: its readers take their turns as the file says.
    for readers in (readers for t, readers in graph.consumers().items() if graph.tensors[t].is_variable):
        for earlier, later in itertools.pairwise(readers):
            needs[later].add(earlier)
    # A CPU operator writes the new state over the old, in one tensor: readers of the old state run first.
    for variable in graph.variables:
        maker = producer.get(variable.after)
        if variable.in_place and maker is not None and not on_npu[maker]:
            needs[maker].update(r for r in graph.consumers().get(variable.before, ()) if r < maker)
    order: list[int] = []
    done = set(found.operators)
    side = npu_first
    while len(done) < len(needs):
        # One pass in file order is enough: an operator never precedes what it needs.
        for i, need in enumerate(needs):
            if i not in done and on_npu[i] == side and need <= done:
                order.append(i)
                done.add(i)
        side = not side
    return order


def _runs(order: Sequence[int], on_npu: Sequence[bool]) -> list[list[int]]:
    runs: list[list[int]] = []
    previous = False
    for i in order:
        if on_npu[i]:
            if not previous:
                runs.append([])
            runs[-1].append(i)
        previous = on_npu[i]
    return runs


def _region(graph: Graph, run: Sequence[int]) -> Region:
    inside = set(run)
    consumers = graph.consumers()
    made = [t for i in run for t in graph.operators[i].outputs]
    read = dict.fromkeys(t for i in run for t in graph.operators[i].inputs if t is not None)
    inputs = tuple(t for t in read if t not in made and not graph.tensors[t].is_constant)
    outputs = tuple(t for t in made if t in graph.outputs or not inside.issuperset(consumers.get(t, ())))
    return Region(tuple(run), inputs, outputs)
