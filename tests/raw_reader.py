"""Executes a raw file that holds a program, as docs/raw.md documents it.

NPU programs run on the simulator, CPU operators on the reference. Takes nothing but the file, so that whatever the file
does not say is missed.
"""

from __future__ import annotations

import enum
import json
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ethoscade.ir import Array, DType, Graph, Operator, Quantisation, Tensor
from ethoscade.ir.operators import OPERATORS
from ethoscade.judge import reference
from ethoscade.run.simulator import Machine

ARENA = 1


class RawProgram:
    """The program of one raw file, with the state that its runs leave behind."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as file:
            self.arrays = {name: file[name] for name in file.files}
        self.told: dict[str, Any] = json.loads(self.arrays["program"].tobytes())
        of_caller = [call for call in self.told["calls"] if call["on"] == "caller"]
        takes = any("takes" in call for call in of_caller)
        assert self.told["version"] == (3 if takes else 2 if of_caller else 1)
        self.graph = Graph(self.told["name"], tuple(map(self._tensor, self.told["tensors"])), (), (), ())
        self._machine = self._memories()
        self.hazards = 0
        self.reset()

    def reset(self) -> None:
        """The state is what it was before the first run."""
        for state in self.told["state"]:
            size = self.told["tensors"][state["before"]]["size_bytes"]
            data = self.arrays["variable_data"].tobytes()[state["initial_offset"] :][:size]
            self._machine.write(ARENA, self.told["tensors"][state["before"]]["offset"], data)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """One run on inputs by name; outputs by name. The state lives on."""
        arriving = {call.get("tensor") for call in self.told["calls"] if call["on"] == "caller"}
        for index in self.told["inputs"]:
            if index not in arriving:
                self._store(index, inputs[self.graph.tensors[index].name])
        late, taken = None, dict[int, bytes]()
        for call in self.told["calls"]:
            if "takes" in call:
                rows = self._machine.read(ARENA, call["offset"], call["rows"] * call["row_bytes"])
                taken[call["takes"]] = taken.get(call["takes"], b"") + bytes(rows)
            elif call["on"] == "caller":
                if late is not None:
                    self._hand_over(late, inputs)
                late = call if call["is_ahead"] else None
                if late is None:
                    self._hand_over(call, inputs)
            elif call["on"] == "npu":
                self.hazards += len(self._machine.run(self.arrays[call["commands"]]).hazards)
            else:
                self._on_cpu(call)
        outputs = {
            self.graph.tensors[index].name: self._made(index, taken[index]) if index in taken else self._load(index)
            for index in self.told["outputs"]
        }
        after = [self._load(state["after"]) for state in self.told["state"]]
        for state, value in zip(self.told["state"], after, strict=True):
            self._store(state["before"], value)
        return outputs

    def _hand_over(self, call: dict[str, Any], inputs: Mapping[str, Array]) -> None:
        """Rows of an input, which may come until the next ones are wanted where the call is ahead."""
        data = np.ascontiguousarray(inputs[self.graph.tensors[call["tensor"]].name]).tobytes()
        start, size = call["row"] * call["row_bytes"], call["rows"] * call["row_bytes"]
        self._machine.write(ARENA, call["offset"], data[start : start + size])

    def _memories(self) -> Machine:
        arena, regions = self.told["arena_bytes"], self.told["regions"] or ["arena", "arena"]
        first = regions.index("arena")
        assert first in (0, ARENA)
        of_input = {told["memory"]: told["size_bytes"] for told in self.told["tensors"]}
        memories = [
            (arena if place == first else (first, 0, arena))
            if memory == "arena"
            else of_input[memory]
            if memory.startswith("input_")
            else self.arrays[memory].tobytes()
            for place, memory in enumerate(regions)
        ]
        return Machine(self.told["accelerator"] or "ethos-u55-256", memories)

    def _tensor(self, told: dict[str, Any]) -> Tensor:
        of = told["quantisation"]
        quantisation = of and Quantisation(tuple(of["scales"]), tuple(of["zero_points"]), of["axis"])
        dtype, data = DType(told["type"]), None
        if told["memory"] == "constant_data":
            found = self.arrays["constant_data"].tobytes()[told["offset"] :][: told["size_bytes"]]
            data = np.frombuffer(found, dtype.numpy).reshape(told["shape"])
        return Tensor(told["name"], tuple(told["shape"]), dtype, quantisation, data)

    def _on_cpu(self, call: dict[str, Any]) -> None:
        outputs = (*call["outputs"], *(after for _, after in call["updates"]))
        row = OPERATORS[call["kind"]]
        told = call["attributes"]
        attributes = None if told is None or row.attributes is None else built(row.attributes, told)
        between = tuple(call["intermediates"])
        op = Operator(call["kind"], call["name"], tuple(call["inputs"]), outputs, attributes, intermediates=between)
        values = {index: self._load(index) for index in op.inputs if index is not None}
        for index, value in reference.run_operator(self.graph, op, values).items():
            self._store(index, value)

    def _store(self, index: int, value: Array) -> None:
        told = self.told["tensors"][index]
        region = ARENA if told["memory"] == "arena" else self.told["regions"].index(told["memory"])
        assert (region == ARENA or told["memory"].startswith("input_")) and value.nbytes == told["size_bytes"]
        self._machine.write(region, told["offset"], np.ascontiguousarray(value).tobytes())

    def _load(self, index: int) -> Array:
        tensor, told = self.graph.tensors[index], self.told["tensors"][index]
        if tensor.data is not None:
            return tensor.data
        assert told["memory"] == "arena", f"{tensor.name} has no place"
        return self._made(index, self._machine.read(ARENA, told["offset"], told["size_bytes"]))

    def _made(self, index: int, data: bytes) -> Array:
        tensor = self.graph.tensors[index]
        return np.frombuffer(data, tensor.dtype.numpy).reshape(tensor.shape)


def built(kind: Any, told: Any) -> Any:
    """A value of an annotated type from the words of JSON."""
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        assert isinstance(told, dict) and set(told) == {field.name for field in fields(kind)}
        return typing.cast(type, kind)(**{name: built(hints[name], value) for name, value in told.items()})
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(told)
    arguments: Sequence[Any] = typing.get_args(kind)
    if isinstance(kind, types.UnionType):
        return None if told is None else built(next(of for of in arguments if of is not type(None)), told)
    if typing.get_origin(kind) is tuple:
        inner = [arguments[0]] * len(told) if arguments[-1] is Ellipsis else arguments
        return tuple(built(of, value) for of, value in zip(inner, told, strict=True))
    return float(told) if kind is float else told
