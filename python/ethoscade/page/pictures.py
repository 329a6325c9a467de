"""Pictures by matplotlib: figures, the style sheet's colours, files.

Owns how a figure is made and saved; what is drawn is others' business.
"""

from __future__ import annotations

import io
import os
import re
from importlib import resources
from pathlib import Path
from typing import Any

from ..errors import CodegenError, ConfigError
from ..util.files import write_whole

# Files that say when they were made would differ from run to run.
_UNDATED = {"svg": {"Date": None}, "svgz": {"Date": None}, "pdf": {"CreationDate": None}, "ps": {"CreationDate": None}}


def require() -> None:
    """Raises `ConfigError` if matplotlib is missing."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise ConfigError('drawing needs matplotlib: pip install "ethoscade[report]"') from None


def figure(width: float, height: float) -> Any:
    """An empty figure of a size in inches. Raises `ConfigError` if matplotlib is missing."""
    require()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, path: str | os.PathLike[str]) -> Path:
    """Write a figure, whole or not at all, in the format of the path's suffix. Raises `CodegenError`."""
    from matplotlib import rc_context

    kind = Path(path).suffix.removeprefix(".").lower() or "png"
    stream = io.BytesIO()
    try:
        with rc_context({"svg.hashsalt": "ethoscade"}):
            figure.savefig(stream, format=kind, metadata=_UNDATED.get(kind))
    except (OSError, ValueError) as error:
        raise CodegenError(f"cannot draw into '{os.fspath(path)}': {error}") from error
    return write_whole(path, stream.getvalue())


def colour(name: str) -> str:
    """A colour of the style sheet, as light paper has it."""
    sheet = resources.files(__package__).joinpath("assets").joinpath("page.css").read_text(encoding="utf-8")
    found = re.search(rf"--{name}: light-dark\((#\w+),", sheet)
    assert found is not None, f"the style sheet has no colour '{name}'"
    return found[1]
