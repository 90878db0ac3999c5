"""The burst of 53 gangs: its orders, its ideal, and what its table claims."""

import pytest

from bench.burst import COMPARED, Outcome, ideal, outcome, published, shuffled
from bench.queue.cases import FREE, STRICT
from bench.tables.burst import layout


def test_ideal_is_all_work_on_all_nodes():
    """288 members of 120 s on 32 nodes take at least 1,080 s."""
    assert len(published()) == 53
    assert ideal(published()) == 1080.0


def test_other_orders_have_the_same_gangs():
    """A seed gives one order, and names in that order."""
    one, two = shuffled(published(), 1), shuffled(published(), 2)

    assert one == shuffled(published(), 1)
    assert one != two
    assert [job.name for job in one] == sorted(job.name for job in one)
    assert sorted(job.members for job in one) == sorted(job.members for job in published())


@pytest.mark.parametrize("queue", COMPARED, ids=lambda queue: queue.name)
def test_published_order_reaches_the_ideal(queue):
    """Every queue ends the burst after 1,080 s if the gangs come in the published order."""
    assert outcome(queue, None).makespan == 1080.0


def test_backfill_is_not_behind_strict_order():
    """In a random order backfill ends the burst no later than strict order does."""
    spans = {queue.name: outcome(queue, 0).makespan for queue in COMPARED if queue.name in {STRICT, FREE}}

    assert 1080.0 <= spans[FREE] <= spans[STRICT]


def test_table_has_a_row_for_each_queue():
    """The claims are the published order's makespan, and the best and the mean of the random orders."""
    found = [
        Outcome(queue.name, seed, makespan, 100.0)
        for queue in COMPARED
        for seed, makespan in ((None, 1080.0), (0, 1200.0), (1, 1320.0))
    ]
    table = layout(found)

    assert len(table.rows) == len(COMPARED)
    assert table.rows[0][1:6] == (1080.0, 100.0, 2, 1200.0, 1260.0)
    assert table.figures["burst_makespan"] == table.figures["burst_ideal"] == 1080.0
    assert (table.figures["burst_best_of_orders"], table.figures["burst_mean_of_orders"]) == (1200.0, 1260.0)
    assert all(len(row) == len(table.columns) for row in table.rows)
