"""UNIDIRECTIONAL_SEQUENCE_LSTM, unrolled in time: of each step and gate two convolutions, a sum and a function.

Gates are made one after the other, each when it is wanted, so that few numbers of 16 bits are there at a time. What the
steps make is copied to the sequence at the end, as operations that make one tensor follow each other. The state that a
run begins with is read, the last step's is handed on: another room holds it between runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import numpy as np
import numpy.typing as npt

from ..ir import DType, Graph, LstmAttrs, LstmInputs, Operator, Quantisation, Tensor
from ..ir.quantised import effective_scales, scale_of, zero_point_of
from ..util.records import dataclass
from . import constraints, limits, moves
from .family import Family
from .feature_maps import Area, FeatureMap
from .maker import AS_IS, Maker
from .npu import (
    Function,
    NpuGraphBuilder,
    OperationKind,
    Rounding,
    Scale,
    Weights,
)

_SUMS = Tensor("sums", (), DType.INT16, Quantisation((2.0**-12,), (0,)))
"""What the sums of a gate are stored as."""

_UNIT = 2.0**-15
"""Scale of what LOGISTIC and TANH make."""

_INPUT, _FORGET, _UPDATE, _OUTPUT = range(4)
"""The gates, in the order of the operator's inputs; that of the cell's update has a TANH, the others LOGISTIC."""


@dataclass(frozen=True)
class _Places:
    """Where a step's pixels lie among those of the sequence: all batches of one time."""

    times: int
    batch: int
    time_major: bool

    @property
    def plane(self) -> tuple[int, int]:
        """Rows and columns of the sequence."""
        return (self.times, self.batch) if self.time_major else (self.batch, self.times)

    @property
    def step(self) -> tuple[int, int]:
        """Rows and columns of a step."""
        return (1, self.batch) if self.time_major else (self.batch, 1)

    def first(self, time: int) -> tuple[int, int]:
        """The first row and column of a step."""
        return (time, 0) if self.time_major else (0, time)


def _places(graph: Graph, op: Operator) -> _Places:
    attrs, (rows, columns, _) = op.attributes(LstmAttrs), graph.read(op).shape
    times, batch = (rows, columns) if attrs.time_major else (columns, rows)
    return _Places(times, batch, attrs.time_major)


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """Twenty-one operations for each step, and a copy of what it makes. Precondition: its family takes it."""
    op = graph.operators[op_index]
    at, make, gates = _places(graph, op), Maker(op.name, op_index, builder), _gates(graph, op)
    state, cell = graph.read(op, LstmInputs.hidden), graph.read(op, LstmInputs.cell)
    cells, unit = state.shape[-1], scale_of(cell)
    clamp = _bounds(unit, op.attributes(LstmAttrs).cell_clip)
    x = builder.view(op.input(0), (*at.plane, graph.read(op).shape[-1]))
    hidden, memory = (
        builder.view(op.input(place), (*at.step, cells)) for place in (LstmInputs.hidden, LstmInputs.cell)
    )
    sequence, *ends = op.outputs
    made = []
    for time in range(at.times):
        step = _TimeStep(make, x, hidden, at.first(time))
        if time == at.times - 1:
            after, kept = (builder.view(tensor, hidden.shape) for tensor in ends)
        else:
            after = make.temporary(hidden.shape, state.dtype, zero_point_of(state))
            kept = step.short()
        left = make.point(OperationKind.MUL, step.gate(gates[_FORGET]), memory, step.short(), _scale(_UNIT))
        put_in, update = step.gate(gates[_INPUT]), step.gate(gates[_UPDATE])
        added = make.point(OperationKind.MUL, put_in, update, step.short(), _scale(_UNIT * _UNIT / unit))
        memory = make.point(OperationKind.ADD, left, added, kept, AS_IS, clamp=clamp)
        put_out = step.gate(gates[_OUTPUT])
        activated = make.copy(memory, step.short(), _scale(unit), Function.TANH)
        factor = _scale(_UNIT * _UNIT / scale_of(state))
        hidden = make.point(OperationKind.MUL, activated, put_out, after, factor)
        made.append(hidden)
    whole = builder.view(sequence, (*at.plane, cells), zero_point=0)
    for time, one in enumerate(made):
        place = Area(at.first(time), at.plane) if at.times > 1 else None
        make.copy(replace(one, zero_point=0), replace(whole, shape=one.shape, place=place))


@dataclass(frozen=True)
class _TimeStep:
    """A step's input, the pixels of the sequence from `first` on, and the hidden state before it."""

    make: Maker
    x: FeatureMap
    hidden: FeatureMap
    first: tuple[int, int]

    def short(self) -> FeatureMap:
        """A temporary of 16 bits for each cell."""
        return self.make.temporary(self.hidden.shape, DType.INT16)

    def gate(self, gate: _Gate) -> FeatureMap:
        """What a gate lets through, in units of 2^-15. Told the real scale of its input, a function is the kernel's."""
        make = replace(self.make, rounding=Rounding.NATURAL) if self.x.dtype is DType.INT16 else self.make
        own = make.weigh(self.x, self.short(), gate.of_input, together=True, first=self.first)
        recurrent = make.weigh(self.hidden, self.short(), gate.of_state, together=True)
        total = make.point(OperationKind.ADD, own, recurrent, self.short(), AS_IS, rounding=Rounding.TFL)
        return self.make.copy(total, self.short(), _scale(scale_of(_SUMS)), gate.function)


def _bounds(scale: float, clip: float) -> tuple[int, int]:
    """Smallest and largest cell; a clip of 0 is none."""
    lowest, highest = DType.INT16.limits
    most = int(min(clip / scale, float(highest)))
    return (-most, most) if clip > 0 else (lowest, highest)


def _scale(real: float) -> Scale:
    return Scale(*limits.npu_scale(real))


# --- weights ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Gate:
    """A gate's weights of the input, with its bias, and of the hidden state, and what becomes of their sums."""

    of_input: Weights
    of_state: Weights
    function: Function


@dataclass(frozen=True, eq=False)
class _Matrix:
    """Weights (cells, terms), a bias, and the factor from sums to what a gate's are stored as."""

    values: npt.NDArray[np.integer]
    bias: npt.NDArray[np.int64]
    real: float


def _matrices(graph: Graph, op: Operator, gate: int) -> tuple[_Matrix, _Matrix]:
    """A gate's of the input and of the hidden state."""
    bias = graph.read(op, LstmInputs.biases[gate]).constant().astype(np.int64)
    found = []
    for source, place, added in (
        (0, LstmInputs.of_input[gate], bias),
        (LstmInputs.hidden, LstmInputs.of_state[gate], 0 * bias),
    ):
        weights = graph.read(op, place)
        (real,) = effective_scales("FULLY_CONNECTED", graph.read(op, source), weights, _SUMS)
        found.append(_Matrix(cast(npt.NDArray[np.integer], weights.constant()), added, real))
    return found[0], found[1]


def _gates(graph: Graph, op: Operator) -> list[_Gate]:
    """In the order of the operator's inputs."""
    of_real = limits.wide_scale if graph.read(op).dtype is DType.INT16 else limits.npu_scale

    def weights(matrix: _Matrix) -> Weights:
        (multiplier, shift), each = of_real(matrix.real), np.ones(len(matrix.bias), np.int64)
        return Weights(matrix.values[:, None, None, :], matrix.bias, multiplier * each, shift * each)

    found = []
    for gate in range(4):
        of_input, of_state = (weights(matrix) for matrix in _matrices(graph, op, gate))
        found.append(_Gate(of_input, of_state, Function.TANH if gate == _UPDATE else Function.SIGMOID))
    return found


# --- limits ----------------------------------------------------------------------------------------------------------


def _steps(case: constraints.Case) -> str | None:
    times = _places(case.graph, case.op).times
    if times > moves.MAX_BOXES:
        return f"it has {times} steps; at most {moves.MAX_BOXES} operations make one output"
    return None


def _sums(case: constraints.Case) -> str | None:
    graph, op = case.graph, case.op
    wide = case.ifm.dtype is DType.INT16
    check, largest = limits.wide_rescale if wide else limits.rescale, limits.largest_value(case.ifm.dtype)
    for gate in range(4):
        for matrix in _matrices(graph, op, gate):
            sums = largest * np.abs(matrix.values.astype(np.int64)).sum(axis=1) + np.abs(matrix.bias)
            if (why := check(matrix.real, int(sums.max()))) is not None:
                return why
    state, cell = (scale_of(graph.read(op, place)) for place in (LstmInputs.hidden, LstmInputs.cell))
    products = (_UNIT, _UNIT * _UNIT / cell, _UNIT * _UNIT / state)
    return next((why for real in products if (why := limits.rescale(real, 1 << 30)) is not None), None)


def _seen(case: constraints.Case) -> constraints.Views:
    at, cells = _places(case.graph, case.op), case.ofm.shape[-1]
    return [(case.ifm, (*at.plane, case.ifm.shape[-1])), (case.ofm, (*at.plane, cells))]


RECURRENT_FAMILIES: Mapping[str, Family] = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Family(
        "of each step and gate two convolutions, a sum and a function of 16 bits, and products",
        (
            constraints.FeatureMaps((DType.INT8, DType.INT16)),
            constraints.ConstantAt(LstmInputs.parameters),
            constraints.Rule(f"at most {moves.MAX_BOXES} steps", _steps),
            constraints.Sizes(_seen),
            constraints.Rule(f"{constraints.SUMS}; of int16 within 40 bits, and factors below 2^14", _sums),
        ),
        lower,
    )
}
