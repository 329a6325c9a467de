"""`ethoscade frontier` of several models and accelerators: what is printed, and what the picture has."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ethoscade
import pytest
from command_line_support import RESIDUAL, TINY, Capture, one_sentence, run, run_json, written
from ethoscade.report import plot

Drawn = list[tuple[str, list[tuple[float, float]]]]


@pytest.fixture
def models(tmp_path: Path) -> list[str]:
    return [written(tmp_path / f"{name}.tflite", model) for name, model in (("tiny", TINY), ("residual", RESIDUAL))]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that are saved."""
    pytest.importorskip("matplotlib")
    figures: list[Any] = []
    monkeypatch.setattr(plot, "save", lambda figure, path: figures.append(figure) or Path(path))
    return figures


def lines(figure: Any) -> Drawn:
    """The labelled lines of a figure's axes, with their points."""
    found = [line for line in figure.axes[0].get_lines() if not line.get_label().startswith("_")]
    return [(line.get_label(), list(zip(line.get_xdata(), line.get_ydata(), strict=True))) for line in found]


def labels(figure: Any) -> Sequence[str]:
    return [label for label, _ in lines(figure)]


def test_one_curve_is_told_as_ever(models: list[str], capfd: Capture) -> None:
    found = run_json(["frontier", models[1]], capfd)
    curve = ethoscade.frontier(RESIDUAL)
    assert [(point["sram_bytes"], point["cycles"]) for point in found["points"]] == list(curve.points)


def test_several_are_told_by_what_they_differ_in(models: list[str], capfd: Capture) -> None:
    both = ["ethos-u55-64", "ethos-u55-256"]
    found = run_json(["frontier", *models, "--accelerator", ",".join(both)], capfd)
    expected = [f"{model}, {one}" for model, one in itertools.product(("tiny", "residual"), both)]
    assert [curve["name"] for curve in found["curves"]] == expected
    for told, (model, one) in zip(found["curves"], itertools.product((TINY, RESIDUAL), both), strict=True):
        points = ethoscade.frontier(model, accelerator=one).points
        assert [(point["sram_bytes"], point["cycles"]) for point in told["points"]] == list(points)
    assert [one["name"] for one in run_json(["frontier", *models], capfd)["curves"]] == ["tiny", "residual"]
    _, out, _ = run(["frontier", models[0], "--accelerator", ",".join(both)], capfd)
    assert out.startswith("ethos-u55-64\n") and "\n\nethos-u55-256\n" in out


def test_a_picture_has_the_curves_in_milliseconds(models: list[str], drawn: list[Any], tmp_path: Path) -> None:
    curves = [plot.NamedCurve(name, ethoscade.frontier(model)) for name, model in (("a", TINY), ("b", RESIDUAL))]
    plot.frontiers(curves, "title", tmp_path / "f.png")
    (figure,) = drawn
    found = dict(lines(figure))
    for one in curves:
        sizes = [size / 1024 for size, _ in one.curve.points]
        expected = zip(sizes, one.curve.milliseconds, strict=True)
        assert all(point == pytest.approx(at) for point, at in zip(found[one.name], expected, strict=True))
    assert labels(figure) == ["a", "b", "knee"]
    assert figure.axes[0].get_ylabel() == "ms" and figure.axes[0].get_title(loc="left") == "title"
    (second,) = figure.axes[0].child_axes
    assert second.get_ylabel() == "million cycles at 500 MHz"


def test_a_single_curve_has_knee_floor_and_the_point_without_cascades(drawn: list[Any], tmp_path: Path) -> None:
    curve = ethoscade.frontier(RESIDUAL)
    assert len(curve.points) > 2
    plot.frontiers([plot.NamedCurve("a", curve)], "", tmp_path / "f.png")
    found = dict(lines(drawn[0]))
    knee, floor, uncascaded = curve.knee[0] / 1024, curve.floor_bytes / 1024, curve.uncascaded_bytes / 1024
    assert found[f"knee, {knee:,.1f} KiB"][0][0] == knee
    assert found[f"floor, {floor:,.1f} KiB"][0][0] == floor
    assert found[f"without cascades, {uncascaded:,.1f} KiB"][0][0] == uncascaded


def test_without_a_common_clock_there_is_one_axis(drawn: list[Any], tmp_path: Path) -> None:
    """Of a device by description cycles are what there is."""
    described = ethoscade.plan(TINY, device=ethoscade.devices.cortex_m55())
    plot.frontiers(
        [plot.NamedCurve("a", ethoscade.frontier(TINY)), plot.NamedCurve("b", described)], "", tmp_path / "f.png"
    )
    assert drawn[0].axes[0].get_ylabel() == "cycles (million)" and not drawn[0].axes[0].child_axes


def test_the_command_draws_and_names_the_target(models: list[str], drawn: list[Any], capfd: Capture) -> None:
    run_json(["frontier", models[0], "--plot", "f.png"], capfd)
    assert drawn[0].axes[0].get_title(loc="left") == "tiny, ethos-u55-256, 500 MHz"
    run_json(["frontier", *models, "--accelerator", "ethos-u55-128", "--plot", "f.png"], capfd)
    assert drawn[1].axes[0].get_title(loc="left") == "ethos-u55-128, 500 MHz"


@pytest.mark.parametrize(
    "asked", [["tiny", "tiny"], ["tiny", "--accelerator", "ethos-u55-64,ethos-u55-64"], ["tiny", "--plot", "tiny"]]
)
def test_nothing_is_told_twice_nor_overwritten(asked: list[str], models: list[str], capfd: Capture) -> None:
    words = [models[0] if word == "tiny" else word for word in asked]
    status, _, err = run(["frontier", *words], capfd)
    assert status == 1
    one_sentence(err)
    assert Path(models[0]).read_bytes() == TINY
