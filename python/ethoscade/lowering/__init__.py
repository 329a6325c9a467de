"""Lowering: from operators of the graph to NPU operations, one operator family per module.

Owns the table of families. A family is a module with `support` and `lower`; to add an operator, write its module and
name it here. Which operators are lowered is `partition`'s decision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from ..ir import Graph, Operator
from ..target import Accelerator
from . import (
    concatenation,
    convolution,
    depthwise,
    elementwise,
    fully_connected,
    identity,
    mean,
    pooling,
    resize,
    softmax,
    split,
)
from .npu import NpuGraph, NpuGraphBuilder

__all__ = ["FAMILIES", "Family", "Selection", "lower", "support"]


@dataclass(frozen=True)
class Family:
    """An operator family: whether the NPU can run an operator (None, or the reason why not), and its operations."""

    support: Callable[[Graph, Operator, Accelerator], str | None]
    lower: Callable[[Graph, int, NpuGraphBuilder], None]


_POOLING = Family(pooling.support, pooling.lower)
_SPLIT = Family(split.support, split.lower)

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "ADD": Family(elementwise.support, elementwise.lower),
        "AVERAGE_POOL_2D": _POOLING,
        "CONCATENATION": Family(concatenation.support, concatenation.lower),
        "CONV_2D": Family(convolution.support, convolution.lower),
        "DEPTHWISE_CONV_2D": Family(depthwise.support, depthwise.lower),
        "FULLY_CONNECTED": Family(fully_connected.support, fully_connected.lower),
        "MAX_POOL_2D": _POOLING,
        "MEAN": Family(mean.support, mean.lower),
        "QUANTIZE": Family(identity.support, identity.lower),
        "RESIZE_NEAREST_NEIGHBOR": Family(resize.support, resize.lower),
        "SOFTMAX": Family(softmax.support, softmax.lower),
        "SPLIT": _SPLIT,
        "SPLIT_V": _SPLIT,
    }
)
"""Operator kinds (TFLite builtin names) that can run on the NPU."""


class Selection(Protocol):
    """Operators to lower, by index, in execution order (`partition.Partition` is one)."""

    @property
    def npu_operators(self) -> tuple[int, ...]:
        """Indices of the graph's operators that the NPU runs."""


def support(graph: Graph, op: Operator, accelerator: Accelerator) -> str | None:
    """None if the NPU can run `op`, else the reason in one sentence without a full stop."""
    if op.opaque is not None:
        return op.opaque
    family = FAMILIES.get(op.kind)
    if family is None:
        return f"{op.kind} has no NPU implementation"
    return family.support(graph, op, accelerator)


def lower(graph: Graph, partition: Selection) -> NpuGraph:
    """Operations of the operators that the partition gave to the NPU, in its execution order.

    `NpuOperation.operator` tells which operator an operation serves.
    """
    builder = NpuGraphBuilder(graph)
    for op in partition.npu_operators:
        FAMILIES[graph.operators[op].kind].lower(graph, op, builder)
    return builder.graph()
