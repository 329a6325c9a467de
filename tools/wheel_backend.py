"""What pip calls to build a wheel: maturin, which makes one library of a crate, after libethoscade_npu is built.

maturin packs the extension module by itself and libethoscade_npu as a file that lies in the package (`include` in
pyproject.toml). So `pip install .` and wheels have both, and `maturin develop` has what `make library` left.
"""

from __future__ import annotations

from typing import Any

import build_library
import maturin
from maturin import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def build_wheel(*arguments: Any, **named: Any) -> str:
    """The wheel's name; see PEP 517."""
    build_library.main()
    return str(maturin.build_wheel(*arguments, **named))


def build_editable(*arguments: Any, **named: Any) -> str:
    """The name of a wheel that refers to this tree; see PEP 660."""
    build_library.main()
    return str(maturin.build_editable(*arguments, **named))
