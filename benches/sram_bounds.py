"""SRAM that no schedule takes less than, beside our floors: inputs whole, in another memory, and row by row.

    python benches/sram_bounds.py [MODEL ...] [--write]

For an Ethos-U55 with 256 MACs, Ethos_U55_High_End_Embedded, Shared_Sram, `io="int8"`. A row for each model of
`external_inputs`, and for MobileNetV2 0.35/144, built: the bound of `lower_bounds.sram`, the floor, and the floor over
the bound, for each of the three. MODEL is a name, the path of a .tflite file, or `random:N` for the networks
`testing.random_network(0)` to `(N - 1)`; one that cannot have its inputs so has a `-` there. `--write` puts the table
into docs/bounds.md. Exit status 3 if a floor is below its bound.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import ethoscade
from ethoscade import ConfigError
from ethoscade.testing import random_network
from external_inputs import BUILT, MEMORY, MODELS, Row
from harness import named_models, put_table

from lower_bounds.sram import sram_bound

PAGE = Path(__file__).resolve().parents[1] / "docs" / "bounds.md"
HEAD = (
    "| model | bound, inputs in SRAM | floor | | bound, external | floor | | bound, a row at a time | floor | |\n| --- "
    + "| ---: " * 9
    + "|\n"
)
RANDOM = "random:"


def row(name: str, model: Path | bytes) -> Row:
    """The row of a model, and whether no floor is below its bound."""
    cells, is_right = [name], True
    for memory, rows in ((None, None), (MEMORY, None), (None, 1)):
        try:
            prepared = ethoscade.prepare(model, io="int8", input_memory=memory, stream_input=rows)
        except ConfigError:
            cells += ["-"] * 3
            continue
        bound, floor = sram_bound(prepared.network), prepared.frontier().floor_bytes
        cells += [f"{bound:,}", f"{floor:,}", f"{floor / bound:.2f}"]
        is_right = is_right and bound <= floor
    print(name, *cells[1:], flush=True)
    return f"| {' | '.join(cells)} |\n", is_right


def main() -> int:
    """Prints the table; 3 if a floor is below its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--write", action="store_true", help=f"put the table into docs/{PAGE.name}")
    args = parser.parse_args()
    drawn = [int(name.removeprefix(RANDOM)) for name in args.models if name.startswith(RANDOM)]
    files = [name for name in args.models if not name.startswith(RANDOM)]
    models: list[tuple[str, Path | bytes]] = []
    if files or not drawn:
        models += [(model.stem, model) for model in named_models(files or MODELS)]
    models += [(f"random_{seed}", random_network(seed)) for count in drawn for seed in range(count)]
    if not args.models:
        models += [(name, made()) for name, made in BUILT.items()]
    return put_table([(name, row(name, model)) for name, model in models], HEAD, PAGE if args.write else None)


if __name__ == "__main__":
    sys.exit(main())
