"""The model of time and money.

Law: only the standard library and this package may be imported here. Nothing reads a clock,
touches a disk or a socket, starts a thread or awaits; time is an argument. Random numbers are
keyed by seed and request, never drawn from the ``random`` module's shared generator.
"""

from __future__ import annotations
