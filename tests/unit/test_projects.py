"""Projects: made from templates, built, flashed, run and compared, by the command line as users have it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from board_support import need, read_all, several_calls
from command_line_support import Capture, run
from ethoscade.codegen.artifact import CpuCall, NpuCall
from ethoscade.codegen.c.options import COptions
from ethoscade.errors import ConfigError, ProjectError
from ethoscade.frontend import read_tflite
from ethoscade.judge.verification import random_inputs
from ethoscade.project import description, folder
from ethoscade.project.sections import sections_of
from ethoscade.project.templates import TEMPLATES
from ethoscade.run.simulator import driver_interface, library
from ethoscade.testing import keyword_spotting
from hazard_judge import BLOCKDEP, DMA_WAIT, KERNEL_WAIT, Command, commands_of, payload_with

MODEL = several_calls()
SMALL = ("--accelerator", "ethos-u55-64")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.tflite"
    path.write_bytes(MODEL)
    return path


def made(template: str, tmp_path: Path, capfd: Capture, *options: str) -> Path:
    """A project of that template, by the command line."""
    (tmp_path / "net.tflite").write_bytes(MODEL)
    target = tmp_path / "project"
    status, _, err = run(
        ["new", "--template", template, str(target), str(tmp_path / "net.tflite"), *SMALL, *options], capfd
    )
    assert (status, err) == (0, "")
    return target


def contents(target: Path) -> dict[str, bytes]:
    return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}


@pytest.mark.parametrize("template", sorted(TEMPLATES))
def test_the_same_model_gives_the_same_project(template: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        artifact = ethoscade.compile(MODEL, accelerator="ethos-u55-64").artifact
        folder.make(TEMPLATES[template], tmp_path / name, artifact, COptions())
    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    assert one == two
    assert one[description.MODEL] == MODEL
    assert not [
        name for name, data in one.items() if b"@" in data.replace(b"@ ", b"") and name.endswith((".txt", ".yml"))
    ]
    assert b"# " in one["README.md"][:2]


@pytest.fixture(scope="module")
def on_host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project on this machine that has been built."""
    need(TEMPLATES["host"])
    target = tmp_path_factory.mktemp("host") / "project"
    artifact = ethoscade.compile(MODEL, accelerator="ethos-u55-64").artifact
    folder.build(folder.make(TEMPLATES["host"], target, artifact, COptions()), TEMPLATES["host"])
    return target


def test_a_project_on_the_host_is_the_reference(on_host: Path, capfd: Capture) -> None:
    status, out, err = run(["build", str(on_host), "--json"], capfd)
    assert (status, err) == (0, "")
    sections = {section["name"]: section for section in json.loads(out)["sections"]}
    assert sections[".text"]["kind"] == "code" and sections[".bss"]["kind"] == "zeroed"
    status, out, err = run(["run", str(on_host), "--json", "--seeds", "2"], capfd)
    report = json.loads(out)
    assert (status, err) == (0, "")
    assert report["verification"]["mismatches"] == 0 and report["verification"]["elements"] == 2 * 3 * 64
    assert [call["where"] for call in report["calls"]] == ["cpu", "npu", "cpu"]
    status, out, _ = run(["run", str(on_host)], capfd)
    assert status == 0 and "0 of 576 output elements differ" in out and "QUANTIZE" in out and ".text" in out


def test_a_wrong_network_is_found(on_host: Path, capfd: Capture) -> None:
    """The judge is the model's file, not what was built of it."""
    model = on_host / description.MODEL
    try:
        model.write_bytes(several_calls(seed=4))
        status, out, _ = run(["run", str(on_host), "--json"], capfd)
    finally:
        model.write_bytes(MODEL)
    assert status == 3 and json.loads(out)["verification"]["mismatches"] > 100


def test_a_model_runs_without_a_project(model: Path, capfd: Capture) -> None:
    need(TEMPLATES["host"])
    status, out, err = run(["run", "--target", "host", str(model), "--seeds", "1", *SMALL], capfd)
    assert (status, err) == (0, "")
    assert "'net' on 'host': 0 of 192 output elements differ" in out


def test_hazards_in_the_npu_are_told(tmp_path: Path, capfd: Capture) -> None:
    """Of a program whose kernels no longer wait for each other right outputs are not enough."""
    need(TEMPLATES["host"])
    artifact = ethoscade.compile(MODEL, accelerator="ethos-u55-64").artifact

    def hasty(call: NpuCall | CpuCall) -> NpuCall | CpuCall:
        if isinstance(call, CpuCall):
            return call
        commands = [
            Command((BLOCKDEP | 3 << 16,)) if command.code == BLOCKDEP and not command.is_operation else command
            for command in commands_of(call.payload)
            if not (command.is_operation and command.code in (DMA_WAIT, KERNEL_WAIT))
        ]
        return replace(call, payload=payload_with(call.payload, commands))

    hurried = replace(artifact, calls=tuple(map(hasty, artifact.calls)))
    made = folder.make(TEMPLATES["host"], tmp_path / "project", hurried, COptions())
    status, out, _ = run(["run", str(made.folder), "--json", "--seeds", "1"], capfd)
    found = json.loads(out)["verification"]
    assert status == 3 and not found["ok"] and found["hazards"] >= 3, "a run of three has one each at least"
    assert found["findings"] and "command" in found["findings"][0]
    status, out, _ = run(["run", str(made.folder), "--seeds", "1"], capfd)
    assert status == 3 and f"{found['hazards']:,} hazards reported by the simulator" in out


def test_a_process_with_the_npu_in_it(on_host: Path) -> None:
    """Where libethoscade_npu is, the network runs without a mailbox, too, in any process that one likes to start."""
    try:
        library()
    except ConfigError:
        pytest.skip("libethoscade_npu is not built: make library")
    inputs = random_inputs(read_tflite(on_host / description.MODEL), 2)
    with ethoscade.connect(on_host) as board:
        expected = board.run(inputs)
    command = ["env", "LC_ALL=C", str(on_host / "build" / "standalone")]
    with ethoscade.connect(on_host, command=command) as board:
        for name, value in board.run(inputs).items():
            np.testing.assert_array_equal(value, expected[name])
        with pytest.raises(ProjectError, match="an NPU program makes it"):
            board.intermediate("features", inputs)
    with pytest.raises(ConfigError, match="not both"):
        ethoscade.connect(on_host, command=command, port="/dev/null")


def test_python_talks_to_a_project(on_host: Path) -> None:
    with ethoscade.connect(on_host) as board:
        outputs = board.run({"image": np.zeros((1, 8, 8, 3), np.float32)})
        assert [value.shape for value in outputs.values()] == [(1, 4, 4, 4)]


# --- what is refused --------------------------------------------------------------------------------------------------


def refused(arguments: list[str], capfd: Capture) -> str:
    status, out, err = run(arguments, capfd)
    assert (status, out) == (1, "") and err.count("\n") == 1
    return err


def test_nothing_is_written_over(model: Path, tmp_path: Path, capfd: Capture) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    for place in (tmp_path / "mine", model):
        said = refused(["new", "--template", "host", str(place), str(model), *SMALL], capfd)
        assert "name another folder" in said
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]


def test_templates_that_there_are_not(model: Path, tmp_path: Path, capfd: Capture) -> None:
    target = str(tmp_path / "project")
    said = refused(["new", "--template", "moon", target, str(model)], capfd)
    assert "there is no template 'moon'; choose " + ", ".join(TEMPLATES) in said
    assert "no file 'moon.py'" in refused(["new", "--template", "moon.py", target, str(model)], capfd)
    assert not (tmp_path / "project").exists()


def test_a_run_is_of_a_project_or_of_a_model(model: Path, tmp_path: Path, capfd: Capture) -> None:
    assert "say by --target what to run it on" in refused(["run", str(model)], capfd)
    said = refused(["run", str(tmp_path), "--keep-dead-channels"], capfd)
    assert "--keep-dead-channels would say how to compile" in said
    assert "--sram would say" in refused(["run", str(tmp_path), "--sram", "1MiB"], capfd)
    assert "is a folder; --target is for a model" in refused(["run", str(tmp_path), "--target", "host"], capfd)


@pytest.mark.parametrize("command", ["build", "flash", "run"])
def test_folders_that_are_no_projects(command: str, tmp_path: Path, capfd: Capture) -> None:
    assert f"'{tmp_path}' is no project" in refused([command, str(tmp_path)], capfd)


@pytest.mark.parametrize("damage", ["{", "[]", "{}", '{"schema_version": 2}', '{"schema_version": 1, "made_by": ""}'])
def test_damaged_descriptions(damage: str, tmp_path: Path, capfd: Capture) -> None:
    (tmp_path / description.FILE).write_text(damage)
    assert "is damaged" in refused(["build", str(tmp_path)], capfd)


@pytest.mark.parametrize("template", ["host", "qemu-mps3-an547"])
def test_a_tool_that_is_missing_is_named(
    template: str, tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = made(template, tmp_path, capfd)
    monkeypatch.setenv("PATH", str(tmp_path))
    said = refused(["build", str(target)], capfd)
    wanted = [tool.program for tool in TEMPLATES[template].build_tools]
    assert all(f"'{program}'" in said for program in wanted) and "install CMake" in said
    assert "'qemu-system-arm'" not in said
    said = refused(["run", str(target)], capfd)
    assert ("'qemu-system-arm'" in said) == (template != "host")
    said = refused(["run", "--target", template, str(tmp_path / "net.tflite")], capfd)
    assert "'cmake'" in said


@pytest.mark.parametrize("template", ["host", "qemu-mps3-an547"])
def test_templates_without_a_board_cannot_be_flashed(template: str, tmp_path: Path, capfd: Capture) -> None:
    target = made(template, tmp_path, capfd)
    assert "has no board to flash" in refused(["flash", str(target)], capfd)


def test_a_build_that_fails_says_why(tmp_path: Path, capfd: Capture) -> None:
    """What happened in one line, below it the tools' last lines as they said them."""
    need(TEMPLATES["host"])
    target = made("host", tmp_path, capfd)
    (target / "own").mkdir()
    (target / "own" / "kernel.c").write_text("#error nothing here\n")
    status, out, err = run(["build", str(target)], capfd)
    first, *lines = err.splitlines()
    assert (status, out) == (1, "") and f"building '{target}'" in first and first.endswith("ended with status 2:")
    assert "#error" not in first and len(first) < 300
    assert [line for line in lines if line.endswith("#error nothing here")] and 3 < len(lines) <= 40
    status, out, _ = run(["build", str(target), "--json"], capfd)
    assert status == 1 and "#error nothing here\n" in json.loads(out)["message"]


@pytest.mark.parametrize("template", ["host", "qemu-mps3-an547"])
def test_a_compiler_without_a_library_is_named(
    template: str, tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler itself, kept from its C library's headers."""
    need(TEMPLATES[template])
    target = made(template, tmp_path, capfd)
    program = next(tool.program for tool in TEMPLATES[template].build_tools if tool.library)
    bare = tmp_path / "bin" / program
    bare.parent.mkdir()
    bare.write_text(f'#!/bin/sh\nexec "{shutil.which(program)}" -nostdinc "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bare.parent}{os.pathsep}{os.environ['PATH']}")
    said = refused(["build", str(target)], capfd)
    assert f"'{program}' finds no <string.h>; install" in said
    assert ("libc6-dev" if template == "host" else "libnewlib-arm-none-eabi") in said
    assert not (target / "build").exists()


@pytest.mark.parametrize("template", sorted(TEMPLATES))
def test_a_new_project_says_what_builds_it(template: str, tmp_path: Path, capfd: Capture) -> None:
    (tmp_path / "net.tflite").write_bytes(MODEL)
    target = tmp_path / "project"
    _, out, _ = run(["new", "--template", template, str(target), str(tmp_path / "net.tflite"), *SMALL], capfd)
    assert ("ethoscade build" in out) == (TEMPLATES[template].build_tools != ())
    if template == "cmsis":
        assert f"{target}/network.clayer.yml" in out and "`cbuild`" in out
    if template == "zephyr":
        assert f"`west build -b BOARD app -- -DZEPHYR_EXTRA_MODULES={target}`" in out


def test_a_port_that_there_is_not(tmp_path: Path, capfd: Capture) -> None:
    target = made("host", tmp_path, capfd)
    with pytest.raises(ProjectError, match=r"cannot open serial port '/nowhere/tty'"):
        ethoscade.connect(target, port="/nowhere/tty")
    with pytest.raises(ProjectError, match=r"at 7 baud: this system has no such speed"):
        ethoscade.connect(target, port="/nowhere/tty", baud=7)


# --- a template of one's own ------------------------------------------------------------------------------------------

OWN = """
from pathlib import Path
from ethoscade.project.template import Template, driven
from ethoscade.errors import ProjectError

def build(project):
    return Path(project.folder) / "main.elf"

def start(project):
    raise ProjectError("the board is not plugged in")

TEMPLATE = Template("mine", "a board of mine", driven, build, start, no_board="no programmer is known")
"""


def test_a_template_of_ones_own_goes_along(tmp_path: Path, capfd: Capture) -> None:
    own = tmp_path / "mine.py"
    own.write_text(OWN)
    target = made(str(own), tmp_path, capfd)
    own.unlink()
    assert (target / "src" / "main.c").is_file() and (target / folder.OWN_TEMPLATE).read_text() == OWN
    assert "the board is not plugged in" in refused(["run", str(target)], capfd)
    assert "no programmer is known" in refused(["flash", str(target)], capfd)


@pytest.mark.parametrize(
    ("text", "said"),
    [("1 /", "SyntaxError"), ("x = 1", "defines no TEMPLATE"), ("1 / 0", "ZeroDivision")],
)
def test_a_template_that_is_none(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(ProjectError, match=said):
        folder.template_named(str(path))


def test_template_names() -> None:
    assert folder.template_named("qemu") is TEMPLATES["qemu-mps3-an547"]
    with pytest.raises(ConfigError, match="no template 'QEMU'"):
        folder.template_named("QEMU")


# --- sections ---------------------------------------------------------------------------------------------------------


def test_sections_are_those_of_the_linker(on_host: Path) -> None:
    """As binutils list them, without what takes no memory."""
    elf = on_host / "build" / "firmware"
    listed = subprocess.run(["size", "-A", "-d", str(elf)], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listed.splitlines() if line.startswith(".")]
    wanted = {(name, int(size), int(address)) for name, size, address in rows if int(address) and int(size)}
    assert {(s.name, s.size_bytes, s.address) for s in sections_of(elf)} == wanted


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\x7fELF\x01\x01" + bytes(60), bytes(range(1, 251)) * 2])
def test_what_is_no_elf_file(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "firmware"
    path.write_bytes(data)
    with pytest.raises(ProjectError, match="ELF"):
        sections_of(path)
    with pytest.raises(ProjectError, match="cannot read"):
        sections_of(tmp_path)


# --- QEMU -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [MODEL, keyword_spotting()], ids=["several_calls", "keyword_spotting"])
def test_an_emulated_cortex_m55_is_the_reference(model: bytes, tmp_path: Path, capfd: Capture) -> None:
    need(TEMPLATES["qemu-mps3-an547"], to_run=True)
    path = tmp_path / "net.tflite"
    path.write_bytes(model)
    status, out, err = run(["run", "--target", "qemu", str(path), "--json", "--seeds", "2"], capfd)
    report = json.loads(out)
    assert (status, err) == (0, "")
    assert report["verification"]["mismatches"] == 0
    places = {section["name"]: section["address"] for section in report["sections"]}
    assert places[".ethoscade_arena"] >= places[".ethoscade_model"] >= 0x60000000 > places[".text"]
    for call in report["calls"]:
        if call["kind"] == "QUANTIZE":
            # 192 elements: an instruction or more for each, and no more than a few dozen.
            assert 192 < call["ticks"] * report["instructions_per_tick"] < 192 * 100


# --- layers and modules -----------------------------------------------------------------------------------------------


def compiled_alone(target: Path, units: list[str], flags: list[str]) -> None:
    """Each unit by the system's compiler, as strictly as the emitted C is, with a driver's header at hand."""
    strict = "-std=c99 -Wall -Wextra -Wpedantic -Werror -Wshadow -Wconversion -Wsign-conversion -Wmissing-prototypes"
    include = str(driver_interface()[0])
    for unit in units:
        command = ["cc", *strict.split(), *flags, f"-I{include}", "-c", unit, "-o", f"{unit}.o"]
        done = subprocess.run(command, cwd=target, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), unit


@pytest.mark.parametrize("weights", ["array", "incbin"])
def test_a_cmsis_layer_has_all_that_it_names(weights: str, tmp_path: Path, capfd: Capture) -> None:
    yaml = pytest.importorskip("yaml")
    target = made("cmsis", tmp_path, capfd, "--weights", weights)
    (layer,) = yaml.safe_load((target / "network.clayer.yml").read_text()).values()
    assert [pack["pack"] for pack in layer["packs"]] == ["ARM::ethos-u-core-driver"]
    assert [one["component"].split("&")[1] for one in layer["components"]] == ["Generic U55"]
    files = [file["file"] for group in layer["groups"] for file in group["files"]]
    assert all((target / file).is_file() for file in files)
    assert {f"generated/{path.name}" for path in (target / "generated").glob("*.[cS]")} < set(files)
    defines = {name: value for define in layer["define"] for name, value in define.items()}
    flags = [f"-D{name}={value}" for name, value in defines.items()] + [f"-I{path}" for path in layer["add-path"]]
    compiled_alone(target, [file for file in files if file.endswith(".c")], flags)
    flags = [f"-D{name}={value}" for define in layer["define-asm"] for name, value in define.items()]
    flags += [f"-I{path}" for path in layer["add-path-asm"]]
    compiled_alone(target, [file for file in files if file.endswith(".S")], flags)


ZEPHYR = """
cmake_minimum_required(VERSION 3.16)
project(stub C ASM)
macro(zephyr_library_named name)
  set(ZEPHYR_CURRENT_LIBRARY ${name})
  add_library(${name} STATIC)
  target_link_libraries(${name} PRIVATE zephyr_interface)
endmacro()
macro(zephyr_library_sources)
  target_sources(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endmacro()
macro(zephyr_library_compile_options)
  target_compile_options(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endmacro()
macro(zephyr_include_directories)
  target_include_directories(zephyr_interface INTERFACE ${ARGN})
endmacro()
macro(zephyr_compile_definitions)
  target_compile_definitions(zephyr_interface INTERFACE ${ARGN})
endmacro()
add_library(zephyr_interface INTERFACE)
target_include_directories(zephyr_interface INTERFACE "@driver@")
target_compile_options(zephyr_interface INTERFACE -include "${CMAKE_CURRENT_LIST_DIR}/autoconf.h" -Wall -Wextra -Werror)
set(CONFIG_ETHOSCADE_NET y)
add_subdirectory("@module@" module)
"""


@pytest.mark.parametrize("weights", ["array", "incbin"])
def test_a_zephyr_module_builds_with_what_zephyr_offers(weights: str, tmp_path: Path, capfd: Capture) -> None:
    """Zephyr's CMake functions as its documentation has them; Kconfig's strings are macros in every file."""
    need(TEMPLATES["host"])
    target = made("zephyr", tmp_path, capfd, "--weights", weights)
    stub = tmp_path / "stub"
    stub.mkdir()
    told = (target / "zephyr" / "module.yml").read_text()
    assert "cmake: zephyr\n" in told and "kconfig: zephyr/Kconfig\n" in told
    config = (target / "zephyr" / "Kconfig").read_text()
    strings = dict(re.findall(r'config (\w+)\n\tstring .*\n\tdefault (".*")', config))
    assert len(strings) == 2 and "\tdepends on ETHOS_U\n" in config
    (stub / "autoconf.h").write_text("".join(f"#define CONFIG_{name} {value}\n" for name, value in strings.items()))
    text = ZEPHYR.replace("@driver@", str(driver_interface()[0])).replace("@module@", str(target / "zephyr"))
    (stub / "CMakeLists.txt").write_text(text)
    for command in (["cmake", "-S", ".", "-B", "build"], ["cmake", "--build", "build"]):
        done = subprocess.run(command, cwd=stub, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    (library,) = (stub / "build").rglob("libethoscade_net.a")
    listed = subprocess.run(["nm", str(library)], capture_output=True, text=True, check=True).stdout
    assert " T network_serve" in listed and " T tvmgen_net_run" in listed and "tvmgen_net_weights" in listed


@pytest.mark.parametrize("template", ["cmsis", "zephyr"])
def test_parts_of_something_larger_say_what_builds_them(template: str, tmp_path: Path, capfd: Capture) -> None:
    target = made(template, tmp_path, capfd)
    for command, said in (("build", "no firmware by itself"), ("run", "no firmware by itself"), ("flash", "no board")):
        assert said in refused([command, str(target)], capfd)


def test_the_sources_of_the_firmware_are_strict_c(tmp_path: Path, capfd: Capture) -> None:
    target = made("host", tmp_path, capfd)
    units = sorted(f"src/{path.name}" for path in (target / "src").glob("*.c"))
    assert len(units) == 5
    compiled_alone(target, units, ["-Isrc", "-Igenerated", "-DETHOSCADE_CONFIG_H=<network_config.h>"])


@pytest.mark.parametrize("template", sorted(TEMPLATES))
def test_a_network_without_an_npu_asks_for_no_driver(template: str, tmp_path: Path, capfd: Capture) -> None:
    target = made(template, tmp_path, capfd, "--accelerator", "none")
    texts = {name: data for name, data in contents(target).items() if not name.startswith("generated")}
    assert not [name for name, data in texts.items() if b"ethosu_driver.h" in data or b"core-driver" in data]
    assert "src/npu_mailbox.c" not in texts and all(call.where == "cpu" for call in description.read(target).calls)


def test_a_plain_cortex_m_is_the_reference_tensor_by_tensor(tmp_path: Path, capfd: Capture) -> None:
    """Without an NPU every operator is a call, and every tensor can be read behind it."""
    need(TEMPLATES["qemu-mps3-an547"], to_run=True)
    target = made("qemu", tmp_path, capfd, "--accelerator", "none")
    status, out, err = run(["run", str(target), "--json", "--seeds", "1"], capfd)
    report = json.loads(out)
    assert (status, err, report["verification"]["mismatches"]) == (0, "", 0)
    assert all(call["ticks"] > 0 for call in report["calls"]) and len(report["calls"]) > 3
    found, others = read_all(target)
    assert others == {} and len(found) >= len(report["calls"])


def test_a_run_that_fails_is_told_by_its_status(on_host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulated NPU is another one than the program's."""
    monkeypatch.setenv("ETHOSCADE_SIM_ACCELERATOR", "ethos-u55-32")
    told = r"_run returned -3 \(NPU_FAILED: the NPU driver reported an error.*\) on the board, after"
    with ethoscade.connect(on_host) as board, pytest.raises(ProjectError, match=told):
        board.run(random_inputs(read_tflite(MODEL), 0))
