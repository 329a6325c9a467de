"""Operators of float32, element by element, in the order of operations of LiteRT's reference kernels.

EXP, LOG, LOGISTIC and TANH take their functions from the C library, as LiteRT does: their last bit is the library's.
All others are exact.
"""

from __future__ import annotations

import numpy as np

from ...ir import Activation, AddAttrs, ArithmeticAttrs, DType, Graph, LeakyReluAttrs, Operator
from ...ir.operators import ACTIVATION_OPERATORS
from ...ir.quantised import real_bounds
from .binary import loop_call
from .kernel import Call, CKernel, Operands, array, call, data_input, elements, float_literal, kept, refuse

_LARGEST = float(np.finfo(np.float32).max)
_FUNCTIONS = ("ABS", "EXP", "LOG", "LOGISTIC", "NEG", "RSQRT", "SQRT", "TANH")


def _limits(activation: Activation) -> list[str]:
    """Where kernels clamp: without an activation at the largest finite numbers."""
    lower, upper = real_bounds(activation)
    return [
        float_literal(-_LARGEST if lower is None else lower),
        float_literal(_LARGEST if upper is None else upper),
    ]


def _write_function(graph: Graph, operator: Operator, operands: Operands) -> Call:
    work, stage = f"real_{operator.kind.lower()}", ["0.0f"]
    if operator.kind in ACTIVATION_OPERATORS and operator.kind != "RELU":
        work, stage = "real_clamp", _limits(ACTIVATION_OPERATORS[operator.kind])
    elif operator.kind == "LEAKY_RELU":
        if not isinstance(operator.attrs, LeakyReluAttrs):
            refuse(operator, operator.opaque or "its slope is not known at compile time")
        work, stage = "real_leaky", [float_literal(float(np.float32(operator.attrs.alpha)))]
    index, result = data_input(operator), operator.outputs[0]
    text = (
        f"{array('stage', stage, 'float')}{work}_float32({operands.source(index)}, {operands.target(result)}, "
        f"{elements(graph.tensors[index])}, stage);"
    )
    return call("real_loop.c", f"{work}_float32", text, WORK=work)


def _write_pair(graph: Graph, operator: Operator, operands: Operands) -> Call:
    if operator.opaque is not None:
        refuse(operator, operator.opaque)
    attrs = operator.attrs
    activation = attrs.activation if isinstance(attrs, (AddAttrs, ArithmeticAttrs)) else Activation.NONE
    work = f"reals_{operator.kind.lower()}"
    return loop_call(graph, operator, operands, work, _limits(activation), "float")


REAL_FUNCTIONS = CKernel((*_FUNCTIONS, "LEAKY_RELU", *ACTIVATION_OPERATORS), _write_function, kept(DType.FLOAT32))
REAL_PAIRS = CKernel(("ADD", "DIV", "MUL", "PRELU", "SQUARED_DIFFERENCE", "SUB"), _write_pair, kept(DType.FLOAT32))
