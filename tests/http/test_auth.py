"""Who is let in, and what the others are told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import signal
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from paceline.http.auth import CALLER, Auth, caller_of, key_of, masked
from paceline.http.front import Front
from paceline.http.respond import public_headers
from paceline.runtime.caller import NOBODY, Caller, key_id
from paceline.runtime.keys import Keys
from tests.http.broken import create, receive
from tests.live import CHAT, Server, chat, wait_until

MESSAGES = "/v1/messages"
RESPONSES = "/v1/responses"
ADMIN = "sk-admin-" + "a" * 20
TEAM = "sk-paceline-" + "t" * 20
OPEN = ["/health", "/ready", "/version", "/metrics", "/openapi.json", "/docs", "/nope"]


def table(name: str, key: str, lines: str = "") -> str:
    digest = sha256(key.encode()).hexdigest()
    return f'[[keys]]\nname = "{name}"\nsha256 = "{digest}"\n{lines}\n'


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture(scope="module")
def keys_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "keys.toml"
    path.write_text(table("team", TEAM))
    return path


@pytest.fixture(scope="module")
def keyed(keys_file: Path) -> Iterator[Server]:
    """Two keys: a team's in a file, and the operator's in the environment."""
    arguments = ("--keys-file", str(keys_file), "--access-log", "--log-level", "warning")
    with Server(*arguments, environment={"PACELINE_API_KEY": ADMIN}) as running:
        yield running


# -- what a key opens ---------------------------------------------------------------------------


def test_every_route_asks_for_a_key_but_a_few(keyed: Server) -> None:
    found = keyed.ask("GET", "/openapi.json")
    assert found.status == 200
    guarded = 0
    for path, methods in found.object["paths"].items():
        for method in methods:
            answer = keyed.ask(method.upper(), path, {})
            if path.startswith(("/v1/", "/paceline/")):
                guarded += 1
                assert answer.status == 401, (method, path)
            else:
                assert answer.status == 200, (method, path)
    assert guarded > 10
    for path in OPEN:
        assert keyed.ask("GET", path).status in (200, 404)
        assert keyed.ask("GET", path, headers=bearer("wrong")).status in (200, 404)


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/v1/embeddings", RESPONSES])
@pytest.mark.parametrize("method", ["POST", "GET", "PUT"])
def test_token_endpoints_ask_before_they_read(keyed: Server, path: str, method: str) -> None:
    answer = keyed.ask(method, path, b"not even JSON")
    assert answer.status == 401
    assert answer.error == {
        "message": "You didn't provide an API key. Send one in a header: "
        "Authorization: Bearer YOUR_KEY, or x-api-key: YOUR_KEY.",
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }
    assert answer.header("www-authenticate") == 'Bearer realm="paceline"'
    assert answer.header("x-request-id")


@pytest.mark.parametrize(
    "path",
    ["/v1/nope", "/v1/models/", "/v1//models", "/%761/models", "/v1/../health", "/paceline/nope"],
)
def test_no_spelling_of_a_path_gets_by(keyed: Server, path: str) -> None:
    assert keyed.ask("GET", path).status == 401


@pytest.mark.parametrize(
    "headers",
    [
        bearer(TEAM),
        {"authorization": f"bearer {TEAM}"},
        {"Authorization": f"BEARER   {TEAM}  "},
        {"Authorization": TEAM},
        {"x-api-key": TEAM},
        {"api-key": TEAM},
        {"Authorization": "Basic dTpw", "X-Api-Key": TEAM},
        {"Authorization": "Bearer", "x-api-key": TEAM},
        {**bearer(TEAM), "x-api-key": "wrong"},
    ],
)
def test_a_key_comes_in_any_of_three_headers(keyed: Server, headers: dict[str, str]) -> None:
    assert keyed.post(CHAT, chat("instant", max_tokens=1), headers).status == 200


@pytest.mark.parametrize("head", [False, True])
def test_a_wrong_key_is_shown_in_part(keyed: Server, head: bool) -> None:
    wrong = "sk-paceline-" + "w" * 20 + "tail"
    answer = keyed.ask("HEAD" if head else "GET", "/v1/models", headers=bearer(wrong))
    assert answer.status == 401
    expected = 'Bearer realm="paceline", error="invalid_token"'
    assert answer.header("www-authenticate") == expected
    assert answer.header("x-should-retry") == "false"
    if not head:
        assert answer.error["code"] == "invalid_api_key"
        assert answer.error["type"] == "invalid_request_error"
        assert answer.error["message"] == "Incorrect API key provided: sk-pacel****tail."


@pytest.mark.parametrize("headers", [{}, {"x-api-key": "wrong"}])
def test_messages_say_it_in_anthropic_s_envelope(keyed: Server, headers: dict[str, str]) -> None:
    for method, path, more in (
        ("POST", MESSAGES, {}),
        ("POST", MESSAGES + "/count_tokens", {}),
        ("GET", "/v1/models", {"anthropic-version": "2023-06-01"}),
    ):
        answer = keyed.ask(method, path, {}, {**headers, **more})
        assert answer.status == 401
        assert answer.object["type"] == "error"
        assert answer.object["error"]["type"] == "authentication_error"
        assert answer.object["request_id"] == answer.header("request-id")


def test_a_websocket_is_refused_at_its_upgrade(keyed: Server) -> None:
    url = f"ws://{keyed.host}:{keyed.port}{RESPONSES}"
    for headers in ({}, bearer("wrong-" * 5)):
        with (
            pytest.raises(InvalidStatus) as caught,
            connect(url, proxy=None, additional_headers=headers),
        ):
            pass
        response = caught.value.response
        assert response.status_code == 401
        assert "Bearer" in response.headers["www-authenticate"]
        error = json.loads(response.body or b"")["error"]
        assert error["type"] == "invalid_request_error"
    with connect(url, proxy=None, additional_headers=bearer(TEAM)) as connection:
        create(connection, model="instant", paceline={"output_tokens": 2})
        assert receive(connection)[-1]["type"] == "response.completed"


def test_a_page_may_ask_whether_it_may_and_read_the_answer(keyed: Server) -> None:
    origin = {"Origin": "http://page.test"}
    asked = {"Access-Control-Request-Method": "POST"}
    asked["Access-Control-Request-Headers"] = "authorization"
    assert keyed.ask("OPTIONS", CHAT, headers={**origin, **asked}).status == 200
    assert keyed.ask("OPTIONS", CHAT, headers=asked).status == 401, "no page asks without origin"
    refused = keyed.post(CHAT, chat("instant"), origin)
    assert refused.status == 401
    assert refused.header("access-control-allow-origin") == "*"


def test_only_an_admin_changes_the_server(keyed: Server) -> None:
    refused = keyed.ask("POST", "/paceline/reload", headers=bearer(TEAM))
    assert refused.status == 403
    assert (refused.error["type"], refused.error["code"]) == ("permission_error", "admin_required")
    assert keyed.ask("GET", "/paceline/profiles", headers=bearer(TEAM)).status == 200
    made = keyed.post(CHAT, chat("instant", max_tokens=1), bearer(TEAM))
    mine = f"/paceline/requests/{made.header('x-request-id')}"
    assert keyed.ask("GET", mine, headers=bearer(TEAM)).status == 200
    assert keyed.ask("GET", "/paceline/requests", headers=bearer(TEAM)).status == 403
    assert keyed.ask("GET", "/paceline/requests", headers=bearer(ADMIN)).status == 200
    assert keyed.ask("POST", "/paceline/reload", headers=bearer(ADMIN)).status == 200


def test_the_metrics_count_the_refused_and_know_no_key(keyed: Server) -> None:
    before = keyed.metrics()
    keyed.post(CHAT, {}, bearer("wrong-key-" * 4))
    keyed.post("/v1/" + "x" * 30, {}, bearer("wrong-key-" * 4))
    text = keyed.ask("GET", "/metrics").text
    assert "x" * 30 not in text
    for secret in ("wrong-key-", TEAM, ADMIN):
        assert secret not in text
    counted = {"endpoint": CHAT, "status": "401"}
    assert keyed.metrics().since(before, "paceline_requests_total", **counted) == 1


# -- real clients -------------------------------------------------------------------------------


def test_the_openai_client_says_what_is_wrong_and_does_not_try_again(keyed: Server) -> None:
    client = keyed.openai(max_retries=3).with_options(api_key="wrong-key")
    with pytest.raises(openai.AuthenticationError) as caught:
        client.models.list()
    assert (caught.value.status_code, caught.value.code) == (401, "invalid_api_key")
    right = client.with_options(api_key=TEAM)
    assert right.models.list().data
    made = right.chat.completions.create(
        model="instant", max_tokens=1, messages=[{"role": "user", "content": "x"}]
    )
    assert made.usage is not None


def test_so_does_anthropic_s(keyed: Server) -> None:
    def made_with(api_key: str | None, auth_token: str | None) -> anthropic.Anthropic:
        return anthropic.Anthropic(
            base_url=keyed.url, max_retries=3, api_key=api_key, auth_token=auth_token
        )

    for how in (("wrong", None), (None, "wrong")):
        with made_with(*how) as client, pytest.raises(anthropic.AuthenticationError) as caught:
            client.messages.create(
                model="instant", max_tokens=1, messages=[{"role": "user", "content": "x"}]
            )
        assert caught.value.status_code == 401
    for how in ((TEAM, None), (None, TEAM)):
        with made_with(*how) as client:
            made = client.messages.create(
                model="instant", max_tokens=1, messages=[{"role": "user", "content": "x"}]
            )
            assert made.usage.output_tokens == 1


# -- reloading ----------------------------------------------------------------------------------


def test_a_new_file_counts_from_its_reload_on(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(table("team", TEAM, "rpm = 5"))
    asked = chat("instant", max_tokens=1)
    with Server("--keys-file", str(path), environment={"PACELINE_API_KEY": ADMIN}) as running:

        def reload() -> Any:
            return running.ask("POST", "/paceline/reload", headers=bearer(ADMIN))

        first = running.post(CHAT, asked, bearer(TEAM))
        assert first.header("x-ratelimit-limit-requests") == "5"
        assert first.header("x-ratelimit-remaining-requests") == "4"
        path.write_text(table("team", TEAM, "rpm = 9") + table("new", "sk-new"))
        assert running.post(CHAT, asked, bearer("sk-new")).status == 401
        assert reload().status == 200
        assert running.post(CHAT, asked, bearer("sk-new")).status == 200
        second = running.post(CHAT, asked, bearer(TEAM))
        assert second.header("x-ratelimit-limit-requests") == "9"
        assert second.header("x-ratelimit-remaining-requests") == "7", "what was used stays used"
        path.write_text(table("team", TEAM, "rpm = -9"))
        refused = reload()
        assert refused.status == 400
        assert refused.error["code"] == "invalid_keys"
        assert "keys[0].rpm: must be a whole number" in refused.error["message"]
        assert running.post(CHAT, asked, bearer("sk-new")).status == 200, "nothing has changed"
        path.write_text(table("new", "sk-newer"))
        running.process.send_signal(signal.SIGHUP)
        wait_until(
            lambda: running.post(CHAT, asked, bearer("sk-newer")).status == 200, "it is reloaded"
        )
        for gone in (TEAM, "sk-new"):
            assert running.post(CHAT, asked, bearer(gone)).status == 401
        assert reload().status == 200, "the operator's key isn't in the file"


def test_a_connection_does_not_outlive_its_key(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(table("team", TEAM, 'plan_type = "plus"\nwindow_5h_credits = 9'))
    with Server("--keys-file", str(path), environment={"PACELINE_API_KEY": ADMIN}) as running:
        url = f"ws://{running.host}:{running.port}{RESPONSES}"
        with connect(url, proxy=None, additional_headers=bearer(TEAM)) as connection:

            def ask() -> list[dict[str, Any]]:
                create(connection, model="instant", paceline={"output_tokens": 2})
                return receive(connection)

            def reload() -> None:
                assert running.ask("POST", "/paceline/reload", headers=bearer(ADMIN)).status == 200

            first = ask()
            assert [event["type"] for event in first[:2]] == [
                "codex.rate_limits",
                "response.created",
            ]
            assert first[0]["plan_type"] == "plus"
            assert first[0]["rate_limits"]["primary"]["window_minutes"] == 300
            path.write_text(table("team", TEAM, "rpm = 1"))
            reload()
            assert ask()[0]["type"] == "response.created", "it has no window any more"
            (limited,) = ask()
            assert (limited["status"], limited["error"]["type"]) == (429, "requests")
            path.write_text("")
            reload()
            (gone,) = ask()
            assert (gone["status"], gone["error"]["code"]) == (401, "invalid_api_key")


def test_a_file_that_can_t_be_used_ends_the_start(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(table("team", TEAM, "rpn = 5"))
    server = Server("--keys-file", str(path))
    assert server.process.wait(20) == 2
    said = server.stop()
    assert said.strip() == f"paceline: {path}: keys[0].rpn: unknown key; did you mean rpm?"


def test_no_log_knows_a_key(keys_file: Path) -> None:
    server = Server(
        *("--keys-file", str(keys_file), "--api-key", ADMIN),
        *("--log-level", "debug", "--access-log"),
    )
    wrong = "sk-wrong-" + secrets.token_hex(20)
    wait_until(server._answers, "the server answers")
    for key in (TEAM, ADMIN, wrong):
        for path in (CHAT, MESSAGES, RESPONSES):
            server.post(path, chat("instant"), bearer(key))
            server.post(path, chat("instant"), {"x-api-key": key})
        url = f"ws://{server.host}:{server.port}{RESPONSES}"
        with (
            contextlib.suppress(InvalidStatus),
            connect(url, proxy=None, additional_headers=bearer(key)) as connection,
        ):
            create(connection, model="instant", paceline={"output_tokens": 2})
            receive(connection)
    said = server.stop()
    assert f"POST {CHAT}" in said
    for key in (TEAM, ADMIN, wrong):
        assert key not in said


# -- an open server -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers", [{}, bearer("any"), {"x-api-key": "\xff"}, {"Authorization": "Basic x"}]
)
def test_an_open_server_lets_anybody_in(server: Server, headers: dict[str, str]) -> None:
    assert server.post(CHAT, chat("instant", max_tokens=1), headers).status == 200


def scope_of(headers: list[tuple[bytes, bytes]], path: str = CHAT) -> dict[str, Any]:
    return {"type": "http", "method": "POST", "path": path, "headers": headers}


def test_callers_are_told_apart_by_their_keys_and_by_nothing_else() -> None:
    auth = Auth(Keys())
    scope = scope_of([(b"authorization", b"Bearer one")])
    assert auth.check(scope) is None
    assert caller_of(scope) == Caller(key_id=key_id(b"one"), admin=True)
    assert public_headers(scope) == {"paceline-key-id": key_id(b"one")}
    nobody = scope_of([(b"paceline-key-id", key_id(b"one").encode()), (b"x-other", b"1")])
    assert public_headers(nobody) == {"x-other": "1"}
    assert auth.check(nobody) is None
    assert caller_of(nobody) is NOBODY
    assert public_headers(nobody) == {"x-other": "1"}, "who they are isn't theirs to say"
    assert caller_of({"headers": []}) == Caller(), "and one that came by no door may do little"


def test_an_application_inside_another_asks_too() -> None:
    scope = {**scope_of([], "/inner/v1/models"), "root_path": "/inner"}
    error = Auth(Keys(None, ["sk"])).check(scope)
    assert error is not None
    assert error.status == 401


# -- anything at all ----------------------------------------------------------------------------

VALUES = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([b"", b" ", b"Bearer", b"Bearer ", b"bearer \xff", b"x" * 100_000]),
    st.text().map(lambda text: b"Bearer " + text.encode()),
    st.just(b"Bearer sk-right"),
)
HEADERS = st.lists(
    st.tuples(st.sampled_from([b"authorization", b"x-api-key", b"api-key", b"cookie"]), VALUES),
    max_size=6,
)


async def _rest(scope: Any, receive: Any, send: Any) -> None:
    del scope, receive
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


@given(HEADERS, st.sampled_from([CHAT, MESSAGES, "/v1/models", "/health"]))
def test_whatever_the_headers_hold_somebody_is_let_in_or_told_no(
    headers: list[tuple[bytes, bytes]], path: str
) -> None:
    keys = Keys(None, ["sk-right"])
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        raise AssertionError("nobody reads a body before the key")

    scope = scope_of(headers, path)
    asyncio.run(Front({}, _rest, auth=Auth(keys))(scope, receive, send))  # type: ignore[arg-type]  # ASGI's own types are wider
    key = key_of(headers)
    right = path == "/health" or key == b"sk-right"
    assert sent[0]["status"] == (200 if right else 401)
    assert json.loads(sent[1]["body"]) if not right else sent[1]["body"] == b"{}"
    assert scope[CALLER].admin is (key == b"sk-right")
    for message in sent:
        for _, value in message.get("headers", ()):
            assert b"\n" not in value


@given(st.binary(min_size=1, max_size=300))
def test_an_error_shows_a_key_s_ends_at_most(key: bytes) -> None:
    shown = masked(key)
    assert shown.isprintable()
    assert shown.isascii()
    assert len(shown) <= 16
    if len(key) < 20:
        assert shown == "****"


def test_headers_on_the_wire_never_break_the_server(keyed: Server) -> None:
    asked = chat("instant", max_tokens=1)
    for value in ("\xe9" * 50, "\x80\xff", "Bearer \t ", "x" * 50_000, "Bearer " + "\xfe" * 5000):
        for name in ("Authorization", "x-api-key", "api-key"):
            answer = keyed.post(CHAT, asked, {name: value})
            assert answer.status in (400, 401), (name, value[:20])
    twice = {"Authorization": f"Bearer {TEAM}\r\nAuthorization: Bearer wrong"}
    assert keyed.post(CHAT, asked, twice).status == 200, "the first counts"
