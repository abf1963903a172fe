from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from openai import OpenAI
from websockets.sync.client import connect

import paceline.testing
from paceline.core.profile import Engine, Output, Profile
from paceline.testing import TestServer, serve
from tests.live import PROFILES

HI: list[Any] = [{"role": "user", "content": "hi"}]


def client(server: TestServer) -> OpenAI:
    return OpenAI(base_url=server.base_url, api_key="secret", max_retries=0, timeout=20)


def say(server: TestServer, model: str = "any", **options: Any) -> Any:
    with client(server) as api:
        made: Any = api.chat.completions.create(model=model, messages=HI, **options)
        return list(made) if options.get("stream") else made


def test_any_model_is_served_at_once_and_the_request_can_be_read() -> None:
    with serve() as server:
        answer = say(server, "gpt-of-tomorrow", max_tokens=5)
        assert answer.model == "gpt-of-tomorrow"
        (request,) = server.requests
        assert (request.method, request.path, request.query) == (
            "POST",
            "/v1/chat/completions",
            "",
        )
        assert request.json == {"model": "gpt-of-tomorrow", "messages": HI, "max_tokens": 5}
        assert request.status == 200
        assert request.headers["content-type"] == "application/json"
        assert "secret" not in str(request)
        assert request.request_id is not None
        record = server.record(request.request_id)
        assert record["output_tokens"] == 5
        assert record["profile"] == "instant"
        assert server.records() == [record]
        with pytest.raises(KeyError):
            server.record("req_nobody")
        server.clear()
        assert server.requests == []


def test_requests_come_in_order_refused_ones_too() -> None:
    with serve() as server:
        say(server, max_tokens=1)
        with pytest.raises(openai.BadRequestError):
            say(server, max_tokens=-1)
        httpx2.get(server.url + "/v1/models?page=2", trust_env=False)
        found = [(r.method, r.path, r.query, r.status) for r in server.requests]
        assert found == [
            ("POST", "/v1/chat/completions", "", 200),
            ("POST", "/v1/chat/completions", "", 400),
            ("GET", "/v1/models", "page=2", 200),
        ]
        with pytest.raises(ValueError, match="Expecting value"):
            _ = server.requests[2].json


@pytest.mark.realtime
def test_speed_runs_the_servers_time_faster_and_the_records_keep_it() -> None:
    with serve("flat-50", speed=10) as server:
        begun = time.monotonic()
        chunks = say(
            server,
            stream=True,
            extra_headers={"x-paceline-ttft-ms": "1000", "x-paceline-output-tokens": "101"},
        )
        took = time.monotonic() - begun
        assert len(chunks) == 103
        (record,) = server.records()
    # 1 s to the first token and 100 gaps of 20 ms, ten times as fast.
    assert 0.29 <= took < 1.5
    assert record["times_ms"]["first_token_due"] == pytest.approx(1000, abs=5)
    assert record["split_ms"]["decode"] == pytest.approx(2000)
    assert record["split_ms"]["total"] < 10_000


@pytest.mark.parametrize("speed", [0.0, -1.0, float("inf")])
def test_speeds_that_are_none(speed: float) -> None:
    with pytest.raises(ValueError, match="speed"), serve("gpu-40", speed=speed):
        pass


@pytest.mark.realtime
def test_instant_takes_all_waiting_away_and_keeps_names_limits_and_tiers() -> None:
    with serve("gpu-40", instant=True) as server:
        begun = time.monotonic()
        say(server, "claude-opus-4-8", max_tokens=3000)
        say(server, "nobody's", max_tokens=3000)
        assert time.monotonic() - begun < 2.0
        with pytest.raises(openai.BadRequestError, match="128000"):
            say(server, "claude-opus-4-8", max_tokens=200_000)
        tier = say(server, "gpt-5.6-sol", service_tier="fast").service_tier
        assert tier == "priority"
        assert [r["profile"] for r in server.records()] == [
            "claude-opus-4-8",
            "gpu-40",
            "gpt-5.6-sol-api-fast",
        ]
        models = httpx2.get(server.base_url + "/models", trust_env=False).json()["data"]
        assert {m["paceline"]["kind"] for m in models} == {"instant"}


def test_a_profile_may_be_a_name_a_file_or_the_thing_itself() -> None:
    mine = Profile(name="mine", title="Mine", engine=Engine(step_ms=0.1), output=Output(2.0, 2.0))
    quick = PROFILES / "quick.toml"
    with serve(mine, profiles=[quick]) as server:
        say(server, "whatever")
        say(server, "quick", max_tokens=1)
        assert [r["profile"] for r in server.records()] == ["mine", "quick"]
    with serve(quick) as server:
        say(server, "whatever", max_tokens=1)
        assert [r["profile"] for r in server.records()] == ["quick"]
    with (
        pytest.raises(ValueError, match="no profile 'gpu-41'; near it are gpu-40"),
        serve("gpu-41"),
    ):
        pass
    with pytest.raises(ValueError, match="No such file"), serve(Path("gone.toml")):
        pass


def test_a_script_says_what_is_answered(tmp_path: Path) -> None:
    script = tmp_path / "hello.toml"
    script.write_text('name = "hello"\n[[turns]]\ntext = "Hello, you."\n', "utf-8")
    for given in (script, str(script)):
        with serve(script=given) as server:
            assert say(server).choices[0].message.content == "Hello, you."
    with serve(script="fix-a-bug") as server:
        assert server.app.engine.scripts is not None
    with pytest.raises(ValueError, match="gone"), serve(script="gone"):
        pass


def test_settings_are_those_of_the_server() -> None:
    with serve(accept_any_model="", tokens_per_chunk=4) as server:
        with pytest.raises(openai.NotFoundError):
            say(server, "nobody's")
        chunks = say(server, "instant", stream=True, max_tokens=8)
        assert len(chunks) == 2 + 2
    with pytest.raises(ValueError, match="warp"), serve(warp=9):
        pass


def test_each_frame_of_a_websocket_is_a_request() -> None:
    frame = {"type": "response.create", "model": "any", "input": "hi", "store": False}
    with serve() as server:
        address = server.base_url.replace("http", "ws") + "/responses"
        headers = {"Authorization": "Bearer secret", "X-Mine": "1"}
        with connect(address, additional_headers=headers, proxy=None) as socket:
            for _ in range(2):
                socket.send(json.dumps(frame))
                while json.loads(socket.recv())["type"] != "response.completed":
                    pass
        assert [(r.method, r.path, r.json) for r in server.requests] == [
            ("WEBSOCKET", "/v1/responses", frame)
        ] * 2
        assert server.requests[0].headers["x-mine"] == "1"
        assert "secret" not in str(server.requests)
        assert len(server.records()) == 2


def test_two_servers_side_by_side_and_no_thread_left_behind() -> None:
    before = threading.active_count()
    with serve() as one, serve() as two:
        assert one.url != two.url
        say(one, max_tokens=1)
        assert len(one.requests) == 1
        assert two.requests == []
    assert threading.active_count() == before
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(one.url + "/health", trust_env=False)


@pytest.mark.realtime
def test_a_stream_under_way_does_not_keep_the_server_from_stopping() -> None:
    with serve("flat-10") as server, client(server) as api:
        asked: Any = {"model": "flat-10", "messages": HI, "stream": True, "max_tokens": 1000}
        stream = iter(api.chat.completions.create(**asked))
        next(stream)
        begun = time.monotonic()
        server.stop()
        assert time.monotonic() - begun < 3.0
        with pytest.raises(openai.APIError):
            list(stream)
        server.stop()
        assert [r["state"] for r in server.records()] == ["aborted"]


def test_the_package_names_what_it_has() -> None:
    assert {"serve", "TestServer", "Received"} == set(paceline.testing.__all__)
    assert paceline.testing.Received.__name__ == "Received"
    with pytest.raises(AttributeError, match="no attribute 'server_of_dreams'"):
        _ = paceline.testing.server_of_dreams
