"""The real SDKs, `openai` and `anthropic`, used as a program would use them.

`tap` listens on their transport, where bytes come in; `client` makes the calls. The SDKs come with
Paceline's extra `loadtest`; importing this package without them raises ImportError.
"""

from __future__ import annotations

from paceline_loadtest.sdk.client import SdkClient

__all__ = ["SdkClient"]
