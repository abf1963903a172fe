"""`paceline keys`, as it is typed."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from paceline.cli import app
from paceline.commands import register
from paceline.core.ledger import PICO, Terms, Window
from paceline.runtime.key_files import keys_of, load_keys
from paceline.runtime.keys import Keys

runner = CliRunner()


@pytest.fixture(scope="module", autouse=True)
def registered() -> None:
    if "keys" not in {group.name for group in app.registered_groups}:
        register()


def run(*arguments: str, given: str | None = None) -> Result:
    return runner.invoke(app, ["keys", *arguments], input=given)


def test_a_new_key_and_its_table_fit_each_other() -> None:
    done = run("new", "team-a", "--budget-usd", "10.50", "--budget-period", "day", "--tier", "fast")
    assert done.exit_code == 0
    key, _, text = done.stdout.partition("\n\n")
    assert key.startswith("sk-paceline-")
    assert len(key) == len("sk-paceline-") + 43, "32 random bytes"
    (entry,) = keys_of(text)
    assert entry.digest == sha256(key.encode()).digest()
    assert key not in text
    assert entry.caller.terms == Terms(budget_usd=105 * PICO // 10, budget_period="day")
    assert entry.caller.tiers == frozenset({"priority"})
    again = run("new", "team-a").stdout.partition("\n")[0]
    assert again != key


def test_every_option_ends_up_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    options = {
        "budget-usd": "1",
        "budget-credits": "2",
        "budget-period": "month",
        "prepaid-usd": "3",
        "prepaid-credits": "0.000000000004",
        "window-5h-credits": "5",
        "window-week-credits": "006.5",
        "tier": "ultrafast",
        "default-tier": "ultrafast",
        "rpm": "1",
        "tpm": "2",
        "rpd": "3",
        "max-streams": "4",
        "plan-type": "pro",
        "when-full": "refuse",
        "when-not-entitled": "refuse",
        "expires": "2027-01-31T12:00:00Z",
    }
    flat = [part for name, value in options.items() for part in (f"--{name}", value)]
    done = run("new", "all", *flat, "--admin", "--file", str(path))
    assert done.exit_code == 0, done.output
    (entry,) = load_keys(path)
    caller = entry.caller
    assert caller.terms == Terms(
        PICO, 2 * PICO, "month", 3 * PICO, 4, Window(300, 5 * PICO), Window(10_080, 65 * PICO // 10)
    )
    assert caller.limits == (1, 2, 3, 4)
    assert (caller.tiers, caller.default_tier) == (frozenset({"ultrafast"}), "ultrafast")
    assert (caller.plan_type, caller.admin) == ("pro", True)
    assert (caller.when_full, caller.when_not_entitled) == ("refuse", "refuse")
    assert entry.expires_s == 1_801_396_800
    shown = json.loads(run("list", "--file", str(path), "--json").stdout)
    assert shown[0]["terms"]["prepaid_credits"] == "0.000000000004"
    assert shown[0]["terms"]["secondary"] == {"minutes": 10_080, "credits": "6.5"}
    assert shown[0]["expires"] == "2027-01-31T12:00:00Z"


def test_keys_are_added_to_a_file_and_let_in(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text("# ours")
    keys = [run("new", name, "--file", str(path)).stdout.strip() for name in ("one", "two")]
    text = path.read_text()
    assert text.startswith("# ours\n\n[[keys]]\n")
    assert text.count("\n\n[[keys]]\n") == 2
    let_in = Keys(path)
    for key, name in zip(keys, ("one", "two"), strict=True):
        found = let_in.find(key.encode())
        assert found is not None
        assert found.name == name
        assert key not in text
    listed = run("list", "--file", str(path))
    assert listed.exit_code == 0
    assert "one" in listed.stdout
    assert sha256(keys[0].encode()).hexdigest()[:12] in listed.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("a b",), "name: must be a word"),
        (("a", "--budget-usd", "10x"), "'10x' is no amount"),
        (("a", "--budget-usd", "-1"), "'-1' is no amount"),
        (("a", "--budget-usd", "1e3"), "'1e3' is no amount"),
        (("a", "--budget-usd", "9" * 5000), "can't be read: "),
        (("a", "--budget-usd", "1\nadmin = true"), "is no amount"),
        (("a", "--budget-usd", "1."), "'1.' is no amount"),
        (("a", "--budget-usd", "²"), "is no amount"),
        (("a", "--budget-usd", "1.²"), "is no amount"),
        (("a", "--budget-usd", "2000000"), "budget_usd: must be from 0 to 1000000"),
        (("a", "--rpm", "-1"), "rpm: must be a whole number"),
        (("a", "--tier", "hyper"), "tiers: must be a list of some of"),
        (("a", "--tier", "flex", "--default-tier", "fast"), "default_tier: must be one of its"),
        (("a", "--plan-type", 'x"'), "plan_type: must be a word"),
    ],
)
def test_what_can_t_be_makes_no_key(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    path = tmp_path / "keys.toml"
    for more in ((), ("--file", str(path))):
        done = run("new", *arguments, *more)
        assert done.exit_code == 2
        assert said in done.stderr
        assert "sk-paceline-" not in done.output
    assert not path.exists()


def test_a_file_that_can_t_be_used_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    run("new", "one", "--file", str(path))
    for content in (path.read_bytes(), b"[[keys]\n", b"\xff"):
        path.write_bytes(content)
        done = run("new", "one", "--file", str(path))
        assert done.exit_code == 2
        assert str(path) in done.stderr
        assert "sk-paceline-" not in done.output
        assert path.read_bytes() == content
    assert run("new", "one", "--file", str(tmp_path)).exit_code == 2
    assert run("list", "--file", str(tmp_path / "none.toml")).exit_code == 2


def test_a_key_is_hashed_from_standard_input() -> None:
    done = run("hash", given="sk-old-key\n")
    assert done.stdout.strip() == sha256(b"sk-old-key").hexdigest()
    assert run("hash", given="\n").exit_code == 2


def test_listing_needs_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run("list")
    assert done.exit_code == 2
    assert "PACELINE_KEYS_FILE" in done.stderr
    path = tmp_path / "keys.toml"
    run("new", "one", "--file", str(path))
    monkeypatch.setenv("PACELINE_KEYS_FILE", str(path))
    assert "one" in run("list").stdout
