"""What the API server is told of one pod: its status, and that it may go. Told again until it is heard."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import aiohttp

from bench.plane.client import Client, Object, where
from bench.plane.errors import ApiError
from bench.plane.kubelet.environment import Addresses
from bench.plane.kubelet.ground import AGAIN, now
from bench.plane.kubelet.status import State, status

ENDED = {"Succeeded", "Failed"}

WRONG = {400, 405, 413, 415, 422}
"""The request is at fault, and would be so again."""


class Teller:
    """Of one pod. Its picture, `pod`, is kept up to date from outside."""

    def __init__(
        self, api: Client, pod: Object, addresses: Addresses, inits: Sequence[State], mains: Sequence[State]
    ) -> None:
        self.pod = pod
        self.placed = False
        """Whether its volumes are there and it has an address."""
        self.stopped = False
        """Whether nothing of it is started any more."""
        self.silent = False
        """Whether nothing is told any more."""
        self._api = api
        self._addresses = addresses
        self._inits, self._mains = inits, mains
        self._began = now()
        self._dirty = asyncio.Event()
        self._turn = asyncio.Lock()

    def changed(self) -> None:
        """There is news; `tell_on` tells it, with whatever else is new by then."""
        self._dirty.set()

    async def tell_on(self) -> None:
        """Tells all news, for ever."""
        while True:
            await self._dirty.wait()
            await self.tell()

    async def tell(self) -> None:
        """Writes the status as it is now. What has ended stays as it ended."""
        async with self._turn:
            self._dirty.clear()
            if not self.silent and self.pod.get("status", {}).get("phase") not in ENDED:
                await self._heard(lambda: self._api.patch(self._path("status"), self._said()))

    async def release(self) -> None:
        """Lets the API server forget the deleted pod, once others have taken their finalizers off it."""
        uid = {"uid": self.pod["metadata"]["uid"]}
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": uid}
        await self._heard(lambda: self._api.request("DELETE", self._path(), body=options))

    def _said(self) -> Object:
        said = status(
            self.pod,
            self._inits,
            self._mains,
            now=now(),
            began=self._began,
            ip=self._addresses.pod if self.placed else "",
            host=self._addresses.host,
            stopped=self.stopped,
        )
        return {"metadata": {"uid": self.pod["metadata"]["uid"]}, "status": said}

    async def _heard(self, call: Callable[[], Coroutine[Any, Any, Object]]) -> None:
        while not self.silent:
            try:
                await call()
            except ApiError as error:
                if _gone(error):
                    return
                if error.status in WRONG:
                    raise
            except (aiohttp.ClientError, ConnectionError):
                pass
            else:
                return
            await asyncio.sleep(AGAIN)

    def _path(self, part: str | None = None) -> str:
        meta = self.pod["metadata"]
        return where("pods", meta["namespace"], meta["name"], part)


def _gone(error: ApiError) -> bool:
    """Whether the pod is gone, or is another one of its name: a uid that differs is a conflict or an invalid change."""
    return error.status in {404, 409} or "metadata.uid" in error.message
