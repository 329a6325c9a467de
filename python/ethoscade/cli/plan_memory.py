"""The command `plan-memory`: a file of buffers in, a summary and a file of placed buffers out."""

from __future__ import annotations

import argparse
import json
import time

from ..errors import BudgetError, ConfigError, EthoscadeError
from ..memory import ALGORITHMS, DEFAULT_ITERATIONS, Placement, Pool, PoolOverflowError, plan, read_csv, write_csv
from ..memory.model import Buffer
from ..page.pictures import require
from ..report.memory_plot import plot
from ..util.arguments import shown
from ..util.files import refuse_same
from .console import complain, show
from .working import working

_MOST_DIGITS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what the command takes to its parser."""
    parser.set_defaults(run=run)
    parser.add_argument(
        "buffers",
        metavar="BUFFERS.csv",
        help="id,lower,upper,size and, where wanted, alignment, gaps, conflicts, shares, pools, access, pin, offset",
    )
    parser.add_argument("--capacity", type=_byte_count, metavar="BYTES", help="fail when the plan needs more")
    parser.add_argument(
        "--pool",
        type=_pool,
        action="append",
        default=[],
        metavar="NAME[=BYTES]",
        help="a pool that the column pools may name; several in order of importance; default: one without a limit",
    )
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="best", help="default: best")
    parser.add_argument("--seed", type=_byte_count, default=0, help="seed of the random choices; default: 0")
    parser.add_argument(
        "--iterations", type=_byte_count, default=DEFAULT_ITERATIONS, metavar="N", help="how long to search"
    )
    parser.add_argument(
        "--threads", type=_byte_count, default=1, metavar="N", help="search side by side; the answer is the same"
    )
    parser.add_argument("--output", metavar="PLACED.csv", help="write the buffers with their offsets")
    parser.add_argument("--plot", metavar="PICTURE.png", help="draw the placement over time (needs matplotlib)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Runs the command and returns its exit status: 0 done, 1 the buffers or the capacity are at fault."""
    started = time.perf_counter()
    try:
        refuse_same({}, {"--output": args.output, "--plot": args.plot})
        if args.plot is not None:
            # Better said before a long search than after it.
            require()
        placement = _place(read_csv(args.buffers), args)
        if args.output is not None:
            pools = placement.pool_of if len(placement.pools) > 1 else None
            write_csv(args.output, placement.buffers, placement.offsets, pools)
        seconds = time.perf_counter() - started
        if args.plot is not None:
            plot(placement, args.plot)
    except EthoscadeError as error:
        complain(f"{error}", "ethoscade plan-memory")
        if args.json:
            show(json.dumps(_describe(error)))
        return 1
    if args.json:
        summary = {
            "schema_version": 1,
            "buffers": len(placement.buffers),
            "algorithm": placement.algorithm,
            "peak_bytes": placement.peak_bytes,
            "lower_bound_bytes": placement.lower_bound_bytes,
            "optimal": placement.optimal,
            "stop_reason": placement.stop_reason,
            "iterations": placement.iterations,
            "seconds": round(seconds, 6),
            "pools": [
                {
                    "pool": pool.name,
                    "peak_bytes": placement.peaks[pool.name],
                    "lower_bound_bytes": placement.lower_bounds[pool.name],
                }
                for pool in placement.pools
            ],
        }
        show(json.dumps(summary))
    else:
        show(_sentence(placement, seconds))
    return 0


def _place(buffers: tuple[Buffer, ...], args: argparse.Namespace) -> Placement:
    if args.seed >= 1 << 64 or (args.capacity or 0) >= 1 << 60:
        raise ConfigError("--seed must be below 2^64 and --capacity below 2^60")
    if args.pool and args.capacity is not None:
        raise ConfigError("--capacity is for one pool without a name; write the limit behind --pool NAME=BYTES instead")
    if not args.pool and any(buffer.pools for buffer in buffers):
        raise ConfigError(f"{args.buffers}: a column names pools; say which there are with --pool NAME[=BYTES]")
    pools = tuple(args.pool) or (Pool("memory", args.capacity),)
    with working(args) as progress:
        return plan(
            buffers,
            pools=pools,
            algorithm=args.algorithm,
            seed=args.seed,
            iterations=args.iterations,
            threads=args.threads,
            progress=progress,
        )


def _sentence(placement: Placement, seconds: float) -> str:
    peak, bound = placement.peak_bytes, placement.lower_bound_bytes
    if placement.optimal:
        proof = "which is optimal"
    else:
        above = f"{100 * (peak - bound) / bound:.1f} % above" if bound else "above"
        proof = f"{above} the lower bound of {bound}"
    return (
        f"{len(placement.buffers)} buffers in {peak} bytes{_others(placement)}, {proof} "
        f"({placement.algorithm}, {placement.stop_reason}, {seconds:.2f} s)"
    )


def _others(placement: Placement) -> str:
    """The peaks of all pools, where there are several; the first is what the rest of the sentence is about."""
    if len(placement.pools) == 1:
        return ""
    others = ", ".join(f"{placement.peaks[pool.name]} of {pool.name}" for pool in placement.pools[1:])
    return f" of {placement.pools[0].name} ({others})"


def _describe(error: EthoscadeError) -> dict[str, object]:
    if isinstance(error, BudgetError):
        return {
            "error": "BudgetError",
            "message": str(error),
            "budget_bytes": error.budget_bytes,
            "floor_bytes": error.floor_bytes,
            "operator": error.operator,
            **_describe_overflow(error),
        }
    return {"error": type(error).__name__, "message": str(error)}


def _describe_overflow(error: BudgetError) -> dict[str, object]:
    if not isinstance(error, PoolOverflowError):
        return {}
    return {"pool": error.pool, "lower_bound_bytes": error.lower_bound_bytes, "buffers": list(error.buffers)}


def _pool(text: str) -> Pool:
    name, equals, limit = text.partition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r} is no pool; write NAME or NAME=BYTES")
    try:
        return Pool(name, _byte_count(limit) if equals else None)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _byte_count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > _MOST_DIGITS:
        raise argparse.ArgumentTypeError(
            f"{shown(text)} is not a whole number of at least 0, and at most {_MOST_DIGITS} digits"
        )
    return int(text)
