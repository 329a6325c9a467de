"""Every operator that Vela lowers to NPU commands, in all types, on the simulator against reference interpreters.

`python tests/models/test_vela_zoo.py` runs everything and writes docs/simulator-coverage.md; the test runs a part.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import vela_file  # noqa: E402
import zoo_models  # noqa: E402
from ethoscade import simulator  # noqa: E402
from ethoscade.errors import SimulationError  # noqa: E402
from zoo_models import DType, Zoo, zoo  # noqa: E402

HERE = Path(__file__).parent
TABLE = Path(__file__).parents[2] / "docs" / "simulator-coverage.md"
LEGACY = ("--debug-force-legacy-core",)
# (accelerator, core); the first two are the ones of the test.
CONFIGURATIONS = (
    ("ethos-u55-256", "regor"),
    ("ethos-u55-256", "legacy"),
    ("ethos-u55-128", "regor"),
    ("ethos-u55-32", "regor"),
    ("ethos-u55-32", "legacy"),
    ("ethos-u65-256", "regor"),
    ("ethos-u65-512", "regor"),
    ("ethos-u65-512", "legacy"),
)
# Why Vela's streams or one of the references differ; (kind, type or None, core or None) to a reason.
EXPLAINED: dict[tuple[str, DType | None, str | None], str] = {}


@dataclass
class Entry:
    """What one compiled file showed, output by output: elements, and how many differ from each reference."""

    kind: str
    dtype: DType
    accelerator: str
    core: str
    status: str = "ran"
    elements: int = 0
    on_cpu: int = 0
    differ: dict[str, int] = field(default_factory=lambda: {"litert": 0, "tflm": 0, "both": 0})
    hazards: list[str] = field(default_factory=list)
    cases: list[str] = field(default_factory=list)
    largest: int = 0


def inputs_of(models: Zoo) -> list[np.ndarray]:
    """Uniform values with the type's extremes in front."""
    rng = np.random.default_rng(7)
    found = []
    for index in models.inputs:
        tensor = models.tensors[index]
        low, high = (-3000, 3000) if tensor.dtype is DType.INT32 else tensor.dtype.limits
        values = rng.integers(low, high, tensor.shape, endpoint=True).astype(tensor.dtype.numpy)
        values.reshape(-1)[:2] = (low, high)[: values.size]
        found.append(values)
    return found


class Run:
    """Compiles and evaluates many files."""

    def __init__(
        self, folder: Path, keys: Sequence[tuple[str, DType]], configurations: Sequence[tuple[str, str]]
    ) -> None:
        self.folder, self.configurations = folder, configurations
        self.zoos = {f"{kind}_{dtype.value}": zoo(kind, dtype) for kind, dtype in keys}
        jobs: list[dict] = []
        for name, models in self.zoos.items():
            (folder / f"{name}.tflite").write_bytes(models.build())
            np.savez(folder / f"{name}.inputs.npz", *inputs_of(models))
            jobs += [self._reference(name, engine) for engine in ("litert", "tflm")]
            for accelerator, core in configurations:
                options = ["--accelerator-config", accelerator, *(LEGACY if core == "legacy" else ())]
                model = str(folder / f"{name}.tflite")
                jobs.append({"do": "vela", "model": model, "folder": self._out(accelerator, core), "options": options})
        (folder / "jobs.json").write_text(json.dumps(jobs))
        subprocess.run([sys.executable, str(HERE / "zoo_worker.py"), str(folder / "jobs.json")], check=True)

    def _out(self, accelerator: str, core: str) -> str:
        return str(self.folder / f"{accelerator}-{core}")

    def _reference(self, name: str, engine: str) -> dict:
        files = {part: str(self.folder / f"{name}.{part}.npz") for part in ("inputs", engine)}
        model = str(self.folder / f"{name}.tflite")
        return {"do": engine, "model": model, "inputs": files["inputs"], "outputs": files[engine]}

    def references(self, name: str) -> dict[str, list[np.ndarray]]:
        found = {}
        for engine in ("litert", "tflm"):
            path = self.folder / f"{name}.{engine}.npz"
            if path.is_file():
                archive = np.load(path)
                found[engine] = [archive[f"arr_{i}"] for i in range(len(archive.files))]
        return found

    def entries(self) -> Iterable[Entry]:
        for name, models in self.zoos.items():
            references = self.references(name)
            for accelerator, core in self.configurations:
                entry = Entry(models.kind, models.dtype, accelerator, core)
                path = Path(self._out(accelerator, core), f"{name}_vela.tflite")
                if not path.is_file():
                    entry.status = "Vela fails"
                elif not references:
                    entry.status = "no reference"
                else:
                    evaluate(entry, models, vela_file.read(path), references)
                yield entry


def evaluate(entry: Entry, models: Zoo, compiled: vela_file.VelaFile, references: dict[str, list[np.ndarray]]) -> None:
    """Runs the NPU's part of the file; outputs that the CPU has to make are counted and left out."""
    parts = [operator for operator in compiled.operators if isinstance(operator, vela_file.NpuOp)]
    if not parts:
        entry.status, entry.on_cpu = "on the CPU", len(models.outputs)
        return
    fast_offset, fast_size = parts[0].fast_scratch
    size = parts[0].scratch[1]
    dedicated = fast_offset + fast_size > size or "u65" in entry.accelerator
    fast = fast_size if dedicated else (1, fast_offset, fast_size)
    ends = [t.offset + t.size_bytes for t in (*compiled.inputs, *compiled.outputs)]
    machine = simulator.Machine(entry.accelerator, [parts[0].constants, max(size, *ends), fast])
    for tensor, value in zip(compiled.inputs, inputs_of(models), strict=True):
        machine.write(1, tensor.offset, value)
    try:
        for part in parts:
            entry.hazards += [h.message for h in machine.run(part.payload).hazards]
    except SimulationError as error:
        entry.status = f"error: {error}"
        return
    for index, tensor in enumerate(compiled.outputs):
        if machine.find_uninitialised(1, tensor.offset, tensor.offset + tensor.size_bytes) is not None:
            entry.on_cpu += 1
            continue
        data = machine.read(1, tensor.offset, tensor.size_bytes)
        found = np.frombuffer(data, tensor.dtype)
        wrong = {e: found != r[index].reshape(-1) for e, r in references.items()}
        entry.elements += found.size
        for engine, where in wrong.items():
            entry.differ[engine] += int(where.sum())
        best = min(wrong, key=lambda engine: int(wrong[engine].sum()))
        entry.differ["both"] += int(wrong[best].sum())
        if wrong[best].any():
            entry.cases.append(models.cases[min(index, len(models.cases) - 1)])
            off = np.abs(found.astype(np.int64) - references[best][index].reshape(-1)).max()
            entry.largest = max(entry.largest, int(off))


def explanation(entry: Entry) -> str | None:
    for key in ((entry.kind, entry.dtype, entry.core), (entry.kind, None, entry.core), (entry.kind, entry.dtype, None)):
        if key in EXPLAINED:
            return EXPLAINED[key]
    return EXPLAINED.get((entry.kind, None, None))


def everything(configurations: Sequence[tuple[str, str]]) -> list[Entry]:
    keys = [(kind, dtype) for kind, (dtypes, _) in zoo_models.KINDS.items() for dtype in dtypes]
    with tempfile.TemporaryDirectory() as folder:
        return list(Run(Path(folder), keys, configurations).entries())


if __name__ == "__main__":
    import pickle

    found = everything(CONFIGURATIONS[: int(sys.argv[1]) if len(sys.argv) > 1 else None])
    pickle.dump(found, open("/tmp/zoo.pkl", "wb"))
    for e in found:
        if e.status != "ran" or e.differ["both"] or e.hazards or e.on_cpu:
            print(
                e.kind,
                e.dtype.value,
                e.accelerator,
                e.core,
                e.status,
                "elements",
                e.elements,
                "cpu",
                e.on_cpu,
                e.differ,
                e.largest,
                e.cases[:4],
                e.hazards[:1],
            )
