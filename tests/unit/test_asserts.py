"""Assertions in the package: they narrow types and say what establishes it, and nothing rests on them.

`python -O` leaves them out. Whatever a user's file, command line or data can make false is asked by an `if` and raises.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = sorted((ROOT / "python" / "ethoscade").rglob("*.py"))
RUST = sorted(
    path
    for path in (ROOT / "rust" / "src").rglob("*.rs")
    if "testing" not in path.parts and not any("tests" in part for part in path.relative_to(ROOT).parts)
)


def narrows(test: ast.expr) -> bool:
    """Whether a condition tells a type checker more of a variable: that it is there, or of which class."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return all(map(narrows, test.values))
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return isinstance(test.operand, ast.Call) and narrows(test.operand)
    if isinstance(test, ast.Call):
        return isinstance(test.func, ast.Name) and test.func.id == "isinstance"
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.IsNot):
        return False
    return isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None


def wrong_asserts(text: str) -> Iterator[tuple[int, str]]:
    """Assertions that do more than to narrow a type, or do not say what establishes it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assert) and not (narrows(node.test) and node.msg is not None):
            yield node.lineno, ast.unparse(node)


def test_assertions_narrow_types_and_say_why() -> None:
    assert {
        str(path.relative_to(ROOT)): list(found)
        for path in PYTHON
        if (found := [*wrong_asserts(path.read_text(encoding="utf-8"))])
    } == {}


@pytest.mark.parametrize(
    "text", ["assert a == b, 'why'", "assert all(a), 'why'", "assert a", "assert a is not None", "assert not a, 'why'",
             "assert a is not None and b > 0, 'why'"],
)  # fmt: skip
def test_other_assertions_are_noticed(text: str) -> None:
    assert [*wrong_asserts(text)]
    assert not [*wrong_asserts("assert a is not None and not isinstance(b, str), 'why'")]


STATED = re.compile(r"\b(debug_assert|debug_assert_eq|assert|assert_eq|unreachable|panic)!\((.*)\);?")


def unexplained(text: str) -> Iterator[str]:
    """Lines outside of tests that end the process without a word: bare `unwrap`s, and assertions without a reason."""
    for line in re.split(r"#\[cfg\(test\)\]\nmod \w+ \{", text)[0].splitlines():
        code = line.split("//")[0]
        stated = STATED.search(code)
        if ".unwrap()" in code or ".expect()" in code or (stated and '"' not in stated[2] and ")" in code):
            yield line.strip()


def test_panics_of_the_core_say_what_never_happens() -> None:
    found = {
        str(path.relative_to(ROOT)): lines
        for path in RUST
        if (lines := [*unexplained(path.read_text(encoding="utf-8"))])
    }
    assert found == {}
    assert [*unexplained("let x = y.unwrap();")] and [*unexplained("debug_assert!(a < b);")]


def optimised(*arguments: str, seconds: int = 300) -> str:
    """What a bench prints with `python -O`. Fails where it ends with another status than 0."""
    paths = os.pathsep.join([str(ROOT / "python"), str(ROOT / "tests")])
    ended = subprocess.run(
        [sys.executable, "-O", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_assertions_are_gone_where_the_samples_run() -> None:
    assert optimised("-c", "assert False, 'still there'\nprint('gone')") == "gone\n"


def test_blocks_that_do_not_fit_are_refused_without_assertions() -> None:
    """Vela has nothing but an assertion behind its layout of the SHRAM."""
    test = "tests/unit/test_command_stream.py::test_wrong_steps_are_refused"
    assert "1 passed" in optimised("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", test)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="children under limits need Linux")
def test_mutated_models_without_assertions() -> None:
    """Files changed field by field are right or refused all the same."""
    pytest.importorskip("ai_edge_litert", reason='LiteRT is not installed: pip install "ethoscade[verify]"')
    said = optimised("benches/mutated_models.py", "--count", "80", "--seed", "7")
    assert re.search(r"\d+  compiled and right", said) and "refused (ModelFormatError)" in said


def test_random_networks_without_assertions() -> None:
    """Networks of all kinds are as promised all the same."""
    pytest.importorskip("ai_edge_litert", reason='LiteRT is not installed: pip install "ethoscade[verify]"')
    said = optimised("benches/random_networks.py", "--seeds", "100:106", "--accelerators", "ethos-u55-128")
    assert "wrong: 0" in said and "6 networks" in said
