"""What a user may choose of the emitted C, as one frozen value that every writer passes on.

Owns the choices, their defaults and what refuses them. Writes no text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...errors import ConfigError
from ...util.arguments import shown
from ...util.records import dataclass
from ..artifact import Artifact

WORKSPACES = ("internal", "pools")
"""Who brings the arena: the sources, or the caller of each run by `struct tvmgen_<mod>_workspace_pools`."""

WEIGHTS = ("auto", "array", "incbin", "pool")
"""How weights come: as a C array, from a .bin file by an assembler file, from the caller; "auto" by their size."""

EXECUTORS = ("aot", "graph")
"""What else than the whole run there is: nothing, or a run call by call, by the graph that TVM's executor reads."""

INCBIN_ABOVE_BYTES = 256 * 1024
"""Of more weights than these "auto" makes a .bin file: as C text they take a compiler seconds."""

_MODULE_NAME = re.compile(r"[a-z0-9_]{1,200}")


@dataclass(frozen=True)
class COptions:
    """Choices of the emitted C. Raises `ConfigError` for a value that there is not.

    `module_name` is the `<mod>` of all names, None for the model's name in lower case. With `workspace` "pools" the
    caller hands the memory to every run, with `workspace_io` a run takes its inputs and leaves its outputs where
    `tvmgen_<mod>_map_inputs` and `_map_outputs` say. `weights` "pool" wants the caller's weights in the pools, too.
    `shares_arena` names an arena that several networks have in common, which another file defines. With `executor`
    "graph" there is a run call by call besides, and its graph as JSON.
    """

    module_name: str | None = None
    workspace: str = "internal"
    workspace_io: bool = False
    weights: str = "auto"
    shares_arena: bool = False
    executor: str = "aot"

    def __post_init__(self) -> None:
        if self.module_name is not None and not _MODULE_NAME.fullmatch(self.module_name):
            raise ConfigError(
                f"module_name is {shown(self.module_name)}; C names are made of it, so it takes lower-case letters, "
                f"digits and '_', at most 200"
            )
        for what, value, known in (
            ("workspace", self.workspace, WORKSPACES),
            ("weights", self.weights, WEIGHTS),
            ("executor", self.executor, EXECUTORS),
        ):
            if value not in known:
                raise ConfigError(f"{what} is {shown(value)}; choose {', '.join(known[:-1])} or {known[-1]}")
        if self.weights == "pool" and self.workspace != "pools":
            raise ConfigError("weights 'pool' come with the caller's memory: they need workspace 'pools'")

    @property
    def has_pools(self) -> bool:
        """Whether the caller brings the memory of each run."""
        return self.workspace == "pools"

    @property
    def has_graph(self) -> bool:
        """Whether a run can go call by call."""
        return self.executor == "graph"

    def weights_of(self, size_bytes: int) -> str:
        """How weights of this size come: "array", "incbin" or "pool"."""
        if self.weights != "auto":
            return self.weights
        return "incbin" if size_bytes > INCBIN_ABOVE_BYTES else "array"


DEFAULT = COptions()

Networks = Sequence[tuple[Artifact, COptions]]
"""Networks for one firmware, each with what is chosen of its C."""
