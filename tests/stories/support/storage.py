"""The storage of a story: classes, volumes and limits, and the controller for volumes, which the plane does not run."""

import asyncio
from contextlib import suppress
from typing import Any, Final

from bench.plane import Client, where
from bench.plane.client import Object
from bench.plane.errors import ApiError

STORAGE: Final = "storage.k8s.io/v1"
SELECTED: Final = "volume.kubernetes.io/selected-node"
DRIVER: Final = "csi.example"
HOST: Final = "kubernetes.io/hostname"


class Storage:
    """Classes, volumes and limits of one test, and the controller that completes what kube-scheduler begins."""

    def __init__(self, api: Client, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self._made: list[str] = []

    async def create(self, kind: str, name: str, body: Object, version: str) -> None:
        thing = {"apiVersion": version, "metadata": {"name": name}, **body}
        await self.api.create(where(kind), thing)
        self._made.append(where(kind, name=name))

    async def a_class(self, name: str, provisioner: str, **more: Any) -> None:
        body = {
            "kind": "StorageClass",
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await self.create(f"{STORAGE}/storageclasses", name, body | more, STORAGE)

    async def a_volume(self, name: str, klass: str, key: str, value: str, **source: Any) -> None:
        matches = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
        spec = {
            "storageClassName": klass,
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [matches]}},
            **source,
        }
        await self.create("persistentvolumes", name, {"kind": "PersistentVolume", "spec": spec}, "v1")
        await self._status("persistentvolumes", name, "Available")

    async def a_limit(self, node: str, count: int) -> None:
        driver = {"name": DRIVER, "nodeID": node, "topologyKeys": None, "allocatable": {"count": count}}
        await self.create(
            f"{STORAGE}/csinodes", node, {"kind": "CSINode", "spec": {"drivers": [driver]}}, STORAGE
        )

    async def claims(self, klass: str, *names: str, mode: str = "ReadWriteOnce") -> None:
        for name in names:
            spec = {
                "storageClassName": klass,
                "accessModes": [mode],
                "resources": {"requests": {"storage": "1Gi"}},
            }
            thing = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
            await self.api.create(where("persistentvolumeclaims", self.namespace), {**thing, "spec": spec})

    async def bind(self) -> None:
        """Binds volumes that name a claim, and creates volumes for claims with a selected node. Never ends."""
        while True:
            with suppress(ApiError):  # kube-scheduler wrote at the same moment
                for claim in await self.api.items(where("persistentvolumeclaims", self.namespace)):
                    if not claim["spec"].get("volumeName"):
                        await self._serve(claim)
            await asyncio.sleep(0.05)

    async def _serve(self, claim: Object) -> None:
        meta = claim["metadata"]
        node = meta.get("annotations", {}).get(SELECTED)
        if node is not None:
            reference = {key: meta[key] for key in ("name", "namespace", "uid")}
            source = {"csi": {"driver": DRIVER, "volumeHandle": meta["uid"]}, "claimRef": reference}
            await self.a_volume(f"pv-{meta['name']}", claim["spec"]["storageClassName"], HOST, node, **source)
        for volume in await self.api.items(where("persistentvolumes")):
            name, reference = volume["metadata"]["name"], volume["spec"].get("claimRef") or {}
            if reference.get("uid") == meta["uid"]:
                done = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
                place = where("persistentvolumeclaims", self.namespace, meta["name"])
                await self.api.patch(place, {**done, "spec": {"volumeName": name}})
                await self.api.patch(f"{place}/status", {"status": {"phase": "Bound"}})
                await self._status("persistentvolumes", name, "Bound")

    async def _status(self, kind: str, name: str, phase: str) -> None:
        await self.api.patch(where(kind, name=name, part="status"), {"status": {"phase": phase}})

    async def remove(self) -> None:
        for claim in await self.api.items(where("persistentvolumeclaims", self.namespace)):
            place = where("persistentvolumeclaims", self.namespace, claim["metadata"]["name"])
            await self._delete(place)
        for place in self._made:
            await self._delete(place)

    async def _delete(self, place: str) -> None:
        with suppress(ApiError):  # its node may have taken it along
            await self.api.patch(place, {"metadata": {"finalizers": None}}, how="merge")
        await self.api.delete(place)
