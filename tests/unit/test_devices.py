"""Devices by description: what makes no sense is named, small networks are planned for both ready ones."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import ethoscade
import numpy as np
import pytest
from device_judge import fastest_one_by_one, judged
from ethoscade import BudgetError, ConfigError, DeviceDescription
from ethoscade.frontend import read_tflite
from ethoscade.ir import Activation
from ethoscade.pipeline.planning import Outline, prepare
from ethoscade.targets.devices import PRIMITIVES, Dma, Engine, cortex_m7, cortex_m55, matrix_npu
from ethoscade.targets.target import Memory
from ethoscade.testing import ModelBuilder, inverted_residuals, keyword_spotting, residual_network, tiny_conv

READY = {make().name: make for make in (cortex_m55, cortex_m7, matrix_npu)}
NETWORKS = {
    "tiny_conv": tiny_conv,
    "residual_network": residual_network,
    "keyword_spotting": keyword_spotting,
    "inverted_residuals": inverted_residuals,
}


def test_a_described_device_has_no_clock() -> None:
    curve = ethoscade.plan(tiny_conv(), cortex_m55())
    assert curve.core_clock_hz is None
    with pytest.raises(ConfigError, match="has no clock"):
        _ = curve.milliseconds


def outline(network: Callable[[], bytes], device: DeviceDescription) -> Outline:
    return prepare(read_tflite(network()), device)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("device", READY.values(), ids=READY)
def test_small_networks_are_planned(device: Callable[[], DeviceDescription], network: Callable[[], bytes]) -> None:
    curve = judged(outline(network, device()))
    assert ethoscade.plan(network(), device()).points == curve.points


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("device", READY.values(), ids=READY)
def test_a_faster_engine_slows_nothing_down(
    device: Callable[[], DeviceDescription], network: Callable[[], bytes]
) -> None:
    before = ethoscade.plan(network(), device()).points[-1]
    for index, engine in enumerate(device().engines):
        doubled = {primitive: (2 * rate[0], rate[1]) for primitive, rate in engine.rates.items()}
        engines = list(device().engines)
        engines[index] = replace(engine, rates=doubled)
        after = ethoscade.plan(network(), replace(device(), engines=tuple(engines))).points[-1]
        assert after[1] <= before[1]


def wide_middle() -> bytes:
    """Small ends, 32 KiB tensors in between."""
    b = ModelBuilder("wide_middle")
    x = b.input((1, 32, 32, 3), name="input")
    for _ in range(3):
        x = b.conv2d(x, 32, 3, activation=Activation.RELU)
    b.conv2d(x, 8, 3, stride=2, name="output")
    return b.build()


def small_chip(dram: Memory) -> DeviceDescription:
    """An engine that is never in the way, 24 KiB on the chip for tensors and some 22 for constants."""
    rates = MappingProxyType(dict.fromkeys(PRIMITIVES, (4096, 1)))
    chip = Memory("chip", (64, 1), 0, 0, 16, size_bytes=46 * 1024)
    return DeviceDescription("small-chip", (Engine("all", rates),), chip, chip, spill=dram, dma=Dma(in_flight=4))


def test_a_cascade_beats_one_operator_after_the_other_where_memory_behind_the_chip_is_slow() -> None:
    """Run whole, three tensors of 32 KiB do not fit a chip of 24; at a byte per cycle what is left over takes time."""
    slow = outline(wide_middle, small_chip(Memory("dram", (1, 1), 50, 50, 16)))
    curve = judged(slow)
    one_by_one = fastest_one_by_one(slow)
    whole = 32 * 1024
    assert one_by_one >= 3 * (whole - 24 * 1024)
    size, cycles = curve.points[-1]
    assert size <= 24 * 1024
    assert cycles * 2 < one_by_one
    assert any(plan.first != plan.last for plan in curve.proposals[-1].plans)


def test_a_plan_stays_inside_the_arena() -> None:
    whole = ethoscade.plan(inverted_residuals(), cortex_m55())
    size = whole.points[len(whole.points) // 2][0]
    assert whole.floor_bytes < size < whole.points[-1][0]
    arena = replace(cortex_m55().arena, size_bytes=size)
    assert ethoscade.plan(inverted_residuals(), replace(cortex_m55(), arena=arena)).points[-1][0] == size
    arena = replace(arena, size_bytes=whole.floor_bytes - 1)
    with pytest.raises(BudgetError, match="does not fit into") as caught:
        ethoscade.plan(inverted_residuals(), replace(cortex_m55(), arena=arena))
    assert caught.value.floor_bytes == whole.floor_bytes
    assert caught.value.operator in {
        operation.name for operation in outline(inverted_residuals, cortex_m55()).npu.operations
    }


def test_constants_in_the_arenas_memory_count() -> None:
    apart = ethoscade.plan(tiny_conv(), cortex_m7())
    memory = replace(cortex_m7().arena, size_bytes=None)
    together = ethoscade.plan(tiny_conv(), replace(cortex_m7(), arena=memory, constants=memory))
    weights, records = 3 * 3 * (3 * 8 + 8 * 4), 10 * (8 + 4)
    assert together.floor_bytes == apart.floor_bytes + weights + records


def test_nothing_is_left_to_chance() -> None:
    for device in READY.values():
        assert (
            ethoscade.plan(keyword_spotting(), device()).points == ethoscade.plan(keyword_spotting(), device()).points
        )


def _memory(**changes: object) -> Callable[[], object]:
    return lambda: replace(matrix_npu(), arena=replace(matrix_npu().arena, **changes))


def _numbered(count: int) -> tuple[Memory, ...]:
    dram = matrix_npu().constants
    return tuple(replace(dram, name=f"m{number}", size_bytes=1024) for number in range(count))


def _engine(**changes: object) -> Callable[[], object]:
    return lambda: replace(matrix_npu(), engines=(replace(matrix_npu().engines[0], **changes),))


NONSENSE: list[tuple[str, Callable[[], object]]] = [
    (r"bytes_per_cycle of the memory 'shared' is 0/1", _memory(bytes_per_cycle=(0, 1))),
    (r"burst_bytes of the memory 'shared' is 0", _memory(burst_bytes=0)),
    (r"arena\.size_bytes is None; tensors lie in 'dram' where 'shared' ends", _memory(size_bytes=None)),
    (r"spill\[0\]\.size_bytes is None", lambda: replace(matrix_npu(), spill=(matrix_npu().constants,) * 2)),
    (r"there are 10 memories", lambda: replace(matrix_npu(), spill=_numbered(8))),
    (r"arena\.size_bytes is -1", _memory(size_bytes=-1)),
    (r"bytes_per_cycle", _memory(bytes_per_cycle=(1.5, 1))),
    (r"read_latency", _memory(read_latency=-1)),
    (r"engines is empty", lambda: replace(matrix_npu(), engines=())),
    (r"engines\[0\]\.rates of 'matrix' is empty", _engine(rates={})),
    (r"engines\[0\]\.rates of 'matrix' is 1/0", _engine(rates={"add": (1, 0)})),
    (r"engines\[0\]\.rates of 'matrix' has 'convolve'; known are convolution, ", _engine(rates={"convolve": (1, 1)})),
    (r"engines\[0\]\.granule of 'matrix' has 0", _engine(granule=(1, 0, 1, 1))),
    (r"granule", _engine(granule=(1, 1))),
    (r"engines\[0\]\.operation_cycles of 'matrix' is 99999999", _engine(operation_cycles=99999999)),
    (r"buffer_bytes is 0", lambda: replace(matrix_npu(), buffer_bytes=0)),
    (r"dma\.in_flight is 0", lambda: replace(matrix_npu(), dma=Dma(in_flight=0))),
    (r"layout is 'NCHW'", lambda: replace(matrix_npu(), layout="NCHW")),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("message", "build"), NONSENSE, ids=[message for message, _ in NONSENSE])
def test_nonsense_is_named(message: str, build: Callable[[], object]) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        build()
    assert "device 'matrix-npu'" in str(caught.value)


def _granule(device: DeviceDescription, extent: int) -> DeviceDescription:
    return replace(device, engines=tuple(replace(engine, granule=(extent,) * 4) for engine in device.engines))


MISFITS: list[tuple[str, DeviceDescription]] = [
    (r"engines have no rate for add, which '.+' needs", replace(matrix_npu(), engines=matrix_npu().engines[:1])),
    (r"buffer_bytes is 64; no block of '.+' fits", replace(matrix_npu(), buffer_bytes=64)),
    (r"'.+' takes more than 2\^36 cycles", _granule(matrix_npu(), 2**16)),
    (r"'.+' takes more than 2\^36 cycles", _granule(cortex_m7(), 2**16)),
    (
        r"constants\.size_bytes is 100; '.+' has \d+ bytes",
        replace(matrix_npu(), constants=replace(matrix_npu().constants, size_bytes=100)),
    ),
]


@pytest.mark.parametrize(("message", "device"), MISFITS)
def test_what_a_network_does_not_fit_is_named(message: str, device: DeviceDescription) -> None:
    with pytest.raises(ConfigError, match=message):
        ethoscade.plan(residual_network(), device)


def test_further_operations_run_where_an_engine_has_a_rate_for_them() -> None:
    def magnitudes() -> bytes:
        b = ModelBuilder("magnitudes")
        b.softmax(b.unary("ABS", b.conv2d(b.input((1, 12, 12, 4)), 8, 3)))
        return b.build()

    def kinds(device: DeviceDescription) -> set[str]:
        found = outline(magnitudes, device)
        judged(found)
        return {operation.kind.value for operation in found.npu.operations}

    core = cortex_m55().engines[0]
    able = replace(cortex_m55(), engines=(replace(core, rates=MappingProxyType({**core.rates, "abs": (1, 1)})),))
    assert kinds(cortex_m55()) == {"convolution"}
    assert kinds(able) == {"convolution", "abs"}


def test_constant_operands_are_read_from_the_memory_of_constants() -> None:
    def scaled() -> bytes:
        b, rng = ModelBuilder("scaled"), np.random.default_rng(0)
        x = b.conv2d(b.input((1, 12, 12, 4)), 16, 3)
        x = b.binary("MUL", x, b.constant(rng.normal(size=16)))
        b.softmax(b.add(x, b.constant(rng.normal(size=(1, 12, 12, 16)))))
        return b.build()

    core = cortex_m55().engines[0]
    able = replace(cortex_m55(), engines=(replace(core, rates=MappingProxyType({**core.rates, "mul": (1, 1)})),))
    for device, kinds in ((cortex_m55(), ["convolution", "add"]), (able, ["convolution", "mul", "add"])):
        found = outline(scaled, device)
        judged(found)
        assert [operation.kind.value for operation in found.npu.operations] == kinds
    slow = replace(able, constants=replace(able.constants, bytes_per_cycle=(1, 64)))
    assert judged(outline(scaled, slow)).points[-1][1] > judged(outline(scaled, able)).points[-1][1] + 64 * 12 * 12 * 16


def test_the_example_shows_that_fusing_pays() -> None:
    root = Path(__file__).resolve().parents[2]
    example = root / "examples" / "fused_kernels.py"
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown, _ = done.stdout.split("\nall ")
    assert f"{shown.rstrip()}\n...\n```" in (root / "docs" / "devices.md").read_text(encoding="utf-8")
