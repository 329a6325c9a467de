"""The bench that sweeps thousands of networks, on a few; and that it sees what it looks for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ethoscade.sweeps import driver

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benches"))

import sweep as bench


def test_a_sample_of_the_bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(driver, "Workers", driver.Workers)
    path = tmp_path / "rows.csv"
    assert bench.run(24, ["ethos-u55-128"], 2, path)
    said = capsys.readouterr().out
    assert "24 questions in " in said and "rows missing: 0, twice: 0; errors: none" in said
    assert [line.split()[:2] for line in said.splitlines()[1:5]] == [[str(n), "6"] for n in (1, 2, 3, 4)]

    head, *rows = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join([head, *rows[:-2], rows[0]]), encoding="utf-8")
    assert bench.faults_of(path, 24, 1)[:2] == (2, 1)


def test_networks_are_drawn_anew_each_time() -> None:
    drawn = bench.Drawn(10**6)
    assert len(drawn) == 10**6 and drawn["000007"] == drawn["000007"] != drawn["000008"]
    assert bench.resident("self") > bench.MB or not Path("/proc/self/status").exists()
