"""Wrong types, values, configurations and command lines: our errors in one line, never a traceback."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import ethoscade
import misconfigured
import misuse
import numpy as np
import pytest
from command_line_support import Capture, run
from ethoscade import ConfigError, memory
from ethoscade.targets.target import load_target, parse_size
from ethoscade.util import arguments

CALLS, NESTED, CONFIGURATIONS, COMMANDS = 4000, 300, 150, 40


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own to be in: wrong paths are paths too."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_wrong_arguments_raise_our_errors() -> None:
    """One wrong value at a time, in every parameter of every public callable."""
    rng = random.Random(0)
    cases = list(misuse.cases())
    ends = [misuse.outcome(*case) for case in rng.sample(cases, CALLS)]
    ends += [misuse.outcome(*case) for case in misuse.nested_cases(rng, NESTED)]
    assert ends.count("ConfigError") > len(ends) // 2 and "returned" in ends


def test_every_public_callable_is_tried() -> None:
    """One that nobody gave right arguments for would raise; and the right ones are right."""
    for call in misuse.calls():
        call.function(**call.right)
    names = {call.name for call in misuse.calls()}
    assert {"ethoscade.compile", "Compiled.verify", "memory.plan", "Machine.run", "DeviceDescription"} <= names


def test_random_configurations_are_read_or_refused(folder: Path) -> None:
    ends = set()
    for number in range(CONFIGURATIONS):
        rng = random.Random(number)
        path = folder / "board.ini"
        path.write_bytes(misconfigured.configuration(rng))
        ends.add(misconfigured.read(path, rng))
    assert ends >= {"ConfigError", "compiled"}


def test_random_command_lines_end_in_a_status(folder: Path) -> None:
    misconfigured.prepare_folder(folder)
    ends = {misconfigured.run(misconfigured.command_line(random.Random(number))) for number in range(COMMANDS)}
    assert ends >= {"status 0", "status 1", "status 2"}


# Messages.


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ethoscade.compile(misuse.MODEL, accelerator=[]), ["accelerator is []", "a text"]),
        (lambda: misuse.compiled().verify(seeds=None), ["seeds is None", "from 1 to 10,000"]),
        (lambda: misuse.compiled().verify(seeds=10**20), ["seeds is 100000000000000000000", "from 1 to 10,000"]),
        (lambda: misuse.compiled().save(None), ["path is None", "a text or a path"]),
        (lambda: misuse.compiled().simulate({"input": [[1], [2, 3]]}), ["input 'input'", "no array"]),
        (lambda: misuse.compiled().simulate([1]), ["inputs is [1]", "a mapping from a text to an array"]),
        (lambda: ethoscade.compile(misuse.MODEL, sram={1}), ["sram is {1}", "a text or a whole number"]),
        (lambda: ethoscade.compile(misuse.MODEL, sram=10**5000), ["sram is a number of 16610 bits"]),
        (lambda: ethoscade.compile(misuse.MODEL, sram="9" * 5000), ["cannot read the size '999"]),
        (lambda: ethoscade.compile(misuse.MODEL, progress=5), ["progress is 5", "a function"]),
        (lambda: memory.plan([memory.Buffer("a", 0, 1, 8), 5]), ["buffers is", "a sequence, each a Buffer"]),
        (lambda: memory.plan({1}), ["buffers is {1}"]),
        (lambda: memory.merge_models([]), ["models is []", "a mapping from a text to a sequence"]),
        (
            lambda: memory.plan([memory.Buffer("a", 0, 1, 8)], algorithm=lambda *_: None),
            ["answer of algorithm", "None"],
        ),
        (lambda: memory.Buffer("a", 0.5, 1, 8), ["buffer 'a': lower is 0.5", "a whole number"]),
        (lambda: memory.Buffer("a", True, 1, 8), ["lower is True"]),
        (lambda: parse_size(b"3KiB"), ["text is b'3KiB'"]),
    ],
)
def test_messages_name_parameter_value_and_what_is_accepted(call, said: list[str]) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError) as caught:
        call()
    assert all(word in str(caught.value) for word in said), str(caught.value)


def test_numbers_of_every_kind_are_numbers() -> None:
    for number in (8.5, Fraction(17, 2), np.float32(8.5), np.float64(8.5)):
        assert ethoscade.compile(misuse.MODEL, sram_kb=number).budget_bytes == 8704  # type: ignore[arg-type]
    assert ethoscade.compile(misuse.MODEL, sram=np.int64(8704)).budget_bytes == 8704
    assert misuse.compiled().verify(np.int8(1)).ok
    placed = memory.plan([memory.Buffer("a", np.int64(0), np.uint8(2), np.int16(16))])
    assert placed.peak_bytes == 16 and all(
        type(v) is int for v in (placed.buffers[0].upper, placed.buffers[0].size_bytes)
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [("12", 12), ("0.5", Fraction(1, 2)), ("2e3", 2000), ("1/64", Fraction(1, 64)), (" 7 ", 7), (".5", Fraction(1, 2))],
)
def test_numbers_as_text(text: str, number: Fraction) -> None:
    assert arguments.number_of(text) == number


@pytest.mark.parametrize("text", ["", "nan", "1/0", "1/1.5", "1e9999", "1e-99999999", "9" * 61, "0x1", "٣", "1_0"])
def test_texts_that_are_no_numbers(text: str) -> None:
    assert arguments.number_of(text) is None


# Numbers of a vela.ini.


def board(folder: Path, key: str, value: str) -> Path:
    path = folder / "board.ini"
    lines = [f"{key}={value}" if line.startswith(f"{key}=") else line for line in misconfigured.BOARD.splitlines()]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("key", ["core_clock", "Sram_clock_scale", "Sram_burst_length", "Sram_read_latency"])
@pytest.mark.parametrize(
    "value", ["1e400", "1e-300", "1" + "0" * 27, "nan", "inf", "1e99999999", "1e-99999999", "9" * 5000]
)
def test_numbers_that_no_device_has(folder: Path, key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        load_target(system_config="Board", memory_mode="Mine", config=board(folder, key, value))


@pytest.mark.parametrize(
    ("scale", "rate"),
    [("0.125", (1, 1)), ("0.0625", (1, 2)), ("1", (8, 1)), ("0." + "3" * 27, (8, 3)), ("1/3", (8, 3))],
)
def test_a_clock_scale_is_the_nearest_rate_that_is_counted_with(
    folder: Path, scale: str, rate: tuple[int, int]
) -> None:
    path = board(folder, "Sram_clock_scale", scale)
    assert load_target(system_config="Board", memory_mode="Mine", config=path).arena.bytes_per_cycle == rate


def test_configurations_that_are_no_files_of_that_size(folder: Path) -> None:
    (folder / "big.ini").write_bytes(b"#" * (1 << 21))
    for path, said in (
        ("big.ini", "more than 1,048,576 bytes"),
        ("/dev/zero", "it is no file"),
        ("a\0b", "null"),
        (".", "a folder"),
    ):
        with pytest.raises(ConfigError, match=said):
            load_target(config=path)
    (folder / "bom.ini").write_text(misconfigured.BOARD, encoding="utf-8-sig")
    assert load_target(system_config="Board", memory_mode="Mine", config="bom.ini").core_clock_hz == 200e6


def test_damaged_inputs_are_refused(folder: Path, capfd: Capture) -> None:
    """Archives with a few bytes changed: decompression, methods and headers that are none."""
    misuse.compiled().save("net.tflite")
    np.savez_compressed("inputs.npz", input=np.zeros((1, 8, 8, 3), np.int8))
    whole = Path("inputs.npz").read_bytes()
    for number in range(300):
        rng = random.Random(number)
        changed = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        Path("inputs.npz").write_bytes(changed)
        status, _, err = run(["simulate", "net.tflite", "--inputs", "inputs.npz"], capfd)
        assert status == 0 or (status == 1 and err.count("\n") == 1 and err.startswith("ethoscade")), err


@pytest.mark.parametrize(
    "command", [["plan-memory"], ["frontier", "net.tflite", "--config"], ["simulate", "net.tflite", "--inputs"]]
)
def test_what_never_ends_is_not_read(command: list[str], folder: Path, capfd: Capture) -> None:
    misuse.compiled().save("net.tflite")
    status, out, err = run([*command, "/dev/zero"], capfd)
    assert (status, out) == (1, "") and "it is no file" in err
