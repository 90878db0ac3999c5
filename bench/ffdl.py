"""Gangs of 1 to 8 learners on 100 nodes of 4 GPUs: how long they wait if gangs are packed, aligned or spread.

Lives here: the jobs of FfDL's comparison (Jayaram et al., Middleware '19) as far as they are published, the way that a
scheduler of single pods spreads, and one run. Published are the nodes, the number of jobs, and the ranges and means of
learners, GPUs and CPUs. Not published are arrivals and runtimes. Here arrivals are Poisson, and runtimes are lognormal
with a median of 4 hours.
Never here: a decision of Gangwright. The simulator runs the same engine as the service.

    python -m bench.ffdl --load 0.7 --rule pack --rule spread --seeds 5
"""

import json
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Annotated, Final

import numpy as np
import typer

from bench import ending
from bench.controller import GPU
from bench.report import HOUR, Fate, Spread
from bench.simulator import OverbookedError, Simulation, StuckError, silent, some_nodes
from bench.traces import Job
from scheduler.engine import Engine
from scheduler.engine.planning import Answer, Fault, Question
from scheduler.model.cluster import Snapshot
from scheduler.model.decision import Place
from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill
from scheduler.model.resources import CPU, amounts
from scheduler.model.workload import Gang, Strategy, Uid
from scheduler.placement.node_candidates import counted

NODES: Final = 100
GPUS: Final = 4
"""Of a node, as CPUS."""
CPUS: Final = 32
JOBS: Final = 4000

LEARNERS: Final = range(1, 9)
"""Uniform, so 4.5 on average, as published."""
GPUS_A_LEARNER: Final = range(1, 5)
"""Uniform, so 2.5 on average, as published."""
CPUS_A_LEARNER: Final = range(4, 17)
"""Each half as likely as the one before, so 5 on average, as published."""

MEDIAN: Final = 4 * 3600.0
"""Seconds."""
SIGMA: Final = 1.0
"""Of the logarithm of the runtime."""

LONG: Final = 900.0
"""Seconds in the queue after which a wait counts as long."""


def jobs(seed: int, load: float, count: int = JOBS) -> list[Job]:
    """Jobs that keep the share `load` of all GPUs busy on average, in order of arrival."""
    chance = random.Random(seed)
    size = statistics.fmean(LEARNERS) * statistics.fmean(GPUS_A_LEARNER)
    work = size * MEDIAN * math.exp(SIGMA**2 / 2)
    rate = load * NODES * GPUS / work
    weights = [0.5**place for place in range(len(CPUS_A_LEARNER))]
    now, out = 0.0, []
    for number in range(count):
        now += chance.expovariate(rate)
        out.append(
            Job(
                name=f"job-{number:05d}",
                arrival=now,
                runtime=chance.lognormvariate(math.log(MEDIAN), SIGMA),
                members=chance.choice(LEARNERS),
                gpus=chance.choice(GPUS_A_LEARNER),
                others=amounts({CPU: 1000 * chance.choices(CPUS_A_LEARNER, weights)[0]}),
            )
        )
    return out


def fewest(job: Job) -> int:
    """The fewest empty nodes that hold all of its learners."""
    cpu = dict(job.others).get(CPU, 0)
    return -(-job.members // min(GPUS // job.gpus, 1000 * CPUS // max(cpu, 1)))


class Rule(StrEnum):
    """How the learners of a gang get their nodes."""

    PACK = "pack"
    COSINE = "cosine"
    SPREAD = "spread"
    MOST_FREE = "most-free"
    """Each learner on the node with the most free GPUs, as a scheduler of single pods spreads. Not Gangwright's."""


LEVEL: Final[Mapping[Rule, str]] = {Rule.PACK: "rack", Rule.COSINE: "rack"}
"""All nodes are in one rack. Learners are packed and aligned inside it. Otherwise they are spread over its hosts."""


def policy(rule: Rule, backfill: Backfill) -> Policy:
    """The defaults, but for the strategy, its level, and the backfill."""
    strategy = Strategy.SPREAD if rule is Rule.MOST_FREE else Strategy(rule)
    return Policy(strategy=strategy, level=LEVEL.get(rule, "host"), backfill=backfill)


class MostFree(Engine):
    """The same queue, with other seats for the gangs that fit: the SPREAD that FfDL's PACK replaced.

    For members of one demand a seat here or there changes nothing for the others: if the gang fits, it also fits so.
    """

    def answer(self, question: Question) -> Answer | Fault:
        found = super().answer(question)
        if isinstance(found, Place) and question.making is None:
            return replace(found, seats=most_free(question.snapshot, question.gang))
        return found


def most_free(snapshot: Snapshot, gang: Gang) -> dict[Uid, str]:
    """One member after the other on the node with the most free GPUs then, the first by name among equals."""
    (role,) = gang.roles
    left = counted(snapshot.free, snapshot.axis.index, role.demand)
    gpus, need = snapshot.free[:, snapshot.axis.index[GPU]].copy(), dict(role.demand.requests)[GPU]
    seats = {}
    for uid in role.quorum:
        row = int(np.where(left > 0, gpus, -1.0).argmax())
        seats[uid] = snapshot.names[row]
        left[row] -= 1
        gpus[row] -= need
    return seats


@dataclass(frozen=True, slots=True)
class Outcome:
    """One rule at one load with one seed.

    long: the share of jobs that waited longer than 15 minutes.  mean, p99: of the waits, in hours.
    hosts: the mean over gangs of the nodes used, divided by the fewest that could hold the gang.
    """

    rule: Rule
    backfill: Backfill
    load: float
    seed: int
    long: float
    mean: float
    p99: float
    hosts: float


def run(rule: Rule, load: float, seed: int, count: int = JOBS, backfill: Backfill = Backfill.FREE) -> Outcome:
    """All jobs of one seed, from the first arrival to the last end."""
    own = policy(rule, backfill)
    simulation = Simulation(jobs(seed, load, count), some_nodes(NODES, gpus=GPUS, cpu=CPUS), own)
    if rule is Rule.MOST_FREE:
        simulation.engine = MostFree(silent(own))
    return outcome(rule, backfill, load, seed, simulation.run())


def outcome(rule: Rule, backfill: Backfill, load: float, seed: int, fates: Sequence[Fate]) -> Outcome:
    """The figures of what became of the jobs."""
    waits = Spread.of(fate.first_start / HOUR for fate in fates)
    return Outcome(
        rule,
        backfill,
        load,
        seed,
        long=statistics.fmean(fate.first_start > LONG for fate in fates),
        mean=waits.mean,
        p99=waits.p99,
        hosts=statistics.fmean(fate.hosts / fewest(fate.job) for fate in fates),
    )


def main(
    *,
    load: Annotated[float, typer.Option(min=0.01, help="Share of the GPUs that the jobs keep busy.")] = 0.7,
    rule: Annotated[list[Rule], typer.Option(help="May be repeated.")] = list(Rule),  # noqa: B006 - typer's default
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each rule.")] = 1,
    count: Annotated[int, typer.Option("--jobs", min=1, help="Jobs of each run.")] = JOBS,
    backfill: Annotated[
        Backfill, typer.Option(help="What may start ahead of a waiting gang.")
    ] = Backfill.FREE,
) -> None:
    """How long the jobs waited, and how many hosts their gangs used: one line of JSON for each run."""
    for seed in range(seeds):
        for own in rule:
            print(json.dumps(asdict(run(own, load, seed, count, backfill))), flush=True)


if __name__ == "__main__":
    ending.run(lambda: typer.run(main), OverbookedError, StuckError)
