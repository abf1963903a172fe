"""The routes that aren't the token path: models, health, metrics, and what the server knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from sse_starlette import EventSourceResponse

from paceline import __version__
from paceline.core.profile import Profile
from paceline.runtime import profile_table
from paceline.runtime.engine import LiveEngine
from paceline.runtime.exposition import Exposition
from paceline.runtime.key_files import KeyFileError
from paceline.runtime.profile_files import ProfileFileError
from paceline.runtime.rate_files import RateFileError
from paceline.runtime.toml_files import FileError
from paceline.wire.anthropic import models as anthropic
from paceline.wire.errors import ApiError, invalid, model_not_found
from paceline.wire.models import encode_model, encode_models

_JSON = "application/json"
_TYPE = {"content-type": _JSON}
_ANTHROPIC = "anthropic-version"
"""A header that only callers of Anthropic's API send."""
_MODELS_SINCE = 1_767_225_600
"""`created` of every model: 1 January 2026, so that it doesn't change with each start."""


def routes(engine: LiveEngine) -> APIRouter:
    """All of them, for one engine."""
    router = APIRouter()
    exposition = Exposition(engine.metrics)

    @router.get("/health", summary="Whether the process is alive")
    async def health() -> Response:
        return _json({"status": "ok"})

    @router.get("/ready", summary="Whether it takes requests")
    async def ready() -> Response:
        if engine.draining:
            return _json({"status": "shutting down"}, 503)
        return _json({"status": "ready", "profiles": len(engine.registry.profiles())})

    @router.get("/version", summary="The server's version")
    async def version() -> Response:
        return _json({"version": __version__})

    @router.get("/metrics", summary="Prometheus metrics")
    async def metrics() -> Response:
        body, content_type = exposition.render()
        return Response(body, headers={"content-type": content_type})

    @router.get("/v1/models", summary="Every name that is served")
    async def models(request: Request) -> Response:
        if _ANTHROPIC in request.headers:
            return Response(anthropic.encode_models(engine.registry.names().items()), 200, _TYPE)
        return Response(
            encode_models(engine.registry.names().items(), _MODELS_SINCE), media_type=_JSON
        )

    @router.get("/v1/models/{model:path}", summary="One of them")
    async def model(request: Request, model: str) -> Response:
        profile = engine.registry.get(model)
        if profile is None:
            raise model_not_found(model)
        if _ANTHROPIC in request.headers:
            return Response(anthropic.encode_model(model, profile), 200, _TYPE)
        return Response(encode_model(model, profile, _MODELS_SINCE), media_type=_JSON)

    _inspection(router, engine)
    return router


def _inspection(router: APIRouter, engine: LiveEngine) -> None:
    """What the server tells of itself, beside the API that it mocks."""

    @router.get("/paceline/requests", summary="The latest requests' timing")
    async def recent(limit: int = 50) -> Response:
        if not 1 <= limit <= 1000:
            raise invalid("limit", "limit must be from 1 to 1000.")
        found = [_brief(record.to_json()) for record in engine.records.recent(limit)]
        return _json({"object": "list", "data": found})

    @router.get("/paceline/requests/{request_id:path}", summary="When each chunk was due and left")
    async def one_request(request_id: str) -> Response:
        record = engine.records.get(request_id)
        if record is None:
            raise ApiError(
                404,
                f"No request {request_id!r} is on record: it was never here or was forgotten.",
                param="request_id",
                code="request_not_found",
            )
        return _json(record.to_json())

    @router.get("/paceline/profiles", summary="Every profile, each number with its source")
    async def profiles() -> Response:
        found = [_described(profile) for profile in engine.registry.profiles()]
        return _json({"object": "list", "data": found})

    @router.post("/paceline/reload", summary="Read the profile and keys files again")
    async def reload() -> Response:
        try:
            engine.reload()
        except FileError as error:
            raise ApiError(400, str(error), code=_RELOADED[type(error)]) from None
        return _json({"status": "reloaded", "profiles": len(engine.registry.profiles())})

    @router.get("/paceline/live", summary="Load and rates, once a second, as events")
    async def live(request: Request) -> EventSourceResponse:
        events = _seconds(engine, request)
        # Else a server that stops cuts the stream wherever it is; it ends by itself in a second.
        return EventSourceResponse(events, sep="\n", ping=3600, shutdown_grace_period=1.5)


async def _seconds(engine: LiveEngine, request: Request) -> AsyncIterator[bytes]:
    """One event a second, the first one soon: each profile's load, and its rate since the last."""
    before, before_ns = _generated(engine), engine.clock.now_ns()
    wait_s = _FIRST_AFTER_S
    while not await request.is_disconnected() and not engine.draining:
        await asyncio.sleep(wait_s)
        wait_s = 1.0
        total, now_ns = _generated(engine), engine.clock.now_ns()
        profiles: dict[str, Any] = {}
        for name, tokens in total.items():
            load = engine.deployments.load(name)
            profiles[name] = {
                "running": load.running,
                "waiting": load.waiting,
                "kv_usage": load.kv_usage,
                "tokens_per_second": (tokens - before.get(name, 0)) * 1e9 / (now_ns - before_ns),
            }
        before, before_ns = total, now_ns
        yield b"data: " + orjson.dumps({"profiles": profiles}) + b"\n\n"


_FIRST_AFTER_S = 0.25
_RELOADED: dict[type[FileError], str] = {
    ProfileFileError: "invalid_profile",
    RateFileError: "invalid_rates",
    KeyFileError: "invalid_keys",
}


def _generated(engine: LiveEngine) -> dict[str, int]:
    """The tokens that each profile has generated so far, in all its tiers."""
    found: dict[str, int] = {}
    for (name, _), counters in engine.metrics.profiles.items():
        found[name] = found.get(name, 0) + counters.generation_tokens
    return found


def _brief(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != "choices"}


def _described(profile: Profile) -> dict[str, Any]:
    numbers = [row.to_json() for row in profile_table.rows(profile)]
    about = {"notes": profile.notes, "tiers": dict(profile.tiers), "numbers": numbers}
    return {**profile_table.summary(profile).to_json(), **about}


def _json(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type=_JSON)
