"""Which inputs and outputs of a compiled file are which of the network it was made from.

Owns that match and the complaint where there is none. Other compilers rename tensors, drop unused inputs,
and leave out or add dimensions of 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..errors import ConfigError
from ..ir import Array, Graph, Tensor
from ..judge.noise import random_input_of
from ..util.records import dataclass


@dataclass(frozen=True)
class FilePairing:
    """A compiled file's inputs and outputs by name, each with the source's.

    `dropped` are the source's inputs that the file does not take, `faults` sentences about what is not the same.
    """

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    dropped: tuple[str, ...]
    faults: tuple[str, ...]

    def outputs_of_source(self, outputs: Mapping[str, Array]) -> dict[str, Array]:
        """A file's outputs by the source's names."""
        return {self.outputs.get(name, name): value for name, value in outputs.items()}

    def inputs_of_file(self, compiled: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """A source's inputs by the file's names, in its shapes."""
        shapes = {compiled.tensors[index].name: compiled.tensors[index].shape for index in compiled.given}
        return {name: inputs[theirs].reshape(shapes[name]) for name, theirs in self.inputs.items()}

    def inputs_of_source(self, source: Graph, inputs: Mapping[str, Array], seed: int, step: int) -> dict[str, Array]:
        """A file's inputs by the source's names, in its shapes; random values for those that the file does not take."""
        shapes = {source.tensors[index].name: source.tensors[index].shape for index in source.given}
        found = {theirs: inputs[name].reshape(shapes[theirs]) for name, theirs in self.inputs.items()}
        return found | {name: random_input_of(source, name, seed, step) for name in self.dropped}


def pairing_of(compiled: Graph, source: Graph) -> FilePairing:
    """The match of a compiled file with the network it was made from.

    Raises `ConfigError` for other types, other sizes, or another number of outputs: it was made from another one.
    """
    inputs = _paired(_tensors(compiled, compiled.given), _tensors(source, source.given))
    outputs = _paired(_tensors(compiled, compiled.handed_out), _tensors(source, source.handed_out))
    if inputs is None or outputs is None or len(outputs) != len(dict.fromkeys(source.handed_out)):
        what = (
            f"it takes {_listed(compiled, compiled.given)}, not {_listed(source, source.given)}"
            if inputs is None
            else f"it makes {_listed(compiled, compiled.handed_out)}, not {_listed(source, source.handed_out)}"
        )
        raise ConfigError(f"'{compiled.name}' was not compiled from '{source.name}': {what}")
    taken = {theirs.name for _, theirs in inputs}
    dropped = tuple(t.name for t in _tensors(source, source.given) if t.name not in taken)
    told = [f"it has no input '{name}', which the model has" for name in dropped]
    told += [
        f"'{ours.name}' is {list(ours.shape)}, in the model {list(theirs.shape)}"
        for ours, theirs in (*inputs, *outputs)
        if ours.shape != theirs.shape
    ]
    names = [{ours.name: theirs.name for ours, theirs in pairs} for pairs in (inputs, outputs)]
    return FilePairing(names[0], names[1], dropped, tuple(told))


def source_of(compiled: Graph, candidates: Sequence[Graph]) -> Graph:
    """The candidate that a compiled file was made from: that with its inputs and outputs, in types and sizes.

    Names count where they are the same ones; another compiler may give its own, in the file's order. Raises
    `ConfigError` if none fits.
    """
    first: ConfigError | None = None
    for graph in candidates:
        try:
            pairing_of(compiled, graph)
        except ConfigError as error:
            first = first or error
        else:
            return graph
    raise first or ConfigError(f"there is no network that '{compiled.name}' could be compiled from")


def _paired(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]] | None:
    """Tensors of a file each with the source's, by name or else in order; None where one has none of its size."""
    by_name = {tensor.name: tensor for tensor in theirs}
    if all(tensor.name in by_name for tensor in ours):
        pairs = [(tensor, by_name[tensor.name]) for tensor in ours]
        return pairs if all(_are_alike(*pair) for pair in pairs) else None
    rest, pairs = list(theirs), []
    for tensor in ours:
        # Those that were dropped leave a gap in the order.
        while rest and not _are_alike(tensor, rest[0]):
            rest.pop(0)
        if not rest:
            return None
        pairs.append((tensor, rest.pop(0)))
    return pairs


def _are_alike(ours: Tensor, theirs: Tensor) -> bool:
    """Whether two tensors hold the same values: extents of 1 do not count, and a file may leave a shape out."""
    unknown = () in (ours.shape, theirs.shape) and not (math.prod(ours.shape) == math.prod(theirs.shape) == 1)
    same = [d for d in ours.shape if d != 1] == [d for d in theirs.shape if d != 1]
    return ours.dtype is theirs.dtype and (unknown or same)


def _listed(graph: Graph, indices: Sequence[int]) -> str:
    return ", ".join(f"'{t.name}' {t.dtype.value}{t.shape}" for t in _tensors(graph, indices))


def _tensors(graph: Graph, indices: Sequence[int]) -> list[Tensor]:
    return [graph.tensors[index] for index in dict.fromkeys(indices)]
