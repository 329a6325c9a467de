"""The simulator's Python face: memories, refusals, the report of a run, the disassembler."""

from __future__ import annotations

import numpy as np
import pytest
from ethoscade.errors import ConfigError, SimulationError
from ethoscade.run import simulator
from ethoscade.run.simulator import Machine
from streams import Stream, copy_payload

ACCELERATOR = "ethos-u55-256"


def test_memory_counts_what_was_touched_and_initialised():
    machine = Machine(ACCELERATOR, [b"constants", 64, None, (1, 16, 32)])
    machine.write(1, 20, np.arange(4, dtype=np.int16))
    assert machine.read(3, 4, 8) == np.arange(4, dtype="<i2").tobytes()
    assert [machine.touched_end(region) for region in range(4)] == [0, 28, 0, 12]
    machine.touch(1, 30, 40)
    assert machine.touched_end(1) == 40
    assert machine.find_uninitialised(1, 20, 28) is None
    assert machine.find_uninitialised(1, 16, 64) == 16
    machine.mark_initialised(1, 0, 64)
    machine.mark_initialised(1, 40, 44, value=False)
    assert machine.find_uninitialised(1, 0, 64) == 40
    assert [machine.size(region) for region in range(5)] == [9, 64, None, 32, None]


def test_unknown_accelerators_are_a_configuration_error():
    with pytest.raises(ConfigError, match=r"ethos-u85.*known are ethos-u55-32, ethos-u55-64"):
        Machine("ethos-u85", [])


@pytest.mark.parametrize(
    ("access", "message"),
    [
        (lambda m: m.write(1, 60, bytes(5)), r"bytes \[60, 65\) of region 1, which has 64 bytes"),
        (lambda m: m.write(0, 0, b"x"), "region 0, which is read-only"),
        (lambda m: m.read(1, -1, 4), r"bytes \[-1, 3\)"),
        (lambda m: m.read(2, 0, 1), "region 2, which was not given"),
        (lambda m: m.touch(1, 0, 65), r"\[0, 65\)"),
        (lambda m: m.touch(1, 5, 4), r"\[5, 4\)"),
        (lambda m: m.mark_initialised(9, 0, 1), "region 9"),
        (lambda m: Machine(ACCELERATOR, [4, (0, 2, 3)]), r"bytes \[2, 5\) of region 0, which has 4 bytes"),
    ],
)
def test_accesses_of_the_host_are_checked(access, message):
    machine = Machine(ACCELERATOR, [b"constants", 64])
    with pytest.raises(SimulationError, match=message) as caught:
        access(machine)
    assert caught.value.command is None


def test_one_shot_run_returns_memory_and_report():
    result = simulator.run(copy_payload(), [16, 48], ACCELERATOR, initialised={0: [(0, bytes(range(16)))]})
    assert result.regions == (bytes(range(16)), bytes(16) + bytes(range(16)) + bytes(16))
    assert result.touched_end == (16, 32)
    assert (result.report.transfers, result.report.kernels, result.report.warnings) == (1, 0, ())
    assert (result.report.bytes_read, result.report.bytes_written) == (16, 16)


def test_payloads_run_in_turn_on_one_memory():
    machine = Machine(ACCELERATOR, [bytes(range(16)), 48])
    machine.run(copy_payload())
    second = Stream().dma(source=(1, 16), destination=(1, 32), length=16).payload()
    machine.run(second)
    assert machine.read(1, 32, 16) == bytes(range(16))


def test_errors_name_command_and_register():
    machine = Machine(ACCELERATOR, [16, 48])
    stream = Stream().set("DMA0_SRC_REGION", 0).set("DMA0_DST_REGION", 1).set("DMA0_SRC", 0)
    with pytest.raises(SimulationError, match=r"command 3 \(OP_DMA_START\): register not set: DMA0_DST") as caught:
        machine.run(stream.operation("OP_DMA_START").payload())
    assert caught.value.command == 3
    with pytest.raises(SimulationError, match=r"command 5 .*DMA0_DST is 0x8, which is no multiple of 16"):
        machine.run(Stream().dma(source=(0, 0), destination=(1, 8), length=16).payload())
    with pytest.raises(SimulationError, match=r"touches bytes \[16, 48\) of region 0"):
        machine.run(Stream().dma(source=(0, 16), destination=(1, 0), length=32).payload())
    with pytest.raises(SimulationError, match=r"payload: .*COP1"):
        machine.run(b"COP2" + bytes(12))
    with pytest.raises(SimulationError, match=r"payload: config word 0x10003008 .* product differs"):
        machine.run(copy_payload(config=0x10003008))


def test_reads_of_unwritten_bytes_are_found():
    machine = Machine(ACCELERATOR, [bytes(16), 64])
    machine.write(1, 0, bytes(14))
    report = machine.run(Stream().max_pool(width=16).payload())
    (warning,) = report.warnings
    assert warning.kind == "uninitialised_read"
    assert "OP_POOL reads byte 14 of region 1" in warning.message
    assert machine.run(Stream().max_pool(width=14).payload()).warnings == ()


@pytest.mark.parametrize(("function", "found"), [(3, [-900, -16, 0, 16, 900]), (4, [11, 16380, 16384, 16388, 32757])])
def test_limits_clamp_what_tanh_and_sigmoid_return(function, found):
    """Values beyond the limits before the function must reach it: 20,000 in steps of 1/2048 is 9.77."""
    limits = (-900, 900) if function == 3 else (11, 32757)
    machine = Machine(ACCELERATOR, [bytes(16), 128])
    machine.write(1, 0, np.array([-20000, -1, 0, 1, 20000], np.int16))
    machine.run(Stream().int16_average(width=5, function=function, limits=limits).payload())
    assert np.frombuffer(machine.read(1, 64, 10), np.int16).tolist() == found


def test_disassembly_reads_like_the_stream():
    lines = simulator.disassemble(copy_payload())
    assert lines[:2] == ["config 0x00003008", "id     0x10060000"]
    assert lines[-2:] == ["    5  OP_DMA_START", "    6  OP_STOP 65535"]
    with pytest.raises(SimulationError, match="command 0"):
        simulator.disassemble(Stream(words=[0x3FF]).payload())
