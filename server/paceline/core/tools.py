"""Tools on offer, and the form that an answer was asked to have; in words of no dialect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ToolKind = Literal["function", "custom", "builtin"]
"""A `builtin` is run by the API's own side or by the client under a fixed name (web search, file
search, shell): it is accepted, and called only where a script says so."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the caller offers.

    `schema` is the JSON Schema of a function's arguments, None where it takes none or anything.
    `type` is the dialect's own word for the kind of tool (`function`, `web_search`, …);
    `namespace` is the group it was declared in, empty for most.
    """

    name: str
    kind: ToolKind = "function"
    schema: Mapping[str, Any] | None = field(default=None, hash=False)
    strict: bool = False
    description: str = ""
    type: str = "function"
    namespace: str = ""
    grammar: str = ""
    """Of a custom tool: the grammar that its input must follow, where it has one."""


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether tools may, must or must not be called.

    `named` means exactly the one tool in `names`. With `auto` and `required`, `names` narrows
    what may be called; empty means any tool on offer.
    """

    mode: Literal["auto", "none", "required", "named"] = "auto"
    names: tuple[str, ...] = ()


AUTO = ToolChoice()


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """A form for the visible text; None in a request means free text."""

    kind: Literal["json_object", "json_schema"]
    schema: Mapping[str, Any] | None = field(default=None, hash=False)
    name: str = ""
    strict: bool = False
