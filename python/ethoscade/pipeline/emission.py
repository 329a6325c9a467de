"""From a placed program to an artefact: NPU calls for runs of steps, handovers of rows, CPU operators.

Owns which steps are a call, what a call reads and hands on, and which constants are laid out. Commands are codegen's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ..codegen import command_stream
from ..codegen.artifact import Artifact, ArtifactCall, CpuCall, FeedCall, NpuCall, TakeCall
from ..codegen.operations import FAST_REGION, INPUT_REGION
from ..codegen.weights import lay_out, places_of
from ..errors import CodegenError
from ..lowering.npu import graph_tensors, tables_of
from ..scheduling.program import (
    Arrangement,
    CallOperator,
    CopyConstants,
    CopyTensor,
    Feed,
    LoadTable,
    Step,
    Stripe,
    Take,
    in_fast,
)
from .network import Network

_Run = list[Stripe | CopyConstants | LoadTable]
"""Steps of the NPU without a pause."""


def emit(network: Network, arranged: Arrangement) -> Artifact:
    """The artefact of a placed program: one NPU call per run of steps between others' calls."""
    program, offsets = arranged.program, dict(enumerate(arranged.offsets))
    *fast_bytes, arena_bytes = arranged.pool_bytes
    fast = in_fast(arranged)
    external = tuple(dict.fromkeys(network.graph.given)) if network.target.inputs is not None else ()
    inputs = {program.tensor_buffers[tensor]: INPUT_REGION + number for number, tensor in enumerate(external)}
    regions = dict.fromkeys(fast, FAST_REGION) | inputs
    steps = [step for step in program.steps if isinstance(step, (Stripe, CopyConstants))]
    used = {(step.stage, step.portion) for step in steps}
    constants = lay_out(network.encoded, used, tables_of(network.npu.operations))
    calls: list[ArtifactCall] = []
    for part in _between_operators(program.steps):
        runs = [run for run in part if isinstance(run, list)]
        ends = iter(_ends(network, runs, program.tensor_buffers, calls))
        for piece in part:
            if isinstance(piece, Feed):
                calls.append(_feed(network, piece, offsets[piece.output.buffer]))
            elif isinstance(piece, Take):
                calls += _takes(network, piece, offsets[piece.input.buffer])
            elif isinstance(piece, CallOperator):
                workspace = piece.workspace
                place = (0, 0) if workspace is None else (offsets[workspace], program.buffers[workspace].size_bytes)
                calls.append(CpuCall(piece.operator, *place))
            else:
                payload = command_stream.generate(
                    network.npu.operations, piece, offsets, constants, network.target.accelerator, regions
                )
                calls.append(NpuCall(f"npu_{len(calls)}", payload, *next(ends), _operators(network, piece)))
    return Artifact(
        name=network.source.name,
        accelerator=network.target.accelerator.name,
        graph=network.graph,
        calls=tuple(calls),
        constants=constants.blob,
        arena_bytes=arena_bytes,
        fast_bytes=next(iter(fast_bytes), None),
        fast_tensors=frozenset(tensor for tensor, buffer in program.tensor_buffers.items() if buffer in fast),
        offsets={tensor: offsets[at] for tensor, at in program.tensor_buffers.items() if at not in regions},
        external=external,
        kernels=network.kernels,
        system_config=network.target.system_config,
        memory_mode=network.target.memory_mode,
        constant_places=places_of(
            constants,
            network.npu.operations,
            [network.graph.operators[operation.operator].name for operation in network.npu.operations],
        ),
    )


def _feed(network: Network, step: Feed, begin: int) -> FeedCall:
    """Rows in a buffer from byte `begin` of the arena on: it holds whole feeds, none across its end."""
    box, row_bytes = step.output, _row_bytes(network, step.tensor)
    place = (box.y0 - box.origin_y) % box.rows
    is_ahead = network.target.streaming is not None and network.target.streaming.is_ahead
    return FeedCall(step.tensor, box.y0, box.y1 - box.y0, begin + place * row_bytes, row_bytes, is_ahead)


def _takes(network: Network, step: Take, begin: int) -> Iterable[TakeCall]:
    """Rows in a buffer from byte `begin` of the arena on: those behind its end lie at its beginning."""
    box, row_bytes = step.input, _row_bytes(network, step.tensor)
    row = box.y0
    while row < box.y1:
        place = (row - box.origin_y) % box.rows
        rows = min(box.y1 - row, box.rows - place)
        yield TakeCall(step.tensor, row, rows, begin + place * row_bytes, row_bytes)
        row += rows


def _row_bytes(network: Network, tensor: int) -> int:
    """Bytes of a row of a graph tensor, as it lies in the arena."""
    spec = network.problem.tensors[network.problem.ids[tensor]]
    return spec.plane[1] * spec.pixel_bytes


def _between_operators(steps: Iterable[Step]) -> Iterable[list[_Run | Feed | Take | CallOperator]]:
    """Runs of the NPU and handovers in order, up to each operator on the CPU, the last of its list."""
    found: list[_Run | Feed | Take | CallOperator] = []
    run: _Run = []
    for step in steps:
        if isinstance(step, CopyTensor):
            raise CodegenError(f"buffer {step.source} is copied between memories, which no command does")
        if isinstance(step, (Stripe, CopyConstants, LoadTable)):
            if not run:
                found.append(run)
            run.append(step)
            continue
        run = []
        found.append(step)
        if isinstance(step, CallOperator):
            yield found
            found = []
    yield found


def _ends(
    network: Network, runs: Sequence[_Run], places: Mapping[int, int], before: Iterable[ArtifactCall]
) -> Iterable[tuple[tuple[int, ...], tuple[int, ...]]]:
    """What each of several runs reads, and what it is the last to make; no operator on the CPU is between them.

    What they hand on to each other is theirs alone. Tensors in `places` lie there as a whole; `before` are the calls
    ahead of these.
    """
    graph, operations = network.graph, network.npu.operations
    done = [[operations[i] for i in dict.fromkeys(s.stage for s in run if isinstance(s, Stripe))] for run in runs]
    served = {operator for performed in done for operation in performed for operator in operation.serves}
    made = [graph_tensors([operation.ofm for operation in performed]) for performed in done]
    handed_on = {t for call in before if isinstance(call, NpuCall) for t in call.outputs}
    for number, performed in enumerate(done):
        later = {t for tensors in made[number + 1 :] for t in tensors}
        read = graph_tensors([view for operation in performed for view in operation.inputs])
        inside = {t for tensors in made for t in tensors}
        given = tuple(t for t in read if t not in inside and t in places)
        roots = ((t, root) for t, root in network.npu.aliases.items() if root in given)
        renamed = tuple(t for t, _ in roots if t in graph.outputs and t not in handed_on)
        wanted = _wanted(network, [t for t in made[number] if t not in later], served)
        outputs = (*(t for t in wanted if t in places), *renamed)
        handed_on.update(outputs)
        yield given, outputs


def _operators(network: Network, run: _Run) -> tuple[str, ...]:
    """For each step of a run the names of the operators it serves."""
    operations, graph = network.npu.operations, network.graph
    return tuple(";".join(graph.operators[i].name for i in operations[step.stage].serves) for step in run)


def _wanted(network: Network, made: Iterable[int], served: Collection[int]) -> tuple[int, ...]:
    """What others than the operators `served` want of the tensors that an NPU call made, by the names that they use.

    The CPU and the caller know the bytes by their aliases' names; further NPU calls know the tensor that was made.
    """
    graph, aliases = network.graph, network.npu.aliases
    names = {root: [root] for root in made}
    for alias, root in aliases.items():
        if root in names:
            names[root].append(alias)
    consumers, on_cpu = graph.consumers(), frozenset(network.partition.cpu_operators)
    renaming = {i for i in network.partition.npu_operators if graph.operators[i].outputs[0] in aliases}
    found: list[int] = []
    for root, tensors in names.items():
        readers = {t: frozenset(consumers.get(t, ())) - renaming for t in tensors}
        again = any(not of <= on_cpu.union(served) for of in readers.values())
        found += [t for t in tensors if t in graph.outputs or readers[t] & on_cpu or (t == root and again)]
    return tuple(found)
