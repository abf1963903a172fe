"""The clients by name; one that isn't asked for isn't imported."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Literal, get_args

from paceline_loadtest.caller import Caller
from paceline_loadtest.errors import LoadTestError
from paceline_loadtest.model import Dialect
from paceline_loadtest.retries import Retries

ClientKind = Literal["sdk", "lean"]
CLIENTS: tuple[ClientKind, ...] = get_args(ClientKind)


def make_client(
    kind: ClientKind, base_url: str, api_key: str, *, retries: Retries, idle_timeout_s: float
) -> Caller:
    """A client of a server. Raises LoadTestError where its packages aren't installed."""
    if kind == "lean":
        from paceline_loadtest.lean import LeanClient  # noqa: PLC0415 - only what is asked for

        return LeanClient(base_url, api_key, retries=retries, idle_timeout_s=idle_timeout_s)
    try:
        from paceline_loadtest.sdk import SdkClient  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise LoadTestError(
            f"--client sdk needs the package {error.name}: pip install 'paceline[loadtest]' "
            "(in a clone: make install), or take --client lean"
        ) from error
    return SdkClient(base_url, api_key, retries=retries, idle_timeout_s=idle_timeout_s)


def client_name(kind: ClientKind, dialect: Dialect) -> str:
    """What a report calls it: `lean`, or the SDK that speaks the dialect, with its version."""
    if kind == "lean":
        return "lean"
    package = "anthropic" if dialect == "messages" else "openai"
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return package
