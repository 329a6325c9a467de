"""Every model of some folders, compiled, written and verified: what came of it, in which time and memory.

    python benches/all_files.py [FOLDER|FILE ...] [--seeds N] [--limit-seconds S] [--limit-mb M]

Each file gets a process of its own that may neither live longer nor take more address space than the limits say, so
that a hang or a hunger of one is a row of the table and not the end of the bench. Prints one row per file: what
`compile` said (a refusal is quoted), its CPU seconds and peak memory, the cost of verification besides, its verdict.
Ends with status 1 if a row is a traceback, a hang or a wrong result.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from harness import run_limited
from model_files import NO_MODELS, model_folder

SECONDS, MEGABYTES = 180, 6000
WRONG = ("traceback", "killed", "hang", "WRONG")


def peak_mb() -> int:
    """The most memory that this process has had so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def cpu_seconds() -> float:
    """CPU time of this process and of the children that it waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def examine(path: str, seeds: int) -> None:
    """Compile, write and verify one model; prints one JSON object per step as it ends."""
    import ethoscade

    def step(name: str, work):
        began = cpu_seconds()
        try:
            said, value = "ok", work()
        except ethoscade.EthoscadeError as error:
            said, value = f"{type(error).__name__}: {error}", None
        seconds = cpu_seconds() - began
        print(json.dumps({"step": name, "said": said, "seconds": seconds, "mb": peak_mb()}), flush=True)
        return value

    compiled = step("compile", lambda: ethoscade.compile(path))
    if compiled is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        step("save", lambda: compiled.save(Path(folder) / "out.tflite"))
    verdict = step("verify", lambda: compiled.verify(seeds=seeds))
    if verdict is not None:
        wrong = f"WRONG ({verdict.mismatches} of {verdict.elements} elements, {verdict.hazards} findings)"
        print(json.dumps({"step": "verdict", "said": "exact" if verdict.ok else wrong}), flush=True)


def row(path: Path, seeds: int, seconds: int, megabytes: int) -> dict[str, str]:
    """What came of one file."""
    command = [sys.executable, __file__, "--child", str(path), "--seeds", str(seeds)]
    output, trouble = run_limited(command, seconds, megabytes)
    steps = {step["step"]: step for step in map(json.loads, output.splitlines())}
    found = {"said": trouble, "verdict": "", "seconds": "", "mb": "", "verify": ""}
    if "compile" in steps:
        found |= {"seconds": f"{steps['compile']['seconds']:.1f}", "mb": str(steps["compile"]["mb"])}
        found["said"] = steps["compile"]["said"]
    if steps.get("save", {}).get("said", "ok") != "ok":
        found["said"] = "compiled; save: " + steps["save"]["said"]
    if "verify" in steps:
        found["verify"] = f"{steps['verify']['seconds']:.1f} s {steps['verify']['mb']} MB"
        found["verdict"] = steps.get("verdict", steps["verify"])["said"]
    if trouble and "compile" in steps:
        found["verdict"] = trouble
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--limit-seconds", type=int, default=SECONDS)
    parser.add_argument("--limit-mb", type=int, default=MEGABYTES)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        examine(args.child, args.seeds)
        return 0
    places = args.paths or ([model_folder()] if model_folder() else sys.exit(NO_MODELS))
    files = [file for place in places for file in (sorted(place.glob("*.tflite")) if place.is_dir() else [place])]
    print("| file | compile | seconds | peak MB | verify | verdict |\n|---|---|---|---|---|---|")
    bad = 0
    for file in files:
        found = row(file, args.seeds, args.limit_seconds, args.limit_mb)
        bad += any(found[key].startswith(word) for word in WRONG for key in ("said", "verdict"))
        cells = (file.stem, *(found[key] for key in ("said", "seconds", "mb", "verify", "verdict")))
        print(f"| {' | '.join(cells)} |", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
