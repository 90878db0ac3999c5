"""A day on a cluster whose users tell the truth: gangs come, run as long as they said, and go. Some lie, if told to.

Time is whole seconds. Whoever ends is seen to have ended in the same second.
"""

from dataclasses import dataclass, field, replace
from random import Random

from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill, Order
from scheduler.model.workload import GangKey, Phase
from tests.engine.support.cast import a_gang_of_pods
from tests.engine.support.stage import a_world

MOMENT = 0.001
STEP = 2.5
"""Seconds that the story goes on for at a time: less than anybody runs."""


@dataclass(frozen=True)
class Coming:
    """A gang that is submitted: when, how large, how long it says that it runs, and how long it does."""

    at: int
    count: int
    gpu: int
    says: int
    runs: int
    priority: int = 0


@dataclass
class Told:
    """What was promised to the gang that was first, and what came of it."""

    start: float
    made: float
    began: float | None = None


@dataclass
class Day:
    """The story so far."""

    gpus: tuple[int, ...]
    comings: list[Coming]
    backfill: Backfill = Backfill.RESERVE
    crashes: frozenset[int] = frozenset()
    """At these seconds the service restarts."""
    promises: dict[str, Told] = field(default_factory=dict)
    began: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world = a_world(*self.gpus, policy=Policy(order=Order.FIFO, backfill=self.backfill))

    def run(self, until: int = 100_000) -> "Day":
        """To the end of all gangs."""
        submitted = 0
        coming = sorted(self.comings, key=lambda one: one.at)
        while len(self.ended) < len(coming):
            times = [coming[submitted].at] if submitted < len(coming) else []
            times += [self._end(name) for name in self.began if name not in self.ended]
            times += [float(second) for second in self.crashes if second > self.world.now]
            now = min(times, default=float("inf"))
            assert now <= until, f"somebody waits for ever: {self.world.engine.ledger.registry.gangs.keys()}"
            if now - self.world.now > STEP:
                self.world.settle(STEP)
                self._look()
                continue
            self.world.settle(max(0.0, now - MOMENT - self.world.now))
            self.world.api.now = now
            self._go(now)
            while submitted < len(coming) and coming[submitted].at <= now:
                one = coming[submitted]
                wish = {"runtime": float(one.says)}
                pods = a_gang_of_pods(
                    f"g{submitted:03}", one.count, gpu=one.gpu, priority=one.priority, wish=wish
                )
                self.world.submit(pods)
                submitted += 1
            if now in self.crashes:
                self.world.crash()
            self.world.watch()  # who ended is seen to have, before anything is concluded from his being late
            self.world.quiet()
            self._look()
        return self

    def _one(self, name: str) -> Coming:
        return sorted(self.comings, key=lambda one: one.at)[int(name[1:])]

    def _end(self, name: str) -> float:
        return self.began[name] + self._one(name).runs

    def _go(self, now: float) -> None:
        for name in [n for n in self.began if n not in self.ended and self._end(n) <= now]:
            self.ended[name] = now
            for pod in self.world.pods(name):
                self.world.api.write(replace(pod, phase=Phase.SUCCEEDED))

    def _look(self) -> None:
        bound = self.world.bound_by_gang()
        for key, record in self.world.engine.ledger.registry.gangs.items():
            running = bound.get(key, [])
            assert len(running) in {0, len(record.members)}
            if running and key.name not in self.began:
                self.began[key.name] = began = max(float(pod.bound_at or 0.0) for pod in running)
                if key.name in self.promises:
                    self.promises[key.name].began = began
        reserved = self.world.engine.cycle.head.reserved
        if reserved is not None and reserved.key.name not in self.promises:
            self.promises[reserved.key.name] = Told(reserved.start, self.world.now)

    def broken(self) -> list[str]:
        """Promises that were not kept: a gang began later than it was first promised."""
        return [
            f"{name} was promised {told.start} at {told.made} and began at {told.began}"
            for name, told in self.promises.items()
            if told.began is None or told.began > told.start
        ]

    def began_at(self, number: int) -> float:
        return self.began[f"g{number:03}"]

    def verdict(self, number: int):
        record = self.world.engine.ledger.registry.gangs[GangKey("default", f"g{number:03}")]
        return record.verdict.decision


def a_day(seed: int, *, gangs: int = 25) -> Day:
    """A random day: gangs of one priority, all of whose declarations are true, and a few restarts."""
    chance = Random(seed)
    gpus = tuple(chance.choice([2, 4, 8]) for _ in range(chance.randint(1, 4)))
    comings = []
    for _ in range(gangs):
        gpu = chance.choice([1, 1, 2])
        most = sum(have // gpu for have in gpus)
        runs = chance.choice([5, 20, 60, 200, 600])
        comings.append(Coming(chance.randrange(600), chance.randint(1, max(1, most)), gpu, runs, runs))
    crashes = frozenset(chance.sample(range(900), chance.choice([0, 0, 3])))
    return Day(gpus, comings, crashes=crashes)
