"""prepare(): a model made ready once, and what is asked of it as often as wanted; compile() and frontier() ask once.

Owns what is kept between questions: the network with its constants encoded, and by epsilon the core's search and the
frontier, once it was asked for. An answer never depends on what was asked before.
"""

from __future__ import annotations

import logging
import os
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

from ..codegen.kernel_table import OURS, KernelTable
from ..codegen.layout import ALIGNMENT_BYTES
from ..codegen.streams import WEIGHT_ENCODERS
from ..errors import ConfigError
from ..frontend import read_tflite
from ..ir import Graph
from ..scheduling import schedule as scheduling
from ..scheduling.schedule import EPSILON as EPSILON
from ..targets.target import RowCount, Target, budget_of, budget_of_kib, compilation_target
from ..util.arguments import checked, shown
from ..util.frozen import FrozenMap
from ..util.progress import no_progress
from ..util.records import dataclass
from . import compiler
from .borders import Borders, applied
from .compiled import Compiled, Curve
from .compiler import (
    Model,
    Network,
    Progress,
    ProgressCallback,
    Stopwatch,
    constants_in_sram,
)
from .lines import check_line, in_lines, in_steps
from .network import with_cache
from .searches import Question, Searches

_LOGGER = logging.getLogger(__name__)
_ALL = ("import", "encode", "plan", "place", "codegen")
_PLAN = ("plan",)

OPTIMISATIONS = ("performance", "size", "balanced", "fastest")
"""Of the schedules that fit: the one of least SRAM at most 1 % slower than the fastest, that of least SRAM, the knee,
or the fastest."""


@dataclass
class _Kept:
    """What questions share, by the resolution of their epsilon."""

    searches: dict[int, Searches] = field(default_factory=dict)
    frontiers: dict[int, Curve] = field(default_factory=dict)
    caches: dict[int, Prepared] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A model read, rewritten, lowered and encoded for a target; what any budget needs of the search is kept, too.

    The first question takes the search's time, later ones the time of placing a few programs. Pickled, it is the model
    and how it was made ready, which is done again.
    """

    network: Network = field(repr=False)
    io: str = "float"
    borders: Borders = field(default=Borders((), FrozenMap({})), repr=False)
    dead_channels: bool = True
    weight_encoder: str = WEIGHT_ENCODERS[0]
    _kept: _Kept = field(default_factory=_Kept, repr=False)

    def __repr__(self) -> str:
        network = self.network
        npu, cpu = len(network.partition.npu_operators), len(network.partition.cpu_operators)
        name, accelerator = shown(network.graph.name), network.target.accelerator.name
        return f"<Prepared {name} for {accelerator}: {npu} operators on the NPU, {cpu} on the CPU>"

    def _repr_html_(self) -> str:
        from ..page import notebook

        graph, target, partition = self.network.graph, self.network.target, self.network.partition
        on_cpu = [(graph.operators[i].name, partition.assignments[i].reason) for i in partition.cpu_operators]
        rows = [
            ("target", f"{target.accelerator.name}, {target.system_config}, {target.memory_mode}"),
            ("operators on the NPU", str(len(partition.npu_operators))),
            ("operators on the CPU", str(len(on_cpu))),
        ]
        return notebook.fragment(graph.name, rows + on_cpu)

    def __reduce__(self) -> tuple[Any, ...]:
        made_of = (self.network.source, self.network.target, self.dead_channels, self.weight_encoder)
        return _made_ready, (*made_of, self.io, self.borders, self.network.kernels)

    @checked("epsilon")
    def frontier(self, *, epsilon: float | Fraction = EPSILON, progress: Progress | None = None) -> Curve:
        """The curve of (SRAM bytes, cycles), as `ethoscade.frontier` has it; searched once for each epsilon.

        `progress` as for `compile`. Raises `ConfigError` for an epsilon that there is not.
        """
        watch = Stopwatch(progress, _PLAN)
        watch.begin("plan")
        curve = self._frontier(epsilon, watch.tick)
        watch.note(curve.summary)
        watch.end()
        return curve

    @checked("sram_kb", "epsilon")
    def fits(
        self,
        sram: str | int | None = None,
        *,
        sram_kb: float | None = None,
        epsilon: float | Fraction = EPSILON,
        progress: Progress | None = None,
    ) -> bool:
        """Whether `compile` finds a schedule within so much SRAM, given as there. Raises `ConfigError`."""
        watch = Stopwatch(progress, _PLAN)
        budget = _budget(sram_kb, sram)
        if budget is None:
            raise ConfigError("no budget is given; give sram or sram_kb")
        watch.begin("plan")
        fits = self._fits(budget, epsilon, watch.tick)
        watch.end()
        return fits

    def _fits(self, budget: int, epsilon: float | Fraction, tick: ProgressCallback) -> bool:
        if self.network.target.has_cache:
            return self.within(budget, epsilon, tick).floor_bytes <= budget
        inner = budget - constants_in_sram(self.network)
        return inner >= 0 and self._searches(epsilon).fits(_clamp_u64(inner), tick)

    @checked("sram_kb", "epsilon")
    def compile(
        self,
        *,
        sram_kb: float | None = None,
        sram: str | int | None = None,
        optimise: str = "performance",
        epsilon: float | Fraction = EPSILON,
        line_bytes: int = ALIGNMENT_BYTES,
        progress: Progress | None = None,
    ) -> Compiled:
        """Compile it within a budget, as `ethoscade.compile` does, to the same bytes. Raises what that raises."""
        budget = _asked(sram_kb, sram, optimise, epsilon, line_bytes)
        return self._compiled(budget, optimise, epsilon, line_bytes, Stopwatch(progress, _ALL[2:]))

    def _compiled(
        self, asked: int | None, optimise: str, epsilon: float | Fraction, line_bytes: int, watch: Stopwatch
    ) -> Compiled:
        board = self.network.target.board
        budget = board.sram_bytes if asked is None and board is not None else asked
        if (remark := self.network.target.remark_on(budget)) is not None:
            _LOGGER.warning(remark)
        constants = constants_in_sram(self.network)
        cache = self.network.target.cache if self.network.target.has_cache else None
        if cache is not None and budget is not None:
            # The budget is the cache: what it does not hold lies in the arena.
            size = max(in_steps(budget, constants, line_bytes) - constants, 0)
            if cache.size_bytes != size:
                return self._with_cache_of(size)._compiled(budget, optimise, epsilon, line_bytes, watch)
        watch.begin("plan")
        if cache is not None or optimise == "balanced":
            curve = self._frontier(epsilon, watch.tick)
        elif optimise == "size":
            curve = replace(
                self._ask(lambda search, tick: search.floor(tick), epsilon, watch.tick), stop_reason="budget"
            )
        elif budget is None:
            curve = self._searches(epsilon).ask_file(_question(optimise), watch.tick)
            curve = replace(curve, stop_reason="budget")
        else:
            inner = max(in_steps(budget, constants, line_bytes) - constants, 0)
            curve = self._ask(_question(optimise, _clamp_u64(inner)), epsilon, watch.tick)
            curve = replace(curve, stop_reason="budget")
        watch.note(curve.summary)
        curve = in_lines(curve, constants, line_bytes)
        proposal = compiler.choose(self.network, curve, budget, optimise)
        made = compiler.carry_out(self.network, curve, proposal, budget, watch)
        return replace(made, io=self.io, borders=self.borders, line_bytes=line_bytes)

    def _with_cache_of(self, size_bytes: int) -> Prepared:
        if size_bytes not in self._kept.caches:
            network = with_cache(self.network, size_bytes)
            self._kept.caches[size_bytes] = replace(self, network=network, _kept=_Kept())
        return self._kept.caches[size_bytes]

    def _searches(self, epsilon: float | Fraction) -> Searches:
        resolution = scheduling.resolution_of(epsilon)
        if resolution not in self._kept.searches:
            self._kept.searches[resolution] = Searches(self.network, epsilon)
        return self._kept.searches[resolution]

    def _ask(self, question: Question, epsilon: float | Fraction, tick: ProgressCallback | None) -> Curve:
        """What the orders worth a search answer, as far as it fits the memory beside the fast one."""
        return compiler.within_arena(self.network, self._searches(epsilon).ask(question, tick))

    def _frontier(self, epsilon: float | Fraction, tick: ProgressCallback | None) -> Curve:
        resolution = scheduling.resolution_of(epsilon)
        if resolution not in self._kept.frontiers:
            self._kept.frontiers[resolution] = self._ask(lambda search, tick: search.frontier(tick), epsilon, tick)
        return self._kept.frontiers[resolution]

    @checked("epsilon")
    def within(self, budget: int, epsilon: float | Fraction = EPSILON, tick: ProgressCallback | None = None) -> Curve:
        """The fastest choice found within a budget of bytes, and the floor; the floor alone where it takes more.

        It is what `compile` plans with `optimise="fastest"`, without code generation. `tick` is called now and then;
        what it raises ends it.
        """
        if self.network.target.has_cache:
            size = max(budget - constants_in_sram(self.network), 0)
            return self._with_cache_of(size)._frontier(epsilon, tick)
        inner = max(budget - constants_in_sram(self.network), 0)
        curve = self._ask(lambda search, tick: search.within(_clamp_u64(inner), tick), epsilon, tick)
        return replace(curve, stop_reason="budget")


@checked("epsilon")
def prepare(
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
    kernels: str | os.PathLike[str] | None = None,
    cmsis_nn: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Prepared:
    """Make a quantised TFLite model (path or bytes) ready for an Ethos-U: all that no budget changes, done once.

    The arguments are those of `compile`. Raises `ModelFormatError`, `UnsupportedOperatorError` or `ConfigError`.
    """
    _check_encoder(weight_encoder)
    target = compilation_target(
        accelerator, system_config, memory_mode, config, board, input_memory, stream_input, stream_ahead, stream_output
    )
    chosen = _chosen(kernels, cmsis_nn)
    watch = Stopwatch(progress, _ALL[:2])
    prepared = _prepared(model, target, dead_channels, weight_encoder, io, watch, chosen)
    watch.end()
    return prepared


def prepare_on(
    target: Target,
    model: Model,
    *,
    dead_channels: bool = True,
    weight_encoder: str = WEIGHT_ENCODERS[0],
    io: str = "float",
    progress: Progress | None = None,
) -> Prepared:
    """As `prepare`, for a target that is at hand and not known by names alone."""
    return _prepared(model, target, dead_channels, weight_encoder, io, Stopwatch(progress))


@checked("sram_kb", "epsilon")
def compile(
    model: Model,
    *,
    sram_kb: float | None = None,
    sram: str | int | None = None,
    accelerator: str | None = None,
    system_config: str | None = None,
    memory_mode: str | None = None,
    config: str | os.PathLike[str] | None = None,
    board: str | os.PathLike[str] | None = None,
    input_memory: str | None = None,
    stream_input: RowCount | None = None,
    stream_ahead: bool = False,
    stream_output: RowCount | None = None,
    optimise: str = "performance",
    epsilon: float | Fraction = EPSILON,
    dead_channels: bool = True,
    weight_encoder: str = WEIGHT_ENCODERS[0],
    io: str = "float",
    kernels: str | os.PathLike[str] | None = None,
    cmsis_nn: str | os.PathLike[str] | None = None,
    line_bytes: int = ALIGNMENT_BYTES,
    progress: Progress | None = None,
) -> Compiled:
    """Compile a quantised TFLite model (path or bytes) for an Ethos-U so that it runs in the given SRAM.

    `sram_kb` counts KiB, `sram` is bytes or a string such as "300KiB"; parts of a byte in KiB and MiB are rounded
    down. Of the schedules that fit, of all without either, the one with the least SRAM is taken that is at most 1 %
    slower than the fastest. With `optimise="fastest"` it is the fastest, with "size" the one with the least SRAM, with
    "balanced" the knee (`Curve.knee`). Only "balanced" searches the whole frontier. "performance" and "fastest" search
    for their answers and place less than `frontier` does: the schedule may be faster or slower than the one that
    `frontier` has at this number of bytes. The `frontier` of what is returned has the floor, the fastest, the answer,
    and the fastest within half of its SRAM; `Curve.floor_is_bound` says that the floor is an upper bound. "size" has
    one point.
    For several budgets see `prepare`.
    `accelerator` is by default ethos-u55-256; `system_config`, `memory_mode` and `config` (a vela.ini, or a name such
    as "Arm/vela.ini" in ethos-u-vela's folder) choose the memories. `board` names all of that at once, by the table of
    docs/boards.md or by a TOML file of one's own; what is named beside it goes first, and the SRAM that the board has
    for the NPU is the budget where none is given. `input_memory` names a memory of the system configuration, such as
    "OffChipFlash", where the caller keeps the network's inputs: the NPU reads them there, as often as it wants, and no
    SRAM is counted for them (docs/input-memory.md). With `stream_input` the caller hands over the input's rows,
    this number at once, in order, each once, while the network runs; with `stream_ahead` also while the NPU works on
    those before; with `stream_output` it takes the output's rows so (docs/stream-input.md). A finer `epsilon` finds
    faster schedules in more time (see `frontier`). Without `dead_channels` channels that are constant or unused, stay
    as the model has them. `weight_encoder` compresses weights: "ethoscade", or "vela" to have Vela's streams. With
    `io="int8"` the caller brings and gets quantised tensors where the file begins with a QUANTIZE of a float input or
    ends in a DEQUANTIZE: of the type that the file has inside, under the same names; `Compiled.interface` tells scales,
    zero points, and why another one stays float. `kernels` is a file that names user-supplied kernels for operators on
    the CPU, or "cmsis-nn", whose headers are in the folder `cmsis_nn`, else in that of the environment variable
    CMSIS_NN (docs/firmware.md). `accelerator` "none" leaves all of them there: for a device without an NPU, of which no
    cycles are counted. With `line_bytes` budget and figures count arena and constants in whole lines of this number of
    bytes: 32 is what C takes on a Cortex-M55. `progress` is called with the name of each stage as it begins and now and
    then while it lasts, a text whose `fraction` is how much of all is done, from 0 to 1; always on the caller's thread.
    What it raises ends the compilation and is raised.

    Raises `BudgetError` if it cannot fit, `ModelFormatError`, `UnsupportedOperatorError` or `ConfigError` for what the
    user can mend, `CodegenError` for a limit of the emitter.
    """
    watch = Stopwatch(progress, _ALL)
    budget = _asked(sram_kb, sram, optimise, epsilon, line_bytes)
    _check_encoder(weight_encoder)
    target = compilation_target(
        accelerator, system_config, memory_mode, config, board, input_memory, stream_input, stream_ahead, stream_output
    )
    chosen = _chosen(kernels, cmsis_nn)
    return _prepared(model, target, dead_channels, weight_encoder, io, watch, chosen)._compiled(
        budget, optimise, epsilon, line_bytes, watch
    )


@checked("epsilon")
def frontier(
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
    epsilon: float | Fraction = EPSILON,
    dead_channels: bool = True,
    weight_encoder: str = WEIGHT_ENCODERS[0],
    io: str = "float",
    progress: Progress | None = None,
) -> Curve:
    """The curve of (SRAM bytes, cycles) of a model on an Ethos-U, without code generation.

    While the search builds up schedules it leaves out a choice only where a kept one with less SRAM is at most
    `epsilon` slower: 0 leaves out nothing, the default is 1/64. It does so at every operator, so that losses can add
    up. Work has a bound besides: `Curve.epsilon` is the coarsest that it took. `ethoscade.plan` is the same for any
    other device, by its description. `dead_channels`, `weight_encoder`, `io` and `progress` as for `compile`.
    Raises what it raises.
    """
    watch = Stopwatch(progress, _ALL[:3])
    _check_encoder(weight_encoder)
    target = compilation_target(
        accelerator, system_config, memory_mode, config, board, input_memory, stream_input, stream_ahead, stream_output
    )
    scheduling.resolution_of(epsilon)
    network = _prepared(model, target, dead_channels, weight_encoder, io, watch).network
    watch.begin("plan")
    curve = compiler.search(network, epsilon, watch.tick)
    watch.note(curve.summary)
    watch.end()
    return curve


def _prepared(
    model: Model,
    target: Target,
    dead_channels: bool,
    weight_encoder: str,
    io: str,
    watch: Stopwatch,
    kernels: KernelTable = OURS,
) -> Prepared:
    watch.begin("import")
    source, cut = applied(read_tflite(model), io)
    watch.note(f"'{source.name}', {len(source.operators):,} operators")
    watch.begin("encode")
    made = _made_ready(source, target, dead_channels, weight_encoder, io, cut, kernels, watch.tick)
    watch.note(made.network.summary)
    return made


def _made_ready(
    source: Graph,
    target: Target,
    dead_channels: bool,
    weight_encoder: str,
    io: str,
    borders: Borders,
    kernels: KernelTable = OURS,
    tick: ProgressCallback | None = None,
) -> Prepared:
    network = compiler.prepare(source, target, tick or no_progress, dead_channels, weight_encoder, kernels)
    return Prepared(network, io, borders, dead_channels, weight_encoder)


def _chosen(kernels: str | os.PathLike[str] | None, cmsis_nn: str | os.PathLike[str] | None) -> KernelTable:
    if kernels is None and cmsis_nn is None:
        return OURS
    from ..codegen.c_kernels import cmsis_nn as library
    from ..codegen.c_kernels import read

    if cmsis_nn is not None and not library.is_meant(kernels):
        raise ConfigError(f"cmsis_nn is the folder of kernels '{library.NAME}', which were not asked for")
    return OURS if kernels is None else read(kernels, cmsis_nn)


def _check_encoder(name: str) -> None:
    if name not in WEIGHT_ENCODERS:
        raise ConfigError(f"weight_encoder is {shown(name)}; choose {' or '.join(WEIGHT_ENCODERS)}")


def _asked(
    sram_kb: float | None, sram: str | int | None, optimise: str, epsilon: float | Fraction, line_bytes: int
) -> int | None:
    """The budget in bytes, None for none, once all that is asked has been checked."""
    check_line(line_bytes)
    budget = _budget(sram_kb, sram)
    scheduling.resolution_of(epsilon)
    if optimise not in OPTIMISATIONS:
        raise ConfigError(f"optimise is '{optimise}'; choose {', '.join(OPTIMISATIONS[:-1])} or {OPTIMISATIONS[-1]}")
    return budget


def _question(optimise: str, size_bytes: int | None = None) -> Question:
    """What "performance" and "fastest" ask of a search, within a number of bytes or of any."""
    if optimise == "fastest":
        return lambda search, tick: search.fastest(size_bytes, tick)
    return lambda search, tick: search.nearly_fastest(size_bytes, tick)


def _clamp_u64(budget: int) -> int:
    """A budget as the core counts, in 64 bits: what is more fits whatever there is."""
    return min(budget, (1 << 64) - 1)


def _budget(sram_kb: float | None, sram: str | int | None) -> int | None:
    if sram_kb is not None and sram is not None:
        raise ConfigError("give the budget once: sram_kb or sram, not both")
    if sram_kb is not None:
        return budget_of_kib(sram_kb)
    return None if sram is None else budget_of(sram)
