"""Pages that speak of rooms: what they name is there, and the floors are those of the import table."""

from __future__ import annotations

import re
from pathlib import Path

from ethoscade.report import support
from test_imports import BELOW, PACKAGE, ROOT, room

ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    """The cells of all tables, without heads and rules."""
    found = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    return [row for row in found if row[0] not in ("word", "room") and not row[0].startswith("---")]


def python_rooms() -> list[str]:
    """Paths below the package that ARCHITECTURE.md has a row for; a row's later names lie in the first one's folder."""
    tables = ARCHITECTURE.split("### Python:")[1].split("### Rust:")[0]
    found = []
    for first, *_ in rows(tables):
        names = re.findall(r"`([^`]+)`", first)
        found += [names[0], *(str(Path(names[0]).parent / name) for name in names[1:])] if names else []
    return found


def test_rooms_of_the_map_exist() -> None:
    named = python_rooms()
    assert not [name for name in named if not (PACKAGE / name).exists()]
    files = {"_core" if name == "_core.pyi" else name.split("/")[0].removesuffix(".py") for name in named}
    assert files == {room(unit) for unit in BELOW} | {"_core"}


def test_floors_of_the_map() -> None:
    """A room imports only rooms of floors above its own line, as the page says."""
    diagram = ARCHITECTURE.split("Rooms from the ground up")[1].split("```")[1]
    lines = [re.sub(r"\([^)]*\)", "", line).split() for line in diagram.strip().splitlines()]
    floor = {name: number for number, line in enumerate(lines) for name in line}
    assert set(floor) == {room(unit) for unit in BELOW}
    for unit, below in BELOW.items():
        for other in {room(name) for name in below} - {"_core", room(unit)}:
            assert floor[other] < floor[room(unit)], f"{unit} imports {other}"


def test_every_word_of_the_glossary_stands_once() -> None:
    words = [word.strip() for row in rows(GLOSSARY) for word in row[0].split(",")]
    assert len(words) > 80
    assert sorted(words) == sorted(set(words))


def test_the_glossary_names_rooms_that_exist() -> None:
    for word, meaning, python, _ in rows(GLOSSARY):
        assert meaning.endswith("."), word
        assert not [name for name in re.findall(r"`([^`]+)`", python) if not (PACKAGE / name).exists()], word


def test_the_page_of_operators_is_what_the_limits_say() -> None:
    """After a change of limits: `ethoscade supported-ops --markdown > docs/support.md`."""
    assert (ROOT / "docs" / "support.md").read_text(encoding="utf-8") == support.page()
