"""What each operator computes, bit by bit, in NumPy: the semantics that a compiled network is held to.

Owns the evaluation of `ir.Graph`s and the table of operator kinds. Bit-exact with LiteRT's reference kernels
(`BUILTIN_REF`), except int8 FULLY_CONNECTED, where TensorFlow Lite Micro's rounding is the rule: that is what the NPU
and the device's own kernels compute. Knows nothing of schedules, NPU encodings or interpreters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from ...errors import ModelFormatError, UnsupportedOperatorError
from ...ir import Array, Graph, Operator, Tensor
from ...util.frozen import FrozenMap
from . import elementwise, pooling, shaping, weighted
from .fixed_point import Undefined
from .softmax import softmax

__all__ = ["KINDS", "Run", "run", "run_operator"]

_Kernel = Callable[[Graph, Operator, Sequence["Array | None"]], "Array | tuple[Array, ...]"]

_KERNELS: Mapping[str, _Kernel] = MappingProxyType(
    {
        "ADD": elementwise.add,
        "AVERAGE_POOL_2D": pooling.average_pool_2d,
        "CONCATENATION": shaping.concatenate,
        "CONV_2D": weighted.conv_2d,
        "DEPTHWISE_CONV_2D": weighted.depthwise_conv_2d,
        "DEQUANTIZE": elementwise.dequantize,
        "EXPAND_DIMS": shaping.reshape,
        "FULLY_CONNECTED": weighted.fully_connected,
        "MAX_POOL_2D": pooling.max_pool_2d,
        "MEAN": pooling.mean,
        "PAD": shaping.pad,
        "PACK": shaping.pack,
        "QUANTIZE": elementwise.quantize,
        "RELU": elementwise.relu,
        "RELU6": elementwise.relu,
        "RELU_N1_TO_1": elementwise.relu,
        "RESHAPE": shaping.reshape,
        "RESIZE_NEAREST_NEIGHBOR": shaping.resize_nearest_neighbor,
        "SHAPE": shaping.shape_of,
        "SOFTMAX": softmax,
        "SPLIT": shaping.split,
        "SPLIT_V": shaping.split,
        "SQUEEZE": shaping.reshape,
        "STRIDED_SLICE": shaping.strided_slice,
    }
)

KINDS: frozenset[str] = frozenset(_KERNELS)
"""Operator kinds that `run_operator` knows."""

# Their meaning is clear even where the frontend, for reasons of its own, did not look into them.
_WITHOUT_ATTRS = frozenset(
    {"DEQUANTIZE", "EXPAND_DIMS", "QUANTIZE", "RELU", "RELU6", "RELU_N1_TO_1", "RESHAPE", "SQUEEZE"}
)


@dataclass(frozen=True, eq=False)
class Run:
    """One evaluation: every tensor's value by index (constants among them), and the graph's outputs by name."""

    values: Mapping[int, Array]
    outputs: Mapping[str, Array]


def is_known(operator: Operator) -> bool:
    """Whether `run_operator` can evaluate such an operator."""
    return operator.kind in _KERNELS and (operator.opaque is None or operator.kind in _WITHOUT_ATTRS)


def run_operator(graph: Graph, operator: Operator | int, values: Mapping[int, Array]) -> dict[int, Array]:
    """Evaluate one operator (or the one with that index) on the `values` of its inputs; constants need no value.

    Returns the value of each output tensor, in that tensor's shape and dtype. An output tensor may have another shape
    than the operator's natural one as long as the number of elements is the same.

    Raises `UnsupportedOperatorError` for a kind without reference semantics or arithmetic without a defined result,
    `ModelFormatError` when an input has no value or the output's shape does not hold the result.
    """
    op = graph.operators[operator] if isinstance(operator, int) else operator
    if not is_known(op):
        why = op.opaque if op.kind in KINDS else "nothing here computes operators of its kind"
        raise UnsupportedOperatorError(
            f"operator '{op.name}' ({op.kind}) has no reference in ethoscade: {why}",
            operator=op.name,
            constraint="reference semantics",
        )
    inputs = [None if t is None else _value(graph.tensors[t], t, op, values) for t in op.inputs]
    try:
        result = _KERNELS[op.kind](graph, op, inputs)
    except Undefined as error:
        raise UnsupportedOperatorError(
            f"operator '{op.name}' ({op.kind}): {error}; the references define no result, and devices differ; convert "
            f"the model with scales that are nearer to each other",
            operator=op.name,
            constraint="defined result",
        ) from error
    made = result if isinstance(result, tuple) else (result,)
    return {t: _shaped(value, graph.tensors[t], op) for t, value in zip(op.outputs, made, strict=True)}


def run(graph: Graph, inputs: Mapping[str, Array]) -> Run:
    """Evaluate the whole graph on `inputs` by name.

    Raises `ModelFormatError` for an input that is missing or has another shape or dtype than its tensor, and what
    `run_operator` raises.
    """
    values: dict[int, Array] = {i: t.data for i, t in enumerate(graph.tensors) if t.data is not None}
    for index in graph.inputs:
        tensor = graph.tensors[index]
        value = inputs.get(tensor.name)
        if value is None or value.shape != tensor.shape or value.dtype != tensor.dtype.numpy:
            found = "nothing" if value is None else f"{value.dtype}{value.shape}"
            raise ModelFormatError(
                f"input '{tensor.name}' needs {tensor.dtype.value}{tensor.shape}, given was {found}",
                tensor=tensor.name,
                value=None if value is None else value.shape,
            )
        values[index] = value
    for op in graph.operators:
        values.update(run_operator(graph, op, values))
    outputs = {graph.tensors[t].name: values[t] for t in graph.outputs}
    return Run(FrozenMap(values), FrozenMap(outputs))


def _value(tensor: Tensor, index: int, op: Operator, values: Mapping[int, Array]) -> Array:
    value = values.get(index, tensor.data)
    if value is None:
        raise ModelFormatError(
            f"operator '{op.name}' ({op.kind}) reads tensor '{tensor.name}', which has no value yet",
            operator=op.name,
            tensor=tensor.name,
            value=index,
        )
    return value.reshape(tensor.shape)


def _shaped(result: Array, tensor: Tensor, op: Operator) -> Array:
    if result.size != int(np.prod(tensor.shape, dtype=np.int64)):
        raise ModelFormatError(
            f"operator '{op.name}' ({op.kind}) makes shape {result.shape}, its output '{tensor.name}' "
            f"has shape {tensor.shape}",
            operator=op.name,
            tensor=tensor.name,
            value=result.shape,
        )
    return result.reshape(tensor.shape)
