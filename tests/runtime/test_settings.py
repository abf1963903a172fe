from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from paceline.runtime.settings import Settings, SettingsError, load_settings


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith("PACELINE_"):
            monkeypatch.delenv(name)


def write(folder: Path, text: str) -> Path:
    path = folder / "paceline.toml"
    path.write_text(text, "utf-8")
    return path


def test_defaults() -> None:
    settings = load_settings()
    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert settings.profiles == ()
    assert settings.cors_origins == ("*",)
    assert settings.tokens_per_chunk == 1
    assert settings.max_body_bytes == 64 * 1024 * 1024
    assert settings.grace_s == 5.0
    assert settings.pacer_utilisation == 0.7
    assert settings.timing_requests == 1024
    assert settings.accept_any_model == ""
    assert not settings.show_reasoning
    assert not settings.access_log


def test_flag_beats_environment_beats_file_beats_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "port = 1\ngrace_s = 1\nkeepalive_s = 1\n")
    monkeypatch.setenv("PACELINE_PORT", "2")
    monkeypatch.setenv("PACELINE_GRACE_S", "2")
    settings = load_settings({"port": 3}, path)
    assert (settings.port, settings.grace_s, settings.keepalive_s) == (3, 2.0, 1.0)
    assert settings.log_level == "info"


def test_flags_not_given_leave_the_rest_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_PORT", "2")
    monkeypatch.setenv("PACELINE_PROFILES", f"a{os.pathsep}b/c")
    settings = load_settings({"port": None, "profiles": []})
    assert settings.port == 2
    assert settings.profiles == (Path("a"), Path("b/c"))


def test_false_and_zero_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_ACCESS_LOG", "true")
    monkeypatch.setenv("PACELINE_PORT", "2")
    settings = load_settings({"access_log": False, "port": 0})
    assert settings.access_log is False
    assert settings.port == 0


def test_config_variable_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, 'profiles = ["mine"]\ncors_origins = ["http://a"]\n')
    monkeypatch.setenv("PACELINE_CONFIG", str(path))
    settings = load_settings()
    assert settings.profiles == (Path("mine"),)
    assert settings.cors_origins == ("http://a",)


def test_lists_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_CORS_ORIGINS", "http://a, http://b")
    assert load_settings().cors_origins == ("http://a", "http://b")


@pytest.mark.parametrize(
    ("variable", "hint"),
    [("PACELINE_PROT", "PACELINE_PORT"), ("PACELINE_TOKEN_PER_CHUNK", "PACELINE_TOKENS_PER_CHUNK")],
)
def test_unknown_variables_are_refused_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, variable: str, hint: str
) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(SettingsError, match=rf"{variable}: no such setting; did you mean.*{hint}"):
        load_settings()


def test_unknown_flags_and_keys_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"--prot: no such setting; did you mean port"):
        load_settings({"prot": 1})
    path = write(tmp_path, "prot = 1\n")
    with pytest.raises(SettingsError, match=r"paceline\.toml: prot: no such setting"):
        load_settings({}, path)
    path = write(tmp_path, "[server]\nport = 1\n")
    with pytest.raises(SettingsError, match=r"server: no such setting"):
        load_settings({}, path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("port", 65_536),
        ("port", -1),
        ("port", "eighty"),
        ("tokens_per_chunk", 0),
        ("tokens_per_chunk", 65),
        ("pacer_utilisation", 0.05),
        ("pacer_utilisation", 0.96),
        ("max_body_bytes", 0),
        ("keepalive_s", 0),
        ("grace_s", -1),
        ("timing_requests", -1),
        ("log_level", "loud"),
        ("show_reasoning", "perhaps"),
        ("host", " "),
    ],
)
def test_bad_values_are_refused_wherever_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, value: Any
) -> None:
    with pytest.raises(SettingsError, match=f"^--{key.replace('_', '-')}: "):
        load_settings({key: value})
    text = f'{key} = "{value}"\n' if isinstance(value, str) else f"{key} = {value}\n"
    path = write(tmp_path, text)
    with pytest.raises(SettingsError, match=rf"paceline\.toml: {key}: "):
        load_settings({}, path)
    monkeypatch.setenv(f"PACELINE_{key.upper()}", str(value))
    with pytest.raises(SettingsError, match=f"^PACELINE_{key.upper()}: "):
        load_settings()


def test_all_bad_values_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_PORT", "70000")
    monkeypatch.setenv("PACELINE_GRACE_S", "-1")
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert "PACELINE_PORT" in str(caught.value)
    assert "PACELINE_GRACE_S" in str(caught.value)


@pytest.mark.parametrize("text", ["port = ", "port = 1\nport = 2\n"])
def test_bad_files(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="is not TOML"):
        load_settings({}, write(tmp_path, text))
    with pytest.raises(SettingsError, match="No such file"):
        load_settings({}, tmp_path / "gone.toml")


def test_service_variables_of_kubernetes_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    # A service called "paceline" (or "paceline-api") puts all of these into every pod.
    for name, value in {
        "PACELINE_PORT": "tcp://10.0.0.7:8000",
        "PACELINE_SERVICE_HOST": "10.0.0.7",
        "PACELINE_SERVICE_PORT": "8000",
        "PACELINE_SERVICE_PORT_HTTP": "8000",
        "PACELINE_PORT_8000_TCP": "tcp://10.0.0.7:8000",
        "PACELINE_PORT_8000_TCP_ADDR": "10.0.0.7",
        "PACELINE_API_PORT": "tcp://10.0.0.8:8000",
        "PACELINE_API_SERVICE_HOST": "10.0.0.8",
    }.items():
        monkeypatch.setenv(name, value)
    assert load_settings().port == 8000


def test_empty_variables_count_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_PORT", "")
    monkeypatch.setenv("PACELINE_CONFIG", "")
    assert load_settings().port == 8000


def test_settings_made_directly_do_not_look_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_PORT", "2")
    settings = Settings(grace_s=1.0)
    assert settings.port == 8000
    with pytest.raises(ValidationError, match="frozen"):
        settings.port = 3  # type: ignore[misc]


def test_a_reason_of_our_own_is_told_in_its_own_words() -> None:
    with pytest.raises(
        SettingsError, match=r"^--price-date: 'today' is no day such as 2026-08-21$"
    ):
        load_settings({"price_date": "today"})
