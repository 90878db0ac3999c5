"""How quickly a sizing policy finds its size, over measured step times of real jobs: `python -m bench.sizing`.

Lives here: a job as its step times (Pollux, OSDI'21: `data/pollux-osdi21`), trained by its own clock, resized by what
the policy says; and the size that would have been the best, from all step times at once, by the rule's own measure.
Never here: a policy.

A job begins with `LEAST` workers, under the master's own membership (`bench.training`), and all room is free.
Reported: the size found and the best one, how near it is by the rule's measure, and in seconds and in the job's run
time: since when the job has had a size within `NEAR` of the best, and when the last resize of the search was.
"""

import csv
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench import arguments
from bench.training import Job, Training
from scheduler.elastic.sizing import Parameters, decode
from scheduler.elastic.sizing.policy_parameters import NAMES, Efficiency, Utility

DATA = Path(__file__).parent / "data" / "pollux-osdi21"

LEAST = 4
"""Workers to begin with: one node of the traces."""

NEAR = 0.95
"""Nearness from which on a size counts as found."""

SEARCHING = 60.0
"""Seconds without a resize after which the search has ended, and the job is taken to train on as it is."""

POLICIES: Mapping[str, Parameters] = {
    "efficiency": decode("efficiency", {}),
    "utility": decode("utility", {"value": 1000}),
}
"""By name; defaults, but for a job's worth, which has none that fits all."""


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
    training = Training(job, parameters, least, noise, seed)
    training.run(SEARCHING)
    trail, found = training.trail, training.size
    best, nearness = _judged(job, parameters, least)
    far = [place for place, (_, workers) in enumerate(trail) if nearness[workers] < NEAR]
    at = [when for when, _ in trail] + [training.end]
    near_at = at[max(far, default=-1) + 1]
    sizes = tuple(workers for _, workers in trail)
    policy = NAMES[type(parameters)]
    return Run(job.name, policy, found, best, nearness[found], near_at, trail[-1][0], training.end, sizes)


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
    arguments.none("bench.sizing", __doc__)
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
