"""Boards by name and by file: what they come to, where their figures come from, what is said of what is wrong."""

from __future__ import annotations

import json
import logging
import pickle
import re
from pathlib import Path

import ethoscade
import pytest
from ethoscade.__main__ import main
from ethoscade.errors import BudgetError, ConfigError
from ethoscade.report.configurations import boards_markdown
from ethoscade.targets.boards import FIGURES, BoardDescription, board_named, known_boards
from ethoscade.targets.configurations import default_config, read_configuration
from ethoscade.targets.target import compilation_target, load_target
from ethoscade.testing import mobilenet_v1, tiny_conv

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "boards.md").read_text(encoding="utf-8")
MINE = """accelerator = "ethos-u55-64"
memory_mode = "Shared_Sram"
sram = "48KiB"

[system]
core_clock = 100e6
axi0_port = "Sram"
axi1_port = "OffChipFlash"
Sram_clock_scale = 0.5
Sram_burst_length = 32
Sram_read_latency = 7
Sram_write_latency = 9
OffChipFlash_clock_scale = "1/64"
OffChipFlash_burst_length = 128
OffChipFlash_read_latency = 64
OffChipFlash_write_latency = 0
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "my_board.toml"
    path.write_text(MINE, encoding="utf-8")
    return path


@pytest.mark.parametrize("board", known_boards().values(), ids=lambda board: board.name)
def test_every_figure_has_a_source_or_is_said_to_be_assumed(board: BoardDescription) -> None:
    assert not board.sources.keys() & board.assumed.keys()
    assert {*board.sources, *board.assumed} == set(FIGURES)
    assert all([board.title, board.cpu, *board.sources.values(), *board.assumed.values()])
    assert all(board_named(name) is board for name in (board.name, *board.aliases, board.name.upper()))


@pytest.mark.parametrize("board", known_boards().values(), ids=lambda board: board.name)
def test_a_board_is_what_a_vela_ini_of_the_same_words_is(board: BoardDescription, tmp_path: Path) -> None:
    path = default_config()
    if board.system:
        path = tmp_path / "vendor.ini"
        entries = "".join(f"{key}={value}\n" for key, value in board.system.items())
        path.write_text(f"{default_config().read_text()}\n[System_Config.{board.system_config}]\n{entries}")
    names = (board.accelerator, board.system_config, board.memory_mode)
    wanted, found = compilation_target(*names, path), compilation_target(board=board.name)
    assert found.board == board and (found.arena, found.constants) == (wanted.arena, wanted.constants)
    assert (found.accelerator, found.core_clock_hz) == (wanted.accelerator, wanted.core_clock_hz)


def test_figures_of_vendors_are_in_the_table() -> None:
    """Seeed's and Alif's own files, by hand."""
    himax, alif = compilation_target(board="grove-vision-ai-v2"), compilation_target(board="alif-e7-hp")
    assert (himax.accelerator.macs, himax.core_clock_hz, himax.constants.bytes_per_cycle) == (64, 400e6, (1, 8))
    assert (alif.accelerator.macs, alif.arena.bytes_per_cycle, alif.arena.read_latency) == (256, (762, 125), 29)
    assert compilation_target(board="psoc-edge-e84").constants_in_sram
    assert [known_boards()[name].sram_bytes for name in ("imx93", "imx93-384k")] == [96 << 10, 384 << 10]


def test_names_change_one_thing_of_a_board_each() -> None:
    board = load_target(board="himax-we2")
    assert load_target("ethos-u55-256", board="himax-we2").accelerator.macs == 256
    assert load_target(board="himax-we2", memory_mode="Sram_Only").constants == board.arena
    other = load_target(board="himax-we2", system_config="Ethos_U55_Deep_Embedded")
    assert (other.core_clock_hz, other.accelerator) == (200e6, board.accelerator)
    with pytest.raises(ConfigError, match="'himax-we2' has an Ethos-U55, 'ethos-u65-256' is an Ethos-U65"):
        load_target("ethos-u65-256", board="himax-we2")
    with pytest.raises(ConfigError, match="board is 'imx93'; it describes the memories of an NPU"):
        compilation_target("none", board="imx93")


def test_a_vendors_newer_file_goes_before_the_table(tmp_path: Path) -> None:
    path = tmp_path / "vendor.ini"
    path.write_text(default_config().read_text().replace("Ethos_U55_Deep_Embedded", "My_Sys_Cfg"))
    assert load_target(board="himax-we2", config=path).core_clock_hz == 200e6
    assert load_target(board="himax-we2", config=default_config()).core_clock_hz == 400e6


def test_the_sram_of_the_board_is_the_budget_where_none_is_given(mine: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = mobilenet_v1(0.25, 96)
    free = ethoscade.compile(model, accelerator="ethos-u55-64", optimise="fastest")
    assert free.sram_bytes > 48 << 10 and free.target.board is None
    compiled = ethoscade.compile(model, board=mine)
    assert compiled.budget_bytes == 48 << 10 >= compiled.sram_bytes
    with caplog.at_level(logging.WARNING, "ethoscade"):
        assert ethoscade.compile(model, board=mine, sram="47KiB").budget_bytes == 47 << 10
        assert not caplog.records
        assert ethoscade.compile(model, board=mine, sram="1MiB", optimise="fastest").sram_bytes > 48 << 10
    assert "1,048,576 bytes is more than board 'my_board' has for its NPU, 49,152 bytes" in caplog.text
    assert pickle.loads(pickle.dumps(compiled.target)) == compiled.target
    prepared = ethoscade.prepare(model, board=str(mine))
    assert prepared.compile().sram_bytes == compiled.sram_bytes
    assert ethoscade.compile_many({"a": model}, board=mine).networks["a"].budget_bytes == 48 << 10
    assert ethoscade.frontier(model, board=mine).points[-1][0] > 48 << 10


def test_what_does_not_fit_the_board_is_refused(mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine.write_text(MINE.replace("48KiB", "2KiB"), encoding="utf-8")
    with pytest.raises(BudgetError) as caught:
        ethoscade.compile(mobilenet_v1(0.25, 96), board=mine)
    assert caught.value.budget_bytes == 2048
    model = tmp_path / "net.tflite"
    model.write_bytes(mobilenet_v1(0.25, 96))
    assert main(["compile", str(model), "--board", str(mine), "-o", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err.endswith(f"(the budget is what board '{mine}' has for its NPU)\n")


def test_the_command_line_tells_of_the_board(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "net.tflite"
    model.write_bytes(tiny_conv())
    command = ["compile", str(model), "--board", "himax-we2", "-o", str(tmp_path / "out")]
    assert main([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["board"], report["board_sram_bytes"], report["accelerator"]) == (
        "himax-we2",
        1970176,
        "ethos-u55-64",
    )
    assert main([*command, "--sram", "2MiB"]) == 0
    out, err = capsys.readouterr()
    assert "himax-we2, 1,970,176 bytes = 1924.0 KiB of SRAM for the NPU" in out
    assert err == (
        "ethoscade: the budget of 2,097,152 bytes is more than board 'himax-we2' has for its NPU, 1,970,176 bytes\n"
    )
    artifact = str(tmp_path / "out" / "net_ethosu.tflite")
    clocks = []
    for more in ([], ["--board", "himax-we2"]):
        assert main(["simulate", artifact, "--timing", "--json", *more]) == 0
        clocks.append(json.loads(capsys.readouterr().out)["timing"])
    assert clocks[0] != clocks[1]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"ethos-u55-64"', '"ethos-u55-99"', "unknown accelerator 'ethos-u55-99'; known are ethos-u55-32"),
        ('"ethos-u55-64"', '"ethos-u65-512"', "'ethos-u65-512' of board"),
        ('sram = "48KiB"\n', "", "line 1: 'sram' is missing"),
        ("48KiB", "48 apples", "line 3: 'sram' is wrong: cannot read the size '48 apples'"),
        ('sram = "48KiB"', 'sram = "48KiB"\nsrma = 3', "line 4: 'srma' is not known here; known are accelerator, "),
        ('axi0_port = "Sram"', 'axi0_port = "Axi"', "line 7: 'system.axi0_port' is 'Axi'; it must be one of Sram"),
        ("core_clock = 100e6", "core_clock = 0", "board 'my_board': 'core_clock' of 'my_board' is '0'"),
        ("Sram_read_latency = 7", 'Sram_read_latency = "x"', "line 11: 'system.Sram_read_latency' is 'x'; it must be"),
        ("Sram_read_latency = 7\n", "", "line 5: 'system.Sram_read_latency' is missing"),
        ("[system]", "[system", "line 5"),
        ("Sram_clock_scale = 0.5", "Sram_clock_scale = inf", "line 9: 'system.Sram_clock_scale' is inf"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_line_and_key(mine: Path, old: str, new: str, said: str) -> None:
    assert old in MINE
    mine.write_text(MINE.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        compilation_target(board=mine)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_the_pages_board_is_one(tmp_path: Path) -> None:
    text, further = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    path = tmp_path / "page.toml"
    path.write_text(text, encoding="utf-8")
    target = compilation_target(board=path)
    assert (target.core_clock_hz, target.constants.bytes_per_cycle) == (200e6, (1, 2)) and not target.has_cache
    path.write_text(text + further, encoding="utf-8")
    both = compilation_target(board=path)
    assert (both.cache, both.constants) == (target.arena, target.constants) and both.arena.size_bytes == 8 << 20


def test_boards_that_there_are_not_are_answered_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"board 'himax'; known are corstone-300-an547, .*imx93-384k; a board"):
        load_target(board="himax")
    with pytest.raises(ConfigError, match=r"cannot read '.*none.toml': No such file"):
        load_target(board=tmp_path / "none.toml")


def test_configuration_files_are_found_in_the_packages_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_configuration("Arm/vela.ini") == read_configuration() == read_configuration(default_config())
    with pytest.raises(ConfigError, match=r"cannot read 'Arm/none.ini': No such file.*folder of them has Arm/vela.ini"):
        read_configuration("Arm/none.ini")
    own = tmp_path / "Arm" / "vela.ini"
    own.parent.mkdir()
    own.write_text("[System_Config.Own]\ncore_clock=1e6\n[Memory_Mode.Own]\nconst_mem_area=Axi0\n", encoding="utf-8")
    assert main(["list-configs", "--config", "Arm/vela.ini", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in report["system_configs"]] == ["Own"]
    assert "'Own' lacks the entry 'axi0_port'" in report["system_configs"][0]["error"]
    assert "lacks the entry 'arena_mem_area'" in report["memory_modes"][0]["error"]


def test_configurations_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list-configs", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in report["boards"]] == list(known_boards())
    assert "ethos-u65-512" in {one["name"] for one in report["accelerators"] if not one["compiled_for"]}
    systems = {one["name"]: one for one in report["system_configs"]}
    embedded = systems["Ethos_U65_Embedded"]
    assert embedded["core_clock_hz"] == 5e8 and list(embedded["memories"]) == ["u65"]
    assert [of["bytes_per_cycle"] for of in embedded["memories"]["u65"]] == [16, 1]
    modes = {one["name"]: one for one in report["memory_modes"]}
    assert (modes["Shared_Sram"]["products"], modes["Dedicated_Sram_384KB"]["products"]) == (["u55", "u65"], ["u65"])
    assert modes["Dedicated_Sram_384KB"]["arena_cache_bytes"] == 393216
    assert main(["list-configs"]) == 0
    text = capsys.readouterr().out
    assert "Sram 8 B/cycle (4 GB/s), OffChipFlash 1 B/cycle (0.5 GB/s)" in text
    assert "for the Ethos-U85, which nothing here compiles for" in text


def test_the_page_has_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """`ethoscade list-configs --markdown` writes it."""
    assert main(["list-configs", "--markdown"]) == 0
    printed = capsys.readouterr().out
    assert printed == boards_markdown(known_boards().values()) + "\n"
    assert printed in PAGE
