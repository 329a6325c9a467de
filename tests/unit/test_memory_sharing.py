"""Compiled networks that share one arena (the memory planner's U2 and U4), run on the simulator in that arena."""

from __future__ import annotations

from collections.abc import Callable

import ethoscade
import numpy as np
import pytest
from ethoscade import memory
from ethoscade.errors import ConfigError
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from ethoscade.pipeline import compiler
from ethoscade.pipeline.searches import explore
from ethoscade.run.execution import run_artifact, run_artifact_steps
from ethoscade.scheduling import schedule as scheduling
from ethoscade.scheduling.program import Arrangement, Program, ProgramBuffer
from ethoscade.targets.target import load_target
from ethoscade.testing import ModelBuilder, networks
from replay import check_placed


def _smallest(model: bytes) -> tuple[compiler.Network, Program]:
    """The network and the program of its leanest Proposal."""
    network = compiler.prepare(read_tflite(model), load_target("ethos-u55-128"))
    proposal = explore(network.problem, 0).proposals[0]
    schedule = scheduling.from_proposal(network.problem, proposal)
    return network, scheduling.arrange(network.problem, schedule).program


def _run(network: compiler.Network, program: Program, placed: memory.ProgramPlacement) -> dict[str, np.ndarray]:
    artifact = compiler.emit(network, Arrangement(program, placed.offsets, placed.arena_bytes))
    graph = artifact.graph
    rng = np.random.default_rng(5)
    tensors = [graph.tensors[index] for index in graph.inputs]
    inputs = {t.name: rng.integers(-128, 128, t.shape, dtype=np.int8) for t in tensors}
    result = run_artifact(artifact, inputs)
    assert result.hazards == 0
    assert result.arena_touched_bytes <= placed.arena_bytes
    return dict(result.outputs)


def test_two_compiled_models_share_an_arena() -> None:
    models = {"seen": networks.residual_network(), "heard": networks.keyword_spotting()}
    compiled = {name: _smallest(model) for name, model in models.items()}
    programs = {name: program for name, (_, program) in compiled.items()}
    alone = {name: memory.place_program(program) for name, program in programs.items()}
    shared = memory.place_programs(programs)
    # They take turns: the arena is as large as the larger one needs.
    assert {placed.arena_bytes for placed in shared.values()} == {max(p.arena_bytes for p in alone.values())}
    for name, (network, program) in compiled.items():
        wanted, found = _run(network, program, alone[name]), _run(network, program, shared[name])
        assert wanted.keys() == found.keys()
        assert all(np.array_equal(wanted[output], found[output]) for output in wanted)


def test_what_is_kept_and_pinned_stays_out_of_the_other_models_way() -> None:
    models = {"seen": networks.residual_network(), "heard": networks.keyword_spotting()}
    compiled = {name: _smallest(model) for name, model in models.items()}
    programs = {name: program for name, (_, program) in compiled.items()}
    network, program = compiled["seen"]
    output = program.tensor_buffers[network.graph.outputs[0]]
    kept = f"seen/{program.buffers[output].name}"
    heard_network, heard = compiled["heard"]
    entry = heard.tensor_buffers[heard_network.graph.inputs[0]]
    fixed = f"heard/{heard.buffers[entry].name}"
    placed = memory.place_programs(programs, keep=[kept], pinned={fixed: 64})
    assert placed["heard"].offsets[entry] == 64
    assert placed["heard"].placement.address_of(fixed) == 64
    # Nothing of the other model touches the output that is kept.
    start, size = placed["seen"].offsets[output], program.buffers[output].size_bytes
    for buffer, offset in zip(heard.buffers, placed["heard"].offsets, strict=True):
        assert offset + buffer.size_bytes <= start or start + size <= offset
    for name, (own_network, own) in compiled.items():
        alone = _run(own_network, own, memory.place_program(own))
        found = _run(own_network, own, placed[name])
        assert all(np.array_equal(alone[tensor], found[tensor]) for tensor in alone)
    with pytest.raises(ConfigError, match="no program has"):
        memory.place_programs(programs, pinned={"heard/nothing": 0})


def test_a_reshape_of_floats_takes_no_bytes() -> None:
    """It moves nothing, whatever the type: the image is the input's very bytes, and QUANTIZE is written over them."""
    builder = ModelBuilder()
    x = builder.reshape(builder.input((1, 64, 32), dtype=DType.FLOAT32), (1, 8, 8, 32))
    builder.conv2d(builder.quantize(x), 8, 3)
    compiled = ethoscade.compile(builder.build())
    assert compiled.operators[0].kind == "RESHAPE" and compiled.sram_bytes == 4 * 64 * 32
    found = read_tflite(builder.build())
    inputs = random_inputs(found, 0)
    (expected,) = reference.run(found, inputs).outputs.values()
    (outputs,) = compiled.simulate(inputs).outputs.values()
    np.testing.assert_array_equal(outputs.reshape(expected.shape), expected)


def float_ends() -> bytes:
    """A float input and a float output, larger than all between."""
    b = ModelBuilder("float_ends")
    x = b.quantize(b.input((1, 12, 12, 8), dtype=DType.FLOAT32, name="x"))
    b.output(b.dequantize(b.conv2d(b.conv2d(x, 16, 3, stride=2), 24)))
    return b.build()


def delay_line() -> bytes:
    """The last four inputs, of which the oldest is dropped: state that is written over where it lies."""
    b = ModelBuilder("delay_line")
    x = b.input((1, 1, 1, 16))
    held = b.variable((1, 4, 1, 16), x.quantisation)
    joined = b.concatenate([held, x], axis=1)
    b.assign(held, b.strided_slice(joined, (0, 1, 0, 0), (1, 5, 1, 16), (1, 1, 1, 1)))
    b.output(b.conv2d(joined, 16, (5, 1), padding="VALID"))
    return b.build()


@pytest.mark.parametrize("model", [float_ends, delay_line])
@pytest.mark.parametrize("algorithm", ["best", "greedy_by_size"])
def test_conversions_and_state_find_their_bytes_in_another_placement(
    model: Callable[[], bytes], algorithm: str
) -> None:
    network, program = _smallest(model())
    placed = memory.place_program(program, algorithm=algorithm)
    check_placed(network, program, dict(enumerate(placed.offsets)))
    artifact = compiler.emit(network, Arrangement(program, placed.offsets, placed.arena_bytes))
    steps = [random_inputs(network.source, 3, step) for step in range(6)]
    found = [result.outputs for result in run_artifact_steps(artifact, steps)]
    wanted = [result.outputs for result in ethoscade.compile(model()).simulate_steps(steps)]
    for one, other in zip(found, wanted, strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in one)
    shared = memory.place_programs({"one": program, "two": program}, algorithm=algorithm)
    assert shared["one"].arena_bytes == placed.arena_bytes


def test_buffers_of_one_name_are_told_apart() -> None:
    sizes = {"a": [16, 32, 48], "b": [64]}
    buffers = [ProgramBuffer(name, "tensor", size, 0, 1) for name, of in sizes.items() for size in of]
    program = Program((), buffers, {}, [(0, 1, 0, 0, 0)])
    named = memory.program_buffers(program)
    assert [buffer.name for buffer in named] == ["a", "a (2)", "a (3)", "b"]
    assert [[share.name for share in buffer.shares] for buffer in named] == [[], ["a"], [], []]


def test_state_is_held_for_the_step_in_which_it_is_wanted_again() -> None:
    """Where its update lies elsewhere, that is copied to it at the end: nothing else may lie there then."""
    _, program = _smallest(delay_line())
    ((step, after, before, *apart),) = program.shared_bytes
    assert apart == [0, 0] and program.buffers[before].last_step <= step == len(program.steps) - 1
    taken = memory.program_buffers(program)
    assert taken[before].upper == step + 1
    places = {at: 256 * at for at in range(len(taken))}
    assert memory.plan(taken, algorithm=lambda buffers, _: list(places.values())).offsets == tuple(places.values())
    last = next(at for at, one in enumerate(taken) if at != before and at != after and one.upper == step + 1)
    places[last] = places[before]
    with pytest.raises(ethoscade.ConfigError, match="share"):
        memory.plan(taken, algorithm=lambda buffers, _: list(places.values()))
