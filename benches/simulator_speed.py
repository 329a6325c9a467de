"""How long the simulator takes: CPU seconds of one inference, and of timing alone, for our streams and Vela's.

    python benches/simulator_speed.py [--models mobilenet_v1_1.0_224_embed_uint8,...] [--cache FOLDER]

The least of three runs on one thread. An inference computes every element and follows every byte for hazards; timing
reads registers only. The exit status is 1 if MobileNetV1 1.0/224 takes more than `LIMITS`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import ethoscade
from ethoscade.codegen import tflite
from ethoscade.frontend import read_tflite
from ethoscade.ir import Graph
from ethoscade.judge.verification import random_inputs
from ethoscade.run.execution import run_tflite
from ethoscade.trace.files import time_file
from harness import cpu_seconds, named_models, run_vela

JUDGED = "mobilenet_v1_1.0_224_embed_uint8"
# Seconds of an inference and of timing alone.
LIMITS = (1.5, 0.3)
RUNS = 3


def seconds(work: Callable[[], object]) -> float:
    """Least CPU time of a few runs."""
    return min(cpu_seconds(work)[1] for _ in range(RUNS))


def measure(name: str, graph: Graph) -> tuple[float, float]:
    """Print and return the two times of one compiled file."""
    inputs = random_inputs(graph, 0)
    result = run_tflite(graph, inputs)
    times = seconds(lambda: run_tflite(graph, inputs)), seconds(lambda: time_file(graph))
    kernels = sum(report.kernels for report in result.reports)
    print(f"{name:<58}{kernels:>9,}{times[0]:>14.3f}{times[1]:>10.3f}{result.hazards:>9}")
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=JUDGED, help="comma-separated names")
    parser.add_argument("--cache", type=Path, help="folder that keeps Vela's output")
    args = parser.parse_args()
    slow = False
    print(f"{'stream':<58}{'kernels':>9}{'inference, s':>14}{'timing, s':>10}{'hazards':>9}")
    with tempfile.TemporaryDirectory() as scratch:
        cache = args.cache or Path(scratch)
        for path in named_models(args.models.split(",")):
            files = {}
            for mode in ("Performance", "Size"):
                if run_vela(path, "regor", mode, cache) is None:
                    sys.exit(f"Vela dies on {path}")
                files[f"Vela {mode}"] = next((cache / f"{path.stem}.{mode}.regor").glob("*_vela.tflite")).read_bytes()
            for optimise in ("performance", "size"):
                files[f"ours {optimise}"] = tflite.write(ethoscade.compile(path, optimise=optimise).artifact)
            for name, data in files.items():
                times = measure(f"{path.stem} {name}", read_tflite(data))
                if path.stem == JUDGED:
                    slow |= any(time > limit for time, limit in zip(times, LIMITS, strict=True))
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
