"""/v1/responses over a WebSocket: one connection, many responses, their history kept with it.

Frames with the same `stream_id` (or none) are a lane. A lane's responses come one after another,
in the order of their requests; lanes run side by side. The token path makes no task: the pacer
steps the sending by hand, as over HTTP, one frame an event.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from paceline.core.usage import Usage
from paceline.http import instant
from paceline.http.admission import caller_headers, reason_of
from paceline.http.auth import caller_of, no_longer_let_in
from paceline.http.faults import fault_of
from paceline.http.faults.drop_after import close_connection
from paceline.http.faults.nothing import Nothing, Scene
from paceline.http.generate import Dialect, Ready, parse_json, prepare
from paceline.http.respond import (
    JSON,
    Receive,
    Scope,
    api_headers,
    header,
    public_headers,
    refuse_upgrade,
    request_id,
    send_error,
)
from paceline.http.responses import PATH, Keeper, output_items
from paceline.http.sink import HandSender, Headers, Send
from paceline.http.socket_parts import (
    FrameSink,
    Memory,
    error_frame,
    expired,
    upgrade_required,
)
from paceline.http.steering import Steering
from paceline.runtime.engine import LiveEngine
from paceline.runtime.ids import random_hex
from paceline.runtime.metrics import AbortCause
from paceline.runtime.stream import Answer
from paceline.wire.errors import ApiError, invalid, method_not_allowed, server_error
from paceline.wire.fields import text
from paceline.wire.quota import codex_event
from paceline.wire.responses.encode import ResponseFrames, ResponseStream
from paceline.wire.responses.events import SEPARATOR

log = logging.getLogger("paceline")

_MOST_WAITING = 64
"""Requests of one lane that may wait for those before them."""

_MOST_LANES = 64

_MOST_UNREAD = 256
"""Frames that wait for a slow reader, from which on none of its own are taken."""

_FRAMES_PER_TURN = 32
"""Frames taken in a row, after which others get their turn: one read may bring thousands."""

_stream_name = text(1, 512)
"""It comes back in every event."""

_POLICY = 1008
_GOING_AWAY = 1001
_BROKEN = 1011


class _Request(NamedTuple):
    frame: Mapping[str, Any]
    received_ns: int


class _Lane:
    """Responses that come one after another."""

    def __init__(self, stream_id: str | None) -> None:
        self.stream_id = stream_id
        self.waiting: deque[_Request] = deque()
        self.task: asyncio.Task[None] | None = None
        self.answer: Answer | None = None
        self.done = asyncio.Event()
        """Set when the answer has ended, or nobody waits for it any more."""
        self.encoder: ResponseStream | None = None
        self.sink: FrameSink | None = None
        self.response_id = ""
        self.steering = Steering()


class ResponseSocket:
    """The endpoint; says 426 to whoever wants to upgrade where that is switched off."""

    def __init__(self, engine: LiveEngine, keeper: Keeper) -> None:
        self._engine = engine
        self._keeper = keeper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, or refuse it."""
        rid = request_id(scope)
        if scope["type"] == "http":
            error = upgrade_required()
            if header(scope, b"upgrade") is None:
                error = method_not_allowed(scope["method"], PATH, "POST")
            self._engine.metrics.request(PATH, error.status)
            await send_error(send, error, rid, 0.0)
            return
        if not self._engine.settings.websocket:
            await refuse_upgrade(scope, send, upgrade_required(), rid)
            return
        if self._engine.draining:
            error = ApiError(503, "The server is shutting down.", code="server_shutting_down")
            await refuse_upgrade(scope, send, error, rid)
            return
        await _Connection(self._engine, self._keeper, scope, receive, send).run(rid)


class _Connection:
    """One client's connection."""

    def __init__(
        self, engine: LiveEngine, keeper: Keeper, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self._engine = engine
        self._keeper = keeper
        self._headers = public_headers(scope)
        self._caller = caller_of(scope)
        self._receive = receive
        self._send = send
        self._sender = HandSender(send)
        self._sender.drained = self._resume
        self._memory = Memory(keeper)
        self._dialect: Dialect = keeper.dialect(
            self._memory, stream=ResponseFrames, transport="websocket"
        )
        self._lanes: dict[str | None, _Lane] = {}
        self._expired = False
        self._gone = False
        self._left = asyncio.Event()

    async def run(self, rid: str) -> None:
        """Take frames until the client leaves or its time is over."""
        if (await self._receive())["type"] != "websocket.connect":
            return
        headers: Headers = api_headers(JSON, rid, 0.0)[1:]
        headers += await caller_headers(self._engine, self._caller)
        await self._send({"type": "websocket.accept", "headers": headers})
        limit_s = self._engine.settings.websocket_limit_s
        timer = asyncio.get_running_loop().call_later(limit_s, self._expire)
        taken = 0
        try:
            while True:
                message = await self._receive()
                if message["type"] == "websocket.disconnect":
                    return
                self._frame(message.get("text") or message.get("bytes") or b"")
                taken += 1
                if self._sender.waiting > _MOST_UNREAD:
                    # Who asks on without reading is heard on once the answers are read.
                    await self._sender.ready()
                elif not taken % _FRAMES_PER_TURN:
                    await asyncio.sleep(0)
        finally:
            self._gone = True
            timer.cancel()
            self._leave()

    # -- frames --------------------------------------------------------------------------------

    def _frame(self, data: str | bytes) -> None:
        received_ns = self._engine.clock.now_ns()
        stream_id: str | None = None
        try:
            frame = parse_json(data.encode() if isinstance(data, str) else data)
            if not isinstance(frame, dict):
                raise invalid("type", "A frame must be a JSON object.", "invalid_type")
            kind = frame.get("type")
            if frame.get("stream_id") is not None:
                stream_id = _stream_name(frame["stream_id"], "stream_id")
            if kind == "response.create":
                self._create(frame, stream_id, received_ns)
            elif kind == "response.cancel":
                self._cancel(frame, stream_id)
            elif kind == "response.steer":
                self._steer(frame)
            else:
                raise invalid(
                    "type",
                    "A frame's type must be response.create, response.cancel or response.steer.",
                )
        except ApiError as error:
            self._refuse(error, stream_id)

    def _create(self, frame: dict[str, Any], stream_id: str | None, received_ns: int) -> None:
        if self._expired:
            raise expired(self._engine.settings.websocket_limit_s)
        if frame.get("background"):
            raise invalid("background", "background is not supported over a WebSocket.")
        lane = self._lanes.get(stream_id)
        if lane is None:
            idle = [key for key, each in self._lanes.items() if each.task is None]
            if len(self._lanes) >= _MOST_LANES and not idle:
                raise invalid("stream_id", f"A connection has at most {_MOST_LANES} streams.")
            for key in idle if len(self._lanes) >= _MOST_LANES else ():
                del self._lanes[key]
            lane = self._lanes[stream_id] = _Lane(stream_id)
        if len(lane.waiting) >= _MOST_WAITING:
            raise ApiError(
                429,
                f"{_MOST_WAITING} requests wait on this stream already.",
                code="rate_limit_exceeded",
                headers={"Retry-After": "1"},
            )
        lane.waiting.append(_Request(frame, received_ns))
        if lane.task is None:
            lane.task = asyncio.ensure_future(self._work(lane))

    def _cancel(self, frame: Mapping[str, Any], stream_id: str | None) -> None:
        wanted = frame.get("response_id")
        for lane in self._lanes.values():
            if lane.answer is None or lane.answer.over:
                continue
            if lane.response_id == wanted or (wanted is None and lane.stream_id == stream_id):
                sink, encoder = lane.sink, lane.encoder
                assert sink is not None, "an answer under way has its sink"
                assert encoder is not None, "and its encoder"
                self._engine.pacer.abort(lane.answer)
                sink.end(encoder.cancelled())
                return
        raise invalid("response_id", "There is no such response under way.", "response_not_active")

    def _steer(self, frame: Mapping[str, Any]) -> None:
        target = frame.get("previous_response_id")
        lane = next((x for x in self._lanes.values() if x.response_id == target), None)
        if lane is None:
            answer = Steering.failed(frame, "response_not_found", "There is no such response here.")
        elif lane.answer is None or lane.answer.over:
            answer = Steering.failed(
                frame, "response_already_completed", "The response is already over.", lane.stream_id
            )
        else:
            answer = lane.steering.take(frame, lane.stream_id)
        self._sender.post({"type": "websocket.send", "text": answer.decode()})

    # -- responses -----------------------------------------------------------------------------

    async def _work(self, lane: _Lane) -> None:
        """Answer a lane's requests one after another."""
        try:
            while lane.waiting and not self._gone:
                await self._respond(lane, lane.waiting.popleft())
        finally:
            lane.task = None
            self._expire_if_idle()

    async def _respond(self, lane: _Lane, request: _Request) -> None:
        engine = self._engine
        status = 200
        rid = "req_" + random_hex(16)
        ready: Ready | None = None
        try:
            # A connection may outlive its key, and what the key may do.
            caller = engine.keys.current(self._caller)
            if caller is None:
                raise no_longer_let_in()
            self._caller = caller
            body = lane.steering.before(request.frame)
            ready = await prepare(
                engine, self._dialect, body, self._headers, caller=caller, rid=rid
            )
            if not self._gone:
                await self._deliver(lane, ready, request, rid)
        except ApiError as error:
            status = error.status
            engine.metrics.refused(reason_of(error))
            self._refuse(error, lane.stream_id)
        except Exception:
            status = 500
            log.exception("a response over a WebSocket failed")
            self._refuse(server_error(), lane.stream_id)
        if ready is not None and (status >= 400 or self._gone):
            # An answer that was opened is settled by now, and this without effect.
            ready.admitted.release()
        engine.metrics.request(PATH, status)

    async def _deliver(self, lane: _Lane, ready: Ready, request: _Request, rid: str) -> None:
        engine = self._engine
        lane.done = done = asyncio.Event()
        context = self._keeper.watch(ready, always=True)
        kept = context.ended
        assert kept is not None, "watched"

        def ended(
            status: str, final: bytes, output: Sequence[Mapping[str, Any]], usage: Usage | None
        ) -> None:
            kept(status, final, output, usage)
            items = (*context.history, *context.items, *output_items(output, usage))
            self._memory.remember(ready.head.id, items)
            lane.steering.ended(status, output)

        context.ended = ended
        encoder = ready.encoder()
        assert isinstance(encoder, ResponseStream), "the dialect's own encoder"
        sink = FrameSink(self._sender, done.set, lane.stream_id)
        fault: Nothing | None = None
        if ready.request.overrides.fault is not None:
            fault = fault_of(Scene(engine, ready.plan, sink, encoder, self._drop))
        self._tell_standing(ready, lane.stream_id)
        lane.encoder, lane.sink, lane.response_id = encoder, sink, ready.head.id
        lane.steering.begin(ready.head.id)
        lane.answer = answer = engine.open(
            ready.plan,
            encoder,
            fault or sink,
            request_id=rid,
            endpoint=PATH,
            received_ns=request.received_ns,
            admitted=ready.admitted,
        )
        if fault is not None:
            fault.answer = answer
        answer.open_early()
        if instant.is_instant(ready.plan):
            await instant.deliver(engine, answer, sink, self._until_gone)
        else:
            engine.start_answer(answer, "websocket")
        await done.wait()
        if fault is not None:
            fault.close()
        lane.answer = None
        successor, pending = lane.steering.after(request.frame, lane.stream_id)
        if pending is not None:
            self._sender.post({"type": "websocket.send", "text": pending.decode()})
        if successor is not None:
            lane.waiting.appendleft(_Request(successor, engine.clock.now_ns()))

    def _tell_standing(self, ready: Ready, stream_id: str | None) -> None:
        """What the key has spent: over HTTP the headers say it."""
        standing = ready.admitted.standing
        if standing is not None:
            event = codex_event(standing, self._caller.plan_type, stream_id)
            if event is not None:
                self._sender.post({"type": "websocket.send", "text": event.decode()})

    def _drop(self) -> None:
        """End the connection without a word, as far as the server lets it be done."""
        if not close_connection(self._send):
            self._sender.post({"type": "websocket.close", "code": _BROKEN, "reason": ""})

    async def _until_gone(self) -> dict[str, str]:
        await self._left.wait()
        return {"type": "http.disconnect"}

    def _refuse(self, error: ApiError, stream_id: str | None) -> None:
        frame = error_frame(error, stream_id).removesuffix(SEPARATOR)
        self._sender.post({"type": "websocket.send", "text": frame.decode()})

    # -- the connection ------------------------------------------------------------------------

    def _resume(self) -> None:
        """The reader has caught up: every lane may write again."""
        for lane in self._lanes.values():
            if lane.answer is not None and not lane.answer.over:
                self._engine.pacer.resume(lane.answer)

    def _expire(self) -> None:
        self._expired = True
        self._expire_if_idle()

    def _expire_if_idle(self) -> None:
        """Say goodbye once the connection's time is over and nothing is under way."""
        if not self._expired or self._gone:
            return
        if any(lane.task is not None for lane in self._lanes.values()):
            return
        self._gone = True
        self._refuse(expired(self._engine.settings.websocket_limit_s), None)
        self._sender.post({"type": "websocket.close", "code": _GOING_AWAY, "reason": "time limit"})

    def _leave(self) -> None:
        """End all that the client no longer waits for."""
        self._left.set()
        for lane in self._lanes.values():
            if lane.answer is not None and not lane.answer.over:
                # A server that stops closes its WebSockets itself.
                cause: AbortCause = "shutdown" if self._engine.draining else "client_gone"
                self._engine.pacer.abort(lane.answer, cause)
            lane.done.set()
