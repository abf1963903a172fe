"""Calls by the real SDKs: chat, Responses over HTTP and WebSocket, and Messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from time import perf_counter
from typing import Any

import anthropic
import httpx2
import openai
from openai.resources.responses.responses import AsyncResponsesConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from paceline.client.stream import BaseUrl
from paceline_loadtest.caller import Ask, Reply
from paceline_loadtest.endpoint import read_headers, root_of
from paceline_loadtest.errors import body_text, error_text, os_text
from paceline_loadtest.lean.marks import RESPONSE_ENDS, Marks, marks_of
from paceline_loadtest.model import Call
from paceline_loadtest.retries import Retries, wait_again
from paceline_loadtest.sdk.tap import Tap, TappedTransport, current

_OWN_FIELDS = frozenset({"paceline", "speed"})
"""Fields that the SDKs have no argument for."""

_CLOSING_S = 1.0
"""How long a WebSocket may take to close."""

_NO_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
"""A cap would queue calls where nobody sees it."""


class SdkClient:
    """A client of one server. See `Caller`.

    The SDKs retry by themselves, as often as `retries` says, and wait as they are told; over a
    WebSocket, where they don't, this client does it.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        retries: Retries | None = None,
        idle_timeout_s: float = 120.0,
        connect_timeout_s: float = 10.0,
    ) -> None:
        base = BaseUrl.parse(base_url)
        self._retries = retries or Retries()
        self._idle_timeout_s = idle_timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._http = httpx2.AsyncClient(
            transport=TappedTransport(httpx2.AsyncHTTPTransport(limits=_NO_LIMITS)),
            timeout=httpx2.Timeout(idle_timeout_s, connect=connect_timeout_s, pool=None),
            # What is compressed could not be read where it comes in.
            headers={"Accept-Encoding": "identity"},
            follow_redirects=True,
        )
        self._openai = openai.AsyncOpenAI(
            base_url=str(base),
            api_key=api_key,
            max_retries=self._retries.most,
            http_client=self._http,
        )
        self._anthropic = anthropic.AsyncAnthropic(
            base_url=str(root_of(base)),
            api_key=api_key,
            max_retries=self._retries.most,
            http_client=self._http,
        )
        self._sockets: dict[str, AsyncResponsesConnection] = {}

    async def warm(self, count: int) -> None:
        """The SDKs open connections as they are needed."""

    async def call(self, ask: Ask, call: Call) -> Reply:
        """See `Caller`."""
        if ask.dialect == "responses-websocket":
            return await self._socket_call(ask, call)
        tap = Tap(ask, call)
        token = current.set(tap)
        try:
            answer = await self._create(ask)
            if ask.stream:
                async for _ in answer:
                    pass
        except (openai.APIError, anthropic.APIError, httpx2.HTTPError) as error:
            return tap.finish(perf_counter(), _words(error))
        except Exception as error:
            # Whatever an SDK can't cope with has failed, and ends nobody else's call.
            return tap.finish(perf_counter(), f"the SDK can't read the answer: {error!r}")
        finally:
            current.reset(token)
        return tap.finish(perf_counter())

    async def end_thread(self, thread: str) -> None:
        """See `Caller`."""
        socket = self._sockets.pop(thread, None)
        if socket is not None:
            try:
                async with asyncio.timeout(_CLOSING_S):
                    await socket.close()
            except TimeoutError:
                _abandon(socket)

    async def aclose(self) -> None:
        """See `Caller`."""
        for thread in list(self._sockets):
            await self.end_thread(thread)
        await self._http.aclose()

    async def _create(self, ask: Ask) -> AsyncIterator[Any]:
        body: dict[str, Any] = {k: v for k, v in ask.body.items() if k not in _OWN_FIELDS}
        body["extra_body"] = {k: v for k, v in ask.body.items() if k in _OWN_FIELDS}
        body["extra_headers"] = dict(ask.headers)
        create: Any = self._openai.chat.completions.create
        if ask.dialect == "responses":
            create = self._openai.responses.create
        elif ask.dialect == "messages":
            create = self._anthropic.messages.create
        answer: AsyncIterator[Any] = await create(**body)
        return answer

    # -- WebSocket -------------------------------------------------------------------------------

    async def _socket_call(self, ask: Ask, call: Call) -> Reply:
        while True:
            marks = marks_of(ask.dialect, call)
            headers = await self._socket_attempt(ask, marks)
            wait_s = None
            if call.error is not None and call.first_at is None:
                wait_s = self._retries.wait_s(call.retries, call.status, headers)
            if wait_s is None:
                if call.error is None:
                    call.status = 200
                return marks.finish()
            await wait_again(call, wait_s)

    async def _socket_attempt(self, ask: Ask, marks: Marks) -> dict[str, str]:
        call = marks.call
        headers: dict[str, str] = {}
        try:
            socket = self._sockets.get(ask.thread)
            if socket is None:
                async with asyncio.timeout(self._connect_timeout_s):
                    manager = self._openai.responses.connect(extra_headers=dict(ask.headers))
                    socket = self._sockets[ask.thread] = await manager.enter()
            frame: Any = {"type": "response.create", **ask.body}
            if call.sent_at is None:
                call.sent_at = perf_counter()
            await socket.send(frame)
            while not marks.ended:
                async with asyncio.timeout(self._idle_timeout_s):
                    data = await socket.recv_bytes()
                at = perf_counter()
                if call.headers_at is None:
                    call.headers_at = at
                marks.event(data, at)
                event: Any = socket.parse_event(data)
                if call.error is not None and event.type not in RESPONSE_ENDS:
                    # The rest of its response may follow, and is not the next one's.
                    _abandon(self._sockets.pop(ask.thread, None))
                elif event.type == "error":
                    call.status = getattr(event, "status", None)
                    told = getattr(event, "headers", None) or {}
                    headers = {str(k).lower(): str(v) for k, v in dict(told).items()}
            response = getattr(getattr(socket, "_connection", None), "response", None)
            if response is not None:
                read_headers(call, {k.lower(): v for k, v in response.headers.raw_items()})
                # One id for all that a connection carries tells no request from another.
                call.request_id = None
        except asyncio.CancelledError:
            _abandon(self._sockets.pop(ask.thread, None))
            raise
        except (WebSocketException, OSError, openai.OpenAIError) as error:
            marks.fail(_socket_words(error, self._idle_timeout_s))
            _abandon(self._sockets.pop(ask.thread, None))
            if isinstance(error, InvalidStatus):
                call.status = error.response.status_code
                headers = {k.lower(): v for k, v in error.response.headers.raw_items()}
        except Exception as error:
            # Whatever the SDK can't cope with has failed, and ends nobody else's call.
            marks.fail(f"the SDK can't read the answer: {error!r}")
            _abandon(self._sockets.pop(ask.thread, None))
        call.end_at = perf_counter()
        return headers


def _abandon(socket: AsyncResponsesConnection | None) -> None:
    """Break a connection off, without the ceremony that the other end would have to take part in.

    The SDK has no way to; its connection is one of the package `websockets`.
    """
    transport = getattr(getattr(socket, "_connection", None), "transport", None)
    if transport is not None:
        transport.abort()


def _words(error: Exception) -> str:
    """What an SDK's error says."""
    match error:
        case openai.APIStatusError() | anthropic.APIStatusError():
            body = error.body
            text = error_text(body) if isinstance(body, dict) else str(body or error.message)
            return f"{error.status_code}: {text}"
        case openai.APITimeoutError() | anthropic.APITimeoutError() | httpx2.TimeoutException():
            return "nothing came in time"
        case openai.APIConnectionError() | anthropic.APIConnectionError():
            cause = error.__cause__
            return f"the connection broke off: {os_text(cause) if cause else error.message}"
        case httpx2.HTTPError():
            return f"the connection broke off: {os_text(error)}"
        case _:
            return str(error)


def _socket_words(error: Exception, idle_timeout_s: float) -> str:
    match error:
        case TimeoutError():
            return f"nothing came for {idle_timeout_s:g} s"
        case InvalidStatus():
            said = body_text(bytes(error.response.body or b"")) or "the upgrade was refused"
            return f"{error.response.status_code}: {said}"
        case ConnectionClosed():
            return f"the server closed the connection: {error}"
        case _:
            return os_text(error)
