"""The shipped profiles: complete, sourced, and saying no more than is known."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from paceline.core.profile import SECTIONS, Profile
from paceline.core.profile_document import parse_profile
from paceline.core.sources import SOURCE_CLASSES
from paceline.runtime.profile_files import ProfileRegistry, load_profiles, shipped_folder

FOLDER = Path(__file__).parents[2] / "profiles"
FILES = sorted(FOLDER.glob("*.toml"))
PROFILES = {p.name: p for p in load_profiles([FOLDER])}

# Every system that must have a profile: the tokens a second that one request sees when nobody
# but the profile's own tenants is there, and how certain the number that makes it is.
RATES = {
    "gpu-40": (40.0, "estimate"),
    "wafer-750": (750.0, "official"),
    "spark-1000": (1000.0, "official"),
    "wafer-600": (750.0, "official"),
    "gpt-5.6-sol": (40.0, "estimate"),
    "gpt-5.6-sol-quiet-day": (40.0, "estimate"),
    "gpt-5.6-sol-busy-day": (40.0, "estimate"),
    "gpt-5.6-sol-codex-fast": (60.0, "estimate"),
    "gpt-5.6-sol-api-fast": (100.0, "estimate"),
    "gpt-5.6-sol-flex": (20.0, "hypothesis"),
    "gpt-5.6-sol-ultrafast": (750.0, "estimate"),
    "gpt-5.6-terra": (36.5, "estimate"),
    "gpt-5.6-terra-codex-fast": (62.9, "estimate"),
    "gpt-5.6-terra-api-fast": (91.25, "hypothesis"),
    "gpt-5.6-luna": (51.3, "estimate"),
    "gpt-5.6-luna-codex-fast": (60.2, "estimate"),
    "gpt-5.6-luna-api-fast": (128.25, "hypothesis"),
    "gpt-5.3-codex-spark": (1000.0, "estimate"),
    "claude-opus-4-8": (60.0, "estimate"),
    "claude-opus-4-8-fast": (150.0, "estimate"),
    "claude-fable-5": (40.0, "estimate"),
    "grok-4.5": (40.0, "hypothesis"),
    "kimi-k2.6": (30.15, "estimate"),
    "kimi-k2.6-cerebras": (981.0, "measured"),
    "multi-wafer-pipeline": (750.0, "hypothesis"),
    "gpu-attention-wafer-ffn": (180.5, "hypothesis"),
    "jalapeno-placeholder": (40.0, "hypothesis"),
}


def test_the_folder_is_the_one_that_ships() -> None:
    assert shipped_folder().resolve() == FOLDER.resolve()


def test_all_are_known_here_and_none_is_missing() -> None:
    assert set(PROFILES) == {*RATES, "b300-340"}


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_file_bears_the_profile_name(file: Path) -> None:
    assert tomllib.loads(file.read_text("utf-8"))["name"] == file.stem


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_every_number_has_a_source_of_its_own(file: Path) -> None:
    data = tomllib.loads(file.read_text("utf-8"))
    given = {f"{section}.{key}" for section in SECTIONS for key in data.get(section, {})}
    assert set(data["sources"]) == given
    for entry in data["sources"].values():
        assert entry["class"] in SOURCE_CLASSES
        assert len(entry["from"]) > 5


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_a_number_that_loses_its_source_is_refused(file: Path) -> None:
    data: dict[str, Any] = tomllib.loads(file.read_text("utf-8"))
    del data["sources"]["engine.step_ms"]
    with pytest.raises(ValueError, match=r"sources\.engine\.step_ms"):
        parse_profile(data)


@pytest.mark.parametrize("name", RATES)
def test_rate_of_a_lone_request_and_its_class(name: str) -> None:
    rate, certainty = RATES[name]
    profile = PROFILES[name]
    assert profile.ceiling_tok_s == pytest.approx(rate, rel=1e-4)
    source = profile.source("engine.step_ms")
    assert source is not None
    assert source.kind == certainty


def test_b300_holds_1324_users_at_340_and_not_one_more() -> None:
    engine = PROFILES["b300-340"].engine

    def rate(users: int) -> float:
        step = engine.step_ms + engine.step_ms_per_seq * users / engine.data_parallel_size
        return 1000.0 / step

    assert 450_000 // 340 == 1323  # the articles round 1,323.5 up
    assert 340.0 <= rate(1324) < 340.2
    assert rate(1325) < 340.0
    assert engine.max_num_seqs > 1324


def test_wafer_600_has_600_hard_slots() -> None:
    engine = PROFILES["wafer-600"].engine
    assert engine.replicas * engine.max_num_seqs == 600 == 450_000 // 750
    assert engine.step_ms_per_seq == 0.0
    assert engine.disaggregated_prefill


@pytest.mark.parametrize(
    ("name", "floor"),
    [
        ("gpt-5.6-sol-api-fast", 80.0),
        ("gpt-5.6-terra-api-fast", 70.0),
        ("gpt-5.6-luna-api-fast", 100.0),
    ],
)
def test_api_fast_keeps_its_service_level_with_a_full_batch(name: str, floor: float) -> None:
    engine = PROFILES[name].engine
    full = engine.step_ms + engine.step_ms_per_seq * engine.max_num_seqs
    assert floor <= 1000.0 / full < floor * 1.02
    assert engine.disaggregated_prefill


@pytest.mark.parametrize("fast", ["gpt-5.6-sol-api-fast", "claude-opus-4-8-fast"])
def test_fast_is_two_and_a_half_times_standard_and_starts_no_sooner(fast: str) -> None:
    standard = PROFILES[fast.removesuffix("-fast").removesuffix("-api")]
    assert PROFILES[fast].ceiling_tok_s == pytest.approx(2.5 * standard.ceiling_tok_s, rel=1e-4)
    assert PROFILES[fast].overhead == standard.overhead
    assert (
        PROFILES[fast].engine.step_ms_per_prefill_token == standard.engine.step_ms_per_prefill_token
    )


def test_days_in_codex_are_the_measured_waits() -> None:
    quiet, busy = (PROFILES[f"gpt-5.6-sol-{day}-day"] for day in ("quiet", "busy"))
    assert (quiet.tenants.queue_ms_p50, quiet.tenants.queue_ms_p90) == (2700.0, 19_000.0)
    assert (busy.tenants.queue_ms_p50, busy.tenants.queue_ms_p90) == (11_100.0, 40_300.0)
    for day in (quiet, busy):
        source = day.source("tenants.queue_ms_p50")
        assert source is not None
        assert source.kind == "measured"
        assert day.limits.context_tokens == 272_000
        # The measured wait holds thinking already.
        assert day.reasoning.default_effort == "none"
    assert PROFILES["gpt-5.6-sol"].tenants.queue_ms_p50 == 0.0


def test_spark_over_a_websocket() -> None:
    for name in ("spark-1000", "gpt-5.3-codex-spark"):
        socket = PROFILES[name].websocket
        assert (socket.round_trip, socket.per_token, socket.ttft) == (0.2, 0.7, 0.5)
        assert PROFILES[name].limits.context_tokens == 131_072


def test_kimi_arithmetic_of_both_sides() -> None:
    prompt, output = 10_000, 500 + 4_400
    wafer, gpu = PROFILES["kimi-k2.6-cerebras"], PROFILES["kimi-k2.6"]
    assert wafer.reasoning.tokens("medium") == gpu.reasoning.tokens(None) == 4_400

    def seconds(profile: Profile) -> float:
        prefill = prompt * profile.engine.step_ms_per_prefill_token
        decode = output * 1000.0 / profile.ceiling_tok_s
        return (profile.overhead.api_ms_p50 + prefill + decode) / 1000.0

    assert seconds(wafer) == pytest.approx(5.6, rel=0.01)
    assert seconds(gpu) == pytest.approx(163.7, rel=0.005)


def test_multi_wafer_stages_cost_ttft_and_not_rate() -> None:
    pipeline, single = PROFILES["multi-wafer-pipeline"], PROFILES["wafer-750"]
    assert 70 <= pipeline.overhead.pipeline_stages <= 100
    assert pipeline.overhead.stage_ms > 0
    assert pipeline.ceiling_tok_s == single.ceiling_tok_s


@pytest.mark.parametrize(
    "name", ["multi-wafer-pipeline", "gpu-attention-wafer-ffn", "jalapeno-placeholder"]
)
def test_what_nobody_published_is_hypothesis_throughout(name: str) -> None:
    profile = PROFILES[name]
    kinds = {key: source.kind for key, source in profile.sources.items()}
    kinds.pop("engine.step_ms_per_prefill_token", None)  # the wafer's prefill has its one sample
    assert set(kinds.values()) == {"hypothesis"}


def test_the_placeholder_says_so_first() -> None:
    profile = PROFILES["jalapeno-placeholder"]
    assert profile.title.startswith("PLACEHOLDER")
    assert "jalapeno" not in ProfileRegistry([*PROFILES.values()]).names()


@pytest.mark.parametrize(
    ("name", "context", "output"),
    [
        ("gpt-5.6-sol", 1_050_000, 128_000),
        ("gpt-5.3-codex-spark", 131_072, 128_000),
        ("claude-opus-4-8", 1_000_000, 128_000),
        ("claude-fable-5", 1_000_000, 128_000),
        ("kimi-k2.6", 262_144, 131_072),
    ],
)
def test_limits(name: str, context: int, output: int) -> None:
    profile = PROFILES[name]
    assert (profile.limits.context_tokens, profile.limits.max_output_tokens) == (context, output)
    source = profile.source("limits.context_tokens")
    assert source is not None
    assert source.kind == "official"


@pytest.mark.parametrize("name", ["gpu-40", "wafer-750", "spark-1000", "b300-340", "wafer-600"])
def test_rate_profiles_hide_no_tokens(name: str) -> None:
    assert PROFILES[name].reasoning.tokens(None) == 0


@pytest.mark.parametrize("name", [name for name in PROFILES if name.startswith("gpt-5.6")])
def test_gpt_56_caches_prompts_as_documented(name: str) -> None:
    cache = PROFILES[name].prefix_cache
    assert (cache.enabled, cache.min_tokens, cache.block_tokens) == (True, 1024, 128)


def test_efforts_grow() -> None:
    for profile in PROFILES.values():
        table = profile.reasoning
        counts = [
            table.tokens(effort)
            for effort in ("none", "minimal", "low", "medium", "high", "xhigh", "max")
        ]
        assert counts == sorted(counts)


def test_rare_stalls_cost_a_stream_next_to_nothing() -> None:
    for profile in PROFILES.values():
        variation = profile.variation
        if variation.stall_every_steps:
            step_ms = profile.engine.tokens_per_step * 1000.0 / profile.ceiling_tok_s
            lost = variation.stall_ms / (variation.stall_every_steps * step_ms)
            assert lost < 0.001, profile.name


def test_aliases() -> None:
    registry = ProfileRegistry(PROFILES.values())
    assert registry.get("gpt-5.6") is PROFILES["gpt-5.6-sol"]
    assert registry.get("sol-ultrafast") is PROFILES["gpt-5.6-sol-ultrafast"]


def test_tiers() -> None:
    tiers = {name: dict(p.tiers) for name, p in PROFILES.items() if p.tiers}
    fast = {m: f"gpt-5.6-{m}-api-fast" for m in ("sol", "terra", "luna")}
    assert tiers == {
        **{
            f"gpt-5.6-{m}": {
                "fast": name,
                "priority": name,
                **({"ultrafast": "gpt-5.6-sol-ultrafast"} if m == "sol" else {}),
                "flex": "gpt-5.6-sol-flex" if m == "sol" else f"gpt-5.6-{m}",
            }
            for m, name in fast.items()
        },
        "claude-opus-4-8": {"fast": "claude-opus-4-8-fast"},
    }


def test_flex_is_slower_and_says_that_nobody_knows_by_how_much() -> None:
    flex, standard = PROFILES["gpt-5.6-sol-flex"], PROFILES["gpt-5.6-sol"]
    assert flex.ceiling_tok_s == pytest.approx(standard.ceiling_tok_s / 2, rel=1e-4)
    assert flex.tenants.queue_ms_p50 > standard.tenants.queue_ms_p50
    for key in ("engine.step_ms", "engine.step_ms_per_seq", "tenants.queue_ms_p50"):
        source = flex.source(key)
        assert source is not None
        assert source.kind == "hypothesis"
