"""Small networks whose payloads, constants and files are damaged and run. Only named errors may come out."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

import ethoscade
from ethoscade import simulator
from ethoscade.errors import SimulationError
from ethoscade.testing import ModelBuilder, residual_network, tiny_conv
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


def _summary(message: str) -> str:
    """The kind of an error: its words without numbers and names."""
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
                for call in artifact.calls:
                    if hasattr(call, "payload"):
                        found.append(Target(accelerator, call.payload, constants, artifact.arena_bytes))
    return [target for target in found if len(target.payload) < 16384]
