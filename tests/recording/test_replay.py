from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI, RateLimitError

from paceline.app import App
from paceline.recording.document import Chunk, Exchange
from paceline.recording.files import RecordingError
from paceline.runtime.settings import Settings, SettingsError, load_settings
from paceline.testing.server import serve
from tests.connection import Wire
from tests.live import PATIENCE_S, PROFILES
from tests.recording.rig import BODY, KEY, MS, PATH, Address, ask, asked, exchange, keep, recording

SSE = tuple(f"data: {i} é\n\n".encode() for i in range(5))
CUT = (SSE[0][:9], SSE[0][9:], SSE[1][:3], SSE[1][3:] + SSE[2])


# -- what is answered --------------------------------------------------------------------------


def test_an_answer_is_what_was_recorded_byte_for_byte(tmp_path: Path) -> None:
    taken = exchange(
        *((10.0 * i, part) for i, part in enumerate(CUT)),
        request=asked(BODY),
        headers=(
            ("content-type", "text/event-stream; charset=utf-8"),
            ("x-request-id", "req_recorded"),
            ("date", "Mon, 01 Jan 2024 00:00:00 GMT"),
            ("server", "upstream"),
            ("transfer-encoding", "chunked"),
            ("x-twice", "1"),
            ("x-twice", "2"),
        ),
    )
    with serve(replay=keep(tmp_path, taken)) as server:
        answer = ask(server)
    assert answer.body == b"".join(CUT)
    assert [data for _, data in answer.arrivals] == list(CUT)
    assert answer.header("content-type") == "text/event-stream; charset=utf-8"
    assert answer.header("x-request-id") == "req_recorded"
    assert [value for key, value in answer.headers if key == "x-twice"] == ["1", "2"]
    assert answer.header("server") is None
    assert "2024" not in (answer.header("date") or "")
    assert answer.header("x-paceline-recording") == "00001-post-chat-completions.json"


def test_an_error_comes_back_with_its_headers(tmp_path: Path) -> None:
    error = {"error": {"message": "slow down", "type": "rate_limit_error", "code": "rpm"}}
    taken = exchange(
        (5, json.dumps(error).encode()),
        request=asked(BODY),
        status=429,
        headers=(("content-type", "application/json"), ("retry-after", "7")),
    )
    with (
        serve(replay=keep(tmp_path, taken)) as server,
        OpenAI(base_url=server.base_url, api_key="any", max_retries=0) as client,
        pytest.raises(RateLimitError, match="slow down") as caught,
    ):
        client.chat.completions.create(**BODY)
    assert caught.value.response.headers["retry-after"] == "7"


def test_a_drop_is_a_drop(tmp_path: Path) -> None:
    taken = exchange((1, SSE[0]), request=asked(BODY), end="upstream_dropped", end_ns=20 * MS)
    nothing = exchange(response=None, request=asked({}), end="upstream_dropped", end_ns=20 * MS)
    with serve(replay=keep(tmp_path, taken, nothing)) as server:
        answer = ask(server)
        assert (answer.status, answer.body, answer.complete) == (200, SSE[0], False)
        with Wire(Address(server)) as wire:
            wire.send("POST", PATH, {})
            assert wire.more() == b""


@pytest.mark.parametrize(("status", "headers"), [(204, ()), (304, (("content-length", "9"),))])
def test_an_answer_without_a_body(tmp_path: Path, status: int, headers: Any) -> None:
    taken = exchange(request=asked(BODY), status=status, headers=headers)
    with serve(replay=keep(tmp_path, taken)) as server:
        for _ in range(2):
            with Wire(Address(server)) as wire:
                wire.send("POST", PATH, BODY)
                assert wire.read(no_body=True).status == status


def test_several_recordings_answer_in_turn_and_clients_share_the_turn(tmp_path: Path) -> None:
    taken = [exchange((0, b"%d" % i), request=asked(BODY)) for i in range(3)]
    with serve(replay=keep(tmp_path, *taken)) as server:
        assert [ask(server).body for _ in range(4)] == [b"0", b"1", b"2", b"0"]


def test_in_order_whatever_is_asked(tmp_path: Path) -> None:
    taken = [exchange((0, b"%d" % i), request=asked({"n": i})) for i in range(2)]
    with serve(replay=keep(tmp_path, *taken), replay_match="order") as server:
        assert ask(server, {"anything": True}).body == b"0"
        assert ask(server, {}, "/v1/responses").body == b"1"


# -- what isn't on tape ------------------------------------------------------------------------


def test_the_rest_is_made_up_or_is_an_error(tmp_path: Path) -> None:
    other = {**BODY, "messages": [{"role": "user", "content": "else"}], "max_tokens": 3}
    out = keep(tmp_path, exchange((0, b"taped"), request=asked(BODY)))
    with serve(replay=out) as server:
        assert ask(server).body == b"taped"
        assert ask(server, other).object["usage"]["completion_tokens"] == 3
        assert ask(server, {}).status == 400
    with serve(replay=out, replay_miss="error") as server:
        answer = ask(server, other)
        assert answer.status == 404
        assert answer.error["code"] == "recording_not_found"
        assert "No recording of POST /chat/completions" in answer.error["message"]
        assert "differs in max_tokens, messages[0]." in answer.error["message"]
        for path in ("/ready", "/metrics", "/paceline/profiles", "/version"):
            with Wire(Address(server)) as wire:
                wire.send("GET", path)
                assert wire.read().status == 200


def test_web_pages_may_ask(tmp_path: Path) -> None:
    out = keep(tmp_path, exchange((0, b"taped"), request=asked(BODY)))
    with serve(replay=out, replay_miss="error") as server:
        answer = ask(server, Origin="https://page.test")
        assert answer.body == b"taped"
        assert answer.header("access-control-allow-origin") == "*"
        with Wire(Address(server)) as wire:
            wire.send(
                "OPTIONS",
                PATH,
                None,
                {"Origin": "https://page.test", "Access-Control-Request-Method": "POST"},
            )
            assert wire.read().status == 200


def test_a_body_that_is_too_large_is_refused(tmp_path: Path) -> None:
    out = keep(tmp_path, exchange((0, b"taped"), request=asked(BODY)))
    with serve(replay=out, max_body_bytes=1024) as server:
        assert ask(server, {"x": "y" * 2000}).status == 413


def test_a_large_body_finds_its_recording(tmp_path: Path) -> None:
    large = {"input": "word " * 100_000}
    with serve(replay=keep(tmp_path, exchange((0, b"ok"), request=asked(large)))) as server:
        assert ask(server, large).body == b"ok"


def test_a_socket_is_refused_or_made_up(tmp_path: Path) -> None:
    out = keep(tmp_path, exchange((0, b"taped"), request=asked(BODY)))
    upgrade = {
        "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }  # fmt: skip
    for miss, status in (("error", 426), ("synthetic", 101)):
        with serve(replay=out, replay_miss=miss) as server, Wire(Address(server)) as wire:
            wire.send("GET", "/v1/responses", None, upgrade)
            assert wire.head().status == status


@pytest.mark.parametrize("made", [[], [exchange((0, b"x"), end="client_left")]])
def test_a_tape_without_answers_is_refused_at_start(tmp_path: Path, made: list[Exchange]) -> None:
    with pytest.raises(RecordingError, match=r"no recorded exchange|recorded to its end"):
        App(Settings(replay=keep(tmp_path, *made)))


def test_a_speed_that_would_do_nothing_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"--replay-speed: .*takes the timing 'scaled'"):
        load_settings({"replay_speed": 2.0})
    assert load_settings({"replay_speed": 2.0, "replay_timing": "scaled"}).replay_speed == 2.0


# -- readers -----------------------------------------------------------------------------------


def test_streams_side_by_side(tmp_path: Path) -> None:
    bodies = [{"model": "m", "n": i} for i in range(20)]
    taken = [
        exchange(*((5.0 * j, b"%d-%d\n" % (i, j)) for j in range(20)), request=asked(body))
        for i, body in enumerate(bodies)
    ]
    with serve(replay=keep(tmp_path, *taken)) as server:
        found: dict[int, bytes] = {}

        def one(i: int) -> None:
            found[i] = ask(server, bodies[i]).body

        threads = [threading.Thread(target=one, args=(i,)) for i in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert found == {i: each.body for i, each in enumerate(taken)}


def test_a_client_that_leaves_ends_the_play(tmp_path: Path) -> None:
    taken = exchange(*((20.0 * i, b"x") for i in range(5000)), request=asked(BODY))
    with serve(replay=keep(tmp_path, taken)) as server:
        with Wire(Address(server)) as wire:
            wire.send("POST", PATH, BODY)
            wire.until(b"x")
            replay = server.app._replay
            assert replay is not None
            assert len(replay._plays) == 1
        until = time.monotonic() + PATIENCE_S
        while replay._plays and time.monotonic() < until:
            time.sleep(0.01)
        assert not replay._plays


def test_a_slow_reader_gets_it_all_and_nothing_piles_up(tmp_path: Path) -> None:
    piece = "y" * 65536
    taken = exchange(
        request=asked(BODY),
        chunks=tuple(Chunk(i * MS, piece.encode()) for i in range(300)),
        end_ns=300 * MS,
    )
    with (
        serve(replay=keep(tmp_path / "t.jsonl", taken)) as server,
        Wire(Address(server), receive_buffer=4096) as wire,
    ):
        wire.send("POST", PATH, BODY)
        wire.until(b"\r\n\r\n")
        time.sleep(0.5)
        replay = server.app._replay
        assert replay is not None
        (play,) = replay._plays
        assert play.sender.blocked
        assert len(play.sender._waiting) <= 1
        size = 0
        while b"0\r\n\r\n" not in (data := wire.more()):
            size += data.count(b"y")
        assert size + data.count(b"y") == 300 * 65536


def test_the_end_of_the_server_is_the_end_of_the_play(tmp_path: Path) -> None:
    taken = exchange(*((20.0 * i, b"x") for i in range(5000)), request=asked(BODY))
    begun_s = time.monotonic()
    with serve(replay=keep(tmp_path, taken)) as server:
        wire = Wire(Address(server))
        wire.send("POST", PATH, BODY)
        wire.until(b"x")
    while wire.more():
        pass
    wire.close()
    assert time.monotonic() - begun_s < 50, "played to its end it takes 100 s"


# -- both --------------------------------------------------------------------------------------


def told(base_url: str) -> list[Any]:
    """What the real client gets for a few requests, ids and times included."""
    found: list[Any] = []
    with OpenAI(base_url=base_url, api_key=KEY, max_retries=0) as client:
        stream = client.chat.completions.create(
            model="quick",
            messages=[{"role": "user", "content": "tell me, é"}],
            max_tokens=40,
            stream=True,
            stream_options={"include_usage": True},
        )
        found += [event.model_dump() for event in stream]
        events = client.responses.create(
            model="quick", input="tell me", max_output_tokens=10, stream=True
        )
        found += [event.model_dump() for event in events]
        whole = client.responses.create(model="quick", input="once", max_output_tokens=5)
        found += [whole.model_dump(), whole.output_text]
        found += [client.embeddings.create(model="quick", input=["a"]).model_dump()]
        found += [[model.id for model in client.models.list()]]
        with pytest.raises(Exception, match="does not exist") as caught:
            client.chat.completions.create(
                model="gone", messages=[{"role": "user", "content": "x"}]
            )
        found.append(str(caught.value))
    return found


def test_the_real_client_gets_the_same_from_the_tape(tmp_path: Path) -> None:
    with (
        serve("instant", profiles=[PROFILES / "quick.toml"], accept_any_model="") as real,
        recording(real.base_url, tmp_path) as rec,
    ):
        live = told(rec.base_url)
        rec.kept(6)
        assert KEY not in rec.text()
    with serve(replay=str(tmp_path), replay_miss="error") as server:
        assert told(server.base_url) == live


def test_keys_are_asked_for_here_too(tmp_path: Path) -> None:
    out = keep(tmp_path, exchange((0, b"taped"), request=asked(BODY)))
    with serve(replay=out, api_key=("sk-let-me-in",)) as server:
        assert ask(server).status == 401
        assert ask(server, Authorization="Bearer sk-let-me-in").body == b"taped"
