"""Calls as items of a response's output: functions', custom tools', and the API's own tools'."""

from __future__ import annotations

from typing import Any

import orjson

from paceline.core.plan import CallPlan
from paceline.wire.cutter import whole
from paceline.wire.jsonbytes import json_bytes
from paceline.wire.responses.writer import IN_PROGRESS, OutputItem, Status, Writer


class CallItem(OutputItem):
    """A function call or a custom tool's."""

    def __init__(
        self, writer: Writer, index: int, item_id: str, call: CallPlan, status: Status
    ) -> None:
        super().__init__(writer, index, item_id)
        self._custom = call.tool.kind == "custom"
        self._arguments = call.arguments
        self._status = status
        self._key = b"input" if self._custom else b"arguments"
        kind = b"custom_tool_call" if self._custom else b"function_call"
        self._head = b'{"id":"%b","type":"%b","call_id":%b,"name":%b' % (
            item_id.encode(),
            kind,
            json_bytes(call.id),
            json_bytes(call.tool.name),
        )
        self._name = json_bytes(call.tool.name)
        if call.tool.namespace:
            self._head += b',"namespace":' + json_bytes(call.tool.namespace)
        self._event = (
            b"response.custom_tool_call_input."
            if self._custom
            else b"response.function_call_arguments."
        )
        deltas = writer.deltas(self._event + b"delta", self.place, call.arguments)
        # On the way of every token: one call less.
        self.cut = deltas.cut  # type: ignore[method-assign]

    def close(self) -> bytes:
        """The arguments' end and the call's."""
        inside = b'%b,"%b":"%b"' % (self.place, self._key, self._text())
        if not self._custom:
            inside += b',"name":' + self._name
        return self.writer.event(self._event + b"done", inside) + super().close()

    def begun(self) -> bytes:
        """The call without arguments yet."""
        return self._item(b"", IN_PROGRESS)

    def final(self) -> bytes:
        """The call as it ends."""
        return self._item(self._text(), self._status)

    def _text(self) -> bytes:
        return whole(self._arguments)

    def _item(self, arguments: bytes, status: Status) -> bytes:
        return b'%b,"%b":"%b","status":"%b"}' % (self._head, self._key, arguments, status)


class BuiltinItem(OutputItem):
    """A call to one of the API's own tools, as a script has it: told whole when it is known.

    The script's arguments are the tool's own object: a command for a shell, an operation for a
    patch, a query for a search.
    """

    def __init__(
        self, writer: Writer, index: int, item_id: str, call: CallPlan, status: Status
    ) -> None:
        super().__init__(writer, index, item_id)
        self._status = status
        text = call.arguments.text()
        try:
            given = orjson.loads(text)
        except orjson.JSONDecodeError:
            given = {}
        self._fields = _builtin(call, given if isinstance(given, dict) else {}, text)

    def open(self) -> bytes:
        """Nothing yet: what it is to do isn't known."""
        self.opened = True
        return b""

    def cut(self, start: int, stop: int) -> bytes:
        """Nothing: such calls have no deltas here."""
        return b""

    def close(self) -> bytes:
        """The whole call."""
        self.closed = True
        return self.added(self.begun()) + self.done(self.final())

    def begun(self) -> bytes:
        """The call under way."""
        return json_bytes({"id": self.id, **self._fields, "status": "in_progress"})

    def final(self) -> bytes:
        """The call as it ends."""
        return json_bytes({"id": self.id, **self._fields, "status": self._status.decode()})


def _builtin(call: CallPlan, given: dict[str, Any], text: str) -> dict[str, Any]:
    """A built-in call's fields by the tool's type."""
    kind = call.tool.type
    called = {"call_id": call.id}
    if kind == "local_shell":
        action = {"type": "exec", "command": [], "env": {}, **given}
        return {"type": "local_shell_call", **called, "action": action}
    if kind == "shell":
        return {"type": "shell_call", **called, "action": {"commands": [], **given}}
    if kind == "apply_patch":
        operation = given or {"type": "delete_file", "path": ""}
        return {"type": "apply_patch_call", **called, "operation": operation}
    if kind.startswith("web_search"):
        action = {"type": "search", "query": "", "queries": [], **given}
        return {"type": "web_search_call", "action": action}
    if kind == "file_search":
        return {"type": "file_search_call", "queries": given.get("queries", []), "results": None}
    if kind.startswith("computer"):
        action = given or {"type": "screenshot"}
        checks: list[Any] = []
        return {
            "type": "computer_call",
            **called,
            "action": action,
            "pending_safety_checks": checks,
        }
    if kind == "code_interpreter":
        code = given.get("code", text)
        return {
            "type": "code_interpreter_call",
            "code": code,
            "container_id": "cntr_paceline",
            "outputs": None,
        }
    if kind == "tool_search":
        return {
            "type": "tool_search_call",
            **called,
            "arguments": given,
            "execution": "client",
        }
    if kind == "mcp":
        label = call.tool.name
        name = given.pop("name", "call")
        arguments = json_bytes(given).decode()
        return {"type": "mcp_call", "server_label": label, "name": name, "arguments": arguments}
    return {"type": "function_call", **called, "name": call.tool.name, "arguments": text}
