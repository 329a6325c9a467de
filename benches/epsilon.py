"""What thinning loses: frontiers searched with several epsilons, beside the best of all of them.

    python benches/epsilon.py [MODEL ...] [--epsilons 1/16 1/64 1/256 0]

For each epsilon: the one that the search needed in the end, and why; Plans considered and CPU seconds; points; and how
many more cycles its frontier takes than the fastest known at the same bytes, at all sizes where any of them has a
point.
"""

from __future__ import annotations

import argparse
from fractions import Fraction

from ethoscade import Curve
from ethoscade.pipeline.compiler import search
from harness import cpu_seconds, default_target, named_models, network_of

SMALL = ("kws_ref_int8", "resnet8_int8", "person_detect")
EPSILONS = tuple(Fraction(text) for text in ("1/16", "1/64", "1/256", "0"))


def losses(curve: Curve, curves: list[Curve]) -> list[float]:
    """Cycles beyond the fastest known, as a part of them, at every size from the curve's floor on."""

    def within(one: Curve, size: int) -> int | None:
        return next((cycles for taken, cycles in reversed(one.points) if taken <= size), None)

    found = []
    for size in sorted({size for one in curves for size, _ in one.points}):
        own = within(curve, size)
        if own is not None:
            found.append(own / min(cycles for one in curves if (cycles := within(one, size)) is not None) - 1)
    return found


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=SMALL, help=f"default: {', '.join(SMALL)}")
    parser.add_argument("--epsilons", nargs="+", type=Fraction, default=EPSILONS, metavar="E")
    args = parser.parse_args()
    print("| model | epsilon | needed | Plans considered | CPU s | points | floor | more cycles, mean | most |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for model in named_models(args.models):
        network = network_of(model, default_target())
        runs = [cpu_seconds(lambda network=network, e=e: search(network, e)) for e in args.epsilons]
        curves = [curve for curve, _ in runs]
        for epsilon, (curve, seconds) in zip(args.epsilons, runs, strict=True):
            lost = losses(curve, curves)
            print(
                f"| {model.stem} | {epsilon} | {curve.epsilon} ({curve.stop_reason}) | {curve.plans:,} | {seconds:.1f} "
                f"| {len(curve.points)} | {curve.floor_bytes:,} | {sum(lost) / len(lost):.2%} | {max(lost):.1%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
