"""Every point of every frontier, compiled and run: exact, free of hazards, in the bytes and nearly the cycles promised.

    python benches/points.py [MODEL ...] [--seeds 1] [--all]

One line for each point: promised and touched bytes, output elements that differ from the reference, hazards, and the
promised cycles beside the timing model's. `--all` takes every shared model, else MODEL must name them. Exit status 3 if
a point is not exact, has a hazard or takes other bytes than promised.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from ethoscade import Compiled
from ethoscade.judge.verification import Expectation, compare, random_inputs, reference_runs
from ethoscade.targets.target import Target
from harness import SHARED_MODELS, cost_of, default_target, every_point, kib, named_models, network_of, payloads_of


@dataclass(frozen=True)
class Outcome:
    """One point, run on every seed."""

    promised_bytes: int
    touched_bytes: int
    promised_cycles: int
    timed_cycles: int
    elements: int
    mismatches: int
    hazards: int
    warnings: int

    @property
    def kept(self) -> bool:
        """Whether the point does what it promised; cycles are an estimate and do not count."""
        return self.promised_bytes == self.touched_bytes and not (self.mismatches or self.hazards or self.warnings)


def run_point(compiled: Compiled, expected: tuple[Expectation, ...], target: Target) -> Outcome:
    """Run a compiled network on one random input for each expectation, seeds from 0."""
    elements = mismatches = hazards = warnings = touched = 0
    for seed, wanted in enumerate(expected):
        result = compiled.simulate(random_inputs(compiled.source, seed))
        compared, differing, _ = compare(result.outputs, wanted.outputs)
        elements, mismatches = elements + compared, mismatches + differing
        hazards, warnings = hazards + result.hazards, warnings + len(result.warnings)
        touched = max(touched, result.arena_touched_bytes)
    timed = cost_of(payloads_of(compiled), target).cycles
    return Outcome(compiled.sram_bytes, touched, compiled.cycles, timed, elements, mismatches, hazards, warnings)


def run_model(model: Path, seeds: int, target: Target) -> list[Outcome]:
    """Prints one line for each point of a model's frontier."""
    network = network_of(model, target)
    expected = reference_runs(network.source, [random_inputs(network.source, seed) for seed in range(seeds)])
    print(f"\n{model.stem}")
    print(
        f"  {'KiB':>8}{'promised':>10}{'touched':>10}{'differ':>8}{'hazards':>8}{'promised cycles':>17}{'timed':>12}"
        f"{'ratio':>7}"
    )
    outcomes = []
    for compiled in every_point(network):
        point = run_point(compiled, expected, target)
        outcomes.append(point)
        print(
            f"  {kib(point.promised_bytes):>8}{point.promised_bytes:>10}{point.touched_bytes:>10}{point.mismatches:>8}"
            f"{point.hazards:>8}{point.promised_cycles:>17,}{point.timed_cycles:>12,}"
            f"{point.promised_cycles / point.timed_cycles:>7.3f}{'' if point.kept else '  BROKEN'}",
            flush=True,
        )
    return outcomes


def main() -> int:
    """Runs the models; 3 if any point breaks its promise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="name or path")
    parser.add_argument("--all", action="store_true", help="every shared model")
    parser.add_argument("--seeds", type=int, default=1, help="random inputs for each point (default: 1)")
    args = parser.parse_args()
    names = SHARED_MODELS if args.all else args.models
    if not names:
        parser.error("name models, or take --all")
    target, summary, broken = default_target(), [], 0
    for model in named_models(names):
        outcomes = run_model(model, args.seeds, target)
        ratios = [point.promised_cycles / point.timed_cycles for point in outcomes]
        lost = sum(not point.kept for point in outcomes)
        broken += lost
        summary.append(
            f"{model.stem}: {len(outcomes) - lost} of {len(outcomes)} points keep their promise; promised / timed "
            f"cycles {min(ratios):.3f}..{max(ratios):.3f}"
        )
    print("\n" + "\n".join(summary))
    return 3 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
