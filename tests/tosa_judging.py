"""Random TOSA networks held against Arm's reference model, and the vectors of it that are stored.

`python tests/tosa_judging.py FIRST COUNT` compares seeds, where the model is installed; `python tests/tosa_judging.py
store` asks it for the vectors anew.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ethoscade.errors import UnsupportedOperatorError
from ethoscade.frontend import read_model
from ethoscade.judge import reference
from ethoscade.judge.tosa_model import UNPREDICTABLE, VALID, TosaModel, TosaModelAbort
from tosa_files import Array, TosaFile
from tosa_networks import DRAWS, network

VECTORS = Path(__file__).with_name("golden") / "tosa_vectors.npz"
"""Files of this generator, inputs, and what Arm's reference model made of them: `N_file`, `N_input_I`, `N_output_I`."""
_FLAGS = ("nan_mode", "local_bound", "round", "mode")
_SEEDS = 120


def evaluate(content: bytes, values: Sequence[Array]) -> tuple[Any, list[Array] | None]:
    """The graph that the reader makes, and what the reference makes of it: None where it is unpredictable."""
    graph = read_model(content)
    inputs = {graph.tensors[index].name: value for index, value in zip(graph.given, values, strict=True)}
    try:
        run = reference.run(graph, inputs)
    except UnsupportedOperatorError as error:
        assert error.constraint == "defined result", error  # noqa: PT017
        return graph, None
    return graph, [run.values[index] for index in graph.outputs]


def judge(model: TosaModel, file: TosaFile) -> str:
    """How ours and Arm's compare, in a few words: "equal", "unpredictable" where both say so, else what differs."""
    graph, ours = evaluate(file.bytes(), file.values)
    try:
        answer = model.run(graph, file.values)
    except TosaModelAbort:
        return "unpredictable" if ours is None else "aborted"
    if ours is None or answer.status == UNPREDICTABLE:
        return "unpredictable" if ours is None and answer.status == UNPREDICTABLE else f"ours {ours}, {answer.status}"
    if answer.status != VALID:
        return answer.status
    same = all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(ours, answer.outputs, strict=True))
    return "equal" if same else "differs"


def main(first: int, count: int) -> None:
    """Compare seeds and print what came of them."""
    verdicts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    with TosaModel() as model:
        for seed in range(first, first + count):
            file = network(seed)
            drawn = [op.kind for op in file.operators if op.inputs]
            try:
                verdict = judge(model, file)
            except Exception as error:  # noqa: BLE001
                verdict = f"{type(error).__name__}: {str(error)[:90]}"
            verdicts[verdict[:60]] += 1
            if verdict in ("equal", "unpredictable"):
                kinds.update(drawn if verdict == "equal" else ())
            else:
                print(seed, drawn, verdict[:300])
    print(dict(verdicts))
    print("operators in equal networks:", dict(sorted(kinds.items())), "none of:", sorted(set(DRAWS) - set(kinds)))


def features(file: TosaFile) -> set[tuple[Any, ...]]:
    """What a file shows of its first operator: its types, and what each of its attributes that chooses says."""
    op = next(op for op in file.operators if op.inputs)
    types = tuple(file.tensors[name].dtype for name in (*op.inputs, *op.outputs) if name in file.tensors)
    if op.kind == "CONCAT":
        types = (types[0], len(op.inputs) > 1)
    found = {(op.kind, types)} | {(op.kind, name, op.attributes[name]) for name in _FLAGS if name in op.attributes}
    if op.kind == "RESCALE":
        found.add((op.kind, *(value for _, value in sorted(op.attributes.items()))))
    return found


def edges() -> list[TosaFile]:
    """Networks where near results part: both roundings of RESCALE, and pixels halfway between two."""
    found = []
    for shift in (31, 32, 33, 37, 45):
        numbers = np.random.default_rng(shift)
        multiplier = int(numbers.integers(1 << 30, 1 << 31))
        x = numbers.integers(-(1 << 30), 1 << 30, 1 << 17)
        twice = (1 << (shift - 1)) + np.where(x >= 0, 1 << 30, -(1 << 30))
        parts = ((x * multiplier + (1 << (shift - 1))) >> shift) != ((x * multiplier + twice) >> shift)
        values = np.concatenate([x[parts][:20], x[:20], [0, -1, 1]])
        found += [_rescale(values, multiplier, shift, mode) for mode in (1, 3)]
    for scale in ([2, 1, 4, 2], [4, 1, 8, 3], [6, 3, 2, 3]):
        file = TosaFile()
        image = file.input(np.arange(49).reshape(1, 7, 7, 1), "INT8")
        extents = [(6 * n) // d + 1 for n, d in (scale[:2], scale[2:])]
        border = [(extent - 1) * d - 6 * n for extent, n, d in zip(extents, scale[::2], scale[1::2], strict=True)]
        operands = [file.shape(scale), file.shape([0, 0]), file.shape(border)]
        file.outputs = [
            file.add("RESIZE", [image, *operands], (1, *extents, 1), made, mode=mode)
            for mode, made in ((1, "INT8"), (2, "INT32"))
        ]
        found.append(file)
    return found


def _rescale(values: Array, multiplier: int, shift: int, mode: int) -> TosaFile:
    """RESCALE of int32 values."""
    file = TosaFile()
    zero = file.constant([0], "INT32")
    operands = [file.input(values, "INT32"), file.constant([multiplier], "INT32"), file.constant([shift], "INT8")]
    flags = dict.fromkeys(("per_channel", "input_unsigned", "output_unsigned"), False)
    shape = values.shape
    file.outputs = [
        file.add("RESCALE", [*operands, zero, zero], shape, "INT32", rounding_mode=mode, scale32=True, **flags)
    ]
    return file


def _featured(model: TosaModel) -> Iterator[TosaFile]:
    """Of each operator the first networks that show a feature, where the model finds what we do."""
    for kind in sorted(DRAWS):
        shown: set[tuple[Any, ...]] = set()
        for seed in range(_SEEDS):
            file = network(f"{kind} {seed}", [kind])
            if not features(file) <= shown and judge(model, file) == "equal":
                shown |= features(file)
                yield file


def store() -> None:
    """Ask the model for the vectors: of each feature, and of the edges."""
    kept: dict[str, Array] = {"source": np.array("Arm's TOSA reference model, tosa-tools 2026.8.0")}
    with TosaModel() as model:
        files = [*_featured(model), *edges()]
        for number, file in enumerate(files):
            content = file.bytes()
            answer = model.run(read_model(content), file.values)
            assert answer.status == VALID
            kept[f"{number}_file"] = np.frombuffer(content, np.uint8)
            kept |= {f"{number}_input_{i}": value for i, value in enumerate(file.values)}
            kept |= {f"{number}_output_{i}": value for i, value in enumerate(answer.outputs)}
    np.savez_compressed(VECTORS, allow_pickle=False, **kept)
    print(f"{len(files)} vectors, {VECTORS.stat().st_size} bytes")


if __name__ == "__main__":
    store() if sys.argv[1] == "store" else main(int(sys.argv[1]), int(sys.argv[2]))
