"""From a placed program to an artefact: one call of the NPU for each run of steps between operators on the CPU.

Owns which steps are a call, what a call reads and hands on, and which constants are laid out. Commands are codegen's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ..codegen import command_stream
from ..codegen.artifact import Artifact, CpuCall, NpuCall
from ..codegen.operations import FAST_REGION, INPUT_REGION
from ..codegen.weights import Constants, lay_out, places_of
from ..errors import CodegenError
from ..lowering.npu import graph_tensors, tables_of
from ..scheduling.program import Arrangement, CopyConstants, CopyTensor, LoadTable, Stripe, in_fast
from .network import Network


def emit(network: Network, arranged: Arrangement) -> Artifact:
    """The artefact of a placed program: one NPU call per run of steps between CPU operators."""
    program, offsets = arranged.program, dict(enumerate(arranged.offsets))
    *fast_bytes, arena_bytes = arranged.pool_bytes
    fast = in_fast(arranged)
    external = tuple(dict.fromkeys(network.graph.given)) if network.target.inputs is not None else ()
    inputs = {program.tensor_buffers[tensor]: INPUT_REGION + number for number, tensor in enumerate(external)}
    regions = dict.fromkeys(fast, FAST_REGION) | inputs
    steps = [step for step in program.steps if isinstance(step, (Stripe, CopyConstants))]
    used = {(step.stage, step.portion) for step in steps}
    constants = lay_out(network.encoded, used, tables_of(network.npu.operations))
    calls: list[NpuCall | CpuCall] = []
    run: list[Stripe | CopyConstants | LoadTable] = []
    for step in (*program.steps, None):
        if isinstance(step, CopyTensor):
            raise CodegenError(f"buffer {step.source} is copied between memories, which no command does")
        if isinstance(step, (Stripe, CopyConstants, LoadTable)):
            run.append(step)
            continue
        if run:
            told = frozenset(t for call in calls if isinstance(call, NpuCall) for t in call.outputs)
            calls.append(_npu_call(network, constants, run, offsets, regions, f"npu_{len(calls)}", told))
            run = []
        if step is not None:
            workspace = step.workspace
            place = (0, 0) if workspace is None else (offsets[workspace], program.buffers[workspace].size_bytes)
            calls.append(CpuCall(step.operator, *place))
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


def _npu_call(
    network: Network,
    constants: Constants,
    run: Sequence[Stripe | CopyConstants | LoadTable],
    offsets: Mapping[int, int],
    regions: Mapping[int, int],
    name: str,
    told: Collection[int],
) -> NpuCall:
    operations = network.npu.operations
    payload = command_stream.generate(operations, run, offsets, constants, network.target.accelerator, regions)
    performed = [operations[i] for i in dict.fromkeys(step.stage for step in run if isinstance(step, Stripe))]
    made = graph_tensors([operation.ofm for operation in performed])
    read = graph_tensors([view for operation in performed for view in operation.inputs])
    served = {operator for operation in performed for operator in operation.serves}
    graph = network.graph
    names = tuple(";".join(graph.operators[i].name for i in operations[step.stage].serves) for step in run)
    given = tuple(t for t in read if t not in made)
    renamed = (t for t, root in network.npu.aliases.items() if root in given and t in graph.outputs and t not in told)
    return NpuCall(name, payload, given, (*_wanted(network, made, served), *renamed), names)


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
