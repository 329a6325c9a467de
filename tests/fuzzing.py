"""Small networks whose payloads, constants and files are damaged and run. Only named errors may come out."""

from __future__ import annotations

import contextlib
import random
import re
from dataclasses import dataclass, field

import ethoscade
import numpy as np
import numpy.typing as npt
from ethoscade.codegen import tflite
from ethoscade.errors import EthoscadeError, SimulationError
from ethoscade.frontend import read_tflite
from ethoscade.run import execution, simulator
from ethoscade.testing import ModelBuilder, residual_network, tiny_conv
from ethoscade.trace.files import record_file, target_of, time_file
from ethoscade.trace.perfetto import trace
from hazard_judge import Command, commands_of
from npu_mutations import damage_bytes, damage_stream

# A damaged kernel may ask for any amount of work; what is right needs less than this.
WORK_LIMIT = 1 << 22


@dataclass
class Target:
    """A payload with its memories. Machines are used again, so that damage meets damaged memory."""

    accelerator: str
    payload: bytes
    constants: bytes
    arena_bytes: int
    commands: list[Command] = field(init=False)
    machine: simulator.Machine = field(init=False)

    def __post_init__(self) -> None:
        self.commands = commands_of(self.payload)
        self.machine = self._machine(self.constants)

    def _machine(self, constants: bytes) -> simulator.Machine:
        machine = simulator.Machine(self.accelerator, [constants, self.arena_bytes])
        machine.limit_work(WORK_LIMIT)
        machine.watch_input(1, 0, min(64, self.arena_bytes))
        return machine

    def run(self, rng: random.Random) -> str:
        """Runs one damaged input; returns how it ended, in a few words. Anything but SimulationError escapes."""
        machine, payload = self.machine, self.payload
        kind = rng.randrange(16)
        if kind == 0:
            machine = self._machine(damage_bytes(rng, self.constants)[: len(self.constants)])
        elif kind < 3:
            payload = damage_bytes(rng, payload)
        else:
            payload = damage_stream(rng, payload, self.commands)
        try:
            report = machine.run(payload)
        except SimulationError as error:
            return _summary(str(error))
        assert machine.touched_end(1) <= self.arena_bytes
        return "hazards" if report.hazards else "ran"


@dataclass
class CompiledFile:
    """A compiled .tflite file, whole: its tables, its plan, its constants and its payload are all damaged in turn."""

    data: bytes
    payload: bytes
    commands: list[Command] = field(init=False)
    inputs: dict[str, npt.NDArray[np.generic]] = field(init=False)
    tables: list[tuple[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        graph = read_tflite(self.data)
        self.commands = commands_of(self.payload)
        self.inputs = {graph.tensors[i].name: np.zeros(graph.tensors[i].shape, np.int8) for i in graph.inputs}
        large = {tensor.data.tobytes() for tensor in graph.tensors if tensor.data is not None}
        spans = sorted((self.data.index(part), self.data.index(part) + len(part)) for part in large)
        ends = [0, *(end for _, end in spans)]
        starts = [*(start for start, _ in spans), len(self.data)]
        self.tables = [(end, start) for end, start in zip(ends, starts, strict=True) if end < start]

    def damaged(self, rng: random.Random) -> bytes:
        """The file with bytes changed anywhere, in the tables around the constants, or with other commands."""
        kind = rng.randrange(4)
        if kind == 0:
            return damage_bytes(rng, self.data)
        if kind < 3:
            start, end = rng.choice(self.tables)
            return self.data[:start] + damage_bytes(rng, self.data[start:end]) + self.data[end:]
        other = damage_stream(rng, self.payload, self.commands)[: len(self.payload)]
        # OP_STOP for each command that is gone: the payload's length is the file's affair.
        other += self.payload[-4:] * ((len(self.payload) - len(other)) // 4)
        return self.data.replace(self.payload, other, 1)

    def run(self, rng: random.Random) -> str:
        """Runs and times one damaged file; returns how it ended. Anything but EthoscadeError escapes."""
        data = self.damaged(rng)
        try:
            graph = read_tflite(data)
            with contextlib.suppress(EthoscadeError):
                trace(record_file(graph, time_file(graph), target_of(graph)))
            result = execution.run_tflite(graph, self.inputs, work_limit=WORK_LIMIT)
        except EthoscadeError as error:
            return f"{type(error).__name__}: {_summary(str(error))}"
        return "hazards" if result.hazards else "ran"


def _summary(message: str) -> str:
    """The kind of an error: its words without numbers and names."""
    message = re.sub(r"'.*?'", "'#'", message, flags=re.DOTALL)
    text = message.split(": ", 1)[1] if message.startswith("command") else message
    return re.sub(r"-?\b(0x[0-9a-f]+|\d+)\b|[A-Z][A-Z0-9_]{3,}", "#", text)[:60]


def pooled() -> bytes:
    """A small network with pools, a fully connected layer and an addition."""
    b = ModelBuilder(seed=1)
    x = b.conv2d(b.input((1, 9, 7, 3)), 10, stride=2)
    x = b.add(b.depthwise(x, 3), x)
    b.fully_connected(b.reshape(b.average_pool(b.max_pool(x, 2, stride=1), 2), (1, 10 * 2 * 1)), 6)
    return b.build()


def targets() -> list[Target]:
    """The networks on several accelerators, whole and striped."""
    found = []
    for model in (pooled(), tiny_conv(), residual_network()):
        for accelerator in ("ethos-u55-256", "ethos-u55-32", "ethos-u65-256"):
            for optimise in ("performance", "size"):
                artifact = ethoscade.compile(model, accelerator=accelerator, optimise=optimise).artifact
                constants = artifact.constants + bytes(-len(artifact.constants) % 16)
                found += (
                    Target(accelerator, call.payload, constants, artifact.arena_bytes)
                    for call in artifact.calls
                    if hasattr(call, "payload")
                )
    return [target for target in found if len(target.payload) < 16384]


def compiled_files() -> list[CompiledFile]:
    """Small networks as files, with and without CPU operators."""
    found = []
    for model in (tiny_conv(), pooled(), with_cpu()):
        artifact = ethoscade.compile(model).artifact
        payload = next(call.payload for call in artifact.calls if hasattr(call, "payload"))
        found.append(CompiledFile(tflite.write(artifact), payload))
    return found


def with_cpu() -> bytes:
    """A small network whose SOFTMAX stays on the CPU, between NPU operators."""
    b = ModelBuilder(seed=2)
    x = b.softmax(b.conv2d(b.input((1, 5, 4, 3)), 6))
    b.conv2d(x, 3)
    return b.build()
