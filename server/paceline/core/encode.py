"""What the pacer needs of a dialect: bytes for a run of tokens, bytes for an end."""

from __future__ import annotations

from typing import Protocol

from paceline.core.usage import Usage


class ChoiceEncoder(Protocol):
    """Cuts one choice's tokens into a dialect's events.

    Tokens are numbered over the whole output, hidden reasoning first. The first run that has
    something to show carries the choice's opening (a role chunk, say) in front.
    """

    def tokens(self, start: int, stop: int) -> bytes:
        """The events of tokens start to stop - 1, empty when none of them shows."""
        ...

    def close(self) -> bytes:
        """The events that end the choice, and its opening where nothing was shown before."""
        ...


class StreamEncoder(Protocol):
    """A streamed answer: its choices' encoders, and what surrounds them."""

    content_type: str
    choices: list[ChoiceEncoder]

    def start(self) -> bytes:
        """What leaves at once, before any token (nothing in most dialects)."""
        ...

    def end(self, usage: Usage) -> bytes:
        """What follows the last choice's end."""
        ...

    def fail(self, status: int, message: str, code: str) -> bytes:
        """The event that ends a stream that broke after it began."""
        ...


class EndsLate:
    """A StreamEncoder whose end is long: it waits until all streams have sent what is due.

    Only for encoders of a single choice.
    """


class OpensWithUsage:
    """A StreamEncoder whose first bytes tell the prompt's token counts."""

    def open(self, usage: Usage) -> None:
        """Take the counts: called once, before the first token is encoded."""
        raise NotImplementedError
