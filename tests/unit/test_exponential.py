"""The table of exponentials that the NPU looks up in, against the reference's own arithmetic, over all its entries."""

from __future__ import annotations

import importlib
import math

import numpy as np
from ethoscade.judge.reference.fixed_point import divide_by_power, high_mul, multiply
from ethoscade.lowering import exponential
from hypothesis import given
from hypothesis import strategies as st

softmax = importlib.import_module("ethoscade.judge.reference.softmax")
words = st.integers(-(1 << 31) + 1, (1 << 31) - 1)


@given(
    beta=st.one_of(st.just(1.0), st.floats(0.015625, 20, width=32)),
    scale=st.integers(-40, 6).flatmap(lambda e: st.floats(1, 2, width=32).map(lambda x: x * 2.0**e)),
)
def test_the_table_is_the_reference_exponential(beta: float, scale: float) -> None:
    """From scales at which everything is equal to those at which nothing but the maximum is left."""
    significand, shift = softmax._input_factor(beta, scale)
    distances = -np.arange(256, dtype=np.int64)
    near = distances >= -math.floor(31 * (1 << 26) / 2.0**shift)
    values = softmax.exp_of_negative(multiply(np.where(near, distances, 0), significand, shift))
    assert exponential.exponentials(beta, scale) == tuple(int(v) for v in np.where(near, values, 0))


@given(a=words, b=words)
def test_products_are_rounded_as_by_the_reference(a: int, b: int) -> None:
    assert exponential.high_mul(a, b) == int(high_mul(np.int64(a), np.int64(b)))


@given(value=words, exponent=st.integers(0, 40))
def test_quotients_are_rounded_as_by_the_reference(value: int, exponent: int) -> None:
    assert exponential.divided(value, exponent) == int(divide_by_power(np.int64(value), exponent))


def test_the_reciprocal_of_one_is_all_that_saturates() -> None:
    """What the NPU computes without saturation equals the reference wherever that has none."""
    half = (1 << 30) + np.arange(1 << 20, dtype=np.int64)
    x = 1515870810 + high_mul(half, -1010580540)
    for _ in range(3):
        x = x + (high_mul(x, (1 << 29) - high_mul(half, x)) << 2)
    assert x.max() == 1 << 30
    assert (softmax.reciprocal_of_one_plus(2 * half - (1 << 31)) == np.minimum(2 * x, (1 << 31) - 1)).all()
