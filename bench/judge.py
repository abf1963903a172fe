"""What a judge is: how it is told what to measure, and what its figures mean.

A metric says in words what the judge measures, and how the same figure follows from the server's
records. What only the judge can see, its own delay in reading and the way to it, is the difference.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from judge_records import Own, Served, mean, median, worst_hundredth

# From the project's folder, where the judges are run, so that the commands can be shown.
GUIDELLM_BIN = Path("bench/.venv-guidellm/bin")
AIPERF_BIN = Path("bench/.venv-aiperf/bin")
RESULTS = Path("bench/out/judges")
TOKENIZER = RESULTS / "tokenizer"
PROMPT_TOKENS = 128
ID_PREFIX = "judged-"


@dataclass(frozen=True)
class Load:
    """Requests for one profile: `streams` at a time, or `rate` a second at random moments."""

    name: str
    title: str
    model: str
    requests: int
    output_tokens: int
    streams: int | None = None
    rate: float | None = None


@dataclass(frozen=True)
class Verdict:
    """A judge's figures by metric, and the ids of what it counted (None: all that it sent)."""

    figures: Mapping[str, float]
    ids: frozenset[str] | None = None


@dataclass(frozen=True)
class Metric:
    name: str
    unit: str
    own: Own
    meaning: str
    """The judge's definition."""
    held: bool = True
    """Whether it must agree; else it is shown, because it says more of the judge's own delay."""


@dataclass(frozen=True)
class Judge:
    name: str
    title: str
    package: str
    executable: Path
    metrics: tuple[Metric, ...]
    command: Callable[[Load, str, Path], list[str]]
    """Its arguments, of the load, the server's base URL and the folder for its results."""
    read: Callable[[Load, Path], Verdict]
    environment: Mapping[str, str]

    @property
    def python(self) -> Path:
        """The interpreter that has it."""
        return self.executable.parent / "python"

    def shown(self, load: Load, url: str, out: Path) -> str:
        """The whole command, as one would type it in the project's folder."""
        settings = [f"{key}={value}" for key, value in self.environment.items()]
        words = [str(self.executable), *self.command(load, url, out)]
        return " ".join([*settings, shlex.join(words)])


OFFLINE = {"HF_HUB_OFFLINE": "1"}


def ttft(meaning: str) -> tuple[Metric, Metric]:
    return (
        Metric("TTFT, mean", "ms", mean(lambda r: r.ttft_ms), meaning),
        Metric("TTFT, median", "ms", median(lambda r: r.ttft_ms), meaning),
    )


def per_token(request: Served) -> float:
    return request.decode_ms / (request.tokens - 1)


def to_last_token(request: Served) -> float:
    return request.left_ms[-1] - request.received_ms


GAPS = Metric(
    *("gap, p99", "ms", worst_hundredth(lambda r: r.gaps_ms)),
    "between two chunks with text, all requests together",
    held=False,
)
