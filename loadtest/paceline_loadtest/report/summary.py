"""The figures as JSON, in the document beside what they were worked out from."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from paceline.core.pricing import NOT_PUBLISHED, plain
from paceline_loadtest.report.breakdown import Breakdown
from paceline_loadtest.report.figures import Figures, figures
from paceline_loadtest.report.quantiles import Quantiles
from paceline_loadtest.report.results import Results, document
from paceline_loadtest.report.words import sentence


def to_json(results: Results) -> str:
    """The document, its figures with it."""
    return document(results, [summary_of(one) for one in figures(results)])


def summary_of(found: Figures) -> dict[str, Any]:
    """One target's figures: seconds, tokens a second, shares of 1, and money as exact text."""
    return {
        "target": found.run.label,
        "users": found.run.users,
        "rate": found.run.rate,
        "requests": found.requests,
        "failed": found.failed,
        "errors": found.errors,
        "retries": found.retries,
        "loops": len(found.run.loops),
        "finished": found.finished,
        "stopped": found.stopped,
        "task_s": _quantiles(found.task),
        "parts_s": _parts(found.parts),
        "ttft_s": _quantiles(found.ttft),
        "tpot_s": _quantiles(found.tpot),
        "gap_itl_s": _quantiles(found.gap),
        "e2e_s": _quantiles(found.e2e),
        "stream_tok_s": _quantiles(found.speed),
        "output_tok_s": found.throughput,
        "slot_wait_s": _quantiles(found.slot_waits),
        "told_wait_s": _quantiles(found.told_waits),
        "money": _money(found),
        "prediction": _prediction(found),
        "speedup": None if found.speedup is None else asdict(found.speedup),
        "sentence": sentence(found),
    }


def _quantiles(found: Quantiles | None) -> dict[str, float] | None:
    return None if found is None else asdict(found)


def _parts(found: Breakdown | None) -> dict[str, float] | None:
    return None if found is None else {part: found.seconds(part) for part in found.parts}


def _prediction(found: Figures) -> dict[str, float] | None:
    one = found.prediction
    return None if one is None else {**asdict(one), "difference": one.difference}


def _money(found: Figures) -> dict[str, str | None] | str | None:
    money = found.money
    if money is None:
        return NOT_PUBLISHED if found.finished else None
    amounts = {
        "total_usd": money.total_usd,
        "task_usd": money.task_usd,
        "task_credits": money.task_credits,
        "saved_usd_s": money.saved_usd_s,
        "saved_credits_s": money.saved_credits_s,
    }
    return {name: None if a is None else plain(a) for name, a in amounts.items()}
