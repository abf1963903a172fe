"""Write the tables of the documentation that say what the code says.

    .venv/bin/python tools/docs_tables.py            # bring docs/ up to date
    .venv/bin/python tools/docs_tables.py --check    # exit 1 when a page is behind

A table stands between `<!-- table: NAME -->` and `<!-- end of table -->`. What a number means is
said here, once, since a table needs fewer words than a docstring; a number without a meaning, and
a meaning without a number, are errors.
"""

from __future__ import annotations

import ast
import inspect
import math
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, MinLen
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from paceline.core.profile import SECTIONS, Profile
from paceline.runtime.profile_files import load_profiles, shipped_folder
from paceline.runtime.profile_table import summary
from paceline.runtime.settings import PREFIX, Settings

DOCS = Path(__file__).parent.parent / "docs"

MEANINGS: dict[str, str] = {
    "limits.context_tokens": "prompt and answer together, tokens",
    "limits.max_output_tokens": "longest answer, hidden reasoning included, tokens; "
    "at most `context_tokens`",
    "limits.ceiling_tok_s": "what the maker says one user gets at most, tokens a second; "
    "0: nothing is stated. Changes no timing; the engine alone must not be faster",
    "engine.replicas": "engines behind one queue; a request goes to the least loaded",
    "engine.data_parallel_size": "ranks in lockstep that share one replica's batch",
    "engine.step_ms": "what a step costs by itself, ms",
    "engine.step_ms_per_seq": "for each running sequence, ms",
    "engine.seq_exponent": "power to which the running sequences of a rank are raised",
    "engine.step_ms_per_kv_token": "for each token in the KV cache, ms",
    "engine.step_ms_per_prefill_token": "for each prompt token prefilled in the step, ms",
    "engine.prefill_step_ms": "for having prefill in the step at all, ms",
    "engine.disaggregated_prefill": "prefill on hardware of its own, one prompt after another",
    "engine.tokens_per_step": "mean tokens a sequence gains a step (speculative decoding); "
    "at most `draft_tokens` + 1",
    "engine.draft_tokens": "most tokens drafted a step",
    "engine.max_num_seqs": "slots of a replica; 0: no limit",
    "engine.max_num_batched_tokens": "most prompt tokens prefilled in one step of a replica",
    "engine.kv_cache_tokens": "KV room of a replica, tokens; 0: no limit",
    "overhead.round_trip_ms": "what each request costs for coming by itself, ms",
    "overhead.per_token_ms": "the API layer's work on a token on its way out, ms: delays every "
    "token alike; at most the engine's time a token",
    "overhead.api_ms_p50": "API layer before the engine, median, ms",
    "overhead.api_ms_p90": "the same, 90th percentile, ms; at least the median",
    "overhead.pipeline_stages": "stages that the first token passes",
    "overhead.stage_ms": "each stage's time, ms",
    "overhead.sites": "points of a measured surface that scales the API layer's part, each "
    "`[in flight, prompt tokens, output tokens, weight]`; a fit writes them",
    "variation.jitter": "standard deviation of a token's delay, as a fraction of a step",
    "variation.stall_ms": "how much a stall lengthens its step, ms",
    "variation.stall_every_steps": "one step in so many stalls; 0: none does",
    "tenants.running": "other people's sequences in each replica's batch, a mean; fewer than "
    "`max_num_seqs`",
    "tenants.queue_ms_p50": "wait behind other people's requests, median, ms",
    "tenants.queue_ms_p90": "the same, 90th percentile, ms; at least the median",
    "prefix_cache.enabled": "whether there is a prompt cache",
    "prefix_cache.min_tokens": "shortest prompt, and shortest hit, tokens",
    "prefix_cache.block_tokens": "hits grow by so many tokens",
    "prefix_cache.ttl_s": "how long a block lives after its last prefill, s",
    "output.tokens_p50": "visible tokens of an answer whose request sets no length, median",
    "output.tokens_p90": "the same, 90th percentile; at least the median",
    "output.length_factor": "multiplies the drawn length",
    "reasoning.default_effort": "effort of a request that names none",
    "reasoning.minimal": "reasoning tokens at this effort",
    "reasoning.low": "the same",
    "reasoning.medium": "the same",
    "reasoning.high": "the same",
    "reasoning.xhigh": "the same",
    "reasoning.max": "the same",
    "websocket.round_trip": "factor on `overhead.round_trip_ms` over a WebSocket",
    "websocket.per_token": "factor on `overhead.per_token_ms` over a WebSocket",
    "websocket.ttft": "factor on the API layer and the pipeline's fill over a WebSocket",
}

RANGES = {"sites": "first three at least 1, weight −20 to 20"}
"""Ranges of the kinds that have no lowest and highest number."""


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# -- settings ----------------------------------------------------------------------------------


def settings_table() -> str:
    """Every setting: its names, default, range and meaning."""
    meanings = _attribute_docs(Settings)
    rows = []
    for name, info in Settings.model_fields.items():
        flag = "--" + name.replace("_", "-")
        flag = f"`{flag}`, `--no-{flag[2:]}`" if info.annotation is bool else f"`{flag}`"
        rows.append(
            (
                f"`{name}`",
                flag,
                f"`{(PREFIX + name).upper()}`",
                _shown(info.default),
                _setting_range(info),
                meanings[name].rstrip(".").replace("\n", " "),
            )
        )
    return table(("Key in a file", "Flag", "Environment", "Default", "Range", "Meaning"), rows)


def _attribute_docs(cls: type[Any]) -> dict[str, str]:
    """The strings under a class's fields."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef), "the source of a class is a class"
    found = {}
    for item, after in zip(tree.body[:-1], tree.body[1:], strict=True):
        if (
            isinstance(item, ast.AnnAssign)
            and isinstance(item.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            found[item.target.id] = inspect.cleandoc(str(after.value.value))
    return found


def _setting_range(info: FieldInfo) -> str:
    kind = info.annotation
    if kind is bool:
        return "true or false"
    if get_origin(kind) is Literal:
        return ", ".join(f"`{word}`" for word in get_args(kind))
    low = high = ""
    rules: list[Any] = info.metadata
    for rule in rules:
        if isinstance(rule, Ge):
            low = _bare(rule.ge)
        elif isinstance(rule, Gt):
            low = f"above {_bare(rule.gt)}"
        elif isinstance(rule, Le):
            high = _bare(rule.le)
        elif isinstance(rule, MinLen):
            return "not empty"
    if low or high:
        return f"{low} to {high}" if high else f"{low} and more"
    if kind == Path | None:
        return "a file"
    return "a list" if get_origin(kind) is tuple else "any text"


def _shown(value: Any) -> str:
    if value is PydanticUndefined or value in ("", (), None):
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(f"`{item}`" for item in value)
    return f"`{value}`" if isinstance(value, str) else _bare(value)


def _bare(value: Any) -> str:
    """A number as one types it."""
    return str(int(value)) if float(value).is_integer() else f"{value:g}"


# -- profiles ----------------------------------------------------------------------------------


def profiles_table() -> str:
    """The shipped profiles as `paceline profiles` lists them, with their other names."""
    rows = []
    for profile in sorted(load_profiles([shipped_folder()]), key=lambda p: p.name):
        line = summary(profile)
        rows.append(
            (
                f"`{line.name}`",
                f"{line.ceiling_tok_s:g}",
                line.ceiling_class,
                f"{line.first_token_ms:,.0f} ms",
                line.first_token_class,
                f"{line.context_tokens:,} / {line.max_output_tokens:,}",
                line.title + _other_names(profile),
            )
        )
    head = ("Name", "tok/s a user", "Class", "First token", "Class", "Context / output", "What")
    return table(head, rows)


def _other_names(profile: Profile) -> str:
    said = ""
    if profile.models:
        said += ". Also `" + "`, `".join(profile.models) + "`"
    if profile.tiers:
        tiers = [f"`{tier}` → `{name}`" for tier, name in profile.tiers.items()]
        said += ". Tiers: " + ", ".join(tiers)
    return said


def keys_table() -> str:
    """Every number that a profile's file may hold."""
    known = {f"{section}.{item.name}" for section, cls in SECTIONS.items() for item in fields(cls)}
    if known != set(MEANINGS):
        different = ", ".join(sorted(known ^ set(MEANINGS)))
        raise SystemExit(f"docs_tables.py: MEANINGS and the profile's keys differ in: {different}")
    rows = []
    for section, cls in SECTIONS.items():
        for item in fields(cls):
            key = f"{section}.{item.name}"
            default = "required" if item.default is MISSING else _default(item.default)
            rows.append((f"`{key}`", default, _key_range(item.metadata), MEANINGS[key]))
    return table(("Key", "Default", "Range", "Meaning"), rows)


def _default(value: Any) -> str:
    if isinstance(value, bool | str | tuple):
        return "none" if value == () else _shown(value)
    return _plain(value)


def _key_range(meta: Mapping[str, Any]) -> str:
    kind = meta["kind"]
    if kind == "bool":
        return "true or false"
    if kind == "str":
        return ", ".join(f"`{word}`" for word in meta["allowed"])
    if kind not in ("int", "float"):
        return RANGES[kind]
    low, high = meta["low"], meta["high"]
    above = "above " if meta["above"] else ""
    unit = "whole, " if kind == "int" else ""
    if high in (math.inf, 1 << 53):
        return f"{unit}{above}{_plain(low)}{'' if above else ' and more'}"
    return f"{unit}{above}{_plain(low)} to {_plain(high)}"


def _plain(value: float) -> str:
    return f"{int(value):,}" if float(value).is_integer() else f"{value:g}"


# -- pages -------------------------------------------------------------------------------------

TABLES: dict[str, Callable[[], str]] = {
    "settings": settings_table,
    "profiles": profiles_table,
    "profile keys": keys_table,
}

_BLOCK = re.compile(r"(<!-- table: (.+?) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def brought_up_to_date(text: str) -> str:
    """A page with its tables as they should be."""
    return _BLOCK.sub(lambda found: found[1] + TABLES[found[2]]() + "\n" + found[3], text)


def main() -> None:
    """Write the pages, or with `--check` say which would change."""
    behind = []
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text("utf-8")
        new = brought_up_to_date(text)
        if new != text:
            behind.append(os.path.relpath(page))
            if "--check" not in sys.argv:
                page.write_text(new, "utf-8")
    if behind:
        print("tables out of date:" if "--check" in sys.argv else "written:", ", ".join(behind))
    if behind and "--check" in sys.argv:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
