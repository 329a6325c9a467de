"""Who may import whom: the rooms of ARCHITECTURE.md, read off the sources."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "ethoscade"
RUST = ROOT / "rust" / "src"

# Rooms from the ground up; a room may import itself, `BELOW` it and nothing else of the project. A file or a folder.
EVERYWHERE = {"frozen"}
GROUND = {"errors", "_core", *EVERYWHERE}
BELOW: dict[str, set[str]] = {
    "errors": set(),
    "frozen": set(),
    "arguments": {"errors"},
    "files": {"errors"},
    "target": {"errors", "arguments", "files"},
    "devices": {"errors", "_core", "arguments", "target"},
    "ir": {"errors"},
    "quantised": {"errors", "ir"},
    "opcodes": set(),
    "frontend": {"errors", "ir", "opcodes", "quantised"},
    "reference": {"errors", "ir", "quantised"},
    "rewrites": {"errors", "ir"},
    "lowering": {"errors", "target", "ir", "quantised"},
    "partition": {"errors", "target", "ir", "rewrites", "lowering"},
    "scheduling": {"errors", "_core", "arguments", "target", "devices", "ir", "lowering"},
    "memory_model": {"errors", "arguments"},
    "memory_csv": {"errors", "arguments", "files", "memory_model"},
    "memory": {"errors", "_core", "arguments", "memory_model", "memory_csv", "scheduling"},
    "simulator": {"errors", "_core", "arguments"},
    "timing": {"errors", "_core", "arguments", "target"},
    "provenance": {"errors"},
    "codegen": {
        "errors", "files", "target", "ir", "opcodes", "frontend", "lowering", "scheduling", "provenance",
    },
    "inputs": {"errors", "arguments", "ir"},
    "litert_models": set(),
    "litert": {"errors", "litert_models"},
    "litert_child": set(),
    "judges": {"ir"},
    "verification": {"errors", "ir", "reference", "judges", "litert"},
    "cpu_operators": {"errors", "ir", "reference", "judges", "litert"},
    "testing": {"errors", "ir", "reference"},
    "execution": {
        "errors", "arguments", "ir", "frontend", "inputs", "codegen", "simulator", "provenance", "cpu_operators",
    },
    "host_c": {"errors", "_core", "inputs", "codegen"},
    "explanation": {"errors", "ir", "lowering", "scheduling"},
    "judgement": {"ir", "codegen", "execution", "host_c", "verification"},
    "compiled": {
        "errors", "arguments", "files", "target", "ir", "lowering", "scheduling", "explanation", "codegen", "execution",
        "judgement", "verification", "timing", "provenance",
    },
    "compiler": {
        "errors", "arguments", "target", "ir", "frontend", "rewrites", "partition", "lowering", "scheduling", "memory",
        "codegen", "explanation", "compiled",
    },
    "planning": {
        "errors", "arguments", "target", "devices", "ir", "frontend", "rewrites", "partition", "lowering", "scheduling",
        "compiled", "compiler",
    },
    "report": {
        "errors", "arguments", "files", "target", "ir", "frontend", "lowering", "memory", "memory_model", "codegen",
        "execution", "timing", "verification", "explanation", "compiled", "compiler", "provenance",
    },
    "__main__": {"errors", "_core", "arguments", "target", "codegen", "report"},
    "__init__": {"errors", "_core", "devices", "compiled", "compiler", "planning", "execution"},
}  # fmt: skip

PYTHON = sorted(PACKAGE.rglob("*.py"))
LIBRARIES = {
    "ethosu": {"codegen/vela.py"},
    "ai_edge_litert": {"litert_child.py"},
    "matplotlib": {"report/plot.py", "report/memory_plot.py"},
}


def room(path: Path) -> str:
    """The room that a file is (part of)."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[tuple[str, str | None]]:
    """Absolute module names that a file imports, and of the project's own the room: (name, room or None)."""
    found: set[tuple[str, str | None]] = set()
    package = ["ethoscade", *path.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            found.add((name, parts[1] if parts[0] == "ethoscade" and len(parts) > 1 else None))
    return found


def rooms_used(path: Path) -> set[str]:
    """Rooms of the project that a file imports, its own left out."""
    return {of for _, of in imported(path) if of is not None and of != room(path)}


def test_every_room_is_known() -> None:
    assert {room(path) for path in PYTHON} <= set(BELOW)
    assert all(used <= set(BELOW) | GROUND for used in BELOW.values())


def test_rooms_have_a_direction() -> None:
    """The table itself has no cycles."""
    done: set[str] = set(GROUND)
    left = {name: below - done for name, below in BELOW.items()}
    while left:
        ready = [name for name, below in left.items() if below <= done]
        assert ready, f"a cycle among {sorted(left)}"
        done.update(ready)
        left = {name: below for name, below in left.items() if name not in done}


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down(path: Path) -> None:
    wrong = rooms_used(path) - BELOW[room(path)] - EVERYWHERE
    assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_is_known_in_one_place(name: str) -> None:
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in PYTHON
        if any(n.split(".")[0] == name for n, _ in imported(path))
    }
    assert users == LIBRARIES[name]


@pytest.mark.parametrize("name", ["reference", "verification", "testing"])
def test_the_judges_know_nothing_of_what_they_judge(name: str) -> None:
    known: set[str] = set()
    more = {name}
    while more:
        known |= more
        more = {
            used for path in PYTHON if room(path) in more for used in rooms_used(path)
        } - known  # whatever they import in turn
    assert not known & {"codegen", "scheduling", "lowering", "simulator", "memory", "compiler", "_core"}


# Rust. `mod tests` at the end of a file and files of tests alone may use whatever they test.

_RUST_BELOW: dict[str, set[str]] = {
    "util": set(),
    "stripe": set(),
    "propagator": {"stripe"},
    "npu": {"util"},
    "usmp": {"util"},
    "model": {"stripe", "propagator", "npu"},
    "checker": {"util", "model"},
    "cost": {"util", "stripe", "model", "npu"},
    "schedule": {"util", "stripe", "model", "cost"},
    "plans": {"util", "stripe", "model", "cost", "schedule"},
    "proposals": {"util", "stripe", "model", "cost", "schedule", "plans", "usmp"},
}  # fmt: skip
_RUST_BELOW["python"] = set(_RUST_BELOW)  # pyo3's glue is for all rooms, and nobody may use it


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
    wrong = {used[0] for used in rust_uses(path) if used} - _RUST_BELOW[rust_room(path)] - {rust_room(path)}
    assert not wrong, f"{path.relative_to(ROOT)} uses {sorted(wrong)}"


def test_rust_rooms_are_all_in_the_table() -> None:
    assert {rust_room(path) for path in RUST_FILES} == set(_RUST_BELOW)


def circle(arrows: dict[tuple[str, ...], set[tuple[str, ...]]]) -> set[tuple[str, ...]]:
    """What is left when everything that uses nothing of the rest has gone: nothing where there is no circle."""
    left = dict(arrows)
    while gone := {name for name, used in left.items() if not used & set(left)}:
        left = {name: used for name, used in left.items() if name not in gone}
    return set(left)


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


PLANNER = ("stripe", "propagator", "model", "checker", "cost", "schedule", "plans", "proposals", "util", "testing")


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
    assert ("plans", "grower") in rust_uses(RUST / "plans" / "mod.rs")
    assert rust_uses(RUST / "proposals" / "mod.rs") >= {("plans",), ("model", "graph"), ("proposals", "placing")}
    assert circle({("a",): {("b",)}, ("b",): {("c",)}, ("c",): {("b",)}, ("d",): set()}) == {("a",), ("b",), ("c",)}
