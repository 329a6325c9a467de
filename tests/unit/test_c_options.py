"""Choices of the emitted C: from Python and the command line to the sources, and what refuses them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import ethoscade
import pytest
from codegen_support import cpu_artifact
from command_line_support import TINY, Capture, run, run_json, written
from ethoscade.codegen import c_source, tflite
from ethoscade.codegen.c.options import INCBIN_ABOVE_BYTES, COptions
from ethoscade.errors import BudgetError, CodegenError, ConfigError
from ethoscade.testing import ModelBuilder, inverted_residuals, tiny_conv
from firmware_builds import STRICT


@pytest.fixture
def model(tmp_path: Path) -> str:
    return written(tmp_path / "Tiny Net.tflite", TINY)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"module_name": "Net"}, r"module_name is 'Net'.*lower-case letters"),
        ({"module_name": "a-b"}, "lower-case letters, digits and '_'"),
        ({"module_name": ""}, "lower-case"),
        ({"workspace": "heap"}, "workspace is 'heap'; choose internal or pools"),
        ({"weights": "flash"}, "weights is 'flash'; choose auto, array, incbin or pool"),
        ({"weights": "pool"}, "need workspace 'pools'"),
    ],
)
def test_choices_that_there_are_not(tmp_path: Path, choices: dict[str, str], message: str) -> None:
    compiled = ethoscade.compile(TINY)
    for write in (compiled.write_c, compiled.write_mlf):
        with pytest.raises(ConfigError, match=message):
            write(tmp_path / "out", **choices)
    assert not (tmp_path / "out").exists()


def test_names_are_lower_case_unless_given(tmp_path: Path) -> None:
    compiled = ethoscade.compile(TINY)
    artifact = cpu_artifact(_softmax(), "MobileNet-V2 1.0")
    assert c_source.header_name(artifact) == "tvmgen_mobilenet_v2_1_0.h"
    assert "tvmgen_default.h" in compiled.write_c(tmp_path, module_name="default")
    assert "int32_t tvmgen_default_run(" in (tmp_path / "tvmgen_default.h").read_text()


def _softmax() -> bytes:
    b = ModelBuilder()
    b.softmax(b.input((1, 8)))
    return b.build()


@pytest.mark.parametrize(("size", "expected"), [(INCBIN_ABOVE_BYTES, "array"), (INCBIN_ABOVE_BYTES + 1, "incbin")])
def test_large_weights_come_from_a_file(size: int, expected: str) -> None:
    assert COptions().weights_of(size) == expected
    assert COptions(weights="array").weights_of(size) == "array"
    assert COptions(workspace="pools", weights="pool").weights_of(size) == "pool"


def test_the_command_line_passes_choices_on(model: str, tmp_path: Path, capfd: Capture) -> None:
    options = ["--module-name", "net", "--workspace", "pools", "--workspace-io", "--weights", "pool"]
    run_json(["compile", model, "-o", tmp_path / "o", "--emit", "c,mlf", *options], capfd)
    expected = c_source.contents(
        ethoscade.compile(model).artifact,
        COptions(module_name="net", workspace="pools", workspace_io=True, weights="pool"),
    )
    assert {name: (tmp_path / "o" / name).read_bytes() for name in expected} == expected
    assert "net_weights.bin" in expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--workspace", "pools"], "--emit tflite has none: add c, mlf or tflite-c"),
        (["--emit", "c", "--share-workspace"], "for several models"),
        (["--emit", "c", "--module-name", "Net"], "module_name is 'Net'"),
    ],
)
def test_choices_that_nothing_follows(
    model: str, tmp_path: Path, capfd: Capture, options: list[str], message: str
) -> None:
    status, out, err = run(["compile", model, "-o", tmp_path / "o", *options], capfd)
    assert status == 1 and message in err and out == ""
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("emit", ["c", "mlf", "tflite,c", "raw"])
def test_a_budget_that_is_no_multiple_of_a_line_is_kept_by_c(
    model: str, tmp_path: Path, capfd: Capture, emit: str
) -> None:
    """A choice of 592 bytes takes 608 in C: told that it becomes C, the compiler counts these."""
    words = ["compile", model, "-o", tmp_path / "o", "--emit", emit, "--sram"]
    for budget, expected in (("592", 512), ("607", 512), ("608", 608), ("623", 608)):
        found = run_json([*words, budget], capfd)
        if emit == "raw":
            assert found["sram_bytes"] == ethoscade.compile(TINY, sram=budget).sram_bytes == 592
        else:
            assert (found["sram_bytes"], found["workspace_bytes"]) == (expected, expected)


@pytest.mark.parametrize("memory_mode", ["Shared_Sram", "Sram_Only"])
def test_arena_and_weights_in_lines_fit_every_budget(memory_mode: str) -> None:
    """Around each choice the frontier counts what C takes, the answer keeps it, and a byte less has the one before."""
    prepared = ethoscade.prepare(inverted_residuals(), memory_mode=memory_mode)
    plain, lined = prepared.compile(), prepared.compile(line_bytes=64)
    all_plain = prepared.frontier().points
    assert lined.sram_bytes >= plain.sram_bytes and lined.artifact.arena_bytes == plain.artifact.arena_bytes
    points = prepared.compile(optimise="balanced", line_bytes=64).frontier
    assert [size for size, _ in points] == sorted({size for size, _ in points})
    assert [cycles for _, cycles in points] == sorted({cycles for _, cycles in points}, reverse=True)
    odd = [size for size, _ in all_plain if size % 64][:5]
    assert odd, "some choices end within a line"
    for budget in sorted({size + d for size in [*odd, *(size for size, _ in points[:3])] for d in (-1, 0, 16)}):
        if budget < points[0][0]:
            with pytest.raises(BudgetError) as caught:
                prepared.compile(sram=budget, line_bytes=64)
            assert caught.value.floor_bytes == points[0][0]
            continue
        found = prepared.compile(sram=budget, line_bytes=64, optimise="fastest")
        pools = found.pools
        kept = [pools["arena"]] + ([pools["constants"]] if memory_mode == "Sram_Only" else [])
        assert found.sram_bytes == sum(-(-size // 64) * 64 for size in kept) <= budget
        assert found.cycles <= [cycles for size, cycles in points if size <= budget][-1]


def test_c_never_takes_more_than_a_budget_promises(tmp_path: Path) -> None:
    compiled = ethoscade.compile(TINY, sram=592)
    for write in (compiled.write_c, compiled.write_mlf):
        with pytest.raises(CodegenError, match=r"whole cache lines, 608 bytes, and its budget is 592.*line_bytes=32"):
            write(tmp_path / "o")
    assert not (tmp_path / "o").exists()
    assert ethoscade.compile(TINY, sram=608, line_bytes=32).write_c(tmp_path / "o")
    assert ethoscade.compile(TINY).write_c(tmp_path / "o"), "without a budget nothing is promised"
    many = ethoscade.compile_many({"a": TINY}, sram=623).networks["a"]
    assert many.sram_bytes == many.workspace_bytes == 608
    assert ethoscade.compile_many({"a": TINY}, sram=607).networks["a"].sram_bytes == 512


@pytest.mark.parametrize("line", [0, 8, 24, -16, 8192])
def test_lines_that_there_are_not(line: int) -> None:
    with pytest.raises(ConfigError, match=f"line_bytes is {line}; it must be a power of two, 16 to 4096"):
        ethoscade.compile(TINY, line_bytes=line)


def test_several_models_on_the_command_line(tmp_path: Path, capfd: Capture) -> None:
    models = [written(tmp_path / "first.tflite", TINY), written(tmp_path / "second.tflite", tiny_conv(seed=1))]
    words = ["compile", *models, "-o", tmp_path / "o", "--sram", "8KiB", "--emit", "tflite,c,mlf", "--share-workspace"]
    found = run_json(words, capfd)
    assert list(found["networks"]) == ["first", "second"]
    many = ethoscade.compile_many(models, sram="8KiB")
    assert found["workspace_bytes"] == many.workspace_bytes
    assert found["networks"]["second"]["sram_bytes"] == many.networks["second"].sram_bytes
    written_files = many.write_c(tmp_path / "again", share_workspace=True)
    for name in written_files:
        assert (tmp_path / "o" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    assert (tmp_path / "o" / "second_ethosu.tflite").read_bytes() == tflite.write(many.networks["second"].artifact)
    assert set(found["artifacts"]) == {"c", "mlf", "tflite of first", "tflite of second"}
    checked = subprocess.run(["sha256sum", "-c", "networks.sha256"], cwd=tmp_path / "o", capture_output=True, text=True)
    assert checked.returncode == 0 and len(checked.stdout.splitlines()) == len(list((tmp_path / "o").iterdir())) - 1
    status, text, _ = run(words, capfd)
    assert status == 0 and f"one arena for all of them: {many.workspace_bytes:,} bytes" in text


def test_several_models_that_cannot_be_told_apart(tmp_path: Path, capfd: Capture) -> None:
    models = [written(tmp_path / "a-b.tflite", TINY), written(tmp_path / "A_b.tflite", TINY)]
    status, _, err = run(["compile", *models, "-o", tmp_path / "o", "--emit", "c"], capfd)
    assert status == 1 and "two models would be called 'a_b'" in err
    status, _, err = run(["compile", *models, "--emit", "c", "--module-name", "net"], capfd)
    assert status == 1 and "--module-name is for one model" in err
    with pytest.raises(ConfigError, match="no models"):
        ethoscade.compile_many([])
    artifact = ethoscade.compile(TINY).artifact
    with pytest.raises(CodegenError, match="would both be called 'net' in C"):
        c_source.all_contents([(artifact, COptions(module_name="net"))] * 2)


@pytest.mark.parametrize("weights", ["array", "incbin"])
def test_a_tflite_file_that_is_linked(tmp_path: Path, weights: str) -> None:
    compiled = ethoscade.compile(TINY)
    files = compiled.write_tflite_c(tmp_path, module_name="tiny", weights=weights)
    expected = tflite.write(compiled.artifact)
    (tmp_path / "main.c").write_text(
        '#include "model_tiny.h"\n#include <stdio.h>\nint main(void) { if ((uintptr_t)model_tiny % 16) return 1;\n'
        "  return fwrite(model_tiny, 1, MODEL_TINY_SIZE, stdout) == MODEL_TINY_SIZE ? 0 : 2; }\n"
    )
    units = [str(path) for path in (*files.values(), tmp_path / "main.c") if path.suffix in (".c", ".S")]
    done = subprocess.run(
        ["cc", *STRICT, f"-I{tmp_path}", *units, "-o", str(tmp_path / "main")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    ran = subprocess.run([str(tmp_path / "main")], capture_output=True, check=True)
    assert ran.stdout == expected
    assert ("model_tiny.S" in files) == (weights == "incbin")


def test_a_tflite_file_to_link_from_the_command_line(model: str, tmp_path: Path, capfd: Capture) -> None:
    found = run_json(["compile", model, "-o", tmp_path / "o", "--emit", "tflite-c", "--module-name", "net"], capfd)
    assert found["artifacts"] == {"tflite-c": str(tmp_path / "o" / "model_net.h")}
    assert {path.name for path in (tmp_path / "o").iterdir()} == {"model_net.h", "model_net.c", "Tiny Net.sha256"}
