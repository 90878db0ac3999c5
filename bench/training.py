"""One elastic job on a clock of its own: the real membership and the real policies, simulated workers.

Lives here: what is around `scheduler.elastic.reconciler`: pods that start, members that step, beat and come to the
barrier, an API server that writes, and the policy that is asked as often as the master does. Never here: a rule of the
membership's, or a policy.

A newcomer is READY `WARM` seconds after it was asked for. Who is called to a round comes at the end of its step, and
all stand still for `IDLE` seconds. Members beat when their training processes report: more often while a round is new.
"""

import heapq
import math
import random
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from scheduler.elastic.controller.autoscaler import SOON
from scheduler.elastic.job.spec import Spec
from scheduler.elastic.reconciler import Reconciler, job_effects, job_events
from scheduler.elastic.runtime.training_progress import INTERVAL, NEW, SETTLED
from scheduler.elastic.sizing import Parameters, size, slots

WARM: Final = 5.0
"""Seconds from a newcomer's start until it is ready: a warm join measured 2.8 to 4.8."""

IDLE: Final = 0.5
"""Seconds without a step at a resize: a warm join measured 0.15 to 0.5, the latter with 24 million parameters."""

WRITE: Final = 0.05
"""Of `IDLE`, for the API server to write the round."""

ASKED: Final = 10.0
"""The master's own default, while no job looks for its size."""


class Job(NamedTuple):
    """One application at one global batch. steps: workers → seconds a step, packed four a node."""

    name: str
    batch: int
    samples: float
    steps: Mapping[int, float]

    def rate(self, workers: int) -> float:
        return self.batch / self.steps[workers]


class Clock:
    """Seconds, and what is due when. Jobs that share resources share a clock."""

    def __init__(self) -> None:
        self.now = 1.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.now + seconds, self._count, what))

    def step(self) -> None:
        """Goes to the next thing that is due, and does it."""
        self.now, _, what = heapq.heappop(self._queue)
        what()


class Training:
    """The job from its first step on; times are seconds since then. warm, idle: costs in place of `WARM` and `IDLE`."""

    def __init__(
        self,
        job: Job,
        parameters: Parameters,
        least: int,
        noise: float,
        seed: int,
        *,
        clock: Clock | None = None,
        warm: float = WARM,
        idle: float = IDLE,
    ) -> None:
        self.job, self._noise, self._chance = job, noise, random.Random(seed)
        self._clock, self._warm_s, self._idle_s = clock or Clock(), warm, max(idle, WRITE)
        self._began = self.now
        self.done = 0
        """Steps."""
        self.trail: list[tuple[float, int]] = []
        """Since when it has had which size."""
        self._pods: set[str] = set()
        self._warm: set[str] = set()
        """Newcomers at the barrier."""
        self._ring: tuple[str, ...] = ()
        self._round = self._called = 0
        self._values = {"total_samples": job.samples}
        self._spent: list[float] = []
        """Seconds of the steps since the last beat."""
        self._told: tuple[int, float | None] = (0, None)
        self._reports = 0
        """Of this round."""
        self._membership = Reconciler(f"bench/{job.name}")
        most = max(job.steps)
        spec = Spec(min_workers=least, max_workers=most, parameters=parameters)
        for event in (job_events.Restored(None), job_events.SpecSeen(spec), job_events.Listed()):
            self._handle(event)
        self._later(0.0, self._look)
        self._later(0.0, self._ask)
        self._later(INTERVAL, self._report)

    @property
    def now(self) -> float:
        return self._clock.now

    @property
    def size(self) -> int:
        return self.trail[-1][1]

    @property
    def end(self) -> float:
        """When it would be through at the size that it has."""
        left = max(0.0, self.job.samples - self.done * self.job.batch)
        return self.now - self._began + left / self.job.rate(self.size)

    def run(self, patience: float) -> None:
        """To its end, or until so many seconds have brought no other size."""
        while self.done * self.job.batch < self.job.samples:
            if self.trail and self.now - self._began - self.trail[-1][0] > patience:
                return
            self._clock.step()

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        self._clock.later(seconds, what)

    # The master

    def _look(self) -> None:
        due = self._membership.next_deadline(self.now)
        if self.now >= due:
            self._handle(job_events.Elapsed())
        self._later(max(0.01, self._membership.next_deadline(self.now) - self.now), self._look)

    def _ask(self) -> None:
        view, soon = self._membership.wishes(self.now), False
        if view is not None:
            want = size([view], slots(view.max - view.held))[view.name]
            soon = want.soon
            self._handle(job_events.Sized(want.size, want.by, want.reason))
        self._later(SOON if soon else ASKED, self._ask)

    def _handle(self, event: job_events.Event) -> None:
        for effect in self._membership.handle(event, self.now):
            match effect:
                case job_effects.StartWorker():
                    self._start(effect)
                case job_effects.StopWorker(uid=uid):
                    self._later(0.0, lambda uid=uid: self._gone(uid))
                case job_effects.Announce(round=number):
                    self._called = number
                case job_effects.Persist(status=status):
                    self._later(WRITE, lambda number=status.round: self._handle(job_events.Persisted(number)))
                case job_effects.Publish():
                    self._publish(effect)

    # The pods

    def _start(self, effect: job_effects.StartWorker) -> None:
        self._pods.add(f"w{effect.number}")
        self._seated(effect)

    def _seated(self, effect: job_effects.StartWorker) -> None:
        """It has a node, and starts there."""
        uid = f"w{effect.number}"
        seen = job_events.WorkerSeen(
            uid, uid, node=f"n{effect.number}", role=effect.role, phase="Running", number=effect.number
        )
        self._later(0.0, lambda: self._handle(seen))
        self._later(self._warm_s, lambda: self._ready(uid))

    def _ready(self, uid: str) -> None:
        if uid in self._pods:
            self._warm.add(uid)
            self._handle(job_events.Arrived(uid))

    def _gone(self, uid: str) -> None:
        self._pods.discard(uid)
        self._warm.discard(uid)
        self._handle(job_events.WorkerGone(uid))

    # The training

    def _publish(self, effect: job_effects.Publish) -> None:
        for uid, told in effect.assignments.items():
            if told.removed:
                self._later(0.0, lambda uid=uid: self._over(uid))
        ring = [(told.rank, uid) for uid, told in effect.assignments.items() if not told.removed]
        self._ring = tuple(uid for _, uid in sorted(ring))
        self._round = effect.round
        self._warm.difference_update(self._ring)
        self._later(self._idle_s - WRITE, self._begin)

    def _over(self, uid: str) -> None:
        self._handle(job_events.Exited(uid, 0))
        self._gone(uid)

    def _begin(self) -> None:
        if not self.trail:
            self._began = self.now
        self.trail.append((self.now - self._began, len(self._ring)))
        self._spent, self._told, self._reports = [], (self.done, None), 0
        self._values.pop("idle_s", None)
        for uid in self._ring:
            self._beat(uid)
        seconds = self._seconds()
        self._later(seconds, lambda: self._step(first=True, took=seconds))

    def _seconds(self) -> float:
        return self.job.steps[self.size] * math.exp(self._chance.gauss(0.0, self._noise))

    def _step(self, *, first: bool = False, took: float = 0.0) -> None:
        self.done += 1
        if first:
            self._values.update(idle_s=self._idle_s + took)
        else:
            self._spent.append(took)
        if self._called > self._round:
            self._come()
            return
        seconds = self._seconds()
        self._later(seconds, lambda: self._step(took=seconds))

    def _come(self) -> None:
        samples = float(self.done * self.job.batch)
        for uid in self._ring:
            self._handle(
                job_events.Arrived(uid, self._round, self.done, self.done, "announced", samples=samples)
            )

    def _report(self) -> None:
        """Everybody says how it goes."""
        mean = sum(self._spent) / len(self._spent) if self._spent else None
        self._spent, self._told = [], (self.done, mean)
        for uid in sorted(self._warm):
            self._handle(job_events.Beat(uid, "Ready"))
        for uid in self._ring:
            self._beat(uid)
        self._reports += 1
        self._later(INTERVAL if self._reports <= NEW else SETTLED, self._report)

    def _beat(self, uid: str) -> None:
        step, mean = self._told
        samples = float(step * self.job.batch)
        beat = job_events.Beat(
            uid, "Training", self._round, step, step, samples, step_s=mean, values=dict(self._values), uses=()
        )
        if uid in self._pods:
            self._handle(beat)
