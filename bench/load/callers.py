"""Clients that ask the same again and again, in a process of their own that gives way to others (nice 10).

`python -m bench.load.callers` reads `Calls` from standard input as JSON, and prints how many calls ended how: by the
status of the answer, or by the name of the fault.
"""

import asyncio
import itertools
import json
import os
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Final

import aiohttp

NICE: Final = 10


@dataclass(frozen=True, slots=True)
class Calls:
    """clients: each has one call under way. rate: calls a second of all together, 0: as fast as they are answered.
    body: of a POST; empty: GET. tokens: clients take turns with them. length: characters of a token that is made up
    for each call, 0: none.
    """

    url: str
    seconds: float
    clients: int
    rate: float
    body: str
    tokens: tuple[str, ...]
    length: int


async def flood(calls: Calls) -> Counter[str]:
    """What became of the calls that ended within the time."""
    seen, numbers = Counter[str](), itertools.count()
    clock = asyncio.get_running_loop().time
    method = "POST" if calls.body else "GET"

    def headers(client: int) -> dict[str, str]:
        token = calls.tokens[client % len(calls.tokens)] if calls.tokens else ""
        if calls.length:
            token = f"{os.getpid()}.{next(numbers)}.".ljust(calls.length, "x")
        kind = {"Content-Type": "application/json"} if calls.body else {}
        return {**kind, **({"Authorization": f"Bearer {token}"} if token else {})}

    async def one(session: aiohttp.ClientSession, client: int) -> None:
        step = calls.clients / calls.rate if calls.rate else 0.0
        due = clock() + step * client / calls.clients
        while True:
            await asyncio.sleep(max(0.0, due - clock()))
            due += step
            try:
                async with session.request(
                    method, calls.url, data=calls.body or None, headers=headers(client)
                ) as answer:
                    await answer.read()
                    seen[str(answer.status)] += 1
            except (aiohttp.ClientError, TimeoutError) as error:
                seen[type(error).__name__] += 1

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
        tasks = [asyncio.ensure_future(one(session, client)) for client in range(calls.clients)]
        _, late = await asyncio.wait(tasks, timeout=calls.seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    return seen


if __name__ == "__main__":
    os.nice(NICE)
    print(json.dumps(asyncio.run(flood(Calls(**json.load(sys.stdin))))))
