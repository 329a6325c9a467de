"""One TOSA operator as its reader sees it: values, parameters and attributes by place, and the wording of its errors.

Owns what readers have in common: constant parameters, counts, shapes. Knows no operator in particular.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...errors import ModelFormatError, UnsupportedOperatorError
from ...ir import DType, Tensor
from ...util.records import dataclass
from .fields import TableFields

Numbers = tuple[int, ...]

_DYNAMIC = (
    "known only at run time; TOSA without the extension EXT-DYNAMIC has it as a constant: export the network with "
    "fixed shapes and constant parameters"
)


@dataclass(frozen=True)
class TosaSite:
    """An operator with what its names stand for.

    `values` are the tensors that it computes with, in front of its parameters; `operands` are all its operands by name,
    in the file's order. `shapes` are the file's CONST_SHAPEs. `options` is the table of attributes, None without any.
    """

    kind: str
    name: str
    operands: tuple[str, ...]
    values: tuple[Tensor, ...]
    output: Tensor
    tensors: Mapping[str, Tensor]
    shapes: Mapping[str, Numbers]
    options: TableFields | None

    def fail(
        self, what: str, *, tensor: Tensor | None = None, value: object = None, constraint: str | None = None
    ) -> ModelFormatError:
        """The error for a contradiction in this operator."""
        return ModelFormatError(
            f"operator '{self.name}' ({self.kind}) {what}",
            operator=self.name,
            tensor=None if tensor is None else tensor.name,
            value=value,
            constraint=constraint,
        )

    def refuse(self, what: str, constraint: str) -> UnsupportedOperatorError:
        """The error for a legal form outside of what ethoscade takes."""
        return UnsupportedOperatorError(
            f"operator '{self.name}' ({self.kind}) {what}", operator=self.name, constraint=constraint
        )

    @property
    def value(self) -> Tensor:
        """The first value."""
        return self.values[0]

    def attributes(self) -> TableFields:
        """The table of attributes. Raises `ModelFormatError` without one."""
        if self.options is None:
            raise self.fail("has no attributes; the file is incomplete", constraint="attributes of the kind")
        return self.options

    def numbers(self, field: int, what: str, count: int) -> Numbers:
        """An attribute of `count` numbers. Raises `ModelFormatError` for another count."""
        found = tuple(self.attributes().numbers(field))
        if len(found) != count:
            raise self.fail(f"has {len(found)} numbers as its {what}; it takes {count}", value=len(found))
        return found

    def shape(self, place: int, what: str, count: int) -> Numbers:
        """A parameter of `count` numbers, from a CONST_SHAPE.

        Raises `ModelFormatError` for another count or a tensor, `UnsupportedOperatorError` for one made at run time.
        """
        name = self.operands[place]
        if name not in self.shapes:
            raise self.fail(f"has '{name}' as its {what} (operand {place}), which is no shape of the file", value=name)
        found = self.shapes[name]
        if len(found) != count:
            raise self.fail(f"has {len(found)} numbers as its {what} '{name}'; it takes {count}", value=len(found))
        return found

    def constants(self, place: int, what: str, dtype: DType, count: int) -> Numbers:
        """A parameter of `count` numbers, from a constant of one dimension.

        Raises `ModelFormatError` for another type or shape, `UnsupportedOperatorError` for one made at run time.
        """
        name = self.operands[place]
        tensor = self.tensors.get(name)
        if tensor is None:
            raise self.fail(f"has '{name}' as its {what} (operand {place}), which is no tensor of the file", value=name)
        if tensor.dtype is not dtype or tensor.shape != (count,):
            raise self.fail(
                f"has {what} '{name}' of type {tensor.dtype.value}{list(tensor.shape)}; it takes "
                f"{dtype.value}[{count}]",
                tensor=tensor,
                value=tensor.shape,
            )
        if tensor.data is None:
            raise self.refuse(f"has {what} '{name}', {_DYNAMIC}", f"constant {what}")
        return tuple(map(int, tensor.data))

    def constant(self, place: int, what: str, dtype: DType) -> int:
        """A parameter of one number. Raises as `constants`."""
        return self.constants(place, what, dtype, 1)[0]

    def zero_point(self, place: int, tensor: Tensor) -> int:
        """The zero point of `tensor`, which has its type and is 0 but for int8. Raises as `constants`."""
        what = f"zero point of '{tensor.name}'"
        found = self.constant(place, what, tensor.dtype)
        if found and tensor.dtype is not DType.INT8:
            raise self.fail(
                f"has {found} as its {what}; that of {tensor.dtype.value} is 0",
                tensor=tensor,
                value=found,
                constraint="zero points of int8 alone",
            )
        return found

    def expect(self, shape: Sequence[int], why: str = "its inputs make") -> None:
        """Compare the output's shape with the recomputed one. Raises `ModelFormatError`."""
        if self.output.shape != tuple(shape):
            raise self.fail(
                f"writes tensor '{self.output.name}' of shape {list(self.output.shape)}; {why} {list(shape)}",
                tensor=self.output,
                value=self.output.shape,
            )

    def expect_shape(self, place: int, shape: Sequence[int], what: str) -> None:
        """Compare a value's shape with what others ask for. Raises `ModelFormatError`."""
        tensor = self.values[place]
        if tensor.shape != tuple(shape):
            raise self.fail(
                f"has {what} '{tensor.name}' of shape {list(tensor.shape)}; the others take {list(shape)}",
                tensor=tensor,
                value=tensor.shape,
            )

    def expect_rank(self, place: int, rank: int) -> Numbers:
        """The shape of a value of `rank` dimensions. Raises `ModelFormatError` for another number of them."""
        tensor = self.values[place]
        if len(tensor.shape) != rank:
            raise self.fail(
                f"has '{tensor.name}' of shape {list(tensor.shape)} (operand {place}); it takes {rank} dimensions",
                tensor=tensor,
                value=tensor.shape,
            )
        return tensor.shape

    def at_least(self, what: str, numbers: Sequence[int], least: int) -> None:
        """Raises `ModelFormatError` where a number lies below `least`."""
        low = min(numbers, default=least)
        if low < least:
            raise self.fail(f"has {what} {list(numbers)}; each is at least {least}", value=low)
