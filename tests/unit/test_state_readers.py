"""Operators that read state which an operator on the CPU writes over: where, in which order, on which bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import ethoscade
import pytest
from ethoscade.codegen import tflite
from ethoscade.errors import CodegenError
from ethoscade.frontend import read_tflite
from ethoscade.run.judgement import on_file
from test_state import with_state
from tflite_files import INT16, File, Op, T, constant


def of_long_sums(more: Sequence[T] = (), operators: Sequence[Op] | None = None, output: int | None = None) -> File:
    """An SVDF that stays on the CPU, whose sums may leave 32 bits; more tensors, other operators, one output more."""
    file, wide = with_state(), {"type": INT16, "zero_points": (0,)}
    tensors = [*file.tensors, *more]
    tensors[3] = replace(tensors[3], zero_points=(0,))
    tensors[4] = replace(tensors[4], data=[32000, -20000, 30000] * 4, scales=(2.0**-15,), **wide)
    tensors[6] = replace(tensors[6], scales=(0.01,), **wide)
    outputs = file.outputs if output is None else (*file.outputs, output)
    return replace(file, tensors=tensors, operators=operators or file.operators, outputs=outputs)


FIRST, SVDF, LAST = with_state().operators


def wide(name: str, *shape: int, scale: float = 0.01) -> T:
    return T(name, shape, INT16, (scale,), (0,))


def hold_everywhere(model: bytes, accelerator: str) -> ethoscade.Compiled:
    """What was compiled, and the file of it, are as the model in every run."""
    compiled = ethoscade.compile(model, accelerator=accelerator)
    assert compiled.verify(seeds=2).ok
    assert on_file(read_tflite(tflite.write(compiled.artifact)), read_tflite(model), 2).ok
    return compiled


@pytest.mark.parametrize("operators", [[FIRST, SVDF, "readers", LAST], ["readers", FIRST, SVDF, LAST]])
def test_who_reads_state_that_the_cpu_writes_over_stays_with_it(operators: list[Op | str]) -> None:
    """The NPU's programs have addresses of their own; what else is on the CPU is as it was in the file."""
    readers = [Op("ADD", (6, 6), (10,), "AddOptions"), Op("RELU", (10,), (11,))]
    found = [op for each in operators for op in (readers if isinstance(each, str) else [each])]
    more = [wide("seen", 1, 12, scale=0.02), wide("positive", 1, 12, scale=0.02)]
    model = of_long_sums(more, found, 11).bytes()
    reasons = {op.name: op.reason for op in hold_everywhere(model, "ethos-u55-128").cpu_operators}
    assert reasons.keys() == {"seen", "filtered"}
    assert reasons["seen"] == "its input 'state' is a variable that 'filtered' on the CPU writes over"
    hold_everywhere(model, "none")


def test_who_reads_state_runs_before_it_is_written_over() -> None:
    """Though the NPU would be started once less if it ran behind: the written file has one tensor for both."""
    more = [
        wide("long", 1, 12),
        T("weights", (12, 8), scales=(0.02,), data=list(range(-48, 48))),
        T("short", (1, 12), scales=(0.1,)),
        wide("seen", 1, 12, scale=0.02),
    ]
    operators = [
        Op("FULLY_CONNECTED", (0, 11, -1), (12,), "FullyConnectedOptions"),
        Op("QUANTIZE", (12,), (10,)),
        Op("ADD", (6, 10), (13,), "AddOptions"),
        replace(SVDF, inputs=(0, *SVDF.inputs[1:])),
        LAST,
    ]
    compiled = hold_everywhere(of_long_sums(more, operators, 13).bytes(), "ethos-u55-128")
    assert [op.name for op in compiled.cpu_operators] == ["seen", "filtered"]
    artifact = compiled.artifact
    late = [call for call in artifact.calls if artifact.calls[1] is not call]
    with pytest.raises(CodegenError, match="variable 'state' is read once operator 'filtered' has written over it"):
        tflite.write(replace(artifact, calls=(*late, artifact.calls[1])))


@pytest.mark.parametrize("accelerator", ["none", "ethos-u55-128"])
@pytest.mark.parametrize("kind", ["RESHAPE", "QUANTIZE"])
def test_a_copy_of_state_has_bytes_of_its_own(kind: str, accelerator: str) -> None:
    """Of the old value, read once the state has its new one."""
    shape = (12, 1) if kind == "RESHAPE" else (1, 12)
    more = [constant("shape", [12, 1]), wide("copy", *shape), wide("both", *shape, scale=0.02), wide("fresh", *shape)]
    copies = {
        "RESHAPE": [Op(kind, (6, 10), (made,), "ReshapeOptions", {"NewShape": [12, 1]}) for made in (11, 13)],
        "QUANTIZE": [Op(kind, (6,), (made,)) for made in (11, 13)],
    }[kind]
    operators = [copies[0], FIRST, SVDF, LAST, copies[1], Op("ADD", (11, 13), (12,), "AddOptions")]
    hold_everywhere(of_long_sums(more, operators, 12).bytes(), accelerator)
