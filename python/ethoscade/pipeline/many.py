"""compile_many(): several networks for one firmware, and what is written of them together.

Owns their names beside each other and the size of an arena that they share. Each is compiled as `compile` does it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from pathlib import Path

from ..codegen import c_source, mlf
from ..codegen.bundle import ALL
from ..codegen.c.names import module_identifier
from ..codegen.c.options import COptions, Networks
from ..codegen.layout import CACHE_LINE_BYTES
from ..codegen.streams import WEIGHT_ENCODERS
from ..errors import ConfigError
from ..targets.target import RowCount
from ..util.arguments import checked, shown
from ..util.files import MANIFEST_SUFFIX, write_together
from ..util.frozen import FrozenMap
from ..util.progress import one_of_many
from ..util.records import dataclass
from .compiled import Compiled
from .compiler import Model, Progress
from .prepared import EPSILON, compile


@dataclass(frozen=True, eq=False)
class CompiledMany:
    """Networks compiled for one firmware, by the names that they have in C."""

    networks: Mapping[str, Compiled] = field(repr=False)

    @property
    def workspace_bytes(self) -> int:
        """Bytes of an arena in which each of them can run, in whole cache lines of 32 bytes: those of the largest."""
        return max(compiled.workspace_bytes for compiled in self.networks.values())

    @checked()
    def write_c(
        self,
        folder: str | os.PathLike[str],
        *,
        share_workspace: bool = False,
        workspace: str = "internal",
        workspace_io: bool = False,
        weights: str = "auto",
        executor: str = "aot",
    ) -> dict[str, Path]:
        """Write the C99 sources of all into one folder; returns the files by name. Choices as for `Compiled.write_c`.

        With `share_workspace` they run in one arena, one after the other: `tvmgen_shared_workspace.h` has its size.
        `networks.sha256` lists the files' hashes. Raises `CodegenError` for a network that keeps state in its arena and
        therefore cannot share it, and what `Compiled.write_c` raises.
        """
        options = COptions(None, workspace, workspace_io, weights, share_workspace, executor)
        return write_together(folder, c_source.all_contents(chosen(self, options)), f"{ALL}{MANIFEST_SUFFIX}")

    @checked()
    def write_mlf(
        self,
        path: str | os.PathLike[str],
        *,
        share_workspace: bool = False,
        workspace: str = "internal",
        workspace_io: bool = False,
        weights: str = "auto",
        executor: str = "aot",
    ) -> Path:
        """Write one Model Library Format archive (or folder) with a module for each. Otherwise as `write_c`."""
        options = COptions(None, workspace, workspace_io, weights, share_workspace, executor)
        return mlf.write(chosen(self, options), path)


@checked("sram_kb", "epsilon")
def compile_many(
    models: Mapping[str, Model] | Sequence[Model],
    *,
    sram_kb: float | None = None,
    sram: str | int | None = None,
    accelerator: str | None = None,
    system_config: str | None = None,
    memory_mode: str | None = None,
    config: str | os.PathLike[str] | None = None,
    board: str | os.PathLike[str] | None = None,
    input_memory: str | None = None,
    stream_input: RowCount | None = None,
    stream_ahead: bool = False,
    stream_output: RowCount | None = None,
    optimise: str = "performance",
    epsilon: float | Fraction = EPSILON,
    dead_channels: bool = True,
    weight_encoder: str = WEIGHT_ENCODERS[0],
    io: str = "float",
    kernels: str | os.PathLike[str] | None = None,
    cmsis_nn: str | os.PathLike[str] | None = None,
    line_bytes: int = CACHE_LINE_BYTES,
    progress: Progress | None = None,
) -> CompiledMany:
    """Compile several models for one firmware; each within the budget, by the arguments of `compile`.

    As they become C, budgets count whole cache lines.

    `models` maps names to models: lower-case letters, digits and '_', the `<mod>` of all names in C. A sequence of
    paths is named after the files. Raises `ConfigError` for names that are wrong or not distinct, and what `compile`
    raises.
    """
    named = _named(models)
    found = {
        name: compile(
            model,
            sram_kb=sram_kb,
            sram=sram,
            accelerator=accelerator,
            system_config=system_config,
            memory_mode=memory_mode,
            config=config,
            board=board,
            input_memory=input_memory,
            stream_input=stream_input,
            stream_ahead=stream_ahead,
            stream_output=stream_output,
            optimise=optimise,
            epsilon=epsilon,
            dead_channels=dead_channels,
            weight_encoder=weight_encoder,
            io=io,
            kernels=kernels,
            cmsis_nn=cmsis_nn,
            line_bytes=line_bytes,
            progress=one_of_many(progress, number, len(named)),
        )
        for number, (name, model) in enumerate(named.items())
    }
    return CompiledMany(FrozenMap(found))


def chosen(many: CompiledMany, options: COptions) -> Networks:
    """What writers of several networks take: the same choices for each, under its own name."""
    return [(one.artifact, replace(options, module_name=name)) for name, one in many.networks.items()]


def _named(models: Mapping[str, Model] | Sequence[Model]) -> dict[str, Model]:
    if not models:
        raise ConfigError("no models are given")
    if isinstance(models, Mapping):
        for name in models:
            COptions(module_name=name)
        return dict(models)
    found: dict[str, Model] = {}
    for model in models:
        name = "model" if isinstance(model, bytes) else module_identifier(Path(model).stem)
        if name in found:
            raise ConfigError(
                f"two models would be called {shown(name)} in C; give names, such as {{'first': ..., 'second': ...}}, "
                f"or rename a file"
            )
        found[name] = model
    return found
