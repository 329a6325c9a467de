"""Hazards: right streams have none, and every wait that is removed or weakened and matters is seen.

What matters is decided by `hazard_judge`, which shares nothing with the simulator.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import ethoscade
import pytest
from codegen_support import models_folder, vela_file
from ethoscade.codegen.artifact import Artifact
from ethoscade.errors import SimulationError
from ethoscade.frontend import read_tflite
from ethoscade.run import execution, simulator
from ethoscade.testing import ModelBuilder, keyword_spotting, random_network, residual_network, tiny_conv
from hazard_judge import BLOCKDEP, DMA_WAIT, IFM_BASE, KERNEL_WAIT, OFM_BASE, Command, Judge, commands_of, payload_with
from npu import random_inputs

SIZE, LEGACY = ("--optimise", "Size"), ("--debug-force-legacy-core",)
U65 = ("--accelerator-config", "ethos-u65-256")
U65_DUAL = ("--accelerator-config", "ethos-u65-512")
U55_128 = ("--accelerator-config", "ethos-u55-128")
REAL = ("kws_ref_int8", "micro_speech", "resnet8_int8", "person_detect")
SCORE = 0.95


@dataclass(frozen=True)
class Stream:
    """A payload with the memories that it needs. The arena is region 1; region 2 is the arena unless it has a size."""

    accelerator: str
    payload: bytes
    constants: bytes
    arena_bytes: int
    fast_bytes: int | None = None

    def hazards(self, payload: bytes | None = None, **assumptions: bool) -> tuple[simulator.Hazard, ...]:
        fast = (1, 0, self.arena_bytes) if self.fast_bytes is None else self.fast_bytes
        machine = simulator.Machine(self.accelerator, [self.constants, self.arena_bytes, fast])
        for region in (1, 2):
            machine.mark_initialised(region, 0, machine.size(region) or 0)
        machine.assume(**assumptions)
        return machine.run(payload or self.payload).hazards

    def judge(self) -> Judge:
        return Judge(self.payload, self.accelerator, {2: 1} if self.fast_bytes is None else {})


@cache
def vela_stream(name: str, *options: str) -> Stream:
    graph = read_tflite(vela_file((models_folder() / f"{name}.tflite").read_bytes(), *options), name)
    program = execution._program_of(graph)
    (step,) = (s for s in program.calls if isinstance(s, execution.NpuStep))
    return Stream(program.accelerator, step.payload, program.constants, program.arena_bytes, program.fast_bytes)


def branches() -> bytes:
    """A network whose pool, addition and concatenated sizes make kernels of few jobs meet."""
    b = ModelBuilder(seed=5)
    x = b.conv2d(b.input((1, 24, 20, 3)), 24, stride=2)
    y = b.depthwise(x)
    z = b.add(b.conv2d(y, 24, 1), x)
    b.fully_connected(b.reshape(b.average_pool(b.max_pool(z), 5), (1, 24)), 40)
    return b.build()


OURS: dict[str, Callable[[], bytes]] = {
    "tiny": tiny_conv,
    "residual": residual_network,
    "keywords": lambda: keyword_spotting(16),
    "branches": branches,
    "random_3": lambda: random_network(3),
    "random_8": lambda: random_network(8),
    "random_21": lambda: random_network(21),
}
CHIPS = ("ethos-u55-256", "ethos-u55-128", "ethos-u55-32", "ethos-u65-256")


@cache
def own_streams(name: str, accelerator: str, optimise: str) -> tuple[Stream, ...]:
    return streams_of(ethoscade.compile(OURS[name](), accelerator=accelerator, optimise=optimise).artifact, accelerator)


def streams_of(artifact: Artifact, accelerator: str) -> tuple[Stream, ...]:
    constants = artifact.constants + bytes(-len(artifact.constants) % 16)
    return tuple(
        Stream(accelerator, call.payload, constants, artifact.arena_bytes)
        for call in artifact.calls
        if hasattr(call, "payload")
    )


@pytest.mark.parametrize("options", [(), LEGACY, SIZE, SIZE + LEGACY, U65, U65_DUAL + LEGACY, U55_128], ids=" ".join)
@pytest.mark.parametrize("name", REAL)
def test_streams_of_vela_have_no_hazards(name: str, options: tuple[str, ...]) -> None:
    graph = read_tflite(vela_file((models_folder() / f"{name}.tflite").read_bytes(), *options), name)
    result = execution.run_tflite(graph, random_inputs(graph))
    assert [hazard.message for report in result.reports for hazard in report.hazards] == []


@pytest.mark.parametrize("optimise", ["performance", "size"])
@pytest.mark.parametrize("accelerator", CHIPS)
@pytest.mark.parametrize("name", OURS)
def test_our_streams_have_no_hazards(name: str, accelerator: str, optimise: str) -> None:
    compiled = ethoscade.compile(OURS[name](), accelerator=accelerator, optimise=optimise)
    result = execution.run_artifact(compiled.artifact, random_inputs(compiled.source))
    assert [hazard.message for report in result.reports for hazard in report.hazards] == []


@pytest.mark.parametrize("optimise", ["performance", "size"])
@pytest.mark.parametrize("name", OURS)
def test_our_streams_rely_on_nothing_undocumented(name: str, optimise: str) -> None:
    """Under the cautious reading of what BLOCKDEP counts, too."""
    for stream in own_streams(name, "ethos-u55-256", optimise):
        assert stream.hazards(blockdep_spans_kernels=True, sub_kernels_are_jobs=False) == ()


def test_a_cautious_reading_finds_more() -> None:
    stream = vela_stream("resnet8_int8", *SIZE)
    assert stream.hazards() == ()
    found = stream.hazards(blockdep_spans_kernels=True)
    assert {hazard.kind for hazard in found} == {"read_after_write"}


# Mutants.


@dataclass(frozen=True)
class Mutant:
    """A stream with one wait changed, and the change in the judge's terms."""

    kind: str
    payload: bytes
    waits: dict[int, int | None]
    blockdeps: dict[int, int]


def mutants(stream: Stream) -> Iterator[Mutant]:
    """Every wait removed, every wait for one command less, every BLOCKDEP raised."""
    judge = stream.judge()
    commands = commands_of(stream.payload)
    for index, command in enumerate(commands):
        if not command.is_operation or command.code not in (DMA_WAIT, KERNEL_WAIT):
            continue
        name = "KERNEL_WAIT" if command.code == KERNEL_WAIT else "DMA_WAIT"
        without = payload_with(stream.payload, commands[:index] + commands[index + 1 :])
        yield Mutant(f"{name} removed", without, {index: None}, {})
        weaker = Command((command.words[0] + (1 << 16),))
        changed = payload_with(stream.payload, [*commands[:index], weaker, *commands[index + 1 :]])
        yield Mutant(f"{name} weakened", changed, {index: command.parameter + 1}, {})
    for index, value in judge.blockdeps.items():
        for raised in range(value + 1, 4):
            around = [Command((BLOCKDEP | v << 16,)) for v in (raised, value)]
            changed = [*commands[:index], around[0], commands[index], around[1], *commands[index + 1 :]]
            yield Mutant("BLOCKDEP raised", payload_with(stream.payload, changed), {}, {index: raised})


@dataclass
class Score:
    """Mutants that matter, those of them that were seen, and those that were seen though they do not matter."""

    matter: int = 0
    seen: int = 0
    false_alarms: int = 0
    total: int = 0

    def add(self, matters: bool, seen: bool) -> None:
        self.total += 1
        self.matter += matters
        self.seen += matters and seen
        self.false_alarms += seen and not matters


def score(streams: list[Stream]) -> Score:
    result = Score()
    by_kind: dict[str, Score] = {}
    for stream in streams:
        judge = stream.judge()
        assert judge.hazards({}, {}) == set()
        for mutant in mutants(stream):
            matters = bool(judge.hazards(mutant.waits, mutant.blockdeps))
            seen = bool(stream.hazards(mutant.payload))
            result.add(matters, seen)
            by_kind.setdefault(mutant.kind, Score()).add(matters, seen)
    for kind, part in sorted(by_kind.items()):
        print(f"{kind}: {part.total} mutants, {part.matter} matter, {part.seen} seen, {part.false_alarms} false alarms")
    print(f"mutation score {result.seen}/{result.matter} = {result.seen / max(1, result.matter):.1%}")
    return result


def check(streams: list[Stream], least: int) -> None:
    result = score(streams)
    assert result.matter >= least
    assert result.seen > SCORE * result.matter
    assert result.false_alarms == 0


@pytest.mark.parametrize("options", [(), LEGACY, U65, SIZE + LEGACY], ids=" ".join)
@pytest.mark.parametrize("name", ["kws_ref_int8", "resnet8_int8", "micro_speech"])
def test_mutants_of_velas_streams(name: str, options: tuple[str, ...]) -> None:
    check([vela_stream(name, *options)], least=1)


@pytest.mark.parametrize("accelerator", ["ethos-u55-256", "ethos-u65-256"])
def test_mutants_of_our_streams(accelerator: str) -> None:
    names = ("tiny", "branches")
    check([s for name in names for kind in ("performance", "size") for s in own_streams(name, accelerator, kind)], 20)


@pytest.mark.parametrize("accelerator", ["ethos-u55-256", "ethos-u65-256"])
@pytest.mark.parametrize(("name", "kib"), [("kws_ref_int8", 15.6), ("resnet8_int8", 35), ("person_detect", None)])
def test_mutants_of_our_streams_of_real_networks(name: str, kib: float | None, accelerator: str) -> None:
    """Bricks, copies issued early and rolling buffers among them."""
    model = models_folder() / f"{name}.tflite"
    check(list(streams_of(ethoscade.compile(model, sram_kb=kib, accelerator=accelerator).artifact, accelerator)), 10)


# Hazards that need no concurrency, on copies written by hand.


def copies(*steps: tuple[int, int, int] | tuple[str, int]) -> bytes:
    """A payload of copies (source, destination, length) inside the arena, and waits ("kernel" or "dma", left)."""
    commands: list[Command] = [Command((304 | 1 << 16,)), Command((305 | 1 << 16,))]
    for step in steps:
        if len(step) == 2:
            commands.append(Command(((KERNEL_WAIT if step[0] == "kernel" else DMA_WAIT) | step[1] << 16,)))
        else:
            commands += [Command((0x4000 | code, value)) for code, value in zip((48, 49, 50), step, strict=True)]
            commands.append(Command((16,)))
    header = struct.pack("<8I", 0x31504F43, 0x00100001, 0x10003008, 0x10060000, 5, 5, 5, 0)
    return payload_with(header, [*commands, Command((0xFFFF0000,))])


def machine(written: int = 256) -> simulator.Machine:
    found = simulator.Machine("ethos-u65-256", [bytes(16), 256])
    found.write(1, 0, bytes(written))
    return found


def test_copies_that_overlap_in_time() -> None:
    (hazard,) = machine().run(copies((0, 64, 32), (80, 128, 32))).hazards
    assert (hazard.kind, hazard.first, hazard.second) == ("read_after_write", 5, 9)
    assert (hazard.region, hazard.start, hazard.end) == (1, 80, 96)
    assert "command 9 (DMA source)" in hazard.message
    assert [h.kind for h in machine().run(copies((64, 0, 32), (128, 80, 32))).hazards] == ["write_after_read"]
    assert [h.kind for h in machine().run(copies((64, 0, 32), (128, 16, 32))).hazards] == ["write_after_write"]
    assert machine().run(copies((0, 64, 32), ("dma", 0), (80, 128, 32))).hazards == ()
    # The second copy waits for the oldest of two.
    assert machine().run(copies((0, 64, 32), (192, 160, 32), (80, 128, 32))).hazards == ()


def test_an_input_that_is_overwritten_before_its_last_read() -> None:
    npu = machine()
    npu.watch_input(1, 0, 64)
    wait = ("dma", 0)
    (hazard,) = npu.run(copies((0, 128, 32), wait, (192, 16, 16), wait, (0, 128, 64))).hazards
    assert (hazard.kind, hazard.first, hazard.second) == ("input_overwritten", 10, 15)
    assert (hazard.region, hazard.start, hazard.end) == (1, 16, 32)
    npu = machine()
    npu.watch_input(1, 0, 64)
    assert npu.run(copies((0, 128, 64), wait, (192, 16, 16), wait, (16, 128, 16))).hazards == ()
    with pytest.raises(SimulationError, match="256 bytes"):
        npu.watch_input(1, 200, 300)


def elements(kind: str) -> bytes:
    """One operation on the elements of a tensor of 512 bytes."""
    b = ModelBuilder(seed=3)
    x = b.input((1, 512))
    b.add(x, x) if kind == "ADD" else b.unary(kind, x)
    return b.build()


@pytest.mark.parametrize("kind", ["ABS", "LOGISTIC", "ADD"])
def test_a_kernel_writes_over_what_it_reads_exactly_or_not_at_all(kind: str) -> None:
    artifact = ethoscade.compile(elements(kind), optimise="fastest").artifact
    (stream,) = streams_of(artifact, "ethos-u55-256")
    commands = commands_of(stream.payload)
    addressed = [(at, command) for at, command in enumerate(commands) if len(command.words) == 2]
    (source,) = (command for _, command in addressed if command.code == IFM_BASE)
    ((at, made),) = ((at, command) for at, command in addressed if command.code == OFM_BASE)
    assert source.words[1] == made.words[1], "results lie where their elements lay"
    for away in (0, 1, 8, 16, 64, 511, 512, 600):
        moved = Command((made.words[0], source.words[1] + away))
        payload = payload_with(stream.payload, [*commands[:at], moved, *commands[at + 1 :]])
        found = replace(stream, arena_bytes=2048).hazards(payload)
        # An addition of a tensor to itself reads it twice.
        kinds = ["write_after_read"] * (2 if kind == "ADD" else 1) if 0 < away < 512 else []
        assert [hazard.kind for hazard in found] == kinds, away
        assert all(hazard.first == hazard.second and hazard.end - hazard.start == 512 - away for hazard in found)


def test_bytes_that_nobody_wrote_are_a_hazard_once_a_kernel_reads_them() -> None:
    artifact = ethoscade.compile(tiny_conv()).artifact
    (stream,) = own_streams("tiny", "ethos-u55-256", "performance")
    npu = simulator.Machine(stream.accelerator, [stream.constants, stream.arena_bytes])
    hazards = npu.run(stream.payload).hazards
    assert {hazard.kind for hazard in hazards} == {"read_of_unwritten"}
    assert hazards[0].first is None
    source = artifact.graph.inputs[0]
    assert hazards[0].start >= artifact.offsets[source]
    # A copy hands the state of its bytes on and is no reader itself.
    npu = machine(written=16)
    assert npu.run(copies((0, 64, 32))).hazards == ()
    assert npu.find_uninitialised(1, 64, 96) == 80
