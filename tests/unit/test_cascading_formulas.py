"""The formulas of docs/cascading-model.md, written down once more, and what programs of random schedules take."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from end_to_end import network_of
from ethoscade.scheduling.problem import Problem
from ethoscade.scheduling.schedule import ComputeAt, Decision, Group, RollingBuffer, Schedule, Split, arrange
from ethoscade.scheduling.specs import InputSpec
from ethoscade.testing import ModelBuilder

Span = tuple[int, int]


def network(seed: int) -> bytes:
    """Windows on an image of rows of 64 bytes, some of whose outputs are added up later, or doubled once."""
    rng = np.random.default_rng(seed)
    builder = ModelBuilder("formulas", seed=seed)
    x = builder.input((1, int(rng.integers(6, 15)), 8, 8), name="input")
    kept = x
    for _ in range(int(rng.integers(2, 6))):
        x = builder.conv2d(x, 8, int(rng.choice([1, 3, 5])))
        if rng.random() < 0.4:
            x, kept = builder.add(kept, x), x
        elif rng.random() < 0.3 and x.shape[2] == 8:
            x = kept = builder.resize_nearest(x, (2 * x.shape[1], 16), name="doubled")
    return builder.build()


def needed(problem: Problem, read: InputSpec, rows: Span) -> Span:
    """Rows of its input that a read wants for some rows of its output, which are not none."""
    s, o = read.propagator.strides[1][1], read.propagator.offset[1]
    t, c = read.propagator.transform[1][1], read.propagator.transform[1][4]
    n = read.propagator.denominators[1]
    first = s * rows[0] + o
    last = first + t * (rows[1] - rows[0]) + c - 1
    return max(0, first // n), min(problem.tensors[read.tensor].plane[0], last // n + 1)


@dataclass
class Walk:
    """The order by demand of a network that is one group in one band, and the counts along it."""

    problem: Problem
    stripes: list[int]
    made: list[int] = field(default_factory=list)
    demands: dict[int, list[Span]] = field(default_factory=dict)
    births: list[dict[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.made = [0] * len(self.stripes)
        self.maker = {spec.outputs[0]: part for part, spec in enumerate(self.problem.specs)}
        self.heights = [self.problem.tensors[spec.outputs[0]].plane[0] for spec in self.problem.specs]

    def make(self, part: int, until: int) -> None:
        if until > self.made[part]:
            self.demands.setdefault(part, []).append((until, self.wanted(self.problem.specs[part].outputs[0])))
        while self.made[part] < until:
            rows = self.made[part], min(self.made[part] + self.stripes[part], self.heights[part])
            for read in self.problem.specs[part].inputs:
                if read.tensor in self.maker:
                    self.make(self.maker[read.tensor], needed(self.problem, read, rows)[1])
            tensor = self.problem.specs[part].outputs[0]
            is_born = part == len(self.stripes) - 1 or self.wanted(tensor) >= rows[0]
            before = {t: self.wanted(t) for t in range(len(self.problem.tensors))}
            self.made[part] = rows[1]
            if is_born:
                self.births.append(self.live(part, before))

    def wanted(self, tensor: int) -> int:
        """The first row of a tensor that is still to be read; beyond all where none is."""
        starts = [
            needed(self.problem, read, (self.made[part], self.heights[part]))[0]
            for part, spec in enumerate(self.problem.specs)
            for read in spec.inputs
            if read.tensor == tensor and self.made[part] < self.heights[part]
        ]
        return min(starts, default=1 << 30)

    def live(self, part: int, wanted: dict[int, int]) -> dict[str, int]:
        """Rows in use while a Part makes its stripe, which reads what was wanted before; -1 for a rolling buffer."""
        found = {}
        for number, tensor in enumerate(self.problem.tensors):
            maker = self.maker.get(number)
            if maker is None:
                found[tensor.name] = max(0, tensor.plane[0] - wanted[number])
            elif maker == len(self.stripes) - 1:
                found[tensor.name] = self.made[maker]
            else:
                found[tensor.name] = -1 if maker == part or wanted[number] < self.made[maker] else 0
        return found

    def rows(self, part: int) -> int:
        """Rows of the rolling buffer of a Part's output."""
        h, alive = self.stripes[part], 0
        for until, oldest in self.demands[part]:
            last = (-(-until // h) - 1) * h
            alive = max(alive, min(last + h, self.heights[part]) - min(oldest, last))
        return min(-(-alive // h) * h, self.heights[part])


@pytest.mark.parametrize("seed", range(30))
def test_programs_take_what_the_formulas_say(seed: int) -> None:
    problem = network_of(network(seed)).problem
    rng = np.random.default_rng(seed)
    last = len(problem.specs) - 1
    even = [2 if spec.name == "doubled" else 1 for spec in problem.specs]
    stripes = [int(rng.integers(1, 7)) * multiple for multiple in even]
    decisions: list[Decision] = [Split(part, "height", extent) for part, extent in enumerate(stripes)]
    for part in range(last):
        decisions += [ComputeAt(part, last, "height"), RollingBuffer(part, "height")]
    program = arrange(problem, Schedule((Group(0, last, tuple(decisions)),))).program

    walk = Walk(problem, stripes)
    walk.make(last, walk.heights[last])
    line = {tensor.name: tensor.plane[1] * tensor.pixel_bytes for tensor in problem.tensors}
    made = [problem.tensors[spec.outputs[0]].name for spec in problem.specs]
    rolling = {name: line[name] * walk.rows(part) for part, name in enumerate(made[:-1])}
    sizes = {
        problem.tensors[problem.ids[buffer.tensor]].name: buffer.size_bytes
        for buffer in program.buffers
        if buffer.kind == "rolling" and buffer.tensor is not None
    }
    assert sizes == rolling
    peak = max(
        sum(rolling[name] if rows < 0 else line[name] * rows for name, rows in live.items()) for live in walk.births
    )
    steps = range(len(program.steps))
    assert peak == max(sum(buffer.live_bytes(step) for buffer in program.buffers) for step in steps)
