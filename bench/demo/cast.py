"""Gangs as Jobs, as a user would write them, and the learners that run in their pods.

The same pods go to the plain scheduler and to Gangwright: only `schedulerName` differs. The pods of a Job are made here
and not by the Job controller, which does not run: so they arrive in the order that the story needs.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bench.demo.record import Record
from bench.plane import Client, where
from bench.plane.client import Object
from bench.plane.nodes import GPU

OURS = "gangwright.io/"
GANG_LABEL = OURS + "gang"
SURPLUS_LABEL = OURS + "surplus"
RUNS_FOR = "plane.gangwright.io/runs-for"
"""kwok ends a running pod after this annotation's time."""


@dataclass(frozen=True)
class Gang:
    """So many members of so many GPUs each; they are of use only together."""

    name: str
    members: int
    gpus: int
    cpu: str = "100m"
    memory: str = "256Mi"
    strategy: str = ""
    level: str = ""
    expects: str = ""
    """What its owner declares that it will run for; empty: nothing."""
    priority: str = ""
    surplus: int = 0
    """Further members, above the quorum."""
    alone: bool = False
    """Its pods do not need each other: they are a Job's, and no gang."""

    @property
    def size(self) -> int:
        return self.members + self.surplus

    def job(self, scheduler: str) -> Object:
        """The Job that the pods are of. A member that leaves before it ran counts as no failure, so it may be
        pinned.
        """
        return {
            "metadata": {"name": self.name},
            "spec": {
                "parallelism": self.size,
                "completions": self.size,
                "podReplacementPolicy": "Failed",
                "template": self._template(scheduler, surplus=False),
            },
        }

    def pods(self, scheduler: str, job: Object) -> list[Object]:
        """The pods of this Job, which is there already."""
        return [
            self.pod(scheduler, job, number, surplus=number >= self.members) for number in range(self.size)
        ]

    def pod(self, scheduler: str, job: Object, number: int, *, surplus: bool) -> Object:
        """One of them."""
        meta = job["metadata"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "controller": True}
        owner |= {"name": meta["name"], "uid": meta["uid"]}
        pod = self._template(scheduler, surplus=surplus)
        pod["metadata"] |= {"name": f"{self.name}-{number}", "ownerReferences": [owner]}
        return pod

    def _template(self, scheduler: str, *, surplus: bool) -> Object:
        needs = {"cpu": self.cpu, "memory": self.memory, GPU: str(self.gpus)}
        return {
            "metadata": {"labels": self._labels(surplus=surplus), "annotations": self._notes()},
            "spec": {
                "schedulerName": scheduler,
                "restartPolicy": "Never",
                **({"priorityClassName": self.priority} if self.priority else {}),
                "containers": [{"name": "learner", "image": "none", "resources": {"limits": needs}}],
            },
        }

    def _labels(self, *, surplus: bool) -> dict[str, str]:
        gang = {} if self.alone else {GANG_LABEL: self.name}
        return gang | ({SURPLUS_LABEL: "true"} if surplus else {})

    def _notes(self) -> dict[str, str]:
        notes = {
            OURS + "min-members": "" if self.alone else str(self.members),
            OURS + "strategy": self.strategy,
            OURS + "level": self.level,
            OURS + "expected-runtime": self.expects,
        }
        return {key: value for key, value in notes.items() if value}


async def submit(api: Client, namespace: str, gangs: Iterable[Gang], scheduler: str) -> None:
    """Gang after gang, the members of each side by side."""
    for gang in gangs:
        job = await api.create(where("jobs", namespace), gang.job(scheduler))
        await api.create_all(where("pods", namespace), gang.pods(scheduler, job))


async def submit_interleaved(api: Client, namespace: str, gangs: Iterable[Gang], scheduler: str) -> None:
    """A1 B1 C1 … A2 B2 C2 …, one pod after the other: as users who press Enter at once get it."""
    made = [
        gang.pods(scheduler, await api.create(where("jobs", namespace), gang.job(scheduler)))
        for gang in gangs
    ]
    for turn in zip(*made, strict=True):
        for pod in turn:
            await api.create(where("pods", namespace), pod)


async def learn(api: Client, namespace: str, record: Record, seconds: Mapping[Gang, float]) -> None:
    """Plays what runs in the pods: learners of a gang wait for each other, train so many seconds, and end.

    A pod that runs alone goes on waiting: kwok ends it only once it has the annotation that is written here.
    """
    left = {gang.name: gang for gang in seconds}
    version = -1
    while left:
        version = await record.news(version)
        ready = [gang for gang in left.values() if record.running(gang.name) == gang.members]
        for gang in ready:
            del left[gang.name]
            note = {"metadata": {"annotations": {RUNS_FOR: f"{seconds[gang]:g}s"}}}
            pods = [where("pods", namespace, name) for name in record.members(gang.name)]
            await asyncio.gather(*(api.patch(pod, note, how="merge") for pod in pods))


async def end(api: Client, namespace: str, record: Record, gang: Gang, at: float) -> None:
    """Learners that were not told how long to run end at this time of the loop's clock, or now if that has passed."""
    await asyncio.sleep(at - asyncio.get_running_loop().time())
    note = {"metadata": {"annotations": {RUNS_FOR: "0s"}}}
    names = record.members(gang.name)
    await asyncio.gather(*(api.patch(where("pods", namespace, name), note, how="merge") for name in names))


async def make_again(
    api: Client, namespace: str, record: Record, gangs: Iterable[Gang], scheduler: str
) -> None:
    """Plays the Job controller: for each pod that was evicted a new one, under a new name, once the old one has
    ended.
    """
    by_name = {gang.name: gang for gang in gangs}
    numbers = {gang.name: gang.size for gang in by_name.values()}
    jobs = {name: await api.get(where("jobs", namespace, name)) for name in by_name}
    made: set[str] = set()
    version = -1
    while True:
        version = await record.news(version)
        gone = [seen for seen in record.evicted() if seen.ended is not None and seen.name not in made]
        made |= {seen.name for seen in gone}
        again = []
        for seen in gone:
            again.append(
                by_name[seen.gang].pod(scheduler, jobs[seen.gang], numbers[seen.gang], surplus=seen.surplus)
            )
            numbers[seen.gang] += 1
        await asyncio.gather(*(api.create(where("pods", namespace), pod) for pod in again))
