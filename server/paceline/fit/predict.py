"""What a profile gives in a closed loop: played through the very deployment that a server runs."""

from __future__ import annotations

from dataclasses import replace

from paceline.core.deployment import EngineDeployment
from paceline.core.profile import Profile
from paceline.core.sequence import Sequence
from paceline.core.simulate import closed_loop
from paceline.fit.load import load_of
from paceline.fit.points import Point

_NS_PER_MS = 1e6


def predict(profile: Profile, point: Point, spare_users: int = 0) -> tuple[float, float]:
    """The mean TTFT and TPOT (ms) that a point's benchmark would measure of a profile.

    With `spare_users` the benchmark left that many users without a slot of the engine.
    """
    if spare_users:
        slots = max(point.users - spare_users, 1)
        known = profile.engine.max_num_seqs
        engine = replace(profile.engine, max_num_seqs=min(known, slots) if known else slots)
        profile = replace(profile, engine=engine)
    load = load_of(point)
    weight: dict[int, float] = {}
    issued = 0

    def next_request(_user: int, at_ns: int) -> tuple[int, Sequence] | None:
        nonlocal issued
        if issued == len(load.prompts):
            return None
        seq = Sequence(load.prompts[issued], load.outputs[issued], key=issued)
        weight[issued] = load.weights[issued]
        issued += 1
        return at_ns, seq

    ttft_ns = tpot_ns = 0.0
    for seq in closed_loop(EngineDeployment(profile), point.users, next_request):
        share = weight.pop(seq.key)
        ttft_ns += share * (seq.first_ns - seq.received_ns)
        tpot_ns += share * (seq.end_ns - seq.first_ns) / max(seq.output_tokens - 1, 1)
    return ttft_ns / _NS_PER_MS, tpot_ns / _NS_PER_MS
