"""Properties of every plan, judged by a second, naive statement of the problem."""

from __future__ import annotations

import tempfile
from itertools import combinations
from pathlib import Path

from ethoscade import memory
from ethoscade.memory import Buffer, Gap, Pool
from hypothesis import given, settings
from hypothesis import strategies as st


@st.composite
def lifetimes(draw: st.DrawFn) -> tuple[int, int, tuple[Gap, ...]]:
    cuts = sorted(draw(st.lists(st.integers(-5, 12), min_size=4, max_size=4)))
    window = draw(st.none() | st.tuples(st.integers(0, 4), st.integers(4, 8)))
    gaps = (Gap(cuts[1], cuts[2], window),) if draw(st.booleans()) else ()
    return cuts[0], cuts[3], gaps


@st.composite
def buffer_lists(draw: st.DrawFn) -> list[Buffer]:
    buffers = []
    for index in range(draw(st.integers(0, 9))):
        lower, upper, gaps = draw(lifetimes())
        size = draw(st.integers(8, 60) | (st.just(0) if not gaps else st.nothing()))
        alignment = draw(st.sampled_from([1, 2, 3, 8, 16]))
        pools = draw(st.sampled_from([(), ("far",), ("far", "near")]))
        buffers.append(Buffer(f"b{index}", lower, upper, size, alignment, pools, gaps=gaps))
    return buffers


def _bytes_in_use(buffer: Buffer, offset: int, step: int) -> range:
    if not buffer.lower <= step < buffer.upper:
        return range(0)
    for gap in buffer.gaps:
        if gap.lower <= step < gap.upper:
            return range(0) if gap.window is None else range(offset + gap.window[0], offset + gap.window[1])
    return range(offset, offset + buffer.size_bytes)


def _meet(one: range, other: range) -> bool:
    return bool(one) and bool(other) and one.start < other.stop and other.start < one.stop


@settings(deadline=None, max_examples=150)
@given(buffer_lists(), st.sampled_from(memory.ALGORITHMS), st.integers(0, 3), st.integers(0, 20))
def test_every_plan_is_right(buffers: list[Buffer], algorithm: str, seed: int, base: int) -> None:
    pools = (Pool("near", 64, alignment=4, base_address=base), Pool("far"))
    found = memory.plan(buffers, pools=pools, algorithm=algorithm, seed=seed, iterations=200)
    placed = list(zip(buffers, found.offsets, found.pool_of, strict=True))
    for buffer, offset, pool in placed:
        assert pool in (buffer.pools or ("near", "far"))
        address = offset + (base if pool == "near" else 0)
        assert address % buffer.alignment == 0
        assert pool == "far" or address % 4 == 0
        for step in range(-5, 13):
            used = _bytes_in_use(buffer, offset, step)
            assert not used or used.stop <= found.peaks[pool]
    for (one, at, pool), (other, there, elsewhere) in combinations(placed, 2):
        if pool == elsewhere:
            for step in range(-5, 13):
                assert not _meet(_bytes_in_use(one, at, step), _bytes_in_use(other, there, step))
    assert found.peaks["near"] <= 64
    assert all(found.peaks[pool] >= found.lower_bounds[pool] for pool in found.peaks)


@settings(deadline=None, max_examples=60)
@given(buffer_lists(), st.randoms(use_true_random=False), st.sampled_from(memory.ALGORITHMS))
def test_the_order_of_buffers_changes_no_peak(buffers: list[Buffer], random: object, algorithm: str) -> None:
    shuffled = list(buffers)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    pools = (Pool("near"), Pool("far"))
    one, other = (memory.plan(b, pools=pools, algorithm=algorithm, iterations=300) for b in (buffers, shuffled))
    assert one.peaks == other.peaks


@settings(deadline=None, max_examples=60)
@given(buffer_lists())
def test_files_keep_everything(buffers: list[Buffer]) -> None:
    plain = [Buffer(b.name, b.lower, b.upper, b.size_bytes, b.alignment, gaps=b.gaps) for b in buffers]
    with tempfile.TemporaryDirectory() as folder:
        memory.write_csv(Path(folder) / "b.csv", plain)
        assert list(memory.read_csv(Path(folder) / "b.csv")) == plain
