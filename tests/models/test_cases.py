"""Small files that once went wrong: each compiles with the right outputs, or is refused or named in a sentence.

They lie in the folder `cases` beside that of the real models, with what LiteRT makes of a seeded input in
`expected.json`. What is right of each is said here; a file that is not listed must do as `held` says of all.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import ethoscade
import numpy as np
import pytest
from ethoscade.__main__ import main
from ethoscade.codegen import c_source
from ethoscade.errors import EthoscadeError, UnsupportedOperatorError
from ethoscade.frontend import read_tflite
from ethoscade.judge.verification import reference_outputs
from ethoscade.run import host_c
from model_files import model_folder

INTERNAL = re.compile(r"input \d+ of the operator|Traceback|AssertionError|ethoscade\.\w+\.\w+|<\w+ object")
"""What no sentence to a user has: names of our own for tensors, of modules and of objects."""

NOT_JUDGED = {
    "b32_dw": "operator 'Identity' (DEPTHWISE_CONV_2D of int16): ",
    "maxunpool_int8": "operator 'Identity' (SUB of int8): ",
    "mul_huge_scale": "operator 'mul0' (MUL of uint8): ",
    "transpose_conv_int16_bias32": "operator 'y' (TRANSPOSE_CONV of int16): ",
}
"""Files with an operator that nobody judges; that it is named is right."""
REFUSED = {"floatconv"}
"""Files that may be refused as a whole, in a sentence."""
ROUNDED_OTHERWISE = {"birnn8_int16", "d2s_int8"}
"""Files whose expected values are of kernels that do not decide: LiteRT's FULLY_CONNECTED of int16, where TensorFlow
Lite Micro's is the rule, and its default CONV_2D, which differs from its reference kernel in one element of 288. They
are compared with the judges that do.
"""
EXACT_IN_C = {"leaky_relu_int8_alpha_-1.5", "quantize_constant", "tensor_named_NULL", "tile_int8"}
EMITTED = {*EXACT_IN_C, "maxunpool_int8"}
"""Files of which C is written."""
ON_THE_NPU = {"mul_by_zero_then_add_int16": 1, "quantize_constant": 1}
"""Files of which nothing is the CPU's, and how often they start the NPU."""


def folder() -> Path | None:
    models = model_folder()
    found = None if models is None else models.parent / "cases"
    return found if found is not None and (found / "expected.json").is_file() else None


NAMES = sorted(path.stem for path in (folder() or Path(os.devnull)).glob("*.tflite")) if folder() else []


@pytest.fixture
def cases() -> Path:
    found = folder()
    if found is None:
        pytest.skip("no folder 'cases' with an expected.json beside the models ($ETHOSCADE_MODELS)")
    return found


@cache
def expected() -> dict[str, Any]:
    found = folder()
    return {} if found is None else json.loads((found / "expected.json").read_text())


def verified(path: Path, *more: str) -> tuple[int, str]:
    """Status and all that `ethoscade verify` says."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(["verify", str(path), *more])
    return status, out.getvalue() + err.getvalue()


def inputs_of(graph: Any) -> dict[str, np.ndarray]:
    """As expected.json says: integers over the whole type, floats uniform, inputs in the file's order."""
    rng, found = np.random.default_rng(0), {}
    for index in graph.given:
        tensor = graph.tensors[index]
        if tensor.dtype.is_float:
            found[tensor.name] = rng.uniform(-1, 1, tensor.shape).astype(tensor.dtype.numpy)
        else:
            low, high = tensor.dtype.limits
            found[tensor.name] = rng.integers(low, high + 1, tensor.shape).astype(tensor.dtype.numpy)
    return found


def test_there_are_cases(cases: Path) -> None:
    assert set(expected()) <= {f"{name}.tflite" for name in NAMES} and len(NAMES) > 30
    assert {*NOT_JUDGED, *REFUSED, *EMITTED, *ON_THE_NPU} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_verify_gives_a_verdict_or_a_name(cases: Path, name: str) -> None:
    pytest.importorskip("ai_edge_litert")
    status, told = verified(cases / f"{name}.tflite")
    assert not INTERNAL.search(told)
    if name in REFUSED and status == 1:
        assert told.startswith("ethoscade: ") and told.count("\n") == 1
    elif name in NOT_JUDGED:
        # Where nothing is left without it, that is said instead of a verdict.
        assert NOT_JUDGED[name] in told and status in (0, 1)
        assert status == 0 or "can be judged" in told
    else:
        assert status == 0 and "bit-exact" in told and "not judged" not in told


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_those_of_litert(cases: Path, name: str) -> None:
    wanted = expected().get(f"{name}.tflite", {}).get("outputs")
    if wanted is None or name in NOT_JUDGED:
        pytest.skip("nobody outside says what it outputs")
    model = (cases / f"{name}.tflite").read_bytes()
    if name in REFUSED:
        with contextlib.suppress(EthoscadeError):
            ethoscade.compile(model)
        return
    compiled = ethoscade.compile(model)
    graph = read_tflite(model)
    inputs = inputs_of(graph)
    found = list(compiled.simulate(inputs).outputs.values())
    if name in ROUNDED_OTHERWISE:
        decided = reference_outputs(graph, inputs).outputs
        assert all(np.array_equal(one, decided[key]) for key, one in zip(decided, found, strict=True))
        return
    check_outputs(found, wanted)
    if name in EXACT_IN_C:
        with host_c.HostLibrary(compiled.artifact) as library:
            check_outputs(list(library.run(inputs).outputs.values()), wanted)


def check_outputs(found: list[np.ndarray], wanted: list[dict[str, Any]]) -> None:
    assert [str(one.dtype) for one in found] == [one["dtype"] for one in wanted]
    for array, one in zip(found, wanted, strict=True):
        assert array.reshape(-1)[: len(one["first"])].tolist() == one["first"]
        assert hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest() == one["sha256"]


@pytest.mark.parametrize("name", NAMES)
def test_c_is_written_or_refused_in_a_sentence(cases: Path, name: str) -> None:
    if name in REFUSED:
        pytest.skip("it is refused as a whole")
    compiled = ethoscade.compile((cases / f"{name}.tflite").read_bytes())
    if name in EMITTED:
        assert c_source.contents(compiled.artifact)
        return
    try:
        c_source.contents(compiled.artifact)
    except UnsupportedOperatorError as refusal:
        told = str(refusal)
    else:
        return
    assert "cannot be written as C" in told and not INTERNAL.search(told)


@pytest.mark.parametrize("name", sorted(ON_THE_NPU))
def test_nothing_is_left_to_the_cpu(cases: Path, name: str) -> None:
    compiled = ethoscade.compile((cases / f"{name}.tflite").read_bytes())
    assert [operator.name for operator in compiled.operators if operator.where == "cpu"] == []
    assert len(compiled.artifact.calls) == ON_THE_NPU[name]


def test_a_budget_of_a_printed_point_is_accepted(cases: Path) -> None:
    options = {"accelerator": "ethos-u65-256", "system_config": "Ethos_U65_High_End", "memory_mode": "Dedicated_Sram"}
    model = (cases / "floor_zero_u65_dedicated.tflite").read_bytes()
    for sram_bytes, _ in ethoscade.frontier(model, **options).points:
        assert ethoscade.compile(model, sram=sram_bytes, **options).sram_bytes <= sram_bytes
