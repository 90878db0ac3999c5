"""How large a ring is held; and 64 workers that lay down their addresses and read everybody else's, all at once."""

import asyncio
import time

import pytest

from scheduler.elastic.controller.pod_template import LONGEST_JOB, worker_name
from scheduler.elastic.rendezvous import ring_size
from scheduler.elastic.rendezvous.kv_store import OLD, Values
from scheduler.elastic.rendezvous.worker_messages import Refused
from scheduler.settings import RendezvousServer
from tests.elastic.rendezvous.served import served

WORKERS = 64
MI = 2**20
BOUNDS = {
    "the defaults": (RendezvousServer(), "rendezvous.roundLimit"),
    "a small round": (RendezvousServer(round_limit=MI), "rendezvous.roundLimit"),
    "large rounds": (
        RendezvousServer(round_limit=64 * MI),
        "rendezvous.valuesLimit, for three rounds of a job",
    ),
    "small values": (RendezvousServer(value_limit=4096), "rendezvous.valueLimit"),
    "few values": (RendezvousServer(keys=1000), "rendezvous.keys"),
    "all of them large": (
        RendezvousServer(
            round_limit=2**32, values_limit=2**34, value_limit=2**24, body_limit=2**26, keys=2**24
        ),
        "65536 bytes a value, which is the agent's own bound",
    ),
}


def lay(values: Values, bounds: RendezvousServer, number: int, members: int, job: str = "team/job") -> None:
    """What a ring of so many members of a job with the longest name lays down, as Horovod 0.28.1 does. Raises
    Refused.
    """
    address = b"x" * 136 * (members - 1)
    assert len(address) <= bounds.value_limit, "the route refuses the value"
    for hash_ in ("", "_process_set_hash_" + "9" * 20):
        values.put(job, number, f"cross_0{hash_}/0", b"")
        values.put(job, number, f"cross_0{hash_}/rank_0", b"00")
        for rank in range(members):
            pod = worker_name("j" * LONGEST_JOB, 10_000_000 + rank, "abcde")
            values.put(job, number, f"global{hash_}/{rank}", address)
            values.put(job, number, f"global{hash_}/rank_{rank}", b"00")
            values.put(job, number, f"local_{pod}{hash_}/0", b"")
            values.put(job, number, f"local_{pod}{hash_}/rank_0", b"00")


@pytest.mark.parametrize(("bounds", "bound"), BOUNDS.values(), ids=BOUNDS)
def test_the_largest_ring_fits(bounds, bound):
    """All values of round after round are taken, though the former rounds are kept; and one a tenth larger is too
    large.
    """
    ring = ring_size.largest(bounds)
    values = Values(keys=bounds.keys, size=bounds.round_limit, total=bounds.values_limit)
    for number in range(1, OLD + 4):
        lay(values, bounds, number, ring.members)

    assert values.round("team/job", OLD + 3).size <= ring_size.lain(ring.members)
    assert ring.bound == bound
    larger = Values(keys=bounds.keys, size=bounds.round_limit, total=bounds.values_limit)
    if "agent" not in bound:
        with pytest.raises((Refused, AssertionError)):
            for number in range(1, OLD + 2):
                lay(larger, bounds, number, ring.members + max(1, ring.members // 10))


def test_the_largest_ring_by_default():
    """What the settings say of the default, and of what more would take, is so."""
    assert ring_size.largest(RendezvousServer()).members == 170
    assert ring_size.largest(RendezvousServer(round_limit=62 * MI, values_limit=186 * MI)).members == 482


def test_jobs_at_work_keep_nobody_from_meeting():
    """By default: sixteen jobs train in rings as large as can be, and fill the room; each of them meets anew, and
    one more comes.
    """
    bounds = RendezvousServer()
    values = Values(keys=bounds.keys, size=bounds.round_limit, total=bounds.values_limit)
    jobs = [f"team/job-{place}" for place in range(16)]
    for number in (1, 2, 3):
        for job in jobs:
            lay(values, bounds, number, 170, job)
            values.met(job, number)
    lay(values, bounds, 1, 170, "team/another")

    assert 16 * ring_size.lain(170) <= bounds.values_limit < 17 * ring_size.lain(170)
    assert values.size <= bounds.values_limit


def test_as_many_rings_meet_at_once_as_the_settings_say():
    """Sixteen of 170 members, 44 of 100; who comes on top of them is told of the setting."""
    bounds = RendezvousServer()
    for members, rings in ((170, 16), (100, 44)):
        values = Values(keys=bounds.keys, size=bounds.round_limit, total=bounds.values_limit)
        for place in range(rings):
            lay(values, bounds, 1, members, f"team/job-{place}")
        with pytest.raises(Refused, match=r"rendezvous\.valuesLimit"):
            lay(values, bounds, 1, members, "team/another")
            lay(values, bounds, 2, members, "team/another")


def test_where_not_even_a_pair_fits():
    """No ring is promised where the bounds leave room for none."""
    assert ring_size.largest(RendezvousServer(keys=3)) == ring_size.Ring(0, "rendezvous.keys")


@pytest.mark.extended
async def test_a_full_mesh_of_64_workers(capsys):
    """Each reads the right value of each other, though all ask before anybody has laid one down; the time is
    printed.
    """
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
