"""Networks whose output is taken row by row, beside the same with the output in the SRAM as a whole.

    python benches/streamed_outputs.py [MODEL ...] [--seeds N] [--write]

For an Ethos-U55 with 256 MACs, Ethos_U55_High_End_Embedded, Shared_Sram, `io="int8"`. A row for each model, real ones
and built ones: bytes of input and output; the floor with both there as a whole, with a row of the output taken at a
time, and with a row of the input at a time as well; cycles at these floors; kilocycles that the NPU works before the
first take, and between two of them, at most. Every floor's schedule must be exact, free of hazards, and touch as many
bytes as promised. `--write` puts the table into docs/stream-input.md. Exit status 3 if anything is wrong.
"""

from __future__ import annotations

import sys
from pathlib import Path

import ethoscade
from ethoscade.ir import Activation
from ethoscade.testing import ModelBuilder, Value
from external_inputs import Row, print_table
from harness import millions
from streamed_inputs import PAGE

HEAD = (
    "| model | input | output | floor, whole | output by rows | input as well | Mcycles there, whole | output by rows "
    "| input as well | kcycles before the first | between takes |\n| --- " + "| ---: " * 10 + "|\n"
)
MODELS = ("deeplabv3_mnv2_pascal",)


def u_net() -> bytes:
    """A U-Net of three levels for 8 classes (Ronneberger et al., 2015, figure 1), an eighth as wide."""
    b, relu = ModelBuilder("u_net"), Activation.RELU

    def twice(x: Value, channels: int) -> Value:
        return b.conv2d(b.conv2d(x, channels, 3, activation=relu), channels, 3, activation=relu)

    first = twice(b.input((1, 128, 128, 3), name="input"), 8)
    second = twice(b.max_pool(first, 2, stride=2), 16)
    x = twice(b.max_pool(second, 2, stride=2), 32)
    for beside, channels in ((second, 16), (first, 8)):
        wide = b.quantize(b.resize_nearest(x, (beside.shape[1], beside.shape[2])), beside.quantisation)
        x = twice(b.concatenate([wide, beside], axis=3), channels)
    b.conv2d(x, 8, 1)
    return b.build()


def super_resolution() -> bytes:
    """An image of 64 x 64 pixels made twice as high and wide by five convolutions, as FSRCNN is (Dong et al., 2016)."""
    b, relu = ModelBuilder("super_resolution"), Activation.RELU
    x = b.conv2d(b.input((1, 64, 64, 3), name="input"), 32, 5, activation=relu)
    for channels, kernel in ((12, 1), (12, 3), (32, 1)):
        x = b.conv2d(x, channels, kernel, activation=relu)
    b.conv2d(b.resize_nearest(x, (128, 128)), 3, 3)
    return b.build()


BUILT = {"U-Net 128, built": u_net, "super-resolution 64 to 128, built": super_resolution}


def row(name: str, model: Path | bytes, seeds: int) -> Row:
    """The row of a model, and whether what it says is right."""
    whole = ethoscade.frontier(model, io="int8")
    made = [
        ethoscade.compile(model, io="int8", optimise="size", stream_output=1, stream_input=rows) for rows in (None, 1)
    ]
    checks = [one.verify(seeds=seeds) for one in made]
    is_right = all(
        check.ok and check.hazards == 0 and check.sram_touched_bytes == one.sram_bytes
        for check, one in zip(checks, made, strict=True)
    )
    departure, graph = made[0].departure, made[0].artifact.graph
    assert departure is not None, "it was compiled so"
    cells = [name, *(f"{graph.tensors[end[0]].size_bytes:,}" for end in (graph.given, graph.handed_out))]
    cells += [f"{whole.floor_bytes:,}", *(f"{one.sram_bytes:,}" for one in made)]
    cells += [millions(whole.points[0][1]), *(millions(one.cycles) for one in made)]
    cells += [f"{cycles / 1e3:,.1f}" for cycles in (departure.first_cycles, departure.longest_cycles)]
    return f"| {' | '.join(cells)} |\n", is_right


if __name__ == "__main__":
    sys.exit(print_table(__doc__, (PAGE, HEAD), row, MODELS, BUILT))
