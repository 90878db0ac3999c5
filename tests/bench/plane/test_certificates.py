"""Who is who in the plane."""

import base64
import json
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from bench.plane.certificates import ADMIN, Authority, Identity, service_account
from bench.plane.errors import DescriptionError


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "identities")


def test_service_account_is_named_as_in_a_cluster() -> None:
    """A program of ours has the user name and the groups that its pod's token would give it."""
    identity = service_account("gangwright-system", "gangwright")

    assert identity.user == "system:serviceaccount:gangwright-system:gangwright"
    assert "system:serviceaccounts:gangwright-system" in identity.groups


def test_certificate_carries_user_and_groups(authority: Authority) -> None:
    """The API server reads the user from CN and the groups from O."""
    certificate, _ = authority.client(service_account("team", "trainer"))

    subject = x509.load_pem_x509_certificate(certificate.read_bytes()).subject

    assert [each.value for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [
        "system:serviceaccount:team:trainer"
    ]
    assert {each.value for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)} == {
        "system:serviceaccounts",
        "system:serviceaccounts:team",
        "system:authenticated",
    }


def test_same_identity_same_certificate(authority: Authority) -> None:
    """An identity is issued once; two that differ in their groups alone are two."""
    first, again = authority.client(Identity("ann", ("dev",))), authority.client(Identity("ann", ("dev",)))

    assert first == again
    assert authority.client(Identity("ann", ("ops",))) != first


def test_server_is_reached_by_every_name_used(authority: Authority) -> None:
    """The server's certificate is good for loopback and for the names that pods use."""
    certificate, _ = authority.server()

    parsed = x509.load_pem_x509_certificate(certificate.read_bytes())
    names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert {"localhost", "kubernetes.default.svc"} <= set(names.get_values_for_type(x509.DNSName))
    assert {"127.0.0.1", "10.0.0.1"} == {str(each) for each in names.get_values_for_type(x509.IPAddress)}


def test_keys_are_for_nobody_else(authority: Authority) -> None:
    """Keys and kubeconfigs are readable by their owner alone."""
    _, key = authority.client(ADMIN)
    kubeconfig = authority.kubeconfig(ADMIN, "https://127.0.0.1:1")

    assert {stat.S_IMODE(place.stat().st_mode) for place in (key, kubeconfig)} == {0o600}


def test_kubeconfig_stands_alone(authority: Authority) -> None:
    """A kubeconfig holds its certificates itself, so it may be copied elsewhere."""
    document = json.loads(authority.kubeconfig(ADMIN, "https://127.0.0.1:1").read_text())

    inside = document["clusters"][0]["cluster"]["certificate-authority-data"]
    assert base64.b64decode(inside) == authority.certificate_file.read_bytes()
    assert document["users"][0]["name"] == "admin"


def test_too_long_a_name_is_refused(authority: Authority) -> None:
    """A user name that no certificate can carry is refused with the limit."""
    with pytest.raises(DescriptionError, match="1 to 64 characters"):
        authority.client(service_account("n" * 63, "s" * 63))
