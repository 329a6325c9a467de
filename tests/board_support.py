"""Networks and tools for tests of projects: what is there to build with, a small network of each kind of call."""

from __future__ import annotations

import shutil

import pytest
from ethoscade.ir import Activation, DType
from ethoscade.project.template import Template
from ethoscade.testing import ModelBuilder


def several_calls(seed: int = 3) -> bytes:
    """Float in and out: QUANTIZE on the CPU, an NPU program, DEQUANTIZE on the CPU; an NPU program keeps state."""
    b = ModelBuilder("several_calls", seed=seed)
    x = b.quantize(b.input((1, 8, 8, 3), dtype=DType.FLOAT32, name="image"))
    x = b.conv2d(x, 8, 3, activation=Activation.RELU, name="features")
    variable = b.variable(x.shape, x.quantisation)
    total = b.add(x, variable, output=x.quantisation)
    b.assign(variable, total)
    b.output(b.dequantize(b.conv2d(total, 4, 3, stride=2, name="scores")))
    return b.build()


def need(template: Template, *, to_run: bool = False) -> None:
    """Skip the test, with a word, where a tool of the template is missing."""
    wanted = template.build_tools + (template.run_tools if to_run else ())
    missing = [tool.program for tool in wanted if shutil.which(tool.program) is None]
    if missing:
        pytest.skip(f"template '{template.name}' needs {', '.join(missing)}")
