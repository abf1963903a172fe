"""What the server tells of itself: requests on record, profiles, load, health."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from paceline.runtime.tokenizer import Tokenizer
from tests.live import (
    CHAT,
    COMPLETIONS,
    PROFILES,
    Server,
    Wire,
    chat,
    compl,
    contents,
    finishes,
    request_bytes,
    wait_until,
)

# -- a request's record ------------------------------------------------------------------------


def adds_up(record: dict[str, Any]) -> None:
    split = record["split_ms"]
    parts = [split[key] for key in ("overhead", "queue", "prefill", "decode", "lateness")]
    assert split["total"] == pytest.approx(sum(parts), abs=1e-3)
    assert all(part >= 0 for part in parts)
    times = record["times_ms"]
    order = ("received", "engine_arrived", "admitted", "first_token_due", "last_token_due", "ended")
    assert [times[key] for key in order] == sorted(times[key] for key in order)
    assert times["ended"] == split["total"]


@pytest.mark.parametrize("model", ["quick", "instant", "flat-500", "uneven", "reader"])
@pytest.mark.parametrize("n", [1, 2])
def test_every_chunk_of_a_stream_is_on_record(
    server: Server, tokenizer: Tokenizer, model: str, n: int
) -> None:
    body = chat(model, stream=True, max_tokens=20, n=n, seed=4)
    answer = server.post(CHAT, body, {"X-Request-Id": f"record-{model}-{n}"})
    record = server.record(f"record-{model}-{n}")
    assert record["object"] == "paceline.request"
    assert record["endpoint"] == CHAT
    assert (record["model"], record["profile"], record["stream"]) == (model, model, True)
    assert record["state"] == "finished"
    assert record["output_tokens"] == sum(
        chunk["tokens"] for choice in record["choices"] for chunk in choice["chunks"]
    )
    assert [choice["index"] for choice in record["choices"]] == list(range(n))
    for choice in record["choices"]:
        assert choice["chunks_not_kept"] == 0
        ids = [token for chunk in choice["chunks"] for token in chunk["token_ids"]]
        assert tokenizer.decode(ids) == contents(answer.events, choice["index"])
        for chunk in choice["chunks"]:
            assert len(chunk["token_ids"]) == chunk["tokens"] >= 1
            assert chunk["left_ms"] >= chunk["due_ms"]
        dues = [chunk["due_ms"] for chunk in choice["chunks"]]
        lefts = [chunk["left_ms"] for chunk in choice["chunks"]]
        assert dues == sorted(dues)
        assert lefts == sorted(lefts)
        assert lefts[-1] <= record["times_ms"]["last_token_left"]
    adds_up(record)


@pytest.mark.parametrize("model", ["quick", "instant", "flat-500", "uneven"])
def test_an_answer_in_one_piece_has_a_record_too(
    server: Server, tokenizer: Tokenizer, model: str
) -> None:
    answer = server.post(COMPLETIONS, compl(model, max_tokens=9, ignore_eos=True))
    record = server.record(answer.header("x-request-id") or "")
    (choice,) = record["choices"]
    (chunk,) = choice["chunks"]
    assert chunk["tokens"] == 9
    assert tokenizer.decode(chunk["token_ids"]) == answer.object["choices"][0]["text"]
    assert record["finish_reason"] == "length"
    adds_up(record)


def test_a_record_can_be_read_while_its_request_runs(server: Server) -> None:
    with Wire(server) as wire:
        wire.send("POST", CHAT, chat("slow", stream=True, max_tokens=100), {"X-Request-Id": "now"})
        head = wire.head()
        wire.chunk(head)
        record = server.record("now")
        assert record["state"] == "running"
        assert record["times_ms"]["ended"] is None
        assert record["choices"][0]["chunks"]
        listed = server.ask("GET", "/paceline/requests?limit=5").object["data"]
        assert listed[0]["id"] == "now"
    wait_until(lambda: server.record("now")["state"] == "aborted", "the record is closed")


def test_ids_with_slashes_are_found(server: Server) -> None:
    server.post(CHAT, chat("instant"), {"X-Request-Id": "run/7/turn/3"})
    assert server.record("run/7/turn/3")["id"] == "run/7/turn/3"


def test_an_unknown_request(server: Server) -> None:
    answer = server.ask("GET", "/paceline/requests/never-was")
    assert answer.status == 404
    assert answer.error["code"] == "request_not_found"


def test_the_latest_requests_newest_first(server: Server) -> None:
    for number in range(5):
        server.post(CHAT, chat("instant"), {"X-Request-Id": f"latest-{number}"})
    found = server.ask("GET", "/paceline/requests?limit=3").object
    assert found["object"] == "list"
    assert [r["id"] for r in found["data"]] == ["latest-4", "latest-3", "latest-2"]
    assert all("choices" not in record for record in found["data"])


def test_only_so_many_are_kept() -> None:
    with Server("--timing-requests", "2") as server:
        for number in range(3):
            server.post(CHAT, chat("instant"), {"X-Request-Id": f"{number}"})
        found = server.ask("GET", "/paceline/requests").object["data"]
        assert [record["id"] for record in found] == ["2", "1"]
        assert server.ask("GET", "/paceline/requests/0").status == 404


# -- profiles ----------------------------------------------------------------------------------


def test_profiles_with_the_source_of_each_number(server: Server) -> None:
    found = server.ask("GET", "/paceline/profiles").object
    profiles = {profile["name"]: profile for profile in found["data"]}
    assert {"quick", "gpu-40", "wafer-750", "spark-1000"} <= set(profiles)
    for profile in profiles.values():
        assert profile["numbers"]
    numbers = {row["key"]: row for row in profiles["quick"]["numbers"]}
    assert numbers["engine.step_ms"]["value"] == 1.0
    assert numbers["engine.step_ms"]["class"] == "hypothesis"


@pytest.fixture
def changing(tmp_path: Path) -> Iterator[tuple[Server, Path]]:
    """A server with a profile of its own, in a file that a test may change."""
    file = tmp_path / "mine.toml"
    text = (PROFILES / "slow.toml").read_text().replace('"slow"', '"mine"')
    file.write_text(text.replace("step_ms = 50.0", "step_ms = 20.0"))
    with Server(profiles=[file]) as server:
        yield server, file


@pytest.mark.realtime
@pytest.mark.parametrize("how", ["route", "signal"])
def test_reloading_lets_streams_go_on(changing: tuple[Server, Path], how: str) -> None:
    """The stream that runs keeps its 20 ms a token; the next one has the new file's 5 ms."""
    server, file = changing
    body = chat("mine", stream=True, max_tokens=40, ignore_eos=True)
    with Wire(server) as wire:
        wire.send("POST", CHAT, body, {"X-Request-Id": "old"})
        head = wire.head()
        wire.chunk(head)
        file.write_text(file.read_text().replace("step_ms = 20.0", "step_ms = 5.0"))
        if how == "route":
            answer = server.post("/paceline/reload", {})
            assert answer.status == 200
            assert answer.object["status"] == "reloaded"
        else:
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: step_ms(server) == 5.0, "the file was read again")
        assert server.metrics().running("mine") == 1
        fresh = server.post(CHAT, body, {"X-Request-Id": "new"})
        assert server.metrics().running("mine") == 1
        while wire.chunk(head):
            pass
    assert finishes(head.events) == finishes(fresh.events) == [(0, "length")]
    assert server.record("old")["split_ms"]["decode"] == pytest.approx(39 * 20.0, abs=0.01)
    assert server.record("new")["split_ms"]["decode"] == pytest.approx(39 * 5.0, abs=0.01)
    server.wait_idle("mine")


def step_ms(server: Server) -> float:
    found = server.ask("GET", "/paceline/profiles").object["data"]
    (mine,) = [profile for profile in found if profile["name"] == "mine"]
    (row,) = [row for row in mine["numbers"] if row["key"] == "engine.step_ms"]
    return float(row["value"])


def test_a_broken_file_changes_nothing(changing: tuple[Server, Path]) -> None:
    server, file = changing
    good = file.read_text()
    file.write_text(good.replace("step_ms = 20.0", "step_ms = -1.0"))
    answer = server.post("/paceline/reload", {})
    assert answer.status == 400
    assert answer.error["code"] == "invalid_profile"
    assert "engine.step_ms" in answer.error["message"]
    assert step_ms(server) == 20.0
    assert server.post(CHAT, chat("mine", max_tokens=2)).status == 200
    file.write_text(good)
    assert server.post("/paceline/reload", {}).status == 200


def test_a_profile_that_is_gone_is_gone(tmp_path: Path) -> None:
    for name in ("a", "b"):
        text = (PROFILES / "quick.toml").read_text().replace('"quick"', f'"{name}"')
        (tmp_path / f"{name}.toml").write_text(text)
    with Server(profiles=[tmp_path]) as server:
        assert server.post(CHAT, chat("b")).status == 200
        (tmp_path / "b.toml").unlink()
        assert server.post("/paceline/reload", {}).status == 200
        assert server.post(CHAT, chat("b")).status == 404
        assert server.post(CHAT, chat("a")).status == 200
        after = server.metrics()
        assert after.value("vllm:request_success_total", model_name="b") == 1
        assert "b" not in {
            sample.labels["model_name"]
            for sample in after.families["vllm:num_requests_running"].samples
        }


# -- load --------------------------------------------------------------------------------------


@pytest.mark.realtime
def test_live_tells_load_and_rates(server: Server) -> None:
    with Wire(server) as wire, Wire(server) as watching:
        wire.send("POST", CHAT, chat("flat-100", stream=True, max_tokens=2000))
        wire.chunk(wire.head())
        watching.send("GET", "/paceline/live")
        head = watching.head()
        assert head.status == 200
        assert (head.header("content-type") or "").startswith("text/event-stream")
        for _ in range(2):
            event = watching.chunk(head)
            assert event.startswith(b"data: {")
            now = json.loads(event.removeprefix(b"data: "))["profiles"]["flat-100"]
            assert now["running"] == 1
            assert now["waiting"] == 0
            assert 60 < now["tokens_per_second"] < 140


@pytest.mark.realtime
def test_live_doesn_t_keep_a_server_from_stopping() -> None:
    with Server("--grace-s", "30") as server, Wire(server) as watching:
        watching.send("GET", "/paceline/live")
        head = watching.head()
        assert watching.chunk(head)
        server.process.send_signal(signal.SIGTERM)
        while watching.chunk(head):
            pass
        # Its end needs no ceremony: a page that wants to know more connects again.
        assert server.process.wait(10.0) in {0, -signal.SIGTERM}


# -- health ------------------------------------------------------------------------------------


def test_health_ready_and_version(server: Server) -> None:
    assert server.ask("GET", "/health").object == {"status": "ok"}
    ready = server.ask("GET", "/ready").object
    assert ready["status"] == "ready"
    assert ready["profiles"] >= 6
    assert server.ask("GET", "/version").object == {"version": version("paceline")}


def test_a_server_that_is_stopping_takes_no_more() -> None:
    """Its door is shut at once; a request whose body was still on its way is told why."""
    request = request_bytes("POST", CHAT, chat("quick"))
    with Server("--grace-s", "2") as server, Wire(server) as running, Wire(server) as late:
        running.send("POST", CHAT, chat("slow", stream=True, max_tokens=25, ignore_eos=True))
        running.chunk(running.head())
        late.socket.sendall(request[:-5])
        wait_until(lambda: server.ask("GET", "/ready").status == 200, "the head was read")
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: refuses(server), "no connection is taken")
        late.socket.sendall(request[-5:])
        answer = late.read()
    assert answer.status == 503
    assert answer.error["code"] == "server_shutting_down"


def refuses(server: Server) -> bool:
    try:
        Wire(server).close()
    except ConnectionRefusedError:
        return True
    return False
