"""What planning costs: chains of 50 to 800 operations, joins of 64 to 512 rows, whole frontiers of the shared models.

    python benches/chains.py [--lengths 50,100,200,400,800] [--instructions auto|callgrind|perf|none] [--no-models]

A chain repeats one block of a depthwise and a pointwise convolution, so that only its length changes. A join is a
FULLY_CONNECTED by weights that are an input: the NPU makes it of one operation for each row, and one Part joins these
rows and reads what the Part ahead of it makes as often. Seconds are CPU time of the planner alone, in this process,
the least of three runs up to 50 operations. Instructions are counted in a child process under callgrind (or `perf
stat`), with the search and without it; the difference is the search's. `auto` takes whichever is installed, callgrind
first, and each row says which; callgrind runs some 50 times slower than the planner, hence only up to
`--callgrind-up-to` operations and on the smallest models, and `perf` beyond that.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ethoscade import _core
from ethoscade.frontend import read_tflite
from ethoscade.pipeline.compiler import prepare, search
from ethoscade.scheduling.specs import PartSpec, TensorSpec
from ethoscade.targets.target import Target
from ethoscade.testing import ModelBuilder
from harness import cpu_seconds, default_target, named_models, network_of

PLANE, CHANNELS = 32, 16
JOINED_ROWS, JOIN_UNITS = (64, 128, 256, 512), 12
MODEL_LIMIT_SECONDS = {"mobilenet_v1_1.0_224_embed_uint8": 0.5}
OTHER_LIMIT_SECONDS = 2.0
CALLGRIND_MODELS = ("resnet8_int8", "kws_ref_int8", "vww_96_int8")


def chain(length: int, target: Target) -> _core.CascaderGraph:
    """A chain of `length` operations, depthwise and pointwise in turns."""
    builder = ModelBuilder("block")
    x = builder.input((1, PLANE, PLANE, CHANNELS), name="input")
    builder.conv2d(builder.depthwise(x, 3), CHANNELS, 1)
    block = prepare(read_tflite(builder.build()), target).problem
    tensors: list[TensorSpec] = []
    for number in range(length + 1):
        first, last = number == 0, number == length
        tensors.append(replace(block.tensors[1], name=f"tensor{number}", is_input=first, is_output=last))
    parts: list[PartSpec] = []
    for number in range(length):
        spec = block.specs[number % len(block.specs)]
        (read,) = spec.inputs
        parts.append(replace(spec, name=f"part{number}", inputs=(replace(read, tensor=number),), outputs=(number + 1,)))
    return _core.CascaderGraph(tensors, parts, target)


def join(rows: int, target: Target) -> _core.CascaderGraph:
    """One Part that joins so many `rows` of products, between convolutions."""
    builder = ModelBuilder("join")
    x = builder.input((1, rows, 1, 2 * CHANNELS), name="input")
    x = builder.conv2d(builder.conv2d(x, 2 * CHANNELS, 1), 2 * CHANNELS, 1)
    x = builder.weighed_by(x, builder.input((JOIN_UNITS, 2 * CHANNELS), name="weights"))
    builder.conv2d(builder.conv2d(x, 2 * CHANNELS, 1), 2 * CHANNELS, 1)
    return prepare(read_tflite(builder.build()), target).problem.core


def model_graph(model: str) -> _core.CascaderGraph:
    """The planner's problem of the model in a file."""
    return network_of(Path(model), default_target()).problem.core


# --- instructions -----------------------------------------------------------------------------------------------------

CHILD = """
import sys
sys.path.insert(0, {folder!r})
import chains, harness
graph = {graph}
if {search}:
    chains._core.Search(graph).frontier()
"""


def instructions(graph: str, count: Callable[[list[str]], int]) -> int:
    """Instructions of the search of a graph, given as an expression: a run with the search less a run without."""
    folder = str(Path(__file__).resolve().parent)
    with_search, without = (
        count([sys.executable, "-c", CHILD.format(folder=folder, graph=graph, search=search)])
        for search in (True, False)
    )
    return with_search - without


def by_callgrind(command: list[str]) -> int:
    """Instructions of a process under callgrind."""
    with tempfile.TemporaryDirectory() as folder:
        run = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", *command]
        text = subprocess.run(run, check=True, capture_output=True, text=True).stderr
    found = re.search(r"Collected : (\d+)", text)
    assert found is not None, text
    return int(found[1])


def by_perf(command: list[str]) -> int:
    """Instructions of a process in user mode, by the processor's counter."""
    run = ["perf", "stat", "-x,", "-e", "instructions:u", *command]
    text = subprocess.run(run, check=True, capture_output=True, text=True).stderr
    found = re.search(r"^(\d+),.*instructions", text, re.MULTILINE)
    if found is None:
        sys.exit(f"perf counts no instructions here: {text.strip()}")
    return int(found[1])


COUNTERS = {"callgrind": ("valgrind", by_callgrind), "perf": ("perf", by_perf)}


def choose_counter(wanted: str) -> str | None:
    """The counter to use: the one asked for, or the first one installed."""
    if wanted != "auto":
        return None if wanted == "none" else wanted
    return next((name for name, (program, _) in COUNTERS.items() if shutil.which(program)), None)


def counted(graph: str, counter: str | None, is_small: bool) -> tuple[int, str] | None:
    """Instructions of the search of a graph and what counted them; None if nothing can in reasonable time."""
    if counter == "callgrind" and not is_small:
        counter = "perf" if shutil.which("perf") else None
    return None if counter is None else (instructions(graph, COUNTERS[counter][1]), counter)


# --- tables -----------------------------------------------------------------------------------------------------------


def print_chains(lengths: list[int], counter: str | None, limit: int) -> None:
    """Seconds and instructions by length, in all and per operation."""
    target = default_target()
    print(f"instructions counted by {counter or 'nothing: install valgrind or perf'}")
    print(f"{'operations':>10}{'CPU s':>9}{'ms each':>9} {'plans':>12}{'points':>8}{'instructions':>16}{'each':>14}")
    for length in lengths:
        graph = chain(length, target)
        runs = [
            cpu_seconds(lambda graph=graph: _core.Search(graph).frontier()) for _ in range(3 if length <= 50 else 1)
        ]
        found, seconds = runs[0][0], min(seconds for _, seconds in runs)
        line = f"{length:>10}{seconds:>9.3f}{1000 * seconds / length:>9.2f} "
        line += f"{found.plans_considered:>12,}{len(found.proposals):>8}"
        if spent := counted(f"chains.chain({length}, harness.default_target())", counter, length <= limit):
            line += f"{spent[0]:>16,}{spent[0] // length:>14,}  {spent[1]}"
        print(line, flush=True)


def print_joins(counter: str | None) -> None:
    """Seconds and instructions by the rows that one Part joins, in all and per row."""
    target = default_target()
    print(f"\n{'rows joined':>11}{'CPU s':>9}{'ms each':>9}{'plans':>12}{'points':>8}{'instructions':>16}{'each':>14}")
    for rows in JOINED_ROWS:
        graph = join(rows, target)
        found, seconds = cpu_seconds(lambda graph=graph: _core.Search(graph).frontier())
        line = f"{rows:>11}{seconds:>9.3f}{1000 * seconds / rows:>9.2f}"
        line += f"{found.plans_considered:>12,}{len(found.proposals):>8}"
        if spent := counted(f"chains.join({rows}, harness.default_target())", counter, is_small=True):
            line += f"{spent[0]:>16,}{spent[0] // rows:>14,}  {spent[1]}"
        print(line, flush=True)


def print_models(counter: str | None) -> None:
    """CPU seconds of the whole frontier of each shared model, what they should stay below, and instructions."""
    print(f"\n{'frontier of':<34}{'CPU s':>8}{'limit':>7}{'points':>8}{'prepare s':>11}{'instructions':>16}")
    target = default_target()
    for model in named_models(()):
        network, before = cpu_seconds(lambda model=model: network_of(model, target))
        runs = [cpu_seconds(lambda network=network: search(network)) for _ in range(3)]
        seconds, limit = min(spent for _, spent in runs), MODEL_LIMIT_SECONDS.get(model.stem, OTHER_LIMIT_SECONDS)
        verdict = "" if seconds <= limit else "  too slow"
        points = len(runs[0][0].points)
        spent = counted(f"chains.model_graph({str(model)!r})", counter, model.stem in CALLGRIND_MODELS)
        count = f"{spent[0]:>16,}  {spent[1]}" if spent else ""
        print(f"{model.stem:<34}{seconds:>8.3f}{limit:>7.1f}{points:>8}{before:>11.2f}{count}{verdict}", flush=True)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", default="50,100,200,400,800", help="operations, comma-separated")
    parser.add_argument("--instructions", choices=("auto", *COUNTERS, "none"), default="auto")
    parser.add_argument("--callgrind-up-to", type=int, default=100, metavar="N", help="longest chain under callgrind")
    parser.add_argument("--no-models", action="store_true", help="only chains and joins")
    args = parser.parse_args()
    lengths = [int(length) for length in args.lengths.split(",")]
    counter = choose_counter(args.instructions)
    print_chains(lengths, counter, args.callgrind_up_to)
    print_joins(counter)
    if not args.no_models:
        print_models(counter)


if __name__ == "__main__":
    main()
