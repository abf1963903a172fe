"""A lean client for load: asyncio and httptools, nothing of an SDK.

`cutter` takes events out of bytes, `marks` reads them, `connection` and `pool` are HTTP/1.1,
`socket` the WebSocket; `client` is what a load test calls. Every piece is stamped on receipt,
before anything of it is parsed; parsing waits until a few pieces are there.
"""

from __future__ import annotations

from paceline_loadtest.lean.client import LeanClient

__all__ = ["LeanClient"]
