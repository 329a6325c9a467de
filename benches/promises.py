"""Whether the streams of public models are what the planner predicted: every register, word, wait, BLOCKDEP and cycle.

    python benches/promises.py [MODEL ...] [--accelerator NAME ...]

At the floor, within half of what the fastest schedule takes, and without a budget. One line per model and accelerator;
ends with status 1 if anything differs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import harness  # noqa: F401
from ethoscade import EthoscadeError
from ethoscade.frontend import read_tflite
from ethoscade.pipeline.compiler import prepare, search
from ethoscade.targets.target import ACCELERATORS, load_target
from model_files import NO_MODELS, model_folder
from promised_cycles import broken_promises

_SHOWN = 3


def check(model: Path, accelerator: str) -> int:
    """Print how many schedules of a model keep their promises; how many do not."""
    where = f"{model.stem} on {accelerator}"
    try:
        network = prepare(read_tflite(model), load_target(accelerator))
        curve = search(network)
    except EthoscadeError as error:
        print(f"{where}: not compiled: {error}", flush=True)
        return 0
    half = curve.points[-1][0] // 2
    fitting = max((index for index, (size, _) in enumerate(curve.points) if size <= half), default=0)
    indices = sorted({0, fitting, len(curve.points) - 1})
    broken = {index: list(broken_promises(network, curve, index)) for index in indices}
    print(f"{where}: {len(indices)} schedules, {sum(map(bool, broken.values()))} differ", flush=True)
    for index, found in broken.items():
        for difference in found[:_SHOWN]:
            print(f"    point {index}: {difference}", flush=True)
    return sum(map(bool, broken.values()))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--accelerator", nargs="*", default=list(ACCELERATORS))
    asked = parser.parse_args()
    folder = model_folder()
    models = asked.models or (sorted(folder.glob("*.tflite"), key=lambda path: path.stat().st_size) if folder else [])
    if not models:
        sys.exit(NO_MODELS)
    sys.exit(sum(check(model, accelerator) for accelerator in asked.accelerator for model in models) > 0)


if __name__ == "__main__":
    main()
