"""Networks on a CPU alone: the arena, flash, code by arm-none-eabi-size, and what TensorFlow Lite Micro takes.

Run as `python benches/c_kernels.py [--cpu cortex-m55] [MODEL ...]`; prints the table of docs/firmware.md. Micro's arena
is measured here, where its Python package is installed: pointers of 64 bits make its structures larger than on a board.
It is that of the written `.tflite`, with our plan, and that of the model, which Micro plans itself; a dash where Micro
does not take it. Code and data are those of the emitted sources alone, for -Os; a dash where no compiler for Arm is
installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import ethoscade
from harness import named_models

MODELS = ("kws_ref_int8", "person_detect", "resnet8_int8", "vww_96_int8", "mobilenet_v1_0.25_128_uint8")
_MICRO = """
import sys
from tflite_micro.python.tflite_micro import runtime
runtime.Interpreter.from_file(sys.argv[1], arena_size=1 << 22).print_allocations()
"""


def main() -> None:
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", default="cortex-m55")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    args = parser.parse_args()
    print("| model | arena | constants | code | TFLM's arena | TFLM's arena, its own plan |")
    print("| --- | --- | --- | --- | --- | --- |")
    for path in named_models(args.models or MODELS):
        compiled = ethoscade.compile(path, accelerator="none")
        with tempfile.TemporaryDirectory() as folder:
            planned = micro_bytes(compiled.save(Path(folder) / path.name))
        found = (compiled.sram_bytes, compiled.flash_bytes, code_bytes(compiled, args.cpu), planned, micro_bytes(path))
        print(f"| {path.stem} | {' | '.join(map(_number, found))} |", flush=True)


def code_bytes(compiled: ethoscade.Compiled, cpu: str) -> int | None:
    """Bytes of code and of read-only tables (factors, shapes) of the emitted operators and the entry, for -Os."""
    compiler, size = (shutil.which(f"arm-none-eabi-{tool}") for tool in ("gcc", "size"))
    if compiler is None or size is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        files = compiled.write_c(folder)
        total = 0
        for unit in (path for name, path in files.items() if name.endswith(("lib0.c", "lib2.c"))):
            command = [compiler, f"-mcpu={cpu}", "-mthumb", "-Os", "-std=c99", "-c", str(unit), "-o", f"{unit}.o"]
            subprocess.run(command, check=True)
            told = subprocess.run([size, f"{unit}.o"], capture_output=True, text=True, check=True).stdout
            total += int(told.splitlines()[1].split()[0])
        return total


def micro_bytes(path: Path) -> int | None:
    """The arena that TensorFlow Lite Micro allocates for a file on this machine; None if it does not take it."""
    if importlib.util.find_spec("tflite_micro") is None:
        return None
    done = subprocess.run([sys.executable, "-c", _MICRO, str(path)], capture_output=True, text=True, check=False)
    found = re.search(r"Arena allocation total (\d+) bytes", done.stdout + done.stderr)
    return None if done.returncode or found is None else int(found.group(1))


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


if __name__ == "__main__":
    main()
