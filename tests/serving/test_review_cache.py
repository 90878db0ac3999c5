"""Answers of the API server: for how long they count, how many are kept, and that a question is asked once."""

import asyncio

import pytest

from scheduler.serving.review_cache import Kept, ReviewCache


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def cache(clock):
    return ReviewCache(yes=Kept(60.0, 4), no=Kept(5.0, 2), clock=lambda: clock[0])


async def said(answer):
    return answer


async def test_a_yes_and_a_no_count_for_their_own_time(cache, clock):
    """After it they are asked for again; the last yes can still be looked at."""
    await cache.get("good", lambda: said(True))
    await cache.get("bad", lambda: said(False))
    assert (cache.known("good"), cache.known("bad")) == (True, False)

    clock[0] = 5.0
    assert (cache.known("good"), cache.known("bad")) == (True, None)

    clock[0] = 60.0
    assert (cache.known("good"), cache.last_yes("good"), cache.last_yes("bad")) == (None, True, None)


async def test_a_newer_answer_takes_the_place_of_an_older_one(cache):
    """Of both kinds: a caller that is refused now has no last yes."""
    await cache.get("key", lambda: said(True))
    await cache.get("key", lambda: said(False), fresh=True)

    assert (cache.known("key"), cache.last_yes("key")) == (False, None)


async def test_a_flood_of_refusals_forgets_no_yes(cache):
    """Each kind is bounded by itself; what was looked at longest ago is forgotten first."""
    await cache.get("good", lambda: said(True))
    for number in range(9):
        await cache.get(f"bad-{number}", lambda: said(False))

    assert cache.known("good")
    assert [cache.known(f"bad-{number}") for number in (0, 6, 7, 8)] == [None, None, False, False]


async def test_a_key_that_is_looked_at_is_kept(cache):
    """Of equal ones the one that is asked about is not the next to go."""
    for number in range(4):
        await cache.get(number, lambda: said(True))
    cache.known(0)
    await cache.get(4, lambda: said(True))

    assert (cache.known(0), cache.known(1)) == (True, None)


async def test_a_waiter_that_gives_up_does_not_stop_the_others(cache):
    """A question is asked once for all that wait for it, and goes on when one of them leaves."""
    gate, asked = asyncio.Event(), []

    async def ask():
        asked.append(1)
        await gate.wait()
        return True

    first = asyncio.create_task(cache.get("key", ask))
    second = asyncio.create_task(cache.get("key", ask))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    gate.set()

    assert await second
    assert asked == [1]
