"""fuse_activation: a RELU of its own after an operator without one becomes that operator's.

Only where both tensors share one quantisation: then the stand-alone operator clamps and does nothing else, and so
does the fused one.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import (
    Activation,
    AddAttrs,
    ArithmeticAttrs,
    ConvAttrs,
    FullyConnectedAttrs,
    Graph,
    Operator,
    PoolAttrs,
    TransposeConvAttrs,
)
from ..ir.operators import ACTIVATION_OPERATORS
from .draft import Draft, OnNpu, same_values


def fuse_activation(graph: Graph, on_npu: OnNpu) -> Graph:
    """Fuse every RELU, RELU6 and RELU_N1_TO_1 that is the one reader of what an operator on the NPU makes."""
    draft = Draft(graph)
    for index, operator in enumerate(graph.operators):
        if operator.opaque is None and operator.kind in ACTIVATION_OPERATORS and operator.inputs[0] is not None:
            found = _fused(graph, draft, index, on_npu)
            if found is not None:
                draft.absorb(index, found)
    return draft.finish()


def _fused(graph: Graph, draft: Draft, index: int, on_npu: OnNpu) -> Operator | None:
    """The operator before, with the activation fused, if that can be."""
    operator = graph.operators[index]
    source = draft.resolve(operator.input(0))
    if draft.is_given(source) or not draft.read_only_by(source, index):
        return None
    if not same_values(draft.tensors[source], draft.tensors[operator.outputs[0]]):
        return None
    maker = draft.operators[draft.producer[source]]
    if maker is None or not on_npu(graph, maker):
        return None
    attrs = maker.attrs
    if not isinstance(
        attrs, (ConvAttrs, TransposeConvAttrs, PoolAttrs, FullyConnectedAttrs, AddAttrs, ArithmeticAttrs)
    ):
        return None
    if attrs.activation is not Activation.NONE:
        return None
    return replace(maker, attrs=replace(attrs, activation=ACTIVATION_OPERATORS[operator.kind]))
