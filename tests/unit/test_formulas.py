"""The compiler's formulas and the reference's, which are written twice, agree; MEAN's as well."""

from __future__ import annotations

import math

from ethoscade.ir import Activation, DType, Quantisation, Tensor, quantised
from ethoscade.judge.reference import formulas, pooling
from ethoscade.lowering import limits
from hypothesis import given
from hypothesis import strategies as st

SCALES = st.floats(2.0**-30, 2.0**10, width=32)
TYPES = st.sampled_from([DType.INT8, DType.UINT8, DType.INT16])


# With what rounds up to a power of two, and with what is lost and just is not.
FACTORS = (
    st.floats(0, 2.0**40)
    | st.floats(0, 2.0**-28)
    | st.sampled_from([0.0, 1.0, 0.5, math.nextafter(1.0, 0.0), 2.0**-32, 2.0**-33, math.nextafter(2.0**-32, 0.0)])
)


@given(FACTORS)
def test_multipliers(real: float) -> None:
    assert quantised.multiplier_and_shift(real) == formulas.significand_and_shift(real)


@given(st.lists(FACTORS, max_size=8))
def test_many_multipliers_are_those_of_each(reals: list[float]) -> None:
    for many, one in (
        (quantised.multipliers_and_shifts, quantised.multiplier_and_shift),
        (quantised.reduced_multipliers_and_shifts, quantised.reduced_multiplier_and_shift),
        (limits.npu_scales, limits.npu_scale),
        (limits.wide_scales, limits.wide_scale),
    ):
        assert list(zip(*many(reals), strict=True)) == [one(real) for real in reals]


@given(SCALES, st.integers(0, 127), TYPES, st.sampled_from(Activation))
def test_clamps(scale: float, zero_point: int, dtype: DType, activation: Activation) -> None:
    for found in (Quantisation((scale,), (zero_point,)), None):
        assert quantised.activation_range(found, dtype, activation) == formulas.clamp_range(found, dtype, activation)


@given(
    SCALES, SCALES, st.lists(SCALES, min_size=1, max_size=3), TYPES,
    st.sampled_from(["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"]),
)  # fmt: skip
def test_factors_of_weighted_operators(ifm: float, ofm: float, weights: list[float], dtype: DType, kind: str) -> None:
    axis = None if len(weights) == 1 else 0
    tensors = (
        Tensor("x", (1,), dtype, Quantisation((ifm,), (0,))),
        Tensor("w", (len(weights), 1), dtype, Quantisation(tuple(weights), (0,) * len(weights), axis)),
        Tensor("y", (1,), dtype, Quantisation((ofm,), (0,))),
    )
    assert quantised.effective_scales(kind, *tensors) == formulas.output_factors(kind, *tensors)


@given(SCALES, SCALES, st.integers(1, 1 << 20))
def test_means(ifm: float, ofm: float, count: int) -> None:
    assert quantised.mean_multiplier(ifm / ofm, count) == pooling.mean_multiplier(ifm, ofm, count)


@given(st.integers(1, 300), st.integers(1, 300), st.booleans(), st.booleans())
def test_nearest_rows_and_columns(extent: int, outputs: int, corners: bool, centres: bool) -> None:
    found = quantised.nearest_indices(extent, outputs, corners, centres)
    assert found == formulas.nearest_places(extent, outputs, corners, centres)
