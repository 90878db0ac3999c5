"""The status API over real sockets on loopback: who is let in, what he sees, and how much he may ask."""

import asyncio
import json

import pytest
from structlog.testing import capture_logs

from scheduler.engine import Engine
from scheduler.serving.server import TOKEN_FIELD
from scheduler.serving.token_reviews import LONGEST_TOKEN, TOKENS
from scheduler.settings import StatusServer
from scheduler.status import status_app
from scheduler.status.authorization import ACCESS_REVIEWS
from tests.engine.support.cast import a_pod
from tests.status.support.reviewing import ADMIN, BOB, JANE
from tests.status.support.scene import POLICY, a_scene
from tests.status.support.served import served
from tests.support.builders import GPU

SEES = [
    "/v1/queue", "/v1/gangs", "/v1/gangs/team-a/train", "/v1/nodes", "/v1/cluster", "/v1/shares", "/v1/history",
]  # fmt: skip
ACTS = ["/v1/simulate", "/v1/nodes/a0-r0-n0/drain"]
POD = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1", GPU: "1"}}}]}}


# ── who is let in ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", SEES)
async def test_nobody_is_told_nothing(status, path):
    """Without a token there is no answer, and no review is asked for."""
    answer = await status.ask(path)

    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert answer.json["status"] == 401


@pytest.mark.parametrize("path", ACTS)
async def test_nobody_does_nothing(status, reviewing, path):
    """Routes that act are as closed as those that show."""
    answer = await status.do(path)

    assert answer.status == 401
    assert reviewing.asked == []


@pytest.mark.parametrize("token", ["token-of-a-stranger", "x" * 5000])
async def test_a_foreign_token_is_refused(status, token):
    """One that the API server does not know, for whatever reason: foreign, expired, revoked, nonsense."""
    answer = await status.ask("/v1/queue", token)

    assert answer.status == 401
    assert token not in answer.body.decode()


async def test_a_long_token_is_reviewed_like_any_other(status, reviewing):
    """One with the groups of a large directory has many thousand characters."""
    long = "e" * LONGEST_TOKEN
    reviewing.know(long, "of-a-large-directory")

    assert (await status.ask("/v1/cluster", long)).status == 200


@pytest.mark.parametrize("size", [LONGEST_TOKEN + 1, TOKEN_FIELD + 1, 10 * TOKEN_FIELD])
async def test_no_word_of_a_token_is_in_the_log(status, reviewing, capfd, size):
    """One that is too long is refused before the API server is asked, and neither the log nor stderr quotes it."""
    token = "eyJhbGci" * (size // 8 + 1)
    with capture_logs() as lines:
        answer = await status.ask("/v1/cluster", token)

    assert answer.status in {400, 401}
    assert reviewing.asked == []
    assert "eyJ" not in str(lines) + str(capfd.readouterr())


@pytest.mark.parametrize(
    "header", ["Basic amFuZTpwdw==", "Bearer", "Bearer ", "Bearer töken", "token-of-jane"]
)
async def test_other_headers_are_no_tokens(status, reviewing, header):
    """They are refused before the API server is asked."""
    answer = await status.ask("/v1/queue", headers={"Authorization": header})

    assert answer.status in {400, 401}
    assert reviewing.asked == []


async def test_a_token_is_reviewed_once_while_its_answer_counts(status, reviewing):
    """Every further request is let in by memory, until the answer is old."""
    for _ in range(5):
        assert (await status.ask("/v1/cluster", JANE)).status == 200
    assert reviewing.count(TOKENS) == 1

    status.clock[0] += StatusServer().remember + 1
    assert (await status.ask("/v1/cluster", JANE)).status == 200
    assert reviewing.count(TOKENS) == 2


async def test_parallel_requests_share_one_review(status, reviewing):
    """Ten requests with a new token cost the API server one question."""
    answers = await asyncio.gather(*(status.ask("/v1/cluster", JANE) for _ in range(10)))

    assert {answer.status for answer in answers} == {200}
    assert reviewing.count(TOKENS) == 1


async def test_a_revoked_token_ends(status, reviewing):
    """After the time for which an answer counts, and not before."""
    assert (await status.ask("/v1/cluster", JANE)).status == 200
    del reviewing.users[JANE]
    assert (await status.ask("/v1/cluster", JANE)).status == 200

    status.clock[0] += StatusServer().remember + 1
    assert (await status.ask("/v1/cluster", JANE)).status == 401


async def test_a_refused_token_is_tried_again_sooner(status, reviewing):
    """A no counts for a shorter time than a yes."""
    assert (await status.ask("/v1/cluster", "new")).status == 401
    reviewing.know("new", "newcomer")
    assert (await status.ask("/v1/cluster", "new")).status == 401

    status.clock[0] += StatusServer().remember_refusal + 1
    assert (await status.ask("/v1/cluster", "new")).status == 200


async def test_the_audience_counts_where_one_is_set(world, reviewing):
    """A token for somebody else is no token for us."""
    own = StatusServer(audiences=("gangwright",))
    async with served(world.engine, reviewing, settings=own) as running:
        assert (await running.ask("/v1/cluster", JANE)).status == 401
        reviewing.audiences = ("https://kubernetes.default.svc", "gangwright")
        assert (await running.ask("/v1/cluster", ADMIN)).status == 200

    assert reviewing.asked[0][1]["audiences"] == ["gangwright"]


async def test_nobody_new_gets_in_while_the_api_server_is_away(status, reviewing):
    """Fail closed: 503 for whoever is not remembered, and whoever is remembered keeps what he saw."""
    assert (await status.ask("/v1/queue", JANE)).status == 200
    reviewing.away = True

    known, new = await status.ask("/v1/queue", JANE), await status.ask("/v1/queue", BOB)
    assert (known.status, new.status) == (200, 503)
    assert "Retry-After" in new.headers

    status.clock[0] += StatusServer().remember + 1
    assert (await status.ask("/v1/queue", JANE)).status == 503

    reviewing.away = False
    assert (await status.ask("/v1/queue", JANE)).status == 200


# ── what he sees ────────────────────────────────────────────────────────────────────────────────────────


def names(answer, field="gangs"):
    return sorted(row["name"] for row in answer.json[field] if row["name"] is not None)


async def test_each_sees_the_names_of_his_own(status):
    """The rest are numbers."""
    jane, bob, admin = [await status.ask("/v1/gangs", token) for token in (JANE, BOB, ADMIN)]

    assert names(jane) == ["solo", "train", "wrong"]
    assert names(bob) == []
    assert names(admin) == ["huge", "late", "solo", "train", "wrong"]
    assert {len(answer.json["gangs"]) for answer in (jane, bob, admin)} == {5}
    assert b"team-b" not in jane.body
    assert b"huge" not in jane.body


@pytest.mark.parametrize(
    "path", ["/v1/queue", "/v1/gangs", "/v1/nodes", "/v1/cluster", "/v1/shares", "/v1/history"]
)
async def test_no_list_holds_a_hidden_name(status, path):
    """Whoever may see nothing reads no name of a gang, a pod or a namespace anywhere."""
    answer = await status.ask(path, BOB)

    assert answer.status == 200
    for word in (b"team-a", b"team-b", b"train", b"huge", b"solo", b"onerror"):
        assert word not in answer.body


async def test_a_foreign_namespace_is_closed_whether_the_gang_exists_or_not(status):
    """403 in both cases, in the same words."""
    there = await status.ask("/v1/gangs/team-b/huge", JANE)
    nowhere = await status.ask("/v1/gangs/team-b/nothing", JANE)
    listed = await status.ask("/v1/gangs?namespace=team-b", JANE)

    assert (there.status, nowhere.status, listed.status) == (403, 403, 403)
    assert there.body == nowhere.body == listed.body


async def test_one_gang_in_full(status):
    """By its name, and a pod alone by its own."""
    train = await status.ask("/v1/gangs/team-a/train", JANE)
    solo = await status.ask("/v1/gangs/team-a/solo", JANE)
    nothing = await status.ask("/v1/gangs/team-a/nothing", JANE)

    assert [member["state"] for member in train.json["members"]] == ["bound"] * 4
    assert solo.json["gang"]["alone"] is True
    assert (await status.ask(f"/v1/gangs/team-a/{solo.json['gang']['key']}", JANE)).status == 200
    assert nothing.status == 404


async def test_rights_are_remembered_for_a_while(status, reviewing):
    """A page that asks every few seconds costs the API server nothing."""
    await status.ask("/v1/queue", JANE)
    before = reviewing.count(ACCESS_REVIEWS)
    for _ in range(3):
        await status.ask("/v1/queue", JANE)
        await status.ask("/v1/nodes", JANE)

    assert reviewing.count(ACCESS_REVIEWS) == before == 3


async def test_more_namespaces_than_may_be_asked_about_are_hidden_for_now(reviewing, monkeypatch):
    """The answer says how many; the next request asks about the rest."""
    monkeypatch.setattr("scheduler.status.endpoints.ASKED_AT_MOST", 2)
    reviewing.know(BOB, "bob", *(("list", "pods", f"ns-{n}") for n in range(5)))
    engine = a_scene().engine
    world = a_scene()
    world.submit([a_pod("one", namespace=f"ns-{n}", gpu=1) for n in range(5)])
    world.settle(5)
    engine = world.engine
    async with served(engine, reviewing, now=world.now) as running:
        first = await running.ask("/v1/gangs", BOB)
        for _ in range(3):
            last = await running.ask("/v1/gangs", BOB)

    assert first.json["unchecked"] == 5
    assert last.json["unchecked"] == 0
    assert len(names(last)) == 5


async def test_nothing_new_is_not_sent_again(status):
    """An answer has a tag, and whoever shows it is told that nothing has changed."""
    first = await status.ask("/v1/nodes", ADMIN)
    second = await status.ask("/v1/nodes", ADMIN, headers={"If-None-Match": first.headers["Etag"]})
    other = await status.ask("/v1/nodes", BOB, headers={"If-None-Match": first.headers["Etag"]})

    assert (second.status, second.body) == (304, b"")
    assert other.status == 200


async def test_a_replica_that_looks_on_says_so(reviewing):
    """It answers from its own ledger, and judges nothing."""
    async with served(Engine(POLICY), reviewing) as running:
        cluster = await running.ask("/v1/cluster", ADMIN)
        tried = await running.do("/v1/simulate", ADMIN, {"pods": [{"pod": POD}]})

    assert cluster.json["acting"] is False
    assert tried.status == 409


# ── how much ────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_user_may_not_ask_without_end(status):
    """Beyond his burst he is told when to come back; others are not kept from asking."""
    answers = [await status.ask("/v1/cluster", JANE) for _ in range(status_app.BURST + 1)]

    assert [answer.status for answer in answers[:-1]] == [200] * status_app.BURST
    assert answers[-1].status == 429
    assert int(answers[-1].headers["Retry-After"]) >= 1
    assert (await status.ask("/v1/cluster", BOB)).status == 200

    status.clock[0] += 1
    assert (await status.ask("/v1/cluster", JANE)).status == 200


async def test_guessing_tokens_is_slow(status, reviewing):
    """One address may show so many unknown tokens, and the API server hears of no more."""
    answers = [await status.ask("/v1/cluster", f"guess-{n}") for n in range(status_app.STRANGERS_BURST + 5)]

    assert [answer.status for answer in answers[-5:]] == [429] * 5
    assert reviewing.count(TOKENS) == status_app.STRANGERS_BURST


async def test_questions_at_once_with_one_new_token_are_one_guess(status, reviewing):
    """The page asks five at once; behind one address there may be many people who open it."""
    at_once = status_app.STRANGERS_BURST + 5

    answers = await asyncio.gather(*(status.ask("/v1/cluster", JANE) for _ in range(at_once)))

    assert {answer.status for answer in answers} == {200}
    assert reviewing.count(TOKENS) == 1


async def test_a_large_body_is_refused(status):
    """Before it is read to its end."""
    body = {"pods": [{"pod": {"metadata": {"annotations": {"a": "x" * status_app.BODY_LIMIT}}}}]}
    answer = await status.do("/v1/simulate", ADMIN, body)

    assert answer.status == 413


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("/v1/queue?limit=0", "limit"),
        ("/v1/queue?limit=1001", "limit"),
        ("/v1/queue?limit=ten", "limit"),
        ("/v1/queue?limit=1&limit=2", "limit"),
        ("/v1/queue?offset=-1", "offset"),
        ("/v1/queue?offset=99999999999999999999999", "offset"),
        ("/v1/queue?token=secret", "'token'"),
        ("/v1/cluster?x=1", "'x'"),
        ("/v1/gangs?namespace=Team%20A", "namespace"),
        ("/v1/gangs/team-a/%3Cscript%3E", "name"),
        ("/v1/gangs/team-a/%00", "name"),
    ],
)
async def test_a_wrong_word_is_named(status, path, word):
    """400, with the name of the word and what would be right."""
    answer = await status.ask(path, ADMIN)

    assert answer.status == 400
    assert answer.json["error"].startswith(word)


@pytest.mark.parametrize(
    ("body", "headers", "status_code"),
    [
        (b"{", {}, 400),
        (b"\xff", {}, 400),
        (b"[" * 10_000, {}, 400),
        (b'{"pods": []}', {}, 400),
        (b'{"pods": [{"pod": {}, "count": 0}]}', {}, 400),
        (b'{"pods": [{"pod": {}, "cuont": 2}]}', {}, 400),
        (b'{"pods": [{"pod": {"spec": 3}}]}', {}, 400),
        (b'{"pods": [{"pod": {}}], "namespace": "NO"}', {}, 400),
        (b'{"pods": [{"pod": {"metadata": {"namespace": "x"}}}]}', {}, 400),
        (b'{"pods": [{"pod": {}, "count": 1.5}]}', {}, 400),
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"{}", {"Content-Encoding": "gzip"}, 415),
    ],
)
async def test_a_wrong_body_is_told(acting, body, headers, status_code):
    """As JSON, in a sentence, without a traceback."""
    headers = {"Content-Type": "application/json"} | headers
    answer = await acting.ask("/v1/simulate", ADMIN, "POST", data=body, headers=headers)

    assert answer.status == status_code
    assert answer.json["error"]
    assert "Traceback" not in answer.json["error"]


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("POST", "/v1/queue", 405),
        ("GET", "/v1/simulate", 405),
        ("GET", "/v1/nothing", 404),
        ("PUT", "/", 405),
    ],
)
async def test_other_methods_and_paths(status, method, path, code):
    """404 and 405 as JSON, with the methods that are allowed."""
    answer = await status.ask(path, ADMIN, method)

    assert answer.status == code
    assert answer.json["status"] == code
    assert ("Allow" in answer.headers) == (code == 405)


async def test_every_answer_carries_the_headers_of_a_careful_server(status):
    """Nothing is cached, framed, sniffed or loaded from elsewhere, on good answers and bad ones."""
    for answer in (
        await status.ask("/"),
        await status.ask("/v1/queue", ADMIN),
        await status.ask("/v1/queue"),
        await status.ask("/v1/nothing"),
    ):
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'self';")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] in {"no-store", "no-cache"}
        assert "Access-Control-Allow-Origin" not in answer.headers


async def test_no_token_and_no_query_is_written(status):
    """The log knows route, status and user, and neither a token nor what stood in the address."""
    with capture_logs() as lines:
        await status.ask("/v1/queue?limit=5", JANE)
        await status.ask("/v1/queue?secret=in-the-query", JANE)
        await status.ask("/v1/queue", "token-of-a-stranger")
        await status.ask("/v1/gangs/team-a/train", JANE)
    text = json.dumps(lines, default=str)

    assert {line["user"] for line in lines} == {"jane", ""}
    for secret in (JANE, "stranger", "in-the-query", "limit=5", "train"):
        assert secret not in text


async def test_requests_are_counted(status):
    """By route and status; whatever path is asked for, the number of series stays small."""
    await status.ask("/v1/queue", JANE)
    for n in range(20):
        await status.ask(f"/v1/strange-{n}", JANE)
    await status.ask("/style.css")
    counter = status.metrics.registry.get_sample_value
    name = "gangwright_status_requests_total"

    assert counter(name, {"route": "queue", "status": "200"}) == 1
    assert counter(name, {"route": "none", "status": "404"}) == 20
    assert counter(name, {"route": "page", "status": "200"}) == 1
