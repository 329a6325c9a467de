"""What tests of projects share: a small network of each kind of call, tools that are there or not, reading a board."""

from __future__ import annotations

import shutil
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from ethoscade.errors import ProjectError
from ethoscade.frontend import read_tflite
from ethoscade.ir import Activation, DType
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from ethoscade.project import description
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


def read_all(target: Path) -> tuple[list[str], dict[str, str]]:
    """The tensors of a project that are the reference's, each compared whole, and what is said of the others."""
    graph = read_tflite(target / description.MODEL)
    inputs = random_inputs(graph, 1)
    wanted = {graph.tensors[index].name: value for index, value in reference.run(graph, inputs).values.items()}
    found, others = [], {}
    with ethoscade.connect(target) as board:
        for tensor in board.description.tensors:
            try:
                value = board.intermediate(tensor.name, inputs)
            except ProjectError as error:
                others[tensor.name] = str(error)
                continue
            np.testing.assert_array_equal(value, wanted[tensor.name].reshape(value.shape), err_msg=tensor.name)
            found.append(tensor.name)
    return found, others
