"""plan(): the frontier of a model on a described device, without code generation.

Owns the way from a model to the scheduling problem of a device that nobody compresses weights or emits code for. The
operations are those that an Ethos-U would get; what is none of them runs whole, elsewhere, and takes no time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from ..devices import DeviceDescription
from ..errors import ConfigError
from ..frontend import read_tflite
from ..ir import Graph
from ..lowering import lower, support
from ..lowering.npu import Layout, NpuGraph, NpuOperation
from ..rewrites import simplify
from ..scheduling import problem as scheduling_problem
from ..scheduling.bricks import lay_in_bricks
from ..scheduling.problem import Problem
from ..scheduling.schedule import resolution_of
from ..target import ACCELERATORS
from ..util.arguments import checked
from .compiled import Curve
from .compiler import EPSILON, Model, Progress, Stopwatch, check_not_compiled, choose, explore
from .partition import partition

_OPERATIONS_OF = ACCELERATORS["ethos-u55-256"]
"""Whose operations networks are lowered to; the families' limits are the same for all Ethos-U."""


_ELSEWHERE = {
    "RESIZE_NEAREST_NEIGHBOR": "it takes an engine that repeats pixels, which no description has",
    "SOFTMAX": "it takes an engine with tables, which no description has",
}
"""Operators that an Ethos-U runs and a described device leaves to others, and why."""


@dataclass(frozen=True, eq=False)
class Outline:
    """A model as a scheduling problem on a described device."""

    source: Graph
    graph: Graph
    device: DeviceDescription
    npu: NpuGraph
    problem: Problem
    constant_bytes: int


@checked("epsilon")
def plan(
    model: Model,
    device: DeviceDescription,
    *,
    epsilon: float | Fraction = EPSILON,
    progress: Progress | None = None,
) -> Curve:
    """Every Pareto-efficient way to run a quantised TFLite model on `device`: (arena bytes, cycles), and the Proposals.

    Sizes include the constants where they lie in the arena's memory. Choices beyond the arena's `size_bytes` are left
    out unless the device has a `spill`. `epsilon` and `progress` are those of `frontier`. Raises `ConfigError` naming
    the device's field that the network does not fit, `BudgetError` if it has no way into the arena, and what `compile`
    raises for the model.
    """
    resolution_of(epsilon)
    watch = Stopwatch(progress)
    watch.begin("import")
    outline = prepare(read_tflite(model), device)
    watch.begin("plan")
    extra = outline.constant_bytes if device.constants_in_sram else 0
    curve = explore(outline.problem, extra, epsilon, tick=watch.tick).without_programs()
    limit = device.arena.size_bytes
    if limit is None or device.spill is not None:
        return curve
    count = curve.proposals.index(choose(outline, curve, limit, "performance")) + 1
    return replace(curve, points=curve.points[:count], proposals=curve.proposals[:count])


def prepare(source: Graph, device: DeviceDescription) -> Outline:
    """Rewrite, divide and lower a model, and state its scheduling problem on a described device."""
    check_not_compiled(source)
    graph = simplify(source, lambda g, op: op.kind not in _ELSEWHERE and support(g, op, _OPERATIONS_OF) is None)
    kept = {i: _ELSEWHERE[op.kind] for i, op in enumerate(graph.operators) if op.kind in _ELSEWHERE}
    divided = partition(graph, _OPERATIONS_OF, kept)
    npu = lower(graph, divided)
    if device.layout == Layout.NHCWB16.value:
        npu = lay_in_bricks(npu, {t for region in divided.regions for t in (*region.inputs, *region.outputs)})
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
    problem = scheduling_problem.build(graph, divided.order, npu, encodings, device)
    return Outline(source, graph, device, npu, problem, constant_bytes)


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


def _check_engines(npu: NpuGraph, device: DeviceDescription) -> None:
    able = {kind for engine in device.engines for kind in engine.rates}
    for operation in npu.operations:
        kind = operation.kind.value
        if kind not in able:
            raise ConfigError(
                f"device '{device.name}': engines have no rate for {kind}, which '{operation.name}' needs; they can do "
                f"{', '.join(sorted(able))}"
            )
