"""Arm's Vela as a library: weight compression, register commands and the driver payload.

Owns every use of `ethosu.vela`; nothing else imports it, so that another emitter can stand beside it. It is imported on
first use, as that costs half a second. Of Vela the documented API is called; what that prints, what it remembers for
ever, the BLOCKDEP that is replaced here and waits for unneeded tables are kept from happening, so that any
number of threads can call any number of times.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import cache, lru_cache
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import CodegenError
from ..ir import DType, Window
from ..lowering.feature_maps import Layout, Scalar
from ..lowering.npu import (
    UNSCALED,
    Function,
    OperandScales,
    OperationKind,
    Scale,
    Upscale,
)
from ..targets.target import Accelerator
from .operations import SLOT_BYTES, TABLES_REGION, Copy, Kernel, MemoryRange, Operation, Surface, TableSlot
from .vela_modules import without_tables

_API_MAJOR = 1
_CONTROL_MASK = 0xFFFF
_LONG_COMMAND = 0x4000
_FIRST_SETTING = 256
_SET_BLOCKDEP = 303
_WRITES = frozenset(("cmd0_with_param", "cmd1_with_offset"))
_WORD = 0xFFFF_FFFF
_KERNEL_COMMANDS = frozenset((2, 3, 5, 6))  # convolution, depthwise, pool, elementwise


_OWN_MEMORY = 0x103  # the NPU's SHRAM as the destination of a copy, in all of its cores
_BANK_BYTES = 1024
_TABLES_BYTES = 2048  # the last ones
_LOOKED_UP_BYTES = {1: 256, 2: 2048, 4: 1024}  # of a table, by the bytes of a result
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

_PIECE_WEIGHTS = 1 << 20
"""Weights that are encoded in one call at most, unless one block of output channels has more.

A call holds the interpreter's lock, a sixth of a second for this number, and takes about a hundred bytes for each.
"""

_importing = threading.Lock()


@cache
def _api() -> ModuleType:
    # Vela's modules import each other in circles and from inside functions: two threads might see halves.
    with _importing, without_tables():
        from ethosu.vela import (  # noqa: F401
            api,
            architecture_allocator,
            driver_actions,
            npu_performance,
            register_command_stream_generator,
            weight_compressor,
        )

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
    whole process, so it is the printing that is taken away; and the tables of operators, which play none either.
    """
    accelerator = _accelerator(name)
    from ethosu.vela import architecture_features as features

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
    """The class with methods that print nothing and ask for no tables: each has module globals of its own."""
    nothing = dict.fromkeys(("print", "TFLiteSupportedOperators", "TosaSupportedOperators"), lambda *_, **__: None)
    methods = {
        name: FunctionType(
            method.__code__, {**method.__globals__, **nothing}, name, method.__defaults__, method.__closure__
        )
        for name, method in vars(described).items()
        if isinstance(method, FunctionType) and not nothing.keys().isdisjoint(method.__code__.co_names)
    }
    return type(described.__name__, (described,), methods)


@cache
def _generate() -> Callable[[Sequence[Any], Any], list[int]]:
    """The API's generator of commands, without what is thrown away: Vela's own BLOCKDEP takes it a third of its time.

    Kernels wait for their own tables alone. Where a release of Vela has no such functions, the generator is as it
    comes.
    """
    from ethosu.vela import register_command_stream_generator as generator

    names = {**vars(generator), "calc_blockdep": lambda *_: 0}
    if "get_op_memory_accesses" in names:
        names["get_op_memory_accesses"] = _of_own_table(names["get_op_memory_accesses"])
    for name in ("generate_command_stream", "generate_register_command_stream"):
        function = names.get(name)
        if not isinstance(function, FunctionType):
            return _api().npu_generate_register_command_stream  # type: ignore[no-any-return]
        names[name] = FunctionType(function.__code__, names, name, function.__defaults__, function.__closure__)
    emitter = names.get("CommandStreamEmitter")
    if isinstance(emitter, type) and vars(emitter).keys() >= _WRITES:
        names["CommandStreamEmitter"] = _by_code(emitter)
    made: Callable[[Sequence[Any], Any], list[int]] = names["generate_register_command_stream"]
    return made


def _of_own_table(accesses: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """What an operation reads and writes, by Vela's `accesses`, but of all tables the one that it looks up in.

    Its API has it read every slot, so that no other table could be loaded meanwhile; streams of its Regor core do not.
    """
    from ethosu.vela.range_set import AccessDirection, RangeSet

    look_up = _api().NpuActivationOp.TABLE_LOOKUP

    def found(operation: Any, described: Any) -> Any:
        touched = accesses(operation, described)
        activation = operation.activation
        if activation is not None and activation.op_type is look_up:
            read = touched.accesses[AccessDirection.Read].regions
            [(area, _)] = read[_OWN_MEMORY].ranges
            start = area + activation.lookup_table_index * SLOT_BYTES
            end = start + _LOOKED_UP_BYTES[operation.ofm.data_type.size_in_bytes()]
            read[_OWN_MEMORY] = RangeSet(start, end)
        return touched

    return found


def _by_code(emitter: Any) -> type:
    """The writer of commands that are left out where a register has their value, which it remembers by their code.

    Vela's does by the member of an enumeration, whose hash and value cost more than all else that it does.
    """

    class ByCode(emitter):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._sent: dict[int, tuple[int, ...]] = {}

        def cmd0_with_param(self, cmd: Any, param: Any) -> None:
            code = cmd._value_
            parameter = int(param.value if isinstance(param, Enum) else param) & _CONTROL_MASK
            self._send(code, (code | parameter << 16,))

        def cmd1_with_offset(self, cmd: Any, offset: Any, param: Any = 0) -> None:
            code = cmd._value_ | _LONG_COMMAND
            self._send(code, (code | (int(param) & _CONTROL_MASK) << 16, int(offset) & _WORD))

        def _send(self, code: int, command: tuple[int, ...]) -> None:
            if self._sent.get(code) != command:
                self._sent[code] = command
                self.cmd_stream.append(command)
                self.offset += self.WORD_SIZE * len(command)

    return ByCode


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
    ifm_bits: int = 8,
) -> bytes:
    """The compressed stream of a volume (outputs, height, width, inputs) of weights -255..255.

    `ifm_bits`, 8 or 16, are those of the feature map that they weigh.

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
        stream += api.npu_encode_weights(npu, piece, across, ifm_bits, block_depth, depthwise, order)
    return bytes(stream)


def payload(operations: Sequence[Operation], blockdeps: Sequence[int], accelerator: Accelerator) -> bytes:
    """The driver payload of these operations, with waits between copies and kernels where they depend.

    `blockdeps` holds the BLOCKDEP of each kernel in order, in place of Vela's own (see `block_dependency`). Raises
    `CodegenError` if Vela refuses an operation (an alignment, a block that does not fit, a stream over 16 MiB).
    """
    api = _api()
    translate = _Translator(api, accelerator)
    npu = _prepare(accelerator.name)
    with _refusing("the command stream"):
        words = _generate()([translate.operation(o) for o in operations], npu)
        return bytes(api.npu_create_driver_payload(_with_blockdeps(words, blockdeps), npu))


# Equal operations of a network, and of the next one in this process, are asked about again.
@lru_cache(maxsize=256)
def registers(operation: Operation, accelerator: Accelerator) -> tuple[tuple[int, int], ...]:
    """What the stream of one operation sets: (command, value) of each register, the command with its bit for two words.

    Values of two words are 48 bits, the parameter above the payload. Raises `CodegenError` as `payload` does.
    """
    api = _api()
    npu = _prepare(accelerator.name)
    with _refusing("an operation"):
        words = _generate()([_Translator(api, accelerator).operation(operation)], npu)
    found: list[tuple[int, int]] = []
    following = iter(words)
    for word in following:
        command, parameter = word & _CONTROL_MASK, word >> 16
        if command & _LONG_COMMAND:
            found.append((command, parameter << 32 | next(following)))
        elif command >= _FIRST_SETTING:
            found.append((command, parameter))
    return tuple(found)


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    """Raises `CodegenError` where Vela refuses `what`, and drops what Vela remembers of it.

    Vela asserts that it found a layout of the SHRAM for a block. With `python -O` it goes on and misses the layout.
    """
    try:
        yield
    except (AssertionError, _vela_error()) as error:
        raise CodegenError(f"ethos-u-vela refused {what}: {error}") from error
    except AttributeError as error:
        if error.obj is not None or error.name != "layout":
            raise
        raise CodegenError(f"ethos-u-vela refused {what}: an OFM block does not fit the SHRAM") from error
    finally:
        _forget()


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
            low, high = kernel.scalar.dtype.limits
            if not low <= kernel.scalar.value <= high:
                raise CodegenError(f"operand {kernel.scalar.value} is no {kernel.scalar.dtype.value}")
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
    """A factor that the API sends unchanged."""
    from ethosu.vela.operation import ExplicitScaling

    return ExplicitScaling(False, [scale.shift], [scale.multiplier])


def _effective_scales(kernel: Kernel) -> tuple[float, float, float]:
    """The scales passed to Vela: of both operands and of the result.

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
    translate = _Translator(_api(), accelerator)
    try:
        found = _api().npu_find_block_configs(translate.operation(kernel), _prepare(accelerator.name))
    except AssertionError:
        return []
    return [(block.height, block.width, block.depth) for block in found]
