"""The harness of real clients imports its modules by their bare names."""

from __future__ import annotations

import sys
from pathlib import Path

_CLIENTS = str(Path(__file__).resolve().parents[2] / "clients")
if _CLIENTS not in sys.path:
    sys.path.append(_CLIENTS)
