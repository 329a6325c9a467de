"""Pages that speak of rooms: what they name is there, and the drawings of rooms are those of the import table."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from ethoscade.report import support
from rooms import BELOW, RUST_BELOW, room
from test_imports import PACKAGE, ROOT

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benches"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import house
import room_diagram

ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
HEADS = ("word", "room", "page", "where", "folder", "bench")
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    """The cells of all tables, without heads and rules."""
    found = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    return [row for row in found if row[0] not in HEADS and not row[0].startswith("---")]


def anchor(heading: str) -> str:
    """The name by which a link finds a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_links_lead_somewhere() -> None:
    """Every relative link and picture of every page, with the heading that it names."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    headings = {
        page: {anchor(h) for h in re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)}
        for page in pages
    }
    count = 0
    for page in pages:
        for link in re.findall(r"(?:\]\(|src=\")([^)\s\"]+)", page.read_text(encoding="utf-8")):
            if "://" in link:
                continue
            path, _, name = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{page.name}: {link}"
            assert not name or name in headings[target], f"{page.name}: {link}"
            count += 1
    assert count > 40


def test_files_that_pages_name_exist() -> None:
    """Paths in backticks, from the root or below the package, the core's sources, the tests or the pages."""
    folders = (ROOT, PACKAGE, ROOT / "rust" / "src", ROOT / "tests", ROOT / "tests" / "unit", ROOT / "docs")
    count = 0
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")):
        if page.name == "CHANGELOG.md":
            continue  # it tells of what was
        for path in re.findall(r"`([a-z_]\w*/[\w/.-]*\.(?:py|rs|md|h))`", page.read_text(encoding="utf-8")):
            assert any((folder / path).exists() for folder in folders), f"{page.name}: {path}"
            count += 1
    assert count > 90


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


def test_the_drawings_of_the_rooms_are_those_of_the_tables() -> None:
    """Run `make pages` where this fails."""
    drawings = room_diagram.written()
    for path, text in drawings.items():
        assert path.read_text(encoding="utf-8") == text, path.name
        assert f"docs/{path.name}" in ARCHITECTURE
    python, rust = (re.findall(r">([^<>]+)</text>", text) for text in drawings.values())
    assert {room(unit) for unit in BELOW} - {"errors", "util"} <= set(python)
    assert set(RUST_BELOW) - {"util"} <= set(rust)


def test_a_room_is_drawn_above_all_that_it_imports() -> None:
    for rooms in (room_diagram.python_rooms(), room_diagram.rust_rooms()):
        floor = room_diagram.floors(rooms)
        assert all(floor[below] < floor[name] for name, all_below in rooms.items() for below in all_below)
        assert min(floor.values()) == 0


def test_arrows_leave_out_what_others_imply() -> None:
    rooms = {"a": set(), "b": {"a"}, "c": {"a", "b"}, "d": {"a"}, "e": {"c", "d", "a"}}
    assert room_diagram.arrows(rooms) == [("b", "a"), ("c", "b"), ("d", "a"), ("e", "c"), ("e", "d")]


def test_rooms_and_floors_stay_few() -> None:
    rooms = house.rooms_of(house.python_arrows(PACKAGE)[0])
    assert len(rooms) <= 24 and house.floors(rooms) <= 12 and not house.circles(rooms)
    assert {path.name for path in PACKAGE.glob("*.py*")} == {"__init__.py", "__main__.py", "_core.pyi", "errors.py"}


def test_the_way_to_the_stripe_heights_is_there() -> None:
    """Each step links a file and names a function that this file defines; the README calls what comes next."""
    way = ARCHITECTURE.split("### From the README to stripe heights")[1].split("\n## ")[0]
    steps = re.findall(r"^\d\. \[([^\]]+)\]\(([^)]+)\): (.*?)(?=^\d\. |\Z)", way, re.MULTILINE | re.DOTALL)
    assert len(steps) == 5
    for label, path, words in steps:
        text, functions = (ROOT / path).read_text(encoding="utf-8"), re.findall(r"`(?:\w+(?:\.|::))?(\w+)`", words)
        assert path.endswith(label) and functions
        for name in functions:
            assert re.search(rf"\b(?:def |fn |ethoscade\.){name}\(", text), (path, name)


def test_every_bench_has_a_row() -> None:
    named = re.findall(r"`(\w+\.py)`", ARCHITECTURE.split("### Benches")[1].split("\n## ")[0])
    assert sorted(named) == sorted(path.name for path in (ROOT / "benches").glob("*.py"))


def test_every_word_of_the_glossary_stands_once() -> None:
    words = [word.strip() for row in rows(GLOSSARY) for word in row[0].split(",")]
    assert len(words) > 80
    assert sorted(words) == sorted(set(words))


def test_the_glossary_names_rooms_that_exist() -> None:
    source = ROOT / "rust" / "src"
    for word, meaning, python, rust, _ in rows(GLOSSARY):
        assert meaning.endswith("."), word
        assert not [name for name in re.findall(r"`([^`]+)`", python) if not (PACKAGE / name).exists()], word
        folder = source
        for name in re.findall(r"`([^`]+)`", rust):
            if (source / name).is_dir():
                folder = source / name
            found = [source / name, folder / name, *folder.rglob(f"{name}.rs")]
            assert any(path.exists() for path in found), f"{word}: {name}"


def test_every_type_of_the_planner_is_in_the_glossary_or_a_compound() -> None:
    """A type of one word has a row of that word, or stands in a row by its name."""
    words = {word.strip().lower() for row in rows(GLOSSARY) for word in row[0].split(",")}
    named = set(re.findall(r"`([A-Z][A-Za-z]+)", GLOSSARY))
    types = {
        name
        for room in ("plans", "search", "schedule")
        for path in (ROOT / "rust" / "src" / room).rglob("*.rs")
        for name in re.findall(r"^pub (?:struct|enum|trait) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(types) > 60
    single = {name for name in types if re.fullmatch("[A-Z][a-z]+", name)}
    assert sorted(n for n in single - named if not {n.lower(), n.lower().removesuffix("s")} & words) == []


def test_the_promise_quotes_the_invariant_of_the_checker() -> None:
    quoted = (ROOT / "docs" / "cascading-promise.md").read_text(encoding="utf-8")
    head = (ROOT / "rust" / "src" / "checker.rs").read_text(encoding="utf-8").split("\nmod ")[0]
    lines = "\n".join(line.removeprefix("//!").removeprefix(" ") for line in head.splitlines())
    invariant = lines.split("```text\n")[1].split("```")[0]
    assert invariant.count("for all") > 8
    assert f"```text\n{invariant}```" in quoted


def test_the_page_of_operators_is_what_the_limits_say() -> None:
    """After a change of limits: `ethoscade supported-ops --markdown > docs/support.md`."""
    assert (ROOT / "docs" / "support.md").read_text(encoding="utf-8") == support.page()
