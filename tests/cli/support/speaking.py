"""The command line spoken to, and a cluster that it can ask: an API server on loopback that holds what a test puts
there.
"""

import asyncio
import io
import os
from collections import defaultdict, deque
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import aiohttp
import msgspec
import yaml
from aiohttp import web

from scheduler.cli.command_line import main
from scheduler.cli.submission import PRIORITIES
from scheduler.objects.watched_resources import RESOURCES
from scheduler.status.api_group import API_PREFIX, REPLICA, Standing
from tests.kube.support.api_server import PODS, ApiServer, Refuse, status_body
from tests.kube.support.kubeconfig import kubeconfig

NODES = "/api/v1/nodes"
CONFIG_MAPS = "/api/v1/namespaces/gangwright-system/configmaps"
GPU = "nvidia.com/gpu"
TEAM = "/api/v1/namespaces/team/pods"
JOBS = "/apis/batch/v1/namespaces/team/jobs"
JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets"
DISCOVERY = {
    "/apis/batch/v1": [("Job", "jobs"), ("CronJob", "cronjobs")],
    "/apis/apps/v1": [("StatefulSet", "statefulsets")],
    "/api/v1": [("Pod", "pods"), ("Service", "services")],
}
"""By group and version: what this cluster has."""
SINCE = "2026-01-01T00:00:00Z"
BREAK = b"the connection breaks"
"""Instead of a line that comes later."""


@dataclass(frozen=True)
class Said:
    """What the command wrote, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.out)

    @property
    def yaml(self) -> Any:
        return yaml.safe_load(self.out)

    @property
    def rows(self) -> list[dict[str, str]]:
        """A table's lines under its head; columns begin where the head's words do."""
        head, *lines = self.out.rstrip("\n").split("\n")
        starts = [i for i, c in enumerate(head) if c != " " and (i == 0 or head[i - 2 : i] == "  ")]
        cut = list(zip(starts, [*starts[1:], None], strict=True))
        return [{head[a:b].strip(): own[a:b].strip() for a, b in cut} for own in lines]


def say(*words: str, **environ: str) -> Said:
    """Run the command in this process."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
        redirect_stdout(out),
        redirect_stderr(err),
        mock.patch.dict(os.environ, {"COLUMNS": "80", **environ}),
    ):
        try:
            main(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    return Said(code, out.getvalue(), err.getvalue())


class Cluster(ApiServer):
    """An API server that holds nodes and pods, and is asked by `say` with a kubeconfig of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self.user: dict[str, Any] | None = None
        """Of the kubeconfig: the credentials."""
        self.patches: list[tuple[str, dict[str, str], str, Any]] = []
        self.tried: list[Any] = []
        self.against: Refuse | None = None
        """Dry runs, and what is said to all of them."""
        self.logs: dict[str, list[bytes]] = {}
        """By pod: what it has written."""
        self.later: defaultdict[str, asyncio.Queue[bytes | None]] = defaultdict(asyncio.Queue)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.unwell = 0
        """How many of the next logs are answered with 500."""
        self.service = ""
        """The URL of the status service that is behind this API server; empty: none is installed."""
        self.standings: deque[Standing] = deque()
        """How the replicas stand that answer next, one after the other; all others say it themselves, or are active."""
        self.passed: list[str] = []
        """Paths of requests that were passed on to it."""
        self.objects = {resource.path: {} for resource in RESOURCES} | {
            path: {} for path in (PRIORITIES, TEAM, JOBS, JOB_SETS)
        }

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.path.startswith(f"{API_PREFIX}/") and not self.refusals:
            return await self._passed_on(request)
        if request.path.endswith("/log"):
            return await self._log(request)
        if request.method == "PATCH":
            return await self._patch(request)
        if request.method == "POST" and "dryRun" in request.query:
            return await self._try(request)
        if request.path in DISCOVERY:
            found = [
                {"kind": kind, "name": name, "namespaced": True} for kind, name in DISCOVERY[request.path]
            ]
            return web.json_response({"resources": [*found, {"kind": "Job", "name": "jobs/status"}]})
        return await super()._answer(request)

    async def _passed_on(self, request: web.Request) -> web.Response:
        """The status service's answer. A real API server tells it who asks; here it gets the asker's token."""
        if not self.service:
            return web.Response(status=404, text="404 page not found\n")
        path = request.path.removeprefix(API_PREFIX)
        self.passed.append(path)
        kept = ("Authorization", "Content-Type")
        headers = {name: request.headers[name] for name in kept if name in request.headers}
        asked: dict[str, Any] = {"params": request.query, "headers": headers, "data": await request.read()}
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.request(request.method, f"{self.service}{path}", **asked) as answer,
            ):
                says = self.standings.popleft() if self.standings else answer.headers.get(REPLICA, "active")
                body, kind = await answer.read(), answer.content_type
                return web.Response(
                    status=answer.status, body=body, content_type=kind, headers={REPLICA: says}
                )
        except aiohttp.ClientConnectionError:
            return await self._refused(Refuse(503, body=status_body(503, "error trying to reach service")))

    async def _patch(self, request: web.Request) -> web.Response:
        """Keeps what was sent, and takes it as what the object says from now on."""
        sent = msgspec.json.decode(await request.read())
        self.patches.append((request.path, dict(request.query), request.content_type, sent))
        if self.refusals:
            return await self._refused(self.refusals.popleft())
        collection, _, name = request.path.rpartition("/")
        *_, namespace, _ = collection.split("/")
        known = self.objects.setdefault(collection, {}).get((namespace, name))
        if known is None:
            known = self.put(name, collection, namespace)
        known.setdefault("spec", {}).update(sent.get("spec", {}))
        return web.json_response(known)

    async def _try(self, request: web.Request) -> web.Response:
        """Keeps nothing; takes what was sent, or refuses it as the test says."""
        self.tried.append(msgspec.json.decode(await request.read()))
        return await self._refused(self.against) if self.against else web.json_response(self.tried[-1])

    async def _log(self, request: web.Request) -> web.StreamResponse:
        """What a member has written; with `follow` until the test ends it with None, or breaks it."""
        name = request.path.split("/")[-2]
        self.asked.append((name, dict(request.query)))
        if name not in self.logs:
            return await self._refused(Refuse(404))
        if self.unwell:
            self.unwell -= 1
            return await self._refused(Refuse(500))
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in self.logs[name]:
            await response.write(piece)
        if request.query.get("follow"):
            while (piece := await self.later[name].get()) is not None:
                if piece is BREAK and request.transport is not None:
                    request.transport.abort()
                    return response
                await response.write(piece)
        return response

    async def ends(self, *names: str) -> None:
        """These members of the team end, and then their streams."""
        for name in names:
            self.objects[TEAM]["team", name]["status"]["phase"] = "Succeeded"
            self.changed(name)
        await asyncio.sleep(0)
        for name in names:
            self.later[name].put_nowait(None)

    def changed(self, name: str) -> None:
        """The watches of the team's pods are told what this one says now."""
        pod = self.objects[TEAM]["team", name]
        self.version += 1
        pod["metadata"]["resourceVersion"] = str(self.version)
        self._happened(TEAM, "MODIFIED", pod)

    async def say(self, *words: str) -> Said:
        return await asyncio.to_thread(say, *words, KUBECONFIG=self.kubeconfig)

    async def say_offline(self, command: str, *words: str) -> Said:
        return await self.say(command, "--offline", *words)

    @property
    def kubeconfig(self) -> str:
        return kubeconfig(self._folder, self.url, user=self.user)

    def settings(self, text: str, name: str = "gangwright-settings-9bf") -> dict[str, Any]:
        """The ConfigMap that the manifests make of the settings file."""
        return self.put(name, CONFIG_MAPS, "gangwright-system", data={"settings.yaml": text})

    def node(self, name: str, *, rack: str = "r0", gpus: int = 8, cordoned: bool = False) -> None:
        labels = {"kubernetes.io/hostname": name, "gangwright.io/rack": rack}
        room = {"cpu": "32", "memory": "128Gi", "pods": "110", GPU: str(gpus)}
        self.put(
            name, NODES, "", labels=labels, spec={"unschedulable": cordoned}, status={"allocatable": room}
        )

    def gang(self, name: str, size: int, *, namespace: str = "team", **words: Any) -> None:
        """Gated members NAME-0 … that need each other."""
        for number in range(size):
            self.pod(f"{name}-{number}", gang=name, quorum=size, namespace=namespace, **words)

    def pod(
        self,
        name: str,
        *,
        gang: str = "",
        quorum: int = 1,
        gpus: int = 1,
        node: str = "",
        namespace: str = "team",
        priority: int = 0,
        gated: bool = True,
        created: str = SINCE,
        annotations: dict[str, str] | None = None,
        owner: str = "",
    ) -> dict[str, Any]:
        """A pod of ours; with a node it runs there. owner: its controller, as `Kind/name`."""
        said = {"gangwright.io/min-members": str(quorum)} if gang else {}
        made = self.put(
            name,
            PODS,
            namespace,
            labels={"gangwright.io/gang": gang} if gang else {},
            spec={
                "schedulerName": "gangwright",
                "priority": priority,
                "containers": [{"name": "main", "resources": {"requests": {"cpu": "1", GPU: str(gpus)}}}],
                "schedulingGates": [{"name": "gangwright.io/planned"}] if gated and not node else [],
                "nodeName": node,
            },
            status={"phase": "Running" if node else "Pending"},
        )
        if namespace == "team":
            self.objects[TEAM][namespace, name] = made
        made["metadata"] |= {"annotations": {**said, **(annotations or {})}, "creationTimestamp": created}
        if owner:
            kind, _, called = owner.partition("/")
            whose = {"apiVersion": "v1", "kind": kind, "name": called, "uid": owner, "controller": True}
            made["metadata"]["ownerReferences"] = [whose]
        if namespace == "team":
            self.changed(name)
        return made
