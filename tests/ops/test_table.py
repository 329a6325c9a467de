"""The table of operators is complete: whoever adds a kind and forgets a room is told which."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, get_args

import pytest
import test_compiled
from cases import CASES
from ethoscade import ir, testing
from ethoscade.codegen.c_kernels import KERNELS
from ethoscade.frontend import read_tflite
from ethoscade.frontend.operators import READERS
from ethoscade.ir import DType, Graph
from ethoscade.ir.operators import OPERATORS, KindTable, OperatorKind, keyed
from ethoscade.ir.tosa_operators import TOSA_OPERATORS
from ethoscade.judge import reference
from ethoscade.lowering import FAMILIES, binary
from ethoscade.rewrites import FOLDED, drop_dead, simplify
from graphs import GraphMaker, on_npu

SEEDS = range(300)


@dataclasses.dataclass(frozen=True)
class Tables:
    """Which kinds each room knows."""

    rows: Mapping[str, OperatorKind]
    read: Collection[str]
    meant: Collection[str]
    lowered: Collection[str]
    written_in_c: Collection[str]
    folded: Collection[str]
    drawn: Collection[str]
    tested: Collection[str]

    def missing(self) -> list[str]:
        """What is not there, in words."""
        rooms = {
            "a reader": self.read,
            "a meaning": self.meant,
            "an NPU family, a C kernel or a rule that makes it vanish": {
                *self.lowered, *self.written_in_c, *self.folded,
            },
            "a drawing": self.drawn,
            "a case in tests/ops": self.tested,
        }  # fmt: skip
        return [f"{kind} has not {what}" for kind in self.rows for what, kinds in rooms.items() if kind not in kinds]


def kinds_tested() -> set[str]:
    """Kinds of which tests/ops has a case."""
    found = set(test_compiled.CASES)
    for make in CASES.values():
        maker = GraphMaker(DType.INT8)
        make(maker)
        found.update(op.kind for op in maker.operators)
    return found


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    return [read_tflite(testing.random_network(seed)) for seed in SEEDS]


@pytest.fixture(scope="module")
def tables(graphs: list[Graph]) -> Tables:
    drawn = {op.kind for graph in graphs for op in graph.operators}
    return Tables(OPERATORS, READERS, reference.MEANINGS, FAMILIES, KERNELS, FOLDED, drawn, kinds_tested())


def test_every_kind_is_complete(tables: Tables) -> None:
    assert tables.missing() == []


def test_what_is_said_to_vanish_does(graphs: list[Graph]) -> None:
    """Of kinds that have no other way onto a device nothing is ever left, of the others less now and then."""
    gone, left = Counter[str](), Counter[str]()
    for graph in map(drop_dead, graphs):
        after = Counter(op.kind for op in simplify(graph, on_npu).operators)
        left += after
        gone += Counter(op.kind for op in graph.operators) - after
    assert set(FOLDED) <= set(gone)
    excused = set(FOLDED) - set(FAMILIES) - set(KERNELS)
    assert excused and not excused & set(left)


@pytest.mark.parametrize(
    ("room", "words"),
    [
        ("read", "a reader"),
        ("meant", "a meaning"),
        ("drawn", "a drawing"),
        ("tested", "a case in tests/ops"),
        ("lowered", "an NPU family"),
    ],
)
def test_a_kind_that_a_room_forgot_is_named(tables: Tables, room: str, words: str) -> None:
    """Each kind, taken out of each room, is missed; where another way onto a device is left, nothing is."""
    for kind in OPERATORS:
        without = dataclasses.replace(tables, **{room: set(getattr(tables, room)) - {kind}})
        if room == "lowered" and (kind not in FAMILIES or kind in KERNELS or kind in FOLDED):
            assert without.missing() == []
        else:
            (complaint,) = without.missing()
            assert complaint.startswith(f"{kind} has not {words}")


def test_a_row_without_rooms_misses_them_all(tables: Tables) -> None:
    more = dataclasses.replace(tables, rows={**OPERATORS, "ATAN2": OperatorKind("ATAN2")})
    assert len(more.missing()) == 5 and all("ATAN2" in complaint for complaint in more.missing())


def test_rooms_know_only_kinds_of_the_table() -> None:
    with pytest.raises(AssertionError, match="ATAN2 has no row"):
        keyed({"ATAN2": 1})
    with pytest.raises(AssertionError, match="ADD stands in two parts"):
        keyed({"ADD": 1}, {"ADD": 2})
    assert list(keyed({"SPLIT": 1}, {"ADD": 2})) == ["ADD", "SPLIT"]


def test_a_part_of_a_table_is_imported_with_its_kinds() -> None:
    table = KindTable[Any]("ethoscade.lowering", {"binary.BINARY_FAMILIES": ["SUB", "ADD"], "nowhere.NOTHING": ["ABS"]})
    assert list(table) == ["ABS", "ADD", "SUB"] and "ABS" in table and "DIV" not in table and len(table) == 3
    with pytest.raises(AssertionError, match=r"BINARY_FAMILIES has ADD, .*MUL.* said to have SUB, ADD"):
        table["ADD"]
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        table["ABS"]
    with pytest.raises(AssertionError, match="ADD stands in two parts"):
        KindTable[Any]("ethoscade", {"a.A": ["ADD"], "b.B": ["ADD"]})
    assert FAMILIES["ADD"] is binary.BINARY_FAMILIES["ADD"] and FAMILIES.get("ATAN2") is None


def test_attributes_of_the_table_are_those_of_the_network() -> None:
    classes = {row.attributes for row in (*OPERATORS.values(), *TOSA_OPERATORS.values())} | {type(None)}
    # Operators of variables have no rows: no graph of a model has them, only a compiled file that is run as it is.
    assert classes - {None} == set(get_args(ir.Attrs)) - {ir.ResourceAttrs}


def test_the_rows_stand_in_order() -> None:
    assert list(OPERATORS) == sorted(OPERATORS)
