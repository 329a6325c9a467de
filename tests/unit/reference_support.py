"""Shared by the tests of the reference, the builder and the judge: LiteRT in this process, one-operator models."""

from __future__ import annotations

import ctypes
import ctypes.util
import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from ethoscade.frontend import read_tflite
from ethoscade.ir import Activation, DType, Graph, Quantisation
from ethoscade.ir.operators import own_outputs, updated
from ethoscade.judge import litert, reference
from ethoscade.judge.judges import litert_lacks, micro_decides, undefined
from ethoscade.judge.litert_models import acceptable, head
from ethoscade.judge.reference import functions
from ethoscade.judge.verification import random_inputs
from ethoscade.testing import ModelBuilder, random_network
from ethoscade.testing.real_operators import BINARY, UNARY

ACTIVATIONS = tuple(Activation)
MOVES = ("GATHER", "MIRROR_PAD", "PACK", "PADV2", "REVERSE_V2", "SLICE", "STRIDED_SLICE", "TILE", "TRANSPOSE", "UNPACK")
UNSCALED = {
    "MIRROR_PAD": (DType.UINT8, DType.INT16),
    "PACK": (DType.UINT8,),
    "UNPACK": (DType.UINT8,),
}
"""Types of moves whose kernels, of any runtime, take no other scale."""
MEAN_AXES = ((1, 2), (1,), (2,), (3,), (1, 2, 3), (2, 3), (-1,), (0, 2), (1, 3), (0, 1, 3))


def needs_litert() -> None:
    """Skip the test if LiteRT is not installed."""
    pytest.importorskip("ai_edge_litert", reason='LiteRT is not installed: pip install "ethoscade[verify]"')


def models_folder() -> Path | None:
    """$ETHOSCADE_MODELS, or shared/models in a parent directory, or None."""
    named = os.environ.get("ETHOSCADE_MODELS")
    candidates = [Path(named)] if named else [p / "shared" / "models" for p in Path(__file__).resolve().parents]
    return next((c for c in candidates if c.is_dir()), None)


def litert_values(graph: Graph, inputs: Mapping[str, np.ndarray], kept: int | None = None) -> dict[int, np.ndarray]:
    """Every tensor's value in LiteRT's reference kernels. In this process: a model that LiteRT dislikes ends it."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    source = acceptable(graph.source)
    if kept is not None:
        source = head(source, range(kept), graph.given, graph.operators[kept - 1].outputs) + source
    interpreter = Interpreter(
        model_content=source,
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    for detail, index in zip(interpreter.get_input_details(), graph.given, strict=True):
        interpreter.set_tensor(detail["index"], inputs[graph.tensors[index].name])
    interpreter.invoke()
    operators = graph.operators[:kept]
    wanted = {t for op in operators for t in (*op.inputs, *own_outputs(op)) if t is not None}
    return {t: interpreter.get_tensor(t) for t in sorted(wanted)}


def micro_values(graph: Graph, index: int, values: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """What TensorFlow Lite Micro makes of one operator's inputs."""
    op = graph.operators[index]
    given = [t for t in dict.fromkeys(op.inputs) if t is not None and not graph.tensors[t].is_constant]
    with litert.Session(graph.source, graph.name, litert.MICRO) as session:
        place = index if op.source_index is None else op.source_index
        (made,) = session.run([place], given, op.outputs, [{t: values[t] for t in given}])
    return {t: made[t].reshape(graph.tensors[t].shape) for t in op.outputs}


def differences(graph: Graph, inputs: Mapping[str, np.ndarray], kept: int | None = None) -> list[tuple[str, int, int]]:
    """The operators that our reference computes otherwise than LiteRT, each on LiteRT's own inputs.

    Convolutions whose biases LiteRT takes for others, and sums of values that it does, are Micro's to judge, on the
    same inputs, where it is installed. What writes over its state is not among them: one run is no judge of it.

    Of each: kind and name, differing elements, largest difference.
    """
    values = litert_values(graph, inputs, kept)
    found = []
    for index, op in enumerate(graph.operators[:kept]):
        judged = values
        if updated(op):
            continue
        if op.kind in ("CONV_2D", "SUM") and micro_decides(graph, op):
            if not litert.is_installed(litert.MICRO):
                continue
            judged = micro_values(graph, index, values)
        for t, mine in reference.run_operator(graph, op, values).items():
            assert mine.dtype == judged[t].dtype and mine.shape == judged[t].shape
            apart = np.abs(mine.astype(np.float64) - judged[t].astype(np.float64))
            if apart.any():
                found.append((f"{op.kind} {op.name}", int(np.count_nonzero(apart)), int(apart.max())))
    return found


@contextmanager
def functions_of_the_c_library() -> Iterator[None]:
    """The reference with the C library's functions of floats, as LiteRT's kernels take them.

    Ours are rounded once, whatever the machine; the last bit of the library's is each version's own.
    """
    library = ctypes.CDLL(ctypes.util.find_library("m"))

    def of_floats(name: str) -> Callable[[np.ndarray], np.ndarray]:
        function = getattr(library, name)
        function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
        return np.vectorize(function, otypes=[np.float32])

    with pytest.MonkeyPatch.context() as patch:
        for place, name in (("_exp", "expf"), ("_tanh", "tanhf"), ("_erfc", "erfcf")):
            patch.setattr(functions, place, of_floats(name))
        yield


def check(model: bytes, seed: int = 0) -> None:
    """Fail unless every operator of `model` equals LiteRT on the inputs of `seed` and the two after."""
    graph = read_tflite(model)
    for s in range(seed, seed + 3):
        assert differences(graph, random_inputs(graph, s)) == []


def drawn_quantisation(rng: np.random.Generator, dtype: DType) -> Quantisation:
    """Scales over twelve powers of two; zero points often at the type's limits."""
    lowest, highest = dtype.limits
    scale = float(np.float32(2.0 ** rng.uniform(-9, 3)))
    if dtype is DType.INT16:
        return Quantisation((float(np.float32(scale / 256)),), (0,))
    places = (lowest, highest, (lowest + highest + 1) // 2, int(rng.integers(lowest, highest + 1)))
    return Quantisation((scale,), (places[rng.integers(4)],))


def drawn_operator(
    kind: str, seed: int, dtype: DType | None = None, narrow: bool = False, builder: type[ModelBuilder] = ModelBuilder
) -> bytes:
    """A model of one operator of `kind`, everything else about it drawn from `seed`; of int8 or uint8 by default.

    `narrow` makes biases of int16 operators int32.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    unary = UNARY.get(kind)
    eight_bit = DType.INT8 if rng.random() < 0.5 or (unary and DType.UINT8 not in unary.types) else DType.UINT8
    dtype = dtype or eight_bit
    b = builder(dtype=dtype, per_channel=bool(rng.random() < 0.7), seed=seed, narrow_biases=narrow)
    shape = tuple(int(n) for n in rng.integers((1, 1, 1, 1), (3, 14, 14, 20)))
    shape = shape[{"UNIDIRECTIONAL_SEQUENCE_LSTM": 1, "SVDF": 2}.get(kind, 0) :]
    given = drawn_quantisation(rng, dtype)
    x = b.input(shape, quantisation=given if unary is None or unary.takes is None else unary.takes(given, dtype))
    # Without a given one the output is calibrated, so that clamping does not hide everything else.
    output = None if rng.random() < 0.5 else drawn_quantisation(rng, dtype)
    activation = ACTIVATIONS[rng.integers(4)]
    if kind in ("CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D"):
        _draw_windowed(b, kind, x, rng, output, activation)
    elif kind == "TRANSPOSE_CONV":
        kernel, stride = (tuple(int(n) for n in rng.integers(1, high, 2)) for high in (6, 4))
        padding, use_bias = str(rng.choice(["SAME", "VALID"])), bool(rng.random() < 0.7)
        b.transpose_conv(
            x,
            int(rng.integers(1, 20)),
            kernel,
            stride=stride,
            padding=padding,
            activation=activation,
            use_bias=use_bias,
            output=output,
        )
    elif kind == "FULLY_CONNECTED":
        keep = bool(rng.random() < 0.5)
        b.fully_connected(
            x,
            int(rng.integers(1, 20)),
            activation=activation,
            keep_num_dims=keep,
            per_channel=bool(rng.random() < 0.5),
            use_bias=bool(rng.random() < 0.8),
            output=output,
        )
    elif kind in BINARY:
        _draw_binary(b, kind, x, rng, activation)
    elif kind == "ARG_MAX":
        b.arg_max(
            x, int(rng.choice([-4, -3, -2, -1, -1, -1, 0, 1, 2, 3])), dtype=(DType.INT32, DType.INT64)[rng.integers(2)]
        )
    elif kind in ("REDUCE_MAX", "REDUCE_MIN"):
        b.reduce(kind, x, MEAN_AXES[rng.integers(len(MEAN_AXES))], keep_dims=bool(rng.random() < 0.5))
    elif kind in ("MEAN", "SUM"):
        b.reduce(kind, x, MEAN_AXES[rng.integers(len(MEAN_AXES))], keep_dims=bool(rng.random() < 0.5), output=output)
    elif kind == "UNIDIRECTIONAL_SEQUENCE_LSTM":
        _draw_lstm(b, x, rng)
    elif kind == "SVDF":
        _draw_svdf(b, x, rng, output)
    elif kind == "BATCH_MATMUL":
        _draw_product(b, x, rng, output)
    elif kind == "LOG_SOFTMAX":
        b.log_softmax(x)
    elif kind == "DIV":
        numbers = rng.uniform(0.2, 3.0, x.shape[-1:] if rng.random() < 0.4 else ()) * rng.choice([-1, 1])
        divisor = b.constant(numbers, dtype=dtype)
        # Where quotients are shifted by more than 31 bits or to the left no kernel is defined.
        made = min(max(drawn_quantisation(rng, dtype).scale, x.quantisation.scale / 30), 0.3 * x.quantisation.scale)
        zero_point = drawn_quantisation(rng, dtype).zero_points
        b.divide(x, divisor, activation=activation, output=Quantisation((float(np.float32(made)),), zero_point))
    elif kind == "L2_NORMALIZATION":
        b.l2_normalization(x)
    elif kind == "SOFTMAX":
        b.softmax(x, beta=float(rng.choice([1.0, 0.5, 2.0, 10.0, 0.1])))
    elif kind == "QUANTIZE":
        to = (DType.INT8, dtype if dtype is not DType.INT8 else DType.UINT8, DType.INT16)[rng.integers(3)]
        made = drawn_quantisation(rng, to)
        if dtype is DType.INT16 and rng.random() < 0.3:
            to, made = DType.INT32, Quantisation(made.scales, (0,))
        b.quantize(x, made, dtype=to)
    elif kind == "CONCATENATION":
        axis = int(rng.integers(-len(shape), len(shape)))
        others = [tuple(int(n) if i == axis % 4 else d for i, d in enumerate(shape)) for n in rng.integers(1, 9, 2)]
        count = int(rng.integers(0, 3))
        scaled = dtype is DType.UINT8
        given = [drawn_quantisation(rng, dtype) if scaled and rng.random() < 0.5 else x.quantisation for _ in range(3)]
        parts = [x, *(b.input(other, quantisation=q) for other, q in zip(others[:count], given, strict=False))]
        if rng.random() < 0.3:
            parts.insert(0, b.constant(rng.standard_normal(others[1]), dtype=x.dtype, quantisation=given[2]))
        b.concatenate(parts, axis=axis, output=output if scaled else None)
    elif kind in ("SPLIT", "SPLIT_V"):
        axis = int(rng.integers(-len(shape), len(shape)))
        extent = shape[axis]
        if kind == "SPLIT":
            pieces = b.split(x, int(rng.choice([n for n in range(1, extent + 1) if extent % n == 0])), axis=axis)
        else:
            first = int(rng.integers(1, extent + 1))
            pieces = b.split(x, [first, -1] if first < extent else [first], axis=axis)
        if output is not None:
            b.taken_as(pieces[0], output)
    elif kind == "RELU":
        b.relu(x, activation=ACTIVATIONS[rng.integers(1, 4)], output=output)
    elif unary is not None:
        b.unary(kind, x, output=unary.makes(dtype) or (None if unary.calibrated else output))
    elif kind == "LEAKY_RELU":
        b.leaky_relu(x, float(rng.choice([0.1, 0.01, 1.5, 0.0, -0.2, rng.normal()])), output=output)
    elif kind == "GELU":
        b.gelu(x, approximate=bool(rng.random() < 0.5), output=output)
    elif kind == "RESIZE_NEAREST_NEIGHBOR":
        factor = int(rng.choice([1, 2, 4, 8]))
        exact = (shape[1] * factor, shape[2] * factor)
        size = exact if rng.random() < 0.5 else tuple(int(n) for n in rng.integers(1, 40, 2))
        b.resize_nearest(x, size, half_pixel_centers=bool(rng.random() < 0.5))
    elif kind == "RESIZE_BILINEAR":
        factor = int(rng.choice([2, 4, 8]))
        exact = (shape[1] * factor, shape[2] * factor)
        size = exact if rng.random() < 0.3 else tuple(int(n) for n in rng.integers(1, 40, 2))
        how = int(rng.integers(3))
        b.resize_bilinear(x, size, align_corners=how == 1, half_pixel_centers=how == 2)
    elif kind in MOVES:
        made = _draw_moved(b, kind, x, rng, output)
        # Of uint8 nobody has kernels of these for other scales; Micro's, which are for them, know no others.
        if output is not None and (dtype not in UNSCALED.get(kind, ())) and kind != "PADV2":
            for value in made if isinstance(made, tuple) else (made,):
                b.taken_as(value, output)
    elif kind != "PAD":
        raise AssertionError(f"nothing draws {kind}")
    else:
        amounts = [(0, 0), *((int(p), int(q)) for p, q in rng.integers(0, 4, (2, 2))), (0, int(rng.integers(0, 2)))]
        b.pad(x, amounts, output=output)
    return b.build()


def _draw_binary(b, kind, x, rng, activation) -> None:  # type: ignore[no-untyped-def]
    """The second operand, or the first one, is repeated along some axes, or a constant, or the same tensor."""
    function = BINARY[kind]
    dtype = function.second(x.dtype)
    shape = tuple(1 if rng.random() < 0.3 else extent for extent in x.shape)[int(rng.integers(4)) :]
    shape = x.shape if rng.random() < 0.5 else shape
    if rng.random() < 0.4:
        y = b.constant(rng.standard_normal(shape), dtype=dtype, quantisation=drawn_quantisation(rng, dtype))
    else:
        y = (
            x
            if rng.random() < 0.1 and dtype is x.dtype
            else b.input(shape, dtype=dtype, quantisation=drawn_quantisation(rng, dtype))
        )
    if kind != "PRELU" and rng.random() < 0.5:
        x, y = y, x
    # Kernels of sums and squares are defined for factors below 1 alone.
    coarse = max(x.quantisation.scale, y.quantisation.scale)
    squares = 4 if x.dtype is DType.INT16 else 1 / 4096
    least = squares * coarse**2 if kind == "SQUARED_DIFFERENCE" else coarse / 2**19
    drawn = drawn_quantisation(rng, x.dtype)
    output = Quantisation((max(drawn.scale, 2 * float(np.float32(least))),), drawn.zero_points)
    b.binary(kind, x, y, activation=activation if function.fuses else Activation.NONE, output=output)


def _draw_product(b, x, rng, output) -> None:  # type: ignore[no-untyped-def]
    """The other operand is on either side, a constant or not, its matrices transposed or not, repeated or not."""
    adjoint, left = rng.random(2) < 0.5, bool(rng.random() < 0.5)
    terms = x.shape[-1 - (adjoint[0] == left)]
    other = (terms, int(rng.integers(1, 9)))
    shape = (*((1 if rng.random() < 0.3 else d) for d in x.shape[:-2]), *other[:: 1 if adjoint[1] != left else -1])
    shape = shape[int(rng.integers(3)) :]
    given = drawn_quantisation(rng, x.dtype)
    if rng.random() < 0.3:
        y = b.constant(rng.standard_normal(shape), dtype=x.dtype, quantisation=given)
    else:
        y = b.input(shape, quantisation=given)
    if output is not None:
        # Kernels of int16 are defined for factors below 2^14.
        least = x.quantisation.scale * given.scale / 2**12
        output = Quantisation((max(output.scale, float(np.float32(least))),), output.zero_points)
    operands, turned = ((x, y), adjoint) if left else ((y, x), adjoint[::-1])
    b.batch_matmul(*operands, adj_x=bool(turned[0]), adj_y=bool(turned[1]), output=output)


def _draw_lstm(b, x, rng) -> None:  # type: ignore[no-untyped-def]
    """Gates that saturate or not, hidden states of any quantisation, cells of other scales, clipped or not."""
    clip = float(rng.choice([0.0, 10.0, 0.3]))
    output = None if rng.random() < 0.5 else drawn_quantisation(rng, x.dtype)
    if output is not None and x.dtype is not DType.INT16:
        output = Quantisation((float(np.float32(output.scale / 16)),), output.zero_points)
    gain = float(rng.choice([0.3, 1.0, 3.0])) / max(x.quantisation.scale * 2 ** (8 * x.dtype.size_bytes - 2), 1.0)
    b.lstm(
        x,
        int(rng.integers(1, 20)),
        time_major=bool(rng.random() < 0.5),
        cell_clip=clip,
        cell_scale=2.0 ** int(rng.integers(-15, -7)),
        gain=gain,
        output=output,
    )


def _draw_svdf(b, x, rng, output) -> None:  # type: ignore[no-untyped-def]
    """States of either type that saturate or not, of int8 with any zero point, ranks, and one run or several."""
    dtype = DType.INT8 if rng.random() < 0.6 else DType.INT16
    state = None
    if rng.random() < 0.7:
        size = x.quantisation.scale * 2.0 ** rng.uniform(-3, 1) / (1 if dtype is DType.INT8 else 256)
        state = Quantisation((float(np.float32(size)),), drawn_quantisation(rng, dtype).zero_points)
    b.svdf(
        x,
        int(rng.integers(1, 20)),
        int(rng.integers(1, 12)),
        rank=int(rng.integers(1, 4)),
        state_dtype=dtype,
        state=state,
        output=output,
    )


def _draw_moved(b, kind, x, rng, output):  # type: ignore[no-untyped-def]
    """What is made, one value or several."""
    begin = [int(rng.integers(0, d)) for d in x.shape]
    sizes = [int(rng.integers(1, d - first + 1)) for d, first in zip(x.shape, begin, strict=True)]
    pads = [(int(p), int(q)) for p, q in rng.integers(0, 3, (4, 2))]
    if kind == "SLICE":
        return b.slice(x, begin, [-1 if rng.random() < 0.2 else size for size in sizes])
    if kind == "STRIDED_SLICE":
        ends = [first + size for first, size in zip(begin, sizes, strict=True)]
        steps, mask = [int(n) for n in rng.integers(1, 4, 4)], int(rng.integers(0, 16))
        place, new = int(rng.integers(0, 8)), int(rng.random() < 0.3)
        if new:
            begin, ends, steps, mask = [0, *begin], [1, *ends], [1, *steps], mask << 1
        return b.strided_slice(
            x, begin, ends, steps, begin_mask=mask, new_mask=new, ellipsis_mask=(1 << place) & (30 if new else 15)
        )
    if kind == "UNPACK":
        return b.unpack(x, int(rng.integers(-4, 4)))
    if kind == "PACK":
        return b.pack([x] * int(rng.integers(1, 4)), int(rng.integers(-5, 5)))
    if kind == "PADV2":
        return b.pad(x, pads, value=int(rng.integers(*x.dtype.limits)), output=output)
    if kind == "MIRROR_PAD":
        symmetric = bool(rng.random() < 0.5)
        most = [d if symmetric else d - 1 for d in x.shape]
        amounts = [(min(p, d), min(q, d)) for (p, q), d in zip(pads, most, strict=True)]
        return b.mirror_pad(x, amounts, symmetric=symmetric)
    if kind == "TILE":
        return b.tile(x, [int(n) for n in rng.integers(1, 4, 4)])
    if kind == "GATHER":
        axis = int(rng.integers(-4, 4))
        indices = rng.integers(0, x.shape[axis], rng.integers(1, 5, rng.integers(0, 3)))
        return b.gather(x, np.asarray(indices, np.int64 if rng.random() < 0.3 else np.int32), axis)
    if kind == "TRANSPOSE":
        return b.transpose(x, [int(axis) for axis in rng.permutation(4)])
    return b.reverse(x, [int(rng.integers(0, 4))])


def _draw_windowed(b, kind, x, rng, output, activation) -> None:  # type: ignore[no-untyped-def]
    kernel, stride, dilation = (tuple(int(n) for n in rng.integers(1, high, 2)) for high in (6, 4, 3))
    if kind == "DEPTHWISE_CONV_2D":
        stride = (stride[0], stride[0])
    if kind.endswith("POOL_2D"):
        dilation = (1, 1)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    fits = spans[0] <= x.shape[1] and spans[1] <= x.shape[2]
    common = {"stride": stride, "padding": "VALID" if fits and rng.random() < 0.5 else "SAME", "activation": activation}
    if kind == "CONV_2D":
        groups = int(rng.choice([n for n in range(1, x.shape[3] + 1) if x.shape[3] % n == 0]))
        channels = int(rng.integers(1, 20)) if rng.random() < 0.7 else 0
        groups = 1 if channels else groups
        b.conv2d(x, channels or 2 * groups, kernel, dilation=dilation, output=output, groups=groups, **common)
    elif kind == "DEPTHWISE_CONV_2D":
        multiplier, use_bias = int(rng.integers(1, 4)), bool(rng.random() < 0.8)
        b.depthwise(x, kernel, multiplier=multiplier, dilation=dilation, output=output, use_bias=use_bias, **common)
    else:
        (b.average_pool if kind == "AVERAGE_POOL_2D" else b.max_pool)(x, kernel, **common)


def played_by_litert(seed: int) -> bytes:
    """A random network for each seed, without state, of operators that LiteRT's reference kernels know."""

    def is_played(graph: Graph) -> bool:
        return not graph.variables and not lacked_by_litert(graph)

    # An odd step: whether a network has state is told by its number modulo powers of two.
    found = (random_network(number) for number in itertools.count(seed, 1001))
    return next(model for model in found if is_played(read_tflite(model)))


def lacked_by_litert(graph: Graph) -> bool:
    """Whether LiteRT's reference kernels do not know all of its operators, or define no result for some."""
    return any(litert_lacks(graph, op) or undefined(graph, op) for op in graph.operators)
