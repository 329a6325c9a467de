"""What a family of operators takes, as data: every constraint holds a limit, checks it and says it.

Owns the constraints that several families share, and their words. A constraint's `str` is its line on the page of
supported operators, `refusal` the reason for which an operator stays on the CPU: one sentence without a full stop that
names the value found and the limit. Both come from the same fields. Which constraints a kind has is its family's
business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from ..ir import EIGHT_BIT, DType, Graph, Operator, Tensor, Window
from ..operators import OPERATORS
from ..target import Accelerator
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


class Constraint(ABC):
    """One thing that a family demands of an operator; `str` says it for the page of supported operators."""

    def refusal(self, case: Case) -> str | None:
        """Why `case` does not meet it, or None. Precondition: the family's constraints before this one are met."""
        return self._against(case)

    @abstractmethod
    def _against(self, case: Case) -> str | None: ...


def first_refusal(constraints: Sequence[Constraint], case: Case) -> str | None:
    """The first reason against an operator; constraints after that one are not asked."""
    return next((why for one in constraints if (why := one.refusal(case)) is not None), None)


@dataclass(frozen=True)
class FeatureMaps(Constraint):
    """Every value is made while the network runs, of one of `types`, with one scale and zero point."""

    types: tuple[DType, ...] = EIGHT_BIT

    def __str__(self) -> str:
        return (
            f"inputs and outputs are {named_types(self.types, 'or')} with one scale and zero point, and neither "
            f"constants nor variables"
        )

    def _against(self, case: Case) -> str | None:
        roles = (*(("input", t) for t in case.values), *(("output", t) for t in case.made))
        return next((why for role, tensor in roles if (why := self._tensor(role, tensor)) is not None), None)

    def _tensor(self, role: str, tensor: Tensor) -> str | None:
        if tensor.is_constant:
            return f"{role} '{tensor.name}' is a constant; the NPU reads feature maps from the arena"
        if tensor.is_variable:
            return f"{role} '{tensor.name}' is a variable, which keeps its value between inferences"
        if tensor.dtype not in self.types:
            return f"{role} '{tensor.name}' is {tensor.dtype.value}; {named_types(self.types)} are possible"
        if tensor.quantisation is None:
            return f"{role} '{tensor.name}' has no quantisation"
        if tensor.quantisation.axis is not None or len(tensor.quantisation.scales) != 1:
            count = len(tensor.quantisation.scales)
            return f"{role} '{tensor.name}' is quantised per channel ({count} scales); one scale is possible"
        return None


@dataclass(frozen=True)
class OneType(Constraint):
    """Inputs and outputs have one element type, and so has the tensor that is read at the place `weights`, if any."""

    weights: int | None = None

    def __str__(self) -> str:
        return f"inputs{'' if self.weights is None else ', weights'} and outputs have one type"

    def _against(self, case: Case) -> str | None:
        weights = () if self.weights is None else (case.graph.read(case.op, self.weights),)
        tensors = (*case.values, *weights, *case.made)
        if len({t.dtype for t in tensors}) == 1:
            return None
        found = ", ".join(f"'{t.name}' {t.dtype.value}" for t in tensors)
        return f"element types differ ({found}); they must be equal"


@dataclass(frozen=True)
class OneQuantisation(Constraint):
    """Scale and zero point of inputs and outputs are equal; `why` they must be."""

    why: str

    def __str__(self) -> str:
        return "inputs and outputs have one scale and one zero point"

    def _against(self, case: Case) -> str | None:
        first, *others = (*case.values, *case.made)
        for other in others:
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
class Axes(Constraint):
    """It works over some of `possible` axes; `doing` says what it does over them."""

    doing: str
    possible: tuple[int, ...]

    def __str__(self) -> str:
        return f"it {self.doing} one or more of the axes {_listed(self.possible)}"

    def _against(self, case: Case) -> str | None:
        found = axes_of(case.op)
        if not found or not set(found) <= set(self.possible):
            return f"it {self.doing} axes {found}; {_listed(self.possible)} are possible, one at least"
        return None


@dataclass(frozen=True)
class SameShape(Constraint):
    """The inputs have one shape."""

    def __str__(self) -> str:
        return "inputs have one shape: no broadcasting"

    def _against(self, case: Case) -> str | None:
        shapes = [tensor.shape for tensor in case.values]
        if len(set(shapes)) > 1:
            return f"inputs have shapes {' and '.join(map(str, shapes))}; broadcasting is not possible"
        return None


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
class Strides(Constraint):
    """Strides of the window, where they are taken at all, fit their register."""

    most: int = limits.MAX_STRIDE

    def __str__(self) -> str:
        return f"strides are at most {self.most} where there is more than one position"

    def _against(self, case: Case) -> str | None:
        window = window_of(case)
        if max(window.stride_h, window.stride_w) > self.most:
            return f"stride is {window.stride_h}x{window.stride_w}; at most {self.most} is possible"
        return None


@dataclass(frozen=True)
class Dilation(Constraint):
    """Dilations of the window fit their register."""

    most: int = limits.MAX_DILATION

    def __str__(self) -> str:
        return f"dilations are at most {self.most}"

    def _against(self, case: Case) -> str | None:
        window = window_of(case)
        if max(window.dilation_h, window.dilation_w) > self.most:
            return f"dilation is {window.dilation_h}x{window.dilation_w}; at most {self.most} is possible"
        return None


@dataclass(frozen=True)
class WindowSize(Constraint):
    """Height and area of the undilated window."""

    rows: int = limits.MAX_KERNEL_ROWS
    elements: int = limits.MAX_KERNEL_ELEMENTS

    def __str__(self) -> str:
        return f"the kernel has at most {self.rows} rows and {self.elements} elements"

    def _against(self, case: Case) -> str | None:
        window = window_of(case)
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

    def __str__(self) -> str:
        return (
            f"padding is at most {self.before} above and to the left, {self.after} below and to the right, and less "
            f"than the kernel spans"
        )

    def _against(self, case: Case) -> str | None:
        window = window_of(case)
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
    """A demand of one family alone: `text` for the page and `check` for the reason."""

    text: str
    check: Callable[[Case], str | None] = field(repr=False)

    def __str__(self) -> str:
        return self.text

    def _against(self, case: Case) -> str | None:
        return self.check(case)


SUMS = "sums, and what factors shift left of them, stay within 32 bits, and factors below 2^31"
"""What `limits.rescale` asks of an operator's scales."""


@runtime_checkable
class _Windowed(Protocol):
    @property
    def window(self) -> Window: ...


@runtime_checkable
class _Along(Protocol):
    @property
    def axis(self) -> int: ...


@runtime_checkable
class _Over(Protocol):
    @property
    def axes(self) -> tuple[int, ...]: ...


def window_of(case: Case) -> Window:
    """The operator's window in its simplest form; of a mean, the whole extent of its axes."""
    height, width = case.ifm.shape[1:3]
    if isinstance(case.op.attrs, _Windowed):
        return views.simplest(case.op.attrs.window, height, width)
    return views.reduction(axes_of(case.op), height, width)


def axes_of(op: Operator) -> tuple[int, ...]:
    """The axis or the axes among an operator's attributes."""
    if isinstance(op.attrs, _Along):
        return (op.attrs.axis,)
    return op.attrs.axes if isinstance(op.attrs, _Over) else ()


def named_types(types: Sequence[DType], word: str = "and") -> str:
    """Types in words, with `word` before the last."""
    return _listed([dtype.value for dtype in types], word)


def _listed(values: Sequence[object], word: str = "and") -> str:
    *front, last = map(str, values)
    return f"{', '.join(front)} {word} {last}" if front else last
