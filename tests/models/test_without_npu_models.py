"""Public models on a device without an NPU: the emitted C on this machine, bit-exact, in the least arena there is."""

from __future__ import annotations

import ethoscade
import pytest
from model_files import NO_MODELS, model_folder

# Bytes of tensors alive at once in the file's order: no plan of whole tensors goes below.
ARENA_BYTES = {
    "kws_ref_int8": 16_000,
    "person_detect": 55_296,
    "resnet8_int8": 49_152,
    "mobilenet_v1_0.25_128_uint8": 98_304,
    "face_detect_64x64": 122_880,
    "keyword_scrambled_8bit": 5_408,
    "micro_speech_lstm": 16_768,
}


@pytest.mark.parametrize("name", ARENA_BYTES)
def test_a_model_runs_as_c_alone(name: str) -> None:
    """Those with state several times in a row."""
    folder = model_folder()
    if folder is None or not (folder / f"{name}.tflite").is_file():
        pytest.skip(NO_MODELS)
    compiled = ethoscade.compile(folder / f"{name}.tflite", accelerator="none")
    assert compiled.sram_bytes == ARENA_BYTES[name] and compiled.sram_bytes - compiled.live_bytes < 16
    check = compiled.verify(seeds=2)
    assert check.ok and not check.not_judged, check
