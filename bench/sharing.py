"""Elastic jobs that share equal slots on one clock, with each other and with serving pods that preempt them.

Lives here: which pod has which slot. A quorum gets slots together or not at all, the others get them singly. A serving
pod takes a free slot, or preempts the newest surplus worker. Sizes are decided as in the master: for all jobs together,
with the slots that are free. Never here: a rule of the membership's, or a policy (see `bench.training`).

A preempted worker trains on until the end of its step, and leaves with the next round. A serving pod runs `serves`
seconds after it got its slot.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from bench.training import ASKED, Clock, Job, Training
from scheduler.elastic.controller.autoscaler import GATHER, SOON
from scheduler.elastic.reconciler import job_effects, job_events
from scheduler.elastic.sizing import JobView, Parameters, size, slots

GRACE: Final = 30.0
"""Seconds that a preempted pod may still run: the default of Kubernetes."""

Use = list[float]
"""From when to when a slot is used; of a serving pod that still runs, the end is missing."""


class Sharing(Training):
    """A job whose workers need slots. Its uses are those of its workers, each from its first step to its last."""

    def __init__(
        self, slots: "Slots", job: Job, parameters: Parameters, least: int, *, warm: float, idle: float
    ) -> None:
        self._slots, self.least = slots, least
        self.uses: dict[str, Use] = {}
        self.sizes: list[tuple[float, int]] = []
        """Since when it has had which size, on the common clock."""
        self.over = False
        self.roles: dict[str, str] = {}
        """Of its pods, in the order in which they were created: core or surplus."""
        super().__init__(job, parameters, least, 0.0, 0, clock=slots.clock, warm=warm, idle=idle)

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        super()._later(seconds, lambda: None if self.over else what())

    def _ask(self) -> None:
        """The slots' own question is for all jobs together."""

    def sized(self, want: int, by: str, reason: str) -> None:
        self._handle(job_events.Sized(want, by, reason))

    def view(self) -> JobView | None:
        """None: its size is not decided now."""
        return None if self.over else self._membership.wishes(self.now)

    def _start(self, effect: job_effects.StartWorker) -> None:
        uid = f"w{effect.number}"
        self._pods.add(uid)
        self.roles[uid] = effect.role
        seen = job_events.WorkerSeen(uid, uid, role=effect.role, number=effect.number)
        self._later(0.0, lambda: self._handle(seen))
        self._slots.wait(self, effect)

    def seat(self, effect: job_effects.StartWorker) -> None:
        """A worker got a slot."""
        self._seated(effect)

    def preempt(self, uid: str) -> None:
        """The worker's pod was evicted."""
        deleting = job_events.WorkerSeen(
            uid,
            uid,
            node=f"n{uid[1:]}",
            role=self.roles[uid],
            phase="Running",
            deleting=True,
            number=int(uid[1:]),
        )
        self._later(0.0, lambda: self._handle(deleting))
        self._later(0.0, lambda: self._handle(job_events.Leaving(uid, "SIGTERM", GRACE)))
        if uid not in self._ring:
            self._later(0.0, lambda: self._over(uid))

    def _gone(self, uid: str) -> None:
        if self.roles.pop(uid, None) is not None:
            super()._gone(uid)
            self._slots.release(self, uid)

    def _begin(self) -> None:
        super()._begin()
        self.sizes.append((self.now, len(self._ring)))
        for uid in self._ring:
            self.uses.setdefault(uid, [self.now, self.now])

    def _step(self, *, first: bool = False, took: float = 0.0) -> None:
        for uid in self._ring:
            self.uses[uid][1] = self.now
        super()._step(first=first, took=took)
        if self.done * self.job.batch >= self.job.samples:
            self.over = True
            for uid in list(self.roles):
                self._slots.release(self, uid)


@dataclass
class Slots:
    """Equal slots on one clock. serves: seconds from a serving pod's slot until it runs."""

    count: int
    serves: float = 0.0
    clock: Clock = field(default_factory=Clock)
    jobs: list[Sharing] = field(default_factory=list)
    serving: list[Use] = field(default_factory=list)
    """Those that run or start, in the order in which they got their slots. An end is added when they are deleted."""

    def __post_init__(self) -> None:
        self._held: list[tuple[Sharing, str]] = []
        """Workers with a slot, in the order in which they got it."""
        self._waiting: list[tuple[Sharing, job_effects.StartWorker]] = []
        self._leaving: set[tuple[int, str]] = set()
        self._wanted = 0
        """Serving pods without a slot."""
        self._asking = 0
        """Number of the next question; an earlier one that is still due is left out."""
        self._ask()

    @property
    def free(self) -> int:
        return self.count - len(self._held) - sum(len(use) == 1 for use in self.serving)

    def submit(self, job: Job, parameters: Parameters, least: int, *, warm: float, idle: float) -> Sharing:
        """The job begins now."""
        found = Sharing(self, job, parameters, least, warm=warm, idle=idle)
        self.jobs.append(found)
        return found

    def at(self, time: float, what: Callable[[], object]) -> None:
        """Does it at this time of the clock."""
        self.clock.later(time - self.clock.now, lambda: what() and None)

    def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self.clock.step()

    # Serving pods

    def serve(self, by: int) -> None:
        """So many more serving pods, or fewer: the newest end at once."""
        for _ in range(-by):
            newest = next(use for use in reversed(self.serving) if len(use) == 1)
            newest.append(self.clock.now)
        self._wanted += max(0, by)
        short = self._wanted - self.free - len(self._leaving)
        for job, uid in reversed(list(self._held)):
            if short > 0 and job.roles.get(uid) == "surplus" and (id(job), uid) not in self._leaving:
                self._leaving.add((id(job), uid))
                job.preempt(uid)
                short -= 1
        self._freed()

    def served(self) -> list[tuple[float, float]]:
        """From when to when each serving pod ran, until now at most."""
        ends = [(begun + self.serves, end[0] if end else self.clock.now) for begun, *end in self.serving]
        return [(begun, end) for begun, end in ends if begun < end]

    # Workers

    def wait(self, job: Sharing, effect: job_effects.StartWorker) -> None:
        """A worker's pod was created."""
        self._waiting.append((job, effect))
        self.clock.later(0.0, self._fill)

    def release(self, job: Sharing, uid: str) -> None:
        """A worker's pod was deleted."""
        self._waiting = [
            (own, effect) for own, effect in self._waiting if own is not job or f"w{effect.number}" != uid
        ]
        self._held = [(own, held) for own, held in self._held if own is not job or held != uid]
        self._leaving.discard((id(job), uid))
        self._freed()

    def _freed(self) -> None:
        self._fill()
        if self.free:
            self._ask_in(GATHER)

    def _fill(self) -> None:
        """Serving pods first, then quorums, then surplus, each in the order of creation."""
        while self._wanted and self.free:
            self._wanted -= 1
            self.serving.append([self.clock.now])
        for job in self.jobs:
            cores = [own for own in self._waiting if own[0] is job and own[1].role == "core"]
            placed = sum(own is job and job.roles.get(uid) == "core" for own, uid in self._held)
            if len(cores) <= self.free and len(cores) + placed >= job.least:
                self._seat(cores)
        self._seat([own for own in self._waiting if own[1].role == "surplus"][: max(0, self.free)])

    def _seat(self, chosen: list[tuple[Sharing, job_effects.StartWorker]]) -> None:
        for job, effect in chosen:
            self._waiting.remove((job, effect))
            self._held.append((job, f"w{effect.number}"))
            job.seat(effect)

    # Sizes

    def _ask_in(self, seconds: float) -> None:
        self._asking += 1
        turn = self._asking
        self.clock.later(seconds, lambda: self._ask() if turn == self._asking else None)

    def _ask(self) -> None:
        views = {view.name: (job, view) for job in self.jobs if (view := job.view()) is not None}
        wants = size([view for _, view in views.values()], slots(max(0, self.free - self._wanted)))
        for name, want in wants.items():
            views[name][0].sized(want.size, want.by, want.reason)
        self._ask_in(SOON if any(want.soon for want in wants.values()) else ASKED)
