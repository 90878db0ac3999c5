"""Random clusters and gangs with rules about neighbors and with device claims: where the planner seats a gang, the real
kube-scheduler accepts each member in turn, without a pin and without Gangwright between them.
"""

import asyncio
import json
from random import Random
from typing import Any

import pytest

from bench.plane import where
from bench.plane.client import Client, Object
from bench.plane.nodes import GPU, delete_all, node
from scheduler.engine import Engine
from scheduler.model.decision import Place
from scheduler.model.events import Synced, TookOver
from scheduler.model.policy import Policy
from scheduler.objects import api as kinds
from scheduler.objects.device_api import DeviceClass, ResourceClaimTemplate, ResourceSlice
from scheduler.objects.translate import Translator
from tests.objects.reading import struct
from tests.stories.support.devices import DRIVER, GROUP, collection

pytestmark = pytest.mark.plane

HOST, RACK, ZONE = "kubernetes.io/hostname", "gangwright.io/rack", "topology.kubernetes.io/zone"
AT_ONCE = 16
GATE = {"name": "example.com/turn"}


class Case:
    """A cluster of its own by labels, a few pods in it, and a gang."""

    def __init__(self, number: int) -> None:
        chance = self.chance = Random(number)
        self.name = f"c{number}"
        self.nodes = [self._node(place) for place in range(chance.randint(3, 6))]
        names = [own["metadata"]["name"] for own in self.nodes]
        self.residents = [
            self._pod(f"there{index}", gpu=0, rules=self._rules(resident=True), node=chance.choice(names))
            for index in range(chance.randint(0, 3))
        ]
        self.devices = [self._slice(name) for name in names if chance.random() < 0.7]
        self.members: list[Object] = []
        for role in range(chance.randint(1, 2)):
            app, rules, gpu = chance.choice("ab"), self._rules(), chance.randint(1, 2)
            claims = chance.random() < 0.3
            made = [
                self._pod(f"r{role}-{index}", gpu=0 if claims else gpu, rules=rules, app=app, role=role)
                for index in range(chance.randint(1, 3))
            ]
            for own in made if claims else ():
                own["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": self.name}]
                own["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
            self.members += made
        quorum = {own["metadata"]["annotations"]["gangwright.io/role"]: 0 for own in self.members}
        for own in self.members:
            quorum[own["metadata"]["annotations"]["gangwright.io/role"]] += 1
        for own in self.members:
            said = ",".join(f"{role}={count}" for role, count in sorted(quorum.items()))
            own["metadata"]["annotations"]["gangwright.io/min-members"] = said

    def _node(self, place: int) -> Object:
        name, chance = f"{self.name}-n{place}", self.chance
        labels = {HOST: name, "case": self.name}
        if chance.random() < 0.9:
            labels |= {
                RACK: f"{self.name}-r{chance.randrange(3)}",
                ZONE: f"{self.name}-z{chance.randrange(2)}",
            }
        room = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: str(chance.randint(1, 3))}
        return node(name, room=room, labels=labels)

    def _slice(self, node: str) -> Object:
        """The node has up to three devices of this case."""
        attributes = {"case": {"string": self.name}}
        devices = [{"name": f"d{n}", "attributes": attributes} for n in range(self.chance.randint(1, 3))]
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": devices}
        return {"apiVersion": GROUP, "kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec}

    @property
    def of_class(self) -> tuple[Object, Object]:
        """The class of these devices, and the template of a claim for one."""
        text = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].case == "{self.name}"'
        chosen = {"selectors": [{"cel": {"expression": text}}]}
        requests = [{"name": "gpu", "exactly": {"deviceClassName": self.name}}]
        meta = {"metadata": {"name": self.name}}
        template = {"spec": {"devices": {"requests": requests}}}
        return (
            {"apiVersion": GROUP, "kind": "DeviceClass", **meta, "spec": chosen},
            {"apiVersion": GROUP, "kind": "ResourceClaimTemplate", **meta, "spec": template},
        )

    def _pod(
        self, name: str, *, gpu: int, rules: Object, app: str = "", node: str = "", role: int = -1
    ) -> Object:
        needs = {
            "requests": {"cpu": "1m", **({GPU: str(gpu)} if gpu else {})},
            "limits": {GPU: str(gpu)} if gpu else {},
        }
        said = {"gangwright.io/role": f"role{role}"} if role >= 0 else {}
        labels = {"app": f"{self.name}-{app or self.chance.choice('ab')}"}
        if role >= 0:
            labels["gangwright.io/gang"] = self.name
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{self.name}-{name}", "labels": labels, "annotations": said},
            "spec": {
                "containers": [{"name": "main", "image": "none", "resources": needs}],
                "nodeSelector": {"case": self.name},
                "terminationGracePeriodSeconds": 0,
                **({"nodeName": node} if node else {}),
                **rules,
            },
        }

    def _rules(self, *, resident: bool = False) -> Object:
        chance = self.chance

        def term() -> Object:
            return {"topologyKey": chance.choice([HOST, RACK, ZONE]), "labelSelector": self._selector()}

        def some(often: float) -> list[Object]:
            return [term() for _ in range(1 + (chance.random() < 0.2))] if chance.random() < often else []

        required = "requiredDuringSchedulingIgnoredDuringExecution"
        affinity = {}
        if apart := some(0.3 if resident else 0.5):
            affinity["podAntiAffinity"] = {required: apart}
        if not resident and (near := some(0.3)):
            affinity["podAffinity"] = {required: near}
        rules: dict[str, Any] = {"affinity": affinity} if affinity else {}
        if not resident and chance.random() < 0.5:
            rules["topologySpreadConstraints"] = [
                {
                    "maxSkew": chance.choice([1, 1, 2]),
                    "topologyKey": chance.choice([HOST, RACK, ZONE]),
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": self._selector(),
                    **({"minDomains": 2} if chance.random() < 0.2 else {}),
                }
                for _ in range(1 + (chance.random() < 0.3))
            ]
            keys = [own["topologyKey"] for own in rules["topologySpreadConstraints"]]
            if len(set(keys)) < len(keys):
                del rules["topologySpreadConstraints"][1:]
        return rules

    def _selector(self) -> Object:
        return {"matchLabels": {"app": f"{self.name}-{self.chance.choice('aab')}"}}

    def decide(self, namespace: str) -> dict[str, str] | None:
        """Member → node in the order of the decision. None: the planner finds no seats."""
        engine, translator = Engine(Policy()), Translator()
        of_class = zip((DeviceClass, ResourceClaimTemplate), self.of_class, strict=True)
        things = [*of_class, *((ResourceSlice, own) for own in self.devices)]
        things += [(kinds.Node, own) for own in self.nodes]
        things += [(kinds.Pod, own) for own in (*self.residents, *self.members)]
        told = [event for kind, own in things for event in translator.seen(self._read(kind, own, namespace))]
        engine.observe([*told, *translator.settle(), Synced(), TookOver()], 0.0)
        question = engine.ask(0.0)
        answer = engine.answer(question) if question is not None else None
        return dict(answer.seats) if isinstance(answer, Place) else None

    def _read(self, kind: type, own: Object, namespace: str) -> Any:
        body = json.loads(json.dumps(own))
        meta = body["metadata"]
        if kind is ResourceClaimTemplate:
            meta["namespace"] = namespace
        if kind is kinds.Pod:
            meta |= {"namespace": namespace, "uid": meta["name"]}
            if "nodeName" not in body["spec"]:
                body["spec"] |= {
                    "schedulerName": "gangwright",
                    "schedulingGates": [{"name": "gangwright.io/planned"}],
                }
        return struct(kind, json.dumps(body))


async def accepted(api: Client, namespace: str, case: Case, seats: dict[str, str]) -> list[str]:
    """Let the members in one by one, each nominated for its node. Returns what kube-scheduler did otherwise."""
    bodies, wrong = {own["metadata"]["name"]: own for own in case.members}, []
    for name, seat in seats.items():
        body = bodies[name] | {"spec": bodies[name]["spec"] | {"schedulingGates": [GATE]}}
        path = where("pods", namespace, name)
        await api.create(where("pods", namespace), body)
        await api.patch(f"{path}/status", {"status": {"nominatedNodeName": seat}})
        await api.patch(path, {"spec": {"schedulingGates": [{"$patch": "delete", **GATE}]}})
        try:
            pod = await api.until(path, lambda own: own["spec"].get("nodeName") or _refused(own), within=20)
        except TimeoutError:
            pod = await api.get(path)
        if pod["spec"].get("nodeName") != seat:
            wrong.append(f"{name}: {pod['spec'].get('nodeName')} and not {seat}: {_refused(pod)}")
            break
    return wrong


def _refused(pod: Object) -> str:
    conditions = pod["status"].get("conditions", [])
    return next((own.get("message", "") for own in conditions if own.get("reason") == "Unschedulable"), "")


@pytest.mark.parametrize(
    "seeds",
    [range(100), pytest.param(range(1000, 1700), marks=[pytest.mark.extended, pytest.mark.timeout(600)])],
    ids=["100", "700"],
)
async def test_kube_scheduler_accepts_what_the_planner_decides(api: Client, namespace: str, seeds: range):
    """Of all random cases with seats, no member is refused or bound elsewhere."""
    cases = {case: seats for case in map(Case, seeds) if (seats := case.decide(namespace)) is not None}
    assert len(cases) > 0.4 * len(seeds)
    free = asyncio.Semaphore(AT_ONCE)

    async def one(case: Case, seats: dict[str, str]) -> list[str]:
        async with free:
            of_class, template = case.of_class
            await api.create(collection("deviceclasses"), of_class)
            await api.create(collection("resourceclaimtemplates", namespace), template)
            for own in case.devices:
                await api.create(collection("resourceslices"), own)
            for own in case.residents:
                await api.create(where("pods", namespace), own)
            return await accepted(api, namespace, case, seats)

    try:
        await api.create_all(where("nodes"), [own for case in cases for own in case.nodes])
        found = await asyncio.gather(*(one(case, seats) for case, seats in cases.items()))
    finally:
        await api.delete_all(collection("resourceslices"))
        await api.delete_all(collection("deviceclasses"))
        await delete_all(api)
    assert [wrong for own in found for wrong in own] == []
