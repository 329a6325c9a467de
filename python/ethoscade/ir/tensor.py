"""Element types, quantisations and tensors.

Owns what a tensor is by itself. Knows neither operators nor graphs.
"""

from __future__ import annotations

import enum
from dataclasses import field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..errors import ModelFormatError
from ..util.records import dataclass

Array = npt.NDArray[np.generic]
"""The values of one tensor."""

Integers = npt.NDArray[np.int64]
"""Stored values, or sums of them, in an integer type that holds them all."""


class DType(enum.Enum):
    """Element type of a tensor; the value is NumPy's name for it, but for int48: NumPy keeps that in int64."""

    INT8 = "int8"
    UINT8 = "uint8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    UINT32 = "uint32"
    INT48 = "int48"
    INT64 = "int64"
    UINT64 = "uint64"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BOOL = "bool"

    # Asked for time and again of a dozen members.

    @cached_property
    def numpy(self) -> np.dtype:
        """The NumPy dtype."""
        return np.dtype("int64" if self is DType.INT48 else self.value)

    @cached_property
    def size_bytes(self) -> int:
        """Bytes of one element in memory."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        """Whether elements are real numbers."""
        return self.numpy.kind == "f"

    @property
    def is_integer(self) -> bool:
        """Whether elements are whole numbers, signed or not; truth values are not."""
        return self.numpy.kind in "iu"

    @cached_property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type."""
        if self is DType.INT48:
            return -(1 << 47), (1 << 47) - 1
        info = np.iinfo(self.value)
        return int(info.min), int(info.max)


TFLITE_TYPES = tuple(dtype for dtype in DType if dtype is not DType.INT48)
"""The types of TensorFlow Lite files."""

EIGHT_BIT = (DType.INT8, DType.UINT8)
"""The types that most kernels compute with."""

QUANTISED = (*EIGHT_BIT, DType.INT16)
"""These and int16, of which zero points are 0."""


class Activation(enum.Enum):
    """Activation fused into an operator (TFLite `ActivationFunctionType`)."""

    NONE = "none"
    RELU = "relu"
    RELU_N1_TO_1 = "relu_n1_to_1"
    RELU6 = "relu6"


@dataclass(frozen=True)
class Quantisation:
    """real = scale * (stored - zero_point); one entry per tensor, or one per slice along `axis`.

    `scales` are the file's float32 values, finite and positive, held as Python floats without rounding. Only a constant
    may have the scale 0, where every element that it is for is zero. A file may have other scales, and zero points that
    the element type does not hold: operators with such a tensor are opaque.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None

    @property
    def scale(self) -> float:
        """The scale of a per-tensor quantisation."""
        return self.scales[0]

    @property
    def zero_point(self) -> int:
        """The zero point of a per-tensor quantisation."""
        return self.zero_points[0]


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor: a constant if `data` is there, else a value that an operator or the caller provides.

    `is_variable` marks memory that no operator makes and that its readers change in place: the state of a recurrent
    operator, the scratch of an already compiled one. A variable may be read from the start.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    quantisation: Quantisation | None = None
    data: Array | None = field(default=None, repr=False)
    is_variable: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether the value is known at compile time."""
        return self.data is not None

    def constant(self) -> Array:
        """The value of a constant. Raises `ModelFormatError` where there is none before the network runs."""
        if self.data is None:
            raise ModelFormatError(f"tensor '{self.name}' is not constant", tensor=self.name)
        return self.data

    def reset_value(self) -> Array:
        """What a variable tensor holds before the first run (TFLite's ResetVariableTensors): 0, int8 its zero point."""
        value = self.quantisation.zero_point if self.dtype is DType.INT8 and self.quantisation is not None else 0
        # A zero point that the type does not hold is set as runtimes do: its last byte everywhere.
        return np.full(self.shape, value, np.int64).astype(self.dtype.numpy)

    @property
    def size_bytes(self) -> int:
        """Bytes of the packed tensor."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.size_bytes
