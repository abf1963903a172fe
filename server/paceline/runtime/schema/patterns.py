"""Regular expressions of schemas (ECMA-262's) in Python's terms.

A caller writes both the pattern and the text that is held against it, and Python's `re` can take
longer than the world will last over forty characters, with the whole process waiting. So patterns
that repeat something are matched by the package `regex`, which gives up when its time is over.
"""

from __future__ import annotations

import re
import warnings
from functools import lru_cache
from importlib import import_module
from typing import Any

from paceline.runtime.schema.errors import SchemaError

_parser: Any = import_module("re._parser")
_timed: Any = import_module("regex")

MAX_PATTERN = 4_000
"""Characters a pattern may have."""

MAX_STEPS = 100_000
"""Characters that a pattern may ask for at least, and repeats of nothing."""

SEARCH_S = 0.01
"""Seconds of the processor's time that one search may take."""

REPEATS = frozenset({"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"})
UNBOUNDED: int = int(_parser.MAXREPEAT)
"""What the parser writes for "as often as you like"."""

# Unicode properties, as Python's `re` can say them: exactly for the common ones, with ASCII
# alone for the others, which is enough to make a string and errs on the side of refusing one.
_PROPERTIES = {
    "L": r"^\W\d_", "Letter": r"^\W\d_", "Alphabetic": r"^\W\d_",
    "Lu": "A-Z", "Uppercase_Letter": "A-Z", "Uppercase": "A-Z",
    "Ll": "a-z", "Lowercase_Letter": "a-z", "Lowercase": "a-z",
    "N": "0-9", "Nd": "0-9", "Number": "0-9",
    "P": r"!-\/:-@\[-`{-~", "Punctuation": r"!-\/:-@\[-`{-~",
    "S": r"$+<=>^`|~", "Z": r"\s", "Zs": " ", "Separator": r"\s", "White_Space": r"\s",
    "M": "\u0300-\u036f", "C": "\x00-\x1f\x7f", "Cc": "\x00-\x1f\x7f", "ASCII": "\x00-\x7f",
    "Emoji": "\U0001f300-\U0001faff",
}  # fmt: skip

_TOKEN = re.compile(
    r"""
    \\[pP]\{(?P<property>[^}]*)\}
    | \\u\{(?P<point>[0-9A-Fa-f]{1,6})\}
    | \\c(?P<control>[A-Za-z])
    | \\k<(?P<backref>\w+)>
    | \(\?<(?P<group>[A-Za-z_$][\w$]*)>
    | (?P<anything>\[\^\])
    | (?P<nothing>\[\](?!\]))
    | (?P<escape>\\[\s\S])
    | (?P<open>\[\^?)
    | (?P<end>\$)
    | (?P<other>[\s\S])
    """,
    re.VERBOSE,
)

# What a backslash may stand before in Python; elsewhere ECMA reads the character itself.
_ESCAPES = frozenset("0123456789abBdDfnrsStvwWxu")

# What `re` reads as a brace, and `regex` as the beginning of an approximate match.
_BRACE = re.compile(r"\\N\{[^}]*\}|\\[\s\S]|(\{)(?!\d|,)")


class Pattern:
    """A pattern that a text can be held against; `pattern` is its text in Python's syntax."""

    __slots__ = ("_compiled", "_patient", "pattern")

    def __init__(self, pattern: str) -> None:
        """Raises re.error where Python can't read the pattern."""
        self.pattern = pattern
        self._compiled: Any = re.compile(pattern)
        self._patient = not _repeats(parse(pattern))
        if not self._patient:
            self._compiled = _compile_timed(pattern)

    def search(self, text: str) -> bool:
        """Whether it matches anywhere. Raises SchemaError where that takes too long to tell."""
        if self._patient:
            return self._compiled.search(text) is not None
        try:
            return self._compiled.search(text, timeout=SEARCH_S) is not None
        except TimeoutError:
            shown = f"{self.pattern!r:.100}"
            raise SchemaError(f"the pattern {shown} takes too long to match") from None


def _compile_timed(pattern: str) -> Any:
    try:
        return _timed.compile(
            _BRACE.sub(lambda found: r"\{" if found[1] else found[0], pattern), cache_pattern=False
        )
    except _timed.error as error:
        raise re.error(str(error)) from None


def _repeats(tree: Any) -> bool:
    """Whether anything in a pattern may come more or less often."""
    return any(
        (str(op) in REPEATS and argument[0] != argument[1]) or any(map(_repeats, _inside(argument)))
        for op, argument in tree
    )


def _inside(argument: Any) -> list[Any]:
    """The trees below a node, however they lie in its argument."""
    if isinstance(argument, _parser.SubPattern):
        return [argument]
    if isinstance(argument, list | tuple):
        return [tree for item in argument for tree in _inside(item)]
    return []


def compile_pattern(pattern: str) -> Pattern:
    """The Python pattern that matches the same strings. Raises SchemaError."""
    found = _compile(pattern)
    if isinstance(found, str):
        raise SchemaError(found)
    return found


@lru_cache(maxsize=4096)
def _compile(pattern: str) -> Pattern | str:
    if len(pattern) > MAX_PATTERN:
        return f"a pattern of {len(pattern)} characters is more than {MAX_PATTERN}"
    # Where Python reads the pattern as it stands, that is what it means: other validators in
    # Python do the same.
    problem = ""
    for read in (str, translate):
        try:
            text = read(pattern)
            with warnings.catch_warnings():
                # Of what later versions of Python might read in another way.
                warnings.simplefilter("ignore", FutureWarning)
                if least_steps(parse(text)) > MAX_STEPS:
                    return f"the pattern {pattern!r:.100} asks for more than {MAX_STEPS} characters"
                return Pattern(text)
        except (re.error, OverflowError, RecursionError, ValueError) as error:
            problem = str(error)
    return f"the pattern {pattern!r:.100} can't be read: {problem}"


def parse(pattern: str) -> Any:
    """Python's own syntax tree of a pattern. Raises re.error.

    The module is private but has kept its shape since Python 2; a test walks every kind of node.
    """
    return _parser.parse(pattern)


def least_steps(tree: Any) -> int:
    """The least work that matching takes, nested repeats multiplied, those of nothing too."""
    steps = 0
    for op, argument in tree:
        name = str(op)
        if name in REPEATS:
            steps += argument[0] * max(1, least_steps(argument[2]))
        elif name == "SUBPATTERN":
            steps += least_steps(argument[3])
        elif name == "BRANCH":
            steps += min(map(least_steps, argument[1]))
        elif name == "ATOMIC_GROUP":
            steps += least_steps(argument)
        else:
            steps += 1
    return steps


def translate(pattern: str) -> str:
    """ECMA-262's syntax -> Python's."""
    made: list[str] = []
    in_set = False
    for found in _TOKEN.finditer(pattern):
        kind = found.lastgroup
        text = found[0]
        if kind == "property":
            made.append(_property(found["property"], text[1] == "P", in_set))
        elif kind == "point":
            made.append(re.escape(chr(int(found["point"], 16))))
        elif kind == "control":
            made.append(f"\\x{ord(found['control']) % 32:02x}")
        elif in_set:
            in_set = text != "]"
            made.append(_escape(text) if kind == "escape" else "\\[" if text[0] == "[" else text)
        elif kind == "open":
            in_set = True
            made.append(text)
        else:
            made.append(_outside(kind, text, found))
    return "".join(made)


def _outside(kind: str | None, text: str, found: re.Match[str]) -> str:
    if kind == "backref":
        return f"(?P={found['backref']})"
    if kind == "group":
        return f"(?P<{found['group'].replace('$', '_')}>"
    if kind == "anything":
        return r"[\s\S]"
    if kind == "nothing":
        return "(?!)"
    return _escape(text) if kind == "escape" else text


def _escape(text: str) -> str:
    letter = text[1]
    return text if letter in _ESCAPES or not letter.isalnum() else letter


def _property(name: str, negated: bool, in_set: bool) -> str:
    inside = _PROPERTIES.get(name.rpartition("=")[2])
    if inside is None:
        raise ValueError(f"unknown property {name!r}")
    if in_set:
        if negated or inside.startswith("^"):
            if negated:
                raise ValueError("a negated property inside a set")
            # A letter, inside a set: what the Latin alphabets have.
            return "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f"
        return inside
    if inside.startswith("^"):
        return f"[{inside[1:]}]" if negated else f"[{inside}]"
    return f"[^{inside}]" if negated else f"[{inside}]"
