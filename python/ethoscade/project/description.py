"""What a project's folder says of its network: tensors and where they lie, calls, inputs and outputs.

Owns `Description` and its file, `ethoscade-project.json`. Reads no model and writes no sources.
"""

from __future__ import annotations

import itertools
import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

import numpy as np

from .._core import __version__
from ..codegen.artifact import Artifact, ArtifactCall, CpuCall, FeedCall, NpuCall, TakeCall
from ..codegen.layout import lifetimes, npu_calls
from ..errors import ProjectError
from ..ir import Array, DType
from ..lowering.feature_maps import BRICK_CHANNELS
from ..util.files import read_whole
from ..util.records import dataclass

FILE = "ethoscade-project.json"
MODEL = "model.tflite"
"""The model's copy in the folder."""

_SCHEMA_VERSION = 1
_FAST = "it lies in the NPU's fast memory, which holds nothing once its program has ended"
_CASCADED = "it never lies in the arena whole: operations of a cascade, or one operation, hand it on in parts"
_ARRIVES = "its rows arrive in the arena a few at a time, and stay until they are read"
_LEAVES = "its rows are taken a few at a time, as they are made"
_INSIDE = "an NPU program makes it, and may overwrite it before it ends"
_MOST_BYTES = 1 << 28
# The mailbox, and what copies of memory are rounded up by.
_SPARE_BYTES = 1 << 16


@dataclass(frozen=True)
class TensorPlace:
    """A tensor that is not constant; `offset` in the arena, None with the `reason` where it never lies there whole.

    After `first` calls of a run it is there, and until `last` calls are done; both are None for what lives on from run
    to run. What an NPU program makes inside, for the given `reason`, is whole after `operations` kernels and
    transfers of call `first` - 1. Where it lies in bricks of 16 channels, `bricks` is the height, width and depth that
    the NPU sees.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int | None
    first: int | None = None
    last: int | None = None
    reason: str = ""
    operations: int | None = None
    bricks: tuple[int, int, int] | None = None

    @property
    def stored_bytes(self) -> int:
        """Bytes that it takes in the arena."""
        return math.prod(self.shape) * DType(self.dtype).numpy.itemsize

    def decoded(self, data: bytes) -> Array:
        """The array that these bytes of the arena are."""
        flat = np.frombuffer(data, DType(self.dtype).numpy)
        if self.bricks is not None:
            # NHCWB16: within a row, 16 channels of all its pixels, then the next 16.
            height, width, depth = self.bricks
            flat = flat.reshape(height, depth // BRICK_CHANNELS, width, BRICK_CHANNELS).swapaxes(1, 2)
        return flat.reshape(self.shape)


@dataclass(frozen=True)
class CallSummary:
    """A call of a run, where it happens, and its operator's kind.

    "npu" is an NPU program and "cpu" an operator; "caller" is rows that the host hands over. Only operators have kinds.
    """

    name: str
    where: str
    kind: str = ""


@dataclass(frozen=True)
class RowsPlace:
    """Rows of a streamed input or output, bytes `begin` to `end` of it, at `offset` behind `call`."""

    call: int
    offset: int
    begin: int
    end: int


@dataclass(frozen=True)
class Description:
    """A project's network. `template` is a template's name, or its file in the folder.

    `sources` are the names of what is to be compiled of the emitted C. `build` is a number that the firmware tells, by
    which it is known to be made of these; `shared_bytes` is what a board without an NPU needs in common with the host
    where all memory is copied there. Of a network that calls CMSIS-NN, `cmsis_nn` is the library's folder, and
    `cmsis_nn_sources` are those of its sources that are to be compiled, by their path in it. `feeds` are the rows of
    its input where that is streamed, to be written, `takes` those of its output, to be read.
    """

    template: str
    network: str
    module: str
    build: int
    io: str
    accelerator: str
    has_npu: bool
    has_state: bool
    arena_bytes: int
    shared_bytes: int
    calls: tuple[CallSummary, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: tuple[TensorPlace, ...]
    sources: tuple[str, ...]
    cmsis_nn: str = ""
    cmsis_nn_sources: tuple[str, ...] = ()
    feeds: tuple[RowsPlace, ...] = ()
    takes: tuple[RowsPlace, ...] = ()

    @property
    def streamed_input(self) -> str | None:
        """The input whose rows arrive one after the other."""
        return self.inputs[0] if self.feeds else None

    @property
    def streamed_output(self) -> str | None:
        """The output whose rows are taken one after the other."""
        return self.outputs[0] if self.takes else None

    def tensor(self, name: str) -> TensorPlace:
        """The tensor of that name. Raises `ProjectError` naming those that there are."""
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        known = ", ".join(f"'{tensor.name}'" for tensor in self.tensors)
        raise ProjectError(f"'{self.network}' has no tensor '{name}' outside of its constants; there are {known}")

    def text(self) -> str:
        """The file's text."""
        told = {"schema_version": _SCHEMA_VERSION, "made_by": f"ethoscade {__version__}", **asdict(self)}
        return json.dumps(told, indent=1) + "\n"


def describe(
    artifact: Artifact,
    template: str,
    module: str,
    io: str,
    sources: Mapping[str, bytes],
    bricks: Mapping[int, tuple[int, int, int]],
) -> Description:
    """The description of an artefact whose emitted C is `sources`.

    `bricks` are the tensors (graph indices) that lie in bricks, with the height, width and depth that the NPU sees.
    Raises `ProjectError` for an output that is constant: it has no place in the arena.
    """
    made = (t for t in artifact.graph.handed_out if t not in artifact.offsets and t not in artifact.elsewhere)
    fixed = next((artifact.graph.tensors[t] for t in made), None)
    if fixed is not None:
        raise ProjectError(
            f"output '{fixed.name}' of '{artifact.name}' is constant, and no board computes it: leave it out"
        )
    graph, payloads = artifact.graph, [len(call.payload) for call in npu_calls(artifact)]
    calls = []
    for call in artifact.calls:
        if isinstance(call, CpuCall):
            operator = graph.operators[call.operator]
            calls.append(CallSummary(operator.name, "cpu", operator.kind))
        else:
            calls.append(CallSummary(call.name, "npu" if isinstance(call, NpuCall) else "caller"))
    memory = artifact.arena_bytes + (artifact.fast_bytes or 0)
    build = 0
    for name in sorted(sources):
        build = zlib.crc32(sources[name], zlib.crc32(name.encode(), build))
    return Description(
        template,
        artifact.name,
        module,
        build,
        io,
        artifact.accelerator,
        bool(payloads),
        bool(graph.variables),
        artifact.arena_bytes,
        _SPARE_BYTES + max(payloads, default=0) + len(artifact.constants) + memory,
        tuple(calls),
        tuple(graph.tensors[index].name for index in dict.fromkeys(graph.given)),
        tuple(graph.tensors[index].name for index in dict.fromkeys(graph.handed_out)),
        _tensors(artifact, bricks),
        tuple(name for name in sources if name.endswith((".c", ".S"))),
        feeds=_feeds(artifact),
        takes=tuple(_rows(at, call) for at, call in enumerate(artifact.calls) if isinstance(call, TakeCall)),
    )


def _feeds(artifact: Artifact) -> tuple[RowsPlace, ...]:
    """Rows with the latest call to write them behind: their own, or, of rows ahead, the next feed."""
    feeds = [(number, call) for number, call in enumerate(artifact.calls) if isinstance(call, FeedCall)]
    due = [number for number, _ in feeds]
    if any(feed.is_ahead for _, feed in feeds):
        due = due[1:]
    return tuple(_rows(number, feed) for number, (_, feed) in zip(due, feeds, strict=False))


def _rows(number: int, call: FeedCall | TakeCall) -> RowsPlace:
    return RowsPlace(number, call.offset, call.row * call.row_bytes, (call.row + call.rows) * call.row_bytes)


def _tensors(artifact: Artifact, bricks: Mapping[int, tuple[int, int, int]]) -> tuple[TensorPlace, ...]:
    graph = artifact.graph
    whole = lifetimes(artifact)
    state = {index for variable in graph.variables for index in (variable.before, variable.after)}
    inside = dict(itertools.chain(*(_inside(artifact, call, number) for number, call in enumerate(artifact.calls))))
    places = []
    for index, tensor in enumerate(graph.tensors):
        if tensor.is_constant:
            continue
        name, dtype, shape = tensor.name, tensor.dtype.value, tuple(tensor.shape)
        offset = artifact.offsets.get(index)
        if offset is not None and index in whole:
            places.append(TensorPlace(name, dtype, shape, offset, *whole[index]))
        elif offset is not None and index in state:
            places.append(TensorPlace(name, dtype, shape, offset))
        elif offset is not None and index in inside:
            number, operations = inside[index]
            begun = number + 1
            places.append(TensorPlace(name, dtype, shape, offset, begun, begun, _INSIDE, operations, bricks.get(index)))
        else:
            why = _FAST if index in artifact.fast_tensors else _CASCADED
            why = _ARRIVES if any(feed.tensor == index for feed in artifact.feeds) else why
            why = _LEAVES if any(take.tensor == index for take in artifact.takes) else why
            places.append(TensorPlace(name, dtype, shape, None, reason=why))
    return tuple(places)


def _inside(artifact: Artifact, call: ArtifactCall, number: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """What an NPU program makes on its way: the call's number, and after how many operations each tensor is whole."""
    if not isinstance(call, NpuCall):
        return
    last = {name: at + 1 for at, name in enumerate(call.operators)}
    names = {operator.name for operator in artifact.graph.operators}
    for operator in artifact.graph.operators:
        # An operation that does another's look-up as well has both names.
        both = (f"{name};{operator.name}" for name in names)
        operations = last.get(operator.name) or next((last[name] for name in both if name in last), None)
        if operations is not None:
            yield from ((index, (number, operations)) for index in operator.outputs)


def read(folder: Path) -> Description:
    """The description of the project in `folder`. Raises `ProjectError` where there is none, or a damaged one."""
    path = folder / FILE
    try:
        is_there = path.is_file()
    except OSError as error:
        raise ProjectError(f"cannot look for a project in '{folder}': {error.strerror or error}") from error
    if not is_there:
        raise ProjectError(f"'{folder}' is no project: it has no {FILE}; make one with `ethoscade new`")
    try:
        return _parsed(json.loads(read_whole(path, _MOST_BYTES)))
    except (ValueError, TypeError, KeyError) as error:
        raise ProjectError(f"'{path}' is damaged ({error}); make the project again with `ethoscade new`") from error


def _parsed(told: Any) -> Description:
    version = told.pop("schema_version")
    if version != _SCHEMA_VERSION:
        raise ValueError(f"its schema is {version}, this version reads {_SCHEMA_VERSION}")
    del told["made_by"]
    told["calls"] = tuple(CallSummary(**call) for call in told["calls"])
    told["tensors"] = tuple(_place(place) for place in told["tensors"])
    lists = {name: tuple(told[name]) for name in ("inputs", "outputs", "sources")}
    lists["cmsis_nn_sources"] = tuple(told.get("cmsis_nn_sources", ()))
    for name, end in (("feeds", "inputs"), ("takes", "outputs")):
        told[name] = tuple(RowsPlace(**rows) for rows in told.get(name, ()))
        _check_rows(name, told, [place for place in told["tensors"] if place.name in told[end]])
    return Description(**{**told, **lists})


def _check_rows(name: str, told: Mapping[str, Any], ends: Sequence[TensorPlace]) -> None:
    """Raises `ValueError` for rows that are not those of one of `ends`, one after the other, in the arena."""
    places: tuple[RowsPlace, ...] = told[name]
    numbers = [number for rows in places for number in astuple(rows)]
    if any(type(number) is not int or number < 0 for number in numbers):
        raise ValueError(f"its {name} are not whole numbers")
    if not places:
        return
    behind, borders = [rows.call for rows in places], [0, *(rows.end for rows in places)]
    in_order = behind == sorted(set(behind)) and behind[-1] < len(told["calls"])
    in_turn = [rows.begin for rows in places] == borders[:-1] and borders == sorted(set(borders))
    in_arena = all(rows.offset + rows.end - rows.begin <= told["arena_bytes"] for rows in places)
    is_whole = len(ends) == 1 and (borders[-1] == ends[0].stored_bytes if name == "takes" else True)
    if not (in_order and in_turn and in_arena and is_whole):
        raise ValueError(f"its {name} are not those of its calls and of one tensor in its arena")


def _place(told: Any) -> TensorPlace:
    bricks = told["bricks"]
    return TensorPlace(**{**told, "shape": tuple(told["shape"]), "bricks": None if bricks is None else tuple(bricks)})
