"""A server for other people's tests, in a thread of their own process.

    with paceline.testing.serve("gpu-40", speed=10) as server:
        client = OpenAI(base_url=server.base_url, api_key="any")
        ...
        assert server.requests[0].json["model"] == "gpu-40"

With pytest, the fixture `paceline_server` is such a server, configured by the marker `paceline`.
Nothing heavy is imported before a server is started.

Law: it puts an app and a clock together and looks on; what a request means is for the app to know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.testing.received import Received
    from paceline.testing.server import TestServer, serve

__all__ = ["Received", "TestServer", "serve"]


def __getattr__(name: str) -> Any:
    if name in ("serve", "TestServer"):
        from paceline.testing import server  # noqa: PLC0415 - see above

        return getattr(server, name)
    if name == "Received":
        from paceline.testing import received  # noqa: PLC0415 - see above

        return received.Received
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
