"""What the ledger's routes share: who may see what, and what happens where there is no ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import orjson
from starlette.requests import Request
from starlette.responses import Response

from paceline.core.money import digits
from paceline.http.auth import caller_of
from paceline.runtime.ledger.interface import Books, UnreadableError
from paceline.wire.errors import ApiError, from_refusal

T = TypeVar("T")

_AT_ONCE = 100
"""Rows that are made into an answer on the event loop: some 10 µs each."""


def books_of(ledger: Books | None) -> Books:
    """The ledger. Raises ApiError where the server keeps none."""
    if ledger is None:
        raise ApiError(404, "This server keeps no ledger.", code="no_ledger")
    return ledger


def visible_keys(request: Request, asked: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Of the keys that are asked for those whose rows the caller may see; None is all.

    An admin sees everybody's, as everyone is where no key is asked for; any other key sees its
    own.
    """
    caller = caller_of(request.scope)
    if caller.admin:
        return asked
    own = caller.key_id
    return (own,) if asked is None or own in asked else ()


async def found(question: Awaitable[T]) -> T:
    """The ledger's answer. Raises ApiError where its store fails."""
    try:
        return await question
    except UnreadableError as error:
        raise from_refusal(error) from error


async def built(rows: int, build: Callable[[], T]) -> T:
    """What `build` makes; of many rows on another thread, so that no stream's tokens wait."""
    return build() if rows <= _AT_ONCE else await asyncio.to_thread(build)


def number(pico: int) -> orjson.Fragment:
    """An amount as a JSON number with all its digits."""
    return orjson.Fragment(digits(pico).encode())


def json_answer(value: Any) -> Response:
    """A JSON body."""
    return Response(orjson.dumps(value), media_type="application/json")
