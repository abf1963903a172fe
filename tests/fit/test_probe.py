"""Probing a running Paceline gives back the profile that it runs."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from paceline.cli import app
from paceline.client.stream import BaseUrl
from paceline.core.profile import Profile
from paceline.core.profile_document import parse_profile
from paceline.fit.probe.endpoint import Endpoint, ProbeError
from paceline.fit.probe.plan import Probe
from tests.live import Server

KNOWN = """
name = "known"
title = "Every coefficient is there to be found"
[limits]
context_tokens = 32768
max_output_tokens = 8192
[engine]
step_ms = 8.0
step_ms_per_seq = 0.4
step_ms_per_kv_token = 0.00004
step_ms_per_prefill_token = 0.03
prefill_step_ms = 6.0
max_num_batched_tokens = 2048
[overhead]
api_ms_p50 = 120.0
api_ms_p90 = 120.0
[sources]
limits = { class = "hypothesis", from = "chosen for the test" }
engine = { class = "hypothesis", from = "chosen for the test" }
overhead = { class = "hypothesis", from = "chosen for the test" }
"""
pytestmark = pytest.mark.usefixtures("commands_registered")
TRUE = parse_profile(tomllib.loads(KNOWN))


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("profiles")
    (folder / "known.toml").write_text(KNOWN, "utf-8")
    with Server(profiles=(folder,)) as running:
        yield running


def run(server: Server, *arguments: str) -> Result:
    url = f"{server.url}/v1"
    return CliRunner().invoke(app, ["fit", "--probe", url, "--model", "known", *arguments])


def off(found: Profile, key: str) -> float:
    """How far a number is from the true one, as a fraction."""
    numbers, true = found.numbers(), TRUE.numbers()
    return abs(float(numbers[key]) / float(true[key]) - 1.0)


COEFFICIENTS = (
    "engine.step_ms",
    "engine.step_ms_per_seq",
    "engine.step_ms_per_kv_token",
    "engine.step_ms_per_prefill_token",
    "engine.prefill_step_ms",
    "engine.max_num_batched_tokens",
    "engine.seq_exponent",
    "engine.replicas",
    "overhead.api_ms_p50",
)


@pytest.mark.realtime
@pytest.mark.timeout(240)
@pytest.mark.realtime
def test_every_coefficient_comes_back_within_five_percent(known: Server, tmp_path: Path) -> None:
    """A machine that is busy with other work may spoil one probe; not three of three."""
    tries = []
    for _ in range(3):
        out = tmp_path / "probed.toml"
        result = run(known, "--max-requests", "48", "--context", "32768", "--out", str(out))
        assert result.exit_code == 0, result.output
        found = parse_profile(tomllib.loads(out.read_text("utf-8")))
        assert "requests to known" in found.sources["engine.step_ms"].text
        assert found.limits.context_tokens == 32_768
        tries.append({key: off(found, key) for key in COEFFICIENTS})
        if max(tries[-1].values()) <= 0.05:
            return
    pytest.fail(f"off by {tries}")


def test_a_probe_needs_enough_requests_to_tell_anything(known: Server) -> None:
    result = run(known, "--max-requests", "10")
    assert result.exit_code == 2
    assert "at least 40" in result.output


def test_no_more_requests_than_allowed(known: Server) -> None:
    base = BaseUrl.parse(f"{known.url}/v1")
    endpoint = Endpoint(base, "none", "known", 2)
    endpoint.ask(8, 1)
    assert endpoint.round_trip_ms() < 1000.0
    with pytest.raises(ProbeError, match="no request is left"):
        endpoint.ask(8, 1)


def test_prompts_never_repeat_and_tokens_are_counted(known: Server) -> None:
    endpoint = Endpoint(BaseUrl.parse(f"{known.url}/v1"), "none", "known", 3)
    assert endpoint.prompt(50) != endpoint.prompt(50)
    answer = endpoint.ask(500, 5)
    assert answer.prompt_tokens == pytest.approx(500, abs=20)
    assert answer.output_tokens == 5
    assert len(answer.times) * answer.tokens_per_event == pytest.approx(5)
    assert answer.ttft_ms > 120.0


def test_a_model_that_is_not_there_is_said_so(known: Server) -> None:
    endpoint = Endpoint(BaseUrl.parse(f"{known.url}/v1"), "none", "nobody", 60)
    with pytest.raises(ProbeError, match="404"):
        Probe(endpoint).run()


def test_an_endpoint_that_is_not_there_is_said_so() -> None:
    endpoint = Endpoint(BaseUrl.parse("http://127.0.0.1:9/v1"), "none", "x", 60)
    with pytest.raises(ProbeError, match="can't be reached"):
        Probe(endpoint).run()
