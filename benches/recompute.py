"""What making rows again could free: rolling buffers that nobody touches while most bytes are in use.

    python benches/recompute.py [MODEL ...]

A rolling buffer keeps rows that two stripes of a reader share. To make these rows again instead would free the buffer
between its uses, and never while its reader runs. For each Proposal of a frontier: the most bytes in use at any
step, and the same if every rolling buffer that a step does not touch took nothing. No recomputing of its rows goes
below that with these stripes in this order, whatever it costs.
"""

from __future__ import annotations

import argparse
from itertools import accumulate

from ethoscade.scheduling import schedule as scheduling
from ethoscade.scheduling.program import Buffer, BufferKind, Program, Stripe
from harness import default_target, named_models, network_of


def periods(buffer: Buffer) -> list[tuple[int, int, int]]:
    """First step, one past the last, and bytes in use."""
    if not buffer.windows:
        return [(buffer.first_step, buffer.last_step, buffer.size_bytes)]
    return [(window.first_step, window.last_step, window.high - window.low) for window in buffer.windows]


def fullest(program: Program) -> tuple[int, int]:
    """Most bytes in use at any step, and the same without rolling buffers that the step does not touch."""
    count = len(program.steps)
    change = [0] * (count + 1)
    for buffer in program.buffers:
        for first, end, size in periods(buffer):
            change[first] += -(-size // buffer.alignment) * buffer.alignment
            change[end] -= -(-size // buffer.alignment) * buffer.alignment
    live = list(accumulate(change))[:count]
    busy = list(live)
    rolling = {number: b for number, b in enumerate(program.buffers) if b.kind is BufferKind.ROLLING}
    for number, buffer in rolling.items():
        for step in range(buffer.first_step, buffer.last_step):
            work = program.steps[step]
            used = {work.output.buffer, *(view.buffer for view in work.inputs)} if isinstance(work, Stripe) else set()
            if number not in used:
                busy[step] -= -(-buffer.live_bytes(step) // buffer.alignment) * buffer.alignment
    return max(live), max(busy)


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="name or path; default: the seven shared models")
    args = parser.parse_args()
    print("| model | floor: in use | without idle rows | Proposals | of these, none idle when fullest |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for model in named_models(args.models):
        problem = network_of(model, default_target()).problem
        proposals = scheduling.search(problem).proposals
        schedules = (scheduling.from_proposal(problem, proposal) for proposal in proposals)
        found = [fullest(scheduling.lower_schedule(problem, schedule)[0]) for schedule in schedules]
        (live, busy), same = found[0], sum(live == busy for live, busy in found)
        print(f"| {model.stem} | {live:,} | {busy:,} | {len(found)} | {same} |", flush=True)


if __name__ == "__main__":
    main()
