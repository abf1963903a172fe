from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from paceline.app import App
from paceline.http.sink import Message
from paceline.runtime.clock import ManualClock
from paceline.runtime.settings import Settings
from paceline.testing.server import serve
from tests.recording.rig import BODY, MS, PATH, ask, asked, exchange, keep


async def played(out: str, body: Any = BODY, **settings: Any) -> list[tuple[float, Any]]:
    """What an answer sends at which millisecond of a clock that only moves when told."""
    clock = ManualClock()
    app = App(Settings(replay=out, **settings), clock=clock)
    app.engine.start()
    found: list[tuple[float, Any]] = []
    ended = asyncio.Event()
    requests = [{"type": "http.request", "body": json.dumps(body).encode()}]

    async def receive() -> Message:
        if requests:
            return requests.pop()
        await ended.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        found.append((clock.now_ns() / MS, message.get("body", message.get("status"))))

    scope = {
        "type": "http", "method": "POST", "path": PATH, "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }  # fmt: skip
    task = asyncio.ensure_future(app(scope, receive, send))
    for _ in range(20):
        await asyncio.sleep(0)
    clock.advance(3_600_000 * MS)
    ended.set()
    await task
    app.engine.stop()
    return found


def tape(tmp_path: Path, **fields: Any) -> str:
    parts = [(100.0, b"a"), (103.25, b"b"), (200.0, b"c")]
    return keep(tmp_path, exchange(*parts, request=asked(BODY), end_ns=205 * MS, **fields))


async def test_at_the_recorded_times(tmp_path: Path) -> None:
    found = await played(tape(tmp_path))
    assert found == [(100, 200), (100, b"a"), (103.25, b"b"), (200, b"c"), (205, b"")]


async def test_scaled(tmp_path: Path) -> None:
    found = await played(tape(tmp_path), replay_timing="scaled", replay_speed=2.0)
    assert found == [(50, 200), (50, b"a"), (51.625, b"b"), (100, b"c"), (102.5, b"")]
    found = await played(tape(tmp_path), replay_timing="scaled", replay_speed=0.1)
    assert [at for at, _ in found] == [1000, 1000, 1032.5, 2000, 2050]


async def test_at_a_profiles_pace(tmp_path: Path) -> None:
    words = [
        b'data: {"choices":[{"index":0,"delta":{"content":" hello"}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":" hello hello"}}]}\n\n',
    ]
    flat = {**BODY, "model": "flat-100"}
    taken = exchange((5000.0, words[0]), (9000.0, words[1]), request=asked(flat))
    found = await played(keep(tmp_path, taken), flat, replay_timing="profile")
    times = [at for at, _ in found]
    assert times[1] == times[0]
    assert times[2] - times[1] == pytest.approx(20.0)
    assert times[0] < 1000


def test_a_profiles_pace_takes_a_profile(tmp_path: Path) -> None:
    taken = [exchange((1, b"x"), request=asked(body)) for body in ({"model": "gone"}, {})]
    with serve(
        replay=keep(tmp_path, *taken), replay_timing="profile", accept_any_model=""
    ) as server:
        assert ask(server, {"model": "gone"}).error["code"] == "model_not_found"
        assert ask(server, {}).error["param"] == "model"


@pytest.mark.realtime
def test_the_gaps_of_a_real_stream_are_the_recorded_ones(tmp_path: Path) -> None:
    count, gap = 200, 5.0
    parts = [(20 + gap * i, b"data: %d\n\n" % i) for i in range(count)]
    with serve(replay=keep(tmp_path, exchange(*parts, request=asked(BODY)))) as server:
        begun = time.monotonic()
        answer = ask(server)
    assert [data for _, data in answer.arrivals] == [data for _, data in parts]
    late = [
        at - begun - due / 1000 for (at, _), (due, _) in zip(answer.arrivals, parts, strict=True)
    ]
    # Never early; late by no more than a busy machine is, and not more at the end than before.
    assert min(late) > -0.001
    assert sorted(late)[count // 2] < 0.05
    assert (late[-1] - late[0]) < 0.25


@pytest.mark.realtime
def test_a_fast_clock_plays_faster(tmp_path: Path) -> None:
    parts = [(1000.0 * i, b"x") for i in range(11)]
    with serve(speed=20.0, replay=keep(tmp_path, exchange(*parts, request=asked(BODY)))) as server:
        begun = time.monotonic()
        assert ask(server).body == b"x" * 11
        assert 0.5 <= time.monotonic() - begun < 5
