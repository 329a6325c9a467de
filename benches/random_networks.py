"""Random networks, compiled at several budgets for every accelerator and run: exact, free of hazards, as promised.

    python benches/random_networks.py [--seeds 0:2000] [--accelerators NAME ...] [--seconds S] [--state FILE]

Networks are of all kinds that the generator draws, which are all that the reader understands. Each is compiled at its
floor, halfway between floor and fastest, and without a budget; so it is with its inputs in flash, and with one that
arrives row by row, if no operator on the CPU reads them; for an Ethos-U65 with its arena in DRAM, with as much fast
memory as it wants and with half of the least; of every other one that has them, float inputs and outputs are the
caller's business; one with state runs several times in a row. Outputs are compared with two judges:
LiteRT in a process of its own, and `ethoscade.judge.reference`, which knows no islands of floats. Networks with an
operator that LiteRT refuses, or of which no reference defines a result, are named. Bytes promised, placed and touched
must be equal. One line for each point that is not right, then the counts, those of operators by kind. Exit status 3 if
a point is not right. `--state` keeps the counts after each network and goes on from there; `--seconds` begins no
network after so many.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import seeds
from ethoscade.errors import ConfigError, EthoscadeError, UnsupportedOperatorError
from ethoscade.frontend import operators, read_tflite
from ethoscade.ir import Graph
from ethoscade.judge import reference
from ethoscade.judge.verification import Array, compare, random_inputs, reference_steps, steps_of
from ethoscade.pipeline.borders import INTERFACES, applied
from ethoscade.pipeline.compiled import Compiled, Curve
from ethoscade.pipeline.compiler import carry_out, prepare, search, within_arena
from ethoscade.pipeline.network import Network, with_cache
from ethoscade.pipeline.searches import constants_in_sram, explore
from ethoscade.scheduling.schedule import Proposal
from ethoscade.targets.target import ACCELERATORS, Streaming, Target, load_target
from ethoscade.testing import random_network

OWN = "ethoscade's reference"
IN_DRAM = ("Ethos_U65_High_End", "Dedicated_Sram")
"""A system and a memory mode with the arena in DRAM and fast memory beside it."""


@dataclass
class Tally:
    """What a sweep has seen so far, seeds below `next_seed`.

    `judges` counts networks by who judged them, `operators` those of the networks by kind. `on_npu` are what the
    rewrites left of them for the NPU, and `channels` the dead ones that were removed, in each compilation once.
    `faults` and `unjudged`, networks of which LiteRT or nobody has a result, are sentences.
    """

    next_seed: int = 0
    networks: int = 0
    points: int = 0
    elements: int = 0
    channels: int = 0
    operators: Counter[str] = field(default_factory=Counter)
    on_npu: Counter[str] = field(default_factory=Counter)
    judges: Counter[str] = field(default_factory=Counter)
    unjudged: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def report(self) -> str:
        """The counts, in a few lines."""
        lines = [f"{self.networks} networks, {self.points} points, {self.elements} output elements compared"]
        lines += [f"  judged by {judge}: {count} networks" for judge, count in sorted(self.judges.items())]
        for kind, count in sorted(self.operators.items()):
            lines.append(f"  {kind:<28}{count:>7} drawn {self.on_npu[kind]:>7} compiled for the NPU")
        if never := sorted(set(operators.READERS) - self.operators.keys()):
            lines.append(f"  never drawn: {', '.join(never)}")
        lines.append(f"  dead channels removed: {self.channels}")
        lines += [f"  not judged: {why}" for why in self.unjudged]
        lines.append(f"  wrong: {len(self.faults)}")
        return "\n".join(lines)

    def to_json(self) -> str:
        """The counts as a file keeps them."""
        return json.dumps(vars(self), indent=1)

    @staticmethod
    def from_json(text: str) -> Tally:
        """The counts that `to_json` wrote."""
        held = json.loads(text)
        counters = {name: Counter(held[name]) for name in ("operators", "on_npu", "judges")}
        return Tally(**{**held, **counters})


def budgets(curve: Curve) -> Iterator[tuple[str, int, Proposal]]:
    """The floor, the point halfway between in bytes, and the fastest, with bytes; fewer where they are the same."""
    floor, fastest = curve.points[0][0], curve.points[-1][0]
    halfway = next(i for i, (size, _) in enumerate(curve.points) if 2 * size >= floor + fastest)
    last = len(curve.points) - 1
    named = {0: "floor", halfway: "halfway", last: "no budget"}
    return ((name, curve.points[index][0], curve.proposals[index]) for index, name in sorted(named.items()))


def sweep(seed: int, accelerators: Sequence[str], tally: Tally) -> None:
    """Compile and run the network of a seed; whatever is wrong becomes a sentence in `tally.faults`."""
    tally.networks, tally.next_seed = tally.networks + 1, seed + 1
    source, _ = applied(read_tflite(random_network(seed, floats=True)), INTERFACES[seed % 2])
    tally.operators.update(op.kind for op in source.operators)
    steps = [random_inputs(source, seed, step) for step in range(steps_of(source, None))]
    judges = _judges(source, steps, seed, tally)
    tally.judges.update(judges.keys())
    for name, target in targets(accelerators, seed).items():
        try:
            tally.faults += [f"seed {seed}, {name}, {fault}" for fault in _faults(source, steps, target, judges, tally)]
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a network meets is a fault to count, panics too
            tally.faults.append(f"seed {seed}, {name}: {type(error).__name__}: {error}")


def targets(accelerators: Sequence[str], seed: int = 0) -> dict[str, Target]:
    """What a network is compiled for, by name: the accelerators, and those that have one between two memories.

    The seed draws how many rows of an input arrive at once, whether they do so while the NPU works, and how many of an
    output are taken at once.
    """
    found = {name: load_target(name) for name in accelerators}
    between = (name for name in accelerators if found[name].accelerator.product == "u65")
    external = {f"{name} with inputs in flash": replace(of, inputs=of.constants) for name, of in found.items()}
    streaming = Streaming(1 + seed % 5, seed % 2 == 0)
    streamed = {f"{name} with {streaming}": replace(of, streaming=streaming) for name, of in found.items()}
    rows = 1 + seed % 3
    taken = {f"{name} with {rows} rows taken": replace(of, taken_rows=rows) for name, of in found.items()}
    both = {f"{name} and {rows} rows taken": replace(of, taken_rows=rows) for name, of in streamed.items()}
    return (
        found
        | external
        | streamed
        | taken
        | both
        | {f"{name} with DRAM": load_target(name, *IN_DRAM) for name in between}
    )


def made_for(network: Network, seed: int) -> Iterator[tuple[str, int, Compiled]]:
    """A network compiled in the ways that are tried: name, SRAM that the search promised, what came of it.

    Whichever order is best, the seed draws one, and whether it is by slices of channels.
    """
    network = network.order(seed // 8 % (2 * len(network.orders)))
    curve = within_arena(network, explore(network.problem, constants_in_sram(network)))
    if not network.target.has_cache:
        for name, promised, proposal in budgets(curve):
            yield name, promised, carry_out(network, curve, proposal)
        return
    yield "all fast memory", curve.points[-1][0], carry_out(network, curve, curve.proposals[-1])
    half = with_cache(network, curve.floor_bytes // 2)
    curve = search(half)
    yield "half of the least fast memory", curve.points[-1][0], carry_out(half, curve, curve.proposals[-1])


def _judges(
    source: Graph, steps: Sequence[dict[str, Array]], seed: int, tally: Tally
) -> dict[str, list[Mapping[str, Array]]]:
    """What each judge makes of the inputs, step by step."""
    found: dict[str, list[Mapping[str, Array]]] = {}
    try:
        (judged,) = reference_steps(source, [steps])
        found[judged[0].judge] = [run.outputs for run in judged]
    except EthoscadeError as error:
        tally.unjudged.append(f"seed {seed}: {error}")
    with contextlib.suppress(UnsupportedOperatorError):
        found[OWN] = [run.outputs for run in reference.run_steps(source, steps)]
    return found


def _faults(
    source: Graph,
    steps: Sequence[Mapping[str, Array]],
    target: Target,
    judges: Mapping[str, Sequence[Mapping[str, Array]]],
    tally: Tally,
) -> Iterator[str]:
    try:
        network = prepare(source, target)
    except ConfigError:
        # An operator on the CPU reads the input or makes the output, or it is both, or one of several.
        if target.inputs is None and target.streaming is None and target.taken_rows is None:
            raise
        return
    for index in network.partition.npu_operators:
        tally.on_npu[network.graph.operators[index].kind] += 1
    tally.channels += sum(one.removed for one in network.dead_channels)
    for name, promised, compiled in made_for(network, tally.next_seed - 1):
        tally.points += 1
        try:
            results = list(compiled.simulate_steps(steps))
        except UnsupportedOperatorError as error:
            # Scales of which no reference defines a result: nobody plays the operator on the CPU.
            tally.unjudged.append(f"seed {tally.next_seed - 1}, {target.accelerator.name}: {error}")
            return
        for run, result in enumerate(results):
            place = f"{name}, run {run}" if run else name
            for judge, wanted in judges.items():
                compared, differing, largest = compare(result.outputs, wanted[run])
                tally.elements += compared
                if differing:
                    yield f"{place}: {differing} of {compared} elements differ from {judge}, by up to {largest:g}"
            if result.hazards or result.warnings:
                yield f"{place}: {result.hazards} hazards, warnings {result.warnings[:3]}"
            if target.has_cache:
                sizes = (promised, compiled.artifact.fast_bytes, result.fast_touched_bytes)
            else:
                sizes = (promised, compiled.artifact.arena_bytes, result.arena_touched_bytes)
            if len(set(sizes)) > 1:
                yield f"{place}: bytes promised, placed and touched are {sizes}"


def main() -> int:
    """Runs the seeds; 3 if any point is not right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    seeds.add_arguments(parser, 2000, "network")
    parser.add_argument("--accelerators", nargs="+", choices=sorted(ACCELERATORS), default=sorted(ACCELERATORS))
    args = parser.parse_args()
    tally = seeds.tally_of(args.state, Tally, Tally.from_json)
    of_seed = partial(sweep, accelerators=args.accelerators, tally=tally)
    for fault in seeds.sweep_all(args.seeds, of_seed, tally, args.seconds, args.state):
        print(fault, flush=True)
    print(tally.report())
    if tally.next_seed < args.seeds.stop:
        print(f"  stopped ahead of seed {max(tally.next_seed, args.seeds.start)}; {args.seeds.stop} is the end")
    return 3 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
