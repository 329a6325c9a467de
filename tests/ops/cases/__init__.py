"""Networks of one operator by name: what the tests of operators run, each of every type that its family takes."""

from __future__ import annotations

from collections.abc import Callable

from graphs import GraphMaker

from .elementwise import ELEMENTWISE
from .moves import MOVES
from .reductions import REDUCTIONS
from .windows import WINDOWS

CASES: dict[str, Callable[[GraphMaker], object]] = {**WINDOWS, **ELEMENTWISE, **REDUCTIONS, **MOVES}
