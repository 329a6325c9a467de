"""The public models on QEMU's Cortex-M55: whether they are the reference, what they take, what CPU operators cost.

    python benches/qemu.py [MODEL ...] [--seeds N] [--sram SIZE] [--accelerator NAME]

A row for each model: output elements that differ from the reference, bytes of code and constants of the CPU, of what
the NPU reads, and of the arena, and the instructions of the operators on the CPU in one run, by kind. A model that
cannot be written as C is named with the reason. Ends with status 1 if anything differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import ethoscade
from ethoscade.codegen.c.options import COptions
from ethoscade.frontend import read_tflite
from ethoscade.project import folder
from ethoscade.project.trial import Trial, trial
from harness import ACCELERATOR, named_models

MODELS = (
    "kws_ref_int8",
    "resnet8_int8",
    "vww_96_int8",
    "person_detect",
    "micro_speech",
    "mobilenet_v1_0.25_128_uint8",
    "keyword_scrambled_8bit",
    "har",
    "denoise_16x8",
    "mobilenet_v1_1.0_224_int8_rand",
)


def tried(model: Path, seeds: int, sram: str | None, accelerator: str) -> tuple[Trial, float]:
    """A model on the emulated board, and instructions in a tick of its timer."""
    template = folder.template_named("qemu")
    with tempfile.TemporaryDirectory() as scratch:
        artifact = ethoscade.compile(model, sram=sram, accelerator=accelerator).artifact
        project = folder.make(template, Path(scratch) / "project", artifact, COptions())
        return trial(project, template, read_tflite(model), seeds), template.instructions_per_tick or 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description="The public models on an emulated Cortex-M55.")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--sram", metavar="SIZE")
    parser.add_argument("--accelerator", metavar="NAME", default=ACCELERATOR)
    args = parser.parse_args()
    print("| model | elements | differ | code | constants | model | arena | CPU data | CPU operators: instructions |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    wrong = 0
    for model in named_models(args.models or MODELS):
        try:
            found, factor = tried(model, args.seeds, args.sram, args.accelerator)
        except ethoscade.EthoscadeError as error:
            print(f"| {model.stem} | {error} |", flush=True)
            continue
        sizes: dict[str, int] = {}
        for section in found.sections:
            what = section.name if section.name.startswith(".ethoscade") else section.kind
            sizes[what] = sizes.get(what, 0) + section.size_bytes
        named = [sizes.get(k, 0) for k in ("code", "constants", ".ethoscade_model", ".ethoscade_arena")]
        data = sizes.get("data", 0) + sizes.get("zeroed", 0)
        kinds: dict[str, float] = {}
        for call in found.times:
            if call.where == "cpu":
                kinds[call.kind] = kinds.get(call.kind, 0) + call.ticks * factor
        cpu = ", ".join(f"{kind} {round(count):,}" for kind, count in kinds.items())
        figures = (found.check.elements, found.check.mismatches, *named, data)
        print(f"| {model.stem} | {' | '.join(f'{figure:,}' for figure in figures)} | {cpu} |", flush=True)
        wrong += not found.check.ok
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
