"""A sample of `benches/operator_elements.py`: every kind once, alone and in a cascade; its table, its complaints."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from ethoscade.ir import DType
from ethoscade.lowering import FAMILIES

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benches"))
pytest.importorskip("ai_edge_litert", reason='LiteRT is not installed: pip install "ethoscade[verify]"')
pytest.importorskip("tflite_micro", reason="TensorFlow Lite Micro is not installed: pip install --pre tflite_micro")

import operator_elements
from operator_elements import Tally, sweep, types_of


def test_a_sample_of_all_kinds() -> None:
    """Each kind of one type and on one accelerator, both in turn; what is unrolled in time takes too long for this."""
    tally = Tally()
    kinds = [kind for kind in FAMILIES if kind != "UNIDIRECTIONAL_SEQUENCE_LSTM"]
    for number, kind in enumerate(kinds):
        types = types_of(kind)
        sweep(kind, types[number % len(types)], 1 + number % 10, tally)
    assert tally.faults == []
    assert {name.split()[0] for name in tally.counts} == set(kinds)
    assert sum(count.run for count in tally.counts.values()) > 40
    assert sum(count.cut for count in tally.counts.values()) > 25
    assert Tally.from_json(tally.to_json()) == tally
    page = tally.page()
    assert page.count("\n| ") == len(kinds) + 2
    for row in page.splitlines()[-len(kinds) :]:
        assert row.count(" | ") == 8


def test_what_differs_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    right = operator_elements.JUDGES["LiteRT"]

    def wrong(*given: object) -> Mapping[str, np.ndarray]:
        return {name: value ^ 1 for name, value in right(*given).items()}  # type: ignore[arg-type]

    monkeypatch.setitem(operator_elements.JUDGES, "LiteRT", wrong)  # type: ignore[arg-type]
    tally = Tally()
    sweep("MAX_POOL_2D", DType.INT16, 3, tally)
    alone, between = tally.faults
    assert "alone" in alone and "between others" in between
    assert all("elements differ, by up to 1" in fault and "ethos-u55-64" in fault for fault in tally.faults)


def test_reasons_for_one_piece() -> None:
    """One pixel has no stripes, a table is part of who makes its input, unless that is wanted as well."""
    tally = Tally()
    for seed in (3, 4):
        sweep("TANH", DType.INT8, seed, tally)
        sweep("REDUCE_MAX", DType.INT8, seed, tally)
    tanh = tally.counts["TANH int8"]
    assert (tanh.cut, dict(tanh.pieces)) == (1, {"its neighbours do its work": 1})
    assert set(tally.counts["REDUCE_MAX int8"].pieces) <= {"it makes one pixel"}
