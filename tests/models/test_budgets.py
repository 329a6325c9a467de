"""Budgets on public models: answers beside the whole frontier's, first ones and repeated ones."""

from __future__ import annotations

import ethoscade
import pytest
from ethoscade import BudgetError
from model_files import NO_MODELS, model_folder

MODELS = ("kws_ref_int8", "resnet8_int8", "person_detect")

pytestmark = pytest.mark.skipif(model_folder() is None, reason=NO_MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_a_budget_loses_next_to_nothing_and_is_refused_as_by_the_frontier(name: str) -> None:
    folder = model_folder()
    assert folder is not None
    network = ethoscade.prepare(folder / f"{name}.tflite")
    points = network.frontier().points
    floor, most = points[0][0], points[-1][0]
    for budget in (floor, floor * 3 // 2, floor * 2, floor * 4, most):
        best = next(cycles for size, cycles in reversed(points) if size <= budget)
        found = network.within(budget)
        cycles = next(cycles for size, cycles in reversed(found.points) if size <= budget)
        assert 100 * cycles <= 101 * best
        assert network.fits(budget) and found.floor_bytes == floor
    assert not network.fits(floor - 16)
    with pytest.raises(BudgetError) as caught:
        network.compile(sram=floor - 16)
    assert caught.value.floor_bytes == floor
