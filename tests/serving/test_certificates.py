"""The certificates that we make: what they say, when they are made anew, and where they are kept."""

import asyncio
import base64
import datetime as dt
import os
import ssl
import stat
import tempfile
from pathlib import Path

import pytest
from cryptography import x509

from scheduler.clock import steady
from scheduler.errors import SettingsError
from scheduler.serving import certificate_store
from scheduler.serving.certificate_store import NAMES, Secret, certified, settled
from scheduler.serving.certificates import AUTHORITY_LIFE, SERVER_LIFE, Pair, Papers, renewed
from tests.elastic.rendezvous.support.served import ApiServer

HOSTS = ("gangwright-elastic.gangwright-system.svc", "gangwright-elastic", "10.0.0.7", "::1")
NOW = steady()
SERVER, AUTHORITY = SERVER_LIFE.total_seconds(), AUTHORITY_LIFE.total_seconds()
NAMED = ("127.0.0.1",)


def mended(papers, names, now):
    return renewed(papers, names, now, "gangwright-elastic")


def kept(api):
    return Secret(api, "gangwright-system", "tls", section="rendezvous", owner="gangwright-elastic")


@pytest.fixture(scope="module")
def papers():
    return mended(None, HOSTS, NOW)


def read(pair):
    return x509.load_pem_x509_certificate(pair.cert)


def handshake(papers, authority, host):
    """A TLS handshake in memory; raises what the client finds wrong."""
    server, client = (
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        ssl.create_default_context(cadata=authority.decode()),
    )
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    with tempfile.TemporaryDirectory() as folder:
        certificate_store.written(Path(folder), papers)
        server.load_cert_chain(f"{folder}/tls.crt", f"{folder}/tls.key")
    lines = [ssl.MemoryBIO() for _ in range(2)]
    ends = [
        client.wrap_bio(lines[0], lines[1], server_hostname=host),
        server.wrap_bio(lines[1], lines[0], server_side=True),
    ]
    for _ in range(4):
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                continue
    assert ends == []


@pytest.mark.parametrize("host", HOSTS)
def test_a_worker_believes_the_server_under_each_of_its_names(papers, host):
    """With every check of RFC 5280 that OpenSSL knows."""
    handshake(papers, papers.authority.cert, host)


def test_a_worker_believes_no_other_name_and_no_other_authority(papers):
    """What the authority of another cluster signed is worth nothing here."""
    with pytest.raises(ssl.SSLCertVerificationError, match=r"[Hh]ostname mismatch"):
        handshake(papers, papers.authority.cert, "example.com")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(papers, mended(None, HOSTS, NOW).authority.cert, HOSTS[0])


def test_the_authority_signs_servers_and_nothing_that_signs(papers):
    """Its certificate is one of an authority, the server's is good for serving alone, and ends soon."""
    authority, own = read(papers.authority), read(papers.server)

    def basic(certificate):
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value

    assert (basic(authority).ca, basic(authority).path_length, basic(own).ca) == (True, 0, False)
    assert [
        use.dotted_string for use in own.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    ] == ["1.3.6.1.5.5.7.3.1"]
    assert own.not_valid_after_utc - dt.datetime.fromtimestamp(NOW, dt.UTC) <= SERVER_LIFE


def test_what_is_good_stays_as_it_is(papers):
    """The same papers come back, so that nothing is written for nothing."""
    assert mended(papers, HOSTS, NOW + SERVER * 0.6) is papers


@pytest.mark.parametrize("when", [SERVER * 0.7, SERVER * 2, -86400.0])
def test_a_certificate_is_renewed_in_time(papers, when):
    """When two thirds of its life are over, when it has ended, and when it has not begun by our clock; by the same
    authority.
    """
    fresh = mended(papers, HOSTS, NOW + when)

    assert fresh.server != papers.server
    assert (fresh.authority == papers.authority) is (when > 0)
    assert mended(fresh, HOSTS, NOW + when) is fresh


def test_other_names_need_another_certificate(papers):
    """Workers would not believe the old one under the new name."""
    fresh = mended(papers, ("new-name", *HOSTS), NOW)

    assert fresh.authority is papers.authority
    handshake(fresh, papers.authority.cert, "new-name")


def test_a_key_that_does_not_fit_is_replaced(papers):
    """As is a certificate that another authority signed."""
    strange = mended(None, HOSTS, NOW)
    for broken in (
        Papers(papers.authority, Pair(papers.server.cert, strange.server.key)),
        Papers(papers.authority, strange.server),
    ):
        handshake(mended(broken, HOSTS, NOW), papers.authority.cert, HOSTS[0])


def test_a_renewed_authority_is_believed_by_those_who_know_the_old_one(papers):
    """It has the same key and name: a job that runs through the change never notices."""
    late = NOW + AUTHORITY * 0.7
    fresh = mended(papers, HOSTS, late)

    assert fresh.authority.key == papers.authority.key
    assert fresh.authority.cert != papers.authority.cert
    read(fresh.server).verify_directly_issued_by(read(papers.authority))
    read(fresh.server).verify_directly_issued_by(read(fresh.authority))


async def test_a_secret_keeps_them_for_the_next_master():
    """Made once, found again, written anew when something is due."""
    api = ApiServer()
    first = await settled(kept(api), NAMED, NOW)
    again = await settled(kept(api), NAMED, NOW)
    later = await settled(kept(api), NAMED, NOW + SERVER)

    assert (first == again, later.authority == first.authority, later.server == first.server) == (
        True,
        True,
        False,
    )
    assert api.writes == ["POST", "PUT"]
    assert set(api.secrets["tls"]["data"]) == set(NAMES)


async def test_two_masters_that_start_at_once_end_with_one_authority():
    """Who comes second takes what the first has made."""
    api = ApiServer()
    slow, quick = kept(api), kept(api)
    assert await slow.load() is None
    first = await settled(quick, NAMED, NOW)

    assert await slow.save(mended(None, HOSTS, NOW)) is False
    assert await settled(slow, NAMED, NOW) == first


@pytest.mark.parametrize(
    "data",
    [
        {"tls.crt": "", "tls.key": ""},
        dict.fromkeys(NAMES, "%%%"),
        dict.fromkeys(NAMES, base64.b64encode(b"no certificate").decode()),
    ],
)
async def test_a_secret_of_somebody_else_is_left_alone(data):
    """It is named, and nothing is written over it."""
    api = ApiServer(secrets={"tls": {"metadata": {"resourceVersion": "7"}, "data": data}})
    with pytest.raises(SettingsError, match=r"tls.*delete"):
        await settled(kept(api), NAMED, NOW)

    assert api.writes == []


async def test_an_empty_secret_is_filled():
    """Manifests may make it, so that no right to make one is needed."""
    api = ApiServer(secrets={"tls": {"metadata": {"resourceVersion": "7"}}})
    papers = await settled(kept(api), NAMED, NOW)

    assert api.writes == ["PUT"]
    assert await kept(api).load() == papers


async def test_the_server_reads_from_files_that_go_with_it():
    """Nobody else may read them, the authority's key is not among them, and nothing is left when it stops."""
    async with certified(kept(ApiServer()), NAMED, steady) as shown:
        key = os.stat(shown.key)
        assert stat.S_IMODE(key.st_mode) == 0o600
        assert sorted(os.listdir(Path(shown.key).parent)) == [
            "ca.crt",
            "tls.crt",
            "tls.key",
        ]
        authority = shown.authority.read_text()
        assert "BEGIN CERTIFICATE" in authority
        assert "PRIVATE" not in authority

    assert not os.path.exists(shown.key)


async def test_a_certificate_is_renewed_while_we_serve(monkeypatch):
    """The files change under the server, which reads them again; a failure is tried again."""
    monkeypatch.setattr(certificate_store, "LOOK_EVERY", 0.001)
    api, clock = ApiServer(), [NOW]
    async with certified(kept(api), NAMED, lambda: clock[0]) as shown:
        before = read(Pair(Path(shown.cert).read_bytes(), b""))
        api.away = True
        await asyncio.sleep(0.01)
        clock[0] += SERVER
        api.away = False
        async with asyncio.timeout(20):
            while read(Pair(Path(shown.cert).read_bytes(), b"")) == before:
                await asyncio.sleep(0.001)

    assert api.writes == ["POST", "PUT"]


async def test_what_is_served_outlives_its_secret(monkeypatch):
    """A Secret that is deleted while we serve is written again as it was: workers know the authority in it."""
    monkeypatch.setattr(certificate_store, "LOOK_EVERY", 0.001)
    api = ApiServer()
    async with certified(kept(api), NAMED, steady) as shown:
        (name, secret), served = api.secrets.popitem(), Path(shown.cert).read_bytes()
        async with asyncio.timeout(20):
            while name not in api.secrets:
                await asyncio.sleep(0.001)

        assert api.secrets[name]["data"] == secret["data"]
        assert Path(shown.cert).read_bytes() == served
