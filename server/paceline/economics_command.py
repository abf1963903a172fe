"""`paceline economics`: how many subscribers a contract for fast compute takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from paceline.cli import fail
from paceline.core.economics import (
    OBJECTIONS,
    PARAMETERS,
    EconomicsError,
    Objection,
    Outcome,
    assume,
    cut,
    parse_assumption,
    work_out,
    written,
)

Answered = tuple[Objection, Outcome]


def economics(
    *,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change an assumption: name=value; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Work out the articles' back-of-envelope, and what each objection does to it."""
    try:
        changes = dict(parse_assumption(text) for text in set_ or [])
        outcome = work_out(assume(changes))
    except EconomicsError as error:
        fail(str(error))
    objections = [
        (objection, work_out(assume({**changes, **objection.numbers})))
        for objection in OBJECTIONS
        if not objection.numbers.keys() & changes.keys()
    ]
    if as_json:
        found = _as_json(outcome, objections, changes)
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    console = Console(soft_wrap=False)
    console.print(_assumptions(outcome, changes))
    for sentence in sentences(outcome):
        console.print(Text(sentence))
    if len({phase.share for phase in outcome.phases}) > 1:
        console.print(_phases(outcome))
    console.print(_objections(outcome, objections))


def sentences(outcome: Outcome) -> list[str]:
    """The envelope, in words."""
    values = outcome.values
    a_user = (
        f"{_number(values['subscription_usd_month'])} US$ a month × {_number(values['months'])} "
        f"months = {_number(outcome.usd_a_user)} US$ a user, of which "
        f"{_number(outcome.contribution_usd)} are left for the contract."
    )
    users = (
        f"{_large(values['contract_usd'])} US$ take {_large(outcome.users)} users "
        f"({outcome.users_whole:,f}), {_percent(outcome.share_of_users)} of "
        f"{_large(values['monthly_users'])}."
    )
    return [
        a_user,
        users,
        "Figures are cut, not rounded, as the article's are. It is no break-even.",
    ]


def _assumptions(outcome: Outcome, changes: Mapping[str, Decimal]) -> Table:
    table = Table(title="Assumptions (--set name=value)")
    table.add_column("name", no_wrap=True)
    table.add_column("value", justify="right")
    for name in ("unit", "class", "from"):
        table.add_column(name)
    for name, value in outcome.values.items():
        parameter = PARAMETERS[name]
        kind, text = parameter.source.kind, parameter.source.text
        if name in changes:
            kind, text = "hypothesis", "set by you"
        table.add_row(name, _number(value), parameter.unit, kind, text)
    return table


def _phases(outcome: Outcome) -> Table:
    table = Table(title="By the end of")
    for name in ("year", "in service", "MW", "contract, US$", "users"):
        table.add_column(name, justify="right")
    for phase in outcome.phases:
        table.add_row(
            phase.year,
            _percent(phase.share),
            _number(phase.mw),
            _large(phase.contract_usd),
            _large(phase.users),
        )
    return table


def _objections(outcome: Outcome, objections: list[Answered]) -> Table:
    table = Table(title="What is said against it, one at a time")
    for name in ("objection", "as", "class"):
        table.add_column(name)
    for name in ("users", "of all users", "first year"):
        table.add_column(name, justify="right")
    table.add_row("(none)", "", "", *_figures(outcome))
    for objection, found in objections:
        changed = (f"{name}={_number(value)}" for name, value in objection.numbers.items())
        table.add_row(objection.text, ", ".join(changed), objection.source.kind, *_figures(found))
    return table


def _figures(outcome: Outcome) -> tuple[str, str, str]:
    return (
        _large(outcome.users),
        _percent(outcome.share_of_users),
        _large(outcome.first_year.users),
    )


def _as_json(
    outcome: Outcome, objections: list[Answered], changes: Mapping[str, Decimal]
) -> dict[str, Any]:
    assumptions = {}
    for name, value in outcome.values.items():
        parameter = PARAMETERS[name]
        changed = name in changes
        assumptions[name] = {
            "value": written(value),
            "unit": parameter.unit,
            "class": "hypothesis" if changed else parameter.source.kind,
            "from": "set by you" if changed else parameter.source.text,
        }
    return {
        "object": "paceline.economics",
        "assumptions": assumptions,
        "outcome": _outcome_json(outcome),
        "objections": [
            {
                "objection": objection.text,
                "set": {name: written(value) for name, value in objection.numbers.items()},
                "class": objection.source.kind,
                "from": objection.source.text,
                "outcome": _outcome_json(found),
            }
            for objection, found in objections
        ],
    }


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "usd_a_user": written(outcome.usd_a_user),
        "contribution_usd": written(outcome.contribution_usd),
        "users": written(outcome.users_whole),
        "share_of_users": written(outcome.share_of_users),
        "phases": [
            {
                "year": phase.year,
                "share": written(phase.share),
                "mw": written(phase.mw),
                "contract_usd": written(phase.contract_usd),
                "users": written(phase.users),
            }
            for phase in outcome.phases
        ],
    }


def _number(value: Decimal) -> str:
    whole, point, rest = written(value).partition(".")
    return f"{int(whole):,}{point}{rest}"


def _large(value: Decimal) -> str:
    """Two digits and a word: `1.6 million`."""
    for size, word in ((9, "billion"), (6, "million")):
        if value >= Decimal(10) ** size:
            return f"{_number(cut(value.scaleb(-size)))} {word}"
    return _number(cut(value))


def _percent(share: Decimal) -> str:
    return f"{_number(cut(share * 100))} %"
