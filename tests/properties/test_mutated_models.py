"""Files changed field by field: each is refused in a sentence or compiles to what the reference computes.

A sample; `benches/mutated_models.py` runs ten thousand.
"""

from __future__ import annotations

import os
import random
import struct
import sys

import pytest
from model_mutations import DIED, HANG, MEMORY, TRACEBACK, is_bad, many, mutate, outcome, places, summary, victims

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork") or not sys.platform.startswith("linux"), reason="children under limits need Linux"
)


@pytest.fixture(scope="module")
def files() -> list[bytes]:
    return victims()


def test_mutated_models_are_right_or_refused(files: list[bytes]) -> None:
    ends: dict[str, int] = {}
    for number, data in many(files, 150, 2024):
        words, _, _ = outcome(data)
        assert not is_bad(words), f"file {number}: {words}"
        ends[summary(words)] = ends.get(summary(words), 0) + 1
    assert ends["compiled and right"] > 15 and ends["refused (ModelFormatError)"] > 25


def test_every_kind_of_number_is_found_and_changed(files: list[bytes]) -> None:
    at = places(files[0])
    assert {"code", "extent", "type", "scale", "zero point", "index", "buffer", "option", "offset", "length"} <= set(at)
    for what, found in at.items():
        assert all(0 <= p.offset <= len(files[0]) - struct.calcsize(p.form) for p in found), what
    changed = {mutate(files[0], at, random.Random(seed)) for seed in range(50)}
    assert len(changed) > 40


def _hang(_: bytes) -> str:
    while True:
        pass


def _hunger(_: bytes) -> str:
    return str(len(bytearray(1 << 33)))


def _crash(_: bytes) -> str:
    os.abort()


@pytest.mark.parametrize(("work", "end"), [(_hunger, MEMORY), (lambda _: str(1 // 0), TRACEBACK), (_crash, DIED)])
def test_the_judge_notices(work, end) -> None:
    words, _, _ = outcome(b"", work)
    assert is_bad(words) and words.startswith(end)


def test_the_judge_notices_a_hang(monkeypatch) -> None:
    monkeypatch.setattr("model_mutations.SECONDS", 1)
    words, _, _ = outcome(b"", _hang)
    assert words.startswith(HANG)
