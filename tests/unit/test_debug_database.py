"""Vela's debug database: read back as tools read it, every offset is the command of the operation that is named."""

from __future__ import annotations

import csv
import io
import re
import struct
import xml.etree.ElementTree as ET
from pathlib import Path

import ethoscade
import pytest
from command_line_support import resized_classifier
from ethoscade import Compiled, _core
from ethoscade.codegen.artifact import NpuCall
from ethoscade.lowering.npu import NpuOperation, OperationKind
from ethoscade.scheduling.program import CallOperator, Stripe
from ethoscade.testing import ModelBuilder, mobilenet_v1
from ethoscade.trace.debug_database import DebugDatabase, OperationShape, SourceOperator, render
from trace_support import tables_of

# Headers of both of Vela's cores, as far as they agree.
HEADERS = {
    "source": ["id", "operator", "kernel_w", "kernel_h", "ofm_w", "ofm_h", "ofm_d", "ext_key"],
    "optimised": ["id", "source_id", "operator", "kernel_w", "kernel_h", "ofm_w", "ofm_h", "ofm_d"],
    "queue": ["offset", "cmdstream_id", "optimised_id"],
    "cmdstream": ["id", "file_offset"],
}
OPCODES = {2: "OP_CONV", 3: "OP_DEPTHWISE", 5: "OP_POOL", 6: "OP_ELEMENTWISE", 16: "OP_DMA_START"}
WINDOWED = {OperationKind.CONVOLUTION: "OP_CONV", OperationKind.DEPTHWISE: "OP_DEPTHWISE"}


def headers_of(data: bytes) -> dict[str, list[str]]:
    return {table.get("name", ""): next(csv.reader(io.StringIO(table.text))) for table in ET.fromstring(data)}


@pytest.fixture(scope="module", params=["calls", "cascades"])
def compiled(request: pytest.FixtureRequest) -> Compiled:
    """Two NPU calls around the CPU; or cascades with copies."""
    model = resized_classifier() if request.param == "calls" else mobilenet_v1(alpha=0.25, resolution=64)
    return ethoscade.compile(model, optimise="size")


@pytest.fixture(scope="module")
def written(compiled: Compiled, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return compiled.write_debug_database(tmp_path_factory.mktemp("db") / "deep" / "d.xml").read_bytes()


def test_the_tables_are_velas(written: bytes) -> None:
    for name, header in headers_of(written).items():
        if name in HEADERS:
            assert header[: len(HEADERS[name])] == HEADERS[name]
    assert set(HEADERS) <= set(headers_of(written))
    tables = tables_of(written)
    assert [row["id"] for row in tables["source"]] == [str(i) for i in range(len(tables["source"]))]
    offsets = [(int(row["cmdstream_id"]), int(row["offset"])) for row in tables["queue"]]
    assert offsets == sorted(set(offsets))


def words_of(file: bytes, file_offset: int) -> tuple[bytes, int]:
    """A payload in a file, and the byte of its command stream in it: behind the driver's actions."""
    assert file[file_offset : file_offset + 4] == b"COP1"
    at = file_offset + 4
    while True:
        (word,) = struct.unpack_from("<I", file, at)
        at += 4
        if word & 0xFF == 1:
            at += 8
        elif word & 0xFF == 2:
            return file[file_offset : at + 4 * ((word >> 8 & 0xFF) << 16 | word >> 16)], at
        else:
            assert word & 0xFF == 5


def opcode_of(operation: NpuOperation) -> str:
    if operation.kind.is_pool:
        return "OP_POOL"
    return WINDOWED.get(operation.kind, "OP_ELEMENTWISE")


def test_every_offset_is_the_command_of_its_operation(compiled: Compiled, written: bytes, tmp_path: Path) -> None:
    """From the file alone: the word at the offset starts that operation, its registers have the stripe's height."""
    tables = tables_of(written)
    file = compiled.save(tmp_path / "net.tflite").read_bytes()
    calls = [call for call in compiled.artifact.calls if isinstance(call, NpuCall)]
    assert len(tables["cmdstream"]) == len(calls)
    queued = {(int(r["cmdstream_id"]), int(r["offset"])): (r, False) for r in tables["queue"]}
    queued |= {(int(r["cmdstream_id"]), int(r["offset"])): (r, True) for r in tables["dma"]}
    assert len(queued) == len(tables["queue"]) + len(tables["dma"])
    steps = iter([step for step in compiled.program.steps if not isinstance(step, CallOperator)])
    seen = 0
    for stream, row in enumerate(tables["cmdstream"]):
        payload, start = words_of(file, int(row["file_offset"]))
        assert payload == calls[stream].payload
        position, height, width = start, 0, 0
        for command in _core.read_stream(payload):
            position += 4 * command.words
            registers = dict(command.registers)
            height, width = registers.get("OFM_HEIGHT_M1", height), registers.get("OFM_WIDTH_M1", width)
            offset = position - 4 - start
            if command.name not in OPCODES.values():
                assert (stream, offset) not in queued
                continue
            (word,) = struct.unpack_from("<I", file, start + offset)
            assert OPCODES[word & 0x3FF] == command.name
            entry, is_transfer = queued[stream, offset]
            optimised = tables["optimised"][int(entry["optimised_id"])]
            step = next(steps)
            assert is_transfer == (command.name == "OP_DMA_START") == (not isinstance(step, Stripe))
            operation = compiled.npu.operations[step.stage]  # type: ignore[union-attr]
            assert (optimised["name"], optimised["operator"]) == (operation.name, operation.kind.value)
            if isinstance(step, Stripe):
                assert command.name == opcode_of(operation)
                box = step.output
                assert (height + 1, width + 1) == (box.y1 - box.y0, box.x1 - box.x0)
            seen += 1
    assert seen == len(queued) and next(steps, None) is None


def test_operations_lead_to_the_operators_of_the_file(compiled: Compiled, written: bytes) -> None:
    tables = tables_of(written)
    assert [(row["operator"], row["name"]) for row in tables["source"]] == [
        (op.kind, op.name) for op in compiled.source.operators
    ]
    for row, op in zip(tables["source"], compiled.source.operators, strict=True):
        assert int(row["ext_key"]) == op.source_index
        depth = compiled.source.tensors[op.outputs[0]].shape[-1]
        assert int(row["ofm_d"]) == depth
    graph = compiled.artifact.graph
    by_name = {operation.name: operation for operation in compiled.npu.operations}
    for row in tables["optimised"]:
        op = graph.operators[by_name[row["name"]].operator]
        assert tables["source"][int(row["source_id"])]["ext_key"] == str(op.source_index)


def test_who_does_anothers_work_is_in_its_group() -> None:
    """A LOGISTIC becomes part of the convolution before it; the database has both, and which one runs."""
    builder = ModelBuilder("absorbed")
    x = builder.conv2d(builder.input((1, 8, 8, 4)), 8, 3, name="conv")
    builder.unary("LOGISTIC", x)
    one = ethoscade.compile(builder.build())
    tables = tables_of(render_of(one))
    assert any(len(operation.serves) > 1 for operation in one.npu.operations)
    (member,) = tables["group"]
    rows = tables["optimised"]
    absorbed, worker = rows[int(member["id"])], rows[int(member["group_id"])]
    assert absorbed["operator"] == "LOGISTIC" and worker["operator"] == "convolution"
    assert {row["optimised_id"] for row in tables["queue"]} == {worker["id"]}


def render_of(compiled: Compiled) -> bytes:
    from ethoscade.pipeline.debugging import debug_database

    return render(debug_database(compiled.artifact, compiled.source, compiled.npu, compiled.program))


def test_names_cannot_break_the_file() -> None:
    name = 'a"b,c\n]]>d<&>\x00\ud800é😀'
    shape = OperationShape("CONV_2D", (1, 1), (1, 1, 1))
    data = render(DebugDatabase('<"&>\x01', "o", (SourceOperator(name, shape, 0),), (), (), ()))
    root = ET.fromstring(data)
    assert root.get("source") == '<"&>\ufffd'
    (row,) = tables_of(data)["source"]
    assert row["name"] == re.sub("[\x00\ud800]", "\ufffd", name)


def test_databases_are_the_same_every_time(compiled: Compiled, written: bytes, tmp_path: Path) -> None:
    again = ethoscade.compile(compiled.source.source, optimise="size")
    assert again.write_debug_database(tmp_path / "d.xml").read_bytes() == written
