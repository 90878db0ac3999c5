"""The status service as a group of the Kubernetes API: over TLS on loopback, asked as the API server asks."""

import asyncio
import base64
import json
import ssl
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest

from bench.plane.certificates import FRONT_PROXY, Authority, Identity
from bench.plane.ports import Ports
from scheduler.clock import steady
from scheduler.errors import NotFound, Unreachable
from scheduler.service import aggregated_api
from scheduler.service.aggregated_api import API_SERVICE, keep_serving
from scheduler.service.status_server import StatusService
from scheduler.serving import certificate_store
from scheduler.serving.certificate_store import Secret, settled
from scheduler.settings import Aggregation, StatusServer
from scheduler.status.api_group import API_PREFIX, REPLICA
from scheduler.status.request_headers import CONFIG_MAP
from scheduler.telemetry.metrics import Metrics
from tests.elastic.rendezvous.support.served import ApiServer
from tests.status.support.reviewing import everybody
from tests.status.support.scene import a_scene

NAME = "gangwright-api.gangwright-system.svc"
JANE = {"X-Remote-User": "jane"}


class Cluster(ApiServer):
    """The API server: the ConfigMap in which it says who it is, an APIService, Secrets, and reviews."""

    def __init__(self, authority, reviewing):
        super().__init__()
        self.reviewing = reviewing
        self.bundle = ""
        self.registered = True
        self.looks = 0
        self.config = {
            "requestheader-client-ca-file": authority.certificate_file.read_text(),
            "requestheader-allowed-names": json.dumps([FRONT_PROXY.user]),
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
        }

    async def request(self, method, path, *, params=None, body=None, content_type="", timeout=0.0):
        if path == CONFIG_MAP:
            self.looks += 1
            if self.away:
                raise Unreachable(f"{method} {path}", "as scripted")
            return json.dumps({"data": self.config}).encode()
        if path == API_SERVICE:
            if not self.registered:
                raise NotFound(f"{method} {path}", "", status=404)
            if method == "PATCH":
                self.bundle = json.loads(body)["spec"]["caBundle"]
            return json.dumps({"spec": {"caBundle": self.bundle}}).encode()
        if "reviews" in path:
            return await self.reviewing.request(method, path, body=body)
        return await super().request(method, path, body=body)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("front-proxy"))


@pytest.fixture
def cluster(proxy):
    return Cluster(proxy, everybody())


class Running:
    """The service on a port, and who asks it."""

    def __init__(self, cluster, proxy, port):
        self.cluster, self.proxy, self.port = cluster, proxy, port

    async def ask(self, path, headers=JANE, identity=FRONT_PROXY, authority=None):
        """Ask as the API server does: by the bundle of the APIService and under the Service's name."""
        bundle = base64.b64decode(self.cluster.bundle).decode()
        context = ssl.create_default_context(cadata=bundle)
        if identity is not None:
            context.load_cert_chain(*(authority or self.proxy).client(identity))
        url = f"https://127.0.0.1:{self.port}{path}"
        async with (
            aiohttp.ClientSession() as session,
            session.get(url, headers=headers, ssl=context, server_hostname=NAME) as answer,
        ):
            return answer.status, await answer.json(), answer.headers

    async def registered(self):
        async with asyncio.timeout(20):
            while not self.cluster.bundle:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def running(cluster, proxy, *, acting=True):
    port = Ports.loose()
    engine = a_scene(acting=acting).engine
    engine.ledger.acting = acting
    service = StatusService(StatusServer(), engine, cluster, Metrics(), dict)
    settings = Aggregation(serve=True, host="127.0.0.1", port=port)
    task = asyncio.create_task(keep_serving(settings, service, cluster, "gangwright-system"))
    try:
        yield Running(cluster, proxy, port)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_the_api_server_says_who_asks(cluster, proxy):
    """The user of its headers sees what its rights show, as by every other road; no token is reviewed."""
    async with running(cluster, proxy) as service:
        await service.registered()
        status, gangs, headers = await service.ask(f"{API_PREFIX}/v1/gangs")
        unknown, *_ = await service.ask(f"{API_PREFIX}/v1/gangs", headers={})
        outside, *_ = await service.ask("/v1/gangs")

    assert status == 200
    assert {row["namespace"] for row in gangs["gangs"]} == {"team-a", None}
    assert headers[REPLICA] == "active"
    assert (unknown, outside) == (401, 404)


async def test_discovery_names_the_group_and_no_resource(cluster, proxy):
    """The API server asks for it, without a user, to see that the service is there. Nothing in it can be listed."""
    async with running(cluster, proxy) as service:
        await service.registered()
        status, found, _ = await service.ask(f"{API_PREFIX}/v1", headers={})

    assert status == 200
    assert (found["kind"], found["groupVersion"], found["resources"]) == (
        "APIResourceList",
        "status.gangwright.io/v1",
        [],
    )


@pytest.mark.parametrize("identity", [None, Identity("jane"), "foreign"])
async def test_another_client_is_refused_in_the_handshake(cluster, proxy, tmp_path, identity):
    """Without a certificate, with one of another name, and with one of another authority: headers say nothing then."""
    authority = Authority(tmp_path) if identity == "foreign" else proxy
    asked_as = FRONT_PROXY if identity == "foreign" else identity
    async with running(cluster, proxy) as service:
        await service.registered()
        with pytest.raises(aiohttp.ClientError):
            await service.ask(f"{API_PREFIX}/v1/gangs", identity=asked_as, authority=authority)


async def test_a_standby_closes_its_connection(cluster, proxy):
    """So the next request may reach the replica that is active."""
    async with running(cluster, proxy, acting=False) as service:
        await service.registered()
        status, _, headers = await service.ask(f"{API_PREFIX}/v1/gangs")

    assert (status, headers[REPLICA], headers["Connection"]) == (200, "standby", "close")


async def test_a_user_may_be_in_many_groups(cluster, proxy):
    """The API server sends a header for each."""
    many = [("X-Remote-User", "jane"), *(("X-Remote-Group", f"group-{number}") for number in range(1000))]
    async with running(cluster, proxy) as service:
        await service.registered()
        status, *_ = await service.ask(f"{API_PREFIX}/v1/cluster", headers=many)

    assert status == 200


async def test_what_fails_is_tried_again(cluster, proxy, monkeypatch):
    """Without an APIService, or without a word of the API server on itself, it goes on trying, and then serves."""
    monkeypatch.setattr(aggregated_api, "LOOK_EVERY", 0.01)
    said, cluster.config, cluster.registered = cluster.config, {}, False
    async with running(cluster, proxy) as service:
        await asyncio.sleep(0.05)
        cluster.config = said
        await asyncio.sleep(0.1)
        assert cluster.bundle == ""
        cluster.registered = True
        await service.registered()
        async with asyncio.timeout(20):
            while (await service.ask(f"{API_PREFIX}/v1/cluster"))[0] != 200:
                await asyncio.sleep(0.01)


async def test_another_authority_of_the_api_server_is_taken_up(cluster, proxy, tmp_path, monkeypatch):
    """Its certificates are renewed now and then; the old ones open nothing from then on."""
    monkeypatch.setattr(aggregated_api, "LOOK_EVERY", 0.01)
    fresh = Authority(tmp_path)
    async with running(cluster, proxy) as service:
        await service.registered()
        cluster.config = {
            **cluster.config,
            "requestheader-client-ca-file": fresh.certificate_file.read_text(),
        }
        async with asyncio.timeout(20):
            while True:
                with suppress(aiohttp.ClientError):
                    if (await service.ask(f"{API_PREFIX}/v1/cluster", authority=fresh))[0] == 200:
                        break
                await asyncio.sleep(0.01)
        with pytest.raises(aiohttp.ClientError):
            await service.ask(f"{API_PREFIX}/v1/cluster", authority=proxy)


async def test_an_outage_of_the_api_server_ends_no_connection(cluster, proxy, monkeypatch):
    """What was known of it goes on: another API server may pass requests on meanwhile."""
    monkeypatch.setattr(aggregated_api, "LOOK_EVERY", 0.01)
    async with running(cluster, proxy) as service:
        await service.registered()
        cluster.away, looks = True, cluster.looks
        async with asyncio.timeout(20):
            while cluster.looks < looks + 3:
                await asyncio.sleep(0.01)
        status, *_ = await service.ask(f"{API_PREFIX}/v1", headers={})

    assert status == 200


async def test_the_authority_that_is_kept_now_is_registered(cluster, proxy, monkeypatch):
    """A Secret that was emptied and filled by another replica: both come to tell the same authority."""
    monkeypatch.setattr(aggregated_api, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(certificate_store, "LOOK_EVERY", 0.01)
    async with running(cluster, proxy) as service:
        await service.registered()
        before = cluster.bundle
        other = ApiServer()
        store = Secret(
            other, "gangwright-system", "gangwright-api-tls", section="aggregation", owner="gangwright-api"
        )
        await settled(store, [NAME], steady())
        (kept,) = other.secrets.values()
        kept["metadata"]["resourceVersion"] = "100"
        cluster.secrets["gangwright-api-tls"] = kept
        async with asyncio.timeout(20):
            while cluster.bundle == before:
                await asyncio.sleep(0.01)

    assert cluster.bundle == kept["data"]["ca.crt"]
