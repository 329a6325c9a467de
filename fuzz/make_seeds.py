"""Writes the seeds of the fuzzers: payloads and weight streams of small networks, and problems of the memory planner.

    python fuzz/make_seeds.py

What is written is small and always the same, and lies in `fuzz/seeds`.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import ethoscade
import numpy as np
from ethoscade.codegen import vela
from ethoscade.codegen.artifact import NpuCall
from ethoscade.targets.target import load_target
from ethoscade.testing import tiny_conv
from fuzzing import pooled

SEEDS = Path(__file__).resolve().parent / "seeds"
PROBLEMS = 4


def write(target: str, name: str, data: bytes) -> None:
    """One seed of a target."""
    path = SEEDS / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def main() -> int:
    """Write them all."""
    for accelerator in ("ethos-u55-32", "ethos-u55-256", "ethos-u65-256"):
        for name, model in (("pooled", pooled()), ("tiny_conv", tiny_conv())):
            artifact = ethoscade.compile(model, accelerator=accelerator).artifact
            (payload,) = [call.payload for call in artifact.calls if isinstance(call, NpuCall)]
            write("payload", f"{accelerator}_{name}", payload)
        volume = np.random.Generator(np.random.PCG64(0)).integers(-127, 128, (8, 3, 3, 4))
        for name, values in (("dense", volume), ("sparse", volume * (volume > 90)), ("few", np.sign(volume))):
            stream = vela.encode_weights(load_target(accelerator).accelerator, values, 0, (1, 1), 8, False, False)
            write("weights", f"{accelerator}_{name}", bytes(2) + stream)
    for number in range(PROBLEMS):
        write("memory", f"problem_{number}", random.Random(number).randbytes(120))
    return 0


if __name__ == "__main__":
    sys.exit(main())
