"""What messages repeat of what a user gave: cut where it is long, whoever says it; and budgets of no bytes at all."""

from __future__ import annotations

from pathlib import Path

import ethoscade
import pytest
from command_line_support import TINY, Capture, run
from ethoscade.errors import ConfigError, EthoscadeError, ModelFormatError, shorten
from ethoscade.testing import ModelBuilder

LONG = "x" * 5_000
MOST = 1_500
"""More than any sentence of ours, and less than what it repeats."""


@pytest.mark.parametrize(
    "arguments",
    [
        ["compile", LONG],
        ["compile", "MODEL", "--accelerator", LONG],
        ["compile", "MODEL", "--sram", LONG],
        ["compile", "MODEL", "--board", LONG],
        ["compile", "MODEL", "--emit", LONG],
        ["compile", "MODEL", "--optimise", LONG],
        ["compile", "MODEL", "-o", LONG],
        ["compile", "MODEL", f"--{LONG}"],
        ["verify", "MODEL", "--target", LONG],
        ["plan-memory", LONG],
        ["sweep", "MODEL", "--targets", LONG, "-o", "out"],
        ["new", "MODEL", LONG, "--template", "qemu"],
        ["build", LONG],
        [LONG],
    ],
    ids=lambda arguments: " ".join(arguments)[:30],
)
def test_what_is_repeated_is_cut(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    model = tmp_path / "net.tflite"
    model.write_bytes(TINY)
    status, _, err = run([str(model) if word == "MODEL" else word for word in arguments], capfd)
    said = err.splitlines()[-1]
    assert status in (1, 2) and said and len(said) < MOST, f"{len(said)}: {said[:300]}"


def test_names_in_a_model_are_cut_and_attributes_are_whole() -> None:
    error = ModelFormatError(f"tensor '{LONG}' is damaged", tensor=LONG)
    assert len(str(error)) < 300 and error.tensor == LONG
    assert shorten("a sentence of many words " * 40) == "a sentence of many words " * 40
    assert len(shorten(f"'{'a b ' * 2000}'")) < 300


def test_a_project_at_a_path_that_is_too_long_is_an_error_of_ours() -> None:
    with pytest.raises(EthoscadeError, match="cannot look for a project"):
        ethoscade.connect(LONG)


@pytest.mark.parametrize("budget", [{"sram": 0}, {"sram": "0"}, {"sram": "0KiB"}, {"sram_kb": 0}])
def test_a_point_of_no_bytes_can_be_asked_for(budget: dict[str, object], tmp_path: Path) -> None:
    """Its tensors lie in DRAM, and the NPU's SRAM, which the budget is, is left alone."""
    model = tmp_path / "net.tflite"
    b = ModelBuilder()
    b.output(b.max_pool(b.input((1, 16, 16, 16))))
    model.write_bytes(b.build())
    target = {
        "accelerator": "ethos-u65-256",
        "system_config": "Ethos_U65_High_End",
        "memory_mode": "Dedicated_Sram",
    }
    network = ethoscade.prepare(model, **target)
    assert network.frontier().points[0][0] == 0, "this network has no such point"
    assert network.fits(**budget)
    assert network.compile(**budget).sram_bytes == 0
    assert ethoscade.compile(model, **budget, **target).sram_bytes == 0


def test_no_bytes_are_too_few_where_something_must_lie_there(tmp_path: Path, capfd: Capture) -> None:
    model = tmp_path / "net.tflite"
    model.write_bytes(TINY)
    with pytest.raises(ethoscade.BudgetError, match="at least"):
        ethoscade.compile(model, sram=0)
    assert not ethoscade.prepare(model).fits(sram=0)
    status, _, err = run(["compile", str(model), "--sram", "0", "-o", str(tmp_path)], capfd)
    assert status == 1 and "at least 1 KiB\n" in err
    with pytest.raises(ConfigError, match="out of range"):
        ethoscade.compile(model, sram_kb=0.0001)
