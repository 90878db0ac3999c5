"""The values of rounds: one name space a job and round, bounded, and woken at once."""

import asyncio
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.elastic.rendezvous.kv_store import Round, Values, weight
from scheduler.elastic.rendezvous.worker_messages import Reason, Refused

KEYS = ("global/0", "global/1", "local_a/0")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("team/one", "team/two")), st.integers(1, 8), st.sampled_from(KEYS), st.booleans()
    ),
    max_size=60,
)


def a_round(keys=8, size=4096):
    return Round(1, keys, size)


@settings(deadline=None)
@given(STEPS)
async def test_the_values_of_one_round_never_answer_for_another(steps):
    """Whatever is written and read in whatever order: a read gives what was last written to that very job, round and
    key, or nothing; and rounds that a newer one has followed are refused for good."""
    values, written, newest = Values(keys=8, size=4096, total=1 << 20), {}, {}
    for step, (job, number, key, writes) in enumerate(steps):
        newest[job] = max(newest.get(job, 0), number)
        if number < newest[job]:
            with pytest.raises(Refused, match="are deleted"):
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
    values.round("team/job", 2)

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

    with pytest.raises(Refused) as told:
        await waiting
    assert (told.value.reason, told.value.status) == (Reason.ROUND_OVER, 409)
    assert await values.round("team/job", 3).get("a", 60) == b"1"
    values.broken("team/job", 4)  # before any member came
    for number in (3, 4):
        with pytest.raises(Refused, match="are deleted" if number == 3 else "cannot complete"):
            await values.round("team/job", number).get("c", 60)
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
    """What is counted is what is held, and a value that is refused leaves the others as they were."""
    values = Values(keys=8, size=4096, total=8192)
    for job, number, key, size in puts:
        before = values.size
        try:
            values.put(job, number, key, b"x" * size)
        except Refused as refused:
            reason = refused.reason
        else:
            reason = None
        assert reason in {None, Reason.NO_ROOM, Reason.ROUND_OVER, Reason.TOO_MANY_VALUES}
        assert reason is None or values.size == before
        assert values.size <= 8192


async def test_a_round_whose_members_have_met_gives_its_room_back():
    """Until then others are refused, and may try again. What a process set lays down later is held like before."""
    values = Values(keys=8, size=4096, total=2 * weight("a", b"x" * 1000))
    for key in "ab":
        values.put("team/a", 5, key, b"x" * 1000)
    with pytest.raises(Refused, match=r"rendezvous\.valuesLimit") as told:
        values.put("team/b", 1, "a", b"x" * 1000)
    assert (told.value.reason, told.value.status, told.value.after) == (Reason.NO_ROOM, 429, 1.0)

    values.met("team/a", 4)  # late word of a round before
    assert values.count == 2
    values.met("team/a", 5)
    assert values.size == 0
    values.put("team/b", 1, "a", b"x" * 1000)
    values.put("team/a", 5, "set/0", b"y" * 900)
    assert await values.round("team/a", 5).get("set/0", 60) == b"y" * 900
