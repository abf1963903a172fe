"""Pages that list what there is list all of it: fields, error codes, metrics, endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from paceline.http.ledger_routes import ledger_routes
from paceline.http.routes import routes
from paceline.http.usage_routes import usage_routes
from paceline.runtime import buckets
from paceline.runtime.clock import ManualClock
from paceline.runtime.engine import LiveEngine
from paceline.runtime.exposition import Exposition
from paceline.runtime.ledger.sqlite import SqliteLedger
from paceline.runtime.metrics import Load, Metrics
from paceline.runtime.profile_files import ProfileRegistry
from paceline.runtime.settings import Settings
from paceline.wire import chat, completions, embeddings, overrides
from paceline.wire.errors import ApiError

ROOT = Path(__file__).resolve().parent.parent.parent
API = (ROOT / "docs/api.md").read_text("utf-8")
METRICS = (ROOT / "docs/metrics.md").read_text("utf-8")

REFUSING = (
    "wire/chat wire/chat_tools wire/completions wire/embeddings wire/errors wire/fields "
    "wire/messages wire/overrides wire/prompts wire/sampling http/embeddings http/generate "
    "http/respond http/routes http/admission http/books runtime/engine "
    "runtime/ledger/interface runtime/planner runtime/prompts"
)
"""The modules that refuse requests to the endpoints of this page; other dialects have their own."""


def section(page: str, heading: str) -> str:
    """A page from a heading to the next one of its level."""
    level = heading.split(" ", maxsplit=1)[0]
    return page.partition(f"\n{heading}\n")[2].partition(f"\n{level} ")[0]


def missing(names: Iterable[str], page: str) -> list[str]:
    return sorted(name for name in names if f"`{name}`" not in page)


def test_every_field_of_a_chat_is_named() -> None:
    assert missing(chat._TABLE, section(API, "## Chat completions")) == []


REFUSED = {
    "audio": {"voice": "alloy", "format": "wav"},
    "modalities": ["text", "audio"],
    "guided_json": {},
    "guided_regex": "a",
    "guided_choice": ["a"],
    "guided_grammar": "a",
    "structured_outputs": {},
}


@pytest.mark.parametrize("field", REFUSED)
def test_what_the_page_says_is_refused_is(field: str) -> None:
    assert f"`{field}`" in section(API, "### Refused")
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], field: REFUSED[field]}
    with pytest.raises(ApiError) as refused:
        chat.parse_chat(body, {})
    assert (refused.value.status, refused.value.code) == (400, "unsupported_parameter")


def test_nothing_else_is_said_to_be_refused() -> None:
    named = set(re.findall(r"`(\w+)`", section(API, "### Refused")))
    assert named - set(REFUSED) == {"param"}


def test_every_field_of_a_completion_is_named() -> None:
    own = set(completions._TABLE) - set(chat._TABLE)
    assert missing(own, section(API, "## Completions")) == []
    assert own == {"prompt", "suffix", "echo", "best_of"}


def test_every_field_of_embeddings_is_named() -> None:
    assert missing(embeddings._TABLE, section(API, "## Embeddings")) == []


def test_every_override_is_named() -> None:
    page = section(API, "## One request's own pace")
    assert missing(overrides._TABLE, page) == []
    assert missing((header for _, header in overrides._HEADERS.values()), page) == []


def test_every_error_code_is_named() -> None:
    codes: set[str] = set()
    for module in REFUSING.split():
        text = (ROOT / f"server/paceline/{module}.py").read_text("utf-8")
        codes |= set(re.findall(r'code="([a-z_]+)"', text))
        codes |= set(re.findall(r'(?:value|prompt|"),?\s+"([a-z]+(?:_[a-z]+)+)",?\s*\)', text))
    codes.discard("json_schema")  # a value of a field
    assert len(codes) > 20
    assert missing(codes, section(API, "## Errors")) == []


def test_every_route_is_named() -> None:
    engine = LiveEngine(Settings(), ProfileRegistry.load(), ManualClock())
    routers = (routes(engine), usage_routes(None), ledger_routes(None))
    found = [route for router in routers for route in router.routes]
    paths = {route.path for route in found if isinstance(route, APIRoute)}
    assert len(paths) > 12
    named = section(API, "## Endpoints").replace("{id}", "*")
    for path in paths:
        assert f" {re.sub(r'{.*?}', '*', path)}" in named, path


def exposed() -> dict[str, str]:
    """The families of a scrape with their types."""
    metrics = Metrics()
    metrics.register_load("m", lambda: Load(0, 0), {})
    metrics.profile("m", "default", 1000).aborted("client_gone")
    metrics.ledger = SqliteLedger()
    text = Exposition(metrics).render()[0].decode()
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))


def test_every_metric_is_named_with_its_type() -> None:
    families = exposed()
    assert len(families) > 25
    for name, kind in families.items():
        if name.startswith("process_"):
            assert f"`{name}`" in METRICS
        else:
            assert f"| `{name}` | {kind} |" in METRICS, name


def test_no_metric_is_named_that_is_not_there() -> None:
    named = set(re.findall(r"^\| `((?:vllm:|paceline_)\w+)` \|", METRICS, re.MULTILINE))
    assert named - set(exposed()) == set()


@pytest.mark.parametrize(
    "bounds",
    [
        buckets.TTFT_S,
        buckets.TOKEN_S,
        buckets.REQUEST_S,
        buckets.LAG_S,
        buckets.FINE_TOKEN_S,
        buckets.LEDGER_S,
    ],
    ids=["ttft", "token", "request", "lag", "fine token", "ledger"],
)
def test_the_bounds_are_those_of_the_code(bounds: tuple[float, ...]) -> None:
    shown = ", ".join(f"{bound:.5f}".rstrip("0").rstrip(".") for bound in bounds)
    assert shown + " s" in METRICS
