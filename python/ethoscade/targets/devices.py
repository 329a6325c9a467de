"""Devices by description: a CPU that runs kernels, an NPU of coarse instructions, without a line of code for either.

Owns the description and three ready ones. What its numbers mean is for the core to say
(`rust/src/cost/described_device`), in words docs/devices.md. Knows nothing of networks.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Literal

from .. import _core
from ..errors import ConfigError
from ..util.arguments import check_fields
from ..util.frozen import FrozenMap
from ..util.records import dataclass
from .target import Memories, Memory

Rate = tuple[int, int]
"""A number per cycle, as an exact fraction: numerator and denominator, 1..65536 each."""

PRIMITIVES = ("convolution", "depthwise", "average_pool", "max_pool", "add")
"""What engines must be able to do. Fully connected layers are 1x1 convolutions, rescaling is a 1x1 average pool.

Operators that take further operations (`abs`, say) run where an engine has a rate for them, elsewhere else.
"""


@dataclass(frozen=True)
class Engine:
    """A compute unit of a device.

    `rates` says, by kind of operation, how many multiply-accumulates (convolution, depthwise) or elements taken in
    (pools: each one under each window; add: pairs) it does per cycle; what is missing it cannot do. The work of one
    instruction is rounded up to `granule` in height, width, input channels (convolutions only) and output channels,
    1..65536 each. `operation_cycles` come on top of each operation, `instruction_cycles` of each of its blocks;
    0..2^24.
    """

    name: str
    rates: Mapping[str, Rate]
    granule: tuple[int, int, int, int] = (1, 1, 1, 1)
    operation_cycles: int = 0
    instruction_cycles: int = 0


@dataclass(frozen=True)
class Dma:
    """An engine that moves tiles behind the computation and copies constants beside it.

    `start_cycles` come on top of each copy (0..2^24). At most `in_flight` operations and copies are under way, 1 or
    more.
    """

    start_cycles: int = 0
    in_flight: int = 2


@dataclass(frozen=True)
class DeviceDescription:
    """A device to plan for.

    `constants` is where weights live, `arena` where tensors do: the scarce memory, whose bytes frontiers count. Its
    `size_bytes` (None: no limit) is what a plan may take of it. `spill` is the memory, or the memories in this order,
    of whole tensors that do not fit the arena; what lies there costs what that memory costs. All but the last of these
    memories need a `size_bytes`. `memories` is all that by what it is for.
    `buffer_bytes` is what the tiles of one instruction share (inputs, constants, output): operations are cut into
    blocks that fit; None if they run whole. Without `dma` the engines move data themselves, and nothing overlaps.
    `layout` is that of tensors between operations: "NHWC", or "NHCWB16" for bricks of 16 channels where they hold a
    tensor without gaps. Raises `ConfigError` naming the field that makes no sense.
    """

    name: str
    engines: tuple[Engine, ...]
    constants: Memory
    arena: Memory
    spill: Memory | tuple[Memory, ...] | None = None
    buffer_bytes: int | None = None
    dma: Dma | None = None
    layout: Literal["NHWC", "NHCWB16"] = "NHWC"

    def __post_init__(self) -> None:
        """Let the core look at every number."""
        check_fields(self, "device {}: ", self.name)
        for number, engine in enumerate(self.engines):
            check_fields(engine, "device {}: engines[{}].", self.name, number)
        if self.dma is not None:
            check_fields(self.dma, "device {}: dma.", self.name)
        for field, memory in self._fields():
            check_fields(memory, f"device {{}}: {field}.", self.name)
            if memory.size_bytes is not None and memory.size_bytes < 1:
                raise ConfigError(
                    f"device '{self.name}': {field}.size_bytes is {memory.size_bytes}; "
                    "it must be positive, or None for no limit"
                )
        for (field, memory), (_, following) in pairwise(self._fields()[1:]):
            if memory.size_bytes is None:
                raise ConfigError(
                    f"device '{self.name}': {field}.size_bytes is None; tensors lie in '{following.name}' where "
                    f"'{memory.name}' ends"
                )
        try:
            _core.check_device(self)
        except (ValueError, TypeError, OverflowError) as error:
            raise ConfigError(f"device '{self.name}': {_reason(error)}") from error

    def _fields(self) -> list[tuple[str, Memory]]:
        """Every memory with the field that holds it."""
        named = [("constants", self.constants), ("arena", self.arena)]
        if isinstance(self.spill, tuple):
            return named + [(f"spill[{number}]", memory) for number, memory in enumerate(self.spill)]
        return named if self.spill is None else [*named, ("spill", self.spill)]

    @property
    def memories(self) -> Memories:
        """What there is by what it is for: tensors in the arena, then where they spill to."""
        further = self.spill if isinstance(self.spill, tuple) else () if self.spill is None else (self.spill,)
        return Memories((self.arena, *further), self.constants)

    @property
    def streaming(self) -> None:
        """How an input arrives: inputs of described devices are there as a whole."""
        return None

    @property
    def taken_rows(self) -> None:
        """How many rows of an output are taken at once: outputs of described devices are there as a whole."""
        return None

    @property
    def constants_in_sram(self) -> bool:
        """Whether constants lie in the arena's memory anyway."""
        return self.constants == self.arena

    @property
    def copies_ahead(self) -> bool:
        """Whether copies of constants run beside operations, so that slices of them pay."""
        return self.dma is not None and not self.constants_in_sram


def _reason(error: BaseException) -> str:
    """The message of an error and of what caused it: the field first, then what is wrong with it."""
    words = []
    cause: BaseException | None = error
    while cause is not None:
        words.append(str(cause))
        cause = cause.__cause__
    return ": ".join(words)


def _rates(**rates: Rate) -> Mapping[str, Rate]:
    return FrozenMap(rates)


def cortex_m55() -> DeviceDescription:
    """A Cortex-M55 with Helium that runs kernels like CMSIS-NN's, tensors in its tightly coupled memory.

    Known: Helium's 128-bit vectors go through in two beats of 64 bits, so that a VMLADAVA.S8 of 16 products takes two
    cycles, 8 int8 MACs per cycle at most; a VADD or VMAX of 16 bytes takes two as well (Arm's description of the core).
    The data TCM is 64 bits wide for loads.
    Guessed: kernels reach half of that in convolutions, where each load feeds more than one product, and an eighth in
    depthwise ones, where none does; requantisation is inside these rates. 4 input and 4 output channels are what the
    inner loops unroll, a call costs 600 cycles. 512 KiB of memory; flash behind a cache, 4 bytes per cycle when it is
    streamed and 20 cycles for the first line of 32 bytes.
    """
    return DeviceDescription(
        name="cortex-m55",
        engines=(
            Engine(
                "core",
                _rates(convolution=(4, 1), depthwise=(1, 1), average_pool=(2, 1), max_pool=(4, 1), add=(1, 1)),
                granule=(1, 1, 4, 4),
                operation_cycles=600,
            ),
        ),
        constants=Memory("flash", (4, 1), 20, 0, 32),
        arena=Memory("dtcm", (8, 1), 1, 1, 4, size_bytes=512 * 1024),
    )


def cortex_m7() -> DeviceDescription:
    """A Cortex-M7 with the DSP extension that runs kernels like CMSIS-NN's, tensors in its tightly coupled memory.

    Known: SMLAD does two 16-bit products per cycle, the only multiply-accumulate wider than one, so that int8 has to be
    widened first (Armv7E-M); two data TCM ports of 32 bits, 8 bytes per cycle together.
    Guessed: widening and loads leave a quarter of that in convolutions, 3 cycles per product in depthwise ones, 4 for
    an element of pools and 8 for an addition with its two requantisations; two output channels at a time, a call costs
    600 cycles. 512 KiB of memory; flash as of `cortex_m55`, at 2 bytes per cycle.
    """
    return DeviceDescription(
        name="cortex-m7",
        engines=(
            Engine(
                "core",
                _rates(convolution=(1, 2), depthwise=(1, 3), average_pool=(1, 4), max_pool=(1, 4), add=(1, 8)),
                granule=(1, 1, 2, 2),
                operation_cycles=600,
            ),
        ),
        constants=Memory("flash", (2, 1), 20, 0, 32),
        arena=Memory("dtcm", (8, 1), 1, 1, 4, size_bytes=512 * 1024),
    )


def matrix_npu() -> DeviceDescription:
    """An NPU in the manner of TY-NNP: a matrix unit, a vector unit, shared memory on the chip, explicit DMA.

    Every number is a guess at a mid-sized NPU, none is a measurement of one. The matrix unit does 16 x 16 x 4
    products per cycle: 4 pixels of a row by 16 input by 16 output channels. Its instructions are coarse, up to 64 KiB
    of tiles at a time, and cost 64 cycles each to decode and drain. The vector unit has 64 lanes, one product or
    element each. Tensors lie in 512 KiB on the chip at 64 bytes per cycle in bricks of 16 channels, and beyond that in
    the DRAM that holds the weights: 8 bytes per cycle, bursts of 64, 100 cycles away. Four steps may be under way.
    """
    dram = Memory("dram", (8, 1), 100, 100, 64)
    vector: Rate = (64, 1)
    return DeviceDescription(
        name="matrix-npu",
        engines=(
            Engine(
                "matrix", _rates(convolution=(1024, 1)), (1, 4, 16, 16), operation_cycles=100, instruction_cycles=64
            ),
            Engine(
                "vector",
                _rates(depthwise=vector, average_pool=vector, max_pool=vector, add=vector),
                granule=(1, 1, 1, 64),
                operation_cycles=50,
                instruction_cycles=16,
            ),
        ),
        constants=dram,
        arena=Memory("shared", (64, 1), 8, 8, 64, size_bytes=512 * 1024),
        spill=dram,
        buffer_bytes=64 * 1024,
        dma=Dma(start_cycles=40, in_flight=4),
        layout="NHCWB16",
    )
