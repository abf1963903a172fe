"""What faults have in common that happen in the middle of an answer, after so many tokens."""

from __future__ import annotations

from paceline.core.encode import ChoiceEncoder
from paceline.core.request import Fault
from paceline.core.usage import Usage
from paceline.http.faults.nothing import Nothing, Scene
from paceline.runtime.sink import Timing
from paceline.runtime.stream import Answer


class After(Nothing):
    """Counts the tokens of all choices on their way, and strikes right behind the last before it.

    It never strikes in an answer that has fewer. One that isn't streamed is struck when it is
    complete.
    """

    breaks = True
    """Whether nothing of the answer follows."""

    def __init__(self, asked: Fault, scene: Scene) -> None:
        super().__init__(asked, scene)
        self.struck = False
        self._left = asked.tokens
        if scene.encoder is not None:
            choices = enumerate(scene.encoder.choices)
            scene.encoder.choices[:] = [_Counted(self, slot, each) for slot, each in choices]

    @property
    def spoils(self) -> bool:
        """Whether an answer that isn't streamed is long enough to be broken off."""
        if self.scene.encoder is not None:
            return False
        return self.breaks and self.scene.plan.completion_tokens >= self.asked.tokens

    @property
    def victim(self) -> Answer:
        """The answer."""
        assert self.answer is not None, "set before anything is sent"
        return self.answer

    def strike(self) -> bool:
        """Do it; whether the rest of the answer is still wanted."""
        raise NotImplementedError

    def strike_whole(self, usage: Usage, timing: Timing) -> None:
        """Do it to an answer that isn't streamed."""
        raise NotImplementedError

    def whole(self, usage: Usage, timing: Timing) -> None:
        """An answer that isn't streamed: struck if it is long enough."""
        if usage.completion_tokens >= self.asked.tokens:
            self.strike_whole(usage, timing)
        else:
            self.inner.whole(usage, timing)

    def write(self, data: bytes) -> None:
        """A part of a stream; nothing follows what breaks an answer off."""
        if not self.struck:
            self.inner.write(data)

    def end(self, data: bytes) -> None:
        """The last part."""
        if not self.struck:
            self.inner.end(data)

    def tokens(self, slot: int, choice: ChoiceEncoder, start: int, stop: int) -> bytes:
        """The events of a choice's tokens, the fault between those before and behind it."""
        if self.struck or stop - start < self._left:
            self._left -= stop - start
            return choice.tokens(start, stop)
        middle = start + self._left
        self.struck = True
        before = choice.tokens(start, middle) if middle > start else b""
        if before:
            self.inner.write(before)
        # What the answer is billed for, if this is its end.
        self.victim.streams[slot].sent = middle
        return choice.tokens(middle, stop) if self.strike() and stop > middle else b""


class _Counted:
    """A ChoiceEncoder that tells the fault of its tokens."""

    def __init__(self, fault: After, slot: int, choice: ChoiceEncoder) -> None:
        self._fault = fault
        self._slot = slot
        self._choice = choice

    def tokens(self, start: int, stop: int) -> bytes:
        return self._fault.tokens(self._slot, self._choice, start, stop)

    def close(self) -> bytes:
        return self._choice.close()
