"""Sixty-four workers lay down their addresses and read everybody else's, all at once, as gloo's full mesh does."""

import asyncio
import time

import pytest

from tests.elastic.rendezvous.served import served

WORKERS = 64


@pytest.mark.slow
async def test_a_full_mesh_of_64_workers(capsys):
    """Each reads the right value of each other, though all ask before anybody has laid one down; the time is printed."""
    async with served() as running:
        uids = [f"uid-{number}" for number in range(WORKERS)]
        for uid in uids:
            running.hire(uid)
        number = await running.desk.publish("team/job", uids)

        async def member(rank: int) -> list[bytes]:
            async def read(other: int) -> bytes:
                path = f"/v1/rounds/{number}/kv/global/{other}?wait=30"
                return (await running.ask("GET", path, uids[rank])).body

            others = [other for other in range(WORKERS) if other != rank]
            first = asyncio.create_task(read(others[-1]))
            await asyncio.sleep(0)
            await running.ask("PUT", f"/v1/rounds/{number}/kv/global/{rank}", uids[rank], b"%d" % rank)
            read_now = [await read(other) for other in others[:-1]]
            return [*read_now, await first]

        began = time.perf_counter()
        found = await asyncio.gather(*(member(rank) for rank in range(WORKERS)))
        took = time.perf_counter() - began

    with capsys.disabled():
        print(f"\nfull mesh of {WORKERS} workers over HTTPS, client and server in one process: {took:.2f} s")
    assert found == [[b"%d" % other for other in range(WORKERS) if other != rank] for rank in range(WORKERS)]
