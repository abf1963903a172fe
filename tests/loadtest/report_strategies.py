"""Results of any shape, for tests that hold whatever was measured."""

from __future__ import annotations

from array import array
from typing import Any

from hypothesis import strategies as st

from paceline_loadtest.model import (
    DIALECTS,
    Call,
    Loop,
    LoopRun,
    ServerPart,
    Target,
    ToolRun,
    ToolSpan,
    Turn,
    TurnRun,
)
from paceline_loadtest.report import Lateness, Results, RunInfo, TargetRun, Threshold

TIMES = st.floats(0.0, 1e4, allow_nan=False)
MAYBE = st.none() | TIMES
COUNTS = st.integers(0, 10**6)
WORDS = st.text(max_size=12)
AMOUNTS = st.none() | st.decimals(0, 1000, places=9).map(lambda amount: f"{amount:f}")

SERVERS = st.builds(
    ServerPart,
    overhead_s=MAYBE,
    queue_s=MAYBE,
    prefill_s=MAYBE,
    decode_s=MAYBE,
    profile=st.none() | WORDS,
    cost_usd=AMOUNTS,
    credits=AMOUNTS,
)
CALLS = st.builds(
    Call,
    scheduled_at=TIMES,
    slot_at=MAYBE,
    sent_at=MAYBE,
    headers_at=MAYBE,
    first_at=MAYBE,
    first_visible_at=MAYBE,
    last_at=MAYBE,
    end_at=MAYBE,
    chunk_at=st.lists(TIMES, max_size=4).map(lambda times: array("d", times)),
    status=st.none() | st.integers(100, 599),
    error=st.none() | WORDS,
    retries=st.integers(0, 3),
    waited_s=TIMES,
    prompt_tokens=st.none() | COUNTS,
    cached_tokens=st.none() | COUNTS,
    output_tokens=st.none() | COUNTS,
    reasoning_tokens=st.none() | COUNTS,
    service_tier=st.none() | WORDS,
    request_id=st.none() | WORDS,
    server=SERVERS,
)


def loops_of(tools: st.SearchStrategy[Any]) -> st.SearchStrategy[Loop]:
    """Planned loops whose tools are of that kind."""
    turns = st.builds(
        Turn,
        new_tokens=COUNTS,
        reasoning_tokens=COUNTS,
        output_tokens=COUNTS,
        tools=st.lists(tools, max_size=2).map(tuple),
        parallel=st.booleans(),
        think_s=TIMES,
    )
    return st.builds(
        Loop,
        id=WORDS,
        system_tokens=COUNTS,
        tools_defined=COUNTS,
        tool_definition_tokens=COUNTS,
        turns=st.lists(turns, max_size=2).map(tuple),
        seed=st.integers(),
    )


_LEAVES = st.builds(ToolRun, name=WORDS, seconds=TIMES, result_tokens=COUNTS)
LOOPS = loops_of(
    st.builds(
        ToolRun,
        name=WORDS,
        seconds=TIMES,
        result_tokens=COUNTS,
        command=st.lists(WORDS, max_size=2).map(tuple),
        agents=st.lists(loops_of(_LEAVES), max_size=2).map(tuple),
    )
)


def _runs(agents: st.SearchStrategy[list[LoopRun]]) -> st.SearchStrategy[LoopRun]:
    tools = st.builds(ToolSpan, name=WORDS, started_at=TIMES, ended_at=TIMES, loops=agents)
    turns = st.builds(
        TurnRun,
        started_at=TIMES,
        call=CALLS,
        tools=st.lists(tools, max_size=2),
        ended_at=MAYBE,
    )
    return st.builds(
        LoopRun,
        loop=LOOPS,
        started_at=TIMES,
        turns=st.lists(turns, max_size=3),
        ended_at=MAYBE,
        stopped=st.none() | WORDS,
    )


RUNS = _runs(st.lists(_runs(st.just([])), max_size=2))
LATENESS = st.builds(
    Lateness,
    count=COUNTS,
    p50_s=TIMES,
    p99_s=TIMES,
    max_s=TIMES,
    limit_s=MAYBE,
    spoils=st.none() | WORDS,
)
TARGETS = st.builds(
    Target,
    label=WORDS,
    base_url=st.sampled_from(["http://127.0.0.1:8000/v1", "https://u:p@host.example/v1?key=x"]),
    model=WORDS,
    service_tier=st.none() | WORDS,
    api_key=WORDS,
    paceline=st.booleans(),
)
RESULTS = st.builds(
    Results,
    info=st.builds(
        RunInfo,
        scenario=WORDS,
        seed=st.integers(),
        client=WORDS,
        dialect=st.sampled_from(DIALECTS),
        tool_version=WORDS,
        started=WORDS,
        stream=st.booleans(),
        complete=st.booleans(),
        notes=st.lists(WORDS, max_size=2).map(tuple),
        settings=st.dictionaries(WORDS, WORDS, max_size=2),
    ),
    targets=st.lists(
        st.builds(
            TargetRun,
            target=TARGETS,
            loops=st.lists(RUNS, max_size=2),
            predicted=st.lists(RUNS, max_size=1),
            users=st.none() | st.integers(1, 1000),
            rate=MAYBE,
            facts=st.dictionaries(WORDS, WORDS, max_size=2),
            lateness=st.none() | LATENESS,
            lateness_kinds=st.dictionaries(WORDS, LATENESS, max_size=2),
            client_cost_s=MAYBE,
            seconds=MAYBE,
            price_source=WORDS,
            notes=st.lists(WORDS, max_size=2).map(tuple),
        ),
        min_size=1,
        max_size=2,
    ),
    thresholds=st.lists(
        st.builds(
            Threshold,
            rule=WORDS,
            outcome=st.sampled_from(["passed", "failed", "unknown"]),
            value=MAYBE,
            target=st.none() | WORDS,
        ),
        max_size=2,
    ),
)
