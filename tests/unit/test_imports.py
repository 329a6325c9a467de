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

_RUST_ROOMS = {path.stem for path in RUST.iterdir()} - {"lib"}
_RUST_GROUND = {"interrupt"}  # any loop may have to be stopped
_TESTS_ONLY = {"exhaustive_tests.rs", "samples.rs", "schedule_tests.rs"}
_RUST_BELOW: dict[str, set[str]] = {
    "interrupt": set(),
    "stripe": set(),
    "propagator": {"stripe"},
    "performance": {"stripe", "npu"},
    "ethosu": {"performance", "npu"},
    "graph": {"stripe", "propagator", "performance"},
    "program": {"stripe", "performance", "graph"},
    "register_words": {"performance", "program"},
    "block_overlap": {"performance", "graph", "program"},
    "hashing": set(),
    "timeline": {"performance", "ethosu", "graph", "hashing", "program", "register_words", "block_overlap", "npu"},
    "rated": {"performance", "graph", "program", "npu"},
    "costs": {"stripe", "performance", "ethosu", "rated", "graph", "hashing", "program", "timeline"},
    "walk": {"stripe", "graph", "program"},
    "lifetimes": {"stripe", "graph", "program"},
    "interleave": {"stripe", "performance", "graph", "costs", "program", "walk", "lifetimes"},
    "clock": {"performance", "program"},
    "prefetch": {"performance", "graph", "clock", "program", "lifetimes"},
    "options": set(),
    "occupancy": {"stripe", "graph"},
    "rolling": {"stripe", "graph", "hashing", "occupancy"},
    "pareto": set(),
    "prefixes": {"graph", "pareto"},
    "checker": {"performance", "graph", "program"},
    "usmp": set(),
    "npu": set(),
    "plans": {
        "stripe", "performance", "graph", "costs", "program", "walk", "occupancy", "options", "rolling", "pareto",
        "prefixes",
    },
    "ahead": {"graph", "costs", "program", "pareto", "prefixes", "plans"},
    "filling": {"graph", "costs", "program", "options", "interleave", "prefetch", "pareto"},
    "arena": {"graph", "program", "usmp"},
    "restage": {"graph", "costs", "program", "interleave", "prefetch"},
    "placing": {
        "graph", "clock", "costs", "program", "options", "pareto", "interleave", "prefetch", "restage", "filling",
    },
    "proposals": {
        "stripe", "graph", "costs", "program", "options", "pareto", "prefixes", "hashing", "plans", "ahead",
        "interleave", "placing", "rolling",
    },
}  # fmt: skip


def rust_room(path: Path) -> str:
    return path.relative_to(RUST).parts[0].removesuffix(".rs")


def rust_code(path: Path) -> str:
    """Without comments and without modules of tests."""
    text = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
    return re.sub(r"^#\[cfg\(test\)\]\s*mod \w+ \{.*?^\}", "", text, flags=re.MULTILINE | re.DOTALL)


def rust_uses(path: Path) -> set[str]:
    """Rooms that a file names through `crate::`, `super::` from a top-level file, or the crate's name."""
    code = rust_code(path)
    names = set(re.findall(r"\b(?:crate|ethoscade|_core)::(\w+)", code))
    for braces in re.findall(r"\buse (?:crate|super::super)::\{([^;]*)\};", code):
        names |= set(re.findall(r"\w+", braces))
    depth = len(path.relative_to(RUST).parts)
    up = "super::" * depth
    names |= set(re.findall(rf"\b(?<!super::){up}(\w+)", code))
    return (names & _RUST_ROOMS) - {rust_room(path)}


RUST_FILES = sorted(p for p in RUST.rglob("*.rs") if p.name not in {*_TESTS_ONLY, "lib.rs", "tests.rs"})


@pytest.mark.parametrize("path", RUST_FILES, ids=lambda path: str(path.relative_to(RUST)))
def test_rust_uses_go_down(path: Path) -> None:
    of = rust_room(path)
    if of == "python":
        return
    wrong = rust_uses(path) - _RUST_BELOW[of] - _RUST_GROUND
    assert not wrong, f"{path.relative_to(ROOT)} uses {sorted(wrong)}"


def test_only_one_folder_knows_pyo3() -> None:
    users = {path.relative_to(RUST).parts[0] for path in RUST.rglob("*.rs") if "pyo3" in rust_code(path)}
    assert users == {"python"}


def test_the_reader_of_rust_sees_uses(tmp_path: Path) -> None:
    """These tests can fail: a use of the search in the checker is seen."""
    assert "program" in rust_uses(RUST / "checker.rs")
    assert "graph" in rust_uses(RUST / "plans" / "mod.rs")
    assert rust_uses(RUST / "proposals.rs") >= {"plans", "graph"}
