"""Scripts: files that say what the "model" does, turn by turn.

Which turn it is gets counted from the conversation itself, so a script needs no state: it works
over every transport, in parallel, and across workers.
"""

from __future__ import annotations

from paceline.runtime.scripts.document import Script, ScriptError
from paceline.runtime.scripts.files import load_scripts, shipped_scripts
from paceline.runtime.scripts.play import Scripts

__all__ = ["Script", "ScriptError", "Scripts", "load_scripts", "shipped_scripts"]
