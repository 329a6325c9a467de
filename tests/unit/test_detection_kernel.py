"""The C kernel of TFLite_Detection_PostProcess against the same in NumPy, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ethoscade.codegen import c_source
from ethoscade.codegen.artifact import Artifact, CpuCall
from ethoscade.codegen.c_kernels import detection, workspaces
from ethoscade.codegen.kernel_table import OURS
from ethoscade.errors import UnsupportedOperatorError
from ethoscade.ir import DType, Graph, Operator, Tensor
from ethoscade.run import host_c
from test_codegen_c_kernels import flags

COUNT, MOST, CLASSES = 40, 6, 3
SCALES = (10.0, 10.0, 5.0, 5.0)
OPTIONS: dict[str, Any] = {
    "num_classes": CLASSES,
    "max_detections": MOST,
    "max_classes_per_detection": 1,
    "use_regular_nms": False,
    "nms_score_threshold": 0.5,
    "nms_iou_threshold": 0.3,
    **dict(zip(("y_scale", "x_scale", "h_scale", "w_scale"), SCALES, strict=True)),
}


def network(kind: str = detection.KIND, dtype: DType = DType.FLOAT32) -> Graph:
    rng = np.random.Generator(np.random.PCG64(7))
    anchors = rng.uniform(0.1, 0.9, (COUNT, 4)).astype(np.float32)
    tensors = (
        Tensor("boxes", (1, COUNT, 4), dtype),
        Tensor("scores", (1, COUNT, CLASSES + 1), dtype),
        Tensor("anchors", (COUNT, 4), DType.FLOAT32, None, anchors),
        Tensor("found_boxes", (1, MOST, 4), DType.FLOAT32),
        Tensor("found_classes", (1, MOST), DType.FLOAT32),
        Tensor("found_scores", (1, MOST), DType.FLOAT32),
        Tensor("found_count", (1,), DType.FLOAT32),
    )
    operator = Operator(kind, "y", (0, 1, 2), (3, 4, 5, 6), None, 0, "a custom operator")
    return Graph("net", tensors, (operator,), (0, 1), (3, 4, 5, 6))


def artifact(graph: Graph) -> Artifact:
    offsets, end = {}, 0
    for index, tensor in enumerate(graph.tensors):
        if not tensor.is_constant:
            offsets[index] = end
            end += -(-tensor.size_bytes // 16) * 16
    size = workspaces(graph, [0], OURS).get(0, 0)
    return Artifact("net", "none", graph, (CpuCall(0, end, size),), b"", end + -(-size // 16) * 16, offsets)


def corners(boxes: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    boxes, anchors = boxes.astype(np.float64), anchors.astype(np.float64)
    centre = (boxes[:, :2] / SCALES[:2] * anchors[:, 2:] + anchors[:, :2]).astype(np.float32)
    half = (0.5 * np.exp(boxes[:, 2:] / SCALES[2:]) * anchors[:, 2:]).astype(np.float32)
    return np.concatenate([centre - half, centre + half], axis=1)


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    common = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), np.float32(0))
    areas = [side[0] * side[1] for side in (a[2:] - a[:2], b[2:] - b[:2], common)]
    return float(areas[2] / (areas[0] + areas[1] - areas[2]))


def expected(boxes: np.ndarray, scores: np.ndarray, anchors: np.ndarray) -> list[tuple[np.ndarray, int, float]]:
    """Sorted by the best score, then each kept that overlaps none kept before it."""
    placed, best = corners(boxes, anchors), scores[:, 1:].max(axis=1)
    order = [i for i in np.argsort(-best, kind="stable") if best[i] >= OPTIONS["nms_score_threshold"]]
    kept: list[int] = []
    for i in order:
        if len(kept) < MOST and all(overlap(placed[j], placed[i]) <= OPTIONS["nms_iou_threshold"] for j in kept):
            kept.append(int(i))
    return [(placed[i], int(scores[i, 1:].argmax()), float(best[i])) for i in kept]


@pytest.fixture(autouse=True)
def options(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    told = dict(OPTIONS)
    monkeypatch.setattr(detection, "options", lambda *_: told)
    return told


def test_detections_equal_numpy() -> None:
    """Many boxes at once, ties among the scores, few boxes, and none: what is left is 0."""
    graph = network()
    anchors = graph.tensors[2].constant()
    rng = np.random.Generator(np.random.PCG64(3))
    counts = set()
    with host_c.HostLibrary(artifact(graph), extra_flags=flags()) as library:
        for reach in (1.0, 1.0, 1.0, 0.5, 0.4):
            boxes = rng.normal(size=(1, COUNT, 4)).astype(np.float32)
            scores = (np.round(rng.uniform(0, 1, (1, COUNT, CLASSES + 1)) * 20) / 20 * reach).astype(np.float32)
            scores[:, :, 0] = 1.0
            found = library.run({"boxes": boxes, "scores": scores}).outputs
            wanted = expected(boxes[0], scores[0], anchors)
            counts.add(len(wanted))
            assert found["found_count"] == len(wanted)
            for place in range(MOST):
                box, number, score = wanted[place] if place < len(wanted) else (np.zeros(4), 0, 0.0)
                np.testing.assert_array_equal(found["found_boxes"][0, place], box)
                assert found["found_classes"][0, place] == number and found["found_scores"][0, place] == np.float32(
                    score
                )
    assert MOST in counts and 0 in counts


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("use_regular_nms", True, "use_regular_nms is set"),
        ("max_classes_per_detection", 2, "1 class of a box, not 2"),
        ("num_classes", 2, "2 classes of 40 boxes do not fit"),
        ("max_detections", 7, r"max_detections is 7, its outputs have \[24, 6, 6, 1\]"),
    ],
)
def test_other_options_are_refused(options: dict[str, Any], name: str, value: object, words: str) -> None:
    options[name] = value
    with pytest.raises(UnsupportedOperatorError, match=words):
        c_source.sources(artifact(network()))


def test_other_types_and_options_that_nobody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedOperatorError, match="goes from int8 to float32"):
        c_source.sources(artifact(network(dtype=DType.INT8)))
    monkeypatch.undo()
    graph = network()
    for source in (b"", b"no file at all"):
        with pytest.raises(UnsupportedOperatorError, match="its options"):
            c_source.sources(artifact(replace(graph, source=source)))
    assert workspaces(graph, [0], OURS) == {}
