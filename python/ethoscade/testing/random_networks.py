"""Random small networks for property tests: every choice comes from one seeded generator.

Owns what follows what: chains, forks, cuts by operators that stay on the CPU, several inputs and outputs. What an
operator may look like is `drawing`'s, rows of them `junctions`'. Together they draw every operator and attribute that
the reader understands, so that whatever is wrong with one of them is found by some seed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ir import DType, Quantisation
from . import drawing_moves, junctions
from .builder import ModelBuilder
from .calibration import coarse_scale
from .drawing import Drawing
from .drawing_matrices import batch_matmul, lstm, svdf
from .drawing_words import arg_max, words
from .recorder import Value
from .streaming import stateful

_Step = Callable[[Drawing, Value], Value]

_BODY: tuple[tuple[float, _Step], ...] = (
    (0.2, Drawing.conv),
    (0.12, Drawing.depthwise),
    (0.12, Drawing.pool),
    (0.08, Drawing.pad),
    (0.12, Drawing.residual),
    (0.15, drawing_moves.branches),
    (0.1, Drawing.standalone),
    (0.15, Drawing.function),
    (0.05, Drawing.wide),
    (0.03, Drawing.divided),
    (0.04, Drawing.zero_output),
    (0.18, Drawing.binary),
    (0.06, Drawing.reshape),
    (0.05, Drawing.resize),
    (0.05, Drawing.transpose_conv),
    (0.05, Drawing.resize_bilinear),
    (0.02, Drawing.squeezed),
    (0.02, Drawing.renamed),
    (0.04, drawing_moves.sliced),
    (0.08, drawing_moves.moved),
    (0.06, junctions.renames),
    (0.06, junctions.clamped),
    (0.04, junctions.padded),
)
_JUDGED_BY_LITERT: tuple[tuple[float, _Step], ...] = (
    (0.08, junctions.island),
    (0.03, junctions.filled_operand),
)
_HEADS: tuple[tuple[float, _Step], ...] = (
    (0.12, Drawing.dense),
    (0.08, Drawing.mean),
    (0.03, Drawing.softmax),
    (0.04, batch_matmul),
    (0.06, Drawing.normalised),
)


def random_network(
    seed: int,
    *,
    max_operators: int = 8,
    max_resolution: int = 24,
    max_channels: int = 32,
    dtype: DType | None = None,
    heads: bool = True,
    floats: bool = False,
) -> bytes:
    """A network of 1 to `max_operators` drawn steps (a step is one to a few operators) and perhaps a classifier.

    Images have up to `max_resolution` rows and columns. `dtype` None draws int8 (mostly), uint8 or int16, in which the
    network begins; `heads` False leaves out MEAN, FULLY_CONNECTED, SOFTMAX, BATCH_MATMUL, SVDF and
    UNIDIRECTIONAL_SEQUENCE_LSTM. With `floats` there are islands of floats between 8-bit values and
    FILL, of which LiteRT alone is the judge.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    if dtype is None:
        drawn = rng.random()
        dtype = DType.UINT8 if drawn < 0.3 else DType.INT16 if drawn > 0.85 else DType.INT8
    per_channel = bool(rng.random() < 0.8)
    narrow = dtype is DType.INT16 and bool(rng.random() < 0.3)
    # Every third network has dead channels.
    dead_share = 0.5 if seed % 3 == 0 else 0.0
    builder = ModelBuilder(
        f"random_{seed}",
        dtype=dtype,
        per_channel=per_channel,
        seed=seed,
        dead_share=dead_share,
        narrow_biases=narrow,
    )
    draw = Drawing(builder, rng, max_channels, heads)
    values = [_first(draw, max_resolution)]
    steps = (*_BODY, *(_HEADS if heads else ()), *(_JUDGED_BY_LITERT if floats else ()))
    odds = np.array([p for p, _ in steps]) / sum(p for p, _ in steps)
    # Every eighth network has state, at its beginning and perhaps further on, every eighth many channels pooled to one
    # pixel, every sixteenth an LSTM and every sixteenth an SVDF: drawn apart from all else.
    apart = Drawing(builder, np.random.Generator(np.random.PCG64([seed, 2])), max_channels, heads)
    keeps = (0, apart.integer(0, max_operators - 1)) if seed % 8 == 4 else ()
    for step in range(draw.integer(1, max_operators)):
        # Mostly the last value, so that networks become deep; else any, so that they fork.
        x = values[-1] if draw.chance(0.8) else values[draw.integer(0, len(values) - 1)]
        if step in keeps:
            x = apart.smaller(stateful(apart, x))
        if step == 0 and heads and seed % 16 == 7:
            x = lstm(apart, x)
        if step == 0 and heads and seed % 16 == 15:
            x = svdf(apart, x)
        values.append(draw.smaller(steps[int(rng.choice(len(steps), p=odds))][1](draw, x)))
    if heads and seed % 8 == 3:
        values.append(junctions.pooled(apart, values[-1]))
    if heads and draw.chance(0.4):
        values.append(_classified(draw, values[-1]))
    _expose(draw, values)
    return builder.build()


def _first(draw: Drawing, max_resolution: int) -> Value:
    """A network input, mostly one image; sometimes float, quantised by the network itself."""
    height, width = (draw.integer(1, max_resolution) for _ in range(2))
    batch = draw.integer(2, 3) if draw.chance(0.12) else 1
    shape: tuple[int, ...] = (batch, height, width, draw.channels())
    if draw.chance(0.15):
        shape = shape[draw.integer(1, 3) :]
    b = draw.builder
    if draw.chance(0.12):
        return b.quantize(b.input(shape, dtype=DType.FLOAT32, name="input"))
    quantisation = None
    if draw.chance(0.15):
        low, high = b.dtype.limits
        zero_point = (low, high, draw.integer(low, high))[draw.integer(0, 2)]
        steps = 8 if b.dtype is DType.INT16 else 0
        zero_point = 0 if steps else zero_point
        quantisation = Quantisation((coarse_scale(2.0 ** (draw.rng.uniform(-16, 4) - steps)),), (zero_point,))
    return b.input(shape, name="input", quantisation=quantisation)


def _classified(draw: Drawing, x: Value) -> Value:
    """A classifier of some kind."""
    b = draw.builder
    if len(x.shape) == 4 and draw.chance(0.5):
        x = b.mean(x, keep_dims=draw.chance(0.5))
        x = draw.reshaped(x, (x.shape[0], x.shape[-1])) if len(x.shape) == 4 else x
    elif len(x.shape) == 4 and draw.chance(0.5):
        x = b.average_pool(x, (x.shape[1], x.shape[2]))
    x = draw.dense(x)
    return draw.softmax(x) if draw.chance(0.5) else x


def _expose(draw: Drawing, values: list[Value]) -> None:
    """The last value is an output of the network; others may be, read or not, reshaped ones and an input too."""
    last = values[-1]
    others = [value for value in values[1:-1] if draw.chance(0.12)]
    if draw.chance(0.15) and len(last.shape) > 1:
        others.append(arg_max(draw, last))
    if draw.chance(0.1):
        others.append(words(draw, last))
    if draw.chance(0.15):
        # The same bytes under another name: of any value, the network's input among them.
        x = values[draw.integer(0, len(values) - 1)]
        others.append(draw.five(x) if draw.chance(0.5) else draw.reshape(x))
    if draw.chance(0.12):
        last = draw.builder.dequantize(last)
    outputs = [*others, last] if draw.chance(0.5) else [last, *others[::-1]]
    if draw.chance(0.05):
        outputs.append(values[0])
    draw.builder.output(*outputs)
