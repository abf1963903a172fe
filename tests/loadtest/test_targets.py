"""Targets, keys and caps: what the command was told, read strictly."""

from __future__ import annotations

import asyncio

import pytest

from paceline.client.stream import BaseUrl
from paceline_loadtest.caps import CapError, Caps, parse_price
from paceline_loadtest.errors import LoadTestError
from paceline_loadtest.model import Call
from paceline_loadtest.targets import api_key_of, is_paceline, parse_targets
from tests.live import Server
from tests.loadtest.scripted import END, chunk, head, scripted

URL = "http://localhost:8000/v1"


def targets(*tiers: str, named: tuple[str, ...] = ()) -> list[tuple[str, str, str | None]]:
    found = parse_targets(tiers, named, URL, "key", paceline=True)
    assert all((t.base_url, t.api_key, t.paceline) == (URL, "key", True) for t in found)
    return [(t.label, t.model, t.service_tier) for t in found]


def test_tiers_in_one_word_or_several() -> None:
    assert targets("gpu-40,gpu-40:fast", "wafer-750") == [
        ("gpu-40", "gpu-40", None),
        ("gpu-40:fast", "gpu-40", "fast"),
        ("wafer-750", "wafer-750", None),
    ]


def test_targets_with_labels() -> None:
    assert targets(named=("slow=gpu-40", "quick=gpt-5.6-sol@ultrafast")) == [
        ("slow", "gpu-40", None),
        ("quick", "gpt-5.6-sol", "ultrafast"),
    ]


def test_without_a_word_the_usual_three() -> None:
    assert [label for label, _, _ in targets()] == ["gpu-40", "wafer-750", "spark-1000"]


@pytest.mark.parametrize("text", ["gpu-40", "=gpu-40", "slow=", "slow=@fast"])
def test_a_target_that_can_t_be_read(text: str) -> None:
    with pytest.raises(LoadTestError, match="--target"):
        targets(named=(text,))


def test_two_of_one_label() -> None:
    with pytest.raises(LoadTestError, match="two targets are called 'gpu-40'"):
        targets("gpu-40", named=("gpu-40=wafer-750",))


def test_a_key_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "secret")
    assert api_key_of("SOME_KEY") == "secret"
    assert api_key_of(None) == "paceline"
    with pytest.raises(LoadTestError, match="no OTHER_KEY"):
        api_key_of("OTHER_KEY")


def test_a_paceline_says_that_it_is_one(server: Server) -> None:
    assert is_paceline(BaseUrl.parse(f"{server.url}/v1"), "key")


async def test_another_server_doesn_t() -> None:
    pieces = [head(200, "application/json"), chunk(b'{"data":[]}'), END]
    async with scripted(lambda *_: pieces) as other:
        base = BaseUrl.parse(other.url)
        assert not await asyncio.to_thread(is_paceline, base, "key")
        assert other.asked[0].headers["authorization"] == "Bearer key"


def test_a_server_that_isn_t_there() -> None:
    with pytest.raises(LoadTestError, match="can't be reached"):
        is_paceline(BaseUrl.parse("http://127.0.0.1:9/v1"), "key")


class TestCaps:
    def test_a_price(self) -> None:
        price = parse_price("2.50,10")
        assert price.usd(1_000_000, 100_000) == pytest.approx(3.5)

    @pytest.mark.parametrize("text", ["", "1", "1,2,3", "a,b", "-1,2", "nan,1", "inf,1"])
    def test_a_price_that_can_t_be_read(self, text: str) -> None:
        with pytest.raises(LoadTestError, match="--price"):
            parse_price(text)

    def test_what_a_call_came_to_replaces_its_worst(self) -> None:
        caps = Caps(10_000, 1.0, parse_price("1,1"))
        share = caps.take(1_000, 500)
        assert caps.tokens == 1_750
        call = Call(0.0, prompt_tokens=900, output_tokens=100)
        caps.settle(share, call)
        assert caps.tokens == pytest.approx(1_000)
        assert caps.usd == pytest.approx(0.001)

    @pytest.mark.parametrize(
        "call",
        [
            Call(0.0),
            Call(0.0, prompt_tokens=1),
            Call(0.0, prompt_tokens=1, output_tokens=1, retries=1),
        ],
        ids=["no usage", "half of it", "made twice"],
    )
    def test_a_call_that_told_nothing_stays_at_its_worst(self, call: Call) -> None:
        caps = Caps(10_000, 1.0, parse_price("1,1"))
        caps.settle(caps.take(1_000, 500), call)
        assert caps.tokens == 1_750

    def test_neither_cap_is_ever_passed(self) -> None:
        caps = Caps(10_000, 1.0, parse_price("1,1"))
        for _ in range(5):
            caps.take(1_000, 500)
        with pytest.raises(CapError, match="--max-tokens-total 10,000"):
            caps.take(1_000, 500)
        assert caps.tokens == 5 * 1_750
