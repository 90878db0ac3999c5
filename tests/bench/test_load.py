"""The pure parts of the load bench: what is submitted, and what is made of the runs."""

import asyncio

import pytest

from bench.load import bare, cluster, figures, work
from bench.load.roads import ROADS


def pods_of_gang(pods):
    return {pod["metadata"]["labels"]["gangwright.io/gang"]: int(_min_members(pod)) for pod in pods}


def _min_members(pod):
    return pod["metadata"]["annotations"]["gangwright.io/min-members"]


def test_last_gang_takes_what_is_left():
    """Twenty pods in gangs of eight are two gangs of eight and one of four, each wanting all of its own."""
    pods = work.gangs("g", 20, 8, "uid", gated=True)

    assert len({pod["metadata"]["name"] for pod in pods}) == 20
    assert pods_of_gang(pods) == {"g0": 8, "g1": 8, "g2": 4}


def test_roads_differ_in_the_gate_alone():
    """With and without our gate the pods are the same, owner and room included."""
    gated, free = ({**work.gang("g", 2, "uid", gated=gated)[1]} for gated in (True, False))

    assert gated.pop("spec") == {**free.pop("spec"), "schedulingGates": [{"name": work.GATE}]}
    assert gated == free


def test_native_members_name_their_group():
    """A native gang's pods point to the PodGroup, which points to its Workload, and carry no word of ours."""
    pod = work.gang("g", 1, "uid", gated=False, native=True)[0]
    objects = work.native_objects("g", 3)

    assert pod["spec"]["schedulingGroup"] == {"podGroupName": objects["podgroups"]["metadata"]["name"]}
    assert objects["podgroups"]["spec"]["workloadRef"]["workloadName"] == "g"
    assert objects["podgroups"]["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
    assert not [key for key in pod["metadata"]["labels"] if key.startswith("gangwright.io/")]


@pytest.mark.parametrize("count", [1, 19, 20, 45])
def test_there_are_as_many_nodes_as_asked(count):
    """Whole racks and a rest have different names, and are as many nodes as were asked for."""
    names = [name for fleet in cluster.fleets(count) for name in fleet.names()]

    assert len(set(names)) == count


def test_ratio_is_the_median_of_turns():
    """A phase of the machine that slows a whole turn moves no ratio, nor does one run that went wrong."""
    runs = {"none": [100, 10, 200], "pinned": [110, 11, 9000]}

    assert figures.by_turn(runs, over="none") == {"pinned_over_none": [1.1, 1.1, 45.0]}
    assert figures.ratios(runs, over="none") == {"pinned_over_none": 1.1}


def test_without_base_there_is_no_ratio():
    """Nothing is compared with a road that did not run."""
    assert figures.ratios({"pinned": [1.0]}, over="none") == {}


def test_turns_begin_with_another_road():
    """In as many turns as there are roads, each road stands at each place once."""
    turns = [figures.order(["a", "b", "c"], turn) for turn in range(3)]

    assert sorted(map(sorted, zip(*turns, strict=True))) == [["a", "b", "c"]] * 3


def test_medians_skip_who_did_not_run():
    """A program that was there in some runs only counts in those."""
    assert figures.medians([{"a": 1.0}, {"a": 3.0, "b": 5.0}]) == {"a": 2.0, "b": 5.0}


def test_somebody_takes_every_gate_away():
    """A pod behind our gate would wait for ever where neither Gangwright runs nor the bench writes."""
    assert all(road.extender != road.by_hand for road in ROADS.values() if road.gated)
    assert not any(road.by_hand for road in ROADS.values() if not road.gated)


def test_bare_writer_fills_node_after_node():
    """Every pod gets one PATCH, as many to a node as it holds, in the order of the pods."""
    pods = work.gangs("g", 5, 8, "uid", gated=True)
    written = []

    class Api:
        async def patch(self, path, body):
            written.append((path, body))

    asyncio.run(bare.write(Api(), pods, ["n0", "n1", "n2"], 2))

    assert [path.rpartition("/")[2] for path, _ in written] == [f"g0-{number}" for number in range(5)]
    assert [body for _, body in written] == [bare.pin(node) for node in ("n0", "n0", "n1", "n1", "n2")]
