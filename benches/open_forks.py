"""What planning costs where forks stay open: sums of the two tensors before, long skips, dense blocks.

    python benches/open_forks.py [--sizes 30,60,200]

Each network is planned in a process of its own: CPU seconds of the whole frontier with reading and encoding, peak
memory beyond a network of one operator, points, and why the search looked no further.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from ethoscade.ir import DType
from ethoscade.testing import ModelBuilder

CHILD = """
import sys, time, ethoscade
def peak():
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmHWM"))
ethoscade.frontier(sys.argv[1])
before, started = peak(), time.process_time()
curve = ethoscade.frontier(sys.argv[2])
print(time.process_time() - started, peak() - before, len(curve.points), curve.floor_bytes, curve.stop_reason)
"""


def additions(count: int) -> bytes:
    """Each operator adds the two tensors before it, so that every fork stays open."""
    b = ModelBuilder("additions", dtype=DType.INT8)
    x = b.input((1, 32, 32, 4), name="input")
    y = b.conv2d(x, 4, 3, output=x.quantisation)
    for _ in range(count):
        x, y = y, b.add(x, y, output=x.quantisation)
    return b.build()


def long_skips(count: int) -> bytes:
    """Convolutions, then additions that read them from the last to the first."""
    b = ModelBuilder("long_skips", dtype=DType.INT8)
    y = b.input((1, 64, 64, 8), name="input")
    made = [y := b.conv2d(y, 8, 3) for _ in range(count // 3)]
    for early in reversed(made):
        y = b.conv2d(b.add(y, early), 8, 3)
    return b.build()


def dense_block(count: int) -> bytes:
    """Convolutions that each read up to six before."""
    b = ModelBuilder("dense_block", dtype=DType.INT8)
    x = b.input((1, 32, 32, 8), name="input")
    made = [b.conv2d(x, 8, 3, output=x.quantisation)]
    for _ in range(count // 2):
        read = b.concatenate(made[-6:]) if len(made) > 1 else made[0]
        made.append(b.conv2d(read, 8, 3, output=x.quantisation))
    return b.build()


NETWORKS: dict[str, Callable[[int], bytes]] = {
    "additions": additions,
    "long_skips": long_skips,
    "dense_block": dense_block,
}


def planned(model: bytes) -> tuple[float, int, int, int, str]:
    """CPU seconds, peak KiB beyond the smallest network's, points, floor in bytes, and why the search stopped."""
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "small.tflite"), Path(folder, "large.tflite")
        small.write_bytes(additions(1))
        large.write_bytes(model)
        command = [sys.executable, "-c", CHILD, str(small), str(large)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(answer[0]), int(answer[1]), int(answer[2]), int(answer[3]), answer[4]


def main() -> int:
    """Prints a row for each network."""
    parser = argparse.ArgumentParser(description="Bench planning where forks stay open")
    parser.add_argument("--sizes", default="30,60,200", metavar="N,N")
    args = parser.parse_args()
    print("| network | operators | CPU s | MiB | points | floor | stopped |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
    for name, make in NETWORKS.items():
        for size in map(int, args.sizes.split(",")):
            seconds, memory, points, floor, reason = planned(make(size))
            row = (name, size, f"{seconds:.2f}", f"{memory / 1024:.0f}", points, f"{floor:,}", reason)
            print("| " + " | ".join(map(str, row)) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
