"""What a load test found: the JSON document, where the time went, pages and comparisons."""

from __future__ import annotations

from paceline_loadtest.report.compare import Comparison, compare
from paceline_loadtest.report.html import html_report
from paceline_loadtest.report.results import (
    Lateness,
    Results,
    ResultsError,
    RunInfo,
    TargetRun,
    Threshold,
    from_json,
    relative,
)
from paceline_loadtest.report.summary import to_json
from paceline_loadtest.report.terminal import print_comparison, print_report

__all__ = [
    "Comparison",
    "Lateness",
    "Results",
    "ResultsError",
    "RunInfo",
    "TargetRun",
    "Threshold",
    "compare",
    "from_json",
    "html_report",
    "print_comparison",
    "print_report",
    "relative",
    "to_json",
]
