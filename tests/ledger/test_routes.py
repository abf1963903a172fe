"""What the endpoints answer: read by OpenAI's own client, and refused by name what can't be."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from openai import AsyncOpenAI

from paceline.core.ledger import EntryState, Terms
from paceline.core.usage import Usage
from paceline.http import errors
from paceline.http.auth import CALLER
from paceline.http.ledger_routes import COLUMNS, PATH, TOTALS_PATH, ledger_routes
from paceline.http.usage_routes import COSTS_PATH, USAGE_PATH, usage_routes
from paceline.runtime.caller import NOBODY, Caller
from paceline.runtime.ledger import sqlite as module
from paceline.runtime.ledger.sqlite import SqliteLedger
from tests.ledger import made

DAY_S = 86_400
MIDNIGHT_S = made.NOON_US // 10**6 // DAY_S * DAY_S
NOW_S = MIDNIGHT_S + 3 * DAY_S + 7_200.5


class Served:
    """The endpoints over a ledger, without a server around them."""

    def __init__(self, ledger: SqliteLedger | None, caller: Caller | None = NOBODY) -> None:
        """`caller` None came by no door."""
        app = FastAPI()
        errors.install(app)
        app.include_router(usage_routes(ledger, lambda: NOW_S))
        app.include_router(ledger_routes(ledger))

        async def asgi(scope: Any, receive: Any, send: Any) -> None:
            if caller is not None:
                scope[CALLER] = caller
            await app(scope, receive, send)

        self.http = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(asgi), base_url="http://paceline.test"
        )

    async def get(self, path: str, query: str = "", status: int = 200) -> Any:
        answer = await self.http.get(f"{path}?{query}")
        assert answer.status_code == status, answer.text
        return answer.json()

    async def refused(self, path: str, query: str, param: str) -> str:
        error = (await self.get(path, query, 400))["error"]
        assert error["type"] == "invalid_request_error"
        assert error["param"] == param
        assert param.removesuffix("[]") in error["message"]
        return str(error["message"])


@asynccontextmanager
async def filled() -> AsyncIterator[SqliteLedger]:
    """Three days: key a on day 0 and 2, key b on day 0, an embedding, and one without a price."""
    ledger = SqliteLedger()
    rows: list[tuple[str, int, str, str, int | None, EntryState, str]] = [
        ("a", 0, "sol", "default", 41_600_000_000, "finished", "/v1/responses"),
        ("a", 3_600, "sol", "fast", 1, "cut", "/v1/responses"),
        ("b", 60, "sol", "default", 10**12, "finished", "/v1/chat/completions"),
        ("b", 61, "wafer", "default", None, "failed", "/v1/chat/completions"),
        ("a", 2 * DAY_S, "sol", "default", 5, "finished", "/v1/messages"),
        ("a", 2 * DAY_S, "vectors", "default", 7, "finished", "/v1/embeddings"),
    ]
    for key, at_s, model, tier, usd, state, endpoint in rows:
        held = made.hold(
            key_id=key,
            model=model,
            billed_as="" if usd is None else f"gpt-{model}",
            tier_served=tier,
            endpoint=endpoint,
            at=(MIDNIGHT_S + at_s) * 10**6,
        )
        await ledger.hold(held, Terms())
        ledger.settle(made.entry(held, usd, None, state, Usage(100, 20, 40, 10, 5)))
    try:
        yield ledger
    finally:
        await ledger.close()


@pytest.fixture
async def empty() -> AsyncIterator[Served]:
    ledger = SqliteLedger()
    yield Served(ledger)
    await ledger.close()


async def test_usage_by_openais_client() -> None:
    async with filled() as ledger:
        client = AsyncOpenAI(
            api_key="k",
            admin_api_key="admin",
            base_url="http://paceline.test/v1",
            http_client=Served(ledger).http,
            max_retries=0,
        )
        usage = client.admin.organization.usage
        page = await usage.completions(start_time=MIDNIGHT_S)
        assert (page.object, page.has_more, page.next_page) == ("page", False, None)
        assert [bucket.start_time for bucket in page.data] == [
            MIDNIGHT_S + day * DAY_S for day in range(4)
        ]
        assert [len(bucket.results) for bucket in page.data] == [1, 0, 1, 0]
        first: Any = page.data[0].results[0]
        assert first.object == "organization.usage.completions.result"
        assert (first.num_model_requests, first.input_tokens, first.output_tokens) == (4, 400, 80)
        assert (first.input_cached_tokens, first.input_cache_write_tokens) == (160, 40)
        assert first.input_uncached_tokens == 200
        assert (first.model, first.api_key_id, first.batch, first.service_tier) == (None,) * 4

        grouped = await usage.completions(
            start_time=MIDNIGHT_S,
            bucket_width="1h",
            group_by=["api_key_id", "model", "service_tier", "batch", "api_source", "project_id"],
            models=["gpt-sol", "wafer"],
            limit=2,
        )
        results: list[Any] = [result for bucket in grouped.data for result in bucket.results]
        assert [
            (each.api_key_id, each.model, each.service_tier, each.num_model_requests)
            for each in results
        ] == [
            ("a", "sol", "default", 1),
            ("b", "sol", "default", 1),
            ("b", "wafer", "default", 1),
            ("a", "sol", "fast", 1),
        ]
        assert {(each.batch, each.api_source, each.project_id) for each in results} == {
            (False, "unlabeled", None)
        }
        assert grouped.has_more

        costs: Any = await usage.costs(
            start_time=MIDNIGHT_S, group_by=["line_item", "api_key_id"], limit=1
        )
        found = [
            (each.line_item, each.api_key_id, each.amount.value, each.quantity, each.quantity_unit)
            for each in costs.data[0].results
        ]
        assert found == [
            ("gpt-sol, default", "a", 0.0416, 120, "tokens"),
            ("gpt-sol, default", "b", 1, 120, "tokens"),
            ("gpt-sol, fast", "a", 1e-12, 120, "tokens"),
            ("wafer, default", "b", 0, 120, "tokens"),
        ]
        next_: Any = await usage.costs(start_time=MIDNIGHT_S, page=costs.next_page)
        assert [bucket.start_time for bucket in next_.data] == [
            MIDNIGHT_S + day * DAY_S for day in (1, 2, 3)
        ]
        assert next_.data[1].results[0].amount.value == 12e-12


async def test_costs_have_all_their_digits() -> None:
    async with filled() as ledger:
        served = Served(ledger)
        answer = await served.http.get(f"{COSTS_PATH}?start_time={MIDNIGHT_S}")
        page = json.loads(answer.text, parse_float=Decimal)
        (result,) = page["data"][0]["results"]
        assert result["amount"] == {"value": Decimal("1.041600000001"), "currency": "usd"}
        assert result["line_item"] is result["quantity"] is None
        only = await served.get(
            COSTS_PATH, f"start_time={MIDNIGHT_S}&line_items=gpt-sol%2C+fast&line_items=x"
        )
        assert [len(bucket["results"]) for bucket in only["data"]] == [1, 0, 0, 0]
        assert only["data"][0]["results"][0]["amount"]["value"] == 1e-12


async def test_pages_follow_each_other_and_meet() -> None:
    async with filled() as ledger:
        served = Served(ledger)
        for path, width, limit in (
            (USAGE_PATH, "1h", 7),
            (USAGE_PATH, "1d", 1),
            (COSTS_PATH, "1d", 3),
        ):
            # From amid one bucket into another: both are whole.
            query = f"start_time={MIDNIGHT_S + 61}&end_time={MIDNIGHT_S + 2 * DAY_S + 1}"
            query += f"&bucket_width={width}&limit={limit}"
            page = await served.get(path, query)
            buckets = page["data"]
            while page["has_more"]:
                page = await served.get(path, f"{query}&page={page['next_page']}")
                assert 1 <= len(page["data"]) <= limit
                buckets += page["data"]
            assert page["next_page"] is None
            width_s = {"1h": 3_600, "1d": DAY_S}[width]
            starts = [bucket["start_time"] for bucket in buckets]
            assert starts == list(range(MIDNIGHT_S, MIDNIGHT_S + 2 * DAY_S + 1, width_s))
            assert all(each["end_time"] - each["start_time"] == width_s for each in buckets)
            assert sum(len(bucket["results"]) for bucket in buckets) >= 2


async def test_filters_that_nothing_here_is_of() -> None:
    async with filled() as ledger:
        served = Served(ledger)
        start = f"start_time={MIDNIGHT_S}"
        for query in ("batch=true", "project_ids=p", "user_ids[]=u", "api_key_ids=z", "models=z"):
            page = await served.get(USAGE_PATH, f"{start}&{query}")
            assert [bucket["results"] for bucket in page["data"]] == [[], [], [], []]
        page = await served.get(USAGE_PATH, f"{start}&batch=false&api_key_ids[]=a&api_key_ids[]=z")
        assert page["data"][0]["results"][0]["num_model_requests"] == 2
        page = await served.get(COSTS_PATH, f"{start}&project_ids=p")
        assert [bucket["results"] for bucket in page["data"]] == [[], [], [], []]


@pytest.mark.parametrize("path", [USAGE_PATH, COSTS_PATH])
async def test_what_cannot_be_is_refused_by_name(empty: Served, path: str) -> None:
    served = empty
    assert "required" in await served.refused(path, "", "start_time")
    answer = await served.http.get(path)
    assert answer.json()["error"]["code"] == "missing_required_parameter"
    for value in ("x", "-1", "1.5", "", "99999999999999999999999"):
        await served.refused(path, f"start_time={value}", "start_time")
    for query, param in (
        ("end_time=1000", "end_time"),
        ("end_time=999", "end_time"),
        ("bucket_width=2d", "bucket_width"),
        ("limit=0", "limit"),
        ("limit=181", "limit"),
        ("group_by=colour", "group_by"),
        ("group_by[]=api_key_id,colour", "group_by"),
        ("page=page_AAAAAAAAAAE=", "page"),
        ("page=nonsense", "page"),
        ("page=page_AAAAAAAAA-g", "page"),
        ("frobnicate=1", "frobnicate"),
        ("limit=1&limit=2", "limit"),
        ("limit[]=1", "limit[]"),
        ("api_key_ids=" + "x" * 600, "api_key_ids"),
    ):
        await served.refused(path, f"start_time=1000&{query}", param)
    await served.refused(
        path, "start_time=1&" + "&".join(f"api_key_ids={i}" for i in range(501)), "api_key_ids"
    )


async def test_limits_are_openais(empty: Served) -> None:
    served = empty
    for width, usual, most in (("1m", 60, 1440), ("1h", 24, 168), ("1d", 7, 31)):
        query = f"start_time=0&bucket_width={width}"
        assert len((await served.get(USAGE_PATH, query))["data"]) == usual
        assert len((await served.get(USAGE_PATH, f"{query}&limit={most}"))["data"]) == most
        await served.refused(USAGE_PATH, f"{query}&limit={most + 1}", "limit")
    assert len((await served.get(COSTS_PATH, "start_time=0&limit=180"))["data"]) == 180
    await served.refused(COSTS_PATH, "start_time=0&bucket_width=1h", "bucket_width")
    await served.refused(USAGE_PATH, "start_time=0&batch=yes", "batch")


async def test_a_start_after_now_has_one_empty_bucket(empty: Served) -> None:
    page = await empty.get(USAGE_PATH, f"start_time={MIDNIGHT_S + 9 * DAY_S}")
    assert [bucket["results"] for bucket in page["data"]] == [[]]


async def test_the_ledger_lists_entries_newest_first() -> None:
    async with filled() as ledger:
        served = Served(ledger)
        page = await served.get(PATH, "limit=4")
        entries = page["data"]
        assert page["has_more"]
        page = await served.get(PATH, f"limit=4&cursor={page['next_cursor']}")
        entries += page["data"]
        assert (page["has_more"], page["next_cursor"], len(entries)) == (False, None, 6)
        assert [entry["usd"] for entry in entries] == [
            "0.000000000007",
            "0.000000000005",
            "0.000000000001",
            None,
            "1",
            "0.0416",
        ]
        assert tuple(entries[0]) == COLUMNS
        assert entries[0]["stream"] is True
        for query, count in (
            ("key_id=a", 4),
            ("model=gpt-sol&tier=fast", 1),
            ("state=cut&state=failed", 2),
            ("endpoint=/v1/messages", 1),
            (f"request_id={entries[2]['request_id']}", 1),
            (f"since={MIDNIGHT_S + 60}&until={MIDNIGHT_S + 61}", 1),
            (f"since={MIDNIGHT_S + 60}.000001&until={MIDNIGHT_S + 61}", 0),
        ):
            assert len((await served.get(PATH, query))["data"]) == count, query
            assert (await served.get(TOTALS_PATH, query))["requests"] == count, query


async def test_totals_are_exact_and_say_what_has_no_price() -> None:
    async with filled() as ledger:
        served = Served(ledger)
        totals = await served.get(TOTALS_PATH)
        assert totals == {
            "object": "ledger.totals",
            "requests": 6,
            "prompt_tokens": 600,
            "cached_tokens": 240,
            "cache_write_tokens": 60,
            "completion_tokens": 120,
            "reasoning_tokens": 30,
            "usd": "1.041600000013",
            "usd_unpublished": 1,
            "credits": "0",
            "credits_unpublished": 6,
        }
        groups = await served.get(TOTALS_PATH, "group_by=key_id,state&group_by=tier_served")
        assert [
            (group["key_id"], group["state"], group["tier_served"], group["requests"])
            for group in groups["data"]
        ] == [
            ("a", "cut", "fast", 1),
            ("a", "finished", "default", 3),
            ("b", "failed", "default", 1),
            ("b", "finished", "default", 1),
        ]


async def test_the_csv_has_every_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.http.ledger_routes._MOST", 2)
    async with filled() as ledger:
        served = Served(ledger)
        answer = await served.http.get(f"{PATH}?format=csv")
        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        listed = (await served.get(PATH, "limit=2"))["data"]
        head, *rows = csv.reader(io.StringIO(answer.text))
        assert tuple(head) == COLUMNS
        assert len(rows) == 6
        as_text = {key: "" if value is None else str(value) for key, value in listed[0].items()}
        assert dict(zip(head, rows[0], strict=True)) == as_text
        for limit, count in ((1, 1), (2, 2)):
            some = await served.http.get(f"{PATH}?format=csv&limit={limit}")
            assert len(some.text.splitlines()) == count + 1
        none = await served.http.get(f"{PATH}?format=csv&key_id=z")
        assert none.text.splitlines() == [",".join(COLUMNS)]


async def test_no_cell_of_the_csv_is_a_formula() -> None:
    ledger = SqliteLedger()
    names = ["=1+1", "+1", "-1", "@sum(1)", "\t=1", "\r=1", "a=1", '"=1"', "é"]
    for name in names:
        held = made.hold(model=name, request_id=name)
        await ledger.hold(held, Terms())
        ledger.settle(made.entry(held))
    served = Served(ledger)
    text = (await served.http.get(f"{PATH}?format=csv")).text
    rows = list(csv.DictReader(io.StringIO(text, newline="")))[::-1]
    shown = [f"'{name}" for name in names[:6]] + names[6:]
    assert [row["model"] for row in rows] == [row["request_id"] for row in rows] == shown
    listed = (await served.get(PATH))["data"][::-1]
    assert [each["model"] for each in listed] == names
    await ledger.close()


async def test_what_the_ledger_refuses(empty: Served) -> None:
    served = empty
    for path in (PATH, TOTALS_PATH):
        await served.refused(path, "since=yesterday", "since")
        await served.refused(path, "since=2&until=2", "until")
        await served.refused(path, "until=1.1234567", "until")
        await served.refused(path, "state=fine", "state")
        await served.refused(path, "colour=red", "colour")
    await served.refused(PATH, "limit=1001", "limit")
    await served.refused(PATH, "cursor=1", "cursor")
    await served.refused(PATH, "format=xml", "format")
    await served.refused(TOTALS_PATH, "group_by=colour", "group_by")


async def test_a_key_sees_its_own_rows_and_an_admin_all() -> None:
    async with filled() as ledger:
        start = f"start_time={MIDNIGHT_S}"
        for caller, mine, all_ in (
            (Caller(key_id="a"), 4, 4),
            (Caller(key_id="z"), 0, 0),
            (Caller(), 0, 0),
            (Caller(key_id="z", admin=True), 4, 6),
            (NOBODY, 4, 6),
            (None, 0, 0),
        ):
            served = Served(ledger, caller)
            assert len((await served.get(PATH))["data"]) == all_
            assert len((await served.get(PATH, "key_id=a&key_id=z"))["data"]) == mine
            assert (await served.get(TOTALS_PATH))["requests"] == all_
            rows = (await served.http.get(f"{PATH}?format=csv")).text.splitlines()
            assert len(rows) == all_ + 1
            usage = await served.get(USAGE_PATH, start)
            counts = [
                each["num_model_requests"] for day in usage["data"] for each in day["results"]
            ]
            # One of a's is an embedding.
            assert sum(counts) == (all_ - 1 if all_ else 0)
            costs = await served.get(COSTS_PATH, f"{start}&group_by=api_key_id")
            keys = {each["api_key_id"] for day in costs["data"] for each in day["results"]}
            assert keys == ({"a", "b"} if all_ == 6 else {"a"} if all_ else set())
        own = Served(ledger, Caller(key_id="a"))
        assert (await own.get(PATH, "key_id=b"))["data"] == []
        assert (await own.get(USAGE_PATH, f"{start}&api_key_ids=b"))["data"][0]["results"] == []


NAMES = st.sampled_from(
    [
        *("start_time", "end_time", "bucket_width", "limit", "page", "group_by", "group_by[]"),
        *("models[]", "api_key_ids", "since", "until", "state", "key_id", "request_id"),
        *("cursor", "format", "batch"),
    ]
)
LIKELY = ["1790000000", "1790000000.5", "1d", "1m", "model", "true", "csv", "99999999999", "-1"]
VALUES = st.one_of(
    st.sampled_from([*LIKELY, "[]", "\0"]),
    st.text(max_size=20),
)


@given(
    st.sampled_from([USAGE_PATH, COSTS_PATH, PATH, TOTALS_PATH]),
    st.lists(st.tuples(NAMES, VALUES), max_size=5),
)
def test_whatever_is_asked_is_answered_or_refused_by_name(
    path: str, given_: list[tuple[str, str]]
) -> None:
    async def run() -> None:
        async with filled() as ledger:
            query = urlencode(given_, errors="surrogatepass")
            answer = await Served(ledger).http.get(f"{path}?{query}")
            assert answer.status_code in (200, 400)
            if answer.status_code == 400:
                assert answer.json()["error"]["param"]

    asyncio.run(run())


async def test_without_a_ledger_there_is_nothing_to_see() -> None:
    for path in (USAGE_PATH, COSTS_PATH, PATH, TOTALS_PATH):
        assert (await Served(None).get(path, "", 404))["error"]["code"] == "no_ledger"


async def test_a_store_that_fails_is_no_accident(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(keep: int | None) -> Any:
        raise OSError(keep)

    monkeypatch.setattr(module, "open_private", broken)
    ledger = SqliteLedger()
    served = Served(ledger)
    for path, query in (
        (USAGE_PATH, "start_time=1"),
        (COSTS_PATH, "start_time=1"),
        (PATH, ""),
        (PATH, "format=csv"),
        (TOTALS_PATH, ""),
    ):
        error = (await served.get(path, query, 503))["error"]
        assert error["code"] == "ledger_unavailable"
    await ledger.close()
