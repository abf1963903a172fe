"""The ledger itself: every entry, newest first, as JSON or CSV, and sums of them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from paceline.core.ledger import ENTRY_STATES
from paceline.core.money import digits
from paceline.http.books import books_of, built, found, json_answer, visible_keys
from paceline.http.query_params import QueryParams
from paceline.runtime.ledger.interface import Books
from paceline.runtime.ledger.questions import DIMENSIONS, Cursor, Filter, Line, Sums
from paceline.wire.errors import invalid

PATH = "/paceline/ledger"
TOTALS_PATH = f"{PATH}/totals"

_LIMIT, _MOST = 100, 1000
_SINGLE = ("request_id", "since", "until")
_LISTS = ("key_id", "model", "tier", "state", "endpoint")
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""What a cell begins with that a spreadsheet runs (owasp.org, CSV Injection)."""

COLUMNS = (
    "id",
    "request_id",
    "key_id",
    "model",
    "billed_as",
    "profile",
    "tier_asked",
    "tier_served",
    "endpoint",
    "stream",
    "state",
    "finish_reason",
    "created_us",
    "ended_us",
    "prompt_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "usd",
    "credits",
    "ttft_ns",
    "queue_ns",
    "prefill_ns",
    "decode_ns",
    "total_ns",
)
"""The fields of an entry, and the columns of the CSV in their order."""


def ledger_routes(ledger: Books | None) -> APIRouter:
    """Both endpoints; without a ledger they answer 404."""
    router = APIRouter()

    @router.get(PATH, summary="The ledger's entries, newest first")
    async def entries(request: Request) -> Response:
        books = books_of(ledger)
        asked = QueryParams(request, single=(*_SINGLE, "limit", "cursor", "format"), lists=_LISTS)
        which = _filter(request, asked)
        limit = asked.integer("limit", 1, _MOST)
        after = _cursor(asked.text("cursor"))
        if asked.choice("format", ("json", "csv")) == "csv":
            lines = _Csv(books, which, limit, after)
            await lines.first()
            return StreamingResponse(
                lines,
                media_type="text/csv; charset=utf-8",
                headers={"content-disposition": 'attachment; filename="ledger.csv"'},
            )
        limit = limit or _LIMIT
        page = await found(books.entries(which, limit + 1, after))
        more = len(page) > limit
        next_cursor = _cursor_name(page[limit - 1]) if more else None
        return await built(
            len(page),
            lambda: json_answer(
                {
                    "object": "list",
                    "data": [_shown(line) for line in page[:limit]],
                    "has_more": more,
                    "next_cursor": next_cursor,
                }
            ),
        )

    @router.get(TOTALS_PATH, summary="The ledger's sums")
    async def totals(request: Request) -> Response:
        books = books_of(ledger)
        asked = QueryParams(request, single=_SINGLE, lists=(*_LISTS, "group_by"))
        group_by = asked.choices("group_by", DIMENSIONS) or ()
        groups = await found(books.totals(_filter(request, asked), group_by))
        if group_by:
            data = [
                {**dict(zip(group_by, each.values, strict=True)), **_summed(each.sums)}
                for each in groups
            ]
            return json_answer({"object": "list", "data": data})
        return json_answer(
            {"object": "ledger.totals", **_summed(groups[0].sums if groups else Sums())}
        )

    return router


def _filter(request: Request, asked: QueryParams) -> Filter:
    since_us, until_us = asked.moment_us("since"), asked.moment_us("until")
    if since_us is not None and until_us is not None and until_us <= since_us:
        raise invalid("until", "until must be later than since.")
    return Filter(
        key_ids=visible_keys(request, asked.words("key_id")),
        models=asked.words("model"),
        tiers=asked.words("tier"),
        states=asked.choices("state", ENTRY_STATES),
        endpoints=asked.words("endpoint"),
        request_id=asked.text("request_id"),
        since_us=since_us,
        until_us=until_us,
    )


def _shown(line: Line) -> dict[str, Any]:
    shown = line._asdict()
    shown["usd"] = None if line.usd is None else digits(line.usd)
    shown["credits"] = None if line.credits is None else digits(line.credits)
    shown["stream"] = bool(line.stream)
    return {name: shown[name] for name in COLUMNS}


def _summed(sums: Sums) -> dict[str, Any]:
    return {
        "requests": sums.requests,
        "prompt_tokens": sums.prompt_tokens,
        "cached_tokens": sums.cached_tokens,
        "cache_write_tokens": sums.cache_write_tokens,
        "completion_tokens": sums.completion_tokens,
        "reasoning_tokens": sums.reasoning_tokens,
        "usd": digits(sums.usd),
        "usd_unpublished": sums.usd_unknown,
        "credits": digits(sums.credits),
        "credits_unpublished": sums.credits_unknown,
    }


@dataclass(slots=True)
class _Csv:
    """All entries that match, a page at a time: a large ledger isn't held in memory."""

    books: Books
    which: Filter
    limit: int | None
    after: Cursor | None
    page: list[Line] = field(default_factory=list)

    async def first(self) -> None:
        """Look up the first page, while there still can be an error for an answer."""
        self.page = await found(self._next())

    async def __aiter__(self) -> AsyncIterator[str]:
        yield _csv_rows([COLUMNS])
        left = self.limit
        while self.page:
            yield await built(len(self.page), partial(_csv_lines, self.page))
            left = None if left is None else left - len(self.page)
            if left == 0 or len(self.page) < _MOST:
                break
            self.after, self.limit = _place(self.page[-1]), left
            self.page = await self._next()

    async def _next(self) -> list[Line]:
        return await self.books.entries(self.which, min(self.limit or _MOST, _MOST), self.after)


def _csv_lines(page: list[Line]) -> str:
    return _csv_rows([tuple(map(_cell, _shown(line).values())) for line in page])


def _cell(value: Any) -> Any:
    """A value as text that no spreadsheet takes for a formula: callers name models and requests."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULAS) else value


def _csv_rows(rows: list[tuple[Any, ...]]) -> str:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()


def _place(line: Line) -> Cursor:
    return Cursor(line.created_us, line.seq)


def _cursor_name(line: Line) -> str:
    return f"entry_{line.created_us}_{line.seq}"


def _cursor(name: str | None) -> Cursor | None:
    if name is None:
        return None
    parts = re.fullmatch(r"entry_([0-9]{1,18})_([0-9]{1,18})", name)
    if parts is None:
        raise invalid("cursor", "cursor must be the next_cursor of an answer.")
    return Cursor(int(parts[1]), int(parts[2]))
