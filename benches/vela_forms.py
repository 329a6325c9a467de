"""Every form of every operator that Vela has on an NPU: what it takes, what we take, and why not where it does.

    python benches/vela_forms.py [--kinds KIND ...] [--types TYPE ...] [--judge] [--write]

Models of one operator (`operator_forms`) are compiled with Vela, by its library in a child process, for both
accelerators, and divided by our `partition`. One line for each form that Vela takes and we leave to the CPU, with our
reason; then the table by kind and type. `--judge` runs what Vela made of one such form for each reason on the simulator
and compares it with LiteRT, which tells whether Vela is exact there. `--write` writes the page docs/vela-forms.md. Four
minutes of one core.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from ethoscade.errors import EthoscadeError
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, Graph, Operator
from ethoscade.judge.litert import Session
from ethoscade.lowering import elements, support
from ethoscade.pipeline.partition import partition
from ethoscade.rewrites import simplify
from ethoscade.targets.target import ACCELERATORS
from harness import default_target
from operator_forms import KINDS, TYPES, Form, forms

PAGE = Path(__file__).resolve().parents[1] / "docs" / "vela-forms.md"
NAMES = ("ethos-u55-128", "ethos-u65-256")
HEAD = """# What Vela takes, beside what we take

Written by `python benches/vela_forms.py --judge --write`; do not edit. Models of one operator, in every form that the
bench has (ranks, batches, broadcasts, constants, axes, windows, paddings, activations, quantisations), each compiled by
Vela {version} for {names}, and divided by `partition`. Columns count forms: how many there are, how
many Vela and how many we put on the NPU, on both accelerators, and how many Vela alone does.

| operator | type | forms | Vela | ours | Vela alone |
| --- | --- | --- | --- | --- | --- |
"""
ALONE = """
## Forms that Vela alone takes

By our reason, with the first of the forms. The last column is what the simulator makes of Vela's stream for one of
them: equal to LiteRT's reference kernel or not; or who does not take it.

| operator | types | forms | our reason | Vela's result |
| --- | --- | --- | --- | --- |
"""


# Vela, in a child process, which files that it dislikes may end.


def _configuration(name: str) -> tuple[str, str, str]:
    """The accelerator's family, and the system's and the compiler's settings, as Vela's library takes them."""
    from ethosu.vela import architecture_features, vela

    files = [str(path) for path in sorted((Path(vela.__file__).parents[1] / "config_files").rglob("vela.ini"))]
    # The library's own files name the systems; without any the features alone decide.
    target = default_target()
    features = architecture_features.ArchitectureFeatures(
        vela_config_files=files or None,
        system_config=target.system_config if files else "internal-default",
        memory_mode=target.memory_mode if files else "internal-default",
        accelerator_config=name,
        max_blockdep=3,
        verbose_config=False,
        arena_cache_size=None,
    )
    system = f"[architecture]\nmacs={features.num_macs_per_cycle}\ncores={features.ncores}\n"
    system += f"[vela]\nsystem_config_name={features.system_config}\nmemory_mode_name={features.memory_mode}\n"
    system += "".join(Path(path).read_text(encoding="utf-8") for path in features.vela_config_files or ())
    settings = (
        "\n[compiler]\noutput_format=TFLite\ncop_format=COP1\n\n[scheduler]\noptimize=Performance\n"
        f"arena_size_limit={features.arena_cache_size}\ndisable_feature=\nseparate_io_regions=false\n"
        "cpu_tensor_alignment=16\ntensor_allocator=HillClimb\n\n[graph]\n"
    )
    return "".join(part.capitalize() for part in name.split("-")[:-1]), system, settings


def _answer(pipe: Connection) -> None:
    """The child: models come in with an accelerator's name, compiled files go out, or the text of an error."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    from ethosu import regor

    configurations = {name: _configuration(name) for name in NAMES}
    while True:
        name, model = pipe.recv()
        family, system, settings = configurations[name]
        try:
            pipe.send(bytes(regor.compile(family, model, "TFLITE", system, options=settings, verbose=False).model))
        except (RuntimeError, TypeError, ValueError) as error:
            pipe.send(f"{type(error).__name__}: {error}")


class Vela:
    """Vela's library in a child process; a new one after each model that ended it."""

    def __init__(self) -> None:
        self._child: multiprocessing.process.BaseProcess | None = None
        self._pipe: Connection | None = None

    def compile(self, name: str, model: bytes) -> bytes | str:
        """The compiled file, or what became of the attempt."""
        if self._child is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, other = context.Pipe()
            self._child = context.Process(target=_answer, args=(other,), daemon=True)
            self._child.start()
            other.close()
        assert self._pipe is not None
        try:
            self._pipe.send((name, model))
            if not self._pipe.poll(60):
                raise EOFError
            answer: bytes | str = self._pipe.recv()
            return answer
        except (EOFError, ConnectionError):
            self.close()
            return "ended by the model"

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.kill()
            self._child.join()
        self._child = None


def whole(compiled: bytes) -> bool:
    """Whether a compiled file has nothing but calls of the NPU."""
    import tflite

    model = tflite.Model.GetRootAs(compiled, 0)
    graph = model.Subgraphs(0)
    codes = (model.OperatorCodes(graph.Operators(i).OpcodeIndex()) for i in range(graph.OperatorsLength()))
    return graph.OperatorsLength() > 0 and all(code.CustomCode() == b"ethos-u" for code in codes)


# Ours, and the comparison.


def refusal(model: bytes, name: str) -> str | None:
    """Why we leave some operator of a model to the CPU; None if we do not."""
    accelerator = ACCELERATORS[name]

    def on_npu(graph: Graph, op: Operator) -> bool:
        return support(graph, op, accelerator) is None

    try:
        graph = simplify(read_tflite(model), on_npu, elements)
    except EthoscadeError as error:
        return f"refused: {error}"
    reasons = [place.reason for place in partition(graph, accelerator).assignments if place.where == "cpu"]
    return reasons[0] if reasons else None


def vela_is_exact(form: Form, compiled: bytes, name: str) -> str:
    """What the simulator makes of Vela's stream, beside LiteRT: "exact", "wrong", or why nobody knows."""
    import vela_file
    from test_vela_streams import run_network

    try:
        graph = read_tflite(form.model)
    except EthoscadeError:
        return ""
    rng = np.random.default_rng(3)
    values = {}
    for index in graph.given:
        low, high = graph.tensors[index].dtype.limits
        shape, dtype = graph.tensors[index].shape, graph.tensors[index].dtype.numpy
        # Values of 32 bits stay where no product leaves them: how the NPU overflows is unknown.
        low, high = max(low, -20000), min(high, 20000)
        values[index] = rng.integers(low, high, shape, endpoint=True).astype(dtype)
    try:
        with Session(form.model, form.words) as session:
            (wanted,) = session.run(range(len(graph.operators)), list(values), graph.handed_out, [values])
    except EthoscadeError as error:
        return "LiteRT has no kernel for it" if "refuses" in str(error) else "LiteRT ends"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "compiled.tflite"
        path.write_bytes(compiled)
        found = vela_file.read(path)
    try:
        made, _ = run_network(name, found, list(values.values()))
    except (AssertionError, ValueError):
        return "not run"
    except EthoscadeError as error:
        return f"the simulator refuses it: {' '.join(str(error).split()).split('): ')[-1]}"
    pairs = zip(made, wanted.values(), strict=True)
    differ = sum(int((a.reshape(b.shape) != b).sum()) for a, b in pairs)
    return "exact" if not differ else "wrong"


@dataclass
class Gap:
    """A form that Vela takes and we do not."""

    form: Form
    reason: str
    vela: str = ""

    @property
    def why(self) -> tuple[str, str]:
        """The type and the reason without names and numbers: one verdict on Vela is enough for all that share them."""
        return self.form.dtype.value, re.sub(r"'[^']*'|[-0-9.]+", "*", self.reason)

    def __str__(self) -> str:
        verdict = f" [Vela: {self.vela}]" if self.vela else ""
        return f"{self.form.kind} {self.form.dtype.value}, {self.form.words}: {self.reason}{verdict}"


@dataclass
class Table:
    """Counts by kind and type, and gaps."""

    counts: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)

    def page(self) -> str:
        """The page."""
        from importlib.metadata import version

        text = HEAD.format(version=version("ethos-u-vela"), names=" and ".join(NAMES))
        for (kind, dtype), count in self.counts.items():
            cells = (count[column] for column in ("forms", "vela", "ours", "alone"))
            text += f"| {kind} | {dtype} | {' | '.join(map(str, cells))} |\n"
        grouped: dict[tuple[str, str], list[Gap]] = {}
        for gap in self.gaps:
            grouped.setdefault((gap.form.kind, gap.why[1]), []).append(gap)
        text += ALONE
        for (kind, _), gaps in grouped.items():
            types = ", ".join(dict.fromkeys(gap.form.dtype.value for gap in gaps))
            words = list(dict.fromkeys(gap.form.words for gap in gaps))
            more = f" and {len(words) - 3} more" if len(words) > 3 else ""
            verdicts = "; ".join(dict.fromkeys(gap.vela for gap in gaps if gap.vela))
            text += f"| {kind} | {types} | {'; '.join(words[:3])}{more} | {gaps[0].reason} | {verdicts} |\n"
        return text


def compared(vela: Vela, chosen: Iterator[Form], table: Table, judge: bool) -> None:
    """Asks both about each form."""
    judged = {(gap.form.kind, gap.why) for gap in table.gaps}
    for form in chosen:
        count = table.counts.setdefault((form.kind, form.dtype.value), Counter())
        made = {name: vela.compile(name, form.model) for name in NAMES}
        takes = {name: isinstance(file, bytes) and whole(file) for name, file in made.items()}
        reasons = {name: refusal(form.model, name) for name in NAMES}
        count["forms"] += 1
        count["vela"] += all(takes.values())
        count["ours"] += all(reason is None for reason in reasons.values())
        alone = next((name for name in NAMES if takes[name] and reasons[name] is not None), None)
        if alone is None:
            continue
        count["alone"] += 1
        gap, file = Gap(form, reasons[alone] or ""), made[alone]
        if judge and isinstance(file, bytes) and (form.kind, gap.why) not in judged:
            gap.vela = vela_is_exact(form, file, alone)
            judged.add((form.kind, gap.why))
        table.gaps.append(gap)
        print(gap, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, metavar="KIND")
    parser.add_argument("--types", nargs="+", choices=[t.value for t in TYPES], default=[t.value for t in TYPES])
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    table, vela = Table(), Vela()
    chosen: Sequence[tuple[str, DType]] = [(kind, DType(t)) for kind in args.kinds for t in args.types]
    for kind, dtype in chosen:
        compared(vela, forms(kind, dtype), table, args.judge)
    vela.close()
    page = table.page()
    print("\n" + page)
    if args.write:
        PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
