"""fuse_activation: a RELU of its own after an operator without one becomes that operator's.

Only where both tensors share one quantisation: then the stand-alone operator clamps and does nothing else, and so
does the fused one.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import Activation, AddAttrs, ArithmeticAttrs, ConvAttrs, FullyConnectedAttrs, Graph, Operator, PoolAttrs
from ..operators import ACTIVATION_OPERATORS
from .draft import Draft, OnNpu, same_values


def fuse_activation(graph: Graph, on_npu: OnNpu) -> Graph:
    """Fuse every RELU, RELU6 and RELU_N1_TO_1 that is the one reader of what an operator on the NPU makes."""
    draft = Draft(graph)
    for index, operator in enumerate(graph.operators):
        if operator.opaque is None and operator.kind in ACTIVATION_OPERATORS and operator.inputs[0] is not None:
            found = _fused(graph, draft, index, on_npu)
            if isinstance(found, Operator):
                draft.absorb(index, found)
    return draft.finish()


def why_activation(graph: Graph, draft: Draft, index: int, on_npu: OnNpu) -> str:
    """What keeps an understood operator of these from being fused, in a sentence without a full stop."""
    found = _fused(graph, draft, index, on_npu)
    return found if isinstance(found, str) else "it becomes part of the operator before it"


def _fused(graph: Graph, draft: Draft, index: int, on_npu: OnNpu) -> Operator | str:
    """The operator before, with the activation fused, or what is in the way."""
    operator = graph.operators[index]
    if operator.inputs[0] is None:
        return f"{operator.kind} has no input"
    source = draft.resolve(operator.inputs[0])
    before, after = draft.tensors[source], draft.tensors[operator.outputs[0]]
    whole = f"{operator.kind} runs only as part of the operator before it"
    if draft.is_given(source):
        return f"{whole}; nothing makes its input '{before.name}'"
    if not draft.read_only_by(source, index):
        return f"{whole}, and others read its input '{before.name}' without it"
    if not same_values(before, after):
        return f"{whole}, which takes one quantisation; '{before.name}' and '{after.name}' have two"
    maker = draft.operators[draft.producer[source]]
    if maker is None or not on_npu(graph, maker):
        return f"{whole}; its input '{before.name}' is made on the CPU"
    attrs = maker.attrs
    if not isinstance(attrs, (ConvAttrs, PoolAttrs, FullyConnectedAttrs, AddAttrs, ArithmeticAttrs)):
        return f"{whole}; '{maker.name}' ({maker.kind}) takes no activation"
    if attrs.activation is not Activation.NONE:
        return f"{whole}; '{maker.name}' ({maker.kind}) has {attrs.activation.name} already"
    return replace(maker, attrs=replace(attrs, activation=ACTIVATION_OPERATORS[operator.kind]))
