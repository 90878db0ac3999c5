"""Fake nodes: a few words in, Node objects out, and how they come into the cluster.

Pure but for `create`. A node is made with its status in the same POST, Ready and with room, so it takes pods at once;
kwok's annotation hands it to kwok, if one runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from bench.plane.client import Client, Object, where
from bench.plane.errors import DescriptionError

HOST_LABEL = "kubernetes.io/hostname"
RACK_LABEL = "gangwright.io/rack"
AREA_LABEL = "topology.kubernetes.io/zone"
GPU = "nvidia.com/gpu"

EPOCH = "2026-01-01T00:00:00Z"
"""When the made-up conditions of a new node are said to have begun."""

RACK_WORDS = {"count": "racks", "nodes": "nodes_per_rack"}
"""The words under `racks:`, and the fields of Fleet they stand for."""

LEAST = {"racks": 1, "nodes_per_rack": 1, "areas": 1, "pods": 1, "gpus": 0}


@dataclass(frozen=True)
class Fleet:
    """Nodes of one kind, in racks, the racks in areas."""

    racks: int = 1
    nodes_per_rack: int = 4
    areas: int = 1
    """The racks are dealt to the areas in blocks: the first ones to the first area."""
    cpu: str = "64"
    memory: str = "512Gi"
    gpus: int = 8
    pods: int = 110
    prefix: str = ""
    """Before every name, to tell several fleets apart."""
    resources: Mapping[str, str] = field(default_factory=dict)
    """Further resources, as quantities: `{"rdma/hca": "8"}`."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            value = getattr(self, name)
            if not isinstance(value, int):
                raise DescriptionError(f"{name}: {value!r} must be a whole number")
            if value < least:
                raise DescriptionError(f"{name}: {value} must be {least} or more")
        if self.areas > self.racks:
            raise DescriptionError(f"areas: {self.areas} must not exceed racks: {self.racks}")

    def objects(self) -> list[Object]:
        """The Node objects, rack by rack."""
        return [
            self._node(rack, number) for rack in range(self.racks) for number in range(self.nodes_per_rack)
        ]

    def names(self) -> list[str]:
        return [node["metadata"]["name"] for node in self.objects()]

    def _node(self, rack: int, number: int) -> Object:
        name = f"{self.prefix}r{rack:02d}-n{number:02d}"
        places = {
            HOST_LABEL: name,
            RACK_LABEL: f"{self.prefix}r{rack:02d}",
            AREA_LABEL: f"{self.prefix}a{rack * self.areas // self.racks}",
        }
        return node(name, labels={**places, **self.labels}, taints=self.taints, room=self._room())

    def _room(self) -> dict[str, str]:
        room = {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods), **self.resources}
        return room | ({GPU: str(self.gpus)} if self.gpus else {})


def node(
    name: str, *, room: Mapping[str, str], labels: Mapping[str, str], taints: Sequence[Mapping[str, str]] = ()
) -> Object:
    """One Node object, Ready, run by kwok if there is one."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels), "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": {"taints": [dict(taint) for taint in taints]},
        "status": {
            "phase": "Running",
            "capacity": dict(room),
            "allocatable": dict(room),
            "conditions": _conditions(),
        },
    }


async def create(api: Client, *fleets: Fleet) -> list[str]:
    """Makes all nodes, many at once (a thousand take about a second), and gives back their names."""
    bodies = [body for fleet in fleets for body in fleet.objects()]
    await api.create_all(where("nodes"), bodies)
    return [body["metadata"]["name"] for body in bodies]


async def delete_all(api: Client) -> None:
    """Takes every node away, with its lease."""
    await api.delete_all(where("nodes"))
    await api.delete_all(where("leases", "kube-node-lease"))


def read(place: Path) -> list[Fleet]:
    """The fleets of a YAML file: one description, or a list of them. Raises DescriptionError."""
    document = yaml.safe_load(place.read_text(encoding="utf-8"))
    described = document if isinstance(document, list) else [document]
    return [fleet(each) for each in described]


def fleet(described: Any) -> Fleet:
    """A fleet from `{racks: {count: 4, nodes: 8}, gpus: 8, …}`: the fields of Fleet, `racks` also as a mapping."""
    if not isinstance(described, Mapping):
        raise DescriptionError(
            f"nodes: {described!r} must be a mapping such as {{racks: {{count: 4, nodes: 8}}}}"
        )
    words = dict(described)
    if isinstance(words.get("racks"), Mapping):
        words |= {RACK_WORDS.get(word, f"racks.{word}"): value for word, value in words.pop("racks").items()}
    known = {each.name for each in fields(Fleet)}
    if unknown := sorted(set(words) - known):
        raise DescriptionError(f"nodes: {', '.join(unknown)} unknown; known are {', '.join(sorted(known))}")
    for name in ("cpu", "memory"):
        words |= {name: str(words[name])} if name in words else {}
    return Fleet(**words)


def _conditions() -> list[Object]:
    bad = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
    states = {"Ready": "True", **dict.fromkeys(bad, "False")}
    times = {"lastHeartbeatTime": EPOCH, "lastTransitionTime": EPOCH}
    return [
        {"type": name, "status": status, "reason": "Fake", "message": "", **times}
        for name, status in states.items()
    ]
