"""The types of the compiled core are those of the core that was built."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Names for tuples exist for annotations alone; __all__ is PyO3's.
_ALLOWED = r"ethoscade\._core\.(\w+(Tuple|Row)|Timed\w+|Tuned\w+|__all__)"


def test_stubs_match_the_extension(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    allowed = tmp_path / "allowed"
    allowed.write_text(_ALLOWED + "\n")
    command = [sys.executable, "-m", "mypy.stubtest", "ethoscade._core", "--concise", "--allowlist", str(allowed)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
