"""Where the API server is and who we are, from files as they are in life; and never a secret in a text."""

import base64
import os
import sys
import tempfile
from pathlib import Path

import pytest
import yaml

from scheduler.errors import SettingsError, Unauthorized, Unreachable
from scheduler.kube import credentials
from scheduler.kube.client import Client
from scheduler.kube.credentials import REREAD, find_access, usual_namespace
from tests.kube.support.api_server import PODS, ApiServer, Refuse
from tests.kube.support.authority import Authority
from tests.kube.support.follower import Time
from tests.kube.support.kubeconfig import kubeconfig

SECRET = "s3cr3t-t0k3n"
QUERY = {"limit": "5"}


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


async def test_a_key_in_a_kubeconfig_is_on_no_disk(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL reads it from a file, which is gone when the credentials are found."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    names = ("client-certificate-data", "client-key-data")
    files = (base64.b64encode(place.read_bytes()).decode() for place in authority.issue("us"))
    user = dict(zip(names, files, strict=True))
    assert (await find_access(kubeconfig(tmp_path, "https://127.0.0.1:1", user))).tls is not None
    assert list(folder.iterdir()) == []


async def test_files_are_found_beside_the_kubeconfig_that_names_them(
    secure: ApiServer, authority: Authority, tmp_path: Path
) -> None:
    """Relative paths begin in the folder of their file, whichever of several files that is."""
    for name, content in (
        (
            "users",
            {"users": [{"name": "u", "user": {"client-certificate": "us.crt", "client-key": "us.key"}}]},
        ),
        (
            "clusters",
            {
                "clusters": [
                    {"name": "c", "cluster": {"server": secure.url, "certificate-authority": "../ca.crt"}}
                ]
            },
        ),
        (
            "contexts",
            {"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]},
        ),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config").write_text(yaml.safe_dump(content))
    for place in authority.issue("us"):
        place.rename(tmp_path / "users" / place.name)
    path = os.pathsep.join(str(tmp_path / name / "config") for name in ("users", "clusters", "contexts"))
    async with Client(await find_access(path)) as client:
        assert b'"items"' in await client.request("GET", PODS, params=QUERY)


async def test_the_name_in_the_certificate_may_be_another(
    secure: ApiServer, authority: Authority, tmp_path: Path
) -> None:
    """`tls-server-name` is looked for in it, and not the server's address; `insecure-skip-tls-verify` looks for none."""
    user = dict(zip(("client-certificate", "client-key"), map(str, authority.issue("us")), strict=True))
    server = secure.url.replace("127.0.0.1", "localhost")
    trusted = {"certificate-authority": str(authority.file)}
    ways = ({**trusted, "tls-server-name": "127.0.0.1"}, {"insecure-skip-tls-verify": True}, trusted)
    for number, cluster in enumerate(ways):
        async with Client(
            await find_access(kubeconfig(tmp_path, server, user, cluster, str(number)))
        ) as client:
            if cluster is trusted:
                with pytest.raises(Unreachable, match=r"(?i)certificate"):
                    await client.request("GET", PODS, params=QUERY)
            else:
                assert b'"items"' in await client.request("GET", PODS, params=QUERY)


async def test_an_ordinary_kubeconfig_needs_no_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens and certificates are read without `kubernetes`."""
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    (tmp_path / "token").write_text(SECRET)
    for number, user in enumerate(({}, {"token": SECRET}, {"token": "", "tokenFile": "token"})):
        path = kubeconfig(tmp_path, "http://127.0.0.1:1", user, name=str(number))
        assert (await find_access(path)).url.port == 1


PLUGIN = """
import json, os
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
print(json.dumps({**asked, "status": {"token": os.environ["WHO"]}}))
"""


async def test_a_plugin_logs_in(api: ApiServer, tmp_path: Path) -> None:
    """What an exec plug-in says is the token."""
    run = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", PLUGIN],
        "env": [{"name": "WHO", "value": SECRET}],
        "interactiveMode": "Never",
    }
    access = await find_access(kubeconfig(tmp_path, api.url, {"exec": run}))
    assert (await access.headers())["Authorization"] == f"Bearer {SECRET}"


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """By its base name."""
    cluster = {"certificate-authority": str(tmp_path / "none.crt")}
    with pytest.raises(SettingsError, match=r"No such file or directory \(none.crt\)"):
        await find_access(kubeconfig(tmp_path, "https://127.0.0.1:1", {}, cluster))


@pytest.mark.parametrize(("said", "found"), [({"namespace": "team"}, "team"), ({}, "default")])
def test_the_namespace_is_the_contexts(tmp_path: Path, said: dict[str, str], found: str) -> None:
    """Of the context that is named, or of the current one; `default` where there is none, or no such context."""
    path = tmp_path / "config"
    contexts = [{"name": "one", "context": said}, {"name": "two", "context": {"namespace": "other"}}]
    path.write_text(yaml.safe_dump({"current-context": "one", "contexts": contexts}))
    assert usual_namespace(str(path)) == found
    assert usual_namespace(str(path), "two") == "other"
    assert usual_namespace(str(path), "none") == "default"
    assert usual_namespace(str(tmp_path / "nowhere")) == "default"


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
    (tmp_path / "token").write_text(SECRET)
    (tmp_path / "namespace").write_text("team\n")
    assert authority.file == tmp_path / "ca.crt"
    monkeypatch.setattr(credentials, "ACCOUNT", tmp_path)
    _, host, port = secure.url.split(":")
    environ = {"KUBERNETES_SERVICE_HOST": host.strip("/"), "KUBERNETES_SERVICE_PORT": port}
    assert usual_namespace(environ=environ) == "team"
    access = await find_access(environ=environ)
    assert str(access.url).rstrip("/") == secure.url
    assert (await access.headers())["Authorization"].lower() == f"bearer {SECRET}"
    elsewhere = kubeconfig(tmp_path, "http://127.0.0.1:1")
    assert (await find_access(environ={**environ, "KUBECONFIG": elsewhere})).url.port == 1


async def test_a_service_account_without_files_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A Pod without a mounted token is told so."""
    monkeypatch.setattr(credentials, "ACCOUNT", tmp_path)
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}
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
        ("one", "two", ["its context two names the cluster gone, which does not exist"]),
        ("nope", "", ["its current-context nope does not exist", "its contexts are: one, two"]),
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


@pytest.mark.parametrize("last", ["current-context: two", 'current-context: ""', ""])
async def test_the_first_current_context_counts(tmp_path: Path, last: str) -> None:
    """As for kubectl, so that no command goes to another cluster than kubectl's. An empty file counts for none."""
    (tmp_path / "a").write_text(CONTEXTS % (SECRET, "one"))
    (tmp_path / "b").write_text(last)
    other = "clusters: [{name: far, cluster: {server: 'http://127.0.0.1:2'}}]\n"
    (tmp_path / "c").write_text(other + "contexts: [{name: two, context: {cluster: far, user: u}}]")

    found = await find_access(f"{tmp_path}/a:{tmp_path}/b:{tmp_path}/c")

    assert found.url.port == 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "it has no contexts"),
        ("[]", "clusters, users and contexts"),
        ("a: [", "line 2"),
        ("contexts: []", "it has no contexts"),
    ],
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
