"""Every operator that Vela lowers to NPU commands, in all types, on the simulator against reference interpreters.

`python tests/models/test_vela_zoo.py` runs everything and writes docs/simulator-coverage.md; the test runs a part.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import vela_file
import zoo_models
from ethoscade.errors import SimulationError
from ethoscade.run import simulator
from zoo_models import DType, Zoo, zoo

HERE = Path(__file__).parent
TABLE = Path(__file__).parents[2] / "docs" / "simulator-coverage.md"
LEGACY = ("--debug-force-legacy-core",)
SEEDS = range(3)
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
# Where the stream itself, not its execution, is off the reference: (kind, type or None, core or None) to the reason.
_STEP = "without kept dimensions Vela slides the window by 1 instead of the row's length"
_SCALED = (
    "rests on an assumption: that the NPU ignores OFM_SCALE's multiplier for 32-bit operands, as softmax needs it to; "
    "Vela writes one made of the tensors' scales, references apply none"
)
_SLICED = "Vela reduces one axis at a time and saturates in between"
EXPLAINED: dict[tuple[str, DType | None, str | None], str] = {
    ("EXP", DType.INT8, "regor"): "Vela's table rounds single entries otherwise",
    ("EXP", DType.INT16, "legacy"): "Vela's table differs by 1 in single entries",
    ("MUL", DType.INT16, None): "a multiplier above 1 overflows the references' 32 bits; the NPU saturates",
    ("REDUCE_MAX", DType.INT8, "regor"): _STEP,
    ("REDUCE_MIN", DType.INT8, "regor"): _STEP,
    ("NEG", DType.INT8, "regor"): "LiteRT negates stored integers, the NPU's stream values around their zero points",
    ("NEG", DType.INT16, "regor"): "LiteRT wraps the negative of -32768; the NPU saturates",
    ("ADD of scaled int32", None, None): _SCALED,
    ("MUL of scaled int32", None, None): _SCALED,
    ("SUB of scaled int32", None, None): _SCALED,
    ("SQUARED_DIFFERENCE", DType.INT8, "legacy"): "Vela reads unwritten bytes where the first operand is broadcast",
    ("SUM", DType.INT8, "regor"): _SLICED,
    ("SUM", DType.INT16, "regor"): _SLICED,
    ("TRANSPOSE", DType.UINT8, "regor"): "Vela takes uint8 for int8 and clamps to 0..127",
}
# Streams of Vela with a hazard of their own.
HAZARDOUS = {
    ("RESIZE_BILINEAR", "legacy"): "BLOCKDEP of the half-pixel form overlooks the IFM's last row",
    ("SQUARED_DIFFERENCE", "legacy"): "reads bytes that nobody wrote",
}


@dataclass
class Entry:
    """What one compiled file showed, output by output: elements, and how many differ from each reference."""

    kind: str
    dtype: DType
    accelerator: str
    core: str
    status: str = "ran"
    elements: int = 0
    outputs: int = 0
    on_cpu: int = 0
    micro: int = 0
    differ: dict[str, int] = field(default_factory=lambda: {"litert": 0, "tflm": 0, "both": 0})
    hazards: list[str] = field(default_factory=list)
    cases: list[str] = field(default_factory=list)
    largest: int = 0


def inputs_of(models: Zoo, seed: int) -> list[np.ndarray]:
    """Uniform values with the type's extremes in front."""
    rng = np.random.default_rng(7 + seed)
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
        self.zoos = {f"{kind.replace(' ', '_')}_{dtype.value}": zoo(kind, dtype) for kind, dtype in keys}
        self.kinds = {name: kind for name, (kind, _) in zip(self.zoos, keys, strict=True)}
        jobs: list[dict] = []
        for name, models in self.zoos.items():
            (folder / f"{name}.tflite").write_bytes(models.build())
            np.savez(folder / f"{name}.inputs.npz", *(value for seed in SEEDS for value in inputs_of(models, seed)))
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
                entry = Entry(self.kinds[name], models.dtype, accelerator, core)
                path = Path(self._out(accelerator, core), f"{name}_vela.tflite")
                if not path.is_file():
                    entry.status = "Vela fails"
                elif not references:
                    entry.status = "no reference"
                else:
                    for seed in SEEDS:
                        evaluate(entry, models, vela_file.read(path), references, seed)
                yield entry


def evaluate(
    entry: Entry, models: Zoo, compiled: vela_file.VelaFile, references: dict[str, list[np.ndarray]], seed: int
) -> None:
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
    for tensor, value in zip(compiled.inputs, inputs_of(models, seed), strict=True):
        machine.write(1, tensor.offset, value)
        machine.watch_input(1, tensor.offset, tensor.offset + tensor.size_bytes)
    for tensor in compiled.variables:
        machine.write(1, tensor.offset, bytes(tensor.size_bytes))
    by_npu = {tensor.name for part in parts for tensor in part.outputs}
    try:
        for part in parts:
            entry.hazards += [h.message for h in machine.run(part.payload).hazards]
    except SimulationError as error:
        entry.status = f"error: {error}"
        return
    for index, tensor in enumerate(compiled.outputs):
        if tensor.name not in by_npu:
            entry.on_cpu += 1
            continue
        data = machine.read(1, tensor.offset, tensor.size_bytes)
        found = np.frombuffer(data, tensor.dtype)
        at = SEEDS.index(seed) * len(compiled.outputs) + index
        wrong = {e: found != r[at].reshape(-1) for e, r in references.items()}
        entry.elements += found.size
        entry.outputs += 1
        for engine, where in wrong.items():
            entry.differ[engine] += int(where.sum())
        best = min(wrong, key=lambda engine: int(wrong[engine].sum()))
        entry.differ["both"] += int(wrong[best].sum())
        if best == "tflm":
            off_litert = wrong.get("litert", np.ones(found.size, bool))
            entry.micro += int((off_litert & ~wrong["tflm"]).sum())
        if wrong[best].any():
            entry.cases.append(models.cases[min(index, len(models.cases) - 1)])
            off = np.abs(found.astype(np.int64) - references[best][at].reshape(-1)).max()
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


PART = ("ADD", "AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "MUL", "SOFTMAX", "TANH")
PART += (
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
    "NEG",
    "TRANSPOSE_CONV",
    "RESIZE_BILINEAR",
    "LEAKY_RELU",
    "MEAN",
    "STRIDED_SLICE",
)


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    """A part of the zoo on both cores."""
    for module in ("ethosu", "ai_edge_litert"):
        pytest.importorskip(module)
    keys = [(kind, dtype) for kind in PART for dtype in zoo_models.KINDS[kind][0]]
    return list(Run(tmp_path_factory.mktemp("zoo"), keys, CONFIGURATIONS[:2]).entries())


def faults(entries: Iterable[Entry]) -> list[str]:
    """What is neither exact nor explained."""
    found = []
    for entry in entries:
        name = f"{entry.kind} {entry.dtype.value} {entry.accelerator} {entry.core}"
        if entry.status.startswith("error"):
            found.append(f"{name}: {entry.status}")
        if entry.differ["both"] and explanation(entry) is None:
            found.append(
                f"{name}: {entry.differ['both']} of {entry.elements} differ by up to {entry.largest}: {entry.cases}"
            )
        if entry.hazards and (entry.kind, entry.core) not in HAZARDOUS:
            found.append(f"{name}: {entry.hazards[0]}")
    return found


def test_part_of_the_zoo_is_exact(entries: list[Entry]) -> None:
    assert faults(entries) == []
    assert sum(entry.elements for entry in entries) > 100_000


def reasons(entries: Iterable[Entry]) -> list[str]:
    """Each explanation of entries that differ, once for a type; the core is named if the other one does not need it."""
    cores: dict[tuple[str, str], set[str]] = defaultdict(set)
    for entry in entries:
        cores[entry.dtype.value, explanation(entry) or "not explained"].add(entry.core)
    return sorted(
        f"{', '.join([dtype, *(of if len(of) == 1 else ())])}: {reason}" for (dtype, reason), of in cores.items()
    )


def table(entries: Sequence[Entry]) -> str:
    """The coverage table as Markdown: one row per operator, all configurations together."""
    rows: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        rows[entry.kind].append(entry)
    lines = [
        "# What the simulator was compared on",
        "",
        "Written by `python tests/models/test_vela_zoo.py`; do not edit. Each operator in its own files, compiled by",
        f"Vela {version('ethos-u-vela')} for " + ", ".join(f"{a} ({c})" for a, c in CONFIGURATIONS) + ".",
        "An output is right if it equals LiteRT's reference kernels or TensorFlow Lite Micro's; the two differ in the",
        "rounding of fully connected layers and of some int16 functions, and LiteRT refuses some files that TFLM runs",
        "(ELU, SUM, int16 LSTM). Outputs that Vela leaves to the CPU are not counted, and neither are files that it",
        f"refuses. Each file runs on {len(SEEDS)} random inputs, extremes of the type among them; elements and outputs",
        "are sums over inputs and configurations.",
        "",
        "| operator | types | outputs on the NPU | elements | equal to LiteRT | to TFLM only | to neither | why |",
        "|---|---|---|---|---|---|---|---|",
    ]
    total = [0, 0, 0, 0, 0]
    for kind, part in rows.items():
        ran = [entry for entry in part if entry.elements]
        elements, neither = sum(e.elements for e in ran), sum(e.differ["both"] for e in ran)
        micro = sum(e.micro for e in ran)
        outputs = sum(e.outputs for e in ran)
        numbers = [outputs, elements, elements - micro - neither, micro, neither]
        total = [a + b for a, b in zip(total, numbers, strict=True)]
        why = reasons([e for e in ran if e.differ["both"]])
        types = sorted({e.dtype.value for e in ran}, key=lambda name: (int(name.strip("uint") or 0), name))
        absent = {
            f"{e.dtype.value}, {e.core}: {e.status}"
            for e in part
            if e.status in ("on the CPU", "Vela fails", "no reference")
        }
        why += sorted(absent) if ran else sorted({e.status for e in part})
        lines.append(
            f"| {kind} | {', '.join(types)} | " + " | ".join(f"{n:,}" for n in numbers) + f" | {'; '.join(why)} |"
        )
    lines.append("| all | | " + " | ".join(f"{n:,}" for n in total) + " | |")
    lines += ["", "Hazards of Vela's own streams in these files:", ""]
    lines += [f"- {kind}, {core} core: {why}." for (kind, core), why in HAZARDOUS.items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    entries = everything(CONFIGURATIONS)
    TABLE.write_text(table(entries))
    found = faults(entries)
    print("\n".join(found) or f"{sum(e.elements for e in entries)} elements, nothing unexplained")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
