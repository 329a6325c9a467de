"""Random networks, compiled at several budgets for every accelerator and run: exact, free of hazards, as promised.

    python benches/random_networks.py [--seeds 0:334] [--accelerators NAME ...]

Each network is compiled at its floor, halfway between floor and fastest, and without a budget. Outputs are
compared with two judges: LiteRT in a process of its own, and `ethoscade.judge.reference`. Bytes promised,
placed and touched must be equal. One line for each point that is not right, then the counts. Exit status 3 if there is
one. A sweep is resumed by naming the seeds that are left.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ethoscade.errors import EthoscadeError
from ethoscade.frontend import read_tflite
from ethoscade.ir import Graph
from ethoscade.judge import reference
from ethoscade.judge.verification import Array, compare, random_inputs, reference_runs
from ethoscade.pipeline.compiled import Curve
from ethoscade.pipeline.compiler import carry_out, prepare, search
from ethoscade.scheduling.schedule import Proposal
from ethoscade.target import ACCELERATORS, load_target
from ethoscade.testing import random_network

OWN = "ethoscade's reference"


@dataclass
class Tally:
    """What a sweep has seen. `judges` counts networks by who judged them, `faults` are sentences."""

    networks: int = 0
    points: int = 0
    elements: int = 0
    operators: Counter[str] = field(default_factory=Counter)
    judges: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def report(self) -> str:
        """The counts, in a few lines."""
        lines = [f"{self.networks} networks, {self.points} points, {self.elements} output elements compared"]
        lines += [f"  judged by {judge}: {count} networks" for judge, count in sorted(self.judges.items())]
        lines.append("  operators: " + ", ".join(f"{kind} {count}" for kind, count in sorted(self.operators.items())))
        lines.append(f"  wrong: {len(self.faults)}")
        return "\n".join(lines)


def budgets(curve: Curve) -> Iterator[tuple[str, Proposal]]:
    """The floor, the point halfway between in bytes, and the fastest; fewer where they are the same."""
    floor, fastest = curve.points[0][0], curve.points[-1][0]
    halfway = next(i for i, (size, _) in enumerate(curve.points) if 2 * size >= floor + fastest)
    last = len(curve.points) - 1
    named = {0: "floor", halfway: "halfway", last: "no budget"}
    return ((name, curve.proposals[index]) for index, name in sorted(named.items()))


def sweep(seed: int, accelerators: Sequence[str], tally: Tally) -> None:
    """Compile and run the network of a seed; whatever is wrong becomes a sentence in `tally.faults`."""
    tally.networks += 1
    source = read_tflite(random_network(seed))
    tally.operators.update(op.kind for op in source.operators)
    inputs = random_inputs(source, seed)
    try:
        (judged,) = reference_runs(source, [inputs])
        judges = {judged.judge: judged.outputs, OWN: reference.run(source, inputs).outputs}
    except EthoscadeError as error:
        tally.faults.append(f"seed {seed}: no judge: {error}")
        return
    tally.judges.update(judges.keys())
    for accelerator in accelerators:
        try:
            tally.faults += [
                f"seed {seed}, {accelerator}, {fault}" for fault in _faults(source, inputs, accelerator, judges, tally)
            ]
        except Exception as error:  # noqa: BLE001 - whatever a network meets is a fault to count
            tally.faults.append(f"seed {seed}, {accelerator}: {type(error).__name__}: {error}")


def _faults(
    source: Graph,
    inputs: dict[str, Array],
    accelerator: str,
    judges: dict[str, dict[str, Array]],
    tally: Tally,
) -> Iterator[str]:
    network = prepare(source, load_target(accelerator))
    curve = search(network)
    for name, proposal in budgets(curve):
        compiled = carry_out(network, curve, proposal)
        result = compiled.simulate(inputs)
        tally.points += 1
        for judge, wanted in judges.items():
            compared, differing, largest = compare(result.outputs, wanted)
            tally.elements += compared
            if differing:
                yield f"{name}: {differing} of {compared} elements differ from {judge}, by up to {largest:g}"
        if result.hazards or result.warnings:
            yield f"{name}: {result.hazards} hazards, warnings {result.warnings[:3]}"
        sizes = (proposal.sram_bytes, compiled.artifact.arena_bytes, result.arena_touched_bytes)
        if len(set(sizes)) > 1:
            yield f"{name}: bytes promised, placed and touched are {sizes}"


def _range(text: str) -> range:
    first, _, last = text.partition(":")
    return range(int(first), int(last)) if last else range(int(first), int(first) + 1)


def main() -> int:
    """Runs the seeds; 3 if any point is not right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=_range, default=range(334), help="FIRST:END or one seed (default: 0:334)")
    parser.add_argument("--accelerators", nargs="+", choices=sorted(ACCELERATORS), default=sorted(ACCELERATORS))
    args = parser.parse_args()
    tally, told = Tally(), 0
    for seed in args.seeds:
        sweep(seed, args.accelerators, tally)
        for fault in tally.faults[told:]:
            print(fault, flush=True)
        told = len(tally.faults)
        if (seed + 1) % 100 == 0:
            print(f"up to seed {seed}: {tally.points} points, {told} wrong", file=sys.stderr, flush=True)
    print(tally.report())
    return 3 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
