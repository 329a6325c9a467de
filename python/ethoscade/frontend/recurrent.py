"""UNIDIRECTIONAL_SEQUENCE_LSTM with integers: four gates, and state that it writes over.

Owns the places of its many inputs and their shapes. Gates that follow from others, peepholes, projections and
normalised layers have no words in `ir`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ..ir import Attrs, DType, LstmAttrs, LstmInputs, Tensor, schema
from ..ir.operators import OPERATORS
from .site import NotUnderstood, Site

_FEWEST, _MOST = 20, 24
_CELL_SCALES = (2.0**-30, 2.0)
"""With a cell state of a larger scale units of its TANH leave 32 bits, with one of a smaller scale their shift does."""


def lstm(site: Site) -> LstmAttrs:
    """UNIDIRECTIONAL_SEQUENCE_LSTM of int8 or int16 with weights of int8 and a cell state of int16."""
    site.count(_FEWEST, _MOST)
    options, places = site.options(), LstmInputs
    for what, inputs in (
        ("peepholes", places.peepholes), ("a projection", places.projection), ("normalised gates", places.norms)
    ):  # fmt: skip
        if any(site.optional(place) is not None for place in inputs):
            raise NotUnderstood(f"{what} of an LSTM")
    if site.optional(places.of_input[0]) is None:
        raise NotUnderstood("an LSTM whose input gate follows from its forget gate")
    if int(options.FusedActivationFunction()) != schema.ActivationFunctionType.TANH:
        raise NotUnderstood("an LSTM with another activation than TANH")
    attrs = LstmAttrs(bool(options.TimeMajor()), max(float(options.CellClip()), 0.0))
    ifm = site.input(0, "input")
    if len(ifm.shape) != 3:
        raise NotUnderstood(f"an LSTM over {len(ifm.shape)} dimensions")
    _check_types(site, ifm)
    _check_shapes(site, ifm, attrs)
    return attrs


def _check_types(site: Site, ifm: Tensor) -> None:
    """Raises `NotUnderstood` for other types or quantisations than the integer kernels have."""
    places = LstmInputs
    bias = DType.INT64 if ifm.dtype is DType.INT16 else DType.INT32
    state, cell = (site.input(place, "state") for place in OPERATORS[site.kind].updates)
    if ifm.dtype not in (DType.INT8, DType.INT16) or state.dtype is not ifm.dtype or site.output.dtype is not ifm.dtype:
        raise NotUnderstood(f"an LSTM of {ifm.dtype.value} with a state of {state.dtype.value}")
    weights = [site.input(place, "weights") for place in (*places.of_input, *places.of_state)]
    biases = [site.input(place, "bias") for place in places.biases]
    for tensor, wanted in ((cell, DType.INT16), *((t, DType.INT8) for t in weights), *((t, bias) for t in biases)):
        if tensor.dtype is not wanted:
            raise NotUnderstood(f"an LSTM of {ifm.dtype.value} with '{tensor.name}' of {tensor.dtype.value}")
    for tensor in (ifm, state, cell, *weights):
        if tensor.quantisation is None or len(tensor.quantisation.scales) != 1:
            raise NotUnderstood(f"an LSTM with '{tensor.name}' of no single scale")
    for tensor in (cell, *weights, *((ifm, state) if ifm.dtype is DType.INT16 else ())):
        if tensor.quantisation is not None and tensor.quantisation.zero_point:
            raise NotUnderstood(f"an LSTM with '{tensor.name}' of zero point {tensor.quantisation.zero_point}")
    scale = 0.0 if cell.quantisation is None else cell.quantisation.scale
    least, most = _CELL_SCALES
    if math.frexp(scale)[0] != 0.5 or not least <= scale <= most:
        raise NotUnderstood(
            f"an LSTM with cell state '{cell.name}' of scale {scale:g}; powers of two from {least:g} to {most:g} are "
            f"known"
        )


def _check_shapes(site: Site, ifm: Tensor, attrs: LstmAttrs) -> None:
    places = LstmInputs
    times, batch = ifm.shape[:2] if attrs.time_major else ifm.shape[1::-1]
    features = ifm.shape[2]
    cells = math.prod(site.input(places.of_state[0], "weights").shape[:1])
    shapes = {
        **dict.fromkeys(places.of_input, (cells, features)),
        **dict.fromkeys(places.of_state, (cells, cells)),
        **dict.fromkeys(places.biases, (cells,)),
        **dict.fromkeys(OPERATORS[site.kind].updates, (batch, cells)),
    }
    site.expect_operands(shapes, f"{cells} cells of {features} features for a batch of {batch}")
    leading = (times, batch) if attrs.time_major else (batch, times)
    site.expect_shape((*leading, cells))


RECURRENT_READERS: Mapping[str, Callable[[Site], Attrs]] = {"UNIDIRECTIONAL_SEQUENCE_LSTM": lstm}
