"""The largest job's ring fits; and 64 workers that lay down their addresses and read each other's, all at once."""

import asyncio
import time

import pytest

from scheduler.elastic.controller.pod_template import LONGEST_JOB, worker_name
from scheduler.elastic.job.validation import MOST_MEMBERS
from scheduler.elastic.rendezvous.kv_store import Values
from scheduler.elastic.rendezvous.worker_messages import Refused
from scheduler.errors import SettingsError
from scheduler.settings import RendezvousServer, load
from tests.elastic.rendezvous.support.served import served

WORKERS = 64
LEAST = {"valueLimit": 2**15, "keys": 2**11, "roundLimit": 2**23, "valuesLimit": 2**23}
"""The smallest bounds that the settings take."""


def values_of(bounds: RendezvousServer) -> Values:
    return Values(keys=bounds.keys, size=bounds.round_limit, total=bounds.values_limit)


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


def test_the_largest_job_fits_whatever_the_settings_are():
    """All its values are taken, round after round; one a tenth larger would be too large for the smallest bounds."""
    bounds = load(
        environ={}, flags={f"rendezvous.{name}": str(size) for name, size in LEAST.items()}
    ).rendezvous
    values = values_of(bounds)
    for number in (1, 2, 3):
        lay(values, bounds, number, MOST_MEMBERS)
    with pytest.raises(Refused, match="a round holds at most"):
        lay(values, bounds, 4, MOST_MEMBERS * 11 // 10)


@pytest.mark.parametrize("name", LEAST)
def test_settings_that_the_largest_job_would_not_fit_are_refused(name):
    """The start is refused, with the setting and its bounds."""
    with pytest.raises(SettingsError, match=name):
        load(environ={}, flags={f"rendezvous.{name}": str(LEAST[name] - 1)})


def test_jobs_at_work_keep_none_from_meeting():
    """By default: any number of jobs train in rings as large as can be; each of them meets again, and one more comes."""
    bounds = RendezvousServer()
    values = values_of(bounds)
    for number in (1, 2):
        for place in range(20):
            lay(values, bounds, number, MOST_MEMBERS, f"team/job-{place}")
            values.met(f"team/job-{place}", number)

    assert values.size == 0


def test_as_many_rings_meet_at_once_as_the_settings_say():
    """Sixteen of 170 members, 44 of 100; the next one is told of the setting."""
    bounds = RendezvousServer()
    for members, rings in ((170, 16), (100, 44)):
        values = values_of(bounds)
        for place in range(rings):
            lay(values, bounds, 1, members, f"team/job-{place}")
        with pytest.raises(Refused, match=r"rendezvous\.valuesLimit"):
            for place in ("another", "and-another"):
                lay(values, bounds, 1, members, f"team/{place}")


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
