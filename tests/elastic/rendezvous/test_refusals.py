"""The rendezvous over HTTPS on the loopback: every way to be refused."""

import base64
import pickle
import ssl

import aiohttp
import pytest

from scheduler.elastic.rendezvous.worker_messages import Reason, Refused
from tests.elastic.rendezvous.support.desk import HonestDesk
from tests.elastic.rendezvous.support.rounds import a_round
from tests.elastic.rendezvous.support.served import BEGAN, jwt, served

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
    "an unknown phase": ("beat", {"phase": "Bored", "round": 0}, "phase = 'Bored': must be one of Gated, Starting, WarmingUp"),
    "a value that is none": ("beat", {"phase": "Ready", "round": 0, "values": {"a": "b"}}, "values"),
    "too many values": ("beat", {"phase": "Ready", "round": 0, "values": dict.fromkeys(map(str, range(65)), 0)}, "values"),
    "a list": ("ready", [], "Expected `object`"),
    "an unknown reason": ("ready", {"round": 0, "why": "bored"}, "why = 'bored': must be one of newcomer, announced"),
    "a step in negative time": ("beat", {"phase": "Training", "round": 1, "step_s": -0.5}, "step_s = -0.5"),
    "a long fingerprint": ("ready", {"round": 0, "why": "failure", "fingerprint": "f" * 129}, "fingerprint"),
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
    "no text": b'{"phase": "Re\xffady", "why": "SIG\xffTERM"}',
    "not a number": b'{"phase": "Ready", "round": 0, "samples": NaN}',
    "beyond numbers": b'{"samples": 1e999, "grace_s": 1e999, "code": 1e999}',
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
    """Where others hold all the room a job gets none, and is told when to try again; that is counted."""
    bounds = {"round_limit": 2**20, "values_limit": 2**20, "value_limit": 2**19, "body_limit": 2**20}
    async with served(**bounds) as running:
        await a_round(running, "a", job="team/one")
        await a_round(running, "b", job="team/two")
        first = await running.ask("PUT", "/v1/rounds/1/kv/s/a", "a", b"x" * 2**19)
        second = await running.ask("PUT", "/v1/rounds/1/kv/s/a", "b", b"x" * 2**19)

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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/v1/announced?round=-1", "round = '-1': must be an integer"),
        ("/v1/announced?round=1.5", "round = '1.5'"),
        ("/v1/announced?round=99999999999999999999", "round ="),
        ("/v1/announced?wait=soon", "wait = 'soon': must be seconds"),
        ("/v1/announced?wait=nan", "wait = 'nan'"),
        ("/v1/announced?wait=-1", "wait = '-1'"),
        ("/v1/announced?wait=inf", "wait = 'inf'"),
        ("/v1/rounds/one/kv/a/b", "round = 'one'"),
        (f"{VALUE}?beside=all", "beside = 'all': must be an integer"),
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


async def test_a_desk_may_refuse():
    """What the desk says goes to the worker; its faults do not."""

    class Absent(HonestDesk):
        async def beat(self, beat):
            raise Refused(Reason.STANDBY, "another master leads")

        async def exit(self, exited):
            raise ZeroDivisionError("inner matters")

    async with served(Absent()) as running:
        running.hire("a")
        standby = await running.beat("a")
        broken = await running.ask("POST", "/v1/exit", "a", {"why": ""})

    assert (standby.status, standby.reason, standby.headers["Retry-After"]) == (503, "Standby", "1")
    assert (broken.status, broken.reason) == (500, "Broken")
    assert b"inner" not in broken.body


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
