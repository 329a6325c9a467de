"""What a network under construction consists of: tensors, constants, operators, and a float64 run beside them.

Owns default weights and biases, the quantisations that the caller leaves open, and the records that `flatfile` writes;
`builder` knows the operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ..ir import Array, DType, Quantisation
from ..ir.operators import OPERATORS
from ..util.records import dataclass
from .calibration import Real, activation_quantisation, dequantise, quantise, weight_quantisation
from .flatfile import Fields, OperatorRecord, SubgraphRecord, TensorRecord

UNQUANTISED = Quantisation((1.0,), (0,))
"""What `Value` says of tensors that carry no quantisation."""


@dataclass(frozen=True)
class Value:
    """A tensor of the network under construction; shapes are NHWC."""

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: DType
    quantisation: Quantisation


class Recorder:
    """Collects tensors and operators; a run of the network on one seeded input gives each its range."""

    def __init__(
        self,
        name: str = "model",
        *,
        dtype: DType = DType.INT8,
        per_channel: bool = True,
        seed: int = 0,
        codes_in: str = "both",
        dead_share: float = 0.0,
        narrow_biases: bool = False,
    ) -> None:
        self.name = name
        self.narrow_biases = narrow_biases
        self.codes_in = codes_in
        self.dtype = dtype
        self.per_channel = per_channel and dtype is not DType.UINT8
        self._rng = np.random.Generator(np.random.PCG64(seed))
        # Of its own, so that everything else is drawn as without dead channels.
        self._dead_rng = np.random.Generator(np.random.PCG64([seed, 1]))
        self._dead_share = dead_share
        self._tensors: list[TensorRecord] = []
        self._operators: list[OperatorRecord] = []
        self._state: dict[int, int] = {}
        self._state_now: dict[int, int] = {}
        self._initial: list[TensorRecord] = []
        self._inputs: list[int] = []
        self._outputs: list[int] = []
        self._thunks: dict[int, Callable[[], Real]] = {}
        self._reals: dict[int, Real] = {}

    def _tensor(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: DType,
        quantisation: Quantisation,
        data: Array | None = None,
    ) -> Value:
        self._tensors.append(TensorRecord(name, shape, dtype, quantisation, data))
        return Value(len(self._tensors) - 1, name, shape, dtype, quantisation)

    # State. A variable goes by the tensor that is read of it first.

    def variable(
        self,
        shape: Sequence[int],
        quantisation: Quantisation,
        *,
        dtype: DType | None = None,
        initial: Array | None = None,
        name: str | None = None,
    ) -> Value:
        """What a variable (by default of the builder's type) holds as a run begins; at first `initial`, or noise."""
        kind = dtype or self.dtype
        name = name or f"variable{len(self._initial)}"
        if initial is None:
            initial = self._rng.integers(*kind.limits, tuple(shape), endpoint=True).astype(kind.numpy)
        self._tensors.append(TensorRecord(f"{name}/handle", (), None))
        handle = len(self._tensors) - 1
        self._initial.append(TensorRecord(name, tuple(shape), kind, quantisation, initial))
        value = self._tensor(f"{name}/read", tuple(shape), kind, quantisation)
        self._state[value.index] = handle
        real = dequantise(initial, quantisation)
        self._thunks[value.index] = lambda: real
        self._operators.append(OperatorRecord("READ_VARIABLE", 1, (handle,), (value.index,), "ReadVariableOptions"))
        return value

    def read(self, variable: Value) -> Value:
        """What the variable holds by now."""
        value = self._tensor(
            f"{variable.name}{len(self._tensors)}", variable.shape, variable.dtype, variable.quantisation
        )
        now = self._thunks[self._state_now.get(variable.index, variable.index)]
        self._thunks[value.index] = now
        inputs = (self._state[variable.index],)
        self._operators.append(OperatorRecord("READ_VARIABLE", 1, inputs, (value.index,), "ReadVariableOptions"))
        return value

    def assign(self, variable: Value, value: Value) -> None:
        """From now on, and when the next run begins, the variable holds `value`, of its shape and quantisation."""
        inputs = (self._state[variable.index], value.index)
        self._state_now[variable.index] = value.index
        self._operators.append(OperatorRecord("ASSIGN_VARIABLE", 1, inputs, (), "AssignVariableOptions"))

    def _with_state(self) -> tuple[list[OperatorRecord], list[SubgraphRecord]]:
        """The operators behind those that set variables up and name them, and the subgraph that does the former."""
        if not self._initial:
            return self._operators, []
        names = [record.name for record in self._initial]
        handles = [TensorRecord(f"{name}/handle", (), None) for name in names]
        count = len(names)
        stores = [
            OperatorRecord("ASSIGN_VARIABLE", 1, (number, count + number), (), "AssignVariableOptions")
            for number in range(count)
        ]
        first = SubgraphRecord("initial", [*handles, *self._initial], [*_named(names, range(count)), *stores])
        once = OperatorRecord("CALL_ONCE", 1, (), (), "CallOnceOptions", {"InitSubgraphIndex": 1})
        return [once, *_named(names, self._state.values()), *self._operators], [first]

    def _constant(self, name: str, data: Array, dtype: DType) -> Value:
        self._tensors.append(TensorRecord(f"{name}{len(self._tensors)}", data.shape, dtype, None, data))
        return Value(len(self._tensors) - 1, name, data.shape, dtype, UNQUANTISED)

    def _integers(self, name: str, numbers: Sequence[int]) -> int:
        return self._constant(name, np.array(numbers, dtype=np.int32), DType.INT32).index

    def _weights(
        self,
        shape: tuple[int, ...],
        deviation: float,
        given: Array | None,
        quantisation: Quantisation | None,
        axis: int | None,
        dtype: DType,
        outputs: int = 0,
    ) -> tuple[Value, Real]:
        if given is None:
            given = self._rng.standard_normal(shape) * np.sqrt(2.0) * deviation
            given = np.where(self._dead_of(shape, outputs), 0.0, given)
        if given.shape != shape:
            raise ValueError(f"weights have shape {given.shape}, the operator needs {shape}")
        name = f"weights{len(self._tensors)}"
        if np.issubdtype(given.dtype, np.integer):
            if quantisation is None:
                raise ValueError("integer weights need their quantisation")
            stored = given
        else:
            wanted = np.asarray(given, dtype=np.float64)
            quantisation = quantisation or weight_quantisation(wanted, dtype, axis)
            stored = quantise(wanted, quantisation, dtype)
        value = self._tensor(name, shape, dtype, quantisation, stored.astype(dtype.numpy))
        return value, dequantise(stored, quantisation)

    def _bias(
        self, x: Value, weights: Value, channels: int, given: Array | None, narrow: bool = True
    ) -> tuple[int, Real]:
        wide = x.dtype is DType.INT16 and not (narrow and self.narrow_biases)
        kind = DType.INT64 if wide else DType.INT32
        # float32 products: that is the scale which runtimes expect of a bias.
        products = np.float32(x.quantisation.scale) * np.asarray(weights.quantisation.scales, dtype=np.float32)
        scales = tuple(float(s) for s in products)
        axis = None if len(scales) == 1 else 0
        quantisation = Quantisation(scales, (0,) * len(scales), axis)
        if given is None:
            given = self._rng.standard_normal(channels) * 0.1
            # Without weights, a bias of zero makes a channel the zero point, and another one anything.
            given = np.where(self._dead_rng.random(channels) < self._dead_share, 0.0, given)
        if np.issubdtype(given.dtype, np.integer):
            stored = given.astype(kind.numpy)
        else:
            stored = quantise(np.asarray(given, dtype=np.float64), quantisation, DType.INT32).astype(kind.numpy)
        value = self._tensor(f"bias{len(self._tensors)}", (channels,), kind, quantisation, stored)
        return value.index, dequantise(stored, quantisation)

    def _dead_of(self, shape: tuple[int, ...], outputs: int) -> Array:
        """Which weights are zero because their output is dead or, a quarter as often, because their input is unread."""
        dead = np.zeros(shape, np.bool_)
        for axis, share in ((outputs, self._dead_share), (len(shape) - 1, self._dead_share / 4)):
            chosen = self._dead_rng.random(shape[axis]) < share
            dead |= chosen.reshape([-1 if i == axis else 1 for i in range(len(shape))])
        return dead

    def _weight_type(self, x: Value) -> DType:
        """Weights are of the feature map's type, where that has 8 bits."""
        return DType.UINT8 if x.dtype is DType.UINT8 else DType.INT8

    def _axis(self, x: Value, axis: int) -> int | None:
        """Along which axis weights are quantised; uint8 ones have one scale."""
        return axis if self.per_channel and x.dtype is not DType.UINT8 else None

    def _real(self, value: Value) -> Real:
        """Real value of a tensor in the calibration run, computed once."""
        if value.index not in self._reals:
            self._reals[value.index] = self._thunks[value.index]()
        return self._reals[value.index]

    def _operator(
        self,
        kind: str,
        inputs: Sequence[int],
        shape: tuple[int, ...],
        compute: Callable[[], Real],
        output: Quantisation | None,
        fields: Fields,
        name: str | None,
        dtype: DType | None = None,
    ) -> Value:
        kind_out = dtype or self.dtype
        calibrated = None
        if output is None:
            calibrated = compute()
            output = activation_quantisation(calibrated, kind_out)
        value = self._tensor(name or f"{kind.lower()}{len(self._operators)}", shape, kind_out, output)
        self._thunks[value.index] = compute
        if calibrated is not None:
            self._reals[value.index] = calibrated
        self._record(kind, inputs, [value], fields)
        return value

    def _plain(
        self,
        kind: str,
        inputs: Sequence[int],
        shape: tuple[int, ...],
        dtype: DType,
        compute: Callable[[], Real],
        fields: Fields,
    ) -> Value:
        """An operator whose output has no quantisation: float, or integers that are counts."""
        name = f"{kind.lower()}{len(self._operators)}"
        self._tensors.append(TensorRecord(name, shape, dtype))
        value = Value(len(self._tensors) - 1, name, shape, dtype, UNQUANTISED)
        self._thunks[value.index] = compute
        self._record(kind, inputs, [value], fields)
        return value

    def _record(
        self,
        kind: str,
        inputs: Sequence[int],
        outputs: Sequence[Value],
        fields: Fields,
        intermediates: tuple[int, ...] = (),
    ) -> None:
        row = OPERATORS.get(kind)
        version = 1 if row is None or outputs[0].dtype is DType.UINT8 else row.int8_version
        options = None if row is None else row.options
        made = tuple(value.index for value in outputs)
        self._operators.append(OperatorRecord(kind, version, tuple(inputs), made, options, fields, intermediates))


def _named(names: Sequence[str], handles: Iterable[int]) -> list[OperatorRecord]:
    """The operators that make handles of variables."""
    return [
        OperatorRecord("VAR_HANDLE", 1, (), (handle,), "VarHandleOptions", {"Container": "", "SharedName": name})
        for name, handle in zip(names, handles, strict=True)
    ]
