"""A fit as a profile: the TOML document, and the profile that it loads as."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paceline.core.overhead import Site
from paceline.core.profile import Profile
from paceline.core.profile_document import parse_profile
from paceline.fit.estimate import coefficients
from paceline.fit.loop import CHUNK
from paceline.fit.points import Point
from paceline.fit.search import Fitted, Known

_DIGITS = 6
_GIVEN = "given to paceline fit on the command line"


@dataclass(frozen=True, slots=True)
class Source:
    """The class and the origin of a number."""

    kind: str
    text: str

    def to_toml(self) -> str:
        """An inline table."""
        return f"{{ class = {_quoted(self.kind)}, from = {_quoted(self.text)} }}"


@dataclass(slots=True)
class Document:
    """A profile's TOML document under way."""

    name: str
    title: str
    notes: str = ""
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)

    def put(self, key: str, value: float | list[list[float]], source: Source) -> None:
        """Add the number of a dotted key; fractions are rounded to six digits."""
        section, _, name = key.partition(".")
        if isinstance(value, float):
            value = _rounded(value)
        self.sections.setdefault(section, {})[name] = value
        self.sources[key] = source

    def profile(self) -> Profile:
        """The profile as it loads. Raises ProfileError where its numbers make no sense."""
        sources = {k: {"class": s.kind, "from": s.text} for k, s in self.sources.items()}
        top = {"name": self.name, "title": self.title, "notes": self.notes}
        return parse_profile({**top, **self.sections, "sources": sources})

    def to_toml(self) -> str:
        """The file's text."""
        lines = [f"name = {_quoted(self.name)}", f"title = {_quoted(self.title)}"]
        if self.notes:
            lines.append(f"notes = {_quoted(self.notes)}")
        for section, numbers in self.sections.items():
            lines += ["", f"[{section}]"]
            lines += [f"{key} = {_value(value)}" for key, value in numbers.items()]
        lines += ["", "[sources]"]
        lines += [f"{_quoted(key)} = {source.to_toml()}" for key, source in self.sources.items()]
        return "\n".join(lines) + "\n"


def document_of(
    fitted: Fitted,
    sites: tuple[Site, ...],
    points: list[Point],
    known: Known,
    *,
    name: str,
    title: str,
    fitted_on: str,
    accuracy: Mapping[str, str] | None = None,
) -> Document:
    """The profile of a fit; `accuracy` becomes sources of their own, `fit.…`."""
    cost = coefficients(fitted.x)
    estimate = Source("estimate", fitted_on)
    document = Document(name, title)
    _put_limits(document, points, known)
    document.put("engine.step_ms", cost.step, estimate)
    document.put("engine.step_ms_per_seq", cost.per_seq, estimate)
    document.put("engine.seq_exponent", cost.exponent, estimate)
    document.put("engine.step_ms_per_kv_token", cost.per_kv_token, estimate)
    document.put("engine.step_ms_per_prefill_token", cost.per_prefill_token, estimate)
    document.put("engine.prefill_step_ms", cost.prefill_step, estimate)
    _put_engine_limits(document, fitted, known, fitted_on)
    document.put("overhead.api_ms_p50", fitted.overhead_ms, estimate)
    document.put("overhead.api_ms_p90", fitted.overhead_ms, estimate)
    if sites:
        text = f"the time to first token that the engine's part leaves, {fitted_on}"
        document.put("overhead.sites", [list(site) for site in sites], Source("estimate", text))
    if fitted.spare_users:
        document.notes = (
            "The benchmark that this was fitted on left one of its users without a slot: its times"
            " to first token hold that wait, and this profile's don't."
        )
    for key, text in (accuracy or {}).items():
        document.sources[f"fit.{key}"] = Source("measured", text)
    return document


def _put_limits(document: Document, points: list[Point], known: Known) -> None:
    longest = max((p.isl + p.osl for p in points), default=1)
    context = known.context_tokens or 1 << max(longest - 1, 1).bit_length()
    text = _GIVEN if known.context_tokens else "the longest measured, up to a power of two"
    kind = "estimate" if known.context_tokens else "hypothesis"
    document.put("limits.context_tokens", context, Source(kind, text))
    output = min(context, max(context // 2, max((p.osl for p in points), default=1)))
    document.put("limits.max_output_tokens", output, Source("hypothesis", "within the context"))


def _put_engine_limits(document: Document, fitted: Fitted, known: Known, fitted_on: str) -> None:
    given = Source("estimate", _GIVEN)
    if known.max_num_seqs:
        document.put("engine.max_num_seqs", known.max_num_seqs, given)
    chunk = known.max_num_batched_tokens
    assumed = Source("hypothesis", "vLLM's default on large GPUs; the points don't show it")
    document.put("engine.max_num_batched_tokens", chunk or CHUNK, given if chunk else assumed)
    if known.kv_cache_tokens:
        document.put("engine.kv_cache_tokens", known.kv_cache_tokens, given)
    elif math.isfinite(fitted.kv_tokens):
        text = f"the room at which the measured waits come out best, {fitted_on}"
        document.put(
            "engine.kv_cache_tokens", math.ceil(fitted.kv_tokens), Source("estimate", text)
        )


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _value(value: float | list[list[float]]) -> str:
    if isinstance(value, list):
        rows = [f"    [{', '.join(f'{x:.10g}' for x in row)}]," for row in value]
        return "\n".join(["[", *rows, "]"])
    return json.dumps(value)


def _quoted(text: str) -> str:
    """A basic string: what JSON escapes, TOML does too, DEL excepted."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
