"""Functions of a user's in the place of our C kernels: what they are given, where they work, and bad tables."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from ethoscade.codegen.c_kernels import kernel_text
from ethoscade.codegen.c_kernels.chosen import functions
from ethoscade.codegen.c_kernels.texts import source, with_used
from ethoscade.errors import ConfigError, VerificationError
from ethoscade.ir import DType
from ethoscade.pipeline.compiled import Compiled
from ethoscade.run import host_c
from ethoscade.testing import ModelBuilder
from test_codegen_c_kernels import WARNINGS

WORDS = {"TYPE": DType.INT8, "WEIGHT": DType.INT8, "SUM": "32"}


def network() -> bytes:
    b = ModelBuilder()
    x = b.conv2d(b.input((1, 9, 8, 3), name="x"), 8, 3)
    x = b.max_pool(b.conv2d(x, 8, 1))
    b.softmax(b.fully_connected(x, 5), name="y")
    return b.build()


def table(folder: Path, text: str) -> Path:
    path = folder / "kernels.ini"
    path.write_text(text)
    return path


def ours_as(name: str, file: str, function: str, body_first: str = "", more: str = "") -> str:
    """Our kernel as a user's C file: under another name, perhaps with a parameter more and something to do first."""
    *used, own = [kernel_text(one) for one in with_used(source(file, **WORDS))]
    head, body = own.replace(f"static void {function}(", f"void {name}(").split(")\n{\n", 1)
    signature = head[head.index(f"void {name}(") :]
    comment = head[: head.index(f"void {name}(")]
    own = f"{comment}{signature}{more});\n{signature}{more})\n{{\n{body_first}{body}"
    return "\n".join(["#include <stddef.h>", "#include <stdint.h>", "#include <string.h>", *used, own])


def outputs(compiled: Compiled, x: np.ndarray, *extra: str) -> np.ndarray:
    return host_c.run(compiled.artifact, {"x": x}, extra_flags=(*WARNINGS, *extra)).outputs["y"]


@pytest.mark.parametrize("accelerator", ["none", "ethos-u55-128"])
def test_a_function_of_ones_own_is_called(tmp_path: Path, accelerator: str) -> None:
    """It gets what ours would get, and bytes of its own that nobody else uses meanwhile."""
    model, kinds = network(), ("conv_2d_int8_32", "softmax_int8_int8")
    x = np.random.Generator(np.random.PCG64(1)).integers(-128, 128, (1, 9, 8, 3)).astype(np.int8)
    plain = ethoscade.compile(model, accelerator="none")
    chosen = table(
        tmp_path, f"[{kinds[0]}]\nfunction = mine\nworkspace_bytes = 1000\n[{kinds[1]}]\nfunction = 'other'\n"
    )
    mine = tmp_path / "mine.c"
    spoil = "    memset(workspace, 0xAA, 1000);\n"
    WORDS.update({"FROM": DType.INT8, "INTO": DType.INT8})
    texts = [ours_as("mine", "conv_2d.c", kinds[0], spoil, ", uint8_t* workspace")]
    mine.write_text(texts[0])
    other = tmp_path / "other.c"
    other.write_text(ours_as("other", "softmax.c", kinds[1]))
    compiled = ethoscade.compile(model, accelerator=accelerator, kernels=chosen)
    text = "".join(path.read_text() for name, path in compiled.write_c(tmp_path / "c").items() if name.endswith("2.c"))
    if accelerator == "none":
        assert text.count("mine(") == 3 and "conv_2d_int8_32(" not in text and "static void conv_2d" not in text
        assert plain.sram_bytes + 1000 <= compiled.sram_bytes <= plain.sram_bytes + 1024
        with pytest.raises(VerificationError, match="'mine', 'other'"):
            compiled.verify()
        with pytest.raises(VerificationError, match="mine"):
            outputs(compiled, x)
    else:
        assert text == "" and compiled.sram_bytes == ethoscade.compile(model, accelerator=accelerator).sram_bytes
    expected = outputs(plain, x)
    np.testing.assert_array_equal(outputs(compiled, x, str(mine), str(other)), expected)


def test_a_border_that_works_somewhere_is_not_laid_over_its_input(tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.quantize(b.input((1, 8, 8, 4), dtype=DType.FLOAT32, name="x"))
    b.max_pool(x, name="y")
    model = b.build()
    chosen = table(tmp_path, "[quantise_int8]\nfunction = mine\nworkspace_bytes = 64\n")
    lean = ethoscade.compile(model, accelerator="none")
    compiled = ethoscade.compile(model, accelerator="none", kernels=chosen)
    assert lean.sram_bytes == 1024 and compiled.sram_bytes == 1024 + 256 + 64
    call = next(call for call in compiled.artifact.calls)
    assert (call.workspace_bytes, compiled.artifact.graph.operators[call.operator].kind) == (64, "QUANTIZE")


def test_prepared_models_keep_their_table(tmp_path: Path) -> None:
    chosen = table(tmp_path, "[conv_2d_int8_32]\nfunction = mine\nworkspace_bytes = 32\n")
    prepared = ethoscade.prepare(network(), accelerator="none", kernels=chosen)
    again = pickle.loads(pickle.dumps(prepared))
    assert again.compile().artifact.kernels == prepared.compile().artifact.kernels
    assert again.compile().sram_bytes == ethoscade.compile(network(), accelerator="none", kernels=chosen).sram_bytes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[conv_2d_int8]\nfunction = f", "'conv_2d_int8' is no function .* conv_2d_TYPE_SUM"),
        ("[add_int4_int4]\nfunction = f", "'add_int4_int4' is no function"),
        ("[move_box]\nfunktion = f", "entry 'funktion'; there are function, workspace_bytes"),
        ("[move_box]", "function of 'move_box' is ''"),
        ("[move_box]\nfunction = two words", "'two words'; it must be a name that C allows"),
        ("[move_box]\nfunction = while", "'while'"),
        ("[move_box]\nfunction = f\nworkspace_bytes = -4", "'-4'; it must be a whole number of 0 to 2147483647"),
        ("function = f", "is not a table of kernels"),
        ("[move_box]\nfunction = f\n[move_box]\nfunction = g", "is not a table of kernels"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ethoscade.compile(network(), accelerator="none", kernels=table(tmp_path, text))


def test_every_function_that_is_called_can_be_replaced() -> None:
    """Whatever a kernel calls is in the list that users are shown, by its name with types filled in."""
    from ethoscade.codegen.c_kernels import _Noted, kernel_for
    from ethoscade.errors import UnsupportedOperatorError
    from ethoscade.frontend import read_tflite
    from test_codegen_c_kernels import drawn_models

    called = set()
    for model in drawn_models():
        graph = read_tflite(model)
        for op in graph.operators:
            try:
                written = kernel_for(graph, op).write(graph, op, _Noted())
            except UnsupportedOperatorError:
                continue
            if written.function:
                called.add(written.function)
                assert f"{written.function}(" in written.text
    patterns = functions()
    assert all(any(re.fullmatch(pattern, name) for pattern in patterns.values()) for name in called)
    unused = {name for name, pattern in patterns.items() if not any(re.fullmatch(pattern, one) for one in called)}
    assert all(name.startswith(("real", "words", "square_root", "detection_float32")) for name in unused), unused
