"""The certificate of the rendezvous: one that is configured, or one that is kept in a Secret."""

import pytest
from cryptography import x509

from bench.plane.certificates import Authority
from scheduler.errors import SettingsError, Unreachable
from tests.elastic.rendezvous.support.served import ApiServer, served


async def test_without_the_api_server_nothing_is_made_in_secret():
    """An authority that no other master could go on with is none."""
    with pytest.raises(Unreachable):
        async with served(api=ApiServer(away=True)):
            pass


async def test_a_configured_certificate_is_served_as_it_is(tmp_path):
    """Nothing is made or kept; workers are given the authority that is configured, and metrics say when both end."""
    authority = Authority(tmp_path)
    cert, key = authority.server()
    api = ApiServer()
    async with served(api=api, cert=str(cert), key=str(key), ca=str(authority.certificate_file)) as running:
        running.hire("a")
        assert (await running.beat("a")).status == 200
        assert running.open.authority == authority.certificate_file.read_text()
        told = {setting: running.end_of(setting) for setting in ("cert", "ca")}

    files = {"cert": cert, "ca": authority.certificate_file}
    assert told == {
        setting: x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc.timestamp()
        for setting, file in files.items()
    }
    assert api.secrets == {}


@pytest.mark.parametrize("content", [None, "", "no certificate", "ü"])
async def test_an_authority_that_cannot_be_used_is_named(tmp_path, content):
    """A worker that is given it could not check us."""
    file = tmp_path / "ca.crt"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(SettingsError, match=r"rendezvous\.ca"):
        async with served(api=ApiServer(), cert="tls.crt", key="tls.key", ca=str(file)):
            pass
