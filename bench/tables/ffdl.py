"""Gangs on 100 nodes of 4 GPUs, packed and spread: `bench.ffdl` over loads and seeds."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench.confidence import interval
from bench.ffdl import JOBS, Outcome, Rule, run
from bench.queue.running import in_order
from bench.tables.table import Cell, Chart, Profile, Series, Table
from scheduler.model.queueing import Backfill

LOADS: Final = (0.6, 0.7, 0.8)
CLAIMED: Final = 0.7
"""The load at which the ratio is claimed, and at which the other queues are measured."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How much is measured. others: the queues that are measured besides `free`."""

    seeds: int
    jobs: int
    others: tuple[Backfill, ...]


AMOUNT: Final[Mapping[Profile, Amount]] = {
    Profile.QUICK: Amount(5, 1500, ()),
    Profile.FULL: Amount(10, JOBS, (Backfill.RESERVE, Backfill.NONE)),
}

Runs = Sequence[Outcome]


def make(profile: Profile, workers: int) -> Table:
    """The table. Quick: 5 seeds of 1,500 jobs. Full: 10 seeds of 4,000 jobs, and two more queues."""
    amount = AMOUNT[profile]
    where = [(Backfill.FREE, load) for load in LOADS] + [(other, CLAIMED) for other in amount.others]
    cases = [
        (rule, load, seed, amount.jobs, queue)
        for queue, load in where
        for seed in range(amount.seeds)
        for rule in Rule
    ]
    return layout(list(in_order(run, [*zip(*cases, strict=True)], workers)), amount)


def layout(runs: Runs, amount: Amount) -> Table:
    """Rows by queue, load and rule."""
    groups = {
        key: [one for one in runs if (one.backfill, one.load, one.rule) == key]
        for key in dict.fromkeys((one.backfill, one.load, one.rule) for one in runs)
    }
    return Table(
        title="FfDL: gangs packed or spread",
        shows="How long gangs wait on 100 nodes of 4 GPUs if their learners are packed on few hosts, aligned or spread. "
        "FfDL published the nodes and the sizes of the jobs, but not arrivals and runtimes. So the comparison counts, "
        "not the waits.",
        columns=(
            "queue",
            "load",
            "rule",
            "waits > 15 min, %",
            "±",
            "mean wait, min",
            "±",
            "p99 wait, h",
            "hosts / fewest",
        ),
        rows=[_row(*key, own) for key, own in groups.items()],
        figures=figures(runs),
        notes=_notes(amount),
        charts=[_chart(groups)],
    )


def _row(queue: Backfill, load: float, rule: Rule, own: Runs) -> Sequence[Cell]:
    long, mean = [100 * one.long for one in own], [60 * one.mean for one in own]
    return (
        queue.value,
        load,
        rule.value,
        round(statistics.fmean(long), 1),
        round(interval(long), 1),
        round(statistics.fmean(mean), 1),
        round(interval(mean), 1),
        round(statistics.fmean(one.p99 for one in own), 2),
        round(statistics.fmean(one.hosts for one in own), 3),
    )


def figures(runs: Runs) -> dict[str, float]:
    """Ratios of long waits, spread over pack: the mean share over the mean share, by load, queue and kind of spread."""
    out: dict[str, float] = {}
    for queue, load in dict.fromkeys((one.backfill, one.load) for one in runs):
        name = f"{load}" if queue is Backfill.FREE else f"{load}_{queue.value}"
        own = {
            rule: [one for one in runs if (one.backfill, one.load, one.rule) == (queue, load, rule)]
            for rule in Rule
        }
        share = {rule: statistics.fmean(one.long for one in some) for rule, some in own.items()}
        least = 0.5 / sum(map(len, own.values()))  # no wait at all on either side is a tie
        out[f"long_waits_ratio_{name}"] = _ratio(share[Rule.SPREAD], share[Rule.PACK], least)
        out[f"long_waits_ratio_most_free_{name}"] = _ratio(share[Rule.MOST_FREE], share[Rule.PACK], least)
        out[f"long_waits_pack_{name}"] = share[Rule.PACK]
        out[f"hosts_pack_{name}"] = statistics.fmean(one.hosts for one in own[Rule.PACK])
        pairs = zip(own[Rule.PACK], own[Rule.SPREAD], strict=True)
        out[f"pack_below_spread_{name}"] = float(all(pack.long < spread.long for pack, spread in pairs))
    free = [out[f"pack_below_spread_{load}"] for load in dict.fromkeys(one.load for one in runs)]
    return out | {"pack_below_spread_everywhere": min(free)}


def _ratio(one: float, other: float, least: float) -> float:
    return max(one, least) / max(other, least)


def _notes(amount: Amount) -> Sequence[str]:
    return (
        (
            f"{amount.seeds} seeds of {amount.jobs:,} jobs. Nodes have 32 CPUs and 4 GPUs. Jobs have 1 to 8 learners of 1 to 4 "
            "GPUs (uniform) and 4 to 16 CPUs (each half as likely as the one before). Memory is never short and left out."
        ),
        "Arrivals are Poisson. Runtimes are lognormal with a median of 4 hours and a sigma of 1. Jobs state none.",
        (
            "most-free puts each learner on the node with the most free GPUs, as a scheduler of single pods spreads: the "
            "SPREAD that FfDL's PACK replaced, in the same queue. spread is Gangwright's: as even, but among equal nodes it "
            "takes the fullest."
        ),
        "The queue `free` starts whatever fits, as kube-scheduler does. `reserve` is Gangwright's default.",
        "hosts / fewest: nodes that a gang uses, over the fewest empty nodes that hold it.",
    )


def _chart(groups: Mapping[tuple[Backfill, float, Rule], Runs]) -> Chart:
    return Chart(
        "load",
        "jobs that wait longer than 15 minutes, %",
        [
            Series(
                rule.value,
                [load for queue, load, other in groups if (queue, other) == (Backfill.FREE, rule)],
                [100 * statistics.fmean(one.long for one in own) for own in _of(groups, rule)],
                [100 * interval([one.long for one in own]) for own in _of(groups, rule)],
            )
            for rule in Rule
        ],
    )


def _of(groups: Mapping[tuple[Backfill, float, Rule], Runs], rule: Rule) -> Sequence[Runs]:
    return [own for (queue, _, other), own in groups.items() if (queue, other) == (Backfill.FREE, rule)]
