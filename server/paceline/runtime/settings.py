"""The server's settings: from flags, the environment and a file, typed and checked at start.

A flag beats the environment, the environment beats the file, the file beats the default. A name
that nobody knows is an error wherever it stands, because a setting with a typing mistake is one
that silently does nothing.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from paceline.core.rates import is_day
from paceline.runtime.keys import WhenFull, WhenNotEntitled

PREFIX = "PACELINE_"
CONFIG_VARIABLE = "PACELINE_CONFIG"

LogLevel = Literal["critical", "error", "warning", "info", "debug"]
ReplayTiming = Literal["recorded", "scaled", "profile"]
ReplayMatch = Literal["body", "path", "order"]
ReplayMiss = Literal["synthetic", "error"]

# Kubernetes describes each service to every pod by variables named after the service. One called
# `paceline` or `paceline-...` would so set PACELINE_PORT to an address, and names of its own.
_SERVICE_LINK = re.compile(
    r"PACELINE_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)\w*)"
)
_SERVICE_PORT = re.compile(r"PACELINE_(\w+_)?PORT")
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://")
_SENDABLE = re.compile(r"[!-~]+")


class SettingsError(ValueError):
    """Settings that can't be used; the message names each one and where it came from."""


class Settings(BaseSettings):
    """Everything that can be set about a server, with its default."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        str_strip_whitespace=True,
    )

    host: str = Field("127.0.0.1", min_length=1)
    """Address to listen on."""
    port: int = Field(8000, ge=0, le=65_535)
    """Port to listen on; 0 takes a free one."""
    profiles: Annotated[tuple[Path, ...], NoDecode] = ()
    """Profile files or folders beside the shipped ones; in the environment joined by `:`."""
    accept_any_model: str = ""
    """Profile that serves model names nobody knows; empty refuses them with 404."""
    tokens_per_chunk: int = Field(1, ge=1, le=64)
    """Tokens in one streamed chunk."""
    show_reasoning: bool = False
    """Whether reasoning tokens are sent as `reasoning_content`."""
    max_body_bytes: int = Field(64 << 20, ge=1024, le=4 << 30)
    """Largest request body."""
    keepalive_s: float = Field(75.0, gt=0, le=3600)
    """Seconds that an idle connection stays open."""
    grace_s: float = Field(5.0, ge=0, le=3600)
    """Seconds that running requests get when the server is told to stop."""
    cors_origins: Annotated[tuple[str, ...], NoDecode] = ("*",)
    """Origins whose pages may call; in the environment joined by commas."""
    pacer_utilisation: float = Field(0.7, ge=0.1, le=0.95)
    """Most of the core that writing due tokens may take."""
    timing_requests: int = Field(1024, ge=0, le=1_000_000)
    """Finished requests whose timing is kept."""
    ledger: str = ""
    """SQLite file of what requests cost, or a Valkey's or Redis's URL; empty forgets it with the
    process, `off` keeps none."""
    rates: Annotated[tuple[Path, ...], NoDecode] = ()
    """Rate cards, or folders of them, over the shipped ones; in the environment joined by `:`."""
    price_date: str = ""
    """Day whose rates hold, as 2026-08-21; empty is today, by UTC."""
    cost_in_body: bool = False
    """Whether answers tell their cost beside their usage."""
    when_full: WhenFull = "queue"
    """What becomes of a request for a tier without a free slot: `queue`, `default` or `refuse`."""
    when_not_entitled: WhenNotEntitled = "default"
    """What becomes of a request for a tier that its key may not use: `default` or `refuse`."""
    responses_bytes: int = Field(256 << 20, ge=0, le=1 << 40)
    """Memory for responses and conversations that can be asked for again, roughly."""
    websocket: bool = True
    """Whether `/v1/responses` is served over WebSockets too; otherwise an upgrade gets 426."""
    websocket_limit_s: float = Field(3600.0, gt=0, le=86_400)
    """Seconds that a WebSocket connection may live; OpenAI's live an hour."""
    websocket_deflate: bool = True
    """Whether WebSocket frames are compressed for clients that offer it."""
    scripts: Annotated[tuple[Path, ...], NoDecode] = ()
    """Script files, folders of them, or names of shipped ones; in the environment joined by `:`."""
    tool_calls_per_turn: int = Field(1, ge=0, le=1_000_000)
    """Rounds of tool calls after a user's message before the answer is text."""
    keys_file: Path | None = None
    """TOML file of the API keys that are let in, with what each may do; none lets in any key."""
    api_key: Annotated[tuple[SecretStr, ...], NoDecode] = ()
    """API keys that are let in and may do anything; in the environment joined by commas."""
    rpm: int = Field(0, ge=0, le=1_000_000_000)
    """Requests a minute for each API key and model; 0 is no limit."""
    tpm: int = Field(0, ge=0, le=1_000_000_000_000)
    """Tokens a minute for each API key and model, prompt and output together; 0 is no limit."""
    rpd: int = Field(0, ge=0, le=1_000_000_000)
    """Requests a day for each API key and model; 0 is no limit."""
    max_streams: int = Field(0, ge=0, le=1_000_000)
    """Answers under way at once for each API key and model; 0 is no limit."""
    replay: str = ""
    """Recorded exchanges, a folder or a file, that answer what they match; empty: none do."""
    replay_timing: ReplayTiming = "recorded"
    """When a recorded answer's chunks leave: as recorded, faster or slower, or as the model's
    profile would send them."""
    replay_speed: float = Field(1.0, gt=0, le=10_000)
    """How many times as fast as recorded, with `scaled` timing."""
    replay_match: ReplayMatch = "body"
    """What a request has to have in common with a recorded one: method, path and body, the first
    two, or its place in the order alone."""
    replay_miss: ReplayMiss = "synthetic"
    """What a request gets that no recording matches: a made-up answer, or an error 404."""
    log_level: LogLevel = "info"
    """Least serious log lines that are written."""
    access_log: bool = False
    """Whether each request is logged."""

    @field_validator("profiles", "scripts", "rates", mode="before")
    @classmethod
    def _split_paths(cls, value: Any) -> Any:
        return _split(value, os.pathsep)

    @field_validator("price_date")
    @classmethod
    def _a_day(cls, value: str) -> str:
        if value and not is_day(value):
            raise ValueError(f"{value!r} is no day such as 2026-08-21")
        return value

    @field_validator("cors_origins", "api_key", mode="before")
    @classmethod
    def _split_by_commas(cls, value: Any) -> Any:
        return _split(value, ",")

    @field_validator("replay_speed")
    @classmethod
    def _scales_something(cls, value: float, info: ValidationInfo) -> float:
        if value != 1.0 and info.data.get("replay_timing") != "scaled":
            raise ValueError("a speed takes the timing 'scaled'")
        return value

    @field_validator("api_key")
    @classmethod
    def _sendable(cls, value: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if not all(_SENDABLE.fullmatch(key.get_secret_value()) for key in value):
            raise ValueError("a key must be printable ASCII without spaces, and not empty")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Settings made directly are what they are given; only `load_settings` looks around."""
        return (init_settings,)


class _Environment(EnvSettingsSource):
    """The environment without what Kubernetes puts there."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        value, key, is_complex = super().get_field_value(field, field_name)
        if isinstance(value, str) and _is_service_link((PREFIX + field_name).upper(), value):
            value = None
        return value, key, is_complex


def load_settings(flags: Mapping[str, Any] | None = None, config: Path | None = None) -> Settings:
    """Make the settings from flags, the environment and a file; earlier ones win.

    Flags that are None or empty lists count as not given. The file is `config`, or the one that
    PACELINE_CONFIG names. Raises SettingsError.
    """
    given = {key: value for key, value in (flags or {}).items() if value not in (None, [], ())}
    path = config or (Path(name) if (name := os.environ.get(CONFIG_VARIABLE)) else None)
    from_file = _check_file(path) if path is not None else set()
    from_environment = _check_environment()
    for key in given:
        if key not in Settings.model_fields:
            raise SettingsError(_unknown(_flag(key), key, Settings.model_fields))

    class Loaded(Settings):
        """The settings, with all their sources."""

        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (
                init_settings,
                _Environment(settings_cls),
                TomlConfigSettingsSource(settings_cls, path),
            )

    try:
        return Loaded(**given)
    except ValidationError as error:
        lines = []
        for item in error.errors():
            name = str(item["loc"][0])
            if name in given:
                name = _flag(name)
            elif name in from_environment:
                name = (PREFIX + name).upper()
            elif name in from_file:
                name = f"{path}: {name}"
            # pydantic puts the first words before what a validator of ours says.
            lines.append(f"{name}: {item['msg'].removeprefix('Value error, ')}")
        raise SettingsError("\n".join(lines)) from None


def _check_environment() -> set[str]:
    """The settings that the environment sets. Raises SettingsError for a name unknown."""
    known = {(PREFIX + name).upper(): name for name in Settings.model_fields}
    found = set()
    for variable, value in os.environ.items():
        name = variable.upper()
        if not name.startswith(PREFIX) or name == CONFIG_VARIABLE or _is_service_link(name, value):
            continue
        if name not in known:
            raise SettingsError(_unknown(variable, name, [*known, CONFIG_VARIABLE]))
        if value:
            found.add(known[name])
    return found


def _check_file(path: Path) -> set[str]:
    """The settings that the file sets. Raises SettingsError for a bad file or an unknown name."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path}: is not TOML: {error}") from None
    for key in data:
        if key not in Settings.model_fields:
            raise SettingsError(_unknown(f"{path}: {key}", key, Settings.model_fields))
    return set(data)


def _is_service_link(variable: str, value: str) -> bool:
    return bool(
        _SERVICE_LINK.fullmatch(variable)
        or (_SERVICE_PORT.fullmatch(variable) and _SERVICE_ADDRESS.match(value))
    )


def _flag(key: str) -> str:
    return "--" + key.replace("_", "-")


def _unknown(where: str, name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), n=3)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"{where}: no such setting{hint}"


def _split(value: Any, separator: str) -> Any:
    if isinstance(value, str):
        return [part.strip() for part in value.split(separator) if part.strip()]
    return value
