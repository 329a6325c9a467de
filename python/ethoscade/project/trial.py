"""A project on its board, compared with the reference: every output bit by bit, and what each call took.

Owns the `Trial`. The reference and the comparison are `judge.verification`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..ir import Array, Graph
from ..judge.verification import Observation, Verification, verify
from .connection import CallTime, Connection
from .sections import Section, sections_of
from .template import Project, Template


@dataclass(frozen=True)
class Trial:
    """What a trial found: the comparison, sections of the firmware, times of the last run's calls.

    `resent` counts the requests of the link that had to be sent again.
    """

    check: Verification
    sections: tuple[Section, ...]
    times: tuple[CallTime, ...]
    resent: int


def trial(
    project: Project,
    template: Template,
    source: Graph,
    seeds: int,
    runs: int | None = None,
    patience_seconds: float = 600,
) -> Trial:
    """Build, start and compare on `seeds` random inputs, as `judge.verification.verify` does; `source` is the model.

    Raises `ProjectError` for missing tools, a build that fails or a board that is silent, `VerificationError` where
    there is no reference.
    """
    template.check_tools(to_run=True)
    elf = template.build(project)
    board = template.start(project)
    with Connection(board.stream, project.description, patience_seconds=patience_seconds, npu=board.npu) as connection:

        def execute(steps: Sequence[Mapping[str, Array]]) -> list[Observation]:
            if project.description.has_state:
                connection.reset()
            arena = project.description.arena_bytes
            return [Observation(connection.run(inputs), 0, arena) for inputs in steps]

        check = verify(source, execute, seeds, runs=runs)
        return Trial(check, sections_of(Path(elf)), connection.time(), connection.resent)
