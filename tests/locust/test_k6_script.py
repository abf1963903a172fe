"""The script for k6, under Node with stand-ins for k6's modules: k6 itself is not run here."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest

from paceline.testing.server import serve

SCRIPT = Path(__file__).resolve().parent.parent.parent / "loadtest/paceline_loadtest/scale/k6.js"
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="there is no Node")

STAND_INS = """
const kept = {};
class Kept { constructor(name) { this.name = name; kept[name] = []; }
             add(value) { kept[this.name].push(Number(value)); } }
const Counter = Kept, Rate = Kept, Trend = Kept;
const check = (value, tests) => Object.values(tests).map((test) => test(value)).every(Boolean);
const asked = [];
const http = { post: (url, body, params) => {
  asked.push({ url, body: JSON.parse(body), headers: params.headers });
  return globalThis.RESPONSE; } };
const __ENV = globalThis.ENV, __VU = 3, __ITER = 4;
"""


def run(tmp_path: Path, response: dict[str, Any], **environment: str) -> dict[str, Any]:
    """What the script does with an answer: the request that it made, the values that it kept."""
    text = re.sub(r"^import .*;$", "", SCRIPT.read_text("utf-8"), flags=re.MULTILINE)
    assert "import " not in re.sub(r"//.*", "", text)
    program = tmp_path / "program.mjs"
    program.write_text(
        f"globalThis.RESPONSE = {json.dumps(response)};\n"
        f"globalThis.ENV = {json.dumps(environment)};\n{STAND_INS}\n{text}\n"
        "chat(); console.log(JSON.stringify({ asked, kept, options }));\n",
        "utf-8",
    )
    assert NODE is not None
    done = subprocess.run([NODE, program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def answered(body: str, status: int = 200, timing: str = "") -> dict[str, Any]:
    headers = {"Server-Timing": timing} if timing else {}
    timings = {"waiting": 300.0, "receiving": 199.0}
    return {"status": status, "body": body, "headers": headers, "timings": timings}


def test_the_figures_of_a_stream_of_our_own(tmp_path: Path) -> None:
    asked = run(tmp_path, answered(""), OUTPUT_TOKENS="20", MODEL="m")["asked"][0]
    assert asked["url"] == "http://127.0.0.1:8000/v1/chat/completions"
    with serve() as server:
        real = httpx2.post(
            f"{server.base_url}/chat/completions", json=asked["body"], headers=asked["headers"]
        )
    assert real.status_code == 200
    answer = answered(real.text, timing=real.headers["server-timing"])
    kept = run(tmp_path, answer)["kept"]
    assert kept["failed"] == [0]
    assert kept["output_tokens"] == [20]
    assert kept["ttfb"] == [300]
    assert kept["e2e"] == [499]
    assert kept["tpot_mean"] == [pytest.approx(199 / 19)]
    assert len(kept["server_ttft"]) == 1


@pytest.mark.parametrize(
    "answer",
    [
        answered('data: {"choices":[{"delta":{"content":"x"}}]}\n\n'),
        answered('data: {"error":{"message":"broke"}}\n\ndata: [DONE]\n\n'),
        answered("data: {broken\n\ndata: [DONE]\n\n"),
        answered("data: [DONE]\n\n", 429),
        {**answered("", 0), "body": None},
    ],
)
def test_what_fails_is_counted_and_keeps_no_time(tmp_path: Path, answer: dict[str, Any]) -> None:
    kept = run(tmp_path, answer)["kept"]
    assert kept["failed"] == [1]
    assert not any(kept[name] for name in kept if name != "failed")


def test_events_are_read_whatever_their_line_ends(tmp_path: Path) -> None:
    chunk = 'data:{"choices":[{"delta":{"content":"a"}}]}'
    for end in ("\n", "\r\n", "\r"):
        body = f": hello{end}{chunk}{end}{end}event: x{end}{chunk}{end}{end}data: [DONE]{end}{end}"
        assert run(tmp_path, answered(body))["kept"]["output_tokens"] == [2]


def test_what_is_asked_follows_the_environment(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        answered(""),
        BASE_URL="http://other/v1/", MODEL="m", TIER="fast", API_KEY="k", OTHER_SERVER="1",
        VUS="7", DURATION="5s", PROMPT_WORDS="3",
    )  # fmt: skip
    (asked,) = found["asked"]
    assert asked["url"] == "http://other/v1/chat/completions"
    assert asked["headers"]["Authorization"] == "Bearer k"
    assert asked["body"]["service_tier"] == "fast"
    assert asked["body"]["max_completion_tokens"] == 200
    assert "paceline" not in asked["body"]
    assert len(asked["body"]["messages"][0]["content"].split()) == 3
    assert found["options"]["scenarios"]["chat"]["vus"] == 7
