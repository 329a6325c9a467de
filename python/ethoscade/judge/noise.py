"""Seeded inputs: the values that networks are judged on.

Owns their patterns and what a seed stands for.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..ir import Array, DType, Graph, Tensor

# Wide integers count and index: they are drawn from the range of a narrow type.
_WIDE = {DType.INT32: DType.INT8, DType.INT64: DType.INT8, DType.UINT32: DType.UINT8, DType.UINT64: DType.UINT8}


def random_inputs(graph: Graph, seed: int, step: int = 0) -> dict[str, Array]:
    """Inputs by name for a step of a seed's sequence, the same for the same seed and step.

    `seed % 3` is 0 for uniform noise over the type's whole range, 1 for a Gaussian around the zero point, 2 for smooth
    waves over the image.
    """
    return {(name := graph.tensors[index].name): random_input_of(graph, name, seed, step) for index in graph.given}


def random_input_of(graph: Graph, name: str, seed: int, step: int = 0) -> Array:
    """One of these inputs."""
    number = next(number for number, index in enumerate(graph.given) if graph.tensors[index].name == name)
    rng = np.random.Generator(np.random.PCG64([seed, number, *([step] if step else [])]))
    return random_input(graph.tensors[graph.given[number]], rng, seed % 3)


def random_input(tensor: Tensor, rng: np.random.Generator, pattern: int) -> Array:
    """Values for one tensor; the patterns are those of `random_inputs`."""
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
