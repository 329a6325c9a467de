"""What a sweep asks: models, targets, budgets and options as frozen data, and the hash by which a question is known.

Owns what users may write for each of them, and what a question's content is. Asks nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from .._core import __version__
from ..codegen.streams import WEIGHT_ENCODERS
from ..errors import ConfigError
from ..pipeline.borders import INTERFACES
from ..pipeline.compiler import Model
from ..scheduling.schedule import EPSILON, resolution_of
from ..targets.boards import known_boards, names_board
from ..targets.target import NO_NPU, TARGETS, Target, budget_of, compilation_target
from ..util.arguments import exactly, shown
from ..util.records import dataclass

FLOOR, BALANCED, FASTEST, FRONTIER = "floor", "balanced", "fastest", "frontier"
BUDGET_WORDS = (FLOOR, BALANCED, FASTEST, FRONTIER)
"""Budgets that are no sizes: the least SRAM, the knee, the fastest schedule, and every point of the curve."""
_MOST_SECONDS = 1_000_000


Item = TypeVar("Item")


@dataclass(frozen=True)
class SweepTarget:
    """A target of a sweep, by the name that its rows have."""

    name: str
    target: Target


@dataclass(frozen=True)
class SweepOptions:
    """What changes results and is the same for a whole sweep; as for `ethoscade.compile`."""

    io: str = "float"
    epsilon: Fraction = EPSILON
    dead_channels: bool = True
    weight_encoder: str = WEIGHT_ENCODERS[0]

    def __str__(self) -> str:
        kept = "removed" if self.dead_channels else "kept"
        return f"io={self.io} epsilon={self.epsilon} dead_channels={kept} weight_encoder={self.weight_encoder}"


@dataclass(frozen=True)
class Inquiry:
    """The questions about one model on one target, which one search answers: a question for each budget.

    `data` are the model's bytes, so that machines without its file can answer. A question may take `timeout` seconds.
    `version` is ethoscade's where it was asked.
    """

    model: str
    data: bytes
    model_sha256: str
    target: SweepTarget
    budgets: tuple[str, ...]
    options: SweepOptions
    timeout: float | None = None
    version: str = __version__

    def question(self, budget: str) -> str:
        """The hash of all that an answer depends on."""
        content = (self.model_sha256, repr(self.target), budget, str(self.options), self.version)
        return hashlib.sha256("\n".join(content).encode()).hexdigest()


@dataclass(frozen=True)
class Questions:
    """All that a sweep asks. Models are read when their turn comes, and only then."""

    models: Mapping[str, Model]
    targets: tuple[SweepTarget, ...]
    budgets: tuple[str, ...]
    options: SweepOptions
    timeout: float | None

    def __len__(self) -> int:
        return len(self.models) * len(self.targets) * len(self.budgets)

    def of_model(self, name: str, data: bytes) -> Iterator[Inquiry]:
        """What is asked about one model, target by target."""
        digest = hashlib.sha256(data).hexdigest() if data else ""
        for target in self.targets:
            yield Inquiry(name, data, digest, target, self.budgets, self.options, self.timeout)


def models_of(models: Mapping[str, Model] | Sequence[Model]) -> Mapping[str, Model]:
    """Models by name: a mapping unchanged, paths by their files' names, or by the whole path where two are alike.

    Raises `ConfigError` for none, for bytes without a name and for what is neither path nor bytes.
    """
    if isinstance(models, Mapping):
        for name in models:
            if not isinstance(name, str):
                raise ConfigError(f"a model's name is {shown(name)}; it must be a text")
        if not models:
            raise ConfigError("no models are given")
        return models
    wanted = "give a list of paths, or a mapping from names to models"
    paths = [_path_of(model) for model in _listed(models, "models", wanted)]
    if not paths:
        raise ConfigError("no models are given")
    paths = list(dict.fromkeys(paths))
    stems = [Path(path).stem for path in paths]
    return {stem if stems.count(stem) == 1 else path: path for stem, path in zip(stems, paths, strict=True)}


def _path_of(model: object) -> str:
    if isinstance(model, bytes):
        raise ConfigError("a model in bytes has no name; give a mapping from names to models")
    try:
        return os.fsdecode(model)  # type: ignore[arg-type]
    except TypeError:
        raise ConfigError(f"a model is {shown(model)}; it must be a path") from None


def targets_of(targets: Sequence[str], config: str | os.PathLike[str] | None = None) -> tuple[SweepTarget, ...]:
    """Targets by their names: ACCELERATOR, ACCELERATOR/SYSTEM_CONFIG, that and /MEMORY_MODE, or a board's.

    An accelerator may be a pattern such as "ethos-u55-*", a board a TOML file. `config` is a vela.ini. Raises
    `ConfigError` for names that there are not.
    """
    found: dict[SweepTarget, None] = {}
    for text in _texts(targets, "targets", "ethos-u55-128"):
        for one in _boards(text, config) or _accelerators(text, config):
            found[one] = None
    return tuple(found)


def _boards(text: str, config: str | os.PathLike[str] | None) -> list[SweepTarget]:
    """The board of that name or file, if it is one."""
    if not names_board(text):
        return []
    target = compilation_target(config=config, board=text)
    assert target.board is not None, "one was asked for by name"
    # What the board's table says of its sources is nothing that an answer depends on.
    return [SweepTarget(target.board.name, replace(target, board=None))]


def _accelerators(text: str, config: str | os.PathLike[str] | None) -> list[SweepTarget]:
    pattern, *rest = text.split("/")
    if len(rest) > 2:
        raise ConfigError(f"target {shown(text)} has more parts than ACCELERATOR/SYSTEM_CONFIG/MEMORY_MODE")
    system, mode = (part or None for part in (*rest, None, None)[:2])
    found = []
    for name in [name for name in TARGETS if fnmatchcase(name, pattern)] or [pattern]:
        if name not in TARGETS:
            raise ConfigError(f"there is no target {shown(text)}; known are {', '.join((*TARGETS, *known_boards()))}")
        target = compilation_target(name, system, mode, None if name == NO_NPU else config)
        label = f"{name}/{target.system_config}/{target.memory_mode}" if target.has_npu else name
        found.append(SweepTarget(label, target))
    return found


def budgets_of(budgets: Sequence[str | int]) -> tuple[str, ...]:
    """Budgets as questions have them: "floor", "fastest", "frontier", or bytes as a number.

    Raises `ConfigError` for anything else.
    """
    if isinstance(budgets, (str, int)):
        budgets = [budgets]
    wanted = f"give a list of {', '.join(BUDGET_WORDS)} and sizes"
    given = list(_hashable(_listed(budgets, "budgets", wanted)))
    try:
        found = dict.fromkeys(one if one in BUDGET_WORDS else str(budget_of(one)) for one in given)
    except ConfigError as error:
        raise ConfigError(f"{error}, or one of {', '.join(BUDGET_WORDS)}") from None
    if not found:
        raise ConfigError("no budgets are given")
    return tuple(found)


def _listed(given: Iterable[Item], what: str, wanted: str) -> list[Item]:
    """The items of a list, or of whatever is gone through like one."""
    if not isinstance(given, (str, bytes, memoryview, os.PathLike, Mapping)):
        with contextlib.suppress(TypeError):
            return list(given)
    raise ConfigError(f"{what} is {shown(given)}; {wanted}")


def _hashable(budgets: Iterable[str | int]) -> Iterator[str | int]:
    for one in budgets:
        if isinstance(one, bool) or not isinstance(one, (str, int)):
            raise ConfigError(f"a budget is {shown(one)}; write {', '.join(BUDGET_WORDS)} or a size such as 300KiB")
        yield one


def options_of(
    io: str, epsilon: float | Fraction, dead_channels: bool, weight_encoder: str, timeout: float | None
) -> tuple[SweepOptions, float | None]:
    """Options and seconds that were checked. Raises `ConfigError`."""
    for what, value, known in (("io", io, INTERFACES), ("weight_encoder", weight_encoder, WEIGHT_ENCODERS)):
        if value not in known:
            raise ConfigError(f"{what} is {shown(value)}; choose {' or '.join(known)}")
    resolution = resolution_of(epsilon)
    if timeout is not None:
        seconds = exactly(timeout)
        if seconds is None or not 0 < seconds <= _MOST_SECONDS:
            raise ConfigError(
                f"timeout is {shown(timeout)}; it must be a number of seconds, above 0 and at most {_MOST_SECONDS:,}"
            )
        timeout = float(seconds)
    finest = Fraction(1, resolution) if resolution else Fraction(0)
    return SweepOptions(io, finest, dead_channels, weight_encoder), timeout


def _texts(given: Sequence[str], what: str, example: str) -> tuple[str, ...]:
    texts = (given,) if isinstance(given, str) else given
    if not isinstance(texts, (tuple, list)) or not all(isinstance(text, str) for text in texts):
        raise ConfigError(f"{what} is {shown(given)}; give a list of names such as {example!r}")
    if not texts:
        raise ConfigError(f"no {what} are given")
    return tuple(texts)
