"""Builds a network of independent branches, one operator each, with the quantisations that a zoo of operators needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import tflite
from ethoscade.ir import DType, Quantisation
from ethoscade.testing.flatfile import OperatorRecord, TensorRecord, write_file

Shape = tuple[int, ...]
I8, U8, I16, I32, I64 = DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64
# Scale and zero point: ordinary ones, and extremes of both.
PLAIN: Mapping[DType, tuple[float, int]] = {I8: (0.05, 3), U8: (0.05, 131), I16: (0.0003, 0), I32: (1.0, 0)}
LOW: Mapping[DType, tuple[float, int]] = {I8: (0.9, -128), U8: (0.9, 0), I16: (0.01, 0), I32: (1.0, 0)}
HIGH: Mapping[DType, tuple[float, int]] = {I8: (0.0007, 127), U8: (0.0007, 255), I16: (0.00001, 0), I32: (1.0, 0)}
NONE, RELU, RELU_N1, RELU6 = 0, 1, 2, 3
SAME, VALID = tflite.Padding.SAME, tflite.Padding.VALID


@dataclass
class Zoo:
    """The branches of one operator kind and type."""

    kind: str
    dtype: DType
    tensors: list[TensorRecord] = field(default_factory=list)
    operators: list[OperatorRecord] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    cases: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.Generator(np.random.PCG64(len(self.kind)))

    def tensor(
        self,
        shape: Shape,
        quantisation: tuple[float, int] | Quantisation | None = None,
        dtype: DType | None = None,
        data: np.ndarray | None = None,
        *,
        variable: bool = False,
    ) -> int:
        kind = dtype or self.dtype
        if isinstance(quantisation, tuple):
            quantisation = Quantisation((quantisation[0],), (quantisation[1],))
        self.tensors.append(TensorRecord(f"t{len(self.tensors)}", tuple(shape), kind, quantisation, data, variable))
        return len(self.tensors) - 1

    def input(self, shape: Shape, quantisation: tuple[float, int] | None = None, dtype: DType | None = None) -> int:
        # Vela multiplies 32-bit operands of a scale by scales, which the NPU seems to ignore: those have none.
        plain = None if (dtype or self.dtype) is I32 else PLAIN[dtype or self.dtype]
        self.inputs.append(self.tensor(shape, quantisation or plain, dtype))
        return self.inputs[-1]

    def integers(self, numbers: object, dtype: DType = I32) -> int:
        data = np.array(numbers, dtype.numpy)
        return self.tensor(data.shape, None, dtype, data)

    def constant(self, shape: Shape, quantisation: tuple[float, int] | Quantisation, dtype: DType | None = None) -> int:
        kind = dtype or self.dtype
        data = self.rng.integers(*kind.limits, size=shape, endpoint=True).astype(kind.numpy)
        return self.tensor(shape, quantisation, kind, data)

    def op(
        self,
        inputs: Sequence[int],
        shapes: Shape | Sequence[Shape],
        quantisation: tuple[float, int] | None = None,
        *,
        options: str | None = None,
        fields: Mapping[str, object] | None = None,
        dtype: DType | None = None,
        intermediates: Sequence[int] = (),
        case: str = "",
    ) -> None:
        """The operator, with one output or several, which all become outputs of the network."""
        several = shapes if shapes and isinstance(shapes[0], tuple) else (shapes,)
        plain = None if (dtype or self.dtype) is I32 else PLAIN[dtype or self.dtype]
        made = [self.tensor(shape, quantisation or plain, dtype) for shape in several]
        self.operators.append(
            OperatorRecord(self.kind, 1, tuple(inputs), tuple(made), options, dict(fields or {}), tuple(intermediates))
        )
        self.outputs += made
        self.cases.append(case or " ".join("x".join(map(str, self.tensors[i].shape)) for i in inputs if i >= 0))

    def build(self) -> bytes:
        return write_file(f"{self.kind}_{self.dtype.value}", self.tensors, self.operators, self.inputs, self.outputs)
