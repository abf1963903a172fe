"""The articles' picture: users at 340 tokens a second in a megawatt of B300, and at 750 on wafers.

All users begin at once, ask a short prompt and read one long answer. Their rates are taken while
as many as can be served are: tokens a second of the slowest, and tokens a second of all.
"""

from __future__ import annotations

from collections.abc import Sequence as Seqs
from dataclasses import dataclass
from typing import Any

from paceline.core.deployment import EngineDeployment, request_key
from paceline.core.profile import Profile
from paceline.core.sequence import Sequence
from paceline.core.simulate import Arrival, replay
from paceline.simulation.capacity import Probe, find_capacity
from paceline.simulation.chart import Chart, Line, Note

GPU, WAFER = "b300-340", "wafer-600"
GPU_TOK_S, WAFER_TOK_S = 340.0, 750.0
TOTAL_TOK_S = 450_000

PROMPT_TOKENS, OUTPUT_TOKENS = 128, 4096
"""Short enough for one prefill step of all, long enough for all to decode at the same time."""

ROUNDING = 1e-6
"""How far under its figure a rate may lie: `step_ms` is 1,000 / 750 rounded to eight digits."""

_SWEEP = (1, *range(100, 2001, 100))


@dataclass(frozen=True, slots=True)
class Point:
    """So many users of one profile at once."""

    users: int
    user_tok_s: float
    """Tokens a second of the slowest user while served."""
    total_tok_s: float
    """Tokens a second of all together, while as many as can be are served."""
    served: int
    waiting: int
    wait_s: float
    """How long the last of them waits for a slot."""

    def to_json(self) -> dict[str, float | int]:
        """For a report."""
        return {
            "users": self.users,
            "user_tok_s": round(self.user_tok_s, 4),
            "total_tok_s": round(self.total_tok_s, 1),
            "served": self.served,
            "waiting": self.waiting,
            "wait_s": round(self.wait_s, 3),
        }


def point(profile: Profile, users: int) -> Point:
    """Simulate `users` users at once on a profile of one replica."""
    deployment = EngineDeployment(profile, keep_history=True)
    seqs = [
        Sequence(PROMPT_TOKENS, OUTPUT_TOKENS, key=request_key(0, user)) for user in range(users)
    ]
    ended = list(replay(deployment, (Arrival(0, (seq,)) for seq in seqs)))
    first_end = ended[0].end_ns
    served = [seq for seq in seqs if seq.admitted_ns < first_end]
    # While all that can be served are: from the last one's first token to the first one's last.
    clock = deployment.replicas[0].clock
    begin = max(seq.base_step for seq in served if seq.first_ns <= first_end)
    end = ended[0].end_step
    span_s = (clock.due(end) - clock.due(begin)) / 1e9
    tokens = [seq.tokens_by(end) - seq.tokens_by(begin) for seq in served]
    return Point(
        users=users,
        user_tok_s=min(tokens) / span_s,
        total_tok_s=sum(tokens) / span_s,
        served=len(served),
        waiting=users - len(served),
        wait_s=max(seq.admitted_ns - seq.engine_ns for seq in seqs) / 1e9,
    )


@dataclass(frozen=True, slots=True)
class Side:
    """One profile's part of the picture: its curve, and the most users that it holds."""

    profile: Profile
    rate: float
    users: int
    held: Point
    beyond: Point
    curve: tuple[Point, ...]

    def to_json(self) -> dict[str, Any]:
        """For a report."""
        return {
            "profile": self.profile.name,
            "title": self.profile.title,
            "rate_tok_s": self.rate,
            "users_held": self.users,
            "held": self.held.to_json(),
            "beyond": self.beyond.to_json(),
            "curve": [p.to_json() for p in self.curve],
        }


def side(profile: Profile, rate: float) -> Side:
    """Find the most users who each get `rate` tokens a second with nobody waiting."""

    def measure(load: float) -> Probe:
        found = point(profile, int(load))
        holds = found.user_tok_s >= rate * (1 - ROUNDING) and not found.waiting
        return Probe(load, {"user_tok_s": found.user_tok_s}, holds)

    capacity = find_capacity(measure, start=256, whole=True, most=1 << 16)
    users = int(capacity.load or 0)
    if not users or not capacity.bounded:
        raise ValueError(f"{profile.name} has no number of users at {rate:g} tokens a second")
    counts = sorted({*_SWEEP, users // 2 or 1, users, users + 1})
    curve = {count: point(profile, count) for count in counts}
    return Side(profile, rate, users, curve[users], curve[users + 1], tuple(curve.values()))


def explanation(gpu: Side, wafer: Side) -> list[str]:
    """Why more tokens a second aren't more users, in the figures of the run."""
    ratio = wafer.rate / gpu.rate
    held = (
        f"{gpu.profile.name}: {gpu.users:,} users at {gpu.held.user_tok_s:.2f} tok/s each are "
        f"{gpu.held.total_tok_s:,.0f} tok/s in all. One more, and each has "
        f"{gpu.beyond.user_tok_s:.2f}: below {gpu.rate:g}."
    )
    queued = (
        f"{wafer.profile.name}: {wafer.users:,} users at {wafer.held.user_tok_s:.2f} tok/s each "
        f"are {wafer.held.total_tok_s:,.0f} tok/s in all. The {_nth(wafer.users + 1)} has no slot "
        f"and waits {wafer.beyond.wait_s:.2f} s for one; the others keep their rate."
    )
    product = (
        f"Rate a user × users = rate in all. The same {TOTAL_TOK_S:,} tok/s are "
        f"{TOTAL_TOK_S:,} / {gpu.rate:g} = {TOTAL_TOK_S / gpu.rate:,.1f} users or "
        f"{TOTAL_TOK_S:,} / {wafer.rate:g} = {TOTAL_TOK_S / wafer.rate:,.0f}."
    )
    therefore = (
        f"{ratio:.2f} times the rate a user makes {1 / ratio:.2f} times the users of the same "
        f"rate in all, not {ratio:.2f} times. Beyond {wafer.users:,} users the wafers' rate in "
        "all stays where it is: more users only wait."
    )
    return [held, queued, product, therefore]


def _nth(number: int) -> str:
    last = number % 10 if number % 100 not in {11, 12, 13} else 0
    return f"{number:,}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"


def rows(sides: Seqs[Side]) -> list[list[str]]:
    """The figures around the answers as a table, its first row the heads."""
    table = [
        ["profile", "users", "slowest (tok/s)", "in all (tok/s)", "waiting", "longest wait (s)"]
    ]
    for s in sides:
        shown = sorted({1, s.users // 2, s.users, s.users + 1, 2000})
        by_users = {p.users: p for p in s.curve}
        for p in (by_users[n] for n in shown if n in by_users):
            cells = (f"{p.users:,}", f"{p.user_tok_s:.2f}", f"{p.total_tok_s:,.0f}")
            wait = f"{p.wait_s:.2f}" if p.waiting else "0"
            table.append([s.profile.name, *cells, f"{p.waiting:,}", wait])
    return table


def charts(sides: Seqs[Side]) -> list[Chart]:
    """Rate a user and rate in all over the number of users."""
    each = [_line(s, i, "user_tok_s") for i, s in enumerate(sides)]
    shares = []
    for i, s in enumerate(sides):
        if s.beyond.waiting:
            queued = [(p.users, p.total_tok_s / p.users) for p in s.curve if p.users >= s.users]
            shares.append(Line(f"{s.profile.name}, the waiting counted in", queued, i, dashed=True))
    every = [_line(s, i, "total_tok_s") for i, s in enumerate(sides)]
    flat = Line(f"{TOTAL_TOK_S:,} tok/s", [(1, TOTAL_TOK_S), (_SWEEP[-1], TOTAL_TOK_S)], 2, True)
    return [
        Chart(
            title="The rate that one user gets",
            x_label="users at once",
            y_label="slowest user (tokens a second)",
            lines=[*each, *shares],
            notes=[
                Note(s.users, s.held.user_tok_s, f"{s.users:,} at {s.rate:g}", i)
                for i, s in enumerate(sides)
            ],
        ),
        Chart(
            title="The rate of all users together",
            x_label="users at once",
            y_label="all users (tokens a second)",
            lines=[*every, flat],
            notes=[
                Note(s.users, s.held.total_tok_s, f"{s.users:,} × {s.rate:g}", i)
                for i, s in enumerate(sides)
            ],
        ),
    ]


def _line(s: Side, colour: int, name: str) -> Line:
    return Line(s.profile.name, [(p.users, getattr(p, name)) for p in s.curve], colour)
