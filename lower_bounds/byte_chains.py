"""Chains of bytes through a network: which bytes of which tensors every way to run it must have.

From the network's output backwards every pixel hands the share of the whole that it stands for to pixels that it
surely reads, in order and as evenly as windows allow. So the whole is made of chains of bytes that run side by side,
one byte of every tensor of the **trunk** in each. Where the fullest pixel of a tensor has `1 / pixels` of the whole,
`w` of the chains have at least `w * pixels` pixels of it. If windows cover the plane evenly these are all its pixels;
a 1x1 kernel of stride 2 leaves a quarter.

Owns which reads depend on what. Knows neither cycles nor budgets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from ethoscade import _core
from ethoscade.scheduling.problem import Problem
from ethoscade.scheduling.specs import InputSpec, PartSpec

Shares = list[Fraction]
Spans = list[tuple[int, int]]


def handed_back(shares: Sequence[Fraction], windows: Spans, extent: int) -> Shares:
    """Shares of `extent` input rows: an output row hands its own to its window, in order, as evenly as may be."""
    found, passed = [Fraction(0)] * extent, Fraction(0)
    for share, (low, high) in zip(shares, windows, strict=True):
        at = passed
        passed += share
        while at < passed:
            row = int(at * extent)
            end = min(passed, Fraction(row + 1, extent))
            found[min(max(row, low), high - 1)] += end - at
            at = end
    return found


def reads_all_channels(spec: PartSpec, read: InputSpec) -> bool:
    """Whether each channel of the input feeds some of the output."""
    kernel = spec.kernel
    if kernel is None:
        return True
    bits = kernel.ifm_bits if read is spec.inputs[0] else kernel.ifm2_bits
    # One channel that is repeated has fewer bytes than all that is read.
    return not kernel.joined and 8 * read.pixel_bytes <= kernel.ifm_depth * bits


class ByteChains:
    """Shares of rows and columns by tensor, the Part that each tensor's chains go through next, and the trunk.

    `trunk` are the Parts from `source`, a network input, to the network's output; there are none where a split or a
    concatenation of channels is in the way. An opaque Part runs as a whole: all that it makes waits for all it reads.
    """

    def __init__(self, problem: Problem) -> None:
        self.parts, self.tensors = problem.specs, problem.tensors
        self.shares: dict[int, tuple[Shares, Shares]] = {}
        self.follower: dict[int, int] = {}
        for tensor, spec in enumerate(self.tensors):
            if spec.is_output:
                rows, columns = spec.plane
                self.shares[tensor] = ([Fraction(1, rows)] * rows, [Fraction(1, columns)] * columns)
        for part in reversed(range(len(self.parts))):
            self._hand_back(part)
        sources = [tensor for tensor, spec in enumerate(self.tensors) if spec.is_input and tensor in self.shares]
        self.source = max(sources, key=lambda tensor: len(list(self.onwards(tensor))), default=None)
        self.trunk = [] if self.source is None else list(self.onwards(self.source))

    def onwards(self, tensor: int) -> Iterator[int]:
        """Parts that a tensor's chains go through."""
        while tensor in self.follower:
            yield self.follower[tensor]
            tensor = self.parts[self.follower[tensor]].outputs[0]

    def feeds(self, part: int, end: int) -> bool:
        """Whether a Part is `end`, or the chains of its output go through it."""
        return part == end or end in self.onwards(self.parts[part].outputs[0])

    def pixels(self, tensor: int) -> Fraction:
        """Pixels of a tensor that all chains have at least; a share of them has at least that share."""
        return _pixels(self.shares[tensor])

    def handed_pixels(self, spec: PartSpec, read: InputSpec) -> Fraction:
        """The same for an input of a Part, as this Part hands its chains back."""
        return _pixels(self._handed(spec, read))

    def touched_pixels(self, spec: PartSpec, read: InputSpec) -> int:
        """Pixels of an input that a Part surely reads for all of its output that has chains."""
        sides = []
        for axis, shares in enumerate(self.shares[spec.outputs[0]]):
            windows = zip(self._windows(spec, read, axis), shares, strict=True)
            sides.append(len({row for (low, high), share in windows if share for row in range(low, high)}))
        return sides[0] * sides[1]

    def _hand_back(self, part: int) -> None:
        """Hand a Part's chains back to those of its inputs that no later reader spreads more evenly."""
        spec = self.parts[part]
        if not spec.outputs or spec.outputs[0] not in self.shares:
            return
        for read in spec.inputs:
            if not reads_all_channels(spec, read):
                continue
            shares, known = self._handed(spec, read), self.shares.get(read.tensor)
            if known is None or _pixels(shares) >= _pixels(known):
                self.shares[read.tensor] = shares
                self.follower[read.tensor] = part

    def _handed(self, spec: PartSpec, read: InputSpec) -> tuple[Shares, Shares]:
        plane = self.tensors[read.tensor].plane
        rows, columns = (
            handed_back(shares, self._windows(spec, read, axis), plane[axis])
            for axis, shares in enumerate(self.shares[spec.outputs[0]])
        )
        return rows, columns

    def _windows(self, spec: PartSpec, read: InputSpec, axis: int) -> Spans:
        """Rows (columns) [start, end) of an input that each row of the output surely needs, never none."""
        extent = self.tensors[read.tensor].plane[axis]
        count = self.tensors[spec.outputs[0]].plane[axis]
        # Whole rows are there for one that sees other columns.
        is_aligned = not read.strides and read.plane[: axis + 1] == self.tensors[read.tensor].plane[: axis + 1]
        if spec.kernel is None or not is_aligned:
            return [(0, extent)] * count
        dilation, found = spec.kernel.dilation[axis], []
        for row in range(count):
            at = (0, row, 0, 0) if axis == 0 else (0, 0, row, 0)
            shape, start = _core.propagate(read.propagator, (1, 1, 1, 1), at)
            taps = range(start[axis + 1], start[axis + 1] + shape[axis + 1], dilation)
            inside = [tap for tap in taps if 0 <= tap < extent]
            if not inside:
                # A row that is made of other inputs: nothing is known of which rows these chains begin with.
                return [(0, extent)] * count
            middle = inside[len(inside) // 2]
            found.append((inside[0], inside[-1] + 1) if dilation == 1 else (middle, middle + 1))
        return found


def _pixels(shares: tuple[Shares, Shares]) -> Fraction:
    return 1 / (max(shares[0]) * max(shares[1]))
