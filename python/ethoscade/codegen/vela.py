"""Arm's Vela as a library: weight compression, register commands and the driver payload.

Owns every use of `ethosu.vela`; nothing else imports it, so that another emitter can stand beside it. It is imported on
first use, as that costs half a second. Of Vela the documented API is called; what that prints and what it remembers for
ever is kept from happening, so that any number of threads can call any number of times.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import CodegenError
from ..ir import DType, Window
from ..lowering.stage import Layout, Primitive, Rounding
from ..target import Accelerator
from .operations import ARENA_REGION, Copy, Kernel, MemoryRange, Operation, Surface

_API_MAJOR = 1
_CONTROL_MASK = 0xFFFF
_LONG_COMMAND = 0x4000
_FIRST_SETTING = 256
_SET_BLOCKDEP = 303
_KERNEL_COMMANDS = frozenset((2, 3, 5, 6))  # convolution, depthwise, pool, elementwise


_PIECE_WEIGHTS = 1 << 20
"""Weights that are encoded in one call at most, unless one block of output channels has more.

A call holds the interpreter's lock, a sixth of a second for so many, and takes about a hundred bytes for each.
"""

_importing = threading.Lock()


@cache
def _api() -> ModuleType:
    # Vela's modules import each other in circles and from inside functions: two threads might see halves.
    with _importing:
        from ethosu.vela import api, architecture_allocator, driver_actions, weight_compressor  # noqa: F401
        from ethosu.vela import register_command_stream_generator as _  # noqa: F401

    version = api.npu_get_api_version() >> 16
    if version != _API_MAJOR:
        raise CodegenError(f"ethos-u-vela has backend API {version}; version {_API_MAJOR} is needed")
    return api  # type: ignore[no-any-return]


@cache
def _accelerator(name: str) -> Any:
    wanted = name.replace("ethos-u", "Ethos_U").replace("-", "_")
    found = getattr(_api().NpuAccelerator, wanted, None)
    if found is None:
        raise CodegenError(f"ethos-u-vela knows no accelerator '{name}'")
    return found


@cache
def _prepare(name: str) -> Any:
    """The accelerator, with Vela's description of it made beforehand.

    When its API makes that, it prints warnings about configuration files, which play no part. Output belongs to the
    whole process, so it is the printing that is taken away.
    """
    from ethosu.vela import architecture_features as features

    accelerator = _accelerator(name)
    kind = features.Accelerator.from_npu_accelerator(accelerator)
    default = features.ArchitectureFeatures.DEFAULT_CONFIG
    described = _quiet(features.ArchitectureFeatures)(
        vela_config_files=None,
        accelerator_config=kind.value,
        system_config=default,
        memory_mode=default,
        max_blockdep=features.ArchitectureFeatures.MAX_BLOCKDEP,
        verbose_config=False,
        arena_cache_size=None,
    )
    features.default_arch_cache.setdefault(kind, described)
    return accelerator


def _quiet(described: type) -> type:
    """The class with methods that print nothing: each has module globals of its own, with another `print`."""
    methods = {
        name: FunctionType(
            method.__code__,
            {**method.__globals__, "print": lambda *_, **__: None},
            name,
            method.__defaults__,
            method.__closure__,
        )
        for name, method in vars(described).items()
        if isinstance(method, FunctionType) and "print" in method.__code__.co_names
    }
    return type(described.__name__, (described,), methods)


def _forget() -> None:
    """Vela remembers every pair of accesses that it ever compared, and the accesses with it."""
    from ethosu.vela.range_set import MemoryAccessSet

    MemoryAccessSet.conflicts.cache_clear()


def encode_weights(
    accelerator: Accelerator,
    ohwi: npt.NDArray[np.integer],
    zero_point: int,
    dilation: tuple[int, int],
    block_depth: int,
    depthwise: bool,
    part_kernel: bool,
) -> bytes:
    """The compressed stream of a volume (outputs, height, width, inputs) of weights -255..255 for 8-bit feature maps.

    The weights are `ohwi`, in any order in memory, less `zero_point`. `dilation` is (height, width). A depthwise volume
    has one input channel. The length is a multiple of 16.

    Blocks of output channels come one after the other in a stream, and behind the marker at the end of a piece decoders
    go on at the next byte: so a large volume is encoded in pieces of whole blocks.
    """
    api = _api()
    order = api.NpuBlockTraversal.PART_KERNEL_FIRST if part_kernel else api.NpuBlockTraversal.DEPTH_FIRST
    npu, across = _accelerator(accelerator.name), (dilation[1], dilation[0])
    blocks = max(_PIECE_WEIGHTS // (block_depth * max(ohwi[0].size, 1)), 1)
    stream = bytearray()
    for first in range(0, len(ohwi), blocks * block_depth):
        piece = ohwi[first : first + blocks * block_depth].astype(np.int16, order="C") - np.int16(zero_point)
        stream += api.npu_encode_weights(npu, piece, across, 8, block_depth, depthwise, order)
    return bytes(stream)


def payload(operations: Sequence[Operation], blockdeps: Sequence[int], accelerator: Accelerator) -> bytes:
    """The driver payload of these operations, with waits between copies and kernels where they depend.

    `blockdeps` holds the BLOCKDEP of each kernel in order, in place of Vela's own (see `block_dependency`). Raises
    `CodegenError` if Vela refuses an operation (an alignment, a block that does not fit, a stream over 16 MiB).
    """
    api = _api()
    translate = _Translator(api)
    npu = _prepare(accelerator.name)
    try:
        words = api.npu_generate_register_command_stream([translate.operation(o) for o in operations], npu)
        return bytes(api.npu_create_driver_payload(_with_blockdeps(words, blockdeps), npu))
    except (AssertionError, _vela_error()) as error:
        raise CodegenError(f"ethos-u-vela refused the command stream: {error}") from error
    finally:
        _forget()


def registers(operation: Operation, accelerator: Accelerator) -> tuple[tuple[int, int], ...]:
    """What the stream of one operation sets: (command, value) of each register, the command with its bit for two words.

    Values of two words are 48 bits, the parameter above the payload. Raises `CodegenError` as `payload` does.
    """
    api = _api()
    npu = _prepare(accelerator.name)
    try:
        words = api.npu_generate_register_command_stream([_Translator(api).operation(operation)], npu)
    except (AssertionError, _vela_error()) as error:
        raise CodegenError(f"ethos-u-vela refused an operation: {error}") from error
    finally:
        _forget()
    found: list[tuple[int, int]] = []
    following = iter(words)
    for word in following:
        command, parameter = word & _CONTROL_MASK, word >> 16
        if command & _LONG_COMMAND:
            found.append((command, parameter << 32 | next(following)))
        elif command >= _FIRST_SETTING:
            found.append((command, parameter))
    return tuple(found)


def _vela_error() -> type[Exception]:
    from ethosu.vela.errors import VelaError

    return VelaError  # type: ignore[no-any-return]


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

    def __init__(self, api: ModuleType) -> None:
        self._api = api
        self._dtypes = {DType.INT8: api.NpuDataType.INT8, DType.UINT8: api.NpuDataType.UINT8}
        self._windows: dict[Window, Any] = {}

    def operation(self, operation: Operation) -> Any:
        if isinstance(operation, Copy):
            return self._api.NpuDmaOperation(self._range(operation.source), self._range(operation.destination))
        return self._kernel(operation)

    def _kernel(self, kernel: Kernel) -> Any:
        api = self._api
        op = self._new(kernel)
        scales = _effective_scales(kernel)
        op.ifm = self._surface(kernel.inputs[0], scales[0])
        if len(kernel.inputs) > 1:
            op.ifm2 = self._surface(kernel.inputs[1], scales[1])
        op.ofm = self._surface(kernel.output, scales[-1])
        op.kernel = self._window(kernel.window)
        top, left, bottom, right = kernel.padding
        op.padding = api.NpuPadding(top=top, left=left, bottom=bottom, right=right)
        op.block_config = api.NpuShape3D(*kernel.block)
        op.rounding_mode = api.NpuRoundingMode.TFL if kernel.rounding is Rounding.TFL else api.NpuRoundingMode.NATURAL
        op.activation = self._clamp(kernel.clamp, kernel.output, scales[-1])
        if kernel.weights is not None and kernel.scales is not None:
            op.weights, op.biases = [self._range(kernel.weights)], [self._range(kernel.scales)]
        return op

    def _new(self, kernel: Kernel) -> Any:
        api = self._api
        primitive = kernel.primitive
        if primitive is Primitive.CONVOLUTION:
            op = api.NpuConv2DOperation()
            order = api.NpuBlockTraversal
            op.block_traversal = order.PART_KERNEL_FIRST if kernel.part_kernel else order.DEPTH_FIRST
            return op
        if primitive is Primitive.DEPTHWISE:
            return api.NpuConvDepthWiseOperation()
        if primitive is Primitive.ADD:
            return api.NpuElementWiseOperation(api.NpuElementWiseOp.ADD)
        if primitive is Primitive.MAX_POOL:
            return api.NpuPoolingOperation(api.NpuPoolingOp.MAX)
        op = api.NpuPoolingOperation(api.NpuPoolingOp.AVERAGE)
        op.fused_quantize = primitive is Primitive.IDENTITY
        return op

    def _surface(self, surface: Surface, scale: float) -> Any:
        api = self._api
        fm = api.NpuFeatureMap()
        fm.data_type = self._dtypes[surface.dtype]
        fm.region = ARENA_REGION
        fm.shape = api.NpuShape3D(*surface.shape)
        fm.tiles = api.NpuTileBox(surface.height_0, surface.height_1, surface.width_0, list(surface.offsets))
        fm.layout = api.NpuLayout.NHWC if surface.layout is Layout.NHWC else api.NpuLayout.NHCWB16
        fm.strides = api.NpuShape3D(surface.stride_y, surface.stride_x, surface.stride_c)
        fm.quantization = api.NpuQuantization(scale, surface.zero_point)
        return fm

    def _clamp(self, clamp: tuple[int, int], output: Surface, scale: float) -> Any:
        # Vela quantises the limits: real values that come out as these integers, float32 rounding included, are
        # integer multiples of the scale, because a quotient so near to an integer rounds to it.
        activation = self._api.NpuActivation(self._api.NpuActivationOp.NONE_OR_RELU)
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
        return self._api.NpuAddressRange(*where)


def _effective_scales(kernel: Kernel) -> tuple[float, ...]:
    """The scales that Vela is told, inputs first, output last.

    It derives registers from them for ADD alone. An identity needs the ratio only, and everywhere else 1 keeps Vela
    from rescaling: weights carry their own scales and pools have none.
    """
    if kernel.primitive is Primitive.ADD:
        return (*(s.scale for s in kernel.inputs), kernel.output.scale)
    if kernel.primitive is Primitive.IDENTITY:
        return (kernel.inputs[0].scale / kernel.output.scale, 1.0)
    return (1.0,) * (len(kernel.inputs) + 1)


def valid_blocks(kernel: Kernel, accelerator: Accelerator) -> list[tuple[int, int, int]]:
    """OFM blocks (height, width, depth) that fit this kernel, by Vela's own search; empty if none does.

    Slow (tens of milliseconds): for checks, not for choosing.
    """
    translate = _Translator(_api())
    try:
        found = _api().npu_find_block_configs(translate.operation(kernel), _prepare(accelerator.name))
    except AssertionError:
        return []
    return [(block.height, block.width, block.depth) for block in found]
