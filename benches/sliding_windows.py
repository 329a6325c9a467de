"""Networks of a sliding window beside the same that take only new rows (`ethoscade slide`).

    python benches/sliding_windows.py [MODEL ...] [--write]

For an Ethos-U55 with 256 MACs, Ethos_U55_High_End_Embedded. A row for each model and number of new rows: MACs of a run,
bytes that are kept, SRAM and cycles of the default with weights in flash (Shared_Sram), cycles with weights in SRAM
(Sram_Only), each of the window and of new rows. First two that are built: a wake word of MLPerf Tiny's layers, and
dilated convolutions over 190 samples. Each is run 20 times in a row against the reference. `--write` puts the table
into docs/sliding.md. Exit status 3 if anything is wrong.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import ethoscade
from ethoscade.ir import Activation
from ethoscade.testing import ModelBuilder
from harness import named_models, put_table

MODELS = ("kws_ref_int8", "micro_speech", "har")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "sliding.md"
HEAD = (
    "| model | new rows | kMACs, window | new rows | kept | SRAM, window | new rows | kcycles, window | new rows "
    "| weights in SRAM: window | new rows |\n| --- " + "| ---: " * 10 + "|\n"
)
ROWS = (1, 2)
MODES = ("Shared_Sram", "Sram_Only")
STEPS = 20


def wake_word() -> bytes:
    """The layers of MLPerf Tiny's streaming wake word (mlcommons/tiny, str_ww_ref_model), with random weights."""
    b = ModelBuilder("wake_word")
    x = b.input((1, 30, 1, 40), name="features")
    for kernel, channels in ((3, 128), (5, 128), (10, 128), (15, 32)):
        x = b.conv2d(b.depthwise(x, (kernel, 1), padding="VALID"), channels, 1, activation=Activation.RELU)
    b.softmax(b.fully_connected(b.reshape(x, (1, 32)), 3))
    return b.build()


def dilated() -> bytes:
    """Convolutions of 64 channels over 4 samples that lie 1, 2, 4, 8, 16 and 32 apart, with random weights."""
    b, dilations = ModelBuilder("dilated"), (1, 2, 4, 8, 16, 32)
    x = b.input((1, 1 + 3 * sum(dilations), 1, 6), name="samples")
    for dilation in dilations:
        x = b.conv2d(x, 64, (4, 1), dilation=(dilation, 1), padding="VALID", activation=Activation.RELU)
    b.softmax(b.fully_connected(b.reshape(x, (1, 64)), 4))
    return b.build()


def row(name: str, model: Path | bytes, rows: int) -> tuple[str, bool]:
    """The row of a model and a number of new rows, and whether what it says is right."""
    sliding = ethoscade.slide(model, rows)
    made = [[ethoscade.compile(one, memory_mode=mode) for one in (model, sliding.model)] for mode in MODES]
    macs = [sum(op.macs for op in one.operators) for one in made[0]]
    check = made[0][1].verify(seeds=1, runs=STEPS)
    cells = [name, f"{rows}", *(f"{of / 1e3:,.1f}" for of in macs), f"{sliding.kept_bytes:,}"]
    cells += [f"{one.sram_bytes:,}" for one in made[0]]
    cells += [f"{one.cycles / 1e3:,.1f}" for pair in made for one in pair]
    return f"| {' | '.join(cells)} |\n", check.ok and check.hazards == 0


def main() -> int:
    """Prints the table; 3 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--write", action="store_true", help="put the table into docs/sliding.md")
    args = parser.parse_args()
    models: list[tuple[str, Path | bytes]] = [("wake word, built", wake_word()), ("dilated, built", dilated())]
    models += [(model.stem, model) for model in named_models(args.models)]
    found = [(name, row(name, model, rows)) for name, model in models for rows in ROWS]
    return put_table(found, HEAD, PAGE if args.write else None)


if __name__ == "__main__":
    sys.exit(main())
