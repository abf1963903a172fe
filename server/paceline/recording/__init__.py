"""Real endpoints on tape: a proxy that records what passes, and a replay at the recorded times.

Law: an exchange's document, its redaction and its matching know nothing of HTTP servers; the proxy
and the replay are ASGI applications on top of ``http``, which never imports them. ``app`` and the
command put them to work.
"""

from __future__ import annotations
