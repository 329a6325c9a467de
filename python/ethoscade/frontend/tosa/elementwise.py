"""Readers of element-wise operators: arithmetic, logic, comparisons, look-ups, RESCALE.

Owns these operators' `ERROR_IF`s of the TOSA specification 1.0, and its `REQUIRE`s on constants.
"""

from __future__ import annotations

from ...ir import DType, Tensor
from ...ir.tosa import ArithmeticRightShift, Clamp, LookupTable, Mul, Negate, Rescale, RescaleRounding
from . import schema
from .schema import ClampField, RescaleField
from .site import Numbers, TosaSite

_ROUNDINGS = {
    schema.ROUNDING_SINGLE: RescaleRounding.SINGLE,
    schema.ROUNDING_INEXACT: RescaleRounding.INEXACT,
    schema.ROUNDING_DOUBLE: RescaleRounding.DOUBLE,
}
_TABLES = {DType.INT8: 256, DType.INT16: 513}
_PRODUCT_SHIFTS = (0, 63)
_SCALE_SHIFTS = (2, 62)
_UINT16_POINTS = (0, 1 << 15)


def same(site: TosaSite) -> None:
    """ABS, CLZ, CAST, IDENTITY and the like: the output has the input's shape."""
    site.expect(site.value.shape)


def broadcast(site: TosaSite) -> None:
    """Operators of several values of one rank, where an extent of 1 stands for any."""
    shape = list(site.value.shape)
    for place, tensor in enumerate(site.values[1:], 1):
        other = site.expect_rank(place, len(shape))
        for axis, (one, two) in enumerate(zip(shape, other, strict=True)):
            if one != two and 1 not in (one, two):
                raise site.fail(
                    f"broadcasts '{tensor.name}' of shape {list(other)} against {shape}; extents are equal, or 1",
                    tensor=tensor,
                    value=other,
                )
            shape[axis] = max(one, two)
    site.expect(shape)


def arithmetic_right_shift(site: TosaSite) -> ArithmeticRightShift:
    """ARITHMETIC_RIGHT_SHIFT."""
    broadcast(site)
    return ArithmeticRightShift(site.attributes().flag(schema.ONLY_FIELD))


def mul(site: TosaSite) -> Mul:
    """MUL: the shift is for int32 alone."""
    broadcast(site)
    shift, (least, most) = site.constant(2, "shift", DType.INT8), _PRODUCT_SHIFTS
    if not least <= shift <= (most if site.value.dtype is DType.INT32 else least):
        raise site.fail(
            f"shifts products of {site.value.dtype.value} by {shift}; those of int32 take {least} to {most}, others 0",
            value=shift,
        )
    return Mul(shift)


def negate(site: TosaSite) -> Negate:
    """NEGATE."""
    same(site)
    return Negate(site.zero_point(1, site.value), site.zero_point(2, site.output))


def clamp(site: TosaSite) -> Clamp:
    """CLAMP: limits are bytes of one element."""
    same(site)
    lowest, highest = _limit(site, ClampField.MIN_VAL), _limit(site, ClampField.MAX_VAL)
    if lowest > highest:
        raise site.fail(f"clamps to [{lowest}, {highest}]: nothing is left", value=(lowest, highest))
    return Clamp(lowest, highest)


def _limit(site: TosaSite, field: int) -> int:
    content, dtype = site.attributes().bytes(field), site.value.dtype
    if content.size != dtype.size_bytes:
        raise site.fail(
            f"has a limit of {content.size} bytes; {dtype.value} takes {dtype.size_bytes}", value=content.size
        )
    return int.from_bytes(content.tobytes(), "little", signed=True)


def table(site: TosaSite) -> LookupTable:
    """TABLE."""
    same(site)
    dtype = site.value.dtype
    return LookupTable(site.constants(1, "table", dtype, _TABLES[dtype]))


def rescale(site: TosaSite) -> Rescale:
    """RESCALE."""
    same(site)
    options, (ifm, ofm) = site.attributes(), (site.value, site.output)
    is_wide = options.flag(RescaleField.SCALE32)
    code = options.unsigned(RescaleField.ROUNDING_MODE)
    is_unsigned = options.flag(RescaleField.INPUT_UNSIGNED), options.flag(RescaleField.OUTPUT_UNSIGNED)
    if code not in _ROUNDINGS:
        raise site.fail(f"has rounding mode {code}; it takes 1 (single), 2 (inexact) or 3 (double)", value=code)
    if is_wide and ifm.dtype is DType.INT48:
        raise site.fail("scales int48 by multipliers of 32 bits; it takes 16", value=32)
    if not is_wide and _ROUNDINGS[code] is RescaleRounding.DOUBLE:
        raise site.fail("rounds twice with multipliers of 16 bits; it takes 32", value=16)
    if all(is_unsigned) or (any(is_unsigned) and not {ifm.dtype, ofm.dtype} <= {DType.INT8, DType.INT16}):
        raise site.fail(
            f"makes {ofm.dtype.value} of {ifm.dtype.value}, unsigned: {is_unsigned}; one side of two with 8 or 16 bits "
            f"may be unsigned",
            value=is_unsigned,
        )
    return Rescale(
        *_factors(site, is_wide, options.flag(RescaleField.PER_CHANNEL)),
        _point(site, 3, ifm, is_unsigned[0]),
        _point(site, 4, ofm, is_unsigned[1]),
        _ROUNDINGS[code],
        is_wide,
        *is_unsigned,
    )


def _factors(site: TosaSite, is_wide: bool, is_per_channel: bool) -> tuple[Numbers, Numbers]:
    shape = site.value.shape
    if is_per_channel and not shape:
        raise site.fail("scales a single number per channel; it takes at least one dimension", value=shape)
    count = shape[-1] if is_per_channel else 1
    multipliers = site.constants(1, "multiplier", DType.INT32 if is_wide else DType.INT16, count)
    shifts = site.constants(2, "shift", DType.INT8, count)
    site.at_least("multipliers", multipliers, 0)
    least, most = _SCALE_SHIFTS
    wrong = next((shift for shift in shifts if not least <= shift <= most), None)
    if wrong is not None:
        raise site.fail(
            f"shifts by {wrong}; the specification defines {least} to {most}",
            value=wrong,
            constraint="shifts of RESCALE",
        )
    return multipliers, shifts


def _point(site: TosaSite, place: int, tensor: Tensor, is_unsigned: bool) -> int:
    """A zero point: on an unsigned side a number without a sign."""
    if not is_unsigned:
        return site.zero_point(place, tensor)
    dtype = tensor.dtype
    found = site.constant(place, f"zero point of '{tensor.name}'", dtype) % (1 << (8 * dtype.size_bytes))
    if dtype is DType.INT16 and found not in _UINT16_POINTS:
        raise site.fail(
            f"has {found} as the zero point of '{tensor.name}'; that of unsigned 16 bits is 0 or 32768",
            tensor=tensor,
            value=found,
        )
    return found
