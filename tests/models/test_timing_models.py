"""The timing model on streams that Vela made: the independent model's figures, bytes counted from the registers, speed.

Vela's total is no judge of striped streams: it costs a cascaded operator as if it ran unstriped.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import register_bytes
import vela_file
from ethoscade.frontend import read_tflite
from ethoscade.run.compiled_file import has_fast_memory
from ethoscade.run.timing import simulate_timing
from ethoscade.targets.target import Target, load_target
from ethoscade.trace.files import time_file
from independent_cycles import COLUMNS, INDEPENDENT
from model_files import NO_MODELS, model_folder

TARGET = load_target("ethos-u55-256", "Ethos_U55_High_End_Embedded", "Shared_Sram")
SRAM, FLASH = "Sram", "OffChipFlash"
MODELS = (
    "kws_ref_int8",
    "ad01_int8",
    "resnet8_int8",
    "vww_96_int8",
    "person_detect",
    "mobilenet_v1_1.0_224_embed_uint8",
)
CASES = [(name, core, mode) for name in MODELS for core, mode in COLUMNS]
TOLERANCE = 0.02

# Systems with three memories or two cores: accelerator, system configuration, memory mode, models.
OTHERS = [
    (accelerator, system, mode, core, name)
    for accelerator in ("ethos-u65-256", "ethos-u65-512")
    for system, mode in (("Ethos_U65_High_End", "Dedicated_Sram"), ("Ethos_U65_Embedded", "Shared_Sram"))
    for core in ("regor", "legacy")
    for name in ("kws_ref_int8", "resnet8_int8", "vww_96_int8")
]

Payload = Callable[[str, str, str], bytes]


@pytest.fixture(scope="session")
def vela_stream(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A function (model, core, option, ...) -> Vela's file; each is compiled once."""
    folder = model_folder()
    if folder is None:
        pytest.skip(NO_MODELS)
    if importlib.util.find_spec("ethosu") is None:
        pytest.skip("ethos-u-vela is not installed")

    @functools.cache
    def compiled(name: str, core: str, *options: str) -> Path:
        model = folder / f"{name}.tflite"
        if not model.is_file():
            pytest.skip(f"{model} is missing")
        output = tmp_path_factory.mktemp("vela")
        command = [sys.executable, "-m", "ethosu.vela", str(model), "--output-dir", str(output), *options]
        command += ["--debug-force-legacy-core"] if core == "legacy" else []
        subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ)
        return output / f"{name}_vela.tflite"

    return compiled


def only_payload(file: Path) -> bytes:
    (op,) = [op for op in vela_file.read(file).operators if not isinstance(op, str)]
    return op.payload


@pytest.fixture(scope="session")
def vela_payload(vela_stream: Callable[..., Path]) -> Payload:
    """A function (model, core, mode) -> payload of Vela's file for `TARGET`."""
    system = ("--memory-mode", TARGET.memory_mode, "--system-config", TARGET.system_config)
    options = ("--accelerator-config", TARGET.accelerator.name, *system)
    return lambda name, core, mode: only_payload(vela_stream(name, core, "--optimise", mode, *options))


@pytest.mark.parametrize(("name", "core", "mode"), CASES)
def test_agrees_with_an_independent_model(name: str, core: str, mode: str, vela_payload: Payload) -> None:
    expected = INDEPENDENT[name][COLUMNS.index((core, mode))]
    found = simulate_timing(vela_payload(name, core, mode), TARGET).cycles
    assert abs(found / expected - 1) < TOLERANCE, f"{found} cycles, {expected} expected"


@pytest.mark.parametrize(("name", "core", "mode"), CASES)
def test_bytes_are_those_of_the_registers(name: str, core: str, mode: str, vela_payload: Payload) -> None:
    payload = vela_payload(name, core, mode)
    report = simulate_timing(payload, TARGET)
    counted = register_bytes.count(payload)
    for memory, regions in ((FLASH, [0]), (SRAM, range(1, 8))):
        found = report.memories[memory]
        assert found.kernel_read_bytes == sum(counted[region, "read"] for region in regions)
        assert found.kernel_written_bytes == sum(counted[region, "written"] for region in regions)
        assert found.dma_read_bytes == sum(counted[region, "copied from"] for region in regions)
        assert found.dma_written_bytes == sum(counted[region, "copied to"] for region in regions)
    stream = next(i for i in range(4, 64) if payload[4 * i] == 2) + 1
    assert report.memories[FLASH].command_bytes == len(payload) - 4 * stream


@pytest.mark.parametrize(("accelerator", "system", "mode", "core", "name"), OTHERS)
def test_two_cores_and_a_dedicated_sram(
    accelerator: str, system: str, mode: str, core: str, name: str, vela_stream: Callable[..., Path]
) -> None:
    """Bytes by memory are those of the registers, region 2 being the cache; the file says which mode it needs."""
    options = ("--accelerator-config", accelerator, "--system-config", system, "--memory-mode", mode)
    file = vela_stream(name, core, *options)
    payload = only_payload(file)
    target = load_target(accelerator, system, mode)
    report = simulate_timing(payload, target)
    counted = register_bytes.count(payload)
    places = [target.constants, target.arena, target.cache, *[target.arena] * 5]
    for memory, found in report.memories.items():
        regions = [region for region, place in enumerate(places) if place.name == memory]
        assert found.kernel_read_bytes == sum(counted[region, "read"] for region in regions)
        assert found.kernel_written_bytes == sum(counted[region, "written"] for region in regions)
        assert found.dma_read_bytes == sum(counted[region, "copied from"] for region in regions)
        assert found.dma_written_bytes == sum(counted[region, "copied to"] for region in regions)
        assert found.read_bytes > 0
    assert report.lower_bound_cycles <= report.cycles
    assert report.least_mac_cycles == -(-report.macs // target.accelerator.macs) <= report.mac_engine_cycles
    ((_, of_file),) = time_file(read_tflite(file), system)
    operator = next(op for op in read_tflite(file).operators if op.kind == "ethos-u")
    assert has_fast_memory(read_tflite(file), operator) == (mode == "Dedicated_Sram")
    assert of_file.cycles == report.cycles and list(of_file.memories) == list(report.memories)


@pytest.mark.parametrize(("name", "core", "mode"), CASES)
def test_bounds_hold(name: str, core: str, mode: str, vela_payload: Payload) -> None:
    payload = vela_payload(name, core, mode)
    report = simulate_timing(payload, TARGET)
    assert report.lower_bound_cycles <= report.cycles
    assert report.least_mac_cycles <= report.mac_engine_cycles <= report.cycles
    assert sum(report.bound_cycles.values()) == report.cycles
    for memory in ("constants", "arena"):
        assert simulate_timing(payload, _faster(memory)).cycles <= report.cycles
    rules = {"fetch_commands": 0, "cycles_per_word": 0}
    relaxed = simulate_timing(_without_waits(payload), TARGET, rules=rules).cycles
    assert relaxed <= simulate_timing(payload, TARGET, rules=rules).cycles


def _faster(memory: str) -> Target:
    old = getattr(TARGET, memory)
    rate = old.bytes_per_cycle
    return dataclasses.replace(TARGET, **{memory: dataclasses.replace(old, bytes_per_cycle=(2 * rate[0], rate[1]))})


def _without_waits(payload: bytes) -> bytes:
    """Every KERNEL_WAIT and DMA_WAIT as one that waits for nothing: a wrong stream, but no slower one."""
    words = list(struct.unpack(f"<{len(payload) // 4}I", payload))
    at = next(i for i, word in enumerate(words) if i >= 4 and word & 0xFF == 2) + 1
    while at < len(words):
        code, wide = words[at] & 0x3FF, words[at] >> 14 & 1
        if not wide and code in (17, 18):
            words[at] = code | (3 if code == 18 else 15) << 16
        at += 1 + wide
    return struct.pack(f"<{len(words)}I", *words)
