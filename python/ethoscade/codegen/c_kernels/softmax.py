"""SOFTMAX and LOG_SOFTMAX over the last axis, bit for bit as TFLite's reference kernels."""

from __future__ import annotations

import math

import numpy as np

from ...ir import DType, Graph, Operator, SoftmaxAttrs, Tensor
from ...ir.quantised import multiplier_and_shift
from ...lowering import interpolated
from .functions16 import samples_of
from .kernel import Call, CKernel, Operands, array, call, data_input, factor, kept, quantisation_of, refuse, rows_of

# Differences to the maximum are Q5.26 (TFLite: kScaledDiffIntegerBits).
_INTEGER_BITS = 5
_LARGEST_DIFFERENCE = 255
# Exponentials of up to 2^19 that fit into an int32.
_MOST_DEPTH = 4095
_MOST_DEPTH_16 = 65536
_REACH = 10.0
_NEARLY = 0.001


def _beta(operator: Operator) -> float:
    return float(np.float32(operator.attrs.beta)) if isinstance(operator.attrs, SoftmaxAttrs) else 1.0


def _sizes(operator: Operator, tensor: Tensor, most: int) -> str:
    rows, depth = rows_of(tensor)
    if depth > most:
        refuse(operator, f"its rows have {depth} elements; its C kernel sums at most {most} exponentials")
    return f"{rows}, {depth}"


def _smallest(shift: int) -> int:
    """The difference to the maximum beyond which exponentials count as nothing."""
    reach: int = math.floor((2**_INTEGER_BITS - 1) * 2.0 ** (31 - _INTEGER_BITS) / 2.0**shift)
    return -min(reach, _LARGEST_DIFFERENCE)


def _write(graph: Graph, operator: Operator, operands: Operands) -> Call:
    index, result = data_input(operator), operator.outputs[0]
    source, target = graph.tensors[index], graph.tensors[result]
    output, bits, lowest = quantisation_of(operator, target), 8 * target.dtype.size_bytes, target.dtype.limits[0]
    # Kernels take any scale that is nearly this one, and compute as if it were.
    if abs(output.scale * 2.0**bits - 1.0) > _NEARLY or output.zero_point != lowest:
        refuse(
            operator,
            f"its output has scale {output.scale:g} and zero point {output.zero_point}; kernels make it with "
            f"1/{1 << bits} and {lowest}",
        )
    scale = quantisation_of(operator, source).scale
    multiplier, shift = multiplier_and_shift(min(_beta(operator) * scale * 2.0 ** (31 - _INTEGER_BITS), 2.0**31 - 1))
    function = f"softmax_{source.dtype.value}_{target.dtype.value}"
    text = (
        f"{function}({operands.source(index)}, {operands.target(result)}, {_sizes(operator, source, _MOST_DEPTH)}, "
        f"{multiplier}, {shift}, {_smallest(shift)}, {bits}, {lowest});"
    )
    return call("softmax.c", function, text, FROM=source.dtype, INTO=target.dtype)


def _write_int16(graph: Graph, operator: Operator, operands: Operands) -> Call:
    index, result = data_input(operator), operator.outputs[0]
    source, target = graph.tensors[index], graph.tensors[result]
    if abs(quantisation_of(operator, target).scale * 32768.0 - 1.0) > _NEARLY:
        refuse(
            operator, f"its output has scale {quantisation_of(operator, target).scale:g}; kernels make it with 1/32768"
        )
    # The product is one of float32, the quotient one of double.
    product = np.float32(quantisation_of(operator, source).scale) * np.float32(_beta(operator))
    multiplier, shift = factor(operator, float(product) / (_REACH / interpolated.FULL_RANGE))
    unit = interpolated.FULL_RANGE
    tables = {
        "exponentials": interpolated.table(math.exp, _REACH / unit, DType.INT16.limits[1]),
        "reciprocals": interpolated.table(lambda x: 1.0 / (1.0 + x), 1.0 / unit, DType.INT16.limits[0]),
    }
    declared = "".join(array(name, samples_of(table), "int16_t") for name, table in tables.items())
    text = (
        f"{declared}softmax_int16({operands.source(index)}, {operands.target(result)}, "
        f"{_sizes(operator, source, _MOST_DEPTH_16)}, {multiplier}, {shift}, exponentials, reciprocals);"
    )
    return call("softmax_int16.c", "softmax_int16", text)


def _write_log(graph: Graph, operator: Operator, operands: Operands) -> Call:
    index, result = data_input(operator), operator.outputs[0]
    source, target = graph.tensors[index], graph.tensors[result]
    quantisation_of(operator, target)
    real = min(quantisation_of(operator, source).scale * 2.0 ** (31 - _INTEGER_BITS), 2.0**31 - 1)
    if real <= 1.0:
        refuse(operator, f"its differences have a factor of {real:g}, which kernels define above 1")
    multiplier, shift = multiplier_and_shift(real)
    reverse, right = factor(operator, (1 << (31 - shift)) / multiplier)
    function = f"log_softmax_{source.dtype.value}"
    text = (
        f"{function}({operands.source(index)}, {operands.target(result)}, {_sizes(operator, source, _MOST_DEPTH)}, "
        f"{multiplier}, {shift}, {_smallest(shift)}, {reverse}, {right}, {target.dtype.limits[0]});"
    )
    return call("log_softmax.c", function, text, TYPE=source.dtype)


SOFTMAX = CKernel(("SOFTMAX",), _write, (*kept(DType.INT8, DType.UINT8), (DType.INT8, DType.INT16)))
SOFTMAX_INT16 = CKernel(("SOFTMAX",), _write_int16, kept(DType.INT16))
LOG_SOFTMAX = CKernel(("LOG_SOFTMAX",), _write_log, kept(DType.INT8, DType.UINT8))
