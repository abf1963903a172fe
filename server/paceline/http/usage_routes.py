"""OpenAI's usage and costs of an organization, from the ledger.

`GET /v1/organization/usage/completions` and `GET /v1/organization/costs`, with the fields that the
`openai` package 3.57 has for them. There are no projects and no users here: what is grouped by
them is one group of null, and no row is of any.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fastapi import APIRouter, Request, Response

from paceline.http.books import books_of, built, found, json_answer, number, visible_keys
from paceline.http.query_params import QueryParams
from paceline.runtime.ledger.interface import Books
from paceline.runtime.ledger.questions import Dimension, Filter, Group, Sums
from paceline.wire.errors import invalid

USAGE_PATH = "/v1/organization/usage/completions"
COSTS_PATH = "/v1/organization/costs"

_NOT_COMPLETIONS = ("/v1/embeddings",)
_LATEST_S = 10**11
_FIXED = {"project_id": None, "user_id": None}

Width = Literal["1m", "1h", "1d"]
_WIDTHS_S: dict[Width, int] = {"1m": 60, "1h": 3_600, "1d": 86_400}
_USAGE_LIMITS: dict[Width, tuple[int, int]] = {"1m": (60, 1440), "1h": (24, 168), "1d": (7, 31)}
_COST_LIMITS: dict[Width, tuple[int, int]] = {"1d": (7, 180)}
"""How many buckets by default, and at most."""

UsageGroup = Literal[
    "project_id", "user_id", "api_key_id", "model", "batch", "service_tier", "api_source"
]
_USAGE_GROUPS: dict[UsageGroup, Dimension | None] = {
    "project_id": None,
    "user_id": None,
    "api_key_id": "key_id",
    "model": "model",
    "batch": None,
    "service_tier": "tier_served",
    "api_source": None,
}
CostGroup = Literal["project_id", "user_id", "line_item", "api_key_id", "api_source"]
_COST_GROUPS: tuple[CostGroup, ...] = (
    "project_id",
    "user_id",
    "line_item",
    "api_key_id",
    "api_source",
)


@dataclass(frozen=True, slots=True)
class _Span:
    """The buckets of one page: from a first one on, at most `limit`, none that begins at `end`."""

    width_s: int
    first_s: int
    end_s: int
    limit: int

    @property
    def page_end_s(self) -> int:
        """Where the page ends."""
        return min(self.first_s + self.limit * self.width_s, self.end_s)


def usage_routes(ledger: Books | None, now_s: Callable[[], float] = time.time) -> APIRouter:
    """Both endpoints; without a ledger they answer 404."""
    router = APIRouter()

    @router.get(USAGE_PATH, summary="Tokens and requests by span of time")
    async def completions(request: Request) -> Response:
        books = books_of(ledger)
        asked = QueryParams(
            request,
            single=("start_time", "end_time", "bucket_width", "limit", "page", "batch"),
            lists=("group_by", "project_ids", "user_ids", "api_key_ids", "models"),
        )
        span = _span(asked, _USAGE_LIMITS, now_s())
        group_by = asked.choices("group_by", tuple(_USAGE_GROUPS)) or ()
        dimensions = [name for each in group_by if (name := _USAGE_GROUPS[each]) is not None]
        which = Filter(
            key_ids=visible_keys(request, asked.words("api_key_ids")),
            models=asked.words("models"),
            but_endpoints=_NOT_COMPLETIONS,
        )
        groups = list[Group]()
        # Nothing here is a batch's, a project's or a user's.
        if not (asked.boolean("batch") or _of_nobody(asked, "project_ids", "user_ids")):
            groups = await found(
                books.buckets(
                    span.width_s, span.first_s, span.page_end_s, which=which, group=dimensions
                )
            )
        return await built(len(groups), lambda: _page(span, _usages(groups, dimensions, group_by)))

    @router.get(COSTS_PATH, summary="US dollars by day")
    async def costs(request: Request) -> Response:
        books = books_of(ledger)
        asked = QueryParams(
            request,
            single=("start_time", "end_time", "bucket_width", "limit", "page"),
            lists=("group_by", "project_ids", "api_key_ids", "line_items"),
        )
        span = _span(asked, _COST_LIMITS, now_s())
        group_by = asked.choices("group_by", _COST_GROUPS) or ()
        line_items = asked.words("line_items")
        by_item = line_items is not None or "line_item" in group_by
        dimensions: list[Dimension] = ["billed_as", "model", "tier_served"] if by_item else []
        if "api_key_id" in group_by:
            dimensions.append("key_id")
        which = Filter(key_ids=visible_keys(request, asked.words("api_key_ids")))
        groups = list[Group]()
        if not _of_nobody(asked, "project_ids"):
            groups = await found(
                books.buckets(
                    span.width_s, span.first_s, span.page_end_s, which=which, group=dimensions
                )
            )
        return await built(
            len(groups),
            lambda: _page(span, _costs(groups, dimensions, group_by, line_items)),
        )

    return router


def _span(asked: QueryParams, limits: dict[Width, tuple[int, int]], now_s: float) -> _Span:
    start_s = asked.integer("start_time", 0, _LATEST_S)
    if start_s is None:
        raise invalid(
            "start_time", "start_time is required: Unix seconds.", "missing_required_parameter"
        )
    end_s = asked.integer("end_time", 0, _LATEST_S)
    if end_s is not None and end_s <= start_s:
        raise invalid("end_time", "end_time must be later than start_time.")
    width = asked.choice("bucket_width", tuple(limits)) or "1d"
    usual, most = limits[width]
    limit = asked.integer("limit", 1, most) or usual
    width_s = _WIDTHS_S[width]
    first_s = start_s // width_s * width_s
    end_s = max(int(now_s) + 1, start_s + 1) if end_s is None else end_s
    page = asked.text("page")
    if page is not None:
        at_s = _page_start(page)
        if at_s is None or at_s % width_s or not first_s <= at_s < end_s:
            raise invalid("page", "page must be the next_page of an answer to the same question.")
        first_s = at_s
    return _Span(width_s, first_s, -(-end_s // width_s) * width_s, limit)


def _page(span: _Span, results: Sequence[tuple[int, dict[str, Any]]]) -> Response:
    by_start: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for start_s, result in results:
        by_start[start_s].append(result)
    data = [
        {
            "object": "bucket",
            "start_time": start_s,
            "end_time": start_s + span.width_s,
            "results": by_start.get(start_s, []),
        }
        for start_s in range(span.first_s, span.page_end_s, span.width_s)
    ]
    more = span.page_end_s < span.end_s
    next_page = _page_name(span.page_end_s) if more else None
    return json_answer({"object": "page", "data": data, "has_more": more, "next_page": next_page})


def _usages(
    groups: Sequence[Group], dimensions: Sequence[Dimension], group_by: Sequence[UsageGroup]
) -> list[tuple[int, dict[str, Any]]]:
    """Results in order of time."""
    return [
        (start_s, _usage(sums, group_by, dict(zip(dimensions, values, strict=True))))
        for start_s, values, sums in groups
    ]


def _usage(
    sums: Sums, group_by: Sequence[UsageGroup], values: dict[Dimension, str]
) -> dict[str, Any]:
    return {
        "object": "organization.usage.completions.result",
        "input_tokens": sums.prompt_tokens,
        "input_cached_tokens": sums.cached_tokens,
        "input_cache_write_tokens": sums.cache_write_tokens,
        "input_uncached_tokens": sums.prompt_tokens - sums.cached_tokens - sums.cache_write_tokens,
        "input_audio_tokens": 0,
        "output_tokens": sums.completion_tokens,
        "output_audio_tokens": 0,
        "num_model_requests": sums.requests,
        **_FIXED,
        "api_key_id": values.get("key_id"),
        "model": values.get("model"),
        "batch": False if "batch" in group_by else None,
        "service_tier": values.get("tier_served"),
        "api_source": "unlabeled" if "api_source" in group_by else None,
    }


def _costs(
    groups: Sequence[Group],
    dimensions: Sequence[Dimension],
    group_by: Sequence[CostGroup],
    line_items: Sequence[str] | None,
) -> list[tuple[int, dict[str, Any]]]:
    """Results in order of time; a line item is a model, as it is billed, on a tier."""
    sums: dict[tuple[int, str, str], Sums] = {}
    for start_s, values, each in groups:
        of = dict(zip(dimensions, values, strict=True))
        item = ""
        if "model" in of:
            item = f"{of['billed_as'] or of['model']}, {of['tier_served']}"
        if line_items is not None and item not in line_items:
            continue
        place = (start_s, item if "line_item" in group_by else "", of.get("key_id", ""))
        before = sums.get(place)
        sums[place] = each if before is None else before + each
    return [
        (
            start_s,
            {
                "object": "organization.costs.result",
                "amount": {"value": number(each.usd), "currency": "usd"},
                "line_item": item or None,
                **_FIXED,
                "api_key_id": key_id if "api_key_id" in group_by else None,
                "api_source": "unlabeled" if "api_source" in group_by else None,
                "quantity": each.tokens if item else None,
                "quantity_unit": "tokens" if item else None,
            },
        )
        for (start_s, item, key_id), each in sorted(sums.items(), key=lambda found: found[0])
    ]


def _of_nobody(asked: QueryParams, *names: str) -> bool:
    return any(asked.words(name) is not None for name in names)


def _page_name(start_s: int) -> str:
    return "page_" + base64.urlsafe_b64encode(start_s.to_bytes(8, "big")).decode()


def _page_start(name: str) -> int | None:
    try:
        raw = base64.b64decode(name.removeprefix("page_"), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return int.from_bytes(raw, "big") if len(raw) == 8 and name.startswith("page_") else None
