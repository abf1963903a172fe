"""What was answered, kept for a while: responses and conversations, within a budget of bytes.

A response's context holds all that went before it. Agents build long chains of which each link
repeats the one before, so contexts share their items: an item counts once, as long as anything
that is kept holds it. What was used longest ago goes first; what is still under way never does.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

_LINK_BYTES = 16
_ENTRY_BYTES = 1024


class Kept(Protocol):
    """An item as the store sees it: `refs` is the store's own count."""

    refs: int

    @property
    def key(self) -> str | None:
        """The id by which it can be found, if it has one."""
        ...

    @property
    def nbytes(self) -> int:
        """What it takes in memory, roughly."""
        ...


T = TypeVar("T", bound=Kept)


@dataclass(slots=True, eq=False)
class StoredResponse(Generic[T]):
    """A response; `items` are its whole context, `asked` of which were there before its output.

    The request's own items are those from `before` on. `live` is what drives one that is still
    under way in the background, and can write its events again afterwards.
    """

    id: str
    status: str
    final: bytes
    items: tuple[T, ...] = ()
    before: int = 0
    asked: int = 0
    live: Any = None

    @property
    def under_way(self) -> bool:
        """Whether it has no end yet."""
        return self.status in ("queued", "in_progress")

    @property
    def input_items(self) -> tuple[T, ...]:
        """The request's own items."""
        return self.items[self.before : self.asked]


@dataclass(slots=True, eq=False)
class Conversation(Generic[T]):
    """A conversation: its items in order, each with its id. `created` is in Unix seconds."""

    id: str
    created: int
    metadata: dict[str, str] = field(default_factory=dict)
    items: list[tuple[str, T]] = field(default_factory=list)


class ResponseStore(Generic[T]):
    """Responses and conversations by id. Lives on the event loop."""

    def __init__(self, budget_bytes: int) -> None:
        self.bytes = 0
        """What all that is kept takes, roughly."""
        self._budget = budget_bytes
        self._kept: OrderedDict[str, StoredResponse[T] | Conversation[T]] = OrderedDict()
        self._items: dict[str, T] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, entry: StoredResponse[T] | Conversation[T]) -> None:
        """Keep a response or a conversation, in place of what had its id."""
        self.remove(entry.id)
        self._kept[entry.id] = entry
        self.bytes += _fixed_bytes(entry)
        self._hold(_items(entry))
        self._make_room(entry.id)

    def response(self, response_id: str) -> StoredResponse[T] | None:
        """A response by its id."""
        found = self._touch(response_id)
        return found if isinstance(found, StoredResponse) else None

    def conversation(self, conversation_id: str) -> Conversation[T] | None:
        """A conversation by its id."""
        found = self._touch(conversation_id)
        return found if isinstance(found, Conversation) else None

    def item(self, item_id: str) -> T | None:
        """An item that something here holds, by its id."""
        return self._items.get(item_id)

    def finish(
        self, entry: StoredResponse[T], status: str, final: bytes, output: Sequence[T]
    ) -> None:
        """Give a response that was under way its end; one that was removed stays so."""
        here = self._kept.get(entry.id) is entry
        if here:
            self.bytes -= _fixed_bytes(entry)
        entry.status, entry.final = status, final
        entry.items = (*entry.items, *output)
        if here:
            self.bytes += _fixed_bytes(entry)
            self._hold(output)
            self._make_room(entry.id)

    def extend(self, conversation: Conversation[T], items: Iterable[tuple[str, T]]) -> None:
        """Add items to a conversation that is kept here."""
        new = list(items)
        conversation.items += new
        if self._kept.get(conversation.id) is conversation:
            self.bytes += _LINK_BYTES * len(new)
            self._hold([item for _, item in new])
            self._make_room(conversation.id)

    def drop_item(self, conversation: Conversation[T], item_id: str) -> bool:
        """Take an item out of a conversation; false where it isn't in it."""
        for at, (key, item) in enumerate(conversation.items):
            if key == item_id:
                del conversation.items[at]
                if self._kept.get(conversation.id) is conversation:
                    self.bytes -= _LINK_BYTES
                    self._release([item])
                return True
        return False

    def remove(self, entry_id: str) -> bool:
        """Forget a response or a conversation; false where there is none."""
        entry = self._kept.pop(entry_id, None)
        if entry is None:
            return False
        self.bytes -= _fixed_bytes(entry)
        self._release(_items(entry))
        return True

    def _touch(self, entry_id: str) -> StoredResponse[T] | Conversation[T] | None:
        found = self._kept.get(entry_id)
        if found is not None:
            self._kept.move_to_end(entry_id)
        return found

    def _make_room(self, newest: str) -> None:
        if self.bytes <= self._budget:
            return
        for entry_id, entry in list(self._kept.items()):
            if entry_id == newest or (isinstance(entry, StoredResponse) and entry.under_way):
                continue
            self.remove(entry_id)
            if self.bytes <= self._budget:
                return

    def _hold(self, items: Iterable[T]) -> None:
        for item in items:
            item.refs += 1
            if item.refs == 1:
                self.bytes += item.nbytes
                if item.key is not None:
                    self._items[item.key] = item

    def _release(self, items: Iterable[T]) -> None:
        for item in items:
            item.refs -= 1
            if not item.refs:
                self.bytes -= item.nbytes
                if item.key is not None and self._items.get(item.key) is item:
                    del self._items[item.key]


def _items(entry: StoredResponse[T] | Conversation[T]) -> Sequence[T]:
    if isinstance(entry, Conversation):
        return [item for _, item in entry.items]
    return entry.items


def _fixed_bytes(entry: StoredResponse[T] | Conversation[T]) -> int:
    final = 0 if isinstance(entry, Conversation) else len(entry.final)
    return _ENTRY_BYTES + final + _LINK_BYTES * len(entry.items)
