"""The address table: every byte of the arena and of the constants, as a device finds them."""

from __future__ import annotations

import itertools

import ethoscade
import numpy as np
import pytest
from command_line_support import resized_classifier
from ethoscade import Address, Compiled
from ethoscade.testing import ModelBuilder, inception_modules, residual_network

NETWORKS = {
    "cascaded": lambda: ethoscade.compile(residual_network(), optimise="size"),
    "through the CPU": lambda: ethoscade.compile(resized_classifier(), memory_mode="Sram_Only"),
    "joined": lambda: ethoscade.compile(inception_modules()),
}


@pytest.fixture(scope="module", params=NETWORKS)
def compiled(request: pytest.FixtureRequest) -> Compiled:
    return NETWORKS[request.param]()


def of_pool(compiled: Compiled, pool: str) -> list[Address]:
    return [row for row in compiled.addresses() if row.pool == pool]


def test_tensors_lie_where_the_artefact_says(compiled: Compiled) -> None:
    graph = compiled.artifact.graph
    places = {name: row.address for row in of_pool(compiled, "arena") if row.kind == "tensor" for name in row.names}
    for tensor, offset in compiled.artifact.offsets.items():
        assert places[graph.tensors[tensor].name] == offset


def test_the_arena_is_the_program_s_buffers(compiled: Compiled) -> None:
    rows, program = of_pool(compiled, "arena"), compiled.program
    assert sorted((row.kind, row.size_bytes, row.first_step, row.last_step) for row in rows) == sorted(
        (buffer.kind, buffer.size_bytes, buffer.first_step, buffer.last_step) for buffer in program.buffers
    )
    assert -(-max(row.address + row.size_bytes for row in rows) // 16) * 16 == compiled.artifact.arena_bytes
    assert rows == sorted(rows, key=lambda row: (row.address, row.first_step, row.names))
    assert {row.memory for row in rows} == {compiled.target.arena.name}
    names = {operator.name for operator in compiled.operators}
    assert all({row.first, row.last} <= names for row in rows)


def test_who_shares_bytes_at_one_time_is_named(compiled: Compiled) -> None:
    rows = of_pool(compiled, "arena")
    found = {id(row): set(row.shares) for row in rows}
    expected: dict[int, set[str]] = {id(row): set() for row in rows}
    for one, other in itertools.permutations(rows, 2):
        ends = [row.address + row.size_bytes for row in (one, other)]
        bytes_ = range(max(one.address, other.address), min(ends))
        steps = range(max(one.first_step, other.first_step), min(one.last_step, other.last_step))
        if bytes_ and steps:
            expected[id(one)].add(other.names[0])
    assert found == expected


def test_constants_are_covered_once_for_each_reader(compiled: Compiled) -> None:
    """Every byte is somebody's, and no two rows have one and the same byte."""
    rows = of_pool(compiled, "constants")
    position = 0
    for row in rows:
        assert row.address == position and row.size_bytes % 16 == 0
        assert (row.first_step, row.last_step, row.shares) == (None, None, ())
        position += row.size_bytes
    assert position == compiled.pools["constants"]
    assert {row.memory for row in rows} == {compiled.target.constants.name}


def test_kinds_of_constants_are_told() -> None:
    b = ModelBuilder("kinds")
    x = b.input((1, 8, 8, 8))
    x = b.add(x, b.constant(np.random.default_rng(0).normal(size=(1, 8, 8, 8))), name="sum")
    b.softmax(b.fully_connected(b.mean(b.conv2d(x, 8, 3, name="conv")), 8, name="dense"), name="soft")
    rows = of_pool(ethoscade.compile(b.build()), "constants")
    assert {(row.names[0], row.kind) for row in rows} >= {
        ("sum", "operand"), ("conv", "weights"), ("conv", "scales"), ("dense", "weights"), ("soft", "table"),
    }  # fmt: skip


def test_equal_constants_are_one_row() -> None:
    b = ModelBuilder("alike")
    x = b.input((1, 4, 4, 8))
    values = b.constant(np.random.default_rng(0).normal(size=(1, 4, 4, 8)))
    b.output(b.add(x, values, name="first"), b.add(b.max_pool(x, 3, stride=1, padding="SAME"), values, name="second"))
    operands = [row for row in of_pool(ethoscade.compile(b.build()), "constants") if row.kind == "operand"]
    assert [row.names for row in operands] == [("first", "second")]
