"""Named rules, Graph -> Graph, that make a network smaller without changing what it computes.

Owns the order of the rules and the removal of unused tensors. One file is one rule; dead channels are found in
`channel_values` and `channel_groups`, and removed once the other rules are done. A rule returns the very graph
that it was given if it found nothing to do; else a new one, verified. Network inputs and outputs keep order and names.

Rules touch only operators that will run on the NPU, because operators for the CPU are copied from the file as they
are. Which ones those are the caller says by an `OnNpu`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..ir import Graph, Integers, Operator
from ..ir.operators import ACTIVATION_OPERATORS, RESHAPES, keyed
from .activations import fuse_activation
from .chains import Elements, fold_chain
from .constant_rows import fold_constant_rows
from .constants import fold_constants, why_constant
from .dead_channels import DeadChannels, remove_dead_channels
from .draft import OnNpu
from .islands import fold_island
from .made_weights import multiply_matrices
from .pads import fold_pad
from .requantise import requantise
from .reshapes import fold_reshape
from .zero_products import fold_zero_product

__all__ = [
    "FOLDED",
    "DeadChannels",
    "Elements",
    "OnNpu",
    "drop_dead",
    "fold_chain",
    "fold_constant_rows",
    "fold_constants",
    "fold_island",
    "fold_pad",
    "fold_reshape",
    "fold_zero_product",
    "fuse_activation",
    "multiply_matrices",
    "remove_dead_channels",
    "requantise",
    "simplify",
    "why_kept",
]

FOLDED = keyed(
    dict.fromkeys(ACTIVATION_OPERATORS, "part of the operator before it, where that is the NPU's and takes one"),
    dict.fromkeys(
        RESHAPES,
        "nothing, where the NPU makes its input or alone reads its output; a copy where the CPU would do nothing else",
    ),
    {
        "PACK": "a constant, of short constants of integers",
        "PAD": "part of the windows of the convolutions that read it, where it pads their height and width",
        "SHAPE": "a constant",
        "STRIDED_SLICE": "a constant, of a short constant of integers",
    },
)
"""What becomes of kinds that need no operation of their own, where a rule here finds that it can."""


def _unknown(graph: Graph, op: Operator, operands: Sequence[Integers]) -> None:
    """No operator's results are known."""


def simplify(graph: Graph, on_npu: OnNpu, elements: Elements = _unknown) -> Graph:
    """Apply all rules until none finds anything, then drop dead tensors and operators.

    In this order: constants first, since a reshape is folded only when its target is known, and products with nothing,
    which make more of them, as do rows of constants; reshapes and identical requantisations next, since they stand
    between a convolution and its RELU; activations; pads; chains of functions
    of one element, whose results `elements` knows; products of matrices last, behind all that may make a constant.
    Every change removes an operator, or makes a table of functions of floats, a BATCH_MATMUL, or a RESHAPE of a PAD, so
    this ends. Raises
    `ModelFormatError` for a contradiction that folding uncovers.
    """
    while True:
        before = graph
        graph = fold_constants(graph)
        graph = fold_zero_product(graph, on_npu)
        graph = fold_constant_rows(graph)
        graph = fold_reshape(graph, on_npu)
        graph = fold_island(graph, on_npu)
        graph = requantise(graph)
        graph = fuse_activation(graph, on_npu)
        graph = fold_pad(graph, on_npu)
        graph = fold_chain(graph, on_npu, elements)
        graph = multiply_matrices(graph, on_npu)
        if graph is before:
            return drop_dead(graph)


def why_kept(graph: Graph) -> dict[int, str]:
    """What keeps operators from becoming constants though a rule here is for their kind, by index.

    In sentences without a full stop, for a graph that `simplify` is done with.
    """
    return {
        index: why_constant(graph, operator)
        for index, operator in enumerate(graph.operators)
        if operator.opaque is None and operator.kind in FOLDED and operator.kind not in RESHAPES
    }


def drop_dead(graph: Graph) -> Graph:
    """Remove operators without readers and tensors without users; indices become dense again.

    Opaque operators without outputs or with variables stay: they may act on memory that the graph does not show.
    Network inputs stay even if unread.
    """
    needed = set(graph.outputs)
    kept: list[Operator] = []
    for operator in reversed(graph.operators):
        if needed.isdisjoint(operator.outputs) and not _has_effects(graph, operator):
            continue
        needed.update(t for t in operator.inputs if t is not None)
        needed.update(operator.intermediates)
        kept.append(operator)
    needed.update(graph.inputs, *(op.outputs for op in kept))
    if len(needed) == len(graph.tensors) and len(kept) == len(graph.operators):
        return graph
    order = sorted(needed)
    index = {old: new for new, old in enumerate(order)}
    return replace(
        graph,
        tensors=tuple(graph.tensors[t] for t in order),
        operators=tuple(
            replace(
                op,
                inputs=tuple(None if t is None else index[t] for t in op.inputs),
                outputs=tuple(index[t] for t in op.outputs),
                intermediates=tuple(index[t] for t in op.intermediates),
            )
            for op in reversed(kept)
        ),
        inputs=tuple(index[t] for t in graph.inputs),
        outputs=tuple(index[t] for t in graph.outputs),
        variables=tuple(replace(v, before=index[v.before], after=index[v.after]) for v in graph.variables),
    ).verify()


def _has_effects(graph: Graph, operator: Operator) -> bool:
    if operator.opaque is None:
        return False
    return not operator.outputs or any(t is not None and graph.tensors[t].is_variable for t in operator.inputs)
