"""A second opinion on hazards, by brute force: every byte of every command as a bit, every order as an explicit rule.

Shares no code and no shortcut with the simulator: it decodes words itself, enumerates addresses element by element and
asks of each pair of commands whether anything makes the second one wait for the first one. Slow; for tests only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

KERNELS = {2: "conv", 3: "depthwise", 5: "pool", 6: "elementwise"}
DMA_START, DMA_WAIT, KERNEL_WAIT = 16, 17, 18
BLOCKDEP = 303
IFM_BASE, OFM_BASE = 0, 16
SHRAM = 8
LUT_BASES = {"ethos-u55-128": 22528, "ethos-u55-256": 47104, "ethos-u65-256": 47104, "ethos-u65-512": 47104}
MOST_KERNELS, MOST_COPIES = 2, {"u55": 1, "u65": 2}
_IFM = {"base": IFM_BASE, "region": 271, "sizes": (266, 267, 268), "precision": 261}
_IFM2 = {"base": 128, "region": 399, "sizes": (394, 395, 396), "precision": 389}
_OFM = {"base": OFM_BASE, "region": 287, "sizes": (282, 283, 284), "precision": 276}
Mask = dict[int, int]


@dataclass(frozen=True)
class Command:
    """One command: its words, and what they mean."""

    words: tuple[int, ...]

    @property
    def code(self) -> int:
        return self.words[0] & 0x3FF

    @property
    def parameter(self) -> int:
        return self.words[0] >> 16

    @property
    def is_operation(self) -> bool:
        return len(self.words) == 1 and self.code < 256


def commands_of(payload: bytes) -> list[Command]:
    """The commands of a payload as Vela lays it out: the stream starts at byte 32."""
    words = struct.unpack(f"<{len(payload) // 4}I", payload)
    found, position = [], 8
    while position < len(words):
        size = 2 if words[position] & 0x4000 else 1
        found.append(Command(words[position : position + size]))
        position += size
        if found[-1].words == (0xFFFF0000,):
            break
    return found


def payload_with(payload: bytes, commands: list[Command]) -> bytes:
    """The payload with another stream."""
    words = [word for command in commands for word in command.words]
    action = 2 | (len(words) >> 16) << 8 | (len(words) & 0xFFFF) << 16
    return payload[:28] + struct.pack(f"<{len(words) + 1}I", action, *words)


def _mask(addresses: np.ndarray, size: int) -> int:
    flat = np.unique(addresses)
    if flat.size == 0:
        return 0
    bits = np.zeros(int(flat[-1]) + size, bool)
    for byte in range(size):
        bits[flat + byte] = True
    return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")


@dataclass
class Map:
    """A feature map: the address of each of its elements."""

    region: int
    size: int
    addresses: np.ndarray

    def mask(self, rows: slice, columns: slice, channels: slice) -> Mask:
        return {self.region: _mask(self.addresses[rows, columns, channels], self.size)}


@dataclass
class Step:
    """A kernel or a copy: bytes it reads and writes, and for kernels its jobs."""

    index: int
    is_kernel: bool
    reads: Mask
    writes: Mask
    first_reads: list[Mask] = field(default_factory=list)
    last_writes: list[Mask] = field(default_factory=list)


class Registers:
    """What a stream has set."""

    def __init__(self, accelerator: str, aliases: dict[int, int]) -> None:
        self.values: dict[tuple[int, int], tuple[int, int]] = {}
        self.accelerator, self.aliases = accelerator, aliases

    def set(self, command: Command) -> None:
        key = (len(command.words), command.code)
        self.values[key] = (command.words[-1] if len(command.words) == 2 else command.parameter, command.parameter)

    def short(self, code: int, default: int | None = None) -> int:
        return self.values[(1, code)][0] if default is None else self.values.get((1, code), (default, 0))[0]

    def long(self, code: int) -> int:
        low, high = self.values[(2, code)]
        value = low | high << 32
        return value - (1 << 32) if high == 0 and low >> 31 else value

    def address(self, code: int) -> int:
        low, high = self.values.get((2, code), (0, 0))
        return low | (high & 0xFF) << 32

    def region(self, code: int) -> int:
        number = self.short(code) & 7
        return self.aliases.get(number, number)

    def map(self, names: dict, shape: tuple[int, int, int]) -> Map:
        h, w, d = shape
        precision = self.short(names["precision"])
        width = precision >> (1 if names is _OFM else 2) & 3
        size = (1, 2, 4)[width]
        w0, h0, h1 = (self.short(code, 0xFFFF) + 1 for code in names["sizes"])
        base = [self.address(names["base"] + tile) for tile in range(4)]
        sx, sy = self.long(names["base"] + 4), self.long(names["base"] + 5)
        y, x, c = np.ogrid[:h, :w, :d]
        right = x >= w0
        low = np.where(right, y >= h1, y >= h0)
        ty = y - np.where(low, np.where(right, h1, h0), 0)
        tx = x - np.where(right, w0, 0)
        bases = np.where(right, np.where(low, base[3], base[1]), np.where(low, base[2], base[0]))
        channel = c * size
        if precision >> 6 & 3:
            channel = c // 16 * self.long(names["base"] + 6) + c % 16 * size
        return Map(self.region(names["region"]), size, bases + ty * sy + tx * sx + channel)


def _join(*masks: Mask) -> Mask:
    joined: Mask = {}
    for mask in masks:
        for region, bits in mask.items():
            joined[region] = joined.get(region, 0) | bits
    return joined


def _meet(a: Mask, b: Mask) -> bool:
    return any(bits & b.get(region, 0) for region, bits in a.items())


def _range(region: int, start: int, length: int) -> Mask:
    return {region: ((1 << length) - 1) << start}


def _blocks(shape: tuple[int, int, int], block: tuple[int, int, int]) -> list[tuple[slice, slice, slice]]:
    """OFM blocks in the order of the hardware."""
    h, w, d = (range(0, n, b) for n, b in zip(shape, block, strict=True))
    return [
        (
            slice(y, min(y + block[0], shape[0])),
            slice(x, min(x + block[1], shape[1])),
            slice(z, min(z + block[2], shape[2])),
        )
        for y in h
        for x in w
        for z in d
    ]


def _copy(registers: Registers, index: int) -> Step:
    masks = []
    for region, address in ((304, 48), (305, 49)):
        shram = registers.short(region) >> 8 & 1
        number = SHRAM if shram else registers.region(region)
        masks.append(_range(number, registers.address(address), registers.values[(2, 50)][0]))
    return Step(index, False, masks[0], masks[1])


def _kernel(registers: Registers, index: int, kind: str, parameter: int) -> Step:
    get = registers.short
    shape = (get(274) + 1, get(273) + 1, get(275) + 1)
    block = (get(278) + 1, get(277) + 1, get(279) + 1)
    ofm = registers.map(_OFM, shape)
    everything = slice(None), slice(None), slice(None)
    constants: list[Mask] = []
    if kind in ("conv", "depthwise"):
        constants = _constants(registers)
    table = get(293) & 0x1F
    if table >= 16:
        length = {1: 256, 2: 2048, 4: 1024}[ofm.size]
        constants.append(_range(SHRAM, LUT_BASES[registers.accelerator] + 256 * (table - 16), length))
    jobs = list(_jobs(registers, kind, parameter, shape, block))
    reads = _join(*constants, *(ifm.mask(*everything) for ifm, _ in jobs[0]))
    first = [_join(*(ifm.mask(*box) for ifm, box in job)) for job in jobs[:3]]
    blocks = _blocks(shape, block)
    per_block = len(jobs) // len(blocks)
    last = [ofm.mask(*blocks[job // per_block]) for job in range(len(jobs) - 1, max(-1, len(jobs) - 4), -1)]
    return Step(index, True, reads, ofm.mask(*everything), first, last)


def _constants(registers: Registers) -> list[Mask]:
    cores = 2 if registers.accelerator == "ethos-u65-512" and registers.short(291, 0) == 1 else 1
    found = []
    for region, codes in ((296, (32, 144)), (297, (34, 146))):
        for code in codes[:cores]:
            length = registers.values[(2, code + 1)][0]
            found.append(_range(registers.region(region), registers.address(code), length))
    return found


def _jobs(registers: Registers, kind: str, parameter: int, shape, block) -> Iterator[list]:
    """What each job reads: (map, box) pairs."""
    get = registers.short
    if kind == "elementwise":
        maps = [registers.map(_IFM, shape)]
        broadcast = get(384, 0x80)
        if parameter not in (5, 6, 7) and not broadcast & 0x80:
            maps.append(registers.map(_IFM2, tuple(1 if broadcast >> i & 1 else n for i, n in enumerate(shape))))
        for box in _blocks(shape, block):
            yield [
                (m, tuple(s if n > 1 else slice(0, 1) for s, n in zip(box, m.addresses.shape, strict=True)))
                for m in maps
            ]
        return
    stride = get(290)
    sy, sx = 1 + (stride >> 1 & 1) + 2 * (stride >> 9 & 7), 1 + (stride & 1) + 2 * (stride >> 6 & 7)
    dy, dx = 1 + (stride >> 4 & 1), 1 + (stride >> 3 & 1)
    kh, kw = get(289) // dy + 1, get(288) // dx + 1
    top, left, right, bottom = (get(256 + i) for i in range(4))
    factor = 2 if get(263) else 1
    deep = kind == "conv" or (kind == "pool" and parameter == 2)
    depth = get(260) + 1 if deep else shape[2]
    height = -(-((shape[0] - 1) * sy + (kh - 1) * dy + 1 - top - bottom) // factor)
    width = -(-((shape[1] - 1) * sx + (kw - 1) * dx + 1 - left - right) // factor)
    ifm = registers.map(_IFM, (height, width, depth))
    wide = ifm.size == 1 and not (stride >> 2 & 1 and kind == "conv")
    step = (32 if wide or ifm.size == 4 else 16) if deep else depth

    def window(part: slice, stride: int, kernel: range, dilation: int, pad: int, size: int) -> slice:
        touched = [o * stride + k * dilation - pad for o in range(part.start, part.stop) for k in kernel]
        inside = [i // factor for i in (min(touched), max(touched))]
        return slice(max(inside[0], 0), max(min(inside[1] + 1, size), 0))

    for box in _blocks(shape, block):
        for z in range(0, depth, step):
            for y in range(0, kh, 8 // dy):
                for x in range(0, kw, 8 // dx):
                    rows = window(box[0], sy, range(y, min(y + 8 // dy, kh)), dy, top, height)
                    columns = window(box[1], sx, range(x, min(x + 8 // dx, kw)), dx, left, width)
                    yield [(ifm, (rows, columns, slice(z, z + step) if deep else box[2]))]


class Judge:
    """A stream's commands with their bytes. `aliases` maps a region to one that is the same memory."""

    def __init__(self, payload: bytes, accelerator: str, aliases: dict[int, int]) -> None:
        self.accelerator = accelerator
        self.commands = commands_of(payload)
        registers = Registers(accelerator, aliases)
        self.steps: dict[int, Step] = {}
        for index, command in enumerate(self.commands):
            if not command.is_operation:
                registers.set(command)
            elif command.code == DMA_START:
                self.steps[index] = _copy(registers, index)
            elif command.code in KERNELS:
                self.steps[index] = _kernel(registers, index, KERNELS[command.code], command.parameter)

    @cached_property
    def blockdeps(self) -> dict[int, int]:
        """BLOCKDEP of each kernel, by command index."""
        current, found = 0, {}
        for index, command in enumerate(self.commands):
            if not command.is_operation and len(command.words) == 1 and command.code == BLOCKDEP:
                current = command.parameter
            elif index in self.steps and self.steps[index].is_kernel:
                found[index] = current
        return found

    def hazards(self, waits: dict[int, int | None], blockdeps: dict[int, int]) -> set[tuple[int, int]]:
        """Pairs of commands that conflict. `waits` changes the parameter of waits (None: removed) by command index."""
        copies = MOST_COPIES[self.accelerator[6:9]]
        running: list[Step] = []
        found = set()
        for index, command in enumerate(self.commands):
            if command.is_operation and command.code in (DMA_WAIT, KERNEL_WAIT):
                left = waits.get(index, command.parameter)
                if left is not None:
                    running = _keep(running, command.code == KERNEL_WAIT, left)
            step = self.steps.get(index)
            if step is None:
                continue
            running = _keep(running, step.is_kernel, (MOST_KERNELS if step.is_kernel else copies) - 1)
            for other in running:
                if other.is_kernel and step.is_kernel:
                    clash = self._jobs_clash(other, step, blockdeps.get(index, self.blockdeps[index]))
                else:
                    clash = _meet(other.writes, _join(step.reads, step.writes)) or _meet(other.reads, step.writes)
                if clash:
                    found.add((other.index, index))
            running.append(step)
        return found

    @staticmethod
    def _jobs_clash(early: Step, late: Step, blockdep: int) -> bool:
        return any(
            _meet(written, read)
            for job, read in enumerate(late.first_reads)
            for back, written in enumerate(early.last_writes)
            if back < blockdep - job
        )


def _keep(running: list[Step], kernels: bool, left: int) -> list[Step]:
    """Without all but the last `left` of one kind."""
    kind = [step for step in running if step.is_kernel == kernels]
    done = {id(step) for step in kind[: max(0, len(kind) - left)]}
    return [step for step in running if id(step) not in done]
