from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.recording.document import (
    Added,
    Chunk,
    DocumentError,
    Exchange,
    Request,
    Response,
    from_json,
    to_line,
    to_page,
)
from paceline.recording.files import RecordingError, load, open_writer
from tests.recording.rig import exchange, keep

texts = st.text(st.characters(codec="latin-1"), max_size=12)
headers = st.lists(st.tuples(texts, texts), max_size=4).map(tuple)
times = st.integers(0, 10**15)
exchanges = st.builds(
    Exchange,
    upstream=texts,
    request=st.builds(Request, texts, texts, texts, headers, st.binary(max_size=40)),
    response=st.none() | st.builds(Response, st.integers(100, 599), headers, times),
    chunks=st.lists(
        st.builds(
            Chunk,
            times,
            st.binary(max_size=40),
            st.sampled_from(["server", "client"]),
            st.booleans(),
        ),
        max_size=5,
    ).map(tuple),
    end=st.sampled_from(["complete", "client_left", "upstream_dropped", "recorder_stopped"]),
    end_ns=times,
    recorded_at=texts,
    added=st.builds(Added, times, times, times, times, times),
    close=st.none() | st.tuples(st.integers(1000, 4999), texts),
)


@given(exchanges)
def test_what_is_written_is_read(given: Exchange) -> None:
    for text in (to_line(given), to_page(given)):
        assert from_json(json.loads(text)) == given
    assert "\n" not in to_line(given)


@pytest.mark.parametrize(
    ("body", "form"),
    [
        (b'{"a":[1,2.5,"\xc3\xa9"]}', {"json": {"a": [1, 2.5, "é"]}}),
        (b'{"half":"\\ud83d"}', {"json": {"half": "\ud83d"}}),
        (b"plain", {"text": "plain"}),
        (b"{broken", {"text": "{broken"}),
        (b'{"a":NaN}', {"text": '{"a":NaN}'}),
        (b"\xff\x00", {"base64": "/wA="}),
        (b"", {}),
    ],
)
def test_a_requests_body_is_shown_as_what_it_is(body: bytes, form: dict[str, Any]) -> None:
    made = Exchange("u", Request("POST", "/x", body=body), None, (), "complete", 0)
    document = json.loads(to_page(made).encode())
    assert document["request"]["body"] == form
    read = from_json(document).request.body
    assert read == body or json.loads(read) == json.loads(body)


def test_a_page_has_a_line_for_each_chunk_and_shows_text() -> None:
    page = to_page(exchange((1, 'data: {"é"}\n\n'.encode()), (2, b"\xc3"), (3, b"\xa9")))
    lines = [line.strip() for line in page.splitlines()]
    assert '{"ns": 1000000, "text": "data: {\\"é\\"}\\n\\n"},' in lines
    assert '{"ns": 2000000, "base64": "ww=="},' in lines
    assert '{"ns": 3000000, "base64": "qQ=="}' in lines


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"paceline_recording": 2}, "version 2; this Paceline reads version 1"),
        ({"end": "soon"}, "end is 'soon'"),
        ({"response": {"status": 99, "headers": {}, "head_ns": 0}}, "status is 99"),
        ({"chunks": [{"ns": -1, "text": ""}]}, r"chunks\[0\].ns is -1"),
        ({"request": {"method": "GET"}}, "'path' is missing"),
        ({"added": {"surprise": 1}}, "surprise"),
    ],
)
def test_a_document_that_is_none_is_refused(change: dict[str, Any], reason: str) -> None:
    document = json.loads(to_line(exchange((1, b"x"))))
    with pytest.raises(DocumentError, match=reason):
        from_json({**document, **change})


@pytest.mark.parametrize("data", [None, [], {}, {"request": {}}, "text"])
def test_other_json_is_no_document(data: Any) -> None:
    with pytest.raises(DocumentError, match="not a recorded exchange"):
        from_json(data)


@pytest.mark.parametrize("name", ["folder", "file.jsonl"])
def test_exchanges_are_added_and_come_back_in_order(tmp_path: Path, name: str) -> None:
    out = tmp_path / "deep" / name
    made = [exchange((i, b"%d" % i)) for i in range(12)]
    keep(out, *made[:7])
    keep(out, *made[7:])
    assert [each.body for each in load(out)] == [each.body for each in made]


def test_a_file_is_named_by_what_was_asked(tmp_path: Path) -> None:
    keep(tmp_path, exchange((1, b"x"), path="/a/../b?c"))
    assert [file.name for file in tmp_path.iterdir()] == ["00001-post-a-b-c.json"]


def test_a_line_that_a_crash_cut_short_is_passed_over_and_then_cut_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "tape.jsonl"
    keep(out, exchange((1, b"one")))
    with out.open("a") as file:
        file.write('{"paceline_recording": 1, "requ')
    assert [each.body for each in load(out)] == [b"one"]
    assert "cut short" in caplog.text
    keep(out, exchange((1, b"two")))
    assert [each.body for each in load(out)] == [b"one", b"two"]


def test_a_file_that_was_not_finished_is_none(tmp_path: Path) -> None:
    keep(tmp_path, exchange((1, b"one")))
    (tmp_path / "00002-post.partial").write_text('{"paceline_')
    assert len(load(tmp_path)) == 1


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.json", "{", "a.json: is not JSON"),
        ("a.json", "{}", "a.json: is not a recorded exchange"),
        ("a.jsonl", "{}\n", "a.jsonl: line 1: is not a recorded exchange"),
        ("a.jsonl", "\n", "there is no recorded exchange"),
    ],
)
def test_a_file_that_cant_be_used_is_named(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(RecordingError, match=reason):
        load(tmp_path)


def test_what_isnt_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"nothing\.json: No such file"):
        load(tmp_path / "nothing.json")
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordingError, match=r"file: is a file, .* name a folder"):
        open_writer(tmp_path / "file")
