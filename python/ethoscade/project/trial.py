"""A project on its board, compared with the reference: every output bit by bit, and what each call took.

Owns the `Trial`. The reference and the comparison are `judge.verification`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..ir import Array, Graph
from ..judge.verification import Observation, Verification, verify
from ..util.progress import Progress, Stopwatch
from ..util.records import dataclass
from .connection import CallTime, Connection
from .sections import Section, sections_of
from .template import Board, Project, Template


@dataclass(frozen=True)
class Trial:
    """What a trial found: the comparison, sections of the firmware, times of the last run's calls.

    `resent` counts the requests of the link that had to be sent again.
    """

    check: Verification
    sections: tuple[Section, ...]
    times: tuple[CallTime, ...]
    resent: int


def _observed(connection: Connection, board: Board, inputs: Mapping[str, Array]) -> Observation:
    """One run, with the hazards that the simulator reports where it plays the NPU."""
    known = 0 if board.npu is None else len(board.npu.hazards)
    outputs = connection.run(inputs)
    found = () if board.npu is None else board.npu.hazards[known:]
    return Observation(outputs, len(found), connection.description.arena_bytes, found)


def trial(
    project: Project,
    template: Template,
    source: Graph,
    seeds: int,
    runs: int | None = None,
    patience_seconds: float = 600,
    progress: Progress | None = None,
) -> Trial:
    """Build, start and compare on `seeds` random inputs, as `judge.verification.verify` does; `source` is the model.

    `progress` is called for the stages "build" and "run". Raises `ProjectError` for missing tools, a build that fails
    or a board that is silent, `VerificationError` where there is no reference.
    """
    watch = Stopwatch(progress, ("build", "run"))
    watch.begin("build")
    template.check_tools(to_run=True)
    elf = template.build(project)
    watch.begin("run")
    board = template.start(project)
    with Connection(board.stream, project.description, patience_seconds=patience_seconds, npu=board.npu) as connection:

        def execute(steps: Sequence[Mapping[str, Array]]) -> list[Observation]:
            if project.description.has_state:
                connection.reset()
            return [_observed(connection, board, inputs) for inputs in steps]

        check = verify(source, execute, seeds, runs=runs, tick=watch.tick)
        watch.end()
        return Trial(check, sections_of(Path(elf)), connection.time(), connection.resent)
