"""Networks whose input arrives row by row, beside the same with the input in the SRAM as a whole.

    python benches/streamed_inputs.py [MODEL ...] [--seeds N] [--write]

For an Ethos-U55 with 256 MACs, Ethos_U55_High_End_Embedded, Shared_Sram, `io="int8"`. A row for each model: bytes of
the input; the floor with all of it there, with a row at a time, with two, and with two that arrive while the NPU works;
cycles at the floor, whole and a row at a time; kilocycles that the NPU works between two feeds there, at most, and
behind the last one; the fewest cycles. Behind them MobileNetV2 0.35/144, built. Every floor's schedule must be exact,
also where the caller is as late as it may, free of hazards, and touch as many bytes as promised. `--write` puts the
table into docs/stream-input.md. Exit status 3 if anything is wrong.
"""

from __future__ import annotations

import sys
from pathlib import Path

import ethoscade
from external_inputs import Row, print_table
from harness import millions

PAGE = Path(__file__).resolve().parents[1] / "docs" / "stream-input.md"
HEAD = (
    "| model | input | floor, whole | a row at a time | two | two, meanwhile | Mcycles there, whole | a row at a time "
    "| kcycles between feeds | behind the last | fewest Mcycles, whole | a row at a time |\n| --- "
    + "| ---: " * 11
    + "|\n"
)
WAYS = ((1, False), (2, False), (2, True))


def row(name: str, model: Path | bytes, seeds: int) -> Row:
    """The row of a model, and whether what it says is right."""
    whole = ethoscade.frontier(model, io="int8")
    prepared = [ethoscade.prepare(model, io="int8", stream_input=rows, stream_ahead=ahead) for rows, ahead in WAYS]
    curve, made = prepared[0].frontier(), [one.compile(optimise="size") for one in prepared]
    checks = [one.verify(seeds=seeds) for one in made]
    is_right = all(
        check.ok and check.hazards == 0 and check.sram_touched_bytes == one.sram_bytes
        for check, one in zip(checks, made, strict=True)
    )
    arrival = made[0].arrival
    assert arrival is not None, "it was compiled so"
    size = made[0].source.tensors[made[0].source.given[0]].size_bytes
    cells = [name, f"{size:,}", f"{whole.floor_bytes:,}", *(f"{one.sram_bytes:,}" for one in made)]
    cells += [millions(whole.points[0][1]), millions(made[0].cycles)]
    cells += [f"{cycles / 1e3:,.1f}" for cycles in (arrival.longest_cycles, arrival.last_cycles)]
    cells += [millions(whole.points[-1][1]), millions(curve.points[-1][1])]
    return f"| {' | '.join(cells)} |\n", is_right and curve.floor_bytes == made[0].sram_bytes


if __name__ == "__main__":
    sys.exit(print_table(__doc__, (PAGE, HEAD), row))
