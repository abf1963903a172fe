"""A mapping that forgets what was used longest ago once it holds too many bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ByteLRU(Generic[K, V]):
    """At most `capacity` bytes of values, as their owner weighs them when it puts them in."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.bytes = 0
        self._items: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: K) -> V | None:
        """The value, now the most recently used one; None where there is none."""
        item = self._items.get(key)
        if item is None:
            return None
        self._items.move_to_end(key)
        return item[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Add or replace a value of `size` bytes; one larger than the capacity isn't kept."""
        old = self._items.pop(key, None)
        if old is not None:
            self.bytes -= old[1]
        if size > self.capacity:
            return
        self._items[key] = (value, size)
        self.bytes += size
        while self.bytes > self.capacity:
            self.bytes -= self._items.popitem(last=False)[1][1]
