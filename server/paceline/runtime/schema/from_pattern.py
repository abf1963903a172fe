"""A regular expression -> a string that it matches: a walk through its syntax tree."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from paceline.core.rng import mix64
from paceline.runtime.schema.errors import SchemaError
from paceline.runtime.schema.patterns import REPEATS, UNBOUNDED, compile_pattern, parse

MAX_STRING = 100_000
"""Characters that a made string may have."""

# Mixed on purpose: rules such as "an upper-case letter and a digit somewhere" are often asked
# for by lookaheads, which this walk does not read but which `.` drawn from here meets soon.
_ANY = "aA1-bB2_cC3dD4!eE5"
_WORD = "abcdefghijklmnopqrstuvwxyz"
_CATEGORY = {
    "CATEGORY_DIGIT": "0123456789",
    "CATEGORY_NOT_DIGIT": _WORD,
    "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_SPACE": _WORD,
    "CATEGORY_WORD": _WORD,
    "CATEGORY_NOT_WORD": "-. ",
}
# Where a set says only what not, the answer is taken from here, in this order of liking.
_POOL = (
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -_.,:;!?/@#%&+=*()[]{}<>'\"\\"
    "\n\t\u00e9\u4e00\u0000"
)


def string_from(pattern: str, key: int, low: int = 0, high: int | None = None) -> str | None:
    """A string that the pattern matches, of low to high characters, or None if none was found.

    Raises SchemaError for a pattern that can't be read or that makes too long a string.
    """
    compiled = compile_pattern(pattern)
    tree = _tree(compiled.pattern)
    for attempt in range(12):
        walk = _Walk(mix64(key + attempt), low, attempt)
        text = walk.items(tree)
        text = _fit(text, pattern, low, key + attempt)
        if len(text) >= low and (high is None or len(text) <= high) and compiled.search(text):
            return text
    return None


_trees: dict[str, Any] = {}


def _tree(pattern: str) -> Any:
    tree = _trees.get(pattern)
    if tree is None:
        if len(_trees) > 1000:
            _trees.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            tree = _trees[pattern] = parse(pattern)
    return tree


def _fit(text: str, pattern: str, low: int, key: int) -> str:
    """Lengthen a string where the pattern leaves an end open."""
    lacking = low - len(text)
    if lacking <= 0:
        return text
    filler = "".join(_ANY[mix64(key + i) % len(_ANY)] for i in range(min(lacking, MAX_STRING)))
    if not pattern.endswith(("$", r"\Z", r"\z")):
        return text + filler
    return text if pattern.startswith(("^", r"\A")) else filler + text


class _Walk:
    """One way through a pattern; `attempt` makes later ways longer and more various."""

    def __init__(self, key: int, low: int, attempt: int) -> None:
        self._key = key
        self._low = low
        self._attempt = attempt
        self._groups: dict[int, str] = {}
        self._length = 0

    def _draw(self, below: int) -> int:
        self._key = mix64(self._key)
        return self._key % below

    def items(self, tree: Any) -> str:
        made = []
        for op, argument in tree:
            text = self._item(str(op), argument)
            made.append(text)
        return "".join(made)

    def _item(self, op: str, arg: Any) -> str:
        if op == "LITERAL":
            text = chr(arg)
        elif op == "NOT_LITERAL":
            text = self._not_in({chr(arg)}, [])
        elif op == "ANY":
            text = _ANY[self._draw(len(_ANY))]
        elif op == "IN":
            text = self._set(arg)
        elif op == "BRANCH":
            return self.items(arg[1][self._draw(len(arg[1]))])
        elif op == "SUBPATTERN":
            text = self.items(arg[3])
            if arg[0] is not None:
                self._groups[arg[0]] = text
            return text
        elif op in REPEATS:
            return self._repeat(*arg)
        elif op == "ATOMIC_GROUP":
            return self.items(arg)
        elif op == "GROUPREF":
            text = self._groups.get(arg, "")
        elif op == "GROUPREF_EXISTS":
            number, yes, no = arg
            return self.items(yes if number in self._groups else no or [])
        else:
            # AT, ASSERT and ASSERT_NOT take no characters; whether they hold is checked after.
            # Where nothing else works, what a look ahead or behind wants is said in its place.
            return self.items(arg[1]) if op == "ASSERT" and self._attempt > 5 else ""
        self._length += len(text)
        if self._length > MAX_STRING:
            raise SchemaError(f"a pattern asks for more than {MAX_STRING} characters")
        return text

    def _repeat(self, least: int, most: Any, tree: Any) -> str:
        top = least + 12 if most == UNBOUNDED else int(most)
        wanted = max(least, 1) if least else self._draw(2)
        if self._attempt:
            wanted = least + self._draw(min(top - least, 4 * self._attempt) + 1)
        # A long string was asked for: as much as this repeat may give.
        ceiling = MAX_STRING if most == UNBOUNDED else top
        made: list[str] = []
        while len(made) < wanted or (self._length < self._low and len(made) < ceiling):
            before = self._length
            made.append(self.items(tree))
            if self._length == before:
                # What takes no characters once need not be said again, however often it may be.
                break
        return "".join(made)

    def _set(self, members: Any) -> str:
        kinds = [(str(op), arg) for op, arg in members]
        if kinds and kinds[0][0] == "NEGATE":
            return self._not_in(set(), kinds[1:])
        op, arg = kinds[self._draw(len(kinds))]
        if op == "LITERAL":
            return chr(arg)
        if op == "RANGE":
            low, high = arg
            return chr(_speakable(low + self._draw(high - low + 1), low))
        letters = _CATEGORY.get(str(arg), _ANY)
        return letters[self._draw(len(letters))]

    def _not_in(self, literals: set[str], members: list[tuple[str, Any]]) -> str:
        allowed = [c for c in _POOL if c not in literals and not _has(members, c)]
        if not allowed:
            return ""
        # The first are letters: those are liked best.
        return allowed[self._draw(min(len(allowed), 26))]


def _has(members: list[tuple[str, Any]], char: str) -> bool:
    for op, arg in members:
        if op == "LITERAL" and char == chr(arg):
            return True
        if op == "RANGE" and arg[0] <= ord(char) <= arg[1]:
            return True
        if op == "CATEGORY" and _in_category(str(arg), char):
            return True
    return False


def _in_category(name: str, char: str) -> bool:
    inside = {
        "DIGIT": char.isdigit(),
        "SPACE": char.isspace(),
        "WORD": char.isalnum() or char == "_",
    }[name.rpartition("_")[2]]
    return inside != ("NOT" in name)


def _speakable(point: int, otherwise: int) -> int:
    """A code point that is a character of its own: surrogates are not."""
    return otherwise if 0xD800 <= point <= 0xDFFF or point > sys.maxunicode else point
