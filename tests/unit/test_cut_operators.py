"""Operators that nobody judges are cut, and all before and behind them is judged; files that are compiled already."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ethoscade
import numpy as np
import pytest
from codegen_support import vela_file
from command_line_support import Capture, one_sentence, run, run_json
from ethoscade import testing
from ethoscade.cli import common
from ethoscade.errors import ConfigError, UnsupportedOperatorError, VerificationError
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType
from ethoscade.judge import litert, verification
from ethoscade.report import summary
from ethoscade.run import judgement
from ethoscade.run.cpu_operators import Player
from ethoscade.run.pairing import source_of
from ethoscade.testing import ModelBuilder
from reference_support import needs_litert
from tflite_files import INT8, INT32, UINT8, File, Op, T

SHAPE = (1, 4, 4, 8)
# An operator that nobody has heard of between two that the NPU adds with, and a branch around it.
UNHEARD = File(
    [T("x", SHAPE), T("before", SHAPE), T("between", SHAPE), T("behind", SHAPE), T("aside", SHAPE)],
    [
        Op("ADD", [0, 0], [1], "AddOptions"),
        Op("UNHEARD", [1], [2]),
        Op("ADD", [2, 0], [3], "AddOptions"),
        Op("ADD", [1, 0], [4], "AddOptions"),
    ],
    [0],
    [3, 4],
).bytes()


def test_all_before_and_behind_it_is_judged() -> None:
    needs_litert()
    compiled = ethoscade.compile(UNHEARD)
    check = compiled.verify(seeds=2)
    assert check.ok
    assert check.elements == 2 * 3 * 128, "both outputs, and what the operator reads"
    (told,) = check.not_judged
    assert told.startswith("operator 'between' (UNHEARD of int8): ")
    assert summary.verification_json(check)["not_judged"] == [told]
    text = summary.compile_text(compiled, check)
    assert "except for unverified operators" in text and told in text


@pytest.mark.parametrize("wrong", ["before", "behind"])
def test_a_fault_on_either_side_is_found(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    """The NPU's result changed by hand: as the operator reads it, and as what is made of its values comes out."""
    needs_litert()
    compiled = ethoscade.compile(UNHEARD)
    honest = Player.run

    def changed(self: Player, index: int, values: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
        made = honest(self, index, values)
        if wrong == "before":
            self.read[-1][index] = {place: value ^ 1 for place, value in self.read[-1][index].items()}
        return made if wrong == "before" else {t: value ^ 64 for t, value in made.items()}

    monkeypatch.setattr(Player, "run", changed)
    check = compiled.verify(seeds=1)
    assert not check.ok and check.mismatches > 0


def test_cut_values_differ_between_runs() -> None:
    needs_litert()
    graph = read_tflite(UNHEARD)
    inputs = [verification.random_inputs(graph, seed) for seed in range(2)]
    first, second = verification.reference_runs(graph, inputs, {})
    assert not np.array_equal(first.cuts["between"].made[0], second.cuts["between"].made[0])
    assert list(first.outputs) == ["behind", "aside", verification.read_name("between", 0)]
    with pytest.raises(VerificationError, match="no judge for operator 'between'"):
        verification.reference_runs(graph, inputs)


def test_a_network_of_which_nothing_can_be_judged_says_so() -> None:
    needs_litert()
    alone = File([T("x", SHAPE), T("y", SHAPE), T("c", SHAPE, data=[0] * 128)], [Op("UNHEARD", [2], [1])], [0], [1])
    with pytest.raises(VerificationError, match="nothing of 'model' can be judged: operator 'y'"):
        ethoscade.compile(alone.bytes()).verify(1)


def test_availability_is_checked_before_anything_is_compiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: Capture
) -> None:
    model = tmp_path / "net.tflite"
    model.write_bytes(testing.tiny_conv())
    monkeypatch.setattr(litert, "is_installed", lambda *_: False)
    monkeypatch.setattr(common, "compile", lambda *_, **__: pytest.fail("it compiled"))
    for arguments in (["verify", model], ["compile", model, "--verify", "-o", tmp_path]):
        status, out, err = run(arguments, capfd)
        assert (status, out) == (1, "")
        one_sentence(err)
        assert "pip install" in err
    assert list(tmp_path.iterdir()) == [model]


# --- files that are compiled already ---------------------------------------------------------------------------------


def framed() -> bytes:
    """Operators that stay on the CPU on both sides: QUANTIZE and DEQUANTIZE."""
    b = ModelBuilder()
    b.output(b.dequantize(b.conv2d(b.quantize(b.input((1, 8, 8, 3), dtype=DType.FLOAT32)), 4)))
    return b.build()


def test_files_of_ours_are_judged_with_either_interface(tmp_path: Path, capfd: Capture) -> None:
    needs_litert()
    model = tmp_path / "net.tflite"
    model.write_bytes(framed())
    for io in ("float", "int8"):
        file = ethoscade.compile(model, io=io).save(tmp_path / f"{io}.tflite")
        report = run_json(["verify", model, "--artifact", file], capfd)
        assert (report["model"], report["artifact"]) == ("net", io)
        assert report["verification"]["ok"] and report["verification"]["elements"] == 3 * 256
        status, out, _ = run(["verify", model, "--artifact", file, "--seeds", "1"], capfd)
        assert status == 0 and "bit-exact: 256 output elements on 1 random input" in out


def test_files_that_vela_made_are_judged(tmp_path: Path) -> None:
    needs_litert()
    for model in (framed(), UNHEARD):
        compiled = read_tflite(vela_file(model), "net")
        assert any(op.kind != "ETHOS_U" for op in compiled.operators)
        source = read_tflite(model, "net")
        check = judgement.on_file(compiled, source_of(compiled, [source]), 2)
        assert check.ok and check.elements
        assert len(check.not_judged) == (model is UNHEARD)


def test_a_wrong_file_is_found_out(tmp_path: Path, capfd: Capture) -> None:
    needs_litert()
    model, other = tmp_path / "net.tflite", tmp_path / "other.tflite"
    model.write_bytes(testing.tiny_conv(seed=0))
    other.write_bytes(testing.tiny_conv(seed=1))
    file = ethoscade.compile(other).save(tmp_path / "compiled.tflite")
    status, out, _ = run(["verify", model, "--artifact", file, "--json"], capfd)
    assert status == 3 and json.loads(out)["verification"]["mismatches"] > 0
    other.write_bytes(testing.tiny_conv(dtype=DType.UINT8))
    refused = {
        "was not compiled from 'other'": [other, "--artifact", file],
        "compile it first": [model, "--artifact", model],
        "--sram would say how to compile": [model, "--artifact", file, "--sram", "1MiB"],
        "--io would say": [model, "--artifact", file, "--io", "int8"],
    }
    for said, arguments in refused.items():
        status, out, err = run(["verify", *arguments], capfd)
        assert (status, out) == (1, "")
        one_sentence(err)
        assert said in err


def test_other_names_are_paired_in_the_files_order() -> None:
    source = read_tflite(UNHEARD)
    renamed = replace(source, name="other", tensors=tuple(replace(t, name=f"_{t.name}") for t in source.tensors))
    assert source_of(renamed, [source]) is source
    with pytest.raises(ConfigError, match="it makes '_behind'"):
        source_of(renamed, [replace(source, outputs=(3,))])


# --- who judges what -------------------------------------------------------------------------------------------------


def between(kind: str, *, dtype: int = INT8, scale: float = 0.5, inputs: Sequence[int] = (1,)) -> File:
    """An operator between two that the NPU adds with, and a branch around it."""
    scaled = {"type": dtype, "scales": (0.5,), "zero_points": (0,)}
    tensors = [T(name, SHAPE, **scaled) for name in ("x", "before", "between", "behind", "aside")]
    tensors[2] = replace(tensors[2], scales=(scale,))
    operators = [
        Op("ADD", [0, 0], [1], "AddOptions"),
        Op(kind, list(inputs), [2], "SubOptions" if kind == "SUB" else None),
        Op("ADD", [2, 0], [3], "AddOptions"),
        Op("ADD", [1, 0], [4], "AddOptions"),
    ]
    return File(tensors, operators, [0], [3, 4])


def test_a_tile_of_a_later_version_is_judged() -> None:
    """LiteRT's reference resolver has TILE up to version 2, its default one 3: tflite/kernels/register_ref.cc."""
    needs_litert()
    tensors = [T("x", (1, 4, 8)), T("twice", (1, 8, 8)), T("times", (3,), INT32, (), (), data=[1, 2, 1])]
    file = File([*tensors, T("y", (1, 8, 8))], [
        Op("TILE", [0, 2], [1]), Op("ADD", [1, 1], [3], "AddOptions"),
    ], [0], [3], versions={"TILE": 3}).bytes()  # fmt: skip
    graph = read_tflite(file)
    x = verification.random_inputs(graph, 0)["x"]
    judged = verification.reference_outputs(graph, {"x": x}).outputs["y"]
    assert np.array_equal(judged, np.clip(2 * np.tile(x.astype(int), (1, 2, 1)), -128, 127))
    for target in ("simulator", "c"):
        check = ethoscade.compile(file).verify(1, target)
        assert check.ok and not check.not_judged


@pytest.mark.parametrize(("kind", "inputs"), [("ABS", (1,)), ("SQUARED_DIFFERENCE", (1, 0))])
def test_what_depends_on_an_operator_of_the_npu_that_nobody_judges_is_not_judged(
    kind: str, inputs: Sequence[int]
) -> None:
    """No runtime has a kernel of uint8 for these; the NPU runs them."""
    needs_litert()
    compiled = ethoscade.compile(between(kind, dtype=UINT8, inputs=inputs).bytes())
    assert all(operator.where == "npu" for operator in compiled.operators)
    for target in ("simulator", "c"):
        check = compiled.verify(1, target)
        assert check.ok and check.elements == 128, "the branch around it alone"
        told, dependent = check.not_judged
        assert told.startswith(f"operator 'between' ({kind} of uint8): LiteRT ")
        assert dependent == "operator 'behind', which depends on it"


def test_a_fault_beside_an_operator_that_nobody_judges_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    needs_litert()
    compiled = ethoscade.compile(between("ABS", dtype=UINT8).bytes())
    honest = judgement.run_artifact_steps

    def wrong(*given: Any) -> Any:
        return [replace(one, outputs={k: v ^ 1 for k, v in one.outputs.items()}) for one in honest(*given)]

    monkeypatch.setattr(judgement, "run_artifact_steps", wrong)
    check = compiled.verify(1)
    assert not check.ok and check.mismatches == 128


def test_a_cut_operator_may_read_what_was_folded() -> None:
    """The compiled network has a constant where the model has an operator on constants."""
    needs_litert()
    constant = T("constant", (128,), data=list(range(128)))
    shape = T("shape", (4,), INT32, (), (), data=list(SHAPE))
    tensors = [*between("UNHEARD").tensors, constant, T("folded", SHAPE), shape]
    of = between("UNHEARD", inputs=(1, 6))
    file = replace(of, tensors=tensors, operators=[Op("RESHAPE", [5, 7], [6], "ReshapeOptions"), *of.operators])
    compiled = ethoscade.compile(file.bytes())
    assert any(tensor.is_constant and tensor.name == "folded" for tensor in compiled.artifact.graph.tensors)
    check = compiled.verify(1)
    assert check.ok and check.elements == 4 * 128, "both outputs, and what the operator reads at both places"


@pytest.mark.parametrize("kind", ["SUB", "SQUARED_DIFFERENCE"])
def test_an_operator_that_kernels_do_not_define_is_named_and_all_else_judged(kind: str) -> None:
    """Calibrated to zero: the factor of its results is 1 or more, for which LiteRT's and TFLM's kernels have none."""
    needs_litert()
    compiled = ethoscade.compile(between(kind, scale=1e-7, inputs=(1, 0)).bytes())
    check = compiled.verify(1)
    assert check.ok and check.elements == 4 * 128
    (told,) = check.not_judged
    assert told.startswith(f"operator 'between' ({kind} of int8): a factor of ")
    in_c = compiled.verify(1, "c")
    assert in_c.ok and in_c.elements == 128 and in_c.not_judged[0] == told
    inputs = {"x": verification.random_inputs(compiled.source, 0)["x"]}
    with pytest.raises(UnsupportedOperatorError, match=r"'between' \(.* of int8\): a factor of"):
        compiled.simulate(inputs)


@pytest.mark.parametrize("kind", ["QUANTIZE", "RELU"])
@pytest.mark.parametrize("scale", [0.0, -0.5])
def test_an_output_without_a_scale_is_not_judged(kind: str, scale: float) -> None:
    """Kernels divide by it; all before and behind it is judged."""
    needs_litert()
    names = ("x", "before", "between", "behind", "aside")
    tensors = [T(name, SHAPE, scales=(scale if name == "between" else 1.0,)) for name in names]
    operators = [
        Op("ADD", [0, 0], [1], "AddOptions"),
        Op(kind, [1], [2]),
        Op("RESHAPE", [2], [3], "ReshapeOptions", {"NewShape": list(SHAPE)}),
        Op("ADD", [1, 0], [4], "AddOptions"),
    ]
    check = ethoscade.compile(File(tensors, operators, [0], [3, 4]).bytes()).verify(seeds=2)
    assert check.ok and check.elements > 0
    assert any(
        f"({kind} of int8): its output has scale {scale:g}, by which kernels divide" in o for o in check.not_judged
    )
