"""Which servers, models and tiers a load test runs on, from what the command was told."""

from __future__ import annotations

import http.client
import os
from collections.abc import Sequence

from paceline.client.stream import BaseUrl
from paceline_loadtest.errors import LoadTestError, os_text
from paceline_loadtest.model import Target

DEFAULT_TIERS = ("gpu-40", "wafer-750", "spark-1000")
_TIMEOUT_S = 10.0
_ANY_KEY = "paceline"


def parse_targets(
    tiers: Sequence[str], named: Sequence[str], base_url: str, api_key: str, *, paceline: bool
) -> list[Target]:
    """`--tiers` (`m,m:tier`) and `--target` (`label=m@tier`). Raises LoadTestError."""
    found: list[Target] = []
    for text in tiers:
        for name in filter(None, (part.strip() for part in text.split(","))):
            model, _, tier = name.partition(":")
            found.append(Target(name, base_url, model, tier or None, api_key, paceline))
    for text in named:
        label, equals, rest = text.partition("=")
        model, _, tier = rest.partition("@")
        if not (label and equals and model):
            raise LoadTestError(f"--target: {text!r} is not label=model or label=model@tier")
        found.append(Target(label, base_url, model, tier or None, api_key, paceline))
    if not found:
        found = [Target(m, base_url, m, None, api_key, paceline) for m in DEFAULT_TIERS]
    labels = [target.label for target in found]
    for label in labels:
        if labels.count(label) > 1:
            raise LoadTestError(f"two targets are called {label!r}: give them labels by --target")
    return found


def api_key_of(variable: str | None) -> str:
    """The key that an environment variable holds. Raises LoadTestError."""
    if variable is None:
        return _ANY_KEY
    key = os.environ.get(variable, "")
    if not key:
        raise LoadTestError(f"--api-key-env: the environment has no {variable}")
    return key


def is_paceline(base: BaseUrl, api_key: str) -> bool:
    """Whether a Paceline answers there: it says so in a header. Raises LoadTestError."""
    kind = http.client.HTTPSConnection if base.scheme == "https" else http.client.HTTPConnection
    connection = kind(base.host, base.port, timeout=_TIMEOUT_S)
    try:
        connection.request(
            "GET", f"{base.path}/models", headers={"Authorization": f"Bearer {api_key}"}
        )
        response = connection.getresponse()
        response.read()
        return response.headers.get("openai-organization") == "paceline"
    except (OSError, http.client.HTTPException) as error:
        raise LoadTestError(f"--base-url: {base} can't be reached: {os_text(error)}") from error
    finally:
        connection.close()
