"""Mutual TLS over real sockets: who is let in."""

import asyncio
import dataclasses
import json
import os
import ssl
from pathlib import Path

import pytest
from cryptography import x509

from scheduler.errors import SettingsError
from scheduler.serving.tls import LOOK_EVERY, Identity, names
from scheduler.settings import VerbsServer
from scheduler.telemetry.metrics import Metrics
from tests.extender.raw import Raw, request
from tests.extender.scripted import extender_args
from tests.extender.test_app import served
from tests.plane import certificates


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


def test_renewed_certificates_are_used_without_a_restart(authority, stranger, settings, tmp_path):
    """Files that changed count for the next connection; broken ones leave the old in force; standing ones live on."""
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    now = 0.0

    def write(pair, mtime):
        for target, source in zip((cert, key), pair, strict=True):
            target.write_bytes(Path(source).read_bytes())
            os.utime(target, (mtime, mtime))

    write(authority.server(), 1)
    own = VerbsServer(cert=str(cert), key=str(key), client_ca=settings.client_ca)
    identity = Identity(own, lambda: now)
    cert.write_text("broken")
    now += LOOK_EVERY
    identity.refresh()  # does not raise

    write(stranger.server(), 2)
    identity.refresh()  # too early to look
    assert served_by(identity) == subject_key(authority)
    now += LOOK_EVERY
    identity.refresh()

    assert served_by(identity) == subject_key(stranger)


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
