"""A row for each operator: rows add up to the streams, cycle by cycle and byte by byte, and say whose is what."""

from __future__ import annotations

import csv
import itertools
import pickle
from pathlib import Path

import ethoscade
import pytest
from command_line_support import RESIDUAL, Capture, resized_classifier, run, run_json, written
from ethoscade import Compiled, OperatorRow
from ethoscade.scheduling.program import CallOperator, CopyConstants, CopyTensor, Stripe
from ethoscade.testing import ModelBuilder, residual_network

VELA = [
    "Original Operator", "NNG Operator", "Target", "Staging Usage", "Peak% (Staging)", "Op Cycles",
    "Network% (cycles)", "NPU", "SRAM AC", "DRAM AC", "OnFlash AC", "OffFlash AC", "MAC Count", "Network% (MAC)",
    "Util% (MAC)", "Name",
]  # fmt: skip
NETWORKS = {
    "cascaded": lambda: ethoscade.compile(residual_network(), optimise="size"),
    "all in SRAM": lambda: ethoscade.compile(residual_network(), optimise="size", memory_mode="Sram_Only"),
    "through the CPU": lambda: ethoscade.compile(resized_classifier()),
    "fastest": lambda: ethoscade.compile(residual_network(), accelerator="ethos-u65-256"),
}


@pytest.fixture(scope="module", params=NETWORKS)
def compiled(request: pytest.FixtureRequest) -> Compiled:
    return NETWORKS[request.param]()


def by_name(compiled: Compiled) -> dict[str, OperatorRow]:
    return {row.name: row for row in compiled.table().rows}


def test_rows_are_the_operators(compiled: Compiled) -> None:
    for row, operator in zip(compiled.table().rows, compiled.operators, strict=True):
        for name in ("name", "kind", "where", "reason", "cascade", "macs"):
            assert getattr(row, name) == getattr(operator, name)
        assert row.alone_cycles == operator.cycles
        assert compiled.artifact.graph.operators[operator.index].name == row.name


def test_rows_add_up_to_the_streams(compiled: Compiled) -> None:
    """To the cycle and to the byte; what is fetched of commands is nobody's."""
    table, reports = compiled.table(), [report for _, report in compiled.timing()]
    assert sum(row.cycles for row in table.rows) == table.cycles == compiled.cycles
    assert sum(row.milliseconds or 0.0 for row in table.rows) == pytest.approx(compiled.milliseconds)
    assert (table.milliseconds, table.utilisation) == (compiled.milliseconds, compiled.utilisation)
    assert table.sram_bytes == compiled.sram_bytes
    commands = [command for report in reports for command in report.commands]
    assert sum(row.operations for row in table.rows) == sum(command.kernel is not None for command in commands)
    assert sum(row.copies for row in table.rows) == sum(command.kind == "dma" for command in commands)
    assert [memory.memory for memory in table.memories] == list(reports[0].memories)
    for memory in table.memories:
        of = [report.memories[memory.memory] for report in reports]
        assert sum(row.read_bytes.get(memory.memory, 0) for row in table.rows) == memory.read_bytes
        assert sum(row.written_bytes.get(memory.memory, 0) for row in table.rows) == memory.written_bytes
        assert memory.read_bytes + memory.command_bytes == sum(one.read_bytes for one in of)
        assert memory.written_bytes == sum(one.written_bytes for one in of)
        assert memory.busy_cycles == sum(one.busy_cycles for one in of)


def test_a_row_has_the_cycles_of_its_kernels_and_the_wait_for_them(compiled: Compiled) -> None:
    """Told cycle by cycle: each is the running kernel's, or the next one's, or behind the last the last one's."""
    spent: dict[tuple[str, str], int] = {}
    for _, report in compiled.timing():
        kernels = [command for command in report.commands if command.kernel is not None]
        position = 0
        for cycle in range(report.cycles):
            while position < len(kernels) - 1 and kernels[position].end <= cycle:
                position += 1
            runs = kernels[position].start <= cycle < kernels[position].end
            key = kernels[position].label, kernels[position].bound if runs else "waiting"
            spent[key] = spent.get(key, 0) + 1
    found = {(row.name, bound): cycles for row in compiled.table().rows for bound, cycles in row.bound_cycles.items()}
    assert found == spent
    for row in compiled.table().rows:
        assert row.cycles == sum(row.bound_cycles.values())
        assert row.bound == "" or row.bound_cycles[row.bound] == max(row.bound_cycles.values())
        assert (row.bound == "") == (row.cycles == 0)


def test_live_bytes_are_the_most_at_a_step_of_the_operator(compiled: Compiled) -> None:
    program, npu = compiled.program, compiled.npu
    most: dict[int, int] = {}
    for number, step in enumerate(program.steps):
        assert not isinstance(step, CopyTensor)
        operator = step.operator if isinstance(step, CallOperator) else npu.operations[step.stage].operator
        live = sum(buffer.live_bytes(number) for buffer in program.buffers)
        most[operator] = max(most.get(operator, 0), live)
    rows = compiled.table().rows
    for of, row in zip(compiled.operators, rows, strict=True):
        assert row.done_by or row.live_bytes == most.get(of.index)
    assert max(row.live_bytes or 0 for row in rows) == compiled.live_bytes


def test_interleaved_stripes_keep_their_operators() -> None:
    """A cascade's operators take turns: none of them gets the others' cycles."""
    compiled = ethoscade.compile(RESIDUAL, optimise="size")
    steps = [compiled.npu.operations[s.stage].operator for s in compiled.program.steps if isinstance(s, Stripe)]
    turns = sum(a != b for a, b in itertools.pairwise(steps))
    rows = [row for row in compiled.table().rows if row.cascade is not None]
    assert rows and turns > 2 * len(rows)
    stripes = {of.index: steps.count(of.index) for of in compiled.operators}
    for of, row in zip(compiled.operators, compiled.table().rows, strict=True):
        assert row.operations == stripes[of.index]
    copies = [s.stage for s in compiled.program.steps if isinstance(s, CopyConstants)]
    assert copies and sum(row.copies for row in compiled.table().rows) >= len(copies)


def test_operators_on_the_cpu_and_without_operations_of_their_own() -> None:
    b = ModelBuilder("mixed")
    x = b.conv2d(b.input((1, 8, 8, 8), name="in"), 8, 3, name="conv")
    x = b.leaky_relu(x, name="leaky")
    b.fully_connected(b.mean(b.resize_nearest(x, (7, 5), name="resized")), 10, name="classes")
    rows = by_name(ethoscade.compile(b.build()))
    on_cpu = next(row for row in rows.values() if row.where == "cpu")
    assert on_cpu.kind == "RESIZE_NEAREST_NEIGHBOR" and on_cpu.reason
    assert (on_cpu.cycles, on_cpu.milliseconds, on_cpu.bound, on_cpu.operations) == (0, None, "", 0)
    assert on_cpu.live_bytes
    folded = next(row for row in rows.values() if row.kind == "LEAKY_RELU")
    maker = next(row for row in rows.values() if row.kind == "CONV_2D")
    assert (folded.done_by, folded.cycles, folded.operations) == (maker.name, 0, 0)
    assert (maker.done_by, folded.live_bytes) == ("", maker.live_bytes)


def test_without_an_npu_nothing_is_timed() -> None:
    compiled = ethoscade.compile(residual_network(), accelerator="none")
    table = compiled.table()
    assert (table.cycles, table.milliseconds, table.utilisation, table.memories) == (0, 0.0, 0.0, ())
    assert {row.milliseconds for row in table.rows} == {None}
    assert max(row.live_bytes or 0 for row in table.rows) == compiled.live_bytes


def test_tables_pickle(compiled: Compiled) -> None:
    assert pickle.loads(pickle.dumps(compiled.table())) == compiled.table()


def test_csv_has_vela_s_columns_and_adds_up(tmp_path: Path, capfd: Capture) -> None:
    """Numbers are those of the table, in the columns that Vela's own `_per-layer.csv` begins with."""
    model = written(tmp_path / "net.tflite", RESIDUAL)
    table, places = tmp_path / "rows.csv", tmp_path / "places.csv"
    options = ["--csv", str(table), "--addresses", str(places), "-o", str(tmp_path / "out"), "--optimise", "size"]
    found = run_json(["compile", model, *options], capfd)
    assert found["tables"] == {"csv": str(table), "addresses": str(places)}
    compiled = ethoscade.compile(model, optimise="size")
    rows = list(csv.DictReader(table.open(encoding="utf-8")))
    assert list(rows[0])[: len(VELA)] == VELA
    for cells, row in zip(rows, compiled.table().rows, strict=True):
        assert (cells["Name"], cells["Original Operator"], cells["Target"]) == (row.name, row.kind, row.where.upper())
        numbers = {"Op Cycles": row.cycles, "MAC Count": row.macs, "SRAM AC": row.memory_cycles["Sram"]}
        numbers |= {"OffFlash AC": row.memory_cycles["OffChipFlash"], "Staging Usage": row.live_bytes}
        assert {name: int(cells[name]) for name in numbers} == numbers
        assert cells["Sram Read"] == str(row.read_bytes["Sram"])
        assert float(cells["Util% (MAC)"]) == pytest.approx(100 * row.utilisation)
        bounds = [int(cells[f"Cycles {name}"]) for name in ("compute", "output", "latency", "waiting")]
        assert sum(bounds) + int(cells["Cycles Sram"]) + int(cells["Cycles OffChipFlash"]) == row.cycles
    for column in ("Network% (cycles)", "Network% (MAC)"):
        assert sum(float(cells[column]) for cells in rows) == pytest.approx(100)
    assert [row["name"] for row in found["operator_rows"]] == [row.name for row in compiled.table().rows]
    assert sum(row["cycles"] for row in found["operator_rows"]) == found["cycles"]
    lines = list(csv.DictReader(places.open(encoding="utf-8")))
    assert [(line["Name"], int(line["Address"]), int(line["Size"])) for line in lines] == [
        (row.names[0], row.address, row.size_bytes) for row in compiled.addresses()
    ]
    assert [row["address"] for row in found["addresses"]] == [row.address for row in compiled.addresses()]


def test_the_report_tells_what_goes_through_each_memory(tmp_path: Path, capfd: Capture) -> None:
    model = written(tmp_path / "net.tflite", RESIDUAL)
    _, out, _ = run(["compile", model, "-o", str(tmp_path / "out")], capfd)
    compiled = ethoscade.compile(model)
    for memory in compiled.table().memories:
        read, busy = memory.read_bytes + memory.command_bytes, 100 * memory.busy_cycles / compiled.cycles
        line = next(line for line in out.splitlines() if line.startswith(f"  {memory.memory} "))
        assert f" {read:,} bytes read, {memory.written_bytes:,} written; busy {busy:.0f} % of the time" in line


def test_tables_of_several_networks_are_one_file_and_overwrite_nothing(tmp_path: Path, capfd: Capture) -> None:
    models = [written(tmp_path / f"{name}.tflite", RESIDUAL) for name in ("one", "two")]
    table = tmp_path / "rows.csv"
    assert run(["compile", *models, "-o", str(tmp_path / "out"), "--csv", str(table)], capfd)[0] == 0
    rows = list(csv.DictReader(table.open(encoding="utf-8")))
    assert [row["Network"] for row in rows] == sorted(row["Network"] for row in rows) and len(rows) % 2 == 0
    before = Path(models[1]).read_bytes()
    for options in (["--csv", models[1]], ["--csv", str(table), "--addresses", str(table)]):
        status, _, err = run(["compile", *models, "-o", str(tmp_path / "other"), *options], capfd)
        assert status == 1 and "are the same file" in err
    assert Path(models[1]).read_bytes() == before and not (tmp_path / "other").exists()
