"""libethoscade_npu, the simulator as a C library: what it exports, and programs that link it without any Python."""

from __future__ import annotations

import ctypes
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from ethoscade.codegen import c_source
from ethoscade.codegen.artifact import NpuCall
from ethoscade.errors import ConfigError
from ethoscade.frontend import read_tflite
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from ethoscade.run import simulator
from ethoscade.run.timing import simulate_timing
from ethoscade.targets.target import ACCELERATORS
from ethoscade.testing import tiny_conv
from test_simulator_driver import declared_in

HEADERS = ("ethosu_driver.h", "ethoscade_npu.h")


@pytest.fixture(scope="module")
def library() -> simulator.Library:
    try:
        return simulator.library()
    except ConfigError as error:
        pytest.skip(str(error))


def needs(*tools: str) -> pytest.MarkDecorator:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{' and '.join(missing)} not installed")


def said(command: Sequence[str], **more: str) -> str:
    """What a command prints in an environment of its own, which knows nothing of Python. Raises AssertionError."""
    environment = {"PATH": "/usr/bin:/bin", **more}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/")
    assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


@needs("nm")
def test_it_exports_what_the_headers_declare_and_nothing_else(library: simulator.Library) -> None:
    declared = {function for name in HEADERS for function in declared_in(name)}
    exported = re.findall(r" [A-TV-Z] (\w+)", said(["nm", "-D", "--defined-only", str(library.path)]))
    assert set(exported) == declared and len(declared) == 20
    wanted = said(["nm", "-D", "--undefined-only", str(library.path)])
    assert "malloc" in wanted and not re.search(r"\b_?Py", wanted)


def test_the_package_file_has_the_packages_version() -> None:
    text = (simulator.driver_interface()[0].with_name("lib") / "pkgconfig" / "ethoscade-npu.pc").read_text()
    assert f"\nVersion: {ethoscade.__version__}\n" in text


def test_what_was_not_built_is_missed_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(simulator, "_INCLUDE_FOLDER", tmp_path / "include")
    with pytest.raises(ConfigError, match=r"no libethoscade_npu\.so .*make library"):
        ethoscade.simulator.library()
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ConfigError, match="no libethoscade_npu for Windows"):
        ethoscade.simulator.library()


# A program as a user writes it: the emitted network, an input, what is expected.
PROGRAM = r"""
#include "tvmgen_net.h"
#include <ethoscade_npu.h>
#include <stdio.h>
#include <string.h>

static signed char image[] = {IMAGE};
static const signed char expected[] = {EXPECTED};
static signed char found[sizeof expected];

int main(void)
{
    struct tvmgen_net_inputs inputs = {image};
    struct tvmgen_net_outputs outputs = {found};
    if (tvmgen_net_run(&inputs, &outputs, 0)) return puts(ethoscade_sim_last_error()), 1;
    if (memcmp(found, expected, sizeof expected)) return puts("other values"), 2;
    if (ethoscade_sim_hazards() || ethoscade_sim_hazard(0) || ethoscade_sim_warning(0)) return puts("findings"), 3;
    image[0] ^= 1;
    if (tvmgen_net_run(&inputs, &outputs, 0)) return puts(ethoscade_sim_last_error()), 4;
    if (!memcmp(found, expected, sizeof expected)) return puts("the input does not count"), 5;
    if (ethoscade_sim_set_accelerator("ethos-u65-512")) return 6;
    if (!tvmgen_net_run(&inputs, &outputs, 0)) return puts("another accelerator's payload runs"), 7;
    puts(ethoscade_sim_last_error());
    printf("%u of %u\n", (unsigned)ethoscade_sim_touched_end(1), (unsigned)TVMGEN_NET_ARENA_BYTES);
    return 0;
}
"""


def network(folder: Path) -> list[str]:
    """The emitted C of a small network with a program around it."""
    model = tiny_conv()
    inputs = random_inputs(read_tflite(model), 0)
    files = c_source.write(replace(ethoscade.compile(model).artifact, name="net"), folder)
    ((image,), (expected,)) = inputs.values(), reference.run(read_tflite(model), inputs).outputs.values()
    text = PROGRAM
    for name, values in (("IMAGE", image), ("EXPECTED", expected)):
        text = text.replace(name, ", ".join(map(str, np.ravel(values).tolist())), 1)
    (folder / "main.c").write_text(text)
    return [str(folder / "main.c"), *(str(path) for name, path in files.items() if name.endswith(".c"))]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return network(tmp_path_factory.mktemp("net"))


def run(sources: list[str], flags: Sequence[str], program: Path) -> None:
    said(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", *sources, *flags, "-o", str(program)])
    refusal, touched = said([str(program)]).splitlines()
    assert "ethos-u55-256" in refusal or "MACs per cycle" in refusal or "product" in refusal
    end, of = map(int, touched.split(" of "))
    assert 0 < of - end < 16 or end == of


@needs("cc", "pkg-config")
def test_a_program_links_it_by_pkg_config(library: simulator.Library, sources: list[str], tmp_path: Path) -> None:
    """As it was installed, and after everything was moved elsewhere: nothing remembers a folder."""
    for part in ("include", "lib"):
        shutil.copytree(library.include_folder.with_name(part), tmp_path / "moved here" / part)
    for folder in (library.pkg_config_folder, tmp_path / "moved here" / "lib" / "pkgconfig"):
        ask = ["pkg-config", "--cflags", "--libs", "ethoscade-npu"]
        flags = shlex.split(said(ask, PKG_CONFIG_PATH=str(folder)))
        assert any(str(folder.parents[1]) in flag.replace("/lib/pkgconfig/../..", "") for flag in flags)
        run(sources, flags, tmp_path / "program")


@needs("cc")
def test_a_program_links_it_by_the_flags_that_python_tells(
    library: simulator.Library, sources: list[str], tmp_path: Path
) -> None:
    run(sources, [*library.compile_flags, *library.link_flags], tmp_path / "program")


@needs("cc")
def test_a_program_holds_it(library: simulator.Library, sources: list[str], tmp_path: Path) -> None:
    """The static library, which wheels leave out for its size."""
    static = library.path.with_suffix(".a")
    if not static.is_file():
        pytest.skip("no static library: make library")
    run(sources, [*library.compile_flags, str(static), "-lgcc_s", "-lm", "-lpthread", "-ldl"], tmp_path / "program")


# A board with a device of its own, whose driver says which: the check that a driver's header switches on is on.
BOARD = r"""
#include "tvmgen_net.h"
#include <ethoscade_npu.h>
#include <stdio.h>

static signed char image[] = {IMAGE}, found[TVMGEN_NET_OUTPUT_BYTES];

int main(void)
{
    static const char *const devices[] = {DEVICES};
    struct tvmgen_net_inputs inputs = {image};
    struct tvmgen_net_outputs outputs = {found};
    unsigned i;
    for (i = 0; i < sizeof devices / sizeof *devices; ++i) {
        if (ethoscade_sim_set_accelerator(devices[i])) return 1;
        printf("%s %d\n", devices[i], (int)tvmgen_net_run(&inputs, &outputs, 0));
    }
    for (i = 0; i < sizeof found; ++i) printf("%d ", found[i]);
    return 0;
}
"""


@needs("cc")
@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_boards_that_are_asked_run_their_own_networks(
    library: simulator.Library, tmp_path: Path, accelerator: str
) -> None:
    """Exact on the device that a network is for, and WRONG_NPU on every other one."""
    model = tiny_conv()
    given = random_inputs(read_tflite(model), 0)
    artifact = replace(ethoscade.compile(model, accelerator=accelerator).artifact, name="net")
    files = c_source.write(artifact, tmp_path)
    ((image,), (expected,)) = given.values(), reference.run(read_tflite(model), given).outputs.values()
    # The device of its own comes last, and leaves the outputs.
    devices = sorted(ACCELERATORS, key=lambda name: name == accelerator)
    text = BOARD.replace("TVMGEN_NET_OUTPUT_BYTES", str(expected.nbytes))
    text = text.replace("IMAGE", ", ".join(map(str, np.ravel(image).tolist())), 1)
    (tmp_path / "main.c").write_text(text.replace("DEVICES", ", ".join(f'"{name}"' for name in devices), 1))
    sources = [str(tmp_path / "main.c"), *(str(path) for name, path in files.items() if name.endswith(".c"))]
    check = ["-DETHOSCADE_ETHOSU_DRIVER_H=<ethosu_driver.h>", "-DETHOSCADE_ETHOSU_CHECK_NPU=1"]
    flags = [*library.compile_flags, *library.link_flags, *check]
    said(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", *sources, *flags, "-o", str(tmp_path / "program")])
    *statuses, outputs = said([str(tmp_path / "program")]).splitlines()
    assert statuses == [f"{name} {0 if name == accelerator else -6}" for name in devices]
    assert outputs.split() == [str(value) for value in np.ravel(expected).tolist()]


class Memory(ctypes.Structure):
    """`struct ethoscade_sim_memory`."""

    _fields_ = tuple(
        (name, ctypes.c_uint32) for name in ("bytes", "cycles", "read_latency", "write_latency", "burst_bytes")
    )


def test_cycles_are_those_of_the_timing_model() -> None:
    compiled = ethoscade.compile(tiny_conv())
    (call,) = compiled.artifact.calls
    assert isinstance(call, NpuCall)
    target = compiled.target
    constants, arena = (
        Memory(*memory.bytes_per_cycle, memory.read_latency, memory.write_latency, memory.burst_bytes)
        for memory in (target.constants, target.arena)
    )
    function = ctypes.CDLL(str(simulator.driver_interface()[1])).ethoscade_sim_cycles
    function.restype = ctypes.c_int64

    def cycles(payload: bytes, constants: Memory, arena: Memory) -> int:
        return int(function(payload, len(payload), ctypes.byref(constants), ctypes.byref(arena)))

    assert cycles(call.payload, constants, arena) == simulate_timing(call.payload, target).cycles
    assert cycles(call.payload, arena, constants) != cycles(call.payload, constants, arena)
    assert cycles(call.payload[:-2], constants, arena) == cycles(call.payload, Memory(0, 1, 1, 1, 32), arena) == -1
    assert function(None, 0, None, None) == -1
