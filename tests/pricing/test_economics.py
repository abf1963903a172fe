"""The articles' envelope, to the figures that they print, and what objections do to it."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from paceline.core.economics import (
    OBJECTIONS,
    PARAMETERS,
    EconomicsError,
    Outcome,
    assume,
    cut,
    parse_assumption,
    work_out,
    written,
)
from paceline.core.sources import SOURCE_CLASSES
from paceline.economics_command import economics

app = typer.Typer()
app.command()(economics)


def run(*args: str) -> str:
    result = CliRunner().invoke(app, args, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.stdout


def outcome(**changes: str) -> Outcome:
    return work_out(assume({name: Decimal(value) for name, value in changes.items()}))


def test_the_articles_figures() -> None:
    found = outcome()
    assert found.usd_a_user == 6_000
    assert found.users_whole == 1_666_667
    assert cut(found.users / 1_000_000) == Decimal("1.6")
    assert cut(found.share_of_users * 100) == Decimal("0.16")
    assert cut(outcome(contract_usd="20e9").users / 1_000_000) == Decimal("3.3")


def test_the_default_prints_them() -> None:
    shown = run()
    assert "200 US$ a month × 30 months = 6,000 US$ a user" in shown
    assert "10 billion US$ take 1.6 million users (1,666,667), 0.16 % of 1 billion." in shown
    assert "It is no break-even." in shown
    assert "3.3 million" in shown
    assert "20 billion US$ take 3.3 million users" in run("--set", "contract_usd=20e9")


# Users for 10 billion US$, worked out by hand.
HAND = [
    ({"margin_share": "0.5"}, "3333333.333333"),  # 10^10 / (6,000 x 0.5)
    ({"route_share": "0.25"}, "6666666.666667"),  # 10^10 / (6,000 x 0.25)
    ({"months": "12"}, "4166666.666667"),  # 10^10 / 2,400
    ({"subscription_usd_month": "20"}, "16666666.666667"),  # 10^10 / 600
    # (10^10 - 200 million x 30) / 6,000
    ({"other_revenue_usd_month": "200e6"}, "666666.666667"),
    # (10^10 - 200 million x 0.5 x 30) / (6,000 x 0.5)
    ({"other_revenue_usd_month": "200e6", "margin_share": "0.5"}, "2333333.333333"),
    ({"other_revenue_usd_month": "1e9"}, "0"),  # the others pay for all of it
    ({"contract_usd": "0"}, "0"),
]


@pytest.mark.parametrize(("changes", "users"), HAND)
def test_each_assumption_by_hand(changes: dict[str, str], users: str) -> None:
    assert written(outcome(**changes).users) == users


def test_phases_by_hand() -> None:
    found = outcome(capacity_2026="0.2", capacity_2027="0.3", capacity_2028="0.5")
    shown = [
        (p.year, written(p.mw), written(p.contract_usd), written(p.users)) for p in found.phases
    ]
    assert shown == [
        ("2026", "150", "2000000000", "333333.333333"),
        ("2027", "375", "5000000000", "833333.333333"),
        ("2028", "750", "10000000000", "1666666.666667"),
    ]
    assert found.users == found.phases[-1].users
    table = run("--set", "capacity_2026=0.2", "--set", "capacity_2027=0.8")
    assert "By the end of" in table
    assert "By the end of" not in run()


def test_every_assumption_has_a_class_and_every_objection_moves_something() -> None:
    for parameter in PARAMETERS.values():
        assert parameter.source.kind in SOURCE_CLASSES
        assert parameter.source.text
    plain = outcome()
    for objection in OBJECTIONS:
        found = work_out(assume(objection.numbers))
        assert [p.users for p in found.phases] != [p.users for p in plain.phases]
        assert objection.source.kind in SOURCE_CLASSES


def test_json() -> None:
    found: dict[str, Any] = json.loads(run("--json", "--set", "months=12"))
    assert found["object"] == "paceline.economics"
    assert found["assumptions"]["months"] == {
        "value": "12",
        "unit": "months",
        "class": "hypothesis",
        "from": "set by you",
    }
    assert set(found["assumptions"]) == set(PARAMETERS)
    assert found["outcome"]["users"] == "4166667"
    # The objection that is now an assumption isn't raised again; the others build on it.
    assert len(found["objections"]) == len(OBJECTIONS) - 1
    half = next(o for o in found["objections"] if o["set"] == {"margin_share": "0.5"})
    assert (half["outcome"]["users"], half["class"]) == ("8333334", "hypothesis")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("months", "say name=value"),
        ("months=many", "say name=value"),
        ("moons=3", "moons: unknown"),
        ("months=0", "months: must be above 0"),
        ("months=nan", "months: must be above 0"),
        ("margin_share=1.01", "at most 1"),
        ("contract_usd=-1", "at least 0"),
        ("capacity_2026=0.5", "must add up to 1"),
    ],
)
def test_what_cannot_be_is_refused(text: str, complaint: str) -> None:
    result = CliRunner().invoke(app, ["--set", text])
    assert result.exit_code == 2
    assert complaint in result.stderr
    with pytest.raises(EconomicsError, match=complaint):
        assume(dict([parse_assumption(text)]))


def test_the_page_names_every_parameter_and_says_what_the_command_says() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/economics.md").read_text("utf-8")
    for name, parameter in PARAMETERS.items():
        assert f"`{name}`" in page
        if not name.startswith("capacity_"):
            row = f"| `{name}` | {parameter.default:,f} | {parameter.source.kind} |"
            assert row in page
    shown = run() + run("--set", "contract_usd=20e9")
    for line in page.partition("```console")[2].partition("```")[0].splitlines():
        if line and not line.startswith(("$", "…")):
            assert line in shown


def test_figures_are_cut_not_rounded() -> None:
    assert cut(Decimal("1.6667")) == Decimal("1.6")
    assert cut(Decimal("0.16999")) == Decimal("0.16")
    assert cut(Decimal(6000)) == 6000
    assert cut(Decimal(0)) == 0
