"""One operator of the file as the family readers see it, and the two ways to say no.

Owns the lookup of an operator's tensors and the wording of its errors. `Site.fail` is for an operator that no runtime
prepares, or whose results do not fit the tensors that the file has for them. `NotUnderstood` is for every other form
without words in `ir`: legal ones, and contradictions that some kernel passes over, each in its own way. Knows no
operator in particular, and not which types, shapes or constants anybody computes with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import ModelFormatError
from ..ir import EIGHT_BIT, QUANTISED, Activation, DType, Tensor, schema
from ..ir.operators import CODE_OF_ACTIVATION, OPERATORS
from ..ir.quantised import MAX_LEFT_SHIFT, multiplier_and_shift, real_bounds
from ..util.records import dataclass

_ACTIVATION_OF_CODE = {code: activation for activation, code in CODE_OF_ACTIVATION.items()}
_ACTIVATION_NAMES = {v: k for k, v in vars(schema.ActivationFunctionType).items() if isinstance(v, int)}
_BOUNDLESS = (schema.ActivationFunctionType.TANH, schema.ActivationFunctionType.SIGN_BIT)
# Longest list of axes, paddings or sizes that is walked over.
_MAX_LIST = 256


class NotUnderstood(Exception):
    """The operator has no words in `ir` and is carried to the CPU unchanged; the argument says why.

    Readers raise it after they have compared shapes: memory is planned for these operators too. Never leaves the
    frontend.
    """


@dataclass(frozen=True)
class Site:
    """An operator with its tensors at hand. `open_options` gives its options as an accessor, None without any."""

    kind: str
    name: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    tensors: tuple[Tensor, ...]
    open_options: Callable[[Any, int], Any | None]

    def fail(
        self, what: str, *, tensor: Tensor | None = None, value: object = None, constraint: str | None = None
    ) -> ModelFormatError:
        """The error for a contradiction in this operator."""
        return ModelFormatError(
            f"operator '{self.name}' ({self.kind}) {what}",
            operator=self.name,
            tensor=tensor.name if tensor is not None else None,
            value=value,
            constraint=constraint,
        )

    def count(self, fewest: int, most: int | None = None, *, outputs: int = 1) -> None:
        """Check the number of inputs and of outputs. Raises `ModelFormatError`."""
        given = len(self.inputs)
        most = fewest if most is None else most
        if not fewest <= given <= most:
            wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
            raise self.fail(f"has {given} inputs; it takes {wanted}", value=given)
        if len(self.outputs) != outputs:
            raise self.fail(f"has {len(self.outputs)} outputs; it makes {outputs}", value=len(self.outputs))

    def input(self, index: int, role: str) -> Tensor:
        """The tensor of a mandatory input. Raises `ModelFormatError` if it is absent."""
        tensor = self.optional(index)
        if tensor is None:
            raise self.fail(f"has no {role} (input {index})", value=index)
        return tensor

    def optional(self, index: int) -> Tensor | None:
        """The tensor of an input, None if it is absent."""
        if index >= len(self.inputs):
            return None
        number = self.inputs[index]
        return None if number is None else self.tensors[number]

    @property
    def output(self) -> Tensor:
        """The only output, or the first."""
        return self.tensors[self.outputs[0]]

    def options(self) -> Any:
        """The options table that the kind has. Raises `NotUnderstood` if the operator has another or none.

        Runtimes then take zeros for the options that they know, and so would others in another version.
        """
        options = self.optional_options()
        if options is None:
            raise NotUnderstood(f"it has no {OPERATORS[self.kind].options}; the file is incomplete")
        return options

    def optional_options(self) -> Any | None:
        """As `options`, but None where the operator has none."""
        name = OPERATORS[self.kind].options
        return None if name is None else self.open_options(getattr(schema, name), getattr(schema.BuiltinOptions, name))

    def activation(self, options: Any | None) -> Activation:
        """The fused activation.

        Raises `NotUnderstood` for tanh and the like, for unknown codes and for bounds that the output's scale puts
        beyond 32 bits.
        """
        if options is None:
            return Activation.NONE
        code = int(options.FusedActivationFunction())
        if code in _ACTIVATION_OF_CODE:
            self.check_bounds(_ACTIVATION_OF_CODE[code])
            return _ACTIVATION_OF_CODE[code]
        if code not in _ACTIVATION_NAMES:
            raise NotUnderstood(f"fused activation {code}, which TensorFlow Lite does not define")
        raise NotUnderstood(f"fused activation {_ACTIVATION_NAMES[code]}")

    def bounds(self, options: Any | None) -> Activation:
        """As `activation`, of kernels that know activations by their bounds alone.

        Where they make 8 or 16 bits they compute neither tanh nor a sign bit: these have no bounds, and so no effect.
        """
        code = 0 if options is None else int(options.FusedActivationFunction())
        is_boundless = code in _BOUNDLESS and self.output.dtype in QUANTISED
        return Activation.NONE if is_boundless else self.activation(options)

    def check_factors(self, *factors: float, most: int = MAX_LEFT_SHIFT) -> None:
        """Raises `NotUnderstood` for a factor of results beyond 2^`most`: there kernels saturate, wrap or shift."""
        # Shifts grow with factors: most often the largest tells of all.
        if all(map(math.isfinite, factors)) and multiplier_and_shift(max(factors, default=0.0))[1] <= most:
            return
        for factor in factors:
            if not math.isfinite(factor) or multiplier_and_shift(factor)[1] > most:
                raise NotUnderstood(
                    f"it multiplies its results by {factor:g}, from the scales of its tensors; kernels agree below "
                    f"2^{most}"
                )

    def expect_shape(self, expected: tuple[int, ...], why: str = "", output: int = 0) -> None:
        """Compare an output's shape with the recomputed one. Raises `ModelFormatError`."""
        written = self.tensors[self.outputs[output]]
        if written.shape != expected:
            raise self.fail(
                f"writes tensor '{written.name}' of shape {list(written.shape)}; its inputs{why} make {list(expected)}",
                tensor=written,
                value=written.shape,
            )

    def expect_operands(self, shapes: Mapping[int, tuple[int, ...]], why: str) -> None:
        """Compare the shapes of mandatory inputs, by place, with what others ask for. Raises `ModelFormatError`."""
        for place, shape in shapes.items():
            tensor = self.input(place, "operand")
            if tensor.shape != shape:
                raise self.fail(
                    f"has '{tensor.name}' of shape {list(tensor.shape)} (input {place}); {why} take {list(shape)}",
                    tensor=tensor,
                    value=tensor.shape,
                )

    def expect_type(self, output: int = 0) -> None:
        """Raises `ModelFormatError` where an operator that moves elements writes another type than it reads."""
        ifm, ofm = self.input(0, "input"), self.tensors[self.outputs[output]]
        if ifm.dtype is not ofm.dtype:
            raise self.fail(
                f"moves elements of '{ifm.name}', {ifm.dtype.value}, to '{ofm.name}', {ofm.dtype.value}",
                tensor=ofm,
                value=ofm.dtype.value,
                constraint="one type of what is moved",
            )

    def check_bounds(self, activation: Activation) -> None:
        """Raises `NotUnderstood` for an output of which `activation`'s bounds, in stored integers, leave 32 bits."""
        quantisation, largest = self.output.quantisation, max(abs(bound or 0.0) for bound in real_bounds(activation))
        if quantisation is None or not largest:
            return
        if any(largest >= scale * 2**31 for scale in quantisation.scales):
            raise NotUnderstood(
                f"it writes '{self.output.name}' of scale {min(quantisation.scales):g} with activation "
                f"{activation.name}; the bound {largest:g} in units of that scale does not fit 32 bits"
            )

    def expect_rank(self, tensor: Tensor, rank: int, role: str) -> None:
        """Raises `ModelFormatError` if the tensor has another number of dimensions."""
        if len(tensor.shape) != rank:
            raise self.fail(
                f"has {role} '{tensor.name}' of shape {list(tensor.shape)}; it takes {rank} dimensions",
                tensor=tensor,
                value=tensor.shape,
            )

    def is_eight_bit(self, *tensors: Tensor) -> bool:
        """Whether all are int8 or uint8 with one scale: the numbers whose formulas `quantised` has."""
        return all(
            tensor.dtype in EIGHT_BIT and tensor.quantisation is not None and tensor.quantisation.axis is None
            for tensor in tensors
        )

    def is_quantised(self, *tensors: Tensor) -> bool:
        """As `is_eight_bit`, or all are int16 with one scale and the zero point 0."""
        return self.is_eight_bit(*tensors) or all(
            tensor.dtype is DType.INT16
            and tensor.quantisation is not None
            and tensor.quantisation.axis is None
            and tensor.quantisation.zero_point == 0
            for tensor in tensors
        )

    def constant_integers(self, index: int, role: str) -> list[int]:
        """The elements of a constant int32 or int64 input, flattened.

        Raises `NotUnderstood` where it is absent, known only at run time or of another type, whose bytes kernels take
        for these.
        """
        tensor = self.optional(index)
        if tensor is None:
            raise NotUnderstood(f"{role} (input {index}) is missing")
        if tensor.dtype not in (DType.INT32, DType.INT64):
            raise NotUnderstood(f"{role} '{tensor.name}' is {tensor.dtype.value}; int32 and int64 are known")
        if tensor.data is None:
            raise NotUnderstood(f"{role} '{tensor.name}' is not constant")
        if tensor.data.size > _MAX_LIST:
            raise self.fail(
                f"has {role} '{tensor.name}' of {tensor.data.size} elements", tensor=tensor, value=tensor.data.size
            )
        return [int(v) for v in tensor.data.reshape(-1)]
