"""The public models: every accelerator, every kind of budget, bit-exact against the reference kernels.

11 models x 4 accelerators x 3 budgets (none, the floor, half-way between the floor and no cascades) on three seeds; and
points between: the whole frontier of small models, the middle of the others'.
"""

from __future__ import annotations

import functools
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from ethoscade import BudgetError, Compiled, Curve, Prepared
from ethoscade.codegen.artifact import NpuCall
from ethoscade.frontend import read_tflite
from ethoscade.ir import Graph
from ethoscade.judge.verification import Expectation, compare, random_inputs, reference_runs
from ethoscade.pipeline.compiler import carry_out, prepare, search
from ethoscade.run.timing import simulate_timing
from ethoscade.targets.target import load_target
from model_files import NO_MODELS, model_folder

FOLDER = model_folder()
SEEDS = 3
BIG = ("mobilenet_v1_1.0_224_int8_rand", "mobilenet_v1_1.0_224_embed_uint8", "mobilenet_v2_1.0_224_ptq")
SMALL = (
    "hello_world_int8",
    "ad01_int8",
    "kws_ref_int8",
    "resnet8_int8",
    "vww_96_int8",
    "person_detect",
    "micro_speech",
    "mobilenet_v1_0.25_128_uint8",
)
MODELS = (*SMALL, *BIG)
ACCELERATORS = ("ethos-u55-256", "ethos-u55-128", "ethos-u55-32", "ethos-u65-256")
BUDGETS = ("none", "floor", "half-way")

WHOLE_FRONTIERS = ("kws_ref_int8", "resnet8_int8")

# The least SRAM of Arm Vela 5.2.0 (Regor, --optimise Size, ethos-u55-256), in KiB.
VELA_KIB = {
    "mobilenet_v1_1.0_224_embed_uint8": 441.0,
    "mobilenet_v2_1.0_224_ptq": 353.5,
    "mobilenet_v1_0.25_128_uint8": 80.0,
    "vww_96_int8": 48.0,
    "resnet8_int8": 35.0,
    "kws_ref_int8": 15.6,
    "person_detect": 30.0,
}


def path_of(name: str) -> Path:
    """The file of a model; skips the test if it is not there."""
    path = None if FOLDER is None else FOLDER / f"{name}.tflite"
    if path is None or not path.is_file():
        pytest.skip(NO_MODELS if path is None else f"no file {path.name} in {FOLDER}")
    return path


@functools.cache
def source_of(name: str) -> Graph:
    """The network as read."""
    return read_tflite(path_of(name))


@functools.lru_cache(maxsize=1)
def prepared(name: str, accelerator: str) -> Prepared:
    """A model made ready once for all its budgets; one at a time, as a search keeps much."""
    return ethoscade.prepare(path_of(name), accelerator=accelerator)


@functools.cache
def compiled_for(name: str, accelerator: str, sram: int | None = None) -> Compiled:
    """A model compiled into a budget, or without one."""
    return prepared(name, accelerator).compile(sram=sram)


@functools.cache
def curve_of(name: str, accelerator: str) -> Curve:
    """All choices of a model on an accelerator."""
    return prepared(name, accelerator).frontier()


@functools.cache
def expectations(name: str) -> tuple[Expectation, ...]:
    """What the reference says about each seed."""
    graph = source_of(name)
    return reference_runs(graph, [random_inputs(graph, seed) for seed in range(SEEDS)])


def limit_of(name: str, accelerator: str, budget: str) -> int | None:
    """Bytes of a kind of budget."""
    if budget == "none":
        return None
    curve = curve_of(name, accelerator)
    return curve.floor_bytes if budget == "floor" else (curve.floor_bytes + curve.uncascaded_bytes) // 2


def check_exact(compiled: Compiled, name: str) -> None:
    """Every output element equals the reference, and the bytes promised are the bytes touched."""
    for seed, expected in enumerate(expectations(name)):
        result = compiled.simulate(random_inputs(compiled.source, seed))
        elements, mismatches, largest = compare(result.outputs, expected.outputs)
        assert elements > 0
        assert mismatches == 0, f"seed {seed}: {mismatches} of {elements} differ by up to {largest}"
        assert result.warnings == () and result.hazards == 0
        assert result.arena_touched_bytes == compiled.sram_bytes == compiled.pools["arena"]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize("name", MODELS)
def test_models_are_exact_and_keep_their_promise(name: str, accelerator: str, budget: str) -> None:
    limit = limit_of(name, accelerator, budget)
    compiled = compiled_for(name, accelerator, limit)
    check_exact(compiled, name)
    if limit is None:
        return
    assert compiled.sram_bytes <= limit
    points = curve_of(name, accelerator).points
    assert 100 * compiled.cycles <= 101 * next(cycles for size, cycles in reversed(points) if size <= limit)
    if budget == "floor":
        # Copies that are issued early may happen to lie better and take less; a budget below the floor is refused all
        # the same.
        assert not prepared(name, accelerator).fits(limit - 1)
        if compiled.schedule.issue_order is None:
            assert compiled.sram_bytes == limit


@pytest.mark.parametrize("name", MODELS)
def test_points_of_the_frontier_are_exact_and_cost_what_they_promise(name: str) -> None:
    """All of them for WHOLE_FRONTIERS, else the middle one; floor and fastest are tested above."""
    source, target = source_of(name), load_target("ethos-u55-256")
    network = prepare(source, target)
    curve = search(network)
    points = range(len(curve.points)) if name in WHOLE_FRONTIERS else [len(curve.points) // 2]
    for point in points:
        compiled = carry_out(network, curve, curve.proposals[point])
        assert (compiled.sram_bytes, compiled.cycles) == curve.points[point]
        check_exact(compiled, name)
        payloads = [call.payload for call in compiled.artifact.calls if isinstance(call, NpuCall)]
        timed = sum(simulate_timing(payload, target).cycles for payload in payloads)
        assert compiled.cycles == timed


@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize("name", MODELS)
def test_16_bytes_below_the_floor_is_too_little(name: str, accelerator: str) -> None:
    floor = curve_of(name, accelerator).floor_bytes
    with pytest.raises(BudgetError) as caught:
        ethoscade.compile(path_of(name), accelerator=accelerator, sram=floor - 16)
    assert caught.value.floor_bytes == floor
    assert caught.value.operator in {op.name for op in source_of(name).operators}


@pytest.mark.parametrize("name", BIG)
def test_the_224_networks_run_in_300_kib(name: str) -> None:
    compiled = ethoscade.compile(path_of(name), sram_kb=300)
    assert compiled.sram_bytes <= 300 * 1024 == compiled.budget_bytes
    assert compiled.cascades >= 1
    check_exact(compiled, name)


@pytest.mark.parametrize("name", VELA_KIB)
def test_floors_lie_below_velas(name: str) -> None:
    assert curve_of(name, "ethos-u55-256").floor_bytes < VELA_KIB[name] * 1024


def test_ad01_needs_no_more_than_its_largest_layers() -> None:
    """Vela's 0.8 KiB are 768 bytes: input and first output, which no schedule of this network can undercut."""
    assert curve_of("ad01_int8", "ethos-u55-256").floor_bytes <= 768


@pytest.mark.parametrize("name", MODELS)
def test_the_emitted_c_is_exact_in_an_arena_of_the_promised_size(name: str) -> None:
    """Built with -std=c99 -Wall -Wextra -Werror and run on the host against the simulator's driver."""
    from ethoscade.run import host_c

    assert {"-std=c99", "-Wall", "-Wextra", "-Werror"} <= set(host_c.FLAGS)
    compiled = compiled_for(name, "ethos-u55-256", curve_of(name, "ethos-u55-256").floor_bytes)
    expected = expectations(name)[0]
    run = host_c.run(compiled.artifact, random_inputs(compiled.source, 0))
    _, mismatches, largest = compare(run.outputs, expected.outputs)
    assert mismatches == 0, f"{mismatches} elements differ by up to {largest}"
    assert run.arena_bytes == compiled.sram_bytes


@pytest.mark.parametrize("name", MODELS)
def test_the_saved_file_runs_as_well(name: str, tmp_path: Path) -> None:
    compiled = compiled_for(name, "ethos-u55-256", curve_of(name, "ethos-u55-256").floor_bytes)
    saved = compiled.save(tmp_path / "model.tflite")
    result = ethoscade.simulate(saved, random_inputs(compiled.source, 0))
    for found, wanted in zip(result.outputs.values(), expectations(name)[0].outputs.values(), strict=True):
        np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)
    assert result.arena_touched_bytes == compiled.sram_bytes


def test_verification_as_users_ask_for_it() -> None:
    """The one entry that the other tests go around to save time, on both targets."""
    compiled = ethoscade.compile(path_of("kws_ref_int8"), optimise="size")
    for target in ("simulator", "c"):
        check = compiled.verify(seeds=1, target=target)
        assert check.ok and check.elements == 12 and check.sram_touched_bytes == compiled.sram_bytes
