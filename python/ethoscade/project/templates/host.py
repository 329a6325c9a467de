"""The firmware as a process of this machine, for tests of everything but the board. Owns its build and its start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..description import Description
from ..memory_in_common import started
from ..template import CMAKE, MAKE, Board, Project, Template, Tool, cmake_build, driven, packaged

_ELF = "firmware"
_COMPILER = Tool("cc", "a C compiler (Debian, Ubuntu: gcc or clang)")


def _files(description: Description) -> Mapping[str, str]:
    own = packaged("host", ["platform.c"], description)
    return {
        **packaged("host", ["CMakeLists.txt", "README.md"], description),
        **driven(description),
        "src/platform.c": own["platform.c"],
    }


def _build(project: Project) -> Path:
    return cmake_build(project, _ELF)


def _start(project: Project) -> Board:
    size = -(-project.description.shared_bytes // 4096) * 4096
    program = str(project.folder / "build" / _ELF)
    return started(lambda memory: [program, str(memory)], size, size if project.description.has_npu else 0)


HOST = Template(
    name="host",
    summary="a process of this machine",
    files=_files,
    build=_build,
    no_board="it is a process of this machine; `ethoscade run` starts it",
    start=_start,
    build_tools=(CMAKE, MAKE, _COMPILER),
)
