"""Public models, unstriped: every NPU operator bit-exact with the reference."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ethoscade.frontend import read_tflite
from ethoscade.rewrites import simplify
from ethoscade.targets.target import ACCELERATORS
from graphs import on_npu
from npu import check_whole

# Model and the fewest operators that may be left to the NPU.
MODELS = {
    "hello_world_int8": 3,
    "micro_speech": 2,
    "kws_ref_int8": 11,
    "ad01_int8": 10,
    "resnet8_int8": 14,
    "vww_96_int8": 29,
    "person_detect": 29,
    "mobilenet_v1_0.25_128_uint8": 29,
    "mobilenet_v1_1.0_224_embed_uint8": 28,
    "mobilenet_v2_1.0_224_ptq": 66,
}


def folder() -> Path | None:
    """$ETHOSCADE_MODELS, else `shared/models` in a folder above the repository."""
    if "ETHOSCADE_MODELS" in os.environ:
        return Path(os.environ["ETHOSCADE_MODELS"])
    found = (parent / "shared" / "models" for parent in Path(__file__).resolve().parents)
    return next((path for path in found if path.is_dir()), None)


@pytest.mark.parametrize("name", MODELS)
def test_model(name: str) -> None:
    models = folder()
    if models is None or not (models / f"{name}.tflite").exists():
        pytest.skip("set ETHOSCADE_MODELS to the folder with the public models")
    graph = simplify(read_tflite((models / f"{name}.tflite").read_bytes()), on_npu)
    check_whole(graph, ACCELERATORS["ethos-u55-256"])
