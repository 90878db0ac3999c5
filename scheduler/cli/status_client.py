"""The status service, asked from here: at a URL, or through the API server in the Pod that acts.

Lives here: its JSON API as a person's shell uses it, with the credentials of the kubeconfig. Never here: what an answer
means, or how it is shown.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from scheduler import errors
from scheduler.cli.options import HOME, Reach
from scheduler.clock import steady
from scheduler.errors import GangwrightError, SettingsError, shortened
from scheduler.kube.changes import Resource
from scheduler.kube.client import Client
from scheduler.kube.credentials import Access, find_access
from scheduler.kube.listing import objects
from scheduler.kube.port_forward import forwarded
from scheduler.objects import api
from scheduler.settings import StatusServer
from scheduler.settings.kinds import is_loopback
from scheduler.status import schemas
from scheduler.status.move_schemas import DefragAnswer, DefragRequest
from scheduler.status.schemas import TrialRequest

T = TypeVar("T", bound=msgspec.Struct)

POD: Final = "pod"
"""The word that stands for: through the API server, in the Pod that acts."""

PODS: Final = Resource(
    f"/api/v1/namespaces/{HOME}/pods", api.Pod, label_selector="app.kubernetes.io/name=gangwright"
)
"""Where manifests/ put the service."""

ROLE: Final = (
    f"you may not list pods and forward ports in {HOME}: ask an administrator for the ClusterRole gangwright-view there, "
    "or give --server URL"
)

AWAY: Final = "the status service does not answer there; does it run, and is the port-forward up?"

READS: Final = "Gangwright is still reading the cluster: nobody is placed before it has"
LOOKS_ON: Final = (
    "the replica that answered does not act, so it knows no reasons and no forecasts; where none acts nobody is "
    f"placed, see: kubectl -n {HOME} get leases,pods"
)
BLIND: Final = (
    "Gangwright does not see the cluster now: nobody is placed until it does; its log and /readyz say what is "
    "missing"
)

LOGIN: Final = (
    "your kubeconfig's user must have a token, not a certificate alone; for one: kubectl config set-credentials NAME "
    "--token=$(kubectl create token SERVICEACCOUNT), then kubectl config set-context --current --user=NAME"
)

LIMIT: Final = aiohttp.ClientTimeout(total=30.0, sock_connect=10.0)
PAGE: Final = 1000


class RefusedError(GangwrightError):
    """The service cannot do it now, or may not do it for this person; `status` is that of HTTP."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(f"the status service: {text}")
        self.status = status


class StatusClient:
    """What the service says; the same questions as `offline_answers.OfflineAnswers`."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._answered: schemas.ClusterStatus | None = None
        """How the replica stands that answered last about gangs."""

    @property
    def now(self) -> float:
        return steady()

    def gangs(self, namespace: str | None = None) -> list[schemas.GangRow]:
        """All gangs, or those of one namespace, by name."""
        return self._gangs("/v1/gangs", {} if namespace is None else {"namespace": namespace})

    def queue(self) -> list[schemas.GangRow]:
        """Who waits, in order."""
        return self._gangs("/v1/queue", {})

    def _gangs(self, path: str, query: Mapping[str, str]) -> list[schemas.GangRow]:
        pages = asyncio.run(self._pages(path, query, schemas.GangList, stands=True))
        return [row for page in pages for row in page.gangs]

    def gang(self, namespace: str, name: str) -> schemas.GangDetail | None:
        """One gang; None where there is none."""
        try:
            path = f"/v1/gangs/{quote(namespace)}/{quote(name)}"
            return self._ask("GET", path, schemas.GangDetail, stands=True)
        except RefusedError as refused:
            if refused.status == 404:
                return None
            raise

    def nodes(self) -> schemas.NodeList:
        """All nodes, by name."""
        pages = asyncio.run(self._pages("/v1/nodes", {}, schemas.NodeList))
        every = [row for page in pages for row in page.nodes]
        return msgspec.structs.replace(pages[0], nodes=every, next=None)

    def fragmentation(self) -> dict[str, float]:
        """By resource, where somebody asks for it."""
        found = self._ask("GET", "/v1/cluster", schemas.ClusterStatus)
        return {own.name: own.fragmentation for own in found.resources if own.fragmentation is not None}

    def seats(self, _namespace: str, _name: str) -> dict[str, str]:
        """Nobody waits for seats that are there: they are given at once."""
        return {}

    def away(self) -> str:
        """Why nothing happens now, in the picture of the replica that answered: behind a Service the next may be
        another. Empty where it did not say.
        """
        if (seen := self._answered) is None:
            return ""
        words = ((not seen.synced, READS), (not seen.acting, LOOKS_ON), (seen.stale, BLIND))
        return next((text for holds, text in words if holds), "")

    def simulate(self, asked: TrialRequest) -> schemas.TrialAnswer:
        """Whether these pods would start now."""
        return self._ask("POST", "/v1/simulate", schemas.TrialAnswer, body=msgspec.json.encode(asked))

    def drain(self, node: str) -> schemas.DrainAnswer:
        """Move gangs away from a node."""
        return self._ask("POST", f"/v1/nodes/{quote(node)}/drain", schemas.DrainAnswer, body=b"{}")

    def defrag(self, *, dry_run: bool) -> DefragAnswer:
        """Moves that make room for the first gang that waits: shown, or begun."""
        body = msgspec.json.encode(DefragRequest(dry_run))
        return self._ask("POST", "/v1/defrag", DefragAnswer, body=body)

    # How it is asked

    def _ask(
        self, method: str, path: str, kind: type[T], *, body: bytes | None = None, stands: bool = False
    ) -> T:
        return asyncio.run(self._one(method, path, kind, body, stands=stands))

    async def _one(self, method: str, path: str, kind: type[T], body: bytes | None, *, stands: bool) -> T:
        async with self._session() as session:
            found = await _call(session, method, path, kind, body=body)
            if stands:
                await self._ask_how_it_stands(session)
        return found

    async def _ask_how_it_stands(self, session: aiohttp.ClientSession) -> None:
        """It is said beside an answer, which it must not cost."""
        with suppress(GangwrightError):
            self._answered = await _call(session, "GET", "/v1/cluster", schemas.ClusterStatus)

    async def _pages(
        self, path: str, query: Mapping[str, str], kind: type[T], *, stands: bool = False
    ) -> list[T]:
        found: list[T] = []
        offset: Any = 0
        async with self._session() as session:
            while offset is not None:
                page = {**query, "offset": str(offset), "limit": str(PAGE)}
                found.append(await _call(session, "GET", path, kind, query=page))
                offset = getattr(found[-1], "next", None)
            if stands:
                await self._ask_how_it_stands(session)
        return found

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[aiohttp.ClientSession]:
        """A session whose base is the service that acts."""
        access = await find_access(self._reach.kubeconfig, self._reach.context)
        if self._reach.server != POD:
            async with _opened(access, _checked(self._reach.server)) as session:
                try:
                    yield session
                except errors.Unreachable as error:
                    raise SettingsError("--server", self._reach.server, f"{AWAY} ({error})") from error
            return
        async with Client(access) as client:
            try:
                pods = await objects(client, PODS)
            except errors.Forbidden as error:
                raise SettingsError("--server", POD, ROLE) from error
        running = [pod.metadata.name for pod in pods if pod.status.phase == "Running"]
        if not running:
            raise SettingsError(
                "--server", POD, f"no Pod of Gangwright runs in {HOME}; see: kubectl -n {HOME} get pods"
            )
        async with _acting(access, running) as session:
            yield session


@asynccontextmanager
async def _acting(access: Access, pods: list[str]) -> AsyncIterator[aiohttp.ClientSession]:
    """The first Pod that acts; if none does, the last that answers."""
    faults: list[str] = []
    for pod in pods:
        async with (
            forwarded(access, HOME, pod, StatusServer().port) as (place, forwarding),
            _opened(access, URL(f"http://{place}")) as session,
        ):
            try:
                status = await _call(session, "GET", "/v1/cluster", schemas.ClusterStatus)
            except errors.Unreachable as error:
                if forwarding.forbidden:
                    raise SettingsError("--server", POD, ROLE) from error
                faults.append(f"{pod}: {forwarding.fault or error}")
                continue
            if (status.acting and not status.stale) or pod == pods[-1]:
                yield session
                return
    raise errors.Unreachable("port-forward", "; ".join(faults))


def _checked(text: str) -> URL:
    """The service's URL; a token is sent over TLS, or not beyond this machine."""
    try:
        url = URL(text)
    except ValueError:
        url = URL()
    if url.scheme not in {"http", "https"} or not url.host:
        raise SettingsError("--server", text, f"must be an http or https URL, or the word {POD}")
    if url.scheme == "http" and not is_loopback(url.host):
        raise SettingsError("--server", text, "must be https: your token would be sent in clear")
    return url.with_user(None)


@asynccontextmanager
async def _opened(access: Access, url: URL) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Accept": "application/json", **await access.headers()}
    async with aiohttp.ClientSession(
        base_url=url / "", headers=headers, timeout=LIMIT, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        yield session


async def _call(
    session: aiohttp.ClientSession,
    method: str,
    path: str,
    kind: type[T],
    *,
    query: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> T:
    """One answer of the service. Raises RefusedError for every status but 200, Unreachable where there is none."""
    sent = {"Content-Type": "application/json"} if method == "POST" else {}
    call = f"{method} {path}"
    try:
        async with session.request(
            method, path.lstrip("/"), params=query, data=body, headers=sent, allow_redirects=False
        ) as response:
            text, status = await response.read(), response.status
    except (aiohttp.ClientError, OSError) as error:
        raise errors.Unreachable(call, f"no answer ({type(error).__name__}: {error})") from error
    if status != 200:
        raise RefusedError(_told(text, status), status)
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise errors.Garbled(call, f"not this version of the status API: {error}") from error


def _told(text: bytes, status: int) -> str:
    """What the service says about why it does not answer."""
    try:
        said = str(json.loads(text)["error"])
    except (ValueError, LookupError, TypeError):
        said = "no word why"
    advice = f"; {LOGIN}" if status == 401 else ""
    return f"{status}: {shortened(said)}{advice}"
