"""One node of ours: its object and lease, and the lives of the pods that are bound to it."""

import asyncio
import copy
import datetime as dt
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import aiohttp

from bench.plane import watches
from bench.plane.client import Client, Object, key, where
from bench.plane.errors import ApiError
from bench.plane.kubelet.ground import AGAIN, Ground, now
from bench.plane.kubelet.life import Life

LEASES = "kube-node-lease"
LEASE_SECONDS = 40
RENEW_SECONDS = 10
"""A kubelet's own: a lease of 40 s, renewed after a quarter of it."""

KWOK = "kwok.x-k8s.io/node"
"""The annotation by which kwok knows its own; a node without it is left alone, and so are its pods."""


class Machine:
    """body: its Node object, as `nodes.Fleet` makes it. addresses: of pods, a fresh one for each."""

    def __init__(self, ground: Ground, body: Object, addresses: Iterator[str]) -> None:
        self.name: str = body["metadata"]["name"]
        self.lives: dict[str, Life] = {}
        """Pods that are here, by uid."""
        self._ground = ground
        self._body = copy.deepcopy(body)
        self._body["metadata"]["annotations"].pop(KWOK, None)
        self._addresses = addresses
        self._tasks: list[asyncio.Task[Any]] = []
        self._going: list[Life] = []
        """Pods whose object is gone and of which something may still run."""

    async def create(self) -> None:
        """Its object comes into the cluster, and it takes pods. Raises ApiError."""
        self._body["status"]["conditions"] = _conditions()
        self._body["status"]["addresses"] = [{"type": "InternalIP", "address": self._ground.host}]
        self._body["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": self._ground.port}}
        lease = {"metadata": {"name": self.name, "namespace": LEASES}, "spec": self._lease()}
        await self._ground.api.create(where("nodes"), self._body)
        with suppress(ApiError):  # the one of a node of the same name is still there
            await self._ground.api.create(where("leases", LEASES), lease)
        self.begin()

    def begin(self) -> None:
        """Takes pods and is heard of, at first or after `die`."""
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._heart()), asyncio.create_task(self._follow())]

    async def die(self) -> None:
        """The power is off: nothing of it runs, nothing is heard."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        lives, self.lives, self._going = [*self.lives.values(), *self._going], {}, []
        await asyncio.gather(*(life.cut() for life in lives))
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                self._ground.failures.append(ended)

    async def leave(self) -> None:
        """It dies, and its object, its lease and the pods it had go from the cluster."""
        await self.die()
        api = self._ground.api
        for pod in await api.items(where("pods"), fields=f"spec.nodeName={self.name}"):
            await api.delete(where("pods", pod["metadata"]["namespace"], pod["metadata"]["name"]), grace=0)
        await api.delete(where("nodes", name=self.name))
        await api.delete(where("leases", LEASES, self.name))

    async def _heart(self) -> None:
        await _sent(
            self._ground.api, where("nodes", name=self.name, part="status"), {"conditions": _conditions()}
        )
        while True:
            await _sent(self._ground.api, where("leases", LEASES, self.name), self._lease())
            await asyncio.sleep(RENEW_SECONDS)

    async def _follow(self) -> None:
        async for kind, pod in watches.changes(
            self._ground.api, where("pods"), fields=f"spec.nodeName={self.name}"
        ):
            uid = pod["metadata"]["uid"]
            for other in [own for own in self.lives if own != uid and key(self.lives[own].pod) == key(pod)]:
                self._gone(other)
            if kind == "DELETED":
                self._gone(uid)
            elif uid in self.lives:
                self.lives[uid].seen(pod)
            else:
                self.lives[uid] = Life(self._ground, pod, next(self._addresses))
                self.lives[uid].begin()

    def _gone(self, uid: str) -> None:
        self._going = [life for life in self._going if life.busy]
        if life := self.lives.pop(uid, None):
            life.vanished()
            self._going.append(life)

    def _lease(self) -> Object:
        at = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {"holderIdentity": self.name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": at}


async def _sent(api: Client, path: str, part: Object) -> None:
    """Patches spec or status of a thing of ours, as often as it takes."""
    body = {"spec" if "renewTime" in part else "status": part}
    while True:
        try:
            await api.patch(path, body, how="strategic")
        except ApiError as error:
            if error.status == 404:
                return
        except (aiohttp.ClientError, ConnectionError):
            pass
        else:
            return
        await asyncio.sleep(AGAIN)


def _conditions() -> list[Object]:
    """What a sound kubelet says of its machine."""
    states = {
        "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
        "MemoryPressure": ("False", "KubeletHasSufficientMemory", ""),
        "DiskPressure": ("False", "KubeletHasNoDiskPressure", ""),
        "PIDPressure": ("False", "KubeletHasSufficientPID", ""),
    }
    at = now()
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": at,
            "lastTransitionTime": at,
        }
        for kind, (status, reason, message) in states.items()
    ]
