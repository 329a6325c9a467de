"""Files of buffers, and the command that reads and writes them."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from ethoscade import memory
from ethoscade.cli import plan_memory
from ethoscade.errors import ConfigError
from ethoscade.memory import Buffer, Gap, Share

README = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n"


def _file(folder: Path, text: str) -> Path:
    path = folder / "buffers.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_columns_in_any_order_with_all_that_there_can_be(tmp_path: Path) -> None:
    text = "size,offset,gaps,upper,alignment,begin,buffer\r\n10,,2-4 5-6@2:8,9,4,-1,x\r\n\r\n8,16,,3,,0,y\r\n"
    assert memory.read_csv(_file(tmp_path, text)) == (
        Buffer("x", -1, 9, 10, 4, gaps=(Gap(2, 4), Gap(5, 6, (2, 8)))),
        Buffer("y", 0, 3, 8, 1, offset=16),
    )


def test_end_is_inclusive(tmp_path: Path) -> None:
    found = memory.read_csv(_file(tmp_path, "id,lower,end,size,gaps\na,0,8,5,2-3\n"))
    assert found == (Buffer("a", 0, 9, 5, gaps=(Gap(2, 4),)),)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    buffers = (Buffer("x, 1", 0, 9, 10, 4, gaps=(Gap(2, 4), Gap(5, 6, (2, 8)))), Buffer("y", 0, 3, 8, offset=12))
    path = tmp_path / "out.csv"
    memory.write_csv(path, buffers)
    assert memory.read_csv(path) == buffers
    memory.write_csv(path, buffers, [0, 12])
    assert path.read_text().splitlines()[0] == "id,lower,upper,size,alignment,gaps,pin,offset"
    assert memory.read_csv(path) == buffers
    memory.write_csv(path, [replace(buffer, offset=None) for buffer in buffers], [0, 12])
    assert [buffer.offset for buffer in memory.read_csv(path)] == [0, 12]


def test_all_that_a_buffer_can_be_is_written_and_read_again(tmp_path: Path) -> None:
    buffers = (
        Buffer("x y", 0, 9, 10, 4, pools=("fast ram", "50%"), conflicts=("a@b:1", "w"), access=(("cpu:0", "rw"),)),
        Buffer("a@b:1", 0, 3, 8, offset=16, shares=(Share("x y"), Share("w", -8, 24))),
        Buffer.constant("w", 7, 16, ("50%", "fast ram"), readers=("npu", "cpu:0")),
    )
    path = tmp_path / "out.csv"
    memory.write_csv(path, buffers)
    assert path.read_text().splitlines()[:3] == [
        "id,lower,upper,size,alignment,conflicts,shares,pools,access,offset",
        "x y,0,9,10,4,a%40b%3A1 w,,fast%20ram 50%25,cpu%3A0:rw,",
        "a@b:1,0,3,8,,,x%20y w@-8:24,,,16",
    ]
    assert memory.read_csv(path) == buffers
    memory.write_csv(path, buffers, [0, 16, 0], ["50%", "fast ram", "50%"])
    placed = memory.read_csv(path)
    assert [buffer.offset for buffer in placed] == [None, 16, None]
    assert [buffer.pools for buffer in placed] == [("50%", "fast ram"), ("fast ram",), ("50%", "fast ram")]
    with pytest.raises(ConfigError, match="1 pools for 3 buffers"):
        memory.write_csv(path, buffers, [0, 16, 0], ["50%"])


def test_pools_of_the_command_line_hold_what_the_file_wants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = _file(tmp_path, "id,lower,upper,size,pools\na,0,2,60,fast slow\nb,1,3,50,fast slow\nc,0,3,8,slow\n")
    placed = tmp_path / "placed.csv"
    assert _run(str(file), "--pool", "fast=100", "--pool", "slow", "--json", "--output", str(placed)) == 0
    pools = json.loads(capsys.readouterr().out)["pools"]
    assert [(pool["pool"], pool["peak_bytes"]) for pool in pools] == [("fast", 60), ("slow", 58)]
    assert [buffer.pools for buffer in memory.read_csv(placed)] == [("fast", "slow"), ("slow", "fast"), ("slow",)]
    assert _run(str(file), "--pool", "fast=100") == 1
    assert "'slow'" in capsys.readouterr().err
    assert _run(str(file)) == 1
    assert "--pool" in capsys.readouterr().err
    assert _run(str(file), "--pool", "fast", "--capacity", "100") == 1
    assert "--capacity" in capsys.readouterr().err
    for wrong in ("=3", "fast=many", "fast=-1", ""):
        with pytest.raises(SystemExit) as caught:
            _run(str(file), "--pool", wrong)
        assert caught.value.code == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("empty",)),
        ("id,lower,upper\n", (":1:", "'size'")),
        ("id,lower,upper,size,colour\n", (":1:", "'colour'")),
        ("id,lower,upper,size,start\n", (":1:", "twice")),
        ("id,lower,upper,size\na,0,1,2\nb,0,1\n", (":3:", "3 fields", "4")),
        ("id,lower,upper,size\na,0,1,2,3\n", (":2:", "5 fields")),
        ("id,lower,upper,size\na,0,1,many\n", (":2:", "'size'", "'many'")),
        ("id,lower,upper,size\na,0,1,\n", (":2:", "'size'", "''")),
        ("id,lower,upper,size\na,0,1,1.5\n", (":2:", "'size'", "'1.5'")),
        ("id,lower,upper,size\na,0,1,-2\n", (":2:", "'size'", "'-2'")),
        ("id,lower,upper,size\na,5,4,2\n", (":2:", "'upper'", "'4'")),
        ("id,lower,upper,size,conflicts\na,0,1,2,a\n", (":2:", "'conflicts'", "'a'")),
        ("id,lower,upper,size,conflicts\na,0,1,2,\nb,0,1,2,a c\n", (":3:", "'conflicts'", "'c'")),
        ("id,lower,upper,size,shares\na,0,1,2,b@1\n", (":2:", "'shares'", "'b@1'", "id@low:high")),
        ("id,lower,upper,size,shares\na,0,1,2,b@4:1\nb,0,1,2,\n", (":2:", "'b'", "reversed")),
        ("id,lower,upper,size,shares\na,0,1,2,c\n", (":2:", "'shares'", "'c'")),
        ("id,lower,upper,size,pools\na,0,1,2,x%zz\n", (":2:", "'pools'", "%25")),
        ("id,lower,upper,size,pools\na,0,1,2,x%ff\n", (":2:", "'pools'", "UTF-8")),
        ("id,lower,upper,size,access\na,0,1,2,cpu:wo\n", (":2:", "'access'", "target:ro")),
        ("id,lower,upper,size,pin\na,0,1,2,-4\n", (":2:", "'pin'", "'-4'")),
        ("id,lower,end,size\na,5,3,2\n", (":2:", "'end'", "'3'")),
        ("id,lower,upper,size\na,0,99999999999999999999,2\n", (":2:", "'upper'", "too large")),
        ("id,lower,upper,size\na,0,1,99999999999999999999\n", (":2:", "'size'", "too large")),
        ("id,lower,upper,size,alignment\na,0,1,2,0\n", (":2:", "'alignment'", "'0'")),
        ("id,lower,upper,size,offset\na,0,1,2,-1\n", (":2:", "'offset'", "'-1'")),
        ("id,lower,upper,size,gaps\na,0,9,2,3\n", (":2:", "'gaps'", "'3'")),
        ("id,lower,upper,size,gaps\na,0,9,2,3-12\n", (":2:", "'a'", "3-12")),
        ("id,lower,upper,size\n,0,1,2\n", (":2:", "'id'")),
        ("id,lower,upper,size\na,0,1,2\na,0,1,2\n", (":3:", "'id'", "'a'", "line 2")),
        ('id,lower,upper,size\n"a,0,1,2\n', ("comma-separated",)),
    ],
)
def test_a_malformed_file_is_refused_with_the_place(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        memory.read_csv(_file(tmp_path, text))
    for word in ("buffers.csv", *words):
        assert word in str(caught.value)


def test_files_that_are_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.csv"):
        memory.read_csv(tmp_path / "nothing.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"bytes\.csv"):
        memory.read_csv(tmp_path / "bytes.csv")
    with pytest.raises(ConfigError, match="cannot write"):
        memory.write_csv(tmp_path / "bytes.csv" / "folder.csv", [])
    memory.write_csv(tmp_path / "new" / "folder" / "empty.csv", [])
    assert memory.read_csv(tmp_path / "new" / "folder" / "empty.csv") == ()


def _run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    plan_memory.add_arguments(parser)
    return plan_memory.run(parser.parse_args(words))


def test_the_command_prints_one_object_and_writes_the_placement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    placed = tmp_path / "placed.csv"
    assert _run(str(_file(tmp_path, README)), "--capacity", "12", "--output", str(placed), "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["peak_bytes"], summary["lower_bound_bytes"], summary["optimal"]) == (12, 12, True)
    assert summary["stop_reason"] == "complete"
    assert summary["seconds"] >= 0
    buffers = memory.read_csv(placed)
    assert memory.plan(buffers).peak_bytes == 12
    assert [buffer.name for buffer in buffers] == ["b1", "b2", "b3", "b4", "b5"]


def test_the_command_says_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(str(_file(tmp_path, README)), "--algorithm", "greedy_by_size") == 0
    assert capsys.readouterr().out.startswith("5 buffers in 12 bytes, which is optimal")


def test_the_command_fails_with_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(str(_file(tmp_path, README)), "--capacity", "11", "--json") == 1
    out, err = capsys.readouterr()
    complaint = json.loads(out)
    assert (complaint["error"], complaint["budget_bytes"], complaint["floor_bytes"]) == ("BudgetError", 11, 12)
    assert (complaint["pool"], complaint["buffers"]) == ("memory", ["b1", "b3", "b5"])
    assert len(err.splitlines()) == 1 and "b1, b3, b5" in err
    assert _run(str(tmp_path / "nothing.csv")) == 1
    out, err = capsys.readouterr()
    assert out == "" and "nothing.csv" in err


def test_threads_change_nothing_but_must_be_some(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summaries = []
    for threads in ("1", "3"):
        assert _run(str(_file(tmp_path, README)), "--threads", threads, "--json") == 0
        summaries.append({**json.loads(capsys.readouterr().out), "seconds": 0})
    assert summaries[0] == summaries[1]
    assert _run(str(_file(tmp_path, README)), "--threads", "0") == 1
    assert "0 threads" in capsys.readouterr().err


def test_wrong_usage_has_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ((), ("x.csv", "--capacity", "-3"), ("x.csv", "--algorithm", "magic")):
        with pytest.raises(SystemExit) as caught:
            _run(*words)
        assert caught.value.code == 2


def test_a_plot_shows_every_pool(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from ethoscade.report import memory_plot

    buffers = [
        Buffer("a", 0, 9, 40, gaps=(Gap(2, 4), Gap(4, 6, (8, 40)))),
        Buffer("b", 2, 4, 40),
        Buffer.constant("c", 7, pools=("flash",)),
    ]
    placement = memory.plan(buffers, pools=(memory.Pool("sram"), memory.Pool("flash")))
    assert list(memory_plot.sections(buffers[0])) == [(0, 2, 0, 40), (4, 6, 8, 40), (6, 9, 0, 40)]
    picture = tmp_path / "plan.svg"
    memory_plot.plot(placement, picture)
    assert picture.read_text().count("<svg") == 1
    with pytest.raises(ConfigError, match="cannot write"):
        memory_plot.plot(placement, picture / "plan.png")
    memory_plot.plot(placement, tmp_path / "new" / "folder" / "plan.png")
    assert (tmp_path / "new" / "folder" / "plan.png").stat().st_size > 0


def test_a_missing_matplotlib_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ethoscade.report import memory_plot

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match="matplotlib"):
        memory_plot.plot(memory.plan([]), tmp_path / "plan.png")
    assert _run(str(_file(tmp_path, README)), "--plot", "plan.png", "--output", str(tmp_path / "placed.csv")) == 1
    assert "ethoscade[report]" in capsys.readouterr().err
    # It is said before the search, not after it.
    assert not (tmp_path / "placed.csv").exists()
