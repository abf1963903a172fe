"""The API keys that are let in.

No key is kept in a file: a key's id is the first 12 hex digits of its SHA-256, and a keys file
holds digests alone. Without a keys file and without `--api-key` the server is open: any key is let
in, and so is none, and the id still tells callers apart.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from paceline.runtime.caller import KEY_ID_DIGITS, NOBODY, Caller, WhenFull, WhenNotEntitled, key_id
from paceline.runtime.key_files import Entry, KeyFileError, load_keys

__all__ = [
    "NOBODY",
    "Caller",
    "Entry",
    "KeyFileError",
    "Keys",
    "WhenFull",
    "WhenNotEntitled",
    "key_id",
]

_REMEMBERED = 4096
_REMEMBERED_BYTES = 512
"""Keys so long are looked up anew each time, so that the memory of them stays small."""


class Keys:
    """Who is let in: those with a listed key, or anybody where there is no list."""

    def __init__(self, path: Path | None = None, api_keys: Iterable[str] = ()) -> None:
        """`path` is a keys file, `api_keys` are further keys, which may do anything.

        Raises KeyFileError.
        """
        self._path = path
        self._own = tuple(_own_entry(key) for key in api_keys)
        self.required = path is not None or bool(self._own)
        self._entries: dict[str, Entry] = {}
        # By the whole key: a dictionary compares one only after its randomised hash has met, so
        # the time that a look-up takes tells nothing of keys that are close to it.
        self._seen: dict[bytes, tuple[Caller, float | None]] = {}
        self.take(self.read())

    def __len__(self) -> int:
        return len(self._entries)

    def read(self) -> tuple[Entry, ...]:
        """Read the keys file again, changing nothing yet. Raises KeyFileError."""
        return () if self._path is None else load_keys(self._path)

    def take(self, entries: Iterable[Entry]) -> None:
        """Let in the keys that `read` found, and no others any more."""
        found = {entry.caller.key_id: entry for entry in entries}
        found.update({entry.caller.key_id: entry for entry in self._own})
        self._entries = found
        self._seen = {}

    def callers(self) -> tuple[Caller, ...]:
        """Everybody who has a key of the list."""
        return tuple(entry.caller for entry in self._entries.values())

    def find(self, key: bytes) -> Caller | None:
        """Who has a key; None for one that isn't let in, or no longer."""
        seen = self._seen.get(key)
        if seen is None:
            seen = self._look_up(key)
            if seen is None:
                return None
            if len(key) <= _REMEMBERED_BYTES:
                if len(self._seen) >= _REMEMBERED:
                    self._seen.clear()
                self._seen[key] = seen
        caller, expires_s = seen
        return None if expires_s is not None and expires_s <= time.time() else caller

    def current(self, caller: Caller) -> Caller | None:
        """A caller as the list has it by now; None for one that isn't let in any more.

        For whoever was let in earlier and goes on asking, over a WebSocket.
        """
        if not self.required:
            return caller
        entry = self._entries.get(caller.key_id)
        if entry is None or (entry.expires_s is not None and entry.expires_s <= time.time()):
            return None
        return entry.caller

    def _look_up(self, key: bytes) -> tuple[Caller, float | None] | None:
        digest = sha256(key)
        short = digest.hexdigest()[:KEY_ID_DIGITS]
        if not self.required:
            return Caller(key_id=short, admin=True), None
        entry = self._entries.get(short)
        if entry is None or not hmac.compare_digest(entry.digest, digest.digest()):
            return None
        return entry.caller, entry.expires_s


def _own_entry(key: str) -> Entry:
    digest = sha256(key.encode())
    return Entry(Caller(key_id=digest.hexdigest()[:KEY_ID_DIGITS], admin=True), digest.digest())
