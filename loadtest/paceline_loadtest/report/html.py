"""A run's report as one HTML file that fetches nothing: figures, pictures, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from paceline_loadtest.report.compare import Comparison
from paceline_loadtest.report.figures import Figures, figures
from paceline_loadtest.report.results import Results
from paceline_loadtest.report.style import STYLE
from paceline_loadtest.report.tables import rows
from paceline_loadtest.report.words import name_of, sentence


def html_report(results: Results, compared: Comparison | None = None) -> str:
    """The page. With a comparison whose later run this is, what differs stands in it too."""
    found = figures(results)
    title = f"Load test: {results.info.scenario}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><main><h1>{escape(title)}</h1>{_summary(found)}</main></body></html>\n"
    )


def _summary(found: Sequence[Figures]) -> str:
    heads = "".join(f"<th>{escape(name_of(one, found))}</th>" for one in found)
    body = "".join(
        f"<tr><th>{escape(label)}</th>{''.join(f'<td>{escape(c)}</td>' for c in cells)}</tr>"
        for label, cells in rows(found)
    )
    said = "".join(f"<p>{escape(sentence(one))}</p>" for one in found)
    return f"{said}<table><thead><tr><th></th>{heads}</tr></thead><tbody>{body}</tbody></table>"
