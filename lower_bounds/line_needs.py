"""Which lines of which tensors a Part needs: rows, or columns, in the order in which they are made.

Owns what follows from the reads of a problem's Parts alone. Knows neither groups nor bytes.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from ethoscade import _core
from ethoscade.scheduling.problem import Problem
from ethoscade.scheduling.specs import InputSpec, PartSpec

Lines = npt.NDArray[np.int64]
"""Numbers of lines, or bytes, by lines of some tensor."""

NEVER = 1 << 50
"""More lines, or bytes, than there are."""


@dataclass(frozen=True)
class Cut:
    """How a group is cut: the axis along which its lines follow each other, and whether from the far end on."""

    axis: int
    is_backwards: bool


@dataclass(frozen=True)
class Need:
    """What a Part needs of a tensor: with `n` lines made `until` which line, and for the others `since` which one.

    It needs none from `end` on itself; `until` may be more by way of others.
    """

    until: Lines
    since: Lines
    end: int


class LineNeeds:
    """What the Parts of one problem need."""

    def __init__(self, problem: Problem) -> None:
        self.parts, self.tensors = problem.specs, problem.tensors
        self.maker = {tensor: number for number, part in enumerate(self.parts) for tensor in part.outputs}
        self._known = functools.cache(self._find)
        self.need = functools.cache(self._find_need)
        self.through = functools.cache(self._find_through)

    def extent(self, tensor: int, axis: int) -> int:
        """Rows of a tensor, or columns."""
        return self.tensors[tensor].plane[axis]

    def spans(self, part: int, tensor: int, cut: Cut) -> tuple[Lines, Lines]:
        """Of each line of a Part's output the first line of a tensor that it needs, and one past the last.

        A line that needs nothing of it has `NEVER` and 0.
        """
        low, high = self._known(part, cut.axis)[tensor]
        if not cut.is_backwards:
            return low, high
        extent, needs = self.extent(tensor, cut.axis), high > 0
        return np.where(needs, extent - high, NEVER)[::-1], np.where(needs, extent - low, 0)[::-1]

    def _find_need(self, part: int, tensor: int, cut: Cut, wanted: tuple[int, int]) -> Need:
        """What the lines `wanted` of a Part's output need of a tensor, whatever its other lines do."""
        low, high = (lines.copy() for lines in self.spans(part, tensor, cut))
        for rest in (slice(0, wanted[0]), slice(wanted[1], None)):
            low[rest], high[rest] = NEVER, 0
        until = np.concatenate([[0], np.maximum.accumulate(high)])
        since = np.concatenate([np.minimum.accumulate(low[::-1])[::-1], [NEVER]])
        return Need(until, since, int(until[-1]))

    def _find_through(self, part: int, tensor: int, cut: Cut) -> Lines:
        """With `n` lines of a Part's output made, until which line a tensor is, by way of Parts between as well."""
        (output,) = self.parts[part].outputs
        made = {output: np.arange(self.extent(output, cut.axis) + 1)}
        for between in range(part, self.maker.get(tensor, -1), -1):
            outputs = self.parts[between].outputs
            if self.parts[between].kernel is None or outputs[0] not in made:
                continue
            for read in {read.tensor for read in self.parts[between].inputs}:
                _, high = self.spans(between, read, cut)
                if (np.diff(high[high > 0]) < 0).any():
                    # Lines that are made in another order than read: what is not wanted may ask for more.
                    continue
                until = np.concatenate([[0], np.maximum.accumulate(high)])[made[outputs[0]]]
                made[read] = np.maximum(made[read], until) if read in made else until
        return made.get(tensor, np.zeros_like(made[output]))

    def _find(self, part: int, axis: int) -> dict[int, tuple[Lines, Lines]]:
        """The spans of all tensors that a Part reads, from the near end on."""
        spec = self.parts[part]
        found: dict[int, tuple[Lines, Lines]] = {}
        count = self.extent(spec.outputs[0], axis)
        for read, (first, lines) in zip(spec.inputs, self._boxes(spec, axis), strict=True):
            low, high = np.full(count, NEVER), np.zeros(count, dtype=np.int64)
            for line in range(first, min(first + lines, count)):
                low[line], high[line] = self._span(read, axis, line - first)
            if read.tensor in found:
                low, high = np.minimum(low, found[read.tensor][0]), np.maximum(high, found[read.tensor][1])
            found[read.tensor] = low, high
        return found

    def _boxes(self, spec: PartSpec, axis: int) -> list[tuple[int, int]]:
        """First line of a Part's output, and how many, that are made of each of its reads."""
        if spec.kernel is None or not spec.kernel.joined:
            return [(0, self.extent(spec.outputs[0], axis))] * len(spec.inputs)
        boxes = ([(one.first[axis], one.plane[axis])] * _maps(one.operation.ifm2) for one in spec.kernel.joined)
        return [box for same in boxes for box in same]

    def _span(self, read: InputSpec, axis: int, line: int) -> tuple[int, int]:
        """First line of its tensor that a read needs for a line of what it makes, and one past the last."""
        extent, plane = self.extent(read.tensor, axis), self.tensors[read.tensor].plane
        at = (0, line, 0, 0) if axis == 0 else (0, 0, line, 0)
        shape, start = _core.propagate(read.propagator, (1, 1, 1, 1), at)
        first, count = (0, read.plane[axis]) if read.inside is None else (read.inside[0][axis], read.inside[1][axis])
        low, high = max(start[axis + 1], first), min(start[axis + 1] + shape[axis + 1], first + count)
        if low >= high:
            return NEVER, 0
        is_aligned = read.strides is None and read.plane[: axis + 1] == plane[: axis + 1]
        return (low, high) if is_aligned else (0, extent)


def _maps(second: str) -> int:
    """Tensors that an operation reads, by its second operand."""
    return 2 if second == "map" else 1
