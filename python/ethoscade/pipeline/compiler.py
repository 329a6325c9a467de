"""The stages from a graph to an artefact, in their order: what `compile()` and `frontier()` are made of.

Owns the order of the stages and the choice among Proposals. Every stage is a function of another room. What is kept
between questions is for `prepared` to say.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from fractions import Fraction

from ..analysis.explanation import Peak, peak_of, short
from ..analysis.macs import macs_of
from ..analysis.table import OperatorSummary
from ..codegen.kernel_table import OURS, KernelTable
from ..codegen.streams import WEIGHT_ENCODERS
from ..codegen.weights import Encoder
from ..errors import BudgetError, UnsupportedOperatorError
from ..frontend import ETHOS_U
from ..ir import Graph, Operator
from ..ir.operators import OPERATORS
from ..lowering import Support, elements, lower
from ..lowering.folding import fold_tables
from ..lowering.npu import NpuGraph
from ..rewrites import remove_dead_channels, simplify
from ..scheduling import schedule as scheduling
from ..scheduling.program import Program, Stripe
from ..scheduling.schedule import EPSILON as EPSILON
from ..scheduling.schedule import Schedule
from ..scheduling.specs import Encoding
from ..targets.target import Memory, Target
from ..util.frozen import FrozenMap
from ..util.progress import Progress as Progress
from ..util.progress import ProgressCallback as ProgressCallback
from ..util.progress import Stopwatch as Stopwatch
from ..util.progress import no_progress
from .borders import overlaid
from .compiled import Compiled, Curve
from .curve import knee_of, nearly_fastest_of, order_of, reduced_to
from .emission import emit as emit
from .encoding import choose_encodings, encode
from .network import Network as Network
from .network import SchedulableModel as SchedulableModel
from .network import stated, without_needless_copies
from .partition import Partition, beside_state, partition, reordered
from .searches import Searches
from .searches import constants_in_sram as constants_in_sram

Model = str | os.PathLike[str] | bytes

_LOGGER = logging.getLogger(__name__)
_NO_NPU = "no NPU"
"""Why all operators stay on the CPU of a device that is one."""


def carry_out(
    network: Network,
    curve: Curve,
    proposal: scheduling.Proposal,
    budget: int | None = None,
    watch: Stopwatch | None = None,
) -> Compiled:
    """Turn one Proposal of a network's curve into an artefact. Raises `CodegenError` for a limit of the emitter."""
    watch = watch or Stopwatch()
    watch.begin("place")
    floor, network = floor_of(network, curve), network.order(order_of(curve, proposal))
    arranged = scheduling.arrange(network.problem, proposal, watch.tick)
    watch.note(f"{arranged.arena_bytes:,} bytes of SRAM, {len(arranged.program.steps):,} steps")
    schedule = scheduling.from_proposal(network.problem, proposal)
    watch.begin("codegen")
    artifact = emit(network, arranged)
    watch.note(f"{len(artifact.calls):,} calls, {len(artifact.constants):,} bytes of constants")
    return Compiled(
        artifact=artifact,
        source=network.source,
        target=network.target,
        budget_bytes=budget,
        curve=curve,
        npu=network.npu,
        problem=network.problem,
        schedule=schedule,
        arrangement=arranged,
        floor=floor,
        operators=summaries(network, schedule, arranged.program),
        seconds=watch.end(),
        dead_channels=network.dead_channels,
    )


def prepare(
    source: Graph,
    target: Target,
    tick: ProgressCallback = no_progress,
    dead_channels: bool = True,
    weight_encoder: str = WEIGHT_ENCODERS[0],
    kernels: KernelTable = OURS,
) -> Network:
    """Rewrite, divide, lower and encode a model, and state its scheduling problem.

    `dead_channels` are removed, or with False stay; `weight_encoder` as for `compile`; `kernels` are those that C
    sources are to call, whose workspaces are placed. `tick` is called before each
    operation's constants are encoded; what it raises ends the work.
    """
    check_not_compiled(source)
    accelerator = target.accelerator
    refused: dict[int | None, str] = {}
    support, encoder = Support(accelerator), Encoder(accelerator, weight_encoder)

    def on_npu(graph: Graph, op: Operator) -> bool:
        return target.has_npu and op.source_index not in refused and support(graph, op) is None

    # A rewrite may have changed what turns out to stay on the CPU: each round starts from the file, knowing more.
    while True:
        graph = simplify(source, on_npu, elements)
        graph, dead = remove_dead_channels(graph, on_npu) if dead_channels else (graph, ())
        kept = {i: refused[op.source_index] for i, op in enumerate(graph.operators) if op.source_index in refused}
        if not target.has_npu:
            kept = dict.fromkeys(range(len(graph.operators)), _NO_NPU)
        divided = partition(graph, support, kept)
        if beside := beside_state(graph, divided):
            refused.update({graph.operators[i].source_index: reason for i, reason in beside.items()})
            continue
        scratch = _workspaces(graph, divided.cpu_operators, kernels)
        edges = tuple(edge for edge in overlaid(graph) if edge.operator not in scratch)
        first, last = ([edge.operator for edge in edges if edge.is_input is way] for way in (True, False))
        divided = reordered(graph, divided, first, last)
        exposed = divided.exposed
        lowered = fold_tables(lower(graph, divided), exposed, accelerator)
        npu = without_needless_copies(lowered, exposed)
        encodings = choose_encodings(encoder, npu.operations, target, tick)
        misfits = {o.operator for o, e in zip(npu.operations, encodings, strict=True) if e.block_depth == 0}
        if not misfits:
            break
        reason = f"no OFM block of this operator fits the SHRAM of {accelerator.name}"
        refused.update({graph.operators[i].source_index: reason for i in misfits})
    encoded, sized = encode(encoder, npu.operations, encodings, accelerator, tick)
    _log(graph, divided, npu, sized)
    problem = stated(graph, divided, npu, sized, target, scratch)
    return Network(
        source,
        graph,
        target,
        divided,
        lowered,
        npu,
        encoder,
        encoded,
        problem,
        dead,
        kernels,
        sized,
        FrozenMap(scratch),
    )


def _log(graph: Graph, divided: Partition, npu: NpuGraph, encodings: Sequence[Encoding]) -> None:
    """Each operator on the CPU with its reason, and each operation with the bytes of its constants."""
    if not _LOGGER.isEnabledFor(logging.DEBUG):
        return
    for index, place in enumerate(divided.assignments):
        if place.where == "cpu":
            op = graph.operators[index]
            _LOGGER.debug("%s '%s' stays on the CPU: %s", op.kind, short(op.name), place.reason)
    for operation, encoding in zip(npu.operations, encodings, strict=True):
        if encoding.constant_bytes:
            _LOGGER.debug(
                "%s '%s': %d bytes of constants, blocks of %d channels",
                operation.kind.value, short(operation.name), encoding.constant_bytes, encoding.block_depth,
            )  # fmt: skip


def _workspaces(graph: Graph, on_cpu: Sequence[int], kernels: KernelTable) -> dict[int, int]:
    """Bytes that kernels of the operators on the CPU work in, by operator, where these are any."""
    # Kernels of ours work in none but for some of other people's operators: who has none of these waits for no kernel.
    asked = [i for i in on_cpu if kernels != OURS or graph.operators[i].kind not in OPERATORS]
    if not asked:
        return {}
    from ..codegen.c_kernels import workspaces

    return workspaces(graph, asked, kernels)


def check_not_compiled(source: Graph) -> None:
    """Refuse a model that holds commands for an Ethos-U already. Raises `UnsupportedOperatorError`."""
    done = next((operator for operator in source.operators if operator.kind == ETHOS_U), None)
    if done is not None:
        raise UnsupportedOperatorError(
            f"'{source.name}' is compiled already: operator '{done.name}' holds commands for an Ethos-U; compile the "
            "model that it was made from",
            operator=done.name,
            constraint="a model that is not compiled yet",
        )


def search(network: Network, epsilon: float | Fraction = EPSILON, tick: ProgressCallback | None = None) -> Curve:
    """All Pareto-efficient Proposals of a network; sizes include the constants where they live in SRAM."""
    return within_arena(network, Searches(network, epsilon).ask(lambda search, tick: search.frontier(tick), tick))


def within_arena(network: Network, curve: Curve) -> Curve:
    """Those choices whose arena fits a memory beside the fast one, if that has a size. Raises `BudgetError`."""
    memory = network.target.arena
    if not network.target.has_cache or memory.size_bytes is None:
        return curve
    return within_memory(network, curve, memory)


def within_memory(planned: SchedulableModel, curve: Curve, memory: Memory, of: str = "", extra: int = 0) -> Curve:
    """Those choices that fit the last memory of tensors, which takes what the others do not; `of` says whose it is.

    `extra` bytes lie there besides. Raises `BudgetError` if there are none.
    """
    assert memory.size_bytes is not None, "callers pass a memory that has a size"
    placements = (proposal.placement for proposal in curve.proposals)
    taken = [pool_bytes[-1] + extra for _, _, pool_bytes in placements]
    kept = [index for index, size in enumerate(taken) if size <= memory.size_bytes]
    if not kept:
        least = min(taken)
        proposal = curve.proposals[taken.index(least)]
        planned = planned.order(order_of(curve, proposal))
        arranged = scheduling.arrange(planned.problem, proposal)
        raise BudgetError(
            f"'{planned.source.name}' does not fit into the {memory.size_bytes} bytes of the memory "
            f"'{memory.name}'{of}: what the memories before it do not hold takes {least} bytes of it; give more of "
            f"either",
            budget_bytes=memory.size_bytes,
            floor_bytes=least,
            operator=peak_of(planned.graph, planned.npu, arranged).operator,
        )
    return reduced_to(curve, kept)


def choose(network: SchedulableModel, curve: Curve, budget: int | None, optimise: str) -> scheduling.Proposal:
    """The Proposal within the budget that is wanted, as `compile` says. Raises `BudgetError` below the floor."""
    fitting = [point for point in curve.points if budget is None or point[0] <= budget]
    if fitting:
        wanted = {
            "performance": nearly_fastest_of(fitting),
            "fastest": fitting[-1],
            "size": fitting[0],
            "balanced": knee_of(fitting),
        }
        return curve.proposals[curve.points.index(wanted[optimise])]
    assert budget is not None, "without a budget every point fits, and a curve has one"
    peak = floor_of(network, curve)
    raise BudgetError(
        f"'{network.source.name}' does not fit into {budget} bytes of SRAM: the smallest schedule needs "
        f"{curve.floor_bytes} bytes, at operator {peak.where} ({peak.by_kind()}); give it at least "
        f"{-(-curve.floor_bytes // 1024)} KiB",
        budget_bytes=budget,
        floor_bytes=curve.floor_bytes,
        operator=peak.operator,
        alive=peak.alive,
    )


def floor_of(network: SchedulableModel, curve: Curve) -> Peak:
    """The step with most bytes alive of the schedule with the least SRAM."""
    proposal = curve.proposals[0]
    ordered = network.order(order_of(curve, proposal))
    return peak_of(ordered.graph, ordered.npu, scheduling.arrange(ordered.problem, proposal))


def summaries(network: Network, schedule: Schedule, program: Program) -> tuple[OperatorSummary, ...]:
    """One line per operator, in execution order; cascades are numbered from 1."""
    spent: dict[int, int] = {}
    for step in program.steps:
        if isinstance(step, Stripe):
            operator = network.npu.operations[step.stage].operator
            spent[operator] = spent.get(operator, 0) + step.cycles
    cascade: dict[int, int] = {}
    for number, group in enumerate((g for g in schedule.groups if g.is_cascade), start=1):
        for part in range(group.first, group.last + 1):
            where, index = network.problem.parts[part]
            served = network.npu.operations[index].serves if where == "npu" else ()
            cascade.update(dict.fromkeys(served, number))
    return tuple(
        OperatorSummary(
            op.name, op.kind, place.where, place.reason, spent.get(i, 0), cascade.get(i), macs_of(network.graph, op), i
        )
        for i in network.partition.order
        for op, place in [(network.graph.operators[i], network.partition.assignments[i])]
    )
