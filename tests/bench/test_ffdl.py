"""The comparison of packed and spread gangs: its jobs are as published, and its figures follow from the runs."""

import statistics
from collections import Counter
from dataclasses import replace

import pytest

from bench.confidence import interval
from bench.ffdl import Outcome, Rule, fewest, jobs, most_free, outcome, run
from bench.report import Fate
from bench.simulator import some_nodes
from bench.tables.ffdl import AMOUNT, figures, layout
from bench.tables.table import Profile
from bench.traces import Job
from scheduler.ledger.node_table import NodeTable
from scheduler.model.cluster import DEFAULT_LEVELS
from scheduler.model.queueing import Backfill
from scheduler.model.resources import CPU
from tests.support.builders import a_cluster, a_gang

FREE, RESERVE = Backfill.FREE, Backfill.RESERVE


def test_jobs_have_the_published_sizes():
    """Learners, GPUs and CPUs have the published ranges and means, and the load is what was asked for."""
    drawn = jobs(1, 0.7)

    for name, low, high, mean in (("members", 1, 8, 4.5), ("gpus", 1, 4, 2.5), (CPU, 4, 16, 5.0)):
        values = [dict(job.others)[CPU] // 1000 if name == CPU else getattr(job, name) for job in drawn]
        assert low == min(values) < max(values) <= high
        assert statistics.fmean(values) == pytest.approx(mean, rel=0.02)
    assert statistics.median(job.runtime for job in drawn) == pytest.approx(4 * 3600, rel=0.05)
    work = sum(job.size * job.runtime for job in drawn)
    assert work / (drawn[-1].arrival * 400) == pytest.approx(0.7, rel=0.08)
    assert jobs(1, 0.7) == drawn


@pytest.mark.parametrize(
    ("job", "nodes"),
    [
        (Job("a", 0, 1, 2, 2, others=((CPU, 4000),)), 1),
        (Job("a", 0, 1, 5, 1, others=((CPU, 4000),)), 2),
        (Job("a", 0, 1, 4, 1, others=((CPU, 16000),)), 2),
    ],
)
def test_fewest_nodes(job, nodes):
    """GPUs or CPUs, whichever is short, decide how many empty nodes a gang needs."""
    assert fewest(job) == nodes


def test_figures_of_a_run():
    """A wait of 15 minutes is not long yet, and hosts count relative to the fewest."""
    job = Job("a", 0.0, 60.0, 2, 2, others=((CPU, 4000),))
    fates = [Fate(job, 900.0, 960.0, hosts=1), Fate(job, 901.0, 961.0, hosts=2)]

    found = outcome(Rule.PACK, FREE, 0.7, 0, fates)

    assert (found.long, found.hosts) == (0.5, 1.5)
    assert found.mean == pytest.approx(900.5 / 3600)


def test_published_example_of_two_learners():
    """Two learners of 2 GPUs on nodes of 4: pack uses one node, both ways to spread use two."""
    hosts = {rule: run(rule, 0.01, 1, 60).hosts for rule in (Rule.PACK, Rule.SPREAD, Rule.MOST_FREE)}
    cluster = a_cluster(nodes=4, gpu=4, cpu=32)

    assert hosts[Rule.PACK] == 1.0
    assert min(hosts[Rule.SPREAD], hosts[Rule.MOST_FREE]) > 1.2
    assert sorted(Counter(most_free(cluster, a_gang(2, gpu=2)).values()).values()) == [1, 1]


def test_most_free_takes_the_emptiest_node_each_time():
    """The fullest node is used only after the others have as few free GPUs."""
    table = NodeTable(DEFAULT_LEVELS)
    for number, node in enumerate(some_nodes(2, gpus=4, cpu=32)):
        table.seen(replace(node, held=(("nvidia.com/gpu", 2),) if number == 0 else ()))

    assert list(most_free(table.snapshot([]), a_gang(4, gpu=1)).values()) == [
        "n0001",
        "n0001",
        "n0000",
        "n0001",
    ]


def test_packed_gangs_wait_less():
    """Even a short run at high load shows it: fewer long waits if gangs are packed."""
    long = {rule: run(rule, 0.9, 3, 250).long for rule in (Rule.PACK, Rule.MOST_FREE)}

    assert 0 < long[Rule.PACK] < long[Rule.MOST_FREE]


def an_outcome(rule, long, *, seed=0, backfill=FREE):
    return Outcome(rule, backfill, 0.7, seed, long, mean=long, p99=1.0, hosts=1.0)


RUNS = [
    an_outcome(rule, long * (1 + seed), seed=seed, backfill=queue)
    for queue in (FREE, RESERVE)
    for rule, long in ((Rule.PACK, 0.1), (Rule.COSINE, 0.2), (Rule.SPREAD, 0.2), (Rule.MOST_FREE, 0.25))
    for seed in range(2)
]


def test_ratios_are_of_mean_shares():
    """Each queue has its own figures, and one seed in the wrong order is enough to miss the claim."""
    found = figures(RUNS)
    mixed = figures([*RUNS[1:], an_outcome(Rule.PACK, 0.3)])

    assert found["long_waits_ratio_0.7"] == pytest.approx(2.0)
    assert found["long_waits_ratio_most_free_0.7_reserve"] == pytest.approx(2.5)
    assert (found["pack_below_spread_everywhere"], mixed["pack_below_spread_everywhere"]) == (1.0, 0.0)


def test_runs_without_long_waits_have_a_ratio():
    """No long wait on either side is a tie, not an error."""
    assert figures([replace(one, long=0.0) for one in RUNS])["long_waits_ratio_0.7"] == 1.0


def test_table_has_a_row_for_each_queue_and_rule():
    """A row has the mean over seeds with its interval; the chart shows the queue `free` alone."""
    table = layout(RUNS, AMOUNT[Profile.QUICK])

    assert [row[:3] for row in table.rows[:2]] == [("free", 0.7, "pack"), ("free", 0.7, "cosine")]
    assert len(table.rows) == 8
    assert table.rows[0][3:5] == (15.0, round(100 * interval([0.1, 0.2]), 1))
    assert table.charts[0].series[0].y == [pytest.approx(15.0)]
    assert all(len(row) == len(table.columns) for row in table.rows)
