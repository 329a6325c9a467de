"""SRAM that no schedule of this compiler goes below, beside the floors that it reaches.

Owns the bound and its argument; runs nothing and prints nothing. What is used of a schedule:

1. Groups of at most `MOST_PARTS` consecutive Parts run one after the other, in one of the orders of operations that are
   searched. A tensor made before a group and read behind it is there as a whole meanwhile. An external input takes
   nothing. An operator on the CPU is a group of its own, and works on whole tensors.
2. A group is made in one band, or in one of `BAND_COUNTS`. In a band each line (row, or column where the output is
   wider than high) of each tensor is made once, in order, from the near end or from the far one, and is there until all
   lines of the band that read it are made. What arrives row by row is in groups of one band of rows, from the near end.
3. A tensor that lives in the group alone has a buffer for the lines, as long as the longest band needs them, that are
   there at once at most. It is in use as a whole while any line is there.
4. Rows of any other tensor are there from the first band that writes them, or before, until the last one has read them.
5. What is being made lies beside all that is read for it. This is not used where an output may lie over an operand, or
   is joined of pieces, nor are bands of groups with joined pieces.

Stripes may have any extents. Constants, rounding and gaps between buffers are not counted.

**A group's bound.** A state says of each tensor how many of its lines are made. A tensor with `m` lines made whose
reader has made `n` holds the lines up to `m` from the first one on that any line of the reader from `n` on needs, and
`m` is no less than what the `n` lines needed. Of several readers the last one counts, and with it what it needs of the
tensor by way of others; this leaves some of what is there out. So every tensor hangs on one reader, and the least bytes
of all states with a tensor at a given line follow by dynamic programming over these trees. While line `k` of a tensor
is made, this line is there, its readers have seen those before it at most, and what lines from `k` on need of its
operands is still there. In longer stripes more is made and less is dead. As each band makes each line once, it passes
such a state for each `k` of each tensor: the largest of these least sums bounds the group.

A group has the least of the bounds of its ways to be cut, a division of the Parts into groups the largest of its
groups' bounds, the network the least of all divisions, in all orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from ethoscade.pipeline.network import Network
from ethoscade.scheduling.problem import Problem

from .line_needs import NEVER, Cut, LineNeeds, Lines, Need

ALIGNMENT = 16
"""The arena's bytes are a multiple of this."""
BAND_COUNTS = (2, 3, 4, 6)
"""Bands that the search tries, each of two lines or more (`Options::tiles`)."""
MOST_PARTS = 40
"""Parts of the longest groups that the search tries (`Options::max_group`)."""


def sram_bound(network: Network) -> int:
    """Bytes that no schedule of a network takes less than, in any order of operations that is searched."""
    numbers = range(2 * len(network.orders))
    problems = {id(problem): problem for problem in (network.order(number).problem for number in numbers)}
    return min(problem_bound(problem) for problem in problems.values())


def problem_bound(problem: Problem) -> int:
    """The same of one order."""
    groups = GroupBounds(problem)
    least = least_division(groups, 0, lambda first, last, _: groups.at_ends(first, last))
    return -(-least_division(groups, least, groups.group) // ALIGNMENT) * ALIGNMENT


def least_division(groups: GroupBounds, known: int, bound: Callable[[int, int, int], int]) -> int:
    """The largest bound of a group in the division where that is least, or `known` where that is more.

    `bound` has the group's first and last Part, and from where on more is of no interest.
    """
    best = [known]
    for last in range(len(groups.parts)):
        least = NEVER
        for first in groups.firsts(last):
            if best[first] < least and groups.at_ends(first, last) < least:
                least = min(least, max(best[first], bound(first, last, least)))
            if least <= known:
                break
        best.append(least)
    return best[-1]


class GroupBounds:
    """The bounds of groups of one problem."""

    def __init__(self, problem: Problem) -> None:
        if any(part.take_rows is not None for part in problem.specs):
            raise ValueError("an output that is taken row by row is not bounded")
        self.needs = LineNeeds(problem)
        self.parts, self.tensors, self.maker = problem.specs, problem.tensors, self.needs.maker
        self.readers: list[list[int]] = [[] for _ in self.tensors]
        for number, part in enumerate(self.parts):
            for tensor in dict.fromkeys(read.tensor for read in part.inputs):
                self.readers[tensor].append(number)
        self._bytes = np.array([s.plane[0] * s.plane[1] * s.pixel_bytes * (s.external is None) for s in self.tensors])
        self._made = np.array([self.maker.get(tensor, -1) for tensor in range(len(self.tensors))])
        ends = (
            len(self.parts) if s.is_output else max(self.readers[t], default=-1) for t, s in enumerate(self.tensors)
        )
        self._last_use = np.array(list(ends))

    def firsts(self, last: int) -> Iterator[int]:
        """First Parts of groups that end with a Part, the last one first; an operator on the CPU is its own group."""
        yield last
        first = last - 1
        while self.parts[last].kernel is not None and first > last - MOST_PARTS and first >= 0:
            if self._is_opaque(first):
                break
            yield first
            first -= 1

    def bytes_of(self, tensor: int) -> int:
        """Bytes of SRAM that a tensor takes as a whole."""
        return int(self._bytes[tensor])

    def outlives(self, tensor: int, last: int) -> bool:
        """Whether anybody wants the tensor behind Part `last`."""
        return bool(self._last_use[tensor] > last)

    def beside(self, first: int, last: int) -> int:
        """Bytes of tensors that are there before the group, and still behind it."""
        return int(self._bytes[(self._made < first) & (self._last_use > last)].sum())

    def at_ends(self, first: int, last: int) -> int:
        """Bytes before the group or behind it, whichever are more."""
        before, behind = self._made < first, self._last_use > last
        dying = before & (self._last_use >= first) & ~behind
        kept = ~before & (self._made <= last) & behind
        return self.beside(first, last) + max(int(self._bytes[end].sum()) for end in (dying, kept))

    def dying(self, first: int, last: int) -> list[int]:
        """Tensors made before the group that it reads, and nobody behind it."""
        read = dict.fromkeys(read.tensor for part in self.parts[first : last + 1] for read in part.inputs)
        return [tensor for tensor in read if self.maker.get(tensor, -1) < first and not self.outlives(tensor, last)]

    def kept(self, first: int, last: int) -> list[int]:
        """Tensors that the group makes and somebody wants behind it."""
        made = (tensor for part in self.parts[first : last + 1] for tensor in part.outputs)
        return [tensor for tensor in made if self.outlives(tensor, last)]

    def group(self, first: int, last: int, enough: int) -> int:
        """What Parts `first..last` take at least as a group; of no interest from `enough` on."""
        ends, beside = self.at_ends(first, last), self.beside(first, last)
        if self._is_opaque(last):
            return max(ends, self._call(last))
        for cut, count in self._ways(first, last):
            if ends >= enough:
                break
            enough = min(enough, max(ends, beside + self._peak((first, last), cut, count, enough - beside)))
        return enough

    def shares(self, part: int) -> bool:
        """Whether a Part's output may lie over what it reads while it is made, or is made in pieces."""
        spec, kernel = self.parts[part], self.parts[part].kernel
        if kernel is None:
            return False
        (output,) = spec.outputs
        alike = any(self.bytes_of(read.tensor) == self.bytes_of(output) for read in spec.inputs)
        return bool(kernel.joined) or (alike and kernel.kind != "convolution" and kernel.kernel == (1, 1))

    def _is_opaque(self, part: int) -> bool:
        return self.parts[part].kernel is None and self.parts[part].feed_rows is None

    def _call(self, part: int) -> int:
        """An operator on the CPU: all that it reads and makes at once, less what may lie over what it reads."""
        spec = self.parts[part]
        read, made = ([self.bytes_of(t) for t in tensors] for tensors in (self.dying(part, part), spec.outputs))
        shared = 0 if spec.overlay is None else min(max(read, default=0), sum(made))
        return self.beside(part, part) + sum(read) + sum(made) + spec.workspace_bytes - shared

    def _ways(self, first: int, last: int) -> Iterator[tuple[Cut, int]]:
        """The ways to cut a group, each with its number of bands."""
        (output,) = self.parts[last].outputs
        plane = self.tensors[output].plane
        members = self.parts[first : last + 1]
        yield Cut(axis=0, is_backwards=False), 1
        if any(part.feed_rows is not None for part in members):
            return
        has_bands = self.kept(first, last) == [output]
        for axis in (0, 1) if plane[1] > plane[0] else (0,):
            counts = [count for count in BAND_COUNTS if has_bands and 2 * count <= plane[1 - axis]]
            for is_backwards in (False, True):
                yield from ((Cut(axis, is_backwards), count) for count in (1, *counts))

    def _peak(self, group: tuple[int, int], cut: Cut, count: int, enough: int) -> int:
        """What a group of `count` bands takes beside what only passes by, looking no further from `enough` on."""
        first, last = group
        if count > 1 and any(part.kernel is not None and part.kernel.joined for part in self.parts[first : last + 1]):
            return 0
        bands = [GroupStates(self, first, last, cut, band) for band in self._bands(last, 1 - cut.axis, count)]
        wanted = {tensor for band in bands for tensor in band.wanted}
        lengths = {t: max(band.length(t) for band in bands if t in band.wanted) for t in wanted}
        most = 0
        for band in bands:
            most = max(most, band.peak(lengths))
            if most >= enough:
                break
        return most

    def _bands(self, last: int, axis: int, count: int) -> Iterator[Band]:
        """The bands of a Part's output, as even as they can be; one that doubles its input begins with even lines."""
        kernel, extent = self.parts[last].kernel, self.needs.extent(self.parts[last].outputs[0], axis)
        unit = 1 if kernel is None or kernel.upscale == "none" else 2
        units = -(-extent // unit)
        edges = [min(units * number // count * unit, extent) for number in range(count + 1)]
        return (Band(edges[n], edges[n + 1], n == 0, n == count - 1) for n in range(count))


@dataclass(frozen=True)
class Band:
    """One band of a group's output: lines [begin, end) across the stripes, and whether it is the first, or the last."""

    begin: int
    end: int
    is_first: bool
    is_last: bool


class GroupStates:
    """The states of one group while it makes a band, cut in one way.

    `wanted` are the lines of each tensor that are made, `across` what of a line is, `needs` what the last reader of a
    tensor needs of it.
    """

    def __init__(self, bounds: GroupBounds, first: int, last: int, cut: Cut, band: Band) -> None:
        self.bounds, self.first, self.last, self.cut, self.band = bounds, first, last, cut, band
        self.kept, self.dying = set(bounds.kept(first, last)), set(bounds.dying(first, last))
        self.wanted: dict[int, tuple[int, int]] = {}
        self.across: dict[int, tuple[int, int]] = {}
        self.needs: dict[int, Need] = {}
        self.rolling: dict[int, int] = {}
        self.parent: dict[int, int] = {}
        self.children: dict[int, list[int]] = {}
        for tensor in self.kept:
            self.wanted[tensor] = (0, self._extent(tensor))
            self.across[tensor] = (0, bounds.needs.extent(tensor, 1 - cut.axis))
        self.across[bounds.parts[last].outputs[0]] = (band.begin, band.end)
        for part in range(last, first - 1, -1):
            self._hang(part)
        self.made = sorted(self.children, key=bounds.maker.__getitem__)
        self.line_bytes: dict[int, int] = {}
        self.messages: dict[int, Lines] = {}
        self.below: dict[int, Lines] = {}

    def length(self, tensor: int) -> int:
        """Pixels of a line of a tensor: of what is there as a whole, all of them."""
        low, high = self.across[tensor]
        if tensor in self.kept or tensor in self.dying:
            return self.bounds.needs.extent(tensor, 1 - self.cut.axis)
        return high - low

    def peak(self, lengths: Mapping[int, int]) -> int:
        """The largest of the least bytes of all lines of all tensors, whose buffers have lines of such lengths."""
        for tensor, length in lengths.items():
            spec = self.bounds.tensors[tensor]
            self.line_bytes[tensor] = 0 if spec.external is not None else length * spec.pixel_bytes
        for tensor in self.made:
            self.below[tensor] = self._states_below(tensor)
        above, tree = dict[int, Lines](), dict[int, int]()
        least = {t: int((self.below[t] + self._ending(t)).min()) for t in self.made if t not in self.parent}
        most = sum(least.values())
        for tensor in reversed(self.made):
            lines, parent = np.arange(self._extent(tensor) + 1), self.parent.get(tensor)
            if parent is None:
                tree[tensor], above[tensor] = tensor, self._ending(tensor)
                begun = above[tensor][1:]
            else:
                tree[tensor], rest = tree[parent], above[parent] + self.below[parent] - self.messages[tensor]
                above[tensor] = self._states_above(tensor, rest, lines, lines)
                begun = self._states_above(tensor, rest, lines[:-1], lines[1:])
            low, high = self.wanted[tensor]
            if low < high and not self.bounds.shares(self.bounds.maker[tensor]):
                own = begun + sum(self._message(child, 1) for child in self.children[tensor])
                most = max(most, sum(least.values()) - least[tree[tensor]] + int(own[low:high].max()))
        return most

    # --- which tensor hangs on which ----------------------------------------------------------------------------------

    def _hang(self, part: int) -> None:
        """Hang what a Part reads on what it makes, unless a later reader has it already."""
        bounds, other = self.bounds, Cut(1 - self.cut.axis, is_backwards=False)
        (output,) = bounds.parts[part].outputs
        if output not in self.wanted:
            return
        self.children[output] = []
        for tensor in dict.fromkeys(read.tensor for read in bounds.parts[part].inputs):
            if bounds.maker.get(tensor, -1) < self.first and tensor not in self.dying:
                continue
            need = bounds.needs.need(part, tensor, self.cut, self.wanted[output])
            beside = bounds.needs.need(part, tensor, other, self.across[output])
            if need.end == 0 or beside.end == 0:
                continue
            if tensor not in self.kept:
                for known, more in ((self.wanted, need), (self.across, beside)):
                    low, high = known.get(tensor, (NEVER, 0))
                    known[tensor] = min(low, int(more.since[0])), max(high, more.end)
            if tensor not in self.parent:
                self.parent[tensor] = output
                self.children[output].append(tensor)
                self.needs[tensor] = need = self._through(part, tensor, need)
                low, high = self.wanted[output]
                at_once = np.minimum(need.until[low + 1 : high + 1], need.end) - need.since[low:high]
                self.rolling[tensor] = int(at_once.max())

    def _through(self, part: int, tensor: int, need: Need) -> Need:
        """A Part's need of a tensor, with that by way of others that read it."""
        if sum(self.first <= reader <= self.last for reader in self.bounds.readers[tensor]) == 1:
            return need
        (output,) = self.bounds.parts[part].outputs
        until = self.bounds.needs.through(part, tensor, self.cut).copy()
        until[: self.wanted[output][0] + 1] = 0
        return replace(need, until=np.maximum(need.until, until))

    # --- bytes --------------------------------------------------------------------------------------------------------

    def _extent(self, tensor: int) -> int:
        return self.bounds.needs.extent(tensor, self.cut.axis)

    def _there(self, tensor: int, made: Lines, since: Lines) -> Lines:
        """Bytes of a tensor with lines up to `made` there, from `since` on wanted."""
        begin, end = self.wanted[tensor][0], self.needs[tensor].end
        if tensor in self.kept:
            end, since = self._extent(tensor), np.zeros_like(since)
        elif tensor in self.dying and not self.band.is_last:
            since = np.full_like(since, begin)
        count = np.maximum(np.minimum(made, end) - np.maximum(since, begin), 0)
        if self.cut.axis == 1 and (tensor in self.dying or tensor in self.kept):
            # Rows stay until their last column is read, and are there from the first one on.
            low, high = self.across[tensor]
            return np.where(count > 0, high - low, 0) * self.bounds.bytes_of(tensor) // self._height(tensor)
        if tensor not in self.dying and tensor not in self.kept:
            count = np.where(count > 0, np.maximum(count, self.rolling[tensor]), 0)
        there: Lines = count * self.line_bytes[tensor]
        return there

    def _ending(self, tensor: int) -> Lines:
        """Bytes of a tensor that nobody in the group reads, by its lines made."""
        lines, row_bytes = np.arange(self._extent(tensor) + 1), self.bounds.bytes_of(tensor) // self._height(tensor)
        if self.cut.axis == 1:
            low, high = self.across[tensor]
            return np.where(lines > 0, high, low) * row_bytes
        return lines * row_bytes if self.band.is_first else np.full_like(lines, self._height(tensor) * row_bytes)

    def _height(self, tensor: int) -> int:
        return self.bounds.tensors[tensor].plane[0]

    # --- states -------------------------------------------------------------------------------------------------------

    def _states_below(self, tensor: int) -> Lines:
        """By lines made of a tensor, the least bytes of all that hangs on it."""
        low, high = self.wanted[tensor]
        found = np.full(self._extent(tensor) + 1, NEVER)
        found[low : high + 1] = 0
        for child in self.children[tensor]:
            self.messages[child] = self._message(child, 0)
            found = found + self.messages[child]
        return found

    def _message(self, child: int, begun: int) -> Lines:
        """The least bytes of a tensor and all that hangs on it, by lines made of what it hangs on, and `begun` more."""
        need = self.needs[child]
        since, until = need.since[: len(need.since) - begun], need.until[begun:]
        lines = np.arange(self._extent(child) + 1)
        if child in self.dying:
            return self._there(child, lines[-1:], since)
        found = self._there(child, lines[None, :], since[:, None]) + self.below[child][None, :]
        least: Lines = np.where(lines[None, :] < until[:, None], NEVER, found).min(axis=1)
        return least

    def _states_above(self, tensor: int, rest: Lines, before: Lines, made: Lines) -> Lines:
        """The least bytes of a tensor and all that does not hang on it, where `rest` is that by its reader's lines.

        For each of its lines `made`, of which readers have those `before` at most.
        """
        need = self.needs[tensor]
        found = self._there(tensor, made[None, :], need.since[:, None]) + rest[:, None]
        least: Lines = np.where(need.until[:, None] > before[None, :], NEVER, found).min(axis=0)
        return least
