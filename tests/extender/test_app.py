"""The verbs over real sockets on loopback."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from scheduler.errors import SettingsError
from scheduler.extender import extender_app
from scheduler.extender.wire import TOO_MANY
from scheduler.model.decision import TEXT, Reason
from scheduler.model.verbs import Refused
from scheduler.serving import middleware
from scheduler.settings import VerbsServer
from scheduler.telemetry.metrics import Metrics
from tests.extender.support.raw import Raw, request
from tests.extender.support.scripted import Scripted, extender_args
from tests.extender.test_wire import preempt_args

ECHO = {
    "Nodes": None,
    "NodeNames": ["n1", "n2"],
    "FailedNodes": {},
    "FailedAndUnresolvableNodes": {},
    "Error": "",
}


@asynccontextmanager
async def served(verbs=None, settings=None, metrics=None, limit=None, **options):
    """A running server; gives its port."""
    settings = settings or VerbsServer()
    metrics = metrics or Metrics()
    built = extender_app.build_app(verbs or Scripted(), settings, metrics, limit)
    async with extender_app.serve(
        built, "127.0.0.1", 0, settings=settings, metrics=metrics, **options
    ) as port:
        yield port


@asynccontextmanager
async def connected(*arguments, **options):
    """A connection to a running server."""
    async with served(*arguments, **options) as port:
        raw = await Raw.to(port)
        try:
            yield raw
        finally:
            await raw.close()


async def test_a_call_is_answered_in_one_tcp_segment():
    """Headers and body of every reply leave together, and no newline follows."""
    async with connected() as raw:
        for number in range(1, 6):
            answer = await raw.ask(request(extender_args()))

            assert json.loads(answer.body) == ECHO
            assert raw.segments() == number
            assert not answer.body.endswith(b"\n")


async def test_one_connection_serves_many_calls():
    """The connection is kept alive, and each verb answers on it."""
    async with connected() as raw:
        paths = ["/v1/filter", "/v1/prioritize", "/v1/filter", "/v1/prioritize"]

        answers = [await raw.ask(request(extender_args(), path)) for path in paths]

    assert [answer.status for answer in answers] == [200] * 4
    assert json.loads(answers[1].body) == [{"Host": "n1", "Score": 5}, {"Host": "n2", "Score": 5}]
    assert all("Connection" not in answer.headers for answer in answers)
    assert all("Transfer-Encoding" not in answer.headers for answer in answers)
    assert all("Content-Encoding" not in answer.headers for answer in answers)


async def test_nagle_is_off():
    """The server's side of a connection sends without waiting for acknowledgements."""
    async with served() as port:
        raw = await Raw.to(port)
        await raw.ask(request(extender_args()))
        transports = list(asyncio.get_running_loop()._transports.values())
        sockets = [transport.get_extra_info("socket") for transport in transports]
        flags = [
            sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            for sock in sockets
            if sock and sock.getsockname()[1] == port
        ]
        await raw.close()

    assert flags == [1]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request(b"{}", "/v1/nothing"), 404),
        (request(b"{}", "//filter"), 404),
        (request(b"{}", "/filter"), 404),
        (request(b"", "/v1/filter", "GET"), 405),
        (request(b"{}", "/v1/filter", "PUT"), 405),
        (request(b"{}", headers={"Content-Type": "text/plain"}), 415),
        (request(b"{}", headers={"Content-Type": ""}), 415),
        (request(b"{}", headers={"Content-Encoding": "gzip"}), 415),
    ],
)
async def test_what_kube_scheduler_never_sends_has_a_status_of_its_own(sent, status):
    """A wrong path, method or content type gets the status and short JSON, and reaches no verb."""
    verbs = Scripted()
    async with connected(verbs) as raw:
        answer = await raw.ask(sent)

    assert answer.status == status
    assert set(json.loads(answer.body)) == {"error"}
    assert len(answer.body) < 100
    assert verbs.asked == []


async def test_a_wrong_method_is_told_the_right_one():
    """405 says which method is allowed."""
    async with connected() as raw:
        answer = await raw.ask(request(method="DELETE"))

    assert answer.headers["Allow"] == "POST"


@pytest.mark.parametrize("path", ["/v1/filter", "/v1/prioritize"])
@pytest.mark.parametrize("sent", [b"", b"{", b"null", b"[1]", b'{"Pod":{}}', b"\xff\xfe"])
async def test_a_broken_body_is_an_error_that_kube_scheduler_shows(path, sent):
    """The status is 200, because kube-scheduler discards the body of any other."""
    async with connected() as raw:
        answer = await raw.ask(request(sent, path))

    assert answer.status == 200
    assert json.loads(answer.body)["Error"].startswith("the body is not a valid extender call")


async def test_an_error_of_preempt_is_a_veto():
    """kube-scheduler reads no error from this verb; no candidate is what stops it from preempting."""
    async with connected() as raw:
        answer = await raw.ask(request(b"{", "/v1/preempt"))

    assert json.loads(answer.body)["NodeNameToMetaVictims"] == {}


async def test_a_failing_engine_is_an_error_with_a_constant_text():
    """No traceback, no status 500; the log has the cause."""

    def fail(_call):
        raise ZeroDivisionError("secret detail")

    with capture_logs() as lines:
        async with connected(Scripted(on_filter=fail)) as raw:
            answer = await raw.ask(request(extender_args()))

    assert answer.status == 200
    assert json.loads(answer.body)["Error"] == middleware.BROKEN
    assert b"secret" not in answer.body
    assert [line["event"] for line in lines] == ["endpoint failed", "answered"]


async def test_a_repeated_refusal_is_byte_identical():
    """A text that varied would make kube-scheduler ask again without end."""
    asked = request(extender_args([f"n{number}" for number in range(2000)]))
    async with connected(Scripted(on_filter=lambda _: Refused(Reason.INSUFFICIENT_RESOURCES))) as raw:
        answers = {(await raw.ask(asked)).body for _ in range(4)}

    (only,) = answers
    assert set(json.loads(only)["FailedAndUnresolvableNodes"].values()) == {
        TEXT[Reason.INSUFFICIENT_RESOURCES]
    }


async def test_a_half_body_is_answered_when_time_is_over():
    """A body that never ends costs its sender the connection, and us half of httpTimeout."""
    settings = VerbsServer(http_timeout=0.1)
    async with connected(settings=settings) as raw:
        answer = await raw.ask(request(extender_args())[:-5])

        assert json.loads(answer.body)["Error"] == extender_app.TOO_SLOW
        assert answer.headers["Connection"] == "close"


async def test_an_endless_chunked_body_is_cut_at_the_limit():
    """Chunks are counted as they come, so what is kept never exceeds the limit by more than one read."""
    async with connected(limit=lambda: extender_app.Limits(1000)) as raw:
        head = request(headers={"Content-Length": "", "Transfer-Encoding": "chunked"})
        chunk = b"400\r\n" + b" " * 1024 + b"\r\n"

        answer = await raw.ask(head, chunk, chunk)

        assert json.loads(answer.body)["Error"] == extender_app.TOO_LARGE
        assert answer.headers["Connection"] == "close"


async def test_a_body_that_says_it_is_too_large_is_not_read():
    """The answer comes at once, and says what is usually the cause."""
    async with connected(limit=lambda: extender_app.Limits(1000)) as raw:
        answer = await raw.ask(request(headers={"Content-Length": "100000000"}))

        assert json.loads(answer.body)["Error"] == extender_app.TOO_LARGE
        assert "nodeCacheCapable: true" in extender_app.TOO_LARGE


async def test_all_bodies_together_are_bounded():
    """Many half bodies do not add up: the one that goes beyond the budget is given up, and its room is free again."""
    settings = VerbsServer(body_limit=2**20, http_timeout=20)
    half = request(b" " * 600_000, headers={"Content-Length": "1000000"})
    async with served(settings=settings) as port:
        first, second = await Raw.to(port), await Raw.to(port)
        await first.send(half)
        answers = [asyncio.create_task(raw.answer()) for raw in (first, second)]
        await second.send(half)
        done, waiting = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
        third = await Raw.to(port)
        fresh = await third.ask(request(extender_args()))

        for task in waiting:
            task.cancel()
        for raw in (first, second, third):
            await raw.close()
    assert [json.loads(task.result().body)["Error"] for task in done] == [extender_app.CROWDED]
    assert json.loads(fresh.body) == ECHO


async def test_the_beginning_of_a_body_counts_while_the_rest_is_waited_for():
    """Whoever sends a little of a body and then nothing has that little counted: no second part has to come."""
    settings = VerbsServer(body_limit=10_000, http_timeout=20)
    begun = request(b" " * 3000, headers={"Content-Length": "4000"})
    async with served(settings=settings) as port:
        callers = [await Raw.to(port) for _ in range(5)]
        answers = [asyncio.create_task(raw.answer()) for raw in callers]
        for raw in callers:
            await raw.send(begun)
        done, waiting = set[asyncio.Task](), set(answers)
        async with asyncio.timeout(10):
            while len(done) < 2:
                more, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                done |= more
        assert len(waiting) == 3
        for task in waiting:
            task.cancel()
        for raw in callers:
            await raw.close()
    assert {json.loads(task.result().body)["Error"] for task in done} == {extender_app.CROWDED}


async def test_a_chunked_body_is_read():
    """A body without a declared length is as good as any."""
    whole = extender_args()
    async with connected() as raw:
        head = request(headers={"Content-Length": "", "Transfer-Encoding": "chunked"})
        half = len(whole) // 2
        parts = [b"%x\r\n%s\r\n" % (len(part), part) for part in (whole[:half], whole[half:], b"")]

        answer = await raw.ask(head, *parts)

    assert json.loads(answer.body) == ECHO


async def test_broken_chunks_are_an_error():
    """Chunks that are none end the call: at once when they come with the head, else when time is over."""
    head = request(headers={"Content-Length": "", "Transfer-Encoding": "chunked"})
    settings = VerbsServer(http_timeout=0.2)
    async with connected(settings=settings) as raw:
        at_once = await raw.ask(head, b"5\r\nabcde\r\nzz\r\n")
    async with connected(settings=settings) as raw:
        await raw.send(head, b"5\r\nabcde\r\n")
        await asyncio.sleep(0.02)  # a segment of its own
        later = await raw.ask(b"zz\r\n")

    assert at_once.status == 400
    assert json.loads(later.body)["Error"] == extender_app.TOO_SLOW


async def test_a_slow_head_is_cut():
    """Whoever does not finish the head of a request in time loses the connection."""
    metrics = Metrics()
    async with connected(metrics=metrics, head_limit=0.05) as raw:
        await raw.send(b"POST /v1/filter HTTP/1.1\r\nHost: x\r\nX-Slow: ")

        assert await raw.ended()
    assert metrics.registry.get_sample_value("gangwright_connections_closed_total", {"cause": "slow"}) == 1


async def test_an_idle_connection_is_not_a_slow_one():
    """The time for a head begins with its first byte, not with the connection."""
    async with connected(head_limit=0.02) as raw:
        await asyncio.sleep(0.06)
        first = await raw.ask(request(extender_args()))
        await asyncio.sleep(0.06)
        second = await raw.ask(request(extender_args()))

    assert first.body == second.body


async def test_kube_scheduler_gets_in_when_connections_run_out():
    """With all places taken, one that never asked gives way; the one in use keeps its own."""
    async with served(settings=VerbsServer(connections=4)) as port:
        ours = await Raw.to(port)
        await ours.ask(request(extender_args()))
        idle = [await Raw.to(port) for _ in range(8)]
        newcomer = await Raw.to(port)

        fresh = await newcomer.ask(request(extender_args()))
        again = await ours.ask(request(extender_args()))
        cut = [await raw.ended() for raw in idle[:6]]

        for raw in (ours, newcomer, *idle):
            await raw.close()
    assert fresh.status == again.status == 200
    assert all(cut)


async def test_garbage_is_no_request():
    """Bytes that are not HTTP get 400 and no more."""
    async with connected() as raw:
        answer = await raw.ask(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")

        assert answer.status == 400
        assert b"Traceback" not in answer.body


@pytest.mark.parametrize("length", ["-1", "3\r\nContent-Length: 4", "many"])
async def test_a_head_that_is_not_http_is_a_warning(length, caplog):
    """Whoever sends it gets 400; for us it is one line without a traceback, and no failure of ours."""
    head = f"POST /v1/filter HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"
    with capture_logs() as lines:
        async with connected() as raw:
            answer = await raw.ask(head.encode())

    assert answer.status == 400
    assert [(line["event"], line["log_level"]) for line in lines] == [("not HTTP", "warning")]
    assert lines[0]["error"]
    assert caplog.records == []


async def test_every_call_has_one_line_and_one_count():
    """The canonical line and the counters tell verb, result and reason."""
    metrics = Metrics()
    with capture_logs() as lines:
        async with connected(Scripted(on_filter=lambda _: Refused(Reason.QUEUED)), metrics=metrics) as raw:
            await raw.ask(request(extender_args()))

    (line,) = lines
    took = line.pop("ms")
    assert line == {
        "event": "answered",
        "verb": "filter",
        "result": "refused",
        "reason": "Queued",
        "pod": "team-a/train-0",
        "candidates": 2,
        "left": 0,
        "kind": ("filter", "Queued"),
        "log_level": "info",
    }
    assert took >= 0
    for name, labels in [
        ("verb_total", {"verb": "filter", "result": "refused"}),
        ("answers_total", {"verb": "filter", "reason": "Queued"}),
        ("verb_duration_seconds_count", {"verb": "filter"}),
    ]:
        assert metrics.registry.get_sample_value(f"gangwright_{name}", labels) == 1


async def test_a_taken_port_is_told_with_the_setting():
    """Two servers cannot have one port; the error names the setting to change."""
    async with served() as port:
        with pytest.raises(SettingsError, match=r"verbs\.port"):
            async with extender_app.serve(
                extender_app.build_app(Scripted(), VerbsServer(), Metrics()), "127.0.0.1", port
            ):
                raise AssertionError("served")


def test_the_body_limit_follows_the_cluster_up_to_the_setting():
    """Names of all nodes and all pods as victims fit; the setting is never exceeded."""
    assert extender_app.limits(0, 0, 2**26).body == 4 * 2**20
    assert extender_app.limits(5000, 50_000, 2**26).body >= 5000 * 256 + 50_000 * 60
    assert extender_app.limits(10**9, 10**9, 2**26).body == 2**26


def test_candidates_follow_the_cluster():
    """Twice the nodes that we know of, so that kube-scheduler may know of some before we do."""
    assert extender_app.limits(5000, 0, 2**26).candidates >= 2 * 5000
    assert extender_app.limits(0, 0, 2**26).candidates > 0


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt"])
async def test_far_more_candidates_than_nodes_are_refused(verb):
    """No time is spent on names that the cluster cannot have; the call is an error, and the verb is not asked."""
    names = [f"n{number}" for number in range(1001)]
    body = preempt_args(meta=dict.fromkeys(names)) if verb == "preempt" else extender_args(names)
    verbs = Scripted()
    async with connected(verbs=verbs, limit=lambda: extender_app.Limits(2**22, 1000)) as raw:
        refused = json.loads((await raw.ask(request(body, path=f"/v1/{verb}"))).body)
        fewer = body.replace(b'"n1000"', b'"n999"') if verb != "preempt" else preempt_args(meta={"n1": None})
        taken = await raw.ask(request(fewer, path=f"/v1/{verb}"))

    assert refused["Error"] == TOO_MANY
    assert taken.status == 200
    assert "Error" not in json.loads(taken.body) or not json.loads(taken.body)["Error"]


async def test_names_too_long_for_so_few_candidates_are_not_decoded():
    """A list of 300 names in bytes that two candidates could never take."""
    async with connected(limit=lambda: extender_app.Limits(2**22, 2)) as raw:
        answer = await raw.ask(request(extender_args(["n" * 250] * 300)))

    assert json.loads(answer.body)["Error"] == TOO_MANY
