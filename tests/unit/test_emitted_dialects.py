"""The emitted C in every dialect that firmware is built in, C++17 among them, and with whatever names tensors have."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import ethoscade
import numpy as np
import pytest
import test_detection_kernel as detections
from codegen_support import cpu_artifact
from ethoscade.codegen import c_source
from ethoscade.codegen.artifact import Artifact
from ethoscade.codegen.c.names import identifier, tensor_identifiers
from ethoscade.codegen.c.options import COptions
from ethoscade.errors import CodegenError, UnsupportedOperatorError
from ethoscade.frontend import read_tflite
from ethoscade.judge.verification import random_inputs
from ethoscade.run import host_c
from ethoscade.testing import ModelBuilder, Value, random_network
from firmware_builds import STRICT
from test_cmsis_nn import INCLUDED, compiled_for
from test_cmsis_nn import network as for_the_library
from test_firmware import CHOICES, EXTERNAL, NETWORKS, artifact_of, expected_of, same, steps_of

# -Wmissing-prototypes is for C; Clang's -Wdouble-promotion finds what GCC's does not.
_WARNINGS = (*(flag for flag in STRICT if flag not in ("-std=c99", "-Wmissing-prototypes")), "-Wdouble-promotion")
_M55 = ("-mcpu=cortex-m55", "-mthumb")
DIALECTS = {
    **{f"gcc_{std}": ("gcc", f"-std={std}") for std in ("c99", "c11", "gnu17")},
    **{f"clang_{std}": ("clang", f"-std={std}") for std in ("c99", "c17")},
    "g++_c++17": ("g++", "-std=c++17"),
    "clang++_gnu++17": ("clang++", "-std=gnu++17"),
    "m55_c99": ("arm-none-eabi-gcc", *_M55, "-std=c99"),
    "m55_gnu++17": ("arm-none-eabi-g++", *_M55, "-std=gnu++17"),
}
STANDARD_HEADERS = [
    "assert",
    "complex",
    "ctype",
    "errno",
    "fenv",
    "float",
    "inttypes",
    "iso646",
    "limits",
    "locale",
    "math",
    "setjmp",
    "signal",
    "stdalign",
    "stdarg",
    "stdatomic",
    "stdbool",
    "stddef",
    "stdint",
    "stdio",
    "stdlib",
    "stdnoreturn",
    "string",
    "tgmath",
    "threads",
    "time",
    "uchar",
    "wchar",
    "wctype",
]
"""Of C17, 7.1.2."""


def command_of(dialect: str) -> list[str]:
    """The words that compile C of that dialect, a file of C as C++ where that is one."""
    words = DIALECTS[dialect]
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    return [*words, "-x", "c++" if "++" in words[0] else "c"]


def check(dialect: str, units: Sequence[Path], *more: str) -> None:
    """The units, with all warnings as errors. Each finds its header in its own folder."""
    words = [
        *command_of(dialect),
        *_WARNINGS,
        "-DETHOSCADE_ETHOSU_ASYNC=1",
        INCLUDED,
        *more,
    ]
    strict = words if "++" in words[0] else [*words, "-Wmissing-prototypes"]
    done = subprocess.run([*strict, "-fsyntax-only", *map(str, units)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[:4000]


def written(artifact: Artifact, folder: Path, options: COptions) -> list[Path]:
    return [path for path in c_source.write(artifact, folder, options).values() if path.suffix == ".c"]


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Small networks, a library's calls of both types, detections, and drawn operators on the CPU."""
    folder = tmp_path_factory.mktemp("networks")
    units = [
        unit
        for name in NETWORKS
        for choice in ("internal", "pools_io")
        for unit in written(artifact_of(name), folder / f"{name}_{choice}", CHOICES[choice])
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(detections.detection, "options", lambda *_: detections.OPTIONS)
        units += written(detections.artifact(detections.network()), folder / "detections", COptions())
    units += written(artifact_of("state"), folder / "steps", COptions(executor="graph"))
    units += written(artifact_of(EXTERNAL), folder / EXTERNAL, CHOICES["pools"])
    units += written(compiled_for(for_the_library()).artifact, folder / "library", COptions(executor="graph"))
    seen: set[str] = set()
    for seed in range(200):
        artifact = cpu_artifact(random_network(seed, floats=True), f"random_{seed}")
        try:
            texts = c_source.sources(artifact)
        except UnsupportedOperatorError:
            continue
        text = texts.get(f"random_{seed}_lib2.c", "")
        guards = {line for line in text.splitlines() if line.startswith("#ifndef ETHOSCADE_KERNEL_")}
        if guards - seen:
            seen |= guards
            units += [unit for unit in written(artifact, folder / f"random_{seed}", COptions()) if "_lib2" in unit.name]
    return units


@pytest.mark.parametrize("dialect", DIALECTS)
def test_sources_are_of_every_dialect(networks: list[Path], dialect: str) -> None:
    assert len(networks) > 50 and any("conv_2d" in path.read_text() for path in networks)
    check(dialect, networks)


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("name", ["with_cpu", "cpu_only", "state"])
def test_sources_run_as_cpp(name: str, compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linked as well: what one file defines and another declares has one name, constants too."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    monkeypatch.setenv("CC", compiler)
    monkeypatch.setattr(host_c, "FLAGS", ["-std=c++17" if flag == "-std=c99" else flag for flag in host_c.FLAGS])
    with host_c.HostLibrary(artifact_of(name), extra_flags=("-x", "c++")) as library:
        found = [list(run.outputs.values()) for run in library.run_steps(steps_of(name))]
    assert same(found, expected_of(name))


# --- names ------------------------------------------------------------------------------------------------------------

# C23 6.4.1, C++23 [lex.key] and [lex.digraph], GNU's asm and typeof.
KEYWORDS = [
    "alignas",
    "alignof",
    "asm",
    "auto",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "char16_t",
    "char32_t",
    "char8_t",
    "class",
    "co_await",
    "co_return",
    "co_yield",
    "concept",
    "const",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "continue",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "nullptr",
    "operator",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "template",
    "this",
    "thread_local",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "typeof",
    "typeof_unqual",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
    "and",
    "and_eq",
    "bitand",
    "bitor",
    "compl",
    "not",
    "not_eq",
    "or",
    "or_eq",
    "xor",
    "xor_eq",
    "_Alignas",
    "_Alignof",
    "_Atomic",
    "_BitInt",
    "_Bool",
    "_Complex",
    "_Decimal32",
    "_Float16",
    "_Generic",
    "_Imaginary",
    "_Noreturn",
    "_Static_assert",
    "_Thread_local",
    "__asm__",
    "__attribute__",
    "__inline",
    "__restrict",
    "__typeof__",
]
TEXTS = (
    "", "_", "__", "1x", "a/b:0", "*/ #error", "/* //", "??/", "\\", "\\\n#error", '"quote', "é", "x" * 300,
    "workspace", "Fast", "weights_constant_pool", "fast_workspace_pool", "arena_workspace_pool", "unused",
    "__GNUC_", "__linux_", "TVMGEN_NET_H", "inputs", "outputs", "arena", "status", "places", "tensors", "NULL_x",
)  # fmt: skip


def macros(dialect: str, text: str, *more: str) -> set[str]:
    """Names of macros without parameters, as the compiler has them behind `text`."""
    command = [*command_of(dialect), *more, "-E", "-dM", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    lines = (line.split(" ")[1] for line in done.stdout.splitlines() if line.startswith("#define "))
    return {name for name in lines if "(" not in name}


def network_of(names: Sequence[str]) -> Artifact:
    """Inputs and outputs of these names by turns; of two that would be one the first."""
    kept: dict[str, str] = {}
    for name in names:
        kept.setdefault(identifier(name).upper(), name)
    b = ModelBuilder("net")
    values: list[Value] = [b.input((1, 4), name="x0")]
    outputs = []
    for place, name in enumerate(kept.values()):
        if place % 2:
            outputs.append(b.softmax(values[-1], name=name))
        else:
            values.append(b.input((1, 4), name=name))
    b.output(*outputs)
    artifact = cpu_artifact(b.build(), "net")
    # A name that a builder takes for none.
    tensors = tuple(replace(t, name="" if t.name == "input0" else t.name) for t in artifact.graph.tensors)
    return replace(artifact, graph=replace(artifact.graph, tensors=tensors))


def headers_of(dialect: str) -> list[str]:
    """Those of the standard headers that this dialect has, as lines.

    A compiler without a library of C++ finds C's <stdatomic.h>, which is no C++.
    """

    def compiles(line: str) -> bool:
        words = [*command_of(dialect), "-fsyntax-only", "-"]
        return subprocess.run(words, input=line, capture_output=True, text=True, check=False).returncode == 0

    return [line for line in (f"#include <{name}.h>\n" for name in STANDARD_HEADERS) if compiles(line)]


def drawn(dialect: str, folder: Path) -> Iterator[list[str]]:
    """Names of networks: all macros of C's headers and of our own; keywords and odd texts; some of what C reserves."""
    c_source.write(cpu_artifact(for_the_library(), "net"), folder, COptions(workspace="pools"))
    own = macros(dialect, '#include "tvmgen_net.h"\n', f"-I{folder}")
    theirs = own.union(*(macros(dialect, line) for line in headers_of(dialect)))
    open_ones = sorted(name for name in theirs if not name.startswith("_"))
    assert "EOF" in open_ones and "INT8_MAX" in open_ones and "TVMGEN_NET_CALLS" in own
    reserved = sorted(theirs - set(open_ones))
    rng = np.random.Generator(np.random.PCG64(len(reserved)))
    some = [str(name) for name in rng.choice(reserved, 300, replace=False)]
    # A letter less, which a letter more might turn into the macro.
    letters = "".join(rng.choice([*"aZ_09/:-*\\\"' é\n?"], 8 * 60))
    yield [*open_ones, *(name[:-1] for name in some), *KEYWORDS, *TEXTS]
    yield [*some, *(letters[8 * i : 8 * i + 8] for i in range(60))]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tensors_may_have_any_name(tmp_path: Path, dialect: str) -> None:
    """Behind every header of C, as a firmware's file may include them ahead of ours."""
    (tmp_path / "all.h").write_text("".join(headers_of(dialect)))
    for number, names in enumerate(drawn(dialect, tmp_path / "first")):
        artifact = network_of(names)
        folder = tmp_path / str(number)
        units = written(artifact, folder, replace(CHOICES[("internal", "pools_io")[number]], module_name="net"))
        check(dialect, [path for path in units if "_lib0" in path.name or "_lib3" in path.name])
        (folder / "firmware.c").write_text('#include "all.h"\n#include "tvmgen_net.h"\n')
        check(dialect, [folder / "firmware.c"], f"-I{tmp_path}", "-Wno-deprecated", "-Wno-cpp")


def test_names_that_are_nobodys_stay() -> None:
    for name in ("input", "INPUT", "X", "serving_default_x", "logits_2", "Identity", "_x", "a__b", "isnan", "errors"):
        assert identifier(name) == name
    assert [identifier(name) for name in ("default", "NULL", "linux", "fast", "__linux__", "_Static_assert")] == [
        *("default_", "NULL_", "linux_", "fast_", "tensor__linux__", "tensor_Static_assert")
    ]
    with pytest.raises(CodegenError, match="'NULL' and 'NULL_'"):
        tensor_identifiers({0: "NULL", 1: "NULL_"})


def test_a_network_runs_whatever_its_tensors_are_called() -> None:
    b = ModelBuilder("net")
    x = b.input((1, 4), name="__linux__")
    b.output(b.softmax(x, name="NULL"), b.softmax(b.input((1, 4), name="SIZE_MAX"), name="_Static_assert"))
    compiled = ethoscade.compile(b.build(), accelerator="none")
    found = host_c.run(compiled.artifact, random_inputs(read_tflite(b.build()), 1))
    assert set(found.outputs) == {"NULL", "_Static_assert"}
