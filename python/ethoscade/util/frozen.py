"""A read-only mapping that pickles, which `types.MappingProxyType` does not.

Owns that one type, for the fields of frozen dataclasses.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V", covariant=True)


class FrozenMap(Mapping[K, V]):
    """Keeps a copy of `items`, in their order; equal to any mapping with the same ones."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        self._items = dict(items)

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def keys(self) -> KeysView[K]:
        """A view of the keys."""
        return self._items.keys()

    def values(self) -> ValuesView[V]:
        """A view of the values."""
        return self._items.values()

    def items(self) -> ItemsView[K, V]:
        """A view of the pairs."""
        return self._items.items()

    def __repr__(self) -> str:
        return f"FrozenMap({self._items!r})"

    def __reduce__(self) -> tuple[type[FrozenMap[K, V]], tuple[dict[K, V]]]:
        return FrozenMap, (self._items,)
