"""The `paceline race` command: from flags to a race, and from a race to what is shown."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from paceline.cli import ProfilePaths, fail
from paceline.client.stream import BaseUrl, StreamError
from paceline.client.threads import quick_threads
from paceline.race.lane import Lane
from paceline.race.own_server import ServerError, own_server
from paceline.race.picture import svg
from paceline.race.result import race_json, seconds, verdict
from paceline.race.runner import Course, Race
from paceline.race.view import ASCII, Frame, Glyphs, View

_LANES = ("gpu-40", "wafer-750", "spark-1000")
_DEFAULT_TOKENS = 400
"""Some ten seconds at 40 tokens a second."""
_FRAME_S = 1 / 25
_INTERRUPTED = 130


def race(
    prompt: Annotated[str, typer.Argument(help="What every lane is asked.")],
    *,
    lane: Annotated[
        list[str] | None,
        typer.Option(help=f"A model to race; may be repeated. Default: {', '.join(_LANES)}."),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(help="A running server, as in http://localhost:8000/v1; default: its own."),
    ] = None,
    api_key: Annotated[str, typer.Option(help="The key for it.")] = "paceline",
    tokens: Annotated[int, typer.Option(min=1, help="Tokens of each answer.")] = _DEFAULT_TOKENS,
    seed: Annotated[int, typer.Option(help="Another seed, another answer.")] = 1,
    profiles: ProfilePaths = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="No drawing: a line a lane. So too without a terminal.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON at the end.")] = False,
    picture: Annotated[
        Path | None, typer.Option("--svg", help="Keep the last frame in this file.")
    ] = None,
    picture_after: Annotated[
        float | None, typer.Option("--svg-after", help="Not the last: the frame at this second.")
    ] = None,
) -> None:
    """Race the same answer at several speeds, each streamed for real."""
    if base_url is not None and profiles:
        fail("--profiles is for the race's own server; with --base-url that one's profiles count")
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_signals_end_it())
            live = not (plain or as_json or _no_drawing())
            models = lane or _LANES
            url = base_url or _start_server(stack, models, profiles or (), live=live)
            course = Course(BaseUrl.parse(url), prompt, tokens, seed, api_key)
            show = _Show(
                Race(course, models),
                source=f"from {url}" if base_url else "over HTTP",
                picture=picture,
                picture_after=picture_after,
            )
            code = show.run(live=live, as_json=as_json)
    except (StreamError, ServerError, ValueError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename or 'the race'}: {error.strerror or error}")
    except KeyboardInterrupt:
        # Before the first lane started: there is nothing to show.
        code = _INTERRUPTED
    raise typer.Exit(code)


def _start_server(
    stack: contextlib.ExitStack, models: Sequence[str], profiles: Sequence[Path], *, live: bool
) -> str:
    """Start one for as long as the stack lives; returns its base URL."""
    waiting = Console().status("Starting a server") if live else contextlib.nullcontext()
    with waiting:
        return stack.enter_context(own_server(models, profiles))


class _Show:
    """A race on its way to a terminal, a pipe or a file."""

    def __init__(
        self, race: Race, *, source: str, picture: Path | None, picture_after: float | None
    ) -> None:
        self._race = race
        self._picture = picture
        self._picture_after = picture_after
        self._console = Console(soft_wrap=False, highlight=False)
        course = race.course
        self._title = f'"{course.prompt}"  {course.tokens:,} tokens a lane {source}'
        glyphs = Glyphs() if not self._console.options.ascii_only else ASCII
        self._view = View(race.lanes, self._title, glyphs)

    def run(self, *, live: bool, as_json: bool) -> int:
        """Race and show; returns the exit code."""
        interrupted = False
        self._race.start()
        try:
            with quick_threads():
                if live:
                    self._draw()
                else:
                    self._tell(quiet=as_json)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            self._race.stop()
        self._end(live=live, as_json=as_json)
        if interrupted:
            return _INTERRUPTED
        return 0 if all(lane.state == "finished" for lane in self._race.lanes) else 1

    def _draw(self) -> None:
        # The other screen is overwritten in place, never cleared: nothing flickers, a changed
        # size does no harm, and the last frame is left on the first screen alone.
        with Live(console=self._console, screen=True, auto_refresh=False) as drawing:
            due = time.perf_counter()
            while not self._race.over:
                drawing.update(Frame(self._view, time.perf_counter()), refresh=True)
                self._keep_picture_if_due()
                due = max(due + _FRAME_S, time.perf_counter() + _FRAME_S / 4)
                self._race.wait(due - time.perf_counter())

    def _tell(self, *, quiet: bool) -> None:
        told: set[int] = set()
        while len(told) < len(self._race.lanes):
            self._race.wait(_FRAME_S)
            self._keep_picture_if_due()
            for lane in self._race.lanes:
                if lane.over and id(lane) not in told:
                    told.add(id(lane))
                    if not quiet:
                        self._console.print(_line(lane), soft_wrap=True, markup=False)

    def _end(self, *, live: bool, as_json: bool) -> None:
        lanes = self._race.lanes
        now = time.perf_counter()
        if as_json:
            course = self._race.course
            settings = {
                "prompt": course.prompt,
                "max_tokens": course.tokens,
                "seed": course.seed,
                "base_url": str(course.base),
            }
            typer.echo(json.dumps(race_json(lanes, settings), indent=2, ensure_ascii=False))
        elif live:
            self._console.print(Frame(self._view, now), end="")
        else:
            for lane in lanes:
                if lane.state == "stopped":
                    self._console.print(_line(lane), soft_wrap=True, markup=False)
            self._console.print(verdict(lanes), soft_wrap=True, markup=False)
        self._keep_picture(now)

    def _keep_picture_if_due(self) -> None:
        now = time.perf_counter()
        if self._picture_after is not None and now - self._race.started >= self._picture_after:
            self._keep_picture(now)

    def _keep_picture(self, now: float) -> None:
        """Write the picture, once."""
        if self._picture is not None:
            width, height = self._console.size
            view = View(self._race.lanes, self._title)
            frame = Frame(view, now, height - 1)
            title = f'paceline race "{self._race.course.prompt}"'
            self._picture.write_text(svg(frame, width, height, title), encoding="utf-8")
            self._picture = None


def _line(lane: Lane) -> str:
    """A lane's end in one line."""
    if lane.state == "failed":
        return f"{lane.model}: failed: {lane.error}"
    rate = lane.rate()
    ttft = lane.ttft_s
    return (
        f"{lane.model}: {lane.state} after {seconds(lane.elapsed_s(time.perf_counter()))}, "
        f"TTFT {'-' if ttft is None else f'{ttft * 1000:.0f} ms'}, "
        f"{'-' if rate is None else f'{rate:,.1f}'} tok/s, {lane.tokens:,} tokens"
    )


def _no_drawing() -> bool:
    console = Console()
    return not console.is_terminal or console.is_dumb_terminal


@contextlib.contextmanager
def _signals_end_it() -> Iterator[None]:
    """Make a closed terminal and a polite kill end the race as Ctrl-C does."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    names = (signal.SIGTERM, signal.SIGHUP)
    before = {name: signal.signal(name, interrupt) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
