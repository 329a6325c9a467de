"""Files changed field by field: each is refused in a sentence or compiles to what the reference computes.

A sample; `benches/mutated_models.py` runs ten thousand.
"""

from __future__ import annotations

import os
import random
import struct
import sys
from dataclasses import replace

import pytest
import takers
from model_mutations import DIED, HANG, MEMORY, TRACEBACK, is_bad, many, mutate, outcome, places, summary, victims
from tflite_files import File, conv_file

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


def test_nothing_is_refused_that_litert_and_vela_take(files: list[bytes]) -> None:
    """But for what `takers.NO_NETWORK` has, with a reason each."""
    pytest.importorskip("ai_edge_litert", reason='LiteRT is not installed: pip install "ethoscade[verify]"')
    takers.warm_up()
    alone = {number: why for number, data in many(files, 100, 2025) if (why := takers.refused_alone(data)) is not None}
    assert alone == {}


def test_a_refusal_of_ours_alone_is_noticed(monkeypatch) -> None:
    """Both take a network of which an input is named twice; here that is refused on purpose."""
    pytest.importorskip("ai_edge_litert", reason='LiteRT is not installed: pip install "ethoscade[verify]"')
    twice = replace(conv_file(), inputs=(0, 0)).bytes()
    assert takers.refused_alone(twice) is None and takers.refused_alone(conv_file().bytes()) is None
    monkeypatch.setattr(takers, "NO_NETWORK", {})
    assert "name a tensor twice" in (takers.refused_alone(twice) or "")


def test_a_refusal_is_known_by_its_rule_and_not_by_its_words() -> None:
    """A name that holds a sentence on which a file may be refused: no part of it decides."""
    pytest.importorskip("ai_edge_litert", reason='LiteRT is not installed: pip install "ethoscade[verify]"')
    file = conv_file().tensor(-1, name="moves elements of, or already made", shape=(1, 9, 8, 6))
    constraint, _, sentence = takers.refusal(file.bytes()).partition("\n")
    assert "or already made" in sentence and constraint not in takers.NO_NETWORK


@pytest.mark.parametrize("file", [replace(conv_file(), inputs=()), replace(conv_file(), operators=())])
def test_what_is_refused_on_purpose_names_a_rule(file: File) -> None:
    assert takers.refusal(file.bytes()).partition("\n")[0] in takers.NO_NETWORK


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
