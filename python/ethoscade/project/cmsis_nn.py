"""CMSIS-NN in a project: which of the library's sources a network needs, and what build files say of it.

Owns the search through the library's folder. The calls are `codegen.c_kernels.cmsis_nn`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ..errors import ProjectError
from ..util.files import read_whole

_MOST_BYTES = 1 << 24
_NAME = re.compile(r"\barm_\w+")
# What is defined begins a line; calls are indented, prototypes in headers.
_DEFINED = re.compile(r"^[A-Za-z_][^\n;]*$", re.MULTILINE)
_DEFINITION = re.compile(r"\b(arm_\w+)\s*[(,]")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def needed_sources(folder: Path, emitted: Iterable[bytes]) -> tuple[str, ...]:
    """Sources of the library that `emitted` C calls, and those that these call, by their path in `folder`.

    Raises `ProjectError` for a function that no source defines.
    """
    texts = {path: _text(path) for path in sorted((folder / "Source").rglob("*.c"))}
    owners: dict[str, list[Path]] = {}
    for path, text in texts.items():
        for line in _DEFINED.findall(text):
            for name in _DEFINITION.findall(line):
                owners.setdefault(name, []).append(path)
    called = sorted({name for text in emitted for name in re.findall(r"\b(arm_\w+)\s*\(", text.decode())})
    for name in called:
        if name not in owners:
            raise ProjectError(
                f"'{folder}' has no source that defines {name}, which the network calls; name by --cmsis-nn a folder "
                f"of CMSIS-NN with Include and Source"
            )
    found: dict[Path, None] = {}
    waiting = [path for name in called for path in owners[name]]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found[path] = None
            waiting += [owner for name in _NAME.findall(texts[path]) for owner in owners.get(name, ())]
    return tuple(path.relative_to(folder).as_posix() for path in sorted(found))


def cmake_library(folder: str, sources: Iterable[str], target: str) -> str:
    """Lines of CMake that compile these sources and link them to `target`; none without a folder."""
    if not folder:
        return ""
    listed = "\n".join(f'  "${{CMSIS_NN}}/{name}"' for name in sources)
    escaped = re.sub(r'([\\"$;])', r"\\\1", folder)
    return f"""
# Arm's CMSIS-NN: the functions that the network calls, and what these call.
set(CMSIS_NN "{escaped}" CACHE PATH "The folder of CMSIS-NN")
add_library(cmsis_nn STATIC
{listed}
)
target_include_directories(cmsis_nn PUBLIC "${{CMSIS_NN}}/Include")
target_link_libraries({target} PRIVATE cmsis_nn)
"""


def _text(path: Path) -> str:
    return _COMMENT.sub(" ", read_whole(path, _MOST_BYTES).decode("utf-8", "replace"))
