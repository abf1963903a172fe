"""OpenAI's Responses: items and requests in, events and response objects out, over SSE or frames.

What the dialect's words mean to the rest of Paceline:

- Items become messages: a call is something that the assistant said, its output a message of the
  role `tool`, thinking of the past the tokens that it took. The tools on offer are counted too.
- Everything about a response follows from its plan, so that a stream can be written again from
  any event on: a second encoder of the same plan writes the same bytes.
"""

from __future__ import annotations
