"""The core's inputs about Parts, operations and tensors: one frozen class each.

Owns their fields, which `_core` reads attribute by attribute. Makes none of them.
"""

from __future__ import annotations

from ..lowering.te import Propagator
from ..util.records import dataclass


@dataclass(frozen=True)
class EncodingSpec:
    """Constants encoded once: OFM block depth, weight order, bytes."""

    block_depth: int
    part_kernel: bool
    bytes: int = 0


@dataclass(frozen=True)
class SlicedSpec:
    """Constants encoded in slices of `depth` output channels: OFM block depth, weight order, bytes of each slice."""

    depth: int
    block_depth: int
    part_kernel: bool
    bytes: tuple[int, ...] = ()


@dataclass(frozen=True)
class JoinedSpec:
    """One of several operations that make an output: `first` row, column and channel of its box, rows and columns."""

    operation: OperationSpec
    first: tuple[int, int, int]
    plane: tuple[int, int]


Registers = tuple[tuple[int, int], ...]
"""What a command stream sets: (command, value), the command with its bit for two words."""


@dataclass(frozen=True)
class StreamSpec:
    """What command streams will say of an NPU operation whatever its stripe, so that they are predicted word for word.

    `registers` where a stripe touches no padding and where it does; those that stripes, places and constants change may
    be among them, and are not looked at. `contents` are numbers of the bytes of weights and of scales, equal ones of
    equal bytes: in place, staged, and of each slice; none without constants. Empty where nothing is emitted.
    """

    registers: tuple[Registers, Registers] = ((), ())
    contents: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class OperationSpec:
    """An NPU operation as data; `constant_bytes` are encoded weights plus scales, or a second operand.

    Elements have 8, 16 or 32 bits. `ifm2` is "none", "scalar", "map" or "constant": a map that lies as `ifm2_layout`
    says, "NHWC" or "NHCWB16". `broadcast` says along which of height, width and depth a map's only element stands for
    all. `upscale` is "none", "nearest" or "zeros"; `function` "clamp", "tanh", "sigmoid" or "table", and `table` then a
    dense id (equal content, equal id) of `table_bytes` (256, 1024 or 2048). `scaling` is "none", "global",
    "per_channel" (where there are weights) or "operands"; `rounding` "tfl", "natural" or "truncate";
    `accumulator_bits` 32 or 40.

    `joined` are, of a Part whose output several operations make, these and their boxes; its own figures are those of
    the first, with the channels of all.
    """

    kind: str
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    ifm_depth: int
    ofm_depth: int
    clamped: bool
    part_kernel: bool
    block_depth: int
    constant_bytes: int
    staged: EncodingSpec | None = None
    sliced: SlicedSpec | None = None
    joined: tuple[JoinedSpec, ...] = ()
    upscale: str = "none"
    ifm_bits: int = 8
    ifm_signed: bool = True
    ofm_bits: int = 8
    ofm_signed: bool = True
    ifm2: str = "none"
    ifm2_bits: int = 8
    ifm2_layout: str = "NHWC"
    broadcast: tuple[bool, bool, bool] = (False, False, False)
    function: str = "clamp"
    table: int | None = None
    table_bytes: int = 0
    scaling: str = "none"
    rounding: str = "tfl"
    accumulator_bits: int = 32
    stream: StreamSpec = StreamSpec()


@dataclass(frozen=True)
class TensorSpec:
    """A feature map: plane in pixels (height, width), bytes of a pixel, layout in memory ("NHWC" or "NHCWB16").

    `updates` is, of an output, the input that it is before the next run, as a dense id: both lie in one place, if the
    one is read for the last time before the other is begun. `is_state` says of an input that the network's state lies
    there before a run and, once the run has ended, that of the next one. `external` is the number of
    an external input among these.
    """

    name: str
    plane: tuple[int, int]
    pixel_bytes: int
    layout: str
    is_input: bool
    is_output: bool
    updates: int | None = None
    is_state: bool = False
    external: int | None = None


@dataclass(frozen=True)
class InputSpec:
    """One read of a Part: dense tensor id, propagator, plane and pixel as the Part sees them, first channel read.

    `inside` are the first row and column, and how many, that windows do not take for padding; None: all of the plane.
    `strides` are bytes from row to row and from column to column where pixels do not follow each other in memory.
    """

    tensor: int
    propagator: Propagator
    plane: tuple[int, int]
    pixel_bytes: int
    first_channel: int = 0
    inside: tuple[tuple[int, int], tuple[int, int]] | None = None
    strides: tuple[int, int] | None = None


@dataclass(frozen=True)
class CallMemory:
    """What an opaque operator does with memory beside its tensors, and with these.

    It works in `workspace_bytes`. `overlay` is how many bytes behind its output's first one its input must begin, at
    the least, to be written over while it is read; None where it must not be.
    """

    workspace_bytes: int = 0
    overlay: int | None = None


@dataclass(frozen=True)
class PartSpec:
    """An NPU operation (`kernel`), an input's arrival (`feed_rows`), an output's departure (`take_rows`), or opaque.

    An opaque operator has the `workspace_bytes` and `overlay` of a `CallMemory`. `feed_rows` and `take_rows` are the
    rows of a handover, with `is_fed_ahead` while the NPU works on those before.
    """

    name: str
    inputs: tuple[InputSpec, ...]
    outputs: tuple[int, ...]
    kernel: OperationSpec | None
    workspace_bytes: int = 0
    overlay: int | None = None
    feed_rows: int | None = None
    is_fed_ahead: bool = False
    take_rows: int | None = None

    @property
    def handed_rows(self) -> int | None:
        """Rows of a feed or a take; None of another Part."""
        return self.feed_rows if self.take_rows is None else self.take_rows


@dataclass(frozen=True)
class Encoding:
    """How an operation's constants are encoded: OFM block depth, weight order, how many bytes they take.

    `staged` is how they are encoded for being copied as a whole, None for the same; `sliced` how in slices, if at all.
    `stream` is what is emitted of the operation, known when all are encoded.
    """

    block_depth: int
    part_kernel: bool
    constant_bytes: int = 0
    staged: EncodingSpec | None = None
    sliced: SlicedSpec | None = None
    stream: StreamSpec = StreamSpec()
