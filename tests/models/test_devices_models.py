"""The public models planned for devices by description."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from device_judge import fastest_one_by_one, judged
from ethoscade import DeviceDescription
from ethoscade.errors import ConfigError, UnsupportedOperatorError
from ethoscade.frontend import read_tflite
from ethoscade.pipeline.planning import prepare
from ethoscade.targets.devices import cortex_m7, cortex_m55, matrix_npu
from model_files import NO_MODELS, model_paths

pytestmark = pytest.mark.skipif(not model_paths(), reason=NO_MODELS)


@pytest.mark.parametrize("path", model_paths(), ids=lambda path: path.stem)
@pytest.mark.parametrize("device", [cortex_m55, cortex_m7, matrix_npu])
def test_a_model_is_planned(device: Callable[[], DeviceDescription], path: Path) -> None:
    try:
        graph = read_tflite(path)
        outline = prepare(graph, device())
    except (UnsupportedOperatorError, ConfigError) as error:
        # A refusal names the operator, or the field of the device that it does not fit.
        assert "RESOURCE" in str(error) or ("buffer_bytes" in str(error) and device is matrix_npu), error  # noqa: PT017
        pytest.skip(f"it is refused: {error}")
    judged(outline)


@pytest.mark.parametrize("path", [p for p in model_paths() if "224" in p.stem], ids=lambda path: path.stem)
def test_large_models_run_faster_fused_on_the_chip(path: Path) -> None:
    outline = prepare(read_tflite(path), matrix_npu())
    curve = judged(outline)
    assert curve.points[-1][1] < fastest_one_by_one(outline)
