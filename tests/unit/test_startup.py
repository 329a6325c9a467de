"""What a process imports before it is asked for anything, and what commands import: by `sys.modules` of a child."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import ethoscade
import pytest
from ethoscade.testing import tiny_conv

SLOW = {"numpy", "tflite", "flatbuffers", "ethosu", "ai_edge_litert", "matplotlib", "argparse"}
REPORT = "\nimport json, sys\nprint('MODULES' + json.dumps(sorted(sys.modules)))"


def loaded(code: str) -> set[str]:
    """The modules that a new interpreter has imported once it has run `code`."""
    done = subprocess.run([sys.executable, "-c", code + REPORT], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.partition("MODULES")[2]))


def of_command(*arguments: str) -> set[str]:
    """The modules that a command has imported when it ends."""
    command = f"from ethoscade.__main__ import main\ntry:\n    main({arguments!r})\nexcept SystemExit:\n    pass"
    return loaded(command)


def libraries(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def own(modules: set[str]) -> set[str]:
    return {name for name in modules if name.startswith("ethoscade")}


def test_importing_the_package_imports_no_compiler() -> None:
    modules = loaded("import ethoscade")
    assert not libraries(modules) & SLOW
    assert own(modules) == {"ethoscade", "ethoscade._core", "ethoscade.errors"}


def test_these_tests_see_what_is_imported() -> None:
    assert {"numpy", "tflite", "flatbuffers"} <= libraries(loaded("import ethoscade; ethoscade.compile"))


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("comple",)])
def test_words_about_the_command_line_wait_for_no_compiler(arguments: Sequence[str]) -> None:
    assert not libraries(of_command(*arguments)) & SLOW - {"argparse"}


def test_compiling_imports_no_judge_and_no_picture(tmp_path: Path) -> None:
    model = tmp_path / "net.tflite"
    model.write_bytes(tiny_conv())
    modules = of_command("compile", str(model), "-o", str(tmp_path / "out"))
    assert (tmp_path / "out" / "net_ethosu.tflite").is_file()
    assert not libraries(modules) & {"ai_edge_litert", "matplotlib"}
    assert "tflite.Model" in modules and "tflite" not in modules
    # Timing is what the report says of cycles and bytes; whatever plays a network is not wanted.
    players = [f"run.{name}" for name in ("simulator", "execution", "judgement", "host_c", "cpu_operators", "inputs")]
    unwanted = ("judge", *players, "testing", "memory", "report.plot", "codegen.c_source")
    rooms = {f"ethoscade.{room}" for room in unwanted}
    assert not {name for name in own(modules) if any(f"{name}.".startswith(f"{room}.") for room in rooms)}


def test_every_public_name_is_there() -> None:
    assert set(ethoscade.__all__) <= set(dir(ethoscade))
    names = "{" + ", ".join(f"'{name}': ethoscade.{name}.__module__" for name in ("compile", "Curve", "simulate")) + "}"
    done = subprocess.run(
        [sys.executable, "-c", f"import ethoscade; print({names})\nfrom ethoscade import *\nprint(plan, Compiled)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (
        "ethoscade.pipeline.prepared" in done.stdout and "class 'ethoscade.pipeline.compiled.Compiled'" in done.stdout
    )
    for name in ethoscade.__all__:
        assert getattr(ethoscade, name) is getattr(ethoscade, name)


def test_modules_are_found_by_their_names_and_others_are_not() -> None:
    code = "import ethoscade; assert ethoscade.memory.plan and not hasattr(ethoscade, 'complie')"
    assert "ethoscade.memory" in loaded(code)
    with pytest.raises(AttributeError, match="module 'ethoscade' has no attribute 'complie'"):
        ethoscade.complie  # type: ignore[attr-defined]  # noqa: B018


SAME_NAMES = """
import inspect
{}
homes = [name for name in vars(tflite) if name[0].isupper() and name in schema._modules()]
for home in homes:
    for name, found in vars(schema.module(home)).items():
        if name.startswith(home) and (inspect.isclass(found) or inspect.isfunction(found)):
            assert getattr(schema, name) is found is getattr(tflite, name), name
assert len(homes) > 150 and schema.OperatorStart and not hasattr(schema, "Nothing")
"""


@pytest.mark.parametrize("first", ["schema", "tflite"])
def test_the_schema_has_the_names_of_its_package_whoever_is_first(first: str) -> None:
    orders = {
        "schema": "from ethoscade import schema; schema.Model, schema.Conv2DOptions; import tflite",
        "tflite": "import tflite; from ethoscade import schema",
    }
    assert "tflite" in loaded(SAME_NAMES.format(orders[first]))


def test_a_package_that_is_no_folder_is_asked_itself() -> None:
    """As where all is packed into one file."""
    code = "from ethoscade import schema; schema._folder = lambda: ['/nowhere']; schema.Model, schema.OperatorStart"
    assert "tflite" in loaded(code)
