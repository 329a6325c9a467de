"""A network of a sliding window that takes only new rows: LiteRT on the whole window is what it is held to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import ethoscade
import flatbuffers
import numpy as np
import numpy.typing as npt
import pytest
from command_line_support import Capture, run, run_json, written
from ethoscade import ConfigError, EthoscadeError, ModelFormatError, VerificationError
from ethoscade.frontend import read_tflite
from ethoscade.ir import Activation, DType
from ethoscade.sliding import file as sliding_file
from ethoscade.testing import ModelBuilder
from ethoscade.testing.recorder import Value

interpreter = pytest.importorskip("ai_edge_litert.interpreter")
schema = pytest.importorskip("ai_edge_litert.schema_py_generated")

Values = npt.NDArray[np.generic]


class Reference:
    """A file in LiteRT's reference kernels; variables live on."""

    def __init__(self, model: bytes) -> None:
        resolver = interpreter.OpResolverType.BUILTIN_REF
        self._inner = interpreter.Interpreter(model_content=model, experimental_op_resolver_type=resolver)
        self._inner.allocate_tensors()
        (self._input,) = self._inner.get_input_details()
        self.shape = tuple(int(extent) for extent in self._input["shape"])

    def run(self, value: Values) -> list[Values]:
        self._inner.set_tensor(self._input["index"], value)
        self._inner.invoke()
        return [self._inner.get_tensor(output["index"]) for output in self._inner.get_output_details()]


def windows(model: bytes, shape: tuple[int, ...], steps: int) -> Iterator[tuple[Values, Values]]:
    """New rows of an input of `shape`, and the window that they end, of zeros at first."""
    tensor = read_tflite(model).tensors[read_tflite(model).given[0]]
    (axis,) = (a for a, (whole, new) in enumerate(zip(tensor.shape, shape, strict=True)) if whole != new)
    zero = 0 if tensor.dtype.is_float or tensor.quantisation is None else tensor.quantisation.zero_point
    window: Values = np.full(tensor.shape, zero, tensor.dtype.numpy)
    rng = np.random.default_rng(1)
    for _ in range(steps):
        if tensor.dtype.is_float:
            new: Values = rng.normal(size=shape).astype(np.float32)
        else:
            low, high = tensor.dtype.limits
            new = rng.integers(low, high, shape, tensor.dtype.numpy, endpoint=True)
        window = np.concatenate([window, new], axis)
        window = np.take(window, range(shape[axis], window.shape[axis]), axis)
        yield new, window


def last_rows(value: Values, like: Values) -> Values:
    """As many rows of the window's output as are new."""
    for axis, (whole, new) in enumerate(zip(value.shape, like.shape, strict=True)):
        value = np.take(value, range(whole - new, whole), axis)
    return value


def assert_exact(model: bytes, rows: int, steps: int = 100) -> ethoscade.Sliding:
    """The network that slides makes in LiteRT, step by step, what the original makes of its window there."""
    found = ethoscade.slide(model, rows)
    whole, sliding = Reference(model), Reference(found.model)
    for new, window in windows(model, sliding.shape, steps):
        for expected, value in zip(whole.run(window), sliding.run(new), strict=True):
            assert np.array_equal(last_rows(expected, value), value)
    return found


# --- networks ---------------------------------------------------------------------------------------------------------


def wake_word() -> bytes:
    """Separable convolutions along time, as in MLPerf Tiny's streaming wake word."""
    b = ModelBuilder("wake_word", seed=3)
    x = b.input((1, 30, 1, 40), name="features")
    for kernel, channels in ((3, 32), (5, 32), (10, 32), (15, 16)):
        x = b.depthwise(x, (kernel, 1), padding="VALID")
        x = b.conv2d(x, channels, 1, activation=Activation.RELU)
    b.softmax(b.fully_connected(b.reshape(x, (1, 16)), 3))
    return b.build()


def strided() -> bytes:
    """Strides and dilations, of which some leave rows at the end that no window takes."""
    b = ModelBuilder("strided")
    x = b.conv2d(b.input((1, 49, 10, 2), name="x"), 8, (4, 3), stride=(2, 1), padding="VALID")
    x = b.conv2d(x, 8, (3, 1), dilation=(2, 1), padding="VALID")
    x = b.max_pool(x, (3, 2), stride=(1, 2))
    b.fully_connected(b.reshape(b.mean(x), (1, 8)), 4)
    return b.build()


def flattened() -> bytes:
    b = ModelBuilder("flattened")
    x = b.conv2d(b.reshape(b.input((1, 480), name="x"), (1, 24, 20, 1)), 4, (5, 4), padding="VALID")
    b.fully_connected(b.reshape(x, (1, 20 * 17 * 4)), 3)
    return b.build()


def branches() -> bytes:
    """A tensor whose readers want none, two and six rows of the runs before, and all of them."""
    b = ModelBuilder("branches")
    x = b.conv2d(b.input((1, 20, 4, 8), name="x"), 8, (3, 1), padding="VALID", activation=Activation.RELU)
    near, far = (b.depthwise(x, (kernel, 1), padding="VALID") for kernel in (3, 7))
    b.output(b.conv2d(x, 4, 1), b.mean(near), b.mean(far), b.conv2d(x, 4, (3, 3)))
    return b.build()


def row_by_row() -> bytes:
    """Outputs have rows, too: element-wise, joined by channels, each with a softmax of its own."""
    b = ModelBuilder("row_by_row")
    x = b.conv2d(b.input((1, 16, 3, 4), name="x"), 8, (2, 1), padding="VALID")
    y = b.add(b.unary("TANH", x), x)
    b.output(b.softmax(b.concatenate([y, b.quantize(x, y.quantisation)], axis=3)), b.unary("LOGISTIC", y))
    return b.build()


def of_floats() -> bytes:
    b = ModelBuilder("of_floats")
    x = b.quantize(b.input((1, 12, 4, 3), dtype=DType.FLOAT32, name="x"))
    b.dequantize(b.mean(b.conv2d(b.conv2d(x, 8, (3, 1), padding="VALID"), 4, (3, 1), padding="VALID")))
    return b.build()


def padded() -> bytes:
    """Its first operator pads time, so that the window is kept as it is."""
    b = ModelBuilder("padded")
    b.mean(b.conv2d(b.input((1, 10, 5, 3), name="x"), 8, 3))
    return b.build()


def folded() -> bytes:
    """Two copies of the rows lie behind one another, so that what a RESHAPE makes of them has no rows."""
    b = ModelBuilder("folded")
    x = b.conv2d(b.input((1, 1, 12, 4), name="x"), 8, (1, 3), padding="VALID")
    b.relu(b.reshape(b.concatenate([x, b.quantize(b.unary("TANH", x), x.quantisation)], axis=1), (1, 20, 8)))
    return b.build()


def gated() -> bytes:
    """A gate made of the whole window: what it did to rows before is another thing in the next run."""
    b = ModelBuilder("gated")
    x = b.conv2d(b.input((1, 20, 2, 4), name="x"), 4, (3, 1), padding="VALID")
    y = b.binary("MUL", x, b.unary("LOGISTIC", b.reshape(b.mean(x), (1, 1, 1, 4))))
    b.output(b.conv2d(y, 4, (3, 1), padding="VALID"))
    return b.build()


def squeezed() -> bytes:
    """A SQUEEZE that names no dimensions, and must not drop that of a single new row."""
    b = ModelBuilder("squeezed")
    x = b.squeeze(b.conv2d(b.input((1, 20, 1, 4), name="x"), 4, (3, 1), padding="VALID"))
    b.conv2d(b.reshape(b.unary("TANH", x), (1, 18, 1, 4)), 4, (3, 1), padding="VALID")
    return b.build()


def weighed() -> bytes:
    """Rows by rows: their products are of all of them."""
    b = ModelBuilder("weighed")
    rows = b.reshape(b.input((1, 20, 1, 4), name="x"), (20, 4))
    b.output(b.weighed_by(rows, b.relu(rows)))
    return b.build()


def flattened_twice() -> bytes:
    b = ModelBuilder("flattened_twice")
    x = b.input((1, 96), name="x")
    b.output(*(b.conv2d(b.reshape(x, (1, 12, 4, 2)), 4, (k, 1), padding="VALID") for k in (2, 5)))
    return b.build()


def behind_its_tables() -> bytes:
    """The buffers lie behind the FlatBuffer, as in files near 2 GiB."""
    model = schema.ModelT.InitFromPackedBuf(bytearray(wake_word()), 0)
    data = [(buffer, bytes(buffer.data)) for buffer in model.buffers if buffer.data is not None and len(buffer.data)]
    start = 1 << 16
    for buffer, held in data:
        buffer.data, buffer.offset, buffer.size = None, start, len(held)
        start += -(-len(held) // 16) * 16
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), b"TFL3")
    tables = bytes(builder.Output())
    assert len(tables) < 1 << 16
    return tables.ljust(1 << 16, b"\0") + b"".join(held.ljust(-(-len(held) // 16) * 16, b"\0") for _, held in data)


MODELS: dict[str, Callable[[], bytes]] = {
    made.__name__: made
    for made in (
        wake_word, strided, flattened, branches, row_by_row, of_floats, padded, folded, gated, squeezed,
        weighed, flattened_twice, behind_its_tables,
    )
}  # fmt: skip


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("name", MODELS)
def test_a_hundred_steps_are_exact(name: str, rows: int) -> None:
    found = assert_exact(MODELS[name](), rows)
    assert (found.new_rows, found.window_rows > rows) == (rows, True)


def drawn(seed: int) -> tuple[bytes, int]:
    """A stack of anything that may lie along time, and the rows by which it slides."""
    rng = np.random.default_rng(seed)

    def one_of(*values: int) -> int:
        return int(rng.choice(values))

    b = ModelBuilder(f"drawn_{seed}", seed=seed)
    height = one_of(9, 14, 23)
    x = b.input((1, height, one_of(1, 4), one_of(1, 3, 8)), name="x")
    for _ in range(one_of(1, 2, 3, 4)):
        x = layer(b, x, rng)
    if one_of(0, 1):
        x = b.mean(x) if one_of(0, 1) else b.fully_connected(b.reshape(x, (1, int(np.prod(x.shape)))), 4)
    b.output(x)
    return b.build(), one_of(1, 2, 3, 4)


def layer(b: ModelBuilder, x: Value, rng: np.random.Generator) -> Value:
    """Any operator that knows rows; windows only where they fit."""
    height, width = x.shape[1:3]
    taken, stride, dilation = (int(value) for value in (rng.integers(1, 5), rng.integers(1, 3), rng.integers(1, 3)))
    fits = (taken - 1) * dilation + 1 <= height
    kinds: dict[str, Callable[[], Value]] = {
        "add": lambda: b.add(x, b.unary("TANH", x)),
        "relu": lambda: b.relu(x),
        "softmax": lambda: b.softmax(x),
        "joined": lambda: b.concatenate([x, x], axis=3),
        "gated": lambda: b.binary("MUL", x, b.reshape(b.mean(x), (1, 1, 1, x.shape[3]))),
        "constant": lambda: b.binary("MAXIMUM", x, b.constant(rng.normal(size=one_shape(x, rng)))),
        "conv": lambda: b.conv2d(x, 8, (taken, 1), stride=(stride, 1), padding="VALID"),
        "dilated": lambda: b.conv2d(x, 4, (taken, 1), dilation=(dilation, 1), padding="VALID"),
        "depthwise": lambda: b.depthwise(x, (taken, 1), stride=(stride, stride), padding="VALID"),
        "pool": lambda: b.average_pool(x, (taken, 1), stride=(stride, 1)),
        "padded": lambda: b.conv2d(x, 4, (3, 1)),
        "dense": lambda: b.fully_connected(x, 6, keep_num_dims=True),
        "reshaped": lambda: b.reshape(x, (1, height, 1, width * x.shape[3])),
    }
    of_windows = ("conv", "dilated", "depthwise", "pool")
    return kinds[str(rng.choice([name for name in kinds if fits or name not in of_windows]))]()


def one_shape(x: Value, rng: np.random.Generator) -> tuple[int, ...]:
    """Of an operand that is repeated along some axes of a value."""
    return tuple(extent if rng.integers(2) else 1 for extent in x.shape)


def test_random_stacks_are_exact() -> None:
    slid = 0
    for seed in range(80):
        model, rows = drawn(seed)
        slid += bool(assert_exact(model, rows, 30).kept_bytes)
    assert slid > 50


@pytest.mark.parametrize("name", ["wake_word", "branches", "row_by_row"])
def test_compiled_it_slides_on_the_npu(name: str) -> None:
    """The file is one like any other: on the NPU, with its state, it makes what the window makes."""
    model = MODELS[name]()
    found = ethoscade.slide(model, 2)
    compiled = ethoscade.compile(found.model, optimise="size")
    assert compiled.cpu_operators == () and compiled.verify(seeds=1, runs=5).ok
    assert compiled.verify(seeds=1, runs=3, target="c").ok
    whole = Reference(model)
    (given,) = (compiled.source.tensors[t] for t in compiled.source.given)
    pairs = list(windows(model, given.shape, 25))
    results = compiled.simulate_steps([{given.name: new} for new, _ in pairs])
    for (_, window), result in zip(pairs, results, strict=True):
        assert result.faults == ()
        for expected, value in zip(whole.run(window), result.outputs.values(), strict=True):
            assert np.array_equal(last_rows(expected, value), value)


def test_rows_are_kept_once_and_no_more_than_are_wanted() -> None:
    """Of 40, 32, 32 and 32 channels 2, 4, 9 and 14 rows: what windows take less the new one."""
    assert ethoscade.slide(wake_word(), 1).kept_bytes == 40 * 2 + 32 * (4 + 9 + 14)
    found = ethoscade.slide(branches(), 1)
    graph = read_tflite(found.model)
    # Two of the input; all but the new one for the two means, of 12 and 16 rows, and for what pads 18.
    kept = [variable.initial for variable in graph.variables]
    assert sorted(initial.shape[1] for initial in kept) == [2, 11, 15, 17]
    assert len(found.window_operators) == 3 and found.kept_bytes == sum(initial.nbytes for initial in kept)


def test_macs_are_those_of_new_rows(tmp_path: Path, capfd: Capture) -> None:
    model = written(tmp_path / "wake.tflite", wake_word())
    report = run_json(["slide", model], capfd)
    assert report["output"] == str(tmp_path / "wake_sliding.tflite") and Path(report["output"]).is_file()
    dense = 3 * 16
    # Each layer's share of rows: 28, 24, 15 and 1 of them in the window.
    layers = [rows * (kernel * given + given * made) for rows, kernel, given, made in
              ((28, 3, 40, 32), (24, 5, 32, 32), (15, 10, 32, 32), (1, 15, 32, 16))]  # fmt: skip
    assert report["macs"]["window"] == sum(layers) + dense
    assert (
        report["macs"]["sliding"]
        == sum(cost // rows for cost, rows in zip(layers, (28, 24, 15, 1), strict=True)) + dense
    )
    out = tmp_path / "other.tflite"
    status, text, _ = run(["slide", model, "--rows", "3", "-o", str(out)], capfd)
    assert status == 0 and "3 of 30 rows are new in a run" in text and f"wrote {out}" in text
    assert out.read_bytes() == ethoscade.slide(model, 3).model


# --- what cannot slide ------------------------------------------------------------------------------------------------


def two_inputs() -> bytes:
    b = ModelBuilder("two_inputs")
    b.add(b.input((1, 8, 4, 4), name="first"), b.input((1, 8, 4, 4), name="second"))
    return b.build()


def vector() -> bytes:
    b = ModelBuilder("vector")
    b.fully_connected(b.input((1, 64), name="x"), 8)
    return b.build()


def shaped(*shape: int, to: tuple[int, ...] | None = None) -> bytes:
    b = ModelBuilder("shaped")
    x = b.input(shape, name="x")
    b.unary("TANH", x if to is None else b.reshape(x, to))
    return b.build()


def of_strange_zero() -> bytes:
    model = schema.ModelT.InitFromPackedBuf(bytearray(wake_word()), 0)
    model.subgraphs[0].tensors[model.subgraphs[0].inputs[0]].quantization.zeroPoint = [128]
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


@pytest.mark.parametrize(
    ("model", "rows", "message"),
    [
        (two_inputs, 1, "has 2 inputs; a network of one can slide"),
        (vector, 1, "slides along the first dimension behind the batch"),
        (lambda: shaped(49, 40, to=(1, 49, 40, 1)), 1, "slides along the first dimension behind the batch"),
        (lambda: shaped(20, 20, to=(1, 20, 20, 1)), 1, "slides along the first dimension behind the batch"),
        (lambda: shaped(1, 1, 1, 64), 1, "at least one more dimension must follow"),
        (wake_word, 0, "rows is 0"),
        (wake_word, 30, "rows is 30; the window of 'model' has 30 rows, and slides by 1 to 29"),
        (lambda: ethoscade.slide(wake_word(), 1).model, 1, "keeps state from run to run already"),
    ],
)
def test_what_cannot_slide_is_refused(model: Callable[[], bytes], rows: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ethoscade.slide(model(), rows)


def test_damaged_files_end_in_a_sentence() -> None:
    with pytest.raises(ModelFormatError, match="zero point of input 'features' is 128, which is no int8"):
        ethoscade.slide(of_strange_zero())
    sound, rng, refused = flattened(), np.random.default_rng(7), 0
    for _ in range(600):
        model = bytearray(sound)
        for place in rng.integers(0, len(model), rng.integers(1, 4)):
            model[place] = rng.integers(256)
        try:
            ethoscade.slide(bytes(model))
        except EthoscadeError:
            refused += 1
    assert 100 < refused < 600


def test_bad_files_and_missing_litert_are_named(
    tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelFormatError):
        ethoscade.slide(b"no model")
    model = written(tmp_path / "wake.tflite", wake_word())
    for name in (".", "", str(tmp_path)):
        status, _, err = run(["slide", name], capfd)
        assert status == 1 and "Traceback" not in err and err.count("\n") == 1
    status, _, err = run(["slide", model, "-o", model], capfd)
    assert status == 1 and "Traceback" not in err and Path(model).read_bytes() == wake_word()
    monkeypatch.setitem(__import__("sys").modules, "ai_edge_litert", None)
    with pytest.raises(VerificationError, match=r"install ethoscade\[verify\]"):
        sliding_file.slide(model)
