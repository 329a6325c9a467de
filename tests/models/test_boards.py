"""Public models on an emulated Cortex-M55, their NPU played by the simulator: state, int16 on the CPU, no NPU at all.

`benches/qemu.py` has more of them.
"""

from __future__ import annotations

import json

import pytest
from board_support import need
from ethoscade.__main__ import main
from ethoscade.project.templates import TEMPLATES
from model_files import NO_MODELS, model_folder


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("keyword_scrambled_8bit", ()),
        ("micro_speech", ("--accelerator", "none")),
        ("mobilenet_v1_0.25_128_uint8", ("--weights", "incbin", "--sram", "150KiB")),
    ],
)
def test_public_models_are_the_reference(
    name: str, options: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    folder = model_folder()
    if folder is None:
        pytest.skip(NO_MODELS)
    need(TEMPLATES["qemu-mps3-an547"], to_run=True)
    status = main(["run", "--target", "qemu", str(folder / f"{name}.tflite"), "--seeds", "1", "--json", *options])
    report = json.loads(capfd.readouterr().out)
    assert status == 0 and report["verification"]["mismatches"] == 0 < report["verification"]["elements"]
    assert all(call["ticks"] > 0 for call in report["calls"] if call["where"] == "cpu")
