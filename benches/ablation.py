"""What each tuned figure of the search is good for: what is lost without it.

    python benches/ablation.py [MODEL ...] [--random N] [--accelerator NAME] [--only NAME ...] [--neutral]
                                [--markdown]

Each figure is set to a neutral value, at which what it does is not done, and to twice and half of its own; the rest
keeps its default. Per setting, as geometric means over the networks, relative to the defaults: the floor; the cycles of
the frontier within fixed budgets (the floor, and each quarter of what the fastest schedule takes); the same of the
network that loses most; the cycles of the answers to these budgets, asked one by one; CPU seconds of the searches. More
than 1 is worse than the defaults. Networks are twelve public models of full size, and `--random` generated ones.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness  # noqa: F401
from ethoscade import EthoscadeError, _core, testing
from ethoscade.frontend import read_tflite
from ethoscade.ir import Graph
from ethoscade.pipeline.compiler import Network, prepare
from ethoscade.scheduling import problem
from ethoscade.targets.target import load_target
from model_files import model_folder

# The last six have heads on several planes, or join planes of several sizes.
MODELS = (
    "mobilenet_v1_1.0_224_int8_rand",
    "mobilenet_v2_1.0_224_ptq",
    "mobilenetv2_160_035",
    "mobilefacenet",
    "hps_89ops",
    "tinyengine_mcunetv2_large",
    "pose_detection_128",
    "movenet_singlepose_192",
    "yolov8n_192",
    "ssd_mobilenet_v1_psoc",
    "dbface_256",
    "yolo_face_detect",
)
LARGE = 1 << 31

# Name, the default, and the value at which what it does is not done.
FIGURES: dict[str, tuple[int, int]] = {
    "max_points": (12, 1),
    "max_fork": (32, 1),
    "refinement": (4, 1),
    "open_group_bound": (1, 0),
    "hidden_fineness": (4, 1),
    "limit_halvings": (3, 0),
    "placing.moves": (80, 0),
    "placing.floor_moves": (2_000, 0),
    "placing.floor_tries": (8, 0),
    "placing.rounds": (2, 0),
    "placing.fill_margin": (64, 1),
    "placing.fragmentation": (64, 1),
    "filling.rounds": (3, 0),
    "lean.resolution": (2, 0),
    "lean.max_points": (4, 1),
    "visits": (128, 1),
}
SLICING = {
    "SLICE_BYTES": (32 * 1024, 16 * 1024),
    "WHOLE_BYTES": (24 * 1024, LARGE),
    "MOST_SLICES": (16, 1),
    "LEAST_SLICE_BYTES": (4 * 1024, LARGE),
    "SLICED_SHARE": (8, 2),
}
SHARES = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Found:
    """A frontier, the cycles of the answers to some budgets, and the CPU seconds that all took."""

    points: tuple[tuple[int, int], ...]
    answers: tuple[int, ...]
    seconds: float

    def cycles_within(self, budget: int) -> int:
        """Cycles of the fastest schedule within a budget in bytes; of the one with the least SRAM where none is."""
        return cycles_within(self.points, budget)

    @property
    def budgets(self) -> tuple[int, ...]:
        """The floor, and each quarter of what the fastest schedule takes."""
        floor, most = self.points[0][0], self.points[-1][0]
        return tuple(sorted({floor, *(max(floor, int(most * share)) for share in SHARES)}))


def cycles_within(points: Sequence[tuple[int, int]], budget: int) -> int:
    """Cycles of the fastest point within a budget in bytes; of the one with the least SRAM where none is."""
    return next((cycles for size, cycles in reversed(points) if size <= budget), points[0][1])


def search(network: Network, tuning: Sequence[tuple[Any, int]] = (), budgets: Sequence[int] = ()) -> Found:
    """The frontier with some figures set otherwise, and the answers to some budgets; those of the frontier if empty."""
    began = time.process_time()
    asked = _core.Search(network.problem.core, tuning=tuning)
    found = Found(_points(asked.frontier()), (), 0.0)
    answers = tuple(cycles_within(_points(asked.within(size)), size) for size in budgets or found.budgets)
    return Found(found.points, answers, time.process_time() - began)


def _points(frontier: _core.Frontier) -> tuple[tuple[int, int], ...]:
    return tuple((proposal.sram_bytes, proposal.cycles) for proposal in frontier.proposals)


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean; 1 of none."""
    return math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1))


def compared(before: Sequence[Found], after: Sequence[Found]) -> tuple[float, ...]:
    """Floor, cycles at fixed budgets, those of the worst network, answers and seconds, relative to those before."""
    pairs = list(zip(before, after, strict=True))
    floors = [now.points[0][0] / was.points[0][0] for was, now in pairs]
    cycles = [mean([now.cycles_within(size) / was.cycles_within(size) for size in was.budgets]) for was, now in pairs]
    answers = [mean([b / a for a, b in zip(was.answers, now.answers, strict=True)]) for was, now in pairs]
    seconds = sum(now.seconds for now in after) / max(sum(was.seconds for was in before), 1e-9)
    return mean(floors), mean(cycles), max(cycles), mean(answers), seconds


def settings(names: Sequence[str], neutral_only: bool) -> Iterator[tuple[str, str, int]]:
    """Figure, which value of it, and that value."""
    for name in names:
        default, neutral = FIGURES[name]
        values = (
            {"neutral": neutral} if neutral_only else {"neutral": neutral, "half": default // 2, "twice": 2 * default}
        )
        told: set[int] = {default}
        for what, value in values.items():
            if value not in told:
                told.add(value)
                yield name, what, value


@contextmanager
def sliced_by(name: str, value: int) -> Iterator[None]:
    """A figure of the encoding of constants set otherwise."""
    known = getattr(problem, name)
    setattr(problem, name, value)
    try:
        yield
    finally:
        setattr(problem, name, known)


def networks(models: Sequence[Path], count: int, accelerator: str) -> list[Callable[[], Network]]:
    """What prepares each network that can be searched."""
    target = load_target(accelerator)

    def prepared(graph: Graph) -> Callable[[], Network]:
        return lambda: prepare(graph, target)

    found = []
    for model in models:
        try:
            found.append(prepared(read_tflite(model)))
        except EthoscadeError as error:
            print(f"{model.stem} is left out: {error}", file=sys.stderr)
    for seed in range(count):
        make = prepared(read_tflite(testing.random_network(seed)))
        # Networks that run on the CPU alone take no cycles.
        if search(make()).points[0][1] > 0:
            found.append(make)
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--accelerator", default="ethos-u55-256")
    parser.add_argument("--only", nargs="*", default=[*FIGURES, *SLICING])
    parser.add_argument("--neutral", action="store_true", help="neutral values alone")
    parser.add_argument("--markdown", action="store_true")
    asked = parser.parse_args()
    folder = model_folder()
    models = asked.models or ([folder / f"{name}.tflite" for name in MODELS] if folder else [])
    makers = networks(models, asked.random, asked.accelerator)
    ready = [make() for make in makers]
    before = [search(network) for network in ready]
    row = (
        "| {} | {} | {} | {:.4f} | {:.4f} | {:.4f} | {:.4f} | {:.2f} |"
        if asked.markdown
        else "{:26} {:8} {:>11} {:8.4f} {:8.4f} {:8.4f} {:8.4f} {:6.2f}"
    )
    if asked.markdown:
        print("| figure | setting | value | floor | cycles | worst | answers | seconds |")
        print("| --- | --- | --: | --: | --: | --: | --: | --: |")
    for name, what, value in settings([name for name in asked.only if name in FIGURES], asked.neutral):
        after = [search(network, [(name, value)], was.budgets) for network, was in zip(ready, before, strict=True)]
        print(row.format(name, what, value, *compared(before, after)), flush=True)
    for name in (name for name in asked.only if name in SLICING):
        with sliced_by(name, SLICING[name][1]):
            after = [search(make(), (), was.budgets) for make, was in zip(makers, before, strict=True)]
        print(row.format(name, "neutral", SLICING[name][1], *compared(before, after)), flush=True)


if __name__ == "__main__":
    main()
