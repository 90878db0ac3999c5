"""The client: one session, and refusals in our own words."""

import asyncio
from pathlib import Path

import pytest

import scheduler
from scheduler import errors
from scheduler.kube import client as room
from scheduler.kube.client import Client
from scheduler.kube.credentials import find_access
from scheduler.objects.patches import STRATEGIC
from tests.kube.support.api_server import PODS, ApiServer, Refuse, line, status_body
from tests.kube.support.follower import Time, until
from tests.kube.support.kubeconfig import kubeconfig

TABLE = {
    302: errors.KubeError,
    400: errors.Invalid,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.KubeError,
    409: errors.Conflict,
    410: errors.Gone,
    422: errors.Invalid,
    429: errors.TooManyRequests,
    500: errors.ServerError,
    503: errors.ServerError,
    504: errors.ServerError,
}


@pytest.mark.parametrize(("status", "kind"), TABLE.items())
async def test_every_refusal_has_its_class(api: ApiServer, client: Client, status: int, kind: type) -> None:
    """A status becomes exactly one class of the tree, with the server's message, reason and causes."""
    body = status_body(status, "told why", "TheReason", ("DisruptionBudget",))
    api.refusals.append(Refuse(status, {"Location": "/elsewhere"}, body))
    with pytest.raises(errors.KubeError) as caught:
        await client.request("POST", "/x", body=b"{}")
    error = caught.value
    assert type(error) is kind
    assert (error.status, error.reason, error.causes) == (status, "TheReason", ("DisruptionBudget",))
    assert str(error) == f"POST /x: {status} TheReason: told why"
    assert len(api.calls) == 1


@pytest.mark.parametrize(("status", "kind"), TABLE.items())
async def test_a_refused_stream_has_its_class_too(
    api: ApiServer, client: Client, status: int, kind: type
) -> None:
    """Opening a stream raises what a request would."""
    api.refusals.append(Refuse(status))
    with pytest.raises(errors.KubeError) as caught:
        async with client.stream(PODS):
            pass
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    "body", [b"", b"<html>proxy page</html>", b"[]", b'{"details": 5}', b"[" * 60_000, b"x" * 10**6]
)
async def test_a_refusal_without_a_status_object_is_read_too(
    api: ApiServer, client: Client, body: bytes
) -> None:
    """What is no Status object adds nothing to the text and breaks nothing."""
    api.refusals.append(Refuse(502, body=body))
    with pytest.raises(errors.ServerError, match=r"^GET /x: 502$"):
        await client.request("GET", "/x")


@pytest.mark.parametrize(("status", "body"), [(200, b"{}"), (404, b'{"error": "no such gang"}'), (401, b"")])
async def test_an_exchange_gives_whatever_is_answered(
    api: ApiServer, client: Client, status: int, body: bytes
) -> None:
    """Status and body as they are: what answers behind the API server has refusals of its own form."""
    api.refusals.append(Refuse(status, {"Gangwright-Replica": "active"}, body))
    answer = await client.exchange("POST", "/apis/x/v1/y", params={"a": "b"}, body=b"{}")
    assert (answer.status, answer.body, answer.headers["gangwright-replica"]) == (status, body, "active")
    (call,) = api.calls
    assert (call.method, call.path, call.query, call.body) == ("POST", "/apis/x/v1/y", {"a": "b"}, b"{}")


async def test_an_exchange_is_bounded(api: ApiServer, client: Client) -> None:
    """An answer of more bytes than are read is an error, and so is none."""
    api.refusals.append(Refuse(200, body=b"x" * 100))
    with pytest.raises(errors.TooLong):
        await client.exchange("GET", "/x", most=99)
    await api.stop()
    with pytest.raises(errors.Unreachable):
        await client.exchange("GET", "/x")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("3", 3.0), (" 7 ", 7.0), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("-1", None), ("9" * 400, None)],
)
async def test_retry_after_is_whole_seconds(
    api: ApiServer, client: Client, header: str, seconds: float | None
) -> None:
    """The server's wish is kept when it is a number of seconds, and dropped when it is anything else."""
    api.refusals.append(Refuse(429, {"Retry-After": header}))
    with pytest.raises(errors.TooManyRequests) as caught:
        await client.request("GET", "/x")
    assert caught.value.retry_after == seconds


async def test_a_request_carries_what_it_was_given(api: ApiServer, client: Client) -> None:
    """Method, path, parameters, body and content type arrive unchanged, with our own User-Agent."""
    api.put("a")
    await client.request(
        "PATCH",
        f"{PODS}/a",
        params={"fieldManager": "gangwright"},
        body=b'{"metadata": {}}',
        content_type=STRATEGIC,
    )
    call = api.calls[0]
    assert (call.method, call.path, call.query) == ("PATCH", f"{PODS}/a", {"fieldManager": "gangwright"})
    assert call.body == b'{"metadata": {}}'
    assert call.headers["content-type"] == STRATEGIC
    assert call.headers["user-agent"] == f"gangwright/{scheduler.__version__}"
    assert call.headers["accept-encoding"] == "identity"


async def test_a_path_prefix_of_the_server_is_kept(api: ApiServer, tmp_path: Path) -> None:
    """A server address with a path, as gateways have it, stays in front of every path."""
    async with Client(await find_access(kubeconfig(tmp_path, f"{api.url}/k8s/c-1/"))) as client:
        with pytest.raises(errors.NotFound):
            await client.request("GET", PODS)
    assert api.calls[0].path == f"/k8s/c-1{PODS}"


async def test_no_answer_is_unreachable(api: ApiServer, client: Client) -> None:
    """A refused connection is Unreachable, with the cause chained."""
    await api.stop()
    with pytest.raises(errors.Unreachable) as caught:
        await client.request("GET", "/x")
    assert isinstance(caught.value.__cause__, OSError)
    assert str(caught.value).startswith("GET /x: no answer (")


async def test_a_late_answer_is_unreachable(api: ApiServer, client: Client) -> None:
    """A call that takes longer than its timeout has no answer."""
    api.refusals.append(Refuse(200, seconds=30))
    with pytest.raises(errors.Unreachable):
        await client.request("GET", "/x", timeout=0.05)


async def test_a_closed_client_is_unreachable(api: ApiServer, client: Client) -> None:
    """After `close` every call fails like one without an answer."""
    api.put("a")
    await client.request("GET", f"{PODS}/a")
    await client.close()
    with pytest.raises(errors.Unreachable, match="closed"):
        await client.request("GET", f"{PODS}/a")


async def test_the_last_answer_is_a_sign_of_life(api: ApiServer, tmp_path: Path) -> None:
    """Answers of an API server at work set `last_answer`, refusals for its own trouble and silence do not."""
    time = Time()
    async with Client(await find_access(kubeconfig(tmp_path, api.url)), clock=time) as client:
        assert client.last_answer == float("-inf")
        for status, alive in {
            500: False,
            429: False,
            401: False,
            403: False,
            404: True,
            409: True,
            200: True,
        }.items():
            time.now += 1
            api.refusals.append(Refuse(status))
            await asyncio.gather(client.request("GET", "/x"), return_exceptions=True)
            assert (client.last_answer == time.now) is alive, status


async def test_a_stream_yields_what_arrives_and_is_a_sign_of_life(api: ApiServer, tmp_path: Path) -> None:
    """Chunks come as they arrive, each moves `last_answer`, and the end of the stream ends the iteration."""
    time = Time()
    api.objects[PODS] = {}
    heard = b""
    async with Client(await find_access(kubeconfig(tmp_path, api.url)), clock=time) as client:
        async with client.stream(PODS, {"watch": "1", "resourceVersion": "100"}) as chunks:
            await until(lambda: bool(api.streams))
            time.now += 5
            api.put("a")
            api.finish()
            async for chunk in chunks:
                heard += chunk
        assert client.last_answer == time.now
    assert heard == line("ADDED", api.objects[PODS]["team", "a"])


async def test_a_silent_stream_is_silent_not_broken(api: ApiServer, client: Client) -> None:
    """A stream without a byte for the inactivity limit raises Silent."""
    with pytest.raises(errors.Silent):
        async with client.stream(PODS, {"watch": "1", "resourceVersion": "100"}, inactivity=0.05) as chunks:
            async for _ in chunks:
                pass


@pytest.mark.slow
async def test_a_stream_whose_other_end_is_gone_breaks(
    api: ApiServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that vanishes without a word is known to be gone long before the silence on its stream has become
    too long.
    """
    monkeypatch.setattr(room, "PROBES", {"TCP_KEEPIDLE": 1, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 1})
    with pytest.raises(errors.Unreachable) as caught:
        async with client.stream(PODS, {"watch": "1", "resourceVersion": "100"}, inactivity=10.0) as chunks:
            api.vanish()
            async for _ in chunks:
                pass
    assert not isinstance(caught.value, errors.Silent)


async def test_an_error_of_the_caller_passes_through_a_stream(api: ApiServer, client: Client) -> None:
    """An OSError raised by the reader of a stream is not taken for one of the network."""
    with pytest.raises(OSError, match="of the reader") as caught:
        async with client.stream(PODS, {"watch": "1", "resourceVersion": "100"}):
            raise OSError("of the reader")
    assert not isinstance(caught.value, errors.KubeError)


async def test_connections_are_bounded_and_kept(api: ApiServer, tmp_path: Path) -> None:
    """Calls in parallel use no more connections than allowed; none is refused."""
    api.put("a")
    async with Client(await find_access(kubeconfig(tmp_path, api.url)), connections=2) as client:
        await asyncio.gather(*(client.request("GET", f"{PODS}/a") for _ in range(20)))
    assert len(api.calls) == 20
    assert len({call.peer for call in api.calls}) <= 2
