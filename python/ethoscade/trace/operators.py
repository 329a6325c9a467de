"""Which kernels of an unlabelled stream belong together: stripes of one operator, operators of one cascade.

Owns the two guesses. The first is from registers: stripes of an operator differ in where they read and write and in
their rows; they share all else, the weights first of all. The second is from order: operators of a cascade take turns.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from .. import _core
from ..run.timing import TimingReport
from ..util.records import dataclass
from .record import STARTS, OperationContext

# What stripes of one operator share. Blocks, rows, padding and places differ from stripe to stripe.
_SHARED = (
    "IFM_DEPTH_M1", "IFM_PRECISION", "IFM_ZERO_POINT", "OFM_DEPTH_M1", "OFM_WIDTH_M1", "OFM_PRECISION",
    "OFM_ZERO_POINT", "ACTIVATION", "ACTIVATION_MIN", "ACTIVATION_MAX",
)  # fmt: skip
_WINDOW = ("KERNEL_HEIGHT_M1", "KERNEL_WIDTH_M1", "KERNEL_STRIDE")
_SHARED_BY_KIND: Mapping[str, tuple[str, ...]] = {
    "OP_CONV": _WINDOW,
    "OP_DEPTHWISE": _WINDOW,
    "OP_POOL": (*_WINDOW, "OFM_SCALE"),
    "OP_ELEMENTWISE": ("OFM_SCALE", "OPA_SCALE", "OPB_SCALE", "IFM2_ZERO_POINT", "IFM2_SCALAR", "IFM2_BROADCAST"),
}
_WEIGHTED = frozenset({"OP_CONV", "OP_DEPTHWISE"})
_TRANSFER = "OP_DMA_START"
# The number of a region, or SHRAM.
_ANY_REGION = 0x107


def told_by_stream(payload: bytes, report: TimingReport, labels: Sequence[str]) -> tuple[OperationContext, ...]:
    """What is known of each operation; `labels` name their operators, and are empty where unknown."""
    stream = _core.read_stream(payload)
    commands = [command for command in stream if command.name in STARTS]
    own = [command.label for command in report.commands if command.bound != "waiting"]
    names = list(labels) or _inferred(_seen(stream), own)
    kernels = [command.name != _TRANSFER for command in commands]
    cascades = cascades_of([name for name, kernel in zip(names, kernels, strict=True) if kernel])
    return tuple(OperationContext(name, cascades.get(name)) for name in names)


def cascades_of(order: Sequence[str]) -> dict[str, int]:
    """The cascades, from 1, of operators whose kernels run in this order: those that take turns are in one."""
    spans: dict[str, tuple[int, int]] = {}
    for at, name in enumerate(order):
        spans[name] = (spans.get(name, (at, at))[0], at)
    groups: list[tuple[int, list[str]]] = []
    for name, (first, last) in spans.items():
        if groups and first < groups[-1][0]:
            end, members = groups[-1]
            groups[-1] = (max(end, last), [*members, name])
        else:
            groups.append((last, [name]))
    together = [members for _, members in groups if len(members) > 1]
    return {name: number for number, members in enumerate(together, start=1) for name in members}


def _inferred(kernels: Sequence[_SeenKernel | None], labels: Sequence[str]) -> list[str]:
    """A name for each operation: that of the first kernel of its operator; none for transfers."""
    seen = [(at, kernel) for at, kernel in enumerate(kernels) if kernel is not None]
    spans: dict[Hashable, list[int]] = {}
    for place, (_, kernel) in enumerate(seen):
        if kernel.is_weighted:
            spans.setdefault(kernel.key, []).append(place)
    inside = _inside([(of[0], of[-1]) for of in spans.values() if len(of) > 1], len(seen))
    _join_neighbours([kernel for _, kernel in seen], inside)
    names = [""] * len(kernels)
    first: dict[Hashable, str] = {}
    for (at, kernel), cascade in zip(seen, inside, strict=True):
        # Two like operators without weights are one only if stripes of others show that a cascade runs around them.
        whose = kernel.key if kernel.is_weighted else (kernel.key, cascade)
        names[at] = first.setdefault(whose, labels[at])
    return names


def _join_neighbours(kernels: Sequence[_SeenKernel], inside: list[int]) -> None:
    """Kernels without weights next to each other are stripes of one, unless one reads or makes what the other made.

    At the ends of a cascade they belong to it, if it has stripes of theirs.
    """
    present = {(kernel.key, cascade) for kernel, cascade in zip(kernels, inside, strict=True)}
    alone = [not kernel.is_weighted and inside[at] == at for at, kernel in enumerate(kernels)]
    for order, step in ((range(len(kernels) - 2, -1, -1), 1), (range(1, len(kernels)), -1)):
        for at in order:
            if not alone[at]:
                continue
            one, other = kernels[at], kernels[at + step]
            early, late = (one, other) if step > 0 else (other, one)
            alike = one.key == other.key and early.made_at not in (late.made_at, *late.read_at)
            if alike or (not alone[at + step] and (one.key, inside[at + step]) in present):
                inside[at] = inside[at + step]


@dataclass(frozen=True)
class _SeenKernel:
    """What a kernel shares with other stripes of its operator, and where the first tiles of its feature maps lie."""

    key: Hashable
    is_weighted: bool
    made_at: int
    read_at: tuple[int, ...]


def _seen(stream: Sequence[_core.StreamCommand]) -> list[_SeenKernel | None]:
    """The kernels of a stream; None for each transfer."""
    registers: dict[str, int] = {}
    copies: list[_CopiedBytes] = []
    found: list[_SeenKernel | None] = []
    for command in stream:
        # Waits stand between what is set for a kernel and the kernel.
        registers |= dict(command.registers)
        if command.name not in STARTS:
            continue
        if command.name == _TRANSFER:
            copies.append(_CopiedBytes.told_by(registers))
            found.append(None)
            continue
        shared = [registers.get(register) for register in (*_SHARED, *_SHARED_BY_KIND[command.name])]
        weighted = command.name in _WEIGHTED
        weights = [_origin(registers, copies, of) for of in ("WEIGHT", "SCALE") if weighted]
        read = tuple(registers.get(base, -1) for base in ("IFM_BASE0", "IFM2_BASE0"))
        key = (command.name, command.parameter, *shared, *weights)
        found.append(_SeenKernel(key, weighted, registers.get("OFM_BASE0", 0), read))
    return found


@dataclass(frozen=True)
class _CopiedBytes:
    """What a transfer brought: a number of bytes to `start` of a region, from `source`, a region and its byte."""

    region: int
    start: int
    size: int
    source: tuple[int, int]

    @classmethod
    def told_by(cls, registers: Mapping[str, int]) -> _CopiedBytes:
        source, destination = (registers.get(f"DMA0_{end}_REGION", 0) & _ANY_REGION for end in ("SRC", "DST"))
        start, size = registers.get("DMA0_DST", 0), registers.get("DMA0_LEN", 0)
        return cls(destination, start, size, (source, registers.get("DMA0_SRC", 0)))


def _origin(registers: Mapping[str, int], copies: Sequence[_CopiedBytes], constants: str) -> tuple[int, int]:
    """Region and byte where weights or scales are stored: places to which they are copied serve one after another."""
    region, start = registers.get(f"{constants}_REGION", 0) & _ANY_REGION, registers.get(f"{constants}_BASE", 0)
    for copy in reversed(copies):
        if copy.region == region and copy.start <= start < copy.start + copy.size:
            return copy.source[0], copy.source[1] + start - copy.start
    return region, start


def _inside(spans: Sequence[tuple[int, int]], count: int) -> list[int]:
    """For each position a number that positions share if one span after the other leads from one to the other."""
    found = list(range(count))
    reached = start = -1
    for first, last in sorted(spans):
        if first > reached:
            start = first
        reached = max(reached, last)
        for at in range(first, reached + 1):
            found[at] = start
    return found
