"""What a whole process takes, ours and Vela's in turn: CPU seconds, start-up included, and peak memory.

    python benches/whole_process.py [--models resnet8_int8,...] [--sram 300KiB] [--rounds 5] [--package FOLDER]

`ethoscade compile MODEL --sram SIZE` beside `vela MODEL --optimise Performance --arena-cache-size BYTES`, a round of
both after the other; user and system time of the child, its largest resident set, medians over the rounds of each and
of their ratios within a round. The first line is `import ethoscade` beside `import numpy`. FOLDER has the package to
run instead of this checkout's. NumPy starts the threads that it starts for anyone: `OPENBLAS_NUM_THREADS=1` in the
environment keeps both processes from it. Modules are compiled beforehand, as an installation has them. The exit status
is 1 if `AIMS` are missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from ethoscade.targets.target import parse_size
from harness import default_target, named_models, vela_command

MODELS = (
    "mobilenet_v1_1.0_224_embed_uint8",
    "mobilenet_v2_1.0_224_ptq",
    "person_detect",
    "resnet8_int8",
    "yolov8n_192",
)
MB = 1 << 20

# What a process may take: times Vela's CPU where the weights are many (by bytes of the file) and else, times its
# memory, times the model's bytes and so many MB, CPU seconds of the import.
LARGE_BYTES = 3 << 20
AIMS = {"large": 1.0, "small": 1.3, "memory": 1.5, "model": 3, "MB": 40, "import": 0.12}

# Linux counts into a child's peak what the process that started it had, so one that has next to nothing does that.
LAUNCHER = """
import json, os, sys
quiet = os.open(os.devnull, os.O_WRONLY)
moves = [(os.POSIX_SPAWN_DUP2, quiet, 1), (os.POSIX_SPAWN_DUP2, quiet, 2)]
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=moves)
_, status, used = os.wait4(child, 0)
unit = 1 if sys.platform == "darwin" else 1024
print(json.dumps([status, used.ru_utime + used.ru_stime, used.ru_maxrss * unit]))
"""


class Spent(NamedTuple):
    """CPU seconds and peak bytes of one process."""

    seconds: float
    size_bytes: float


def spent(command: Sequence[str], environment: dict[str, str]) -> Spent:
    """What a command takes. Ends the bench if the command fails."""
    launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER, *command]
    done = subprocess.run(launcher, capture_output=True, text=True, check=True, env=environment)
    status, seconds, size_bytes = json.loads(done.stdout)
    if status:
        sys.exit(f"{' '.join(command)} ends with status {status}")
    return Spent(seconds, size_bytes)


def in_turn(ours: Sequence[str], theirs: Sequence[str], rounds: int, environment: dict[str, str]) -> list[list[Spent]]:
    """What both take, round by round, after a first one of each that finds nothing compiled or read before."""
    for command in (ours, theirs):
        spent(command, environment)
    return [[spent(command, environment) for command in (ours, theirs)] for _ in range(rounds)]


def show(name: str, rounds: list[list[Spent]]) -> tuple[Spent, Spent]:
    """Print one line; our medians, and those of the ratios."""
    columns = list(zip(*rounds, strict=True))
    mine, theirs = (Spent(*map(median, zip(*column, strict=True))) for column in columns)
    pairs = [(a.seconds / b.seconds, a.size_bytes / b.size_bytes) for a, b in rounds]
    ratio = Spent(*map(median, zip(*pairs, strict=True)))
    figures = f"{mine.seconds:>9.2f}{theirs.seconds:>9.2f}{ratio.seconds:>8.2f}"
    print(
        f"{name:<36}{figures}{mine.size_bytes / MB:>10.1f}{theirs.size_bytes / MB:>10.1f}{ratio.size_bytes:>8.2f}",
        flush=True,
    )
    return mine, ratio


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS), help="comma-separated names")
    parser.add_argument("--sram", default="300KiB", help="the budget of both")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--package", type=Path, help="folder to import ethoscade from")
    args = parser.parse_args()
    missed = []
    print(f"{'process':<36}{'ours, s':>9}{'other, s':>9}{'ratio':>8}{'ours, MB':>10}{'other, MB':>10}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.package or Path(__file__).resolve().parents[1] / "python"
        environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONPYCACHEPREFIX": f"{scratch}/bytecode"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        imports = [[sys.executable, "-c", f"import {name}"] for name in ("ethoscade", "numpy")]
        mine, _ = show("import ethoscade, numpy", in_turn(imports[0], imports[1], args.rounds, environment))
        if mine.seconds > AIMS["import"]:
            missed.append("import")
        for model in named_models(args.models.split(",")):
            ours = [sys.executable, "-m", "ethoscade", "compile", str(model), "--sram", args.sram, "-o", scratch]
            vela = vela_command(model, "regor", "Performance", Path(scratch), default_target())
            vela += ["--arena-cache-size", str(parse_size(args.sram))]
            mine, ratio = show(model.stem, in_turn(ours, vela, args.rounds, environment))
            size = model.stat().st_size
            limit = AIMS["large" if size > LARGE_BYTES and model.stem.startswith("mobilenet") else "small"]
            if ratio.seconds > limit or ratio.size_bytes > AIMS["memory"]:
                missed.append(model.stem)
            elif mine.size_bytes > AIMS["model"] * size + AIMS["MB"] * MB:
                missed.append(f"{model.stem}'s memory")
    if missed:
        print(f"beyond the aims: {', '.join(missed)}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
