"""The items of a response's output: each knows its events and its final object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from paceline.core.logprobs import TokenLogprob
from paceline.core.plan import CallPlan, ChoicePlan, Pieces
from paceline.wire.head import LogprobsFn
from paceline.wire.jsonbytes import inner, json_bytes
from paceline.wire.responses.events import (
    Deltas,
    DetailedDeltas,
    Framing,
    Numbers,
    PlainDeltas,
)
from paceline.wire.responses.items import seal

Status = bytes
COMPLETED, INCOMPLETE, IN_PROGRESS = b"completed", b"incomplete", b"in_progress"


class Writer:
    """What all items of one stream share: framing, numbers, and the size of a delta."""

    __slots__ = ("framing", "numbers", "obfuscation", "per_event")

    def __init__(self, framing: Framing, per_event: int, obfuscation: bytes) -> None:
        self.framing = framing
        self.numbers = Numbers()
        self.per_event = per_event
        self.obfuscation = obfuscation
        """A key and its value for the end of each delta; empty without."""

    def event(self, kind: bytes, inside: bytes) -> bytes:
        """One event; `inside` begins with a comma."""
        return b'%b%b,"sequence_number":%d%b' % (
            self.framing.begin(kind),
            inside,
            self.numbers.take(),
            self.framing.end,
        )

    def deltas(self, kind: bytes, inside: bytes, pieces: Pieces, tail: bytes = b"") -> Deltas:
        """The deltas of one channel; `tail` follows the text."""
        return PlainDeltas(
            pieces,
            b'%b%b,"sequence_number":' % (self.framing.begin(kind), inside),
            b'"%b%b%b' % (tail, self.obfuscation, self.framing.end),
            self.per_event,
            self.numbers,
        )


class OutputItem:
    """One item: opened, cut into deltas, closed."""

    def __init__(self, writer: Writer, index: int, item_id: str) -> None:
        self.writer = writer
        self.id = item_id
        self.at = b',"output_index":%d' % index
        self.place = b',"item_id":"%b"%b' % (item_id.encode(), self.at)
        self.opened = False
        self.closed = False

    def open(self) -> bytes:
        """The events that begin it."""
        self.opened = True
        return self.added(self.begun())

    def cut(self, start: int, stop: int) -> bytes:
        """The deltas of its tokens start..stop."""
        raise NotImplementedError

    def close(self) -> bytes:
        """The events that end it."""
        self.closed = True
        return self.done(self.final())

    def begun(self) -> bytes:
        """The item as it is added."""
        raise NotImplementedError

    def final(self) -> bytes:
        """The item as it ends."""
        raise NotImplementedError

    def added(self, item: bytes) -> bytes:
        """`output_item.added`."""
        return self.writer.event(b"response.output_item.added", b'%b,"item":%b' % (self.at, item))

    def done(self, item: bytes) -> bytes:
        """`output_item.done`."""
        return self.writer.event(b"response.output_item.done", b'%b,"item":%b' % (self.at, item))


class ReasoningItem(OutputItem):
    """Thinking: hidden, but for a summary where one was asked for.

    The summary's tokens are spread over those of the thinking, so that it grows while the model
    thinks and is over when it answers; they are no tokens of the output.
    """

    def __init__(
        self,
        writer: Writer,
        index: int,
        item_id: str,
        tokens: int,
        summary: Pieces | None,
        *,
        sealed: bool,
    ) -> None:
        super().__init__(writer, index, item_id)
        self._tokens = tokens
        self._summary = summary
        self._sealed = b""
        if sealed:
            self._sealed = b',"encrypted_content":"%b"' % seal("reasoning", tokens).encode()
        self._text = b""
        if summary is not None:
            self._text = b"".join(summary.escaped(0, len(summary)))
            self._part = b'%b,"summary_index":0' % self.place
            self._deltas = writer.deltas(
                b"response.reasoning_summary_text.delta", self._part, summary
            )

    def open(self) -> bytes:
        """Added, and its summary's part with it."""
        events = super().open()
        if self._summary is not None:
            events += self.writer.event(
                b"response.reasoning_summary_part.added",
                self._part + b',"part":{"type":"summary_text","text":""}',
            )
        return events

    def cut(self, start: int, stop: int) -> bytes:
        """The part of the summary that these tokens bring."""
        if self._summary is None:
            return b""
        length, tokens = len(self._summary), self._tokens
        return self._deltas.cut(start * length // tokens, stop * length // tokens)

    def close(self) -> bytes:
        """The summary's end and the item's."""
        events = b""
        if self._summary is not None:
            write = self.writer.event
            events = write(
                b"response.reasoning_summary_text.done",
                b'%b,"text":"%b"' % (self._part, self._text),
            ) + write(
                b"response.reasoning_summary_part.done",
                b'%b,"part":{"type":"summary_text","text":"%b"}' % (self._part, self._text),
            )
        return events + super().close()

    def begun(self) -> bytes:
        """The item without a summary yet."""
        return b'{"id":"%b","type":"reasoning","summary":[]%b}' % (self.id.encode(), self._sealed)

    def final(self) -> bytes:
        """The item with its summary."""
        summary = b""
        if self._summary is not None:
            summary = b'{"type":"summary_text","text":"%b"}' % self._text
        return b'{"id":"%b","type":"reasoning","summary":[%b]%b}' % (
            self.id.encode(),
            summary,
            self._sealed,
        )


class MessageItem(OutputItem):
    """The visible text."""

    def __init__(
        self,
        writer: Writer,
        index: int,
        item_id: str,
        choice: ChoicePlan,
        *,
        status: Status,
        logprobs: LogprobsFn | None,
    ) -> None:
        super().__init__(writer, index, item_id)
        self._choice = choice
        self._status = status
        self._logprobs = logprobs
        self._whole: bytes | None = None
        self._part = self.place + b',"content_index":0'
        kind, pieces = b"response.output_text.delta", choice.pieces
        self._deltas: Deltas
        if logprobs is None:
            self._deltas = writer.deltas(kind, self._part, pieces, b',"logprobs":[]')
        else:
            self._deltas = DetailedDeltas(
                pieces,
                b'%b%b,"sequence_number":' % (writer.framing.begin(kind), self._part),
                writer.obfuscation + writer.framing.end,
                writer.per_event,
                numbers=writer.numbers,
                logprobs=_event_logprobs(logprobs, choice),
            )
        self.cut = self._deltas.cut  # type: ignore[method-assign]

    def open(self) -> bytes:
        """The message and its one part of content."""
        return super().open() + self.writer.event(
            b"response.content_part.added",
            self._part + b',"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}',
        )

    def close(self) -> bytes:
        """The text's end, its part's and the message's."""
        text = self._text()
        entries = b"[]"
        if self._logprobs is not None:
            entries = _event_logprobs(self._logprobs, self._choice)(0, len(self._choice.pieces))
        write = self.writer.event
        return b"".join(
            (
                self._deltas.rest(),
                write(
                    b"response.output_text.done",
                    b'%b,"text":"%b","logprobs":%b' % (self._part, text, entries),
                ),
                write(
                    b"response.content_part.done",
                    b'%b,"part":%b' % (self._part, self._content(text)),
                ),
                super().close(),
            )
        )

    def begun(self) -> bytes:
        """The message without content yet."""
        return (
            b'{"id":"%b","type":"message","status":"in_progress","role":"assistant","content":[]}'
            % self.id.encode()
        )

    def final(self) -> bytes:
        """The message as it ends."""
        return b'{"id":"%b","type":"message","status":"%b","role":"assistant","content":[%b]}' % (
            self.id.encode(),
            self._status,
            self._content(self._text()),
        )

    def _text(self) -> bytes:
        if self._whole is None:
            pieces = self._choice.pieces
            self._whole = b"".join(pieces.escaped(0, len(pieces)))
        return self._whole

    def _content(self, text: bytes) -> bytes:
        entries = b"[]"
        if self._logprobs is not None:
            found = self._logprobs(self._choice, 0, len(self._choice.pieces))
            entries = json_bytes(
                [{**_entry(e), "top_logprobs": [_entry(other) for other in e.top]} for e in found]
            )
        return b'{"type":"output_text","annotations":[],"logprobs":%b,"text":"%b"}' % (
            entries,
            text,
        )


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
        return b"".join(self._arguments.escaped(0, len(self._arguments)))

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


class CompactionItem(OutputItem):
    """All that went before, sealed."""

    def __init__(self, writer: Writer, index: int, item_id: str, tokens: int) -> None:
        super().__init__(writer, index, item_id)
        self._object = b'{"id":"%b","type":"compaction","encrypted_content":"%b"}' % (
            item_id.encode(),
            seal("compaction", tokens).encode(),
        )

    def open(self) -> bytes:
        """Added, and that it is being made."""
        return super().open() + self.writer.event(b"response.compaction.compacting", self.place)

    def cut(self, start: int, stop: int) -> bytes:
        """Nothing: what it says is sealed."""
        return b""

    def begun(self) -> bytes:
        """The item."""
        return self._object

    def final(self) -> bytes:
        """The item."""
        return self._object


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


def _event_logprobs(fn: LogprobsFn, choice: ChoicePlan) -> Callable[[int, int], bytes]:
    def entries(start: int, stop: int) -> bytes:
        return json_bytes(
            [
                {
                    "token": e.token,
                    "logprob": e.logprob,
                    "top_logprobs": [{"token": o.token, "logprob": o.logprob} for o in e.top],
                }
                for e in fn(choice, start, stop)
            ]
        )

    return entries


def _entry(entry: TokenLogprob) -> dict[str, Any]:
    return {"token": entry.token, "logprob": entry.logprob, "bytes": list(entry.data)}


def obfuscation(text: str) -> bytes:
    """The end of each delta of a response: a key, and a value that means nothing."""
    return b',"obfuscation":"%b"' % inner(text)
