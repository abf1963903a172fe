"""Profiles that can be worked out by hand."""

from __future__ import annotations

from typing import Any

from paceline.core.profile import Engine, Profile


def profile(**engine: Any) -> Profile:
    """A step of 10 ms and nothing else, unless said otherwise."""
    return Profile(name="test", title="test", engine=Engine(**{"step_ms": 10.0, **engine}))
