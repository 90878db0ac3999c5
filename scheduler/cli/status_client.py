"""The client of the status service: through the API server, at a URL, or in its Pod.

Lives here: calls of its JSON API with the credentials of the kubeconfig, and the choice of a replica. Never here: the
meaning of an answer, or how it is shown.

Through the API server, all credentials of the API server work: a token, a client certificate, an exec plugin. The other
two ways pass on the token, and do not support certificates.
"""

import asyncio
import json
import ssl
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from yarl import URL

from scheduler import errors
from scheduler.cli.options import HOME, Reach
from scheduler.clock import steady
from scheduler.errors import GangwrightError, SettingsError, shortened
from scheduler.kube.credentials import Access, find_access
from scheduler.kube.http_connection import Answer, HttpConnection, api_server, refused
from scheduler.status import accounting, node_schemas, schemas
from scheduler.status.api_group import API_PREFIX, REPLICA, Standing
from scheduler.status.move_schemas import DefragAnswer, DefragRequest
from scheduler.status.schemas import TrialRequest

if TYPE_CHECKING:
    from scheduler.model.policy import Policy

T = TypeVar("T")
Part = TypeVar("Part", bound=msgspec.Struct)

Question: TypeAlias = Callable[[HttpConnection], T]

POD: Final = "pod"
"""The value that selects a port-forward through the API server to the active Pod."""

TRIES: Final = 6
"""Requests until the answer of a standby replica is shown. It closes its connection after each answer, and the next one
goes to any replica. With two replicas, the active one is missed six times in a row once in 64 cases.
"""

ROLE: Final = (
    f"requires the rights to list pods and forward ports in {HOME}. Ask an administrator for the ClusterRole "
    "gangwright-view there, or leave out --server"
)

AWAY: Final = "does not answer. Check that the status service runs and that the port-forward is up"

OFFLINE: Final = "use --offline to compute the answer from what you may read"
"""The alternative of a command without the service."""

MISSING: Final[Mapping[int, str]] = {
    403: "the API server does not let you use the status service, or Gangwright is not installed",
    404: "the status service is not installed behind this API server",
    503: f"no replica of the status service answers the API server; see: kubectl -n {HOME} get pods",
}
"""The meaning of the API server's own answers at the paths of the status API."""

STANDINGS: Final[Mapping[Standing | None, str]] = {
    Standing.READING: "Gangwright is still reading the cluster; it schedules no pod until it is done",
    Standing.STANDBY: (
        "answered by a standby replica (no reasons, positions or forecasts). If no replica is active, no pod is scheduled; "
        f"see: kubectl -n {HOME} get leases,pods"
    ),
    Standing.STALE: (
        "Gangwright can't reach the API server now, so this answer may be outdated, and no pod is scheduled; see its log "
        "and /readyz"
    ),
}
"""Notes on an answer, by the state of the replica."""

LOGIN: Final = (
    "the user in your kubeconfig needs a token, not only a certificate. Set one: kubectl config set-credentials NAME "
    "--token=$(kubectl create token SERVICEACCOUNT), then kubectl config set-context --current --user=NAME. "
    "Without --server a certificate is enough"
)

PAGE: Final = 1000


class RefusedError(GangwrightError):
    """The service can't do it now, or the user is not allowed to. `status` is the HTTP status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(f"the status service: {text}")
        self.status = status


class MissingServiceError(GangwrightError):
    """The API server answered instead of the service. `status` is the HTTP status."""

    def __init__(self, said: errors.KubeError, advice: str) -> None:
        super().__init__("; ".join(filter(None, (f"{MISSING[said.status]} ({said.words})", advice))))
        self.status = said.status


class StatusClient:
    """Answers of the service, with the same methods as `offline_answers.OfflineAnswers`.

    advice: what to do if the service is not available.
    """

    def __init__(self, reach: Reach, advice: str = OFFLINE) -> None:
        self._reach = reach
        self._advice = advice
        self._known: Access | None = None
        self._standing: Standing | None = None
        """The state of the replica that answered last. None if it did not say."""

    @property
    def now(self) -> float:
        return steady()

    def gangs(self, namespace: str | None = None, selector: str = "") -> list[schemas.GangRow]:
        """All gangs, or those of one namespace, by name. selector: a label selector in kubectl's syntax."""
        inside = {} if namespace is None else {"namespace": namespace}
        return self._gangs("/v1/gangs", inside | _labels(selector))

    def queue(self, selector: str = "") -> list[schemas.GangRow]:
        """Pending gangs in queue order."""
        return self._gangs("/v1/queue", _labels(selector))

    def _gangs(self, path: str, query: Mapping[str, str]) -> list[schemas.GangRow]:
        return [row for page in self._pages(path, query, schemas.GangList) for row in page.gangs]

    def gang(self, namespace: str, name: str) -> schemas.GangDetail | None:
        """One gang. None if not found."""
        try:
            return self._one("GET", f"/v1/gangs/{quote(namespace)}/{quote(name)}", schemas.GangDetail)
        except RefusedError as refusal:
            if refusal.status == 404:
                return None
            raise

    def nodes(self) -> node_schemas.NodeList:
        """All nodes, by name."""
        pages = self._pages("/v1/nodes", {}, node_schemas.NodeList)
        every = [row for page in pages for row in page.nodes]
        return msgspec.structs.replace(pages[0], nodes=every, next=None)

    def fragmentation(self) -> dict[str, float]:
        """Fragmentation by resource, for resources that gangs request."""
        found = self._one("GET", "/v1/cluster", node_schemas.ClusterStatus)
        return {own.name: own.fragmentation for own in found.resources if own.fragmentation is not None}

    def shares(self) -> accounting.ShareList:
        """Usage, guarantee and ceiling of each namespace."""
        return self._one("GET", "/v1/shares", accounting.ShareList)

    def history(self, namespace: str | None, limit: int) -> accounting.HistoryList:
        """The latest finished gangs, of one namespace or of all."""
        words = {"limit": str(limit), **({} if namespace is None else {"namespace": namespace})}
        return self._one("GET", f"/v1/history?{urlencode(words)}", accounting.HistoryList)

    def policy(self) -> "Policy":
        """The scheduler names and levels of the service, with defaults for the rest."""
        from scheduler.model.cluster import Level  # late: it loads numpy
        from scheduler.model.policy import Policy

        found = self._one("GET", "/v1/cluster", node_schemas.ClusterStatus)
        levels = tuple(Level(name, found.level_labels[name]) for name in reversed(found.levels))
        return Policy(scheduler_names=frozenset(found.scheduler_names), levels=levels)

    def seats(self, _namespace: str, _name: str) -> dict[str, str]:
        """Empty: no gang waits while it fits, because the service assigns nodes at once."""
        return {}

    def away(self) -> str:
        """Why no gang is scheduled now, by the replica that answered. Empty if it is active, or did not say."""
        return STANDINGS.get(self._standing, "")

    def notes(self) -> Iterator[str]:
        """Notes on its answers."""
        if away := self.away():
            yield away

    def simulate(self, asked: TrialRequest) -> schemas.TrialAnswer:
        """Whether these pods would start now."""
        return self._one("POST", "/v1/simulate", schemas.TrialAnswer, body=msgspec.json.encode(asked))

    def drain(self, node: str) -> schemas.DrainAnswer:
        """Move gangs off a node."""
        return self._one("POST", f"/v1/nodes/{quote(node)}/drain", schemas.DrainAnswer, body=b"{}")

    def defrag(self, *, dry_run: bool) -> DefragAnswer:
        """Moves that let the first waiting gang start: shown, or started."""
        body = msgspec.json.encode(DefragRequest(dry_run))
        return self._one("POST", "/v1/defrag", DefragAnswer, body=body)

    # Requests

    def _one(self, method: str, path: str, kind: type[Part], *, body: bytes | None = None) -> Part:
        return self._ask(lambda server: self._call(server, method, path, kind, body=body))

    def _pages(self, path: str, query: Mapping[str, str], kind: type[Part]) -> list[Part]:
        def every(server: HttpConnection) -> list[Part]:
            found: list[Part] = []
            offset: Any = 0
            while offset is not None:
                page = {**query, "offset": str(offset), "limit": str(PAGE)}
                found.append(self._call(server, "GET", path, kind, query=page))
                offset = getattr(found[-1], "next", None)
            return found

        return self._ask(every)

    def _ask(self, question: Question[T]) -> T:
        """The answer, in the way that the options select. Raises GangwrightError."""
        url = self._reach.server
        if url == POD:
            return asyncio.run(self._in_a_pod(question))
        try:
            return _closing(asyncio.run(self._at(url) if url else self._behind()), question)
        except errors.Unreachable as error:
            if not url:
                raise
            raise SettingsError("--server", url, f"{AWAY} ({error})") from error

    async def _access(self) -> Access:
        """The credentials. Found once, because a login plugin is slow; expired parts are read again."""
        if self._known is None:
            self._known = await find_access(self._reach.kubeconfig, self._reach.context)
        return self._known

    async def _behind(self) -> HttpConnection:
        """A connection to the API server, which passes requests on to the service."""
        return await api_server(await self._access())

    async def _at(self, text: str) -> HttpConnection:
        """A connection to the given URL. A token is sent only over TLS or on loopback."""
        try:
            url = URL(text)
        except ValueError:
            url = URL()
        if url.scheme not in {"http", "https"} or not url.host:
            raise SettingsError("--server", text, f"must be an http or https URL, or {POD}")
        if url.scheme == "http" and not _is_loopback(url.host):
            raise SettingsError(
                "--server", text, "must be https, because your token would be sent unencrypted"
            )
        headers = await (await self._access()).headers()
        tls = ssl.create_default_context() if url.scheme == "https" else None
        return HttpConnection(url.with_user(None), headers, tls=tls)

    async def _in_a_pod(self, question: Question[T]) -> T:
        """The answer of the first active Pod, or of the last one if none is active."""
        from scheduler.kube.port_forward import forwarded  # late: it needs aiohttp
        from scheduler.settings import StatusServer

        access = await self._access()
        pods, faults, last = await _running(self._reach), list[str](), list[T]()
        for pod in pods:
            async with forwarded(access, HOME, pod, StatusServer().port) as (place, forwarding):
                server = HttpConnection(URL(f"http://{place}"), await access.headers())
                try:
                    found = await asyncio.to_thread(_closing, server, question)
                except errors.Unreachable as error:
                    if forwarding.forbidden:
                        raise SettingsError("--server", POD, ROLE) from error
                    faults.append(f"{pod}: {forwarding.fault or error}")
                    continue
                except RefusedError:
                    if not self.away() or pod == pods[-1]:
                        raise
                    continue
                if not self.away():
                    return found
                last.append(found)
        if last:
            return last[-1]
        raise errors.Unreachable("port-forward", "; ".join(faults))

    def _call(
        self,
        server: HttpConnection,
        method: str,
        path: str,
        kind: type[Part],
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Part:
        """One answer of the service, from an active replica if possible.

        Raises RefusedError for every status but 200, MissingServiceError or a KubeError if the API server answers
        instead, and Unreachable if there is no answer.
        """
        path = path if self._reach.server else f"{API_PREFIX}{path}"
        call = f"{method} {path}"
        answer = server.ask(method, path, query=query, body=body)
        for _ in range(0 if self._reach.server == POD else TRIES - 1):
            if _standing(answer) is not Standing.STANDBY:
                break
            answer = server.ask(method, path, query=query, body=body)
        self._standing = _standing(answer)
        if answer.status != 200:
            if not self._reach.server and self._standing is None:
                said = refused(call, answer)
                raise MissingServiceError(said, self._advice) if said.status in MISSING else said
            raise RefusedError(_told(answer), answer.status)
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise errors.Garbled(call, f"unsupported version of the status API: {error}") from error


def _labels(selector: str) -> dict[str, str]:
    return {"labelSelector": selector} if selector else {}


async def _running(reach: Reach) -> list[str]:
    """The Pods of Gangwright in the namespace of manifests/. Raises SettingsError if none runs."""
    from scheduler.kube.changes import Resource  # late: only this way needs aiohttp
    from scheduler.kube.listing import objects
    from scheduler.objects import api

    label = "app.kubernetes.io/name=gangwright"
    pods = Resource(f"/api/v1/namespaces/{HOME}/pods", api.Pod, label_selector=label)
    async with await reach.client() as client:
        try:
            found = await objects(client, pods)
        except errors.Forbidden as error:
            raise SettingsError("--server", POD, ROLE) from error
    running = [pod.metadata.name for pod in found if pod.status.phase == "Running"]
    if not running:
        remedy = f"found no running Pod of Gangwright in {HOME}. See: kubectl -n {HOME} get pods"
        raise SettingsError("--server", POD, remedy)
    return running


def _closing(server: HttpConnection, question: Question[T]) -> T:
    try:
        return question(server)
    finally:
        server.close()


def _is_loopback(host: str) -> bool:
    from scheduler.settings.kinds import is_loopback  # late: it imports all settings

    return is_loopback(host)


def _standing(answer: Answer) -> Standing | None:
    """The state of the replica that answered. None if it was not the service, or an earlier version of it."""
    try:
        return Standing(answer.headers.get(REPLICA.lower(), ""))
    except ValueError:
        return None


def _told(answer: Answer) -> str:
    """The error message of the service."""
    try:
        said = str(json.loads(answer.body)["error"])
    except (ValueError, LookupError, TypeError):
        said = "no error message"
    advice = f"; {LOGIN}" if answer.status == 401 else ""
    return f"{answer.status}: {shortened(said)}{advice}"
