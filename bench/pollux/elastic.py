"""Gangwright's decisions in the simulation: the product's division of the cluster, and the product's choice of nodes.

Lives here: the view of each job as the master would have it, and the extender's part: a job without a worker preempts
surplus, newcomers get nodes, those that joined last leave first. Never here: a size, or which node is near.

Every job has a quorum of one worker and at most as many as its traces have. It measures its throughput as it trains,
at the sizes that it has had. `oracle` knows all of its step times beforehand. `reseats` is not in the product: a job
that grows moves as a whole if it then needs fewer nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from bench.controller import GPU
from bench.pollux.cluster import free_of
from bench.pollux.training import Training
from bench.pollux.workload import GPUS, NODES
from bench.simulator import some_nodes
from scheduler.elastic.sizing import History, JobView, Measured, Parameters, decode, free_on, size
from scheduler.elastic.sizing.job_view import SLOT
from scheduler.model.cluster import DEFAULT_LEVELS, LabelColumns, Snapshot, survey
from scheduler.model.decision import Place
from scheduler.model.demand import Demand
from scheduler.model.policy import Policy
from scheduler.model.resources import PODS, ResourceAxis, amounts
from scheduler.model.workload import Gang, GangKey, Role, Strategy, Uid
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.planner import decide

AXIS: Final = ResourceAxis().extended([GPU])
WORKER: Final = Demand(amounts({GPU: 1, PODS: 1}))

WINDOW: Final = 1.0
"""Seconds of one measurement, or one step if that takes longer."""

MOST: Final = 8
"""Measurements that are noted a decision. More would be alike, because steps do not scatter here."""


class Places:
    """Which nodes new workers get: the planner's answer for a gang, of which some members are seated."""

    def __init__(self) -> None:
        nodes = some_nodes(NODES, gpus=GPUS)
        capacity = np.array([AXIS.vector(node.capacity) for node in nodes])
        names = tuple(node.name for node in nodes)
        self._index = {name: row for row, name in enumerate(names)}
        self._empty = Snapshot(
            generation=0,
            nodes_version=0,
            axis=AXIS,
            names=names,
            index=self._index,
            free=capacity,
            capacity=capacity,
            topology=survey(DEFAULT_LEVELS, [node.labels for node in nodes]),
            schedulable=np.ones(NODES, dtype=bool),
            labels=LabelColumns(nodes),
        )
        self._masks = FeasibilityCache(limit=4096)
        self._policy = Policy()
        self._generation = 0

    def near(self, free: Sequence[int], seats: Sequence[int], count: int) -> tuple[int, ...]:
        """Nodes for so many workers beside those that the gang has, taken as a whole if it has none."""
        self._generation += 1
        left = self._empty.capacity.copy()
        left[:, AXIS.index[GPU]] = free
        snapshot = replace(self._empty, generation=self._generation, free=left)
        uids = tuple(Uid(str(number)) for number in range(count))
        role = Role("", WORKER, surplus=uids) if seats else Role("", WORKER, quorum=uids)
        anchors = tuple(self._empty.names[node] for node in seats)
        gang = Gang(GangKey("pollux", "job"), (role,), Strategy.PACK, "host", required=False, anchors=anchors)
        found = decide(snapshot, gang, self._policy, masks=self._masks)
        return tuple(self._index[node] for node in found.seats.values()) if isinstance(found, Place) else ()


@dataclass(slots=True)
class Known:
    """What the master knows of one job."""

    history: History = field(default_factory=History)
    noted: float = 0.0
    """Seconds of training with the present workers that are measured."""
    resized: float = -np.inf


class Elastic:
    """Gangwright. `total`: scripts report how many samples they need. `oracle`: every step time is known."""

    def __init__(
        self,
        parameters: Parameters | None = None,
        *,
        total: bool = True,
        oracle: bool = False,
        short_first: bool = True,
        reseats: bool = False,
    ) -> None:
        self._parameters = decode("efficiency", {}) if parameters is None else parameters
        self._total, self._oracle, self._short_first = total, oracle, short_first
        self._reseats = reseats
        self._places = Places()
        self._known: dict[int, Known] = {}

    def decide(self, jobs: Sequence[Training], now: float) -> None:
        """jobs: in order of arrival."""
        for job in jobs:
            self._measure(job, now)
        self._admit(jobs, now)
        free = free_of(jobs)
        views = {job.job.name: self._view(job, now) for job in jobs}
        wants = size(
            views.values(), free_on([{SLOT: float(count)} for count in free]), short_first=self._short_first
        )
        grown = []
        for job in jobs:
            want, has = wants[job.job.name].size, len(job.seats)
            if 0 < want < has:
                self._place(job, job.seats[:want], now)
            elif has and want > has:
                grown.append((job, want - has))
        for job, count in grown:
            for node in job.seats:
                free[node] += 1
            self._place(job, self._grown(free, job.seats, count), now)
            for node in job.seats:
                free[node] -= 1

    def _grown(self, free: Sequence[int], seats: Sequence[int], count: int) -> Sequence[int]:
        """Nodes of a job that gets so many newcomers.  free: with the GPUs that it holds."""
        others = list(free)
        for node in seats:
            others[node] -= 1
        beside = (*seats, *self._places.near(others, seats, count))
        if not self._reseats:
            return beside
        whole = self._places.near(free, (), len(beside))
        return whole if len(set(whole)) < len(set(beside)) else beside

    def _admit(self, jobs: Sequence[Training], now: float) -> None:
        """Jobs without a worker get one, in order of arrival; the surplus worker that joined last leaves for it."""
        free = free_of(jobs)
        for job in jobs:
            if job.seats:
                continue
            if not any(free):
                victim = max(
                    (one for one in jobs if len(one.seats) > 1),
                    key=lambda one: (self._of(one).resized, len(one.seats), one.job.name),
                    default=None,
                )
                if victim is None:
                    break
                free[victim.seats[-1]] += 1
                self._place(victim, victim.seats[:-1], now)
            self._place(job, self._places.near(free, (), 1), now)
            free[job.seats[0]] -= 1

    def _place(self, job: Training, seats: Sequence[int], now: float) -> None:
        job.placed(seats, now)
        known = self._of(job)
        known.noted, known.resized = 0.0, now

    def _of(self, job: Training) -> Known:
        return self._known.setdefault(id(job), Known())

    def _measure(self, job: Training, now: float) -> None:
        """Note what the job's workers have reported since the last decision."""
        if not job.seats or not job.trained:
            return
        known, pace = self._of(job), job.pace
        window = max(WINDOW, pace)
        count = int((job.trained - known.noted) // window)
        known.noted += count * window
        for _ in range(min(count, MOST)):
            rate = job.job.application.batch / pace
            known.history = known.history.noted(job.placements, len(job.seats), rate, now)

    def _view(self, job: Training, now: float) -> JobView:
        known, application = self._of(job), job.job.application
        return JobView(
            name=job.job.name,
            min=1,
            max=application.most,
            size=job.members or len(job.seats) * (job.resizes > 0),
            held=len(job.seats),
            want=len(job.seats),
            parameters=self._parameters,
            in_flight=bool(job.seats) and not job.members,
            since_change=job.trained,
            measured=_truth(job) if self._oracle else known.history.measured(now),
            remaining=job.left * application.batch if self._total else None,
            elapsed=0.0 if job.started is None else now - job.started,
            attained=job.attained,
            idle=job.cost.idle if job.resizes else None,
            warm=job.cost.warm if job.resizes else None,
        )


def _truth(job: Training) -> dict[int, Measured]:
    return {workers: Measured(mean=rate, count=100.0) for workers, rate in job.job.application.packed.items()}
