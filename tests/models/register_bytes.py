"""Counts the bytes that a stream's kernels move, block by block, from its registers. Tests of the timing model use it.

Written from the rules in docs/timing.md alone: its own reading of the words, no classes of equal blocks, no Rust.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator

CONV, DEPTHWISE, POOL, ELEMENTWISE, DMA = 2, 3, 5, 6, 16
REDUCE_SUM = 2
UNARY = (5, 6, 7)
Registers = dict[tuple[int, int], int]
# Not a register: the width of the device's ports in bytes, by product (bits 31:28 of the configuration word).
PORT, PORTS = (-1, 0), (8, 16)


def operations(payload: bytes) -> Iterator[tuple[int, int, Registers]]:
    """(opcode, parameter, registers by (command format, code)) of each kernel and transfer."""
    words = struct.unpack(f"<{len(payload) // 4}I", payload)
    at = next(i for i, word in enumerate(words) if i >= 4 and word & 0xFF == 2) + 1
    registers: Registers = {PORT: PORTS[words[2] >> 28]}
    while at < len(words):
        word = words[at]
        code, parameter = word & 0x3FF, word >> 16
        if word >> 14 & 1:
            registers[1, code] = words[at + 1]
            at += 2
            continue
        at += 1
        if code >= 256:
            registers[0, code] = parameter
        elif code in (CONV, DEPTHWISE, POOL, ELEMENTWISE, DMA):
            yield code, parameter, registers


def count(payload: bytes) -> Counter[tuple[int, str]]:
    """Bytes by (region, "read" or "written" by kernels, "copied from" or "copied to" by DMA); SHRAM is no region."""
    moved: Counter[tuple[int, str]] = Counter()
    for code, parameter, r in operations(payload):
        if code == DMA:
            for register, what in ((304, "copied from"), (305, "copied to")):
                if not r[0, register] >> 8 & 1:
                    moved[r[0, register] & 7, what] += r[1, 50]
        else:
            _kernel(code, parameter, r, moved)
    return moved


def _kernel(code: int, parameter: int, r: Registers, moved: Counter[tuple[int, str]]) -> None:
    size = [r[0, n] + 1 for n in (274, 273, 275)]
    block = [r[0, n] + 1 for n in (278, 277, 279)]
    deep = code == CONV or (code == POOL and parameter == REDUCE_SUM)
    blocks = [[range(s, min(s + b, n)) for s in range(0, n, b)] for n, b in zip(size, block, strict=True)]
    windows = [_window(r, axis, code, size[axis]) for axis in (0, 1)]
    for rows in blocks[0]:
        for columns in blocks[1]:
            if code in (CONV, DEPTHWISE):
                both = r.get((0, 291), 0) == 1
                moved[r[0, 296], "read"] += r[1, 33] + (r[1, 145] if both else 0)
                moved[r[0, 297], "read"] += r[1, 35] + (r[1, 147] if both else 0)
            for depths in blocks[2]:
                for height in windows[0](rows):
                    for width in windows[1](columns):
                        moved[r[0, 271], "read"] += _input(r, code, deep, height, width, depths, size[2])
                moved[r[0, 287], "written"] += _output(r, len(rows), len(columns), depths, size[2])
                if code == ELEMENTWISE and parameter not in UNARY and not r[0, 384] >> 7 & 1:
                    flags = r[0, 384]
                    extents = [1 if flags >> bit & 1 else len(e) for bit, e in ((0, rows), (1, columns))]
                    channels = range(1) if flags >> 2 & 1 else depths
                    whole = 1 if flags >> 2 & 1 else size[2]
                    bits = 8 << (r[0, 389] >> 2 & 3)
                    layout, stride = r[0, 389] >> 6 & 3, r[1, 132]
                    moved[r[0, 399], "read"] += extents[0] * _row(r, extents[1], channels, whole, bits, layout, stride)


def _window(r: Registers, axis: int, code: int, ofm: int):  # type: ignore[no-untyped-def]
    """A function from a block's output rows (columns) to the stored rows that each of its sub-kernels needs."""
    if code == ELEMENTWISE:
        return lambda outputs: [len(outputs)]
    stride_bits = r[0, 290]
    low, high, dilation_bit = ((1, 9, 4), (0, 6, 3))[axis]
    stride = 1 + (stride_bits >> low & 1) + 2 * (stride_bits >> high & 7)
    dilation = 1 + (stride_bits >> dilation_bit & 1)
    size = r[0, (289, 288)[axis]] // dilation + 1
    before, after = ((256, 259), (257, 258))[axis]
    upscale = r[0, 263]
    end = (ofm - 1) * stride + (size - 1) * dilation + 1 - r[0, after]

    def needed(outputs: range) -> list[int]:
        extents = []
        for first in range(0, size, 8 // dilation):
            last = min(first + 8 // dilation, size) - 1
            start = max(outputs[0] * stride + first * dilation, r[0, before]) - r[0, before]
            stop = min(outputs[-1] * stride + last * dilation + 1, end) - r[0, before]
            touched = range(start, stop)
            if upscale == 1:
                touched = range(start // 2, -(-stop // 2)) if len(touched) else range(0)
            elif upscale == 2:
                touched = range(-(-start // 2), -(-stop // 2))
            extents.append(len(touched))
        return extents

    return needed


def _input(r: Registers, code: int, deep: bool, rows: int, columns: int, depths: range, ofm_depth: int) -> int:
    bits = 8 << (r[0, 261] >> 2 & 3)
    layout, stride = r[0, 261] >> 6 & 3, r[1, 4]
    if not deep:
        return rows * _row(r, columns, depths, ofm_depth, bits, layout, stride)
    depth = r[0, 260] + 1
    part_kernel = code == CONV and r[0, 290] >> 2 & 1
    step = {8: 16 if part_kernel else 32, 16: 16, 32: 8}[bits]
    parts = (range(at, min(at + step, depth)) for at in range(0, depth, step))
    return sum(rows * _row(r, columns, part, depth, bits, layout, stride) for part in parts)


def _row(r: Registers, columns: int, channels: range, depth: int, bits: int, layout: int, stride: int) -> int:
    """Bytes of one row: whole bricks, or runs of whole beats."""
    if columns == 0:
        return 0
    element = bits // 8
    if layout == 1:
        bricks = channels[-1] // 16 - channels[0] // 16 + 1
        return columns * bricks * 16 * element
    run = len(channels) * element
    if len(channels) == depth and stride == run:
        return _beats(r, columns * run)
    return columns * _beats(r, run)


def _output(r: Registers, rows: int, columns: int, depths: range, depth: int) -> int:
    bits = 8 << (r[0, 276] >> 1 & 3)
    layout, stride, element = r[0, 276] >> 6 & 3, r[1, 20], bits // 8
    packed = len(depths) == depth and stride == depth * element
    if layout == 1 or (packed and depth <= 16) or len(depths) <= 16:
        return rows * _row(r, columns, depths, depth, bits, layout, stride)
    return rows * columns * sum(_beats(r, min(16, len(depths) - at) * element) for at in range(0, len(depths), 16))


def _beats(r: Registers, run: int) -> int:
    return -(-run // r[PORT]) * r[PORT]
