"""Frozen dataclasses of `util.records` beside the standard library's: the same in all that is done with them."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from functools import cached_property
from pathlib import Path
from typing import Any

import ethoscade
import pytest
from ethoscade.util import records

PACKAGE = Path(ethoscade.__file__).parent


def classes(dataclass: Callable[..., Any]) -> dict[str, Any]:
    """The same classes by one of the two decorators."""

    @dataclass(frozen=True)
    class Point:
        """A point."""

        x: int
        y: float = 2.5

        @cached_property
        def length(self) -> float:
            return abs(self.x + self.y)

    @dataclass(frozen=True)
    class Named(Point):
        name: str = "origin"
        tags: list[str] = field(default_factory=list, compare=False)
        hidden: int = field(default=0, repr=False)

    @dataclass(frozen=True, eq=False)
    class Thing:
        value: object

    @dataclass(frozen=True)
    class Checked:
        value: int

        def __post_init__(self) -> None:
            if self.value < 0:
                raise ValueError("negative")
            object.__setattr__(self, "value", self.value + 1)

    @dataclass(frozen=True)
    class Own:
        value: float

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    @dataclass(frozen=True)
    class Odd:  # noqa: PLW1641
        value: float

        def __eq__(self, other: object) -> bool:
            return True

    @dataclass(frozen=True)
    class Nothing:
        pass

    return {cls.__name__: cls for cls in (Point, Named, Thing, Checked, Own, Odd, Nothing)}


OURS, THEIRS = classes(records.dataclass), classes(dataclasses.dataclass)

QUESTIONS: dict[str, Callable[[dict[str, Any]], object]] = {
    "values": lambda of: [of["Named"](1), of["Named"](1, 2, "n", ["t"], 3), of["Nothing"](), of["Own"](1.0)],
    "by name": lambda of: of["Named"](tags=["a"], x=4).tags,
    "fresh lists": lambda of: of["Named"](1).tags is of["Named"](1).tags,
    "equal": lambda of: [of["Named"](1, tags=["a"]) == of["Named"](1), of["Point"](1) == of["Point"](2)],
    "other classes": lambda of: [of["Point"](1) == of["Named"](1), of["Point"](1) == (1, 2.5), of["Nothing"]() == 1],
    "not a number": lambda of: [of["Checked"](1) == of["Checked"](1), of["Nothing"]() == of["Nothing"]()],
    "hashes": lambda of: [hash(of["Named"](1)), hash(of["Checked"](4)), hash(of["Nothing"]()), hash(of["Own"](1.0))],
    "hash without one": lambda of: hash(of["Odd"](1.5)) == hash((1.5,)),
    "identity": lambda of: [of["Thing"](1) == of["Thing"](1), of["Thing"].__hash__ is object.__hash__],
    "post init": lambda of: of["Checked"](3).value,
    "cached": lambda of: of["Point"](1).length,
    "fields": lambda of: [(f.name, f.type, f.compare, f.repr) for f in dataclasses.fields(of["Named"])],
    "asdict": lambda of: [dataclasses.asdict(of["Named"](1)), dataclasses.astuple(of["Point"](1))],
    "replace": lambda of: dataclasses.replace(of["Named"](1), name="n"),
    "match": lambda of: of["Named"].__match_args__,
    "parameters": lambda of: [(p.name, p.annotation) for p in inspect.signature(of["Named"]).parameters.values()],
    "documentation": lambda of: of["Point"].__doc__,
}  # fmt: skip


def told(value: object) -> str:
    return repr(value).replace("classes.<locals>.", "")


@pytest.mark.parametrize("question", QUESTIONS)
def test_they_are_as_the_librarys(question: str) -> None:
    assert told(QUESTIONS[question](OURS)) == told(QUESTIONS[question](THEIRS))


@pytest.mark.parametrize("of", [OURS, THEIRS], ids=["ours", "theirs"])
def test_they_are_frozen(of: dict[str, Any]) -> None:
    point = of["Named"](1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'name'"):
        del point.name
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        of["Point"]()
    with pytest.raises(ValueError, match="negative"):
        of["Checked"](-1)
    nan = float("nan")
    assert of["Odd"](1.0) == 3 and of["Point"](nan) == of["Point"](nan) and of["Checked"](1) != of["Checked"](2)


@records.dataclass(frozen=True)
class Kept:
    """At the top of a module, where pickles find it."""

    value: object
    others: tuple[object, ...] = ()


def test_they_pickle_and_print_themselves() -> None:
    assert pickle.loads(pickle.dumps(Kept(1, (2, Kept(3))))) == Kept(1, (2, Kept(3)))
    inside: list[object] = []
    outer = Kept(inside)
    inside.append(outer)
    assert repr(outer) == "Kept(value=[...], others=())"


def test_all_rooms_have_their_frozen_classes_from_here() -> None:
    """But for what these stand upon themselves."""
    below = {PACKAGE / "errors.py", *(PACKAGE / "util").glob("*.py")}
    for path in sorted(set(PACKAGE.rglob("*.py")) - below):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        homes = [node.module for node in imports if "dataclass" in {name.name for name in node.names}]
        frozen = [n for n in ast.walk(tree) if isinstance(n, ast.keyword) and n.arg == "frozen"]
        assert not frozen or "util.records" in homes, f"{path.relative_to(PACKAGE)} has its dataclasses from {homes}"
