"""Tetris' experiment: its workload, the list schedulers beside Gangwright, and that the order `fit` starves no gang."""

import statistics

import numpy as np
import pytest

from bench.simulator import Simulation, some_nodes
from bench.tables import tetris as table
from bench.tetris import peers, running, tasks
from bench.tetris.running import BLOCKING, FIFO, FIT, TETRIS, Outcome
from bench.traces import Job
from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill, Order


def few(seed: int) -> list[Job]:
    """The first tasks of a seed, all at once, so that they compete."""
    return [Job(t.name, 0.0, t.runtime, 1, t.gpus, others=t.others) for t in tasks.tasks(seed)[::6]]


def starts(fates) -> dict[str, float]:
    return {fate.job.name: fate.started for fate in fates}


def test_the_workload_has_the_published_counts():
    """40 jobs of 30 tasks that arrive within 3,000 s on 20 nodes; the same for the same seed only."""
    some = tasks.tasks(3)

    assert (len(some), len({tasks.job_of(task) for task in some}), len(tasks.nodes())) == (1200, 40, 20)
    assert [task.arrival for task in some] == sorted(task.arrival for task in some)
    assert some[0].arrival >= 0
    assert some[-1].arrival <= 3_000
    assert some == tasks.tasks(3) != tasks.tasks(4)


def test_blocking_fifo_takes_as_long_as_published():
    """The one calibrated number: the mean makespan over 30 seeds is 7,083 s within 5%."""
    spans = [running.run(BLOCKING, seed).makespan for seed in range(30)]

    assert statistics.fmean(spans) == pytest.approx(7_083, rel=0.05)


def test_a_list_scheduler_starts_as_the_engine_does_in_strict_order():
    """Equal nodes and no choice that matters: all tasks need more than half of a node."""
    large = [
        Job(f"j{n:02d}", 7.0 * n, 100.0 + n, 1, 5, others=task.others) for n, task in enumerate(few(1)[:60])
    ]
    engine = Simulation(large, tasks.nodes(), Policy(backfill=Backfill.NONE)).run()

    assert starts(engine) == starts(peers.run(large, peers.RULES[BLOCKING]))


def test_tetris_rule_takes_the_pair_of_the_largest_dot_product():
    """Of what fits anywhere the best aligned task, on the node with most of what it needs; none if nothing fits."""
    demands = np.array([[1.0, 1.0, 1.0, 1.0], [16_000.0, 1.0, 4.0, 1.0], [32_000.0, 1.0, 8.0, 1.0]])
    free = np.array([[16_000.0, 2.0, 4.0, 9.0], [20_000.0, 2.0, 6.0, 9.0]])

    assert peers.tetris(demands, free) == (1, 1)
    assert peers.tetris(demands[2:], free) is None


@pytest.mark.parametrize("seed", range(2))
def test_fit_packs_a_burst_better_than_fifo_that_blocks(seed):
    """A burst of tasks of four resources ends sooner, and nothing is overbooked (the simulator checks)."""
    burst = few(seed)
    fit = Outcome.of(Simulation(burst, tasks.nodes(), running.POLICIES[FIT]).run())

    assert fit.makespan < Outcome.of(peers.run(burst, peers.RULES[BLOCKING])).makespan


LIMIT, RUN = 1_000.0, 100.0


def wait_of_a_wide_gang(backfill):
    """Small jobs that fit keep coming and overlap without end. A gang of both nodes fits badly."""
    limit, run = LIMIT, RUN
    small = [Job(f"small-{n}", 20.0 * n, run, 1, 4, declared=run) for n in range(200)]
    wide = Job("wide", 50.0, run, 2, 8, declared=run)
    policy = Policy(order=Order.FIT, backfill=backfill, age_limit=limit)
    fates = Simulation([*small, wide], some_nodes(2), policy).run()

    return next(fate.first_start for fate in fates if fate.job.name == "wide")


@pytest.mark.parametrize("backfill", [Backfill.RESERVE, Backfill.NONE])
def test_with_fit_a_gang_that_fits_badly_starts_within_the_age_limit(backfill):
    """It ages, and starts as soon as what runs by then has ended."""
    assert 0.5 * LIMIT < wait_of_a_wide_gang(backfill) <= LIMIT + RUN


def test_with_fit_and_free_backfill_it_may_wait_longer():
    """Without a reservation, small jobs keep taking what it needs, as in every order."""
    assert wait_of_a_wide_gang(Backfill.FREE) > LIMIT + RUN


def test_the_table_compares_policies_on_the_same_tasks():
    """A row for each policy with the published figures beside, and the figures that the claims rest on."""
    some = {
        BLOCKING: [Outcome(100.0, 50.0, 9.0), Outcome(110.0, 60.0, 8.0)],
        TETRIS: [Outcome(80.0, 40.0, 7.0), Outcome(90.0, 50.0, 6.0)],
        FIFO: [Outcome(85.0, 45.0, 5.0), Outcome(95.0, 55.0, 4.0)],
        FIT: [Outcome(79.0, 41.0, 12.0), Outcome(91.0, 51.0, 11.0)],
    }
    found = table.table(some)

    assert [row[0] for row in found.rows] == list(some)
    assert all(len(row) == len(found.columns) for row in found.rows)
    assert found.rows[1][-2:] == (5_519.0, 2_230.0)
    assert found.figures["fit_over_tetris"] == pytest.approx(1.0)
    assert found.figures["tetris_over_fifo"] == pytest.approx(85 / 105)
    assert found.figures["fit_longest_wait"] == 12.0
