"""Writes a compiled network as C99, with the interface that firmware for TVM's ahead-of-time executor expects.

Owns which files there are and what they are called: the header `tvmgen_<mod>.h`, `<mod>_lib0.c` (entry), `<mod>_lib1.c`
(data), `<mod>_lib2.c` (CPU operators, if any), `<mod>_lib3.c` (names), `<mod>_lib4.c` and `<mod>.graph` (the graph
executor, if wanted), `<mod>_weights.S` and `.bin` for large weights, and what builds and places them. The text of each
is in `codegen.c`. The Ethos-U core driver is called through `ethosu_invoke_v3`; bases are weights, arena and the fast
memory, which is the arena as well where the NPU has none of its own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..util.files import MANIFEST_SUFFIX, write_together
from . import executor_graph
from .artifact import Artifact
from .c import build_files, entry, graph, header, operators, shared, tables
from .c.module import Module, make
from .c.names import module_identifier
from .c.options import DEFAULT, COptions, Networks


def write(artifact: Artifact, folder: str | os.PathLike[str], options: COptions = DEFAULT) -> dict[str, Path]:
    """Write the sources and `<mod>.cmake` into `folder` (made if missing) and return their paths by file name.

    `<mod>.sha256` beside them lists their hashes: files of two compilations do not fit it.
    Raises `CodegenError` for names that clash in C or files that cannot be written, `UnsupportedOperatorError` for a
    CPU operator without a C kernel.
    """
    return write_together(folder, contents(artifact, options), f"{module_name(artifact, options)}{MANIFEST_SUFFIX}")


def contents(artifact: Artifact, options: COptions = DEFAULT) -> dict[str, bytes]:
    """The bytes of every file that `write` writes, by name. Raises as `write`."""
    return all_contents([(artifact, options)])


def all_contents(networks: Networks) -> dict[str, bytes]:
    """The bytes of every file of several networks: sources, and what builds and places them. Raises as `write`."""
    modules = _modules(networks)
    files = _units(modules)
    for module in modules:
        files[f"{module.name}.cmake"] = build_files.cmake(module, _of(module)).encode()
        if module.options.has_graph:
            files[graph.file_name(module)] = executor_graph.to_json(module.artifact, module.name).encode()
    if any(module.options.shares_arena and not module.has_pools for module in modules):
        files[f"{shared.LIBRARY}.cmake"] = build_files.shared_cmake().encode()
    files[build_files.LINKER_FILE] = build_files.linker().encode()
    return files


def all_units(networks: Networks) -> dict[str, bytes]:
    """What a compiler wants, by file name: the sources and, unless they are C, the weights. Raises as `write`."""
    return _units(_modules(networks))


def sources(artifact: Artifact, options: COptions = DEFAULT) -> dict[str, str]:
    """The text of header, C and assembler files by name. Raises as `write` does, but nothing is written."""
    return _of(make(artifact, options))


def _modules(networks: Networks) -> list[Module]:
    modules = [make(artifact, options) for artifact, options in networks]
    shared.refuse_clashes(modules)
    return modules


def _units(modules: Sequence[Module]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for module in modules:
        files |= {name: text.encode() for name, text in _of(module).items()}
        if module.weights_as in ("incbin", "pool"):
            files[tables.weights_file(module)] = module.weights
    if sharing := [module for module in modules if module.options.shares_arena]:
        files |= {name: text.encode() for name, text in shared.files(sharing).items()}
    return files


def _of(module: Module) -> dict[str, str]:
    texts = {
        header.file_name(module): header.text(module),
        f"{module.name}_lib0.c": entry.text(module),
        f"{module.name}_lib1.c": tables.text(module),
    }
    if module.cpu_bodies:
        texts[f"{module.name}_lib2.c"] = operators.text(module)
    texts[f"{module.name}_lib3.c"] = tables.names(module)
    if module.options.has_graph:
        texts[f"{module.name}_lib4.c"] = graph.text(module)
    if module.weights_as == "incbin":
        texts[f"{module.name}_weights.S"] = tables.weights_assembly(module)
    return texts


def module_name(artifact: Artifact, options: COptions = DEFAULT) -> str:
    """The `<mod>` of all names."""
    return options.module_name or module_identifier(artifact.name)


def header_name(artifact: Artifact, options: COptions = DEFAULT) -> str:
    """File name of the network's header."""
    return f"tvmgen_{module_name(artifact, options)}.h"
