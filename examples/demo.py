"""The main job on a model that the project builds: MobileNetV1 1.0/224 into 300 KiB, simulated and verified."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import ethoscade
from ethoscade import testing
from ethoscade.report.summary import compile_text

BUDGET_KIB = 300
FOLDER = Path("out/demo")


def main() -> int:
    """Build, compile, verify, write; returns 0 if every output element equals the reference."""
    started = time.perf_counter()
    print("building an int8 MobileNetV1 1.0/224 (deterministic weights, calibrated activations) ...", flush=True)
    model = testing.mobilenet_v1()
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / "mobilenet_v1.tflite"
    path.write_bytes(model)
    print(f"compiling for ethos-u55-256 into {BUDGET_KIB} KiB of SRAM ...", flush=True)
    compiled = ethoscade.compile(path, sram_kb=BUDGET_KIB)
    print("running it in the simulator and in the reference interpreter ...\n", flush=True)
    check = compiled.verify(seeds=1)
    print(compile_text(compiled, check))
    written = [compiled.save(FOLDER / "mobilenet_v1_ethosu.tflite"), *compiled.write_c(FOLDER / "c").values()]
    for file in written:
        print(f"wrote {file}")
    print(f"in {time.perf_counter() - started:.1f} s")
    return 0 if check.ok else 1


if __name__ == "__main__":
    sys.exit(main())
