"""What was asked, in words that belong to no dialect.

A dialect's parser makes a `GenerationRequest`; nothing after it knows which wire format the
request came in. Only immutable values live here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from paceline.core.tools import AUTO, OutputFormat, Tool, ToolChoice

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Reasoning efforts, least first (OpenAI's `reasoning_effort`, with Codex's two on top)."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt.

    `fixed_tokens` are those that no tokenizer can count from the text: images, audio, files.
    A `name` counts as its own tokens and one more, as in OpenAI's chat format.
    """

    role: str
    text: str
    fixed_tokens: int = 0
    name: str = ""


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A conversation; counted with the chat format's own tokens a message."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """A bare text, as the completions endpoint takes it; counted without any overhead."""

    text: str


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """A prompt that arrived as token ids of `o200k_base`."""

    ids: tuple[int, ...]


Prompt = ChatPrompt | TextPrompt | TokenPrompt


@dataclass(frozen=True, slots=True)
class Fault:
    """What is to go wrong with an answer, on purpose; each name uses some of the fields.

    `tokens` leave before it happens: output tokens, hidden ones included, over all choices.
    `ms` is a pause, `max_bytes` the longest piece of a stream that is cut, `seed` where the cuts
    are. The rest describe an error; `retry_after_s` and `resets_in_s` are in seconds. `param` is
    where the request asks for it.
    """

    name: str
    tokens: int = 0
    ms: float = 0.0
    max_bytes: int = 4
    seed: int = 0
    status: int = 500
    type: str | None = None
    code: str = "server_error"
    message: str = "The server had an error while processing the request."
    retry_after_s: float | None = None
    resets_in_s: float = 3600.0
    param: str = ""


@dataclass(frozen=True, slots=True)
class Overrides:
    """What one request fixes for itself (`X-Paceline-*` headers, `paceline` in the body).

    `output_tokens` counts all tokens, hidden reasoning included. `ttft_ms` is the whole time to
    the first token, in place of the profile's overhead, queue and prefill; `rate` is in tokens a
    second. Either of the two takes the request off the shared engine: it gets a clock of its own.
    """

    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    seed: int | None = None
    ttft_ms: float | None = None
    rate: float | None = None
    echo: bool = False
    fault: Fault | None = None
    cost_in_body: bool | None = None
    """Whether the answer tells its cost beside its usage; None leaves it to the server."""


NO_OVERRIDES = Overrides()


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A request for generated tokens, checked for form but not yet against a profile.

    `top_logprobs` is None without logprobs, else how many alternatives each token lists.
    `max_tokens` None means "as long as the model likes", up to its limits.
    `show_reasoning` None leaves it to the server's setting whether the reasoning's text is sent.
    `unknown` names the body's fields that nobody understood, for a response header.
    """

    model: str
    prompts: tuple[Prompt, ...]
    n: int = 1
    max_tokens: int | None = None
    min_tokens: int = 0
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()
    seed: int | None = None
    top_logprobs: int | None = None
    echo_prompt: bool = False
    reasoning_effort: str | None = None
    max_reasoning_tokens: int | None = None
    show_reasoning: bool | None = None
    service_tier: str | None = None
    cache_key: str | None = None
    cached: bool = True
    """Whether the prompt may be read from the prompt cache and kept there."""
    stream: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = AUTO
    parallel_tool_calls: bool = True
    max_tool_calls: int | None = None
    output_format: OutputFormat | None = None
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The request's headers by lower-case name, without credentials, for scripts to match."""
    overrides: Overrides = NO_OVERRIDES
    unknown: tuple[str, ...] = field(default=())
    drop_oldest: bool = False
    """Whether a chat that is too long loses its oldest messages rather than being refused."""
    context: object = field(default=None, hash=False, compare=False)
    """What a dialect remembers of the request to write its answer; nobody else looks at it."""
