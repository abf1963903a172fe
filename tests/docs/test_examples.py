"""The examples of the pages run as they are written."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx2
import pytest

from paceline.core.profile_document import parse_profile
from paceline.runtime.settings import Settings
from tests.live import PATIENCE_S, Server

ROOT = Path(__file__).resolve().parent.parent.parent


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text("utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def output_of(page: str, server: Server) -> str:
    """What the first Python example of a page prints, against a running server."""
    code = blocks(page, "python")[0].replace("http://localhost:8000", server.url)
    assert server.url in code
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_readme_streams_an_answer(server: Server) -> None:
    assert len(output_of("README.md", server).split()) > 20


def test_the_responses_page_streams_an_answer(server: Server) -> None:
    assert len(output_of("docs/responses.md", server).split()) > 20


def test_the_echo_of_the_api_page(server: Server) -> None:
    shown = output_of("docs/api.md", server)
    assert shown in blocks("docs/api.md", "text")


@pytest.mark.realtime
def test_getting_started_tells_three_speeds(server: Server) -> None:
    shown = output_of("docs/getting-started.md", server)
    rates = [float(rate) for rate in re.findall(r"then (\d+) tokens a second", shown)]
    for rate, stated in zip(rates, (40, 750, 1000), strict=True):
        assert rate == pytest.approx(stated, rel=0.15)


def test_the_curl_requests_are_answered(server: Server) -> None:
    asked = 0
    for example in blocks("docs/getting-started.md", "sh"):
        body = re.search(r"-d '(.*?)'", example, re.DOTALL)
        if body is None:
            continue
        asked += 1
        headers = dict(re.findall(r"-H '([\w-]+): (.*?)'", example))
        answer = httpx2.post(
            server.url + "/v1/chat/completions",
            content=body[1],
            headers=headers,
            timeout=PATIENCE_S,
        )
        assert answer.status_code == 200, answer.text
    assert asked == 2


def test_the_errors_shown_are_envelopes() -> None:
    for page in ("docs/api.md", "docs/profiles.md"):
        for example in blocks(page, "json"):
            shown = json.loads(example)
            assert set(shown.get("error", {})) <= {"message", "type", "param", "code"}


def test_the_error_of_the_api_page_is_what_is_answered(server: Server) -> None:
    (shown,) = (e for e in map(json.loads, blocks("docs/api.md", "json")) if "error" in e)
    body = {"model": "gpt-9", "messages": [{"role": "user", "content": "x"}]}
    answer = httpx2.post(server.url + "/v1/chat/completions", json=body, timeout=PATIENCE_S)
    assert answer.json() == shown


def test_the_record_shown_has_the_fields_that_records_have(server: Server) -> None:
    (shown,) = (e for e in map(json.loads, blocks("docs/api.md", "json")) if "error" not in e)
    body = {"model": "instant", "messages": [{"role": "user", "content": "x"}], "max_tokens": 3}
    done = httpx2.post(server.url + "/v1/chat/completions", json=body, timeout=PATIENCE_S)
    url = f"{server.url}/paceline/requests/{done.headers['x-request-id']}"
    found = httpx2.get(url, timeout=PATIENCE_S).json()
    assert set(shown) == set(found)
    assert set(shown["times_ms"]) == set(found["times_ms"])
    assert set(shown["split_ms"]) == set(found["split_ms"])
    assert set(shown["choices"][0]) == set(found["choices"][0])
    assert set(shown["choices"][0]["chunks"][0]) == set(found["choices"][0]["chunks"][0])


def test_the_profile_shown_is_one() -> None:
    (example,) = blocks("docs/profiles.md", "toml")
    profile = parse_profile(tomllib.loads(example))
    assert profile.name == "house-70b"
    assert profile.ceiling_tok_s == pytest.approx(1000 / 14.2)


def test_the_settings_file_shown_is_one() -> None:
    (example,) = blocks("docs/settings.md", "toml")
    assert Settings(**tomllib.loads(example)).port == 8010


@pytest.mark.parametrize("example", blocks("docs/settings.md", "console"))
def test_the_mistakes_shown_are_answered_so(example: str) -> None:
    lines = example.splitlines()
    for typed, shown in zip(lines[::2], lines[1::2], strict=True):
        variables = dict(re.findall(r"(PACELINE_\w+)=(\S+)", typed))
        command = typed.partition("bin/paceline ")[2].split()
        done = subprocess.run(
            [sys.executable, "-m", "paceline", *command],
            env=variables,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.returncode, done.stderr.strip()) == (2, shown)
