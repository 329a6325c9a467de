"""TFLite's SAME and VALID, resolved to explicit windows while a network is built."""

from __future__ import annotations

from ..ir import Window

Pair = int | tuple[int, int]


def as_pair(value: Pair) -> tuple[int, int]:
    """The number for both axes, or the pair itself."""
    return (value, value) if isinstance(value, int) else value


def resolve_window(
    shape: tuple[int, ...], kernel: Pair, stride: Pair, dilation: Pair, padding: str
) -> tuple[Window, tuple[int, int]]:
    """The explicit window over an NHWC `shape`, and the output's (rows, columns).

    SAME makes ceil(extent / stride) outputs; an odd amount of padding puts the larger half behind. Raises `ValueError`
    for another mode, a shape that is not NHWC, or a kernel that does not fit.
    """
    if padding not in ("SAME", "VALID") or len(shape) != 4:
        raise ValueError(f"padding {padding!r} of shape {shape}: SAME or VALID, of four dimensions")
    pads, sizes = [], []
    for extent, k, s, d in zip(shape[1:3], as_pair(kernel), as_pair(stride), as_pair(dilation), strict=True):
        span = (k - 1) * d + 1
        size = -(-extent // s) if padding == "SAME" else (extent - span) // s + 1
        if size < 1:
            raise ValueError(f"a kernel that spans {span} elements does not fit into {extent} without padding")
        total = max((size - 1) * s + span - extent, 0) if padding == "SAME" else 0
        pads.append((total // 2, total - total // 2))
        sizes.append(size)
    (top, bottom), (left, right) = pads
    window = Window(*as_pair(kernel), *as_pair(stride), *as_pair(dilation), top, left, bottom, right)
    return window, (sizes[0], sizes[1])


def transposed_size(shape: tuple[int, ...], kernel: Pair, stride: Pair, padding: str) -> tuple[int, int]:
    """Rows and columns of which a window makes an NHWC `shape`: as many as its strides take (SAME), or its kernel."""
    pairs = zip(shape[1:3], as_pair(kernel), as_pair(stride), strict=True)
    rows, columns = (n * s if padding == "SAME" else (n - 1) * s + k for n, k, s in pairs)
    return rows, columns
