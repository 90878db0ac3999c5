"""The values of rounds: one name space a job and round, bounded, and woken at once."""

import asyncio
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.elastic.rendezvous.kv_store import OLD, Round, Values, weight
from scheduler.elastic.rendezvous.worker_messages import Reason, Refused
from scheduler.settings import RendezvousServer

KEYS = ("global/0", "global/1", "local_a/0")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("team/one", "team/two")), st.integers(1, 8), st.sampled_from(KEYS), st.booleans()
    ),
    max_size=60,
)


def a_round(keys=8, size=4096):
    return Round(keys, size)


@settings(deadline=None)
@given(STEPS)
async def test_the_values_of_one_round_never_answer_for_another(steps):
    """Whatever is written and read in whatever order: a read gives what was last written to that very job, round and
    key, or nothing; and rounds that are too old are refused for good."""
    values, written, newest = Values(keys=8, size=4096, total=1 << 20), {}, {}
    for step, (job, number, key, writes) in enumerate(steps):
        newest[job] = (
            max(newest.get(job, number), number) if number >= newest.get(job, 0) - OLD else newest[job]
        )
        if number < newest[job] - OLD:
            with pytest.raises(Refused, match="are kept"):
                values.round(job, number)
            continue
        room = values.round(job, number)
        if writes:
            written[job, number, key] = b"%d" % step
            values.put(job, number, key, written[job, number, key])
        assert await room.get(key, 0) == written.get((job, number, key))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 600))))
def test_a_round_never_holds_more_than_its_bounds(puts):
    """What is counted is what is held, and a value that is refused leaves the others as they were."""
    room, held = a_round(keys=2, size=1024), {}
    for key, size in puts:
        would = held | {key: b"x" * size}
        fits = len(would) <= 2 and sum(itertools.starmap(weight, would.items())) <= 1024
        if fits:
            room.put(key, b"x" * size)
            held = would
        else:
            with pytest.raises(Refused, match="holds at most"):
                room.put(key, b"x" * size)
        assert (len(room), room.size) == (len(held), sum(itertools.starmap(weight, held.items())))


async def test_everybody_who_waits_is_woken():
    """One value answers all who wait for it, and nobody else; who gave up leaves nothing behind."""
    room = a_round()
    waiting = [asyncio.create_task(room.get("a", 60)) for _ in range(3)]
    other = asyncio.create_task(room.get("b", 60))
    gone = asyncio.create_task(room.get("c", 60))
    await asyncio.sleep(0)
    gone.cancel()
    room.put("a", b"1")

    assert await asyncio.gather(*waiting) == [b"1"] * 3
    assert not other.done()
    other.cancel()
    await asyncio.gather(other, gone, return_exceptions=True)
    assert room._awaited == {}


async def test_an_empty_value_is_a_value():
    """Nothing laid down and nothing there are two things."""
    room = a_round()
    room.put("a", b"")

    assert await room.get("a", 60) == b""
    assert await room.get("b", 0.001) is None


@pytest.mark.parametrize(
    ("asked", "most", "size", "found"),
    [
        ("global/1", 64, 4096, {"global/2": b"22", "global/10": b"10"}),
        ("global/1", 1, 4096, {"global/2": b"22"}),
        ("global/1", 64, 3, {"global/2": b"22"}),
        ("global/1", 64, 1, {}),
        ("global/rank_0", 64, 4096, {"global/rank_1": b"r1"}),
        ("global_set_7/0", 64, 4096, {}),
        ("global/10", 64, 4096, {}),
        ("global/go", 64, 4096, {}),
        ("global/01", 64, 4096, {}),
        ("global/" + "9" * 40, 64, 4096, {}),
    ],
)
def test_values_of_the_members_behind_are_found_by_their_number(asked, most, size, found):
    """Of the same scope and name, those that are there, within bounds; a key without a number has none behind it."""
    room = a_round()
    for key, value in (
        ("global/0", b"00"), ("global/1", b"11"), ("global/2", b"22"), ("global/10", b"10"),
        ("global/rank_1", b"r1"), ("global_set_8/1", b"no"), ("global/go", b"go"),
    ):  # fmt: skip
        room.put(key, value)

    assert room.beside(asked, most, size) == found


async def test_a_round_that_closes_lets_everybody_go():
    """Whoever waits in it is told, and nobody waits in it again."""
    values = Values(keys=8, size=4096, total=1 << 20)
    waiting = asyncio.create_task(values.round("team/job", 1).get("a", 60))
    await asyncio.sleep(0)
    values.round("team/job", 4)

    with pytest.raises(Refused) as told:
        await waiting
    assert told.value.reason is Reason.ROUND_OVER


async def test_a_round_in_which_somebody_has_ended_lets_everybody_go():
    """Whoever waits, or comes later, for a value that is not there is told; what was laid down is read, and later
    rounds go on.
    """
    values = Values(keys=8, size=4096, total=1 << 20)
    values.put("team/job", 3, "a", b"1")
    waiting = asyncio.create_task(values.round("team/job", 3).get("b", 60))
    await asyncio.sleep(0)
    values.broken("team/job", 3)
    values.broken("team/job", 4)  # before anybody came

    with pytest.raises(Refused) as told:
        await waiting
    assert (told.value.reason, told.value.status) == (Reason.ROUND_OVER, 409)
    for number in (3, 4):
        with pytest.raises(Refused, match="nobody meets"):
            await values.round("team/job", number).get("c", 60)
    assert await values.round("team/job", 3).get("a", 60) == b"1"
    values.put("team/job", 5, "b", b"2")
    assert await values.round("team/job", 5).get("b", 60) == b"2"


async def test_who_ends_after_all_have_met_breaks_nothing():
    """Nor does a late word of a round that is gone."""
    values = Values(keys=8, size=4096, total=1 << 20)
    values.put("team/job", 5, "a", b"1")
    values.met("team/job", 5)
    for number in (1, 5):
        values.broken("team/job", number)

    assert await values.round("team/job", 5).get("b", 0.001) is None
    with pytest.raises(Refused):
        values.round("team/job", 1)


async def test_a_job_that_is_gone_takes_its_values_along():
    """Whoever waits for one is let go; a job of the same name begins with nothing."""
    values = Values(keys=8, size=4096, total=1 << 20)
    values.put("team/job", 7, "a", b"1")
    values.put("team/other", 1, "a", b"22")
    waiting = asyncio.create_task(values.round("team/job", 7).get("b", 60))
    await asyncio.sleep(0)
    values.forget("team/job")
    values.forget("team/never-was")

    with pytest.raises(Refused):
        await waiting
    assert (values.count, values.size) == (1, weight("a", b"22"))
    assert await values.round("team/job", 1).get("a", 0) is None


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(("a/1", "a/2", "b/1")),
            st.integers(1, 6),
            st.sampled_from(KEYS),
            st.integers(0, 2000),
        )
    )
)
def test_all_jobs_together_never_hold_more_than_their_bound(puts):
    """What is counted is what is held; whoever is refused holds as much as anybody."""
    values = Values(keys=8, size=4096, total=8192)
    for job, number, key, size in puts:
        try:
            values.put(job, number, key, b"x" * size)
        except Refused as refused:
            if refused.reason is Reason.NO_ROOM:
                held = {name: values._held(name) for name in values._jobs}
                assert held.get(job, 0) + weight(key, b"x" * size) >= max(held.values())
        assert values.size == sum(values._held(name) for name in values._jobs) <= 8192


async def test_who_fills_the_room_of_all_keeps_nobody_from_meeting():
    """A job may come to hold all of it, and then gets no more; another one's members meet all the same."""
    values = Values(keys=1000, size=8192, total=16384)
    with pytest.raises(Refused) as told:
        for number, key in itertools.product(range(1, 9), "abcdefgh"):
            values.put("team/hog", number, f"{key}", b"x" * 2000)
    assert told.value.reason is Reason.TOO_MANY_VALUES
    with pytest.raises(Refused) as told:
        for number, key in itertools.product(range(1, 4), "abc"):
            values.put("team/hog", number, key, b"x" * 2000)
    assert (told.value.reason, told.value.status) == (Reason.NO_ROOM, 429)

    waiting = asyncio.create_task(values.round("team/hog", 1).get("z", 60))
    await asyncio.sleep(0)
    for key in "abc":
        values.put("other/job", 1, key, b"y" * 1000)

    assert await values.round("other/job", 1).get("c", 0) == b"y" * 1000
    with pytest.raises(Refused, match="are gone"):
        await waiting
    assert values.size <= 16384


def test_who_has_met_makes_room_first():
    """Rounds in which all train go before any that still meets, the oldest of the largest job first; not the one
    that grows.
    """
    values = Values(keys=8, size=4096, total=4 * weight("a", b"x" * 1000))
    for job, number in (("team/a", 1), ("team/a", 2), ("team/b", 1), ("team/c", 5)):
        values.put(job, number, "a", b"x" * 1000)
    values.met("team/a", 2)
    values.met("team/c", 5)
    values.met("team/nobody", 1)

    values.put("team/b", 1, "b", b"x" * 1000)
    assert rounds(values) == {("team/a", 2), ("team/b", 1), ("team/c", 5)}
    values.put("team/c", 5, "b", b"x" * 1000)
    assert rounds(values) == {("team/b", 1), ("team/c", 5)}
    values.put("team/d", 1, "a", b"x" * 1000)
    assert rounds(values) == {("team/b", 1), ("team/d", 1)}
    assert values.size == 3 * weight("a", b"x" * 1000)


def test_overtaken_rounds_of_others_make_room_before_one_that_meets():
    """A round is published when all have left the one before it, so nobody reads that any more."""
    values = Values(keys=8, size=4096, total=6 * weight("a", b"x" * 1000))
    for job, number in (("team/a", 1), ("team/a", 2), ("team/b", 7), ("team/c", 3), ("team/c", 4)):
        values.put(job, number, "a", b"x" * 1000)
    values.put("team/b", 7, "b", b"x" * 1000)

    values.put("team/b", 7, "c", b"x" * 1000)
    assert rounds(values) == {("team/a", 2), ("team/b", 7), ("team/c", 3), ("team/c", 4)}
    values.put("team/d", 1, "a", b"x" * 1000)
    assert rounds(values) == {("team/a", 2), ("team/b", 7), ("team/c", 4), ("team/d", 1)}


async def test_a_round_that_lost_its_values_before_all_had_met_is_over():
    """Whoever comes for a value later is told at once, as is whoever has more to lay down; it takes no room again. The
    job's next round is another.
    """
    values = Values(keys=8, size=4096, total=4 * weight("a", b"x" * 1000))
    for key in "abc":
        values.put("team/large", 5, key, b"x" * 1000)
    for job in ("team/a", "team/b"):
        values.put(job, 1, "a", b"x" * 1000)
    assert values.size == 2 * weight("a", b"x" * 1000)

    for key in "ad":
        with pytest.raises(Refused, match="are gone") as told:
            await asyncio.wait_for(values.round("team/large", 5).get(key, 60), 5)
        assert told.value.reason is Reason.ROUND_OVER
    with pytest.raises(Refused, match="are gone"):
        values.put("team/large", 5, "d", b"x")
    assert values.size == 2 * weight("a", b"x" * 1000)
    values.put("team/large", 6, "a", b"x" * 1000)
    assert await values.round("team/large", 6).get("a", 0) == b"x" * 1000


def rounds(values):
    return {(job, number) for job, rounds in values._jobs.items() for number in rounds}


@pytest.mark.parametrize(("members", "fits"), [(170, True), (1000, False)])
def test_how_many_members_a_round_is_for_by_default(members, fits):
    """What Horovod 0.28.1 lays down: an address of 136 bytes for each other member, twice, and some small words."""
    bounds, address = RendezvousServer(), b"x" * 136 * (members - 1)
    values = Values(keys=bounds.keys, size=bounds.round_limit, total=bounds.values_limit)

    def mesh(hash_):
        yield f"cross_0{hash_}/0", b""
        yield f"cross_0{hash_}/rank_0", b"00"
        for rank in range(members):
            yield f"global{hash_}/{rank}", address
            yield f"global{hash_}/rank_{rank}", b"00"
            yield f"local_pod-{rank}{hash_}/0", b""
            yield f"local_pod-{rank}{hash_}/rank_0", b"00"

    def lay():
        for key, value in (*mesh(""), *mesh("_process_set_hash_7d48533536350577")):
            assert len(value) <= bounds.value_limit or not fits
            values.put("team/job", 1, key, value)

    if fits:
        lay()
        assert values.count == 8 * members + 4
    else:
        with pytest.raises(Refused, match="a round holds at most"):
            lay()
