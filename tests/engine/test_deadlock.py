"""The deadlock of FfDL: four jobs of four learners on eight GPUs, whose pods arrive in any order."""

import random

import pytest

from scheduler.engine import Engine
from scheduler.model import events as ev
from scheduler.model.cluster import Node
from scheduler.model.demand import Demand
from scheduler.model.effects import Effect, Ungate
from scheduler.model.policy import Policy
from scheduler.model.workload import Phase, Pod, PodKey, Uid
from tests.engine.support.cast import a_membership
from tests.ledger.support.invariants import broken

JOBS = "abcd"
LEARNERS = 4
ORDERS = 1000


def a_learner(job: str, number: int) -> Pod:
    return Pod(
        uid=Uid(f"{job}{number}"),
        key=PodKey("default", f"{job}-{number}"),
        demand=Demand((("nvidia.com/gpu", 1), ("pods", 1))),
        scheduler="gangwright",
        gated=True,
        membership=a_membership(job, LEARNERS),
    )


class Cluster:
    """Two nodes of four GPUs, and an API server in which every effect comes true at once."""

    def __init__(self) -> None:
        self.engine = Engine(Policy())
        self.bound: dict[str, Pod] = {}
        self._gated: dict[str, Pod] = {}
        nodes = [ev.NodeSeen(Node(name, (("nvidia.com/gpu", 4), ("pods", 110)))) for name in ("n1", "n2")]
        self.happens(*nodes, ev.Synced(), ev.TookOver())

    def creates(self, pod: Pod) -> None:
        self._gated[pod.uid] = pod
        self.happens(ev.PodSeen(pod))

    def happens(self, *events: ev.Event) -> None:
        effects = self.engine.observe(events, 0.0)
        while effects := self._come_true(effects) + self.engine.plan(0.0):
            pass

    def _come_true(self, effects: list[Effect]) -> list[Effect]:
        events: list[ev.Event] = [ev.EffectDone(effect) for effect in effects]
        events += [ev.PodSeen(self._binds(effect)) for effect in effects if isinstance(effect, Ungate)]
        return self.engine.observe(events, 0.0) if events else []

    def _binds(self, effect: Ungate) -> Pod:
        pod = self._gated.pop(effect.uid)
        self.bound[pod.uid] = Pod(
            uid=pod.uid,
            key=pod.key,
            demand=pod.demand,
            scheduler=pod.scheduler,
            node=effect.node,
            phase=Phase.RUNNING,
            membership=pod.membership,
        )
        return self.bound[pod.uid]

    def ends(self, job: str) -> None:
        for uid in [uid for uid in self.bound if uid.startswith(job)]:
            self.happens(ev.PodGone(Uid(uid), self.bound.pop(uid).key))

    def running(self) -> dict[str, int]:
        return {job: n for job in JOBS if (n := sum(uid.startswith(job) for uid in self.bound))}


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_no_order_of_arrival_leaves_half_a_gang():
    """In each of 1,000 orders two jobs run whole, two wait, and each starts when one that runs has ended."""
    learners = [a_learner(job, number) for job in JOBS for number in range(LEARNERS)]
    for seed in range(ORDERS):
        order = random.Random(seed).sample(learners, len(learners))
        cluster = Cluster()
        for pod in order:
            cluster.creates(pod)
            assert set(cluster.running().values()) <= {LEARNERS}, f"half a gang, seed {seed}"

        first = cluster.running()
        assert len(first) == 2, f"seed {seed}: {first}"
        for left, job in enumerate(first, start=1):
            cluster.ends(job)
            assert cluster.running().keys() == set(JOBS) - set(list(first)[:left]) - _waiting(
                cluster, first, left
            )
        assert set(cluster.running()) == set(JOBS) - set(first)
        assert broken(cluster.engine.ledger) == []
        assert cluster.engine.ledger.holds() == 0


def _waiting(cluster: Cluster, first: dict[str, int], ended: int) -> set[str]:
    """Of the two jobs that waited, those for which no job has made room yet: as many as still run of the first two."""
    later = [job for job in JOBS if job not in first]
    still = set(later) - set(cluster.running())
    assert len(still) == len(first) - ended
    return still
