"""A decoder of weight streams and the order of their weights, written from the format's description alone.

Owns no expectation. Shares nothing with the encoders, nor with the simulator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Shape = tuple[int, int, int, int]


class _Bits:
    """Bits of a stream, the lowest of each byte first."""

    def __init__(self, stream: bytes) -> None:
        self.value, self.left = int.from_bytes(stream, "little"), 8 * len(stream)
        self.total = self.left

    def take(self, count: int) -> int:
        """The next bits as a number."""
        assert count <= self.left, "the stream ends within a slice"
        found = self.value & ((1 << count) - 1)
        self.value >>= count
        self.left -= count
        return found

    def to_byte(self) -> None:
        """Go on at the next byte."""
        self.take((self.left - self.total) % 8)


def _signed(code: int) -> int:
    return -(code >> 1) if code & 1 else code >> 1


def read(stream: bytes) -> list[int]:
    """The weights of a stream, those that fill it up included."""
    bits, found = _Bits(stream), list[int]()
    palette: list[int] | None = None
    offset = width = 0
    while bits.left >= 3:
        zero_divisor = bits.take(3)
        if zero_divisor == 7:
            bits.to_byte()
            palette = None
            continue
        count, divisor, truncated, is_new = bits.take(15) + 1, bits.take(3), bits.take(1), bits.take(1)
        if is_new:
            offset, size, width = bits.take(5), bits.take(5), bits.take(3) + 2
            palette = [bits.take(width) for _ in range(size + 1 if size else 0)]
        assert palette is not None, "the first slice brings a palette"
        runs = None if zero_divisor == 6 else zero_divisor
        plain = max(len(palette) - 1, 0).bit_length() if palette else width
        indices, zeros = _body(bits, count, divisor, bool(truncated), plain, runs, count + is_new)
        weights = [palette[i] if i < len(palette) else i - len(palette) + offset for i in indices]
        if runs is not None and is_new:
            found += [0] * zeros.pop(0)
        for number, code in enumerate(weights):
            assert code < 512
            found += [_signed(code)] + [0] * (zeros[number] if runs is not None else 0)
    return found


def _body(
    bits: _Bits, weights: int, divisor: int, truncated: bool, plain: int, zero_divisor: int | None, runs: int
) -> tuple[list[int], list[int]]:
    """Indices and lengths of runs: in each turn quotients of both, then the remainders that the turn before left."""
    compressed = divisor != 7
    places = 8 if not compressed and plain > 5 else 12
    steps = 8 if zero_divisor == 3 else 12
    quotients: list[int] = [0]
    lengths: list[int] = [0]
    found: tuple[list[int], list[int]] = ([], [])
    known = [0, 0]
    while True:
        ahead = 0 if zero_divisor is None else len(quotients) - len(lengths)
        more = len(quotients) - 1 < weights and ahead < 8
        more_runs = zero_divisor is not None and ahead >= 0 and len(lengths) - 1 < runs
        first = bits.take(12) if more and compressed else 0
        unary = bits.take(steps) if more_runs else 0
        second = bits.take(first.bit_count()) if more else 0
        waiting = [known[0], known[1]]
        if more_runs:
            for place in range(steps):
                if unary >> place & 1:
                    lengths[-1] += 1
                else:
                    lengths.append(0)
        if more:
            for place in range(places):
                code = first >> place & 1
                if code:
                    code += second & 1
                    second >>= 1
                quotients[-1] += code
                if code < 2 or truncated:
                    quotients.append(0)
        _remainders(bits, quotients, waiting[0], weights, divisor if compressed else plain, found[0])
        _remainders(bits, lengths, waiting[1], runs, zero_divisor or 0, found[1])
        if not more and not more_runs:
            return found
        known = [len(quotients) - 1, len(lengths) - 1]


def _remainders(bits: _Bits, quotients: Sequence[int], upto: int, most: int, width: int, found: list[int]) -> None:
    found += [quotient << width | bits.take(width) for quotient in quotients[len(found) : min(upto, most)]]


def positions(
    shape: Shape,
    block_depth: int,
    micro_depth: int,
    depthwise: bool,
    part_kernel: bool,
    wide: bool,
    dilation: tuple[int, int],
) -> Iterator[tuple[int, int, int, int] | None]:
    """For each weight of a stream where it stands in a volume OHWI; None for those that fill up."""
    outputs, height, width, inputs = shape
    block = 16 if part_kernel or wide else 32
    filled = (2 if wide else 4) if part_kernel else 4 if depthwise else 1
    down, across = 8 // dilation[0], 8 // dilation[1]
    for ob in range(0, outputs, block_depth):
        depth = min(block_depth, outputs - ob)
        for ib in range(0, inputs, block):
            channels = 8 if depthwise else min(block, inputs - ib) if part_kernel else block
            for y in range(0, height, down):
                rows = min(down, height - y)
                for x in range(0, width, across):
                    columns = min(across, width - x)
                    elements = -(-rows * columns // filled) * filled
                    for outer in range(0, channels if part_kernel else 1, 8):
                        for ou in range(0, depth, micro_depth):
                            for e in range(elements):
                                for inner in range(0, 1 if part_kernel else channels, 8):
                                    for o in range(ob + ou, ob + ou + micro_depth):
                                        for i in range(1 if depthwise else 8):
                                            at = (o, y + e // columns, x + e % columns, ib + outer + inner + i)
                                            inside = e < rows * columns and o < outputs and at[3] < inputs
                                            yield at if inside else None
