"""What notebooks and consoles show of results: short, escaped, with the figures that the results have."""

from __future__ import annotations

import ethoscade
import pytest
from command_line_support import RESIDUAL, resized_classifier
from ethoscade.page import notebook
from ethoscade.testing import ModelBuilder, tiny_conv
from test_page import HOSTILE, Elements


def test_reprs_are_one_short_line() -> None:
    network = ethoscade.prepare(resized_classifier())
    curve, made = network.frontier(), network.compile()
    (least, slowest), (most, fastest) = curve.points[0], curve.points[-1]
    assert repr(curve) == (
        f"<Curve of {len(curve.points)}: {least:,} bytes, {slowest:,} cycles to {most:,} bytes, {fastest:,} cycles>"
    )
    operators = f"{len(made.operators) - 1} operators on the NPU, 1 on the CPU"
    figures = f"{made.sram_bytes:,} bytes of SRAM, {made.cycles:,} cycles, {operators}"
    assert repr(made) == f"<Compiled '{made.name}' for ethos-u55-256: {figures}>"
    assert repr(network) == f"<Prepared '{made.name}' for ethos-u55-256: {operators}>"


def test_a_compilation_shows_its_figures_and_its_map() -> None:
    made = ethoscade.compile(RESIDUAL, sram_kb=16)
    shown = Elements(made._repr_html_())
    assert f"{made.cycles:,}" in " ".join(shown.texts) and "of 16.0 KiB" in " ".join(shown.texts)
    assert [tag for tag, _ in shown.tags].count("svg") == 1 and len(made._repr_html_()) < 60_000


def test_a_map_of_very_many_rectangles_is_left_to_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "_MOST_WINDOWS", 3)
    assert "<svg" not in ethoscade.compile(RESIDUAL)._repr_html_()


def test_a_curve_shows_its_ends_and_its_knee() -> None:
    curve = ethoscade.frontier(RESIDUAL)
    shown = " ".join(Elements(curve._repr_html_()).texts)
    for _, cycles in (curve.points[0], curve.knee, curve.points[-1]):
        assert f"{cycles:,} cycles" in shown
    paths = [given["d"] or "" for tag, given in Elements(curve._repr_html_()).tags if tag == "path"]
    assert len(curve.points) > 2 and max(path.count("V") for path in paths) == len(curve.points) - 1
    described = ethoscade.plan(tiny_conv(), device=ethoscade.devices.cortex_m55())
    assert " ms" in shown and " ms" not in described._repr_html_()


def test_a_prepared_network_says_what_stays_on_the_cpu_and_why() -> None:
    network = ethoscade.prepare(resized_classifier())
    (resize,) = network.compile().cpu_operators
    assert resize.reason in " ".join(Elements(network._repr_html_()).texts)


def test_names_are_texts_in_notebooks() -> None:
    builder = ModelBuilder("net")
    name = HOSTILE.replace("\ud800", "")
    builder.conv2d(builder.input((1, 8, 8, 3), name=f"in {name}"), 4, 3, name=name)
    network = ethoscade.prepare(builder.build(), accelerator="none")
    for shown in (network._repr_html_(), network.compile()._repr_html_()):
        assert {tag for tag, _ in Elements(shown).tags} <= {
            "div", "b", "table", "tr", "td", "svg", "path", "circle", "span",
        }  # fmt: skip
