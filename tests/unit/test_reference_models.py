"""The reference against LiteRT on real models, operator by operator, where the models are at hand."""

from __future__ import annotations

import pytest
from ethoscade.errors import UnsupportedOperatorError
from ethoscade.frontend import read_tflite
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from reference_support import differences, models_folder, needs_litert

_FOLDER = models_folder()
_FILES = sorted(_FOLDER.glob("*.tflite")) if _FOLDER else []


@pytest.mark.skipif(not _FILES, reason="no models: set ETHOSCADE_MODELS")
@pytest.mark.parametrize("path", _FILES, ids=lambda p: p.stem)
def test_every_operator_equals_litert(path) -> None:  # type: ignore[no-untyped-def]
    needs_litert()
    try:
        graph = read_tflite(path.read_bytes())
    except UnsupportedOperatorError as error:
        pytest.skip(f"it is refused: {error}")
    if any(op.kind == "SVDF" for op in graph.operators):
        pytest.skip("LiteRT crashes on SVDF")
    if any(not reference.is_known(graph, op) for op in graph.operators):
        pytest.skip("has operators that the frontend does not read")
    # LiteRT aborts on a SOFTMAX whose input scale is this small.
    last = graph.operators[-1]
    scale = graph.tensors[last.inputs[0] or 0].quantisation
    tiny = last.kind == "SOFTMAX" and scale is not None and scale.scale * 2**26 <= 1
    kept = len(graph.operators) - 1 if tiny else None
    for seed in range(3):
        for name, _, largest in differences(graph, random_inputs(graph, seed), kept):
            assert name.startswith("FULLY_CONNECTED") and largest == 1
