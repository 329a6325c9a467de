"""Command streams word for word as Vela emits them, and refusals where Vela refuses."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
import vela_emitter
from ethoscade.codegen import command_stream, emitter
from ethoscade.codegen.operations import TABLES_REGION, Copy, Kernel, MemoryRange, Operation, Surface, TableSlot
from ethoscade.errors import CodegenError
from ethoscade.ir import DType, Window
from ethoscade.lowering.npu import (
    FeatureMap,
    Function,
    Layout,
    NpuTensor,
    OperandScales,
    OperationKind,
    Rounding,
    Scalar,
    Scale,
    Scaling,
    Upscale,
)
from ethoscade.scheduling.program import Slab
from ethoscade.target import ACCELERATORS, Accelerator

DTYPES = (DType.INT8, DType.UINT8, DType.INT16, DType.INT32)
KINDS = tuple(OperationKind)
UNARY = (OperationKind.LEAKY_RELU, OperationKind.ABS, OperationKind.CLZ)
PLACES = 64


class Draw:
    """Operations with everything that they can have, in few bytes, so that they meet."""

    def __init__(self, seed: int, accelerator: Accelerator) -> None:
        self.rng = np.random.default_rng(seed)
        self.accelerator = accelerator

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def one(self, *of: object) -> object:
        return of[self.number(0, len(of) - 1)]

    def often(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def surface(self, shape: tuple[int, int, int], dtype: DType, region: int = 1) -> Surface:
        height, width, depth = shape
        layout = Layout.NHCWB16 if depth % 16 == 0 and self.often() else Layout.NHWC
        zero_point = self.number(-100, 100) if dtype.size_bytes == 1 else 0
        strides = (width * depth, depth) if layout is Layout.NHWC and self.often(0.1) else None
        tensor = NpuTensor(0, "x", shape, dtype, layout)
        fm = FeatureMap(tensor, shape, zero_point, strides=strides)
        rows, columns = height + self.number(0, 2), width + self.number(0, 2)
        top, left = self.number(0, 9), self.number(0, 9)
        slab = Slab(0, top, top + height, left, left + width, rows, columns)
        if strides is not None:
            slab = Slab(0, 0, height, 0, width, height, width)
        made = command_stream.surface(fm, slab, 16 * self.number(0, PLACES), region)
        return dataclasses.replace(made, offsets=(made.offsets[0] + 1, *made.offsets[1:])) if self.often(0.02) else made

    def range(self, region: int, length: int = 0) -> MemoryRange:
        misplaced = 8 if self.often(0.03) else 0
        return MemoryRange(region, 16 * self.number(0, PLACES) + misplaced, length or 16 * self.number(1, 9))

    def copy(self) -> Copy:
        if self.often():
            length = int(self.one(256, 1024))  # type: ignore[call-overload]
            return Copy(self.range(0, length), MemoryRange(TABLES_REGION, 256 * self.number(0, 4), length))
        source = self.range(0)
        return Copy(source, self.range(1, source.length_bytes))

    def scaling(self, kind: OperationKind) -> Scaling:
        if kind.has_weights or self.often(0.3):
            return None
        if kind in (OperationKind.ADD, OperationKind.SUB) and self.often(0.7):
            first, second, result = (float(np.float32(10 ** self.rng.uniform(-4, 1))) for _ in range(3))
            return OperandScales(first, first if self.often() else second, result)
        small = kind.is_pool and self.often()
        return Scale(self.number(1, 1 << 29) if small else self.number(1 << 30, (1 << 31) - 1), self.number(20, 45))

    def kernel(self) -> Kernel:
        kind = KINDS[self.number(0, len(KINDS) - 1)]
        dtype = DTYPES[self.number(0, 3)]
        made = dtype if self.often(0.7) else DTYPES[self.number(0, 3)]
        height, width = (1 if self.often(0.2) else self.number(1, 12) for _ in range(2))
        depth = int(self.one(1, 3, 8, 16, 32, 48))  # type: ignore[call-overload]
        first = self.surface((height, width, depth), dtype)
        fields: dict[str, object] = {"scaling": self.scaling(kind), "rounding": self.one(*Rounding)}
        inputs: tuple[Surface, ...] = (first,)
        window, padding = Window(1, 1), (0, 0, 0, 0)
        if kind.is_elementwise:
            shape = first.shape
            if self.often(0.4):
                axes = [1 if self.often() else extent for extent in shape]
                shape = (axes[0], axes[1], axes[2])
            second = int(self.one(0, 0, 1, 2))  # type: ignore[call-overload]
            if kind not in UNARY and second == 0:
                inputs = first, self.surface(shape, dtype)
            elif kind not in UNARY and second == 1:
                fields["constant"] = self.surface(shape, dtype, self.number(0, 1))
            elif kind not in UNARY:
                fields["scalar"] = Scalar(self.number(*(-90, 90) if dtype is not DType.UINT8 else (0, 200)), dtype, 3)
            fields["swap_operands"] = self.often(0.3)
        else:
            window = Window(*(self.number(1, n) for n in (9, 9, 3, 3, 2, 2)))
            if self.often(0.3):
                padding = (self.number(0, 2), self.number(0, 2), self.number(0, 2), self.number(0, 2))
            fields["upscale"] = self.one(*Upscale)
        if kind.has_weights:
            region = self.number(0, 1)
            fields |= {"weights": self.range(region), "scales": self.range(region), "part_kernel": self.often()}
            fields["part_kernel"] = fields["part_kernel"] and kind is OperationKind.CONVOLUTION
        if self.often(0.3):
            fields["function"] = TableSlot(self.number(0, 7))
        elif self.often(0.2) and not kind.has_weights:
            fields["function"] = self.one(Function.TANH, Function.SIGMOID)
            if kind.is_pool:
                power = Scale(1 << 30, self.number(41, 43))
                fields["scaling"] = power if self.often() else Scale(self.number(1 << 30, (1 << 31) - 1), 43)
        if self.often(0.1):
            fields["accumulator_bits"] = 40
        micro = self.accelerator.micro_block
        block = tuple(unit * self.number(1, 4) * int(self.one(1, 1, 1, 4)) for unit in micro)  # type: ignore[call-overload]
        low, high = made.limits
        clamp = (low, high) if self.often() else (max(low, -self.number(0, 128)) + 0, min(high, self.number(0, 127)))
        out_depth = depth if kind.is_elementwise or self.often() else int(self.one(1, 8, 16))  # type: ignore[call-overload]
        output = self.surface((height, width, out_depth), made)
        return Kernel(kind, inputs, output, window, padding, block, clamp, **fields)  # type: ignore[arg-type]


def emitted(by: object, operations: list[Operation], blockdeps: list[int], accelerator: Accelerator) -> bytes | None:
    """The payload, None if it is refused."""
    try:
        return bytes(by.payload(operations, blockdeps, accelerator))  # type: ignore[attr-defined]
    except CodegenError:
        return None


@pytest.mark.parametrize("name", ACCELERATORS)
def test_every_word_is_velas(name: str) -> None:
    accelerator = ACCELERATORS[name]
    draw = Draw(1, accelerator)
    accepted: list[Operation] = []
    kinds: Counter[object] = Counter()
    for _ in range(250):
        operation = draw.copy() if draw.often(0.25) else draw.kernel()
        deps = [0] if isinstance(operation, Kernel) else []
        ours, velas = (emitted(by, [operation], deps, accelerator) for by in (emitter, vela_emitter))
        assert ours == velas, operation
        kinds["refused" if ours is None else operation.kind if isinstance(operation, Kernel) else "copy"] += 1
        accepted += [operation] if ours is not None else []
    assert set(kinds) == {*KINDS, "copy", "refused"} and kinds["refused"] < 125
    # Together: what is sent again, what waits for what.
    for start in range(0, len(accepted) - 8, 8):
        run = accepted[start : start + 8]
        deps = [draw.number(0, 3) for operation in run if isinstance(operation, Kernel)]
        assert emitted(emitter, run, deps, accelerator) == emitted(vela_emitter, run, deps, accelerator) is not None


def test_streams_beyond_what_the_npu_takes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    accelerator = ACCELERATORS["ethos-u55-256"]
    ends = [MemoryRange(0, 0, 16), MemoryRange(0, 32, 16)]
    target = MemoryRange(1, 0, 16)
    words = len(emitter.payload([Copy(ends[0], target)] * 2, [], accelerator)) // 4
    assert words == 8 + 8 + 2 + 1
    assert emitter._MOST_BYTES == 16 << 20
    monkeypatch.setattr(emitter, "_MOST_BYTES", 52)
    with pytest.raises(CodegenError, match="the command stream has 52 bytes; the NPU takes less than 52"):
        emitter.payload([Copy(end, target) for end in ends], [], accelerator)
    with pytest.raises(CodegenError, match="bytes 4294967296 to 4294967312 of region 1 are beyond"):
        emitter.payload([Copy(ends[0], MemoryRange(1, 1 << 32, 16))], [], accelerator)
    with pytest.raises(CodegenError, match="a copy begins at byte 8, no multiple of 16"):
        emitter.payload([Copy(ends[0], MemoryRange(1, 8, 16))], [], accelerator)
