"""The emitted C and the memory around it: sizes that are declared, whole cache lines, drivers that reserve nobody."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from ethoscade import testing
from ethoscade.codegen import c_source
from ethoscade.errors import VerificationError
from ethoscade.judge.verification import random_inputs
from ethoscade.run import host_c, simulator
from test_codegen_c_source import mixed

STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wconversion", "-Wsign-conversion")
X = {"serving_default_x:0": np.arange(8, dtype=np.int8).reshape(1, 8) * 3}
OWN_ARENA = "-DTVMGEN_MIXED_ARENA=my_arena"


def stub(folder: Path, *flags: str) -> Path:
    """The driver that computes nothing and looks at what it is given."""
    library = folder / "libdriver.so"
    source = Path(__file__).with_name("driver_stub.c")
    subprocess.run(["cc", "-std=c99", "-fPIC", "-shared", *flags, str(source), "-o", str(library)], check=True)
    return library


def compiles(folder: Path, text: str, *flags: str) -> str:
    """What the compiler says to a file of the firmware that includes the header; "" if it takes it."""
    c_source.write(mixed(), folder)
    (folder / "firmware.c").write_text(f'#include "tvmgen_mixed.h"\n{text}\n')
    command = ["cc", *STRICT, *flags, "-fsyntax-only", str(folder / "firmware.c")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (done.stderr == "")
    return done.stderr


def test_an_arena_of_the_firmwares_own_is_measured_by_the_compiler(tmp_path: Path) -> None:
    whole = "uint8_t my_arena[TVMGEN_MIXED_WORKSPACE_SIZE];"
    short = "uint8_t my_arena[TVMGEN_MIXED_WORKSPACE_SIZE - 1];"
    roomy = "uint8_t my_arena[1024];"
    assert compiles(tmp_path, whole, OWN_ARENA) == ""
    assert compiles(tmp_path, roomy, OWN_ARENA, "-DTVMGEN_MIXED_ARENA_ARRAY_BYTES=1024") == ""
    assert "my_arena" in compiles(tmp_path, short, OWN_ARENA)
    said = compiles(tmp_path, short, OWN_ARENA, "-DTVMGEN_MIXED_ARENA_ARRAY_BYTES=(TVMGEN_MIXED_WORKSPACE_SIZE-1)")
    assert "arena_is_large_enough" in said


@pytest.mark.parametrize("size", ["8", "48", "0"])
def test_a_cache_line_is_a_power_of_two_from_16_on(tmp_path: Path, size: str) -> None:
    assert "power of two" in compiles(tmp_path, "int x;", f"-DTVMGEN_MIXED_CACHE_LINE_BYTES={size}")


@pytest.mark.parametrize("line", [32, 64, 128])
def test_the_driver_gets_whole_cache_lines(tmp_path: Path, line: int) -> None:
    """Arena and constants that end within a line; the stub refuses bases and sizes that are not whole lines."""
    artifact = replace(mixed(), arena_bytes=48, constants=bytes([3]) * 16)
    driver = stub(tmp_path, f"-DSTUB_LINE_BYTES={line}")
    flags = [*STRICT, f"-DTVMGEN_MIXED_CACHE_LINE_BYTES={line}"]
    found = host_c.run(artifact, X, driver=driver, extra_flags=flags)
    assert found.arena_bytes == 48, "what the compiler promised, not what the lines add"
    assert list(found.outputs) == ["StatefulPartitionedCall:0"]


# The arena between guards, under a name of its own: an alias, because C has no array inside of another object.
GUARDED = """
#include <stddef.h>
#include "tvmgen_{name}.h"
static struct {{ uint8_t before[256]; uint8_t arena[{macro}_WORKSPACE_SIZE]; uint8_t after[256]; }} guarded
    __attribute__((aligned(256), used)) = {{{{1}}, {{0}}, {{0}}}};
__asm__(".globl my_arena\\n.set my_arena, guarded+{offset}\\n");
void poison(void);
int intact(void);
void poison(void)
{{
  size_t i;
  for (i = 0; i < 256; ++i) {{ guarded.before[i] = 0xA5; guarded.after[i] = 0xA5; }}
}}
int intact(void)
{{
  size_t i;
  for (i = 0; i < 256; ++i) {{ if (guarded.before[i] != 0xA5 || guarded.after[i] != 0xA5) return 0; }}
  return 1;
}}
"""

RUN = """
import ctypes, json, sys
import numpy as np
job = json.load(open(sys.argv[1]))
ctypes.CDLL(job["driver"], ctypes.RTLD_GLOBAL)
library = ctypes.CDLL(job["library"])
x, y = np.load(job["input"]), np.zeros(job["shape"], np.int8)
library.poison()
status = getattr(library, job["function"])(
    ctypes.byref(ctypes.c_void_p(x.ctypes.data)), ctypes.byref(ctypes.c_void_p(y.ctypes.data)), None)
print(json.dumps({"status": status, "intact": library.intact(), "output": y.ravel().tolist()}))
"""


def run_guarded(folder: Path, offset: int, compiled: ethoscade.Compiled, x: np.ndarray, shape: Sequence[int]) -> dict:
    """One run of the emitted C in an arena `offset` bytes behind the start of an aligned object, guards around it."""
    name = "tiny"
    macro = f"TVMGEN_{name}".upper()
    artifact = replace(compiled.artifact, name=name)
    files = c_source.write(artifact, folder)
    (folder / "guarded.c").write_text(GUARDED.format(name=name, macro=macro, offset=offset))
    units = [str(path) for path in files.values() if path.suffix == ".c"]
    command = ["cc", *STRICT, "-O2", "-fPIC", "-shared", f"-D{macro}_ARENA=my_arena", f"-I{folder}", *units]
    done = subprocess.run([*command, str(folder / "guarded.c"), "-o", str(folder / "net.so")], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    np.save(folder / "x.npy", x)
    job = {
        "driver": str(simulator.driver_interface()[1]),
        "library": str(folder / "net.so"),
        "function": f"tvmgen_{name}_run",
        "input": str(folder / "x.npy"),
        "shape": list(shape),
    }
    (folder / "job.json").write_text(json.dumps(job))
    ran = subprocess.run([sys.executable, "-c", RUN, str(folder / "job.json")], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_a_run_leaves_the_arenas_neighbours_alone(tmp_path: Path) -> None:
    compiled = ethoscade.compile(testing.tiny_conv(), optimise="size")
    ((name, x),) = random_inputs(compiled.source, 0).items()
    (expected,) = compiled.simulate({name: x}).outputs.values()
    found = run_guarded(tmp_path, 256, compiled, x, expected.shape)
    assert (found["status"], found["intact"]) == (0, 1)
    assert found["output"] == expected.ravel().tolist()


def test_an_arena_that_begins_within_a_line_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    compiled = ethoscade.compile(testing.tiny_conv(), optimise="size")
    ((_, x),) = random_inputs(compiled.source, 0).items()
    found = run_guarded(tmp_path, 240, compiled, x, (1,))
    assert (found["status"], found["intact"]) == (-4, 1)


@pytest.mark.parametrize(
    ("version", "status"),
    [((0, 16), -2), ((1, 0), -2), ((1, 99), 0), ((2, 0), 0), (None, 0)],
    ids=["0.16", "1.0", "1.99", "2.0", "unknown"],
)
def test_a_driver_that_reserves_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: tuple[int, int] | None, status: int
) -> None:
    """From 1.99 on NULL is the driver's to run, before it is no device. Releasing it would crash the stub."""
    monkeypatch.setenv("STUB_NO_DRIVER", "1")
    monkeypatch.setenv("STUB_CHOOSES", "1")
    flags = (
        []
        if version is None
        else [
            f"-DETHOSU_DRIVER_VERSION_MAJOR={version[0]}",
            f"-DETHOSU_DRIVER_VERSION_MINOR={version[1]}",
        ]
    )
    driver = stub(tmp_path)
    if status == 0:
        assert host_c.run(mixed(), X, driver=driver, runs=2, extra_flags=flags).outputs
        monkeypatch.delenv("STUB_CHOOSES")
        status = -3
    with pytest.raises(VerificationError, match=f"returned {status}"):
        host_c.run(mixed(), X, driver=driver, extra_flags=flags)
