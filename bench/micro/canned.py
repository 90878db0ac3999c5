"""An API server that has 5,000 nodes and 50,000 pods, and to which nothing ever happens.

    python -m bench.micro.canned

Prints its address. Lists come in pages, as the limit asks; watches stay open and silent. Objects look like those of
a real one, managed fields included: what a reader skips, it has to read all the same. Ends with its standard input.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiohttp import web

from bench.micro import world

NODES: Final = 5000
PODS: Final = 50_000
GANG: Final = 8
VERSION: Final = "1000000"


def node(number: int) -> dict[str, Any]:
    name = f"n{number:05}"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "gpu-8",
        "gangwright.io/rack": f"r{number // world.RACK:03}",
        "topology.kubernetes.io/zone": f"a{number // (world.RACK * world.AREA):02}",
    }
    room = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8", "pods": "110", "ephemeral-storage": "1Ti"}
    conditions = [
        {
            "type": kind,
            "status": "False",
            "reason": kind,
            "message": "as it should be",
            "lastHeartbeatTime": WHEN,
        }
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    return {
        "metadata": _meta(name, "", labels, {"node.alpha.kubernetes.io/ttl": "0"}),
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"cloud://{name}"},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": conditions,
            "images": [{"names": [f"registry/image-{i}:v1"], "sizeBytes": 1 << 30} for i in range(20)],
            "nodeInfo": {"kubeletVersion": "v1.37.0", "osImage": "Linux", "architecture": "amd64"},
        },
    }


def pod(number: int) -> dict[str, Any]:
    """Of two pods one is a gang's and ours, the other is any pod of another scheduler; all are bound and run."""
    ours = number % 2 == 0
    gang = f"g{number // (2 * GANG)}"
    labels = {"app": gang, "pod-template-hash": "abcdef", **({"gangwright.io/gang": gang} if ours else {})}
    notes = {"gangwright.io/min-members": str(GANG)} if ours else {"prometheus.io/scrape": "true"}
    room = {"cpu": "1", "memory": "4Gi", **({"nvidia.com/gpu": "1"} if ours else {})}
    container = {
        "name": "main",
        "image": "registry/image:v1",
        "command": ["python", "train.py"],
        "env": [{"name": f"WORD_{i}", "value": "some value"} for i in range(8)],
        "resources": {"requests": room, "limits": room},
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets", "readOnly": True}],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    forgiving = [
        {
            "key": f"node.kubernetes.io/{word}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for word in ("not-ready", "unreachable")
    ]
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": gang,
        "uid": f"{gang}-uid",
        "controller": True,
    }
    states = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": WHEN}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    return {
        "metadata": _meta(f"{gang}-{number}", "team", labels, notes) | {"ownerReferences": [owner]},
        "spec": {
            "containers": [container],
            "nodeName": f"n{number % NODES:05}",
            "schedulerName": "gangwright" if ours else "default-scheduler",
            "restartPolicy": "Always",
            "priority": 0,
            "serviceAccountName": "default",
            "tolerations": forgiving,
            "volumes": [{"name": "token", "projected": {"defaultMode": 420, "sources": []}}],
        },
        "status": {
            "phase": "Running",
            "conditions": states,
            "hostIP": "10.0.0.1",
            "podIP": "10.1.0.1",
            "containerStatuses": [{"name": "main", "ready": True, "restartCount": 0, "imageID": "sha256:0"}],
            "qosClass": "Burstable",
            "startTime": WHEN,
        },
    }


WHEN: Final = "2026-01-01T00:00:00Z"

KINDS: Final[Mapping[str, tuple[int, Callable[[int], dict[str, Any]]]]] = {
    "/api/v1/nodes": (NODES, node),
    "/api/v1/pods": (PODS, pod),
}


def _meta(name: str, namespace: str, labels: Mapping[str, str], notes: Mapping[str, str]) -> dict[str, Any]:
    fields = {f"f:field-{i}": {"f:inner": {}, "f:other": {}} for i in range(20)}
    manager = {
        "manager": "kubelet",
        "operation": "Update",
        "apiVersion": "v1",
        "time": WHEN,
        "fieldsV1": fields,
    }
    return {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "uid": f"{name}-0123456789abcdef0123",
        "resourceVersion": VERSION,
        "creationTimestamp": WHEN,
        "labels": dict(labels),
        "annotations": dict(notes),
        "managedFields": [manager],
    }


def page(path: str, start: int, limit: int) -> bytes:
    """One page of a list; a collection that nobody knows is empty."""
    count, make = KINDS.get(path, (0, node))
    end = min(count, start + limit)
    meta = {"resourceVersion": VERSION, **({"continue": str(end)} if end < count else {})}
    return json.dumps({"metadata": meta, "items": [make(number) for number in range(start, end)]}).encode()


def pages(limit: int) -> dict[tuple[str, int], bytes]:
    """All pages of that size, made beforehand, so that making them is not measured."""
    return {
        (path, start): page(path, start, limit)
        for path, (count, _) in KINDS.items()
        for start in range(0, count, limit)
    }


def build_app(limit: int) -> web.Application:
    made = pages(limit)

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            stream = web.StreamResponse(headers={"Content-Type": "application/json"})
            await stream.prepare(request)
            await asyncio.Event().wait()
        start = int(request.query.get("continue", "0"))
        size = int(request.query.get("limit", limit))
        known = made.get((request.path, start)) if size == limit else None
        return web.Response(body=known or page(request.path, start, size), content_type="application/json")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    return app


async def _run(limit: int) -> None:
    runner = web.AppRunner(build_app(limit), shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        print(json.dumps({"url": f"http://{host}:{port}"}), flush=True)
        await asyncio.to_thread(sys.stdin.read)
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(_run(int(sys.argv[1])))
