"""What callers pass, held to what parameters are declared to take: types, ranges, numbers written as text.

Owns the check and its wording: a wrong value is a `ConfigError` that names parameter, value and what is accepted. Knows
no parameter by itself: annotations are read. What an annotation cannot say stays with the function it belongs to.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import inspect
import operator
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real
from typing import Annotated, Any, Literal, ParamSpec, TypeVar

import numpy.typing as npt

from ..errors import ConfigError

P = ParamSpec("P")
R = TypeVar("R")

_MOST_SHOWN = 80
_MOST_BITS = 512
_LARGEST = (1 << _MOST_BITS) - 1
_NUMBER = re.compile(r"[+-]?([0-9]{1,60}(\.[0-9]{0,60})?|\.[0-9]{1,60})([eE][+-]?[0-9]{1,3})?(/[0-9]{1,60})?")


@dataclass(frozen=True)
class Range:
    """For `Annotated[int, Range(least, most)]`: both ends belong to it."""

    least: int
    most: int


Count = Annotated[int, Range(0, (1 << 64) - 1)]
"""A number of things, an offset, a size: what the core counts with."""


def shown(value: object) -> str:
    """A value for a message: its `repr`, on one line and cut where it is long."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a caller's `__repr__` may raise anything
        text = f"a {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def number_of(text: str) -> Fraction | None:
    """The number that a text such as "12", "0.5", "5e8" or "1/64" stands for; None for any other text.

    Digits and exponents are bounded: whatever is longer means nothing here, and would take for ever to work out.
    """
    if _NUMBER.fullmatch(text.strip()) is None:
        return None
    try:
        return Fraction(text.strip())
    except (ValueError, ZeroDivisionError):
        return None


def exactly(value: object) -> Fraction | None:
    """A number of any kind (`int`, `float`, `Fraction`, `Decimal`, NumPy's) as a fraction; None for anything else.

    A float is the decimal that it prints as, which is what was meant: 15.6 is 78/5.
    """
    if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
        return None
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    # Printed, because NumPy's narrow floats are no floats of Python's.
    return number_of(str(value))


def checked(*own: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function that holds its arguments to its annotations; NumPy's scalars become Python's numbers.

    Parameters named in `own` are checked by the function itself.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        parameters = [p for p in signature.parameters.values() if p.name not in (*own, "self", "cls")]

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            bound = signature.bind(*args, **kwargs)
            given = bound.arguments
            for parameter in parameters:
                name = parameter.name
                if name in given and given[name] is not parameter.default:
                    rule = _rule(function.__module__, parameter.annotation)
                    if not rule.fits(given[name]):
                        given[name] = held(given[name], rule.hint, name)
            return function(*bound.args, **bound.kwargs)

        return call

    return decorate


def check_fields(instance: Any, whose: str, *names: object) -> None:
    """Hold a dataclass's fields to their annotations, from its `__post_init__`; frozen ones are converted in place.

    `whose` precedes a field's name in messages, with `names` in its braces: "device {}: ".
    """
    for name, rule in _rules_of(type(instance)):  # type: ignore[arg-type]
        value = getattr(instance, name)
        if not rule.fits(value):
            object.__setattr__(instance, name, held(value, rule.hint, f"{whose.format(*map(shown, names))}{name}"))


@functools.cache
def _rules_of(kind: Any) -> tuple[tuple[str, _Rule], ...]:
    fields: list[tuple[str, Any]] = [(field.name, field.type) for field in dataclasses.fields(kind)]
    return tuple((name, _rule(kind.__module__, annotation)) for name, annotation in fields)


@dataclass(frozen=True)
class _Rule:
    """An annotation's meaning, and values that fit it at first sight: of these types, whole numbers in this range."""

    hint: Any
    plain: frozenset[type]
    holders: frozenset[type]
    items: frozenset[type]
    length: int | None
    least: int
    most: int

    def fits(self, value: object) -> bool:
        """Whether nothing has to be looked at more closely."""
        if type(value) not in self.holders:
            return self._is_plain(value, self.plain)
        items: Sequence[object] = value  # type: ignore[assignment]
        return self.length in (None, len(items)) and all(self._is_plain(item, self.items) for item in items)

    def _is_plain(self, value: Any, kinds: frozenset[type]) -> bool:
        kind = type(value)
        if kind is int:
            return kind in kinds and bool(self.least <= value <= self.most)
        return kind in kinds and (kind is not str or value.isascii())


@functools.cache
def _rule(module: str, annotation: Any) -> _Rule:
    """The rule of an annotation as a module spells it; `Any` for names that exist for type checkers only."""
    hint = annotation
    if isinstance(annotation, str):
        try:
            hint = eval(annotation, vars(sys.modules[module]))  # annotations are the module's own source
        except (NameError, TypeError, SyntaxError, AttributeError):
            hint = Any
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    parts = typing.get_args(hint) if is_union else (hint,)
    whole = next((part for part in parts if typing.get_origin(part) in _HOLDERS), Any)
    inner = typing.get_args(whole)
    any_length = inner[1:] == (Ellipsis,) or typing.get_origin(whole) is collections.abc.Sequence
    holders = _HOLDERS[typing.get_origin(whole)] if any_length or len(set(inner)) == 1 else frozenset()
    items = _plain_types(inner[0]) if holders else frozenset()
    length = None if any_length else len(inner)
    limits = [limit for one in parts for limit in getattr(one, "__metadata__", ()) if isinstance(limit, Range)]
    least = max((limit.least for limit in limits), default=-_LARGEST)
    most = min((limit.most for limit in limits), default=_LARGEST)
    return _Rule(hint, _plain_types(hint), holders, items, length, least, most)


def _plain_types(hint: Any) -> frozenset[type]:
    """Types whose values an annotation takes as they are; a bound on whole numbers left aside."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return frozenset().union(*(_plain_types(arg) for arg in typing.get_args(hint)))
    if origin is Annotated:
        return _plain_types(hint.__origin__)
    if hint is None:
        return frozenset({type(None)})
    return frozenset({hint}) if isinstance(hint, type) and origin is None and hint is not tuple else frozenset()


_HOLDERS: dict[Any, frozenset[type]] = {
    tuple: frozenset({tuple}),
    collections.abc.Sequence: frozenset({tuple, list}),
}
"""What holds several values, and types of them that may stay as they are."""


class _Wrong(Exception):
    """A value is not what it should be."""


class _TooLarge(Exception):
    """A whole number that nothing counts with, and that Python would not even print."""


def held(value: object, hint: Any, name: str) -> Any:
    """`value` as the type `hint` wants it. Raises `ConfigError` that calls it `name`."""
    try:
        return _as(value, hint)
    except _Wrong:
        raise ConfigError(f"{name} is {shown(value)}; it must be {_described(hint)}") from None
    except _TooLarge:
        raise ConfigError(f"{name} is {shown(value)}; no number here is that large") from None


def _as(value: Any, hint: Any) -> Any:
    """`value` as the annotation wants it. Raises `_Wrong`."""
    origin = typing.get_origin(hint)
    if hint is Any or hint == npt.ArrayLike:
        return value
    if origin in (typing.Union, types.UnionType):
        return _as_one_of(value, typing.get_args(hint))
    if origin is Annotated:
        return _in_range(_as(value, hint.__origin__), hint.__metadata__)
    if origin is Literal:
        if isinstance(value, str) and value in typing.get_args(hint):
            return value
        raise _Wrong
    if origin is tuple or hint is tuple:
        return _as_tuple(value, typing.get_args(hint))
    if origin is collections.abc.Mapping:
        return _as_mapping(value, typing.get_args(hint))
    if origin in (collections.abc.Sequence, collections.abc.Iterable):
        return tuple(_as(item, typing.get_args(hint)[0]) for item in _items(value))
    return _as_plain(value, hint if origin is None else origin)


def _as_plain(value: Any, hint: Any) -> Any:
    if hint is None or hint is type(None):
        if value is None:
            return None
        raise _Wrong
    if hint is int:
        return _as_int(value)
    if hint in (float, Fraction):
        if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
            raise _Wrong
        return value
    if hint is bool:
        if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
            return bool(value)
        raise _Wrong
    if hint is bytes:
        return _as_bytes(value)
    if hint is str:
        return _as_text(value)
    if hint is os.PathLike:
        return _as_path(value)
    if hint is collections.abc.Callable:
        if callable(value):
            return value
        raise _Wrong
    if isinstance(hint, type) and not getattr(hint, "_is_protocol", False):
        if isinstance(value, hint):
            return value
        raise _Wrong
    return value


def _as_int(value: Any) -> int:
    if isinstance(value, (bool, str, bytes)) or type(value).__name__ in ("bool", "bool_"):
        raise _Wrong
    try:
        number = operator.index(value)
    except TypeError:
        raise _Wrong from None
    if number.bit_length() > _MOST_BITS:
        raise _TooLarge
    return number


def _as_bytes(value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise _Wrong
    try:
        return bytes(value)
    except ValueError:  # a view that was released
        raise _Wrong from None


def _as_text(value: Any) -> str:
    # Halves of characters are no text: nothing can print or store them. In paths they stand for bytes.
    if not isinstance(value, str) or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise _Wrong
    return value


def _as_path(value: Any) -> Any:
    if not isinstance(value, os.PathLike):
        raise _Wrong
    try:
        return os.fsdecode(value)
    except TypeError:
        raise _Wrong from None


def _as_one_of(value: Any, hints: tuple[Any, ...]) -> Any:
    if isinstance(value, str) and any(typing.get_origin(hint) is os.PathLike for hint in hints):
        return value
    for hint in hints:
        try:
            return _as(value, hint)
        except _Wrong:
            continue
    raise _Wrong


def _in_range(value: Any, metadata: tuple[Any, ...]) -> Any:
    for limit in metadata:
        if isinstance(limit, Range) and not limit.least <= value <= limit.most:
            raise _Wrong
    return value


def _items(value: Any) -> Iterable[Any]:
    """What may stand for a sequence: anything with an order. A text is one value, a set has no order."""
    if isinstance(value, (str, bytes, bytearray, Mapping, collections.abc.Set)) or not isinstance(value, Iterable):
        if isinstance(value, collections.abc.KeysView):
            return value
        raise _Wrong
    try:
        return list(value)
    except (TypeError, ValueError):  # an array without dimensions, a view that was released
        raise _Wrong from None


def _as_tuple(value: Any, hints: tuple[Any, ...]) -> tuple[Any, ...]:
    items = tuple(_items(value))
    if len(hints) == 2 and hints[1] is Ellipsis:
        return tuple(_as(item, hints[0]) for item in items)
    if hints and len(items) != len(hints):
        raise _Wrong
    return tuple(_as(item, hint) for item, hint in zip(items, hints, strict=True)) if hints else items


def _as_mapping(value: Any, hints: tuple[Any, ...]) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise _Wrong
    items = [(key, item, _as(key, hints[0]), _as(item, hints[1])) for key, item in value.items()]
    # The caller's own mapping where nothing had to change: it may be a view, or print itself better.
    if all(key is fits and item is suits for key, item, fits, suits in items):
        return value
    return {fits: suits for _, _, fits, suits in items}


def _described(hint: Any) -> str:
    """What an annotation accepts, in words."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint == npt.ArrayLike:
        return "an array"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_described(arg) for arg in args))
    if origin is Annotated:
        limits = [limit for limit in hint.__metadata__ if isinstance(limit, Range)]
        return _described(hint.__origin__) + "".join(f" from {r.least:,} to {r.most:,}" for r in limits)
    if origin is Literal:
        return " or ".join(repr(arg) for arg in args)
    if origin is collections.abc.Mapping:
        return f"a mapping from {_described(args[0])} to {_described(args[1])}"
    if origin in (collections.abc.Sequence, collections.abc.Iterable) or args[1:] == (Ellipsis,):
        return f"a sequence, each {_described(args[0])}"
    if origin is tuple:
        return f"a tuple of {len(args)}: {', '.join(_described(arg) for arg in args)}"
    if origin is collections.abc.Callable:
        return "a function"
    plain = {
        int: "a whole number", float: "a number", Fraction: "a number", str: "a text", bool: "True or False",
        bytes: "bytes", type(None): "None", None: "None", os.PathLike: "a path", Any: "anything",
    }  # fmt: skip
    kind = origin or hint
    return plain[kind] if kind in plain else f"a {getattr(kind, '__name__', kind)}"
