"""The table of Vela's options has each of them, and what it names of ours is there."""

from __future__ import annotations

import argparse
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ethoscade.__main__ import _COMMANDS, _parser
from test_imports import ROOT

PAGE = (ROOT / "docs" / "from-vela.md").read_text(encoding="utf-8")


def rows() -> list[list[str]]:
    table = PAGE.split("## Options")[1].split("\n## ")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("| `")]


def test_every_option_of_vela_has_a_row_in_its_order() -> None:
    program = Path(sys.executable).with_name("vela")
    if not program.exists():
        pytest.skip("vela is not installed beside this Python")
    told = subprocess.run([str(program), "--help"], capture_output=True, text=True, check=True).stdout
    known = re.findall(r"^  (?:-h, )?(--[a-z-]+\d*[a-z-]*)", told.split("\noptions:")[1], re.MULTILINE)
    assert len(known) > 45
    named = [re.findall(r"--[a-z-]+\d*[a-z-]*", first) for first, *_ in rows()]
    listed = [name for names in named for name in names]
    assert list(dict.fromkeys(listed)) == known


def options() -> dict[str, set[str]]:
    """Of each command its options, and under no name those of the program."""
    found = {"": set(_parser()._option_string_actions)}
    for name, (file, function, _) in _COMMANDS.items():
        parser = argparse.ArgumentParser()
        getattr(importlib.import_module(f"ethoscade.cli.{file}"), function)(parser)
        found[name] = set(parser._option_string_actions)
    return found


def test_options_of_ours_exist() -> None:
    known = options()
    for theirs, ours, _ in rows():
        for code in re.findall(r"`([^`]+)`", ours):
            command, *rest = code.split()
            of = known[command] if command in known else set().union(*known.values())
            assert not {word for word in (command, *rest) if word.startswith("-")} - of, f"{theirs}: {code}"


def test_options_that_are_the_same_are_taken() -> None:
    known = options()
    same = [first.split("`")[1] for first, ours, _ in rows() if ours.startswith("the same")]
    assert len(same) >= 6
    assert not [option for option in same if option not in known[""] | known["compile"]]
