"""Agent loops, clients, statistics and reports: the caller's side of Paceline.

Law: a server is reached over the wire, as anyone would. Of the ``paceline`` package only
``paceline.core`` may be imported, to predict a run before it is made.
"""

from __future__ import annotations
