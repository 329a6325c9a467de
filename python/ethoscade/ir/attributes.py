"""What the option tables of operators say: a frozen class for each kind, or for several with the same options.

Owns the fields and their meaning. Who reads and checks them is the frontend's matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ..util.frozen import FrozenMap
from ..util.records import dataclass
from .tensor import Activation, Array
from .tosa import TosaAttrs


@dataclass(frozen=True)
class Window:
    """Geometry of a sliding window, in elements; padding is explicit and per side."""

    kernel_h: int
    kernel_w: int
    stride_h: int = 1
    stride_w: int = 1
    dilation_h: int = 1
    dilation_w: int = 1
    pad_top: int = 0
    pad_left: int = 0
    pad_bottom: int = 0
    pad_right: int = 0

    @property
    def dilated_h(self) -> int:
        """Rows that the dilated kernel spans."""
        return (self.kernel_h - 1) * self.dilation_h + 1

    @property
    def dilated_w(self) -> int:
        """Columns that the dilated kernel spans."""
        return (self.kernel_w - 1) * self.dilation_w + 1


@dataclass(frozen=True)
class ConvAttrs:
    """CONV_2D (weights OHWI) and DEPTHWISE_CONV_2D (weights 1HWC; `depth_multiplier` outputs per input channel)."""

    window: Window
    activation: Activation = Activation.NONE
    depth_multiplier: int = 1


@dataclass(frozen=True)
class TransposeConvAttrs:
    """TRANSPOSE_CONV (weights OHWI): what undoes the strides of a convolution.

    `window` is that convolution's, over the output, of which `size` are the height and width: input pixel (y, x) adds
    the weights times its value to the outputs from (y * stride_h - pad_top, x * stride_w - pad_left) on.
    """

    window: Window
    size: tuple[int, int]
    activation: Activation = Activation.NONE


@dataclass(frozen=True)
class PoolAttrs:
    """AVERAGE_POOL_2D and MAX_POOL_2D."""

    window: Window
    activation: Activation = Activation.NONE


@dataclass(frozen=True)
class FullyConnectedAttrs:
    """FULLY_CONNECTED with weights (outputs, inputs)."""

    activation: Activation = Activation.NONE
    keep_num_dims: bool = False


@dataclass(frozen=True)
class BatchMatMulAttrs:
    """BATCH_MATMUL: whether the last two axes of the left and of the right operand change places first.

    Files have no `activation`, nor a third input, the bias of the columns: a FULLY_CONNECTED that became one has.
    """

    adj_x: bool = False
    adj_y: bool = False
    activation: Activation = Activation.NONE


@dataclass(frozen=True)
class LstmAttrs:
    """UNIDIRECTIONAL_SEQUENCE_LSTM: whether time is the first axis and not the second; the largest cell, 0 for any."""

    time_major: bool = False
    cell_clip: float = 0.0


class LstmInputs:
    """Places of an LSTM's inputs. Of the gates in the order input, forget, cell, output: number `update` is the cell's.

    `hidden` and `cell` are the state.
    """

    of_input = (1, 2, 3, 4)
    of_state = (5, 6, 7, 8)
    peepholes = (9, 10, 11)
    biases = (12, 13, 14, 15)
    projection = (16, 17)
    hidden, cell = 18, 19
    norms = (20, 21, 22, 23)
    update = 2
    parameters = (*of_input, *of_state, *biases)


@dataclass(frozen=True)
class SvdfAttrs:
    """SVDF: how many filters there are for each unit.

    Kernels of integers heed no fused activation: converters choose the output's range so that it is one.
    """

    rank: int = 1


class SvdfInputs:
    """Places of an SVDF's inputs: weights of the input and of what is remembered of each filter, and the state."""

    of_input, in_time, bias, state = 1, 2, 3, 4
    parameters = (of_input, in_time, bias)


@dataclass(frozen=True)
class AddAttrs:
    """ADD of two tensors."""

    activation: Activation = Activation.NONE


@dataclass(frozen=True)
class ArithmeticAttrs:
    """SUB, MUL or DIV of two tensors."""

    activation: Activation = Activation.NONE


@dataclass(frozen=True)
class SoftmaxAttrs:
    """SOFTMAX over the last axis."""

    beta: float = 1.0


@dataclass(frozen=True)
class LeakyReluAttrs:
    """LEAKY_RELU: what is negative is multiplied by `alpha`."""

    alpha: float


@dataclass(frozen=True)
class GeluAttrs:
    """GELU, exact or by its approximation with a hyperbolic tangent."""

    approximate: bool = False


@dataclass(frozen=True)
class TableAttrs:
    """QUANTIZE in the place of functions of one element: a result for each stored value, the lowest first.

    No file says it; rules make it.
    """

    results: tuple[int, ...]


@dataclass(frozen=True)
class ReductionAttrs:
    """MEAN, REDUCE_MAX, REDUCE_MIN and SUM over `axes` (non-negative, ascending)."""

    axes: tuple[int, ...]
    keep_dims: bool


@dataclass(frozen=True)
class ArgMaxAttrs:
    """ARG_MAX along `axis` (non-negative): where the first of the largest elements is, as int32 or int64."""

    axis: int


@dataclass(frozen=True)
class PadAttrs:
    """PAD and PADV2; (before, after) for each dimension, of the stored value `fill`, None for the zero point."""

    paddings: tuple[tuple[int, int], ...]
    fill: int | None = None


@dataclass(frozen=True)
class MirrorPadAttrs:
    """MIRROR_PAD; (before, after) for each dimension. The outermost elements are repeated where it is `symmetric`."""

    paddings: tuple[tuple[int, int], ...]
    symmetric: bool


@dataclass(frozen=True)
class TileAttrs:
    """TILE: how often the tensor is repeated along each dimension."""

    multiples: tuple[int, ...]


@dataclass(frozen=True)
class ReverseAttrs:
    """REVERSE_V2 along `axes` (non-negative, ascending)."""

    axes: tuple[int, ...]


@dataclass(frozen=True)
class GatherAttrs:
    """GATHER: the elements number `indices` (non-negative) along `axis` (non-negative), in that order."""

    axis: int
    indices: tuple[int, ...]


@dataclass(frozen=True)
class TransposeAttrs:
    """TRANSPOSE of a tensor of `extents` to one whose axes are its axes `permutation` (non-negative), in this order.

    On the NPU the tensor read may have another shape with as many elements.
    """

    permutation: tuple[int, ...]
    extents: tuple[int, ...]

    @property
    def moves(self) -> bool:
        """Whether any element changes its place: not where only axes of extent 1 do."""
        places = [axis for axis in self.permutation if self.extents[axis] > 1]
        return places != sorted(places)


@dataclass(frozen=True)
class ResizeNearestAttrs:
    """RESIZE_NEAREST_NEIGHBOR of an image to another (height, width); see `quantised.nearest_indices`."""

    size: tuple[int, int]
    align_corners: bool = False
    half_pixel_centers: bool = False


@dataclass(frozen=True)
class ResizeBilinearAttrs:
    """RESIZE_BILINEAR of an image to another (height, width); see `quantised.bilinear_taps`."""

    size: tuple[int, int]
    align_corners: bool = False
    half_pixel_centers: bool = False


@dataclass(frozen=True)
class StridedSliceAttrs:
    """STRIDED_SLICE with masks resolved, SLICE: (begin, end, stride) for each dimension, as Python's `range` counts.

    A negative stride may end at -1 (before element 0). Dimensions of extent 1 may vanish, and others come in: the
    output tensor's shape says which.
    """

    ranges: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class PackAttrs:
    """PACK of equal tensors along a new dimension `axis` (non-negative)."""

    axis: int


@dataclass(frozen=True)
class UnpackAttrs:
    """UNPACK along the dimension `axis` (non-negative), which vanishes."""

    axis: int


@dataclass(frozen=True)
class SplitAttrs:
    """SPLIT and SPLIT_V: the first `sizes[0]` elements along `axis` (non-negative) into the first output, and so on.

    `operand` is the index of the input that is split; the others say how.
    """

    axis: int
    sizes: tuple[int, ...]
    operand: int


@dataclass(frozen=True)
class ConcatenationAttrs:
    """CONCATENATION of tensors of one quantisation along `axis` (non-negative)."""

    axis: int


@dataclass(frozen=True, eq=False)
class ResourceAttrs:
    """What READ_VARIABLE, ASSIGN_VARIABLE and CALL_ONCE do with variables, where a compiled file is run unchanged.

    The first two name one `variable`; the last sets some to `values`, by name.
    """

    variable: str = ""
    values: Mapping[str, Array] = field(default_factory=lambda: FrozenMap({}))


Attrs = (
    ConvAttrs
    | TransposeConvAttrs
    | PoolAttrs
    | FullyConnectedAttrs
    | BatchMatMulAttrs
    | LstmAttrs
    | SvdfAttrs
    | AddAttrs
    | ArithmeticAttrs
    | SoftmaxAttrs
    | LeakyReluAttrs
    | GeluAttrs
    | TableAttrs
    | ReductionAttrs
    | ArgMaxAttrs
    | PadAttrs
    | MirrorPadAttrs
    | TileAttrs
    | ReverseAttrs
    | GatherAttrs
    | TransposeAttrs
    | ResizeNearestAttrs
    | ResizeBilinearAttrs
    | StridedSliceAttrs
    | PackAttrs
    | UnpackAttrs
    | SplitAttrs
    | ConcatenationAttrs
    | ResourceAttrs
    | TosaAttrs
    | None
)
