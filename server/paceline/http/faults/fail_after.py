"""The server fails in the middle: an error event, and neither a finish nor `[DONE]`."""

from __future__ import annotations

from paceline.core.usage import Usage
from paceline.http.faults.after import After
from paceline.runtime.sink import Timing


class FailAfter(After):
    """Ends the answer with an error, in the dialect's own words."""

    def strike(self) -> bool:
        """Break the answer off and say so."""
        encoder, asked = self.scene.encoder, self.asked
        assert encoder is not None, "only streams have tokens on their way"
        self.scene.engine.pacer.abort(self.victim, "error")
        self.inner.end(encoder.fail(asked.status, asked.message, asked.code))
        return False

    def strike_whole(self, usage: Usage, timing: Timing) -> None:
        """The same by the status."""
        self.struck = True
        self.victim.record.state = "failed"
        self.inner.refuse(self.asked.status, self.asked.message, self.asked.code)
