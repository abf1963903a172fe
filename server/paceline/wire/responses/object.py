"""The response object: what the request decides of it, and what is known at the moment."""

from __future__ import annotations

from paceline.core.usage import Usage
from paceline.wire.head import Head
from paceline.wire.jsonbytes import json_bytes
from paceline.wire.responses.request import ResponseContext

ERROR_CODES = frozenset(
    {
        "server_error",
        "rate_limit_exceeded",
        "invalid_prompt",
        # These aren't among the documented ones, but agents know them.
        "slow_down",
        "server_is_overloaded",
        "context_length_exceeded",
        "insufficient_quota",
        "usage_not_included",
    }
)


def usage_json(usage: Usage) -> bytes:
    """Token counts as this API has them: all whole numbers, none null."""
    return (
        b'{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d},'
        b'"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}'
        % (
            usage.prompt_tokens,
            usage.cached_tokens,
            usage.cache_write_tokens,
            usage.completion_tokens,
            usage.reasoning_tokens,
            usage.total_tokens,
        )
    )


class ResponseObject:
    """The response at any moment; what the request decides of it is written once."""

    def __init__(self, head: Head, context: ResponseContext) -> None:
        self._head = b'{"id":%b,"object":"response","created_at":%d,"status":"' % (
            json_bytes(head.id),
            head.created,
        )
        shown = {"model": head.model, "service_tier": head.service_tier, **context.shown}
        self._shown = json_bytes(shown)[1:-1]

    def json(
        self,
        status: str,
        *,
        output: bytes = b"",
        usage: bytes = b"null",
        error: bytes = b"null",
        incomplete: bytes = b"null",
        completed_at: int | None = None,
        cost: bytes = b"",
    ) -> bytes:
        """The object; `output` are its items, joined by commas, `cost` a last member or nothing."""
        return (
            b'%b%b","completed_at":%b,"error":%b,"incomplete_details":%b,%b,"output":[%b],'
            b'"usage":%b%b}'
            % (
                self._head,
                status.encode(),
                b"null" if completed_at is None else b"%d" % completed_at,
                error,
                incomplete,
                self._shown,
                output,
                usage,
                cost,
            )
        )
