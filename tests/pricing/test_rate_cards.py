"""Rate cards: what ships, which card is in force, and what a file may not say."""

from __future__ import annotations

import ast
import re
from decimal import Decimal
from pathlib import Path

import pytest

from paceline.core.rates import KEYS, Offer, is_day
from paceline.core.sources import SOURCE_CLASSES
from paceline.runtime.profile_files import ProfileRegistry
from paceline.runtime.rate_files import (
    RateFileError,
    load_rate_file,
    load_rates,
    shipped_rates_folder,
)

ROOT = Path(__file__).resolve().parents[2]
BOOK = load_rates([ROOT / "rates"])

GOOD = """
model = "made-up"
title = "Made up"
[profiles]
"made-up" = { tier = "default" }
[[cards]]
usd = { input = 1, cached_input_factor = 0.1, output = 2.5 }
[cards.sources]
usd = { class = "hypothesis", from = "made up" }
[[cards]]
from = 2026-08-21
usd = { input = 0.5, cached_input = 0.05, output = 2 }
tiers.fast = { usd = 2 }
[cards.sources]
usd = { class = "hypothesis", from = "made up" }
"tiers.fast" = { class = "estimate", from = "made up too" }
"""


def test_the_folder_is_the_one_that_ships() -> None:
    assert shipped_rates_folder().resolve() == (ROOT / "rates").resolve()


@pytest.mark.parametrize("file", sorted((ROOT / "rates").glob("*.toml")), ids=lambda f: f.stem)
def test_a_shipped_file_bears_its_model_and_sources_every_number(file: Path) -> None:
    card = load_rate_file(file)
    assert card.model == file.stem
    for rates in card.rates:
        assert rates.numbers
        for key in rates.numbers:
            assert rates.source(key).kind in SOURCE_CLASSES
            assert rates.source(key).text


def test_every_profile_of_a_priced_model_is_sold_and_every_one_sold_exists() -> None:
    names = {profile.name for profile in ProfileRegistry.load().profiles()}
    sold = {name for card in BOOK.cards.values() for name in card.offers}
    assert sold <= names
    families = ("gpt-5", "claude-")
    assert {name for name in names if name.startswith(families)} == sold


def test_what_nobody_has_published_is_absent() -> None:
    assert BOOK.cards["gpt-5.3-codex-spark"].rates == ()
    for model in ("gpt-5.6-terra", "gpt-5.6-luna"):
        (rates,) = BOOK.cards[model].rates
        assert "usd.cache_write" not in rates.numbers
        assert "no rate published" in rates.source("usd.cache_write_factor").text
    for model in ("gpt-5.6-sol", "gpt-5.6-terra", "gpt-5.6-luna"):
        for rates in BOOK.cards[model].rates:
            assert "credits.cache_write" not in rates.numbers
    assert BOOK.of_profile("kimi-k2.6") is None


def test_the_classes_are_no_stronger_than_what_is_known() -> None:
    for rates in BOOK.cards["gpt-5.6-sol"].rates:
        assert rates.source("tiers.ultrafast.usd").kind == "hypothesis"
        assert rates.source("credits.input").kind == "estimate"
        assert rates.source("usd.input").kind == "official"


def test_codex_fast_multiplies_credits() -> None:
    found = {
        model: BOOK.cards[model].rates[-1].numbers["tiers.fast.credits"]
        for model in ("gpt-5.6-sol", "gpt-5.5", "gpt-5.4")
    }
    assert found == {"gpt-5.6-sol": Decimal("2.5"), "gpt-5.5": Decimal("2.5"), "gpt-5.4": 2}


@pytest.mark.parametrize(
    ("day", "price"), [("2026-01-01", 5), ("2026-08-20", 5), ("2026-08-21", 4), ("2027-01-01", 4)]
)
def test_the_card_in_force_on_a_day(day: str, price: int) -> None:
    rates = BOOK.cards["gpt-5.6-sol"].on(day)
    assert rates is not None
    assert rates.numbers["usd.input"] == price


def test_before_the_first_day_nothing_is_in_force(tmp_path: Path) -> None:
    text = GOOD.replace("[[cards]]\nusd", "[[cards]]\nfrom = 2026-01-01\nusd", 1)
    card = load_rate_file(written(tmp_path, text))
    assert card.on("2025-12-31") is None
    assert card.on("2026-01-01") is card.rates[0]


def test_numbers_are_read_exactly(tmp_path: Path) -> None:
    card = load_rate_file(written(tmp_path, GOOD))
    assert card.rates[0].numbers["usd.cached_input_factor"] == Decimal("0.1")
    assert card.offers == {"made-up": Offer("default", None)}
    assert card.rates[1].since == "2026-08-21"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("title", "titel", "titel: unknown key"),
        ('model = "made-up"', 'model = "made up"', "model: must be a word"),
        ("output = 2.5", "outputs = 2.5", r"cards\[0\].usd.outputs: unknown key"),
        (", output = 2.5", "", r"cards\[0\].usd.output: missing"),
        ("input = 0.5", "input = -0.5", r"cards\[1\].usd.input: must be at least 0"),
        ("input = 0.5", "input = nan", r"cards\[1\].usd.input: must be a number, not NaN"),
        ("input = 0.5", 'input = "5"', r"cards\[1\].usd.input: must be a number"),
        ("input = 0.5", "input = true", r"cards\[1\].usd.input: must be a number"),
        ("input = 0.5", "input = 0.0000000000001", "at most 12 digits"),
        ("usd = 2 }", "usd = 0 }", r"cards\[1\].tiers.fast.usd: must be above 0"),
        ("tiers.fast =", "tiers.slow =", r"cards\[1\].tiers.slow.usd: unknown key"),
        ("cached_input = 0.05", "cached_input = 1, cached_input_factor = 1", "there is a rate"),
        ("from = 2026-08-21\n", "", r"cards\[1\].from: missing"),
        ("from = 2026-08-21", "from = 2026-08-21T00:00:00", "must be a day"),
        ("from = 2026-08-21", 'from = "21 August"', "must be a day"),
        ('"tiers.fast" = {', '"tiers.flex" = {', "sources.tiers.fast.usd: missing"),
        ('"tiers.fast" = {', '"tiers" = {', None),
        ("[[cards]]\nfrom", "credits = 3\n[[cards]]\nfrom", "sources.credits: must be"),
        ('class = "estimate"', 'class = "sure"', "class must be one of"),
        ('from = "made up too"', 'from = " "', "must say where"),
        ('tier = "default"', 'tier = "warp"', "profiles.made-up.tier"),
        ('tier = "default"', 'tier = "default", sold_in = "euro"', "profiles.made-up.sold_in"),
        ('{ tier = "default" }', '"default"', "profiles.made-up: must be"),
        ("model =", "model ", "is not TOML"),
    ],
)
def test_what_cannot_be_is_refused_by_file_key_and_reason(
    tmp_path: Path, old: str, new: str, complaint: str | None
) -> None:
    assert old in GOOD
    file = written(tmp_path, GOOD.replace(old, new, 1))
    if complaint is None:
        assert load_rate_file(file).rates
        return
    with pytest.raises(RateFileError, match=complaint) as caught:
        load_rate_file(file)
    assert str(caught.value).startswith(f"{file}: ")


def test_a_source_of_no_number_is_refused(tmp_path: Path) -> None:
    extra = '"tiers.flex" = { class = "estimate", from = "of nothing" }\n'
    with pytest.raises(RateFileError, match="source of no number"):
        load_rate_file(written(tmp_path, GOOD + extra))


def test_cards_out_of_order_are_refused(tmp_path: Path) -> None:
    late = GOOD.replace("[[cards]]\nusd", "[[cards]]\nfrom = 2026-08-21\nusd", 1)
    with pytest.raises(RateFileError, match="must be later"):
        load_rate_file(written(tmp_path, late))


def test_a_long_context_is_given_whole(tmp_path: Path) -> None:
    text = GOOD.replace("tiers.fast", "long_context.input = 2\ntiers.fast", 1)
    with pytest.raises(RateFileError, match=r"long_context\.above_input_tokens: missing"):
        load_rate_file(written(tmp_path, text))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RateFileError, match=r"holds no \.toml"):
        load_rates([tmp_path])
    with pytest.raises(RateFileError, match="No such file"):
        load_rates([tmp_path / "gone.toml"])
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(RateFileError, match="UTF-8"):
        load_rates([tmp_path])


def test_a_later_card_replaces_one_of_the_same_model(tmp_path: Path) -> None:
    mine = GOOD.replace('model = "made-up"', 'model = "gpt-5.6-luna"')
    book = load_rates([ROOT / "rates", written(tmp_path, mine)])
    assert book.cards["gpt-5.6-luna"].title == "Made up"
    assert book.of_profile("gpt-5.6-luna") is None
    found = book.of_profile("made-up")
    assert found is not None
    assert found[0].model == "gpt-5.6-luna"


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("2026-08-21", True),
        ("2024-02-29", True),
        ("2026-02-29", False),
        ("2026-13-01", False),
        ("2026-00-10", False),
        ("2026-8-21", False),
        ("0000-01-01", False),
        ("2026-04-31", False),
        ("2026-08-21\n", False),
    ],
)
def test_days(text: str, is_one: bool) -> None:
    assert is_day(text) is is_one


def test_the_page_names_every_key() -> None:
    page = (ROOT / "docs/cost.md").read_text("utf-8")
    for key in KEYS:
        shown = re.sub(r"^tiers\.\w+\.", "tiers.TIER.", key)
        unit = re.sub(r"^(usd|credits)\.(?!per_usd)", "UNIT.", shown)
        assert f"`{unit}`" in page


def test_the_example_of_the_page_is_a_card(tmp_path: Path) -> None:
    page = (ROOT / "docs/cost.md").read_text("utf-8")
    example = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert example is not None
    card = load_rate_file(written(tmp_path, example[1]))
    assert [rates.since for rates in card.rates] == [None, "2026-10-01"]


@pytest.mark.parametrize(
    "module", ["core/rates", "core/pricing", "core/economics", "simulation/bills"]
)
def test_money_knows_no_floats(module: str) -> None:
    tree = ast.parse((ROOT / f"server/paceline/{module}.py").read_text("utf-8"))
    for node in ast.walk(tree):
        assert not (isinstance(node, ast.Constant) and isinstance(node.value, float))
        assert not (isinstance(node, ast.Name) and node.id == "float")


def written(folder: Path, text: str) -> Path:
    file = folder / "card.toml"
    file.write_text(text, "utf-8")
    return file
