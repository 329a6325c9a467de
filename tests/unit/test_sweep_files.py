"""Rows on the disk: in any order, cut anywhere, gone on from, the same bytes; and no other file is touched."""

from __future__ import annotations

import csv
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import ethoscade
import pytest
from ethoscade import ConfigError, SweepRow
from ethoscade.sweeps.driver import Sweep
from ethoscade.sweeps.files import RowFile
from ethoscade.sweeps.questions import Inquiry
from ethoscade.sweeps.rows import COLUMNS, cells_of, column_names, merged, row_from
from hypothesis import given, settings
from hypothesis import strategies as st
from sweeping import TARGETS, Here, answers, inquiry, networks

KINDS = ("rows.csv", "rows.parquet")
HOSTILE = ("net", 'a,"b"', "=1+1", "two\nlines\r\u2028", "\x00\x85", "\ud800", "ünïcode", " ", "")


def written(path: Path, found: Iterable[tuple[SweepRow, ...]], with_seconds: bool = False) -> bytes:
    """The bytes of a file after a whole run with these answers."""
    with RowFile(path, with_seconds) as file:
        for answer in found:
            file.add(answer)
        file.finish()
    return path.read_bytes()


def all_answers() -> list[tuple[SweepRow, ...]]:
    asked = [inquiry(name, target, "floor", "frontier", 300) for name in HOSTILE for target in TARGETS]
    return [answer for points, of in enumerate(asked) for answer in answers(of, points % 4 + 1)]


@pytest.fixture(params=KINDS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param.endswith("parquet"):
        pytest.importorskip("pyarrow")
    return tmp_path / str(request.param)


@given(st.randoms(use_true_random=False), st.data())
@settings(max_examples=40, deadline=None)
def test_any_prefix_of_a_run_gone_on_from_gives_the_same_bytes(chance: random.Random, data: st.DataObject) -> None:
    """Answers in any order, stopped at any byte, several times; some that are there come once more."""
    found = all_answers()
    with tempfile.TemporaryDirectory() as folder:
        expected = written(Path(folder) / "whole.csv", found)
        path = Path(folder) / "rows.csv"
        for _ in range(data.draw(st.integers(1, 3))):
            chance.shuffle(found)
            with RowFile(path) as file:
                for answer in found[: data.draw(st.integers(0, len(found)))]:
                    file.add(answer)
            content = path.read_bytes()
            ends = [place for place, letter in enumerate(content, start=1) if letter == ord("\n")]
            cut = data.draw(st.one_of(st.integers(0, len(content)), st.sampled_from(ends)))
            path.write_bytes(content[:cut])
        chance.shuffle(found)
        with RowFile(path) as file:
            for answer in found:
                if file.known.get(answer[0].question) != answer or chance.random() < 0.3:
                    file.add(answer)
            file.finish()
        assert path.read_bytes() == expected


def test_rows_are_sorted_whatever_the_order(path: Path) -> None:
    found = all_answers()
    first = written(path, found)
    for seed in range(3):
        path.unlink()
        random.Random(seed).shuffle(found)
        assert written(path, found) == first


def test_numbers_in_names_sort_by_their_values() -> None:
    asked = [inquiry(f"net{n}", of, "frontier", 10_000, 9_000, "floor") for n in (10, 9) for of in reversed(TARGETS)]
    rows = merged(row for of in asked for answer in answers(of, 2) for row in answer)
    seen = list(dict.fromkeys((row.model, row.accelerator) for row in rows))
    assert seen == [(name, of) for name in ("net9", "net10") for of in TARGETS]
    assert [row.budget for row in rows[:5]] == ["floor", "9000", "10000", "frontier", "frontier"]


def test_csv_and_parquet_have_the_same_rows(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    for with_seconds in (False, True):
        found = all_answers()
        text = written(tmp_path / f"{with_seconds}.csv", found, with_seconds).decode()
        written(tmp_path / f"{with_seconds}.parquet", found, with_seconds)
        lines = list(csv.reader(text.splitlines()))
        table = parquet.read_table(tmp_path / f"{with_seconds}.parquet")
        assert lines[0] == table.column_names == column_names(with_seconds)
        assert len(lines[0]) == len(COLUMNS) - (not with_seconds)
        rows = [SweepRow(**of) for of in table.to_pylist()]
        assert rows == [row_from(lines[0], cells) for cells in lines[1:]] == merged(r for of in found for r in of)
        assert [cells_of(row, with_seconds) for row in rows] == lines[1:]
    assert not list(tmp_path.glob("*.rows"))


def test_a_finished_file_is_gone_on_from(path: Path) -> None:
    """With more questions, and with none: what was there stays, whoever asks."""
    found = all_answers()
    before = written(path, found[: len(found) // 2])
    assert written(path, []) == before
    with RowFile(path) as file:
        assert set(file.known) == {answer[0].question for answer in found[: len(found) // 2]}
    rest = written(path, found[len(found) // 2 :])
    path.unlink()
    assert written(path, found) == rest


def test_seconds_are_a_column_that_comes_and_goes(path: Path) -> None:
    found = all_answers()
    plain = written(path, found)
    timed = written(path, [], with_seconds=True)
    assert timed != plain and b"seconds" in timed
    assert written(path, []) == plain


def test_of_answers_that_were_cut_nothing_stands() -> None:
    asked = [inquiry(name, TARGETS[0], "frontier") for name in ("a", "b", "c")]
    (a,), (b,), (c,) = (answers(of, 3) for of in asked)
    (shorter,) = answers(asked[0], 2)
    cuts = [*a[:2], *b, *c[1:], *a[:1], *shorter[:1], *a[2:], *c[:2], *c, *b[:1]]
    assert merged(cuts) == [*b, *c]
    assert merged([*cuts, *shorter]) == [*shorter, *b, *c]


def test_a_last_line_that_is_no_row_is_left_out(tmp_path: Path) -> None:
    """As where the system itself was stopped: zeros, or half a line and an end of it."""
    path = tmp_path / "rows.csv"
    content = written(path, all_answers())
    for rest in (b"\0" * 20 + b"\n", b"x,y\n", b"\0" * 20):
        path.write_bytes(content + rest)
        assert written(path, []) == content
        path.write_bytes(content + rest)
        assert written(path, all_answers()[:1]) == content


def test_the_last_answer_stands(path: Path) -> None:
    asked = inquiry("net", TARGETS[0], "frontier")
    (short,), (long,) = answers(asked, 1), answers(asked, 3)
    expected = written(path, [long])
    path.unlink()
    assert written(path, [long, short, long]) == expected


@pytest.mark.parametrize(
    "content",
    [b"a,b\n1,2\n", b"\n", b"\xff\xfe\n", b"no rows", b"model,model_sha256\nx,y\n", b"PAR1"],
)
def test_what_no_sweep_has_written_is_left_alone(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="has no rows of a sweep"), RowFile(path):
        pass
    assert [one.read_bytes() for one in path.parent.iterdir()] == [content]


def test_damage_in_the_middle_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    content = written(path, all_answers())
    lines = content.split(b"\n")
    for wrong in (b"", b"x" * 10, lines[3].replace(b",1,", b",one,"), lines[3] + b",", b'"' + lines[3], b"\xff"):
        path.write_bytes(b"\n".join([*lines[:3], wrong, *lines[4:]]))
        with pytest.raises(ConfigError, match="line 4, is no row of a sweep"), RowFile(path):
            pass


def test_two_sweeps_do_not_write_one_file(path: Path) -> None:
    pytest.importorskip("fcntl")
    with RowFile(path) as file:
        with pytest.raises(ConfigError, match="another sweep writes"), RowFile(path):
            pass
        for answer in all_answers():
            file.add(answer)
        file.finish()
    with RowFile(path) as file:
        assert len(file.known) == len({answer[0].question for answer in all_answers()})


def test_parquet_without_pyarrow_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"ethoscade\[parquet\]"):
        ethoscade.sweep(networks(), output="rows.parquet")


# Whole sweeps.

BUDGETS = ("frontier", 300)


def swept(path: Path, executor: Here, stop: int | None = None, **options: object) -> Sweep:
    """A sweep into a file, stopped after so many rows."""
    sweep = ethoscade.sweep(networks(), TARGETS, BUDGETS, executor, output=path, **options)  # type: ignore[arg-type]
    with sweep:
        for number, _ in enumerate(sweep, start=1):
            if number == stop:
                break
    return sweep


def test_a_sweep_that_was_stopped_goes_on_to_the_same_bytes(path: Path) -> None:
    whole = swept(path, Here())
    expected = path.read_bytes()
    path.unlink()
    assert (whole.known, whole.answered) == (0, whole.questions)
    stopped = swept(path, Here(), stop=5)
    here = Here()
    resumed = swept(path, here)
    assert path.read_bytes() == expected
    asked = sum(len(one.budgets) for one in here.given)
    assert resumed.known > 0 and resumed.known + asked == resumed.questions == stopped.questions
    again = Here()
    assert swept(path, again).known == whole.questions and not again.given
    assert path.read_bytes() == expected


def test_the_number_of_workers_changes_no_byte(tmp_path: Path) -> None:
    found = set()
    for jobs in (1, 3):
        path = tmp_path / f"{jobs}.csv"
        list(ethoscade.sweep(networks(), TARGETS, BUDGETS, output=path, jobs=jobs))
        found.add(path.read_bytes())
    assert len(found) == 1


def test_what_changes_an_answer_is_asked_again(path: Path) -> None:
    swept(path, Here())
    here = Here()
    assert swept(path, here, epsilon=1).known == 0
    renamed = {f"again_{name}": data for name, data in networks().items()}
    sweep = ethoscade.sweep(renamed, TARGETS, BUDGETS, here, output=path)
    given_before = len(here.given)
    assert {row.model for row in sweep} == set(renamed)
    assert len(here.given) == given_before, "a file by another name is the same model"


def test_what_may_end_otherwise_is_asked_again(path: Path) -> None:
    """A time-out, a lost worker: their rows stay until the next run, which replaces them."""

    def lose(asked: Inquiry) -> None:
        if asked.model == "tiny":
            raise OSError("gone")

    swept(path, Here())
    expected = path.read_bytes()
    path.unlink()
    lost = swept(path, Here(lose))
    assert path.read_bytes() != expected
    here = Here()
    assert swept(path, here).known == lost.questions - 4
    assert {asked.model for asked in here.given} == {"tiny"} and path.read_bytes() == expected


def test_a_sweep_that_is_killed_goes_on(tmp_path: Path) -> None:
    """The whole process, with no chance to say good-bye, in the middle of its rows."""
    path = tmp_path / "rows.csv"
    code = (
        "import os, sys, ethoscade\nfrom sweeping import networks, TARGETS\n"
        f"sweep = ethoscade.sweep(networks(), TARGETS, {BUDGETS!r}, output={str(path)!r}, jobs=2)\n"
        "for number, row in enumerate(sweep):\n"
        "    if number == 6: os.kill(os.getpid(), 9)\n"
    )
    here = Path(__file__).resolve().parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=here, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    executor = Here()
    assert swept(path, executor).known > 0
    found = path.read_bytes()
    path.unlink()
    swept(path, Here())
    assert path.read_bytes() == found


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Full:
        def write(self, _data: bytes) -> None:
            raise OSError(28, "No space left on device")

    with RowFile(tmp_path / "rows.csv") as file:
        monkeypatch.setattr(file, "_stream", Full())
        with pytest.raises(ethoscade.CodegenError, match="No space left"):
            file.add(all_answers()[0])
        monkeypatch.undo()
