"""compile() as a user calls it: budgets, options, inputs, errors, silence and the same bytes every time."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from ethoscade import BudgetError, Compiled, ConfigError, EthoscadeError, ModelFormatError, UnsupportedOperatorError
from ethoscade.codegen import vela
from ethoscade.codegen.artifact import NpuCall
from ethoscade.compiler import compile as compile_model
from ethoscade.compiler import prepare
from ethoscade.explanation import peak_of
from ethoscade.frontend import read_tflite
from ethoscade.scheduling.program import CopyConstants
from ethoscade.scheduling.schedule import cycles_of, from_proposal, lower_schedule, resolution_of, uncascaded
from ethoscade.target import ACCELERATORS, default_config, load_target
from ethoscade.testing import (
    ModelBuilder,
    inverted_residuals,
    keyword_spotting,
    mobilenet_v1,
    random_network,
    residual_network,
    tiny_conv,
)
from ethoscade.timing import simulate_timing
from ethoscade.verification import random_inputs
from tflite_files import FLOAT32, File, Op, T

BUILDERS: dict[str, Callable[[], bytes]] = {
    "tiny_conv": tiny_conv,
    "residual_network": lambda: residual_network(blocks=2, channels=8, resolution=16),
    "keyword_spotting": lambda: keyword_spotting(channels=16),
    "inverted_residuals": lambda: inverted_residuals(blocks=3, resolution=24),
    "mobilenet_v1": lambda: mobilenet_v1(0.25, 32, classes=12),
}


@functools.cache
def built(name: str) -> bytes:
    """The file of one of them."""
    return BUILDERS[name]()


MODEL = built("inverted_residuals")
_CONFIG = default_config()


def touched(compiled: Compiled) -> int:
    """What a run touches, rounded up to 16."""
    return compiled.simulate(random_inputs(compiled.source, 0)).arena_touched_bytes


# A budget is a promise.


@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize("name", BUILDERS)
def test_the_floor_compiles_and_less_does_not(name: str, accelerator: str) -> None:
    model = built(name)
    floor = ethoscade.frontier(model, accelerator=accelerator).floor_bytes
    compiled = ethoscade.compile(model, sram=floor, accelerator=accelerator)
    assert compiled.sram_bytes == compiled.budget_bytes == floor == touched(compiled)
    with pytest.raises(BudgetError) as caught:
        ethoscade.compile(model, sram=floor - 16, accelerator=accelerator)
    error = caught.value
    assert (error.budget_bytes, error.floor_bytes) == (floor - 16, floor)
    assert error.operator in {op.name for op in compiled.operators}
    for said in (str(floor), str(floor - 16), error.operator):
        assert said in str(error)


def test_one_byte_below_the_floor_is_too_little() -> None:
    floor = ethoscade.frontier(MODEL).floor_bytes
    with pytest.raises(BudgetError):
        ethoscade.compile(MODEL, sram=floor - 1)


def test_the_floor_of_an_impossible_budget_is_one_that_works() -> None:
    with pytest.raises(BudgetError) as caught:
        ethoscade.compile(MODEL, sram=1)
    assert ethoscade.compile(MODEL, sram=caught.value.floor_bytes).sram_bytes == caught.value.floor_bytes


@pytest.mark.parametrize("name", BUILDERS)
def test_every_point_of_the_frontier_can_be_had(name: str) -> None:
    model = built(name)
    points = ethoscade.frontier(model).points
    assert list(points) == sorted(points)
    assert all(a[0] < b[0] and a[1] > b[1] for a, b in itertools.pairwise(points))
    for size, cycles in {points[0], points[len(points) // 2], points[-1]}:
        compiled = ethoscade.compile(model, sram=size)
        assert (compiled.sram_bytes, compiled.cycles) == (size, cycles)
        assert touched(compiled) == size
    # Between two points, the lower one is taken.
    if len(points) > 1:
        assert ethoscade.compile(model, sram=points[1][0] - 1).sram_bytes == points[0][0]


def test_the_clock_of_a_schedule_is_its_proposals() -> None:
    """And no schedule without cascades is faster than the frontier's last point, or than its dearest step."""
    curve = ethoscade.frontier(MODEL)
    network = prepare(read_tflite(MODEL), load_target("ethos-u55-256"))
    for proposal, (_, cycles) in zip(curve.proposals, curve.points, strict=True):
        assert cycles_of(network.problem, from_proposal(network.problem, proposal)) == cycles
    _, steps = lower_schedule(network.problem, uncascaded(network.problem))
    assert max(steps) < curve.uncascaded_cycles
    assert curve.points[-1][1] <= curve.uncascaded_cycles


def test_the_budget_error_names_the_peak() -> None:
    """The operator in the way is one at whose step the floor's bytes are alive."""
    compiled = ethoscade.compile(MODEL, optimise="size")
    stages = prepare(compiled.source, compiled.target).stages
    peak = peak_of(compiled.artifact.graph, stages, compiled.program)
    with pytest.raises(BudgetError) as caught:
        ethoscade.compile(MODEL, sram=16)
    assert caught.value.operator == peak.operator
    assert caught.value.alive == peak.alive
    assert peak.by_kind() in str(caught.value)


def test_without_a_budget_the_fastest_is_taken_and_with_size_the_leanest() -> None:
    points = ethoscade.frontier(MODEL).points
    fastest, leanest = ethoscade.compile(MODEL), ethoscade.compile(MODEL, optimise="size")
    assert (fastest.sram_bytes, fastest.cycles) == points[-1]
    assert (leanest.sram_bytes, leanest.cycles) == points[0]
    assert fastest.cycles == min(cycles for _, cycles in points)
    assert fastest.budget_bytes is None
    assert fastest.frontier == points
    # Within a budget, size still means the least.
    assert ethoscade.compile(MODEL, sram=points[-1][0], optimise="size").sram_bytes == points[0][0]
    assert leanest.cascades >= 1


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
        {"sram_kb": 0},
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
        {"sram": "0"},
        {"sram": "1e6"},
        {"sram": 0},
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
            {
                "accelerator": "ethos-u65-256",
                "system_config": "Ethos_U65_High_End",
                "memory_mode": "Dedicated_Sram",
            },
            ["Dedicated_Sram", "Dram", "simulated only", "Shared_Sram", "Sram_Only"],
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
    compiled = ethoscade.compile(MODEL, epsilon=1)
    assert compiled.frontier == ethoscade.frontier(MODEL, epsilon=1).points and compiled.curve.epsilon >= 1


def test_a_configuration_of_ones_own(tmp_path: Path) -> None:
    board = {"system_config": "Board", "memory_mode": "Mine"}
    slow = ethoscade.compile(MODEL, config=custom(tmp_path), **board)  # type: ignore[arg-type]
    fast = ethoscade.compile(MODEL, config=str(custom(tmp_path, "1.0")), **board)  # type: ignore[arg-type]
    assert slow.target.system_config == "Board"
    assert slow.target.core_clock_hz == 200e6
    assert slow.cycles > fast.cycles
    assert touched(slow) == slow.sram_bytes
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
    assert touched(only) + constants == only.sram_bytes
    assert only.verify(1).sram_touched_bytes == only.sram_bytes


def test_a_budget_counts_the_constants_in_sram_only() -> None:
    floor = ethoscade.frontier(MODEL, memory_mode="Sram_Only").floor_bytes
    assert ethoscade.compile(MODEL, sram=floor, memory_mode="Sram_Only").sram_bytes == floor
    with pytest.raises(BudgetError) as caught:
        ethoscade.compile(MODEL, sram=floor - 16, memory_mode="Sram_Only")
    assert caught.value.floor_bytes == floor


# Results.


def test_results_are_frozen() -> None:
    compiled = ethoscade.compile(tiny_conv())
    for value in (
        compiled,
        compiled.curve,
        compiled.operators[0],
        compiled.target,
        compiled.schedule,
        compiled.program,
    ):
        assert dataclasses.is_dataclass(value)
        name = dataclasses.fields(value)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, None)
    check = compiled.verify(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        check.ok = False  # type: ignore[misc]


def test_operators_say_where_they_run_and_why_not() -> None:
    compiled = ethoscade.compile(residual_network(blocks=2, channels=8, resolution=16), optimise="size")
    assert {op.where for op in compiled.operators} == {"npu", "cpu"}
    for op in compiled.operators:
        assert op.name and op.kind
        assert bool(op.reason) == (op.where == "cpu")
        assert (op.cycles > 0) == (op.where == "npu")
    assert [op.kind for op in compiled.cpu_operators] == ["SOFTMAX"]
    assert {op.cascade for op in compiled.operators} - {None} == set(range(1, compiled.cascades + 1))


@pytest.mark.parametrize("seed", range(12))
def test_cycles_lie_between_full_overlap_and_none(seed: int) -> None:
    """Copies and the front end work beside kernels: at least as long as the copies, at most all one after the other."""
    for optimise in ("performance", "size"):
        compiled = ethoscade.compile(random_network(seed), optimise=optimise)
        network = prepare(compiled.source, compiled.target)
        program, cycles = lower_schedule(network.problem, compiled.schedule)
        copies = sum(c for step, c in zip(program.steps, cycles, strict=True) if isinstance(step, CopyConstants))
        kernels = sum(cycles) - copies
        payloads = [call.payload for call in compiled.artifact.calls if isinstance(call, NpuCall)]
        front_end = sum(simulate_timing(payload, compiled.target).front_end_cycles for payload in payloads)
        assert max(copies, 1) <= compiled.cycles <= kernels + copies + front_end
        assert sum(op.cycles for op in compiled.operators) == kernels


def test_progress_and_seconds_name_the_stages() -> None:
    stages: list[str] = []
    compiled = ethoscade.compile(tiny_conv(), progress=stages.append)
    assert stages == ["import", "encode", "plan", "place", "codegen"]
    assert set(compiled.seconds) == {*stages, "total"}
    assert compiled.seconds["total"] >= sum(compiled.seconds[stage] for stage in stages) * 0.99


def test_results_have_a_short_repr() -> None:
    compiled = ethoscade.compile(mobilenet_v1(0.25, 32))
    assert len(repr(compiled)) < 2000
    assert len(repr(compiled.curve)) < 20_000


# Inputs.


def test_every_form_of_a_model_gives_the_same(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(MODEL)
    forms = [MODEL, path, str(path), bytearray(MODEL), memoryview(MODEL)]
    payloads = {ethoscade.compile(form).artifact.constants for form in forms}  # type: ignore[arg-type]
    assert len(payloads) == 1
    assert ethoscade.compile(path).name == "model"
    assert ethoscade.frontier(path).points == ethoscade.frontier(MODEL).points


def float_model() -> bytes:
    """An ADD in float32."""
    return File(
        (T("x", (1, 4, 4, 2), FLOAT32, (), ()), T("y", (1, 4, 4, 2), FLOAT32, (), ())),
        (Op("RELU", (0,), (1,)),),
        (0,),
        (1,),
    ).bytes()


@pytest.mark.parametrize("call", [ethoscade.compile, ethoscade.frontier])
def test_what_is_no_model_ends_in_an_error_of_ours(call: Callable[..., object], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for bad in (b"", b"\0" * 64, rng.bytes(5000), b"TFL3" * 100, MODEL[: len(MODEL) // 2], MODEL[:20]):
        with pytest.raises(ModelFormatError):
            call(bad)
    with pytest.raises(ModelFormatError, match="nowhere"):
        call(tmp_path / "nowhere.tflite")
    with pytest.raises(ModelFormatError, match="directory"):
        call(tmp_path)
    empty = tmp_path / "empty.tflite"
    empty.touch()
    with pytest.raises(ModelFormatError):
        call(empty)
    for wrong in (3, None, object(), ["model.tflite"]):
        with pytest.raises(ConfigError):
            call(wrong)


def test_a_float_model_is_refused_with_its_operator() -> None:
    with pytest.raises((ModelFormatError, UnsupportedOperatorError)) as caught:
        ethoscade.compile(float_model())
    assert "float" in str(caught.value).lower() or "quantis" in str(caught.value).lower()


def test_a_model_that_is_compiled_already_is_refused(tmp_path: Path) -> None:
    done = ethoscade.compile(tiny_conv()).save(tmp_path / "done.tflite")
    with pytest.raises(UnsupportedOperatorError, match="compiled already"):
        ethoscade.compile(done)


# Silence.


def test_the_library_prints_nothing(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    compiled = ethoscade.compile(MODEL, optimise="size")
    compiled.save(tmp_path / "a.tflite")
    compiled.write_c(tmp_path / "c")
    compiled.write_mlf(tmp_path / "a.tar")
    compiled.write_raw(tmp_path / "a.npz")
    compiled.simulate(random_inputs(compiled.source, 0))
    compiled.verify(1)
    ethoscade.frontier(MODEL, accelerator="ethos-u65-256")
    with pytest.raises(BudgetError):
        ethoscade.compile(MODEL, sram=16)
    assert capfd.readouterr() == ("", "")


def in_a_fresh_process(code: str, **environment: str) -> str:
    """What a new interpreter prints to either stream."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return done.stdout


_QUIET = """
import sys
import ethoscade
from ethoscade.testing import tiny_conv
for chip in ("ethos-u55-256", "ethos-u65-256"):
    ethoscade.compile(tiny_conv(), accelerator=chip)
assert "ai_edge_litert" not in sys.modules and "matplotlib" not in sys.modules
"""


def test_a_fresh_interpreter_prints_nothing_either() -> None:
    """Vela greets its first users with warnings; they are not for ours."""
    assert in_a_fresh_process(_QUIET) == ""


def test_logging_is_silent_until_asked_for() -> None:
    logger = logging.getLogger("ethoscade")
    assert any(isinstance(handler, logging.NullHandler) for handler in logger.handlers)
    assert logger.level == logging.NOTSET
    assert not [h for h in logger.handlers if not isinstance(h, logging.NullHandler)]


# The same bytes.

_DIGEST = """
import hashlib, sys, tempfile
from pathlib import Path
import ethoscade
from ethoscade.testing import inverted_residuals, residual_network
whole = hashlib.sha256()
for name, model in (("a", inverted_residuals(blocks=3, resolution=24)), ("b", residual_network(2, 8, 16))):
    for budget in ({}, {"optimise": "size"}):
        compiled = ethoscade.compile(model, **budget)
        folder = Path(tempfile.mkdtemp())
        compiled.save(folder / "model.tflite")
        compiled.write_c(folder / "c")
        compiled.write_mlf(folder / "model.tar")
        compiled.write_mlf(folder / "mlf")
        if name == "a":
            compiled.write_raw(folder / "model.npz")
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            print(name, budget, path.relative_to(folder), digest)
        print(compiled.schedule, compiled.cycles, compiled.sram_bytes)
"""


def test_two_hash_seeds_give_the_same_bytes() -> None:
    first, second = (in_a_fresh_process(_DIGEST, PYTHONHASHSEED=seed) for seed in ("1", "4242"))
    assert first.count(".npz") == 2 and first.count(".tar") == 4 and ".c " in first
    assert first == second


@pytest.mark.parametrize("seed", range(6))
def test_compiling_twice_gives_the_same(seed: int) -> None:
    model = random_network(seed)
    first, second = (compile_model(model, optimise="size") for _ in range(2))
    assert first.artifact.calls == second.artifact.calls
    assert first.artifact.constants == second.artifact.constants
    assert first.schedule == second.schedule


# Verification.


def test_verify_says_what_it_did() -> None:
    compiled = ethoscade.compile(tiny_conv())
    check = compiled.verify(2)
    assert check.ok and check.seeds == 2 and check.elements == 2 * 4 * 4 * 4
    assert (check.mismatches, check.hazards, check.max_abs_diff) == (0, 0, 0)
    assert check.sram_touched_bytes == compiled.sram_bytes


def test_verify_finds_kernels_that_start_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel may overlap with the last three jobs before it, whatever it reads: outputs stay, hazards appear."""
    model = residual_network(resolution=16)
    assert ethoscade.compile(model).verify(1).ok
    emit = vela.payload
    monkeypatch.setattr(vela, "payload", lambda operations, deps, npu: emit(operations, [3] * len(deps), npu))
    check = ethoscade.compile(model).verify(1)
    assert check.mismatches == 0
    assert check.hazards > 0
    assert not check.ok


@pytest.mark.parametrize("arguments", [(0,), (-1,), (1, "board")])
def test_verify_refuses_nonsense(arguments: tuple[object, ...]) -> None:
    with pytest.raises(ConfigError):
        ethoscade.compile(tiny_conv()).verify(*arguments)  # type: ignore[arg-type]


def test_verify_finds_a_wrong_byte() -> None:
    """One weight byte of the artefact changed: the judge must see it."""
    compiled = ethoscade.compile(two_inputs())
    assert compiled.verify(1).ok
    constants = bytearray(compiled.artifact.constants)
    # Scales are ten bytes per channel; the first byte of the first is the bias's lowest.
    constants[1] ^= 0x40
    broken = dataclasses.replace(compiled, artifact=dataclasses.replace(compiled.artifact, constants=bytes(constants)))
    try:
        check = broken.verify(1)
    except EthoscadeError:
        return
    assert not check.ok and check.mismatches > 0


def two_inputs() -> bytes:
    """Two inputs, a convolution each, an ADD: names must not be confused."""
    b = ModelBuilder("two")
    left, right = b.input((1, 6, 6, 4), name="left"), b.input((1, 6, 6, 8), name="right")
    b.add(b.conv2d(left, 8, 3), b.conv2d(right, 8, 1), name="sum")
    return b.build()


def test_several_inputs_and_outputs_by_name() -> None:
    compiled = ethoscade.compile(two_inputs(), optimise="size")
    assert compiled.verify(3).ok
    inputs = random_inputs(compiled.source, 0)
    assert set(inputs) == {"left", "right"}
    assert set(compiled.simulate(inputs).outputs) == {"sum"}
    with pytest.raises(ConfigError, match="left"):
        compiled.simulate({"right": inputs["right"]})


@pytest.mark.parametrize("ahead", [True, False])
def test_a_reshape_that_only_renames_may_lead_or_follow(ahead: bool) -> None:
    b = ModelBuilder("renamed")
    image = b.reshape(b.input((1, 64)), (1, 8, 8, 1)) if ahead else b.input((1, 8, 8, 1))
    made = b.conv2d(image, 8, 3)
    if not ahead:
        b.reshape(made, (1, 512))
    compiled = ethoscade.compile(b.build())
    assert compiled.sram_bytes == 64 + 512
    assert compiled.verify(1).ok


@pytest.mark.parametrize("name", BUILDERS)
def test_what_is_saved_runs_as_what_was_compiled(name: str, tmp_path: Path) -> None:
    compiled = ethoscade.compile(built(name), optimise="size")
    path = compiled.save(tmp_path / "deep" / "er" / "model.tflite")
    inputs = random_inputs(compiled.source, 5)
    ours, saved = compiled.simulate(inputs), ethoscade.simulate(path, inputs)
    assert list(ours.outputs) == list(saved.outputs)
    for output, value in ours.outputs.items():
        np.testing.assert_array_equal(value, saved.outputs[output])
    assert ours.arena_touched_bytes == saved.arena_touched_bytes == compiled.sram_bytes
    np.testing.assert_equal(ethoscade.simulate(path.read_bytes(), inputs).outputs, dict(saved.outputs))


def test_verify_without_litert_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: None)
    compiled = ethoscade.compile(tiny_conv(), config=_CONFIG)
    with pytest.raises(ethoscade.VerificationError, match=r"ethoscade\[verify\]"):
        compiled.verify(1)
