"""Commands whose working folder was deleted: every one of them works without it, or says so in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import ethoscade
import pytest
from command_line_support import RESIDUAL, one_sentence

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a folder in use cannot be deleted there")

PROGRAM = """
import os, sys
os.rmdir(os.getcwd())
from ethoscade.__main__ import main
sys.exit(main(sys.argv[1:]))
"""

COMMANDS = [
    ["compile", "MODEL"],
    ["compile", "MODEL", "-o", "out"],
    ["compile", "MODEL", "--emit", "mlf"],
    ["compile", "MODEL", "--emit", "c", "-o", "."],
    ["frontier", "net.tflite"],
    ["frontier", "MODEL"],
    ["check", "net.tflite"],
    ["verify", "net.tflite"],
    ["explore", "net.tflite", "-o", "graph.json"],
    ["sweep", "MODEL", "-o", "out"],
    ["new", "MODEL", "out", "--template", "qemu"],
    ["build", "out"],
    ["plan-memory", "buffers.csv"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_deleted_working_folder_is_said_or_not_needed(command: list[str], tmp_path: Path) -> None:
    model = tmp_path / "net.tflite"
    model.write_bytes(RESIDUAL)
    folder = tmp_path / "gone"
    folder.mkdir()
    words = [str(model) if word == "MODEL" else word for word in command]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(ethoscade.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    if words[:2] == ["frontier", str(model)]:
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 1, done.stderr
    one_sentence(done.stderr)
    if command[0] in ("compile", "frontier"):
        assert "working folder was deleted" in done.stderr
