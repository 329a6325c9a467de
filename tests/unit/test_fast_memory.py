"""An arena in DRAM beside fast memory of the NPU's own: exact, as promised, within the budget, in every format."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from command_line_support import Capture, resized_classifier, run, run_json, written
from ethoscade import BudgetError, ConfigError, SchedulingError
from ethoscade.analysis.addresses import Address
from ethoscade.codegen import c_source, mlf, raw, tflite
from ethoscade.codegen.artifact import Artifact, NpuCall
from ethoscade.codegen.block_dependency import block_dependencies
from ethoscade.codegen.c.options import COptions
from ethoscade.codegen.layout import touched_tensors
from ethoscade.codegen.operations import FAST_REGION, Kernel
from ethoscade.frontend import read_tflite
from ethoscade.judge.verification import random_inputs
from ethoscade.pipeline.compiled import Compiled
from ethoscade.pipeline.compiler import prepare, search
from ethoscade.pipeline.network import with_cache
from ethoscade.pipeline.prepared import Prepared
from ethoscade.run.execution import run_tflite, sram_touched
from ethoscade.run.timing import simulate_timing
from ethoscade.scheduling.program import in_fast
from ethoscade.scheduling.schedule import CacheWrite, Group, Schedule, arrange
from ethoscade.targets.target import ACCELERATORS, compilation_target
from ethoscade.testing import ModelBuilder, inverted_residuals
from promised_cycles import broken_promises
from test_block_dependency import MAX_BLOCKDEP, kernel, strip
from test_variables import network

IN_DRAM = {"accelerator": "ethos-u65-256", "system_config": "Ethos_U65_High_End", "memory_mode": "Dedicated_Sram"}


def recurrent() -> bytes:
    b = ModelBuilder("recurrent")
    b.fully_connected(b.lstm(b.input((1, 6, 8)), 12), 4)
    return b.build()


def float_ends() -> bytes:
    b = ModelBuilder("float_ends")
    x = b.quantize(b.input((1, 12, 12, 4), quantisation=None))
    b.dequantize(b.conv2d(b.conv2d(x, 16, 3), 8, 3))
    return b.build()


MODELS = {
    "cascades": lambda: inverted_residuals(resolution=32),
    "with_cpu": resized_classifier,
    "state": lambda: network("exchanged"),
    "recurrent": recurrent,
    "float_ends": float_ends,
}


@cache
def prepared(name: str) -> Prepared:
    return ethoscade.prepare(MODELS[name](), **IN_DRAM)


@cache
def made(name: str, share: int) -> Compiled:
    """Compiled with a `share`-th of the fast memory that the fastest schedule takes."""
    most = prepared(name).compile().sram_bytes
    return prepared(name).compile(sram=max(most // share, 16))


@pytest.mark.parametrize("share", [1, 2, 8])
@pytest.mark.parametrize("name", MODELS)
def test_results_are_exact_and_bytes_as_promised(name: str, share: int) -> None:
    compiled = made(name, share)
    check = compiled.verify(seeds=2)
    assert check.ok and check.hazards == 0 and check.sram_touched_bytes == compiled.sram_bytes
    assert compiled.sram_bytes == compiled.pools["fast"] == compiled.arrangement.arena_bytes
    assert compiled.budget_bytes is not None and compiled.sram_bytes <= compiled.budget_bytes
    assert compiled.verify(seeds=1, target="c").ok


@pytest.mark.parametrize("name", MODELS)
def test_less_fast_memory_is_slower_and_never_too_little(name: str) -> None:
    most = made(name, 1)
    budgets = [max(most.sram_bytes // share, 16) for share in (2, 8, most.sram_bytes or 1)]
    found = [most, *(prepared(name).compile(sram=budget) for budget in budgets)]
    cycles = [compiled.cycles for compiled in found]
    assert cycles == sorted(cycles) and (cycles[-1] > cycles[0]) == (most.sram_bytes > 16)
    assert prepared(name).fits(16) and found[-1].sram_bytes <= 16
    # What lies around the search's program is placed after it, which other addresses may tell by a few words.
    slack = 0 if name in ("cascades", "with_cpu") else 0.001
    assert all(abs(simulated(of) - of.cycles) <= slack * of.cycles for of in found)


@pytest.mark.parametrize("line", [16, 32, 128])
def test_whole_lines_need_no_floor_either(line: int) -> None:
    """A budget is as many lines as it holds, and what these do not hold lies in the arena."""
    for budget in (2032, line + 16, line - 1):
        compiled = prepared("cascades").compile(sram=budget, line_bytes=line)
        assert compiled.sram_bytes <= budget // line * line and compiled.sram_bytes % line == 0
        assert compiled.verify(seeds=1).ok


def simulated(compiled: Compiled) -> int:
    return sum(report.cycles for _, report in compiled.timing())


@pytest.mark.parametrize("share", [1, 3])
def test_streams_are_predicted_word_for_word(share: int) -> None:
    whole = prepare(read_tflite(MODELS["cascades"]()), compilation_target(**IN_DRAM))
    fitted = whole if share == 1 else with_cache(whole, search(whole).points[-1][0] // share)
    curve = search(fitted)
    regions = set()
    for index in range(len(curve.points)):
        assert list(broken_promises(fitted, curve, index)) == []
    for call in made("cascades", share).artifact.calls:
        assert isinstance(call, NpuCall)
        regions |= c_source_regions(call.payload)
    assert {0, 1, FAST_REGION} == regions


def c_source_regions(payload: bytes) -> frozenset[int]:
    from ethoscade.codegen.c.regions import used

    return used(payload) or frozenset()


def test_what_others_touch_lies_in_the_arena() -> None:
    compiled = made("with_cpu", 2)
    arranged, artifact = compiled.arrangement, compiled.artifact
    fast = in_fast(arranged)
    assert fast and {"rolling", "tensor", "weights"} & {arranged.program.buffers[i].kind for i in fast}
    held = dict(arranged.program.tensor_buffers)
    assert all(held[t] not in fast for t in touched_tensors(artifact) if t in held)
    assert artifact.fast_tensors == {t for t, i in held.items() if i in fast}
    assert not artifact.fast_tensors & set(artifact.offsets)
    ends = [arranged.offsets[i] + arranged.program.buffers[i].size_bytes for i in fast]
    assert max(ends) <= artifact.fast_bytes


def test_one_answer_whatever_was_asked_before() -> None:
    fresh = ethoscade.prepare(MODELS["cascades"](), **IN_DRAM)
    size = made("cascades", 2).budget_bytes
    assert tflite.write(fresh.compile(sram=size).artifact) == tflite.write(made("cascades", 2).artifact)
    mode = IN_DRAM | {"memory_mode": "Dedicated_Sram_256KB"}
    named = ethoscade.compile(MODELS["cascades"](), **mode)
    assert named.budget_bytes is None and named.target.cache.size_bytes == 256 * 1024
    assert tflite.write(named.artifact) == tflite.write(
        replace(made("cascades", 1).artifact, memory_mode="Dedicated_Sram_256KB")
    )


# --- further RAM of boards --------------------------------------------------------------------------------------------

BOARD = """
accelerator = "ethos-u55-128"
memory_mode = "Shared_Sram"
sram = "8KiB"
system_config = "Ethos_U55_High_End_Embedded"
[further_ram]
size = "{size}"
clock_scale = 0.125
burst_length = 64
read_latency = 100
write_latency = 50
"""


@pytest.fixture
def board(tmp_path: Path) -> Path:
    (tmp_path / "two_rams.toml").write_text(BOARD.format(size="64KiB"), encoding="utf-8")
    return tmp_path / "two_rams.toml"


def test_a_board_may_have_further_ram(board: Path) -> None:
    compiled = ethoscade.compile(MODELS["cascades"](), board=board)
    target = compiled.target
    assert (target.cache.name, target.arena.name, target.arena.bytes_per_cycle) == ("Sram", "Ram", (1, 1))
    assert compiled.verify(seeds=1).ok and compiled.sram_bytes <= compiled.budget_bytes == 8 << 10
    assert 0 < compiled.pools["arena"] <= 64 << 10 and {m.memory for m in compiled.table().memories} >= {"Sram", "Ram"}
    more = ethoscade.compile(MODELS["cascades"](), board=board, sram="32KiB")
    assert simulated(compiled) == compiled.cycles > more.cycles == simulated(more)
    alone = ethoscade.frontier(MODELS["cascades"](), accelerator="ethos-u55-128")
    assert ethoscade.compile(MODELS["cascades"](), board=board, sram="2KiB").sram_bytes <= 2048 < alone.floor_bytes


def test_weights_in_sram_count_beside_the_fast_memory(board: Path) -> None:
    compiled = ethoscade.compile(MODELS["cascades"](), board=board, memory_mode="Sram_Only", sram="24KiB")
    assert compiled.sram_bytes == compiled.pools["fast"] + compiled.pools["constants"] <= 24 << 10
    assert compiled.verify(seeds=1).sram_touched_bytes == compiled.sram_bytes
    prepared_ = ethoscade.prepare(MODELS["cascades"](), board=board, memory_mode="Sram_Only")
    assert prepared_.fits(compiled.pools["constants"] + 16) and not prepared_.fits(compiled.pools["constants"] - 16)
    with pytest.raises(BudgetError, match="does not fit into 64 bytes"):
        prepared_.compile(sram=64)


def test_what_further_ram_does_not_hold_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(BOARD.format(size="4KiB"), encoding="utf-8")
    with pytest.raises(
        BudgetError, match=r"does not fit into the 4096 bytes of the memory 'Ram'.* give more"
    ) as caught:
        ethoscade.compile(MODELS["cascades"](), board=tmp_path / "b.toml", sram="2KiB")
    assert caught.value.floor_bytes > caught.value.budget_bytes == 4096
    enough = ethoscade.compile(MODELS["cascades"](), board=tmp_path / "b.toml", sram="8KiB")
    assert enough.pools["arena"] <= 4096


def test_what_is_wrong_with_further_ram_is_told_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(BOARD.format(size="4KiB").replace("burst_length = 64", ""), encoding="utf-8")
    with pytest.raises(ConfigError, match="burst_length"):
        ethoscade.compile(MODELS["cascades"](), board=tmp_path / "b.toml")
    (tmp_path / "b.toml").write_text(BOARD.format(size="4KiB") + "colour = 3\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="colour"):
        ethoscade.compile(MODELS["cascades"](), board=tmp_path / "b.toml")


# --- formats ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_files_run_alike(name: str) -> None:
    compiled = made(name, 2)
    file = read_tflite(tflite.write(compiled.artifact))
    inputs = random_inputs(compiled.source, 3)
    result, expected = run_tflite(file, inputs), compiled.simulate(inputs)
    assert all(np.array_equal(result.outputs[key], value) for key, value in expected.outputs.items())
    assert result.hazards == 0 and sram_touched(file, result) == compiled.sram_bytes


def test_a_fast_memory_as_large_as_the_arena_is_told_apart() -> None:
    artifact = made("cascades", 2).artifact
    equal = replace(artifact, arena_bytes=max(artifact.arena_bytes, artifact.fast_bytes))
    equal = replace(equal, fast_bytes=equal.arena_bytes)
    file = read_tflite(tflite.write(equal))
    sizes = {tensor.name: tensor.size_bytes for tensor in file.tensors}
    assert (sizes["scratch"], sizes["scratch_fast"]) == (equal.arena_bytes, equal.arena_bytes + 16)


def test_raw_files_and_mlf_tell_of_it(tmp_path: Path) -> None:
    artifact = made("cascades", 2).artifact
    arrays = raw.arrays(artifact)
    assert int(arrays["scratch_fast_size"]) == artifact.fast_bytes and int(arrays["scratch_fast_region"]) == FAST_REGION
    program = json.loads(bytes(raw.arrays(made("with_cpu", 2).artifact)["program"]))
    assert program["regions"] == ["weight_data", "arena", "fast"] and program["fast_bytes"] > 0
    assert "fast memory" in mlf.listing(artifact) and "fast memory" not in mlf.listing(_without(artifact))


def _without(artifact: Artifact) -> Artifact:
    return replace(artifact, fast_bytes=None)


def test_the_header_has_a_pool_for_it() -> None:
    artifact = made("cascades", 2).artifact
    name = c_source.header_name(artifact)
    pools = c_source.contents(artifact, COptions(workspace="pools"))[name].decode()
    assert f"_FAST_SIZE TVMGEN_MODEL_IN_LINES({artifact.fast_bytes})" in pools
    assert "void* fast;" in pools and "size_t fast_size;" in pools and "_FAST_WORKSPACE_POOL_SIZE" in pools
    own = c_source.contents(artifact)[name].decode()
    assert "void* fast;" not in own and "define TVMGEN_MODEL_FAST as the name of an array" in own
    assert "FAST" not in c_source.contents(_without(artifact))[name].decode()


# --- reports ----------------------------------------------------------------------------------------------------------


def test_tables_tell_the_memories_apart() -> None:
    compiled = made("cascades", 2)
    rows = compiled.addresses()
    of = {pool: [row for row in rows if row.pool == pool] for pool in ("arena", "fast", "constants")}
    assert {row.memory for row in of["fast"]} == {"Sram"} and {row.memory for row in of["arena"]} == {"Dram"}
    assert max(row.address + row.size_bytes for row in of["fast"]) <= compiled.sram_bytes
    assert len(of["fast"]) + len(of["arena"]) == len(compiled.program.buffers)
    for row in rows[: len(compiled.program.buffers)]:
        met = [other for other in of[row.pool] if other is not row and meet(row, other)]
        assert set(row.shares) == {other.names[0] for other in met}
    table = compiled.table()
    assert table.cycles == compiled.cycles and {m.memory for m in table.memories} == {"Sram", "Dram"}
    assert compiled.live_bytes == compiled.explain().peak.live_bytes <= compiled.sram_bytes
    live = [operation.live for call in compiled.record().npu_calls for operation in call.operations]
    assert all(set(of) == {"Sram", "Dram"} for of in live)
    assert max(of["Sram"].bytes for of in live) <= compiled.sram_bytes


def meet(one: Address, other: Address) -> bool:
    """Whether two rows of one memory have a byte and a step in common."""
    steps = [(row.first_step or 0, row.last_step or 0) for row in (one, other)]
    places = [(row.address, row.address + row.size_bytes) for row in (one, other)]
    return all(max(a[0], b[0]) < min(a[1], b[1]) for a, b in (steps, places))


def test_the_command_line_says_what_lies_where(tmp_path: Path, capfd: Capture) -> None:
    model = written(tmp_path / "net.tflite", MODELS["cascades"]())
    options = [f"--{name.replace('_', '-')}={value}" for name, value in IN_DRAM.items()]
    status, text, _ = run(["compile", model, "-o", tmp_path / "o", "--sram", "8KiB", *options], capfd)
    assert status == 0 and "(the NPU's fast memory)" in text and "of Dram  (inputs and outputs included)" in text
    assert "floor" not in text
    report = run_json(["compile", model, "-o", tmp_path / "p", "--sram", "8KiB", *options], capfd)
    assert report["sram_bytes"] == report["pools"]["fast"] <= 8192 < report["pools"]["arena"]
    file = next((tmp_path / "o").glob("*.tflite"))
    found = run_json(["verify", model, "--artifact", file], capfd)
    assert found["verification"]["ok"] and found["verification"]["sram_touched_bytes"] == report["sram_bytes"]


# --- order ------------------------------------------------------------------------------------------------------------


def test_bytes_of_another_region_are_not_waited_for() -> None:
    """Two kernels at the same offsets: one after the other in one region, side by side in two."""
    first = kernel(strip(0, 8, 0, 8, 8), strip(10000, 8, 0, 8, 8), (8, 8, 8))
    second = kernel(strip(10000, 8, 0, 8, 8), strip(30000, 8, 0, 8, 8), (8, 8, 8))
    apart = replace(second, inputs=tuple(replace(surface, region=FAST_REGION) for surface in second.inputs))
    chip = ACCELERATORS["ethos-u65-256"]
    near, far = (block_dependencies([first, of], chip)[1] for of in (second, apart))
    assert isinstance(apart, Kernel) and near < far == MAX_BLOCKDEP
    both = replace(first, output=replace(first.output, region=FAST_REGION))
    assert block_dependencies([both, apart], chip)[1] == near


def test_a_stream_between_two_memories_is_timed_by_both() -> None:
    compiled = made("cascades", 2)
    (call,) = (call for call in compiled.artifact.calls if isinstance(call, NpuCall))
    traffic = simulate_timing(call.payload, compiled.target).memories
    assert all(of.kernel_read_bytes and of.written_bytes for of in traffic.values()) and len(traffic) == 2


def test_a_schedule_that_copies_tensors_is_refused() -> None:
    """An Ethos-U's streams have no such copies."""
    problem = prepare(read_tflite(MODELS["cascades"]()), compilation_target(**IN_DRAM)).problem
    groups = tuple(Group(part, part, (CacheWrite(0),) if part == 0 else ()) for part in range(len(problem.specs)))
    with pytest.raises(SchedulingError, match="no command of the device does that"):
        arrange(problem, Schedule(groups))
