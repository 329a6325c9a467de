"""SVDF of int8 with a state of int8 or int16, after TensorFlow Lite Micro's kernel."""

from __future__ import annotations

from ...ir import DType, Graph, Operator, SvdfAttrs, SvdfInputs
from ...ir.quantised import svdf_scales, zero_point_of
from .kernel import Call, CKernel, Operands, arrays, call, factor, kept, refuse


def _write(graph: Graph, operator: Operator, operands: Operands) -> Call:
    attrs, places = operator.attrs, SvdfInputs
    if not isinstance(attrs, SvdfAttrs):
        refuse(operator, operator.opaque or "its rank is not known at compile time")
    ifm, weights, times, state = (
        graph.read(operator, place) for place in (0, places.of_input, places.in_time, places.state)
    )
    ofm, bias = graph.made(operator), operator.inputs[places.bias]
    first, second = (factor(operator, real) for real in svdf_scales(ifm, weights, times, state, ofm))
    origins = [zero_point_of(tensor) for tensor in (ifm, state, ofm)]
    fixed = {
        "shape": (ifm.shape[0], ifm.shape[1], *times.shape, attrs.rank),
        "stage": (*origins, *first, *second, *state.dtype.limits, *ofm.dtype.limits),
    }
    read = [operands.source(operator.input(place)) for place in (0, places.of_input, places.in_time)]
    read += ["NULL" if bias is None else operands.source(bias), operands.source(operator.input(places.state))]
    made = [operands.target(tensor) for tensor in operator.outputs]
    function = f"svdf_{state.dtype.value}"
    text = f"{arrays(fixed)}{function}({', '.join([*read, *made])}, shape, stage);"
    return call("svdf.c", function, text, STATE=state.dtype, TIME=times.dtype)


SVDF = CKernel(("SVDF",), _write, kept(DType.INT8))
