"""The firmware as a process of this machine, for tests of everything but the board. Owns its build and its start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...errors import ConfigError
from ...run.simulator import library
from ..description import Description
from ..memory_in_common import started
from ..template import CMAKE, MAKE, Board, Project, Template, Tool, cmake_build, driven, library_of, packaged

_ELF = "firmware"
_COMPILER = Tool(
    "cc", "a C compiler (Debian, Ubuntu: gcc or clang)", "the C library's headers (Debian, Ubuntu: libc6-dev)"
)


_STANDALONE = """
# The same with the simulated NPU in it, where libethoscade_npu is found: for debuggers, sanitizers, other tools.
find_library(ETHOSCADE_NPU ethoscade_npu)
if(ETHOSCADE_NPU)
  add_executable(standalone ${{own}} src/main.c src/network_link.c src/ethoscade_link.c src/platform.c)
  set_target_properties(standalone PROPERTIES C_STANDARD 99)
  target_compile_definitions(standalone PRIVATE NETWORK_STANDALONE)
  target_link_libraries(standalone PRIVATE tvmgen_{module} "${{ETHOSCADE_NPU}}" m)
endif()
"""


def _files(description: Description) -> Mapping[str, str]:
    own = packaged("host", ["platform.c"], description)
    more = {"cmsis_nn": library_of(description)}
    more |= {"standalone": _STANDALONE.format(module=description.module) if description.has_npu else ""}
    return {
        **packaged("host", ["CMakeLists.txt", "README.md"], description, more),
        **driven(description),
        "src/platform.c": own["platform.c"],
    }


def _build(project: Project) -> Path:
    try:
        where = [f"-DCMAKE_LIBRARY_PATH={library().path.parent}"]
    except ConfigError:
        where = []
    return cmake_build(project, _ELF, *where)


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
