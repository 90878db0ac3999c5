"""What the API server said is remembered: for how long, how much of it, and what never."""

import json

import pytest

from scheduler.errors import Garbled, Unreachable
from scheduler.serving.rate_limit import SOURCES, Buckets
from scheduler.status.authorization import ACCESS_REVIEWS, Reviews, Right, Subject
from tests.status.support.reviewing import BOB, JANE, everybody

JANE_HERSELF = Subject("jane")
LIST = Right("list", "pods", "team-a")


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def reviewing():
    return everybody()


@pytest.fixture
def reviews(reviewing, clock):
    return Reviews(reviewing, clock=lambda: clock[0])


async def test_a_token_becomes_a_subject(reviews, reviewing):
    """User, groups, uid and extra fields go into every access review, as the API server told them."""
    reviewing.users["t"] = {
        "username": "u",
        "groups": ["g"],
        "uid": "1",
        "extra": {"scopes": ["a", "b"]},
    }
    subject = await reviews.who("t")
    await reviews.may(subject, LIST)

    assert subject == Subject("u", ("g",), "1", (("scopes", ("a", "b")),))
    spec = reviewing.asked[-1][1]
    assert (spec["user"], spec["groups"], spec["uid"]) == ("u", ["g"], "1")
    assert spec["extra"] == {"scopes": ["a", "b"]}


async def test_a_user_without_a_name_is_nobody(reviews, reviewing):
    """An answer that names no user is no yes, whatever it says besides."""
    reviewing.users["t"] = {"username": ""}

    assert await reviews.who("t") is None


async def test_no_token_is_kept(reviews):
    """Whatever this process remembers, no token is among it."""
    await reviews.who(JANE)
    await reviews.who("a-token-that-nobody-knows")
    answers = [row for kept in reviews._tokens._answers.values() for row in kept.items()]

    assert len(answers) == 2
    assert JANE not in str(answers)


async def test_two_processes_remember_a_token_by_different_hashes(reviewing):
    """Nobody can prepare hashes of tokens."""
    one, other = (Reviews(reviewing, clock=lambda: 0.0) for _ in range(2))

    assert one.hashed(JANE) != other.hashed(JANE)
    assert one.hashed(JANE) == one.hashed(JANE) != one.hashed(BOB)


async def test_failures_are_not_remembered(reviews, reviewing):
    """The first question after an outage is asked."""
    reviewing.away = True
    with pytest.raises(Unreachable):
        await reviews.who(JANE)
    reviewing.away = False

    assert (await reviews.who(JANE)).user == "jane"


async def test_an_answer_that_is_no_review_is_no_yes(clock):
    """A proxy's page, a list, nothing at all."""

    class Odd:
        said = b""

        async def request(self, method, path, **_more):
            return self.said

    odd = Odd()
    reviews = Reviews(odd, clock=lambda: clock[0])
    for said in (b"", b"<html>", b"[]", b'{"status": 3}', b"\xff", b'{"status": {"allowed": "yes"}}'):
        odd.said = said
        with pytest.raises(Garbled):
            await reviews.may(JANE_HERSELF, LIST)
    for said in (b"{}", json.dumps({"status": {"allowed": False}}).encode()):
        odd.said = said
        assert await reviews.may(JANE_HERSELF, LIST, fresh=True) is False


async def test_a_right_is_asked_about_anew_where_that_matters(reviews, reviewing):
    """`fresh` goes past what is remembered, and what it hears is remembered."""
    assert await reviews.may(JANE_HERSELF, LIST)
    reviewing.rights.clear()

    assert await reviews.may(JANE_HERSELF, LIST)
    assert not await reviews.may(JANE_HERSELF, LIST, fresh=True)
    assert not await reviews.may(JANE_HERSELF, LIST)
    assert reviewing.count(ACCESS_REVIEWS) == 2


async def test_rights_of_different_groups_are_different_questions(reviews, reviewing):
    """One user with other groups is somebody else."""
    reviewing.rights.add(("group:admins", "list", "pods", "team-b"))
    right = Right("list", "pods", "team-b")

    assert not await reviews.may(Subject("jane", ("users",)), right)
    assert await reviews.may(Subject("jane", ("admins",)), right)


def test_a_bucket_fills_at_its_rate():
    """A burst at once, then one for each share of a second, and never more than a bucket holds."""
    buckets = Buckets(burst=3, rate=2)

    assert [buckets.take("a", 0.0) for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.take("b", 0.0) == 0
    assert [buckets.take("a", 0.5) for _ in range(2)] == [0, 0.5]
    assert [buckets.take("a", 100.0) for _ in range(4)] == [0, 0, 0, 0.5]


def test_sources_are_bounded():
    """Whoever makes up sources fills no memory."""
    buckets = Buckets(1, 1)
    for number in range(3 * SOURCES):
        buckets.take(f"source-{number}", 0.0)

    assert len(buckets._left) == SOURCES
