"""The Grafana dashboard as data: its panels and the queries they make."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

FILE = Path(__file__).resolve().parents[2] / "deploy/grafana/dashboards/paceline.json"


def read() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return loaded


def panels() -> Iterator[dict[str, Any]]:
    """Every panel that shows something, also those folded into a row."""
    waiting = list(read()["panels"])
    while waiting:
        panel = waiting.pop(0)
        if panel["type"] == "row":
            waiting.extend(panel["panels"])
        else:
            yield panel


def expressions(variables: Literal["kept", "filled"] = "kept") -> set[str]:
    """Every query of every panel; with ``filled``, as Prometheus would be asked it."""
    found = {target["expr"] for panel in panels() for target in panel["targets"]}
    if variables == "kept":
        return found
    return {
        re.sub(r"\$\w+", ".*", expression.replace("$__rate_interval", "4s")) for expression in found
    }
