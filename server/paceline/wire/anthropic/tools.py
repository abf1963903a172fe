"""Anthropic's tools and tool choice as the core's.

A tool without a type, or of type `custom`, is a function. All others are Anthropic's own, with
schemas that everybody knows (bash, text editor, computer) or run on its side (web search): they
are accepted, and called only where a script says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paceline.core.tools import AUTO, Tool, ToolChoice
from paceline.wire.errors import invalid
from paceline.wire.fields import (
    an_array,
    an_object,
    any_text,
    flag,
    name_text,
    one_of,
    read,
    required,
    required_object,
    wrong_value,
)

_choice_type = one_of("auto", "any", "tool", "none")


def parse_tools(value: Any, path: str) -> tuple[Tool, ...]:
    """The tools on offer; two must not have one name."""
    found: dict[str, Tool] = {}
    for i, item in enumerate(an_array(value, path)):
        where = f"{path}[{i}]"
        tool = _tool(an_object(item, where), where)
        if tool.name in found:
            raise invalid(f"{where}.name", f"{path}: tool names must be unique")
        found[tool.name] = tool
    return tuple(found.values())


def parse_choice(value: Any, path: str) -> tuple[ToolChoice, bool]:
    """The choice, and whether calls may be made in parallel."""
    given = read(
        an_object(value, path),
        {"type": _choice_type, "name": name_text, "disable_parallel_tool_use": flag},
        path + ".",
    )
    kind = required(given, "type", path)
    parallel = not given.get("disable_parallel_tool_use", False)
    if kind == "tool":
        return ToolChoice("named", (required(given, "name", path),)), parallel
    if kind == "any":
        return ToolChoice("required"), parallel
    return (ToolChoice("none") if kind == "none" else AUTO), parallel


def check_choice(choice: ToolChoice, tools: Sequence[Tool]) -> None:
    """Refuse a choice that the tools on offer can't meet."""
    if choice.mode == "required" and not tools:
        raise invalid("tool_choice", "tool_choice: may only be specified while providing tools")
    if choice.mode == "named" and choice.names[0] not in {tool.name for tool in tools}:
        raise wrong_value("tool_choice.name", "the name of one of the tools", choice.names[0])


def _tool(item: Mapping[str, Any], path: str) -> Tool:
    kind = item.get("type")
    kind = "custom" if kind is None else name_text(kind, f"{path}.type")
    if kind != "custom":
        # A toolset has a server's name in place of its own.
        name = item.get("name") or item.get("mcp_server_name") or kind
        return Tool(name_text(name, f"{path}.name"), kind="builtin", type=kind)
    name = name_text(required(item, "name", path), f"{path}.name")
    schema = required_object(item, "input_schema", path)
    if schema.get("type") != "object":
        raise wrong_value(f"{path}.input_schema.type", "object", schema.get("type"))
    described, strict = item.get("description"), item.get("strict")
    return Tool(
        name,
        schema=schema,
        strict=strict is not None and flag(strict, f"{path}.strict"),
        description="" if described is None else any_text(described, f"{path}.description"),
    )
