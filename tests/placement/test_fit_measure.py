"""How well gangs fit: the measure of the order `fit`."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement import fit_measure
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.fit_measure import NO_FIT, misfits
from scheduler.placement.node_candidates import counted
from scheduler.placement.scoring import compared
from tests.support.builders import GPU, a_cluster, a_gang, a_role, with_free

DEMANDS = st.fixed_dictionaries(
    {"cpu": st.integers(0, 40), "memory": st.sampled_from([0, 16, 200]), "gpu": st.integers(0, 9)}
)
"""Some of which no node holds."""


def measures(snapshot, *gangs) -> list[float]:
    return misfits(snapshot, gangs, FeasibilityCache())


def test_the_gang_that_uses_most_of_what_is_free_goes_first():
    """Where mostly GPUs are free, a gang of GPUs aligns better than a gang of as many parts of a node in CPUs."""
    idle = a_cluster(nodes=1, cpu=64, gpu=8)
    busy = with_free(idle, "cpu", {idle.names[0]: 32_000})
    gpus, cpus = a_gang(cpu=8, gpu=4, name="gpus"), a_gang(cpu=32, gpu=1, name="cpus")

    assert measures(idle, gpus, cpus) == [-0.625, -0.625]
    assert measures(busy, gpus, cpus) == [-0.5625, -0.375]


def test_every_member_of_the_quorum_counts():
    """A gang of four such members aligns four times as well as one of them; surplus does not count beside a quorum."""
    snapshot = a_cluster(nodes=4, gpu=8)
    one, four = measures(snapshot, a_gang(gpu=2), a_gang(4, gpu=2, surplus=3))

    assert four == pytest.approx(4 * one)
    assert measures(snapshot, a_gang(0, surplus=5, gpu=2)) == [one]


def test_what_does_not_fit_goes_last():
    """A gang ranks behind all that fit if its members have no room, one by one, as a quorum, or in one domain."""
    snapshot = a_cluster(racks=2, nodes=2, gpu=8)
    large, many, wide = a_gang(gpu=9), a_gang(5, gpu=8), a_gang(3, gpu=8, level="rack", required=True)
    apart = a_gang(roles=[a_role("a", 4, gpu=8), a_role("b", 1, gpu=9)])
    elsewhere = a_gang(gpu=1, selector={"zone": "moon"})
    unknown = a_gang(gpu=1, more={"example.com/fpga": 1})

    assert measures(snapshot, large, many, wide, apart, elsewhere, unknown) == [NO_FIT] * 6
    assert max(measures(snapshot, a_gang(), a_gang(4, gpu=8), replace(wide, required=False))) < NO_FIT


def test_an_overcommitted_resource_stops_only_those_who_request_it():
    """Other schedulers may leave less than nothing of a resource. A gang that requests none of it still fits."""
    idle = a_cluster(nodes=1, cpu=64, gpu=8)
    snapshot = with_free(idle, "cpu", {idle.names[0]: -1_000})
    other, own = measures(snapshot, a_gang(gpu=4), a_gang(cpu=1, gpu=4))

    assert (other, own) == (-0.5, NO_FIT)


@given(st.lists(DEMANDS, min_size=1, max_size=6), st.lists(st.integers(0, 8), min_size=5, max_size=5))
def test_it_is_the_best_dot_product_among_the_nodes_with_room(wants, left):
    """As computed node by node, however many demands are compared at a time."""
    empty = a_cluster(nodes=5, cpu=32, memory=128, gpu=8)
    snapshot = with_free(empty, GPU, dict(zip(empty.names, left, strict=True)))
    gangs = [a_gang(name=f"g{number}", **each) for number, each in enumerate(wants)]
    columns = list(compared(snapshot.axis))
    parts = snapshot.free[:, columns] / snapshot.scale[columns]
    expected = []
    for gang in gangs:
        demand = gang.roles[0].demand
        fits = counted(snapshot.free, snapshot.axis.index, demand) > 0
        dots = parts @ (snapshot.axis.vector(demand.requests)[columns] / snapshot.scale[columns])
        expected.append(-dots[fits].max() if fits.any() else NO_FIT)

    assert measures(snapshot, *gangs) == pytest.approx(expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit_measure, "AT_ONCE", 1)
        assert measures(snapshot, *gangs) == pytest.approx(expected)
    assert not np.isnan(expected).any()


def test_host_ports():
    """Members with a host port need a node each."""
    snapshot = a_cluster(nodes=2, gpu=8)

    assert measures(snapshot, a_gang(3, gpu=1, ports=(22,)), a_gang(2, gpu=1, ports=(22,)))[0] == NO_FIT
    assert measures(snapshot, a_gang(2, gpu=1, ports=(22,)))[0] < 0
