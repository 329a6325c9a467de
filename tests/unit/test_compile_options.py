"""What a caller may ask of a compilation: sizes, devices, epsilons, configurations; and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from end_to_end import arena_touched
from ethoscade import BudgetError, Compiled, ConfigError
from ethoscade.pipeline.compiler import prepare
from ethoscade.scheduling.program import Stripe
from ethoscade.scheduling.schedule import resolution_of
from ethoscade.targets.target import ACCELERATORS, default_config
from ethoscade.testing import inverted_residuals, tiny_conv

MODEL = inverted_residuals(blocks=3, resolution=24)


# Sizes.


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ({"sram_kb": 300}, 307_200),
        ({"sram_kb": 300.5}, 307_712),
        ({"sram_kb": np.int64(300)}, 307_200),
        ({"sram": "300KiB"}, 307_200),
        ({"sram": "300 kib"}, 307_200),
        ({"sram": "0.5MiB"}, 524_288),
        ({"sram": "15.6KiB"}, 15_974),
        ({"sram_kb": 15.6}, 15_974),
        ({"sram": "0.0155MiB"}, 16_252),
        ({"sram": "307200"}, 307_200),
        ({"sram": 307_200}, 307_200),
        ({"sram": "307200B"}, 307_200),
    ],
)
def test_budgets(given: dict[str, object], size: int) -> None:
    assert ethoscade.compile(tiny_conv(), **given).budget_bytes == size  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        {"sram_kb": -1},
        {"sram_kb": float("nan")},
        {"sram_kb": float("inf")},
        {"sram_kb": True},
        {"sram_kb": "300"},
        {"sram_kb": 0.0001},
        {"sram_kb": [300]},
        {"sram": "300 GB"},
        {"sram": "lots"},
        {"sram": ""},
        {"sram": "-5"},
        {"sram": "1e6"},
        {"sram": -16},
        {"sram": "0.3B"},
        {"sram": "300.5"},
        {"sram": "0.0009KiB"},
        {"sram": 2.5},
        {"sram": True},
        {"sram": b"300KiB"},
        {"sram": "٣٠٠"},
    ],
)
def test_budgets_that_make_no_sense(given: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        ethoscade.compile(tiny_conv(), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [{"sram_kb": 0}, {"sram": "0"}, {"sram": 0}])
def test_a_budget_of_nothing_is_a_budget(given: dict[str, object]) -> None:
    """Frontiers between two memories may begin at 0 bytes of the first one."""
    with pytest.raises(BudgetError, match="does not fit into 0 bytes"):
        ethoscade.compile(tiny_conv(), **given)  # type: ignore[arg-type]


def test_a_budget_is_given_once() -> None:
    with pytest.raises(ConfigError, match="sram_kb or sram, not both"):
        ethoscade.compile(tiny_conv(), sram_kb=300, sram="300KiB")


def test_a_tiny_fraction_of_kib_is_still_a_size() -> None:
    """Written by Python as 1e-05 or with an exponent, it must not be misread."""
    with pytest.raises(ConfigError):
        ethoscade.compile(tiny_conv(), sram_kb=1e-5)
    assert ethoscade.compile(tiny_conv(), sram_kb=1e16).budget_bytes == 1024 * 10**16


# Options.


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"accelerator": "ethos-u99"}, ["ethos-u99", *ACCELERATORS]),
        ({"accelerator": "ETHOS-U55-256"}, [*ACCELERATORS]),
        ({"system_config": "Fast"}, ["Fast", "Ethos_U55_High_End_Embedded", "Ethos_U65_Embedded"]),
        ({"memory_mode": "Big"}, ["Big", "Shared_Sram", "Sram_Only"]),
        ({"memory_mode": "Dedicated_Sram"}, ["Dedicated_Sram", "Shared_Sram", "Sram_Only"]),
        (
            {"accelerator": "ethos-u65-256", "memory_mode": "Dedicated_Sram"},
            ["Dedicated_Sram", "OffChipFlash", "cannot be written", "Shared_Sram", "Sram_Only"],
        ),
        ({"accelerator": "ethos-u65-512"}, ["ethos-u65-512", "simulated only", *ACCELERATORS]),
        ({"system_config": "Ethos_U85_SYS_DRAM_Mid"}, ["Ethos_U85_SYS_DRAM_Mid", "U85", "Ethos_U55_Deep_Embedded"]),
        ({"system_config": "Ethos_U65_Embedded"}, ["Ethos-U65", "ethos-u55-256", "Ethos_U55_Deep_Embedded"]),
        ({"config": "/nowhere/vela.ini"}, ["/nowhere/vela.ini"]),
        ({"config": "/"}, ["'/'"]),
        ({"optimise": "luck"}, ["luck", "performance", "size"]),
    ],
)
def test_options_that_do_not_exist(options: dict[str, str], said: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        ethoscade.compile(tiny_conv(), **options)  # type: ignore[arg-type]
    assert all(word in str(caught.value) for word in said), str(caught.value)


CUSTOM = """
[System_Config.Board]
core_clock=200e6
axi0_port=Sram
axi1_port=OffChipFlash
Sram_clock_scale=1.0
Sram_burst_length=32
Sram_read_latency=32
Sram_write_latency=32
OffChipFlash_clock_scale={scale}
OffChipFlash_burst_length=128
OffChipFlash_read_latency=64
OffChipFlash_write_latency=64

[Memory_Mode.Mine]
const_mem_area=Axi1
arena_mem_area=Axi0
cache_mem_area=Axi0

[Memory_Mode.MineOnly]
inherit=Memory_Mode.Mine
const_mem_area=Axi0
"""


def custom(folder: Path, scale: str = "0.125", text: str = CUSTOM) -> Path:
    """A vela.ini of one's own."""
    path = folder / f"board_{scale}.ini"
    path.write_text(text.replace("{scale}", scale))
    return path


@pytest.mark.parametrize(
    ("epsilon", "resolution"),
    [
        (0, 0),
        (0.0, 0),
        (1, 1),
        (1 / 64, 64),
        (Fraction(1, 48), 48),
        (1 / 3, 3),
        (0.01, 100),
        (0.3, 4),
        (Fraction(2, 3), 2),
        (np.float32(0.25), 4),
        (2.0**-20, 1 << 20),
    ],
)
def test_a_resolution_is_no_coarser_than_its_epsilon(epsilon: float, resolution: int) -> None:
    assert resolution_of(epsilon) == resolution
    assert resolution == 0 or 1 / resolution <= epsilon


@pytest.mark.parametrize("epsilon", [-0.1, 1.01, float("nan"), float("inf"), 1e-7, 10**400, True, "1/64", None])
@pytest.mark.parametrize("call", [ethoscade.frontier, ethoscade.compile])
def test_epsilons_that_make_no_sense(call: Callable[..., object], epsilon: object) -> None:
    with pytest.raises(ConfigError, match=r"epsilon is .*; it must be 0 for exact fronts, or .* from 1/1048576 to 1"):
        call(MODEL, epsilon=epsilon)


def test_a_curve_tells_its_epsilon() -> None:
    """What is asked for is kept unless the width of fronts forbids it; 0 keeps everything."""
    assert ethoscade.frontier(MODEL).points == ethoscade.frontier(MODEL, epsilon=1 / 64).points
    for epsilon in (Fraction(1), Fraction(1, 4), Fraction(1, 64), Fraction(0)):
        curve = ethoscade.frontier(MODEL, epsilon=epsilon)
        assert curve.epsilon >= epsilon
        assert curve.stop_reason == "width" or curve.epsilon == epsilon
    exact = ethoscade.frontier(tiny_conv(), epsilon=0)
    assert (exact.epsilon, exact.stop_reason) == (0, "complete")
    compiled = ethoscade.compile(MODEL, epsilon=1, optimise="balanced")
    assert compiled.frontier == ethoscade.frontier(MODEL, epsilon=1).points and compiled.curve.epsilon >= 1


def test_a_configuration_of_ones_own(tmp_path: Path) -> None:
    board = {"system_config": "Board", "memory_mode": "Mine"}
    slow = ethoscade.compile(MODEL, config=custom(tmp_path), **board)  # type: ignore[arg-type]
    fast = ethoscade.compile(MODEL, config=str(custom(tmp_path, "1.0")), **board)  # type: ignore[arg-type]
    assert slow.target.system_config == "Board"
    assert slow.target.core_clock_hz == 200e6
    assert slow.cycles > fast.cycles
    assert arena_touched(slow) == slow.sram_bytes
    only = ethoscade.compile(MODEL, config=custom(tmp_path), system_config="Board", memory_mode="MineOnly")
    assert only.target.constants_in_sram


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("core_clock=200e6", "core_clock=fast"),
        ("core_clock=200e6", ""),
        ("Sram_read_latency=32", "Sram_read_latency=-1"),
        ("Sram_clock_scale=1.0", "Sram_clock_scale=0"),
        ("arena_mem_area=Axi0", "arena_mem_area=Axi7"),
        ("arena_mem_area=Axi0", "arena_mem_area=Axi1"),
        ("[System_Config.Board]", "System_Config.Board"),
        ("inherit=Memory_Mode.Mine", "inherit=Memory_Mode.Yours"),
        ("inherit=Memory_Mode.Mine", "inherit=Memory_Mode.MineOnly"),
    ],
)
def test_configurations_with_mistakes(tmp_path: Path, old: str, new: str) -> None:
    path = custom(tmp_path, text=CUSTOM.replace(old, new))
    with pytest.raises(ConfigError):
        ethoscade.compile(tiny_conv(), config=path, system_config="Board", memory_mode="MineOnly")


def test_binary_configurations_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "vela.ini"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError):
        ethoscade.compile(tiny_conv(), config=path)


def test_the_default_configuration_named_is_the_default() -> None:
    named = ethoscade.compile(MODEL, config=default_config())
    assert named.curve.points == ethoscade.compile(MODEL).curve.points


@pytest.mark.parametrize("optimise", ["performance", "size"])
def test_sram_only_counts_the_constants(optimise: str) -> None:
    shared = ethoscade.compile(MODEL, optimise=optimise)
    only = ethoscade.compile(MODEL, memory_mode="Sram_Only", optimise=optimise)
    constants = len(only.artifact.constants)
    assert constants > 0
    assert only.pools["constants"] == constants
    assert only.sram_bytes == only.pools["arena"] + constants
    assert only.flash_bytes == only.pools["commands"]
    assert shared.flash_bytes == shared.pools["commands"] + shared.pools["constants"]
    assert only.curve.floor_bytes > constants
    assert arena_touched(only) + constants == only.sram_bytes
    assert only.verify(1).sram_touched_bytes == only.sram_bytes


def test_a_budget_counts_the_constants_in_sram_only() -> None:
    floor = ethoscade.frontier(MODEL, memory_mode="Sram_Only").floor_bytes
    assert ethoscade.compile(MODEL, sram=floor, memory_mode="Sram_Only").sram_bytes == floor
    with pytest.raises(BudgetError) as caught:
        ethoscade.compile(MODEL, sram=floor - 16, memory_mode="Sram_Only")
    assert caught.value.floor_bytes == floor


# Encoders.


def test_weights_may_be_velas_streams() -> None:
    """Which then are what its encoder makes; what is computed is the same."""
    ours, velas = (ethoscade.compile(MODEL, weight_encoder=encoder) for encoder in ("ethoscade", "vela"))
    assert ours.artifact.constants != velas.artifact.constants and ours.flash_bytes <= velas.flash_bytes
    assert ethoscade.compile(MODEL).artifact.constants == ours.artifact.constants
    found = [stream in velas.artifact.constants for stream in streams(velas, "vela")]
    assert all(found) and len(found) > 5
    assert not all(stream in velas.artifact.constants for stream in streams(ours, "ethoscade"))
    assert ours.verify(seeds=1).ok and velas.verify(seeds=1).ok


def streams(compiled: Compiled, encoder: str) -> list[bytes]:
    """The weight streams of a network as its steps use them as a whole."""
    network = prepare(compiled.source, compiled.target, weight_encoder=encoder)
    used = {(step.stage, step.slice) for step in compiled.program.steps if isinstance(step, Stripe)}
    whole = [network.encoded[stage].whole for stage, piece in sorted(used, key=str) if piece is None]
    return [encoded.weights.write() for encoded in whole if encoded is not None]


@pytest.mark.parametrize("work", [ethoscade.compile, ethoscade.frontier])
def test_an_unknown_encoder_is_refused(work: Callable[..., object]) -> None:
    with pytest.raises(ConfigError, match="weight_encoder is 'zip'; choose ethoscade or vela"):
        work(MODEL, weight_encoder="zip")
