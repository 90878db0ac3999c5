"""The optimum that placements are compared with is the real one, and the planner is close to it."""

import random
from itertools import islice, product

import numpy as np
import pytest

from bench.placement_quality import Case, Outcome, Ratios, cases, fewest, nearest, outcomes, planned
from bench.tables.placement_quality import layout
from tests.placement.support.accountant import fewest as looked_at
from tests.support.builders import GPU, a_cluster, a_demand, with_free


def test_fewest_domains_of_one_demand():
    """The solver finds what a look at every subset of racks finds."""
    chance = random.Random(1)
    for _ in range(20):
        free = {f"a0-r{rack}-n{node}": chance.randint(0, 4) for rack in range(5) for node in range(2)}
        cluster = with_free(a_cluster(racks=5, nodes=2, gpu=4), GPU, free)
        rooms = [sum(free[f"a0-r{rack}-n{node}"] // 2 for node in range(2)) for rack in range(5)]
        members = chance.randint(1, 12)
        found = fewest(Case(cluster, ((a_demand(gpu=2), members),)), cluster.topology.columns[1])

        assert found == (looked_at(rooms, members) if sum(rooms) >= members else None)


def test_fewest_domains_of_two_demands():
    """Members of two demands share what a node has: all ways to seat them are tried."""
    cluster = with_free(
        a_cluster(racks=3, nodes=1, gpu=4, cpu=8), GPU, {"a0-r0-n0": 2, "a0-r1-n0": 3, "a0-r2-n0": 4}
    )
    free = (2, 3, 4)
    case = Case(cluster, ((a_demand(gpu=2), 2), (a_demand(gpu=1), 3)))
    able = []
    for seats in product(range(3), repeat=5):
        used = [sum(2 for s in seats[:2] if s == n) + sum(1 for s in seats[2:] if s == n) for n in range(3)]
        if all(some <= has for some, has in zip(used, free, strict=True)):
            able.append(len(set(seats)))

    assert fewest(case, cluster.topology.columns[0]) == min(able) == 2


def test_gang_above_the_free_capacity_has_no_optimum():
    """A gang that does not fit has no number of domains."""
    cluster = a_cluster(racks=2, nodes=1, gpu=4)

    assert fewest(Case(cluster, ((a_demand(gpu=4), 3),)), cluster.topology.columns[0]) is None
    with pytest.raises(ValueError, match="does not fit"):
        nearest(Case(cluster, ((a_demand(gpu=4), 3),)), 0)


def test_nearest_comes_before_fewest():
    """Two racks of different areas would do, but one area holds the gang in three: the planner stays inside."""
    free = {
        "a0-r0-n0": 4,
        "a0-r1-n0": 4,
        "a0-r2-n0": 4,
        "a1-r0-n0": 6,
        "a1-r1-n0": 0,
        "a1-r2-n0": 0,
        "a2-r0-n0": 6,
    }
    cluster = with_free(
        a_cluster(areas=3, racks=3, nodes=1, gpu=6), GPU, {**free, "a2-r1-n0": 0, "a2-r2-n0": 0}
    )
    case = Case(cluster, ((a_demand(gpu=1), 12),))

    assert fewest(case, cluster.topology.columns[1]) == 2
    assert nearest(case, 1) == planned(case, "rack") == 3


def test_cases_fit_and_are_the_same_each_time():
    """A seed gives the same clusters and gangs, each with free capacity for the whole gang."""
    one, two = (list(islice(cases(5, roles=2), 3)) for _ in range(2))

    assert [case.members for case in one] == [case.members for case in two]
    for first, second in zip(one, two, strict=True):
        np.testing.assert_array_equal(first.snapshot.free, second.snapshot.free)
        assert len(first.members) == 2
        assert (first.snapshot.free >= 0).all()


def test_planner_is_never_below_the_optimum():
    """With one demand the planner seats every gang that fits, in the fewest domains of the nearest coarser one."""
    for found in outcomes(2, 1, 6).values():
        assert all(one.planned == one.nearest >= one.fewest for one in found)


def test_ratios():
    """Gangs without seats count apart, and only gangs above one domain count as wide."""
    ratios = Ratios.of([(1, 1), (3, 2), (None, 2)])

    assert (ratios.gangs, ratios.mean, ratios.wide) == (3, 1.25, 1.5)
    assert (ratios.optimal, ratios.worst, ratios.missed) == (0.5, 1.5, 1)


def test_table_claims_the_worst_of_its_rows():
    """The figure that is claimed is the largest mean over levels and numbers of roles."""
    found = {
        (roles, level): [Outcome(roles, 1, 1), Outcome(2, 2, 2)]
        for roles in (1, 2)
        for level in ("rack", "host")
    }
    table = layout(found)

    assert (table.figures["domains_over_optimum"], table.figures["worst_ratio"]) == (1.5, 2.0)
    assert (table.figures["optimal_share"], table.figures["missed_gangs"]) == (0.5, 0.0)
    assert len(table.rows) == 8
    assert all(len(row) == len(table.columns) for row in table.rows)
