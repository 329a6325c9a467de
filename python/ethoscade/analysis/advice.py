"""What would help a network: each piece of advice with what was found, in figures, and the change that follows from it.

Owns the rules of advice, one function each, and their order: what costs most first. A rule reads the network as it was
prepared and its operators' costs layer by layer; it never guesses a gain that it has not counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from fractions import Fraction

from ..codegen.artifact import Artifact
from ..codegen.weights import EncodedOperation
from ..ir import DType, Graph, Operator
from ..lowering import FAMILIES
from ..lowering.npu import NpuGraph, NpuOperation, OperationKind
from ..rewrites import DeadChannels
from ..targets.target import Memory, Target
from ..util.records import dataclass
from .explanation import Peak, short
from .table import OperatorRow, OperatorSummary, OperatorTable

_WORTH = Fraction(1, 50)
"""Share of the network's cycles from which advice about them is given."""
_NAMED = 3
"""Operators that one piece of advice names; `operators` has all."""


_MOVES = frozenset(
    {
        "CONCATENATION", "GATHER", "MIRROR_PAD", "PACK", "PAD", "PADV2", "RESHAPE", "REVERSE_V2", "SLICE", "SPLIT",
        "SPLIT_V", "STRIDED_SLICE", "TILE", "TRANSPOSE", "UNPACK",
    }
)  # fmt: skip
"""Kinds that compute nothing."""


@dataclass(frozen=True)
class Advice:
    """One piece of advice: its topic, what was `found`, the `change` that would help, and whom it is about.

    `cycles` are those of the operators that it is about, layer by layer; 0 where it is about bytes or the CPU. They
    bound what the change can gain.
    """

    topic: str
    found: str
    change: str
    operators: tuple[str, ...]
    cycles: int = 0


@dataclass(frozen=True, eq=False)
class CheckedNetwork:
    """A prepared network with what it costs layer by layer: what rules read.

    `float_borders` has each operator between a float input or output and its quantised counterpart, with these two.
    """

    graph: Graph
    target: Target
    npu: NpuGraph
    encoded: Sequence[EncodedOperation]
    operators: Sequence[OperatorSummary]
    table: OperatorTable
    artifact: Artifact
    peak: Peak
    float_borders: Mapping[int, tuple[int, int]]

    @property
    def rows(self) -> Iterator[tuple[Operator, OperatorRow]]:
        """Each operator of the graph with its row, in execution order."""
        return ((self.graph.operators[of.index], row) for of, row in zip(self.operators, self.table.rows, strict=True))

    @property
    def weight_bytes(self) -> int:
        """The fewest bytes of constants that a schedule brings: each once, in the shortest of its encodings."""
        least: dict[Hashable, int] = {}
        for encoded in self.encoded:
            if encoded.whole is not None:
                ways = [encoded.whole, *([] if encoded.staged is None else [encoded.staged])]
                sizes = [way.weights.length_bytes for way in ways]
                sizes += [sum(part.weights.length_bytes for part in encoded.slices)] if encoded.slices else []
                least[encoded.whole.weights.content] = min(sizes)
                least[encoded.whole.scales] = len(encoded.whole.scales)
        return sum(least.values())

    @property
    def weight_cycles(self) -> int:
        """Cycles that the memory of the constants takes for these bytes; 0 where that is the SRAM."""
        if self.target.constants_in_sram or not self.table.cycles:
            return 0
        return math.ceil(self.weight_bytes / Fraction(*self.target.constants.bytes_per_cycle))

    def share(self, cycles: int) -> str:
        """Cycles as a share of the network's, in words."""
        return f"{100 * cycles / self.table.cycles:.1f} % of the cycles"

    def worth(self, cycles: int) -> bool:
        """Whether this number of cycles is worth a word."""
        return cycles > 0 and cycles >= _WORTH * self.table.cycles


def advise(looked: CheckedNetwork, dead: Sequence[DeadChannels]) -> tuple[Advice, ...]:
    """All advice: first about the CPU and the borders, then by the cycles at stake, then about bytes."""
    first = [*_refused(looked), *_cut_in_parts(looked), *_float_borders(looked)]
    about_cycles = [
        *_weights(looked), *_bound_by_tensors(looked), *_idle_lanes(looked), *_depthwise(looked),
        *_sixteen_bits(looked), *_last_function(looked), *_moves(looked),
    ]  # fmt: skip
    about_cycles.sort(key=lambda advice: -advice.cycles)
    return (*first, *about_cycles, *_dead_channels(dead), *_largest_step(looked))


# --- what the NPU does not run ----------------------------------------------------------------------------------------


def _refused(looked: CheckedNetwork) -> Iterator[Advice]:
    """Operators on the CPU: those that compute floats together, others by kind and reason; none at float borders."""
    graph = looked.graph
    on_cpu = [
        (graph.operators[of.index], of.reason)
        for of in looked.operators
        if of.where == "cpu" and of.index not in looked.float_borders and looked.target.has_npu
    ]
    known = {*FAMILIES, *_CONVERSIONS}
    strangers = {t for op, _ in on_cpu if op.kind not in known for t in (*op.inputs, *op.outputs)}
    floats = [op for op, _ in on_cpu if op.kind in known and _float_tensors(graph, op)]
    # What only brings floats to or from an operator that nobody runs on an NPU goes where that operator goes.
    alone = [op for op in floats if op.kind not in _CONVERSIONS or not strangers & _float_tensors(graph, op)]
    if alone:
        names, kinds = tuple(op.name for op in alone), Counter(op.kind for op in alone)
        told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        yield Advice(
            "on the CPU",
            f"floats are computed between the network's quantised parts: {told} ({_some(names)})",
            "quantise them as well: full-integer quantisation after training, with a representative data set, leaves "
            "no floats inside",
            names,
        )
    groups: dict[tuple[str, str], list[str]] = {}
    for op, reason in on_cpu:
        if op not in floats:
            groups.setdefault((op.kind, reason), []).append(op.name)
    for (kind, reason), of_group in groups.items():
        found = f"{kind} stays on the CPU ({_some(of_group)}): {reason}"
        yield Advice("on the CPU", found, _way_out(kind), tuple(of_group))


_CONVERSIONS = ("QUANTIZE", "DEQUANTIZE")


def _float_tensors(graph: Graph, operator: Operator) -> set[int]:
    touched = {t for t in (*operator.inputs, *operator.outputs) if t is not None}
    return {t for t in touched if graph.tensors[t].dtype.is_float}


def _way_out(kind: str) -> str:
    if kind in FAMILIES:
        return f"change the value that the reason names so that it keeps the limit; docs/support.md has all of {kind}'s"
    return (
        f"no form of {kind} runs on the NPU: build it of operators that do (docs/support.md), or end the network "
        f"before it and compute the rest in firmware"
    )


def _cut_in_parts(looked: CheckedNetwork) -> Iterator[Advice]:
    """Operators on the CPU between two programs of the NPU."""
    rows = looked.table.rows
    on_npu = [number for number, row in enumerate(rows) if row.operations]
    between = [row for row in rows[on_npu[0] : on_npu[-1]] if row.where == "cpu"] if on_npu else []
    if between:
        names = tuple(row.name for row in between)
        what = "operator on the CPU stands" if len(names) == 1 else "operators on the CPU stand"
        yield Advice(
            "NPU programs",
            f"{len(names)} {what} between operators of the NPU ({_some(names)}): no cascade crosses them, their "
            f"tensors are whole in SRAM, and the CPU waits for the NPU before each",
            "move them to an end of the network, or replace them as said of each",
            names,
        )


def _float_borders(looked: CheckedNetwork) -> Iterator[Advice]:
    """Float inputs and outputs that the caller could quantise."""
    graph, borders = looked.graph, looked.float_borders
    if not borders:
        return
    outside = [graph.tensors[tensor] for tensor, _ in borders.values()]
    floats = sum(tensor.size_bytes for tensor in outside)
    quantised = sum(graph.tensors[tensor].size_bytes for _, tensor in borders.values())
    yield Advice(
        "float borders",
        f"{_some([tensor.name for tensor in outside])} {'are' if len(outside) > 1 else 'is'} float: {floats:,} bytes, "
        f"{quantised:,} if quantised; the CPU converts {sum(math.prod(tensor.shape) for tensor in outside):,} elements",
        'compile with --io int8 (io="int8"): the caller brings and takes quantised tensors, scales and zero points are '
        "told",
        tuple(graph.operators[operator].name for operator in borders),
    )


# --- what bounds the NPU ----------------------------------------------------------------------------------------------


def _weights(looked: CheckedNetwork) -> Iterator[Advice]:
    """Weights that take longer to bring than half of everything else takes."""
    memory, cycles = looked.target.constants, looked.weight_cycles
    if 2 * cycles <= looked.table.cycles or not looked.table.cycles:
        return
    sizes: dict[str, int] = {}
    for place in looked.artifact.constant_places:
        sizes[place.operator] = sizes.get(place.operator, 0) + place.size_bytes
    largest = sorted(sizes, key=lambda name: -sizes[name])
    most = ", ".join(f"'{short(name)}' {sizes[name]:,}" for name in largest[:_NAMED])
    slower = cycles > looked.table.cycles
    yield Advice(
        "bound by weights",
        f"the weights are {looked.weight_bytes:,} bytes, which {memory.name} brings in {cycles:,} cycles at best, "
        f"beside {looked.table.cycles:,} of everything else: "
        + ("no schedule is faster than that" if slower else "they hide only behind copies that run all the time"),
        f"fewer weights, most of which are of {most}; a memory for them with more bytes a cycle than "
        f"{float(Fraction(*memory.bytes_per_cycle)):g}",
        tuple(largest),
        cycles,
    )


def _bound_by_tensors(looked: CheckedNetwork) -> Iterator[Advice]:
    """Operators that wait for feature maps."""
    memory = looked.target.arena
    found = [row for row in looked.table.rows if row.bound == memory.name and row.kind not in _MOVES]
    if not looked.worth(cycles := sum(row.cycles for row in found)):
        return
    moved = sum(row.read_bytes.get(memory.name, 0) + row.written_bytes.get(memory.name, 0) for row in found)
    macs, engine = sum(row.macs for row in found), sum(row.engine_cycles for row in found)
    yield Advice(
        "bound by tensors",
        f"{_some(_by_cost(found))} {_take(found)} {looked.share(cycles)}, {cycles:,}, for moving {moved:,} bytes "
        f"through {memory.name}: only {macs / max(moved, 1):.1f} MACs per byte moved; the NPU needs "
        f"{_balance(looked, memory):.0f} to be compute-bound; without that wait it would be {engine:,}",
        "fewer channels or a smaller plane before them: halving both sides of a plane quarters these bytes",
        _by_cost(found),
        cycles,
    )


def _balance(looked: CheckedNetwork, memory: Memory) -> float:
    """Multiply-accumulates per byte of a memory from which on an operator is compute-bound."""
    bytes_per_cycle = Fraction(*memory.bytes_per_cycle)
    return float(looked.target.accelerator.macs / bytes_per_cycle)


def _idle_lanes(looked: CheckedNetwork) -> Iterator[Advice]:
    """Convolutions whose channels do not fill the multipliers: counted by the rules of docs/timing.md."""
    for operation, encoded in zip(looked.npu.operations, looked.encoded, strict=True):
        row = next(
            row for of, row in zip(looked.operators, looked.table.rows, strict=True) if of.index == operation.operator
        )
        if operation.kind is not OperationKind.CONVOLUTION or encoded.whole is None or not row.macs:
            continue
        lanes = _Lanes.of(operation, looked.target, encoded.whole.choice.part_kernel)
        wasted = row.engine_cycles - math.ceil(row.engine_cycles * lanes.used)
        if not lanes.idle_channels or row.bound not in ("compute", "latency") or not looked.worth(wasted):
            continue
        yield Advice(
            "channels",
            f"'{short(row.name)}' uses {100 * float(lanes.used):.0f} % of the multipliers' lanes: {lanes}; the rest "
            f"costs up to {wasted:,} of its {row.cycles:,} cycles",
            lanes.change,
            (row.name,),
            wasted,
        )


@dataclass(frozen=True)
class _Lanes:
    """How an operation's channels fill the multipliers: taken in `depth` at a time, made `made_at_once` at a time."""

    channels: int
    depth: int
    made: int
    made_at_once: int
    kernel: int
    kernel_at_once: int

    @classmethod
    def of(cls, operation: NpuOperation, target: Target, part_kernel: bool) -> _Lanes:
        wide = operation.ifm.dtype is DType.INT16
        window = operation.window
        elements = window.kernel_h * window.kernel_w if operation.kind is OperationKind.CONVOLUTION else 1
        made = operation.ofm.shape[2]
        lanes = (8, 2 if wide else 4) if part_kernel else (16 if wide else 32, 1)
        return cls(operation.ifm.shape[2], lanes[0], made, target.accelerator.micro_block[2], elements, lanes[1])

    @property
    def used(self) -> Fraction:
        """Share of the lanes that have something to multiply."""
        parts = ((self.channels, self.depth), (self.made, self.made_at_once), (self.kernel, self.kernel_at_once))
        return math.prod((Fraction(n, -(-n // at_once) * at_once) for n, at_once in parts), start=Fraction(1))

    def __str__(self) -> str:
        parts = [
            (self.channels, self.depth, "channel", "in"),
            (self.made, self.made_at_once, "channel", "out"),
            (self.kernel, self.kernel_at_once, "element", "of the kernel"),
        ]
        return ", ".join(
            f"{n} {what}{'s' if n > 1 else ''} {way}, taken {at_once} at a time"
            for n, at_once, what, way in parts
            if n % at_once
        )

    @property
    def idle_channels(self) -> bool:
        """Whether it is channels that do not fill them: no one kernel is changed for that."""
        return bool(self.channels % self.depth or self.made % self.made_at_once)

    @property
    def change(self) -> str:
        """What fills them."""
        if self.channels < 8 and self.kernel > 1:
            return (
                f"fold 2x2 pixels into channels before it ({self.channels} become {4 * self.channels}), with half the "
                f"stride and half the kernel; up to {self.depth} channels cost about as much"
            )
        return "; ".join(
            f"{-(-n // at_once) * at_once} channels {way} cost about as much as {n}"
            for n, at_once, way in ((self.channels, self.depth, "in"), (self.made, self.made_at_once, "out"))
            if n % at_once
        )


def _depthwise(looked: CheckedNetwork) -> Iterator[Advice]:
    """Depthwise convolutions of few channels: a full one takes the same cycles of the multipliers."""
    rows = {of.index: row for of, row in zip(looked.operators, looked.table.rows, strict=True)}
    few = [
        rows[operation.operator]
        for operation in looked.npu.operations
        if operation.kind is OperationKind.DEPTHWISE
        and operation.ifm.dtype is not DType.INT16
        and operation.ofm.shape[2] <= 8
        and rows[operation.operator].kind == "DEPTHWISE_CONV_2D"
    ]
    if looked.worth(cycles := sum(row.cycles for row in few)):
        yield Advice(
            "depthwise",
            f"{_some(_by_cost(few))} {_take(few)} {looked.share(cycles)} with at most 8 channels each, of which the "
            f"NPU takes 8 at a time: a full convolution multiplies up to 8 times as much in about the same time",
            "use a CONV_2D of the same kernel there, and perhaps leave out the 1x1 behind it",
            _by_cost(few),
            cycles,
        )


def _sixteen_bits(looked: CheckedNetwork) -> Iterator[Advice]:
    """Convolutions of 16-bit activations."""
    graph = looked.graph
    found = [
        row
        for operator, row in looked.rows
        if row.macs and row.operations and graph.read(operator).dtype is DType.INT16
    ]
    if looked.worth(cycles := sum(row.cycles for row in found)):
        yield Advice(
            "16 bits",
            f"{_some(_by_cost(found))} {_take(found)} {looked.share(cycles)}, for int16: the NPU multiplies that half "
            f"as fast as 8 bits, and each tensor takes twice the bytes",
            "use int8 activations where the accuracy allows it",
            _by_cost(found),
            cycles,
        )


def _last_function(looked: CheckedNetwork) -> Iterator[Advice]:
    """A SOFTMAX that ends the network: it is not needed to know which class is the largest."""
    for operator, row in looked.rows:
        ends = any(t in looked.graph.handed_out for t in operator.outputs)
        if operator.kind in ("SOFTMAX", "LOG_SOFTMAX") and ends and looked.worth(row.cycles):
            made = looked.graph.made(operator)
            yield Advice(
                "last operator",
                f"{row.kind} '{short(row.name)}' takes {looked.share(row.cycles)}, {row.cycles:,} in {row.operations} "
                f"operations, for {math.prod(made.shape):,} numbers",
                "leave it out: its input has the classes in the same order, and firmware can do the few that it needs",
                (row.name,),
                row.cycles,
            )


def _moves(looked: CheckedNetwork) -> Iterator[Advice]:
    """Operators that compute nothing."""
    found = [row for row in looked.table.rows if row.kind in _MOVES and row.operations]
    if looked.worth(cycles := sum(row.cycles for row in found)):
        kinds = ", ".join(dict.fromkeys(row.kind for row in found))
        yield Advice(
            "moves",
            f"bytes are only moved in {looked.share(cycles)} ({kinds}): {_some(_by_cost(found))}",
            "export the network without them where its framework put them in (NCHW against NHWC, padding beside VALID)",
            _by_cost(found),
            cycles,
        )


# --- bytes ------------------------------------------------------------------------------------------------------------


def _dead_channels(dead: Sequence[DeadChannels]) -> Iterator[Advice]:
    """Constant or unused channels."""
    channels, idle = sum(one.channels for one in dead), sum(one.dead for one in dead)
    if idle and 100 * idle >= channels:
        removed = sum(one.removed for one in dead)
        yield Advice(
            "dead channels",
            f"{idle:,} of {channels:,} channels of {_some([one.operator for one in dead])} are constant or unused; "
            f"{removed:,} of them are removed, and the figures here count that",
            "train it with fewer channels: these channels can be pruned without changing any output",
            tuple(one.operator for one in dead),
        )


def _largest_step(looked: CheckedNetwork) -> Iterator[Advice]:
    """What needs most SRAM, layer by layer."""
    if looked.peak.alive:
        biggest = ", ".join(f"'{short(one.name)}' {one.live_bytes:,}" for one in looked.peak.alive[:_NAMED])
        yield Advice(
            "SRAM",
            f"layer by layer {looked.table.sram_bytes:,} bytes, most of them at {looked.peak.where}: {biggest}",
            "`ethoscade frontier` shows what cascades make of it; a smaller plane there helps every schedule",
            (looked.peak.operator,),
        )


def _by_cost(rows: Sequence[OperatorRow]) -> tuple[str, ...]:
    return tuple(row.name for row in sorted(rows, key=lambda row: -row.cycles))


def _take(rows: Sequence[OperatorRow]) -> str:
    return "take" if len(rows) > 1 else "takes"


def _some(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    told = ", ".join(f"'{short(name)}'" for name in names[:_NAMED])
    return told if len(names) <= _NAMED else f"{told} and {len(names) - _NAMED} more"
