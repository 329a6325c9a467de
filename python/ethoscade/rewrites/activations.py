"""fuse_activation: a RELU of its own after an operator without one becomes that operator's.

Only where both tensors share one quantisation: then the stand-alone operator clamps and does nothing else, and so
does the fused one.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import Activation, AddAttrs, ConvAttrs, FullyConnectedAttrs, Graph, PoolAttrs
from .draft import Draft, OnNpu, same_values, understood

_KINDS = {"RELU": Activation.RELU, "RELU6": Activation.RELU6, "RELU_N1_TO_1": Activation.RELU_N1_TO_1}


def fuse_activation(graph: Graph, on_npu: OnNpu = understood) -> Graph:
    """Fuse every RELU, RELU6 and RELU_N1_TO_1 that is the one reader of what an operator on the NPU makes."""
    draft = Draft(graph)
    for index, operator in enumerate(graph.operators):
        if operator.opaque is not None or operator.kind not in _KINDS or operator.inputs[0] is None:
            continue
        source = draft.resolve(operator.inputs[0])
        if draft.is_given(source) or not draft.read_only_by(source, index):
            continue
        if not same_values(draft.tensors[source], draft.tensors[operator.outputs[0]]):
            continue
        maker = draft.operators[draft.producer[source]]
        if maker is None or not on_npu(graph, maker):
            continue
        attrs = maker.attrs
        if not isinstance(attrs, (ConvAttrs, PoolAttrs, FullyConnectedAttrs, AddAttrs)):
            continue
        if attrs.activation is Activation.NONE:
            draft.absorb(index, replace(maker, attrs=replace(attrs, activation=_KINDS[operator.kind])))
    return draft.finish()
