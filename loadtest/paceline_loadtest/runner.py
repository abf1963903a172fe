"""One loop on one target, turn after turn, with its tools and sub-agents.

Everything is due at an absolute time: a tool ends so many seconds after the answer that called it
had ended, and the next call is scheduled for then, however late the client notices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter

from paceline_loadtest.caller import Caller, Reply
from paceline_loadtest.caps import CapError, Caps
from paceline_loadtest.clock import sleep_until
from paceline_loadtest.conversation import Conversation
from paceline_loadtest.errors import os_text
from paceline_loadtest.lateness import OwnLateness
from paceline_loadtest.load import Slots, Stop
from paceline_loadtest.model import Call, Dialect, LoopRun, Target, ToolRun, ToolSpan, TurnRun
from paceline_loadtest.prompts import prompt_tokens
from paceline_loadtest.scenario import OnError

BROKEN_OFF = "the run was broken off"


def _nothing(_call: Call) -> None:
    pass


@dataclass(slots=True)
class Runner:
    """Runs loops of one scenario on one target. See `Conversation` for `salt`.

    `on_error` says whether a loop ends with a call that fails. `told` hears of every call that has
    ended. Where a cap is reached `stop` is set.
    """

    target: Target
    dialect: Dialect
    caller: Caller
    slots: Slots
    stop: Stop
    lateness: OwnLateness
    salt: str = ""
    stream: bool = True
    on_error: OnError = "stop"
    caps: Caps | None = None
    told: Callable[[Call], None] = _nothing
    calls_under_way: int = 0
    most_under_way: int = 0
    _threads: int = field(default=0, repr=False)

    async def run(self, run: LoopRun) -> None:
        """Run a loop into `run`, which began at its `started_at`; nothing of it raises.

        Being cancelled leaves in `run` what there is.
        """
        loop, due = run.loop, run.started_at
        self._threads += 1
        thread = f"{loop.id}#{self._threads}"
        conversation = Conversation(
            loop, self.target, self.dialect, salt=self.salt, stream=self.stream, thread=thread
        )
        prompts = list(prompt_tokens(loop, self.dialect))
        try:
            for number, turn in enumerate(loop.turns):
                call = Call(due + turn.think_s)
                turn_run = TurnRun(due, call)
                run.turns.append(turn_run)
                try:
                    reply = await self._call(call, conversation, prompts[number])
                except CapError as error:
                    # The call was never made.
                    run.turns.pop()
                    run.stopped = str(error)
                    self.stop.set(str(error))
                    return
                if call.error is not None and self.on_error == "stop":
                    run.stopped = f"turn {number + 1}: {call.error}"
                    return
                conversation.answer(reply)
                due = await self._tools(turn_run, turn.tools, parallel=turn.parallel)
                turn_run.ended_at = due
        except asyncio.CancelledError:
            run.stopped = self.stop.why or BROKEN_OFF
            raise
        except OSError as error:
            run.stopped = f"a tool can't be run: {os_text(error)}"
        finally:
            run.ended_at = due if run.stopped is None else perf_counter()
            await self.caller.end_thread(thread)

    async def _call(self, call: Call, conversation: Conversation, prompt: int) -> Reply:
        ask = conversation.ask()
        await sleep_until(call.scheduled_at)
        async with self.slots.taken() as waited:
            share = None
            if self.caps is not None:
                share = self.caps.take(prompt, conversation.most_tokens)
            # A slot that was free was so from the start: that a timer here wakes late is this
            # client's lateness, and no wait for a slot.
            call.slot_at = perf_counter() if waited else call.scheduled_at
            self.lateness.send.append(perf_counter() - call.slot_at)
            self.calls_under_way += 1
            self.most_under_way = max(self.most_under_way, self.calls_under_way)
            try:
                return await self.caller.call(ask, call)
            finally:
                self.calls_under_way -= 1
                if self.caps is not None and share is not None:
                    self.caps.settle(share, call)
                self.told(call)

    async def _tools(
        self, turn_run: TurnRun, tools: tuple[ToolRun, ...], *, parallel: bool
    ) -> float:
        """Run the tools of a turn; returns when the next call is due."""
        call = turn_run.call
        due = perf_counter() if call.end_at is None else call.end_at
        if parallel:
            spans = [ToolSpan(tool.name, due, due) for tool in tools]
            turn_run.tools += spans
            await _all(self._tool(tool, span) for tool, span in zip(tools, spans, strict=True))
            return max((span.ended_at for span in spans), default=due)
        for tool in tools:
            span = ToolSpan(tool.name, due, due)
            turn_run.tools.append(span)
            await self._tool(tool, span)
            due = span.ended_at
        return due

    async def _tool(self, tool: ToolRun, span: ToolSpan) -> None:
        due = span.started_at
        try:
            if tool.agents:
                span.loops += [LoopRun(agent, due) for agent in tool.agents]
                await _all(self.run(run) for run in span.loops)
                due = max(run.ended_at or due for run in span.loops)
            if tool.command:
                due = await _run_command(tool.command)
            else:
                due += tool.seconds
                await sleep_until(due)
        except asyncio.CancelledError:
            due = perf_counter()
            raise
        finally:
            span.ended_at = due


async def _all(work: Iterable[Coroutine[None, None, None]]) -> None:
    """Run things side by side; the first that raises ends the others, and is what is raised."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _run_command(command: tuple[str, ...]) -> float:
    """Run a command to its end; returns when that was. What it says, and its code, are its own."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await process.wait()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    return perf_counter()
