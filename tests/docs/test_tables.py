"""The tables that `tools/docs_tables.py` writes are up to date, and hold every name."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path

import pytest
from tools import docs_tables

from paceline import cli
from paceline.core.profile import SECTIONS
from paceline.runtime.profile_files import load_profiles, shipped_folder
from paceline.runtime.settings import Settings

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


@pytest.mark.parametrize("page", ["settings.md", "profiles.md"])
def test_a_page_says_what_the_code_says(page: str) -> None:
    text = (DOCS / page).read_text("utf-8")
    assert "<!-- table: " in text
    assert docs_tables.brought_up_to_date(text) == text, "run tools/docs_tables.py"


def test_every_setting_is_named_by_key_flag_and_variable() -> None:
    text = (DOCS / "settings.md").read_text("utf-8")
    flags = inspect.signature(cli.serve).parameters
    for name in Settings.model_fields:
        assert name in flags
        for shown in (name, "--" + name.replace("_", "-"), "PACELINE_" + name.upper()):
            assert f"`{shown}`" in text


def test_every_shipped_profile_and_every_key_is_named() -> None:
    text = (DOCS / "profiles.md").read_text("utf-8")
    names = {profile.name for profile in load_profiles([shipped_folder()])}
    keys = {f"{section}.{item.name}" for section, cls in SECTIONS.items() for item in fields(cls)}
    assert len(names) > 20
    assert [name for name in sorted(names | keys) if f"| `{name}` |" not in text] == []


def test_a_table_that_is_behind_is_noticed() -> None:
    page = "<!-- table: settings -->\nold\n<!-- end of table -->\n"
    assert "`PACELINE_PORT`" in docs_tables.brought_up_to_date(page)
