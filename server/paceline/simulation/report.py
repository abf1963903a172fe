"""What a simulation says: the same figures as JSON, as a table for people, as rows of a page."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from paceline.core.profile import Profile
from paceline.simulation.capacity import Capacity, LoadKind
from paceline.simulation.prices import Prices
from paceline.simulation.slo import Slo
from paceline.simulation.statistics import Distribution, Summary

LOAD_UNITS: dict[LoadKind, str] = {
    "rate": "requests a second",
    "users": "users",
    "speedup": "times the trace's speed",
}


def profile_json(summary: Summary, slo: Slo, prices: Prices | None) -> dict[str, Any]:
    """One profile's figures. Times in ms, rates a second, money as exact decimal text."""
    run = summary.run
    found: dict[str, Any] = {
        "profile": run.profile.name,
        "title": run.profile.title,
        "replicas": run.profile.engine.replicas,
        "users": run.users,
        "requests": summary.requests,
        "refused": run.refused,
        "duration_s": _round(summary.duration_s),
        "ttft_ms": _distribution(summary.ttft),
        "tpot_ms": _distribution(summary.tpot),
        "e2e_ms": _distribution(summary.e2e),
        "queue_ms": _distribution(summary.queue),
        "split_ms": {
            "overhead": _round(summary.overhead_ms),
            "queue": _round(summary.queue.mean if summary.queue else 0.0),
            "prefill": _round(summary.prefill_ms),
            "decode": _round(summary.decode_ms),
        },
        "prompt_tokens": summary.prompt_tokens,
        "cached_tokens": summary.cached_tokens,
        "cached_share": _round(summary.cached_share),
        "output_tokens": summary.output_tokens,
        "requests_s": _round(summary.requests_s),
        "prompt_tok_s": _round(summary.prompt_tok_s),
        "output_tok_s": _round(summary.output_tok_s),
        "output_tok_s_replica": _round(summary.output_tok_s / run.profile.engine.replicas),
        "peak_running": summary.peak_running,
        "peak_waiting": summary.peak_waiting,
        "mean_running": _round(summary.mean_running),
        "slot_use": None if summary.slot_use is None else _round(summary.slot_use),
        "preemptions": run.preemptions,
        "goodput": None,
        "cost_usd": None,
    }
    if slo.limits:
        good_s = summary.good / summary.duration_s if summary.duration_s else 0.0
        found["goodput"] = {
            "requests": summary.good,
            "share": _round(summary.good_share),
            "requests_s": _round(good_s),
        }
    if prices is not None:
        total = cost(summary, prices)
        found["cost_usd"] = {"total": f"{total:f}", "per_request": _each(total, summary.requests)}
    return found


def assumptions(profile: Profile) -> list[dict[str, Any]]:
    """The numbers behind a profile's timing, with class and source."""
    sections = ("engine.", "overhead.", "variation.", "tenants.", "reasoning.")
    found = []
    for key, value in profile.numbers().items():
        source = profile.source(key)
        if source is not None and key.startswith(sections):
            about = {"key": key, "value": value, "class": source.kind, "from": source.text}
            found.append(about)
    return found


def cost(summary: Summary, prices: Prices) -> Decimal:
    """What the run's tokens cost (US$)."""
    return prices.cost(summary.prompt_tokens, summary.cached_tokens, summary.output_tokens)


def capacity_json(profile: Profile, kind: LoadKind, slo: Slo, found: Capacity) -> dict[str, Any]:
    """One profile's capacity and the search that found it."""
    return {
        "profile": profile.name,
        "load": kind,
        "unit": LOAD_UNITS[kind],
        "percentile": slo.percentile,
        "capacity": found.load,
        "bounded": found.bounded,
        "search": [
            {
                "load": probe.load,
                **{f"{name}_ms": _round(value) for name, value in probe.measured.items()},
                "holds": probe.holds,
            }
            for probe in found.probes
        ],
    }


def rows(summaries: Sequence[Summary], slo: Slo, prices: Prices | None) -> list[list[str]]:
    """The figures as a table: its first row the profiles' names, its first column what it is."""
    table: list[list[str]] = [["", *(s.run.profile.name for s in summaries)]]

    def row(name: str, *cells: str) -> None:
        table.append([name, *cells])

    row("requests", *(f"{s.requests:,}" for s in summaries))
    if any(s.run.refused for s in summaries):
        row("refused: too long for the model", *(f"{s.run.refused:,}" for s in summaries))
    row("virtual time (s)", *(f"{s.duration_s:,.1f}" for s in summaries))
    for name, label in (("ttft", "TTFT"), ("tpot", "TPOT"), ("e2e", "E2E"), ("queue", "queue")):
        for field in ("mean", "p50", "p90", "p99"):
            found = (getattr(s, name) for s in summaries)
            row(f"{label} {field} (ms)", *(_ms(d, field) for d in found))
    for label, field in (
        ("before the engine, mean (ms)", "overhead_ms"),
        ("prefill, mean (ms)", "prefill_ms"),
        ("decode, mean (ms)", "decode_ms"),
    ):
        row(label, *(f"{getattr(s, field):,.1f}" for s in summaries))
    row("output tok/s a user, by mean TPOT", *(_rate(s.tpot) for s in summaries))
    row("output tok/s in all", *(f"{s.output_tok_s:,.1f}" for s in summaries))
    a_replica = (s.output_tok_s / s.run.profile.engine.replicas for s in summaries)
    row("output tok/s a replica", *(f"{rate:,.1f}" for rate in a_replica))
    row("prompt tok/s in all", *(f"{s.prompt_tok_s:,.1f}" for s in summaries))
    row("requests/s", *(f"{s.requests_s:,.3f}" for s in summaries))
    row("prompt tokens cached", *(f"{s.cached_share:.1%}" for s in summaries))
    row("running, mean", *(f"{s.mean_running:,.1f}" for s in summaries))
    row("running, peak", *(f"{s.peak_running:,}" for s in summaries))
    row("waiting, peak", *(f"{s.peak_waiting:,}" for s in summaries))
    row("slots in use, mean", *(_share(s.slot_use) for s in summaries))
    row("preemptions", *(f"{s.run.preemptions:,}" for s in summaries))
    if slo.limits:
        row("goodput: met the SLO", *(f"{s.good_share:.2%}" for s in summaries))
        rates = (s.good / s.duration_s if s.duration_s else 0.0 for s in summaries)
        row("goodput (requests/s)", *(f"{rate:,.3f}" for rate in rates))
    if prices is not None:
        row("cost (US$)", *(f"{cost(s, prices):,f}" for s in summaries))
        row("cost a request (US$)", *(_each(cost(s, prices), s.requests) for s in summaries))
    return table


def rendered(table: Sequence[Sequence[str]], title: str) -> Table:
    """Rows as a table for a terminal."""
    shown = Table(title=title)
    for i, head in enumerate(table[0]):
        shown.add_column(head, justify="right" if i else "left")
    for line in table[1:]:
        shown.add_row(*line)
    return shown


def notes(profiles: Sequence[Profile], *, with_sources: bool) -> RenderableType:
    """What was assumed: each profile's notes, and how certain its numbers are."""
    parts: list[RenderableType] = []
    for profile in profiles:
        found = assumptions(profile)
        kinds = [about["class"] for about in found]
        counted = ", ".join(f"{kinds.count(k)} {k}" for k in dict.fromkeys(kinds))
        parts.append(Text(f"{profile.name} assumes: {' '.join(profile.notes.split())}"))
        parts.append(Text(f"  its numbers: {counted}", style="dim"))
        if with_sources:
            head = ["number", "value", "class", "from"]
            lines = [
                [str(about[key]) for key in ("key", "value", "class", "from")] for about in found
            ]
            parts.append(rendered([head, *lines], profile.name))
    return Group(*parts)


def capacity_table(profile: Profile, kind: LoadKind, slo: Slo, found: Capacity) -> RenderableType:
    """The search as a table and the answer as a sentence."""
    names = list(slo.limits)
    head = [LOAD_UNITS[kind], *(f"{n.upper()} p{slo.percentile:g} (ms)" for n in names), "holds"]
    lines = [
        [
            f"{probe.load:,.6g}" if kind != "users" else f"{probe.load:,.0f}",
            *(f"{probe.measured[name]:,.1f}" for name in names),
            "yes" if probe.holds else "no",
        ]
        for probe in found.probes
    ]
    table = rendered([head, *lines], f"{profile.name}: the search")
    return Group(table, Text(capacity_sentence(profile, kind, slo, found)))


def capacity_sentence(profile: Profile, kind: LoadKind, slo: Slo, found: Capacity) -> str:
    """The answer in words."""
    limits = " and ".join(
        f"p{slo.percentile:g} {name.upper()} ≤ {limit:g} ms" for name, limit in slo.limits.items()
    )
    if found.load is None:
        return f"{profile.name} holds {limits} at no load that was tried."
    load = f"{found.load:,.0f}" if kind == "users" else f"{found.load:,.4g}"
    if not found.bounded:
        return (
            f"{profile.name} still holds {limits} at {load} {LOAD_UNITS[kind]}, the most that was "
            "tried: with more requests a run it may break sooner."
        )
    return f"{profile.name} holds {limits} up to {load} {LOAD_UNITS[kind]}."


def _distribution(found: Distribution | None) -> dict[str, float] | None:
    if found is None:
        return None
    names = ("mean", "p50", "p90", "p99", "max")
    return {name: _round(getattr(found, name)) for name in names}


def _round(value: float) -> float:
    """Six decimals: a nanosecond where the unit is a millisecond."""
    return round(value, 6)


def _each(total: Decimal, count: int) -> str:
    return f"{(total / count).quantize(Decimal('1e-9')):f}" if count else "0"


def _ms(found: Distribution | None, field: str) -> str:
    return "-" if found is None else f"{getattr(found, field):,.2f}"


def _rate(found: Distribution | None) -> str:
    return "-" if found is None or not found.mean else f"{1000.0 / found.mean:,.2f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
