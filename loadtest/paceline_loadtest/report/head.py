"""The top of a page: what was run, errors first, what spoils it, and what it comes to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from paceline_loadtest.report.figures import Figures
from paceline_loadtest.report.results import Results
from paceline_loadtest.report.words import (
    NONE,
    dollars,
    errors_line,
    name_of,
    rate,
    seconds,
    sentence,
    times,
)


def head(results: Results, found: Sequence[Figures], shown: Sequence[Figures]) -> str:
    """Everything above the first table; `shown` has each target once."""
    info = results.info
    facts = [info.client, info.dialect, "streamed" if info.stream else "not streamed"]
    facts += [f"seed {info.seed}", *(f"{name} {value}" for name, value in info.settings.items())]
    facts += [info.started, f"Paceline {info.tool_version}"]
    notes = "".join(f"<p class='facts'>{escape(note)}</p>" for note in info.notes)
    return (
        f"<h1>Load test: {escape(info.scenario)}</h1>"
        f"<p class='facts'>{escape(' · '.join(facts))}</p>{notes}"
        f"{_errors(found)}{_warnings(results, found)}{_thresholds(results)}"
        f"{_tiles(shown)}{_said(shown)}{_targets(found)}"
    )


def table(
    lines: Sequence[Sequence[str]], caption: str = "", kind: str = "", *, heads: bool = True
) -> str:
    """A table whose first line is its heads and whose first column names the lines."""
    top = "".join(f"<th scope='col'>{escape(cell)}</th>" for cell in lines[0]) if heads else ""
    body = "".join(_line(line) for line in (lines[1:] if heads else lines))
    told = f"<p class='note'>{escape(caption)}</p>" if caption else ""
    thead = f"<thead><tr>{top}</tr></thead>" if heads else ""
    whole = f"<table class='{kind}'>{thead}<tbody>{body}</tbody></table>"
    return f"<div class='scroll'>{whole}</div>{told}"


def _line(line: Sequence[str]) -> str:
    # What belongs to the line above it is set in, as it is in a terminal.
    inner = " class='sub'" if line[0].startswith("  ") else ""
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in line[1:])
    return f"<tr{inner}><th scope='row'>{escape(line[0].strip())}</th>{cells}</tr>"


def _banner(kind: str, strong: str, words: Sequence[str] = ()) -> str:
    more = "".join(f"<p>{escape(text)}</p>" for text in words)
    return f"<div class='banner {kind}'><p><b>{escape(strong)}</b></p>{more}</div>"


def _errors(found: Sequence[Figures]) -> str:
    words = []
    for one in found:
        name = name_of(one, found)
        words += [f"{name}: {count:,} × {kind}" for kind, count in one.errors.items()]
        words += [f"{name}: {count:,} stopped: {why}" for why, count in one.stopped.items()]
    return _banner("bad" if words else "good", errors_line(found), words)


def _warnings(results: Results, found: Sequence[Figures]) -> str:
    banners = []
    if not results.info.complete:
        banners.append(_banner("warn", "Broken off: these are the results up to then."))
    spoiled = [
        f"{name_of(one, found)}: {late.spoils}"
        for one in found
        if (late := one.run.lateness) is not None and late.spoils is not None
    ]
    if spoiled:
        of = f"{len(spoiled):,} of {len(found):,} targets"
        banners.append(_banner("bad", f"Spoiled by the client's own lateness: {of}", spoiled))
    notes = [f"{name_of(one, found)}: {note}" for one in found for note in one.run.notes]
    if notes:
        banners.append(_banner("warn", "Notes", notes))
    return "".join(banners)


def _thresholds(results: Results) -> str:
    if not results.thresholds:
        return ""
    failed, unknown = (
        sum(one.outcome == outcome for one in results.thresholds)
        for outcome in ("failed", "unknown")
    )
    words = []
    for one in results.thresholds:
        value = NONE if one.value is None else f"{one.value:g}"
        where = f" on {one.target}" if one.target is not None else ""
        words.append(f"fail if {one.rule}{where}: {one.outcome}, measured {value}")
    said = f"Thresholds: {failed:,} of {len(results.thresholds):,} failed"
    if unknown:
        # What wasn't measured wasn't kept either, and the exit code says so too.
        said += f", {unknown:,} unknown"
    return _banner("bad" if failed or unknown else "good", said, words)


def _tiles(found: Sequence[Figures]) -> str:
    """A box a target: the task's time, and what is to be said of it in few words."""
    boxes = []
    for one in found:
        gain = one.speedup
        small = ["the base"] if one.is_base else []
        if gain is not None:
            small.append(f"{times(gain.task)} as fast as {gain.base}")
        if one.speed is not None:
            small.append(f"{rate(one.speed.p50)} tok/s a stream")
        if one.money is not None and one.money.task_usd is not None:
            small.append(f"{dollars(one.money.task_usd)} a task")
        task = seconds(one.task.mean) if one.task is not None else NONE
        late, mark = one.run.lateness, ""
        if late is not None and late.spoils is not None:
            mark = " spoiled"
            small.append("spoiled by the client")
        lines = "".join(f"<div class='small'>{escape(text)}</div>" for text in small)
        name = escape(name_of(one, found))
        boxes.append(
            f"<div class='tile{mark}'><div class='name'>{name}</div>"
            f"<div class='big'>{escape(task)}</div>{lines}</div>"
        )
    return f"<div class='tiles'>{''.join(boxes)}</div>"


def _said(found: Sequence[Figures]) -> str:
    # A number and its unit stay on one line.
    said = (re.sub(r"(?<=\d) (?=m?s\b)", "\u00a0", sentence(one)) for one in found)
    lines = "".join(f"<li>{escape(text)}</li>" for text in said)
    return f"<ul class='said'>{lines}</ul>"


def _targets(found: Sequence[Figures]) -> str:
    lines = [["target", "model", "service tier", "server", "load", "profile", "prices"]]
    for one in found:
        target = one.run.target
        served = sorted({c.server.profile for c in one.run.calls() if c.server.profile is not None})
        facts = [*served, *(f"{name} {value}" for name, value in one.run.facts.items())]
        prices = "the server's bill" if one.money is not None else NONE
        lines.append(
            [
                name_of(one, found),
                target.model,
                target.service_tier or NONE,
                target.base_url,
                one.run.load or NONE,
                "; ".join(facts) or NONE,
                one.run.price_source or prices,
            ]
        )
    return f"<details><summary>The targets</summary>{table(lines, kind='left')}</details>"
