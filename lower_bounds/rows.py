"""SRAM that whole rows take: an estimate of how lean schedules of a network can be.

Groups of consecutive operations run interleaved, one full row at a time, nothing is computed twice, and the
group's output grows into its dying input; the network needs the largest group, minimised over all partitions.
Two counts. "published" is the plain one: the main path without its residual adds, input rows that the chosen output row
depends on, output rows made, and of each tensor between as many rows as its consumer's kernel is high. "walked" plays
the rows in the order of demand, on the whole graph, and adds up what is alive: residuals, forks and tensors that others
wait for are counted. Neither is a law: stripes in width, recomputing and a better order go below them.
"""

from __future__ import annotations

import functools

from ethoscade import _core
from ethoscade.lowering.npu import NpuOperation, OperationKind
from ethoscade.scheduling.problem import Problem

# --- the plain count --------------------------------------------------------------------------------------------------


def main_path(operations: tuple[NpuOperation, ...]) -> list[NpuOperation]:
    """The longest chain of operations that ends in the last one; the adds on it left out."""
    makers = {operation.ofm.tensor: operation for operation in operations}

    @functools.cache
    def path(operation: NpuOperation) -> tuple[NpuOperation, ...]:
        before = (path(makers[view.tensor]) for view in operation.inputs if view.tensor in makers)
        return (*max(before, key=len, default=()), operation)

    longest = max((path(operation) for operation in operations), key=len)
    return [operation for operation in longest if operation.kind is not OperationKind.ADD]


def row_bytes(shape: tuple[int, int, int]) -> int:
    """Bytes of one row of an 8-bit feature map."""
    return shape[1] * shape[2]


def plain_group(chain: list[NpuOperation]) -> int:
    """Bytes of a chain that runs as one group."""
    made, read = chain[-1].ofm.shape, chain[0].inputs[0].shape
    between = [(operation.inputs[0].shape, operation.window.kernel_h) for operation in chain[1:]]
    inner = sum(min(kernel, shape[0]) * row_bytes(shape) for shape, kernel in between)
    peak = read[0] * row_bytes(read)
    for row in range(made[0]):
        oldest = row
        for operation in reversed(chain):
            oldest = max(oldest * operation.window.stride_h - operation.window.pad_top, 0)
        peak = max(peak, (read[0] - oldest) * row_bytes(read) + (row + 1) * row_bytes(made))
    return peak + inner


def plain_bound(chain: list[NpuOperation]) -> int:
    """The least over all partitions of a chain."""
    best = [0]
    for last in range(len(chain)):
        best.append(min(max(best[first], plain_group(chain[first : last + 1])) for first in range(last + 1)))
    return best[-1]


# --- walked -----------------------------------------------------------------------------------------------------------


class RowWalk:
    """Parts `first..last` of a problem run as a group, row by row in the order of demand; `peak` is most bytes alive.

    A row is alive from the step that makes it to the last step that reads it, both included.
    """

    def __init__(self, rows: Rows, first: int, last: int) -> None:
        self.rows, self.first, self.last = rows, first, last
        self.made = {t: 0 for part in range(first, last + 1) for t in rows.parts[part].outputs}
        self.next = dict.fromkeys(range(first, last + 1), 0)
        self.readers = {t: [c for c in rows.readers[t] if first <= c <= last] for t in range(len(rows.tensors))}
        inputs = {read.tensor for part in range(first, last + 1) for read in rows.parts[part].inputs}
        self.height = {t: rows.tensors[t].plane[0] for t in inputs | set(self.made)}
        self.made |= {t: self.height[t] for t in inputs if t not in self.made}
        # Whoever is wanted after the group stays whole; so does all that only passes by.
        self.stays = {t for t in self.made if rows.wanted_after(t, last)}
        self.oldest = dict.fromkeys(self.made, 0)
        passing = (t for t in range(len(rows.tensors)) if t not in self.made and rows.exists_across(t, first, last))
        self.alive = sum(rows.bytes_of(t) for t in passing)
        self.alive += sum(rows.bytes_of(t) for t in inputs if not rows.is_made_from(t, first))
        self.peak = self.alive
        (output,) = rows.parts[last].outputs
        for row in range(rows.tensors[output].plane[0]):
            self.make(last, row)

    def make(self, part: int, row: int) -> None:
        """Make everything up to this row of a Part's output."""
        (output,) = self.rows.parts[part].outputs
        while self.made[output] <= row:
            at = self.made[output]
            for read in self.rows.parts[part].inputs:
                maker = self.rows.maker[read.tensor]
                if maker is not None and maker >= self.first:
                    self.make(maker, self.rows.needs(part, read.tensor, at)[1] - 1)
            self.made[output] = at + 1
            self.alive += self.rows.row_bytes(output)
            self.peak = max(self.peak, self.alive)
            self.next[part] = at + 1
            for read in self.rows.parts[part].inputs:
                self.drop(read.tensor)

    def drop(self, tensor: int) -> None:
        """Let go of rows that nobody will read again."""
        if tensor in self.stays:
            return
        oldest = self.height[tensor]
        for reader in self.readers[tensor]:
            (output,) = self.rows.parts[reader].outputs
            if self.next[reader] < self.rows.tensors[output].plane[0]:
                oldest = min(oldest, self.rows.needs(reader, tensor, self.next[reader])[0])
        dead = min(oldest, self.made[tensor]) - self.oldest[tensor]
        if dead > 0:
            self.oldest[tensor] += dead
            self.alive -= dead * self.rows.row_bytes(tensor)


class Rows:
    """A problem as rows: who makes and reads each tensor, and which rows a row needs."""

    def __init__(self, problem: Problem) -> None:
        self.parts, self.tensors = problem.specs, problem.tensors
        self.maker: list[int | None] = [None] * len(self.tensors)
        self.readers: list[list[int]] = [[] for _ in self.tensors]
        for number, part in enumerate(self.parts):
            for tensor in part.outputs:
                self.maker[tensor] = number
            for read in part.inputs:
                self.readers[read.tensor].append(number)
        self.needs = functools.cache(self._needs)

    def row_bytes(self, tensor: int) -> int:
        """Bytes of a row."""
        spec = self.tensors[tensor]
        return spec.plane[1] * spec.pixel_bytes

    def bytes_of(self, tensor: int) -> int:
        """Bytes of a tensor."""
        return self.tensors[tensor].plane[0] * self.row_bytes(tensor)

    def is_made_from(self, tensor: int, first: int) -> bool:
        """Whether Part `first` or a later one makes the tensor."""
        maker = self.maker[tensor]
        return maker is not None and maker >= first

    def wanted_after(self, tensor: int, last: int) -> bool:
        """Whether anybody reads the tensor after Part `last`."""
        return self.tensors[tensor].is_output or any(reader > last for reader in self.readers[tensor])

    def exists_across(self, tensor: int, first: int, last: int) -> bool:
        """Whether the tensor was made before Part `first` and is wanted after Part `last`."""
        return not self.is_made_from(tensor, first) and self.wanted_after(tensor, last)

    def can_group(self, first: int, last: int) -> bool:
        """Whether the Parts can run interleaved: NPU operations with one output, each read inside the group."""
        if first == last:
            return True
        members = range(first, last + 1)
        inner = (self.readers[t] for part in range(first, last) for t in self.parts[part].outputs)
        return all(self.parts[p].kernel is not None and len(self.parts[p].outputs) == 1 for p in members) and all(
            any(reader <= last for reader in readers) for readers in inner
        )

    def alone(self, part: int) -> int:
        """Bytes alive while an opaque Part runs."""
        spec = self.parts[part]
        held = {read.tensor for read in spec.inputs} | set(spec.outputs)
        held |= {t for t in range(len(self.tensors)) if self.exists_across(t, part, part)}
        return sum(self.bytes_of(t) for t in held) + spec.workspace_bytes

    def _needs(self, part: int, tensor: int, row: int) -> tuple[int, int]:
        """Rows [start, end) of an input that one output row needs; all of them where the Part sees other rows."""
        spec = self.parts[part]
        read = next(read for read in spec.inputs if read.tensor == tensor)
        height = self.tensors[tensor].plane[0]
        if read.strides or read.plane[0] != height:
            return 0, height
        shape, start = _core.propagate(read.propagator, (1, 1, 1, 1), (0, row, 0, 0))
        return max(start[1], 0), min(start[1] + shape[1], height)


def walked_bound(problem: Problem) -> int:
    """The least over all partitions, every tensor counted."""
    rows = Rows(problem)
    best = [0]
    for last in range(len(problem.specs)):
        least = None
        for first in range(last, -1, -1):
            if least is not None and best[first] >= least:
                continue
            if not rows.can_group(first, last):
                continue
            opaque = rows.parts[last].kernel is None
            own = rows.alone(last) if opaque else RowWalk(rows, first, last).peak
            total = max(best[first], own)
            least = total if least is None else min(least, total)
        assert least is not None
        best.append(least)
    return best[-1]
