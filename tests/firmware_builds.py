"""The emitted C of a network as part of a firmware: built with any choices, any driver and any compiler, and run.

Owns the probe (what a firmware would write), the build, and the child process, in which the simulator executes what a
stand-in driver is given. The driver's part is `firmware/driver_standin.c`. Judges nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from ethoscade.codegen import c_source
from ethoscade.codegen.artifact import Artifact
from ethoscade.codegen.c.module import Module, make
from ethoscade.codegen.c.options import COptions
from ethoscade.run import simulator

FIRMWARE = Path(__file__).with_name("firmware")
STRICT = (
    "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wshadow", "-Wconversion", "-Wsign-conversion",
    "-Wcast-qual", "-Wcast-align", "-Wmissing-prototypes",
)  # fmt: skip
SANITIZED = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
GUARD_BYTES = 256


# What ID and CONFIG read after a reset: `id_r` and `config_r` of the core driver's src/ethosu55_interface.h and
# src/ethosu65_interface.h, the same in all releases from 22.02 to 1.0. A device's own CONFIG has its MACs besides, in
# the field `macs_per_cc` as a power of two; the test of Vela's words holds these to what another compiler expects.
_ID = {"u55": 269500929, "u65": 268853249}
_CONFIG = {"u55": 0, "u65": 268435456}


def device_words(accelerator: str) -> tuple[int, int]:
    """ID and CONFIG of a device by its name, such as `ethos-u55-128`. No table of the compiler is asked."""
    _, product, macs = accelerator.split("-")
    return _ID[product], _CONFIG[product] | int(macs).bit_length() - 1


@dataclass(frozen=True)
class Driver:
    """A variant of the stand-in: its release, whether it is for several NPUs, and the device behind it."""

    release: str = "1.0"
    is_multi: bool = False
    accelerator: str = "ethos-u55-256"
    fast_memory: int = 0
    is_there: bool = True
    fault: int = 0
    """What befalls a run: 0 nothing, 1 an error of the NPU, 2 a time-out."""

    @property
    def number(self) -> int:
        """The release as the stand-in's header counts: 24.11 is 2411, 1.99 is 19900."""
        year, month = map(int, self.release.split("."))
        return year * 100 + month if year > 20 else year * 10000 + month * 100

    @property
    def flags(self) -> list[str]:
        """What the compiler is told of it."""
        multi = ["-DSTANDIN_MULTI"] if self.is_multi else []
        return [f"-DSTANDIN_RELEASE={self.number}", *multi, "-DETHOSCADE_ETHOSU_DRIVER_H=<ethosu_driver.h>"]


@dataclass(frozen=True)
class Found:
    """What runs of a firmware came to, one entry for each: statuses, outputs in order; and what was noticed."""

    statuses: list[int]
    outputs: list[list[npt.NDArray[Any]]]
    intact: bool
    """Whether the neighbours of arena and fast memory are what they were."""
    complaint: str
    user_arg: int
    told: list[int]
    """How often the driver was told a size for each region."""
    flushed: list[int]
    """How often its hooks cleaned lines of each region, and"""
    invalidated: list[int]
    """how often they dropped some."""
    driver_result: int
    """What the driver returned last, as `devices` keeps it, or the job of a run that does not wait."""
    token: int
    """What `user_arg` points to, which a hook may write."""
    polls: int
    """How often a run that does not wait said that it goes on."""
    calls: list[int]
    """Numbers of calls as the hooks around them saw them: n before call n, -1 - n after it."""
    names: list[str]
    """The names of statuses, and of calls."""
    is_reserved: bool


# --- the firmware -----------------------------------------------------------------------------------------------------

_PROBE = """
#include <string.h>
#include "{header}"
#define GUARD {guard}

/* Hooks around the calls, by ETHOSCADE_CONFIG_H. */
int32_t probe_calls[4096];
int32_t probe_call_count;
int32_t probe_driver_result;
int probe_token;

static struct {{ uint8_t before[GUARD]; uint8_t arena[{macro}_WORKSPACE_SIZE]; uint8_t after[GUARD]; }} guarded
    __attribute__((aligned(GUARD), used)) = {{{{1}}, {{0}}, {{0}}}};
static struct {{ uint8_t before[GUARD]; uint8_t bytes[{fast}]; uint8_t after[GUARD]; }} fast
    __attribute__((aligned(GUARD), used)) = {{{{1}}, {{0}}, {{0}}}};
{alias}
void probe_poison(void);
void probe_poison(void)
{{
  memset(guarded.before, 0xA5, GUARD);
  memset(guarded.after, 0xA5, GUARD);
  memset(fast.before, 0xA5, GUARD);
  memset(fast.after, 0xA5, GUARD);
}}
int probe_intact(void);
int probe_intact(void)
{{
  int i;
  for (i = 0; i < GUARD; ++i) {{
    if (guarded.before[i] != 0xA5 || guarded.after[i] != 0xA5) return 0;
    if (fast.before[i] != 0xA5 || fast.after[i] != 0xA5) return 0;
  }}
  return 1;
}}
const char* probe_status(int32_t status);
const char* probe_status(int32_t status) {{ return {prefix}_status_name(status); }}
const char* probe_call(uint32_t number);
const char* probe_call(uint32_t number) {{ return {prefix}_call_name(number); }}

{pools}
int32_t probe_run(void** in, void** out, const uint8_t* weights, int32_t shift, int32_t shortage, int32_t* polls);
int32_t probe_run(void** in, void** out, const uint8_t* weights, int32_t shift, int32_t shortage, int32_t* polls)
{{
{before}
  status = {run};
{after}
  return status;
}}
"""

_HOOKS = """
#ifndef PROBE_CONFIG_H
#define PROBE_CONFIG_H
#ifndef __ASSEMBLER__
#include <stdint.h>
extern int32_t probe_calls[4096];
extern int32_t probe_call_count;
#define ETHOSCADE_BEFORE_CALL(network, number) (probe_calls[probe_call_count++] = (int32_t)(number))
#define ETHOSCADE_AFTER_CALL(network, number, status) \\
  (probe_calls[probe_call_count++] = (status) == 0 ? -1 - (int32_t)(number) : -1000)
#endif
#endif
"""


_CAMERA = """  {{
    static struct {prefix}_job job;
    uint32_t rows, stride, left = 0, given_up;
{declared}

    for (given_up = 0; given_up < {given_up}; ++given_up) {{
      status = {prefix}_begin(&job, {arguments});
      for (left = given_up; left > 0 && status == {macro}_RUNNING; --left) {{
        status = {prefix}_step(&job);
      }}
    }}
    /* A beginning that is refused leaves no run, though the job says that one is at its first call. */
    memset(&job, 0, sizeof job);
    if ({refused}) {{
      status = {prefix}_begin(&job, {absent});
      if (status >= 0 || {prefix}_step(&job) >= 0) return -99;
    }}
    status = {prefix}_begin(&job, {arguments});
    while (status == {macro}_RUNNING) {{
{moved}      ++*polls;
      status = {prefix}_step(&job);
    }}
    probe_driver_result = job.driver_result;
  }}"""
"""A firmware that hands over rows. Before each run it gives some up, after as many steps as it has given up."""

_WANT = """      status = {prefix}_want(&job, &where, &rows, &stride);
      if (status != {macro}_RUNNING) break;
      if (rows > 0 || last != NULL) {{
        /* The rows of the latest camera: until then there is something else. */
        if (last != NULL) memcpy(last, from - left, left);
        left = rows * stride;
        memset(where, 0xA5, left);
        if ({is_ahead}) last = where; else memcpy(where, from, left);
        from += left;
      }}
"""

_TAKE = """      status = {prefix}_take(&job, &made, &rows, &stride);
      if (status != {macro}_RUNNING) break;
      memcpy(to, made, rows * stride);
      to += rows * stride;
"""


def _camera(module: Module, arguments: Sequence[str], given_up: int) -> str:
    names = {"prefix": module.prefix, "macro": module.macro}
    declared, moved = [], ""
    if module.feeds:
        declared += ["uint8_t *where, *last = NULL;", "const uint8_t* from = (const uint8_t*)in[0];"]
        moved += _WANT.format(**names, is_ahead=int(module.feeds[0].is_ahead))
    if module.takes:
        declared += ["const uint8_t* made;", "uint8_t* to = (uint8_t*)out[0];"]
        moved += _TAKE.format(**names)
    lines = "\n".join(f"    {line}" for line in declared)
    absent = ["NULL" if argument in ("&inputs", "&outputs") else argument for argument in arguments]
    return _CAMERA.format(
        **names, arguments=", ".join(arguments), given_up=given_up, declared=lines, moved=moved,
        absent=", ".join(absent), refused=int(absent != arguments),
    )  # fmt: skip


def _probe(module: Module, is_async: bool, given_up: int | None = None) -> str:
    """A firmware's use of the network, with all memory between guards."""
    prefix, macro, io = module.prefix, module.macro, module.options.workspace_io
    names = module.tensor_names
    pools = ""
    before = ["  int32_t status;"]
    arguments = []
    if not io:
        before += [f"  struct {prefix}_inputs inputs;", f"  struct {prefix}_outputs outputs;"]
        before += [f"  inputs.{names[t]} = in[{place}];" for place, t in enumerate(module.inputs)]
        before += [f"  outputs.{names[t]} = out[{place}];" for place, t in enumerate(module.outputs)]
        arguments += ["&inputs", "&outputs"]
    memory = ""
    if module.has_pools:
        pools = f"static struct {prefix}_workspace_pools pools;"
        before += ["  pools.arena = guarded.arena;", "  pools.arena_size = sizeof guarded.arena;"]
        if module.has_fast:
            before += ["  pools.fast = fast.bytes;", "  pools.fast_size = sizeof fast.bytes;"]
        # One memory is spoilt, so that no check of another one finds it.
        spoilt = ("fast", "fast.bytes") if module.has_fast else ("arena", "guarded.arena")
        before += [f"  pools.{spoilt[0]} = {spoilt[1]} + shift;", f"  pools.{spoilt[0]}_size -= (size_t)shortage;"]
        if module.weights_as == "pool":
            before += ["  pools.weights = weights;", f"  pools.weights_size = {macro}_WEIGHTS_CONSTANT_POOL_SIZE;"]
        arguments.append("&pools")
        memory = "&pools"
    after = []
    if io:
        inputs, outputs = () if module.feeds else module.inputs, () if module.takes else module.outputs
        for what, tensors in (("inputs", inputs), ("outputs", outputs)):
            copies = []
            for place, t in enumerate(tensors):
                ends = (f"map.{names[t]}", f"in[{place}]") if what == "inputs" else (f"out[{place}]", f"map.{names[t]}")
                copies.append(f"memcpy({ends[0]}, {ends[1]}, {module.tensor(t).size_bytes});")
            block = f"  {{ struct {prefix}_{what} map = {prefix}_map_{what}({memory}); {' '.join(copies)} }}"
            (before if what == "inputs" else after).append(block)
    if module.has_npu:
        before.append("  devices.ethos_u = NULL; devices.user_arg = &probe_token; devices.driver_result = 0;")
        after.append(f"  probe_driver_result = {'job' if is_async else 'devices'}.driver_result;")
        before.insert(1, f"  struct {prefix}_devices devices;")
        arguments.append("&devices")
    run = f"{prefix}_run({', '.join(arguments)})"
    if given_up is not None:
        later = {"&inputs": module.feeds, "&outputs": module.takes}
        before.append(_camera(module, [argument for argument in arguments if not later.get(argument)], given_up))
        run = "status"
    if is_async:
        before.insert(1, f"  static struct {prefix}_job job;")
        run = f"{prefix}_run_async(&job, {', '.join(arguments)})"
        after.insert(
            0, f"  while (status == {macro}_RUNNING) {{ ++*polls; status = {prefix}_wait(&job, *polls > 40); }}"
        )
    before.append("  (void)in; (void)out; (void)weights; (void)shift; (void)shortage; (void)polls;")
    alias = ""
    if not module.has_pools:
        # An alias, because C has no array inside of another object.
        alias = f'__asm__(".globl my_arena\\n.set my_arena, guarded+{GUARD_BYTES}\\n");'
        alias += f'\n__asm__(".globl my_fast\\n.set my_fast, fast+{GUARD_BYTES}\\n");'
    return _PROBE.format(
        header=f"{prefix}.h", guard=GUARD_BYTES, macro=macro, prefix=prefix, alias=alias, pools=pools,
        fast=f"{macro}_FAST_SIZE" if module.has_fast else 16,
        before="\n".join(before), run=run, after="\n".join(after),
    )  # fmt: skip


# --- build and run ----------------------------------------------------------------------------------------------------


class Firmware:
    """A shared library of the network, a probe and a driver, in a folder of its own."""

    def __init__(
        self,
        artifact: Artifact,
        folder: Path,
        options: COptions,
        *,
        driver: Driver,
        compiler: str = "cc",
        flags: Sequence[str] = (),
        is_async: bool = False,
        given_up: int | None = None,
        more: str = "",
    ) -> None:
        """`more` is a C file of the firmware's own; with `given_up` it hands over rows, and gives up that many runs."""
        self._artifact, self._folder, self._driver, self._compiler = artifact, folder, driver, compiler
        self._module = make(artifact, options)
        self._sanitized = any("address" in flag for flag in flags)
        self._regions = 3 + len(artifact.external)
        files = c_source.write(artifact, folder, options)
        (folder / "probe.c").write_text(_probe(self._module, is_async, given_up))
        (folder / "probe_config.h").write_text(_HOOKS)
        own = [str(path) for path in files.values() if path.suffix in (".c", ".S")]
        (folder / "more.c").write_text(f"{more}\ntypedef int more_than_nothing;\n")
        others = [str(folder / name) for name in ("probe.c", "more.c")]
        others += [str(FIRMWARE / "driver_standin.c")] if self._module.has_npu else []
        defines = ['-DETHOSCADE_CONFIG_H="probe_config.h"', f"-I{folder}", f"-I{FIRMWARE}", *driver.flags]
        if not self._module.has_pools:
            defines.append(f"-D{self._module.macro}_ARENA=my_arena")
            defines += [f"-D{self._module.macro}_FAST=my_fast"] if self._module.has_fast else []
        if is_async:
            defines.append("-DETHOSCADE_ETHOSU_ASYNC=1")
        defines.append(f"-DSTANDIN_REGIONS={self._regions}")
        command = [compiler, "-O1", "-fPIC", "-shared", *flags, *defines]
        # The probe is a test's and need not be as strict as what is emitted.
        strict = [compile_(command, [unit], STRICT, folder) for unit in own]
        loose = [compile_(command, [unit], ("-std=c99",), folder) for unit in others]
        link = [*command, *strict, *loose, "-o", str(folder / "firmware.so")]
        done = subprocess.run(link, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def run(
        self,
        steps: Sequence[Mapping[str, npt.NDArray[Any]]],
        *,
        shift: int = 0,
        shortage: int = 0,
        input_shift: int = 0,
        resets: Sequence[int] = (),
    ) -> Found:
        """Run on each of `steps`, in one process. `shift` and `shortage` spoil what pools say of their memories.

        `input_shift` moves all inputs by bytes.
        """
        graph, module = self._artifact.graph, self._module
        job = {
            "library": str(self._folder / "firmware.so"),
            "simulator": str(simulator.driver_interface()[1]) if module.has_npu else "",
            "inputs": [[step[graph.tensors[t].name].tobytes().hex() for t in module.inputs] for step in steps],
            "outputs": [graph.tensors[t].size_bytes for t in module.outputs],
            "weights": module.weights.hex() if module.weights_as == "pool" else "",
            "device": device_words(self._driver.accelerator),
            "fast_memory": self._driver.fast_memory,
            "is_there": self._driver.is_there,
            "fault": self._driver.fault,
            "shift": shift,
            "shortage": shortage,
            "input_shift": input_shift,
            "regions": self._regions,
            "calls": len(self._artifact.calls),
        }
        (self._folder / "job.json").write_text(json.dumps(job))
        environment = dict(os.environ)
        if self._sanitized:
            environment |= {
                "LD_PRELOAD": _runtime(self._compiler),
                "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0",
            }
        command = [sys.executable, str(FIRMWARE / "child.py"), str(self._folder / "job.json")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        tensors = [graph.tensors[t] for t in module.outputs]
        found["outputs"] = [
            [
                np.frombuffer(bytes.fromhex(data), tensor.dtype.numpy).reshape(tensor.shape)
                for data, tensor in zip(step, tensors, strict=True)
            ]
            for step in found["outputs"]
        ]
        return Found(**found)


def compile_(command: Sequence[str], units: Sequence[str], flags: Sequence[str], folder: Path) -> str:
    """Compile to an object file in `folder`; returns its path."""
    target = str(folder / f"{Path(units[0]).stem}.o")
    built = [word for word in command if word != "-shared"]
    done = subprocess.run([*built, *flags, "-c", *units, "-o", target], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return target


def _runtime(compiler: str) -> str:
    """The library of the address sanitizer, which must be in a process before all others."""
    asked = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    return asked.stdout.strip()
