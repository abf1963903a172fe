from __future__ import annotations

import io
import re

import pytest
from rich.console import Console
from rich.segment import Segment

from paceline.race import digits
from paceline.race.lane import Lane
from paceline.race.picture import svg
from paceline.race.view import ASCII, Frame, View
from tests.race.scripted import feed, finished

SIZES = [(80, 23), (200, 49), (120, 40), (40, 12), (20, 5), (3, 2), (1, 1)]


def lanes() -> list[Lane]:
    gpu = Lane("gpu-40", 400)
    feed(gpu, ttft=0.4, gap=0.025, tokens=144)
    broken = Lane("nope", 400)
    broken.fail(100.2, "404: no such model")
    return [gpu, finished("spark-1000", ttft=0.15, gap=0.001, tokens=400), broken]


def drawn(view: View, width: int, height: int, now: float = 104.0) -> list[str]:
    lines = view.lines(now, width, height)
    assert len(lines) <= height
    assert all(Segment.get_line_length(line) <= width for line in lines)
    return ["".join(segment.text for segment in line) for line in lines]


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_frame_fits_its_size(width: int, height: int) -> None:
    assert drawn(View(lanes(), '"prompt" 400 tokens a lane'), width, height)


@pytest.mark.parametrize(("width", "height"), [(80, 23), (200, 49)])
def test_what_a_frame_says(width: int, height: int) -> None:
    text = "\n".join(drawn(View(lanes(), "title"), width, height))
    for word in ("gpu-40", "spark-1000", "nope", "36%", " 1st ", "failed", "404: no such model"):
        assert word in text
    for figure in ("400 ms", "150 ms", "4.00 s", "0.55 s", "144 of 400", "400 of 400"):
        assert figure in text
    assert "spark-1000 finished in 0.55 s; gpu-40 is at 36%." in text


def test_rates_are_written_in_the_row_or_large() -> None:
    assert "1,000 tok/s" in "\n".join(drawn(View(lanes(), "t"), 80, 23))
    large = "\n".join(drawn(View(lanes(), "t"), 200, 49))
    assert "tok/s" not in large
    assert large.count("tokens a second") == 3
    top = "".join(("█" if on else " ") * cells for on, cells in digits.rows("1000", 4)[0])
    assert top in large


def test_nothing_moves_but_what_changes() -> None:
    view = View(lanes(), "t")
    early, late = drawn(view, 80, 23, now=104.0), drawn(view, 80, 23, now=109.0)
    assert len(early) == len(late)
    changed = [(a, b) for a, b in zip(early, late, strict=True) if a != b]
    # The lane that runs has fallen silent for five seconds: its clock and its rate, nothing else.
    assert len(changed) == 1
    assert [len(line) for line in changed[0]] == [80, 80]


def test_the_bar_is_as_long_as_the_progress() -> None:
    lane = Lane("m", 200)
    feed(lane, ttft=0.1, gap=0.01, tokens=50)
    bar = next(line for line in drawn(View([lane], "t"), 82, 12) if "█" in line)
    assert bar.count("█") == 20
    assert bar.count("─") == 60


def test_ascii_terminals_get_ascii() -> None:
    text = "\n".join(drawn(View(lanes(), "t", ASCII), 80, 23))
    assert text.isascii()


def test_too_many_digits_are_written_small() -> None:
    lane = finished("instant", ttft=0.001, gap=0.000_005, tokens=400)
    text = "\n".join(drawn(View([lane], "t"), 100, 40))
    assert "200,000 tokens a second" in text


@pytest.mark.parametrize("width", [80, 200])
def test_a_terminal_shows_the_frame_row_by_row(width: int) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=24, _environ={})
    with console.capture() as capture:
        console.print(Frame(View(lanes(), "t"), 104.0), end="")
    assert capture.get().count("\n") == 22


def test_the_picture_is_whole_and_asks_nobody() -> None:
    picture = svg(Frame(View(lanes(), "t"), 104.0, 40), 92, 41, "a <title>")
    assert re.findall(r"https?://[^\"'\s<]+", picture) == ["http://www.w3.org/2000/svg"]
    assert "url(" not in re.sub(r"url\(#race-[\w-]+\)", "", picture)
    assert "@font-face" not in picture
    assert "a&#160;&lt;title&gt;" in picture
    assert not re.search(r"[█▌▏▎▍▋▊▉]", picture)
    for word in ("gpu-40", "spark-1000", "404:&#160;no&#160;such&#160;model"):
        assert word in picture


def test_digits() -> None:
    shown = [
        "".join(("#" if on else ".") * (cells // digits.PIXEL) for on, cells in row)
        for row in digits.rows("42", 3)
    ]
    assert shown == [
        "....#.#.###",
        "....#.#...#",
        "....###.###",
        "......#.#..",
        "......#.###",
    ]
