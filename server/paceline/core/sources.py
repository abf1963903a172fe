"""Where a number comes from and how certain it is; every file of numbers says so of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

SourceClass = Literal["official", "measured", "estimate", "hypothesis"]
"""How certain a number is, the most certain first."""
SOURCE_CLASSES: tuple[SourceClass, ...] = get_args(SourceClass)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a number comes from and how certain it is."""

    kind: SourceClass
    text: str


def read_sources(data: Any, refuse: Callable[[str, str], Exception]) -> dict[str, Source]:
    """The sources of a parsed TOML table, by the dotted key of the number each is of.

    Raises what `refuse` makes of a key (`sources.engine.step_ms`) and what is wrong there.
    """
    if not isinstance(data, Mapping):
        raise refuse("sources", "must be a table")
    found: dict[str, Source] = {}
    for key, entry in data.items():
        where = f"sources.{key}"
        if not isinstance(entry, Mapping) or set(entry) != {"class", "from"}:
            raise refuse(where, 'must be { class = "…", from = "…" }')
        kind, text = entry["class"], entry["from"]
        if kind not in SOURCE_CLASSES:
            raise refuse(where, f"class must be one of {', '.join(SOURCE_CLASSES)}")
        if not isinstance(text, str) or not text.strip():
            raise refuse(where, "from must say where the number comes from")
        found[key] = Source(kind, text)
    return found
