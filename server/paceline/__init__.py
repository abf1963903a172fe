"""Paceline: an OpenAI-compatible server with no model behind it.

The package is built in layers, and a test holds who may import whom:

- ``core``: the model of time and money. Pure.
- ``wire``: JSON to core types and back, one module a dialect. Pure. Imports core.
- ``runtime``: what needs a real clock or a disk. Imports core.
- ``http``: routes, thin. Imports wire, runtime and core.
- ``app`` and ``cli`` know all of them.
"""

from __future__ import annotations

from typing import Final

__all__ = ["__version__"]

__version__: Final = "0.1.0"
