"""The rendezvous over HTTPS on the loopback: every route, who waits there, and for how long."""

import asyncio
import json
import logging
import ssl

import aiohttp
import pytest
import structlog.testing

from scheduler.elastic.reconciler.job_events import Arrived, Beat, Exited, Leaving
from scheduler.elastic.rendezvous import worker_requests
from tests.elastic.rendezvous.support.desk import HonestDesk
from tests.elastic.rendezvous.support.rounds import a_round, until_one_waits
from tests.elastic.rendezvous.support.served import jwt, served

VALUE = "/v1/rounds/1/kv/global/0"


async def test_a_beat_is_noted_and_answered():
    """The desk hears every field and who the sender is, whatever the body says; the worker hears which round is announced and whether its child is to be killed."""
    async with served() as running:
        running.hire("a")
        await running.desk.announce("team/job")
        running.desk.aborts["a"] = "hung"
        told = {
            "phase": "Training", "round": 3, "step": 7, "committed": 6, "samples": 448.0, "epoch": 0.5, "step_s": 0.2,
            "compute_s": None, "silent_s": 0.1, "collective": True, "child": "running", "values": {"loss": 0.25},
        }  # fmt: skip

        answer = await running.ask(
            "POST", "/v1/beat", "a", told | {"of a later agent": [1, {}], "uid": "of another"}
        )

    assert answer.status == 200
    assert answer.json == {"round": 1, "abort": "hung", "interval": 1.0}
    assert running.desk.beats == {"a": Beat("a", **told)}


async def test_ready_is_answered_at_once_when_the_round_is_published():
    """A worker that waits at the barrier has its assignment as the contract spells it, and has it again when it asks
    again.
    """
    async with served() as running:
        running.hire("a"), running.hire("b")
        arrival = {"round": 0, "why": "newcomer", "step": 0, "committed": 0, "fingerprint": "f00"}
        waiting = asyncio.create_task(running.ask("POST", "/v1/ready", "b", arrival))
        while "b" not in running.desk.arrived:
            await asyncio.sleep(0)
        await running.desk.publish("team/job", ["a", "b"], lr_scale=2.0)

        first = await waiting
        again = await running.ask("POST", "/v1/ready", "b", arrival)

    assert running.desk.arrived["b"] == Arrived("b", **arrival)
    assert first.json == again.json
    assert first.json == {
        "round": 1, "rank": 1, "size": 2, "members": ["pod-a", "pod-b"], "sync": True, "removed": False,
        "checkpoint": False, "restore": None, "batch": None, "lr_scale": 2.0, "ramp_steps": 0, "env": {},
    }  # fmt: skip


async def test_ready_without_a_round_is_204_after_the_wait():
    """Nothing yet: the worker asks again."""
    async with served(wait=0.1) as running:
        running.hire("a")
        answer = await running.ask("POST", "/v1/ready", "a", {"round": 0, "why": "newcomer"})

    assert (answer.status, answer.body) == (204, b"")


async def test_an_announcement_is_heard_at_once():
    """Who knows an older round hears of the newer one; who knows the newest waits for his time."""
    async with served() as running:
        running.hire("a")
        waiting = asyncio.create_task(running.ask("GET", "/v1/announced?round=0&wait=20", "a"))
        await until_one_waits(running)
        await running.desk.announce("team/job")
        heard = await waiting
        known = await running.ask("GET", "/v1/announced?round=1&wait=0.05", "a")

    assert (heard.json, known.json) == ({"round": 1}, {"round": 1})


async def test_a_value_is_read_as_soon_as_it_is_there():
    """What one member lays down is bytes, and reaches the one that waits for it, unchanged."""
    value = bytes(range(256))
    async with served() as running:
        await a_round(running, "a", "b")
        waiting = asyncio.create_task(running.ask("GET", f"{VALUE}?wait=20", "b"))
        await until_one_waits(running)
        laid = await running.ask("PUT", VALUE, "a", value)
        got = await waiting

    assert (laid.status, laid.body) == (204, b"")
    assert (got.status, got.headers["Content-Type"], got.body) == (200, "application/octet-stream", value)


async def test_a_value_that_does_not_come_is_404_after_the_wait():
    """An empty answer would read as an address; so there is none."""
    async with served() as running:
        await a_round(running, "a")
        at_once = await running.ask("GET", VALUE, "a")
        later = await running.ask("GET", f"{VALUE}?wait=0.05", "a")

    assert [(one.status, one.reason) for one in (at_once, later)] == [(404, "NoValue")] * 2
    assert running.refusals("NoValue") == 0


async def test_values_of_the_members_behind_come_along_where_they_are_asked_for():
    """As JSON, by key and in base64, whatever signs the scope has; without the question the bare value comes."""
    async with served() as running:
        await a_round(running, "a")
        for rank in (0, 1, 2, 5, 5 + 256, 5 + 257):
            await running.ask("PUT", f"/v1/rounds/1/kv/a%2Fb/{rank}", "a", b"\x00\xff%d" % rank)

        bare = await running.ask("GET", "/v1/rounds/1/kv/a%2Fb/1", "a")
        some = await running.ask("GET", "/v1/rounds/1/kv/a%2Fb/1?beside=2", "a")
        alone = await running.ask("GET", "/v1/rounds/1/kv/a%2Fb/5?beside=99999", "a")

    assert bare.body == b"\x00\xff1"
    assert json.loads(some.body) == {"values": {"1": "AP8x", "2": "AP8y"}}
    assert json.loads(alone.body) == {"values": {"5": "AP81", "261": "AP8yNjE="}}


async def test_scope_and_key_may_be_any_printable_words():
    """Host names, suffixes and signs of Horovod's scopes arrive as they were sent."""
    async with served() as running:
        await a_round(running, "a")
        for place in (
            "local_job-1-x7f.node/0",
            "global_process_set_hash_-17/0",
            "a%2Fb/c",
            "a/b%2Fc",
            "ä/%25",
        ):
            laid = await running.ask("PUT", f"/v1/rounds/1/kv/{place}", "a", place.encode())
            got = await running.ask("GET", f"/v1/rounds/1/kv/{place}", "a")
            assert (laid.status, got.body) == (204, place.encode())


async def test_leaving_and_an_exit_are_noted():
    """The desk decides whether the child is started again."""
    ended = {
        "code": None,
        "signal": 6,
        "why": "aborted",
        "culprit": "pod-b",
        "tail": ["one", "two"],
        "round": 4,
    }
    desk = HonestDesk(restarts=lambda one: one.signal == 6)
    async with served(desk) as running:
        running.hire("a")
        left = await running.ask("POST", "/v1/leave", "a", {"why": "SIGTERM", "grace_s": 30})
        again = await running.ask("POST", "/v1/exit", "a", ended)
        over = await running.ask("POST", "/v1/exit", "a", {"why": "done", "code": 0})

    assert (left.json, again.json, over.json) == ({}, {"restart": True}, {"restart": False})
    assert desk.left == {"a": Leaving("a", "SIGTERM", 30.0)}
    assert desk.ended["a"] == Exited("a", 0, why="done")


async def test_only_members_of_a_round_see_its_values():
    """A newcomer, one that was removed, a round to come and one that is over: each is refused in its own way."""
    async with served() as running:
        for uid in ("old", "new"):
            running.hire(uid)
        await running.desk.publish("team/job", ["old"])
        newcomer = await running.ask("GET", VALUE, "new")
        await running.desk.publish("team/job", ["new"])
        removed = await running.ask("PUT", "/v1/rounds/2/kv/global/0", "old", b"x")
        before = await running.ask("GET", VALUE, "new")
        ahead = await running.ask("PUT", "/v1/rounds/9/kv/global/0", "new", b"x")
        for _ in range(3):
            await running.desk.publish("team/job", ["old", "new"])
        fifth = await running.ask("PUT", "/v1/rounds/5/kv/global/0", "new", b"x")
        over = await running.ask("GET", "/v1/rounds/2/kv/global/0", "new")

    assert [(one.status, one.reason) for one in (newcomer, removed, before, ahead, over)] == [
        (409, "RoundAhead"), (409, "RoundAhead"), (403, "NoMember"), (409, "RoundAhead"), (409, "RoundOver"),
    ]  # fmt: skip
    assert fifth.status == 204


async def test_who_waits_for_a_value_of_a_round_that_ends_is_told():
    """He comes to the next barrier instead of waiting for a member that will not come."""
    async with served() as running:
        await a_round(running, "a", "b")
        waiting = asyncio.create_task(running.ask("GET", f"{VALUE}?wait=20", "a"))
        await until_one_waits(running)
        for _ in range(3):
            await a_round(running, "a", "b")
        await running.ask("PUT", "/v1/rounds/4/kv/global/0", "b", b"x")
        told = await waiting

    assert (told.status, told.reason) == (409, "RoundOver")


async def test_two_jobs_with_one_round_number_share_nothing():
    """Whose worker asks decides whose values it sees, whatever the path says."""
    async with served() as running:
        await a_round(running, "a", job="team/one")
        await a_round(running, "b", job="team/two")
        await running.ask("PUT", VALUE, "a", b"of one")
        foreign = await running.ask("GET", VALUE, "b")
        own = await running.ask("GET", VALUE, "a")
        running.open.values.forget("team/one")
        gone = await running.ask("GET", VALUE, "a")

    assert (foreign.status, own.body, gone.status) == (404, b"of one", 404)


async def test_a_value_that_comes_after_its_job_is_gone_is_not_kept():
    """Its body was on its way: a job of the same name begins with rounds of its own, and must not find old ones."""
    async with served() as running:
        await a_round(running, "a")
        going, rest = asyncio.Event(), asyncio.Event()

        async def body():
            yield b"of a job"
            going.set()
            await rest.wait()
            yield b" that is gone"

        late = asyncio.create_task(running.ask("PUT", VALUE, "a", body()))
        await going.wait()
        await asyncio.sleep(0.1)
        running.open.values.forget("team/job")
        running.desk.dismiss("a")
        del running.desk.jobs["team/job"]
        rest.set()
        told = await late
        await a_round(running, "b")
        found = await running.ask("GET", VALUE, "b")

    assert (told.status, told.reason) == (403, "NoWorker")
    assert found.status == 404


async def test_asking_the_same_again_takes_the_place_of_the_first():
    """A worker whose connection broke waits once; the earlier question is answered that it was asked again."""
    async with served() as running:
        running.hire("a")
        ready = ("POST", "/v1/ready", "a", {"round": 0, "why": "newcomer"})
        first = asyncio.create_task(running.ask(*ready))
        while "a" not in running.desk.arrived:
            await asyncio.sleep(0)
        running.desk.arrived.clear()
        second = asyncio.create_task(running.ask(*ready))
        while "a" not in running.desk.arrived:
            await asyncio.sleep(0)
        replaced = await first
        await running.desk.publish("team/job", ["a"])
        answered = await second
        waits = running.metrics.registry.get_sample_value("gangwright_elastic_waits")

    assert (replaced.status, replaced.reason) == (409, "AskedAgain")
    assert (answered.status, answered.json["round"], waits) == (200, 1, 0)
    assert running.refusals("AskedAgain") == 0


async def test_the_questions_of_one_worker_that_wait_are_bounded():
    """The one too many is refused with a time to come back; those of another worker are not touched."""
    async with served(waits=2) as running:
        await a_round(running, "a", "b")
        first = [
            asyncio.create_task(running.ask("GET", f"/v1/rounds/1/kv/s/{key}?wait=20", "a")) for key in "xy"
        ]
        while running.metrics.registry.get_sample_value("gangwright_elastic_waits") < 2:
            await asyncio.sleep(0)
        third = await running.ask("GET", "/v1/rounds/1/kv/s/z?wait=20", "a")
        other = await running.ask("GET", "/v1/rounds/1/kv/s/z?wait=0.01", "b")
        for key in "xy":
            await running.ask("PUT", f"/v1/rounds/1/kv/s/{key}", "b", b"v")
        answered = [await one for one in first]

    assert (third.status, third.reason, third.headers["Retry-After"]) == (429, "TooManyWaits", "1")
    assert (other.status, [one.body for one in answered]) == (404, [b"v", b"v"])


@pytest.mark.parametrize(("bound", "who"), [("WORKERS", "a"), ("STRANGERS", "stranger-{}")])
async def test_nobody_holds_up_the_others_by_asking_too_often(monkeypatch, bound, who):
    """One worker in a loop, or an address that tries tokens, is told to come back; another worker is answered."""
    monkeypatch.setattr(worker_requests, f"{bound}_BURST", 3)
    async with served() as running:
        running.hire("a"), running.hire("b")
        assert (await running.beat("b")).status == 200
        answers = [await running.beat(who.format(number)) for number in range(4)]
        other = await running.beat("b")
        running.clock[0] += 1
        later = await running.beat(who.format(9))

    assert (answers[-1].status, answers[-1].reason, answers[-1].headers["Retry-After"]) == (
        429,
        "TooOften",
        "1",
    )
    assert 429 not in {other.status, later.status}
    assert running.refusals("TooOften") == 1 + (bound == "STRANGERS")


async def test_a_body_of_the_largest_size_is_read_however_large_that_is():
    """One worker's share of all bodies holds one of the size that `rendezvous.bodyLimit` allows."""

    async def large():
        yield b'{"why": "told to go", "grace_s": 1.0, "more": "'
        for _ in range(12):
            yield b"x" * 2**20
        yield b'"}'

    async with served(body_limit=2**24) as running:
        running.hire("a")
        answer = await running.ask("POST", "/v1/leave", "a", large())

    assert answer.status == 200


async def test_a_question_has_no_body():
    """It would be kept, unread, for as long as the question waits."""
    async with served() as running:
        running.hire("a")
        answer = await running.ask("GET", "/v1/announced?round=0&wait=30", "a", b"x" * 1000)

    assert (answer.status, answer.reason, answer.message) == (
        400,
        "Malformed",
        "a GET must not have a body",
    )


async def test_a_body_that_does_not_come_is_waited_for_shortly(monkeypatch):
    """Whoever sends a letter now and then does not keep a place for ever."""
    monkeypatch.setattr(worker_requests, "BODY_TIME", 0.05)

    async def slow():
        yield b"{"
        await asyncio.sleep(60)

    async with served() as running:
        running.hire("a")
        headers = {"Authorization": f"Bearer {running.tokens['a']}"}
        async with running.session.post(
            f"{running.open.address}/v1/beat", headers=headers, data=slow()
        ) as answer:
            told = await answer.json()

    assert (answer.status, told["error"]["reason"]) == (503, "Slow")


async def test_a_wait_longer_than_ours_is_cut():
    """Whoever asks for an hour is answered after our own limit."""
    async with served(wait=0.1) as running:
        running.hire("a")
        answer = await running.ask("GET", "/v1/announced?round=0&wait=3600", "a")

    assert answer.json == {"round": 0}


async def test_a_stop_answers_whoever_waits():
    """The master that stops does not wait for those who wait for it."""
    async with aiohttp.ClientSession() as outside:
        async with served() as running:
            running.hire("a")
            waiting = asyncio.create_task(
                outside.post(
                    f"{running.open.address}/v1/ready",
                    json={"round": 0, "why": "newcomer"},
                    headers={"Authorization": f"Bearer {running.tokens['a']}"},
                    ssl=ssl.create_default_context(cadata=running.open.authority),
                )
            )
            while "a" not in running.desk.arrived:
                await asyncio.sleep(0)
        answer = await waiting
        told = await answer.json()

    assert (answer.status, told["error"]["reason"]) == (503, "Standby")


async def test_nothing_secret_is_logged(caplog):
    """No token, no value and no word of a body stands in any line, whatever happens."""
    caplog.set_level(logging.DEBUG)
    with structlog.testing.capture_logs() as lines:
        async with served() as running:
            await a_round(running, "a")
            forged = jwt("forged")
            await running.beat(forged)
            await running.beat("a", phase="word-of-a-body")
            await running.ask("PUT", VALUE, "a", b"a-value-of-a-member" * 4000)
            await running.ask("PUT", VALUE, "a", b"a-value-of-a-member")
            await running.ask("POST", "/v1/exit", "a", b"{word-of-a-body")
            tokens = [forged, *running.tokens.values()]
    text = f"{lines} {caplog.text}"

    assert "TokenRefused" in text
    assert not [word for word in (*tokens, "word-of-a-body", "a-value-of-a-member") if word in text]


async def test_the_worker_checks_the_master():
    """Who does not know our authority, or calls us by another name, does not hand over his token."""
    async with served() as running:
        url = f"{running.open.address}/v1/announced"
        for address, trust in (
            (url, ssl.create_default_context()),
            (url.replace("127.0.0.1", "localhost"), None),
        ):
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await running.session.get(address, **({"ssl": trust} if trust else {}))


async def test_requests_are_counted_by_route_and_status():
    """The scrape tells what workers ask and how it ends."""
    async with served() as running:
        running.hire("a")
        await running.beat("a"), await running.beat("a"), await running.beat(None)

    def sample(name, **labels):
        return running.metrics.registry.get_sample_value(f"gangwright_elastic_{name}", labels)

    assert sample("requests_total", route="beat", status="200") == 2
    assert sample("requests_total", route="beat", status="401") == 1
    assert sample("request_duration_seconds_count", route="beat") == 3
    assert sample("token_reviews_total", answer="yes") == 1
