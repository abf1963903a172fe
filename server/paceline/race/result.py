"""How a race ended: the order, and what to say about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paceline.race.lane import Lane


def ranking(lanes: Sequence[Lane]) -> list[Lane]:
    """The lanes that finished, the fastest first."""
    return sorted((lane for lane in lanes if lane.state == "finished"), key=_total)


def verdict(lanes: Sequence[Lane]) -> str:
    """Who won by how much: times from the request sent to the last token received."""
    order = ranking(lanes)
    if not order:
        return "No lane finished."
    told = _order_in_words(order)
    if unfinished := [lane.model for lane in lanes if lane.state != "finished"]:
        told += f"; not finished: {_listed(unfinished)}"
    return told + "."


def standing(lanes: Sequence[Lane]) -> str:
    """The same while some still run; empty until one has finished."""
    order = ranking(lanes)
    running = [lane for lane in lanes if not lane.over]
    if not order or not running:
        return verdict(lanes) if not running else ""
    behind = [f"{lane.model} is at {lane.progress:.0%}" for lane in running]
    return f"{_order_in_words(order)}; {_listed(behind)}."


def _order_in_words(order: Sequence[Lane]) -> str:
    winner = order[0]
    told = f"{winner.model} finished in {seconds(_total(winner))}"
    if beaten := [_lead(winner, lane) for lane in order[1:]]:
        told += ", " + _listed(beaten)
    return told


def _lead(winner: Lane, lane: Lane) -> str:
    factor = _total(lane) / _total(winner)
    if factor < 1.005:
        return f"as fast as {lane.model}"
    return f"{times(factor)} faster than {lane.model}"


def _listed(words: list[str]) -> str:
    return " and ".join([*([", ".join(words[:-1])] if words[1:] else []), words[-1]])


def same_text(lanes: Sequence[Lane]) -> bool:
    """Whether all lanes that finished said the same."""
    return len({lane.text for lane in lanes if lane.state == "finished"}) <= 1


def lane_json(lane: Lane, rank: int | None) -> dict[str, Any]:
    """A lane's figures; times in seconds, None where there is nothing to say."""
    rate = lane.rate()
    return {
        "model": lane.model,
        "state": lane.state,
        "rank": rank,
        "tokens": lane.tokens,
        "ttft_s": _rounded(lane.ttft_s),
        "tokens_per_second": None if rate is None else round(rate, 3),
        "elapsed_s": _rounded(lane.elapsed_s(lane.ended) if lane.ended is not None else None),
        "error": lane.error or None,
        "text": lane.text,
    }


def race_json(lanes: Sequence[Lane], settings: dict[str, Any]) -> dict[str, Any]:
    """The whole race as one object."""
    order = ranking(lanes)
    ranks = {id(lane): place for place, lane in enumerate(order, 1)}
    return {
        **settings,
        "lanes": [lane_json(lane, ranks.get(id(lane))) for lane in lanes],
        "winner": order[0].model if order else None,
        "same_text": same_text(lanes),
        "verdict": verdict(lanes),
    }


def seconds(value: float) -> str:
    """A time in words: `0.55 s`, `10.4 s`, `135 s`."""
    return f"{_three_digits(value)} s"


def times(factor: float) -> str:
    """A factor in words: `1.52x`, `18.9x`, `120x`."""
    return f"{_three_digits(factor)}x"


def _three_digits(value: float) -> str:
    if value < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"


def place(rank: int) -> str:
    """`1st`, `2nd`, `11th`."""
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{rank}{'th' if rank % 100 in {11, 12, 13} else endings.get(rank % 10, 'th')}"


def _total(lane: Lane) -> float:
    return lane.elapsed_s(0.0)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
