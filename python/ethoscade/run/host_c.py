"""Builds the emitted C with this machine's compiler and runs it, the NPU driver's part being played by the simulator.

Owns the compiler call and the child process: C that crashes takes the child along, not the caller. Emits no code.
The Rust extension exports the driver's `ethosu_*` functions; it is loaded globally, so that the network's library finds
them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..codegen import c_source
from ..codegen.artifact import Artifact
from ..codegen.layout import npu_calls
from ..errors import VerificationError
from ..ir import Array
from ..util.records import dataclass
from ..util.temporary import make_folder
from .inputs import checked_inputs

FLAGS = ("-std=c99", "-pedantic", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")

# Runs in the child. Numbers that a run returned go to stdout, everything else that it prints does no harm.
_CHILD = """
import ctypes, json, sys
import numpy as np
job = json.load(open(sys.argv[1]))
driver = ctypes.CDLL(job["driver"], ctypes.RTLD_GLOBAL) if job["driver"] else None
library = ctypes.CDLL(job["library"])
given = np.load(job["inputs"])

def in_whole_lines(shape, dtype):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 128, np.uint8)
    first = -memory.ctypes.data % 64
    return memory[first : first + size].view(dtype).reshape(shape)

inputs = [in_whole_lines(entry["shape"], entry["dtype"]) for entry in job["inputs_of"]]
outputs = [np.zeros(entry["shape"], entry["dtype"]) for entry in job["outputs_of"]]
structs = []
for arrays in (inputs, outputs):
    fields = [("f%d" % i, ctypes.c_void_p) for i in range(len(arrays))]
    struct = type("Pointers", (ctypes.Structure,), {"_fields_": fields})
    structs.append(struct(*[array.ctypes.data for array in arrays]))
run = getattr(library, job["function"])
run.restype = ctypes.c_int32
count = getattr(driver, "ethoscade_sim_hazards", None)
if count is not None:
    count.restype = ctypes.c_size_t
arguments = [ctypes.byref(struct) for struct in structs] + ([None] if job["driver"] else [])
results, hazards = {}, []
for step in range(job["steps"]):
    for i, array in enumerate(inputs):
        array[...] = given["s%d_t%d" % (step, i)]
    if step in job["resets"]:
        getattr(library, job["reset"])()
    status = run(*arguments)
    if status:
        break
    results.update({"s%d_t%d" % (step, i): array.copy() for i, array in enumerate(outputs)})
    hazards.append(count() if count is not None else None)
# The simulator says why it refused; a driver from elsewhere does not.
reason = getattr(driver, "ethoscade_sim_last_error", None) if status else None
if reason is not None:
    reason.restype = ctypes.c_char_p
    sys.stderr.write(reason().decode(errors="replace"))
np.savez(job["results"], **results)
json.dump({"status": status, "hazards": hazards}, open(job["report"], "w"))
"""


@dataclass(frozen=True, eq=False)
class HostRun:
    """What the C computed: outputs by tensor name, and the bytes of the arena in use as the emitted header states them.

    `hazards` is what the simulator counted in this run and those before it; None where there was no NPU call or another
    driver served them.
    """

    outputs: Mapping[str, Array]
    arena_bytes: int
    hazards: int | None


class HostLibrary:
    """The emitted C of one artefact, built in a folder of its own; a context manager that removes the folder."""

    def __init__(self, artifact: Artifact, *, extra_flags: Sequence[str] = ()) -> None:
        """Emit and build. Raises `VerificationError` for a compiler that is missing or refuses the code."""
        self._artifact = artifact
        self._folder = make_folder("ethoscade-c-")
        try:
            self._library = build(artifact, self._folder.name, extra_flags=extra_flags)
        except BaseException:
            self._folder.cleanup()
            raise

    def __enter__(self) -> HostLibrary:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def run(
        self,
        inputs: Mapping[str, Array],
        *,
        runs: int = 1,
        driver: str | os.PathLike[str] | None = None,
    ) -> HostRun:
        """Run on `inputs` (by tensor name), `runs` times in one child process; the last run counts. See `run_steps`."""
        return self.run_steps([inputs] * runs, driver=driver)[-1]

    def run_steps(
        self,
        steps: Sequence[Mapping[str, Array]],
        *,
        driver: str | os.PathLike[str] | None = None,
        resets: Sequence[int] = (),
    ) -> tuple[HostRun, ...]:
        """Run on each of `steps` (inputs by tensor name) in turn, in one child process: state lives on.

        Before the steps numbered in `resets` it is set up again, which is for networks with state alone.
        `driver` is a shared library with the driver's functions, by default the simulator's. Raises `ConfigError` for
        wrong inputs and `VerificationError` for a run that crashes or returns an error.
        """
        artifact, folder = self._artifact, Path(self._folder.name)
        arrays = [checked_inputs(artifact.graph, inputs) for inputs in steps]
        job = _job(artifact, arrays, folder, self._library, driver) | {"resets": list(resets)}
        header = (folder / c_source.header_name(artifact)).read_text(encoding="utf-8")
        size = re.search(r"_ARENA_BYTES (\d+)$", header, re.MULTILINE)
        found = _execute(artifact, job, folder, len(steps))
        return tuple(HostRun(outputs, int(size.group(1)) if size else 0, hazards) for outputs, hazards in found)


def run(
    artifact: Artifact,
    inputs: Mapping[str, Array],
    *,
    runs: int = 1,
    driver: str | os.PathLike[str] | None = None,
    extra_flags: Sequence[str] = (),
) -> HostRun:
    """Emit, build and run `artifact` once; see `HostLibrary`."""
    with HostLibrary(artifact, extra_flags=extra_flags) as library:
        return library.run(inputs, runs=runs, driver=driver)


def build(artifact: Artifact, folder: str | os.PathLike[str], *, extra_flags: Sequence[str] = ()) -> Path:
    """Write the C of `artifact` into `folder` and compile it to a shared library there; return the library's path.

    The compiler is $CC, else `cc`. Raises `VerificationError` if there is none or if it finds fault with the code.
    """
    files = c_source.write(artifact, folder)
    library = Path(folder) / f"lib{c_source.module_name(artifact)}.so"
    units = [str(path) for name, path in files.items() if name.endswith((".c", ".S"))]
    command = [
        *shlex.split(os.environ.get("CC") or "cc"),
        *FLAGS,
        *extra_flags,
        f"-I{folder}",
        *units,
        "-o",
        str(library),
        "-lm",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise VerificationError(
            f"cannot run the C compiler '{command[0]}' ({error.strerror}); install one or name one in CC"
        ) from error
    if done.returncode:
        raise VerificationError("the C compiler refused the emitted code", output=done.stderr.strip())
    return library


def _job(
    artifact: Artifact,
    steps: Sequence[Mapping[int, Array]],
    folder: Path,
    library: Path,
    driver: str | os.PathLike[str] | None,
) -> dict[str, object]:
    graph = artifact.graph
    named: dict[str, Any] = {}
    for step, arrays in enumerate(steps):
        named |= {f"s{step}_t{position}": array for position, array in enumerate(arrays.values())}
    np.savez(folder / "inputs.npz", **named)
    inputs, outputs = (
        [{"shape": graph.tensors[t].shape, "dtype": graph.tensors[t].dtype.value} for t in dict.fromkeys(ends)]
        for ends in (graph.given, graph.handed_out)
    )
    return {
        "library": str(library),
        "driver": str(driver or _simulator()) if npu_calls(artifact) else "",
        "function": f"tvmgen_{c_source.module_name(artifact)}_run",
        "reset": f"tvmgen_{c_source.module_name(artifact)}_reset",
        "inputs": str(folder / "inputs.npz"),
        "inputs_of": inputs,
        "outputs_of": outputs,
        "results": str(folder / "results.npz"),
        "report": str(folder / "report.json"),
        "steps": len(steps),
    }


def _execute(
    artifact: Artifact, job: dict[str, object], folder: Path, steps: int
) -> list[tuple[dict[str, Array], int | None]]:
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(folder / "job.json")], capture_output=True, text=True, check=False
    )
    if done.returncode:
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
        raise VerificationError(f"the emitted C of '{artifact.name}' ended with {how}", output=done.stderr.strip())
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    if status := report["status"]:
        raise VerificationError(
            f"tvmgen_{c_source.module_name(artifact)}_run returned {status}", output=done.stderr.strip()
        )
    names = [artifact.graph.tensors[index].name for index in dict.fromkeys(artifact.graph.handed_out)]
    with np.load(folder / "results.npz") as results:
        outputs = [
            {name: results[f"s{step}_t{position}"] for position, name in enumerate(names)} for step in range(steps)
        ]
    return list(zip(outputs, report["hazards"], strict=True))


def _simulator() -> str:
    try:
        from .. import _core
    except ImportError as error:
        raise VerificationError("the compiled extension ethoscade._core is missing; install ethoscade") from error
    return str(_core.__file__)
