"""What making rows again could free, beside what keeping them costs: rolling buffers at the fullest step.

    python benches/recompute.py [MODEL ...]

A rolling buffer keeps rows that two stripes of a reader share. To make these rows again instead would free them between
two uses, and never while their reader runs. For the floor of a frontier, the most bytes in use at any step

- as they are;
- if of rolling buffers only rows took bytes that are still to be read: what is more than that are places of rows that
  are dead, which wander through the buffer;
- if rolling buffers that a step does not touch took nothing: no recomputing goes below that with these stripes in this
  order, whatever it costs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import accumulate

from ethoscade.codegen.layout import ALIGNMENT_BYTES
from ethoscade.scheduling import schedule as scheduling
from ethoscade.scheduling.program import Program, Slab, Stripe
from harness import default_target, named_models, network_of

Period = tuple[int, int, int]
"""First step, one past the last, and bytes in use."""


def uses(program: Program, number: int) -> Iterator[tuple[int, Slab, bool]]:
    """Steps that touch a buffer, with what they touch and whether they write it."""
    for step, work in enumerate(program.steps):
        if isinstance(work, Stripe):
            yield from ((step, view, False) for view in work.inputs if view.buffer == number)
            if work.output.buffer == number:
                yield step, work.output, True


def wanted(program: Program, number: int) -> Iterator[Period]:
    """Of a rolling buffer's rows (columns, where it is written by these), each from its making to its last use."""
    touched = list(uses(program, number))
    pieces = [((view.y0, view.y1), (view.x0, view.x1)) for _, view, written in touched if written]
    other = next((piece for piece in pieces if piece != pieces[0]), pieces[0])
    axis = int(other[0] == pieces[0][0])
    lines = (touched[0][1].rows, touched[0][1].columns)[axis]
    size = program.buffers[number].size_bytes // lines
    alive: dict[int, tuple[int, int]] = {}
    for step, view, written in touched:
        for line in range(*((view.y0, view.y1), (view.x0, view.x1))[axis]):
            if written and line in alive:
                yield (*alive.pop(line), size)
            alive[line] = (alive.get(line, (step, 0))[0], step + 1)
    yield from ((first, end, size) for first, end in alive.values())


def fullest(program: Program) -> tuple[int, int, int]:
    """Most bytes in use at any step: as they are, of wanted rows alone, and without idle rolling buffers."""
    changes = [[0] * (len(program.steps) + 1) for _ in range(3)]

    def add(kinds: tuple[int, ...], period: Period, alignment: int) -> None:
        first, end, size = period
        for kind in kinds:
            changes[kind][first] += -(-size // alignment) * alignment
            changes[kind][end] -= -(-size // alignment) * alignment

    for number, buffer in enumerate(program.buffers):
        is_rolling = buffer.kind == "rolling"
        for period in buffer.periods():
            add((0,) if is_rolling else (0, 1, 2), period, ALIGNMENT_BYTES)
        if is_rolling:
            for period in wanted(program, number):
                add((1,), period, 1)
            for step in sorted({step for step, _, _ in uses(program, number)}):
                add((2,), (step, step + 1, buffer.size_bytes), ALIGNMENT_BYTES)
    whole, rows, busy = (max(accumulate(change)) for change in changes)
    return whole, rows, busy


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="name or path; default: the seven shared models")
    args = parser.parse_args()
    print("| model | in use | wanted rows alone | without idle buffers |")
    print("| --- | ---: | ---: | ---: |")
    for model in named_models(args.models):
        problem = network_of(model, default_target()).problem
        floor = scheduling.search(problem).proposals[0]
        whole, rows, busy = fullest(scheduling.arrange(problem, floor).program)
        print(f"| {model.stem} | {whole:,} | {rows:,} | {busy:,} |", flush=True)


if __name__ == "__main__":
    main()
