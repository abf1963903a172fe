"""Reports of results that were written before: of one file, or of several runs on one page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from paceline_loadtest.errors import LoadTestError
from paceline_loadtest.report.html import html_report
from paceline_loadtest.report.results import Results, ResultsError, from_json
from paceline_loadtest.report.terminal import print_report


def report_files(paths: Sequence[Path], html_file: Path | None, console: Console) -> None:
    """Print what files hold, and write a page. Raises LoadTestError and OSError."""
    found = merged([(str(path), read_results(path)) for path in paths])
    print_report(found, console)
    if html_file is not None:
        html_file.write_text(html_report(found), encoding="utf-8")


def merged(runs: Sequence[tuple[str, Results]]) -> Results:
    """Runs of one scenario, each under a load of its own, as one; each comes with its name.

    Raises LoadTestError for runs of other loops, and for a target that two have under one load.
    """
    name, first = runs[0]
    settings = dict(first.info.settings.items())
    seen: dict[tuple[str, int | None, float | None], str] = {}
    for other, run in runs:
        if (run.info.scenario, run.info.seed) != (first.info.scenario, first.info.seed):
            raise LoadTestError(
                f"{other}: {run.info.scenario}, seed {run.info.seed}; {name} is of "
                f"{first.info.scenario}, seed {first.info.seed}"
            )
        settings = {k: v for k, v in settings.items() if run.info.settings.get(k) == v}
        for target in run.targets:
            key = target.label, target.users, target.rate
            if key in seen:
                load = f" with {target.load}" if target.load else ""
                raise LoadTestError(f"{other}: {target.label}{load} is in {seen[key]} too")
            seen[key] = other
    info = replace(
        first.info,
        settings=settings,
        complete=all(run.info.complete for _, run in runs),
        notes=tuple(dict.fromkeys(note for _, run in runs for note in run.info.notes)),
    )
    return Results(
        info,
        [target for _, run in runs for target in run.targets],
        [threshold for _, run in runs for threshold in run.thresholds],
    )


def read_results(path: Path) -> Results:
    """The results in a file. Raises LoadTestError and OSError."""
    try:
        return from_json(path.read_bytes())
    except ResultsError as error:
        raise LoadTestError(f"{path}: {error}") from error
