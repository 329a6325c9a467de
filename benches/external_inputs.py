"""Networks whose inputs lie in flash, beside the same with their inputs in the SRAM.

    python benches/external_inputs.py [MODEL ...] [--seeds N] [--write]

For an Ethos-U55 with 256 MACs, Ethos_U55_High_End_Embedded, Shared_Sram, `io="int8"`. A row for each model: bytes of
the inputs, both floors, cycles there, the least SRAM within 2.5 times the cycles of the fastest schedule, the fewest
cycles; behind them MobileNetV2 0.35/144, built. The schedule at the external floor must be exact, free of hazards, and
touch as many bytes as promised. `--write` puts the table into docs/input-memory.md. Exit status 3 if anything is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import ethoscade
from ethoscade.ir import Activation
from ethoscade.judge.verification import Verification
from ethoscade.pipeline.curve import Curve
from ethoscade.testing import ModelBuilder
from harness import millions, named_models, put_table

MODELS = (
    "vww_96_int8", "person_detect", "tinyengine_vww", "mobilenetv2_160_035", "blazeface_front_128",
    "mobilenet_v2_1.0_224_ptq", "mobilenet_v1_1.0_224_embed_uint8", "movenet_singlepose_192",
)  # fmt: skip
PAGE = Path(__file__).resolve().parents[1] / "docs" / "input-memory.md"
HEAD = (
    "| model | inputs | floor, inputs in SRAM | external | Mcycles there | external | at 2.5 times the fewest cycles "
    "| external | fewest Mcycles | external |\n| --- " + "| ---: " * 9 + "|\n"
)
MEMORY = "OffChipFlash"

Row = tuple[str, bool]
"""A row of a table, and whether what it says is right."""


def mobilenet_v2() -> bytes:
    """MobileNetV2 of width 0.35 and 144 pixels, 1,000 classes (Sandler et al., 2018, table 2), with random weights."""
    b, relu6 = ModelBuilder("mobilenet_v2"), Activation.RELU6
    x = b.conv2d(b.input((1, 144, 144, 3), name="input"), 16, 3, stride=2, activation=relu6)
    blocks = ((1, 8, 1, 1), (6, 8, 2, 2), (6, 16, 3, 2), (6, 24, 4, 2), (6, 32, 3, 1), (6, 56, 3, 2), (6, 112, 1, 1))
    for expansion, channels, count, first_stride in blocks:
        for number in range(count):
            wide = b.conv2d(x, expansion * x.shape[3], 1, activation=relu6) if expansion > 1 else x
            wide = b.depthwise(wide, 3, stride=1 if number else first_stride, activation=relu6)
            narrow = b.conv2d(wide, channels, 1)
            x = b.add(x, narrow) if number else narrow
    x = b.reduce("MEAN", b.conv2d(x, 1280, 1, activation=relu6), (1, 2), keep_dims=False)
    b.softmax(b.fully_connected(x, 1000))
    return b.build()


BUILT = {"MobileNetV2 0.35/144, built": mobilenet_v2}


def row(name: str, model: Path | bytes, seeds: int) -> Row:
    """The row of a model, and whether what it says is right."""
    inside = ethoscade.frontier(model, io="int8")
    prepared = ethoscade.prepare(model, io="int8", input_memory=MEMORY)
    outside = prepared.frontier()
    smallest = prepared.compile(optimise="size")
    check: Verification = smallest.verify(seeds=seeds)
    fits = check.sram_touched_bytes == smallest.sram_bytes == outside.floor_bytes
    size = sum(smallest.artifact.graph.tensors[index].size_bytes for index in smallest.artifact.external)
    cells = [name, f"{size:,}", f"{inside.floor_bytes:,}", f"{outside.floor_bytes:,}"]
    cells += [millions(curve.points[0][1]) for curve in (inside, outside)]
    cells += [f"{_within(curve):,}" for curve in (inside, outside)]
    cells += [millions(curve.points[-1][1]) for curve in (inside, outside)]
    return f"| {' | '.join(cells)} |\n", check.ok and check.hazards == 0 and fits


def _within(curve: Curve) -> int:
    """The least bytes of at most 2.5 times the fewest cycles."""
    most = 2.5 * curve.points[-1][1]
    return next(size for size, cycles in curve.points if cycles <= most)


def print_table(
    description: str | None,
    page: tuple[Path, str],
    row: Callable[[str, Path | bytes, int], Row],
    models: Sequence[str] = MODELS,
    built: Mapping[str, Callable[[], bytes]] = BUILT,
) -> int:
    """Print a row of each model that the command line names, and of built ones; 3 if something is wrong.

    `page` is the page with the table, and the table's head there.
    """
    path, head = page
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=models)
    parser.add_argument("--seeds", type=int, default=1, help="inputs to verify with")
    parser.add_argument("--write", action="store_true", help=f"put the table into docs/{path.name}")
    args = parser.parse_args()
    named: list[tuple[str, Path | bytes]] = [(model.stem, model) for model in named_models(args.models)]
    named += [(name, made()) for name, made in built.items()]
    return put_table(
        [(name, row(name, model, args.seeds)) for name, model in named], head, path if args.write else None
    )


if __name__ == "__main__":
    sys.exit(print_table(__doc__, (PAGE, HEAD), row))
