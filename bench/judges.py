"""Do other people's benchmarks, pointed at Paceline, find what Paceline's own records say?

    make -C bench judges                 # once: guidellm, AIPerf, vLLM's bench (7 GB)
    .venv/bin/python bench/judges.py     # every judge, every load; writes docs/judges.md

For each judge and load a server is started on one core and the judge run on the other. Then the
server's records of exactly those requests are fetched, and every figure of the judge's is computed
from them by the judge's own definition. Exits with 1 where a judge failed or a figure that is held
is more than 2 % off. A selection (--only, --judges, --short) prints and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import judge_records as records
import judge_tokenizer
from judge import RESULTS, TOKENIZER, Judge, Load, Metric
from judge_tools import JUDGES, LOADS
from points import cpu_seconds
from report import NOISE_CORES, machine
from servers import CLIENT_CPU, ROOT, SERVER_CPU, Pace, Server, catalogue, running

LIMIT_PCT = 2.0
ARRIVALS = "arrivals asked for"
PATIENCE_S = 300.0
PAGE = ROOT / "docs" / "judges.md"
BEGIN, END = "<!-- judges: begin -->\n", "<!-- judges: end -->"


@dataclass(frozen=True)
class Row:
    """One figure: the judge's and the server's own."""

    metric: str
    unit: str
    judge: float
    server: float
    held: bool

    @property
    def off_pct(self) -> float:
        return 100 * (self.judge / self.server - 1)

    @property
    def missed(self) -> bool:
        return self.held and abs(self.off_pct) > LIMIT_PCT


@dataclass(frozen=True)
class Finding:
    """One judge under one load; without rows there is an error."""

    load: str
    judge: str
    version: str
    command: str
    rows: tuple[Row, ...]
    others_cores: float
    error: str | None = None


def compare(judge: Judge, figures: dict[str, float], served: list[records.Served]) -> list[Row]:
    """The judge's figures beside those of the records, by the judge's definitions."""
    return [Row(m.name, m.unit, figures[m.name], m.own(served), m.held) for m in judge.metrics]


def measure(judge: Judge, load: Load, server: Server) -> Finding:
    """Start a server, run the judge, read both. A failure becomes the finding's ``error``."""
    out = RESULTS / f"{load.name}-{judge.name}"
    shutil.rmtree(ROOT / out, ignore_errors=True)
    (ROOT / out).mkdir(parents=True)
    rows: list[Row] = []
    error, others, url = None, 0.0, "http://127.0.0.1"
    try:
        with running(server, load.model, Pace(None, 0.0, 1), SERVER_CPU) as live:
            url = f"http://127.0.0.1:{live.port}"
            before = records.known_ids(live.port)
            began, ticks = time.monotonic(), cpu_seconds(live.pid)
            _run(judge, judge.command(load, url, out), out)
            now = cpu_seconds(live.pid)
            others = ((now[0] - ticks[0]) - (now[1] - ticks[1])) / (time.monotonic() - began)
            verdict = judge.read(load, ROOT / out)
            ids = verdict.ids if verdict.ids is not None else records.known_ids(live.port) - before
            if len(ids) != load.requests:
                raise RuntimeError(f"{len(ids)} requests were counted, not {load.requests}")
            served = records.fetch(live.port, ids)
            rows = compare(judge, dict(verdict.figures), served)
            if load.rate is not None:
                rows.append(Row(ARRIVALS, "/s", load.rate, records.arrivals(served), held=False))
    except (RuntimeError, OSError, KeyError, ValueError) as failed:
        error = f"{type(failed).__name__}: {failed}".replace(f"{ROOT}/", "")
    command = judge.shown(load, url, out)
    return Finding(
        load.name, judge.name, _version(judge), command, tuple(rows), max(0.0, others), error
    )


def _run(judge: Judge, arguments: list[str], out: Path) -> None:
    mine = os.sched_getaffinity(0)
    # Inherited by every process that the judge starts.
    os.sched_setaffinity(0, {CLIENT_CPU})
    try:
        _ended_well(judge, arguments, out)
    finally:
        os.sched_setaffinity(0, mine)


def _ended_well(judge: Judge, arguments: list[str], out: Path) -> None:
    with (ROOT / out / "log.txt").open("wb") as log:
        done = subprocess.run(
            [str(judge.executable), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env={**os.environ, **judge.environment},
            timeout=PATIENCE_S,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"it exited with {done.returncode}; see {out / 'log.txt'}")


def _version(judge: Judge) -> str:
    script = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
    command = [str(ROOT / judge.python), "-c", script, judge.package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


# -- the page ----------------------------------------------------------------------------------


def page(findings: list[Finding], loads: list[Load], judges: list[Judge]) -> str:
    """Everything that a run found, in Markdown."""
    titles = {judge.name: judge.title for judge in judges}
    lines = [_machine(), ""]
    taken = max((finding.others_cores for finding in findings), default=0.0)
    if taken > NOISE_CORES:
        lines += [f"Other processes took up to {taken:.2g} of the two cores meanwhile.", ""]
    for load in loads:
        found = [finding for finding in findings if finding.load == load.name]
        lines += _section(load, found, titles)
    return "\n".join(lines + _definitions(judges))


def _machine() -> str:
    about = machine()
    return (
        f"{datetime.now(UTC):%-d %B %Y}; {about['cpu']}, {about['cores']} cores, one for the "
        f"server and one for the judge; Linux {about['kernel']}, Python {about['python']}. "
        "One run each."
    )


def _section(load: Load, findings: list[Finding], titles: dict[str, str]) -> list[str]:
    lines = [
        f"### {load.title}",
        "",
        f"{load.requests} requests of {load.output_tokens} tokens.",
        "",
        "| Judge | Figure | Judge | Paceline's records | Off |",
        "|---|---|---:|---:|---:|",
    ]
    for finding in findings:
        who = f"{titles[finding.judge]} {finding.version}"
        if finding.error is not None:
            lines.append(f"| {who} | failed: {finding.error.splitlines()[0]} | | | |")
        for row in finding.rows:
            judge, server = (_figure(value, row.unit) for value in (row.judge, row.server))
            off = f"{row.off_pct:+.2f} %" + ("" if row.held else " (not held)")
            off = f"**{off}**" if row.missed else off
            lines.append(f"| {who} | {row.metric} | {judge} | {server} | {off} |")
    return [*lines, "", "```sh", *(finding.command for finding in findings), "```", ""]


def _figure(value: float, unit: str) -> str:
    if not unit:
        return f"{value:,.0f}"
    return f"{value:.3f} {unit}" if value < 100 else f"{value:,.1f} {unit}"


def _definitions(judges: list[Judge]) -> list[str]:
    lines = [
        "### What each figure is",
        "",
        "| Judge | Figure | The judge's definition |",
        "|---|---|---|",
    ]
    for judge in judges:
        lines += [f"| {judge.title} | {m.name} | {_meaning(m)} |" for m in judge.metrics]
    lines.append(f"| all | {ARRIVALS} | what it was told, beside what came |")
    return [*lines, ""]


def _meaning(metric: Metric) -> str:
    return (
        metric.meaning if metric.held else f"{metric.meaning}; shown, not held to {LIMIT_PCT:g} %"
    )


def write(text: str, path: Path = PAGE) -> None:
    """Put a run's text into the page, between its two marks."""
    head, _, rest = path.read_text("utf-8").partition(BEGIN)
    _, mark, tail = rest.partition(END)
    if not mark:
        raise ValueError(f"{path.name} has no place for the table")
    path.write_text(f"{head}{BEGIN}{text}{END}{tail}", "utf-8")


# -- the command -------------------------------------------------------------------------------


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known = ",".join(judge.name for judge in JUDGES)
    loads = ",".join(load.name for load in LOADS)
    parser.add_argument("--judges", default=known, help=f"of {known}")
    parser.add_argument("--only", default=loads, help=f"loads, of {loads}")
    parser.add_argument("--short", action="store_true", help="a quarter of the requests")
    parser.add_argument("--paceline-args", default="", help="more arguments for paceline serve")
    return parser.parse_args()


def _shorter(load: Load) -> Load:
    return Load(**{**asdict(load), "requests": load.requests // 4})


def main() -> int:
    options = _arguments()
    # Leave through the context managers, or a server would outlive the run.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    judges = [judge for judge in JUDGES if judge.name in options.judges.split(",")]
    loads = [load for load in LOADS if load.name in options.only.split(",")]
    if not judges or not loads:
        raise SystemExit("no such judge or load; see --help")
    if missing := [judge.title for judge in judges if not (ROOT / judge.executable).exists()]:
        raise SystemExit(f"{', '.join(missing)}: not installed; make -C bench judges")
    everything = judges == list(JUDGES) and loads == list(LOADS) and not options.short
    if options.short:
        loads = [_shorter(load) for load in loads]
    judge_tokenizer.write(ROOT / TOKENIZER)
    server = catalogue(options.paceline_args)["paceline"]

    findings: list[Finding] = []
    for load in loads:
        for judge in judges:
            print(f"  {load.name}: {judge.title} ...", file=sys.stderr, flush=True)
            findings.append(measure(judge, load, server))
    text = page(findings, loads, judges)
    print(text)
    kept = {"machine": machine(), "findings": [asdict(finding) for finding in findings]}
    (ROOT / RESULTS / "findings.json").write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    failed = any(f.error is not None for f in findings)
    if everything and not failed:
        write(text)
    return 1 if failed or any(row.missed for f in findings for row in f.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
