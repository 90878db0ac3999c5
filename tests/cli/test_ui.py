"""`gangwright ui`: a local server for one browser, which no other page, name or program gets an answer from."""

import asyncio
import json
import os
import re
import sys

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from yarl import URL

from scheduler.cli.status_client import TRIES
from scheduler.cli.ui import build_app
from scheduler.kube.client import Client
from scheduler.kube.credentials import find_access
from scheduler.status.api_group import API_PREFIX, REPLICA
from scheduler.status.page import FILES
from scheduler.status.routes import ROUTES
from scheduler.status.status_app import BODY_LIMIT, HEADERS
from tests.cli.support.speaking import Cluster
from tests.kube.support.api_server import Call, Refuse
from tests.status.support import chromium
from tests.status.support.browser import browsing
from tests.status.support.reviewing import ADMIN, everybody
from tests.status.support.scene import a_scene
from tests.status.support.served import served

SECRET = "secret-of-this-run"
FOUND = chromium.find()


class Aggregating(Cluster):
    """A cluster with a service behind its API server; the calls that are passed on to it are noted as all others are."""

    def __init__(self, folder, service):
        super().__init__(folder)
        self.user, self.service = {"token": ADMIN}, service

    async def _answer(self, request):
        if not request.path.startswith(API_PREFIX):
            return await super()._answer(request)
        said = {name.lower(): value for name, value in request.headers.items()}
        call = Call(request.method, request.path, dict(request.query), said, await request.read(), None)
        self.calls.append(call)
        refused = self.barred.get(request.path)
        return await (super()._answer(request) if refused is None else self._refused(refused))


@pytest.fixture
async def cluster(tmp_path):
    world = a_scene()
    async with (
        served(world.engine, everybody(), now=world.now, endless=True) as service,
        Aggregating(tmp_path, service.url) as made,
    ):
        yield made


class Local:
    """The local server, and a client of it."""

    def __init__(self, server, session):
        self.url = str(server.make_url("")).rstrip("/")
        self._session = session

    async def ask(self, path, method="GET", *, token=SECRET, **more):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= more.pop("headers", {})
        url = URL(self.url + path, encoded=True)
        async with self._session.request(method, url, headers=headers, **more) as answer:
            return answer.status, answer.headers, await answer.read()


@pytest.fixture
async def local(cluster):
    async with (
        Client(await find_access(cluster.kubeconfig)) as client,
        TestServer(build_app(client, SECRET), host="127.0.0.1") as server,
        aiohttp.ClientSession() as session,
    ):
        yield Local(server, session)


async def test_the_page_and_its_answers_come_from_one_place(local, cluster):
    """The files are those of the package, the answers those of the service, asked with the kubeconfig's credentials."""
    for name in FILES:
        status, _, body = await local.ask(f"/{'' if name == 'index.html' else name}", token=None)
        assert (status, bool(body)) == (200, True)
    status, _, body = await local.ask("/v1/gangs?limit=2", headers={"Cookie": "a=b", "X-Remote-User": "root"})

    assert (status, len(json.loads(body)["gangs"])) == (200, 2)
    (call,) = cluster.calls
    assert (call.path, call.query) == (f"{API_PREFIX}/v1/gangs", {"limit": "2"})
    assert call.headers["authorization"] == f"Bearer {ADMIN}"
    assert call.headers.keys().isdisjoint({"cookie", "x-remote-user", "origin", "referer"})


async def test_an_answer_that_the_page_has_is_not_sent_again(local):
    """The page draws nothing again while nothing changes."""
    _, headers, _ = await local.ask("/v1/nodes")
    status, _, body = await local.ask("/v1/nodes", headers={"If-None-Match": headers["ETag"]})

    assert (status, body) == (304, b"")


@pytest.mark.parametrize("token", [None, "", "wrong", ADMIN, "secret-of-this-ru", "s\u00e9cret"])
@pytest.mark.parametrize("path", ["/v1/cluster", "/v1/nothing", "/metrics"])
async def test_without_the_token_there_are_no_answers(local, cluster, token, path):
    """Another program on the machine can reach the port; nothing is asked in its name."""
    status, headers, _ = await local.ask(path, token=token)

    assert (status, headers["WWW-Authenticate"]) == (401, 'Bearer realm="gangwright"')
    assert cluster.calls == []


@pytest.mark.parametrize("host", ["evil.example", "localhost", "127.0.0.1", "127.0.0.1:1", "[::1]"])
@pytest.mark.parametrize("path", ["/", "/v1/cluster", "/openapi.json"])
async def test_a_name_that_leads_here_gets_nothing(local, cluster, host, path):
    """Also with the token: a Host that is not this server's is another site's (DNS rebinding)."""
    status, _, body = await local.ask(path, headers={"Host": host})

    assert (status, b"only for" in body) == (403, True)
    assert cluster.calls == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("GET", "/v1/cluster"), ("POST", "/v1/simulate")])
async def test_pages_of_others_get_nothing(local, cluster, headers, method, path):
    """Also with the token. No answer says that another origin may read it."""
    status, told, _ = await local.ask(path, method, headers=headers)

    assert status == 403
    assert not [name for name in told if name.lower().startswith("access-control")]
    assert cluster.calls == []


async def test_the_page_itself_is_answered(local):
    """What a browser says of the page's own requests is no obstacle."""
    own = {"Origin": local.url, "Sec-Fetch-Site": "same-origin"}

    assert (await local.ask("/v1/cluster", headers=own))[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("OPTIONS", "/v1/cluster", 405),
        ("HEAD", "/", 405),
        ("DELETE", "/v1/cluster", 405),
        ("GET", "/v1/simulate", 405),
        ("GET", "/v1/secrets", 404),
        ("GET", "/api/v1/secrets", 404),
        ("GET", "/v1/gangs/team-a/%2e%2e", 400),
        ("GET", "/v1/gangs/team-a/a%2fb", 400),
        ("GET", "/v1/gangs/..%2f..%2fapi/x", 400),
        ("GET", "/v1/queue?watch=1", 400),
        ("GET", "/v1/queue?limit=x", 400),
    ],
)
async def test_only_what_the_table_names_is_passed_on(local, cluster, method, path, status):
    """No other method or path, no word that does not fit its pattern, and no step up in a path."""
    found, _, _ = await local.ask(path, method)

    assert found == status
    assert cluster.calls == []


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"x" * (BODY_LIMIT + 1), {"Content-Type": "application/json"}, 413),
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"{}", {"Content-Type": "application/json", "Content-Encoding": "gzip"}, 415),
    ],
)
async def test_bodies_are_small_and_json(local, cluster, body, headers, status):
    """Forms, which any page may send, and large bodies end here."""
    found, _, _ = await local.ask("/v1/simulate", "POST", data=body, headers=headers)

    assert found == status
    assert cluster.calls == []


async def test_every_answer_has_the_headers_of_the_service(local):
    """Files, answers, refusals and what is no path."""
    for path, token in (("/", None), ("/v1/cluster", SECRET), ("/v1/cluster", None), ("/nothing", SECRET)):
        _, headers, _ = await local.ask(path, token=token)
        for name, text in HEADERS.items():
            assert headers[name] == text or (name, path) == ("Cache-Control", "/")


@pytest.mark.parametrize(
    ("refused", "status", "text"),
    [
        (Refuse(403), 502, "does not let you use the status service"),
        (Refuse(409, {REPLICA: "active"}, b'{"error": "not now", "status": 409}'), 409, "not now"),
        (Refuse(403, {REPLICA: "active"}, b"<html>"), 403, "no error message"),
        (Refuse(401, {REPLICA: "active"}, b'{"error": "unknown", "status": 401}'), 502, "unknown"),
        (Refuse(401), 502, "log in to the cluster again"),
        (Refuse(404), 502, "not installed"),
        (Refuse(503, body=b"<html>a proxy's page</html>"), 502, "no replica"),
        (Refuse(302, headers={"Location": "http://evil.example/"}), 502, "as scripted"),
    ],
)
async def test_refusals_are_told_in_words(local, cluster, refused, status, text):
    """A 401 of the API server is not one of the page's token, which the page would ask for."""
    cluster.barred[f"{API_PREFIX}/v1/cluster"] = refused

    found, _, body = await local.ask("/v1/cluster")

    assert (found, text in json.loads(body)["error"]) == (status, True)


async def test_a_standby_is_asked_again(local, cluster):
    """The page hears one replica, the one that is active, and a standby only where no other answers."""
    cluster.standings += ["standby", "standby", "active"]
    assert (await local.ask("/v1/cluster"))[0] == 200
    assert len(cluster.calls) == 3

    cluster.standings += ["standby"] * TRIES
    assert (await local.ask("/v1/cluster"))[0] == 200
    assert len(cluster.calls) == 3 + TRIES


async def test_an_api_server_that_is_away_is_told(local, cluster):
    """502, and no credential in the text."""
    await cluster.stop()

    status, _, body = await local.ask("/v1/cluster")

    assert (status, b"no answer" in body, ADMIN.encode() in body) == (502, True, False)


def test_all_routes_of_the_service_have_a_way():
    """A route that is added to the table is passed on, too."""
    app = build_app(None, SECRET)
    ways = {(own.method, own.resource.canonical) for own in app.router.routes()}

    assert {(route.method, route.path) for route in ROUTES} < ways


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────


async def test_the_command_prints_a_url_and_ends_with_ctrl_c(cluster):
    """The URL leads to loopback, its fragment is the token, and nothing but the URL is on standard output."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scheduler", "ui", "--no-browser"),
        env={**os.environ, "KUBECONFIG": cluster.kubeconfig},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    line = (await process.stdout.readline()).decode()
    found = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/#token=([-_A-Za-z0-9]{43})\n", line)
    assert found, (line, await process.stderr.read())
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{found[1]}/v1/cluster", headers={"Authorization": f"Bearer {found[2]}"}) as answer,
    ):
        told = await answer.json()
    process.terminate()
    rest, _ = await process.communicate()

    assert (told["user"], process.returncode, rest) == ("admin", 0, b"")


async def test_without_a_service_there_is_no_server(cluster):
    """A cluster without the API says so at once: exit code 2, and no browser is opened."""
    cluster.barred[f"{API_PREFIX}/v1/cluster"] = Refuse(404)

    said = await cluster.say("ui")

    assert (said.code, said.out, "not installed" in said.err) == (2, "", True)


@pytest.mark.slow
@pytest.mark.skipif(FOUND is None, reason=chromium.MISSING)
async def test_the_page_takes_the_token_from_the_fragment(local):
    """It shows the cluster without asking who is there. The token is gone from the address, and a reload needs it not."""
    async with browsing(FOUND) as tab:
        await tab.show(f"{local.url}/#token={SECRET}")
        await tab.until("!document.getElementById('shown').hidden")
        place = await tab.run("location.href")
        await tab.show(f"{local.url}/")
        await tab.until("!document.getElementById('shown').hidden")
        user = await tab.run("document.getElementById('standing').textContent")
        wrongs = tab.wrongs()

    assert place == f"{local.url}/"
    assert user.startswith("admin")
    assert wrongs == []
