"""Runs payloads on the simulator and compares every tensor with the reference."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pytest
from ethoscade.ir import Graph, Tensor
from ethoscade.judge import reference
from ethoscade.pipeline.partition import partition
from ethoscade.targets.target import Accelerator
from whole_tensor import compile_whole

simulator = pytest.importorskip("ethoscade.run.simulator", reason="the simulator is not built")

Array = npt.NDArray[np.generic]


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, Array]:
    """Uniform values for every network input, by name; floats are between -1 and 1."""
    rng = np.random.default_rng(seed)

    def drawn(tensor: Tensor) -> Array:
        if tensor.dtype.is_float:
            return rng.uniform(-1, 1, tensor.shape).astype(tensor.dtype.numpy)
        return rng.integers(*tensor.dtype.limits, size=tensor.shape, endpoint=True).astype(tensor.dtype.numpy)

    return {graph.tensors[t].name: drawn(graph.tensors[t]) for t in graph.inputs}


def execute(
    payload: bytes, constants: bytes, arena_bytes: int, accelerator: Accelerator, values: Mapping[int, Array]
) -> simulator.Machine:
    """The machine after a run whose arena held `values` (offset to array). Any warning fails the test."""
    machine = simulator.Machine(accelerator.name, [constants or bytes(16), arena_bytes])
    for offset, value in values.items():
        machine.write(1, offset, np.ascontiguousarray(value))
    report = machine.run(payload)
    assert report.warnings == ()
    return machine


def read(machine: simulator.Machine, graph: Graph, tensor: int, offset: int) -> Array:
    """The tensor's value, packed at `offset` in the arena."""
    found = graph.tensors[tensor]
    data = machine.read(1, offset, found.size_bytes)
    return np.frombuffer(data, found.dtype.numpy).reshape(found.shape)


def check_whole(
    graph: Graph, accelerator: Accelerator, *, rank: float = 1.0, staged: bool = False, seed: int = 0
) -> None:
    """Every NPU operator of `graph`, run unstriped, makes what the reference makes.

    What CPU operators make is put in place beforehand.
    """
    compiled = compile_whole(graph, accelerator, rank=rank, staged=staged)
    expected = reference.run(graph, random_inputs(graph, seed)).values
    results = [t for i in partition(graph, accelerator).npu_operators for t in graph.operators[i].outputs]
    given = {compiled.offsets[t]: value for t, value in expected.items() if t in compiled.offsets and t not in results}
    machine = execute(compiled.payload, compiled.constants, compiled.arena_bytes, accelerator, given)
    for t in results:
        found = read(machine, graph, t, compiled.offsets[t])
        np.testing.assert_array_equal(found, expected[t], err_msg=graph.tensors[t].name)
