"""Every kind of NPU operation and every field of it: emitted, run on the simulated NPU, held to plain arithmetic."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pytest
from ethoscade.codegen import vela
from ethoscade.codegen.block_dependency import block_dependencies
from ethoscade.codegen.command_stream import surface
from ethoscade.codegen.operations import Kernel, Surface
from ethoscade.ir import DType, Window
from ethoscade.lowering.feature_maps import (
    FeatureMap,
    Layout,
    NpuTensor,
    Scalar,
)
from ethoscade.lowering.npu import (
    Function,
    OperandScales,
    OperationKind,
    Rounding,
    Scale,
    Upscale,
)
from ethoscade.lowering.views import POINT
from ethoscade.scheduling.program import Slab
from ethoscade.targets.target import ACCELERATORS
from npu import execute

Array = npt.NDArray[np.integer]
RNG = np.random.default_rng
NAMES = ("ethos-u55-256", "ethos-u55-32", "ethos-u65-256")


def map_of(array: Array, offset: int, zero_point: int = 0, layout: Layout = Layout.NHWC) -> Surface:
    """A surface for all of an array of (height, width, depth) at a byte of the arena."""
    height, width, depth = array.shape
    tensor = NpuTensor(0, "x", (height, width, depth), DType(str(array.dtype)), layout)
    slab = Slab(0, 0, height, 0, width, height, width)
    return surface(FeatureMap(tensor, (height, width, depth), zero_point), slab, offset)


def perform(
    kind: OperationKind,
    operands: tuple[Array, ...],
    like: Array,
    zeros: tuple[int, ...] = (0, 0, 0),
    accelerator: str = NAMES[0],
    clamp: tuple[int, int] | None = None,
    **fields: object,
) -> Array:
    """The result, of the shape and type of `like`, of one operation on operands with these zero points, output last."""
    offsets = [4096 * number for number in range(3)]
    inputs = tuple(map_of(array, at, zero) for array, at, zero in zip(operands, offsets, zeros, strict=False))
    output = map_of(like, offsets[-1], zeros[-1])
    limits = DType(str(like.dtype)).limits if clamp is None else clamp
    window = fields.pop("window", POINT)
    kernel = Kernel(kind, inputs, output, window, (0, 0, 0, 0), (1, 1, 8), limits, **fields)  # type: ignore[arg-type]
    npu = ACCELERATORS[accelerator]
    kernel = dataclasses.replace(kernel, block=vela.valid_blocks(kernel, npu)[0])
    payload = vela.payload([kernel], block_dependencies([kernel], npu), npu)
    held = dict(zip(offsets, operands, strict=False))
    machine = execute(payload, b"", 3 * 4096, npu, held)
    return np.frombuffer(machine.read(1, offsets[-1], like.nbytes), like.dtype).reshape(like.shape)


def halves_up(values: Array, shift: int) -> Array:
    """Divided by 2^shift, halves towards plus infinity."""
    return values if shift == 0 else ((values >> (shift - 1)) + 1) >> 1


def numbers(seed: int, shape: tuple[int, int, int], dtype: str = "int8", low: int = -128, high: int = 128) -> Array:
    return RNG(seed).integers(low, high, shape).astype(dtype)


SHAPE = (5, 6, 20)
A, B = numbers(1, SHAPE), numbers(2, SHAPE)
WIDE_A, WIDE_B = (numbers(seed, SHAPE, "int32", -(1 << 20), 1 << 20) for seed in (3, 4))

BINARY = {
    OperationKind.MINIMUM: np.minimum,
    OperationKind.MAXIMUM: np.maximum,
    OperationKind.ADD: np.add,
    OperationKind.SUB: np.subtract,
}


@pytest.mark.parametrize("accelerator", NAMES)
@pytest.mark.parametrize("kind", BINARY)
def test_two_operands_of_eight_bits(kind: OperationKind, accelerator: str) -> None:
    found = perform(kind, (A, B), A, (3, 3, 5), accelerator, clamp=(-100, 90))
    expected = BINARY[kind](A.astype(int) - 3, B.astype(int) - 3) + 5
    assert (found == np.clip(expected, -100, 90)).all()


def test_a_product_is_scaled() -> None:
    scale = Scale(1518500250, 36)
    found = perform(OperationKind.MUL, (A, B), A, (3, -7, 5), scaling=scale, rounding=Rounding.NATURAL)
    product = (A.astype(np.int64) - 3) * (B.astype(np.int64) + 7) * scale.multiplier
    assert (found == np.clip(halves_up(product, 36) + 5, -128, 127)).all()


def test_operands_are_brought_to_one_scale() -> None:
    """A quarter of the second operand's scale: exact, as every sum is a multiple of the result's."""
    found = perform(OperationKind.SUB, (A // 8, B // 8), A, scaling=OperandScales(0.25, 1.0, 0.25))
    assert (found == np.clip(A // 8 - 4 * (B // 8).astype(int), -128, 127)).all()


@pytest.mark.parametrize("swap", [False, True])
def test_swapped_operands_and_a_scalar(swap: bool) -> None:
    found = perform(
        OperationKind.SUB, (WIDE_A,), WIDE_A, scalar=Scalar(35, DType.INT32), swap_operands=swap, scaling=Scale(1, 0)
    )
    assert (found == (35 - WIDE_A if swap else WIDE_A - 35)).all()


def test_a_scalar_has_a_zero_point() -> None:
    found = perform(OperationKind.MAXIMUM, (A,), A, (4, 4), scalar=Scalar(-20, DType.INT8, 4), clamp=(-128, 127))
    assert (found == np.clip(np.maximum(A.astype(int) - 4, -24) + 4, -128, 127)).all()


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])
def test_a_second_operand_is_repeated(axes: tuple[int, ...]) -> None:
    shape = tuple(1 if axis in axes else extent for axis, extent in enumerate(SHAPE))
    small = numbers(7, shape, "int32")  # type: ignore[arg-type]
    assert (perform(OperationKind.MUL, (WIDE_A, small), WIDE_A) == WIDE_A * small).all()


def test_shifts_and_leading_zeros_on_32_bits() -> None:
    amounts = numbers(5, SHAPE, "int32", 0, 10)
    assert (perform(OperationKind.SHL, (WIDE_A, amounts), WIDE_A) == WIDE_A << amounts).all()
    found = perform(OperationKind.SHR, (WIDE_A, amounts), WIDE_A, rounding=Rounding.NATURAL)
    assert all(found[i] == halves_up(WIDE_A[i], int(amounts[i])) for i in np.ndindex(*SHAPE))
    whole = np.abs(WIDE_A)
    zeros = np.array([32 - int(v).bit_length() for v in whole.ravel()], np.int32).reshape(SHAPE)
    assert (perform(OperationKind.CLZ, (whole,), whole) == zeros).all()


def test_a_product_of_32_bits_keeps_the_high_half() -> None:
    scale = Scale(1 << 30, 31)
    found = perform(OperationKind.MUL, (WIDE_A, WIDE_B), WIDE_A, scaling=scale, rounding=Rounding.NATURAL)
    assert (found == halves_up(WIDE_A.astype(np.int64) * WIDE_B, 31)).all()


@pytest.mark.parametrize(("kind", "slope"), [(OperationKind.LEAKY_RELU, 1), (OperationKind.ABS, 2)])
def test_one_operand(kind: OperationKind, slope: int) -> None:
    """A slope of 1/4 for what is negative; all of |v| times 1/2."""
    scale = Scale(1 << 30, 32 - slope + 1)
    found = perform(kind, (A,), A, scaling=scale, rounding=Rounding.NATURAL)
    wide = A.astype(np.int64)
    if kind is OperationKind.ABS:
        expected = halves_up(np.abs(wide), 1)
    else:
        expected = np.where(wide >= 0, wide, halves_up(wide, 2))
    assert (found == expected).all()


@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_sums_over_the_depth(dtype: str) -> None:
    values = numbers(6, (5, 6, 40), dtype)
    like = np.zeros((5, 6, 1), np.int32)
    expected = values.astype(np.int64).sum(axis=2, keepdims=True)
    found = perform(
        OperationKind.SUM_OVER_DEPTH, (values,), like, scaling=Scale(1 << 30, 32), rounding=Rounding.NATURAL
    )
    assert (found == halves_up(expected, 2)).all()


@pytest.mark.parametrize("size", [(4, 6), (5, 7), (1, 1)])
@pytest.mark.parametrize("kind", [OperationKind.MAX_POOL, OperationKind.AVERAGE_POOL])
def test_pixels_are_repeated(kind: OperationKind, size: tuple[int, int]) -> None:
    """An odd size of the output needs only the first half of the last pixel."""
    small = numbers(8, ((size[0] + 1) // 2, (size[1] + 1) // 2, 20))
    found = perform(kind, (small,), np.zeros((*size, 20), np.int8), upscale=Upscale.NEAREST)
    assert (found == small.repeat(2, 0).repeat(2, 1)[: size[0], : size[1]]).all()


def test_pixels_are_followed_by_zeros() -> None:
    small = numbers(8, (3, 4, 20))
    expected = np.zeros((6, 8, 20), np.int8)
    expected[::2, ::2] = small
    found = perform(OperationKind.AVERAGE_POOL, (small,), expected, upscale=Upscale.ZEROS, scaling=Scale(1 << 30, 30))
    assert (found == expected).all()


def test_sixteen_bits() -> None:
    a, b = (numbers(seed, SHAPE, "int16", -32768, 32768) for seed in (9, 10))
    assert (perform(OperationKind.MAXIMUM, (a, b), a) == np.maximum(a, b)).all()
    assert (perform(OperationKind.MAX_POOL, (a,), a[:4], window=Window(2, 1)) == np.maximum(a[:4], a[1:])).all()


def test_functions_of_sixteen_bits() -> None:
    """Inputs in units of 1/4096; both functions are within two steps of the real ones."""
    a = numbers(9, SHAPE, "int16", -32768, 32768)
    real = a / 4096
    for function, expected in ((Function.TANH, np.tanh(real)), (Function.SIGMOID, 1 / (1 + np.exp(-real)))):
        found = perform(OperationKind.AVERAGE_POOL, (a,), a, function=function, scaling=Scale(1 << 30, 30 + 12))
        assert np.abs(found - expected * 32768).max() <= 2


def test_towards_zero() -> None:
    scale = Scale(1 << 30, 32)
    found = perform(OperationKind.MUL, (A,), A, scalar=Scalar(1, DType.INT8), scaling=scale, rounding=Rounding.TRUNCATE)
    assert (found == np.trunc(A / 4)).all()
