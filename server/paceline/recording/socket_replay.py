"""Answering a WebSocket's frames from recorded turns, each of their frames at its own time."""

from __future__ import annotations

import json
from collections.abc import Callable

from paceline.http.respond import Receive, Scope
from paceline.http.sink import Message, Send
from paceline.http.socket_parts import error_frame
from paceline.recording.document import WEBSOCKET, Chunk
from paceline.recording.match import Tape, redacted
from paceline.recording.player import Play, Player, Step
from paceline.recording.turns import Turn, stream_of
from paceline.runtime.clock import Clock
from paceline.wire.errors import ApiError
from paceline.wire.responses.events import SEPARATOR


async def replay_socket(
    scope: Scope,
    receive: Receive,
    send: Send,
    *,
    tape: Tape,
    player: Player,
    clock: Clock,
    times: Callable[[Turn], list[int]],
) -> None:
    """Serve one connection; `times` gives a turn's frames their ns after the client's."""
    if (await receive())["type"] != "websocket.connect":
        return
    await send({"type": "websocket.accept"})
    headers = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in scope["headers"]]
    plays: list[Play] = []
    try:
        while (message := await receive())["type"] != "websocket.disconnect":
            now_ns = clock.now_ns()
            text = message.get("text")
            said = message["bytes"] if text is None else text.encode()
            _, frame = redacted(headers, "", said)
            stream = stream_of(frame)
            turn = tape.turns.take(tape.key(WEBSOCKET, scope["path"], "", frame))
            if turn is None:
                error = ApiError(404, tape.miss_turn(frame), code="recording_not_found")
                refusal = error_frame(error, stream).removesuffix(SEPARATOR).decode()
                steps = [Step(now_ns, {"type": "websocket.send", "text": refusal})]
            else:
                steps = [
                    Step(now_ns + at_ns, _message(chunk, turn, stream))
                    for chunk, at_ns in zip(turn.frames, times(turn), strict=True)
                ]
            plays = [play for play in plays if not play.over]
            plays.append(Play(send, steps, _no_end))
            player.start(plays[-1])
    finally:
        for play in plays:
            play.stop()


def _message(chunk: Chunk, turn: Turn, stream: str | None) -> Message:
    """A recorded frame as a message, under the name that this client gave the stream."""
    if chunk.binary:
        return {"type": "websocket.send", "bytes": chunk.data}
    text = chunk.data.decode()
    recorded = stream_of(turn.asked)
    if recorded != stream and recorded is not None and stream_of(chunk.data) == recorded:
        text = json.dumps({**json.loads(text), "stream_id": stream}, ensure_ascii=False)
    return {"type": "websocket.send", "text": text}


def _no_end() -> None:
    """Turns don't end their connection."""
