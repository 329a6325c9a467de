"""The arrays that a caller brings for a network's inputs: names, shapes and types, checked before anything runs.

Owns that check and its wording. Converts nothing: an array of another type is a mistake to report, not to repair.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ..errors import ConfigError
from ..ir import Array, Graph
from ..util.arguments import shown


def checked_inputs(graph: Graph, inputs: Mapping[str, npt.ArrayLike]) -> dict[int, Array]:
    """`inputs` (by tensor name) as contiguous arrays by tensor index, in the network's order.

    Raises `ConfigError` saying what was expected and what was given: a name that is missing or unknown, an array of
    another shape or type.
    """
    expected = {graph.tensors[index].name: index for index in graph.given}
    if not isinstance(inputs, Mapping):
        raise ConfigError(f"inputs are {shown(inputs)}; they must be a mapping from input names to arrays")
    names = ", ".join(f"'{name}'" for name in expected)
    unknown = [name for name in inputs if name not in expected]
    if unknown:
        raise ConfigError(f"'{graph.name}' has no input '{unknown[0]}'; its inputs are {names}")
    missing = [name for name in expected if name not in inputs]
    if missing:
        raise ConfigError(f"input '{missing[0]}' of '{graph.name}' was not given; its inputs are {names}")
    arrays: dict[int, Array] = {}
    for name, index in expected.items():
        tensor, array = graph.tensors[index], _as_array(name, inputs[name])
        if array.shape != tensor.shape or array.dtype != tensor.dtype.numpy:
            raise ConfigError(
                f"input '{name}' of '{graph.name}' must be {tensor.dtype.value} of shape {tensor.shape}; "
                f"given is {array.dtype} of shape {array.shape}"
            )
        arrays[index] = np.ascontiguousarray(array).reshape(tensor.shape)
    return arrays


def _as_array(name: str, given: npt.ArrayLike) -> Array:
    try:
        return np.asarray(given)
    except (ValueError, TypeError, OverflowError) as error:
        raise ConfigError(f"input '{name}' is {shown(given)}, which is no array: {error}") from error
