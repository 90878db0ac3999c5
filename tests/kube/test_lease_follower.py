"""Whether we act follows the Lease, and a fence on our own clock."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from msgspec import structs

from scheduler import errors
from scheduler.kube.client import Client
from scheduler.kube.lease_follower import Follower, passed_on
from scheduler.kube.lease_record import Lease, LeaseName, Meta, Record
from tests.kube.support.api_server import ApiServer, Refuse
from tests.kube.support.follower import until

NAME = LeaseName("kube-system", "gangwright")
COLLECTION = NAME.path.rpartition("/")[0]
OURS, OTHERS = "pod-0_4f6c", "pod-1_77aa"


class Steps:
    """Time that moves one look at a time: the follower sleeps until the test lets it look again."""

    def __init__(self) -> None:
        self.now = 500.0
        self.looks = 0
        self._go = asyncio.Event()

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.looks += 1
        self._go.clear()
        await self._go.wait()

    async def look(self, seconds: float = 2.0) -> None:
        """Let `seconds` pass, then one look."""
        self.now += seconds
        looks = self.looks
        self._go.set()
        await until(lambda: self.looks > looks)


def renew(
    api: ApiServer, holder: str | None, time: str, duration: int | None = 15, transitions: int | None = None
) -> None:
    spec = {
        "holderIdentity": holder,
        "renewTime": time,
        "leaseDurationSeconds": duration,
        "leaseTransitions": transitions,
    }
    api.put(NAME.name, COLLECTION, NAME.namespace, spec=spec)


@asynccontextmanager
async def following(client: Client, steps: Steps, lease: LeaseName | None = NAME):
    follower = Follower(client, lease, "pod-0", clock=steps, sleep=steps.sleep)
    task = asyncio.create_task(follower.run())
    await until(lambda: steps.looks == 1)
    try:
        yield follower
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_we_act_while_our_own_holder_renews(api: ApiServer, client: Client) -> None:
    """Ours once a renewal was seen, and for the lease's duration from the last look before it."""
    renew(api, OURS, "t0")
    steps = Steps()
    async with following(client, steps) as follower:
        assert follower.holder == OURS
        assert not follower.acting(steps.now)  # what lies there may be of a dead process
        seen_old_at = steps.now
        renew(api, OURS, "t1")
        await steps.look()
        assert follower.acting(steps.now)
        assert follower.acting(seen_old_at + 14.9)
        assert not follower.acting(seen_old_at + 15)


async def test_an_unrenewed_lease_ends_by_itself(api: ApiServer, client: Client) -> None:
    """Looks that find the record unchanged do not prolong anything."""
    renew(api, OURS, "t0")
    steps = Steps()
    async with following(client, steps) as follower:
        renew(api, OURS, "t1")
        await steps.look()
        for _ in range(6):
            await steps.look()
            assert follower.acting(steps.now)
        await steps.look()
        assert not follower.acting(steps.now)


async def test_another_holder_stops_us_at_once(api: ApiServer, client: Client) -> None:
    """The look that shows another identity ends our acting; the one that shows ours again begins it."""
    renew(api, OURS, "t0")
    steps = Steps()
    async with following(client, steps) as follower:
        renew(api, OURS, "t1")
        await steps.look()
        renew(api, OTHERS, "t2")
        await steps.look()
        assert not follower.acting(steps.now)
        assert follower.holder == OTHERS
        renew(api, OURS, "t3")
        await steps.look()
        assert follower.acting(steps.now)


@pytest.mark.parametrize("holder", ["pod-01_x", "pod-0", "pod_0", "other-pod-0_x", "", None])
async def test_only_our_own_hostname_counts(api: ApiServer, client: Client, holder: str | None) -> None:
    """An identity is ours when it is our hostname and an underscore, and not when it only looks alike."""
    renew(api, holder, "t0")
    steps = Steps()
    async with following(client, steps) as follower:
        renew(api, holder, "t1")
        await steps.look()
        assert not follower.acting(steps.now)


async def test_an_unreachable_api_server_ends_acting(api: ApiServer, client: Client) -> None:
    """While looks fail the fence runs on; a renewal seen long after the last good look proves nothing by itself."""
    renew(api, OURS, "t0")
    steps = Steps()
    async with following(client, steps) as follower:
        renew(api, OURS, "t1")
        await steps.look()
        api.refusals.extend([Refuse(500)] * 8)
        for _ in range(8):
            await steps.look()
            assert isinstance(follower.fault, errors.ServerError)
        assert not follower.acting(steps.now)
        renew(api, OURS, "t2")
        await steps.look()
        assert not follower.acting(steps.now)
        renew(api, OURS, "t3")
        await steps.look()
        assert follower.acting(steps.now)
        assert follower.fault is None


async def test_a_process_that_slept_drops_itself_first(api: ApiServer, client: Client) -> None:
    """After a long sleep we do not act, before any look."""
    renew(api, OURS, "t0")
    steps = Steps()
    async with following(client, steps) as follower:
        renew(api, OURS, "t1")
        await steps.look()
        steps.now += 60
        assert not follower.acting(steps.now)


async def test_a_lease_that_vanishes_stops_us(api: ApiServer, client: Client) -> None:
    """Without a Lease nobody leads, and a new one must be seen renewed."""
    renew(api, OURS, "t0")
    steps = Steps()
    async with following(client, steps) as follower:
        renew(api, OURS, "t1")
        await steps.look()
        api.delete(NAME.name, COLLECTION, NAME.namespace)
        await steps.look()
        assert not follower.acting(steps.now)
        assert isinstance(follower.fault, errors.NotFound)
        renew(api, OURS, "t2")
        await steps.look()
        assert not follower.acting(steps.now)


async def test_the_leases_own_duration_counts(api: ApiServer, client: Client) -> None:
    """The fence is as long as the record says, 15 s when it says nothing."""
    for duration, seconds in ((40, 40), (None, 15)):
        steps = Steps()
        renew(api, OURS, "t0", duration)
        async with following(client, steps) as follower:
            renew(api, OURS, "t1", duration)
            seen_old_at = steps.now
            await steps.look()
            assert follower.acting(seen_old_at + seconds - 0.1)
            assert not follower.acting(seen_old_at + seconds)


async def test_an_unreadable_lease_is_a_fault(api: ApiServer, client: Client) -> None:
    """A record that is no Lease is reported and changes nothing."""
    api.refusals.append(Refuse(200, body=b'{"spec": 5}'))
    async with following(client, Steps()) as follower:
        assert isinstance(follower.fault, errors.Garbled)
        assert follower.holder == ""


async def test_without_leader_election_we_always_act(api: ApiServer, client: Client) -> None:
    """A single replica acts whatever happens, and still notices whether the API server lives."""
    api.refusals.append(Refuse(200))
    steps = Steps()
    async with following(client, steps, None) as follower:
        assert follower.acting(steps.now + 1e9)
        assert client.last_answer > 0
    assert api.calls[0].path == "/readyz"


def held(holder: str | None, transitions: int | None) -> Lease:
    return Lease(spec=Record(holder_identity=holder, lease_transitions=transitions))


AGAIN = "pod-0_99aa"


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        (held(OURS, 3), held(OURS, 3), False),  # renewed
        (held(OURS, 3), held("", 3), False),  # given back
        (held("", 3), held(AGAIN, 4), False),  # taken again
        (held(OURS, 3), held(AGAIN, 4), False),  # both between two looks
        (held(OURS, None), held(AGAIN, 1), False),
        (held("", 3), held("", 3), False),
        (held(OURS, 3), held(OTHERS, 4), True),
        (held(OURS, 3), held(AGAIN, 5), True),  # another was between
        (held(OURS, 3), held(OURS, 5), True),
        (held("", 3), held("", 4), True),  # taken and given back, by whichever it was
        (held(OURS, 3), held("", 4), True),
        (held(OURS, 3), held(AGAIN, 3), True),  # not what a kube-scheduler writes
        (held(OURS, 3), held(OURS, 0), True),  # made again
        (
            held(OURS, 0),
            structs.replace(held(AGAIN, 1), metadata=Meta(uid="other")),
            True,
        ),  # made again, and another was between
        (held(OURS, 3), None, True),
        (None, held(OURS, 3), True),
        (held("", 3), held("pod-01_x", 4), True),
    ],
)
def test_whether_another_held_the_lease_between(before: Lease | None, now: Lease | None, told: bool) -> None:
    """Only a count of transitions that our own kube-scheduler explains proves that no other replica was between."""
    assert passed_on(before, now, "pod-0_") is told


async def test_a_lease_that_is_taken_again_is_ours_at_once(api: ApiServer, client: Client) -> None:
    """Given back and taken by a kube-scheduler of our own host, the Lease was passed on to no other."""
    renew(api, OURS, "t0", transitions=2)
    steps = Steps()
    async with following(client, steps) as follower:
        renew(api, OURS, "t1", transitions=2)
        await steps.look()
        passed_on = follower.passed_on
        renew(api, "", "t2", 1, transitions=2)
        await steps.look()
        assert not follower.acting(steps.now)
        renew(api, AGAIN, "t3", transitions=3)
        await steps.look()
        assert follower.acting(steps.now)
        assert follower.passed_on == passed_on


async def test_one_that_slept_learns_that_another_was_between(api: ApiServer, client: Client) -> None:
    """After a long sleep the next look tells, before we may act again: here our own holds the Lease once more."""
    renew(api, OURS, "t0", transitions=2)
    steps = Steps()
    async with following(client, steps) as follower:
        renew(api, OURS, "t1", transitions=2)
        await steps.look()
        passed_on = follower.passed_on
        renew(api, AGAIN, "t9", transitions=4)
        await steps.look(60)
        assert follower.passed_on > passed_on
        assert not follower.acting(steps.now)
