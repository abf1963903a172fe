"""JSON to core types and back, one module a dialect; SSE framing; error envelopes.

Law: pure functions of bytes and core types. Of Paceline's layers only ``core`` may be imported
here. Nothing waits, and nothing knows which route or socket the bytes belong to.
"""

from __future__ import annotations
