"""The judge: what a network ought to output, and how far a compiled network's outputs are from it.

Owns the choice of the reference for each operator, the runs of LiteRT in a child process, the seeded inputs and the
comparison. Works on the graph as read from the file, operator by operator in the file's order. What executes the
compiled network comes in as a callable: nothing here knows the simulator or the code generator.

The reference is LiteRT with its reference kernels, with two exceptions that `reference` decides:

* 8-bit FULLY_CONNECTED, and every operator that depends on one. LiteRT rounds the scaled accumulator once there, while
  TensorFlow Lite Micro, and the NPU, round twice as in every other operator.
* From the first operator on that LiteRT aborts on although its meaning is clear: a SOFTMAX whose input scale is so
  small that the fixed-point factor falls below 1; and, if a run does abort, a SOFTMAX of 512 classes or more, whose
  sum of exponentials may ask for a shift by 32.
"""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tflite

from . import reference
from .errors import UnsupportedOperatorError, VerificationError
from .ir import DType, Graph, Operator, SoftmaxAttrs, Tensor

Array = npt.NDArray[np.generic]

JUDGE_LITERT = "litert"
JUDGE_MICRO = "litert + TFLM rounding of fully connected"
JUDGE_CUT = "litert up to an operator it refuses, ethoscade's reference from there on"

_CHILD = Path(__file__).with_name("litert_child.py")
_TIMEOUT_SECONDS = 900
_WIDE_SOFTMAX = 512  # classes; a sum of as many exponentials as this makes LiteRT's last shift 32
# Wide integers count and index: they are drawn from the range of a narrow type.
_WIDE = {DType.INT32: DType.INT8, DType.INT64: DType.INT8, DType.UINT32: DType.UINT8, DType.UINT64: DType.UINT8}
_SHAPE_ONLY = frozenset({"SHAPE"})  # operators whose output depends on no value


@dataclass(frozen=True)
class Verification:
    """Outcome of comparing a compiled network with the reference on several seeds.

    `elements`, `mismatches` and `hazards` (the simulator's, and its warnings) are sums over the seeds, `max_abs_diff`
    (in stored integers) and `sram_touched_bytes` maxima. `judge` says what the reference was.
    """

    ok: bool
    seeds: int
    elements: int
    mismatches: int
    max_abs_diff: float
    hazards: int
    sram_touched_bytes: int
    judge: str


@dataclass(frozen=True, eq=False)
class Observation:
    """What one execution of the compiled network showed; outputs by the names of the original graph's outputs.

    `hazards` counts whatever the simulator found fault with: unordered accesses and reads of unwritten bytes.
    """

    outputs: Mapping[str, Array]
    hazards: int
    sram_touched_bytes: int


@dataclass(frozen=True, eq=False)
class Expectation:
    """What the reference says for one set of inputs, and which reference it was."""

    outputs: Mapping[str, Array]
    judge: str


def verify(graph: Graph, execute: Callable[[Mapping[str, Array]], Observation], seeds: int = 3) -> Verification:
    """Run `execute` on the inputs of seeds 0 .. seeds-1 and compare every output element with the reference.

    `graph` is the network as read, with its `source`. Raises `VerificationError` when the reference is not installed
    or cannot run the model, and whatever `execute` raises.
    """
    inputs = [random_inputs(graph, seed) for seed in range(seeds)]
    elements = mismatches = hazards = touched = 0
    largest: float = 0
    judge = JUDGE_LITERT
    for given, expected in zip(inputs, reference_runs(graph, inputs), strict=True):
        seen = execute(given)
        counted, wrong, difference = compare(seen.outputs, expected.outputs)
        elements, mismatches, hazards = elements + counted, mismatches + wrong, hazards + seen.hazards
        largest, touched = max(largest, difference), max(touched, seen.sram_touched_bytes)
        judge = expected.judge
    ok = elements > 0 and mismatches == 0 and hazards == 0
    return Verification(ok, seeds, elements, mismatches, largest, hazards, touched, judge)


def compare(outputs: Mapping[str, Array], expected: Mapping[str, Array]) -> tuple[int, int, float]:
    """(elements, mismatches, largest absolute difference) over all `expected` outputs.

    Two NaNs are equal; a NaN against a number is an infinite difference. Raises `VerificationError` for an output that
    is missing or has another number of elements or another dtype.
    """
    elements = mismatches = 0
    largest: float = 0
    for name, wanted in expected.items():
        found = outputs.get(name)
        if found is None or found.size != wanted.size or found.dtype != wanted.dtype:
            what = "nothing" if found is None else f"{found.dtype}{found.shape}"
            raise VerificationError(f"output '{name}' is {what}, the reference has {wanted.dtype}{wanted.shape}")
        wrong, difference = _difference(found.reshape(wanted.shape), wanted)
        elements += wanted.size
        mismatches += wrong
        largest = max(largest, difference)
    return elements, mismatches, largest


def _difference(found: Array, wanted: Array) -> tuple[int, float]:
    if not wanted.size:
        return 0, 0
    if not np.issubdtype(wanted.dtype, np.floating):
        apart = np.abs(found.astype(np.int64) - wanted.astype(np.int64))
        return int(np.count_nonzero(apart)), int(apart.max())
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        distance = np.where(same, 0.0, np.abs(a - b))
    return int(np.count_nonzero(~same)), float(np.where(np.isnan(distance), np.inf, distance).max())


def random_inputs(graph: Graph, seed: int) -> dict[str, Array]:
    """Inputs by name for a seed: seed % 3 is 0 for uniform noise over the type's whole range, 1 for a Gaussian around
    the zero point, 2 for smooth waves over the image. The same seed gives the same inputs.
    """
    found = {}
    for number, index in enumerate(graph.inputs):
        tensor = graph.tensors[index]
        rng = np.random.Generator(np.random.PCG64([seed, number]))
        found[tensor.name] = _random_input(tensor, rng, seed % 3)
    return found


def _random_input(tensor: Tensor, rng: np.random.Generator, pattern: int) -> Array:
    dtype = tensor.dtype
    if dtype is DType.BOOL:
        return rng.integers(0, 2, tensor.shape).astype(bool)
    if dtype.is_float:
        return _unit_pattern(tensor.shape, rng, pattern).astype(dtype.numpy)
    lowest, highest = _WIDE.get(dtype, dtype).limits
    if pattern == 0:
        return rng.integers(lowest, highest + 1, tensor.shape).astype(dtype.numpy)
    centre = (lowest + highest + 1) / 2
    if pattern == 1 and tensor.quantisation is not None:
        centre = tensor.quantisation.zero_point
    stored = np.rint(_unit_pattern(tensor.shape, rng, pattern) * (highest - lowest) / 2 + centre)
    return np.clip(stored, lowest, highest).astype(dtype.numpy)


def _unit_pattern(shape: tuple[int, ...], rng: np.random.Generator, pattern: int) -> npt.NDArray[np.float64]:
    """Reals mostly within [-1, 1]: uniform (0), Gaussian (1) or a sum of waves along all axes (2)."""
    if pattern == 0:
        return rng.uniform(-1, 1, shape)
    if pattern == 1:
        return rng.standard_normal(shape) / 3
    total = np.zeros(shape)
    for _ in range(3):
        phase = np.full(shape, rng.uniform(0, 2 * np.pi))
        for axis, extent in enumerate(shape):
            along = np.arange(extent).reshape([-1 if i == axis else 1 for i in range(len(shape))])
            phase = phase + along * rng.uniform(0, 6) / max(extent, 8)
        total += np.sin(phase) / 3
    return total


def reference_outputs(graph: Graph, inputs: Mapping[str, Array]) -> Expectation:
    """What the network ought to output for `inputs`; see `reference_runs`."""
    return reference_runs(graph, [inputs])[0]


def reference_runs(graph: Graph, runs: Sequence[Mapping[str, Array]]) -> tuple[Expectation, ...]:
    """What the network ought to output for each of several sets of inputs, in one start of LiteRT.

    Raises `VerificationError`: LiteRT is not installed, stops on the model, an input does not fit, or an operator
    behind a FULLY_CONNECTED has no reference semantics here.
    """
    for inputs in runs:
        _check_inputs(graph, inputs)
    plan = _plan(graph, spare_wide_softmax=False)
    try:
        known = _run_litert(graph, plan, runs)
    except _Aborted:
        sparing = _plan(graph, spare_wide_softmax=True)
        if sparing == plan:
            raise
        plan, known = sparing, _run_litert(graph, sparing, runs)
    return tuple(_finish(graph, plan, inputs, values) for inputs, values in zip(runs, known, strict=True))


class _Aborted(VerificationError):
    """The child died of a signal."""


@dataclass(frozen=True)
class _Plan:
    """Who evaluates what: LiteRT the first `kept` operators, `reference` those in `own` (ascending indices)."""

    kept: int
    own: tuple[int, ...]
    wanted: tuple[int, ...]
    judge: str


def _plan(graph: Graph, *, spare_wide_softmax: bool) -> _Plan:
    classes = _WIDE_SOFTMAX if spare_wide_softmax else None
    kept = next((i for i, op in enumerate(graph.operators) if _refused(graph, op, classes)), len(graph.operators))
    own: list[int] = []
    tainted: set[int] = set()
    for i, op in enumerate(graph.operators):
        depends = op.kind not in _SHAPE_ONLY and any(t in tainted for t in op.inputs)
        if i >= kept or depends or _rounds_once(graph, op):
            own.append(i)
            tainted.update(op.outputs)
    read = [t for i in own for t in graph.operators[i].inputs if t is not None]
    from_litert = {t for op in graph.operators[:kept] for t in op.outputs} - tainted
    wanted = tuple(sorted(from_litert.intersection([*read, *graph.outputs])))
    judge = JUDGE_CUT if kept < len(graph.operators) else JUDGE_MICRO if own else JUDGE_LITERT
    return _Plan(kept, tuple(own), wanted, judge)


def _rounds_once(graph: Graph, op: Operator) -> bool:
    """Whether LiteRT's rounding is not the device's."""
    if op.kind != "FULLY_CONNECTED" or op.inputs[0] is None:
        return False
    return graph.tensors[op.inputs[0]].dtype in (DType.INT8, DType.UINT8)


def _refused(graph: Graph, op: Operator, classes: int | None) -> bool:
    """Whether LiteRT aborts although `reference` knows the answer; from `classes` on every SOFTMAX counts as such."""
    if op.kind != "SOFTMAX" or not isinstance(op.attrs, SoftmaxAttrs) or op.inputs[0] is None:
        return False
    tensor = graph.tensors[op.inputs[0]]
    if classes is not None and tensor.shape and tensor.shape[-1] >= classes:
        return True
    quantisation = tensor.quantisation
    return quantisation is not None and quantisation.scale * op.attrs.beta * (1 << 26) <= 1.0


def _check_inputs(graph: Graph, inputs: Mapping[str, Array]) -> None:
    for index in graph.inputs:
        tensor = graph.tensors[index]
        value = inputs.get(tensor.name)
        if value is None or value.shape != tensor.shape or value.dtype != tensor.dtype.numpy:
            found = "nothing" if value is None else f"{value.dtype}{value.shape}"
            raise VerificationError(
                f"input '{tensor.name}' needs {tensor.dtype.value}{tensor.shape}, given was {found}"
            )


def _finish(graph: Graph, plan: _Plan, inputs: Mapping[str, Array], known: Mapping[int, Array]) -> Expectation:
    """Evaluate what LiteRT was not asked for and pick the outputs."""
    values = {t: inputs[graph.tensors[t].name] for t in graph.inputs} | dict(known)
    for i in plan.own:
        try:
            values |= reference.run_operator(graph, i, values)
        except UnsupportedOperatorError as error:
            raise VerificationError(
                f"{error}; LiteRT cannot judge it, because it comes after an operator that LiteRT computes otherwise "
                f"than the device"
            ) from error
    outputs = {}
    for t in graph.outputs:
        tensor = graph.tensors[t]
        value = values[t] if tensor.data is None else tensor.data
        outputs[tensor.name] = value.reshape(tensor.shape)
    return Expectation(outputs, plan.judge)


def _run_litert(graph: Graph, plan: _Plan, runs: Sequence[Mapping[str, Array]]) -> list[dict[int, Array]]:
    """The wanted tensors of each run."""
    if not plan.wanted:
        return [{} for _ in runs]
    if importlib.util.find_spec("ai_edge_litert") is None:
        raise VerificationError('verification needs LiteRT, which is not installed: pip install "ethoscade[verify]"')
    request: dict[str, Array] = {
        "model": np.frombuffer(acceptable_source(graph, plan.kept), dtype=np.uint8),
        "wanted": np.array(plan.wanted, dtype=np.int64),
    }
    for run, inputs in enumerate(runs):
        for number, index in enumerate(graph.inputs):
            request[f"input_{run}_{number}"] = inputs[graph.tensors[index].name]
    with tempfile.TemporaryDirectory(prefix="ethoscade-") as folder:
        request_path, answer_path = Path(folder, "request.npz"), Path(folder, "answer.npz")
        np.savez(request_path, allow_pickle=False, **request)
        _start_child(graph, request_path, answer_path)
        with np.load(answer_path) as answer:
            found = [{t: answer[f"value_{run}_{t}"] for t in plan.wanted} for run in range(len(runs))]
    for values in found:
        _check_sizes(graph, values)
    return found


def _check_sizes(graph: Graph, values: Mapping[int, Array]) -> None:
    """LiteRT works shapes out for itself; a file that leaves one out, or gives another, was planned by its word."""
    for index, value in values.items():
        tensor = graph.tensors[index]
        if value.size != math.prod(tensor.shape) or value.dtype != tensor.dtype.numpy:
            raise VerificationError(
                f"tensor '{tensor.name}' is {tensor.dtype.value}{list(tensor.shape)} in the model, by which memory is "
                f"planned; LiteRT makes {value.dtype}{list(value.shape)} of it: convert the model with static shapes"
            )


def _start_child(graph: Graph, request: Path, answer: Path) -> None:
    command = [sys.executable, str(_CHILD), str(request), str(answer)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise VerificationError(f"LiteRT could not run model '{graph.name}': {error}") from error
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        why = said[-1] if said else "it said nothing"
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
        kind = _Aborted if done.returncode < 0 else VerificationError
        raise kind(f"LiteRT stopped with {how} on model '{graph.name}': {why}")


def acceptable_source(graph: Graph, kept: int | None = None) -> bytes:
    """The graph's file with what LiteRT refuses for no good reason put right, and only its first `kept` operators.

    Old converters left a `quantized_dimension` on tensors with one scale, or one beyond the tensor's rank; both mean 0.
    When operators are dropped, every graph output becomes the last kept operator's first output.
    Raises `VerificationError` if the graph carries no file.
    """
    if not graph.source:
        raise VerificationError(f"graph '{graph.name}' was not read from a file: there is nothing to give to LiteRT")
    data = bytearray(graph.source)
    subgraph = tflite.Model.GetRootAs(data, 0).Subgraphs(0)
    for i in range(subgraph.TensorsLength()):
        tensor = subgraph.Tensors(i)
        quantisation = tensor.Quantization()
        if quantisation is None or not quantisation.QuantizedDimension():
            continue
        if quantisation.ScaleLength() <= 1 or quantisation.QuantizedDimension() >= tensor.ShapeLength():
            _overwrite(data, quantisation, _QUANTIZED_DIMENSION, 0)
    if kept is not None and kept < len(graph.operators):
        _truncate(data, subgraph, kept)
    return bytes(data)


# Places in the schema's tables: the n-th field has vtable entry 4 + 2 * n.
_QUANTIZED_DIMENSION = 4 + 2 * 6
_SUBGRAPH_OUTPUTS = 4 + 2 * 2
_SUBGRAPH_OPERATORS = 4 + 2 * 3


def _overwrite(data: bytearray, table: object, entry: int, value: int) -> None:
    tab = table._tab  # type: ignore[attr-defined]
    place = tab.Pos + tab.Offset(entry)
    data[place : place + 4] = value.to_bytes(4, "little")


def _truncate(data: bytearray, subgraph: object, kept: int) -> None:
    tab = subgraph._tab  # type: ignore[attr-defined]
    last = int(subgraph.Operators(kept - 1).Outputs(0))  # type: ignore[attr-defined]
    operators = tab.Vector(tab.Offset(_SUBGRAPH_OPERATORS)) - 4
    data[operators : operators + 4] = kept.to_bytes(4, "little")
    outputs = tab.Vector(tab.Offset(_SUBGRAPH_OUTPUTS))
    for i in range(subgraph.OutputsLength()):  # type: ignore[attr-defined]
        data[outputs + 4 * i : outputs + 4 * i + 4] = last.to_bytes(4, "little")
