"""What a process imports before it is asked for anything, and what commands import: by `sys.modules` of a child."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
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
    assert not libraries(modules) & {"ai_edge_litert", "matplotlib", "hashlib", "tomllib", "tomli", "email"}
    assert "tflite.Model" in modules and "tflite" not in modules
    # Of Vela what makes commands, without the tables of its front ends.
    assert "ethosu.vela.register_command_stream_generator" in modules
    assert not {name for name in modules if name.startswith(("ethosu.vela.tflite_", "ethosu.vela.tosa"))}
    # Of the timing the sums are told, not each command's; whatever plays a network is not wanted.
    players = ["simulator", "timing", "execution", "judgement", "host_c", "cpu_operators", "inputs"]
    asked_for = ("memory", "page", "analysis.addresses", "report.tables", "report.plot")
    unwanted = (
        "judge",
        *(f"run.{name}" for name in players),
        "testing",
        *asked_for,
        "targets.boards",
        "targets.devices",
        "codegen.c_source",
        "codegen.c_kernels",
    )
    rooms = {f"ethoscade.{room}" for room in unwanted}
    assert all(map(find_spec, rooms))
    assert not {name for name in own(modules) if any(f"{name}.".startswith(f"{room}.") for room in rooms)}


def test_an_operator_brings_its_family_and_no_other(tmp_path: Path) -> None:
    model, out = tmp_path / "net.tflite", str(tmp_path / "out")
    model.write_bytes(tiny_conv())
    modules = of_command("compile", str(model), "-o", out)
    assert "ethoscade.lowering.convolution" in modules
    others = ("batch_matmul", "lookup", "padding", "recurrent", "resize", "softmax", "split", "svdf", "transpose_conv")
    assert not {f"ethoscade.lowering.{name}" for name in others} & modules
    # On a CPU alone nothing is lowered; kernels come with the C.
    modules = of_command("compile", str(model), "--accelerator", "none", "--emit", "c", "-o", out)
    assert "ethoscade.codegen.c_kernels.weighted" in modules
    assert not libraries(modules) & {"ethosu"}


ENDS = """
import atexit, gc, sys
atexit.register(lambda: print("frozen", gc.get_freeze_count() > 0))
sys.argv = ["ethoscade", "--version"]
from ethoscade import __main__
"""


def test_a_process_of_ours_ends_without_a_look_for_garbage() -> None:
    for ending, frozen in (("program()", True), ("main()", False), ("main(['--version'])", False)):
        command = [sys.executable, "-c", f"{ENDS}__main__.{ending}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == [f"ethoscade {ethoscade.__version__}", f"frozen {frozen}"]


THREADS = """
import atexit, os, sys
atexit.register(lambda: print(os.environ["OPENBLAS_NUM_THREADS"]))
sys.argv = ["ethoscade", "--version"]
from ethoscade import __main__
__main__.program()
"""


def test_a_process_of_ours_starts_no_threads_for_matrices_unless_told_to() -> None:
    unset = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    for told, threads in (({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3")):
        command = [sys.executable, "-c", THREADS]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=unset | told)
        assert done.stdout.splitlines()[-1] == threads


VELA_OF_OTHERS = """
import sys
from ethoscade.codegen import vela, vela_modules
vela._prepare("ethos-u55-256")
assert not {name for name in sys.modules if isinstance(sys.modules[name], vela_modules._Later)}
import importlib.metadata
import ethosu.vela
from ethosu.vela import _version, architecture_features as features
from ethosu.vela.tflite_mapping import optype_to_builtintype
from ethosu.vela.operation import Op
assert ethosu.vela.__version__ == _version.__version__ == importlib.metadata.version("ethos-u-vela")
described = features.create_default_arch(features.Accelerator.Ethos_U65_512)
assert type(described.tflite_supported_operators).__module__ == "ethosu.vela.tflite_supported_operators"
assert optype_to_builtintype(Op.Conv2DBias) == "CONV_2D" and _version.__file__
"""


def test_others_find_all_of_vela_afterwards() -> None:
    assert "ethosu.vela.tosa_mapping" in loaded(VELA_OF_OTHERS)


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


def test_modules_keep_the_names_by_which_users_know_them() -> None:
    """The names stand in pages and in the site's reference; where the modules lie is ours to change."""
    for module, name in (
        ("cpus", "CpuDescription"),
        ("devices", "matrix_npu"),
        ("memory", "plan"),
        ("simulator", "library"),
        ("target", "load_target"),
        ("testing", "tiny_conv"),
    ):
        loaded(f"import ethoscade; ethoscade.{module}.{name}")
        loaded(f"from ethoscade import {module}; {module}.{name}")


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
        "schema": "from ethoscade.ir import schema; schema.Model, schema.Conv2DOptions; import tflite",
        "tflite": "import tflite; from ethoscade.ir import schema",
    }
    assert "tflite" in loaded(SAME_NAMES.format(orders[first]))


def test_a_package_that_is_no_folder_is_asked_itself() -> None:
    """As where all is packed into one file."""
    code = "from ethoscade.ir import schema; schema._folder = lambda: ['/nowhere']; schema.Model, schema.OperatorStart"
    assert "tflite" in loaded(code)
