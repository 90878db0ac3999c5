"""A Lease of our own is taken, kept, lost and given back by the rules of client-go's leader election."""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from scheduler import errors
from scheduler.kube.client import Client
from scheduler.kube.credentials import find_access
from scheduler.kube.leader_election import DEADLINE, LeaderElection
from scheduler.kube.lease_record import LeaseName
from tests.kube.support.api_server import Refuse
from tests.kube.support.follower import until
from tests.kube.support.kubeconfig import kubeconfig
from tests.kube.support.writable import Writable
from tests.kube.test_lease_follower import Steps

LEASES = "/apis/coordination.k8s.io/v1/leases"
NAME = LeaseName("team", "elastic")


@pytest.fixture
async def api():
    async with Writable(LEASES) as server:
        yield server


@pytest.fixture
async def client(api: Writable, tmp_path: Path):
    async with Client(await find_access(kubeconfig(tmp_path, api.url))) as made:
        yield made


@asynccontextmanager
async def holding(client: Client, steps: Steps, identity: str = "pod-0"):
    """A holder that took its first turn."""
    holder = LeaderElection(client, NAME, identity, clock=steps, sleep=steps.sleep)
    task = asyncio.create_task(holder.run())
    await until(lambda: steps.looks == 1)
    try:
        yield holder
    finally:
        task.cancel()
        await asyncio.wait([task])


def record(api: Writable) -> dict:
    return api.objects[LEASES]["team", "elastic"]["spec"]


def taken_by(api: Writable, holder: str, *, duration: int = 15, time: str = "then") -> None:
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": duration,
        "renewTime": time,
        "leaseTransitions": 3,
    }
    api.put("elastic", LEASES, "team", spec=spec)


async def test_a_lease_that_nobody_has_is_ours(api: Writable, client: Client) -> None:
    """The first to come makes the Lease and leads, until the deadline after that."""
    steps = Steps()
    async with holding(client, steps) as holder:
        assert holder.leading(steps.now)
        assert holder.leading(steps.now + DEADLINE - 0.001)
        assert not holder.leading(steps.now + DEADLINE)
        assert record(api)["holderIdentity"] == "pod-0"
        assert record(api)["leaseDurationSeconds"] == 15


async def test_it_is_renewed(api: Writable, client: Client) -> None:
    """Each turn writes a new time, and counts no change of hands."""
    steps = Steps()
    async with holding(client, steps) as holder:
        first = record(api)
        for _ in range(10):
            await steps.look()
        assert holder.leading(steps.now)
        assert record(api)["renewTime"] > first["renewTime"]
        assert record(api)["acquireTime"] == first["acquireTime"]
        assert record(api)["leaseTransitions"] == 0


async def test_whoever_renews_keeps_it(api: Writable, client: Client) -> None:
    """As long as the record changes, it is another's, however old its times look."""
    steps = Steps()
    taken_by(api, "pod-1")
    async with holding(client, steps) as holder:
        for turn in range(20):
            taken_by(api, "pod-1", time=f"{turn}")
            await steps.look()
            assert not holder.leading(steps.now)
        assert holder.holder == "pod-1"


async def test_a_record_that_stands_still_runs_out(api: Writable, client: Client) -> None:
    """It is taken over after its own duration without a change, not before, and the change of hands is counted."""
    steps = Steps()
    taken_by(api, "pod-1", duration=15)
    async with holding(client, steps) as holder:
        for _ in range(7):
            await steps.look()
        assert not holder.leading(steps.now)
        await steps.look()
        assert holder.leading(steps.now)
        assert record(api)["leaseTransitions"] == 4


@pytest.mark.parametrize("holder", ["", "pod-0"])
async def test_it_is_taken_at_once(api: Writable, client: Client, holder: str) -> None:
    """A Lease that was given back, and one that our own predecessor left, need no wait."""
    steps = Steps()
    taken_by(api, holder)
    async with holding(client, steps) as ours:
        assert ours.leading(steps.now)


async def test_without_an_answer_we_step_down(api: Writable, client: Client) -> None:
    """An API server that refuses ends our leading at the deadline after the last good renewal, and not before."""
    steps = Steps()
    async with holding(client, steps) as holder:
        began = steps.now
        api.refusals.extend(Refuse(500) for _ in range(30))
        for _ in range(4):
            await steps.look()
        assert holder.leading(steps.now)
        assert isinstance(holder.fault, errors.ServerError)
        await steps.look()
        assert steps.now == began + DEADLINE
        assert not holder.leading(steps.now)


async def test_somebody_wrote_before_us(api: Writable, client: Client) -> None:
    """A renewal that meets another's write ends our leading at once."""
    steps = Steps()
    async with holding(client, steps) as holder:
        taken_by(api, "pod-1")
        await steps.look()
        assert not holder.leading(steps.now)
        await steps.look()
        assert not holder.leading(steps.now)
        assert holder.holder == "pod-1"


async def test_an_answer_that_got_lost(api: Writable, client: Client) -> None:
    """A renewal that was done, and of which we were told that it failed, is not taken for another's."""
    steps = Steps()
    async with holding(client, steps) as holder:
        api.lost["PUT", LEASES] = 1
        await steps.look()
        assert isinstance(holder.fault, errors.ServerError)
        for _ in range(8):
            await steps.look()
            assert holder.leading(steps.now)
            assert holder.fault is None


async def test_who_cannot_look_after_a_conflict_steps_down(api: Writable, client: Client) -> None:
    """Whose write it was that ours met is not known then."""
    steps = Steps()
    async with holding(client, steps) as holder:
        api.refused["PUT", LEASES] = [Refuse(409)]
        api.refusals.append(Refuse(500))
        await steps.look()
        assert not holder.leading(steps.now)


async def test_two_begin_together(api: Writable, client: Client) -> None:
    """Of two holders one leads."""
    one, two = Steps(), Steps()
    async with holding(client, one) as first, holding(client, two, "pod-1") as second:
        for _ in range(5):
            await one.look()
            await two.look()
            assert first.leading(one.now)
            assert not second.leading(two.now)


async def test_it_is_given_back(api: Writable, client: Client) -> None:
    """After a release nobody holds it, the next takes it at once, and a holder that has none gives nothing back."""
    one, two = Steps(), Steps()
    async with holding(client, one) as first:
        await first.release()
        assert not first.leading(one.now)
        assert record(api)["holderIdentity"] == ""
    async with holding(client, two, "pod-1") as second:
        assert second.leading(two.now)
        await first.release()
        assert record(api)["holderIdentity"] == "pod-1"


async def test_what_was_given_back_is_not_taken_again(api: Writable, client: Client) -> None:
    """A process that ends takes its time for it: the Lease is its successor's meanwhile, however often it looks."""
    steps = Steps()
    async with holding(client, steps) as holder:
        await holder.release()
        for _ in range(3):
            await steps.look()
        assert record(api)["holderIdentity"] == ""
        assert not holder.leading(steps.now)


async def test_a_renewal_on_its_way_is_waited_for(api: Writable, client: Client) -> None:
    """Else the API server would refuse what gives the Lease back, and the next would wait until it runs out."""
    steps = Steps()
    async with holding(client, steps) as holder:
        going_on, held = asyncio.Event(), asyncio.Event()
        ask = client.request

        async def slowly(*words: str, **more: object) -> bytes:
            answer = await ask(*words, **more)
            going_on.set()
            await held.wait()
            return answer

        client.request = slowly
        looking = asyncio.create_task(steps.look())
        await going_on.wait()
        client.request = ask
        given = asyncio.create_task(holder.release())
        await asyncio.sleep(0.1)  # as long as a write that waits for nothing needs
        held.set()
        await given
        await looking
        assert record(api)["holderIdentity"] == ""
        assert not holder.leading(steps.now)


async def test_a_lease_that_was_deleted_is_made_again(api: Writable, client: Client) -> None:
    """Somebody removed it: it is made anew at the next turn, by whoever comes first."""
    steps = Steps()
    async with holding(client, steps) as holder:
        api.delete("elastic", LEASES, "team")
        await steps.look(seconds=DEADLINE)
        await steps.look()
        assert holder.leading(steps.now)


async def test_what_is_no_lease(api: Writable, client: Client) -> None:
    """Bytes of a stranger in its place are a fault, and lead to nothing."""
    steps = Steps()
    api.put("elastic", LEASES, "team", spec="x")
    async with holding(client, steps) as holder:
        assert isinstance(holder.fault, errors.Garbled)
        assert not holder.leading(steps.now)
