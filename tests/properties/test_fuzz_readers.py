"""Damaged models and files of buffers are read or refused in our own words. `benches/fuzz_readers.py` tries more."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from reader_fuzzing import READERS, damaged

INPUTS = 3000


@pytest.mark.parametrize("name", READERS)
def test_damaged_files(name: str, tmp_path: Path) -> None:
    read, files = READERS[name]
    victims, ends = files(tmp_path), Counter[str]()
    for number in range(INPUTS):
        ends[read(damaged(victims[number % len(victims)], random.Random(f"test {number}")), tmp_path)] += 1
    # The damage must reach deep: some files are still read, some are not.
    assert ends["read"] > INPUTS // 100
    assert sum(ends.values()) - ends["read"] > INPUTS // 4
