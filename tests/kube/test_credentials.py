"""Where the API server is and who we are, from files as they are in life; and never a secret in a text."""

import base64
import datetime as dt
import ipaddress
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kubernetes.aio.config import incluster_config

from scheduler.errors import SettingsError, Unauthorized, Unreachable
from scheduler.kube.client import Client
from scheduler.kube.credentials import REREAD, find_access
from tests.kube.support.api_server import PODS, ApiServer, Refuse
from tests.kube.support.follower import Time
from tests.kube.support.kubeconfig import kubeconfig

SECRET = "s3cr3t-t0k3n"
QUERY = {"limit": "5"}


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self.file = folder / "ca.crt"
        self.file.write_bytes(self._sign("authority", self.key, root=True))

    def issue(self, name: str) -> tuple[Path, Path]:
        """Certificate and key files for `name` on 127.0.0.1."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate, private = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        certificate.write_bytes(self._sign(name, key))
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return certificate, private

    def _sign(self, name: str, key: ec.EllipticCurvePrivateKey, *, root: bool = False) -> bytes:
        now = dt.datetime.now(dt.UTC)
        host = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=root, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([host]), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM)

    def server_context(self) -> ssl.SSLContext:
        """TLS for a server that wants a certificate of its clients."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.file))
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(*self.issue("server"))
        return context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def secure(authority: Authority):
    server = await ApiServer().start(ssl=authority.server_context())
    server.put("a")
    yield server
    await server.stop()


@pytest.mark.parametrize("inline", [True, False])
async def test_a_client_certificate_opens_the_door(
    secure: ApiServer, authority: Authority, tmp_path: Path, inline: bool
) -> None:
    """A kubeconfig with a client certificate, as files or inline, speaks mutual TLS."""
    files = dict(zip(("client-certificate", "client-key"), authority.issue("us"), strict=True))
    cluster = {"certificate-authority": authority.file}
    user, cluster = (
        {
            f"{field}-data" if inline else field: base64.b64encode(path.read_bytes()).decode()
            if inline
            else str(path)
            for field, path in fields.items()
        }
        for fields in (files, cluster)
    )
    async with Client(await find_access(kubeconfig(tmp_path, secure.url, user, cluster))) as client:
        assert b'"items"' in await client.request("GET", PODS, params=QUERY)
    assert "authorization" not in secure.calls[0].headers


async def test_a_renewed_client_certificate_is_used(
    secure: ApiServer, authority: Authority, tmp_path: Path
) -> None:
    """New connections use the certificate that lies in the file now: here, one that is not trusted any more."""
    certificate, key = authority.issue("us")
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    path = kubeconfig(tmp_path, secure.url, user, {"certificate-authority": str(authority.file)})
    time = Time()
    access = await find_access(path, clock=time)
    (tmp_path / "other").mkdir()
    for old, new in zip((certificate, key), Authority(tmp_path / "other").issue("stranger"), strict=True):
        old.write_bytes(new.read_bytes())
    time.now += REREAD
    async with Client(access) as client:
        with pytest.raises(Unreachable):
            await client.request("GET", PODS, params=QUERY)


async def test_an_unknown_authority_is_not_trusted(secure: ApiServer, tmp_path: Path) -> None:
    """A server certificate of another authority is refused, with the reason in the text."""
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other")
    path = kubeconfig(tmp_path, secure.url, {}, {"certificate-authority": str(stranger.file)})
    async with Client(await find_access(path)) as client:
        with pytest.raises(Unreachable, match=r"(?i)certificate"):
            await client.request("GET", PODS, params=QUERY)


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
async def test_a_token_file_is_read_again(api: ApiServer, tmp_path: Path, end: str) -> None:
    """A token file is a bearer token; a rotated one is used a minute later, and at once after 401."""
    api.put("a")
    token = tmp_path / "token"
    token.write_text("first" + end)
    time = Time()
    access = await find_access(kubeconfig(tmp_path, api.url, {"tokenFile": str(token)}), clock=time)
    async with Client(access, clock=time) as client:

        async def sent() -> str:
            await client.request("GET", f"{PODS}/a")
            return api.calls[-1].headers["authorization"].lower()

        assert await sent() == "bearer first"
        token.write_text("second" + end)
        assert await sent() == "bearer first"
        time.now += REREAD
        assert await sent() == "bearer second"
        token.write_text("third" + end)
        api.refusals.append(Refuse(401))
        with pytest.raises(Unauthorized):
            await sent()
        assert await sent() == "bearer third"
        token.unlink()
        time.now += REREAD
        assert await sent() == "bearer third"


async def test_a_service_account_is_found_in_a_pod(
    secure: ApiServer, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside a Pod address, authority and token come from its service account, unless KUBECONFIG says otherwise."""
    token = tmp_path / "token"
    token.write_text(SECRET)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority.file))
    _, host, port = secure.url.split(":")
    environ = {"KUBERNETES_SERVICE_HOST": host.strip("/"), "KUBERNETES_SERVICE_PORT": port}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    access = await find_access(environ=environ)
    assert str(access.url).rstrip("/") == secure.url
    assert (await access.headers())["Authorization"].lower() == f"bearer {SECRET}"
    elsewhere = kubeconfig(tmp_path, "http://127.0.0.1:1")
    assert (await find_access(environ={**environ, "KUBECONFIG": elsewhere})).url.port == 1


async def test_a_service_account_without_files_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A Pod without a mounted token is told so."""
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "none"))
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match="token file does not exist"):
        await find_access(environ=environ)


async def test_a_named_context_is_used(tmp_path: Path) -> None:
    """The context that the caller names wins over the current one; an unknown one is an error that names it."""
    path = kubeconfig(tmp_path, "http://127.0.0.1:1")
    assert (await find_access(path, "here")).url.port == 1
    with pytest.raises(SettingsError, match="there"):
        await find_access(path, "there")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "5",
        "[",
        "current-context: here\ncontexts: 5\nclusters: []\nusers: []",
        "\x00",
        f"users: [{{user: {{token: {SECRET}}}}}]",
        f"current-context: x\nclusters: []\ncontexts: [{{name: x, context: {{user: u, token: {SECRET}}}}}]",
        f"a: *{SECRET}",
    ],
)
async def test_a_broken_kubeconfig_is_named_without_its_content(tmp_path: Path, content: str) -> None:
    """Whatever is wrong with the file, the error names the file and shows nothing of what stands in it."""
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(SettingsError) as caught:
        await find_access(str(path))
    assert str(path) in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


async def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    """A path without a file is an error that names the path."""
    with pytest.raises(SettingsError, match="nowhere"):
        await find_access(str(tmp_path / "nowhere"))


CONTEXTS = """
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: %s}}]
contexts: [{name: one, context: {cluster: c, user: u}}, {name: two, context: {cluster: gone, user: u}}]
current-context: %s
"""


@pytest.mark.parametrize(
    ("current", "context", "told"),
    [
        ("one", "nope", ["context = 'nope'", "its contexts are: one, two"]),
        ("one", "two", ["its context two names the cluster gone, which is not in it"]),
        ("nope", "", ["its current-context, nope, is not in it", "its contexts are: one, two"]),
        ("", "", ["it has no current-context", "its contexts are: one, two"]),
    ],
)
async def test_a_context_that_is_not_there_is_named(
    tmp_path: Path, current: str, context: str, told: list[str]
) -> None:
    """With the file in which it was looked for, and the contexts that are in it; nothing else of the file is told."""
    path = tmp_path / "config"
    path.write_text(CONTEXTS % (SECRET, current))
    with pytest.raises(SettingsError) as caught:
        await find_access(str(path), context)
    assert [word for word in (str(path), *told) if word not in str(caught.value)] == []
    assert SECRET not in str(caught.value)


async def test_contexts_of_several_files(tmp_path: Path) -> None:
    """Those of all files of a path are known; files that are not there count for none."""
    (tmp_path / "a").write_text(CONTEXTS % (SECRET, "one"))
    (tmp_path / "b").write_text("contexts: [{name: three, context: {cluster: c, user: u}}]")
    path = f"{tmp_path}/a:{tmp_path}/nowhere:{tmp_path}/b"
    with pytest.raises(SettingsError, match="one, three, two"):
        await find_access(path, "nope")
    assert (await find_access(path, "three")).url.port == 1


@pytest.mark.parametrize(
    ("content", "told"),
    [("", "clusters, users and contexts"), ("a: [", "line 2"), ("contexts: []", "it has no contexts")],
)
async def test_a_file_that_is_no_kubeconfig_is_said_to_be_none(
    tmp_path: Path, content: str, told: str
) -> None:
    """Empty, not YAML, or of nothing."""
    path = tmp_path / "config"
    path.write_text(content + "\n")
    with pytest.raises(SettingsError, match=told):
        await find_access(str(path), "nope")


@pytest.mark.parametrize("server", ["ftp://x", "127.0.0.1:6443", "https://", "http://[::1"])
async def test_a_server_that_is_no_address_is_named(tmp_path: Path, server: str) -> None:
    """A server must be an http or https URL."""
    with pytest.raises(SettingsError, match="server"):
        await find_access(kubeconfig(tmp_path, server))


async def test_a_token_of_two_lines_is_refused_unseen(tmp_path: Path) -> None:
    """A token that no header can carry is an error that does not show it."""
    with pytest.raises(SettingsError) as caught:
        await find_access(kubeconfig(tmp_path, "http://127.0.0.1:1", {"token": f"{SECRET}\nmore"}))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("status", [302, 401, 403, 500])
async def test_no_error_of_a_call_shows_the_token(api: ApiServer, tmp_path: Path, status: int) -> None:
    """Neither refusals nor broken connections show who we are, in text or in chained causes."""
    path = kubeconfig(tmp_path, api.url.replace("//", f"//user:{SECRET}@"), {"token": SECRET})
    texts = []
    async with Client(await find_access(path)) as client:
        api.refusals.append(Refuse(status, {"Location": "http://127.0.0.1:1/"}))
        for _ in range(2):
            with pytest.raises(Exception) as caught:
                await client.request("GET", "/x")
            error: BaseException | None = caught.value
            while error is not None:
                texts.append(f"{error!r} {error}")
                error = error.__cause__ or error.__context__
            await api.stop()
    assert len(api.calls) == 1
    assert SECRET in api.calls[0].headers["authorization"]
    assert SECRET not in "".join(texts)


async def test_the_proxy_is_the_kubeconfigs_or_the_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy of the kubeconfig is used; else the environment's, unless it exempts the server."""
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    plain = kubeconfig(tmp_path, "http://10.0.0.1:1")
    named = kubeconfig(tmp_path, "http://10.0.0.1:1", {}, {"proxy-url": "http://proxy:3128"}, "named")
    assert (await find_access(plain)).proxy is None
    assert (await find_access(named)).proxy == "http://proxy:3128"
    monkeypatch.setenv("http_proxy", "http://other:3128")
    assert (await find_access(plain)).proxy == "http://other:3128"
    assert (await find_access(named)).proxy == "http://proxy:3128"
    monkeypatch.setenv("no_proxy", "10.0.0.1")
    assert (await find_access(plain)).proxy is None
