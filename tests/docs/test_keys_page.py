"""The page of keys says what the code does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from paceline.http.auth import Auth
from paceline.http.rate_limits import limit_refusal
from paceline.runtime import key_files
from paceline.runtime.key_files import keys_of
from paceline.runtime.keys import Keys
from paceline.runtime.limits import Refusal

ROOT = Path(__file__).resolve().parent.parent.parent
KEYS = (ROOT / "docs/keys.md").read_text("utf-8")
LIMITS = (ROOT / "docs/limits.md").read_text("utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def test_the_file_shown_can_be_used() -> None:
    (text,) = blocks(KEYS, "toml")
    first, second = (entry.caller for entry in keys_of(text))
    assert first.tiers == frozenset({"priority", "ultrafast"})
    assert first.sizes("ultrafast").rpm == 6
    assert second.terms.secondary is not None


def test_every_key_of_a_table_is_explained() -> None:
    table = KEYS.partition("| Key | Meaning |")[2].partition("\n\n")[0]
    shown = re.findall(r"`(\w+)(?:\.TIER)?`", "".join(line.split("|")[1] for line in rows(table)))
    assert sorted(shown) == sorted(key_files.KNOWN)


def rows(table: str) -> list[str]:
    return [line for line in table.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize("key", ["", "sk-somebody-elses-key"])
def test_the_refusals_shown_are_those_that_are_sent(key: str) -> None:
    headers = [(b"authorization", b"Bearer " + key.encode())] if key else []
    error = Auth(Keys(None, ["sk"])).check({"path": "/v1/models", "headers": headers})
    assert error is not None
    assert error.body().decode() in KEYS


def test_the_limit_s_refusal_shown_is_the_one_that_is_sent() -> None:
    shown = json.loads(blocks(LIMITS, "json")[0])
    made = limit_refusal(Refusal("requests", 60, 60, 1, 983_000_000), "gpu-40", {})
    assert json.loads(made.body()) == shown


def test_the_headers_named_are_those_that_are_sent() -> None:
    for prefix in ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"):
        assert f"`{prefix}-requests`, `{prefix}-tokens`" in LIMITS
    for what in ("limit", "remaining", "reset"):
        for unit in ("requests", "tokens"):
            assert f"`anthropic-ratelimit-{unit}-{what}`" in LIMITS
