from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.core.profile import Profile
from paceline.runtime.profile_files import (
    MAX_FLAT_RATE,
    ProfileFileError,
    ProfileRegistry,
    load_profile_file,
    load_profiles,
    virtual_profile,
)
from paceline.runtime.profile_table import rows, summary

PROFILE = """
name = "{name}"
title = "Mine"
models = {models}
[engine]
step_ms = {step}
[sources]
"engine.step_ms" = {{ class = "measured", from = "a test" }}
"""


def write(folder: Path, name: str, models: str = "[]", step: str = "5.0") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(PROFILE.format(name=name, models=models, step=step), "utf-8")
    return path


def test_file_and_folder(tmp_path: Path) -> None:
    one = write(tmp_path, "one", '["uno"]')
    write(tmp_path, "two")
    (tmp_path / "notes.txt").write_text("not a profile")
    assert load_profile_file(one).models == ("uno",)
    assert [p.name for p in load_profiles([tmp_path])] == ["one", "two"]


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        ("name = ", "", "is not TOML"),
        ('name = "x"', "engine", "missing section"),
        ('name = "x"\ntitle = "t"\nspeed = 3\n[engine]\nstep_ms = 1.0', "speed", "unknown key"),
        (PROFILE.format(name="x", models="[]", step="-1.0"), "engine.step_ms", "must be above 0"),
        (PROFILE.format(name="x", models="[]", step="nan"), "engine.step_ms", "must be above 0"),
        (PROFILE.format(name="x", models="[]", step='"5"'), "engine.step_ms", "must be a number"),
        (
            PROFILE.format(name="x", models="[]", step="5.0\nwarp = 9"),
            "engine.warp",
            "unknown key",
        ),
        (
            PROFILE.format(name="x", models="[]", step="5.0\n[limits]\ncontext_tokens = 0"),
            "limits.context_tokens",
            "must be at least 1",
        ),
        ("tiers = 3\n" + PROFILE.format(name="x", models="[]", step="5.0"), "tiers", "a table"),
        (
            "tiers = { warp = 'x' }\n" + PROFILE.format(name="x", models="[]", step="5.0"),
            "tiers.warp",
            "unknown tier; known are fast",
        ),
        (
            "tiers = { fast = 3 }\n" + PROFILE.format(name="x", models="[]", step="5.0"),
            "tiers.fast",
            "the name of a profile",
        ),
        (PROFILE.format(name="flat-40", models="[]", step="5.0"), "name", "needs no file"),
        (PROFILE.format(name="x", models='["instant"]', step="5.0"), "name", "needs no file"),
        (PROFILE.format(name="a b", models="[]", step="5.0"), "name", "without spaces"),
    ],
)
def test_bad_files_are_refused_with_file_key_and_reason(
    tmp_path: Path, text: str, key: str, reason: str
) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(ProfileFileError) as caught:
        load_profile_file(path)
    assert caught.value.path == path
    assert caught.value.key == key
    assert reason in caught.value.reason
    assert str(path) in str(caught.value)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(ProfileFileError, match="No such file"):
        load_profile_file(tmp_path / "gone.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xff"')
    with pytest.raises(ProfileFileError, match="not UTF-8"):
        load_profile_file(tmp_path / "latin.toml")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ProfileFileError, match=r"holds no \.toml"):
        load_profiles([tmp_path / "empty"])


@pytest.mark.parametrize("models", ['["one"]', '["uno"]'])
def test_two_files_must_not_claim_one_name(tmp_path: Path, models: str) -> None:
    write(tmp_path, "one", '["uno"]')
    write(tmp_path, "two", models)
    with pytest.raises(ProfileFileError, match=r"is taken by .*one\.toml"):
        load_profiles([tmp_path])


def test_lookup_is_by_name_or_alias_and_exact(tmp_path: Path) -> None:
    registry = ProfileRegistry.load([write(tmp_path, "mine", '["my-model"]')])
    assert registry.get("mine") is registry.get("my-model")
    assert registry.get("Mine") is None
    assert registry.get("nothing") is None
    assert registry.names()["my-model"].name == "mine"
    assert [p.name for p in registry.profiles()] == sorted(p.name for p in registry.profiles())
    assert "mine" in registry.close_names("mines")


def test_user_profiles_override_shipped_ones(tmp_path: Path) -> None:
    registry = ProfileRegistry.load([write(tmp_path, "gpu-40", '["gpt-5.6"]')])
    for name in ("gpu-40", "gpt-5.6"):
        profile = registry.get(name)
        assert profile is not None
        assert profile.title == "Mine"
    sol = registry.get("gpt-5.6-sol")
    assert sol is not None
    assert sol.title != "Mine"
    assert len([p for p in registry.profiles() if p.name == "gpu-40"]) == 1


def test_reload_is_all_or_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, "mine")
    registry = ProfileRegistry.load([path])
    before = registry.profiles()
    path.write_text("name = ", "utf-8")
    with pytest.raises(ProfileFileError):
        registry.reload([path])
    assert registry.profiles() == before
    write(tmp_path, "mine", step="7.0")
    registry.reload([path])
    mine = registry.get("mine")
    assert mine is not None
    assert mine.engine.step_ms == 7.0
    registry.reload([])
    assert registry.get("mine") is None


def test_replace_refuses_two_claims_and_keeps_what_was(tmp_path: Path) -> None:
    one = load_profile_file(write(tmp_path, "one", '["uno"]'))
    two = load_profile_file(write(tmp_path, "two", '["uno"]'))
    registry = ProfileRegistry([], [one])
    with pytest.raises(ProfileFileError, match="'uno' is claimed by one and by two"):
        registry.replace([one, two])
    assert registry.get("uno") is one


@pytest.mark.parametrize(
    ("name", "rate", "canonical"),
    [
        ("flat-40", 40.0, "flat-40"),
        ("flat-40.0", 40.0, "flat-40"),
        ("flat-1250.5", 1250.5, "flat-1250.5"),
        ("flat-1000000", MAX_FLAT_RATE, "flat-1000000"),
        ("flat-0.5", 0.5, "flat-0.5"),
    ],
)
def test_flat_rates(name: str, rate: float, canonical: str) -> None:
    profile = virtual_profile(name)
    assert profile is not None
    assert profile.kind == "flat"
    assert profile.name == canonical
    assert profile.ceiling_tok_s == pytest.approx(rate)
    assert profile.flat_ttft_ms == 0.0
    assert profile.engine.max_num_seqs == 0


@pytest.mark.parametrize(
    "name",
    [
        "flat-", "flat-0", "flat-0.0", "flat--1", "flat-1e3", "flat-inf", "flat-nan",
        "flat-1000001", "flat-40 ", "flat-٤٠", "flat-1.", "Flat-40", "flat-4_0",
        "instant-1", "Instant", "",
    ],
)  # fmt: skip
def test_names_that_are_no_virtual_profile(name: str) -> None:
    assert virtual_profile(name) is None


def test_instant() -> None:
    profile = virtual_profile("instant")
    assert profile is not None
    assert profile.kind == "instant"
    assert math.isinf(profile.ceiling_tok_s)
    assert summary(profile).to_json()["tokens_per_second"]["value"] is None


@given(st.text(max_size=30))
def test_any_name_is_looked_up_without_an_error(name: str) -> None:
    found = ProfileRegistry([]).get(name)
    assert found is None or found.kind in {"flat", "instant"}


def test_invented_flat_rates_do_not_pile_up() -> None:
    registry = ProfileRegistry([])
    first = registry.get("flat-1")
    assert registry.get("flat-1") is first
    for rate in range(2, 2000):
        assert registry.get(f"flat-{rate}") is not None
    assert len(registry._flat) <= 256
    assert not registry.names()


def test_every_listed_number_has_a_class(tmp_path: Path) -> None:
    registry = ProfileRegistry.load([write(tmp_path, "mine")])
    for profile in registry.profiles():
        listed = {row.key: row for row in rows(profile)}
        assert set(listed) == set(profile.numbers())
        assert all(row.source for row in listed.values())
        stated = {key for key, row in listed.items() if row.certainty != "default"}
        assert stated == set(profile.sources)
    mine = registry.get("mine")
    assert mine is not None
    by_key = {row.key: row.to_json() for row in rows(mine)}
    assert by_key["engine.step_ms"] == {
        "key": "engine.step_ms", "value": 5.0, "class": "measured", "from": "a test",
    }  # fmt: skip
    assert by_key["engine.replicas"]["class"] == "default"


def shipped(name: str) -> Profile:
    profile = ProfileRegistry.load().get(name)
    assert profile is not None
    return profile


@pytest.mark.parametrize(
    ("name", "rate", "certainty"),
    [
        ("gpu-40", 40.0, "estimate"),
        ("wafer-750", 750.0, "official"),
        ("gpt-5.6-sol-ultrafast", 750.0, "official"),
        ("kimi-k2.6-cerebras", 981.0, "official"),
        ("jalapeno-placeholder", 40.0, "hypothesis"),
    ],
)
def test_summary_shows_the_rate_with_the_least_certain_class(
    name: str, rate: float, certainty: str
) -> None:
    line = summary(shipped(name)).to_json()
    assert line["tokens_per_second"]["value"] == pytest.approx(rate, rel=1e-4)
    assert line["tokens_per_second"]["class"] == certainty
    assert line["context_tokens"]["class"] in {"official", "hypothesis"}


def test_summary_first_token_counts_overhead_fill_and_queue() -> None:
    pipeline = summary(shipped("multi-wafer-pipeline"))
    assert pipeline.first_token_ms == pytest.approx(300 + 85 * 4 / 3, abs=0.01)
    assert pipeline.first_token_class == "hypothesis"
    assert summary(shipped("gpt-5.6-sol-busy-day")).first_token_ms == 11_500.0


def test_tiers_lead_to_profiles_that_are_there(tmp_path: Path) -> None:
    slow = write(tmp_path, "slow")
    slow.write_text('tiers = { fast = "quick" }\n' + slow.read_text("utf-8"), "utf-8")
    with pytest.raises(ProfileFileError, match=r"slow: tiers\.fast: there is no profile 'quick'"):
        ProfileRegistry(load_profiles([slow]))
    quick = write(tmp_path, "quick")
    registry = ProfileRegistry(load_profiles([slow, quick]))
    found = registry.get("slow")
    assert found is not None
    assert found.tiers == {"fast": "quick"}
    slow.write_text(slow.read_text("utf-8").replace('"quick"', '"flat-9"'), "utf-8")
    assert ProfileRegistry(load_profiles([slow])).get("slow") is not None
