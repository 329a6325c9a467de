"""Many operators in one network that is run once: what each of them makes, by itself, of its own random inputs.

The C of all kernels is built by one call of the compiler that way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from ethoscade.codegen.artifact import Artifact, CpuCall
from ethoscade.ir import Array, DType, Graph, Operator, Tensor
from ethoscade.judge import reference


@dataclass
class Batch:
    """Operators that have nothing to do with each other, one after the other.

    An input of an operator is an input of the network. Constants stay what they are; what an operator writes over is
    given to it like any other input, and what it makes of it is an output.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.operators: list[Operator] = []
        self.inputs: list[int] = []
        self.values: dict[str, Array] = {}
        self.expected: dict[str, Array] = {}
        self._rng = np.random.Generator(np.random.PCG64(self.seed))

    def add(self, graph: Graph, index: int, given: Mapping[int, Array] | None = None) -> None:
        """An operator of a graph, on `given` values of its inputs or else on random ones.

        Raises `UnsupportedOperatorError` where the reference defines no result.
        """
        op = graph.operators[index]
        live = [t for t in dict.fromkeys(op.inputs) if t is not None and not graph.tensors[t].is_constant]
        values = {t: (given or {})[t] if t in (given or {}) else self._drawn(graph.tensors[t]) for t in live}
        expected = reference.run_operator(graph, op, values)
        self.include(graph, op, values, expected)

    def add_all(self, graph: Graph, values: Mapping[int, Array]) -> None:
        """Every operator of a graph, of all of whose tensors another judge gives the values."""
        for op in graph.operators:
            read = {t: values[t] for t in op.inputs if t is not None and not graph.tensors[t].is_constant}
            self.include(graph, op, read, {t: values[t] for t in op.outputs})

    def include(self, graph: Graph, op: Operator, values: Mapping[int, Array], expected: Mapping[int, Array]) -> None:
        """An operator with its inputs and what is expected of it."""
        places: dict[int, int] = {}
        number = len(self.operators)
        for t in dict.fromkeys(t for t in (*op.inputs, *op.outputs) if t is not None):
            places[t] = len(self.tensors)
            name = f"t{number}_{t}"
            self.tensors.append(replace(graph.tensors[t], name=name, is_variable=False))
            if t in values:
                self.inputs.append(places[t])
                self.values[name] = values[t].reshape(graph.tensors[t].shape)
            if t in expected:
                self.expected[name] = expected[t].reshape(graph.tensors[t].shape)
        inputs = tuple(None if t is None else places[t] for t in op.inputs)
        outputs = tuple(places[t] for t in op.outputs)
        self.operators.append(replace(op, name=f"{op.kind}_{number}", inputs=inputs, outputs=outputs))

    def _drawn(self, tensor: Tensor) -> Array:
        """Uniform noise with many of a type's extremes, or all of one value."""
        if tensor.dtype.is_float:
            return np.asarray(self._rng.normal(size=tensor.shape) * 4, tensor.dtype.numpy)
        low, high = (-(2**20), 2**20) if tensor.dtype is DType.INT32 else tensor.dtype.limits
        noise = self._rng.integers(low, high + 1, size=tensor.shape)
        extremes = self._rng.choice([low, high], size=tensor.shape)
        share = self._rng.choice([0.0, 0.05, 0.5, 1.0])
        return np.where(self._rng.random(tensor.shape) < share, extremes, noise).astype(tensor.dtype.numpy)

    def artifact(self) -> Artifact:
        """All on the CPU, every tensor in a place of its own."""
        outputs = [t for op in self.operators for t in op.outputs]
        graph = Graph("net", tuple(self.tensors), tuple(self.operators), tuple(self.inputs), tuple(outputs))
        offsets: dict[int, int] = {}
        end = 0
        for index, tensor in enumerate(self.tensors):
            if not tensor.is_constant:
                offsets[index] = end
                end += -(-tensor.size_bytes // 16) * 16
        return Artifact("net", "none", graph, tuple(map(CpuCall, range(len(self.operators)))), b"", end, offsets)

    def differences(self, outputs: Mapping[str, Array]) -> list[str]:
        """What differs from what was expected, by operator."""
        found = []
        for op in self.operators:
            for t in op.outputs:
                name = self.tensors[t].name
                apart = outputs[name] != self.expected[name]
                if self.tensors[t].dtype.is_float:
                    bits = np.dtype(f"u{outputs[name].itemsize}")
                    apart = outputs[name].view(bits) != self.expected[name].view(bits)
                if apart.any():
                    types = [self.tensors[i].dtype.value for i in op.inputs if i is not None]
                    found.append(f"{op.name} of {types}: {np.count_nonzero(apart)} of {apart.size} elements")
        return found
