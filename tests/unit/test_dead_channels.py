"""Channels that are constant or unread: which are found, which go, why others stay, and that no output changes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from ethoscade import __main__, testing
from ethoscade.frontend import read_tflite
from ethoscade.ir import Activation, ConvAttrs, DType, Graph, Operator, Quantisation
from ethoscade.ir.quantised import multiplier_and_shift
from ethoscade.judge import reference
from ethoscade.judge.reference.fixed_point import multiply
from ethoscade.judge.verification import random_inputs
from ethoscade.lowering import support
from ethoscade.rewrites import DeadChannels, OnNpu, channel_values, dead_channels, remove_dead_channels, simplify
from ethoscade.rewrites.channel_values import constant_channels
from ethoscade.targets.target import ACCELERATORS
from ethoscade.testing import ModelBuilder
from ethoscade.testing.recorder import Value

ACCELERATOR = ACCELERATORS["ethos-u55-256"]
IMAGE = (1, 6, 7, 5)


def on_npu(graph: Graph, op: Operator) -> bool:
    return support(graph, op, ACCELERATOR) is None


def on_anything(graph: Graph, op: Operator) -> bool:
    """An NPU that takes whatever has a reference, of more kinds and in more forms than an Ethos-U does."""
    return op.opaque is None and reference.is_known(graph, op)


def rewritten(model: bytes, taken: OnNpu = on_npu) -> tuple[Graph, Graph, tuple[DeadChannels, ...]]:
    """Before, after and what is told."""
    before = simplify(read_tflite(model), taken)
    return before, *remove_dead_channels(before, taken)


def assert_same_outputs(before: Graph, after: Graph, seed: int = 0) -> None:
    inputs = random_inputs(before, seed)
    wanted, found = reference.run(before, inputs).outputs, reference.run(after, inputs).outputs
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value)


def conv(
    b: ModelBuilder, x: Value, channels: int, dead: int, *, kernel: int = 1, biased: bool = False, **options: object
) -> Value:
    """A convolution whose first `dead` output channels have no weights, and with `biased` a bias all the same."""
    rng = np.random.default_rng(channels + dead + kernel)
    weights = rng.standard_normal((channels, kernel, kernel, x.shape[3]))
    weights[:dead] = 0
    bias = rng.uniform(0.2, 0.4, channels)
    bias[:dead] *= biased
    options = {"activation": Activation.RELU, "padding": "VALID"} | options
    return b.conv2d(x, channels, kernel, weights=weights, bias=bias, **options)


def channels_of(graph: Graph) -> list[int]:
    """The channels that each operator makes."""
    return [graph.made(op).shape[-1] for op in graph.operators]


# --- networks of every kind -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("grain", "taken"), [(1, on_npu), (8, on_npu), (1, on_anything)])
def test_random_networks_compute_the_same_without_dead_channels(
    monkeypatch: pytest.MonkeyPatch, grain: int, taken: OnNpu
) -> None:
    """And every value that is told of a channel is what the reference finds there."""
    monkeypatch.setattr(dead_channels, "GRAIN", grain)
    told, kinds, removed = 0, set(), 0
    for seed in range(0, 330, 3):
        before, after, found = rewritten(testing.random_network(seed), taken)
        assert_same_outputs(before, after, seed)
        removed += sum(one.removed for one in found)
        kinds |= {op.kind for op, new in zip(before.operators, after.operators, strict=True) if op is not new}
        values = reference.run(before, random_inputs(before, seed)).values
        inside = [i for i, op in enumerate(before.operators) if op.opaque is None and taken(before, op)]
        for tensor, held in constant_channels(before, inside).items():
            pixels = values[tensor].reshape(-1, len(held.known)).astype(np.int64)
            assert (pixels[:, held.known] == held.values[held.known]).all(), before.tensors[tensor].name
            told += int(held.known.sum())
    assert told > 1000 and removed > 100
    assert kinds >= {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"}


def test_random_networks_are_exact_without_dead_channels() -> None:
    """The first few that lose channels, compiled and run at their floors."""
    left = 5
    for seed in range(0, 300, 3):
        model = testing.random_network(seed)
        if not any(one.removed for one in rewritten(model)[2]):
            continue
        compiled, source = ethoscade.compile(model, optimise="size"), read_tflite(model)
        inputs = random_inputs(source, seed)
        result, wanted = compiled.simulate(inputs), reference.run(source, inputs).outputs
        assert result.hazards == 0 and result.arena_touched_bytes == compiled.sram_bytes
        for name, value in wanted.items():
            np.testing.assert_array_equal(result.outputs[name], value)
        left -= 1
        if not left:
            return
    raise AssertionError(f"{left} networks with removed channels are missing")


# --- where constants come from and go to ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("biased", [False, True])
def test_constants_go_through_a_depthwise_convolution_into_a_bias(
    dtype: DType, per_channel: bool, biased: bool
) -> None:
    """Three of ten channels: without bias they are the zero point, with one they are folded, as nothing pads them."""
    b = ModelBuilder(dtype=dtype, per_channel=per_channel, seed=2)
    x = conv(b, b.input(IMAGE), 10, 3, biased=biased)
    x = b.depthwise(x, 3, padding="VALID", activation=Activation.RELU6, use_bias=biased)
    b.output(conv(b, x, 4, 0, kernel=2))
    before, after, told = rewritten(b.build())
    assert channels_of(before) == [10, 10, 4] and channels_of(after) == [7, 7, 4]
    assert [(one.kind, one.channels, one.dead, one.removed, dict(one.kept)) for one in told] == [
        ("CONV_2D", 10, 3, 3, {}),
        ("DEPTHWISE_CONV_2D", 10, 3, 3, {}),
    ]
    assert_same_outputs(before, after)
    assert ethoscade.compile(b.build()).verify(1).ok


def test_padded_windows_take_the_zero_point_alone() -> None:
    for biased, left in ((False, 7), (True, 10)):
        b = ModelBuilder(seed=3)
        b.output(conv(b, conv(b, b.input(IMAGE), 10, 3, biased=biased), 4, 0, kernel=3, padding="SAME"))
        before, after, told = rewritten(b.build())
        assert channels_of(after) == [left, 4] and told[0].removed == 10 - left
        assert_same_outputs(before, after)
    assert list(told[0].kept.values()) == [3] and "where it is not the zero point -128 that pads it" in str(told)


def test_rows_that_only_constants_reach_are_constant() -> None:
    """The second convolution weighs nothing but dead channels: all of it is constant, and one channel stays."""
    b = ModelBuilder(seed=4)
    x = conv(b, b.input(IMAGE), 10, 3, biased=True)
    weights = np.zeros((6, 1, 1, 10))
    weights[:, :, :, :3] = 1.5
    x = b.conv2d(x, 6, 1, weights=weights, activation=Activation.RELU)
    b.output(conv(b, x, 4, 0))
    before, after, told = rewritten(b.build())
    assert channels_of(after) == [1, 1, 4] and told[1].kept == {"one channel stays": 1}
    assert_same_outputs(before, after)


def test_channels_that_nobody_reads_go_whatever_they_hold() -> None:
    b = ModelBuilder(seed=5)
    x = conv(b, b.input(IMAGE), 10, 0)
    weights = np.random.default_rng(0).standard_normal((4, 3, 3, 10))
    weights[..., [2, 9]] = 0
    b.output(b.conv2d(b.max_pool(x, 2, stride=1), 4, 3, weights=weights))
    before, after, told = rewritten(b.build())
    assert channels_of(after) == [8, 8, 4] and [(one.dead, one.removed) for one in told] == [(2, 2)]
    assert_same_outputs(before, after)


def test_add_goes_channel_by_channel_where_both_are_constant() -> None:
    b = ModelBuilder(seed=6)
    x = b.input(IMAGE)
    total = b.add(conv(b, x, 10, 4, biased=True), conv(b, x, 10, 2, kernel=1), activation=Activation.RELU)
    b.output(conv(b, total, 3, 0, kernel=2))
    before, after, told = rewritten(b.build())
    assert channels_of(after) == [8, 8, 8, 3]
    assert [(one.dead, one.removed) for one in told] == [(4, 2), (2, 2)]
    (why,) = told[0].kept
    assert why == "'conv_2d3' (CONV_2D) reads 'add2', where it is not constant"
    assert_same_outputs(before, after)


def test_joined_channels_keep_their_places() -> None:
    """Along channels behind each other; along rows both parts have to be able to do without."""
    for axis, made in ((3, [7, 9, 16]), (1, [7, 7, 7])):
        b = ModelBuilder(seed=7)
        x, same = b.input(IMAGE), Quantisation((0.05,), (-128,))
        parts = [conv(b, x, 10, 3, output=same), conv(b, x, 10 + 2 * (axis == 3), 3, kernel=1, output=same)]
        b.output(conv(b, b.concatenate(parts, axis=axis), 3, 0, kernel=2))
        before, after, _ = rewritten(b.build(), on_anything)
        assert channels_of(after) == [*made, 3]
        assert_same_outputs(before, after)


def test_fully_connected_layers_lose_the_columns_of_every_pixel() -> None:
    b = ModelBuilder(seed=8)
    x = conv(b, b.input(IMAGE), 10, 3, biased=True)
    weights = np.random.default_rng(0).standard_normal((12, 420))
    weights[[0, 5]] = 0
    x = b.fully_connected(x, 12, weights=weights, activation=Activation.RELU)
    b.output(b.fully_connected(x, 3))
    before, after, told = rewritten(b.build())
    assert channels_of(after) == [7, 10, 3] and [one.removed for one in told] == [3, 2]
    assert after.read(after.operators[1], 1).shape == (10, 294)
    assert_same_outputs(before, after)


def test_bias_of_a_layer_without_one() -> None:
    b = ModelBuilder(seed=9)
    x = conv(b, b.input(IMAGE), 10, 3, biased=True)
    b.output(b.fully_connected(b.average_pool(x, (6, 7)), 3, use_bias=False))
    before, after, told = rewritten(b.build())
    assert told[0].removed == 3 and after.read(after.operators[-1], 2).constant().any()
    assert_same_outputs(before, after)


def test_one_channel_multiplied_loses_dead_multiples() -> None:
    b = ModelBuilder(seed=13)
    weights = np.random.default_rng(0).standard_normal((1, 3, 3, 6))
    weights[..., [0, 4]] = 0
    x = b.depthwise(
        b.input((1, 6, 7, 1)), 3, multiplier=6, weights=weights, activation=Activation.RELU, padding="VALID"
    )
    b.output(conv(b, x, 3, 0))
    before, after, _ = rewritten(b.build())
    assert channels_of(after) == [4, 3] and after.operators[0].attributes(ConvAttrs).depth_multiplier == 4
    assert_same_outputs(before, after)
    assert ethoscade.compile(b.build()).verify(1).ok


def test_constant_operands_lose_channels_with_their_tensors() -> None:
    """Nobody reads two of the channels of a sum with a constant for each channel, or with one for all."""
    for shape in ((10,), (1,), (*IMAGE[:3], 10)):
        b = ModelBuilder(seed=14)
        x = conv(b, b.input(IMAGE), 10, 0)
        x = b.add(x, b.constant(np.random.default_rng(1).standard_normal(shape)))
        weights = np.random.default_rng(0).standard_normal((4, 1, 1, 10))
        weights[..., [2, 9]] = 0
        b.output(b.conv2d(x, 4, 1, weights=weights))
        before, after, _ = rewritten(b.build(), on_anything)
        assert channels_of(after) == [8, 8, 4]
        assert_same_outputs(before, after)


def test_a_mean_over_channels_needs_all_of_them() -> None:
    b = ModelBuilder(seed=17)
    b.output(conv(b, b.mean(conv(b, b.input(IMAGE), 10, 3), (3,), keep_dims=True), 3, 0))
    before, after, told = rewritten(b.build(), on_anything)
    assert after is before and told[0].kept.keys() == {
        "'mean1' (MEAN) reads 'conv_2d0', and not all that it reads and writes has the same channels"
    }


def test_constants_are_rounded_as_kernels_round() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(-(2**20), 2**20, 3000)
    for value, exponent in zip(values, rng.uniform(-24, 4, len(values)), strict=True):
        factor = multiplier_and_shift(2.0**exponent)
        assert channel_values._multiplied(int(value), *factor) == multiply(value, *factor)
    assert channel_values._multiplied(1 << 28, *multiplier_and_shift(16.0)) is None


def test_padding_and_rows_end_constants() -> None:
    """A PAD around a constant, and parts with different ones in rows behind each other, hold more than one value."""
    for join in (True, False):
        b = ModelBuilder(seed=15)
        x, same = b.input(IMAGE), Quantisation((0.05,), (-128,))
        x, other = (conv(b, x, 10, 3, biased=biased, output=same) for biased in (True, False))
        x = b.concatenate([x, other], axis=2) if join else b.pad(x, [(0, 0), (1, 0), (0, 0), (0, 0)])
        b.output(conv(b, b.max_pool(x, 1), 3, 0))
        before, after, _ = rewritten(b.build(), on_anything)
        assert channels_of(after)[-2:] == [10, 3]
        assert_same_outputs(before, after)


def test_a_bias_that_would_overflow_keeps_the_constant() -> None:
    for largest, left in ((2**31 - 100, 10), (2**31 - 1000000, 7)):
        b = ModelBuilder(seed=16)
        x = conv(b, b.input(IMAGE), 10, 3, biased=True)
        weights = np.full((2, 1, 1, 10), 127, np.int8)
        weights[:, :, :, 3:] = 1
        bias, scale = np.array([largest, 5], np.int32), Quantisation((1e-9,), (0,))
        b.output(b.conv2d(x, 2, 1, weights=weights, weight_quantisation=scale, bias=bias))
        _, after, told = rewritten(b.build(), on_anything)
        assert channels_of(after) == [left, 2]
        assert left == 7 or "where the bias would not hold it" in str(told)


# --- what stays -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("channels", "dead", "left"), [(16, 7, 16), (16, 8, 8), (24, 9, 16), (20, 3, 17), (16, 16, 8)])
def test_multiples_of_eight_stay_multiples_of_eight(channels: int, dead: int, left: int) -> None:
    b = ModelBuilder(seed=10)
    b.output(conv(b, conv(b, b.input(IMAGE), channels, dead), 3, 0))
    before, after, told = rewritten(b.build())
    assert channels_of(after) == [left, 3] and (told[0].dead, told[0].removed) == (dead, channels - left)
    assert sum(told[0].kept.values()) == dead - channels + left
    assert set(told[0].kept) <= {"a multiple of 8 channels stays"}
    assert_same_outputs(before, after)


def test_outputs_and_cpu_operators_keep_their_channels() -> None:
    b = ModelBuilder(seed=11)
    x = b.input(IMAGE)
    first, second = conv(b, x, 10, 3), conv(b, x, 10, 3)
    b.output(first, conv(b, b.resize_nearest(second, (8, 5)), 3, 0))
    before, after, told = rewritten(b.build())
    assert after is before
    reasons = [why for one in told for why in one.kept]
    assert (
        reasons[0] == "it leaves the network" and "RESIZE_NEAREST_NEIGHBOR" in reasons[1] and "on the CPU" in reasons[1]
    )


def test_groups_of_channels_stay_equally_large() -> None:
    b = ModelBuilder(seed=12, dead_share=0.6)
    x = b.conv2d(conv(b, b.input(IMAGE), 12, 3), 24, 3, groups=3)
    b.output(b.conv2d(x, 3, 1))
    before, after, told = rewritten(b.build())
    assert channels_of(after)[:2] == [12, 24]
    assert any("groups of channels are equally large" in why for one in told for why in one.kept)
    assert_same_outputs(before, after)


def test_weights_that_are_no_constants_need_every_channel() -> None:
    b = ModelBuilder(seed=18)
    b.output(conv(b, conv(b, b.input(IMAGE), 10, 3), 3, 0))
    graph = simplify(read_tflite(b.build()), on_npu)
    last = graph.operators[-1]
    variable = replace(graph.read(last, 1), data=None, is_variable=True)
    tensors = tuple(variable if i == last.inputs[1] else t for i, t in enumerate(graph.tensors))
    given = replace(graph, tensors=tensors)
    after, told = remove_dead_channels(given, lambda graph, op: True)
    assert after is given and list(told[0].kept) == [
        "'conv_2d1' (CONV_2D) reads 'conv_2d0', and its weights are not constant"
    ]


def test_networks_without_dead_channels_are_left_alone() -> None:
    for model in (testing.tiny_conv(), testing.inverted_residuals(), testing.random_network(1)):
        before, after, told = rewritten(model)
        assert after is before and told == ()


# --- the option and the report ----------------------------------------------------------------------------------------


def test_option_and_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = ModelBuilder(seed=12)
    b.output(conv(b, conv(b, b.input(IMAGE), 16, 11), 3, 0))
    path = tmp_path / "model.tflite"
    path.write_bytes(b.build())
    kept = ethoscade.compile(path, dead_channels=False)
    compiled = ethoscade.compile(path)
    assert kept.dead_channels == () and compiled.flash_bytes < kept.flash_bytes
    assert ethoscade.frontier(path).floor_bytes <= ethoscade.frontier(path, dead_channels=False).floor_bytes

    command = ["compile", str(path), "-o", str(tmp_path / "out")]
    assert __main__.main(command) == 0
    text = capsys.readouterr().out
    assert "8 of 11 removed, from 1 operators with weights" in text and "3: a multiple of 8 channels stays" in text
    assert __main__.main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["dead_channels"]
    assert (found["dead"], found["removed"]) == (11, 8)
    assert found["operators"][0]["kept"] == {"a multiple of 8 channels stays": 3}
    assert __main__.main([*command, "--json", "--keep-dead-channels"]) == 0
    assert json.loads(capsys.readouterr().out)["dead_channels"] == {"dead": 0, "removed": 0, "operators": []}
