"""What a family of operators takes, as data: every constraint holds a limit, checks it and says it.

Owns the constraints that several families share, and their words. A constraint's `str` is its line on the page of
supported operators, `refusal` the reason for which an operator stays on the CPU: one sentence without a full stop that
names the value found and the limit. Both come from the same fields. Which constraints a kind has is its family's
business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from ..ir import EIGHT_BIT, QUANTISED, DType, Graph, Operator, Tensor, Window
from ..ir.operators import OPERATORS
from ..targets.target import Accelerator
from ..util.records import dataclass
from . import limits, views

Views = Sequence[tuple[Tensor, views.Shape3]]
"""Tensors with the (height, width, depth) that the NPU sees them as."""


@dataclass(frozen=True, eq=False)
class Case:
    """One operator, asked about for one accelerator."""

    graph: Graph
    op: Operator
    accelerator: Accelerator

    @cached_property
    def values(self) -> tuple[Tensor, ...]:
        """The inputs that hold values rather than parameters."""
        row = OPERATORS[self.op.kind]
        count = len(self.op.inputs) if row.data_inputs is None else row.data_inputs
        return tuple(self.graph.read(self.op, row.data_input + place) for place in range(count))

    @property
    def ifm(self) -> Tensor:
        """The first of the values."""
        return self.values[0]

    @property
    def ofm(self) -> Tensor:
        """The first output."""
        return self.graph.made(self.op)

    @property
    def made(self) -> tuple[Tensor, ...]:
        """All outputs."""
        return tuple(self.graph.tensors[t] for t in self.op.outputs)


@runtime_checkable
class _Windowed(Protocol):
    @property
    def window(self) -> Window: ...


@runtime_checkable
class _Along(Protocol):
    @property
    def axis(self) -> int: ...


def stated_window(case: Case) -> Window:
    """The operator's window as its attributes have it."""
    assert isinstance(case.op.attrs, _Windowed), f"{case.op.kind} slides no window"
    return case.op.attrs.window


def window_of(case: Case) -> Window:
    """The operator's window in its simplest form."""
    return views.simplest(stated_window(case), *case.ifm.shape[1:3])


def axis_of(op: Operator) -> int:
    """The axis among an operator's attributes."""
    assert isinstance(op.attrs, _Along), f"{op.kind} works along no axis"
    return op.attrs.axis


Windows = Callable[[Case], Window]
"""Which window an operator is lowered to."""


class Constraint(ABC):
    """One thing that a family demands of an operator; `str` says it for the page of supported operators."""

    def refusal(self, case: Case) -> str | None:
        """Why `case` does not meet it, or None. Precondition: the family's constraints before this one are met."""
        return self._against(case)

    def looks_back(self, case: Case) -> bool:
        """Whether the answer depends on more than `case`'s operator and its own tensors: on who made these."""
        return False

    @abstractmethod
    def _against(self, case: Case) -> str | None: ...


def first_refusal(constraints: Sequence[Constraint], case: Case) -> str | None:
    """The first reason against an operator; constraints after that one are not asked."""
    return next((why for one in constraints if (why := one.refusal(case)) is not None), None)


@dataclass(frozen=True)
class FeatureMaps(Constraint):
    """Every value is made while the network runs, of one of `types`, with one scale and zero point.

    With `constants` inputs may be constants as well. Outputs are of the types `made`, without scales, where these are
    given; a reader has seen to it. Outputs may be of `wider` types too, with the zero point 0. With `words` all may be
    int32, at whose scales no kernel looks.
    """

    types: tuple[DType, ...] = EIGHT_BIT
    constants: bool = False
    made: tuple[DType, ...] | None = None
    wider: tuple[DType, ...] = ()
    words: bool = False

    def __str__(self) -> str:
        what = "inputs and outputs" if self.made is None else "inputs"
        end = "" if self.made is None else f"; outputs are {named_types(self.made, 'or')}"
        end += f"; outputs may be {named_types(self.wider, 'or')} with the zero point 0" if self.wider else ""
        return (
            f"{what} are {named_types(self.types, 'or')} with one scale and zero point"
            f"{', of int16 the zero point 0' if DType.INT16 in self.types else ''}, and "
            f"{'no variables' if self.constants else 'neither constants nor variables'}{end}"
            f"{'; or all are int32' if self.words else ''}"
        )

    def _against(self, case: Case) -> str | None:
        outputs = case.made if self.made is None else ()
        roles = (*(("input", t) for t in case.values), *(("output", t) for t in outputs))
        return next((why for role, tensor in roles if (why := self._tensor(role, tensor)) is not None), None)

    def _tensor(self, role: str, tensor: Tensor) -> str | None:
        if tensor.is_constant and not self.constants:
            return f"{role} '{tensor.name}' is a constant; the NPU reads feature maps from the arena"
        if tensor.is_variable:
            return f"{role} '{tensor.name}' is a variable, which keeps its value between inferences"
        if self.words and tensor.dtype is DType.INT32:
            return None
        types = self.types if role == "input" else (*self.types, *self.wider)
        types = (*types, DType.INT32) if self.words else types
        if tensor.dtype not in types:
            return f"{role} '{tensor.name}' is {tensor.dtype.value}; {named_types(types)} are possible"
        if tensor.quantisation is None:
            return f"{role} '{tensor.name}' has no quantisation"
        if tensor.quantisation.axis is not None or len(tensor.quantisation.scales) != 1:
            count = len(tensor.quantisation.scales)
            return f"{role} '{tensor.name}' is quantised per channel ({count} scales); one scale is possible"
        if tensor.dtype not in EIGHT_BIT and tensor.quantisation.zero_point:
            name, found = f"{role} '{tensor.name}'", tensor.quantisation.zero_point
            return f"{name} is {tensor.dtype.value} with zero point {found}; only 0 is possible"
        return None


def feature_maps() -> FeatureMaps:
    """Feature maps of 8 or of 16 bits."""
    return FeatureMaps(QUANTISED)


def is_words(case: Case) -> bool:
    """Whether the operator's values are of 32 bits."""
    return case.ifm.dtype is DType.INT32


@dataclass(frozen=True)
class OneType(Constraint):
    """Inputs and outputs have one element type, and so has the tensor that is read at the place `weights`, if any.

    Weights for int16 are int8.
    """

    weights: int | None = None

    def __str__(self) -> str:
        if self.weights is None:
            return "inputs and outputs have one type"
        return "inputs, weights and outputs have one type, but that weights for int16 are int8"

    def _against(self, case: Case) -> str | None:
        weights = () if self.weights is None else (case.graph.read(case.op, self.weights),)
        tensors = (*case.values, *weights, *case.made)
        wanted = [case.ifm.dtype] * len(tensors)
        if weights and case.ifm.dtype is DType.INT16:
            wanted[len(case.values)] = DType.INT8
        if [t.dtype for t in tensors] == wanted:
            return None
        found = ", ".join(f"'{t.name}' {t.dtype.value}" for t in tensors)
        exception = " (weights for int16: int8)" if weights else ""
        return f"element types differ ({found}); they must be equal{exception}"


@dataclass(frozen=True)
class OneQuantisation(Constraint):
    """Scale and zero point of inputs and outputs `of` these types are equal; `why` they must be."""

    why: str
    of: tuple[DType, ...] = QUANTISED

    def __str__(self) -> str:
        of = "" if self.of == QUANTISED else f" of {named_types(self.of)}"
        return f"inputs and outputs{of} have one scale and one zero point"

    def _against(self, case: Case) -> str | None:
        first, *others = (*case.values, *case.made)
        for other in others if case.ifm.dtype in self.of else ():
            a, b = first.quantisation, other.quantisation
            if a is not None and b is not None and (a.scale, a.zero_point) != (b.scale, b.zero_point):
                return (
                    f"'{first.name}' has scale {a.scale:g} and zero point {a.zero_point}, '{other.name}' {b.scale:g} "
                    f"and {b.zero_point}; {self.why}, they must be equal"
                )
        return None


@dataclass(frozen=True)
class Rank(Constraint):
    """The inputs have at most `most` dimensions."""

    most: int = limits.MAX_RANK

    def __str__(self) -> str:
        return f"inputs have at most {self.most} dimensions"

    def _against(self, case: Case) -> str | None:
        tensor = max(case.values, key=lambda t: len(t.shape))
        if len(tensor.shape) > self.most:
            return f"'{tensor.name}' has {len(tensor.shape)} dimensions; at most {self.most} are possible"
        return None


@dataclass(frozen=True)
class Image(Constraint):
    """The input is NHWC with a batch of at most `batch`."""

    batch: int = 1

    def __str__(self) -> str:
        return f"the input has 4 dimensions (NHWC) and a batch of at most {self.batch}"

    def _against(self, case: Case) -> str | None:
        if len(case.ifm.shape) != 4:
            return f"'{case.ifm.name}' has {len(case.ifm.shape)} dimensions; 4 (NHWC) are needed"
        if case.ifm.shape[0] > self.batch:
            return f"'{case.ifm.name}' has batch {case.ifm.shape[0]}; at most {self.batch} is possible"
        return None


@dataclass(frozen=True)
class LastAxis(Constraint):
    """It works along the last axis alone; `doing` says what it does along it."""

    doing: str

    def __str__(self) -> str:
        return f"it {self.doing} the last axis, the channels"

    def _against(self, case: Case) -> str | None:
        axis, rank = axis_of(case.op), len(case.ifm.shape)
        if axis != rank - 1:
            return f"it {self.doing} axis {axis} of {rank}; only the last one, the channels, is possible"
        return None
        return None


@dataclass(frozen=True)
class ConstantAt(Constraint):
    """The inputs at these `places`, weights and biases, are constants where they are not absent."""

    places: tuple[int, ...]

    def __str__(self) -> str:
        return "weights and biases are constant"

    def _against(self, case: Case) -> str | None:
        parameters = (case.graph.read(case.op, place) for place in self.places if case.op.inputs[place] is not None)
        variable = next((tensor for tensor in parameters if not tensor.is_constant), None)
        return None if variable is None else f"'{variable.name}' is not constant"


@dataclass(frozen=True)
class Sizes(Constraint):
    """No dimension, as the NPU sees it, beyond `most`; `seen` gives what it sees of an operator, the output last."""

    seen: Callable[[Case], Views] = field(repr=False)
    most: int = limits.MAX_DIMENSION

    def __str__(self) -> str:
        return f"height, width and depth are at most {self.most}"

    def _against(self, case: Case) -> str | None:
        for tensor, shape in self.seen(case):
            if min(shape) < 1:
                return f"the window leaves an output of {shape} (height, width, depth); every side must be at least 1"
            if int(np.prod(tensor.shape, dtype=np.int64)) != int(np.prod(shape, dtype=np.int64)):
                words = f"the operator makes {shape} (height, width, depth)"
                return f"output '{tensor.name}' has shape {tensor.shape}; {words}"
            if max(shape) > self.most:
                return f"'{tensor.name}' has a dimension of {max(shape)}; the limit is {self.most}"
        return None


@dataclass(frozen=True)
class WindowSize(Constraint):
    """Height and area of the undilated window."""

    rows: int = limits.MAX_KERNEL_ROWS
    elements: int = limits.MAX_KERNEL_ELEMENTS
    windows: Windows = field(default=window_of, repr=False)

    def __str__(self) -> str:
        return f"the kernel has at most {self.rows} rows and {self.elements} elements"

    def _against(self, case: Case) -> str | None:
        window = self.windows(case)
        size, count = f"{window.kernel_h}x{window.kernel_w}", window.kernel_h * window.kernel_w
        if window.kernel_h > self.rows:
            return f"kernel is {size}; at most {self.rows} rows are possible"
        if count > self.elements:
            return f"kernel is {size}, {count} elements; at most {self.elements} are possible"
        return None


@dataclass(frozen=True)
class Padding(Constraint):
    """Padding fits its registers, and no position of the window lies in padding alone."""

    before: int = limits.MAX_PAD_BEFORE
    after: int = limits.MAX_PAD_AFTER
    windows: Windows = field(default=window_of, repr=False)

    def __str__(self) -> str:
        return (
            f"padding is at most {self.before} above and to the left, {self.after} below and to the right, and less "
            f"than the kernel spans"
        )

    def _against(self, case: Case) -> str | None:
        window = self.windows(case)
        before, after = max(window.pad_top, window.pad_left), max(window.pad_bottom, window.pad_right)
        if before > self.before or after > self.after:
            return f"padding is {before} before and {after} after; at most {self.before} and {self.after} are possible"
        for what, pads, extent in (
            ("rows", (window.pad_top, window.pad_bottom), window.dilated_h),
            ("columns", (window.pad_left, window.pad_right), window.dilated_w),
        ):
            if max(pads) >= extent:
                return (
                    f"padding of {pads[0]} and {pads[1]} {what} reaches the kernel's {extent}; "
                    f"a window may not lie in padding alone"
                )
        return None


@dataclass(frozen=True)
class Rule(Constraint):
    """A demand of one family alone: `text` for the page and `check` for the reason.

    `of_makers` says of which operators it asks who made their operands; by default of none.
    """

    text: str
    check: Callable[[Case], str | None] = field(repr=False)
    of_makers: Callable[[Case], bool] | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.text

    def looks_back(self, case: Case) -> bool:
        """As `of_makers` says."""
        return self.of_makers is not None and self.of_makers(case)

    def _against(self, case: Case) -> str | None:
        return self.check(case)


SUMS = "sums, and what factors shift left of them, stay within 32 bits, and factors below 2^31"
"""What `limits.rescale` asks of an operator's scales."""


def named_types(types: Sequence[DType], word: str = "and") -> str:
    """Types in words, with `word` before the last."""
    return _listed([dtype.value for dtype in types], word)


def _listed(values: Sequence[object], word: str = "and") -> str:
    *front, last = map(str, values)
    return f"{', '.join(front)} {word} {last}" if front else last
