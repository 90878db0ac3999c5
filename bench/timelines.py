"""ElasticDL's first two experiments on simulated slots: two jobs on six, and training beside serving on eight.

Lives here: what is submitted when, with the published times, and the slots in use that follow. Gangs are seated by the
live engine (`bench.simulator`). Elastic jobs run under the live membership and sizing (`bench.sharing`).
Never here: real processes (`bench.elastic.experiments` has the same experiments with them).

A slot is in use from a worker's first step to its last one, and by a serving pod while it runs. Training scales
linearly, as far as a job can grow.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.controller import GPU
from bench.elastic.experiments import published, slots
from bench.sharing import Slots
from bench.simulator import Simulation, some_nodes
from bench.traces import Job as Rigid
from bench.training import IDLE, WARM, Job
from scheduler.elastic.sizing import decode
from scheduler.model.policy import Policy

SECONDS: Final = 450.0
"""Of one of two jobs with its four workers: in the published gang run 449 s of four GPUs."""

WORKERS: Final = 4
LEAST: Final = 1
"""Workers of an elastic job, at least."""

MOST_BESIDE: Final = 6
"""Workers of the job beside serving, at most."""

FIRST: Final = 2
"""Serving pods that run from the beginning."""

STEP: Final = 0.1
"""Seconds of a step with all workers."""

SERVES: Final = 2.0
"""Seconds from a serving pod's slot until it runs: the shortest gap of the published run, which is 2 to 7 s."""

ENDLESS: Final = 1e5
"""Seconds of a job that outlasts the experiment."""

OFFER: Final = decode("offer", {})


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds. start: of a worker, until it is ready. resize: in which training stands still."""

    start: float
    resize: float


MEASURED: Final = Costs(WARM, IDLE)
"""Of real runs (`python -m bench.elastic resize`)."""

SLOW: Final = Costs(20.0, IDLE)
"""Workers start as slowly as in the published runs, where a lost worker is back 18 to 25 s after its slot is free."""


@dataclass(frozen=True, slots=True)
class TwoJobs:
    """Seconds since the first submission. use: of all slots, until the last end."""

    end: float
    use: float
    line: slots.Timeline
    second_trains: float
    """Seconds from the second job's submission to its first step."""


def gangs(costs: Costs, later: float = published.SECOND_JOB) -> TwoJobs:
    """Both jobs need four slots, or wait. later: when the second one is submitted."""
    begins = costs.start + costs.resize
    jobs = [Rigid(name, at, begins + SECONDS, WORKERS, 1) for name, at in (("one", 0.0), ("two", later))]
    nodes = some_nodes(published.TWO_JOBS_SLOTS, gpus=1)
    assert all(dict(node.capacity)[GPU] == 1 for node in nodes)
    fates = Simulation(jobs, nodes, Policy()).run()
    uses = [(fate.started + begins, fate.ended) for fate in fates for _ in range(WORKERS)]
    return _two_jobs(uses, fates[-1].ended, fates[-1].started + begins - later)


def elastic(costs: Costs, later: float = published.SECOND_JOB, least: int = LEAST) -> TwoJobs:
    """Both jobs have at least so many workers, and four if slots are free."""
    shop = Slots(published.TWO_JOBS_SLOTS)
    begun = shop.clock.now

    def submit(name: str) -> None:
        shop.submit(_job(name, WORKERS, SECONDS), OFFER, least, warm=costs.start, idle=costs.resize)

    submit("one")
    shop.at(begun + later, lambda: submit("two"))
    shop.until(lambda: len(shop.jobs) > 1 and all(job.over for job in shop.jobs))
    uses = [(first - begun, last - begun) for job in shop.jobs for first, last in job.uses.values()]
    second = min(first for first, _ in shop.jobs[1].uses.values())
    return _two_jobs(uses, max(last for _, last in uses), second - begun - later)


def _job(name: str, most: int, seconds: float) -> Job:
    """So many seconds with all of its workers."""
    return Job(
        name, most, seconds / STEP * most, {count: STEP * most / count for count in range(1, most + 1)}
    )


def _two_jobs(uses: Sequence[slots.Use], end: float, second_trains: float) -> TwoJobs:
    line = slots.timeline(uses, 0.0, end)
    return TwoJobs(end, slots.mean_use(line, published.TWO_JOBS_SLOTS), line, second_trains)


def saved(costs: Costs, later: float, least: int = LEAST) -> float:
    """The part of the gangs' time that elastic jobs save."""
    return 1 - elastic(costs, later, least).end / gangs(costs, later).end


@dataclass(frozen=True, slots=True)
class Beside:
    """Training beside serving; seconds since all slots are in use for the first time."""

    use: float
    line: slots.Timeline
    dip: float
    """The longest time in which slots are free after more serving pods were asked for."""
    regrowth: float
    """The same after fewer were asked for."""
    fewest: int
    """Workers of the training, at any time."""


def beside_serving(
    costs: Costs, orders: Sequence[tuple[float, int]], length: float, serves: float = SERVES
) -> Beside:
    """orders: at which second so many serving pods more, or fewer, are asked for."""
    shop = Slots(published.SERVING_SLOTS, serves)
    shop.serve(FIRST)
    job = shop.submit(
        _job("training", MOST_BESIDE, ENDLESS), OFFER, LEAST, warm=costs.start, idle=costs.resize
    )
    shop.until(lambda: bool(job.sizes) and job.sizes[-1][1] == MOST_BESIDE)
    begun = shop.clock.now
    for at, by in orders:
        shop.at(begun + at, lambda by=by: shop.serve(by))
    shop.until(lambda: shop.clock.now >= begun + length)
    uses = [(first, last) for first, last in job.uses.values()] + shop.served()
    line = slots.timeline(uses, begun, begun + length)
    line[max(line)] = list(line.values())[-2]  # all go on
    gaps = slots.gaps(line, published.SERVING_SLOTS, orders)
    return Beside(
        slots.mean_use(line, published.SERVING_SLOTS),
        line,
        slots.longest(gaps, dips=True),
        slots.longest(gaps, dips=False),
        min(size for at, size in job.sizes if at >= begun),
    )


def replay(costs: Costs) -> Beside:
    """The published changes of the serving pods."""
    training, serving = published.timeline("elastic_training"), published.timeline("tf_serving")
    return beside_serving(costs, published.orders(training, serving), max(training))
