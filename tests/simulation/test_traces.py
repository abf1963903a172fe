"""Trace files: every form that is read, and what is said of one that can't be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paceline.simulation.arrivals import Trace
from paceline.simulation.traces import TraceError, load_trace

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951691,396,109
2023-11-17 00:00:00,1,0
"""
MOONCAKE = """{"timestamp": 0, "input_length": 700, "output_length": 52, "hash_ids": [46, 47]}
{"timestamp": 1500, "input_length": 600, "output_length": 3, "hash_ids": [46, 48]}
"""
RECORDING = """{"at_s": 12.5, "prompt_tokens": 300, "output_tokens": 20, "blocks": [11, -12]}

{"at_s": 12.25, "prompt_tokens": 400, "output_tokens": 30}
"""


def read(folder: Path, text: str, name: str = "trace") -> tuple[Trace, str]:
    file = folder / name
    file.write_text(text, "utf-8")
    return load_trace(file)


def test_azure_times_are_exact(tmp_path: Path) -> None:
    trace, kind = read(tmp_path, AZURE)
    assert kind == "azure"
    assert list(trace.jobs(128)) == [
        (0, 374, 44, ()),
        (4_314_579_100, 396, 109, ()),
        (20_653_319_410_000, 1, 1, ()),
    ]


def test_azure_with_a_zone_and_other_columns(tmp_path: Path) -> None:
    text = (
        "TIMESTAMP,Kind,GeneratedTokens,ContextTokens\r\n2024-05-10 00:00:00.009930+00:00,a,2,9\r\n"
    )
    assert list(read(tmp_path, text)[0].jobs(128)) == [(0, 9, 2, ())]


def test_mooncake(tmp_path: Path) -> None:
    trace, kind = read(tmp_path, MOONCAKE)
    assert kind == "mooncake"
    one, other = trace.jobs(128)
    assert (one[:3], other[:3]) == ((0, 700, 52), (1_500_000_000, 600, 3))
    assert (len(one[3]), len(other[3])) == (5, 4)
    assert one[3][:4] == other[3]


def test_a_recording_in_order_of_time(tmp_path: Path) -> None:
    trace, kind = read(tmp_path, RECORDING)
    assert kind == "recording"
    assert [job[:3] for job in trace.jobs(128)] == [(0, 400, 30), (250_000_000, 300, 20)]
    assert [len(job[3]) for job in trace.jobs(128)] == [0, 2]


def test_a_saved_listing_of_requests(tmp_path: Path) -> None:
    def record(created: float, prompt: int, output: int, state: str) -> dict[str, object]:
        counts = {"prompt_tokens": prompt, "output_tokens": output}
        return {"object": "paceline.request", "created": created, "state": state, **counts}

    data = [
        record(1_700_000_003.5, 9, 0, "running"),
        record(1_700_000_002.5, 7, 8, "finished"),
        record(1_700_000_001.0, 5, 6, "aborted"),
    ]
    trace, kind = read(tmp_path, json.dumps({"object": "list", "data": data}, indent=1))
    assert kind == "requests"
    assert list(trace.jobs(128)) == [(0, 5, 6, ()), (1_500_000_000, 7, 8, ())]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", ":1: is neither"),
        ("a,b\n1,2\n", ":1: is neither"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "holds no request"),
        ("TIMESTAMP,ContextTokens\n2023-11-16 18:15:46,1\n", ":1: needs TIMESTAMP"),
        (AZURE + "2023-11-16 18:15:46.x,1,1\n", ":5: can't be read"),
        (AZURE + "2023-11-16 18:15:46,-1,1\n", ":5: can't be read"),
        (AZURE + "2023-11-16 18:15:46,1\n", ":5: can't be read"),
        (AZURE + "yesterday,1,1\n", ":5: can't be read"),
        (MOONCAKE + '{"timestamp": 5}\n', ":3: can't be read"),
        (MOONCAKE + "[1]\n", ":3: must be an object"),
        (MOONCAKE + "{\n", ":3: is not JSON"),
        (MOONCAKE.replace("1500", '"1500"'), ":2: can't be read"),
        (MOONCAKE.replace("1500", "1e300"), ":2: can't be read"),
        (MOONCAKE.replace("[46, 48]", "[46, true]"), ":2: can't be read"),
        (RECORDING.replace("12.25", "NaN"), ":3: can't be read"),
        (RECORDING.replace("400", "400.5"), ":3: can't be read"),
        (RECORDING.replace("30}", '30, "block_tokens": 64}'), ":3: can't be read"),
        ('{"object": "list"}', "is no saved listing"),
        ('{"object": "list"', "is no saved listing"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(TraceError, match=complaint):
        read(tmp_path, text)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="No such file"):
        load_trace(tmp_path / "gone")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TraceError, match="not UTF-8"):
        load_trace(tmp_path / "bytes")


@pytest.mark.parametrize(
    ("name", "count"), [("azure_conv.csv", 19_366), ("mooncake_conversation.jsonl", 12_031)]
)
def test_the_public_traces(name: str, count: int) -> None:
    if not (SHARED / name).exists():
        pytest.skip(f"{name} isn't beside this checkout")
    trace, _ = load_trace(SHARED / name)
    assert len(trace) == count
    at = [job[0] for job in trace.jobs(128)]
    assert at == sorted(at)
    assert 3400e9 < trace.span_ns < 3600e9  # an hour's worth
