"""Every error that a user of ethoscade can meet. Owns the types and their attributes, not the checks that raise them.

A message says what is wrong, where, which value, which limit, and what to do about it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_MOST_ECHOED = 200
_LONG_ECHO = re.compile(rf"(?<=')[^'\n]{{{_MOST_ECHOED + 1},}}(?=')|[^\s']{{{_MOST_ECHOED + 1},}}")


def shorten(message: str) -> str:
    """A message in which whatever is quoted, and each word, is cut to 200 characters: its beginning and its end."""
    half = _MOST_ECHOED // 2 - 2
    return _LONG_ECHO.sub(lambda echo: f"{echo[0][:half]}...{echo[0][-half:]}", message)


class EthoscadeError(Exception):
    """Base of every error that ethoscade raises for something outside its own control.

    All of them pickle and copy, with their attributes, whatever their constructors ask for: they pass from process to
    process.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(shorten(message))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[EthoscadeError], arguments: tuple[Any, ...], attributes: dict[str, Any]) -> EthoscadeError:
    """An error as it was, without what its constructor does."""
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(attributes)
    return error


class ModelFormatError(EthoscadeError):
    """The model file is damaged, truncated or contradicts itself.

    `operator` and `tensor` name the place where known, `value` is what was found there. `constraint` is the rule of
    whole files that is broken, None where a place breaks its own.
    """

    def __init__(
        self,
        message: str,
        *,
        operator: str | None = None,
        tensor: str | None = None,
        value: object = None,
        constraint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.operator = operator
        self.tensor = tensor
        self.value = value
        self.constraint = constraint


class UnsupportedOperatorError(EthoscadeError):
    """An operator can neither run on the NPU nor be kept for the CPU in the requested output."""

    def __init__(self, message: str, *, operator: str, constraint: str) -> None:
        super().__init__(message)
        self.operator = operator
        self.constraint = constraint


class ConfigError(EthoscadeError):
    """An option, an accelerator, a system configuration or a memory mode that does not exist or does not fit."""


@dataclass(frozen=True)
class AliveBuffer:
    """A buffer of which `live_bytes` of `size_bytes` are in use.

    `kind` is "tensor", "rolling", "weights" or "workspace"; `name` the tensor's, or the operator's whose weights or
    workspace it holds.
    """

    name: str
    kind: str
    live_bytes: int
    size_bytes: int


class BudgetError(EthoscadeError):
    """The network cannot run in the SRAM that was given.

    `floor_bytes` is the smallest budget that compiles; `operator` is the one whose buffers stand in the way; `alive`
    are all buffers in use at that operator's step of the smallest schedule, largest first.
    """

    def __init__(
        self,
        message: str,
        *,
        budget_bytes: int,
        floor_bytes: int,
        operator: str,
        alive: tuple[AliveBuffer, ...] = (),
    ) -> None:
        super().__init__(message)
        self.budget_bytes = budget_bytes
        self.floor_bytes = floor_bytes
        self.operator = operator
        self.alive = alive


class SchedulingError(EthoscadeError):
    """A schedule, or a problem of Parts and tensors, that does not hold together.

    `fault` names the rule that it breaks, in one word. Of the others those are set that apply. `part` and `tensor` are
    names, `group` is the number of a schedule's group, `decision` what a hand-written schedule says, `step`, `buffer`
    and `pixel` (row, column) a place in a program, `pool` the name of a memory; `value` is what was found, `expected`
    what works, `limit` the most.
    """

    def __init__(
        self,
        message: str,
        *,
        fault: str,
        part: str | None = None,
        tensor: str | None = None,
        group: int | None = None,
        decision: object = None,
        step: int | None = None,
        buffer: int | None = None,
        pool: str | None = None,
        pixel: tuple[int, int] | None = None,
        value: object = None,
        expected: object = None,
        limit: int | None = None,
    ) -> None:
        super().__init__(message)
        self.fault = fault
        self.part = part
        self.tensor = tensor
        self.group = group
        self.decision = decision
        self.step = step
        self.buffer = buffer
        self.pool = pool
        self.pixel = pixel
        self.value = value
        self.expected = expected
        self.limit = limit


class CodegenError(EthoscadeError):
    """An artefact could not be written: the emitter's limit, an output path, a clash of C names."""


class SimulationError(EthoscadeError):
    """The simulated NPU refused a payload or met an access that a device would not survive.

    `command` is the index of the command in the stream where known.
    """

    def __init__(self, message: str, *, command: int | None = None) -> None:
        super().__init__(message)
        self.command = command


class _ToolError(EthoscadeError):
    """An error that may be a tool's: `sentence` says what happened, `output` has the last lines of what it said."""

    def __init__(self, sentence: str, *, output: str = "") -> None:
        super().__init__(f"{sentence}:\n{output}" if output else sentence)
        self.sentence = shorten(sentence)
        self.output = output


class VerificationError(_ToolError):
    """The reference or the host C compiler that a verification needs is missing or failed."""


class ProjectError(_ToolError):
    """A project could not be made, built, flashed or run: a folder, a tool that is missing, a board that is silent."""


class SweepError(EthoscadeError):
    """A sweep cannot go on: its workers are gone, or are of another version."""
