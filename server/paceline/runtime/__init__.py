"""What needs a real clock, a disk, a thread or a library with state of its own.

Law: the pacer, the tokenizer, the stores and the metrics live here. Of Paceline's layers only
``core`` may be imported; nothing here knows a dialect or a route.
"""

from __future__ import annotations
