"""The timing model's Python face: hand-made streams, errors, labels, traces, and what must hold for every stream.

The rules themselves are worked out by hand in rust/src/npu/timing/tests.rs.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from ethoscade.errors import ConfigError, SimulationError
from ethoscade.report import timing
from ethoscade.run.timing import TimingReport, simulate_timing
from ethoscade.targets.target import Target, load_target
from ethoscade.trace.perfetto import trace, write_trace
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import Stream
from trace_support import check_format, end_of, lanes_of, nanoseconds, recorded

TARGET = load_target("ethos-u55-256", "Ethos_U55_High_End_Embedded", "Shared_Sram")
SRAM, FLASH = "Sram", "OffChipFlash"
QUIET = {"cycles_per_word": 0, "fetch_commands": 0}
KERNEL_WAIT, DMA_WAIT = 18, 17


def stream(*operations: Any) -> bytes:
    """A payload of ("pool", width), ("dma", bytes), ("kernel_wait", n), ("dma_wait", n)."""
    built = Stream()
    for kind, amount in operations:
        if kind == "pool":
            built.max_pool(amount)
        elif kind == "dma":
            built.dma((0, 0), (1, 4096), amount)
        else:
            built.words.append((KERNEL_WAIT if kind == "kernel_wait" else DMA_WAIT) | amount << 16)
    return built.payload()


def faster(target: Target, memory: str, factor: int) -> Target:
    """The target with a memory of `factor` times the bandwidth."""
    old = getattr(target, memory)
    rate = old.bytes_per_cycle
    new = dataclasses.replace(old, bytes_per_cycle=(rate[0] * factor, rate[1]))
    return dataclasses.replace(target, **{memory: new})


def test_a_pool_by_hand() -> None:
    report = simulate_timing(stream(("pool", 16)), TARGET, rules=QUIET)
    kernel = report.commands[0].kernel
    assert kernel is not None
    # 8 micro-blocks of 4 cycles; 16 elements at 1/8. Rows of 16 bytes cost a burst of 32.
    assert (kernel.mac_cycles, kernel.output_cycles, kernel.pipeline_cycles) == (32, 2, 34)
    assert (kernel.fill_cycles, kernel.drain_cycles) == (32 + 4, 32 + 4)
    assert report.cycles == kernel.alone_cycles == 34 + 36 + 36
    assert report.commands[0].read_bytes == {SRAM: 16, FLASH: 0}
    assert report.commands[0].bound == "latency"
    assert report.commands[1].kind == "STOP"


def test_command_words_count_as_bytes() -> None:
    payload = stream(("pool", 16))
    words = (len(payload) - 32) // 4
    report = simulate_timing(payload, TARGET)
    assert report.memories[FLASH].command_bytes == report.memories[FLASH].read_bytes == 4 * words
    assert report.cycles == simulate_timing(payload, TARGET, rules=QUIET).cycles + 4 * (words - 1)
    assert report.front_end_cycles == 4 * words


def test_a_transfer_by_hand() -> None:
    report = simulate_timing(stream(("dma", 256)), TARGET, rules=QUIET)
    # Both latencies and 256 bytes at 1 byte per cycle.
    assert report.cycles == 64 + 32 + 256
    assert (report.memories[FLASH].dma_read_bytes, report.memories[SRAM].dma_written_bytes) == (256, 256)
    assert report.constant_bytes == 256
    assert report.commands[0].bound == FLASH


def test_labels_group_kernels() -> None:
    payload = stream(("pool", 16), ("pool", 32), ("pool", 16))
    report = simulate_timing(payload, TARGET, labels=["a", "b", "a"])
    assert [(op.label, op.kernels) for op in report.operators] == [("a", 2), ("b", 1)]
    assert report.operators[0].bytes == {SRAM: 64, FLASH: 0}
    assert sum(op.cycles for op in report.operators) == report.kernel_cycles
    unnamed = simulate_timing(payload, TARGET)
    assert [op.label for op in unnamed.operators] == ["max_pool 1x16x1 #0", "max_pool 1x32x1 #1", "max_pool 1x16x1 #2"]


def test_labels_name_stripes_and_transfers() -> None:
    payload = stream(("dma", 64), ("dma", 64), ("pool", 16), ("dma", 64), ("pool", 16), ("pool", 16))
    report = simulate_timing(payload, TARGET, labels=["a", "b", "a", "b", "b", "b"])
    assert [command.name for command in report.commands] == [
        "copy for a", "copy for b 1/2", "a", "copy for b 2/2", "b stripe 1/2", "b stripe 2/2", "STOP",
    ]  # fmt: skip
    a, b = report.operators
    assert (a.transfers, b.transfers) == (1, 2)
    assert a.transfer_cycles + b.transfer_cycles == report.dma_cycles
    assert simulate_timing(payload, TARGET).commands[0].name == "dma"


def test_memory_cycles_add_up() -> None:
    report = simulate_timing(stream(("dma", 256), ("pool", 48), ("pool", 16)), TARGET, rules=QUIET)
    for memory, traffic in report.memories.items():
        cycles = sum(command.memory_cycles[memory] for command in report.commands)
        assert traffic.busy_cycles <= cycles <= traffic.busy_cycles + len(report.commands)
    # 256 bytes at 1 byte per cycle, in 64 + 32 + 256 cycles.
    assert report.commands[0].share(FLASH) == 256 / 352


def test_refusals() -> None:
    with pytest.raises(SimulationError):
        simulate_timing(b"nonsense", TARGET)
    with pytest.raises(SimulationError, match="MACs"):
        simulate_timing(stream(("pool", 16)), load_target("ethos-u55-128"))
    with pytest.raises(SimulationError, match="not set") as caught:
        simulate_timing(Stream().operation("OP_POOL").payload(), TARGET)
    assert caught.value.command == 0
    for rules in ({"magic": 1}, {"bursts": 2}, {"bursts": -1}, {"issue": 7}):
        with pytest.raises(ConfigError):
            simulate_timing(stream(("pool", 16)), TARGET, rules=rules)


def test_sram_only_has_one_memory() -> None:
    target = load_target("ethos-u55-256", "Ethos_U55_High_End_Embedded", "Sram_Only")
    report = simulate_timing(stream(("pool", 16), ("dma", 64)), target)
    assert list(report.memories) == [SRAM]
    assert report.memories[SRAM].dma_read_bytes == report.memories[SRAM].dma_written_bytes == 64


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("pool"), st.integers(1, 64)),
        st.tuples(st.just("dma"), st.integers(1, 64).map(lambda n: 16 * n)),
        st.tuples(st.just("kernel_wait"), st.integers(0, 2)),
        st.tuples(st.just("dma_wait"), st.integers(0, 1)),
    ),
    max_size=8,
)


@settings(max_examples=200, deadline=None)
@given(OPERATIONS)
def test_every_timeline_is_consistent(operations: list[tuple[str, int]]) -> None:
    report = simulate_timing(stream(*operations), TARGET)
    busy = {"kernel": 0, "dma": 0}
    for command in report.commands:
        assert command.reached <= command.issued <= command.end <= report.cycles
        if command.bound != "waiting":
            lane = "dma" if command.kernel is None else "kernel"
            assert command.start >= busy[lane]
            busy[lane] = command.end
    assert report.lower_bound_cycles <= report.cycles
    assert 0 <= report.utilisation <= 1
    assert report.waiting_cycles >= 0


@settings(max_examples=100, deadline=None)
@given(OPERATIONS, st.sampled_from(["constants", "arena"]), st.integers(2, 4))
def test_more_bandwidth_is_never_slower(operations: list[tuple[str, int]], memory: str, factor: int) -> None:
    payload = stream(*operations)
    assert simulate_timing(payload, faster(TARGET, memory, factor)).cycles <= simulate_timing(payload, TARGET).cycles


@settings(max_examples=200, deadline=None)
@given(OPERATIONS, st.data())
def test_a_wait_removed_is_never_slower(operations: list[tuple[str, int]], data: st.DataObject) -> None:
    waits = [index for index, (kind, _) in enumerate(operations) if kind.endswith("wait")]
    if not waits:
        return
    gone = data.draw(st.sampled_from(waits))
    without = operations[:gone] + operations[gone + 1 :]
    # The wait's own word is not charged here, so that only the waiting is compared.
    rules = {"fetch_commands": 0, "cycles_per_word": 0}
    before, after = (simulate_timing(stream(*ops), TARGET, rules=rules).cycles for ops in (operations, without))
    assert after <= before


@settings(max_examples=1000, deadline=None)
@given(st.data())
def test_damaged_payloads_end_in_an_error_or_a_report(data: st.DataObject) -> None:
    payload = bytearray(stream(("pool", 48), ("dma", 64), ("kernel_wait", 0), ("pool", 16)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(payload) - 1))
        payload[at] = data.draw(st.integers(0, 255))
    try:
        report = simulate_timing(bytes(payload), TARGET)
    except SimulationError:
        return
    assert isinstance(report, TimingReport)


LANES = ["front end", "compute", "output stage", "DMA", SRAM, FLASH]


def test_trace(tmp_path: Path) -> None:
    payload = stream(("dma", 256), ("dma_wait", 0), ("pool", 16), ("pool", 16))
    report = simulate_timing(payload, TARGET, labels=["pool", "pool", "pool"])
    file = write_trace(recorded(TARGET, ("call", payload, report), ("again", payload, report)), tmp_path / "t.json")
    found = json.loads(file.read_text())
    check_format(found)
    lanes = lanes_of(found)
    assert list(lanes) == [*LANES, "operators outside cascades"]
    assert [event["name"] for event in lanes["compute"]] == ["pool stripe 1/2", "pool stripe 2/2"] * 2
    assert [event["name"] for event in lanes["DMA"]] == ["copy for pool"] * 2
    assert [event["name"] for event in lanes[FLASH]] == ["copy for pool 72%"] * 2
    assert [event["name"].rsplit(" ", 1)[0] for event in lanes[SRAM]][1:3] == ["pool stripe 1/2", "pool stripe 2/2"]
    counters = {event["name"] for event in found["traceEvents"] if event["ph"] == "C"}
    in_use = {f"{SRAM} live bytes", f"{SRAM} highest byte in use"}
    assert counters == {f"{SRAM} bytes/cycle", f"{FLASH} bytes/cycle"} | in_use
    slices = [event for events in lanes.values() for event in events]
    # A cycle at 500 MHz is two nanoseconds.
    assert max(map(end_of, slices)) == 2 * 2 * report.cycles and found["otherData"]["cycles"] == 2 * report.cycles
    assert "waits: DMA_WAIT" in [event["name"] for event in slices]
    text = timing.timing_text([("call", report)])
    assert "bound by" in text and f"{report.cycles:,} cycles" in text
    call = timing.timing_json([("call", report)])["calls"][0]
    assert (call["operators"][0]["kernels"], call["operators"][0]["transfers"]) == (2, 1)
    assert len(call["commands"]) == len(report.commands)


@settings(max_examples=200, deadline=None)
@given(OPERATIONS)
def test_every_trace_can_be_drawn(operations: list[tuple[str, int]]) -> None:
    payload = stream(*operations)
    report = simulate_timing(payload, TARGET)
    found = trace(recorded(TARGET, ("call", payload, report)))
    check_format(found)
    lanes = lanes_of(found)
    for memory in (SRAM, FLASH):
        users = [c for c in report.commands if c.memory_cycles[memory] and c.cycles]
        covered = sum(nanoseconds(event["dur"]) * (len(event["args"]) - 1) for event in lanes[memory])
        assert covered == 2 * sum(command.cycles for command in users)
        assert all(0 < command.share(memory) <= 1 for command in users)
