"""What a damaged command stream is told: which command, which register, which limit."""

from __future__ import annotations

from functools import cache

import ethoscade
import pytest
from ethoscade.errors import SimulationError
from ethoscade.run import simulator
from ethoscade.testing import tiny_conv
from hazard_judge import Command, commands_of, payload_with

CONV = 2
# Registers that this convolution needs, by code; (words, code).
NEEDED = {
    "IFM_PAD_TOP": (1, 256),
    "IFM_DEPTH_M1": (1, 260),
    "IFM_PRECISION": (1, 261),
    "IFM_UPSCALE": (1, 263),
    "IFM_ZERO_POINT": (1, 265),
    "IFM_WIDTH0_M1": (1, 266),
    "IFM_IB_END": (1, 269),
    "IFM_REGION": (1, 271),
    "OFM_HEIGHT_M1": (1, 274),
    "OFM_PRECISION": (1, 276),
    "OFM_BLK_WIDTH_M1": (1, 277),
    "OFM_REGION": (1, 287),
    "KERNEL_HEIGHT_M1": (1, 289),
    "KERNEL_STRIDE": (1, 290),
    "ACC_FORMAT": (1, 292),
    "ACTIVATION_MIN": (1, 294),
    "WEIGHT_REGION": (1, 296),
    "AB_START": (1, 301),
    "BLOCKDEP": (1, 303),
    "IFM_BASE0": (2, 0),
    "IFM_STRIDE_X": (2, 4),
    "OFM_BASE0": (2, 16),
    "OFM_STRIDE_Y": (2, 21),
    "WEIGHT_BASE": (2, 32),
    "SCALE_LENGTH": (2, 35),
}


@cache
def stream() -> tuple[bytes, bytes, int]:
    artifact = ethoscade.compile(tiny_conv()).artifact
    return artifact.calls[0].payload, artifact.constants + bytes(-len(artifact.constants) % 16), artifact.arena_bytes


def run(commands: list[Command]) -> SimulationError:
    payload, constants, arena = stream()
    machine = simulator.Machine("ethos-u55-256", [constants, arena])
    with pytest.raises(SimulationError) as error:
        machine.run(payload_with(payload, commands))
    return error.value


def commands() -> list[Command]:
    return commands_of(stream()[0])


def first_convolution(found: list[Command]) -> int:
    return next(i for i, c in enumerate(found) if c.is_operation and c.code == CONV)


def with_value(words: int, code: int, value: int) -> list[Command]:
    """The stream with every setting of one register changed."""
    found = []
    for command in commands():
        if len(command.words) == words and command.code == code and not command.is_operation:
            low = command.words[0] & 0xFFFF
            command = Command((low, value)) if words == 2 else Command((low | value << 16,))
        found.append(command)
    return found


@pytest.mark.parametrize("register", NEEDED)
def test_a_register_that_nobody_set(register: str) -> None:
    words, code = NEEDED[register]
    found = [c for c in commands() if c.is_operation or (len(c.words), c.code) != (words, code)]
    error = run(found)
    assert error.command == first_convolution(found)
    assert f"register not set: {register}" in str(error)
    assert "OP_CONV" in str(error)


@pytest.mark.parametrize("word", [0x0004, 0x0100 | 0x3C00, 0x0106, 0x8002, 0xC002, 0x41FF])
def test_an_unknown_command(word: int) -> None:
    found = commands()
    found.insert(3, Command((word, 0) if word & 0x4000 else (word,)))
    error = run(found)
    assert error.command == 3
    assert f"unknown command word {word:#010x}" in str(error)


@pytest.mark.parametrize(
    ("words", "code", "value", "message"),
    [
        (2, 32, 8, "WEIGHT_BASE is 0x8, which is no multiple of 16"),
        (2, 34, 4, "SCALE_BASE is 0x4, which is no multiple of 16"),
        (2, 33, 40, "WEIGHT_LENGTH is 0x28, which is no multiple of 16"),
        (1, 278, 2, "OFM_BLK_HEIGHT_M1 + 1 is 0x3, which is no multiple of 2"),
        (1, 277, 64, "OFM_BLK_WIDTH_M1 + 1 is 65; allowed: at most 64 columns"),
        (1, 269, 3, "block does not fit SHRAM: the IFM buffers end beyond IFM_IB_END: "),
        (1, 301, 47, "block does not fit SHRAM: the accumulators end beyond the banks in use: "),
        (1, 303, 4, "BLOCKDEP is 4; allowed: 0..=3"),
        (1, 263, 3, "IFM_UPSCALE is 3; allowed: "),
        (1, 271, 9, "IFM_REGION is 9; allowed: 0..=7"),
        (1, 271, 5, "IFM uses region 5, which was not given"),
        (1, 287, 0, "OFM "),
        (2, 16, 1 << 20, "OFM touches bytes"),
    ],
)
def test_a_value_that_the_hardware_does_not_define(words: int, code: int, value: int, message: str) -> None:
    found = with_value(words, code, value)
    error = run(found)
    assert message in str(error)
    assert error.command == first_convolution(found)


def test_an_unaligned_base_of_a_brick_format_map() -> None:
    found = with_value(1, 276, 0x0041)
    for index, command in enumerate(found):
        if len(command.words) == 2 and command.code == 16:
            found[index] = Command((command.words[0], 8))
    error = run(found)
    assert "OFM_BASE0 is 0x8, which is no multiple of 16" in str(error)


def test_a_stream_without_its_end() -> None:
    error = run(commands()[:-1])
    assert error.command == len(commands()) - 1
    assert "without OP_STOP" in str(error)
