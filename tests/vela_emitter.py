"""Command streams by Arm's Vela, from the emitter's own operations: what tests hold the emitter to, word for word.

Also the blocks that Vela finds valid. Nothing here is the package's: it emits by itself.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

from ethoscade.codegen.operations import TABLES_REGION, Copy, Kernel, MemoryRange, Operation, Surface, TableSlot
from ethoscade.errors import CodegenError
from ethoscade.ir import DType, Window
from ethoscade.lowering.npu import (
    UNSCALED,
    Function,
    Layout,
    OperandScales,
    OperationKind,
    Scalar,
    Scale,
    Upscale,
)
from ethoscade.target import Accelerator
from ethosu.vela import api, architecture_allocator, driver_actions  # noqa: F401
from ethosu.vela import architecture_features as features
from ethosu.vela import register_command_stream_generator as _  # noqa: F401
from ethosu.vela.errors import VelaError
from ethosu.vela.operation import ExplicitScaling

_CONTROL_MASK = 0xFFFF
_LONG_COMMAND = 0x4000
_FIRST_SETTING = 256
_SET_BLOCKDEP = 303
_KERNEL_COMMANDS = frozenset((2, 3, 5, 6))  # convolution, depthwise, pool, elementwise


_OWN_MEMORY = 0x103  # the NPU's SHRAM as the destination of a copy, in all of its cores
_BANK_BYTES = 1024
_TABLES_BYTES = 2048  # the last ones
_DTYPES = (DType.INT8, DType.UINT8, DType.INT16, DType.INT32)
_POOLS = {
    OperationKind.AVERAGE_POOL: "AVERAGE",
    OperationKind.MAX_POOL: "MAX",
    OperationKind.SUM_OVER_DEPTH: "REDUCE_SUM",
}
_ELEMENTWISE = {
    OperationKind.MUL: "MUL",
    OperationKind.ADD: "ADD",
    OperationKind.SUB: "SUB",
    OperationKind.MINIMUM: "MIN",
    OperationKind.MAXIMUM: "MAX",
    OperationKind.LEAKY_RELU: "LRELU",
    OperationKind.ABS: "ABS",
    OperationKind.CLZ: "CLZ",
    OperationKind.SHR: "SHR",
    OperationKind.SHL: "SHL",
}
_RESCALED = (OperationKind.MUL, OperationKind.ADD, OperationKind.SUB)
_SCALED_BY_RESULT = (OperationKind.LEAKY_RELU, OperationKind.ABS)
_NORMAL = 1 << 30
_UPSCALES = {Upscale.NONE: "NONE", Upscale.NEAREST: "NEAREST", Upscale.ZEROS: "TRANSPOSE"}
_FUNCTIONS = {Function.CLAMP: "NONE_OR_RELU", Function.TANH: "TANH", Function.SIGMOID: "SIGMOID"}


@cache
def _accelerator(name: str) -> Any:
    accelerator = getattr(api.NpuAccelerator, name.replace("ethos-u", "Ethos_U").replace("-", "_"))
    # Vela prints when it describes an accelerator to itself, which it does once.
    with contextlib.redirect_stdout(io.StringIO()):
        features.create_default_arch(features.Accelerator.from_npu_accelerator(accelerator))
    return accelerator


def payload(operations: Sequence[Operation], blockdeps: Sequence[int], accelerator: Accelerator) -> bytes:
    """The driver payload of these operations, with waits between copies and kernels where they depend.

    `blockdeps` holds the BLOCKDEP of each kernel in order, in place of Vela's own (see `block_dependency`). Raises
    `CodegenError` if Vela refuses an operation (an alignment, a block that does not fit, a stream over 16 MiB).
    """
    translate = _Translator(api, accelerator)
    npu = _accelerator(accelerator.name)
    try:
        words = api.npu_generate_register_command_stream([translate.operation(o) for o in operations], npu)
        return bytes(api.npu_create_driver_payload(_with_blockdeps(words, blockdeps), npu))
    except (AssertionError, VelaError) as error:
        raise CodegenError(f"ethos-u-vela refused the command stream: {error}") from error


def _with_blockdeps(words: Sequence[int], blockdeps: Sequence[int]) -> list[int]:
    """The stream with its BLOCKDEP commands replaced: one before each kernel whose value differs from the last."""
    result: list[int] = []
    values = iter(blockdeps)
    current: int | None = None
    position = 0
    while position < len(words):
        word = words[position]
        code = word & _CONTROL_MASK
        if code & _LONG_COMMAND:
            result += words[position : position + 2]
            position += 2
            continue
        position += 1
        if code == _SET_BLOCKDEP:
            continue
        if code in _KERNEL_COMMANDS:
            wanted = next(values)
            if wanted != current:
                result.append(_SET_BLOCKDEP | wanted << 16)
                current = wanted
        result.append(word)
    return result


class _Translator:
    """Our operations as Vela's, parts that recur (kernels, quantisations) made once."""

    def __init__(self, api: ModuleType, accelerator: Accelerator) -> None:
        self._api = api
        self._tables_at = accelerator.shram_banks * _BANK_BYTES - _TABLES_BYTES
        self._dtypes = {dtype: getattr(api.NpuDataType, dtype.name) for dtype in _DTYPES}
        self._windows: dict[Window, Any] = {}

    def operation(self, operation: Operation) -> Any:
        if isinstance(operation, Copy):
            return self._api.NpuDmaOperation(self._range(operation.source), self._range(operation.destination))
        return self._kernel(operation)

    def _kernel(self, kernel: Kernel) -> Any:
        api = self._api
        op = self._new(kernel)
        first, second, result = _effective_scales(kernel)
        op.ifm = self._surface(kernel.inputs[0], first)
        if len(kernel.inputs) > 1:
            op.ifm2 = self._surface(kernel.inputs[1], second)
        elif kernel.constant is not None:
            op.ifm2 = self._surface(kernel.constant, second)
        elif kernel.scalar is not None:
            # The API takes the real number and quantises it, by the scale that it takes the operand's factor from too.
            op.ifm2 = self._scalar(kernel.scalar, second)
            op.ifm2_scalar = (kernel.scalar.value - kernel.scalar.zero_point) * second
        op.ofm = self._surface(kernel.output, result)
        op.kernel = self._window(kernel.window)
        top, left, bottom, right = kernel.padding
        op.padding = api.NpuPadding(top=top, left=left, bottom=bottom, right=right)
        op.block_config = api.NpuShape3D(*kernel.block)
        op.rounding_mode = getattr(api.NpuRoundingMode, kernel.rounding.name)
        op.ifm_upscale = getattr(api.NpuResamplingMode, _UPSCALES[kernel.upscale])
        op.activation = self._activation(kernel, result)
        if kernel.accumulator_bits == 40:
            op.accumulator_type = api.NpuAccumulatorType.Int40
        if kernel.weights is not None and kernel.scales is not None:
            op.weights, op.biases = [self._range(kernel.weights)], [self._range(kernel.scales)]
        return op

    def _new(self, kernel: Kernel) -> Any:
        api = self._api
        kind, scale = kernel.kind, kernel.scaling
        if kind is OperationKind.CONVOLUTION:
            op = api.NpuConv2DOperation()
            order = api.NpuBlockTraversal
            op.block_traversal = order.PART_KERNEL_FIRST if kernel.part_kernel else order.DEPTH_FIRST
        elif kind is OperationKind.DEPTHWISE:
            op = api.NpuConvDepthWiseOperation()
        elif kind.is_pool:
            op = api.NpuPoolingOperation(getattr(api.NpuPoolingOp, _POOLS[kind]))
            if isinstance(scale, Scale) and not _NORMAL <= scale.multiplier < 2 * _NORMAL:
                op.rescale = _explicit(scale)
            else:
                # Told to rescale, the API derives the factor from the ratio of the scales, and makes it 31 bits long.
                op.fused_quantize = isinstance(scale, Scale)
        else:
            op = api.NpuElementWiseOperation(getattr(api.NpuElementWiseOp, _ELEMENTWISE[kind]))
            op.reversed_operands = kernel.swap_operands
            if len(kernel.inputs) == 1 and kernel.scalar is None and kernel.constant is None:
                # Else the API keeps half of the operands' SHRAM for a second one, which there is not.
                op.ifm2_scalar = 0
            if kind in _RESCALED and not isinstance(scale, OperandScales):
                op.rescale = (1, 0) if scale is None else (scale.multiplier, scale.shift)
        return op

    def _surface(self, surface: Surface, scale: float) -> Any:
        api = self._api
        fm = api.NpuFeatureMap()
        fm.data_type = self._dtypes[surface.dtype]
        fm.region = surface.region
        fm.shape = api.NpuShape3D(*surface.shape)
        fm.tiles = api.NpuTileBox(surface.height_0, surface.height_1, surface.width_0, list(surface.offsets))
        fm.layout = api.NpuLayout.NHWC if surface.layout is Layout.NHWC else api.NpuLayout.NHCWB16
        fm.strides = api.NpuShape3D(surface.stride_y, surface.stride_x, surface.stride_c)
        fm.quantization = api.NpuQuantization(scale, surface.zero_point)
        return fm

    def _scalar(self, scalar: Scalar, scale: float) -> Any:
        fm = self._api.NpuFeatureMap()
        fm.data_type = self._dtypes[scalar.dtype]
        fm.quantization = self._api.NpuQuantization(scale, scalar.zero_point)
        return fm

    def _activation(self, kernel: Kernel, scale: float) -> Any:
        # Vela quantises the limits: real values that come out as these integers, float32 rounding included, are
        # integer multiples of the scale, because a quotient so near to an integer rounds to it.
        kinds, output, clamp = self._api.NpuActivationOp, kernel.output, kernel.clamp
        if isinstance(kernel.function, TableSlot):
            activation = self._api.NpuActivation(kinds.TABLE_LOOKUP)
            activation.lookup_table_index = kernel.function.slot
        else:
            activation = self._api.NpuActivation(getattr(kinds, _FUNCTIONS[kernel.function]))
        lowest, highest = output.dtype.limits
        if clamp[0] > lowest:
            activation.min = (clamp[0] - output.zero_point) * scale
        if clamp[1] < highest:
            activation.max = (clamp[1] - output.zero_point) * scale
        return activation

    def _window(self, window: Window) -> Any:
        found = self._windows.get(window)
        if found is None:
            found = self._windows[window] = self._api.NpuKernel(
                window.kernel_w,
                window.kernel_h,
                window.stride_w,
                window.stride_h,
                window.dilation_w,
                window.dilation_h,
            )
        return found

    def _range(self, where: MemoryRange) -> Any:
        if where.region == TABLES_REGION:
            return self._api.NpuAddressRange(_OWN_MEMORY, self._tables_at + where.offset_bytes, where.length_bytes)
        return self._api.NpuAddressRange(*where)


def _explicit(scale: Scale) -> Any:
    """A factor that the API sends as it is."""
    return ExplicitScaling(False, [scale.shift], [scale.multiplier])


def _effective_scales(kernel: Kernel) -> tuple[float, float, float]:
    """The scales that Vela is told: of both operands and of the result.

    It derives registers from them for three cases: the factors of a sum's operands, the factor of a pool as the ratio
    of first and last, that of a unary operation as the last. Everywhere else 1 keeps it from rescaling.
    """
    scaling = kernel.scaling
    if isinstance(scaling, OperandScales):
        return scaling.first, scaling.second, scaling.result
    if kernel.kind in _SCALED_BY_RESULT:
        scaling = UNSCALED if scaling is None else scaling
        return 1.0, 1.0, math.ldexp(scaling.multiplier, -scaling.shift)
    if kernel.kind.is_pool and scaling is not None:
        return math.ldexp(scaling.multiplier, -scaling.shift), 1.0, 1.0
    return 1.0, 1.0, 1.0


def valid_blocks(kernel: Kernel, accelerator: Accelerator) -> list[tuple[int, int, int]]:
    """OFM blocks (height, width, depth) that fit this kernel, by Vela's own search; empty if none does.

    Slow (tens of milliseconds): for checks, not for choosing.
    """
    translate = _Translator(api, accelerator)
    try:
        found = api.npu_find_block_configs(translate.operation(kernel), _accelerator(accelerator.name))
    except AssertionError:
        return []
    return [(block.height, block.width, block.depth) for block in found]
