"""Streams of public models' weights: bytes beside Vela's, and three decoders. Says so where there are no models."""

from __future__ import annotations

from functools import cache

import pytest
from ethoscade.codegen.streams import EncodingChoice, Streams
from ethoscade.frontend import read_tflite
from ethoscade.lowering.npu import NpuOperation
from ethoscade.pipeline.compiler import prepare
from ethoscade.targets.target import load_target
from model_files import NO_MODELS, model_folder
from weight_streams import read

TARGET = load_target("ethos-u55-256", "Ethos_U55_High_End_Embedded", "Shared_Sram")
MOST = {
    "mobilenet_v1_1.0_224_embed_uint8": 2_157_000,
    "mobilenet_v2_1.0_224_ptq": 3_243_000,
    "vww_96_int8": 44_600,
    "person_detect": 202_900,
    "resnet8_int8": 73_040,
    "kws_ref_int8": 23_700,
}
"""Bytes of all streams, dead channels kept."""
DECODED = ("kws_ref_int8", "resnet8_int8", "vww_96_int8")


@cache
def streams(name: str) -> dict[object, tuple[NpuOperation, EncodingChoice, int]]:
    """By content an operation, its choice and the bytes of the stream."""
    folder = model_folder()
    if folder is None:
        pytest.skip(NO_MODELS)
    network = prepare(read_tflite(folder / f"{name}.tflite"), TARGET, dead_channels=False)
    found = {}
    for operation, encoded in zip(network.npu.operations, network.encoded, strict=True):
        if operation.weights is not None and encoded.whole is not None:
            stream = encoded.whole.weights
            found[stream.content] = (operation, encoded.whole.choice, stream.length_bytes)
    return found


@pytest.mark.parametrize("name", MOST)
def test_streams_of_public_models_are_small(name: str) -> None:
    assert sum(size for *_, size in streams(name).values()) <= MOST[name]


@pytest.mark.parametrize("name", DECODED)
def test_each_stream_is_read_alike_and_is_no_larger_than_velas(name: str) -> None:
    from ethosu import mlw_codec

    ours, velas = (Streams(TARGET.accelerator, encoder) for encoder in ("ethoscade", "vela"))
    for operation, choice, size in streams(name).values():
        assert operation.weights is not None
        channels = len(operation.weights.bias)
        mine, other = (encoder.of(operation, choice, 0, channels).write() for encoder in (ours, velas))
        assert len(mine) == size <= len(other) + 16
        want = list(mlw_codec.decode(bytearray(other)))
        assert list(mlw_codec.decode(bytearray(mine))) == want and read(mine) == want
