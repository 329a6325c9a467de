"""plan(): the frontier of a model on a described device, without code generation.

Owns the way from a model to the scheduling problem of a device without a weight encoder or a code generator. The
operations are those that an Ethos-U would get; what is none of them runs whole, elsewhere, and takes no time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field, replace
from fractions import Fraction

from ..errors import ConfigError
from ..frontend import read_tflite
from ..ir import Graph, Operator
from ..ir.operators import RESHAPES
from ..lowering import Support, elements, lower
from ..lowering.feature_maps import Layout
from ..lowering.npu import (
    Function,
    NpuGraph,
    NpuOperation,
    Upscale,
)
from ..rewrites import remove_dead_channels, simplify
from ..scheduling import problem as scheduling_problem
from ..scheduling.bricks import lay_in_bricks
from ..scheduling.problem import Problem
from ..scheduling.schedule import resolution_of
from ..targets.device_files import device_named
from ..targets.devices import PRIMITIVES, DeviceDescription
from ..targets.target import ACCELERATORS
from ..util.arguments import checked
from ..util.records import dataclass
from .compiled import Curve
from .compiler import EPSILON, Model, Progress, Stopwatch, check_not_compiled, choose, within_memory
from .curve import reduced_to
from .partition import partition
from .searches import explore

_OPERATIONS_OF = ACCELERATORS["ethos-u55-256"]
"""Whose operations networks are lowered to; the families' limits are the same for all Ethos-U."""


_STAGES = ("import", "plan")


@dataclass(frozen=True, eq=False)
class Outline:
    """A model as a scheduling problem on a described device."""

    source: Graph
    graph: Graph
    device: DeviceDescription
    npu: NpuGraph
    problem: Problem
    constant_bytes: int

    def order(self, number: int) -> Outline:
        """Itself: no other order than the file's is searched."""
        return self

    @property
    def elsewhere(self) -> tuple[Operator, ...]:
        """The operators that no engine of the device runs, which take no time here."""
        done = {number for operation in self.npu.operations for number in operation.serves}
        renamed = {i for i, op in enumerate(self.graph.operators) if op.outputs[0] in self.npu.aliases}
        return tuple(op for i, op in enumerate(self.graph.operators) if i not in done | renamed)


@checked("epsilon")
def plan(
    model: Model,
    device: DeviceDescription | str | os.PathLike[str],
    *,
    epsilon: float | Fraction = EPSILON,
    dead_channels: bool = True,
    progress: Progress | None = None,
) -> Curve:
    """Every Pareto-efficient way to run a quantised TFLite model on `device`: (arena bytes, cycles), and the Proposals.

    `device` is a description, the name of a ready one ("cortex-m55", "cortex-m7", "matrix-npu"), or the path of a TOML
    file that describes one. Sizes are those of the arena, with the constants where they lie in its memory. With a
    `spill` whole tensors lie there as far as the arena does not hold them; choices beyond the `size_bytes` of the last
    of these memories are left out.
    `epsilon`, `dead_channels` and `progress` are those of `frontier`. Raises `ConfigError` naming
    the device's field that the network does not fit, `BudgetError` if it has no way into the arena, and what `compile`
    raises for the model.
    """
    return planned(model, device, epsilon, dead_channels, progress)[1]


def planned(
    model: Model,
    device: DeviceDescription | str | os.PathLike[str],
    epsilon: float | Fraction = EPSILON,
    dead_channels: bool = True,
    progress: Progress | None = None,
) -> tuple[Outline, Curve]:
    """As `plan`, with what the model is on the device."""
    resolution_of(epsilon)
    watch = Stopwatch(progress, _STAGES)
    watch.begin("import")
    described = device if isinstance(device, DeviceDescription) else device_named(device)
    outline = prepare(read_tflite(model), described, dead_channels)
    watch.note(f"'{outline.source.name}', {len(outline.npu.operations):,} operations")
    watch.begin("plan")
    extra = outline.constant_bytes if described.constants_in_sram else 0
    curve = explore(outline.problem, extra, epsilon, watch.tick)
    watch.note(curve.summary)
    watch.end()
    *others, last = described.memories.tensors
    if last.size_bytes is None:
        return outline, curve
    if others:
        beside = outline.constant_bytes if last == described.constants else 0
        of = f" of device '{described.name}'"
        return outline, within_memory(outline, curve, last, of, beside)
    count = curve.proposals.index(choose(outline, curve, last.size_bytes, "fastest")) + 1
    return outline, reduced_to(curve, range(count))


def prepare(source: Graph, device: DeviceDescription, dead_channels: bool = True) -> Outline:
    """Rewrite, divide and lower a model, and state its scheduling problem on a described device."""
    check_not_compiled(source)
    support = Support(_OPERATIONS_OF)

    def on_engine(graph: Graph, op: Operator) -> bool:
        return _elsewhere(graph, op, device, support) is None

    graph = simplify(source, on_engine, elements)
    if dead_channels:
        graph, _ = remove_dead_channels(graph, on_engine)
    refusals = ((i, _refused(graph, op, device, support)) for i, op in enumerate(graph.operators))
    kept = {i: why for i, why in refusals if why is not None}
    divided = partition(graph, support, kept)
    npu = lower(graph, divided)
    if device.layout == Layout.NHCWB16.value:
        npu = lay_in_bricks(npu, divided.exposed)
    _check_engines(npu, device)
    chosen = [scheduling_problem.choose_encoding(operation, device) for operation in npu.operations]
    misfit = next((o for o, encoding in zip(npu.operations, chosen, strict=True) if encoding.block_depth == 0), None)
    if misfit is not None:
        raise _misfit(misfit, device)
    encodings = [scheduling_problem.unencoded(o, choice) for o, choice in zip(npu.operations, chosen, strict=True)]
    constant_bytes = sum(encoding.constant_bytes for encoding in encodings)
    if device.constants.size_bytes is not None and constant_bytes > device.constants.size_bytes:
        raise ConfigError(
            f"device '{device.name}': constants.size_bytes is {device.constants.size_bytes}; '{source.name}' has "
            f"{constant_bytes} bytes of constants"
        )
    left = _without_constants(device, constant_bytes)
    problem = scheduling_problem.build(graph, divided.order, npu, encodings, left)
    return Outline(source, graph, device, npu, problem, constant_bytes)


def _without_constants(device: DeviceDescription, constant_bytes: int) -> DeviceDescription:
    """The device with what constants leave of the arena, where they lie in it and tensors have elsewhere to go."""
    if not device.constants_in_sram or device.spill is None or device.arena.size_bytes is None:
        return device
    return replace(device, arena=replace(device.arena, size_bytes=max(device.arena.size_bytes - constant_bytes, 1)))


def _misfit(operation: NpuOperation, device: DeviceDescription) -> ConfigError:
    """Why no engine carries out an operation for which there is a rate."""
    untiled = replace(device, buffer_bytes=None)
    if device.buffer_bytes is not None and scheduling_problem.choose_encoding(operation, untiled).block_depth > 0:
        return ConfigError(
            f"device '{device.name}': buffer_bytes is {device.buffer_bytes}; no block of '{operation.name}' fits "
            "with its inputs, constants and output"
        )
    return ConfigError(
        f"device '{device.name}': '{operation.name}' takes more than 2^36 cycles; the engines need faster rates or "
        "smaller granules, or the memories more bytes_per_cycle"
    )


@dataclass(frozen=True)
class _First:
    """The first operator, selected to be lowered."""

    npu_operators: tuple[int] = (0,)
    aliases: Mapping[int, int] = field(default_factory=dict)


def _refused(graph: Graph, op: Operator, device: DeviceDescription, support: Support) -> str | None:
    """As `_elsewhere`, but for what takes no engine at all."""
    return None if op.kind in RESHAPES else _elsewhere(graph, op, device, support)


def _elsewhere(graph: Graph, op: Operator, device: DeviceDescription, support: Support) -> str | None:
    """Why an operator is left to others than the device's engines, or None.

    What every device should have is demanded of it later on (`_check_engines`); further operations are as it likes.
    """
    if (reason := support(graph, op)) is not None:
        return reason
    able = {*PRIMITIVES, *(kind for engine in device.engines for kind in engine.rates)}
    for operation in lower(replace(graph, operators=(op,)), _First()).operations:
        if operation.upscale is not Upscale.NONE:
            return "it takes an engine that repeats pixels, which no description has"
        if operation.function is not Function.CLAMP:
            return "it takes an engine with tables, which no description has"
        if operation.kind.value not in able:
            return f"it takes an engine with a rate for {operation.kind.value}, which '{device.name}' has not"
    return None


def _check_engines(npu: NpuGraph, device: DeviceDescription) -> None:
    able = {kind for engine in device.engines for kind in engine.rates}
    for operation in npu.operations:
        kind = operation.kind.value
        if kind not in able:
            raise ConfigError(
                f"device '{device.name}': engines have no rate for {kind}, which '{operation.name}' needs; they can do "
                f"{', '.join(sorted(able))}"
            )
