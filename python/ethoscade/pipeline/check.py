"""check(): a model looked at without a search: where each operator runs and why, what it costs alone, what would help.

Owns the types of what is found, and the schedule that it is found on: layer by layer, every tensor whole. The advice
itself is `analysis.advice`'s.
"""

from __future__ import annotations

import os
from dataclasses import replace

from ..analysis.advice import Advice, CheckedNetwork, advise
from ..analysis.explanation import Peak, peak_of
from ..analysis.table import OperatorTable, table_of
from ..codegen import micro_kernels
from ..codegen.artifact import NpuCall
from ..codegen.streams import WEIGHT_ENCODERS
from ..frontend import read_tflite
from ..scheduling import schedule as scheduling
from ..targets.target import RowCount, Target, compilation_target
from ..util.arguments import checked
from ..util.records import dataclass
from . import compiler
from .borders import applied, find
from .compiler import Model, Progress, Stopwatch


@dataclass(frozen=True)
class Check:
    """What was found of a model on a target, layer by layer: no cascade, every tensor whole.

    `table` has a row for each operator that is left once the network has been simplified, timed with its weights in
    SRAM: how they get there is for a schedule to say, and takes `weight_cycles` at least, beside the rest.
    `npu_programs` counts the runs of the NPU between operators on the CPU. `sram_bytes` is what the network needs so,
    without weights; `peak` the step that needs most of it. `advice` has what costs most first. `warnings` are what
    TensorFlow Lite Micro could not run.
    """

    name: str
    target: Target
    table: OperatorTable
    weight_cycles: int
    npu_programs: int
    sram_bytes: int
    flash_bytes: int
    peak: Peak
    advice: tuple[Advice, ...]
    warnings: tuple[str, ...]


@checked()
def check(
    model: Model,
    *,
    accelerator: str | None = None,
    system_config: str | None = None,
    memory_mode: str | None = None,
    config: str | os.PathLike[str] | None = None,
    board: str | os.PathLike[str] | None = None,
    input_memory: str | None = None,
    stream_input: RowCount | None = None,
    stream_ahead: bool = False,
    stream_output: RowCount | None = None,
    dead_channels: bool = True,
    weight_encoder: str = WEIGHT_ENCODERS[0],
    io: str = "float",
    progress: Progress | None = None,
) -> Check:
    """Say of a quantised TFLite model (path or bytes) what runs where, why, what it costs, and what would help.

    Nothing is searched and nothing is written: the figures are those of the network layer by layer, which `compile`
    and `frontier` improve on. The arguments are those of `compile`. Raises `ModelFormatError`,
    `UnsupportedOperatorError` or `ConfigError`.
    """
    target = compilation_target(
        accelerator, system_config, memory_mode, config, board, input_memory, stream_input, stream_ahead, stream_output
    )
    watch = Stopwatch(progress, ("import", "encode", "place"))
    watch.begin("import")
    source, _ = applied(read_tflite(model), io)
    watch.begin("encode")
    network = compiler.prepare(source, target, watch.tick, dead_channels, weight_encoder)
    watch.note(network.summary)
    watch.begin("place")
    schedule = scheduling.uncascaded(network.problem)
    arranged = scheduling.arrange(network.problem, schedule)
    artifact = compiler.emit(network, arranged)
    operators = compiler.summaries(network, schedule, arranged.program)
    streams = [call.payload for call in artifact.calls if isinstance(call, NpuCall)]
    constants_in_sram = len(artifact.constants) if target.constants_in_sram else 0
    sram_bytes = arranged.arena_bytes + constants_in_sram
    fed = replace(target, constants=target.cache)
    table = table_of(artifact, fed, network.npu, arranged, operators, sram_bytes)
    peak = peak_of(network.graph, network.npu, arranged)
    borders = {border.operator: (border.outside, border.inside) for border in find(network.graph).found}
    looked = CheckedNetwork(
        network.graph, target, network.npu, network.encoded, operators, table, artifact, peak, borders
    )
    watch.end()
    return Check(
        name=source.name,
        target=target,
        table=table,
        weight_cycles=looked.weight_cycles,
        npu_programs=len(streams),
        sram_bytes=sram_bytes,
        flash_bytes=sum(map(len, streams)) + len(artifact.constants) - constants_in_sram,
        peak=peak,
        advice=advise(looked, network.dead_channels),
        warnings=micro_kernels.warnings(artifact),
    )
