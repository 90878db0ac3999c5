"""The rendezvous over HTTPS on the loopback: every route, and every way to be refused."""

import asyncio
import base64
import logging
import pickle
import ssl

import aiohttp
import pytest
import structlog.testing

from scheduler.elastic.rendezvous import asking
from scheduler.elastic.rendezvous.bodies import Beat, Exit, Leave, Ready
from scheduler.elastic.rendezvous.refusals import Reason, Refused
from tests.elastic.rendezvous.desk import HonestDesk
from tests.elastic.rendezvous.served import BEGAN, jwt, served

ROUTES = {
    "beat": ("POST", "/v1/beat", {"phase": "Training", "round": 1}),
    "ready": ("POST", "/v1/ready", {"round": 0, "why": "newcomer"}),
    "announced": ("GET", "/v1/announced?round=0&wait=0", None),
    "put": ("PUT", "/v1/rounds/1/kv/global/0", b"here"),
    "get": ("GET", "/v1/rounds/1/kv/global/0", None),
    "leave": ("POST", "/v1/leave", {"why": "SIGTERM", "grace_s": 30}),
    "exit": ("POST", "/v1/exit", {"why": "", "code": 0}),
}
BODIES = [name for name, (method, _, _) in ROUTES.items() if method == "POST"]
VALUE = "/v1/rounds/1/kv/global/0"


async def a_round(running, *uids, job="team/job"):
    """These workers as the members of the job's next round."""
    for uid in uids:
        if uid not in running.desk.workers:
            running.hire(uid, job)
    return await running.desk.publish(job, uids)


async def until_one_waits(running):
    """Until the rendezvous has a question that waits."""
    while running.metrics.registry.get_sample_value("gangwright_elastic_waits") == 0:
        await asyncio.sleep(0)


async def test_a_beat_is_noted_and_answered():
    """The desk hears every field, and the worker which round is announced and whether its child is to be killed."""
    async with served() as running:
        running.hire("a")
        await running.desk.announce("team/job")
        running.desk.aborts["a"] = "hung"
        told = {
            "phase": "Training", "round": 3, "step": 7, "committed": 6, "samples": 448.0, "epoch": 0.5, "step_s": 0.2,
            "compute_s": None, "silent_s": 0.1, "collective": True, "child": "running", "values": {"loss": 0.25},
        }  # fmt: skip

        answer = await running.ask("POST", "/v1/beat", "a", told | {"of a later agent": [1, {}]})

    assert answer.status == 200
    assert answer.json == {"round": 1, "abort": "hung", "interval": 1.0}
    assert running.desk.beats == {"a": Beat(**told)}


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

    assert running.desk.arrived["b"] == Ready(**arrival)
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
    assert desk.left == {"a": Leave(why="SIGTERM", grace_s=30.0)}
    assert desk.ended["a"] == Exit(why="done", code=0)


@pytest.mark.parametrize("name", ROUTES)
async def test_nobody_is_answered_without_a_token(name):
    """No token, a header of another kind, and a token that nobody made: refused on every route, and counted."""
    method, path, body = ROUTES[name]
    async with served() as running:
        await a_round(running, "a")
        none = await running.ask(method, path, None, body)
        basic = await running.ask(method, path, None, body, headers={"Authorization": "Basic YTpi"})
        forged = await running.ask(method, path, jwt("a", exp=BEGAN + 1e6), body)

    assert [(one.status, one.reason) for one in (none, basic, forged)] == [
        (401, "NoToken"), (401, "NoToken"), (401, "TokenRefused"),
    ]  # fmt: skip
    assert none.headers["WWW-Authenticate"] == 'Bearer realm="gangwright"'
    assert (running.refusals("NoToken"), running.refusals("TokenRefused")) == (2, 1)
    assert not running.desk.beats | running.desk.arrived | running.desk.left | running.desk.ended


@pytest.mark.parametrize("name", ROUTES)
async def test_a_foreign_pod_is_refused(name):
    """A real token of a pod that is no worker, of one that is gone, and of another namespace opens nothing."""
    method, path, body = ROUTES[name]
    async with served() as running:
        await a_round(running, "a", "gone")
        running.know("stranger")
        running.desk.dismiss("gone")
        running.desk.hire("thief", "team/job")
        running.know("thief", "elsewhere")
        answers = [await running.ask(method, path, who, body) for who in ("stranger", "gone", "thief")]

    assert [(one.status, one.reason) for one in answers] == [
        (403, "NoWorker"), (403, "NoWorker"), (403, "OtherNamespace"),
    ]  # fmt: skip
    assert (running.refusals("NoWorker"), running.refusals("OtherNamespace")) == (2, 1)


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (jwt("a", exp=BEGAN - 1), "TokenExpired"),
        (jwt("a", aud=["https://kubernetes.default.svc"]), "TokenForOthers"),
        (jwt("a", aud="other"), "TokenForOthers"),
        ("not-even-a-jwt", "TokenRefused"),
        ("a.%%%.b", "TokenRefused"),
    ],
    ids=["expired", "of the API server", "of somebody else", "no token", "no base64"],
)
async def test_why_a_token_is_refused_is_told(token, reason):
    """Expired, made for somebody else, or unknown: an operator sees which by the counter."""
    async with served() as running:
        running.hire("a")
        answer = await running.beat(token)

    assert (answer.status, answer.reason) == (401, reason)
    assert running.refusals(reason) == 1


async def test_a_token_bound_to_no_pod_is_refused():
    """A service account's own token says nothing about a pod."""
    async with served() as running:
        running.api.know("of-an-account", "")
        running.api.users["of-a-person"] = {
            "username": "jane",
            "extra": running.api.users["of-an-account"]["extra"],
        }
        answers = [await running.beat(one) for one in ("of-an-account", "of-a-person")]

    assert [(one.status, one.reason) for one in answers] == [(403, "NoPod")] * 2


WRONG = {
    "a word for a number": ("beat", {"phase": "Ready", "round": "one"}, "round = 'one': Expected `int`"),
    "half a round": ("beat", {"phase": "Ready", "round": 1.5}, "round = 1.5: Expected `int`"),
    "a negative step": ("beat", {"phase": "Ready", "round": 0, "step": -1}, "step = -1: Expected `int` >= 0"),
    "an unknown phase": ("beat", {"phase": "Lost", "round": 0}, "phase = 'Lost': must be one of Starting, WarmingUp"),
    "no phase": ("beat", {"round": 0}, "required field `phase`"),
    "a value that is none": ("beat", {"phase": "Ready", "round": 0, "values": {"a": "b"}}, "values"),
    "too many values": ("beat", {"phase": "Ready", "round": 0, "values": dict.fromkeys(map(str, range(65)), 0)}, "values"),
    "a list": ("ready", [], "Expected `object`"),
    "an unknown reason": ("ready", {"round": 0, "why": "bored"}, "why = 'bored': must be one of newcomer, announced"),
    "a long fingerprint": ("ready", {"round": 0, "why": "failure", "fingerprint": "f" * 129}, "fingerprint"),
    "no grace": ("leave", {"why": "SIGTERM"}, "grace_s"),
    "a negative grace": ("leave", {"why": "SIGTERM", "grace_s": -1}, "grace_s = -1"),
    "a tail of numbers": ("exit", {"why": "", "tail": ["a", 3]}, "tail[1] = 3: Expected `str`"),
    "a huge round": ("ready", {"round": 2**70, "why": "failure"}, "round = 1180591620717411303424"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "body", "told"), WRONG.values(), ids=WRONG)
async def test_a_body_that_is_wrong_is_explained(name, body, told):
    """The answer names the field, its value and what would be right; the desk never hears of it."""
    async with served() as running:
        running.hire("a")
        answer = await running.ask(*ROUTES[name][:2], "a", body)

    assert (answer.status, answer.reason) == (400, "Invalid")
    assert told in answer.message
    assert not running.desk.beats | running.desk.arrived | running.desk.left | running.desk.ended


GARBAGE = {
    "nothing": b"",
    "half": b'{"phase": "Ready", ',
    "deep": b'{"x":' + b"[" * 100_000,
    "a pickle": pickle.dumps({"phase": "Ready", "round": 0}),
    "no text": b'{"phase": "Re\xffady", "round": 0}',
    "not a number": b'{"phase": "Ready", "round": 0, "samples": NaN}',
    "beyond numbers": b'{"phase": "Ready", "round": 0, "samples": 1e999}',
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_is_refused(name, garbage):
    """What is no JSON of ours is answered with 400, counted, and harms nobody: the next call is answered."""
    async with served() as running:
        running.hire("a")
        answer = await running.ask(*ROUTES[name][:2], "a", garbage)
        next_one = await running.beat("a")

    assert answer.status == 400
    assert running.refusals(answer.reason) == 1
    assert next_one.status == 200


@pytest.mark.parametrize("name", BODIES)
async def test_an_oversized_body_is_refused(name):
    """Whether it says its size or not."""

    async def endless():
        for _ in range(64):
            yield b" " * 4096

    async with served(body_limit=65536) as running:
        running.hire("a")
        method, path, _ = ROUTES[name]
        said = await running.ask(method, path, "a", b" " * 65537)
        headers = {"Authorization": f"Bearer {running.tokens['a']}"}
        url = f"{running.open.address}{path}"
        async with running.session.request(method, url, headers=headers, data=endless()) as unsaid:
            status = unsaid.status

    assert (said.status, said.reason, status) == (413, "TooLarge", 413)
    assert "at most 65536 bytes" in said.message


async def test_values_are_bounded():
    """In size, in number and together; what was there stays."""
    async with served(value_limit=1024, body_limit=4096, keys=3, round_limit=65536) as running:
        await a_round(running, "a")
        large = await running.ask("PUT", VALUE, "a", b"x" * 1025)
        laid = [(await running.ask("PUT", f"/v1/rounds/1/kv/s/{key}", "a", b"x")).status for key in range(4)]
        again = await running.ask("PUT", "/v1/rounds/1/kv/s/0", "a", b"y")
        got = await running.ask("GET", "/v1/rounds/1/kv/s/0", "a")

    assert (large.status, large.reason) == (413, "TooLarge")
    assert (laid, again.status, got.body) == ([204, 204, 204, 429], 204, b"y")
    assert running.refusals("TooManyValues") == 1


async def test_the_values_of_all_jobs_are_bounded():
    """A job whose rounds hold all the room gets no more, and is told so; that is counted."""
    bounds = {"round_limit": 2**20, "values_limit": 2**20, "value_limit": 2**19, "body_limit": 2**20}
    async with served(**bounds) as running:
        await a_round(running, "a")
        await a_round(running, "a")
        first = await running.ask("PUT", "/v1/rounds/1/kv/s/a", "a", b"x" * 2**19)
        second = await running.ask("PUT", "/v1/rounds/2/kv/s/a", "a", b"x" * 2**19)

    assert first.status == 204
    assert (second.status, second.reason, "Retry-After" in second.headers) == (429, "NoRoom", True)
    assert running.refusals("NoRoom") == 1


@pytest.mark.parametrize("protocol", range(2, 6))
async def test_a_pickle_is_no_value(protocol):
    """Neither as it is, nor in base64, in which Horovod's own notification service would lay one down."""
    attack = pickle.dumps(({"eth0": [("10.0.0.7", 4711)]}, b"key"), protocol)
    async with served() as running:
        await a_round(running, "a")
        for value in (attack, base64.b64encode(attack)):
            answer = await running.ask("PUT", "/v1/rounds/1/kv/worker_addresses/pod-a:0", "a", value)
            assert (answer.status, answer.reason) == (400, "Pickle")

    assert running.refusals("Pickle") == 2


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
        running.open.forget("team/one")
        gone = await running.ask("GET", VALUE, "a")

    assert (foreign.status, own.body, gone.status) == (404, b"of one", 404)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/v1/announced?round=-1", "round = '-1': must be a whole number"),
        ("/v1/announced?round=1.5", "round = '1.5'"),
        ("/v1/announced?round=99999999999999999999", "round ="),
        ("/v1/announced?wait=soon", "wait = 'soon': must be seconds"),
        ("/v1/announced?wait=nan", "wait = 'nan'"),
        ("/v1/announced?wait=-1", "wait = '-1'"),
        ("/v1/announced?wait=inf", "wait = 'inf'"),
        ("/v1/rounds/one/kv/a/b", "round = 'one'"),
        ("/v1/rounds/1/kv/%00/b", "scope ="),
        (f"/v1/rounds/1/kv/a/{'k' * 257}", "key ="),
    ],
)
async def test_words_of_a_path_are_checked(path, told):
    """Field, value and what would be right, as for a body."""
    async with served() as running:
        await a_round(running, "a")
        answer = await running.ask("GET", path, "a")

    assert (answer.status, answer.reason) == (400, "Invalid")
    assert told in answer.message


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        ("GET", "/", 404, "NoPath"),
        ("GET", "/v1/rounds/1/kv/a", 404, "NoPath"),
        ("GET", "/v1/rounds/1/kv/a/b/c", 404, "NoPath"),
        ("GET", "/v1/beat", 405, "NoMethod"),
        ("DELETE", VALUE, 405, "NoMethod"),
    ],
)
async def test_what_is_no_route_is_json_too(method, path, status, reason):
    """Every failure has one form."""
    async with served() as running:
        running.hire("a")
        answer = await running.ask(method, path, "a")

    assert (answer.status, answer.reason) == (status, reason)


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
    monkeypatch.setattr(asking, f"{bound}_BURST", 3)
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


async def test_a_body_that_does_not_come_is_waited_for_shortly(monkeypatch):
    """Whoever sends a letter now and then does not keep a place for ever."""
    monkeypatch.setattr(asking, "BODY_TIME", 0.05)

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


async def test_a_desk_may_refuse():
    """What the desk says goes to the worker; its faults do not."""

    class Absent(HonestDesk):
        async def beat(self, uid, beat):
            raise Refused(Reason.STANDBY, "another master leads")

        async def exit(self, uid, ended):
            raise ZeroDivisionError("inner matters")

    async with served(Absent()) as running:
        running.hire("a")
        standby = await running.beat("a")
        broken = await running.ask("POST", "/v1/exit", "a", {"why": ""})

    assert (standby.status, standby.reason, standby.headers["Retry-After"]) == (503, "Standby", "1")
    assert (broken.status, broken.reason) == (500, "Broken")
    assert b"inner" not in broken.body


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


async def test_plain_http_is_not_spoken():
    """There is no way in without TLS, and no older TLS than 1.2."""
    async with served() as running:
        running.hire("a")
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"http://127.0.0.1:{running.open.port}/v1/announced")
        old = ssl.create_default_context(cadata=running.open.authority)
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(aiohttp.ClientError):
            await running.session.get(f"{running.open.address}/v1/announced", ssl=old)


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
