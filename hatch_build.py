"""Build hook: the profiles and rate cards of the repository's root ship inside the wheel.

An editable install gets no copy: a copy would go stale while the files are worked on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ShipData(BuildHookInterface[Any]):
    """Adds ``profiles/*.toml`` to a wheel as ``paceline/_profiles/``, and ``rates/`` likewise."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files to include, unless ``version`` says the build is an editable one."""
        if version == "editable":
            return
        for folder in ("profiles", "rates"):
            for file in sorted(Path(self.root, folder).glob("*.toml")):
                build_data["force_include"][str(file)] = f"paceline/_{folder}/{file.name}"
