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
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from command_line_support import resized_classifier
from end_to_end import arena_touched
from ethoscade import BudgetError, ConfigError, EthoscadeError, ModelFormatError, UnsupportedOperatorError
from ethoscade.analysis.explanation import peak_of
from ethoscade.codegen import vela
from ethoscade.codegen.artifact import NpuCall
from ethoscade.frontend import read_tflite
from ethoscade.judge.verification import random_inputs
from ethoscade.pipeline.compiler import prepare
from ethoscade.pipeline.prepared import compile as compile_model
from ethoscade.run.timing import simulate_timing
from ethoscade.scheduling.program import CopyConstants, LoadTable
from ethoscade.scheduling.schedule import arrange, cycles_of, from_proposal, uncascaded
from ethoscade.targets.target import ACCELERATORS, default_config, load_target
from ethoscade.testing import (
    ModelBuilder,
    inverted_residuals,
    keyword_spotting,
    mobilenet_v1,
    random_network,
    residual_network,
    tiny_conv,
)
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


# A budget is a promise.


@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize("name", BUILDERS)
def test_the_floor_compiles_and_less_does_not(name: str, accelerator: str) -> None:
    model = built(name)
    floor = ethoscade.frontier(model, accelerator=accelerator).floor_bytes
    compiled = ethoscade.compile(model, sram=floor, accelerator=accelerator)
    assert compiled.sram_bytes == compiled.budget_bytes == floor == arena_touched(compiled)
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
        compiled = ethoscade.compile(model, sram=size, optimise="fastest")
        if size < 3 * compiled.curve.uncascaded_bytes:
            assert compiled.sram_bytes <= size and compiled.cycles <= cycles
        else:
            # With room to spare less is searched, so it is one that is as good as that.
            assert compiled.sram_bytes <= size and 100 * compiled.cycles <= 101 * cycles
        assert arena_touched(compiled) == compiled.sram_bytes
    # Between two points, the lower one is taken, or one that the frontier has left out.
    if len(points) > 1:
        between = ethoscade.compile(model, sram=points[1][0] - 1, optimise="fastest")
        assert between.sram_bytes < points[1][0] and between.cycles <= points[0][1]


def test_the_clock_of_a_schedule_is_its_proposals() -> None:
    """And no schedule without cascades is faster than the frontier's last point, or than its dearest step."""
    curve = ethoscade.frontier(MODEL)
    network = prepare(read_tflite(MODEL), load_target("ethos-u55-256"))
    for proposal, (_, cycles) in zip(curve.proposals, curve.points, strict=True):
        assert cycles_of(network.problem, from_proposal(network.problem, proposal)) == cycles
    whole = arrange(network.problem, uncascaded(network.problem))
    assert max(step.cycles for step in whole.program.steps) < curve.uncascaded_cycles
    assert cycles_of(network.problem, uncascaded(network.problem)) == curve.uncascaded_cycles
    assert curve.points[-1][1] <= curve.uncascaded_cycles


def test_cycles_are_time_by_the_clock_of_the_configuration() -> None:
    """The same cycles on a clock of 500 and, by another configuration of the same memories, of 200 MHz."""
    fast, slow = (
        ethoscade.compile(MODEL, accelerator="ethos-u55-128", system_config=name)
        for name in ("Ethos_U55_High_End_Embedded", "Ethos_U55_Deep_Embedded")
    )
    for compiled, hertz in ((fast, 500e6), (slow, 200e6)):
        assert compiled.milliseconds == pytest.approx(1e3 * compiled.cycles / hertz)
        assert compiled.inferences_per_second == pytest.approx(hertz / compiled.cycles)
        macs = sum(op.macs for op in compiled.operators)
        assert compiled.utilisation == pytest.approx(macs / compiled.cycles / 128)
        assert 0 < compiled.utilisation < 1
        place = compiled.frontier.index((compiled.sram_bytes, compiled.cycles))
        assert compiled.curve.milliseconds[place] == compiled.milliseconds
        assert len(compiled.curve.milliseconds) == len(compiled.frontier)


def test_what_the_cpu_does_takes_no_time_that_is_counted() -> None:
    builder = ModelBuilder("resized")
    builder.resize_nearest(builder.input((1, 16, 16, 3)), (7, 5))
    compiled = ethoscade.compile(builder.build())
    assert (compiled.cycles, compiled.milliseconds, compiled.inferences_per_second, compiled.utilisation) == (
        0,
        0,
        0,
        0,
    )


def test_the_largest_tensors_that_can_be_addressed_are_counted() -> None:
    tensors = [T(f"t{i}", (1, 2**15, 2**16 - 1, 1)) for i in range(17)]
    model = File(tensors, (Op("ADD_N", tuple(range(16)), (16,)),), inputs=range(16), outputs=(16,)).bytes()
    with pytest.raises(BudgetError) as caught:
        compile_model(model, sram="1MiB")
    assert caught.value.floor_bytes == 17 * (2**31 - 2**15)


def test_the_budget_error_names_the_peak() -> None:
    """The operator in the way is one at whose step the floor's bytes are alive."""
    compiled = ethoscade.compile(MODEL, optimise="size")
    npu = prepare(compiled.source, compiled.target).npu
    peak = peak_of(compiled.artifact.graph, npu, compiled.arrangement)
    with pytest.raises(BudgetError) as caught:
        ethoscade.compile(MODEL, sram=16)
    assert caught.value.operator == peak.operator
    assert caught.value.alive == peak.alive
    assert peak.by_kind() in str(caught.value)


def test_without_a_budget_the_fastest_is_had_and_with_size_the_least_sram() -> None:
    points = ethoscade.frontier(MODEL).points
    fastest, leanest = (ethoscade.compile(MODEL, optimise=wanted) for wanted in ("fastest", "size"))
    assert fastest.cycles <= points[-1][1]
    assert leanest.sram_bytes == points[0][0] and leanest.cycles <= points[0][1]
    assert fastest.cycles == min(cycles for _, cycles in points)
    assert fastest.budget_bytes is None
    assert ethoscade.compile(MODEL, optimise="balanced").frontier == points
    # Within a budget, size still means the least.
    assert ethoscade.compile(MODEL, sram=points[-1][0], optimise="size").sram_bytes == points[0][0]
    assert leanest.cascades >= 1


# Results.


def test_results_are_frozen() -> None:
    compiled = ethoscade.compile(tiny_conv())
    for value in (
        compiled,
        compiled.curve,
        compiled.operators[0],
        compiled.target,
        compiled.schedule,
    ):
        assert dataclasses.is_dataclass(value)
        name = dataclasses.fields(value)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, None)
    program = compiled.program
    for value, name in ((program, "steps"), (program.steps[0], "cycles"), (program.buffers[0], "size_bytes")):
        with pytest.raises(AttributeError):
            setattr(value, name, None)
    with pytest.raises(TypeError):
        program.tensor_buffers[0] = 1  # type: ignore[index]
    check = compiled.verify(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        check.ok = False  # type: ignore[misc]


def test_operators_say_where_they_run_and_why_not() -> None:
    compiled = ethoscade.compile(resized_classifier(), optimise="size")
    assert {op.where for op in compiled.operators} == {"npu", "cpu"}
    for op in compiled.operators:
        assert op.name and op.kind
        assert bool(op.reason) == (op.where == "cpu")
        assert (op.cycles > 0) == (op.where == "npu")
    assert [op.kind for op in compiled.cpu_operators] == ["RESIZE_NEAREST_NEIGHBOR"]
    assert {op.cascade for op in compiled.operators} - {None} == set(range(1, compiled.cascades + 1))


def test_a_budget_below_the_floor_finds_no_other_floor() -> None:
    """Where little fits, more is tried; what comes of it must not undercut the floor that a frontier promises."""
    network = ethoscade.prepare(mobilenet_v1(1.0, 96), accelerator="ethos-u55-32")
    assert network.fits(1 << 40) and not network.fits(1)
    floors = []
    for budget in (1, 16, network.frontier().floor_bytes - 16):
        with pytest.raises(BudgetError) as caught:
            network.compile(sram=budget)
        floors.append(caught.value.floor_bytes)
    assert set(floors) == {network.frontier().floor_bytes}


@pytest.mark.parametrize("seed", range(12))
def test_cycles_lie_between_full_overlap_and_none(seed: int) -> None:
    """Copies and the front end work beside kernels: at least as long as the copies, at most all one after the other."""
    for optimise in ("performance", "size"):
        compiled = ethoscade.compile(random_network(seed), optimise=optimise)
        steps = arrange(compiled.problem, compiled.schedule).program.steps
        copies = sum(step.cycles for step in steps if isinstance(step, (CopyConstants, LoadTable)))
        kernels = sum(step.cycles for step in steps) - copies
        payloads = [call.payload for call in compiled.artifact.calls if isinstance(call, NpuCall)]
        front_end = sum(simulate_timing(payload, compiled.target).front_end_cycles for payload in payloads)
        assert max(copies, bool(payloads)) <= compiled.cycles <= kernels + copies + front_end
        assert sum(op.cycles for op in compiled.operators) == kernels


def test_progress_and_seconds_name_the_stages() -> None:
    stages: list[str] = []
    compiled = ethoscade.compile(tiny_conv(), progress=stages.append)
    assert list(dict.fromkeys(stages)) == ["import", "encode", "plan", "place", "codegen"]
    assert set(compiled.seconds) == {*stages, "total"}
    assert compiled.seconds["total"] >= sum(compiled.seconds[stage] for stage in set(stages)) * 0.99


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


def test_a_network_that_hands_out_a_constant_alone() -> None:
    """Nothing of it runs, and its input lies in the arena all the same."""
    weights = tuple(range(4))
    file = File(
        (T("x", (1, 4)), T("y", (1, 4)), T("c", (4,), data=weights)),
        (Op("ADD", (0, 0), (1,), "AddOptions"),),
        (0,),
        (2,),
    )
    compiled = ethoscade.compile(file.bytes())
    np.testing.assert_array_equal(compiled.simulate({"x": np.zeros((1, 4), np.int8)}).outputs["c"], weights)
