"""Devices by name and by TOML file: read to the same descriptions, planned alike, refused with line and key."""

from __future__ import annotations

import json
import re
from pathlib import Path

import ethoscade
import pytest
from ethoscade.__main__ import main
from ethoscade.errors import ConfigError
from ethoscade.targets import devices
from ethoscade.targets.device_files import READY_DEVICES, device_named
from ethoscade.testing import mobilenet_v1, tiny_conv
from ethoscade.util.toml import parse_toml

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "devices.md").read_text(encoding="utf-8")
(FILE,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def line(text: str, number: int = 1) -> int:
    """Where `text` begins in the page's file for the `number`-th time, counted from 1."""
    found = [n for n, one in enumerate(FILE.split("\n"), start=1) if one.startswith(text)]
    return found[number - 1]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "device.toml"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_the_pages_file_is_the_ready_device(file: Path) -> None:
    assert device_named(file) == device_named(str(file)) == devices.matrix_npu()
    assert [device_named(name).name for name in READY_DEVICES] == list(READY_DEVICES)
    assert device_named("Cortex_M7") == devices.cortex_m7()


def test_a_description_has_no_more_than_it_must(file: Path) -> None:
    file.write_text(
        'arena = "ram"\nconstants = "ram"\n[memories.ram]\nbytes_per_cycle = "1/3"\nread_latency = 0\n'
        'write_latency = 1\nburst_bytes = 2\n[[engines]]\nname = "e"\n[engines.rates]\nadd = 0.1\n',
        encoding="utf-8",
    )
    found = device_named(file)
    assert (found.name, found.layout, found.spill, found.dma, found.buffer_bytes) == ("device", "NHWC", *[None] * 3)
    assert found.arena == found.constants and found.constants_in_sram
    assert (found.arena.bytes_per_cycle, found.arena.size_bytes) == ((1, 3), None)
    assert found.engines[0].rates == {"add": (1, 10)} and found.engines[0].granule == (1, 1, 1, 1)


def test_plan_takes_names_and_files(file: Path) -> None:
    wanted = ethoscade.plan(tiny_conv(), devices.matrix_npu())
    for device in ("matrix-npu", file, str(file)):
        assert ethoscade.plan(tiny_conv(), device).points == wanted.points
    assert ethoscade.plan(tiny_conv(), "cortex-m7").points != wanted.points


def test_the_command_prints_the_curve(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "net.tflite"
    model.write_bytes(mobilenet_v1(0.25, 96))
    wanted = ethoscade.plan(str(model), devices.matrix_npu())
    assert main(["plan", str(model), "--device", str(file), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(one["sram_bytes"], one["cycles"]) for one in report["points"]] == list(wanted.points)
    assert {one["milliseconds"] for one in report["points"]} == {None}
    assert (report["device"], report["floor_bytes"]) == ("matrix-npu", wanted.floor_bytes)
    assert [one["kind"] for one in report["elsewhere"]] == ["SOFTMAX"]
    assert main(["plan", str(model), "--device", "matrix-npu"]) == 0
    text = capsys.readouterr().out
    assert f"{wanted.points[0][0]:,}" in text and "no engine can run them: 1 SOFTMAX\n" in text and " ms" not in text
    assert main(["plan", str(model), "--device", "matrix"]) == 1
    assert "known are cortex-m55, cortex-m7, matrix-npu;" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "where", "said"),
    [
        ("in_flight = 4", "in_flight = 0", "in_flight", "dma.in_flight is 0"),
        ("in_flight = 4", "in_flights = 4", "in_flight", "'dma.in_flights' is not known here; known are in_flight, "),
        ("start_cycles = 40", "start_cycles = 4.5", "start_cycles", "'dma.start_cycles' is 4.5; it must be a whole"),
        ('"NHCWB16"', '"NCHW"', "layout", "layout is 'NCHW'"),
        ('"64KiB"', '"64 kilos"', "buffer_bytes", "'buffer_bytes' is wrong: cannot read the size '64 kilos'"),
        ('arena = "shared"', 'arena = "ram"', "arena", "'arena' is 'ram', which no table [memories.ram] describes"),
        ('arena = "shared"', "", "", "'arena' is missing"),
        ('spill = ["dram"]', "spill = 3", "spill", "'spill' is 3; it must be a text, or an array of texts"),
        ("size_bytes = ", "# ", "[memories.shared]", "arena.size_bytes is None"),
        ("bytes_per_cycle = 64", "bytes_per_cycle = 0", "bytes_per_cycle", "bytes_per_cycle of the memory 'shared'"),
        ("bytes_per_cycle = 64", "bytes_per_cycle = []", "bytes_per_cycle", "'memories.shared.bytes_per_cycle' is []"),
        ("granule = [1, 4, 16, 16]", "granule = [1, 4]", "granule", "'engines[0].granule' must be 4 numbers"),
        ("granule = [1, 4, 16, 16]", "granule = [0, 1, 1, 1]", "granule", "engines[0].granule of 'matrix' has 0"),
        ("rates.convolution = 1024", "rates.conv = 1", "rates.conv", "engines[0].rates of 'matrix' has 'conv'"),
        ("[dma]", "[dma", "[dma]", "this is no TOML file"),
    ],
)
def test_what_is_wrong_is_told_with_line_and_key(file: Path, old: str, new: str, where: str, said: str) -> None:
    assert old in FILE
    file.write_text(FILE.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        device_named(file)
    message = str(caught.value)
    assert message.startswith(str(file)) and said in message and "\n" not in message
    assert f"line {line(where) if where else 1}" in message


def test_lines_of_what_is_written_over_several() -> None:
    text = '# one\na = 1\n\n# two\nb = [\n  1,\n  2,\n]\n[c]\nd = """\nx = 1\n"""\n[[e]]\nf = 1\n[[e]]\nf = 2\n'
    top = parse_toml(text, "file")
    places: list[tuple[tuple[str | int, ...], int]] = [
        (("a",), 2), (("b",), 5), (("c",), 9), (("c", "d"), 10), (("e", 0, "f"), 14), (("e", 1, "f"), 16),
        (("e", 1, "g"), 15), (("nothing",), 1),
    ]  # fmt: skip
    assert [top.line_of(place) for place, _ in places] == [number for _, number in places]


def test_files_that_are_none(tmp_path: Path) -> None:
    for name, data, said in (
        ("latin.toml", b"a = 1\nb = '\xe4'\n", "line 2: this is no UTF-8"),
        ("deep.toml", b"a = " + b"[" * 20_000, "this is no TOML file"),
        ("big.toml", b"#" * (1 << 17), "more than 65,536 bytes"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ConfigError, match=said):
            device_named(tmp_path / name)
    with pytest.raises(ConfigError, match="No such file"):
        device_named("none.toml")
