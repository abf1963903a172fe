"""A deployment: replicas that share a prompt cache."""

from __future__ import annotations

import pytest

from paceline.core.deployment import EngineDeployment
from paceline.core.profile import Engine, PrefixCache, Profile
from paceline.core.sequence import Sequence
from paceline.core.simulate import run_out

MS = 1_000_000


@pytest.mark.parametrize("look_ms", [[], [35], [25, 45], [30]], ids=str)
def test_replicas_share_a_cache_in_the_order_of_time(look_ms: list[int]) -> None:
    """What one replica stores is found by another from then on, however late anybody looks.

    Steps of 10 ms, 16 prompt tokens a step. The first replica's prompt of 33 tokens is stored at
    30 ms; on the second the same beginning is admitted at 20 ms, too early to find it.
    """
    profile = Profile(
        name="two",
        title="two",
        engine=Engine(step_ms=10.0, replicas=2, max_num_batched_tokens=16, max_num_seqs=1),
        prefix_cache=PrefixCache(min_tokens=16, block_tokens=16),
    )
    deployment = EngineDeployment(profile)
    stored = Sequence(33, 1, blocks=(1, 2))
    before, behind = Sequence(1, 2), Sequence(1, 1)
    early = Sequence(40, 1, blocks=(1, 2))
    for seq in (stored, before, behind, early):
        deployment.submit((seq,), 0)
    for at_ms in look_ms:
        deployment.advance(at_ms * MS)
    list(run_out(deployment))
    assert [s.replica_index for s in (stored, before, behind, early)] == [0, 1, 0, 1]
    assert (stored.first_ns, early.admitted_ns) == (30 * MS, 20 * MS)
    assert early.cached_tokens == 0
