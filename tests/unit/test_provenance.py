"""Names of operators and stripes in compiled files: written, read, used by timing, refused where they do not fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import ethoscade
import pytest
from ethoscade.codegen import provenance, tflite
from ethoscade.codegen.artifact import NpuCall
from ethoscade.errors import ModelFormatError
from ethoscade.frontend import read_tflite
from ethoscade.pipeline.compiled import Compiled
from ethoscade.scheduling.program import CallOperator, Stripe
from ethoscade.testing import residual_network
from ethoscade.trace.files import time_file
from hypothesis import given
from hypothesis import strategies as st

NAMES = st.lists(st.lists(st.text(max_size=5), max_size=6), max_size=3)


@pytest.fixture(scope="module")
def striped() -> Compiled:
    return ethoscade.compile(residual_network(), optimise="size")


@given(NAMES)
def test_what_is_written_is_read(calls: list[list[str]]) -> None:
    found = provenance.decode(provenance.encode(calls))
    assert found == tuple(map(tuple, calls))
    short = provenance.short(calls)
    assert [len(call) for call in short] == [len(call) for call in calls]
    pairs = {(a, b) for old, new in zip(calls, short, strict=True) for a, b in zip(old, new, strict=True)}
    assert len({a for a, _ in pairs}) == len({b for _, b in pairs}) == len(pairs)


def test_names_become_short_but_stay_different() -> None:
    calls = [["relu_1;conv_1", "relu_2;conv_1", "add;conv_1", "conv_1"], ["add;conv_1", ";", ""]]
    assert provenance.short(calls) == (("relu_1", "relu_2", "add", "conv_1"), ("add", ";", ""))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"[" * 100_000,
        b"\xff",
        b'{"version":2,"operators":["a"],"calls":[[0]]}',
        b'{"version":1,"operators":[1],"calls":[[0]]}',
        b'{"version":1,"operators":["a"],"calls":[0]}',
        b'{"version":1,"operators":["a"],"calls":[[1]]}',
        b'{"version":1,"operators":["a"],"calls":[[-1]]}',
        b'{"version":1,"operators":["a"],"calls":[[true]]}',
        b'{"version":1,"operators":["a"],"calls":[[0.0]]}',
    ],
)
def test_what_is_no_entry_is_refused(data: bytes) -> None:
    with pytest.raises(ModelFormatError, match="NpuOperators"):
        provenance.decode(data)


def test_a_compiled_file_names_operators_and_stripes(striped: Compiled, tmp_path: Path) -> None:
    """Each stripe and each copy of the program is one operation of the stream and bears its operator's name."""
    (name, report), *others = time_file(read_tflite(striped.save(tmp_path / "net.tflite")))
    assert name and not others
    steps = [step for step in striped.program.steps if not isinstance(step, CallOperator)]
    operations = [command for command in report.commands if command.bound != "waiting"]
    graph = striped.artifact.graph
    assert len(operations) == len(steps)
    assert {op.label for op in report.operators} <= {op.name for op in graph.operators}
    for step, command in zip(steps, operations, strict=True):
        assert (command.kernel is not None) == isinstance(step, Stripe)
        if command.kernel is not None and isinstance(step, Stripe):
            output = graph.tensors[next(op for op in graph.operators if op.name == command.label).outputs[0]]
            box = (step.output.y1 - step.output.y0, step.output.x1 - step.output.x0)
            assert command.kernel.ofm[:2] == box or output.shape[1:3] == (1, 1) or len(output.shape) == 2
    stripes = [op for op in report.operators if op.kernels > 1]
    assert stripes
    named = [command.name for command in operations if command.label == stripes[0].label and command.kernel is not None]
    assert named == [f"{stripes[0].label} stripe {i + 1}/{len(named)}" for i in range(len(named))]
    assert striped.timing()[0][1].operators == report.operators


def test_files_are_the_same_every_time(striped: Compiled) -> None:
    again = ethoscade.compile(residual_network(), optimise="size")
    assert tflite.write(again.artifact) == tflite.write(striped.artifact)


def test_without_names_kernels_are_called_after_what_they_do(striped: Compiled) -> None:
    calls = tuple(replace(c, operators=()) if isinstance(c, NpuCall) else c for c in striped.artifact.calls)
    graph = read_tflite(tflite.write(replace(striped.artifact, calls=calls)))
    assert provenance.ENTRY not in graph.metadata
    ((_, report),) = time_file(graph)
    assert report.operators[0].label.startswith("conv ") and report.operators[0].label.endswith(" #0")


@pytest.mark.parametrize("keep", [-1, 0])
def test_names_of_another_stream_are_refused(striped: Compiled, keep: int) -> None:
    graph = read_tflite(tflite.write(striped.artifact))
    (names,) = provenance.decode(graph.metadata[provenance.ENTRY])
    other = replace(graph, metadata={**graph.metadata, provenance.ENTRY: provenance.encode([names[:keep]])})
    with pytest.raises(ModelFormatError, match="operations"):
        time_file(other)
    other = replace(graph, metadata={**graph.metadata, provenance.ENTRY: provenance.encode([names, names])})
    with pytest.raises(ModelFormatError, match="is for 2 calls; the file has 1"):
        time_file(other)
