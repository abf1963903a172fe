"""A process to be killed: it settles requests as fast as it can and says of which it was told so.

    python killed.py LEDGER RUN

Prints `id usd credits` of each entry whose `then` has run.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from functools import partial
from pathlib import Path

from paceline.core.ledger import Amount, Entry, Hold, Shortage, Terms, Window
from paceline.core.usage import Usage
from paceline.runtime.ledger.sqlite import SqliteLedger

TERMS = Terms(budget_usd=10**15, budget_period="month", primary=Window(300, 10**15))


def say(told: bytes) -> None:
    os.write(1, told)


async def main(path: Path, run: str) -> None:
    ledger = SqliteLedger(path)
    chance = random.Random(run)

    async def client(name: int) -> None:
        for i in range(10**9):
            most = chance.randrange(10**10)
            held = Hold(
                id=f"{run}-{name}-{i}",
                request_id="r",
                key_id=f"k{name % 3}",
                model="m",
                billed_as="m",
                profile="p",
                tier_asked="auto",
                tier_served="default",
                endpoint="/v1/responses",
                stream=True,
                created_us=time.time_ns() // 1000,
                most=Amount(most, most),
            )
            assert not isinstance(await ledger.hold(held, TERMS), Shortage)
            # Some end before their hold is written down, some after.
            await asyncio.sleep(chance.choice([0, 0, 0.001, 0.03]))
            cost = chance.randrange(most + 1)
            told = f"{held.id} {cost} {cost // 2}\n".encode()
            ended = Entry(held, "finished", held.created_us, Usage(9, 4), Amount(cost, cost // 2))
            ledger.settle(ended, partial(say, told))

    await asyncio.gather(*(client(name) for name in range(20)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
