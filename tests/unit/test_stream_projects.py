"""Projects whose input arrives row by row, by the host, and whose output it takes so."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from board_support import need, read_all
from command_line_support import Capture, run, run_json, written
from ethoscade.codegen.c.options import COptions
from ethoscade.errors import ProjectError
from ethoscade.frontend import read_tflite
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from ethoscade.project import description, folder
from ethoscade.project.connection import Connection
from ethoscade.project.template import Project
from ethoscade.project.templates import TEMPLATES
from streamed_networks import image, operators_behind, passed_through, segmentation, with_state

HOST = TEMPLATES["host"]


def made(target: Path, model: bytes, rows: int, ahead: bool) -> Project:
    """A project on this machine, built."""
    need(HOST)
    artifact = ethoscade.compile(model, optimise="size", stream_input=rows, stream_ahead=ahead).artifact
    project = folder.make(HOST, target, artifact, COptions())
    folder.build(project, HOST)
    return project


@pytest.mark.parametrize("options", [["1"], ["3", "--stream-ahead"]], ids=["late", "ahead"])
@pytest.mark.parametrize("model", [image, with_state, passed_through, operators_behind])
def test_a_project_is_fed_and_is_the_reference(
    model: Callable[[], bytes], options: list[str], tmp_path: Path, capfd: Capture
) -> None:
    need(HOST)
    path, target = written(tmp_path / "net.tflite", model()), tmp_path / "project"
    arguments = ["--optimise", "size", "--stream-input", *options]
    assert run(["new", "--template", "host", str(target), path, *arguments], capfd)[0] == 0
    found = run_json(["run", str(target), "--seeds", "2", "--runs", "2"], capfd)
    assert found["verification"]["ok"] and found["verification"]["elements"] > 0
    fed = [call["name"] for call in found["calls"] if call["where"] == "caller"]
    assert len(fed) == len(description.read(target).feeds) + ("--stream-ahead" in options) and fed[0].startswith("rows")


@pytest.mark.parametrize(
    "options", [["2"], ["5", "--stream-input", "2"], ["1", "--stream-input", "3", "--stream-ahead"]]
)
@pytest.mark.parametrize("model", [segmentation, operators_behind])
def test_a_host_takes_the_rows_of_an_output(
    model: Callable[[], bytes], options: list[str], tmp_path: Path, capfd: Capture
) -> None:
    need(HOST)
    path, target = written(tmp_path / "net.tflite", model()), tmp_path / "project"
    arguments = ["--optimise", "size", "--stream-output", *options]
    assert run(["new", "--template", "host", str(target), path, *arguments], capfd)[0] == 0
    found = run_json(["run", str(target), "--seeds", "2", "--runs", "2"], capfd)
    assert found["verification"]["ok"] and found["verification"]["elements"] > 0
    assert sum(call["name"].startswith("take rows") for call in found["calls"]) == len(description.read(target).takes)


def test_a_run_stands_where_rows_are_taken(tmp_path: Path) -> None:
    """At any call; rows that are taken when those before are wanted are others'."""
    need(HOST)
    artifact = ethoscade.compile(segmentation(), optimise="size", stream_output=1, stream_input=1).artifact
    project = folder.make(HOST, tmp_path / "project", artifact, COptions())
    folder.build(project, HOST)
    graph = read_tflite(segmentation())
    inputs = random_inputs(graph, 4)
    (given,), (expected,) = inputs.items(), reference.run(graph, inputs).outputs.values()
    with ethoscade.connect(project.folder) as board:
        for step in (1, 5):
            board.set_input(*given)
            for number in range(0, len(project.description.calls), step):
                board.run_call(number)
            (output,) = board.run().values()
            np.testing.assert_array_equal(output, expected)
        with pytest.raises(ProjectError, match="its rows are taken a few at a time"):
            board.read(project.description.outputs[0])
    takes = project.description.takes
    calls = [takes[0].call - 1, *(take.call for take in takes[:-1])]
    early = tuple(replace(take, call=call) for take, call in zip(takes, calls, strict=True))
    started = HOST.start(project)
    with Connection(started.stream, replace(project.description, takes=early), npu=started.npu) as spoilt:
        (output,) = spoilt.run(inputs).values()
        assert not np.array_equal(output, expected)


@pytest.mark.parametrize("model", [image, passed_through])
def test_every_tensor_between_feeds_can_be_read(model: Callable[[], bytes], tmp_path: Path) -> None:
    project = made(tmp_path / "project", model(), 2, ahead=False)
    found, others = read_all(project.folder)
    assert len(found) >= 3
    given = project.description.inputs[0]
    assert (given in found) == (model is passed_through), "where it is whole in the end"
    if model is image:
        assert "its rows arrive in the arena a few at a time" in others[given]


@pytest.mark.parametrize(
    "damage",
    [
        lambda feeds: feeds[0].update(call="x"), lambda feeds: feeds[0].update(offset=-1),
        lambda feeds: feeds.reverse(), lambda feeds: feeds[-1].update(call=1000),
    ],
)  # fmt: skip
def test_damaged_feeds_are_found(damage: Callable[[list[dict[str, object]]], None], tmp_path: Path) -> None:
    artifact = ethoscade.compile(image(), optimise="size", stream_input=2).artifact
    made = folder.make(HOST, tmp_path / "project", artifact, COptions())
    assert description.read(made.folder) == made.description
    told = json.loads((made.folder / description.FILE).read_text())
    damage(told["feeds"])
    (made.folder / description.FILE).write_text(json.dumps(told))
    with pytest.raises(ProjectError, match="is damaged"):
        description.read(made.folder)


@pytest.mark.parametrize(
    "damage",
    [
        lambda takes: takes.pop(3), lambda takes: takes[-1].update(end=takes[-1]["end"] - 1),
        lambda takes: takes[1].update(begin=0), lambda takes: takes[2].update(end=takes[2]["begin"] - 640),
        lambda takes: takes[0].update(offset=1 << 40), lambda takes: takes[0].update(call=takes[1]["call"]),
    ],
)  # fmt: skip
def test_damaged_takes_are_found(damage: Callable[[list[dict[str, int]]], None], tmp_path: Path) -> None:
    artifact = ethoscade.compile(segmentation(), optimise="size", stream_output=2).artifact
    made = folder.make(HOST, tmp_path / "project", artifact, COptions())
    assert description.read(made.folder) == made.description
    told = json.loads((made.folder / description.FILE).read_text())
    damage(told["takes"])
    (made.folder / description.FILE).write_text(json.dumps(told))
    with pytest.raises(ProjectError, match="is damaged"):
        description.read(made.folder)


@pytest.mark.parametrize("ahead", [False, True])
def test_a_run_stands_between_rows(tmp_path: Path, ahead: bool) -> None:
    """At any call, also at one that wants rows; rows that come a feed too late are noticed."""
    project = made(tmp_path / "project", image(), 2, ahead)
    graph = read_tflite(image())
    inputs = random_inputs(graph, 4)
    (given,), (expected,) = inputs.items(), reference.run(graph, inputs).outputs.values()
    with ethoscade.connect(project.folder) as board:
        for step in (1, 3, 7):
            board.set_input(*given)
            for number in range(0, len(project.description.calls), step):
                board.run_call(number)
                assert board.done_calls == number + 1
                with pytest.raises(ProjectError, match="cannot be written: a run stands"):
                    board.set_input(*given)
            (output,) = board.run().values()
            np.testing.assert_array_equal(output, expected)
        with pytest.raises(ProjectError, match="was not set since the last run"):
            board.run()
        assert {call.where for call in board.time()} == {"npu", "caller"}
    feeds = project.description.feeds
    late = [feed.call for feed in feeds[1:]]
    moved = [replace(feed, call=call) for feed, call in zip(feeds, late, strict=False)]
    wrong = replace(project.description, feeds=(*moved, feeds[-1]))
    started = HOST.start(project)
    with Connection(started.stream, wrong, npu=started.npu) as spoilt:
        (output,) = spoilt.run(inputs).values()
        assert not np.array_equal(output, expected)


@pytest.mark.parametrize("model", [image, with_state])
def test_who_comes_to_a_run_that_stands_begins_another(model: Callable[[], bytes], tmp_path: Path) -> None:
    """The rows that it would still want are another connection's, and so is what it makes of its state."""
    project = made(tmp_path / "project", model(), 1, ahead=False)
    graph = read_tflite(model())
    first, second = (random_inputs(graph, seed) for seed in (1, 2))
    steps = reference.run_steps(graph, [second, first])
    board = HOST.start(project)
    left = Connection(board.stream, project.description, npu=board.npu)
    for name, value in first.items():
        left.set_input(name, value)
    left.run_call(3)
    with Connection(board.stream, project.description, npu=board.npu) as other:
        assert other.done_calls == 0
        with pytest.raises(ProjectError, match=r"is there from|never lies"):
            other.read(project.description.outputs[0])
        for inputs, step in zip((second, first), steps, strict=True):
            (output,), (expected,) = other.run(inputs).values(), step.outputs.values()
            np.testing.assert_array_equal(output, expected)


def test_an_emulated_cortex_m55_hands_rows_over(tmp_path: Path, capfd: Capture) -> None:
    need(TEMPLATES["qemu-mps3-an547"], to_run=True)
    path = written(tmp_path / "net.tflite", image())
    arguments = ["run", "--target", "qemu", "--optimise", "size", "--json", "--stream-input", "2"]
    for more in ([path], [written(tmp_path / "other.tflite", segmentation()), "--stream-output", "3"]):
        status, out, err = run([*arguments, *more], capfd)
        assert (status, err) == (0, "")
        assert json.loads(out)["verification"]["ok"]
