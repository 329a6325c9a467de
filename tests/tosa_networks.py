"""Random TOSA networks of one to four operators: every operator, type and attribute that the reader takes.

Owns how each operator is drawn. `tosa_judging` has what comes of the networks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tosa_drawing import ANY, BITS, INTEGERS, SHORT, SUMS, WIDER, Draw, Shape
from tosa_files import TosaFile


def _unary(kind: str, types: Sequence[str]) -> Callable[[Draw], str]:
    def draw(d: Draw) -> str:
        x = d.value(dtype := d.type(types))
        return d.file.add(kind, [x], d.of(x), dtype)

    return draw


def _broadcast(d: Draw, dtypes: Sequence[str]) -> tuple[list[str], Shape]:
    """Values of one rank, some extents of which are 1, and the shape of them all."""
    first = d.value(dtypes[0])
    shape = tuple(d.rng.randint(1, 4) if extent == 1 and d.rng.random() < 0.3 else extent for extent in d.of(first))
    names = [first]
    for dtype in dtypes[1:]:
        extents = tuple(1 if d.rng.random() < 0.2 else extent for extent in shape)
        names.append(d.value(dtype, shape=extents))
    shapes = [d.of(name) for name in names]
    return names, tuple(max(extents) for extents in zip(*shapes, strict=True))


def _binary(kind: str, types: Sequence[str], made: str = "", **attributes: bool) -> Callable[[Draw], str]:
    def draw(d: Draw) -> str:
        dtype = d.type(types)
        names, shape = _broadcast(d, [dtype, dtype])
        return d.file.add(kind, names, shape, made or dtype, **({"nan_mode": d.nan()} if attributes else {}))

    return draw


def _shift(kind: str) -> Callable[[Draw], str]:
    def draw(d: Draw) -> str:
        x = d.value(dtype := d.type(INTEGERS))
        most = BITS[dtype] - (d.rng.random() < 0.95)
        amounts = d.given(d.numbers.integers(0, most + 1, d.of(x)), dtype)
        attributes = {"round": d.rng.random() < 0.5} if kind.startswith("ARITHMETIC") else {}
        return d.file.add(kind, [x, amounts], d.of(x), dtype, **attributes)

    return draw


def intdiv(d: Draw) -> str:
    x = d.value("INT32")
    divisors = d.array(d.of(x), "INT32")
    if d.rng.random() < 0.95:
        divisors[divisors == 0] = 3
    return d.file.add("INTDIV", [x, d.given(divisors, "INT32")], d.of(x), "INT32")


def mul(d: Draw) -> str:
    dtype = d.type(INTEGERS)
    names, shape = _broadcast(d, [dtype, dtype])
    shift = d.rng.choice((0, d.rng.randint(20, 63))) if dtype == "INT32" else 0
    return d.file.add("MUL", [*names, d.file.constant([shift], "INT8")], shape, "INT32")


def select(d: Draw) -> str:
    dtype = d.type(ANY)
    names, shape = _broadcast(d, ["BOOL", dtype, dtype])
    return d.file.add("SELECT", names, shape, dtype)


def cast(d: Draw) -> str:
    source = d.type(ANY)
    made = d.rng.choice([one for one in ANY if one != source])
    x = d.value(source)
    return d.file.add("CAST", [x], d.of(x), made)


def negate(d: Draw) -> str:
    x = d.value(dtype := d.type(INTEGERS))
    points = [d.zero_point(dtype)[0] for _ in range(2)]
    return d.file.add("NEGATE", [x, *points], d.of(x), dtype)


def clamp(d: Draw) -> str:
    x = d.value(dtype := d.type(SHORT))
    limits = np.sort(d.array((2,), dtype))
    low, high = (limits[i : i + 1].tobytes() for i in (0, 1))
    return d.file.add("CLAMP", [x], d.of(x), dtype, min_val=low, max_val=high, nan_mode=d.nan())


def table(d: Draw) -> str:
    x = d.value(dtype := d.type(SHORT))
    if dtype == "INT8":
        return d.file.add("TABLE", [x, d.file.constant(d.array((256,), "INT8"), "INT8")], d.of(x), "INT8")
    steps = d.numbers.integers(-2000, 2001, 513).cumsum()
    values = np.clip(steps, -32768, 32767) if d.rng.random() < 0.9 else d.array((513,), "INT16")
    return d.file.add("TABLE", [x, d.file.constant(values, "INT16")], d.of(x), "INT32")


def rescale(d: Draw) -> str:
    source, made = d.type((*INTEGERS, "INT48")), d.rng.choice(INTEGERS)
    x = d.value(source)
    is_wide = source != "INT48" and d.rng.random() < 0.7
    is_per_channel = d.rng.random() < 0.4
    count = d.of(x)[-1] if is_per_channel else 1
    low = {"INT8": 10, "INT16": 18, "INT32": 33, "INT48": 31}[source] if d.rng.random() < 0.9 else 2
    multipliers = d.numbers.integers(0, 1 << (31 if is_wide else 15), count)
    shifts = d.numbers.integers(low, d.rng.choice((low + 8, 63)), count)
    rounding = d.rng.choice((1, 1, 3) if is_wide else (1,))
    if source in SHORT and d.rng.random() < 0.1:
        # Inexact: the specification allows more than one result, unless the factor is 1.
        rounding, multipliers[:], shifts[:] = 2, 1 << 14, 14
        if is_wide:
            multipliers[:], shifts[:] = 1 << 20, 20
    unsigned = (False, False)
    if source in SHORT and made in SHORT:
        unsigned = d.rng.choice(((False, False), (True, False), (False, True)))
    operands = [x, d.file.constant(multipliers, "INT32" if is_wide else "INT16"), d.file.constant(shifts, "INT8")]
    for dtype, is_unsigned in zip((source, made), unsigned, strict=True):
        if is_unsigned and dtype == "INT16":
            operands.append(d.file.constant([d.rng.choice((0, -32768))], dtype))
        else:
            operands.append(d.zero_point(dtype)[0])
    return d.file.add(
        "RESCALE", operands, d.of(x), made, scale32=is_wide, rounding_mode=rounding,
        per_channel=is_per_channel, input_unsigned=unsigned[0], output_unsigned=unsigned[1],
    )  # fmt: skip


def _reduction(kind: str, types: Sequence[str], has_nan: bool = False) -> Callable[[Draw], str]:
    def draw(d: Draw) -> str:
        x = d.value(dtype := d.type(types))
        axis, shape = d.axis(x), d.of(x)
        attributes = {"nan_mode": d.nan()} if has_nan else {}
        made = (*shape[:axis], 1, *shape[axis + 1 :])
        return d.file.add(kind, [x], made, dtype, axis=axis, **attributes)

    return draw


def argmax(d: Draw) -> str:
    x = d.value(d.type(SHORT))
    axis, shape = d.axis(x), d.of(x)
    return d.file.add("ARGMAX", [x], shape[:axis] + shape[axis + 1 :], "INT32", axis=axis, nan_mode=d.nan())


def concat(d: Draw) -> str:
    names = [d.value(dtype := d.type(ANY))]
    axis, shape = d.axis(names[0]), d.of(names[0])
    extents = [d.rng.randint(1, 3) for _ in range(d.rng.randint(0, 3))]
    names += [d.value(dtype, shape=(*shape[:axis], extent, *shape[axis + 1 :])) for extent in extents]
    made = sum(d.of(name)[axis] for name in names)
    return d.file.add("CONCAT", names, (*shape[:axis], made, *shape[axis + 1 :]), dtype, axis=axis)


def pad(d: Draw) -> str:
    x = d.value(dtype := d.type(ANY))
    sizes = [d.rng.choice((0, d.rng.randint(0, 3))) for _ in range(2 * len(d.of(x)))]
    made = [a + n + b for a, n, b in zip(sizes[::2], d.of(x), sizes[1::2], strict=True)]
    fill = d.file.constant(d.array((1,), dtype), dtype)
    return d.file.add("PAD", [x, d.file.shape(sizes), fill], made, dtype)


def reshape(d: Draw) -> str:
    x = d.value(dtype := d.type(ANY))
    extents = [*d.of(x), *[1] * d.rng.randint(0, 6 - len(d.of(x)))]
    d.rng.shuffle(extents)
    if len(extents) > 1 and d.rng.random() < 0.5:
        extents[:2] = [extents[0] * extents[1]]
    return d.file.add("RESHAPE", [x, d.file.shape(extents)], extents, dtype)


def reverse(d: Draw) -> str:
    x = d.value(dtype := d.type(ANY))
    return d.file.add("REVERSE", [x], d.of(x), dtype, axis=d.axis(x))


def slice_(d: Draw) -> str:
    x = d.value(dtype := d.type(ANY))
    start = [d.rng.randrange(extent) for extent in d.of(x)]
    size = [d.rng.randint(1, extent - at) for extent, at in zip(d.of(x), start, strict=True)]
    return d.file.add("SLICE", [x, d.file.shape(start), d.file.shape(size)], size, dtype)


def tile(d: Draw) -> str:
    x = d.value(dtype := d.type(ANY))
    counts = [d.rng.choice((1, d.rng.randint(1, 3))) for _ in d.of(x)]
    made = [extent * count for extent, count in zip(d.of(x), counts, strict=True)]
    return d.file.add("TILE", [x, d.file.shape(counts)], made, dtype)


def transpose(d: Draw) -> str:
    x = d.value(dtype := d.type(ANY))
    order = d.rng.sample(range(len(d.of(x))), len(d.of(x)))
    return d.file.add("TRANSPOSE", [x], [d.of(x)[axis] for axis in order], dtype, perms=order)


def gather(d: Draw) -> str:
    x = d.value(dtype := d.type(INTEGERS), rank=3)
    batch, rows, channels = d.of(x)
    indices = d.numbers.integers(0, rows + (d.rng.random() < 0.05), (batch, count := d.rng.randint(1, 5)))
    return d.file.add("GATHER", [x, d.given(indices, "INT32")], (batch, count, channels), dtype)


def scatter(d: Draw) -> str:
    x = d.value(dtype := d.type(INTEGERS), rank=3)
    batch, rows, channels = d.of(x)
    count = d.rng.randint(1, rows)
    indices = np.stack([d.numbers.permutation(rows)[:count] for _ in range(batch)])
    if d.rng.random() < 0.1:
        indices[:, 0] = indices[:, -1]
    others = d.value(dtype, shape=(batch, count, channels))
    return d.file.add("SCATTER", [x, d.given(indices, "INT32"), others], d.of(x), dtype)


def _window(d: Draw, extent: int, is_pool: bool = False) -> tuple[int, int, int, tuple[int, int], int]:
    """Kernel, stride, dilation, padding and outputs along an axis of so many elements."""
    while True:
        kernel, stride = d.rng.randint(1, 4), d.rng.randint(1, 3)
        dilation = 1 if is_pool else d.rng.choice((1, 1, 2, 3))
        most = kernel - 1 if is_pool else 4
        pads = d.rng.randint(0, most), d.rng.randint(0, most)
        room = extent + sum(pads) - (kernel - 1) * dilation - 1
        if room >= 0 and room % stride == 0:
            return kernel, stride, dilation, pads, room // stride + 1


def _weighted(d: Draw, x: str, kernel: Shape, channels: int, weights: Shape) -> list[str]:
    """Operands of a convolution: weights, bias and two zero points."""
    source = d.file.tensors[x].dtype
    w = d.given(d.array(weights, "INT8"), "INT8")
    bias = d.given(d.array((d.rng.choice((1, channels)),), WIDER[source]) // 4, WIDER[source])
    return [x, w, bias, d.zero_point(source)[0], d.zero_point("INT8")[0]]


def _conv(kind: str) -> Callable[[Draw], str]:
    axes = 3 if kind == "CONV3D" else 2

    def draw(d: Draw) -> str:
        source = d.type(SHORT)
        x = d.value(source, rank=axes + 2)
        batch, *image, channels = d.of(x)
        windows = [_window(d, extent) for extent in image]
        kernel = tuple(one[0] for one in windows)
        if kind == "DEPTHWISE_CONV2D":
            multiplier = d.rng.randint(1, 3)
            made, weights = channels * multiplier, (*kernel, channels, multiplier)
        else:
            made = d.rng.randint(1, 5)
            weights = (made, *kernel, channels)
        return d.file.add(
            kind, _weighted(d, x, kernel, made, weights), (batch, *(one[4] for one in windows), made), WIDER[source],
            pad=[size for one in windows for size in one[3]], stride=[one[1] for one in windows],
            dilation=[one[2] for one in windows], local_bound=d.rng.random() < 0.5, acc_type=SUMS[source],
        )  # fmt: skip

    return draw


def transpose_conv2d(d: Draw) -> str:
    source = d.type(SHORT)
    while True:
        x = d.value(source, rank=4)
        batch, *image, channels = d.of(x)
        kernel, stride = d.shape(2, 4), d.shape(2, 3)
        out_pad = [d.rng.randint(1 - extent, 3) for extent in kernel for _ in range(2)]
        extents = [
            (n - 1) * s + k + a + b
            for n, s, k, a, b in zip(image, stride, kernel, out_pad[::2], out_pad[1::2], strict=True)
        ]
        if min(extents) > 0:
            break
    made = d.rng.randint(1, 4)
    operands = _weighted(d, x, kernel, made, (made, *kernel, channels))
    return d.file.add(
        "TRANSPOSE_CONV2D", operands, (batch, *extents, made), WIDER[source], out_pad=out_pad, stride=list(stride),
        local_bound=d.rng.random() < 0.5, acc_type=SUMS[source],
    )  # fmt: skip


def matmul(d: Draw) -> str:
    a = d.value(source := d.type(SHORT), rank=3)
    batch, rows, depth = d.of(a)
    b = d.value(source, shape=(batch, depth, columns := d.rng.randint(1, 5)))
    points = [d.zero_point(source)[0] for _ in range(2)]
    return d.file.add("MATMUL", [a, b, *points], (batch, rows, columns), WIDER[source])


def _pool(kind: str) -> Callable[[Draw], str]:
    def draw(d: Draw) -> str:
        x = d.value(dtype := d.type(SHORT), rank=4)
        batch, *image, channels = d.of(x)
        windows = [_window(d, extent, is_pool=True) for extent in image]
        is_average = kind == "AVG_POOL2D"
        points = [d.zero_point(dtype)[0] for _ in range(2)] if is_average else []
        attributes = {"acc_type": 5} if is_average else {"nan_mode": d.nan()}
        return d.file.add(
            kind, [x, *points], (batch, *(one[4] for one in windows), channels), dtype,
            kernel=[one[0] for one in windows], stride=[one[1] for one in windows],
            pad=[size for one in windows for size in one[3]], **attributes,
        )  # fmt: skip

    return draw


def resize(d: Draw) -> str:
    x = d.value(source := d.type(SHORT), rank=4)
    batch, *image, channels = d.of(x)
    parts = [_resized(d, extent) for extent in image]
    mode = d.rng.randint(1, 2)
    operands = [
        d.file.shape([number for one in parts for number in one[:2]]),
        d.file.shape([one[2] for one in parts]),
        d.file.shape([one[3] for one in parts]),
    ]
    made = source if mode == 1 else WIDER[source]
    return d.file.add("RESIZE", [x, *operands], (batch, *(one[4] for one in parts), channels), made, mode=mode)


def _resized(d: Draw, extent: int) -> tuple[int, int, int, int, int]:
    """Scale (two numbers), offset, border and outputs along an axis."""
    while True:
        n = d.rng.choice((d.rng.randint(1, 8), d.rng.randint(1, 2048)))
        step, offset = d.rng.randint(1, min(16 * n - 1, 4 * n)), d.rng.randint(-n, d.rng.choice((n, 16 * n - 1)))
        outputs = d.rng.randint(1, 12)
        border = (outputs - 1) * step - (extent - 1) * n + offset
        if -16 * n <= border < n:
            return n, step, offset, border, outputs


DRAWS: dict[str, Callable[[Draw], str]] = {
    "ABS": _unary("ABS", ("INT32",)),
    "ADD": _binary("ADD", ("INT32",)),
    "ARGMAX": argmax,
    "ARITHMETIC_RIGHT_SHIFT": _shift("ARITHMETIC_RIGHT_SHIFT"),
    "AVG_POOL2D": _pool("AVG_POOL2D"),
    "BITWISE_AND": _binary("BITWISE_AND", INTEGERS),
    "BITWISE_NOT": _unary("BITWISE_NOT", INTEGERS),
    "BITWISE_OR": _binary("BITWISE_OR", INTEGERS),
    "BITWISE_XOR": _binary("BITWISE_XOR", INTEGERS),
    "CAST": cast,
    "CLAMP": clamp,
    "CLZ": _unary("CLZ", ("INT32",)),
    "CONCAT": concat,
    "CONV2D": _conv("CONV2D"),
    "CONV3D": _conv("CONV3D"),
    "DEPTHWISE_CONV2D": _conv("DEPTHWISE_CONV2D"),
    "EQUAL": _binary("EQUAL", ("INT32",), "BOOL"),
    "GATHER": gather,
    "GREATER": _binary("GREATER", ("INT32",), "BOOL"),
    "GREATER_EQUAL": _binary("GREATER_EQUAL", ("INT32",), "BOOL"),
    "IDENTITY": _unary("IDENTITY", (*ANY, "INT48")),
    "INTDIV": intdiv,
    "LOGICAL_AND": _binary("LOGICAL_AND", ("BOOL",)),
    "LOGICAL_LEFT_SHIFT": _shift("LOGICAL_LEFT_SHIFT"),
    "LOGICAL_NOT": _unary("LOGICAL_NOT", ("BOOL",)),
    "LOGICAL_OR": _binary("LOGICAL_OR", ("BOOL",)),
    "LOGICAL_RIGHT_SHIFT": _shift("LOGICAL_RIGHT_SHIFT"),
    "LOGICAL_XOR": _binary("LOGICAL_XOR", ("BOOL",)),
    "MATMUL": matmul,
    "MAXIMUM": _binary("MAXIMUM", ("INT32",), nan=True),
    "MAX_POOL2D": _pool("MAX_POOL2D"),
    "MINIMUM": _binary("MINIMUM", ("INT32",), nan=True),
    "MUL": mul,
    "NEGATE": negate,
    "PAD": pad,
    "REDUCE_ALL": _reduction("REDUCE_ALL", ("BOOL",)),
    "REDUCE_ANY": _reduction("REDUCE_ANY", ("BOOL",)),
    "REDUCE_MAX": _reduction("REDUCE_MAX", INTEGERS, has_nan=True),
    "REDUCE_MIN": _reduction("REDUCE_MIN", INTEGERS, has_nan=True),
    "REDUCE_SUM": _reduction("REDUCE_SUM", ("INT32",)),
    "RESCALE": rescale,
    "RESHAPE": reshape,
    "RESIZE": resize,
    "REVERSE": reverse,
    "SCATTER": scatter,
    "SELECT": select,
    "SLICE": slice_,
    "SUB": _binary("SUB", ("INT32",)),
    "TABLE": table,
    "TILE": tile,
    "TRANSPOSE": transpose,
    "TRANSPOSE_CONV2D": transpose_conv2d,
}
"""How each operator is drawn."""


def network(seed: int | str, kinds: Sequence[str] = ()) -> TosaFile:
    """The network of a seed: its first operators are of `kinds`, if there are any."""
    d = Draw(seed)
    for kind in kinds or d.rng.choices(sorted(DRAWS), k=d.rng.randint(1, 4)):
        DRAWS[kind](d)
    made = [op.outputs[0] for op in d.file.operators if op.inputs]
    read = {name for op in d.file.operators for name in op.inputs}
    last = [name for name in made if name not in read or d.rng.random() < 0.2]
    d.file.outputs = [_told(d, name) for name in last]
    if not d.file.inputs:
        d.file.outputs.append(d.file.add("IDENTITY", [d.file.input(np.arange(3), "INT8")], (3,), "INT8"))
    return d.file


def _told(d: Draw, name: str) -> str:
    """An output for the model, which tells none of int48: those as they are, or without their lowest 16 bits."""
    if d.file.tensors[name].dtype != "INT48":
        return name
    multiplier, shift = d.rng.choice(((4, 2), (4, 2), (1, 16)))
    operands = [d.file.constant([multiplier], "INT16"), d.file.constant([shift], "INT8")]
    points = [d.file.constant([0], "INT48"), d.file.constant([0], "INT32")]
    flags = dict.fromkeys(("per_channel", "input_unsigned", "output_unsigned", "scale32"), False)
    return d.file.add("RESCALE", [name, *operands, *points], d.of(name), "INT32", rounding_mode=1, **flags)
