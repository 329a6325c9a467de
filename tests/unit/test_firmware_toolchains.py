"""The emitted C under the compilers and linkers that firmware is built with, each skipped where it is not installed."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import ethoscade
import pytest
from doc_examples import ROOT, blocks
from ethoscade.codegen import c_source
from ethoscade.codegen.artifact import Artifact
from ethoscade.codegen.c.options import COptions
from ethoscade.ir import Quantisation
from ethoscade.testing import ModelBuilder, tiny_conv
from firmware_builds import FIRMWARE, STRICT, Driver
from test_firmware import CHOICES, EXTERNAL, NETWORKS, artifact_of

COMPILERS = {
    "gcc": ["gcc"],
    "clang": ["clang"],
    "m55": ["arm-none-eabi-gcc", "-mcpu=cortex-m55", "-mthumb"],
    "m33": ["arm-none-eabi-gcc", "-mcpu=cortex-m33", "-mthumb"],
}


def command(name: str) -> list[str]:
    if shutil.which(COMPILERS[name][0]) is None:
        pytest.skip(f"{COMPILERS[name][0]} is not installed")
    return COMPILERS[name]


def called(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_no_compiler_has_a_word_to_say(tmp_path: Path, compiler: str, choice: str) -> None:
    words = command(compiler)
    units: list[Path] = []
    for name in NETWORKS if CHOICES[choice].workspace_io else (*NETWORKS, EXTERNAL):
        files = c_source.write(artifact_of(name), tmp_path / name, CHOICES[choice])
        units += [path for path in files.values() if path.suffix in (".c", ".S")]
    for path in units:
        done = called(
            *words, *STRICT, "-DETHOSCADE_ETHOSU_ASYNC=1", f"-I{path.parent}", "-c", path, "-o", tmp_path / "o"
        )
        assert done.returncode == 0 and not done.stderr, done.stderr


def test_headers_are_cpp_as_well(tmp_path: Path) -> None:
    if shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler")
    names = {f"{name}_{choice}": (name, choice) for name in NETWORKS for choice in CHOICES}
    for module, (name, choice) in names.items():
        c_source.write(artifact_of(name), tmp_path, replace(CHOICES[choice], module_name=module))
    text = "".join(f'#include "tvmgen_{module}.h"\n' for module in names)
    (tmp_path / "all.cpp").write_text(f"#define ETHOSCADE_ETHOSU_ASYNC 1\n{text}")
    done = called("c++", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", tmp_path / "all.cpp")
    assert done.returncode == 0, done.stderr


# --- who made it ----------------------------------------------------------------------------------------------------


def test_macros_say_who_made_it_and_can_be_tested(tmp_path: Path) -> None:
    model = tiny_conv()
    compiled = ethoscade.compile(model, accelerator="ethos-u55-128", memory_mode="Sram_Only")
    compiled.write_c(tmp_path, module_name="net")
    digest = hashlib.sha256(model).hexdigest()
    (tmp_path / "firmware.c").write_text(f"""
#include "tvmgen_net.h"
#if TVMGEN_NET_NPU != 55 || TVMGEN_NET_NPU_MACS != 128 || TVMGEN_NET_MODEL_ID != 0x{digest[:8]}
#error npu
#endif
#if !TVMGEN_NET_MEMORY_MODE_SRAM_ONLY || defined(TVMGEN_NET_MEMORY_MODE_SHARED_SRAM)
#error mode
#endif
#if !TVMGEN_NET_SYSTEM_CONFIG_ETHOS_U55_HIGH_END_EMBEDDED || TVMGEN_NET_COMPILER_VERSION_NUMBER < 100
#error system
#endif
const char* const told[] = {{TVMGEN_NET_COMPILER_VERSION, TVMGEN_NET_ACCELERATOR, TVMGEN_NET_SYSTEM_CONFIG,
  TVMGEN_NET_MEMORY_MODE, TVMGEN_NET_MODEL_SHA256, TVMGEN_NET_SPDX_LICENSE}};
""")
    done = called("cc", "-std=c99", "-S", tmp_path / "firmware.c", "-o", tmp_path / "s")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "s").read_text()
    for word in (
        ethoscade.__version__,
        "ethos-u55-128",
        "Ethos_U55_High_End_Embedded",
        "Sram_Only",
        digest,
        "Apache-2.0",
    ):
        assert f'"{word}"' in text
    for path in tmp_path.glob("net_*.c"):
        head = path.read_text()[:500]
        assert digest in head and ethoscade.__version__ in head
        assert ("SPDX-License-Identifier: Apache-2.0" in head) == (path.name != "net_lib1.c"), "data are the model's"


# --- sections and linkers -------------------------------------------------------------------------------------------

_SCRIPT = """
MEMORY
{
  CODE (rx) : ORIGIN = 0x00000000, LENGTH = 512K
  DTCM (rw) : ORIGIN = 0x20000000, LENGTH = 128K
  SRAM (rw) : ORIGIN = 0x21000000, LENGTH = 2M
  FLASH (rx) : ORIGIN = 0x38000000, LENGTH = 4M
}
REGION_ALIAS("ETHOSCADE_MODEL", FLASH)
REGION_ALIAS("ETHOSCADE_ARENA", SRAM)
SECTIONS
{
  .text : { *(.text .text.*) } > CODE
  INCLUDE ethoscade.ld
  .rodata : { *(.rodata .rodata.*) } > CODE
  .data : { *(.data .data.*) } > DTCM
  .bss (NOLOAD) : { *(.bss .bss.*) } > DTCM
}
"""
_MAIN = """
#include "tvmgen_net.h"
struct ethosu_driver* ethosu_reserve_driver(void) { return 0; }
void ethosu_release_driver(struct ethosu_driver* drv) { (void)drv; }
int ethosu_invoke_v3(struct ethosu_driver* drv, const void* data, const int size, uint64_t* const bases,
                     const size_t* sizes, const int count, void* arg);
int ethosu_invoke_v3(struct ethosu_driver* drv, const void* data, const int size, uint64_t* const bases,
                     const size_t* sizes, const int count, void* arg)
{ (void)drv; (void)data; (void)size; (void)bases; (void)sizes; (void)count; (void)arg; return 0; }
int32_t volatile result;
void _start(void) {
  static struct tvmgen_net_inputs in;
  static struct tvmgen_net_outputs out;
  result = tvmgen_net_run(&in, &out, 0);
  for (;;) {}
}
"""


def addresses(folder: Path, options: COptions, *flags: str) -> dict[str, int]:
    """Where the linker puts what the sources of a small network have, by symbol."""
    words = command("m55")
    files = c_source.write(artifact_of("conv"), folder, options)
    (folder / "firmware.ld").write_text(_SCRIPT)
    (folder / "main.c").write_text(_MAIN)
    units = [path for path in files.values() if path.suffix in (".c", ".S")]
    linked = [f"-I{folder}", f"-L{folder}", "-T", folder / "firmware.ld", "-o", folder / "fw.elf"]
    done = called(*words, *flags, "-O2", "-nostartfiles", "--specs=nosys.specs", *linked, *units, folder / "main.c")
    assert done.returncode == 0, done.stderr
    listed = called("arm-none-eabi-nm", folder / "fw.elf").stdout
    return {name: int(at, 16) for at, _, name in map(str.split, listed.splitlines()) if at != "U"}


@pytest.mark.parametrize("weights", ["array", "incbin"])
def test_the_linker_fragment_places_what_the_npu_sees(tmp_path: Path, weights: str) -> None:
    found = addresses(tmp_path, COptions(module_name="net", weights=weights))
    for name in ("tvmgen_net_weights", "tvmgen_net_payload_0"):
        assert found[name] >> 24 == 0x38 and found[name] % 32 == 0, name
    assert found["tvmgen_net_arena"] >> 24 == 0x21 and found["tvmgen_net_arena"] % 32 == 0
    assert found["result"] >> 24 == 0x20


@pytest.mark.parametrize("weights", ["array", "incbin"])
def test_each_kind_of_memory_has_a_section_of_its_own(tmp_path: Path, weights: str) -> None:
    flags = [
        '-DTVMGEN_NET_COMMANDS_SECTION=".data.commands"',
        '-DTVMGEN_NET_WEIGHTS_SECTION="ethos_model"',
        '-DTVMGEN_NET_ARENA_SECTION=".bss.here"',
    ]
    found = addresses(tmp_path, COptions(module_name="net", weights=weights), *flags)
    places = {name: found[f"tvmgen_net_{name}"] >> 24 for name in ("payload_0", "weights", "arena")}
    assert places == {"payload_0": 0x20, "weights": 0x38, "arena": 0x20}


@pytest.mark.parametrize("weights", ["array", "incbin"])
@pytest.mark.parametrize("line", [32, 128])
def test_weights_are_whole_lines_however_they_come(tmp_path: Path, weights: str, line: int) -> None:
    """Section, alignment and size of the object file's symbol, for weights that end within a line."""
    artifact = replace(artifact_of("conv"), constants=bytes(range(48)))
    files = c_source.write(artifact, tmp_path, COptions(module_name="net", weights=weights))
    unit = files["net_weights.S" if weights == "incbin" else "net_lib1.c"]
    flags = [f"-DTVMGEN_NET_CACHE_LINE_BYTES={line}", '-DTVMGEN_NET_WEIGHTS_SECTION="ethos_model"']
    done = called("cc", *flags, f"-I{tmp_path}", "-c", unit, "-o", tmp_path / "o")
    assert done.returncode == 0, done.stderr
    section = next(row for row in called("objdump", "-h", tmp_path / "o").stdout.splitlines() if "ethos_model" in row)
    assert section.split()[-1] == f"2**{line.bit_length() - 1}"
    symbol = next(row for row in called("nm", "-S", tmp_path / "o").stdout.splitlines() if "weights" in row)
    assert int(symbol.split()[1], 16) == -(-48 // line) * line


def test_cmake_builds_a_library_of_each_network(tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    many = ethoscade.compile_many({"a": tiny_conv(), "b": tiny_conv(seed=1)})
    many.write_c(tmp_path, share_workspace=True, weights="incbin")
    (tmp_path / "main.c").write_text('#include "tvmgen_a.h"\n#include "tvmgen_b.h"\n' + _DRIVER_AND_MAIN)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(fw C)\ninclude(a.cmake)\ninclude(b.cmake)\n"
        "include(tvmgen_shared_workspace.cmake)\nadd_executable(fw main.c)\n"
        "target_link_libraries(fw tvmgen_a tvmgen_b)\n"
    )
    for words in (["cmake", "-S", tmp_path, "-B", tmp_path / "build"], ["cmake", "--build", tmp_path / "build"]):
        done = called(*words)
        assert done.returncode == 0, done.stdout + done.stderr
    assert called(tmp_path / "build" / "fw").returncode == 7


_DRIVER_AND_MAIN = (
    _MAIN[_MAIN.index("struct ethosu_driver*") : _MAIN.index("int32_t volatile")]
    + "int main(void) { return tvmgen_a_run(0, 0, 0) == TVMGEN_A_POINTER_MISSING"
    " && tvmgen_b_run(0, 0, 0) == TVMGEN_B_POINTER_MISSING ? 7 : 1; }\n"
)


# --- the page -------------------------------------------------------------------------------------------------------


def kws() -> Artifact:
    """A network by the names that the page's examples use."""
    b = ModelBuilder("kws")
    x = b.input((1, 8, 8, 1), name="input", quantisation=Quantisation((0.5,), (0,)))
    b.conv2d(x, 4, 3, name="output")
    return ethoscade.compile(b.build()).artifact


def test_the_examples_of_the_page_compile(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "firmware.md").read_text(encoding="utf-8")
    examples = [block.text for block in blocks(page) if block.language == "c"]
    assert len(examples) >= 2
    artifact = kws()
    c_source.write(artifact, tmp_path, COptions(module_name="kws"))
    c_source.write(artifact, tmp_path, COptions(module_name="kws_pools", workspace="pools"))
    c_source.write(artifact, tmp_path, COptions(module_name="kws_steps", executor="graph"))
    for number, text in enumerate(examples):
        path = tmp_path / f"example{number}.c"
        path.write_text(text)
        flags = [flag for flag in STRICT if flag != "-Wmissing-prototypes"]
        driver = [f"-I{FIRMWARE}", *Driver().flags] if "<ethosu_driver.h>" in text else []
        done = called("cc", *flags, *driver, "-fsyntax-only", path)
        assert done.returncode == 0, done.stderr


def test_every_macro_of_the_page_is_in_the_sources(tmp_path: Path) -> None:
    """Names that users type: a page that promises another one is wrong."""
    page = (ROOT / "docs" / "firmware.md").read_text(encoding="utf-8")
    choices = [COptions(module_name="mod"), COptions(module_name="mod", workspace="pools", weights="incbin")]
    texts = "".join(
        text
        for a in map(artifact_of, NETWORKS)
        for options in choices
        for text in c_source.sources(a, options).values()
    )
    sharing = c_source.all_units([(artifact_of("conv"), COptions(module_name="a", shares_arena=True))])
    texts += "".join(data.decode() for data in sharing.values())
    promised = set(re.findall(r"\bTVMGEN_<MOD>(_[A-Z0-9_]+)|\b(ETHOSCADE_[A-Z_]+|TVMGEN_SHARED_[A-Z_]+)", page))
    for own, common in promised:
        name = f"TVMGEN_MOD{own}" if own else common
        assert name in texts or name in ("ETHOSCADE_MODEL", "ETHOSCADE_ARENA"), name
