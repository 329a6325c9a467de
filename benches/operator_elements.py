"""Every operator that the NPU runs, alone and in cascades: drawn, compiled, run, held to the judges; elements counted.

    python benches/operator_elements.py [--seeds 0:40] [--kinds KIND ...] [--seconds S] [--state FILE] [--write]

For each kind, each type that its family takes and each seed, an operator of drawn attributes, shapes and quantisations
is compiled twice, for the accelerators in turn: alone, at its fastest, and between operators that copy its images, all
of them one cascade, each cut into stripes of a few rows or columns. Both run on noise and on the ends of the type.
Outputs are compared with LiteRT's or TensorFlow Lite Micro's kernels, whoever decides. One line for each fault, then
the table; `--write` writes it to docs/operator-coverage.md, if there is no fault. Exit status 3 if there is one.
`--state` keeps the counts after each seed and goes on from there; `--seconds` begins no seed after so many.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "unit"))

import numpy as np
import seeds
from ethoscade.codegen.artifact import Artifact
from ethoscade.frontend import read_tflite
from ethoscade.ir import QUANTISED, DType, Graph
from ethoscade.judge.judges import litert_lacks, micro_decides
from ethoscade.judge.verification import Array, compare, random_inputs
from ethoscade.lowering import FAMILIES
from ethoscade.lowering.constraints import FeatureMaps
from ethoscade.lowering.npu import NpuOperation
from ethoscade.pipeline.compiler import Network, carry_out, emit, prepare, search
from ethoscade.run.execution import run_artifact
from ethoscade.scheduling.program import Program, Stripe
from ethoscade.scheduling.schedule import Group, Schedule, Split, arrange
from ethoscade.targets.target import ACCELERATORS, load_target
from ethoscade.testing import ModelBuilder, Value
from ethoscade.testing.recorder import UNQUANTISED
from reference_support import drawn_operator, litert_values
from test_reference_micro import micro_outputs

TABLE = Path(__file__).resolve().parents[1] / "docs" / "operator-coverage.md"
BORDER = "border"
POSITIVE = frozenset({"RSQRT", "SQRT"})
"""Kinds whose kernels end the inference over what is not positive."""
HEAD = """# What operators were compared on

Written by `python benches/operator_elements.py --write`; do not edit. Operators of drawn attributes, shapes and
quantisations, each compiled and run on the simulator: alone, and in a cascade, between operators that copy images.
They run on noise and on the ends of their type, on {accelerators} in turn.
Every element equals that of LiteRT's reference kernels, or of TensorFlow Lite Micro's where these decide; {total}
elements in all. What is drawn beyond a family's limits stays on the CPU and is not counted. The last columns are of
operators between others, in a cascade: how many are made in several stripes, and how many in one, and why.

| operator | type | judge | drawn | on the NPU | elements, alone | elements, in stripes | in stripes | in one piece |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


class Between(ModelBuilder):
    """Copies each network input, and what the last operator makes, where they are images.

    With `shows` the first copies are outputs as well: nothing is folded into who makes them.
    """

    shows = False

    def input(self, shape: Sequence[int], **options: object) -> Value:
        """A network input, copied if it is an image."""
        found = self._copied(super().input(shape, **options))  # type: ignore[arg-type]
        if self.shows and found.name.startswith(BORDER):
            self.output(found)
        return found

    def build(self) -> bytes:
        """The file, its outputs copied where they are images."""
        for index in self._operators[-1].outputs:
            made = self._tensors[index]
            assert made.dtype is not None, "what an operator makes has a type"
            kept = Value(index, made.name, made.shape, made.dtype, made.quantisation or UNQUANTISED)
            self.output(self._copied(kept))
        return super().build()

    def _copied(self, x: Value) -> Value:
        if len(x.shape) != 4 or x.dtype not in QUANTISED:
            return x
        return self.max_pool(x, 1, name=f"{BORDER}{x.index}")


class Shown(Between):
    """As `Between`, with what the operator reads among the outputs."""

    shows = True


@dataclass
class Count:
    """What was seen of one kind and type: operators drawn, run by the NPU and cut into stripes, elements compared.

    `pieces` counts why operators between others are made in one piece.
    """

    drawn: int = 0
    refused: int = 0
    run: int = 0
    cut: int = 0
    whole: int = 0
    striped: int = 0
    judges: Counter[str] = field(default_factory=Counter)
    pieces: Counter[str] = field(default_factory=Counter)


@dataclass
class Tally:
    """The counts by kind and type, of seeds below `next_seed`, and faults as sentences."""

    next_seed: int = 0
    counts: dict[str, Count] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        """The counts as a file keeps them."""
        return json.dumps(
            {**vars(self), "counts": {name: vars(count) for name, count in self.counts.items()}}, indent=1
        )

    @staticmethod
    def from_json(text: str) -> Tally:
        """The counts that `to_json` wrote."""
        held = json.loads(text)
        for count in held["counts"].values():
            count.update(judges=Counter(count["judges"]), pieces=Counter(count["pieces"]))
        return Tally(**{**held, "counts": {name: Count(**count) for name, count in held["counts"].items()}})

    def page(self) -> str:
        """The table."""
        lines = [_line(name, count) for name, count in sorted(self.counts.items())]
        total = sum(count.whole + count.striped for count in self.counts.values())
        return HEAD.format(accelerators=", ".join(sorted(ACCELERATORS)), total=f"{total:,}") + "\n".join(lines) + "\n"


def _line(name: str, count: Count) -> str:
    kind, dtype = name.split()
    why = "; ".join(f"{number}: {reason}" for reason, number in sorted(count.pieces.items()))
    judges = ", ".join(sorted(count.judges)) or ("no kernel" if count.refused < count.drawn else "")
    figures = (count.drawn, count.run, count.whole, count.striped, count.cut)
    return f"| {' | '.join([kind, dtype, judges, *(f'{figure:,}' for figure in figures), why])} |"


def types_of(kind: str) -> tuple[DType, ...]:
    """The types of feature maps that a kind's family takes."""
    found = [limit.types for limit in FAMILIES[kind].takes if isinstance(limit, FeatureMaps)]
    return tuple(dtype for dtype in QUANTISED if all(dtype in types for types in found))


# --- judges ----------------------------------------------------------------------------------------------------------


def judged(graph: Graph, inputs: Sequence[Mapping[str, Array]]) -> tuple[str, list[dict[str, Array]]] | None:
    """Who decides, and what it makes of the inputs: Micro where LiteRT rounds otherwise or takes no such operator.

    None where neither has a kernel.
    """
    micro = any(micro_decides(graph, op) or litert_lacks(graph, op) for op in graph.operators)
    for judge in ("Micro",) if micro else ("LiteRT", "Micro"):
        try:
            return judge, [JUDGES[judge](graph, given) for given in inputs]
        except (RuntimeError, ValueError):
            continue
    return None


def _by_litert(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    values = litert_values(graph, inputs)
    return {graph.tensors[index].name: values[index] for index in graph.handed_out}


def _by_micro(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    made = zip(graph.handed_out, micro_outputs(graph.source, inputs), strict=True)
    return {graph.tensors[index].name: value.reshape(graph.tensors[index].shape) for index, value in made}


JUDGES: Mapping[str, Callable[[Graph, Mapping[str, Array]], dict[str, Array]]] = {
    "LiteRT": _by_litert,
    "Micro": _by_micro,
}


def ends(graph: Graph, seed: int) -> dict[str, Array]:
    """Inputs of the ends of their type and of what lies around their zero points."""
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for tensor in (graph.tensors[index] for index in graph.given):
        low, high = tensor.dtype.limits
        zero = 0 if tensor.quantisation is None else tensor.quantisation.zero_point
        values = np.clip([low, low + 1, zero - 1, zero, zero + 1, high - 1, high], low, high)
        found[tensor.name] = rng.choice(values, tensor.shape).astype(tensor.dtype.numpy)
    return found


def _positive(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs, none of them below or at zero."""
    zeros = {graph.tensors[index].name: graph.tensors[index].quantisation for index in graph.inputs}
    return {name: np.maximum(value, (q.zero_point if (q := zeros[name]) else 0) + 1) for name, value in inputs.items()}


# --- sweep -----------------------------------------------------------------------------------------------------------


def sweep(kind: str, dtype: DType, seed: int, tally: Tally) -> None:
    """Draw one operator, and compile and run it alone and between others."""
    name = sorted(ACCELERATORS)[seed % len(ACCELERATORS)]
    count = tally.counts.setdefault(f"{kind} {dtype.value}", Count())
    count.drawn += 1
    for builder in (ModelBuilder, Shown if seed % 2 else Between):
        source = read_tflite(drawn_operator(kind, seed, dtype, builder=builder))
        try:
            network = prepare(source, load_target(name))
            if network.partition.cpu_operators:
                count.refused += builder is ModelBuilder
                return
            inputs = [random_inputs(source, 3 * seed), ends(source, seed)]
            if kind in POSITIVE:
                inputs = [_positive(source, given) for given in inputs]
            found = judged(source, inputs)
            if found is None:
                return
            judge, wanted = found
            count.judges[judge] += 1
            if builder is ModelBuilder:
                curve = search(network)
                count.whole += _compared(carry_out(network, curve, curve.proposals[-1]).artifact, inputs, wanted)
                count.run += 1
                continue
            placement = arrange(network.problem, _in_stripes(network, 1 + seed % 3))
            program = placement.program
            artifact = emit(network, placement)
            elements = _compared(artifact, inputs, wanted)
            if _is_cut(network, program):
                count.cut += 1
                count.striped += elements
            else:
                count.pieces[_why_in_one_piece(network)] += 1
        except Exception as error:  # noqa: BLE001 - whatever an operator meets is a fault to count
            place = "alone" if builder is ModelBuilder else "between others"
            tally.faults.append(f"{kind} {dtype.value}, seed {seed}, {name}, {place}: {type(error).__name__}: {error}")


def _compared(artifact: Artifact, inputs: Sequence[Mapping[str, Array]], wanted: Sequence[Mapping[str, Array]]) -> int:
    """Elements of the operator's outputs that were compared.

    Raises `AssertionError` for elements that differ, hazards and warnings.
    """
    total = 0
    for given, expected in zip(inputs, wanted, strict=True):
        result = run_artifact(artifact, given)
        elements, differing, largest = compare(result.outputs, expected)
        assert not differing, f"{differing} of {elements} elements differ, by up to {largest:g}"
        assert not result.hazards and not result.warnings, f"{result.hazards} hazards, warnings {result.warnings[:1]}"
        # What is shown of the operator's inputs is none of its elements.
        total += sum(value.size for value in expected.values()) - _shown(artifact.graph)
    return total


def _shown(graph: Graph) -> int:
    read = {index for op in graph.operators for index in op.inputs}
    return sum(math.prod(graph.tensors[index].shape) for index in graph.handed_out if index in read)


def _in_stripes(network: Network, extent: int) -> Schedule:
    """All of a network in one cascade, each Part in stripes of so many rows at most, or columns if it makes one row."""
    problem, operations = network.problem, network.npu.operations
    own = [operations[number].ofm.plane for number in _own(network)]
    axis: Literal["height", "width"] = "height" if any(height > 1 for height, _ in own) else "width"
    cuts = []
    for part, spec in enumerate(problem.specs):
        most = problem.tensors[spec.outputs[0]].plane[0 if axis == "height" else 1]
        wanted = min(extent, -(-most // 2))
        factor = max(operations[number].upscale.factor for number in problem.operations(part))
        cuts.append(Split(part, axis, min(-(-wanted // factor) * factor, most)))
    return Schedule((Group(0, len(cuts) - 1, tuple(cuts)),))


def _own(network: Network) -> list[int]:
    """The operations of the operator that was drawn, by number."""
    return [n for n, operation in enumerate(network.npu.operations) if not operation.name.startswith(BORDER)]


def _is_cut(network: Network, program: Program) -> bool:
    """Whether some operation of the operator that was drawn runs stripe by stripe."""
    stripes = Counter(step.stage for step in program.steps if isinstance(step, Stripe))
    return len(network.problem.specs) > 1 and any(stripes[number] > 1 for number in _own(network))


def _why_in_one_piece(network: Network) -> str:
    """Why an operator is not cut into stripes, from what its operations make and read."""
    operations = [network.npu.operations[number] for number in _own(network)]
    if not operations:
        return "its neighbours do its work"
    if len(network.problem.specs) == 1:
        return "nothing beside it is an image"
    if all(max(operation.ofm.plane) == 1 for operation in operations):
        return "it makes one pixel"
    if any(_reads_all(operation) for operation in operations):
        return "a row or column reads all rows and columns"
    return "it makes too little for two stripes"


def _reads_all(operation: NpuOperation) -> bool:
    """Whether one row, and one column, of what it makes needs all that it reads."""
    _, height, width, depth = (axis.extent for axis in operation.compute.axes)
    stripes = ((1, 1, width, depth, 1), (1, height, 1, depth, 1))
    view, found = operation.ifm, operation.propagators()[0]

    def reach(axis: int, stripe: tuple[int, ...]) -> int:
        read = sum(a * b for a, b in zip(found.transform[axis], stripe, strict=True))
        return -(-read // found.denominators[axis])

    whole = [all(reach(axis, one) >= view.shape[axis - 1] for axis in (1, 2)) for one in stripes]
    return view.strides is not None or (all(whole) and max(view.shape[:2]) > 1)


def main() -> int:
    """Runs the seeds; 3 if there is a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    seeds.add_arguments(parser, 40, "seed")
    parser.add_argument("--kinds", nargs="+", choices=list(FAMILIES), default=list(FAMILIES))
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.name}")
    args = parser.parse_args()
    tally = seeds.tally_of(args.state, Tally, Tally.from_json)

    def of_seed(seed: int) -> None:
        for kind in args.kinds:
            for dtype in types_of(kind):
                sweep(kind, dtype, seed, tally)

    for fault in seeds.sweep_all(args.seeds, of_seed, tally, args.seconds, args.state):
        print(fault, flush=True)
    print(tally.page())
    if args.write and not tally.faults:
        TABLE.write_text(tally.page(), encoding="utf-8")
    return 3 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
