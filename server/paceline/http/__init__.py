"""Routes and pages: the thin layer between the web framework and everything else.

Law: a route parses through ``wire``, plans and schedules through ``core`` and ``runtime``, and
decides nothing of its own. ``app`` puts the parts together, so it is never imported here.
"""

from __future__ import annotations
