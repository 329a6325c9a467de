"""Who may import whom: the rooms of ARCHITECTURE.md, read off the sources."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TypeVar

import pytest
from rooms import BELOW, EVERYWHERE, GROUND, RUST_BELOW, room

Name = TypeVar("Name", str, "tuple[str, ...]")

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "ethoscade"
RUST = ROOT / "rust" / "src"

PYTHON = sorted(PACKAGE.rglob("*.py"))
DIVIDED = {unit.split(".")[0] for unit in BELOW if "." in unit}
LIBRARIES = {
    "ethosu": {"codegen/vela.py"},
    # Runs in a process of its own; the schema alone is read where a file is changed.
    "ai_edge_litert": {"judge/litert_child.py", "sliding/file.py"},
    "distributed": {"sweeps/cluster.py"},
    "tosa_reference_model": {"judge/tosa_child.py"},
    "matplotlib": {"page/pictures.py", "page/arena_plot.py"},
    "pyarrow": {"sweeps/files.py"},
    # All of it at once: compiling takes single names of it, by `ir.schema`.
    "tflite": {
        "judge/litert_models.py", "run/cpu_operators.py", "testing/flatfile.py", "testing/matrices.py",
        "testing/moving.py", "testing/schema.py",
    },
}  # fmt: skip


def module(path: Path) -> str:
    """A file's dotted name inside the package; a folder's for its `__init__`, and "" for the package's own."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module(path) for path in PYTHON}


def unit(name: str) -> str:
    """The unit of a module, or of a name in one."""
    first, *rest = name.split(".")
    if first in DIVIDED and rest and f"{first}.{rest[0]}" in MODULES:
        return f"{first}.{rest[0]}"
    return room(name)


def imported(path: Path) -> set[str]:
    """Full names of all that a file imports, wherever it does."""
    found: set[str] = set()
    package = ["ethoscade", *path.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            above = ".".join([*base, *([node.module] if node.module else [])])
            found |= {f"{above}.{alias.name}" for alias in node.names}
    return found


def own(path: Path) -> set[str]:
    """What a file imports of the project, without the package's name."""
    return {name.removeprefix("ethoscade.") for name in imported(path) if name.startswith("ethoscade.")}


def units_used(path: Path) -> set[str]:
    """Units of the project that a file imports, its own left out."""
    return {unit(name) for name in own(path)} - {unit(module(path))}


def modules_used(path: Path) -> set[str]:
    """Modules of the project that a file imports: the longest part of each name that is one."""
    found = set()
    for name in own(path):
        while name not in MODULES and "." in name:
            name = name.rpartition(".")[0]
        found.add(name)
    return (found & MODULES) - {module(path)}


def circle(below: dict[Name, set[Name]]) -> list[Name]:
    """Names that wait for each other, or nothing."""
    left = dict(below)
    while ready := [name for name, needs in left.items() if not needs & left.keys() - {name}]:
        for name in ready:
            del left[name]
    return sorted(left)


def test_every_room_is_known() -> None:
    assert {unit(module(path)) for path in PYTHON} == set(BELOW)
    assert all(used <= set(BELOW) | GROUND for used in BELOW.values())


def test_rooms_have_a_direction() -> None:
    """The table has no circle, neither among units nor among rooms."""
    assert not circle(BELOW)
    rooms: dict[str, set[str]] = {}
    for name, below in BELOW.items():
        rooms.setdefault(room(name), set()).update(room(other) for other in below)
    assert not circle(rooms)


def test_modules_have_a_direction() -> None:
    """No circle inside a room either. Imports in functions count; that a module is in a package does not."""
    assert not circle({module(path): modules_used(path) for path in PYTHON})
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down(path: Path) -> None:
    allowed = BELOW[unit(module(path))] | EVERYWHERE
    wrong = units_used(path) - allowed
    assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


def test_nobody_may_import_what_nobody_imports() -> None:
    used: dict[str, set[str]] = {name: set() for name in BELOW}
    for path in PYTHON:
        used[unit(module(path))] |= units_used(path)
    idle = {name: sorted(below - used[name]) for name, below in BELOW.items()}
    assert not {name: left for name, left in idle.items() if left}


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_is_known_in_one_place(name: str) -> None:
    users = {
        path.relative_to(PACKAGE).as_posix() for path in PYTHON if any(n.split(".")[0] == name for n in imported(path))
    }
    assert users == LIBRARIES[name]


@pytest.mark.parametrize("name", ["judge", "testing"])
def test_the_judges_know_nothing_of_what_they_judge(name: str) -> None:
    known: set[str] = set()
    more = {name}
    while more:
        known |= more
        more = {
            room(used) for path in PYTHON if room(module(path)) in more for used in units_used(path)
        } - known  # whatever they import in turn
    assert not known & {"codegen", "scheduling", "lowering", "run", "memory", "analysis", "pipeline", "_core"}


def names_defined(path: Path) -> set[str]:
    """Classes, aliases of types and public constants that a module defines; what it imports is defined elsewhere."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            of = target.elts if isinstance(target, ast.Tuple) else [target]
            found |= {n.id for n in of if isinstance(n, ast.Name) and re.match(r"_?[A-Z]\w*[a-z]|[A-Z]", n.id)}
    return found


def test_a_name_means_one_thing() -> None:
    """No class, no alias and no public constant of the package is defined in two places."""
    places: dict[str, list[str]] = {}
    for path in PYTHON:
        for name in names_defined(path):
            places.setdefault(name, []).append(module(path))
    assert "Buffer" in places and "Array" in places and "EPSILON" in places
    assert not {name: where for name, where in places.items() if len(where) > 1}


# Rust. `mod tests` at the end of a file and files of tests alone may use whatever they test.


def is_rust_test(path: Path) -> bool:
    """Whether a file is compiled for tests alone."""
    names = path.relative_to(RUST).parts
    return names[0] == "testing" or any("tests" in name for name in names)


RUST_FILES = sorted(path for path in RUST.rglob("*.rs") if path.name != "lib.rs" and not is_rust_test(path))


def rust_room(path: Path) -> str:
    return path.relative_to(RUST).parts[0].removesuffix(".rs")


def rust_code(path: Path) -> str:
    """Without comments and without what only tests compile."""
    text = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
    text = re.sub(r"^#\[cfg\(test\)\]\s*use [^;]*;", "", text, flags=re.MULTILINE)
    return re.sub(r"^#\[cfg\(test\)\]\s*mod \w+ \{.*?^\}", "", text, flags=re.MULTILINE | re.DOTALL)


def rust_module(path: Path) -> tuple[str, ...]:
    """The path of a file's module inside the crate."""
    *folders, name = path.relative_to(RUST).with_suffix("").parts
    return (*folders, name) if name != "mod" else tuple(folders)


RUST_MODULES = {rust_module(path) for path in RUST_FILES}


def rust_uses(path: Path) -> set[tuple[str, ...]]:
    """Modules of the crate that a file names, by `crate::`, `super::` or as a child of its own."""
    code, here = rust_code(path), rust_module(path)
    found: set[tuple[str, ...]] = set()
    for start, rest in re.findall(r"\b((?:crate|self|(?:super::)*super)::)((?:\w+::)*(?:\w+|\{[^}]*\}))", code):
        ups = start.count("super")
        base = () if start.startswith("crate") else here[: len(here) - ups]
        *path_names, last = rest.split("::") if "{" not in rest else [*rest[: rest.index("{")].split("::")[:-1], rest]
        ends = re.findall(r"(?:^|[{,])\s*(\w+)", last) if "{" in last else [last[: len(last)]]
        found |= {known(*base, *path_names, end) for end in ends}
    for name in re.findall(r"(?<![\w:])(\w+)::", code):
        if (*here, name) in RUST_MODULES:
            found.add((*here, name))
    return found - {here}


def known(*names: str) -> tuple[str, ...]:
    """The longest beginning of a path that is a module."""
    return next((names[:end] for end in range(len(names), 0, -1) if names[:end] in RUST_MODULES), ())


@pytest.mark.parametrize("path", RUST_FILES, ids=lambda path: str(path.relative_to(RUST)))
def test_rust_uses_go_down(path: Path) -> None:
    wrong = {used[0] for used in rust_uses(path) if used} - RUST_BELOW[rust_room(path)] - {rust_room(path)}
    assert not wrong, f"{path.relative_to(ROOT)} uses {sorted(wrong)}"


def test_rust_rooms_are_all_in_the_table() -> None:
    assert {rust_room(path) for path in RUST_FILES} == set(RUST_BELOW)


RUST_FOLDERS = sorted({rust_module(path)[:-1] for path in RUST_FILES if len(rust_module(path)) > 1} | {()})


@pytest.mark.parametrize("folder", RUST_FOLDERS, ids="::".join)
def test_no_circle_among_the_modules_of_a_rust_folder(folder: tuple[str, ...]) -> None:
    """Among the children of a folder, whatever lies in them, and the folder's own `mod.rs`."""
    depth = len(folder)
    arrows: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for path in RUST_FILES:
        module = rust_module(path)
        if module[:depth] != folder:
            continue
        used = {name[: depth + 1] for name in rust_uses(path) if name[:depth] == folder}
        me = module[: depth + 1]
        arrows[me] = arrows.get(me, set()) | (used - {me})
    assert not circle(arrows)


PLANNER = ("stripe", "propagator", "model", "checker", "cost", "schedule", "plans", "search", "util", "testing")


def rust_types(code: str) -> list[str]:
    """Names of the structs, enums, traits and types that some code defines; an implementation's own left out."""
    kinds = r"^ {0,4}(?:pub(?:\([a-z]+\))? )?(?:unsafe )?(?:struct|enum|union|trait) (\w+)"
    return re.findall(kinds, code, flags=re.MULTILINE) + re.findall(
        r"^(?:pub(?:\([a-z]+\))? )?type (\w+)", code, flags=re.MULTILINE
    )


def test_no_type_of_the_planner_shares_its_name() -> None:
    """Whoever reads a name knows what it is, tests' own types included."""
    where: dict[str, list[str]] = {}
    for path in sorted(RUST.rglob("*.rs")):
        if rust_room(path) in PLANNER:
            for name in rust_types(path.read_text(encoding="utf-8")):
                where.setdefault(name, []).append(str(path.relative_to(RUST)))
    assert {"CascaderGraph", "Plan", "Complaint", "ByteRange", "Point"} <= set(where)
    assert not {name: paths for name, paths in where.items() if len(paths) > 1}


def test_only_one_folder_knows_pyo3() -> None:
    users = {path.relative_to(RUST).parts[0] for path in RUST.rglob("*.rs") if "pyo3" in rust_code(path)}
    assert users == {"python"}


def test_the_reader_of_rust_sees_uses() -> None:
    """These tests can fail: a use of the search in the checker is seen, and a circle is a circle."""
    assert ("model", "program") in rust_uses(RUST / "checker.rs")
    assert ("plans", "open_groups") in rust_uses(RUST / "plans" / "mod.rs")
    assert rust_uses(RUST / "search" / "candidates.rs") >= {
        ("plans", "trivial_parts"),
        ("model", "plan"),
        ("search", "context"),
    }
    assert circle({("a",): {("b",)}, ("b",): {("c",)}, ("c",): {("b",)}, ("d",): set()}) == [("a",), ("b",), ("c",)]
