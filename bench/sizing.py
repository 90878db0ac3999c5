"""How quickly a sizing policy finds its size, over measured step times of real jobs: `python -m bench.sizing`.

Lives here: a job as its step times (Pollux, OSDI'21: `data/pollux-osdi21`), trained by its own clock, resized by what
the policy says; and the size that would have been the best, from all step times at once, by the rule's own measure.
Never here: a policy.

A job begins with `LEAST` workers and measures once a beat. A newcomer takes `WARM` seconds to start, while the others
train on; then all stand still for `IDLE` seconds. A policy is asked every `ASKED` seconds, and all room is free.
Reported: the size found and the best one, how near it is by the rule's measure, and in seconds and in the job's run
time: since when the job has had a size within `NEAR` of the best, and when the last resize of the search was.
"""

import csv
import json
import math
import random
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from scheduler.elastic.sizing import History, JobView, Parameters, decode, size, slots
from scheduler.elastic.sizing.parameters import Efficiency, Utility

DATA = Path(__file__).parent / "data" / "pollux-osdi21"

LEAST = 4
"""Workers to begin with: one node of the traces."""

BEAT = 1.0
WARM = 5.0
"""Seconds from a newcomer's start until it is ready: a warm join measured 2.8 to 4.8."""

IDLE = 0.5
"""Seconds without a step at a resize: a warm join measured 0.15 to 0.5, the latter with 24 million parameters."""

ASKED = 5.0
"""The master's own default."""

NEAR = 0.95
"""Nearness from which on a size counts as found."""

SEARCHING = 600.0
"""Seconds without a resize after which the search has ended, and the job is taken to train on as it is."""

POLICIES: Mapping[str, Parameters] = {
    "efficiency": decode("efficiency", {}),
    "utility": decode("utility", {"value": 1000}),
}
"""By name; defaults, but for a job's worth, which has none that fits all."""


class Job(NamedTuple):
    """One application at one global batch. steps: workers → seconds a step, packed four a node."""

    name: str
    batch: int
    samples: float
    steps: Mapping[int, float]

    def rate(self, workers: int) -> float:
        return self.batch / self.steps[workers]


@dataclass(frozen=True)
class Run:
    """What became of one job under one policy. Times in seconds since its first step."""

    job: str
    policy: str
    found: int
    best: int
    nearness: float
    """1 is the best size by the rule's measure; for `utility`, of what there was to gain from the first size on."""
    near_at: float
    """Since then every size was within `NEAR` of the best; the end, if the last one was not."""
    found_at: float
    """The last resize of the search."""
    ended_at: float
    sizes: tuple[int, ...]

    @property
    def share(self) -> float:
        """Of the run time, until the size was near the best."""
        return self.near_at / self.ended_at

    @property
    def settled(self) -> float:
        """Of the run time, until the search ended."""
        return self.found_at / self.ended_at


def jobs(folder: Path = DATA) -> Iterator[Job]:
    """All jobs that have a choice of sizes."""
    steps: dict[tuple[str, int], dict[int, tuple[int, float]]] = defaultdict(dict)
    for row in _rows(folder / "step_times.csv"):
        kept = steps[row["application"], int(row["batch_size"])]
        workers, packed = int(row["replicas"]), (int(row["nodes"]), float(row["seconds_per_iteration"]))
        kept[workers] = min(kept.get(workers, packed), packed)
    for row in _rows(folder / "total_iterations.csv"):
        key = row["application"], int(row["batch_size"])
        most = int(row["max_replicas"])
        known = {workers: seconds for workers, (_, seconds) in sorted(steps[key].items()) if workers <= most}
        if len(known) > 1:
            yield Job(f"{key[0]}-{key[1]}", key[1], float(row["total_iterations"]) * key[1], known)


def _rows(place: Path) -> list[dict[str, str]]:
    with place.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def run(job: Job, parameters: Parameters, *, least: int = LEAST, noise: float = 0.0, seed: int = 0) -> Run:
    """Trains the job to its end. noise: of a step's time, as the spread of its logarithm."""
    training = _Training(job, parameters, least, noise, random.Random(seed))
    while training.done < job.samples and training.now - training.trail[-1][0] <= SEARCHING:
        training.step()
    trail, found = training.trail, training.size
    policy = "efficiency" if isinstance(parameters, Efficiency) else "utility"
    best, nearness = _judged(job, parameters, least)
    far = [place for place, (_, workers) in enumerate(trail) if nearness[workers] < NEAR]
    at = [when for when, _ in trail] + [training.end]
    near_at = at[max(far, default=-1) + 1]
    sizes = tuple(workers for _, workers in trail)
    return Run(job.name, policy, found, best, nearness[found], near_at, trail[-1][0], training.end, sizes)


class _Training:
    """One job on its own clock."""

    def __init__(
        self, job: Job, parameters: Parameters, least: int, noise: float, chance: random.Random
    ) -> None:
        self.job, self.noise, self.chance = job, noise, chance
        self.now = self.done = self.asked = self.beat = self.since = 0.0
        self.ready: float | None = None
        self.size = self.want = least
        self.round = 1
        self.history = History()
        self.trail = [(0.0, least)]
        self.view = JobView(
            name="job", min=least, max=max(job.steps), parameters=parameters, idle=IDLE, warm=WARM
        )
        self.samples = 0.0

    @property
    def end(self) -> float:
        """When it would be through at the size that it has."""
        return self.now + max(0.0, self.job.samples - self.done) / self.job.rate(self.size)

    def step(self) -> None:
        self.now += self.job.steps[self.size] * math.exp(self.chance.gauss(0.0, self.noise))
        self.done += self.job.batch
        self.samples += self.job.batch
        if self.now - self.beat >= BEAT:
            self.history = self.history.noted(
                self.round, self.size, self.samples / (self.now - self.beat), self.now
            )
            self.beat, self.samples = self.now, 0.0
        if self.ready is not None and self.now >= self.ready:
            self.resize()
        elif self.ready is None and self.now - self.asked >= ASKED:
            self.ask()

    def resize(self) -> None:
        self.now += IDLE
        self.size, self.ready, self.since = self.want, None, self.now
        self.round += 1
        self.beat, self.samples = self.now, 0.0
        self.trail.append((self.now, self.size))

    def ask(self) -> None:
        self.asked = self.now
        view = replace(
            self.view,
            size=self.size,
            held=self.size,
            want=self.want,
            since_change=self.now - self.since if self.round > 1 else math.inf,
            measured=self.history.measured(self.now),
            remaining=self.job.samples - self.done,
            elapsed=self.now,
        )
        self.want = size([view], slots(view.max))["job"].size
        if self.want != self.size:
            self.ready = self.now + (WARM if self.want > self.size else 0.0)


def _judged(job: Job, parameters: Parameters, least: int) -> tuple[int, Mapping[int, float]]:
    """The best size, and how near each is."""
    worth = {workers: _worth(job, parameters, least, workers) for workers in job.steps if workers >= least}
    best = max(worth, key=worth.__getitem__)
    if isinstance(parameters, Efficiency):
        return best, {workers: own / worth[best] for workers, own in worth.items()}
    gain = worth[best] - worth[least]
    if not gain:
        return best, {workers: float(workers == best) for workers in worth}
    return best, {workers: (own - worth[least]) / gain for workers, own in worth.items()}


def _worth(job: Job, parameters: Parameters, least: int, workers: int) -> float:
    """By the measure that the rule climbs; its own formula, written once more."""
    if isinstance(parameters, Efficiency):
        log = sum(math.log1p(parameters.threshold / fewer) for fewer in range(least, workers))
        return math.exp(math.log(job.rate(workers)) - log)
    assert isinstance(parameters, Utility)
    seconds = job.samples / job.rate(workers)
    return (
        parameters.value * (1 - seconds / parameters.deadline) - parameters.price / 3600 * workers * seconds
    )


def main() -> None:
    runs = [run(job, parameters) for parameters in POLICIES.values() for job in jobs() if LEAST in job.steps]
    print(__doc__)
    print(
        f"{'policy':<11}{'job':<18}{'found':>6}{'best':>6}{'nearness':>10}{'near s':>8}{'share':>8}{'last s':>8}{'share':>8}{'of s':>8}  sizes"
    )
    for one in runs:
        print(
            f"{one.policy:<11}{one.job:<18}{one.found:>6}{one.best:>6}{one.nearness:>10.3f}{one.near_at:>8.0f}"
            f"{one.share:>8.1%}{one.found_at:>8.0f}{one.settled:>8.1%}{one.ended_at:>8.0f}  {' '.join(map(str, one.sizes))}"
        )
    print(json.dumps(summary(runs)))


def summary(runs: list[Run]) -> dict[str, float]:
    """By policy: the least nearness; the share of the run time until it was near the best, of all jobs together, in the
    median, and the largest; the median of the seconds until then, and until the last resize of the search."""
    found = {}
    for policy in POLICIES:
        own = [one for one in runs if one.policy == policy]
        together = sum(one.near_at for one in own) / sum(one.ended_at for one in own)
        found[f"{policy}_nearness"] = round(min(one.nearness for one in own), 4)
        found[f"{policy}_share"] = round(together, 4)
        found[f"{policy}_share_median"] = round(statistics.median(one.share for one in own), 4)
        found[f"{policy}_share_most"] = round(max(one.share for one in own), 4)
        found[f"{policy}_near_s_median"] = round(statistics.median(one.near_at for one in own), 1)
        found[f"{policy}_last_s_median"] = round(statistics.median(one.found_at for one in own), 1)
    return found


if __name__ == "__main__":
    main()
