"""What refuses a request before its first byte."""

from __future__ import annotations


class PlanError(Exception):
    """A request that is well-formed but can't be served as asked.

    `param` names the field at fault in the core's own words (`max_tokens`, `prompt`); a dialect
    that calls the field otherwise renames it. `code` is the error envelope's machine-readable one.
    """

    def __init__(
        self, message: str, param: str | None = None, code: str | None = None, status: int = 400
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = status
