"""An arena in DRAM beside so much SRAM of the NPU's own: what we make of it, and what Vela does.

    python benches/fast_memory.py [--models NAME ...] [--sram KiB ...] [--seeds N]

For an Ethos-U65 with 256 MACs, Ethos_U65_High_End, Dedicated_Sram. Vela is told the SRAM by --arena-cache-size and
optimises for performance, as that is what looks at it. Both command streams are timed by the same model. A line for
each model and size: SRAM, arena in DRAM, cycles of both, their ratio, and whether our outputs are exact. Then the
geometric mean. Exit status 3 if outputs are wrong or more SRAM is taken than there is.
"""

from __future__ import annotations

import argparse
import csv
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import ethoscade
from ethoscade.targets.target import compilation_target
from harness import cost_of, kib, named_models, payloads_of, vela_command
from vela_file import read as read_vela_file
from zoo import verdict_on

TARGET = ("ethos-u65-256", "Ethos_U65_High_End", "Dedicated_Sram")
MODELS = (
    "kws_ref_int8", "resnet8_int8", "vww_96_int8", "person_detect", "mobilenet_v1_1.0_224_embed_uint8",
    "mobilenet_v2_1.0_224_ptq", "movenet_singlepose_192", "yolov8n_192", "dbface_256", "deeplabv3_mnv2_pascal",
    "ssd_mobilenet_v1_psoc",
)  # fmt: skip


def vela_side(model: Path, size_bytes: int, folder: Path) -> tuple[int, int, int] | str:
    """Vela's SRAM and DRAM for tensors, and the cycles of its streams; or why there are none."""
    target = compilation_target(*TARGET)
    output = folder / f"{model.stem}.{size_bytes}"
    command = [*vela_command(model, "regor", "Performance", output, target), "--arena-cache-size", str(size_bytes)]
    done = subprocess.run(command, capture_output=True, text=True)
    made = next(output.glob("*_vela.tflite"), None)
    if done.returncode or made is None:
        return (done.stderr.strip().splitlines() or ["nothing written"])[-1][:60]
    calls = [op for op in read_vela_file(made).operators if not isinstance(op, str)]
    with open(next(output.glob("*_summary_*.csv")), encoding="utf-8", newline="") as text:
        row = next(csv.DictReader(text))
    cycles = cost_of([call.payload for call in calls], target).cycles
    return round(1024 * float(row["sram_memory_used"])), max(call.scratch[1] for call in calls), cycles


def main() -> int:
    """Prints the table; 3 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--sram", nargs="+", type=int, default=[384, 96], help="KiB")
    parser.add_argument("--seeds", type=int, default=1, help="inputs to verify with; 0 for none")
    args = parser.parse_args()
    ratios, wrong = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for model in named_models(args.models):
            accelerator, system, mode = TARGET
            network = ethoscade.prepare(model, accelerator=accelerator, system_config=system, memory_mode=mode)
            for size in args.sram:
                ours = network.compile(sram=size * 1024)
                verdict = verdict_on(ours, args.seeds) if args.seeds else ""
                cycles = cost_of(payloads_of(ours), ours.target).cycles
                wrong += ours.sram_bytes > size * 1024 or verdict.startswith("WRONG")
                told = f"{kib(ours.sram_bytes):>8} {kib(ours.pools['arena']):>9} {cycles:>11,}"
                theirs = vela_side(model, size * 1024, Path(folder))
                if isinstance(theirs, str):
                    beside = f"Vela: {theirs}"
                else:
                    ratios.append(cycles / theirs[2])
                    beside = f"{kib(theirs[0]):>8} {kib(theirs[1]):>9} {theirs[2]:>11,} {ratios[-1]:>7.3f}"
                print(f"{model.stem:<34}{size:>5} KiB {told} | {beside}  {verdict}", flush=True)
    if ratios:
        print(f"geometric mean of {len(ratios)}: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}")
    return 3 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
