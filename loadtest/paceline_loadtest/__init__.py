"""Agent loops, clients, statistics and reports: the caller's side of Paceline.

Law: a server is reached over the wire, as anyone would. Of the ``paceline`` package only what
predicts a run (``core``, ``simulation``), reads its files and tells an address may be imported,
never what serves; ``own`` alone starts a server.
"""

from __future__ import annotations
