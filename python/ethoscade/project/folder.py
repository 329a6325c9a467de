"""A project on the disk: written, built, flashed, run.

Owns the folder's layout and which template is whose. What a template does is its own.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..codegen import c_source
from ..codegen.artifact import Artifact
from ..codegen.c.options import COptions
from ..errors import ConfigError, ProjectError
from ..util.arguments import checked
from ..util.files import MANIFEST_SUFFIX, write_together
from ..util.frozen import FrozenMap
from . import cmsis_nn
from . import description as descriptions
from .connection import Connection
from .streams import ProcessStream, SerialStream
from .template import GENERATED, Board, Project, Template
from .templates import TEMPLATES

ALIASES = {"qemu": "qemu-mps3-an547"}
OWN_TEMPLATE = "ethoscade_template.py"
"""A user's template, as it lies in the project's folder; it defines `TEMPLATE`."""


def template_named(name: str) -> Template:
    """The template of that name, or that which a file defines: `TEMPLATE` in `name`.py.

    Raises `ConfigError` for a name that is neither, `ProjectError` for a file that defines none.
    """
    name = ALIASES.get(name, name)
    if name in TEMPLATES:
        return TEMPLATES[name]
    if name.endswith(".py"):
        return _loaded(Path(name))
    raise ConfigError(
        f"there is no template '{name}'; choose {', '.join(TEMPLATES)}, or a file of your own, ending in .py"
    )


def make(
    template: Template,
    folder: Path,
    artifact: Artifact,
    options: COptions,
    *,
    io: str = "float",
    bricks: Mapping[int, tuple[int, int, int]] = FrozenMap({}),
    own_template: Path | None = None,
) -> Project:
    """Write a project for a compiled network; the model's file goes along.

    Inputs and outputs stay in the workspace, whatever the `options` of the C say; `bricks` as for `describe`.
    `own_template` is the file that `template` came from, if it is a user's. Raises `ProjectError` for a folder with
    something in it, and what writing the C raises.
    """
    check_free(folder)
    options = replace(options, workspace_io=True)
    sources = c_source.contents(artifact, options)
    described = descriptions.describe(
        artifact,
        template.name if own_template is None else OWN_TEMPLATE,
        c_source.module_name(artifact, options),
        io,
        sources,
        bricks,
    )
    library = artifact.kernels.library
    if library is not None:
        called = cmsis_nn.needed_sources(Path(library.folder), (sources[name] for name in described.sources))
        # A network none of whose operators the library takes does without it.
        described = replace(described, cmsis_nn=library.folder if called else "", cmsis_nn_sources=called)
    files = {f"{GENERATED}/{name}": data for name, data in sources.items()}
    files |= {name: text.encode() for name, text in template.files(described).items()}
    files |= {descriptions.FILE: described.text().encode(), descriptions.MODEL: artifact.graph.source}
    if own_template is not None:
        files[OWN_TEMPLATE] = own_template.read_bytes()
    write_together(folder, files, f"ethoscade-project{MANIFEST_SUFFIX}")
    return Project(folder, described)


def check_free(folder: Path) -> None:
    """Raises `ProjectError` for a folder with something in it, or a file: nothing is written over."""
    try:
        is_free = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    except OSError as error:
        raise ProjectError(f"cannot look into '{folder}': {error.strerror}") from error
    if not is_free:
        raise ProjectError(f"'{folder}' is there already, and not empty: name another folder for the project")


def opened(folder: Path) -> tuple[Project, Template]:
    """The project in `folder` and its template. Raises `ProjectError` where there is none."""
    described = descriptions.read(folder)
    if described.template == OWN_TEMPLATE:
        return Project(folder, described), _loaded(folder / OWN_TEMPLATE)
    return Project(folder, described), template_named(described.template)


def build(project: Project, template: Template) -> Path:
    """Build the firmware; its ELF file. Raises `ProjectError`, also for tools that are missing."""
    template.check_tools()
    return template.build(project)


def flash(project: Project, template: Template) -> None:
    """Build the firmware and bring it to the board. Raises `ProjectError`, before anything else if there is none."""
    if template.flash is None:
        raise ProjectError(f"'{project.folder}' has no board to flash: {template.no_board}")
    template.flash(project, build(project, template))


@checked()
def connect(
    folder: str | os.PathLike[str],
    *,
    port: str | None = None,
    command: Sequence[str] | None = None,
    baud: int = 115_200,
    patience_seconds: float = 60.0,
) -> Connection:
    """Talk to the network of the project in `folder`: built and started, or on the board at serial port `port`.

    `command` are the words that start a process which is the board, its standard input and output the stream.

    Requests are repeated for up to `patience_seconds` each. Raises `ProjectError` for what is no project, tools that
    are missing, a build that fails, and a board that is silent or runs other sources.
    """
    project, template = opened(Path(folder))
    if port is not None and command is not None:
        raise ConfigError("a board is at a port, or a command starts it: not both")
    if port is not None:
        board = Board(SerialStream(port, baud))
    elif command is not None:
        board = Board(ProcessStream(command))
    else:
        template.check_tools(to_run=True)
        template.build(project)
        board = template.start(project)
    return Connection(board.stream, project.description, patience_seconds=patience_seconds, npu=board.npu)


def _loaded(path: Path) -> Template:
    if not path.is_file():
        raise ProjectError(f"there is no file '{path}' with a template")
    spec = importlib.util.spec_from_file_location("ethoscade_own_template", path)
    if spec is None or spec.loader is None:
        raise ProjectError(f"'{path}' cannot be imported as Python")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ProjectError(f"template '{path}' cannot be imported: {type(error).__name__}: {error}") from error
    template = getattr(module, "TEMPLATE", None)
    if not isinstance(template, Template):
        raise ProjectError(f"'{path}' defines no TEMPLATE of the type ethoscade.project.template.Template")
    return template
