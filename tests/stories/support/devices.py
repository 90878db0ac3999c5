"""Devices of Dynamic Resource Allocation in stories. A driver's objects are written by the story; kube-scheduler allocates."""

from collections.abc import Sequence
from typing import Any

from bench.plane import Client, where
from bench.plane.client import Object

DRIVER = "gpu.example.com"
GROUP = "resource.k8s.io/v1"


def collection(kind: str, namespace: str | None = None, name: str | None = None) -> str:
    return where(f"{GROUP}/{kind}", namespace, name)


def claiming(template: str) -> Object:
    """The part of a pod's spec that requests a claim for its container."""
    return {
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}],
        "containers": [
            {
                "name": "main",
                "image": "none",
                "resources": {"requests": {"cpu": "1"}, "claims": [{"name": "gpu"}]},
            }
        ],
    }


class Devices:
    """The objects of one story, removed at its end."""

    def __init__(self, api: Client, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._made: list[str] = []

    async def on(self, node: str, devices: Sequence[Object]) -> None:
        """The node has these devices."""
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": list(devices)}
        await self._put("resourceslices", {"kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec})

    async def a_class(self, name: str, expression: str, **more: Any) -> None:
        """A class of this name, and a template of the same name for one of its devices."""
        spec = {"selectors": [{"cel": {"expression": expression}}], **more}
        await self._put("deviceclasses", {"kind": "DeviceClass", "metadata": {"name": name}, "spec": spec})
        request = {"name": "gpu", "exactly": {"deviceClassName": name}}
        template = {"spec": {"devices": {"requests": [request]}}}
        body = {"kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": template}
        await self._put("resourceclaimtemplates", body, self._namespace)

    async def _put(self, kind: str, body: Object, namespace: str | None = None) -> None:
        await self._api.create(collection(kind, namespace), {"apiVersion": GROUP, **body})
        self._made.append(collection(kind, namespace, body["metadata"]["name"]))

    async def remove(self) -> None:
        for path in reversed(self._made):
            await self._api.delete(path)
