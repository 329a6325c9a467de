"""Operations of one operator, as families make them: of single elements, pools, sums, copies, and tensors between.

Owns what such operations have in common: which window, index expression and range follow from what is asked for. Which
operations follow each other is their family's business.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import DType, Window
from ..util.records import dataclass
from . import expressions, views
from .feature_maps import ConstantMap, FeatureMap, Scalar
from .npu import (
    UNSCALED,
    Function,
    NpuGraphBuilder,
    NpuOperation,
    OperationKind,
    Rounding,
    Scale,
    Scaling,
    Table,
    Upscale,
    Weights,
)
from .te import Compute

AS_IS = Scale(1, 0)
"""The factor 1 of sums and differences."""


def high(shift: int) -> Scale:
    """Products of 32-bit numbers without their last `shift` bits, halves up: there the multiplier has no effect."""
    return Scale(UNSCALED.multiplier, shift)


Second = FeatureMap | ConstantMap | Scalar | int | None
"""A second operand, if there is one; a number is a scalar of the first operand's type."""


@dataclass(frozen=True)
class Maker:
    """Makes the operations of one operator, and returns what each of them makes.

    Where nothing else is said they round as `rounding` says and have the range of their output's type.
    """

    name: str
    operator: int
    builder: NpuGraphBuilder
    rounding: Rounding = Rounding.TFL

    def temporary(self, shape: views.Shape3, dtype: DType, zero_point: int = 0) -> FeatureMap:
        """A new tensor between the operations."""
        return self.builder.temporary(self.operator, shape, dtype, zero_point)

    def point(
        self,
        kind: OperationKind,
        ifm: FeatureMap,
        second: Second,
        ofm: FeatureMap,
        scaling: Scaling = None,
        function: Function | Table = Function.CLAMP,
        swap_operands: bool = False,
        clamp: tuple[int, int] | None = None,
        rounding: Rounding | None = None,
        first: tuple[int, int] = (0, 0),
    ) -> FeatureMap:
        """An elementwise operation; the second operand's only row, column or channel is repeated.

        Of the first operand the row and column `first` are the output's first ones.
        """
        operand = Scalar(second, ifm.dtype) if isinstance(second, int) else second
        read = operand if isinstance(operand, FeatureMap | ConstantMap) else None
        compute = expressions.points(self.name, ofm.shape, ifm, read, first=first)
        return self._add(
            kind,
            ifm,
            ofm,
            compute,
            scaling=scaling,
            ifm2=operand,
            function=function,
            swap_operands=swap_operands,
            clamp=clamp,
            rounding=rounding,
        )

    def wide(
        self,
        kind: OperationKind,
        ifm: FeatureMap,
        second: Second = None,
        scaling: Scaling = None,
        function: Function | Table = Function.CLAMP,
        swap_operands: bool = False,
        zero_point: int = 0,
    ) -> FeatureMap:
        """An elementwise operation into a temporary of 32 bits."""
        ofm = self.temporary(ifm.shape, DType.INT32, zero_point)
        return self.point(kind, ifm, second, ofm, scaling, function, swap_operands)

    def short(
        self,
        kind: OperationKind,
        ifm: FeatureMap,
        second: Second = None,
        scaling: Scaling = None,
        function: Function | Table = Function.CLAMP,
        zero_point: int = 0,
        rounding: Rounding | None = None,
    ) -> FeatureMap:
        """As `wide`, with a result of 16 bits. `zero_point` is added ahead of a table; readers see none."""
        ofm = self.temporary(ifm.shape, DType.INT16, zero_point)
        return replace(self.point(kind, ifm, second, ofm, scaling, function, rounding=rounding), zero_point=0)

    def copy(
        self,
        ifm: FeatureMap,
        ofm: FeatureMap,
        scaling: Scale = UNSCALED,
        function: Function = Function.CLAMP,
        upscale: Upscale = Upscale.NONE,
        steps: Window = views.POINT,
        first: tuple[int, int] = (0, 0),
        clamp: tuple[int, int] | None = None,
        same_as: Table | None = None,
    ) -> FeatureMap:
        """A pool of single pixels, those of the input `steps` apart from the row and column `first` on.

        What has 32 bits is no pool's: nothing is added to it.
        """
        if ifm.dtype is DType.INT32:
            if (scaling, steps, upscale, clamp) != (UNSCALED, views.POINT, Upscale.NONE, None):
                raise AssertionError(f"'{self.name}' copies int32 as it is: its family takes no other copies")
            return self.point(OperationKind.ADD, ifm, 0, ofm, AS_IS, first=first)
        compute = expressions.points(self.name, ofm.shape, ifm, steps=steps, first=first, upscale=upscale)
        kind = OperationKind.AVERAGE_POOL
        return self._add(
            kind,
            ifm,
            ofm,
            compute,
            steps,
            scaling=scaling,
            function=function,
            upscale=upscale,
            clamp=clamp,
            same_as=same_as,
        )

    def look_up(self, ifm: FeatureMap, ofm: FeatureMap, table: Table, first: tuple[int, int] = (0, 0)) -> FeatureMap:
        """Each stored value from the row and column `first` on replaced by the table's; views have the zero point 0."""
        compute = expressions.points(self.name, ofm.shape, ifm, first=first)
        return self._add(OperationKind.MAX_POOL, ifm, ofm, compute, function=table)

    def pool(
        self,
        kind: OperationKind,
        ifm: FeatureMap,
        ofm: FeatureMap,
        window: Window,
        scaling: Scaling = None,
        upscale: Upscale = Upscale.NONE,
    ) -> FeatureMap:
        """The mean or the largest of each window; with a scale sums, times it."""
        compute = expressions.windows(self.name, window, ifm.shape, ofm.shape, upscale)
        return self._add(kind, ifm, ofm, compute, window, scaling=scaling, upscale=upscale)

    def weigh(
        self,
        ifm: FeatureMap,
        ofm: FeatureMap,
        weights: Weights,
        window: Window = views.POINT,
        together: bool = False,
        upscale: Upscale = Upscale.NONE,
        first: tuple[int, int] = (0, 0),
        function: Function | Table = Function.CLAMP,
        clamp: tuple[int, int] | None = None,
    ) -> FeatureMap:
        """Weighted sums of windows, of all channels `together` or of each, from the row and column `first` on."""
        kind = OperationKind.CONVOLUTION if together else OperationKind.DEPTHWISE
        definition = expressions.whole_windows if together else expressions.windows
        compute = definition(self.name, window, ifm.shape, ofm.shape, upscale)
        compute = expressions.from_there(compute, first)
        return self._add(
            kind, ifm, ofm, compute, window, weights=weights, upscale=upscale, function=function, clamp=clamp
        )

    def sum(
        self,
        ifm: FeatureMap,
        ofm: FeatureMap | None = None,
        scaling: Scale = UNSCALED,
        clamp: tuple[int, int] | None = None,
    ) -> FeatureMap:
        """The sum of each pixel's channels, by default in a temporary of 32 bits."""
        made = self.temporary((*ifm.shape[:2], 1), DType.INT32) if ofm is None else ofm
        compute = expressions.depths(self.name, ifm)
        return self._add(OperationKind.SUM_OVER_DEPTH, ifm, made, compute, scaling=scaling, clamp=clamp)

    def _add(
        self,
        kind: OperationKind,
        ifm: FeatureMap,
        ofm: FeatureMap,
        compute: Compute,
        window: Window = views.POINT,
        *,
        scaling: Scaling = None,
        ifm2: FeatureMap | ConstantMap | Scalar | None = None,
        weights: Weights | None = None,
        upscale: Upscale = Upscale.NONE,
        function: Function | Table = Function.CLAMP,
        swap_operands: bool = False,
        clamp: tuple[int, int] | None = None,
        rounding: Rounding | None = None,
        same_as: Table | None = None,
    ) -> FeatureMap:
        # Results of 32 bits are looked up by values of 8.
        wide_look_up = isinstance(function, Table) and ofm.dtype is DType.INT32
        self.builder.add(
            NpuOperation(
                name=self.name,
                operator=self.operator,
                kind=kind,
                ifm=ifm,
                ifm2=ifm2,
                ofm=ofm,
                window=window,
                upscale=upscale,
                compute=compute,
                clamp=clamp or (DType.INT8.limits if wide_look_up else ofm.dtype.limits),
                weights=weights,
                scaling=scaling,
                rounding=rounding or self.rounding,
                function=function,
                swap_operands=swap_operands,
                same_as=same_as,
            )
        )
        return ofm
