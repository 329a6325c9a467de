"""What a compilation returns: figures, the frontier, the schedule, and the ways to write, run and verify it.

Owns the result types of the public interface. Computes nothing that the pipeline has not decided.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy.typing as npt

from ..analysis.arrival import Arrival, Departure, arrival_of, departure_of
from ..analysis.cpu_time import CpuTime, cpu_time_of
from ..analysis.explanation import Explanation, Peak, explain, peak_of
from ..analysis.table import KindOnCpu, OperatorSummary, OperatorTable, StreamTotals, kinds_on_cpu, table_of, totals_of
from ..codegen.artifact import Artifact, CpuCall, NpuCall
from ..codegen.layout import ALIGNMENT_BYTES, CACHE_LINE_BYTES, whole_lines
from ..errors import CodegenError, ConfigError
from ..ir import Graph
from ..lowering.npu import NpuGraph
from ..rewrites import DeadChannels
from ..scheduling.decisions import Schedule
from ..scheduling.problem import Problem
from ..scheduling.program import Arrangement, CallOperator, Feed, Program, Take
from ..targets.cpus import CpuDescription
from ..targets.target import Target
from ..util.arguments import Range, checked, shown
from ..util.frozen import FrozenMap
from ..util.progress import Progress, Stopwatch
from ..util.records import dataclass
from .borders import Borders
from .curve import Curve as Curve
from .interface import InterfaceTensor, interface_of

if TYPE_CHECKING:
    from ..analysis.addresses import Address
    from ..codegen.micro_arena import MicroArena
    from ..judge.verification import Verification
    from ..run.execution import ExecutionResult
    from ..run.streaming import StreamedRun
    from ..run.timing import TimingReport
    from ..trace.record import Record

MOST_SEEDS = 10_000
"""Most random inputs of one verification: all of them are kept at once."""


@dataclass(frozen=True, eq=False)
class Compiled:
    """A compiled network. Sizes are bytes; `sram_bytes` is all that the inference keeps in SRAM at once.

    That, the budget and the frontier count arena and constants in whole lines of `line_bytes`, each.

    `dead_channels` tells of each operator with weights what became of its output channels that are constant, or unread.
    `arrangement` is the program and where its buffers lie. `floor` is the step of the schedule with the least SRAM at
    which most bytes are alive: what runs there sets the floor, or its upper bound where `curve.floor_is_bound`.
    """

    artifact: Artifact = field(repr=False)
    source: Graph = field(repr=False)
    target: Target
    budget_bytes: int | None
    curve: Curve = field(repr=False)
    npu: NpuGraph = field(repr=False)
    problem: Problem = field(repr=False)
    schedule: Schedule = field(repr=False)
    arrangement: Arrangement = field(repr=False)
    floor: Peak = field(repr=False)
    operators: tuple[OperatorSummary, ...] = field(repr=False)
    seconds: Mapping[str, float] = field(repr=False)
    dead_channels: tuple[DeadChannels, ...] = field(default=(), repr=False)
    io: str = "float"
    borders: Borders = field(default=Borders((), FrozenMap({})), repr=False)
    line_bytes: int = ALIGNMENT_BYTES

    def __repr__(self) -> str:
        cpu = len(self.cpu_operators)
        where = f"{len(self.operators) - cpu} operators on the NPU, {cpu} on the CPU"
        figures = f"{self.sram_bytes:,} bytes of SRAM, {self.cycles:,} cycles, {where}"
        return f"<Compiled {shown(self.name)} for {self.target.accelerator.name}: {figures}>"

    def _repr_html_(self) -> str:
        from ..analysis.facts import facts_of
        from ..page import notebook

        return notebook.network(
            facts_of(self, self.curve.points, self.curve.knee if self.curve.is_whole else None, self.cpu_time())
        )

    @property
    def name(self) -> str:
        """The model's name."""
        return self.artifact.name

    @property
    def program(self) -> Program:
        """What is done, step by step."""
        return self.arrangement.program

    @property
    def buffer_offsets(self) -> tuple[int, ...]:
        """The first byte of each buffer of `program`: in the arena, or in the fast memory."""
        return tuple(self.arrangement.offsets)

    @property
    def pools(self) -> dict[str, int]:
        """Bytes by pool: the arena, fast memory where there is one, the read-only constants, the command streams."""
        streams = sum(len(call.payload) for call in self.artifact.calls if isinstance(call, NpuCall))
        fast = {} if self.artifact.fast_bytes is None else {"fast": self.artifact.fast_bytes}
        constants = len(self.artifact.constants)
        return {"arena": self.artifact.arena_bytes, **fast, "constants": constants, "commands": streams}

    @property
    def sram_bytes(self) -> int:
        """SRAM in use: the arena, and the constants where the memory mode keeps them in SRAM, in whole lines each.

        Where the arena lies in DRAM it is the fast memory alone.
        """
        return self._sram_in_lines(self.line_bytes)

    def _sram_in_lines(self, line_bytes: int) -> int:
        pools = self.pools
        tensors = pools["fast" if self.target.has_cache else "arena"]
        kept = [tensors, *([pools["constants"]] if self.target.constants_in_sram else [])]
        return sum(whole_lines(size, line_bytes) for size in kept)

    def _check_lines_of_c(self) -> None:
        needed = self._sram_in_lines(max(CACHE_LINE_BYTES, self.line_bytes))
        if self.budget_bytes is not None and needed > self.budget_bytes:
            raise CodegenError(
                f"'{self.name}' as C takes whole cache lines, {needed} bytes, and its budget is {self.budget_bytes}; "
                f"compile it with line_bytes={CACHE_LINE_BYTES}, so that the budget counts them"
            )

    @property
    def workspace_bytes(self) -> int:
        """Bytes of the arena that C sources declare: the arena's in whole cache lines, of 32 bytes or `line_bytes`."""
        return whole_lines(self.artifact.arena_bytes, max(CACHE_LINE_BYTES, self.line_bytes))

    @property
    def flash_bytes(self) -> int:
        """Read-only bytes: command streams, and the constants unless they are in SRAM.

        Without an NPU the constants that C kernels read.
        """
        if not self.target.has_npu:
            from ..codegen import c_kernels

            return c_kernels.constant_bytes(self.artifact.graph)
        return self.pools["commands"] + (0 if self.target.constants_in_sram else self.pools["constants"])

    @property
    def cycles(self) -> int:
        """NPU cycles by the cost model; CPU operators are not counted."""
        return next(cycles for size, cycles in reversed(self.curve.points) if size <= self.sram_bytes)

    @property
    def milliseconds(self) -> float:
        """The NPU's time for one inference: `cycles` at the system configuration's clock. The CPU's is not counted."""
        return 1000 * self.cycles / self.target.core_clock_hz if self.cycles else 0.0

    @property
    def inferences_per_second(self) -> float:
        """The inverse of `milliseconds`; 0 where nothing runs on the NPU, as nothing is known then."""
        return 1000 / self.milliseconds if self.cycles else 0.0

    @property
    def utilisation(self) -> float:
        """Share of the NPU's multiply-accumulates, its units times `cycles`, that its operators need: 0 to 1."""
        needed = sum(op.macs for op in self.operators if op.where == "npu")
        return needed / (self.cycles * self.target.accelerator.macs) if self.cycles else 0.0

    @property
    def frontier(self) -> tuple[tuple[int, int], ...]:
        """(SRAM bytes, cycles) of the Pareto-efficient choices found, ascending in SRAM.

        With `optimise="balanced"` it is the whole frontier, else the points that the answer needed (`Curve`).
        """
        return self.curve.points

    @property
    def cascades(self) -> int:
        """Groups of operators that run interleaved."""
        return sum(group.is_cascade for group in self.schedule.groups)

    @property
    def npu_commands(self) -> int:
        """NPU operations and DMA copies in the command streams."""
        return sum(not isinstance(step, CallOperator | Feed | Take) for step in self.program.steps)

    @property
    def interface(self) -> tuple[InterfaceTensor, ...]:
        """What the caller brings and gets: the inputs in their order, then the outputs."""
        return interface_of(self.source, self.borders)

    @property
    def cpu_operators(self) -> tuple[OperatorSummary, ...]:
        """Operators that stay on the CPU, with the reason for each."""
        return tuple(op for op in self.operators if op.where == "cpu")

    @property
    def micro_warnings(self) -> tuple[str, ...]:
        """Why TensorFlow Lite Micro could not load or run the `.tflite`: CPU operators without a kernel there."""
        from ..codegen import micro_kernels

        return micro_kernels.warnings(self.artifact)

    def micro_arena(self) -> MicroArena:
        """The arena that TensorFlow Lite Micro wants for the `.tflite`, its own structures included, on a Cortex-M.

        Raises `CodegenError` where no such file can be written.
        """
        from ..codegen import micro_arena, tflite
        from ..frontend import read_tflite

        return micro_arena.of_file(read_tflite(tflite.write(self.artifact)))

    @property
    def kinds_on_cpu(self) -> tuple[KindOnCpu, ...]:
        """`cpu_operators` by kind, those with the largest share of the multiply-accumulates first, then the most."""
        return kinds_on_cpu(self.operators)

    def table(self) -> OperatorTable:
        """A row for each operator: cycles and what bounds them, bytes by memory, SRAM, MACs; the rows add up."""
        return table_of(self.artifact, self.target, self.npu, self.arrangement, self.operators, self.sram_bytes)

    @property
    def arrival(self) -> Arrival | None:
        """How a streamed input arrives, and how long the NPU works meanwhile; None without one."""
        return arrival_of(self.artifact, self.target)

    @property
    def departure(self) -> Departure | None:
        """How a streamed output leaves, and how long the NPU works meanwhile; None without one."""
        return departure_of(self.artifact, self.target)

    def stream_totals(self) -> StreamTotals:
        """The cycles and the memories of `table()`, without its rows."""
        return totals_of(self.artifact, self.target)

    @checked()
    def cpu_time(self, cpu: str | CpuDescription | None = None) -> CpuTime:
        """What the operators on the CPU cost on a core such as "cortex-m55@400MHz": a range, not in `milliseconds`.

        The clock is that of the NPU's configuration unless told; "/plain" behind the name means compiled C instead of
        CMSIS-NN (docs/cpu-time.md). Without a core nothing is counted. Raises `ConfigError`.
        """
        return cpu_time_of(self.artifact.graph, self.operators, self.target, cpu)

    def addresses(self) -> tuple[Address, ...]:
        """Where everything lies: each buffer of the arena, by address and time, then the constants, by address."""
        from ..analysis.addresses import addresses_of

        return addresses_of(self.artifact, self.target, self.npu, self.arrangement)

    def explain(self) -> Explanation:
        """Every group with its stripes and buffers, and what is alive at the network's peak; `str()` of it is text."""
        return explain(self.artifact.graph, self.npu, self.problem, self.schedule, self.arrangement)

    @property
    def live_bytes(self) -> int:
        """Most bytes of the arena in use at one step: what no placement of this program goes below."""
        return peak_of(self.artifact.graph, self.npu, self.arrangement).live_bytes

    @checked()
    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        frontier: Curve | None = None,
        cpu: str | CpuDescription | None = None,
    ) -> str:
        """One HTML page about the network, written to `path` where that is given; returns its text (docs/report.md).

        Nothing is fetched when it is opened. `frontier` is the curve that it shows, by default the compilation's own,
        which has the points that its answer needed: `ethoscade.frontier` makes a whole one. Operators on the CPU are
        estimated on the core `cpu`, as by `cpu_time`. Raises `CodegenError`, or `ConfigError` for an unknown core.
        """
        from ..analysis.facts import facts_of
        from ..page import document, network_page
        from ..util import files

        curve = frontier or self.curve
        facts = facts_of(self, curve.points, curve.knee if curve.is_whole else None, self.cpu_time(cpu))
        text = document.render(network_page.network_page(facts))
        if path is not None:
            files.write_whole(path, text.encode())
        return text

    @checked()
    def plot(self, path: str | os.PathLike[str]) -> Path:
        """The SRAM map as a picture, in the format of the path's suffix (docs/report.md); returns the path.

        Raises `ConfigError` if matplotlib (extra `report`) is missing, `CodegenError` if it cannot be written.
        """
        from ..analysis.facts import arena_map
        from ..page import arena_plot

        return arena_plot.plot(arena_map(self), f"{self.name}, {self.target.accelerator.name}", self.budget_bytes, path)

    @checked()
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the network as a .tflite with `ethos-u` operators for TensorFlow Lite Micro.

        Whole or not at all, through links, with the permissions of what it replaces. Raises `CodegenError`.
        """
        from ..codegen import tflite
        from ..util import files

        return files.write_whole(path, tflite.write(self.artifact))

    @checked()
    def write_c(
        self,
        folder: str | os.PathLike[str],
        *,
        module_name: str | None = None,
        workspace: str = "internal",
        workspace_io: bool = False,
        weights: str = "auto",
        executor: str = "aot",
    ) -> dict[str, Path]:
        """Write C99 sources with the entry function `tvmgen_<module_name>_run`; returns the files by name.

        `module_name` is the model's name in lower case unless given. With `workspace="pools"` callers hand the memory
        to every run by a struct, "internal" brings an array. With `workspace_io` inputs and outputs stay in the
        workspace, where `tvmgen_<mod>_map_inputs` and `_map_outputs` tell. `weights` come as a C "array", by "incbin"
        from a .bin file (which "auto" chooses above 256 KiB), or from the caller's "pool". With `executor="graph"` a
        run can go call by call, and any live tensor be read in between. docs/firmware.md has more.

        `<mod>.sha256` beside them lists their hashes: files of two compilations do not fit it. Raises `ConfigError` for
        a choice that there is not, `CodegenError` and `UnsupportedOperatorError` for what cannot be written as C, nor
        within the budget.
        """
        from ..codegen import c_source
        from ..codegen.c.options import COptions

        self._check_lines_of_c()
        options = COptions(module_name, workspace, workspace_io, weights, executor=executor)
        return c_source.write(self.artifact, Path(folder), options)

    @checked()
    def write_mlf(
        self,
        path: str | os.PathLike[str],
        *,
        module_name: str | None = None,
        workspace: str = "internal",
        workspace_io: bool = False,
        weights: str = "auto",
        executor: str = "aot",
    ) -> Path:
        """Write a Model Library Format archive (or a folder, if the path does not end in .tar).

        Choices as for `write_c`, but "auto" weights are C: consumers compile nothing else. Beside a folder,
        `<folder>.sha256` lists the hashes of its files. Raises as `write_c`.
        """
        from ..codegen import mlf
        from ..codegen.c.options import COptions

        self._check_lines_of_c()
        options = COptions(module_name, workspace, workspace_io, weights, executor=executor)
        return mlf.write([(self.artifact, options)], Path(path))

    @checked()
    def write_tflite_c(
        self, folder: str | os.PathLike[str], *, module_name: str | None = None, weights: str = "auto"
    ) -> dict[str, Path]:
        """Write the .tflite for firmware that links it: `model_<module_name>.h` and its bytes; returns the files.

        They come as a C "array", or by "incbin" from the .tflite beside it, which "auto" chooses above 256 KiB.
        `model_<module_name>.sha256` lists the hashes. Raises `ConfigError` for other choices, and `CodegenError`.
        """
        from ..codegen import bundle, c_source
        from ..codegen.c.options import COptions
        from ..util import files

        options = COptions(module_name, weights=weights)
        manifest = f"model_{c_source.module_name(self.artifact, options)}{files.MANIFEST_SUFFIX}"
        return files.write_together(folder, bundle.tflite_c(self.artifact, options), manifest)

    @checked()
    def write_raw(self, path: str | os.PathLike[str]) -> Path:
        """Write a raw .npz: Vela's layout for a network that is one NPU call, else a program (docs/raw.md).

        Returns the path. Raises `CodegenError` for a CPU operator whose options cannot be written.
        """
        from ..codegen import raw

        return raw.write(self.artifact, Path(path))

    @checked()
    def simulate(self, inputs: Mapping[str, npt.ArrayLike], *, progress: Progress | None = None) -> ExecutionResult:
        """Run the network's very bytes on the simulated NPU; inputs by name, in their quantised type.

        `progress` as for `compile`, here and below.
        """
        return self.simulate_steps([inputs], progress=progress)[0]

    @checked()
    def simulate_steps(
        self, steps: Sequence[Mapping[str, npt.ArrayLike]], *, progress: Progress | None = None
    ) -> tuple[ExecutionResult, ...]:
        """As `simulate` on each of `steps`, one after the other: what variables hold after one is there in the next."""
        from ..run.execution import run_artifact_steps

        return run_artifact_steps(self.artifact, steps, progress=progress)

    @checked()
    def stream(self, inputs: Mapping[str, npt.ArrayLike] | None = None) -> StreamedRun:
        """The network on the simulated NPU, whose rows the caller hands over or takes; a context manager.

        `inputs` are arrays by tensor name, where the input is not streamed. Raises `ConfigError` for wrong ones, and
        for a network that was compiled without `stream_input` and `stream_output`.
        """
        from ..run.streaming import StreamedRun

        return StreamedRun(self.artifact, inputs)

    @checked()
    def timing(self, rules: Mapping[str, int] | None = None) -> tuple[tuple[str, TimingReport], ...]:
        """What each NPU call costs on the target, by its name, under the timing model's `rules` (docs/timing.md).

        `cycles` is the planner's figure; this is the referee's. Kernels and transfers bear their operators' names.
        """
        from ..codegen import provenance
        from ..run.timing import simulate_timing

        calls = [call for call in self.artifact.calls if isinstance(call, NpuCall)]
        labels = provenance.short([call.operators for call in calls])
        return tuple(
            (call.name, simulate_timing(call.payload, self.target, names, rules))
            for call, names in zip(calls, labels, strict=True)
        )

    @checked()
    def record(self, cpu: str | CpuDescription | None = None) -> Record:
        """One inference on record: operations in time with cascades and rows, CPU operators, memory in use.

        CPU operators take the middle of what `cpu_time(cpu)` says; without a core nothing. Raises `ConfigError`.
        """
        from .recording import middle_microseconds, record_compiled

        estimates = middle_microseconds(self.cpu_time(cpu), self.cpu_operators)
        parts = (self.npu, self.problem, self.schedule, self.program)
        return record_compiled(self.artifact, self.target, *parts, self.timing(), estimates)

    @checked()
    def trace(self, path: str | os.PathLike[str], cpu: str | CpuDescription | None = None) -> Path:
        """Write `record(cpu)` for ui.perfetto.dev (docs/traces.md). Raises `CodegenError` if it cannot be written."""
        from ..trace.perfetto import write_trace

        return write_trace(self.record(cpu), path)

    @checked()
    def write_debug_database(self, path: str | os.PathLike[str]) -> Path:
        """Write Vela's debug database of what `save` writes, as XML (docs/traces.md). Raises `CodegenError`."""
        from ..trace.debug_database import render
        from ..util import files
        from .debugging import debug_database

        return files.write_whole(path, render(debug_database(self.artifact, self.source, self.npu, self.program)))

    @checked()
    def verify(
        self,
        seeds: Annotated[int, Range(1, MOST_SEEDS)] = 3,
        target: str | None = None,
        runs: Annotated[int, Range(1, MOST_SEEDS)] | None = None,
        *,
        progress: Progress | None = None,
    ) -> Verification:
        """Compare every output element with the reference on `seeds` random inputs.

        On each seed the network is reset and then run `runs` times in a row, on other inputs every time; all are
        compared. By default once, and three times a network that keeps state. `target` is "simulator", or "c" for the
        emitted C built with the system's compiler and run on the host, which is the default where there is no NPU to
        simulate. Raises `ConfigError` for less than one input or
        more than 10,000, `VerificationError` if the reference (extra `verify`) or the compiler is missing.
        """
        from ..run import judgement

        runners = {"simulator": judgement.on_simulator, "c": judgement.in_c}
        if target is None:
            target = "simulator" if self.target.has_npu else "c"
        if target not in runners:
            raise ConfigError(f"cannot verify on {shown(target)}; choose simulator or c")
        constant_bytes = len(self.artifact.constants) if self.target.constants_in_sram else 0
        watch = Stopwatch(progress, ("verify",))
        watch.begin("verify")
        check = runners[target](self.artifact, self.source, seeds, constant_bytes, runs, watch.tick)
        watch.note(f"'{self.name}', {check.seeds} seeds, {check.mismatches:,} of {check.elements:,} elements differ")
        watch.end()
        return check


__all__ = ["Compiled", "CpuCall", "Curve", "OperatorSummary"]
