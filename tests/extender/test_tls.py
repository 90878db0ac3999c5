"""Mutual TLS over real sockets: who is let in."""

import asyncio
import dataclasses
import json
import os
import ssl
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography import x509

from bench.plane import certificates
from scheduler.errors import SettingsError
from scheduler.serving.tls import LOOK_EVERY, Identity, names
from scheduler.settings import VerbsServer
from scheduler.telemetry.metrics import Metrics
from tests.extender.support.raw import Raw, request
from tests.extender.support.scripted import extender_args
from tests.extender.test_app import served


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return certificates.Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """An authority of the same name that nobody believes."""
    return certificates.Authority(tmp_path_factory.mktemp("stranger"))


@pytest.fixture
def settings(authority):
    cert, key = authority.server()
    ca = str(authority.certificate_file)
    return VerbsServer(
        cert=str(cert), key=str(key), client_ca=ca, client_names=("system:kube-scheduler", "other")
    )


def counted(metrics, cause):
    return metrics.registry.get_sample_value("gangwright_connections_closed_total", {"cause": cause})


async def refused(port, context):
    """The connection does not get as far as an answer."""
    try:
        raw = await Raw.to(port, ssl=context)
    except (ssl.SSLError, ConnectionError):
        return True
    try:
        await raw.send(request(extender_args()))
        return await raw.ended()
    except (ssl.SSLError, ConnectionError):
        return True
    finally:
        await raw.close()


async def test_kube_scheduler_is_let_in(authority, settings):
    """A certificate of our authority with an expected name gets answers, over TLS 1.2 or later."""
    async with served(settings=settings) as port:
        raw = await Raw.to(port, ssl=authority.context(certificates.SCHEDULER))
        answer = await raw.ask(request(extender_args()))
        version = raw.writer.get_extra_info("ssl_object").version()
        await raw.close()

    assert json.loads(answer.body)["NodeNames"] == ["n1", "n2"]
    assert version in {"TLSv1.2", "TLSv1.3"}


async def test_nobody_else_is(authority, stranger, settings):
    """No certificate, one of another authority, one of another name: no answer, and each is counted."""
    metrics = Metrics()
    nobody = ssl.create_default_context(cafile=str(authority.certificate_file))
    forger = ssl.create_default_context(cafile=str(authority.certificate_file))
    forger.load_cert_chain(*stranger.client(certificates.SCHEDULER))
    misnamed = authority.context(certificates.ADMIN)

    async with served(settings=settings, metrics=metrics, head_limit=0.1) as port:
        assert await refused(port, nobody)
        assert await refused(port, forger)
        assert await refused(port, misnamed)
        async with asyncio.timeout(5):
            while counted(metrics, "handshake") != 2:
                await asyncio.sleep(0.01)

    assert counted(metrics, "handshake") == 2
    assert counted(metrics, "certificate") == 1


async def test_old_tls_and_plain_http_are_refused(authority, settings):
    """Neither TLS 1.1 nor bytes without TLS get an answer."""
    async with served(settings=settings) as port:
        plain = await Raw.to(port)
        await plain.send(request(extender_args()))
        ended = await plain.ended()
        await plain.close()

        old = authority.context(certificates.SCHEDULER)
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        refused_old = await refused(port, old)

    assert ended
    assert refused_old


class Renewed:
    """Files of a server's identity that are written anew, and its clock, which passes by itself before each look."""

    def __init__(self, folder, pair, client_ca):
        self.files = {"cert": folder / "tls.crt", "key": folder / "tls.key", "client_ca": folder / "ca.crt"}
        self.now = 0.0
        self.write(cert=pair[0], key=pair[1], client_ca=client_ca)
        settings = VerbsServer(**{name: str(file) for name, file in self.files.items()})
        self.identity = Identity(settings, lambda: self.now)

    def write(self, **sources):
        for name, source in sources.items():
            file = self.files[name]
            file.write_bytes(source if isinstance(source, bytes) else Path(source).read_bytes())
            os.utime(file, (self.now, self.now))
            self.now += 1

    def look(self):
        self.now += LOOK_EVERY
        self.identity.refresh()


@pytest.fixture
def renewed(authority, tmp_path):
    return Renewed(tmp_path, authority.server(), authority.certificate_file)


def test_renewed_certificates_are_used_without_a_restart(authority, stranger, renewed):
    """Files that changed count for the next connection, and standing ones live on."""
    cert, key = stranger.server()
    renewed.look()
    renewed.write(cert=cert, key=key)
    renewed.identity.refresh()  # too early to look
    assert served_by(renewed.identity) == subject_key(authority)

    renewed.look()
    assert served_by(renewed.identity) == subject_key(stranger)


@pytest.mark.parametrize("change", ["broken", "without its key"])
def test_files_that_cannot_be_used_leave_the_old_in_force(authority, stranger, renewed, change, capsys):
    """A certificate that is broken, or whose key has not come yet, is not used, and the log says so by its setting."""
    renewed.write(cert=b"broken" if change == "broken" else stranger.server()[0])
    renewed.look()

    assert served_by(renewed.identity) == subject_key(authority)
    told = capsys.readouterr()
    assert "verbs.cert" in told.out + told.err
    assert "not used" in told.out + told.err


def test_an_authority_that_was_taken_away_is_believed_no_more(authority, stranger, renewed):
    """Clients are checked by what the file says now: one that its old authority signed is refused."""
    before = admitted(renewed.identity, authority), admitted(renewed.identity, stranger)
    renewed.write(client_ca=stranger.certificate_file)
    renewed.look()
    after = admitted(renewed.identity, authority), admitted(renewed.identity, stranger)

    assert before == (True, False)
    assert after == (False, True)


def shown(metrics):
    """Setting → when it ends, as a scrape has it now."""
    return {
        sample.labels["setting"]: sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "gangwright_certificate_end_timestamp_seconds"
    }


def end(file):
    return x509.load_pem_x509_certificate(Path(file).read_bytes()).not_valid_after_utc.timestamp()


async def test_metrics_tell_when_certificates_end(authority, settings):
    """A scrape has the end of the server's certificate and of the authority for clients; without TLS there is none."""
    metrics, plain = Metrics(), Metrics()
    async with (
        served(settings=settings, metrics=metrics, ends=metrics.certificate_end_timestamp_seconds),
        served(metrics=plain, ends=plain.certificate_end_timestamp_seconds),
    ):
        assert shown(metrics) == {"cert": end(settings.cert), "clientCa": end(authority.certificate_file)}
        assert shown(plain) == {}


def test_metrics_follow_a_renewal(authority, stranger, renewed):
    """What was renewed is told though nobody came, and of several in a file the first to end."""
    metrics = Metrics()
    renewed.identity.tell(metrics.certificate_end_timestamp_seconds)
    cert, key = stranger.server()
    both = stranger.certificate_file.read_bytes() + authority.certificate_file.read_bytes()
    renewed.write(cert=cert, key=key, client_ca=both)
    renewed.now += LOOK_EVERY

    ends = end(authority.certificate_file), end(stranger.certificate_file)
    assert shown(metrics) == {"cert": end(cert), "clientCa": min(ends)}


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_no_session_outlives_its_authority(authority, stranger, renewed, version):
    """Who comes back with the session of his last connection shows his certificate again."""
    client = client_of(authority)
    client.maximum_version = version
    before = handshake(renewed.identity, client)
    renewed.write(client_ca=stranger.certificate_file)
    renewed.look()

    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(renewed.identity, client, before.session)


def admitted(identity, authority):
    """Whether a client of this authority is let in."""
    try:
        handshake(identity, client_of(authority))
    except ssl.SSLCertVerificationError:
        return False
    return True


def client_of(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(*authority.client(certificates.SCHEDULER))
    return context


def handshake(identity, context, session=None):
    """The client's side of a handshake in memory, and of a first word of the server's, which brings a session."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(back, there, session=session)
    server = identity.context.wrap_bio(there, back, server_side=True)
    for side in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    server.write(b"x")
    assert client.read(1) == b"x"
    return client


def served_by(identity):
    """The authority's key that signed what the context shows, learned by a handshake in memory."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname = False
    client_context.verify_mode = ssl.CERT_NONE
    client = client_context.wrap_bio(back, there)
    server = identity.context.wrap_bio(there, back, server_side=True)
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLError:
            continue
    return issuer_key(client.getpeercert(binary_form=True))


def issuer_key(der):
    extension = x509.load_der_x509_certificate(der).extensions.get_extension_for_class(
        x509.AuthorityKeyIdentifier
    )
    return extension.value.key_identifier


def subject_key(authority):
    pem = authority.certificate_file.read_bytes()
    found = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    return found.value.digest


@pytest.mark.parametrize("field", ["cert", "key", "client_ca"])
def test_files_that_cannot_be_used_are_told(settings, tmp_path, field):
    """A missing or broken file stops the start with the setting's name, and shows nothing of its content."""
    (tmp_path / "broken.pem").write_text("hush")
    for name in ("missing.pem", "broken.pem"):
        with pytest.raises(SettingsError, match=r"verbs\.(cert|clientCa).*cannot be used") as told:
            Identity(dataclasses.replace(settings, **{field: str(tmp_path / name)}))
        assert "hush" not in str(told.value)


def test_a_certificate_has_all_its_names():
    """Common names and DNS names both count."""
    shown = {
        "subject": ((("organizationName", "o"),), (("commonName", "a"),)),
        "subjectAltName": (("DNS", "b"), ("IP Address", "10.0.0.1")),
    }

    assert list(names(shown)) == ["a", "b"]
    assert list(names({})) == []
