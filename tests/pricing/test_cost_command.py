"""`paceline cost` as it is typed."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from paceline.cost_command import DEFAULT_PROFILES, cost

PAGE = Path(__file__).resolve().parents[2] / "docs/cost.md"
app = typer.Typer()
app.command()(cost)
DATED = ("--price-date", "2026-09-01")


def run(*args: str) -> str:
    result = CliRunner().invoke(app, args, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.stdout


def lines(*args: str) -> dict[str, Any]:
    found = json.loads(run("--json", *DATED, *args))
    assert found["object"] == "paceline.cost"
    return {line["profile"]: line for line in found["profiles"]}


def refused(*args: str) -> str:
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 2, result.output
    return result.stderr


def test_the_default_is_twenty_turns_on_five_tiers() -> None:
    found = lines()
    assert tuple(found) == DEFAULT_PROFILES
    first = found["gpt-5.6-sol"]
    assert first["requests"] == 20
    tokens = first["tokens"]
    # 20 prompts of 8,000 + 1,500 i: 160,000 + 1,500 x 190.
    assert tokens["input"] + tokens["cached_input"] + tokens["cache_write"] == 445_000
    assert (tokens["output"], tokens["reasoning"]) == (6_000, 4_000)
    price = tokens["input"] * 4 + tokens["cache_write"] * 5 + 10_000 * 20
    price += tokens["cached_input"] * Decimal("0.4")
    assert Decimal(first["usd"]["value"]) * 1_000_000 == price
    seconds = {name: Decimal(line["seconds"]["value"]) for name, line in found.items()}
    assert sorted(seconds, key=lambda name: -seconds[name]) == list(DEFAULT_PROFILES)
    assert all(Decimal(line["tools_s"]) == 38 for line in found.values())


def test_the_page_shows_what_the_command_says() -> None:
    text = PAGE.read_text("utf-8")
    for name, line in lines().items():
        row = re.search(rf"^\| {re.escape(name)} \| (.*) \|$", text, re.MULTILINE)
        assert row is not None
        cells = row[1].replace("≈ ", "").split(" | ")
        assert cells[:2] == [line["tier"], f"{Decimal(line['seconds']['value']):.2f}"]
        for cell, unit in zip(cells[2:4], ("usd", "credits"), strict=True):
            absent = "no rate published" if line[unit]["not_published"] else "–"
            assert cell == (line[unit]["value"] or absent)
        saved = line["per_second_saved"]["usd"]["value"]
        if saved is not None:
            assert cells[4] == f"{Decimal(saved):.6f}"


def test_speed_is_another_price_for_the_same_tokens() -> None:
    found = lines()
    usd = {name: line["usd"]["value"] for name, line in found.items()}
    standard = Decimal(usd["gpt-5.6-sol"])
    assert Decimal(usd["gpt-5.6-sol-api-fast"]) == 2 * standard
    assert Decimal(usd["gpt-5.6-sol-ultrafast"]) == 6 * standard
    codex, first = found["gpt-5.6-sol-codex-fast"], found["gpt-5.6-sol"]
    paid = Decimal(codex["credits"]["value"])
    assert paid == Decimal("2.5") * Decimal(first["credits"]["value"])
    assert Decimal(codex["usd"]["value"]) == paid / 25
    assert codex["usd"]["from_credits"] is True
    spark = found["gpt-5.3-codex-spark"]
    assert (spark["usd"]["value"], spark["usd"]["not_published"]) == (None, ["usd"])


def test_every_number_has_a_class() -> None:
    for line in lines().values():
        assert line["seconds"]["class"]
        for unit in ("usd", "credits"):
            amount, saved = line[unit], line["per_second_saved"][unit]
            assert (amount["class"] is None) == (amount["value"] is None)
            assert (saved["class"] is None) == (saved["value"] is None)
            for source in amount["sources"].values():
                assert source["class"]
                assert source["from"]
    assert lines()["gpt-5.6-sol-ultrafast"]["usd"]["class"] == "hypothesis"


def test_the_day_picks_the_card() -> None:
    before = json.loads(run("--json", "--price-date", "2026-08-20"))["profiles"][0]
    after = json.loads(run("--json", "--price-date", "2026-08-21"))["profiles"][0]
    assert (before["rates_since"], after["rates_since"]) == (None, "2026-08-21")
    assert Decimal(before["usd"]["value"]) > Decimal(after["usd"]["value"])


def test_a_tier_of_a_model_is_served_by_its_profile_and_billed_as_asked() -> None:
    found = lines("--profile", "gpt-5.6-sol", "--profile", "gpt-5.6:ultrafast")
    assert (found["gpt-5.6-sol-ultrafast"]["tier"]) == "ultrafast"
    (half,) = lines("--profile", "gpt-5.6-sol:batch").values()
    assert (half["profile"], half["tier"], half["sold_in"]) == ("gpt-5.6-sol", "batch", None)
    assert Decimal(half["usd"]["value"]) * 2 == Decimal(found["gpt-5.6-sol"]["usd"]["value"])
    assert half["credits"]["not_published"] == ["tiers.batch.credits"]


def test_the_table_says_it_in_words() -> None:
    shown = run(*DATED)
    for words in (
        "prices of 2026-09-01",
        "compared to",
        "no rate published",
        "API: in US$",
        "credits a dollar",
        "gpt-5.3-codex-spark: no rate published for usd",
        "tiers.ultrafast.usd: hypothesis",
    ):
        assert words in shown


def test_what_does_not_fit_is_said() -> None:
    shown = run(*DATED, "--profile", "gpt-5.6-sol", "--profile", "spark-1000", "--input", "131000")
    assert "spark-1000: 20 requests don't fit its limits" in shown
    assert "other work" in shown
    assert "nothing served" in shown


def test_the_surcharge_is_said() -> None:
    shown = run(*DATED, "--profile", "gpt-5.6-sol", "--input", "270000", "--turns", "3")
    assert "gpt-5.6-sol: 1 requests paid the long-context surcharge" in shown


def test_without_the_cache_every_token_is_fresh() -> None:
    (opus,) = lines("--profile", "claude-opus-4-8", "--no-cache", "--turns", "2").values()
    # 8,000 + 9,500 at 5, 1,000 at 25.
    assert opus["usd"]["value"] == "0.1125"
    (cached,) = lines("--profile", "claude-opus-4-8", "--turns", "2").values()
    assert cached["usd"]["not_published"] == ["usd.cache_write", "usd.cached_input"]


def test_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "azure.csv"
    rows = "2023-11-16 18:15:46,1000,100\n2023-11-16 18:15:50,2000,50\n"
    file.write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n{rows}", "utf-8")
    found = lines("--profile", "gpt-5.6-sol", "--trace", str(file))
    # 3,000 at 4 and 150 at 20.
    assert found["gpt-5.6-sol"]["usd"]["value"] == "0.015"
    found = lines("--profile", "gpt-5.6-sol", "--trace", str(file), "--limit", "1")
    assert found["gpt-5.6-sol"]["usd"]["value"] == "0.006"


def test_rates_of_your_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'model = "mine"\ntitle = "Mine"\n[profiles]\n"flat-100" = { tier = "default" }\n'
        "[[cards]]\nusd = { input = 1, output = 2 }\n[cards.sources]\n"
        'usd = { class = "hypothesis", from = "made up" }\n',
        "utf-8",
    )
    asked = ("--profile", "flat-100", "--rates", str(file), "--no-cache", "--turns", "1")
    # 8,000 at 1 and 500 at 2; the first token at once, 499 more at 100 a second.
    (line,) = lines(*asked).values()
    assert (line["usd"]["value"], line["seconds"]["value"]) == ("0.009", "4.99")


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (("--profile", "gpt-5.6-soil"), "Did you mean gpt-5.6-sol"),
        (("--profile", "gpt-5.6-sol:warp"), "'warp' is no tier"),
        (("--profile", "gone:fast"), "no profile is called 'gone:fast'"),
        (("--price-date", "today"), "must be a day"),
        (("--turns", "0"), "turns must be"),
        (("--limit", "3"), "--limit is for a --trace"),
        (("--trace", "gone.csv"), "gone.csv"),
        (("--rates", "gone.toml"), "gone.toml"),
        (("--profiles", "gone.toml"), "gone.toml"),
    ],
)
def test_mistakes_end_with_a_word(args: tuple[str, ...], complaint: str) -> None:
    assert complaint in refused(*args)
