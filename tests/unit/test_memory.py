"""The memory planner as Python users see it."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from ethoscade import memory
from ethoscade.errors import BudgetError, ConfigError
from ethoscade.memory import Buffer, Gap, Pool, Share
from ethoscade.scheduling import program as programs

STACK = (Buffer("early", 0, 5, 50), Buffer("long", 0, 9, 40), Buffer("late", 5, 9, 30))
FLASH = Pool("flash", access=(("npu", "ro"), ("cpu", "ro")), base_address=0x800)


@pytest.mark.parametrize("algorithm", memory.ALGORITHMS)
def test_gaps_below_placed_buffers_are_filled(algorithm: str) -> None:
    placement = memory.plan(STACK, algorithm=algorithm)
    assert placement.peak_bytes == placement.lower_bound_bytes == 90
    assert placement.optimal
    assert placement.stop_reason == "complete"
    assert placement.pool_of == ("memory",) * 3


def test_the_same_arguments_give_the_same_answer() -> None:
    buffers = [Buffer(str(i), i * 7 % 13, i * 7 % 13 + 1 + i % 5, 16 + i * 37 % 101) for i in range(40)]
    one, other, threaded = (memory.plan(buffers, seed=5, iterations=500, threads=threads) for threads in (1, 1, 3))
    assert one == other == threaded


def test_fall_back_to_the_next_pool_and_alignments() -> None:
    pools = (Pool("dtcm", 100, alignment=8, base_address=0x2000_0004), Pool("sram"))
    placement = memory.plan(
        [Buffer("a", 0, 4, 80), Buffer("b", 0, 4, 60, 32), Buffer("c", 0, 4, 9, pools=("dtcm",))], pools=pools
    )
    assert placement.pool_of == ("dtcm", "sram", "dtcm")
    assert placement.peaks == {"dtcm": 93, "sram": 60}
    assert all((0x2000_0004 + offset) % 8 == 0 for offset in (placement.offsets[0], placement.offsets[2]))


def test_an_overflow_names_the_pool_the_bytes_and_the_buffers() -> None:
    with pytest.raises(memory.PoolOverflowError) as caught:
        memory.plan(STACK, pools=(Pool("sram", 64),))
    error = caught.value
    assert isinstance(error, BudgetError)
    assert (error.pool, error.budget_bytes, error.floor_bytes) == ("sram", 64, 90)
    assert error.buffers == ("early", "long")
    assert error.operator == "early"
    for part in ("sram", "64", "90", "early", "long"):
        assert part in str(error)


def test_an_overflow_of_the_second_pool_names_who_reaches_its_peak() -> None:
    buffers = [
        Buffer("much", 0, 2, 90, pools=("near",)),
        Buffer("fixed", 4, 6, 10, pools=("near",), offset=95),
        Buffer("beside", 5, 8, 7, pools=("near",)),
        Buffer("elsewhere", 0, 9, 500, pools=("far",)),
    ]
    with pytest.raises(memory.PoolOverflowError) as caught:
        memory.plan(buffers, pools=(Pool("far"), Pool("near", 100)))
    error = caught.value
    assert (error.pool, error.buffers, error.floor_bytes) == ("near", ("fixed", "beside"), 105)
    assert error.lower_bound_bytes == 105


def test_preferences_count_in_bytes() -> None:
    buffers = [Buffer("large", 0, 2, 90), Buffer("small", 0, 2, 30), Buffer("other", 0, 2, 30)]
    found = memory.plan(buffers, pools=(Pool("fast", 100), Pool("slow")))
    assert found.pool_of == ("fast", "slow", "slow")


def test_an_overflow_names_those_that_all_conflict() -> None:
    buffers = [
        Buffer("a", 0, 1, 50, conflicts=("b", "c")),
        Buffer("b", 1, 2, 60, conflicts=("c",)),
        Buffer("c", 2, 3, 70),
        Buffer("d", 3, 4, 5, conflicts=("a",)),
    ]
    with pytest.raises(memory.PoolOverflowError) as caught:
        memory.plan(buffers, pools=(Pool("sram", 100),))
    assert caught.value.buffers == ("a", "b", "c")
    assert caught.value.lower_bound_bytes == caught.value.floor_bytes == 180


@pytest.mark.parametrize("algorithm", memory.ALGORITHMS)
def test_buffers_that_push_one_another_up_a_pool_without_a_limit(algorithm: str) -> None:
    held = [
        Buffer("a", 0, 4, 16, 16, pools=("slow",)),
        # No multiple of 16 lies in that range: above or below "a" it is, and either pushes the other on.
        Buffer("b", 0, 4, 56, 16, pools=("slow",), shares=(Share("a", -43, -40),)),
    ]
    denied = [Buffer(name, 0, 4, 60, pools=("fast", "slow")) for name in ("c", "d")]
    pools = (Pool("slow"), Pool("fast", 100))
    found = memory.plan([*held, *denied], pools=pools, algorithm=algorithm, iterations=500)
    assert (found.peaks["fast"], sorted(found.pool_of)) == (60, ["fast", "slow", "slow", "slow"])


def test_constants_go_to_the_first_pool_that_their_readers_reach() -> None:
    pools = (Pool("dtcm", 64, access=(("cpu", "rw"),)), FLASH, Pool("sram"))
    buffers = [
        Buffer.constant("weights", 100, 16, readers=("npu",)),
        Buffer.constant("table", 10, readers=("cpu",)),
        Buffer("activations", 3, 5, 40, access=(("npu", "rw"),)),
    ]
    placement = memory.plan(buffers, pools=pools)
    assert placement.pool_of == ("flash", "dtcm", "sram")
    assert placement.address_of("weights") == 0x800
    assert placement.optimal


def test_conflicts_and_shares_by_name() -> None:
    apart = memory.plan([Buffer("a", 0, 1, 10), Buffer("b", 5, 6, 10, conflicts=("a",))])
    assert apart.peak_bytes == 20
    in_place = [Buffer("in", 0, 2, 64), Buffer("out", 1, 3, 64, shares=(Share("in"),)), Buffer("skip", 0, 3, 8)]
    placement = memory.plan(in_place)
    assert placement.peak_bytes == placement.lower_bound_bytes == 72
    assert placement.offsets[0] == placement.offsets[1]
    with pytest.raises(ConfigError, match=r"'in' and 'out' share"):
        memory.plan(in_place, algorithm=lambda buffers, pools: [0, 8, 80])


def test_models_that_take_turns_share_a_workspace() -> None:
    one = [Buffer("in", 0, 1, 30, offset=0), Buffer("out", 0, 2, 20), Buffer.constant("state", 4)]
    other = [Buffer("x", 100, 103, 40, gaps=(Gap(101, 102),)), Buffer("y", 101, 103, 9, conflicts=("x",))]
    merged = memory.merge_models({"one": one, "other": other})
    assert [(b.name, b.lower, b.upper) for b in merged if not b.is_constant] == [
        ("one/in", 0, 1),
        ("one/out", 0, 2),
        ("other/x", 2, 5),
        ("other/y", 3, 5),
    ]
    assert memory.plan(merged).peak_bytes == 54
    kept = memory.merge_models({"one": one, "other": other}, keep=("one/out",))
    assert memory.plan(kept).peak_bytes == 30 + 20 + 23


def test_lifetimes_with_gaps() -> None:
    away = Buffer("away", 0, 9, 100, gaps=(Gap(3, 6),))
    shrunk = Buffer("shrunk", 0, 9, 100, gaps=(Gap(3, 9, (60, 100)),))
    assert memory.plan([away, Buffer("guest", 3, 6, 100)]).peak_bytes == 100
    assert memory.plan([shrunk, Buffer("guest", 3, 9, 60)]).peak_bytes == 100


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: memory.plan(STACK, algorithm="magic"), ("magic", "best")),
        (lambda: memory.plan(STACK, pools=()), ("no pool",)),
        (lambda: memory.plan(STACK, pools=(Pool("x"), Pool("x"))), ("same name",)),
        (lambda: memory.plan(STACK, seed=-1), ("seed -1",)),
        (lambda: memory.plan(STACK, iterations=-1), ("-1 iterations",)),
        (lambda: memory.plan(STACK, threads=0), ("0 threads",)),
        (lambda: memory.plan(STACK, threads=257), ("257 threads",)),
        (lambda: memory.plan([Buffer("a", 0, 1, 1, pools=("y",))], pools=(Pool("x"),)), ("'a'", "'y'", "x")),
        (lambda: memory.plan([Buffer("a", 0, 1, 8, 16, offset=8)]), ("'a'", "8", "16")),
        (lambda: memory.plan([Buffer("a", 0, 1, 8, offset=0), Buffer("b", 0, 1, 8, offset=7)]), ("'a'", "'b'")),
        (lambda: memory.plan([Buffer("a", 0, 1, 1 << 59), Buffer("b", 0, 1, 1 << 59)]), ("2^60",)),
        (lambda: Buffer("a", 3, 2, 1), ("'a'", "2", "3")),
        (lambda: Buffer("a", 0, 1, -1), ("'a'", "size -1")),
        (lambda: Buffer("a", 0, 1, 1, 0), ("'a'", "alignment 0")),
        (lambda: Buffer("a", 0, 1 << 63, 1), ("'a'", "upper")),
        (lambda: Buffer("a", 0, 9, 1, gaps=(Gap(2, 4), Gap(3, 5))), ("'a'", "3-5")),
        (lambda: Buffer("a", 0, 9, 1, gaps=(Gap(2, 4, (0, 2)),)), ("'a'", "0:2")),
        (lambda: Buffer("a", 0, 9, 1, shares=(Share("b", 2, 1),)), ("'a'", "'b'", "2..1")),
        (lambda: Buffer("a", 0, 9, 1, access=(("npu", "wr"),)), ("'a'", "'wr'", "'npu'")),
        (lambda: memory.plan([Buffer("a", 0, 9, 1, conflicts=("b",))]), ("'a'", "'b'")),
        (lambda: memory.plan([Buffer("a", 0, 9, 1, shares=(Share("a"),))]), ("'a'",)),
        (
            lambda: memory.plan([Buffer("a", 0, 9, 1, access=(("npu", "rw"),))], pools=(FLASH,)),
            ("'a'", "npu rw", "flash"),
        ),
        (lambda: memory.merge_models({"m": STACK}, keep=("early",)), ("'early'", "model/buffer")),
        (lambda: memory.plan(STACK).address_of("nobody"), ("'nobody'",)),
        (lambda: Pool("p", -1), ("'p'", "size -1")),
        (lambda: Pool("p", alignment=0), ("'p'", "alignment 0")),
    ],
)
def test_nonsense_is_refused_by_name(make: object, words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        make()  # type: ignore[operator]
    for word in words:
        assert word in str(caught.value)


def test_a_callable_is_asked_and_checked() -> None:
    def stack(buffers: tuple[Buffer, ...], pools: tuple[Pool, ...]) -> list[int]:
        return [sum(b.size_bytes for b in buffers[:i]) for i in range(len(buffers))]

    placement = memory.plan(STACK, algorithm=stack)
    assert placement.offsets == (0, 50, 90)
    assert (placement.peak_bytes, placement.lower_bound_bytes, placement.optimal) == (120, 90, False)
    assert placement.algorithm == "stack"
    elsewhere = memory.plan(STACK, pools=(Pool("a"), Pool("b")), algorithm=lambda b, p: [("b", 0), ("a", 0), ("b", 0)])
    assert elsewhere.pool_of == ("b", "a", "b")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([0, 49, 0], ("'early'", "'long'", "share")),
        ([0, 50], ("2 offsets", "3 buffers")),
        ([0, 50, -1], ("'late'", "-1")),
        ([0, 70, 0], ("'long'", "110", "100")),
        ([("nowhere", 0), 50, 0], ("'early'", "nowhere")),
    ],
)
def test_a_callables_mistake_is_named(answer: list[memory.Offset], words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        memory.plan(STACK, pools=(Pool("memory", 100),), algorithm=lambda buffers, pools: answer)
    for word in words:
        assert word in str(caught.value)


def _program(*sizes: int) -> programs.Program:
    buffers = tuple(programs.ProgramBuffer(f"t{i}", "tensor", size, i, i + 2) for i, size in enumerate(sizes))
    return programs.Program(steps=(), buffers=buffers, tensor_buffers={})


def test_a_programs_arena_is_a_multiple_of_16() -> None:
    placed = memory.place_program(_program(33, 17, 49))
    assert placed.arena_bytes == 96
    assert all(offset % 16 == 0 for offset in placed.offsets)
    assert memory.place_program(_program()).arena_bytes == 0
    assert memory.place_program(_program(33, 17, 49), capacity_bytes=111).arena_bytes == 96
    with pytest.raises(BudgetError):
        memory.place_program(_program(33, 17, 49), capacity_bytes=95)


def _instances() -> list[Path]:
    named = os.environ.get("ETHOSCADE_INSTANCES")
    folders = [Path(named)] if named else [p / "shared" / "instances" for p in Path(__file__).resolve().parents]
    return next((files for folder in folders if (files := sorted(folder.glob("*.csv")))), [])


def test_the_hard_instances() -> None:
    files = _instances()
    if not files:
        pytest.skip("no instances: set ETHOSCADE_INSTANCES to the folder that holds A.1048576.csv and so on")
    for file in files:
        buffers = memory.read_csv(file)
        placement = memory.plan(buffers, algorithm="exact", iterations=50_000)
        greedy = memory.plan(buffers, algorithm="greedy_by_size")
        assert placement.peak_bytes <= 1 << 20
        assert placement.optimal == (file.name[0] not in "DJ")
        again = memory.plan(buffers, algorithm=lambda b, p, found=placement: found.offsets)  # type: ignore[misc]
        assert again.peak_bytes == placement.peak_bytes <= greedy.peak_bytes <= 1.42 * placement.lower_bound_bytes


def test_many_pieces_of_a_rectangle_come_near_its_height() -> None:
    rng = random.Random("a")
    parts = [(0, 1 << 20, 0, 1 << 20)]
    while len(parts) < 1200:
        areas = [(upper - lower) * (high - low) for lower, upper, low, high in parts]
        lower, upper, low, high = parts.pop(rng.choices(range(len(parts)), areas)[0])
        if rng.random() < 0.5 and high - low >= 512:
            cut = rng.randint(low + 256, high - 256)
            parts += [(lower, upper, low, cut), (lower, upper, cut, high)]
        else:
            cut = rng.randint(lower + 1, upper - 1)
            parts += [(lower, cut, low, high), (cut, upper, low, high)]
    rng.shuffle(parts)
    buffers = [Buffer(f"p{at}", lower, upper, high - low) for at, (lower, upper, low, high) in enumerate(parts)]
    # Its best packing takes 1 MiB. First fit, and what a search without relaxed capacities adds to it, take half more.
    found = memory.plan(buffers, algorithm="exact", iterations=5_000)
    assert found.peak_bytes <= 1.2 * (1 << 20)
