"""Client certificates of the cluster's authority, over TLS on loopback: a user and his groups without a token."""

import dataclasses
import ssl
from contextlib import AsyncExitStack

import aiohttp
import pytest

from bench.plane import certificates
from bench.plane.certificates import Identity
from scheduler.serving import server
from scheduler.serving.listener import Listener
from scheduler.settings import StatusServer
from scheduler.status.authorization import Subject, holder
from tests.extender.support.raw import Raw
from tests.status.support.reviewing import ADMIN, JANE, everybody
from tests.status.support.scene import a_scene
from tests.status.support.served import served

JANE_HERSELF = Identity("jane", ("research", "night-shift"))


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return certificates.Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return certificates.Authority(tmp_path_factory.mktemp("stranger"))


@pytest.fixture(scope="module")
def world():
    return a_scene()


@pytest.fixture
def settings(authority):
    cert, key = authority.server()
    return StatusServer(cert=str(cert), key=str(key), client_ca=str(authority.certificate_file))


def without_certificate(authority):
    return ssl.create_default_context(cafile=str(authority.certificate_file))


async def test_a_certificate_names_its_holder(world, authority, settings):
    """The common name is the user, the organizations are his groups, and the cluster's RBAC decides."""
    reviewing = everybody()
    reviewing.rights.add(("group:night-shift", "list", "pods", "team-b"))
    async with served(
        world.engine, reviewing, settings=settings, tls=authority.context(JANE_HERSELF)
    ) as running:
        cluster = await running.ask("/v1/cluster")
        gangs = await running.ask("/v1/gangs")

    assert cluster.json["user"] == "jane"
    assert {row["namespace"] for row in gangs.json["gangs"]} == {"team-a", "team-b"}
    asked = reviewing.asked[0][1]
    assert asked["groups"] == ["research", "night-shift", "system:authenticated"]


async def test_a_token_counts_before_a_certificate(world, authority, settings):
    """Who shows both is the token's holder; a bad token is not made good by a certificate."""
    async with served(
        world.engine, everybody(), settings=settings, tls=authority.context(JANE_HERSELF)
    ) as running:
        both = await running.ask("/v1/cluster", ADMIN)
        bad = await running.ask("/v1/cluster", "foreign")

    assert both.json["user"] == "admin"
    assert bad.status == 401


async def test_without_a_certificate_a_token_will_do(world, authority, settings):
    """TLS asks for a certificate and does not insist."""
    tls = without_certificate(authority)
    async with served(world.engine, everybody(), settings=settings, tls=tls) as running:
        page = await running.ask("/")
        nobody = await running.ask("/v1/cluster")
        jane = await running.ask("/v1/cluster", JANE)

    assert (page.status, nobody.status, jane.status) == (200, 401, 200)


async def test_a_foreign_authority_s_certificate_is_refused(world, authority, stranger, settings):
    """In the handshake: no request gets through."""
    tls = without_certificate(authority)
    tls.load_cert_chain(*stranger.client(JANE_HERSELF))
    async with served(world.engine, everybody(), settings=settings, tls=tls) as running:
        with pytest.raises(aiohttp.ClientError):
            await running.ask("/v1/cluster")


async def test_without_an_authority_no_certificate_counts(world, authority, settings):
    """Then tokens alone say who somebody is."""
    own = dataclasses.replace(settings, client_ca="")
    tls = authority.context(JANE_HERSELF)
    async with served(world.engine, everybody(), settings=own, tls=tls) as running:
        assert (await running.ask("/v1/cluster")).status == 401
        assert (await running.ask("/v1/cluster", JANE)).status == 200


CERTIFICATE = {
    "subject": ((("organizationName", "a"),), (("organizationName", "b"),), (("commonName", "jane"),)),
    "notAfter": "Jan  1 00:00:00 2030 GMT",
}
NEW_YEAR = ssl.cert_time_to_seconds(CERTIFICATE["notAfter"])


def test_a_certificate_that_has_ended_names_nobody():
    """Also on a connection that was made while it was good."""
    jane = Subject("jane", ("a", "b", "system:authenticated"))

    assert holder(CERTIFICATE, NEW_YEAR - 1) == jane
    assert holder(CERTIFICATE, NEW_YEAR + 1) is None


@pytest.mark.parametrize(
    "certificate", [None, {}, {**CERTIFICATE, "subject": ((("organizationName", "a"),),)}]
)
def test_without_a_common_name_nobody_is_named(certificate):
    """No certificate, an empty one, and one without a user."""
    assert holder(certificate, 0.0) is None


async def test_who_shows_neither_is_a_stranger(world, authority, settings, monkeypatch):
    """A certificate or a token makes a connection known; one that only reads the page has to come again in a while."""
    made = []
    monkeypatch.setattr(
        server, "Listener", lambda *args, **own: made.append(Listener(*args, **own)) or made[-1]
    )
    asking = {
        "certificate": (authority.context(JANE_HERSELF), "/v1/cluster", ""),
        "token": (without_certificate(authority), "/v1/cluster", f"Authorization: Bearer {JANE}\r\n"),
        "neither": (without_certificate(authority), "/openapi.json", ""),
    }
    async with served(world.engine, everybody(), settings=settings) as running, AsyncExitStack() as stack:
        left = {}
        for name, (tls, path, header) in asking.items():
            raw = await Raw.to(running.port, ssl=tls)
            stack.push_async_callback(raw.close)
            answer = await raw.ask(f"GET {path} HTTP/1.1\r\nHost: a\r\n{header}\r\n".encode())
            assert answer.status == 200
            left[name] = len(made[0].strangers)
    assert left == {"certificate": 0, "token": 0, "neither": 1}


async def test_silent_connections_are_bounded_by_the_service_s_own_setting(
    world, authority, settings, monkeypatch
):
    """With TLS each holds memory from its acceptance: `status.connections` counts all, and a user gets in."""
    made = []
    monkeypatch.setattr(
        server, "Listener", lambda *args, **own: made.append(Listener(*args, **own)) or made[-1]
    )
    own = dataclasses.replace(settings, connections=8)
    tls = without_certificate(authority)
    async with served(world.engine, everybody(), settings=own, tls=tls) as running, AsyncExitStack() as stack:
        silent = []
        for _ in range(40):
            silent.append(await Raw.to(running.port))
            stack.push_async_callback(silent[-1].close)
        assert (await running.ask("/v1/cluster", JANE)).status == 200
        assert len(made[0].open) <= 8
