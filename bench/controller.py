"""A Job of Kubernetes and its pods, as its controller sees them: made, gone, made again, and how far the work has come.

Lives here: what is left of the work after an interruption, and what a pod of the job looks like.
Never here: time going by, or a node (see simulator).
"""

from dataclasses import dataclass, field
from typing import Final

from bench.traces import Job
from scheduler.model.demand import Demand
from scheduler.model.resources import PODS, amounts
from scheduler.model.workload import GangKey, GiveWay, Membership, Owner, OwnerTraits, Pod, PodKey, Uid, Wish

GPU: Final = "nvidia.com/gpu"


@dataclass(slots=True)
class Run:
    """One job of the trace, from its arrival to its end."""

    job: Job
    number: int
    pods: dict[Uid, Pod] = field(default_factory=dict)
    born: int = 0
    """Pods made so far, over all of its lives."""
    life: int = 0
    """Counts up whenever it stops: an end that was foreseen in an earlier life does not come."""
    bound: int = 0
    since: float | None = None
    """Since when all members run."""
    started: float | None = None
    """When all members ran for the first time."""
    done: float = 0.0
    """Seconds of its runtime that it need not do again."""
    penalty: float = 0.0
    """Seconds that it needs before it goes on from there."""
    attained: float = 0.0
    """Device-seconds that the engine wrote on the Job when it suspended it."""
    suspensions: int = 0
    evictions: int = 0
    lost: float = 0.0
    """Seconds that it used and that do not count."""

    @property
    def demand(self) -> Demand:
        """Of each member."""
        return Demand(amounts({GPU: self.job.gpus, PODS: 1, **dict(self.job.others)}))

    @property
    def owner(self) -> Owner:
        return Owner("Job", self.job.name, f"job/{self.number}", "batch/v1")

    def traits(self, *, paused: bool = False) -> OwnerTraits:
        """What its Job says; `paused`: it was suspended by the engine, and waits for its next turn."""
        return OwnerTraits(
            self.owner.uid,
            remakes_freely=True,
            suspends=True,
            namespace=self.job.namespace,
            suspended=paused,
            paused=self.owner if paused else None,
            attained=self.attained,
            created=self.job.arrival,
        )

    def make(self, now: float) -> list[Pod]:
        """The pods that the job lacks, with the gate."""
        fresh = [self._pod(now, self.born + turn) for turn in range(self.job.members - len(self.pods))]
        self.born += len(fresh)
        self.pods |= {pod.uid: pod for pod in fresh}
        return fresh

    def start(self, now: float) -> float:
        """All members run; when they will have done the rest."""
        self.since = now
        self.started = now if self.started is None else self.started
        return now + self.penalty + self.job.runtime - self.done

    def stop(self, now: float, restart: float, *, saved: bool) -> bool:
        """It is interrupted; what it did is saved, or has to be done again. Did all members run?

        restart: seconds that it will need before it goes on.
        """
        if self.since is None:
            return False
        spent = now - self.since
        gained = max(0.0, spent - self.penalty) if saved else -self.done
        self.lost += spent - gained
        self.done += gained
        self.penalty = restart
        return True

    def take_down(self) -> list[Pod]:
        """The pods that it had; now it has none."""
        pods = list(self.pods.values())
        self.pods, self.bound, self.since = {}, 0, None
        self.life += 1
        return pods

    def _pod(self, now: float, number: int) -> Pod:
        job = self.job
        give_way = GiveWay.SUSPEND if job.suspends else GiveWay.EVICT
        return Pod(
            uid=Uid(f"{self.number}-{number}"),
            key=PodKey(job.namespace, f"{job.name}-{number}"),
            demand=self.demand,
            scheduler="gangwright",
            priority=job.priority,
            created=now,
            gated=True,
            membership=Membership(
                GangKey(job.namespace, job.name),
                "gangwright",
                quorum={"": job.members},
                size=job.members,
                wish=Wish(expected_runtime=job.declared, give_way=give_way),
            ),
            owner=self.owner,
        )
