"""What a loop's requests say, and how many tokens that comes to.

The live client sends these texts and a prediction counts them, so both know the same prompts. A
word here is one token of `o200k_base` wherever it stands, so a text's tokens are its words. What
the chat format and the definitions of tools add is counted as Paceline counts it; another server
may count a few tokens more or fewer a message.

An answer's text is the server's own, and what it comes to in the next prompt is its visible
tokens. Where calls follow it in the same message (chat, messages) that may be one token more than
it does: a full stop and the line end behind it can be one token.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any, Literal

from paceline.core.rng import hash64
from paceline_loadtest.model import Dialect, Loop

Role = Literal["system", "user", "assistant", "tool"]

CALL_NAME = "run"
CALL_ARGUMENTS = "{}"
"""What the calls in a loop's history say on the wire, whatever a scenario calls its tools."""

# A message of one text: three tokens of the format and one for its role. The reply is primed with
# three. A call follows a text as "\nrun\n{}"; one that follows another shares a token with it.
_MESSAGE, _REPLY = 4, 3
_FIRST_CALL, _NEXT_CALL, _CALL_ITEM = 4, 3, 7

# What the JSON of a definition comes to beside the words of its description, and of the list.
_DEFINITION: dict[Dialect, int] = {
    "chat": 36,
    "responses": 37,
    "responses-websocket": 37,
    "messages": 31,
}
_DEFINITION_LIST = 2

_COMMON = """
    year people way day man thing woman life child world school state family student country
    problem hand part place case week company system program question work government number night
    point home water room mother area money story fact month lot right study book eye job word
    business issue side kind head house service friend father power hour game line end member law
    car city community team minute idea kid body information back parent face others level office
    door health person art war history party result change reason research moment air teacher force
    education foot boy age policy process music market sense nation plan college interest effect
    control field development role rate heart show leader light voice mind price report decision
    view town road arm difference building action season tax director position player record
    paper space ground form event official matter center site project activity star table need court
    oil cost industry figure street image phone data picture practice piece land product doctor wall
    worker news test movie north support technology step computer film tree source organization
    look window culture chance energy period course summer plant letter condition choice rule south
    floor campaign material population call bank west sport board subject rest behavior
    performance top goal second order author nature color store sound movement page series language
    response animal factor article east artist scene stock career size fund media sign thought list
    quality answer resource meeting success cup amount ability staff character growth box training
"""
_WORDS = tuple(_COMMON.split())


@dataclass(frozen=True, slots=True)
class Part:
    """One message of a conversation, in no dialect's words.

    An assistant's may make calls, by id; a tool's is the result of the call `call_id`.
    """

    role: Role
    text: str
    calls: tuple[str, ...] = ()
    call_id: str = ""


@lru_cache(maxsize=512)
def words(tokens: int, key: int) -> str:
    """A text of so many tokens; another key gives another text, a longer one begins the same."""
    return " ".join(Random(key).choices(_WORDS, k=tokens))


def opening(loop: Loop, salt: str = "") -> list[Part]:
    """The messages of a loop's first request, beside the definitions of its tools.

    Every text differs with `salt`: another one finds nothing of the runs before in the server's
    cache. Within one salt, loops that define alike share their system prompt.
    """
    parts = []
    if loop.system_tokens:
        parts.append(Part("system", words(loop.system_tokens, hash64("system", salt))))
    parts.append(Part("user", _user(loop, 0, salt)))
    return parts


def following(loop: Loop, turn: int, said: str, salt: str = "") -> list[Part]:
    """What the request after turn `turn` adds to that turn's: the answer, the results, the user."""
    tools = loop.turns[turn].tools
    calls = tuple(call_id(turn, at) for at in range(len(tools)))
    parts = [Part("assistant", said, calls)]
    for at, tool in enumerate(tools):
        text = words(tool.result_tokens, hash64("tool", salt, loop.id, loop.seed, turn, at))
        parts.append(Part("tool", text, call_id=calls[at]))
    if new_tokens(loop, turn + 1):
        parts.append(Part("user", _user(loop, turn + 1, salt)))
    return parts


def new_tokens(loop: Loop, turn: int) -> int:
    """The user's own tokens before a turn: at least one where no tool's result stands there."""
    told = loop.turns[turn].new_tokens
    return told if turn and loop.turns[turn - 1].tools else max(told, 1)


def call_id(turn: int, at: int) -> str:
    """The id of a turn's call: the same in its message and in its result."""
    return f"call_{turn}_{at}"


def tool_definitions(loop: Loop, dialect: Dialect, salt: str = "") -> list[dict[str, Any]]:
    """The tools that every request of the loop defines, as the dialect's `tools` has them.

    Answers are to be text: the requests say so (`tool_choice` none).
    """
    return [_definition(loop, dialect, at, salt) for at in range(loop.tools_defined)]


def shared_tokens(loop: Loop, dialect: Dialect) -> int:
    """Tokens at the beginning of a prompt that loops which define alike have in common."""
    shared = _MESSAGE + loop.system_tokens if loop.system_tokens else 0
    if loop.tools_defined:
        each = _DEFINITION[dialect] + _described(loop, dialect)
        shared += _MESSAGE + _DEFINITION_LIST + loop.tools_defined * each
    return shared


def prompt_tokens(loop: Loop, dialect: Dialect) -> Iterator[int]:
    """The prompt tokens of each turn's request."""
    tokens = shared_tokens(loop, dialect) + _MESSAGE + new_tokens(loop, 0) + _REPLY
    for at, turn in enumerate(loop.turns):
        yield tokens
        if at + 1 < len(loop.turns):
            tokens += _MESSAGE + turn.output_tokens
            if turn.reasoning_tokens and dialect.startswith("responses"):
                # Thoughts stay in the context: a chain keeps them, over HTTP they are sent back.
                tokens += _MESSAGE + turn.reasoning_tokens
            tokens += _calls_tokens(len(turn.tools), dialect)
            results = [_MESSAGE + tool.result_tokens for tool in turn.tools]
            tokens += sum(results)
            told = new_tokens(loop, at + 1)
            if told and turn.tools and dialect == "messages":
                # The user's text goes with the last result, behind a line end.
                tokens += told + 1
            elif told:
                tokens += _MESSAGE + told


def _calls_tokens(calls: int, dialect: Dialect) -> int:
    if not calls:
        return 0
    if dialect in {"chat", "messages"}:
        return _FIRST_CALL + (calls - 1) * _NEXT_CALL
    return calls * _CALL_ITEM


def _user(loop: Loop, turn: int, salt: str) -> str:
    return words(new_tokens(loop, turn), hash64("user", salt, loop.id, loop.seed, turn))


def _described(loop: Loop, dialect: Dialect) -> int:
    """The words of a definition's description: what is left of its tokens, at least one."""
    return max(loop.tool_definition_tokens - _DEFINITION[dialect], 1)


def _definition(loop: Loop, dialect: Dialect, at: int, salt: str) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
    }
    # The first is the one that the calls name, in two tokens less.
    name, more = (CALL_NAME, 2) if at == 0 else (f"tool_{at}", 0)
    described = _described(loop, dialect) + more
    about = {"name": name, "description": words(described, hash64("definition", salt, at))}
    if dialect == "messages":
        return {**about, "input_schema": parameters}
    function = {**about, "parameters": parameters}
    if dialect == "chat":
        return {"type": "function", "function": function}
    return {"type": "function", **function}
