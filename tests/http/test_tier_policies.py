"""Tiers as OpenAI's own client meets them: its key's default, what it may not use, what is full."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from websockets.sync.client import connect

from paceline.core.profile import Engine, Overhead, Profile
from tests.http.broken import DIALECTS, MESSAGES, RESPONSES, body, create, receive
from tests.http.site import Site, site
from tests.live import CHAT, PATIENCE_S, Wire, wait_until

SLOTS = 2
WAFER = Profile(
    name="duo-wafer",
    title="two hard slots",
    engine=Engine(step_ms=2.0, max_num_seqs=SLOTS),
    overhead=Overhead(api_ms_p50=30.0, api_ms_p90=30.0),
)
DUO = Profile(
    name="duo",
    title="a standard tier, and an ultrafast one",
    engine=Engine(step_ms=4.0),
    tiers={"ultrafast": "duo-wafer", "fast": "duo-wafer"},
)
KEYS = {
    "open": "",
    "fast-by-default": 'default_tier = "ultrafast"',
    "plain": "tiers = []",
    "strict": 'tiers = []\nwhen_not_entitled = "refuse"',
    "waits": 'when_full = "queue"',
    "refused-when-full": 'when_full = "refuse"',
    "default-when-full": 'when_full = "default"',
    "small-budget": "budget_usd = 0.001",
    "plan": 'plan_type = "plus"\nwindow_5h_credits = 80',
}


def keys_file(folder: Path) -> Path:
    path = folder / "keys.toml"
    tables = [
        f'[[keys]]\nname = "{name}"\nsha256 = "{sha256(name.encode()).hexdigest()}"\n{more}\n'
        for name, more in KEYS.items()
    ]
    path.write_text("\n".join(tables), "utf-8")
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    keys = keys_file(tmp_path_factory.mktemp("keys"))
    with site(profiles=[DUO, WAFER], keys_file=keys, price_date="2026-09-01") as running:
        yield running


@pytest.fixture
def client(server: Site) -> Iterator[Callable[..., OpenAI]]:
    made: list[OpenAI] = []

    def of(key: str, **options: Any) -> OpenAI:
        options = {"max_retries": 0, "timeout": PATIENCE_S, **options}
        made.append(
            OpenAI(base_url=f"http://{server.host}:{server.port}/v1", api_key=key, **options)
        )
        return made[-1]

    yield of
    for each in made:
        each.close()


def ask(client: OpenAI, tier: Any = openai.omit, model: str = "duo", tokens: int = 5) -> Any:
    return client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "hi"}],
        service_tier=tier,
        extra_body={"paceline": {"output_tokens": tokens, "reasoning_tokens": 0}},
    )


def tiers(server: Site) -> tuple[str, str]:
    """Asked and served, of the latest entry."""
    server.at_rest()
    entry = server.entries()[0]
    return entry.tier_asked, entry.tier_served


def test_auto_is_the_key_s_default(server: Site, client: Callable[..., OpenAI]) -> None:
    key = client("fast-by-default")
    for tier in (openai.omit, "auto"):
        assert ask(key, tier).service_tier == "ultrafast"
        assert tiers(server) == ("auto", "ultrafast")
    assert ask(key, "default").service_tier == "default"
    assert ask(client("open")).service_tier == "default"


def test_not_entitled_is_served_by_default(server: Site, client: Callable[..., OpenAI]) -> None:
    answer = client("plain").responses.create(model="duo", input="hi", service_tier="ultrafast")
    assert answer.service_tier == "default"
    assert tiers(server) == ("ultrafast", "default")


def test_not_entitled_is_refused_where_the_key_says_so(
    server: Site, client: Callable[..., OpenAI]
) -> None:
    known = len(server.entries())
    with pytest.raises(openai.PermissionDeniedError) as refused:
        ask(client("strict", max_retries=2), "ultrafast")
    assert refused.value.code == "tier_not_entitled"
    assert refused.value.param == "service_tier"
    asked = body(MESSAGES, "duo", speed="fast")
    answer = server.post(MESSAGES, asked, {"x-api-key": "strict"})
    assert answer.status == 403
    assert answer.object["error"]["type"] == "permission_error"
    server.at_rest()
    assert len(server.entries()) == known
    assert server.metrics().value("paceline_refusals_total", reason="tier_not_entitled") >= 2


def occupied(server: Site, wire: Wire, name: str = "open") -> None:
    """Have both slots of the wafer taken for some seconds, by somebody else."""
    asked = body(CHAT, "duo", service_tier="ultrafast", n=SLOTS, stream=True)
    asked["paceline"]["output_tokens"] = 2000
    wire.send("POST", CHAT, {**asked, "max_tokens": 3000}, {"Authorization": f"Bearer {name}"})
    wire.until(b"content")


def test_a_full_tier(server: Site, client: Callable[..., OpenAI]) -> None:
    with Wire(server) as wire:
        occupied(server, wire)
        found = ask(client("default-when-full"), "ultrafast")
        assert found.service_tier == "default"
        with pytest.raises(openai.RateLimitError) as refused:
            ask(client("refused-when-full"), "ultrafast")
        assert refused.value.code == "resource_unavailable"
        assert refused.value.response.headers["retry-after"] == "1"
        assert "not charged" in str(refused.value)
        # In each dialect's own way.
        for path in DIALECTS:
            headers = {"Authorization": "Bearer refused-when-full"}
            asked = body(path, "duo", service_tier="ultrafast")
            if path == MESSAGES:
                asked = body(path, "duo", speed="fast")
            assert server.post(path, asked, headers).status == 429
        # Its own clock needs no slot.
        fast = {"paceline": {"rate": 1000, "output_tokens": 5}}
        own = client("refused-when-full").chat.completions.create(
            model="duo",
            messages=[{"role": "user", "content": "hi"}],
            extra_body={"service_tier": "ultrafast", **fast},
        )
        assert str(own.service_tier) == "ultrafast"
    server.at_rest()
    assert ask(client("refused-when-full"), "ultrafast").service_tier == "ultrafast"


def test_a_request_that_waits_gets_the_slot(server: Site, client: Callable[..., OpenAI]) -> None:
    wire = Wire(server)
    occupied(server, wire)
    asked = body(CHAT, "duo", service_tier="ultrafast")
    with Wire(server) as waiting:
        waiting.send("POST", CHAT, asked, {"Authorization": "Bearer waits"})
        wait_until(lambda: server.metrics().waiting("duo-wafer") == 1, "it waits")
        wire.close()
        assert waiting.read().object["service_tier"] == "ultrafast"


@pytest.mark.parametrize(
    ("key", "others"), [("default-when-full", "default"), ("refused-when-full", "429")]
)
async def test_a_burst_gets_as_many_slots_as_there_are(server: Site, key: str, others: str) -> None:
    """Slots are promised as requests are let in, before any has come to its deployment."""
    await asyncio.to_thread(server.at_rest)
    url = f"http://{server.host}:{server.port}/v1"
    async with AsyncOpenAI(base_url=url, api_key=key, max_retries=0) as client:
        # The client's types have no ultrafast for chat.
        wanted = {
            "service_tier": "ultrafast",
            "paceline": {"output_tokens": 500, "reasoning_tokens": 0},
        }

        async def one() -> str | None:
            try:
                answer = await client.chat.completions.create(
                    model="duo",
                    messages=[{"role": "user", "content": "hi"}],
                    extra_body=wanted,
                )
            except openai.RateLimitError:
                return "429"
            return answer.service_tier

        found = Counter(await asyncio.gather(*(one() for _ in range(20))))
    assert found == {"ultrafast": SLOTS, others: 20 - SLOTS}
    await asyncio.to_thread(server.at_rest)
    engine = server.server.app.engine
    assert engine.deployments._at_work["duo-wafer"].claimed == 0


def test_over_a_websocket_a_full_tier_is_an_error_frame(server: Site) -> None:
    url = f"ws://{server.host}:{server.port}{RESPONSES}"
    headers = {"Authorization": "Bearer refused-when-full"}
    with Wire(server) as wire, connect(url, proxy=None, additional_headers=headers) as socket:
        occupied(server, wire)
        create(socket, model="duo", service_tier="ultrafast")
        (frame,) = receive(socket)
        assert (frame["status"], frame["error"]["code"]) == (429, "resource_unavailable")
        assert frame["headers"]["retry-after"] == "1"
        create(socket, model="duo")
        assert receive(socket)[-1]["response"]["service_tier"] == "default"


def test_a_spent_budget_is_not_retried(server: Site, client: Callable[..., OpenAI]) -> None:
    key = client("small-budget", max_retries=2)
    before = len(server.server.requests)
    with pytest.raises(openai.RateLimitError) as refused:
        ask(key, "ultrafast", model="gpt-5.6-sol", tokens=50)
    assert (refused.value.code, refused.value.type) == ("insufficient_quota", "insufficient_quota")
    assert len(server.server.requests) == before + 1, "asked once"
    assert server.metrics().value("paceline_holds") == 0
    assert server.metrics().value("paceline_refusals_total", reason="insufficient_quota") == 1
    # The same at a sixth of the price goes through, and leaves less than another one takes.
    options = {"paceline": {"output_tokens": 45, "reasoning_tokens": 0, "rate": 1e5, "ttft_ms": 0}}
    message: list[Any] = [{"role": "user", "content": "hi"}]
    key.chat.completions.create(model="gpt-5.6-sol", messages=message, extra_body=options)
    with pytest.raises(openai.RateLimitError):
        key.chat.completions.create(model="gpt-5.6-sol", messages=message, extra_body=options)


def test_the_server_s_own_words_hold_for_keys_without(server: Site) -> None:
    del server
    full = replace(WAFER, engine=replace(WAFER.engine, max_num_seqs=1))
    with site(profiles=[DUO, full], when_full="refuse", when_not_entitled="refuse") as other:
        asked = body(CHAT, "duo", service_tier="ultrafast")
        assert other.post(CHAT, {**asked, "n": 2}).status == 429, "there is but one slot"
        assert other.post(CHAT, asked).object["service_tier"] == "ultrafast"


def test_an_upgrade_tells_how_the_key_stands(server: Site) -> None:
    url = f"ws://{server.host}:{server.port}{RESPONSES}"
    for key, told in (("plan", "0"), ("open", None)):
        headers = {"Authorization": f"Bearer {key}"}
        with connect(url, proxy=None, additional_headers=headers) as socket:
            assert socket.response is not None
            assert socket.response.headers.get("x-codex-primary-used-percent") == told
