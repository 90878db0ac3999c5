"""Who is who in the plane: one authority, one server certificate, a client certificate for each identity.

The API server reads user and groups from a client certificate's CN and O, so an identity is nothing but these words.
A program of ours appears as the *service account* it has in a cluster: RBAC and admission policies (which compare the
user's name) then judge it exactly as they would there.
"""

import base64
import datetime as dt
import ipaddress
import json
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bench.plane.errors import DescriptionError

LIFE = dt.timedelta(days=7)
"""A plane lives for minutes; a week lets a person keep one open without ever renewing."""

EARLY = dt.timedelta(minutes=5)
"""Certificates begin in the past, for clocks that are stepped back meanwhile."""

NAME_LIMIT = 64
"""Characters of a common name (RFC 5280, ub-common-name)."""

SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
SERVER_ADDRESSES = ("127.0.0.1", "10.0.0.1")  # the second is the first address of the service range


@dataclass(frozen=True)
class Identity:
    """A user of the API server, as it sees him."""

    user: str
    groups: tuple[str, ...] = ()


ADMIN = Identity("admin", ("system:masters",))
SCHEDULER = Identity("system:kube-scheduler")
CONTROLLER_MANAGER = Identity("system:kube-controller-manager")
KUBELET_CLIENT = Identity("kube-apiserver-kubelet-client")
"""The API server, as it appears to kubelets."""
FRONT_PROXY = Identity("front-proxy-client")
"""The API server, as it appears to aggregated APIs; another authority signs for it."""
KWOK = Identity("kwok", ("system:masters",))


def service_account(namespace: str, name: str) -> Identity:
    """The identity that a pod of this service account has."""
    groups = "system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"
    return Identity(f"system:serviceaccount:{namespace}:{name}", groups)


class Authority:
    """The plane's certificate authority; its files lie in `folder`, readable by nobody else."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder
        self.certificate_file = folder / "ca.crt"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(Identity("gangwright-plane"))
        self._certificate = self._sign(self._name, self._key.public_key(), _AUTHORITY_TRAITS)
        self.certificate_file.write_bytes(_pem(self._certificate))

    def server(self) -> tuple[Path, Path]:
        """Certificate and key of the API server; the key also signs service-account tokens."""
        names = [x509.DNSName(name) for name in SERVER_NAMES]
        addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in SERVER_ADDRESSES]
        alternative = (x509.SubjectAlternativeName([*names, *addresses]), False)
        return self._issue("server", Identity("kube-apiserver"), [*_SERVER_TRAITS, alternative])

    def client(self, identity: Identity) -> tuple[Path, Path]:
        """Certificate and key that make their holder `identity`; issued once, then found again."""
        stem = _stem(identity)
        certificate, key = self.folder / f"{stem}.crt", self.folder / f"{stem}.key"
        return (certificate, key) if key.exists() else self._issue(stem, identity, _CLIENT_TRAITS)

    def context(self, identity: Identity) -> ssl.SSLContext:
        """What Python needs to speak to the API server as `identity`."""
        context = ssl.create_default_context(cafile=str(self.certificate_file))
        context.load_cert_chain(*self.client(identity))
        return context

    def server_context(self, certificate: Path, key: Path) -> ssl.SSLContext:
        """What a server needs that answers nobody whom this authority does not know."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.certificate_file))
        context.load_cert_chain(certificate, key)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def kubeconfig(self, identity: Identity, server: str) -> Path:
        """A kubeconfig with everything inside, so that it can be copied elsewhere."""
        certificate, key = self.client(identity)
        user = {"client-certificate-data": _inline(certificate), "client-key-data": _inline(key)}
        cluster = {"server": server, "certificate-authority-data": _inline(self.certificate_file)}
        place = self.folder / f"{_stem(identity)}.kubeconfig"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "plane", "cluster": cluster}],
            "users": [{"name": identity.user, "user": user}],
            "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": identity.user}}],
            "current-context": "plane",
        }
        _write_private(place, json.dumps(document, indent=2).encode())  # JSON is YAML
        return place

    def _issue(self, stem: str, identity: Identity, traits: "list[Trait]") -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(_name(identity), key.public_key(), traits)
        places = self.folder / f"{stem}.crt", self.folder / f"{stem}.key"
        places[0].write_bytes(_pem(certificate))
        _write_private(places[1], _key_pem(key))
        return places

    def _sign(
        self, subject: x509.Name, public: ec.EllipticCurvePublicKey, traits: "list[Trait]"
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        ours = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            x509.CertificateBuilder(issuer_name=self._name, subject_name=subject, public_key=public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - EARLY)
            .not_valid_after(now + LIFE)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(ours, critical=False)
        )
        for extension, critical in traits:
            builder = builder.add_extension(extension, critical)
        return builder.sign(self._key, hashes.SHA256())


Trait = tuple[x509.ExtensionType, bool]
"""An extension of a certificate, and whether it is critical."""


def _usage(*, signs_others: bool) -> Trait:
    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    never = dict.fromkeys((*others, "encipher_only", "decipher_only"), False)
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=signs_others, crl_sign=signs_others, **never
    ), True


_AUTHORITY_TRAITS: list[Trait] = [
    (x509.BasicConstraints(ca=True, path_length=0), True),
    _usage(signs_others=True),
]
_LEAF_TRAITS: list[Trait] = [
    (x509.BasicConstraints(ca=False, path_length=None), True),
    _usage(signs_others=False),
]
_SERVER_TRAITS: list[Trait] = [
    *_LEAF_TRAITS,
    (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
]
_CLIENT_TRAITS: list[Trait] = [
    *_LEAF_TRAITS,
    (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), False),
]


def _name(identity: Identity) -> x509.Name:
    if not 0 < len(identity.user) <= NAME_LIMIT:
        raise DescriptionError(
            f"user: {identity.user!r} must have 1 to {NAME_LIMIT} characters, as X.509 wants it"
        )
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in identity.groups]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, identity.user)])


def _stem(identity: Identity) -> str:
    return "-".join((identity.user, *identity.groups)).replace(":", "_").replace("/", "_")[:200]


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The traditional form: the API server reads no service-account key in PKCS 8."""
    plain = serialization.NoEncryption()
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, plain
    )


def _write_private(place: Path, content: bytes) -> None:
    place.touch(mode=0o600)
    place.write_bytes(content)


def _inline(place: Path) -> str:
    return base64.b64encode(place.read_bytes()).decode()
