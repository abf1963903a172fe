"""What a user says while a response is under way (`response.steer`), held for the next one.

A response isn't broken off for it: the words go into a successor that begins when the response
has ended, with the same settings. Where it ended with calls, the client's own next request takes
the words along, before the outputs that it brings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from paceline.wire.errors import ApiError
from paceline.wire.jsonbytes import json_bytes
from paceline.wire.responses.items import parse_input

_MOST = 16
_OWN = ("type", "input", "previous_response_id", "conversation", "generate")
_OUTPUTS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
}
"""The calls that a client answers, and with what."""


class Steering:
    """One lane's steering."""

    def __init__(self) -> None:
        self._response_id = ""
        self._held: list[tuple[str, list[Any]]] = []
        self._calls: list[Mapping[str, Any]] = []
        self._ended = ""

    @staticmethod
    def failed(
        frame: Mapping[str, Any], code: str, message: str, stream_id: str | None = None
    ) -> bytes:
        """What couldn't be taken goes back."""
        event: dict[str, Any] = {
            "type": "response.steer.failed",
            "sequence_number": 0,
            "error": {"type": "invalid_request_error", "code": code, "message": message},
            "steer": {
                "input": frame.get("input") or "",
                "previous_response_id": str(frame.get("previous_response_id") or ""),
            },
        }
        return _event(event, stream_id)

    def begin(self, response_id: str) -> None:
        """A response begins."""
        self._response_id = response_id
        self._calls = []
        self._ended = ""

    def take(self, frame: Mapping[str, Any], stream_id: str | None) -> bytes:
        """Hold what the user says; the event that says so."""
        given = frame.get("input")
        if len(self._held) >= _MOST:
            return self.failed(frame, "too_many_pending_steers", "Too much is held.", stream_id)
        try:
            parse_input(given, "input")
        except ApiError as error:
            return self.failed(frame, "invalid_input", error.message, stream_id)
        steer_id = "steer_" + os.urandom(12).hex()
        items = (
            [{"role": "user", "content": given}] if isinstance(given, str) else list(given or ())
        )
        self._held.append((steer_id, items))
        return _event({"type": "response.steer.accepted", **self._numbered(steer_id)}, stream_id)

    def ended(self, status: str, output: Sequence[Mapping[str, Any]]) -> None:
        """The response has ended."""
        self._ended = status
        self._calls = [item for item in output if item.get("type") in _OUTPUTS]

    def after(
        self, frame: Mapping[str, Any], stream_id: str | None
    ) -> tuple[dict[str, Any] | None, bytes | None]:
        """What follows: a successor's frame, or the event that says what is waited for."""
        if not self._held or self._ended not in ("completed", "incomplete"):
            return None, None
        if not self._calls:
            settings = {key: value for key, value in frame.items() if key not in _OWN}
            return {
                "type": "response.create",
                **settings,
                "input": self._release(),
                "previous_response_id": self._response_id,
            }, None
        needed = [_stub(call) for call in self._calls]
        event = {
            "type": "response.steer.pending",
            "reason": "waiting_for_required_input",
            "required_input": needed,
            **self._numbered(self._held[0][0]),
        }
        return None, _event(event, stream_id)

    def before(self, frame: Mapping[str, Any]) -> dict[str, Any]:
        """A request's body, with what is held for it in front of its input."""
        body = {key: value for key, value in frame.items() if key != "type"}
        body["stream"] = True
        if self._held and body.get("previous_response_id") == self._response_id:
            given = body.get("input")
            own = [{"role": "user", "content": given}] if isinstance(given, str) else given or []
            body["input"] = [*self._release(), *own] if isinstance(own, list) else own
        return body

    def _release(self) -> list[Any]:
        items = [item for _, held in self._held for item in held]
        self._held = []
        return items

    def _numbered(self, steer_id: str) -> dict[str, Any]:
        steer = {"id": steer_id, "previous_response_id": self._response_id}
        return {"sequence_number": 0, "steer": steer}


def _stub(call: Mapping[str, Any]) -> dict[str, Any]:
    stub = {"type": _OUTPUTS[call["type"]], "call_id": call["call_id"]}
    if call["type"] == "function_call":
        stub["name"] = call["name"]
    return stub


def _event(event: dict[str, Any], stream_id: str | None) -> bytes:
    if stream_id is not None:
        event["stream_id"] = stream_id
    return json_bytes(event)
