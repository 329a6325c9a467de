"""What a template is: how a project for a board is written, built, flashed and run.

Owns the interface, which a user implements for another board (docs/projects.md), and what templates share: tools, files
of the package, CMake. Knows no board.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import NoReturn

from ..errors import ProjectError
from ..util.frozen import FrozenMap
from ..util.records import dataclass
from .cmsis_nn import cmake_library
from .description import Description
from .npu_mailbox import NpuServer
from .streams import ByteStream

GENERATED = "generated"
"""The folder of a project in which the emitted C is."""

_LAST_LINES = 40


@dataclass(frozen=True)
class Tool:
    """A program that must be on the path, and what to install where it is not.

    A compiler must find C's headers as well; `library` is what to install where it does not.
    """

    program: str
    install: str
    library: str = ""

    def lacks_library(self) -> bool:
        """Whether it is a compiler that finds no header of the C library."""
        if not self.library:
            return False
        asked = [self.program, "-E", "-x", "c", "-"]
        said = subprocess.run(asked, input=b"#include <string.h>\n", capture_output=True, check=False)
        return said.returncode != 0


CMAKE = Tool("cmake", "CMake 3.16 or newer (Debian, Ubuntu: cmake; https://cmake.org/download)")
MAKE = Tool("make", "GNU make (Debian, Ubuntu: make)")


@dataclass(frozen=True)
class Project:
    """A project's folder and what it says of its network."""

    folder: Path
    description: Description


@dataclass(frozen=True, eq=False)
class Board:
    """A board at work: the stream to it and, where the host plays the NPU, what does that."""

    stream: ByteStream
    npu: NpuServer | None = None


@dataclass(frozen=True, eq=False)
class Template:
    """One kind of project. The functions raise `ProjectError`, in one sentence that says what to do.

    `files` are the texts of a new project by their path in its folder, beside what the compiler emits into
    `generated/`. `build` makes the firmware and returns its ELF file, `flash` brings that to the board, `start` opens a
    stream to the running firmware. Without a board to flash, `no_board` says what to do. `build_tools` and `run_tools`
    must be there for all of that. `instructions_per_tick` is for boards whose timer counts instructions, and
    `building` says what builds a new project, with `{folder}` for its path.
    """

    name: str
    summary: str
    files: Callable[[Description], Mapping[str, str]]
    build: Callable[[Project], Path]
    start: Callable[[Project], Board]
    flash: Callable[[Project, Path], None] | None = None
    no_board: str = "its template does not know how"
    build_tools: tuple[Tool, ...] = ()
    run_tools: tuple[Tool, ...] = ()
    instructions_per_tick: float | None = None
    building: str = "`ethoscade build {folder}` builds it"

    def check_tools(self, *, to_run: bool = False) -> None:
        """Raises `ProjectError` naming every tool that is missing, and what to install."""
        wanted = self.build_tools + (self.run_tools if to_run else ())
        missing = [tool for tool in wanted if shutil.which(tool.program) is None]
        if missing:
            names = ", ".join(f"'{tool.program}'" for tool in missing)
            advice = "; ".join(tool.install for tool in missing)
            raise ProjectError(f"template '{self.name}' needs {names}, not found on the path; install {advice}")
        for tool in wanted:
            if tool.lacks_library():
                raise ProjectError(
                    f"template '{self.name}' needs a C library, and '{tool.program}' finds no <string.h>; install "
                    f"{tool.library}"
                )


def packaged(
    folder: str, names: Sequence[str], description: Description, more: Mapping[str, str] = FrozenMap({})
) -> dict[str, str]:
    """Texts of the package by name, `folder` being one of `files/`.

    Filled in between @ signs: module, MODULE, network, and what there is `more`; a line of a word alone is its lines.
    """
    words = {"module": description.module, "MODULE": description.module.upper(), "network": _plain(description.network)}
    words |= {"null": "NULL", "mailbox": " src/npu_mailbox.c"} if description.has_npu else {"null": "", "mailbox": ""}
    words |= more
    found = {}
    for name in names:
        text = re.sub(r"^@(\w+)@\n", lambda hit: _lines(words[hit.group(1)]), _read(folder, name), flags=re.MULTILINE)
        found[name] = re.sub(r"@(\w+)@", lambda hit: words[hit.group(1)], text)
    return found


def _read(folder: str, name: str) -> str:
    return resources.files(__package__).joinpath("files").joinpath(folder).joinpath(name).read_text(encoding="utf-8")


def _lines(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _plain(name: str) -> str:
    """A network's name where it cannot end a comment, a line or a string."""
    return re.sub(r"[^\w .-]", "_", name)


def driven(description: Description, *, on_board: bool = True) -> dict[str, str]:
    """The network on a link: sources, and headers that name the network.

    With `on_board` it is a firmware, with `main` and the NPU's stand-in; else the application is the user's.
    """
    names = ["ethoscade_link.c", "ethoscade_link.h", "network_link.c", "network_link.h"]
    names += ["main.c", "platform.h"] if on_board else []
    names += ["npu_mailbox.c"] if on_board and description.has_npu else []
    texts = packaged("common", names, description)
    return {f"src/{name}": text for name, text in (texts | headers(description)).items()}


def headers(description: Description) -> dict[str, str]:
    """`network.h`, by which sources that know no network name theirs, and `network_config.h`, which this includes."""
    prefix = f"tvmgen_{description.module}"
    macro = prefix.upper()
    return {
        "network_config.h": f"""/* What the sources of the network are to know of this firmware: docs/firmware.md. */
#ifndef NETWORK_CONFIG_H
#define NETWORK_CONFIG_H

/* The arena is network_link.c's, so that a host can read and write it. */
#define {macro}_ARENA network_arena

/* Sections of your own, as strings: of the arena, and of programs, weights and constants. */
#ifndef NETWORK_ARENA_SECTION
#define NETWORK_ARENA_SECTION ".bss.noinit.tvm"
#endif
#ifdef NETWORK_MODEL_SECTION
#define {macro}_COMMANDS_SECTION NETWORK_MODEL_SECTION
#define {macro}_WEIGHTS_SECTION NETWORK_MODEL_SECTION
#define {macro}_CONSTANTS_SECTION NETWORK_MODEL_SECTION
#endif

#ifndef __ASSEMBLER__
#include "ethoscade_link.h"
#define ETHOSCADE_BEFORE_CALL(network, number) ethoscade_link_before_call(number)
#define ETHOSCADE_AFTER_CALL(network, number, status) ethoscade_link_after_call(number, status)
#endif

#endif
""",
        "network.h": f"""/* The network of this firmware, under names that are the same for all. */
#ifndef NETWORK_H
#define NETWORK_H

#include "{prefix}.h"

#define NETWORK(name) {prefix}_##name
#define NETWORK_MACRO(name) {macro}_##name
#define NETWORK_HAS_STATE {int(description.has_state)}
#define NETWORK_IS_STREAMED {int(bool(description.feeds or description.takes))}
/* What the host knows these sources by. */
#define NETWORK_BUILD 0x{description.build:08x}u

#endif
""",
    }


def library_of(description: Description) -> str:
    """Lines of CMake that compile what the network calls of CMSIS-NN, behind its own library; none if it calls none."""
    return cmake_library(description.cmsis_nn, description.cmsis_nn_sources, f"tvmgen_{description.module}")


def cmake_build(project: Project, elf: str, *options: str) -> Path:
    """Configure and build with CMake in the folder's `build`; the path of `elf` there."""
    folder, built = project.folder, project.folder / "build"
    configure = ["cmake", "-S", str(folder), "-B", str(built), "-G", "Unix Makefiles", *options]
    for command in (configure, ["cmake", "--build", str(built)]):
        run_tool(command, f"building '{folder}'")
    return built / elf


def run_tool(command: Sequence[str], doing: str) -> None:
    """Run a tool to its end. Raises `ProjectError` with the last lines of what it said."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except OSError as error:
        raise ProjectError(f"{doing}: cannot run '{command[0]}' ({error.strerror})") from error
    if done.returncode:
        said = "\n".join(done.stdout.decode(errors="replace").splitlines()[-_LAST_LINES:])
        raise ProjectError(f"{doing}: '{' '.join(command)}' ended with status {done.returncode}", output=said)


def unbuilt(advice: str) -> Callable[[Project], NoReturn]:
    """A function of a template for what is part of something larger, which is not ours to build or start."""

    def refuse(project: Project) -> NoReturn:
        raise ProjectError(f"'{project.folder}' is no firmware by itself: {advice}")

    return refuse
