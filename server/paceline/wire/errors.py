"""Errors as OpenAI's envelope, for every dialect that shares it.

`ApiError` is the only exception that leaves a parser. Codes are those OpenAI's API answers with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

from paceline.wire.jsonbytes import json_bytes

INVALID_REQUEST = "invalid_request_error"
_BELOW_V1 = (
    "/chat/", "/completions", "/conversations", "/embeddings", "/messages", "/models", "/responses",
)  # fmt: skip


class ApiError(Exception):
    """A request that gets an error for an answer.

    `param` names the field at fault by its path in the body (`messages[0].role`), or the header.
    `headers` go out with the answer (`Retry-After`, `Allow`). `extra` are members that a few
    errors have beside the envelope's four.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str | None = None,  # noqa: A002 - the envelope's own word
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = error_type(status) if type is None else type
        self.param = param
        self.code = code
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})

    def body(self) -> bytes:
        """The JSON body: `{"error": {"message", "type", "param", "code"}}`."""
        if not self.extra:
            return envelope(self.message, self.type, self.param, self.code)
        inside = {"message": self.message, "type": self.type, "param": self.param}
        return json_bytes({"error": {**inside, "code": self.code, **self.extra}})


class Refusal(Protocol):
    """What a refusal from the core looks like (`paceline.core.errors.PlanError`)."""

    message: str
    param: str | None
    code: str | None
    status: int


def error_type(status: int) -> str:
    """OpenAI's `type` for an HTTP status."""
    if status >= 500:
        return "server_error"
    return {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}.get(
        status, INVALID_REQUEST
    )


def envelope(message: str, type_: str, param: str | None, code: str | None) -> bytes:
    """The error object as JSON."""
    return json_bytes({"error": {"message": message, "type": type_, "param": param, "code": code}})


def invalid(param: str, message: str, code: str | None = "invalid_value") -> ApiError:
    """400 for a field or header that can't be as it is."""
    return ApiError(400, message, param=param, code=code)


def unsupported(param: str, message: str) -> ApiError:
    """400 for something that is meant, but that this server doesn't do."""
    return ApiError(400, message, param=param, code="unsupported_parameter")


def bad_json(reason: str) -> ApiError:
    """400 for a body that isn't JSON."""
    return ApiError(400, f"The request body is not valid JSON: {reason}", code="invalid_json")


def model_not_found(name: str) -> ApiError:
    """404 for a model nobody serves here."""
    return ApiError(
        404,
        f"The model {quoted(name)} does not exist or you do not have access to it.",
        param="model",
        code="model_not_found",
    )


def not_found(path: str) -> ApiError:
    """404 for a URL without a route; says so where a base URL lacks its /v1 or has one too many."""
    message = f"Invalid URL: nothing is served at {quoted(path)}."
    if path.startswith(_BELOW_V1):
        message += " The API is below /v1: is that missing at the end of the base URL?"
    elif path.startswith("/v1/v1/"):
        message += " It has /v1 twice: leave it out of the base URL."
    return ApiError(404, message, code="not_found")


def method_not_allowed(method: str, path: str, allowed: str) -> ApiError:
    """405; `allowed` is the value of the Allow header (`GET, HEAD`)."""
    return ApiError(
        405,
        f"Not allowed to {method} on {quoted(path)}; allowed: {allowed}.",
        code="method_not_allowed",
        headers={"Allow": allowed},
    )


def too_large(limit_bytes: int) -> ApiError:
    """413 for a body above the limit."""
    return ApiError(
        413, f"The request body is larger than {limit_bytes} bytes.", code="request_too_large"
    )


def server_error(
    message: str = "The server had an error while processing the request.",
) -> ApiError:
    """500."""
    return ApiError(500, message, code="server_error")


def from_refusal(refusal: Refusal, names: Mapping[str, str] | None = None) -> ApiError:
    """The answer to a request that the core refused to plan.

    `names` are a dialect's own words for the core's fields (`CHAT_NAMES`), `[]` in them standing
    for any index: `tools[].schema`. A message that has such a path in it gets the dialect's.
    """
    param, message = refusal.param, refusal.message
    if param is not None and names is not None:
        indices = iter(_INDEX.findall(param))
        name = names.get(_INDEX.sub("[]", param), param)
        own = re.sub(r"\[\]", lambda _: next(indices, "[]"), name)
        if "." in param:
            message = message.replace(param, own)
        param = own
    return ApiError(refusal.status, message, param=param, code=refusal.code)


_INDEX = re.compile(r"\[\d+\]")


def quoted(text: str, limit: int = 200) -> str:
    """A value of the caller's in quotes, printable and at most `limit` characters of it."""
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")
