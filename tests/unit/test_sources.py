"""Facts about the hardware that both sides of other tests take from here, against Vela and the driver's words.

docs/sources.md lists such facts with what they were taken from; those whose source is installed are compared here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest
from ethoscade.errors import SimulationError
from ethoscade.run import simulator
from ethoscade.targets.target import SIMULATED
from ethosu.vela import driver_actions
from ethosu.vela.architecture_features import Accelerator as VelaAccelerator
from ethosu.vela.architecture_features import create_default_arch
from ethosu.vela.ethos_u55_regs import ethos_u55_regs as regs
from firmware_builds import device_words

_STOP = regs.cmd0.NPU_OP_STOP.value


def disassembled(words: list[int]) -> list[str]:
    arch = create_default_arch(VelaAccelerator("ethos-u65-512"))
    return simulator.disassemble(driver_actions.create_driver_payload([*words, _STOP], arch))


def commands() -> Iterator[tuple[str, list[int]]]:
    """Every command by Vela's name, with the words that it takes."""
    for command in regs.cmd0:
        yield command.name.removeprefix("NPU_").removeprefix("SET_"), [command.value]
    for command in regs.cmd1:
        yield command.name.removeprefix("NPU_").removeprefix("SET_"), [command.value | 1 << 14, 0]


@pytest.mark.parametrize(("name", "words"), list(commands()))
def test_commands_have_velas_numbers(name: str, words: list[int]) -> None:
    stream = [] if words == [_STOP] else words
    told = disassembled(stream)
    assert len(told) == 3 + bool(stream), "config, id, the command, the stop"
    assert name in told[2].split()


def test_other_numbers_are_no_commands() -> None:
    # Vela leaves out registers for users, CMD1_OPCODE_NPU_SET_USER_DEFINED0 to 7 of the driver's ethosu55_interface.h.
    known = {words[0] for _, words in commands()} | {code | 1 << 14 for code in range(160, 168)}
    for word in [*range(0x200), *(code | 1 << 14 for code in range(0x200))]:
        if word not in known:
            with pytest.raises(SimulationError, match="command"):
                disassembled([word, 0])


@pytest.mark.parametrize("name", SIMULATED)
def test_accelerators_are_velas(name: str) -> None:
    ours, theirs = SIMULATED[name], create_default_arch(VelaAccelerator(name))
    block = theirs.config.ofm_ublock
    assert (ours.macs, ours.cores) == (theirs.config.macs * theirs.ncores, theirs.ncores)
    assert ours.micro_block == (block.height, block.width, block.depth)
    assert ours.shram_banks == theirs.config.shram_banks
    assert (ours.product == "u65") == theirs.is_ethos_u65_system


class HwInfo(ctypes.Structure):
    """`struct ethosu_hw_info` of the driver's include/ethosu_types.h."""

    _fields_ = tuple(
        (name, ctypes.c_uint32)
        for name in (
            "version_status", "version_minor", "version_major", "product_major", "arch_patch_rev", "arch_minor_rev",
            "arch_major_rev", "macs_per_cc", "cmd_stream_version", "custom_dma",
        )
    )  # fmt: skip


@pytest.mark.parametrize("name", SIMULATED)
def test_the_simulated_device_tells_what_hardware_would(name: str) -> None:
    """The fields of ID and CONFIG as Vela's `id_r` and `config_r` read the driver's words."""
    library = ctypes.CDLL(str(simulator.driver_interface()[1]))
    library.ethosu_reserve_driver.restype = ctypes.c_void_p
    found = HwInfo()
    assert library.ethoscade_sim_set_accelerator(name.encode()) == 0
    try:
        library.ethosu_get_hw_info(None, ctypes.byref(found))
    finally:
        library.ethoscade_sim_set_accelerator(None)
    identity, config = regs.id_r(), regs.config_r()
    identity.word, config.word = device_words(name)
    for field in ("version_status", "version_minor", "version_major", "product_major"):
        assert getattr(found, field) == getattr(identity.bits, field), field
    for field in ("arch_patch_rev", "arch_minor_rev", "arch_major_rev"):
        assert getattr(found, field) == getattr(identity.bits, field), field
    for field in ("macs_per_cc", "cmd_stream_version"):
        assert getattr(found, field) == getattr(config.bits, field), field
