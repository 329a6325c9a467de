"""How soon Ctrl-C ends a command: milliseconds from the signal to the end of the process, all through its run.

    python benches/interrupts.py [--models mobilenet_v2_1.0_224_ptq,...] [--points 12]

Every command runs once to its end, or for `LONGEST` seconds; then again and again, interrupted at even distances of
that time, once Python has imported everything. The exit status is 1 if one took longer than `LIMIT` seconds, ended with
another status than 130, or said more than one line.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import named_models

LIMIT = 1.0
LONGEST = 20.0
DONE, INTERRUPTED = 0, 130

CHILD = """
import sys
from ethoscade.__main__ import main
print("imported", flush=True)
sys.exit(main())
"""


def start(arguments: list[str]) -> subprocess.Popen[str]:
    """The command line, with its own children in a group of its own, as on a terminal; it has imported everything."""
    command, pipe = [sys.executable, "-c", CHILD, *arguments], subprocess.PIPE
    child = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    assert child.stdout is not None and child.stdout.readline() == "imported\n"
    return child


def stop(child: subprocess.Popen[str]) -> tuple[float, str]:
    """Seconds until the signal ended the command, and what it said."""
    began = time.perf_counter()
    os.killpg(child.pid, signal.SIGINT)
    _, said = child.communicate()
    return time.perf_counter() - began, said


def duration(arguments: list[str]) -> float:
    """Seconds that a command takes, at most `LONGEST`."""
    with start(arguments) as child:
        began = time.perf_counter()
        try:
            child.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            stop(child)
        return time.perf_counter() - began


def measure(name: str, arguments: list[str], points: int) -> bool:
    """Print the times of one command; whether all was as it should be."""
    whole = duration(arguments)
    times, wrong = [], []
    for point in range(points):
        with start(arguments) as child:
            try:
                child.communicate(timeout=whole * (point + 0.5) / points)
            except subprocess.TimeoutExpired:
                seconds, said = stop(child)
                # A signal that comes while Python shuts down, everything done, ends it without a word.
                if child.returncode != DONE and (child.returncode, said) != (-signal.SIGINT, ""):
                    times.append(seconds)
                    if (child.returncode, said) != (INTERRUPTED, "ethoscade: interrupted\n"):
                        wrong.append(f"status {child.returncode}: {said}")
    slowest = max(times, default=0.0)
    print(f"{name:<62}{whole:>8.1f}{len(times):>8}{1000 * sum(times) / max(len(times), 1):>9.0f}{1000 * slowest:>9.0f}")
    print(*wrong, sep="\n", end="\n" if wrong else "", flush=True)
    return not wrong and slowest <= LIMIT


def commands(paths: list[Path], folder: Path) -> dict[str, list[str]]:
    """Command lines by name."""
    buffers = folder / "buffers.csv"
    rows = (f"b{n},{n * 7919 % 900},{n * 7919 % 900 + 5 + n % 40},{1 + n * 104_729 % 9973}" for n in range(3000))
    buffers.write_text("id,lower,upper,size\n" + "\n".join(rows) + "\n", encoding="utf-8")
    found = {}
    for algorithm in ("best", "exact", "hill_climb"):
        long = ["--iterations", "1000000000"]
        found[f"plan-memory {algorithm}"] = ["plan-memory", str(buffers), "--algorithm", algorithm, *long]
    for path in map(str, paths):
        name = Path(path).stem
        found[f"{name}: compile"] = ["compile", path, "-o", str(folder / "out"), "--emit", "tflite,mlf"]
        found[f"{name}: frontier, exact"] = ["frontier", path, "--epsilon", "0"]
        found[f"{name}: verify"] = ["verify", path, "--seeds", "2"]
        found[f"{name}: verify in C"] = ["verify", path, "--seeds", "2", "--target", "c"]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="mobilenet_v2_1.0_224_ptq", help="comma-separated names")
    parser.add_argument("--points", type=int, default=12, help="interrupts of each command")
    args = parser.parse_args()
    print(f"{'command':<62}{'runs, s':>8}{'stopped':>8}{'mean, ms':>9}{'most, ms':>9}")
    with tempfile.TemporaryDirectory() as scratch:
        cases = commands(named_models(args.models.split(",")), Path(scratch))
        good = [measure(name, arguments, args.points) for name, arguments in cases.items()]
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
