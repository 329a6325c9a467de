"""Bytes that compiling takes: at most, of one model, and what a thousand compilations leave behind.

    python benches/memory_of_compiles.py [--models vww_96_int8,...] [--compiles 1000]

Fully connected layers of 1, 13 and 52 MB and the models named, each in a process of its own: the most memory beyond
what the process had after a tiny model, in MB and as a multiple of the file. Then how much the traced memory of this
process grows while one model is compiled again and again. The exit status is 1 if a file takes more than `TIMES` its
bytes and `CONSTANT_MB`, or a compilation leaves more than `LEFT_BYTES`.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path

import ethoscade
from ethoscade.testing import ModelBuilder, mobilenet_v1
from harness import named_models

TIMES, CONSTANT_MB = 5, 128
LEFT_BYTES = 64
MB = 1 << 20
SIDES = (1000, 3600, 7200)

# Prints bytes taken by compiling, and by compiling and writing.
CHILD = '''
import resource, sys
import ethoscade
from ethoscade.testing import tiny_conv
def most():
    """Bytes, since this program began: what ru_maxrss says may be of the process that started it."""
    try:
        status = open("/proc/self/status").read()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return 1024 * int(status.split("VmHWM:")[1].split()[0])
ethoscade.compile(tiny_conv())
before = most()
compiled = ethoscade.compile(sys.argv[1])
print(most() - before)
compiled.save(sys.argv[2])
print(most() - before)
'''


def dense(side: int, folder: Path) -> Path:
    """The file of one fully connected layer."""
    builder = ModelBuilder("dense", seed=1)
    builder.fully_connected(builder.input((1, side)), side)
    path = folder / f"dense_{side}.tflite"
    path.write_bytes(builder.build())
    return path


def measure(path: Path, folder: Path) -> bool:
    """Print what one file takes; whether that is little enough."""
    command = [sys.executable, "-c", CHILD, str(path), str(folder / "compiled.tflite")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    compiling, written = (int(line) for line in done.stdout.split())
    size = path.stat().st_size
    figures = f"{size / MB:>8.1f}{compiling / MB:>12.1f}{written / MB:>12.1f}{written / size:>8.1f}"
    print(f"{path.stem:<44}{figures}", flush=True)
    return written <= TIMES * size + CONSTANT_MB * MB


def left_behind(compiles: int) -> bool:
    """Print what compilations leave behind; whether that is nothing."""
    model = mobilenet_v1(0.25, 32)

    def run(times: int) -> int:
        for _ in range(times):
            ethoscade.compile(model)
        gc.collect()
        # Python remembers the names of some thousand attributes.
        getattr(sys, "_clear_type_cache", lambda: None)()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    before = run(10)
    left = (run(compiles) - before) / compiles
    tracemalloc.stop()
    print(f"{compiles} compilations leave {left:.1f} bytes each")
    return left <= LEFT_BYTES


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="", help="comma-separated names")
    parser.add_argument("--compiles", type=int, default=1000)
    args = parser.parse_args()
    print(f"{'model':<44}{'MB':>8}{'compile, MB':>12}{'+ save, MB':>12}{'times':>8}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        named = named_models(args.models.split(",")) if args.models else []
        good = [measure(path, folder) for path in [*(dense(side, folder) for side in SIDES), *named]]
    return int(not (all(good) and left_behind(args.compiles)))


if __name__ == "__main__":
    sys.exit(main())
