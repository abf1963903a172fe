"""FastAPI's own errors in the API's envelope: 404, 405, bad parameters, and accidents."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from paceline.http.anthropic import STYLE as ANTHROPIC
from paceline.http.anthropic import is_anthropic
from paceline.http.respond import JSON, OPENAI, request_id
from paceline.wire.errors import (
    ApiError,
    invalid,
    method_not_allowed,
    not_found,
    server_error,
)

log = logging.getLogger("paceline")


def install(app: FastAPI) -> None:
    """Have every error of an app leave in the envelope."""

    async def api_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, ApiError)
        return _answer(request, error)

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _answer(request, _translate(request, error))

    async def bad_parameter(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        name = str(first["loc"][-1])
        return _answer(request, invalid(name, f"{name}: {first['msg']}."))

    async def accident(request: Request, error: Exception) -> Response:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return _answer(request, server_error())

    app.add_exception_handler(ApiError, api_error)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(RequestValidationError, bad_parameter)
    app.add_exception_handler(Exception, accident)


def _translate(request: Request, error: HTTPException) -> ApiError:
    path = request.url.path
    if error.status_code == 404:
        return not_found(path)
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return method_not_allowed(request.method, path, allowed)
    return ApiError(error.status_code, str(error.detail), headers=error.headers)


def _answer(request: Request, error: ApiError) -> Response:
    rid = request_id(request.scope)
    path = request.url.path
    style = ANTHROPIC if is_anthropic(path, request.headers) else OPENAI
    headers = {k.decode(): v.decode() for k, v in style.headers(JSON, rid, 0.0)}
    body = b"" if request.method == "HEAD" else style.error(error, rid)
    return Response(body, style.status(error.status), {**headers, **error.headers})
