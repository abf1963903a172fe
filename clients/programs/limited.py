"""openai: one streamed answer with the package's own retries, and what became of it as JSON."""

import json
import os
import sys

import openai

client = openai.OpenAI(base_url=os.environ["BASE_URL"] + "/v1", api_key=os.environ["KEY"])
tier = os.environ.get("TIER")
try:
    stream = client.chat.completions.create(
        model=os.environ["MODEL"],
        messages=[{"role": "user", "content": "Say hello."}],
        max_tokens=12_000,
        stream=True,
        **({"service_tier": tier} if tier else {}),
    )
    served = {chunk.service_tier for chunk in stream}
    print(json.dumps({"served": sorted(name for name in served if name)}))
except openai.APIError as error:
    code = getattr(error, "code", None)
    print(json.dumps({"error": type(error).__name__, "code": code, "message": error.message}))
    sys.exit(1)
