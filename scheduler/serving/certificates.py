"""The certificates that Gangwright generates if none is configured: an authority and a server certificate.

Lives here: X.509, and when a certificate is due. Never here: where it is stored. Workers of elastic jobs keep the
authority as long as they run, so it is valid for ten years. It is renewed with the same key in time. Clients that know
the old certificate keep trusting certificates that this key signs.

Why the library `cryptography`: the standard library cannot sign, and hand-written DER code would be hard to trust.
"""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFE: Final = dt.timedelta(days=3650)
SERVER_LIFE: Final = dt.timedelta(days=90)
"""Short, because renewal is automatic. Long enough that a program may be down for a month."""

EARLY: Final = dt.timedelta(minutes=5)
"""Certificates start in the past, because clocks of other machines differ."""

DUE: Final = 2 / 3
"""The part of its life after which a certificate is renewed."""


class Pair(NamedTuple):
    """A certificate and its key, both PEM."""

    cert: bytes
    key: bytes


class Papers(NamedTuple):
    """The authority, and the server certificate that it signed."""

    authority: Pair
    server: Pair


def renewed(found: Papers | None, names: Sequence[str], now: float, owner: str) -> Papers:
    """These certificates, renewed where one is missing, due, or valid for other names; otherwise the same object.

    names: DNS names and addresses of the server. now: seconds since the epoch. owner: the common name of the authority.
    Raises ValueError for invalid certificates.
    """
    moment = dt.datetime.fromtimestamp(now, dt.UTC)
    if found is None:
        authority = _authority(ec.generate_private_key(ec.SECP256R1()), moment, owner)
        return Papers(authority, _server(authority, names, moment, owner))
    authority = found.authority
    if _due(x509.load_pem_x509_certificate(authority.cert), moment):
        authority = _authority(_key(authority.key), moment, owner)
    if authority is found.authority and _fits(found, names, moment):
        return found
    return Papers(authority, _server(authority, names, moment, owner))


def _fits(papers: Papers, names: Sequence[str], moment: dt.datetime) -> bool:
    own, authority = (
        x509.load_pem_x509_certificate(papers.server.cert),
        x509.load_pem_x509_certificate(papers.authority.cert),
    )
    if _due(own, moment) or own.public_key() != _key(papers.server.key).public_key():
        return False
    try:
        own.verify_directly_issued_by(authority)
        said = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (InvalidSignature, ValueError, TypeError, x509.ExtensionNotFound):
        return False
    return list(said) == [_general(name) for name in names]


def _due(certificate: x509.Certificate, moment: dt.datetime) -> bool:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return not begin <= moment < begin + (end - begin) * DUE


def _authority(key: ec.EllipticCurvePrivateKey, moment: dt.datetime, owner: str) -> Pair:
    name = _name(owner)
    return _signed(_builder(name, key, moment, AUTHORITY_LIFE, signs=True).issuer_name(name), key, key)


def _server(authority: Pair, names: Sequence[str], moment: dt.datetime, owner: str) -> Pair:
    key, signer = ec.generate_private_key(ec.SECP256R1()), x509.load_pem_x509_certificate(authority.cert)
    life = min(SERVER_LIFE, signer.not_valid_after_utc - moment)
    alternatives = x509.SubjectAlternativeName([_general(name) for name in names])
    builder = (
        _builder(_name(f"{owner} server"), key, moment, life, signs=False)
        .issuer_name(signer.subject)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(alternatives, critical=False)
    )
    return _signed(builder, key, _key(authority.key))


def _builder(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    moment: dt.datetime,
    life: dt.timedelta,
    *,
    signs: bool,
) -> x509.CertificateBuilder:
    """The fields of both kinds of certificate. signs: for an authority, which signs servers but no other authority."""
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        x509.CertificateBuilder(subject_name=subject, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - EARLY)
        .not_valid_after(moment + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.BasicConstraints(signs, 0 if signs else None), critical=True)
        .add_extension(usage, critical=True)
    )


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> Pair:
    by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    certificate = builder.add_extension(by, critical=False).sign(signer, hashes.SHA256())
    written = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), written)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is not an elliptic curve key")  # noqa: TRY004 - the certificates are invalid
    return key
