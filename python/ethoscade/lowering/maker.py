"""Operations of operators that take many: each makes a temporary of its own, or an output.

Owns what such sequences have in common: operands of which one stands for a whole pixel, types and limits of results.
Which operations follow each other is their family's business.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import DType, Window
from . import depthwise, views
from .npu import (
    UNSCALED,
    FeatureMap,
    Function,
    NpuGraphBuilder,
    NpuOperation,
    OperationKind,
    Rounding,
    Scalar,
    Scale,
    Scaling,
    Table,
)
from .te import Access, Axis, Compute, index

AS_IS = Scale(1, 0)
"""The factor 1 of sums and differences."""


class OperationMaker:
    """Makes the operations of one operator, each of them into a temporary of its own."""

    def __init__(self, name: str, operator: int, builder: NpuGraphBuilder) -> None:
        self._name, self._operator, self._builder = name, operator, builder

    def maximum(self, ifm: FeatureMap, dtype: DType) -> FeatureMap:
        """The largest of each row of columns."""
        rows, columns, _ = ifm.shape
        ofm = self._builder.temporary(self._operator, (rows, 1, 1), dtype)
        window = Window(1, columns)
        compute = depthwise.compute(self._name, window, ifm.shape, ofm.shape)
        self._add(OperationKind.MAX_POOL, ifm, None, ofm, compute, window)
        return ofm

    def sum(self, ifm: FeatureMap) -> FeatureMap:
        """The sum of each pixel's channels."""
        rows, columns, depth = ifm.shape
        ofm = self._builder.temporary(self._operator, (rows, columns, 1), DType.INT32)
        read = Access(0, (index(n=1), index(h=1), index(w=1), index(ic=1)), (1, *ifm.shape))
        compute = Compute(self._name, views.axes(ofm.shape), (Axis("ic", depth, True),), (read,))
        self._add(OperationKind.SUM_OVER_DEPTH, ifm, None, ofm, compute, views.POINT, UNSCALED)
        return ofm

    def wide(
        self,
        kind: OperationKind,
        ifm: FeatureMap,
        second: FeatureMap | int | None = None,
        scaling: Scaling = None,
        function: Function | Table = Function.CLAMP,
        swap_operands: bool = False,
        zero_point: int = 0,
    ) -> FeatureMap:
        """An elementwise operation with a result of 32 bits; a number is a scalar of the first operand's type."""
        ofm = self._builder.temporary(self._operator, ifm.shape, DType.INT32, zero_point)
        self.operation(kind, ifm, second, ofm, scaling, function, swap_operands)
        return ofm

    def short(
        self,
        kind: OperationKind,
        ifm: FeatureMap,
        second: FeatureMap | int | None = None,
        scaling: Scaling = None,
        function: Function | Table = Function.CLAMP,
        zero_point: int = 0,
        rounding: Rounding = Rounding.NATURAL,
    ) -> FeatureMap:
        """As `wide`, with a result of 16 bits. `zero_point` is added ahead of a table; readers see none."""
        ofm = self._builder.temporary(self._operator, ifm.shape, DType.INT16, zero_point)
        self.operation(kind, ifm, second, ofm, scaling, function, rounding=rounding)
        return replace(ofm, zero_point=0)

    def operation(
        self,
        kind: OperationKind,
        ifm: FeatureMap,
        second: FeatureMap | int | None,
        ofm: FeatureMap,
        scaling: Scaling = None,
        function: Function | Table = Function.CLAMP,
        swap_operands: bool = False,
        clamp: tuple[int, int] | None = None,
        rounding: Rounding = Rounding.NATURAL,
    ) -> None:
        """An elementwise operation; the second operand's channel is repeated if it has one."""
        reads = [views.point_access(0, ifm.shape)]
        if isinstance(second, FeatureMap):
            once = second.shape[2] != ifm.shape[2]
            channel = index() if once else index(c=1)
            reads.append(Access(1, (index(n=1), index(h=1), index(w=1), channel), (1, *second.shape)))
        compute = Compute(self._name, views.axes(ofm.shape), (), tuple(reads))
        operand = Scalar(second, ifm.dtype) if isinstance(second, int) else second
        self._add(kind, ifm, operand, ofm, compute, views.POINT, scaling, function, swap_operands, clamp, rounding)

    def _add(
        self,
        kind: OperationKind,
        ifm: FeatureMap,
        ifm2: FeatureMap | Scalar | None,
        ofm: FeatureMap,
        compute: Compute,
        window: Window,
        scaling: Scaling = None,
        function: Function | Table = Function.CLAMP,
        swap_operands: bool = False,
        clamp: tuple[int, int] | None = None,
        rounding: Rounding = Rounding.NATURAL,
    ) -> None:
        # Results of 32 bits are looked up by values of 8.
        wide_look_up = isinstance(function, Table) and ofm.dtype is DType.INT32
        self._builder.add(
            NpuOperation(
                name=self._name,
                operator=self._operator,
                kind=kind,
                ifm=ifm,
                ifm2=ifm2,
                ofm=ofm,
                window=window,
                compute=compute,
                clamp=clamp or (DType.INT8.limits if wide_look_up else ofm.dtype.limits),
                scaling=scaling,
                rounding=rounding,
                function=function,
                swap_operands=swap_operands,
            )
        )
