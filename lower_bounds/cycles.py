"""Cycles that no schedule of a network's operations goes below under the timing rules, without and with an SRAM budget.

Owns the bounds and their argument; runs nothing and prints nothing. A schedule may have any stripes, bands, slices,
blocks, weight orders, stagings, copies and order of operations, and compute anything twice. Given are the operations,
the layouts of tensors, and the bytes of the constants, of which the smallest encoding counts.

**Operations.** Kernels run one after the other, and overlap hides nothing of the longest among their MAC engine's
time, their output stage's, and their memories'. Over all kernels of an operation these add up to no less than

- MAC engine: each micro-block that the output touches, once; output stage: each element once (`part_floor`);
- memories: each output byte once; each input pixel once for each OFM depth block; the constants once for each block
  of the plane, from SRAM or from flash. How deep and how large blocks can be at once is what fits SHRAM: the best
  depth counts.

`Operation.cycles` is the longest of the three; their sum bounds every schedule. `Operation.in_one_piece` is the best
single kernel, overlap deducted: that an operation is no faster in pieces is likely, as they share none of this, but
not proved.

**A budget.** Let `t` be when the last byte of trunk operation `k` on any chain (`byte_chains`) is made for the first
time.

1. At `t` every chain has a byte in SRAM, or its end could not be made any more. If a share `w_j` of the chains has it
   in trunk tensor `j`, this takes at least `sum(w_j * pixels_j * bytes of a pixel)` of the budget. Constants can have
   the rest.
2. Before `t` ran all operations whose chains go through `k`; and of each operation `i` after `k` at least the share
   of the `w_j` with `j >= i`, as a byte of tensor `j` is made of the chain's bytes before it. A cascade that runs
   ahead to where tensors are small has spent the time of its kernels.
3. After `t` all constants of the trunk after `k` are used, from the first convolution on, which needs all channels:
   the last byte of `k` is in all that they make. If tensor `j` lies before `k`, the chains are made again from there,
   and the constants between are used again as well. What of all these is not in SRAM at `t` passes flash after `t`.

So `T >= before + (constants - (budget - bytes)) / rate of flash`, linear in the shares: it is least where one tensor
has all of them. `Bound` is that, for the worst `k`. Skips around the trunk and rows of more than one tensor at a time
are not counted, which only lowers it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ethoscade import _core
from ethoscade.scheduling.problem import Problem
from ethoscade.scheduling.specs import OperationSpec, TensorSpec
from ethoscade.targets.target import Target

from .byte_chains import ByteChains, reads_all_channels

RUN_CHANNELS = 16
"""Most that the NPU writes of a pixel in one run."""
OFM_DEPTH_LIMIT = 128
"""Most channels of an OFM block (Ethos-U TRM)."""


@dataclass(frozen=True)
class Operation:
    """An NPU operation on its chains, in cycles; `steady` is what each share of them takes at least that share of."""

    name: str
    mac: Fraction
    output: Fraction
    memory: Fraction
    steady: Fraction
    in_one_piece: Fraction
    constant_bytes: int
    mixes_channels: bool

    @property
    def cycles(self) -> Fraction:
        """What it takes in any schedule."""
        return max(self.mac, self.output, self.memory)

    @property
    def bound_by(self) -> str:
        """What takes so long."""
        return max((self.mac, "MAC engine"), (self.output, "output stage"), (self.memory, "memory"))[1]


@dataclass(frozen=True)
class Bound:
    """`cycles` that a budget cannot go below, and why.

    When `operation` is done, `kernel_cycles` are over; `constant_bytes` must still be read, and beside `tensor`, the
    cheapest state in which the network can be (`tensor_bytes`), `staged_bytes` are left for them.
    """

    cycles: int
    operation: str
    kernel_cycles: int
    tensor: str
    tensor_bytes: int
    constant_bytes: int
    staged_bytes: int


class TimeBounds:
    """The bounds of one problem on one Ethos-U whose constants are not in SRAM."""

    def __init__(self, problem: Problem, target: Target) -> None:
        self.problem, self.parts, self.tensors = problem, problem.specs, problem.tensors
        self.sram_rate = Fraction(*target.arena.bytes_per_cycle)
        self.flash_rate = Fraction(*target.constants.bytes_per_cycle)
        self.burst_bytes = target.arena.burst_bytes
        self.chains = ByteChains(problem)
        self.operations = {
            part: self._operation(part)
            for part, spec in enumerate(self.parts)
            if spec.kernel is not None and spec.outputs[0] in self.chains.shares
        }

    @property
    def kernel_cycles(self) -> int:
        """The sum of all operations' least cycles."""
        return int(sum(operation.cycles for operation in self.operations.values()))

    @property
    def in_one_piece_cycles(self) -> int:
        """The same with each operation as its best single kernel."""
        return int(sum(self._whole(part, True) for part in self.operations))

    @property
    def flash_cycles(self) -> int:
        """All constants once."""
        return int(sum(operation.constant_bytes for operation in self.operations.values()) / self.flash_rate)

    @property
    def cycles(self) -> int:
        """What no schedule goes below with any budget."""
        return max(self.kernel_cycles, self.flash_cycles)

    def within(self, budget_bytes: int, in_one_piece: bool = False) -> Bound | None:
        """The largest bound of a budget; None without a trunk. `in_one_piece` takes operations to be single kernels."""
        found = (self._after(index, budget_bytes, in_one_piece) for index in range(len(self.chains.trunk)))
        return max(found, key=lambda bound: bound.cycles, default=None)

    def _after(self, index: int, budget_bytes: int, in_one_piece: bool) -> Bound:
        """The bound of the moment at which the trunk's operation `index` has just been done."""
        trunk, end, source = self.chains.trunk, self.chains.trunk[index], self.chains.source
        assert source is not None
        done = sum(self._whole(part, in_one_piece) for part in self.operations if self.chains.feeds(part, end))
        late = self._needed(trunk[index + 1 :])
        states = []
        for place, tensor in enumerate([source, *(self.parts[part].outputs[0] for part in trunk)]):
            kernels = done + sum(self._steady(part, in_one_piece) for part in trunk[index + 1 : place])
            held = self.chains.pixels(tensor) * self.tensors[tensor].pixel_bytes
            needed = late + self._needed(trunk[place : index + 1])
            cycles = kernels + (needed - budget_bytes + held) / self.flash_rate
            states.append((cycles, kernels, tensor, held, needed))
        cycles, kernels, tensor, held, needed = min(states)
        names = self.parts[end].name, self.tensors[tensor].name
        return Bound(int(cycles), names[0], int(kernels), names[1], int(held), needed, int(budget_bytes - held))

    def _whole(self, part: int, in_one_piece: bool) -> Fraction:
        operation = self.operations[part]
        return max(operation.cycles, operation.in_one_piece) if in_one_piece else operation.cycles

    def _steady(self, part: int, in_one_piece: bool) -> Fraction:
        if part not in self.operations:
            return Fraction(0)
        return self._whole(part, True) if in_one_piece else self.operations[part].steady

    def _needed(self, parts: Sequence[int]) -> int:
        """Constants that see a byte through some of the trunk: from the first operation on that mixes channels."""
        later = [self.operations[part] for part in parts if part in self.operations]
        mixing = next((at for at, operation in enumerate(later) if operation.mixes_channels), len(later))
        return sum(operation.constant_bytes for operation in later[mixing:])

    def _operation(self, part: int) -> Operation:
        spec, (output,) = self.parts[part], self.parts[part].outputs
        kernel, floor = spec.kernel, _core.part_floor(self.problem.core, part)
        assert kernel is not None and floor is not None
        mac, dense, stage, in_one_piece = (
            Fraction(c) for c in (floor.mac, floor.dense, floor.output, floor.in_one_piece)
        )
        reads = [(read, self.tensors[read.tensor]) for read in spec.inputs if reads_all_channels(spec, read)]
        handed = sum(self.chains.handed_pixels(spec, read) * tensor.pixel_bytes for read, tensor in reads)
        touched = sum(self.chains.touched_pixels(spec, read) * tensor.pixel_bytes for read, tensor in reads)
        rows, columns = self.tensors[output].plane
        share = self.chains.pixels(output) / (rows * columns)
        constants, even = _constant_bytes(kernel)
        times = -(-kernel.ofm_depth // OFM_DEPTH_LIMIT) if _is_convolution(kernel) else 1
        written = share * rows * columns * self._written_bytes(self.tensors[output], kernel.ofm_bits // 8)

        def memory(read_bytes: Fraction) -> Fraction:
            """In proportion to the output: with the best depth of blocks, the constants read as often as these take."""
            found = [] if floor.planes else [self._moving(written + read_bytes, Fraction(0))]
            for depth, pixels in floor.planes:
                again = max(Fraction(kernel.ofm_depth, depth), Fraction(1)) if _is_convolution(kernel) else 1
                found.append(self._moving(written + read_bytes * again, even * share * rows * columns / pixels))
            return min(found)

        return Operation(
            spec.name,
            mac if share == 1 else dense * share,
            stage * share,
            max(self._moving(written + times * touched, Fraction(constants)), memory(Fraction(touched))),
            max(dense * share, stage * share, memory(Fraction(handed))),
            in_one_piece * share,
            constants,
            _is_convolution(kernel),
        )

    def _moving(self, map_bytes: Fraction, constant_bytes: Fraction) -> Fraction:
        """Cycles of the busier memory with constants in SRAM, or if that is less, in flash."""
        in_flash = max(map_bytes / self.sram_rate, constant_bytes / self.flash_rate)
        return min((map_bytes + constant_bytes) / self.sram_rate, in_flash)

    def _written_bytes(self, tensor: TensorSpec, element_bytes: int) -> int:
        """What a pixel costs to write: in NHWC more than 16 channels leave in runs of 16, which waste of each burst."""
        run_bytes = RUN_CHANNELS * element_bytes
        waste = max(self.burst_bytes // run_bytes, 1) if tensor.layout == "NHWC" else 1
        return tensor.pixel_bytes * (waste if tensor.pixel_bytes > run_bytes else 1)


def _is_convolution(kernel: OperationSpec) -> bool:
    return kernel.kind == "convolution"


def _constant_bytes(kernel: OperationSpec) -> tuple[int, Fraction]:
    """Bytes of the smallest encoding of a kernel's constants, and those if all slices were as lean as the leanest."""
    sizes = [kernel.constant_bytes]
    sizes += [kernel.staged.bytes] if kernel.staged else []
    if kernel.sliced is None:
        return min(sizes), Fraction(min(sizes))
    sizes.append(sum(kernel.sliced.bytes))
    depths = [kernel.sliced.depth] * (len(kernel.sliced.bytes) - 1)
    depths.append(kernel.ofm_depth - sum(depths))
    leanest = min(Fraction(size, depth) for size, depth in zip(kernel.sliced.bytes, depths, strict=True))
    return min(sizes), min(Fraction(min(sizes)), leanest * kernel.ofm_depth)
