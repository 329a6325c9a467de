"""What every public model compiles to, as fingerprints: whether a change of the compiler changes any artefact.

    python benches/artefacts.py --write ROWS.jsonl [MODEL ...] [--accelerator NAME ...] [--python FOLDER]
    python benches/artefacts.py --compare BEFORE.jsonl AFTER.jsonl

Writes one row per model, accelerator and budget (the floor, half of what the fastest schedule takes, none): the hash
of the .tflite, its SRAM, its cycles, the hash of the frontier and the CPU seconds of `compile`. FOLDER has the package
to compile with, so that two checkouts can be compared; rows that the file has already are not made again. The
comparison tells what is the same, what got better and what got worse, and ends with status 1 if anything got worse.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from model_files import NO_MODELS, model_folder

ACCELERATORS = ("ethos-u55-256", "ethos-u55-128", "ethos-u55-64", "ethos-u55-32", "ethos-u65-256")
BUDGETS = ("none", "floor", "half")
Row = dict[str, object]


def fingerprint(data: bytes) -> str:
    """The first 16 digits of a hash."""
    return hashlib.sha256(data).hexdigest()[:16]


def rows_of(model: str, accelerator: str) -> Iterator[Row]:
    """The rows of one model on one accelerator, or one row that says why there are none."""
    import ethoscade

    fastest = floor = 0
    for budget in BUDGETS:
        half = {"sram": max(fastest // 2, floor)}
        ways: dict[str, dict[str, Any]] = {"none": {}, "floor": {"optimise": "size"}, "half": half}
        asked = ways[budget]
        row: Row = {"model": Path(model).stem, "accelerator": accelerator, "budget": budget}
        began = time.process_time()
        try:
            compiled = ethoscade.compile(model, accelerator=accelerator, **asked)
        except ethoscade.EthoscadeError as error:
            yield row | {"said": f"{type(error).__name__}: {error}"}
            return
        seconds = time.process_time() - began
        if budget == "none":
            fastest, floor = compiled.sram_bytes, compiled.frontier[0][0]
        with tempfile.TemporaryDirectory() as folder:
            content = Path(compiled.save(Path(folder) / "out.tflite")).read_bytes()
        figures = {"sram": compiled.sram_bytes, "cycles": compiled.cycles, "flash": compiled.flash_bytes}
        frontier = fingerprint(repr([tuple(point) for point in compiled.frontier]).encode())
        yield row | figures | {"artefact": fingerprint(content), "frontier": frontier, "seconds": round(seconds, 2)}


def write(out: Path, models: list[Path], accelerators: list[str], package: str | None) -> None:
    """Append the rows that are missing in a file; each model and accelerator has a process of its own."""
    done = {(row["model"], row["accelerator"]) for row in read(out).values()} if out.exists() else set()
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"} | ({"PYTHONPATH": package} if package else {})
    for accelerator in accelerators:
        for model in models:
            if (model.stem, accelerator) in done:
                continue
            command = [sys.executable, __file__, "--rows", str(model), accelerator]
            ran = subprocess.run(command, capture_output=True, text=True, env=environment)
            if ran.returncode:
                sys.exit(f"{model.stem} on {accelerator}: {ran.stderr}")
            with out.open("a", encoding="utf-8") as file:
                file.write(ran.stdout)


def read(path: Path) -> dict[tuple[object, ...], Row]:
    """The rows of a file by model, accelerator and budget."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {(row["model"], row["accelerator"], row["budget"]): row for row in rows}


def compare(before: Path, after: Path) -> int:
    """Print what differs between two files; how many rows got worse."""
    old, new = read(before), read(after)
    both = [key for key in old if key in new]
    same = sum({**old[key], "seconds": 0} == {**new[key], "seconds": 0} for key in both)
    worse = 0
    for key in both:
        was, now = old[key], new[key]
        changed = [
            name
            for name in ("said", "sram", "cycles", "flash", "artefact", "frontier")
            if was.get(name) != now.get(name)
        ]
        if not changed:
            continue
        bad = any(now.get(name, 0) > was.get(name, 0) for name in ("sram", "cycles") if name in was)  # type: ignore[operator]
        worse += bad or "said" in now
        told = ", ".join(f"{name} {was.get(name)} -> {now.get(name)}" for name in changed)
        print(f"{'WORSE ' if bad else ''}{' '.join(map(str, key))}: {told}")
    before_s, after_s = (sum(float(str(rows[key].get("seconds", 0))) for key in both) for rows in (old, new))
    print(f"{len(both)} rows in both, {same} the same, {worse} worse; CPU seconds {before_s:.0f} -> {after_s:.0f}")
    return worse


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--compare", nargs=2, type=Path)
    parser.add_argument("--accelerator", nargs="*", default=list(ACCELERATORS))
    parser.add_argument("--python")
    parser.add_argument("--rows", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.rows:
        for row in rows_of(*asked.rows):
            print(json.dumps(row), flush=True)
    elif asked.compare:
        sys.exit(compare(*asked.compare) > 0)
    elif asked.write:
        folder = model_folder()
        models = asked.models or (
            sorted(folder.glob("*.tflite"), key=lambda path: path.stat().st_size) if folder else []
        )
        if not models:
            sys.exit(NO_MODELS)
        write(asked.write, models, asked.accelerator, asked.python)
    else:
        parser.error("say --write or --compare")


if __name__ == "__main__":
    main()
