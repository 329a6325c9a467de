"""The judge: its reference, its inputs, its comparison, its complaints."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from ethoscade import testing
from ethoscade.errors import VerificationError
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, Graph, Quantisation
from ethoscade.judge import judges, reference, verification
from ethoscade.judge.verification import Observation, compare, random_inputs, reference_outputs, verify
from ethoscade.testing import ModelBuilder
from reference_support import needs_litert


def perfect(graph: Graph) -> Callable[[Sequence[Mapping[str, np.ndarray]]], list[Observation]]:
    """A perfect compiled network."""
    return lambda steps: [Observation(run.outputs, 0, 1024) for run in reference.run_steps(graph, steps)]


def wide_softmax(classes: int, scale: float) -> bytes:
    """A convolution behind a network input, then a SOFTMAX over nearly equal logits."""
    b = ModelBuilder()
    x = b.conv2d(b.input((1, 1, 1, 4)), classes, 1, output=Quantisation((scale,), (0,)))
    b.softmax(b.reshape(x, (1, classes)))
    return b.build()


@pytest.mark.parametrize("seed", range(25))
def test_reference_passes_its_own_judge(seed: int) -> None:
    needs_litert()
    graph = read_tflite(testing.random_network(seed))
    outcome = verify(graph, perfect(graph))
    assert outcome.ok and outcome.seeds == 3 and outcome.max_abs_diff == 0
    assert outcome.runs == (3 if graph.variables else 1)
    told = sum(int(np.prod(graph.tensors[t].shape)) for t in dict.fromkeys(graph.handed_out))
    assert outcome.elements == 3 * outcome.runs * told
    assert outcome.sram_touched_bytes == 1024
    by_micro = [judges.micro_decides(graph, op) for op in graph.operators]
    refused = [judges.litert_lacks(graph, op) for op in graph.operators]
    if any(lacks and not decides for lacks, decides in zip(refused, by_micro, strict=True)):
        assert outcome.judge == verification.JUDGE_CUT
    else:
        assert outcome.judge == (verification.JUDGE_MICRO if any(by_micro) else verification.JUDGE_LITERT)


def test_differences_and_hazards_are_counted() -> None:
    needs_litert()
    graph = read_tflite(testing.tiny_conv())

    def wrong(steps: Sequence[Mapping[str, np.ndarray]]) -> list[Observation]:
        (inputs,) = steps
        value = reference.run(graph, inputs).outputs["output"].copy()
        value.flat[5] += 3 if value.flat[5] < 0 else -3
        return [Observation({"output": value}, 2, 100)]

    outcome = verify(graph, wrong, seeds=2)
    assert (outcome.ok, outcome.mismatches, outcome.max_abs_diff, outcome.hazards) == (False, 2, 3, 4)


@pytest.mark.parametrize(("classes", "scale"), [(1001, 0.001), (10, 1e-8)])
def test_models_on_which_litert_aborts_are_cut(classes: int, scale: float) -> None:
    needs_litert()
    graph = read_tflite(wide_softmax(classes, scale))
    outcome = verify(graph, perfect(graph))
    assert outcome.ok and outcome.judge == verification.JUDGE_CUT


def test_wide_softmax_that_litert_can_run_stays_with_litert() -> None:
    needs_litert()
    graph = read_tflite(wide_softmax(1001, 0.25))
    inputs = random_inputs(graph, 0)
    assert reference_outputs(graph, inputs).judge == verification.JUDGE_LITERT


def test_a_kind_that_litert_lacks_is_no_other_operators_matter() -> None:
    """LiteRT has no ELU, and of RELU_0_TO_1 nobody but LiteRT has a kernel."""
    needs_litert()
    b = ModelBuilder()
    b.unary("RELU_0_TO_1", b.unary("ELU", b.unary("RELU_0_TO_1", b.input((1, 9, 7, 5)))))
    graph = read_tflite(b.build())
    outcome = verify(graph, perfect(graph))
    assert outcome.ok and outcome.judge == verification.JUDGE_CUT


def test_old_files_with_a_stray_quantized_dimension_are_accepted() -> None:
    needs_litert()
    graph = read_tflite(testing.tiny_conv(dtype=DType.UINT8))
    stray = ModelBuilder(dtype=DType.UINT8)
    x = stray.input((1, 4, 4, 2), quantisation=Quantisation((0.5,), (128,), 3))
    weights = np.full((3, 1, 1, 2), 130, dtype=np.uint8)
    stray.conv2d(x, 3, 1, weights=weights, weight_quantisation=Quantisation((0.25,), (128,), 3))
    graph = read_tflite(stray.build())
    assert verify(graph, perfect(graph)).ok


def test_inputs_are_seeded_and_varied() -> None:
    graph = read_tflite(testing.mobilenet_v1(0.25, 32, 10))
    for seed in range(6):
        one, other = (random_inputs(graph, seed)["input"] for _ in range(2))
        assert np.array_equal(one, other) and one.dtype == np.int8 and one.shape == (1, 32, 32, 3)
        assert len(np.unique(one)) > 50
    patterns = [random_inputs(graph, seed)["input"].astype(int) for seed in range(3)]
    roughness = [np.abs(np.diff(p, axis=1)).mean() for p in patterns]
    assert roughness[2] < roughness[1] < roughness[0], "waves, Gaussian, noise"
    assert not np.array_equal(random_inputs(graph, 0)["input"], random_inputs(graph, 3)["input"])


def test_compare_counts_elements() -> None:
    wanted = {"a": np.array([1, 2, 255], np.uint8), "b": np.array([[1.0, np.nan]], np.float32)}
    found = {"a": np.array([1, 4, 0], np.uint8), "b": np.array([1.0, np.nan], np.float32)}
    assert compare(found, wanted) == (5, 2, 255)
    assert compare({"b": np.array([np.nan, np.nan], np.float32)}, {"b": wanted["b"]}) == (2, 1, np.inf)
    with pytest.raises(VerificationError, match="'a' is nothing"):
        compare({}, wanted)
    with pytest.raises(VerificationError, match="int8"):
        compare({"a": np.zeros(3, np.int8)}, {"a": wanted["a"]})


def test_complaints(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = read_tflite(testing.tiny_conv())
    inputs = random_inputs(graph, 0)
    with pytest.raises(VerificationError, match="'input' needs int8"):
        reference_outputs(graph, {"input": np.zeros((1, 8, 8, 3), np.uint8)})
    needs_litert()
    with pytest.raises(VerificationError, match="not read from a file"):
        reference_outputs(replace(graph, source=b""), inputs)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(VerificationError, match=r"pip install \"ethoscade\[verify\]\""):
        reference_outputs(graph, inputs)


def test_a_child_that_dies_is_reported() -> None:
    needs_litert()
    b = ModelBuilder(dtype=DType.UINT8)
    b.softmax(b.input((1, 10), quantisation=Quantisation((1e-8,), (0,))))
    graph = read_tflite(b.build())
    with pytest.raises(VerificationError, match="signal"):
        reference_outputs(graph, random_inputs(graph, 0))
