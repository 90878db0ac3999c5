"""The plane that the measurements share, and its nodes."""

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.load.roads import MANIFESTS
from bench.load.seen import PODS
from bench.load.work import NAMESPACE, owner
from bench.plane import ADMIN, Client, Fleet, Identity, Plane, nodes, where
from bench.plane.installation import install

ACCOUNT: Final = "system:serviceaccount:"

GPUS: Final = 8
"""Of each node."""

RACK: Final = 20
"""Nodes of a rack."""


class TokenPlane(Plane):
    """A plane whose service accounts show tokens, as they do in a cluster.

    The API server verifies a token once in a while, a client certificate with every call: 0.13 ms that no cluster pays.
    """

    def kubeconfig(self, identity: Identity = ADMIN) -> Path:
        place = super().kubeconfig(identity)
        if not identity.user.startswith(ACCOUNT):
            return place
        namespace, name = identity.user.removeprefix(ACCOUNT).split(":")
        token = self.kubectl("create", "token", name, f"--namespace={namespace}", "--duration=24h").strip()
        document = json.loads(place.read_text(encoding="utf-8"))
        document["users"] = [{"name": identity.user, "user": {"token": token}}]
        other = place.with_suffix(".token")
        other.touch(mode=0o600)
        other.write_text(json.dumps(document), encoding="utf-8")
        return other


@contextmanager
def plane(*, native_gangs: bool = False, audit: bool = False) -> Iterator[Plane]:
    """etcd and kube-apiserver, with our manifests applied; no kubelet, real or played: bound pods do not run."""
    with TokenPlane(scheduler=False, kwok=False, native_gangs=native_gangs, audit=audit) as running:
        install(running, MANIFESTS)
        yield running


def fleets(count: int) -> list[Fleet]:
    """`count` equal nodes in racks of 20; what is left over is a rack of its own."""
    full, rest = divmod(count, RACK)
    found = [Fleet(racks=full, nodes_per_rack=RACK, gpus=GPUS)] if full else []
    return found + ([Fleet(nodes_per_rack=rest, gpus=GPUS, prefix="rest-")] if rest else [])


async def furnish(api: Client, count: int) -> str:
    """Makes the nodes and the owner of all pods; gives the owner's uid."""
    await nodes.create(api, *fleets(count))
    made = await api.create(where("jobs", NAMESPACE), owner())
    return str(made["metadata"]["uid"])


async def clear(api: Client) -> None:
    """Takes every pod away, and waits until none is left."""
    await api.delete_all(PODS, grace=0)
    while await api.items(PODS):
        await asyncio.sleep(0.1)


def say(line: str) -> None:
    """To a person who waits; standard output is for the figures."""
    print(line, file=sys.stderr, flush=True)
