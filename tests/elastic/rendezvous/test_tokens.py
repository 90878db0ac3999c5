"""The API server's word on a token: asked once, remembered for a while, and what holds while there is none to be
had.
"""

import asyncio
import json

import pytest

from scheduler.elastic.rendezvous.token_auth import PAUSE, Holder, Tokens
from scheduler.elastic.rendezvous.worker_messages import Reason, Refused
from scheduler.errors import Forbidden
from scheduler.serving.token_reviews import TOKENS
from scheduler.settings import RendezvousServer
from tests.elastic.rendezvous.support.served import BEGAN, ApiServer, jwt

A = Holder("a", "pod-a", "team")


class Watch:
    def __init__(self):
        self.now = BEGAN

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Watch()


@pytest.fixture
def api():
    found = ApiServer()
    found.know(jwt("a"), "a")
    return found


@pytest.fixture
def told():
    return []


@pytest.fixture
def tokens(api, clock, told):
    return Tokens(api, RendezvousServer(outage=3600), clock, told=told.append)


async def reason_of(tokens, token):
    with pytest.raises(Refused) as found:
        await tokens.who(token)
    return found.value.reason


async def test_a_pod_is_recognised_once_a_minute(tokens, api, clock):
    """Its name, uid and namespace are the API server's; within half the time nothing is asked again."""
    assert await tokens.who(jwt("a")) == A
    clock.now += 29
    assert await tokens.who(jwt("a")) == A
    assert api.asked == [jwt("a")]


async def test_a_yes_is_asked_anew_in_the_background(tokens, api, clock):
    """After half its time the answer is still given at once, and a fresh one comes meanwhile."""
    await tokens.who(jwt("a"))
    clock.now += 31
    assert await tokens.who(jwt("a")) == A
    assert len(api.asked) == 1
    await asyncio.gather(*tokens._words._asked.values())
    clock.now += 31
    assert await tokens.who(jwt("a")) == A
    assert len(api.asked) == 2
    await tokens.close()


async def test_a_pod_that_was_deleted_is_refused_within_its_minute(tokens, api, clock):
    """The review in the background finds that the token is good no longer."""
    await tokens.who(jwt("a"))
    api.users.clear()
    clock.now += 31
    await tokens.who(jwt("a"))
    await asyncio.gather(*tokens._words._asked.values())

    assert await reason_of(tokens, jwt("a")) is Reason.TOKEN_REFUSED


async def test_a_no_is_remembered_shortly(tokens, api, clock):
    """A flood of one forged token costs one review; a pod that the API server learns of is known soon."""
    for _ in range(10):
        assert await reason_of(tokens, jwt("b")) is Reason.TOKEN_REFUSED
    assert len(api.asked) == 1
    api.know(jwt("b"), "b")
    clock.now += 5
    assert (await tokens.who(jwt("b"))).uid == "b"


async def test_many_who_ask_at_once_cost_one_review(tokens, api):
    """And who gives up takes nothing from the others."""
    asked = [asyncio.create_task(tokens.who(jwt("a"))) for _ in range(8)]
    await asyncio.sleep(0)
    asked[0].cancel()

    assert await asyncio.gather(*asked[1:]) == [A] * 7
    assert len(api.asked) == 1


async def test_while_the_api_server_is_away_nobody_new_is_let_in(tokens, api, clock, told):
    """Who was believed is believed further, long after his minute; a stranger is told to come back."""
    await tokens.who(jwt("a"))
    api.know(jwt("b"), "b")
    api.away = True
    clock.now += 3599

    assert await tokens.who(jwt("a")) == A
    assert await reason_of(tokens, jwt("b")) is Reason.AWAY
    assert told == ["yes", "away"]  # within a second of a failure nothing is asked again
    api.away = False
    clock.now += PAUSE
    assert (await tokens.who(jwt("b"))).uid == "b"


async def test_an_outage_ends_what_is_believed(tokens, api, clock):
    """At its limit, and at the token's own end, whichever is first."""
    short = jwt("c", exp=BEGAN + 100)
    api.know(short, "c")
    await tokens.who(jwt("a")), await tokens.who(short)
    api.away = True
    clock.now += 99
    assert (await tokens.who(short)).uid == "c"
    clock.now += 1
    assert await reason_of(tokens, short) is Reason.AWAY
    assert await tokens.who(jwt("a")) == A
    clock.now = BEGAN + 3600
    assert await reason_of(tokens, jwt("a")) is Reason.AWAY


async def test_a_token_without_an_end_is_not_believed_in_an_outage(tokens, api, clock):
    """Whose end is not known may be over."""
    api.know("no-jwt", "d")
    assert (await tokens.who("no-jwt")).uid == "d"
    api.away = True
    clock.now += 60

    assert await reason_of(tokens, "no-jwt") is Reason.AWAY


@pytest.mark.parametrize(
    "answer",
    [
        b"[]",
        b"{",
        b'{"status": {"authenticated": "yes"}}',
        b'{"status": ' + b"[" * 100_000,
        Forbidden(f"POST {TOKENS}", "", status=403),
    ],
)
async def test_an_api_server_that_talks_nonsense_counts_as_away(clock, answer, told):
    """Nobody is let in by an answer that is none, nor when we may not ask."""

    class Odd:
        async def request(self, *_args, **_more):
            if isinstance(answer, Exception):
                raise answer
            return answer

    tokens = Tokens(Odd(), RendezvousServer(outage=60), clock, told=told.append)
    assert await reason_of(tokens, jwt("a")) is Reason.AWAY
    assert told == ["away"]


@pytest.mark.parametrize("audiences", [None, [], ["other"]])
async def test_an_answer_that_does_not_name_our_audience_is_a_no(clock, audiences):
    """An API server that does not know audiences has not checked them."""

    class Old:
        async def request(self, *_args, **_more):
            user = {"username": "system:serviceaccount:team:default"}
            return json.dumps(
                {"status": {"authenticated": True, "user": user, "audiences": audiences}}
            ).encode()

    tokens = Tokens(Old(), RendezvousServer(outage=60), clock)
    assert await reason_of(tokens, jwt("a")) is Reason.TOKEN_REFUSED


async def test_what_is_remembered_holds_no_token(tokens, api):
    """The memory knows hashes alone, of good tokens and of refused ones."""
    await tokens.who(jwt("a"))
    await reason_of(tokens, "forged")

    assert tokens.is_known("forged")
    names = [name for answers in tokens._words._answers.values() for name in answers]
    assert [(type(name), len(name)) for name in names] == [(bytes, 32), (bytes, 32)]
