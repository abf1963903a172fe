"""`paceline keys`: make API keys, and see what those of a keys file may do."""

from __future__ import annotations

import json
import secrets
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from getpass import getpass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from paceline.cli import ConfigPath, fail, settings_of
from paceline.core.ledger import Terms
from paceline.core.money import digits
from paceline.runtime.caller import Caller
from paceline.runtime.key_files import AMOUNTS, Entry, KeyFileError, keys_of, load_keys
from paceline.runtime.limits import OwnSizes

app = typer.Typer(
    help="Make API keys, and see what those of a keys file may do.", no_args_is_help=True
)

PREFIX = "sk-paceline-"
_SECRET_BYTES = 32

KeyFile = Annotated[Path | None, typer.Option("--file", help="The keys file.")]
Usd = Annotated[str | None, typer.Option(metavar="AMOUNT", help="US dollars, plain decimals.")]
Credits = Annotated[str | None, typer.Option(metavar="AMOUNT", help="Credits, plain decimals.")]
Count = Annotated[int | None, typer.Option(metavar="NUMBER", help="Its own limit; 0 is none.")]


@app.command("new")
def new_key(
    name: Annotated[str, typer.Argument(help="Whose key it is: a word.")],
    *,
    file: Annotated[
        Path | None, typer.Option("--file", help="Append the table to this keys file.")
    ] = None,
    budget_usd: Usd = None,
    budget_credits: Credits = None,
    budget_period: Annotated[str | None, typer.Option(help="total, day or month (UTC).")] = None,
    prepaid_usd: Usd = None,
    prepaid_credits: Credits = None,
    window_5h_credits: Credits = None,
    window_week_credits: Credits = None,
    tiers: Annotated[
        list[str] | None, typer.Option("--tier", help="A tier that it may use; may be repeated.")
    ] = None,
    default_tier: Annotated[str | None, typer.Option(help="What auto means for it.")] = None,
    rpm: Count = None,
    tpm: Count = None,
    rpd: Count = None,
    max_streams: Count = None,
    plan_type: Annotated[str | None, typer.Option(help="As Codex names it: plus, pro.")] = None,
    when_full: Annotated[str | None, typer.Option(help="queue, default or refuse.")] = None,
    when_not_entitled: Annotated[str | None, typer.Option(help="default or refuse.")] = None,
    expires: Annotated[
        datetime | None, typer.Option(help="Until when, UTC.", formats=["%Y-%m-%d", "%Y-%m-%dT%XZ"])
    ] = None,
    admin: Annotated[bool, typer.Option("--admin", help="It may change the server.")] = False,
) -> None:
    """Make a key and print it, this once, with the table for a keys file, which has its hash."""
    key = PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    given: dict[str, Any] = {
        "name": name,
        "sha256": sha256(key.encode()).hexdigest(),
        "budget_usd": _number(budget_usd),
        "budget_credits": _number(budget_credits),
        "budget_period": budget_period,
        "prepaid_usd": _number(prepaid_usd),
        "prepaid_credits": _number(prepaid_credits),
        "window_5h_credits": _number(window_5h_credits),
        "window_week_credits": _number(window_week_credits),
        "tiers": tiers or None,
        "default_tier": default_tier,
        "rpm": rpm,
        "tpm": tpm,
        "rpd": rpd,
        "max_streams": max_streams,
        "plan_type": plan_type,
        "when_full": when_full,
        "when_not_entitled": when_not_entitled,
        "expires": None if expires is None else expires.replace(tzinfo=UTC),
        "admin": admin or None,
    }
    table = _toml(given)
    try:
        keys_of(table)
        if file is not None:
            _append(file, table)
    except KeyFileError as error:
        # Of one table the reader need not be told which it is.
        fail(str(error).replace("keys[0].", "") if error.path is None else str(error))
    typer.echo(key)
    if file is None:
        typer.echo(f"\n{table}", nl=False)
    else:
        typer.secho(f"Added to {file}. The key is shown this once.", err=True)


@app.command("hash")
def hash_key() -> None:
    """Read a key from standard input and print its SHA-256, as a keys file has it."""
    key = getpass("key: ") if sys.stdin.isatty() else sys.stdin.readline().strip()
    if not key:
        fail("there is no key on standard input")
    typer.echo(sha256(key.encode()).hexdigest())


@app.command("list")
def list_keys(
    *,
    file: KeyFile = None,
    config: ConfigPath = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the keys of a file: `--file`, or the one that the settings name."""
    path = file or settings_of(config).keys_file
    if path is None:
        fail("which file? Name it by --file or PACELINE_KEYS_FILE")
    try:
        entries = load_keys(path)
    except KeyFileError as error:
        fail(str(error))
    if as_json:
        typer.echo(json.dumps([_described(entry) for entry in entries], indent=2))
        return
    table = Table(title=str(path))
    for column in ("name", "id", "may spend", "limits", "tiers", "until"):
        table.add_column(column, overflow="fold")
    for entry in entries:
        caller = entry.caller
        table.add_row(
            "\n".join([caller.name, *_about(caller)]),
            caller.key_id,
            "\n".join(_spends(caller.terms)) or "anything",
            "\n".join(_limited(caller)),
            "all" if caller.tiers is None else "\n".join(sorted(caller.tiers)) or "default",
            (_until(entry) or "").removesuffix("T00:00:00Z"),
        )
    Console(soft_wrap=not sys.stdout.isatty()).print(table)


def _number(text: str | None) -> str | None:
    """An amount as TOML has a number; what is none is left for the file's own check to refuse."""
    if text is None:
        return None
    whole, point, part = text.partition(".")
    if not text.isascii() or not whole.isdigit() or (point and not part.isdigit()):
        fail(f"{text!r} is no amount: write plain decimals, such as 12.5")
    # TOML has no zeros at the front; `int` would refuse thousands of digits.
    return f"{whole.lstrip('0') or '0'}{point}{part}"


def _toml(given: dict[str, Any]) -> str:
    lines = ["[[keys]]"]
    for name, value in given.items():
        if value is None:
            continue
        if name in AMOUNTS:
            # Numbers with all their digits, which JSON's would lose.
            lines.append(f"{name} = {value}")
        elif isinstance(value, datetime):
            lines.append(f"{name} = {value.strftime('%Y-%m-%dT%H:%M:%SZ')}")
        else:
            lines.append(f"{name} = {json.dumps(value)}")
    return "\n".join(lines) + "\n"


def _append(path: Path, table: str) -> None:
    """Add a table to a file, if the whole can be used then. Raises KeyFileError."""
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        added = table if not before else f"\n{table}" if before.endswith("\n") else f"\n\n{table}"
        keys_of(before + added, path)
        with path.open("a", encoding="utf-8") as out:
            out.write(added)
    except OSError as error:
        raise KeyFileError(path, "", error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise KeyFileError(path, "", "is not UTF-8 text") from None


def _spends(terms: Terms) -> list[str]:
    said = []
    for name, amount in asdict(terms).items():
        if name.startswith(("budget_", "prepaid_")) and isinstance(amount, int):
            kind, _, unit = name.partition("_")
            text = f"${digits(amount)}" if unit == "usd" else f"{digits(amount)} credits"
            per = f" / {terms.budget_period}" if terms.budget_period != "total" else " in all"
            said.append(text + (per if kind == "budget" else " prepaid"))
    windows = ((terms.primary, "5 h"), (terms.secondary, "week"))
    return said + [f"{digits(w.credits)} credits / {span}" for w, span in windows if w is not None]


def _about(caller: Caller) -> list[str]:
    return [word for word in (caller.plan_type, "admin" if caller.admin else None) if word]


def _limited(caller: Caller) -> list[str]:
    said = _sizes(caller.limits)
    for tier, own in caller.tier_limits.items():
        said += [f"{tier} {line}" for line in _sizes(own)]
    return said


def _sizes(sizes: OwnSizes) -> list[str]:
    return [f"{name} {size}" for name, size in sizes._asdict().items() if size is not None]


def _until(entry: Entry) -> str | None:
    if entry.expires_s is None:
        return None
    return datetime.fromtimestamp(entry.expires_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _described(entry: Entry) -> dict[str, Any]:
    caller = entry.caller
    return {
        "name": caller.name,
        "key_id": caller.key_id,
        "terms": {
            name: _exact(value) for name, value in asdict(caller.terms).items() if value is not None
        },
        "tiers": None if caller.tiers is None else sorted(caller.tiers),
        "default_tier": caller.default_tier,
        "limits": caller.limits._asdict(),
        "tier_limits": {tier: own._asdict() for tier, own in caller.tier_limits.items()},
        "plan_type": caller.plan_type,
        "admin": caller.admin,
        "when_full": caller.when_full,
        "when_not_entitled": caller.when_not_entitled,
        "expires": _until(entry),
    }


def _exact(value: Any) -> Any:
    """Amounts as exact text, windows with theirs inside."""
    if isinstance(value, dict):
        return {"minutes": value["minutes"], "credits": digits(value["credits"])}
    return digits(value) if isinstance(value, int) else value
