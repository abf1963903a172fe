"""Anthropic's Messages: a parser, an encoder and an error envelope.

What the dialect's words mean to the rest of Paceline:

- `input_tokens` leaves out what was read from or written to the cache; the three add up.
- A prompt is cached only where something in the request bears `cache_control`.
- `speed: "fast"` is the tier `fast`: a model with a fast profile is served by it, others as ever.
- Without `thinking` nothing is thought; with it, `output_config.effort` sets how much.
"""

from __future__ import annotations
