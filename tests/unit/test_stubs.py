"""The types of the compiled core are those of the core that was built."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import ethoscade
import pytest
from end_to_end import network_of
from ethoscade import _core
from ethoscade.errors import SchedulingError
from ethoscade.testing import tiny_conv

# Names for tuples exist for annotations alone; __all__ is PyO3's.
_ALLOWED = r"ethoscade\._core\.(\w+(Tuple|Row)|Timed\w+|Tuned\w+|__all__)"


def test_stubs_match_the_extension(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    allowed = tmp_path / "allowed"
    allowed.write_text(_ALLOWED + "\n")
    command = [sys.executable, "-m", "mypy.stubtest", "ethoscade._core", "--concise", "--allowlist", str(allowed)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stub_names_every_tuned_figure() -> None:
    """Whoever asks for one that there is not is told all names."""
    stub = Path(ethoscade.__file__).with_name("_core.pyi").read_text(encoding="utf-8")
    literal = re.search(r"TunedName = Literal\[(.*?)\]", stub, re.DOTALL)
    with pytest.raises(SchedulingError) as refused:
        _core.Search(network_of(tiny_conv()).problem.core, tuning=[("none", 1)])  # type: ignore[list-item]
    assert literal is not None
    assert re.findall(r'"(.+?)"', literal[1]) == str(refused.value).partition("one of ")[2].split(", ")
