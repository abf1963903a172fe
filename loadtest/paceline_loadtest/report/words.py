"""How a report says things: times, rates, money, and the one sentence that says it all."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal

from paceline.core.pricing import NOT_PUBLISHED
from paceline_loadtest.report.breakdown import NAMES, PARTS, Breakdown, Part
from paceline_loadtest.report.figures import Figures

NONE = "–"
"""What stands where there is no figure."""
_A_SECOND = 0.9995


def seconds(value: float | None) -> str:
    """A time in seconds with its unit, to three digits or so."""
    if value is None:
        return NONE
    return in_seconds(value) if abs(value) >= _A_SECOND else milliseconds(value)


def in_seconds(value: float) -> str:
    """The same, in seconds however short it is."""
    if abs(value) >= 99.95:
        return f"{value:,.0f} s"
    return f"{value:.1f} s" if abs(value) >= 9.995 else f"{value:.2f} s"


def milliseconds(value: float | None) -> str:
    """A time of seconds in milliseconds, with its unit, to three digits or so."""
    if value is None:
        return NONE
    ms = value * 1e3
    if abs(ms) >= 99.95:
        return f"{ms:,.0f} ms"
    if abs(ms) >= 9.995:
        return f"{ms:.1f} ms"
    return f"{ms:.2f} ms" if abs(ms) >= 0.005 else "0 ms" if not ms else f"{ms:.3f} ms"


def rate(value: float | None) -> str:
    """Tokens a second, without the unit."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}"


def times(value: float | None) -> str:
    """How many times as fast."""
    if value is None:
        return NONE
    return (
        f"{value:,.0f}×"
        if value >= 99.95
        else f"{value:.1f}×"
        if value >= 9.995
        else f"{value:.2f}×"
    )


def percent(share: float | None) -> str:
    """A share, 0 to 1, as per cent."""
    if share is None:
        return NONE
    if not share:
        return "0%"
    if share < 0.0005:
        return "<0.1%"
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"


def signed_percent(share: float) -> str:
    """A difference as per cent, with its sign."""
    digits = 1 if abs(share) >= 0.00995 else 2
    text = f"{share:+.{digits}%}".replace("-", "−")
    return text if text.strip("+−0.%") else "0%"


def dollars(amount: Decimal | None, significant: int = 4) -> str:
    """US$ to some significant digits; the exact amount stands in the JSON."""
    if amount is None:
        return NOT_PUBLISHED
    if not amount:
        return "$0"
    digits = max(2, significant - 1 - amount.adjusted())
    rounded = amount.quantize(Decimal(1).scaleb(-min(digits, 12)), ROUND_HALF_EVEN)
    sign = "−" if rounded < 0 else ""
    whole, _, fraction = f"{abs(rounded):,f}".partition(".")
    return f"{sign}${whole}.{fraction.rstrip('0').ljust(2, '0')}"


def name_of(figures: Figures, among: Sequence[Figures]) -> str:
    """A target's label, with its load where its label alone would be told twice."""
    twice = sum(other.run.label == figures.run.label for other in among) > 1
    return f"{figures.run.label}, {figures.run.load}" if twice else figures.run.label


def errors_line(found: Sequence[Figures]) -> str:
    """How many of all requests failed: what a report opens with."""
    requests, failed = sum(f.requests for f in found), sum(f.failed for f in found)
    share = failed / requests if requests else 0.0
    return f"Errors: {failed:,} of {requests:,} requests ({percent(share)})"


def sentence(figures: Figures) -> str:
    """What a target's figures come to, in a sentence or two."""
    if figures.task is None or figures.parts is None:
        why = next(iter([*figures.errors, *figures.stopped]), "nothing was run")
        return f"On {figures.run.label} no loop ran to its end: {why}."
    task = seconds(figures.task.mean)
    gain = figures.speedup
    if gain is None:
        return f"On {figures.run.label} a task takes {task}: {_largest(figures.parts)}."
    base = gain.base
    told = f"{times(gain.task)} as fast"
    if gain.tokens is not None:
        told = f"tokens come {times(gain.tokens)} as fast as on {base}, and the task ends {told}"
    else:
        told = f"a task ends {told} as on {base}"
    said = f"On {figures.run.label} {told}: {task} instead of {seconds(gain.base_s)}."
    if gain.most is None:
        return f"{said} Without tools or think time nothing else bounds it."
    held = "Tools and think time" if "think" in figures.parts.parts else "Tools"
    here = figures.parts.share("tools", "think")
    return (
        f"{said} {held} are {percent(gain.held_by)} of the task on {base} and {percent(here)} "
        f"here, and bound it: {times(gain.most)} if the model took no time at all."
    )


def _largest(parts: Breakdown) -> str:
    """The parts from the largest on, until there is little left."""
    shown: list[Part] = sorted(parts.parts, key=lambda part: -parts.parts[part])
    kept = [part for part in shown if parts.share(part) >= 0.05][:4] or shown[:1]
    said = [f"{percent(parts.share(part))} {NAMES[part]}" for part in kept]
    return ", ".join(said)


def shown_parts(found: Sequence[Figures]) -> list[Part]:
    """The parts that any of the targets has, in their order."""
    return [
        part for part in PARTS if any(f.parts is not None and part in f.parts.parts for f in found)
    ]
