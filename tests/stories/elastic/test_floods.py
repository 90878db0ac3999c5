"""Thousands of connections that come to the master at once: it stays small, hears its workers, and loses none."""

import asyncio

import pytest

from bench.elastic.flood import FLOODS, IDLE, TARGETS, flood, lost, place
from bench.elastic.jobs import job, of_size, slots, whole

pytestmark = pytest.mark.timeout(900)


async def flooded(jobs, kubelet, elastic, seconds):
    """Every kind of flood beside a job that trains, each for so long."""
    await asyncio.to_thread(kubelet.add, slots(4))
    await jobs.submit(job("train", 2, 2))
    for name in ("honest", "hostile"):
        await jobs.submit(job(name, 1, 1, *IDLE))
    trains = await jobs.until("train", of_size(2))
    places = {
        name: await place(jobs.api, jobs.namespace, name, elastic.readyz) for name in ("honest", "hostile")
    }
    for kind in FLOODS[1:]:
        line = await asyncio.to_thread(flood, kind, seconds, elastic.program.pid, **places)
        print(line)
        assert line["peak_mib"] <= TARGETS["peak_mib"], line
        assert line["misses"] * 100 <= line["beats"], line
        assert line["attackers"], line
    still = await jobs.status("train")
    assert (still["round"], still["restarts"]) == (trains["round"], 0)
    assert await lost(jobs.api, jobs.namespace, "train") == []
    assert whole(await jobs.steps("train"))


async def test_floods_of_a_moment(jobs, kubelet, elastic):
    """4,000 silent connections, 2,000 half hellos, 1,500 handshakes, 500 held bodies, 200 handshakes a second: memory is bounded, and
    beats are answered in the time that an agent gives them.
    """
    await flooded(jobs, kubelet, elastic, 3)


@pytest.mark.extended
async def test_floods_that_last(jobs, kubelet, elastic):
    """The same for a minute each."""
    await flooded(jobs, kubelet, elastic, 60)
