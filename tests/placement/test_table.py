"""What each row of strategy × level × required means, on clusters small enough to count by hand."""

import random

import numpy as np
import pytest

from scheduler.model.decision import Place, Reason
from scheduler.placement import planner
from tests.placement.support.asking import POLICY, decide, per_domain, per_node, place, wait
from tests.support.builders import (
    GPU,
    a_cluster,
    a_demand,
    a_gang,
    a_node,
    a_role,
    a_snapshot,
    some_nodes,
    with_free,
)

RACKS = a_cluster(racks=3, nodes=2, gpu=4)
"""Three racks of two nodes of four GPUs."""


@pytest.mark.parametrize(("strategy", "machines"), [("pack", 1), ("spread", 2)])
@pytest.mark.parametrize("required", [False, True])
def test_two_learners_on_four_machines(strategy, machines, required):
    """Two learners of two GPUs on four nodes of four: packed on one machine, spread over two (FfDL's example)."""
    snapshot = a_cluster(nodes=4, gpu=4)
    gang = a_gang(2, gpu=2, strategy=strategy, level="host", required=required)

    assert len(per_node(place(snapshot, gang))) == machines


class TestPackPreferred:
    """Fewest domains, fewest hosts inside."""

    def test_one_host_where_one_holds_all(self):
        """A gang that fits one host sits on one host, the tightest."""
        snapshot = with_free(RACKS, GPU, {"a0-r1-n1": 3})

        assert per_node(place(snapshot, a_gang(3, gpu=1))) == {"a0-r1-n1": 3}

    def test_fewest_free_devices(self):
        """A pod takes the node with fewest free devices, whatever other room it has; without devices, too."""
        nodes = [a_node(f"gpu{i}", cpu=16 * i, gpu=i, rack="r") for i in (1, 2)]
        snapshot = a_snapshot([*nodes, a_node("plain", cpu=64, rack="r")])

        assert place(snapshot, a_gang(1, gpu=1)).seats == {"pod-0": "gpu1"}
        assert place(snapshot, a_gang(1, cpu=8)).seats == {"pod-0": "plain"}

    def test_equally_many_free_devices(self):
        """Of nodes with equally many, a pod with devices takes the one whose devices stay of use, others the
        tightest.
        """
        snapshot = a_snapshot(
            [a_node("roomy", cpu=32, gpu=4, rack="r"), a_node("short", cpu=8, gpu=4, rack="r")]
        )

        assert place(snapshot, a_gang(1, gpu=1, cpu=8)).seats == {"pod-0": "roomy"}
        assert place(snapshot, a_gang(1, cpu=8)).seats == {"pod-0": "short"}

    def test_tightest_rack(self):
        """A gang that no host holds goes to the rack with least room that holds it."""
        snapshot = with_free(RACKS, GPU, {"a0-r1-n1": 2})

        assert per_node(place(snapshot, a_gang(6, gpu=1))) == {"a0-r1-n0": 4, "a0-r1-n1": 2}

    def test_fewest_hosts_then_the_tightest_for_the_rest(self):
        """Inside the rack full hosts come first, and the rest goes where it leaves least room."""
        snapshot = with_free(
            a_cluster(nodes=4, gpu=8), GPU, {"a0-r0-n0": 3, "a0-r0-n1": 8, "a0-r0-n2": 2, "a0-r0-n3": 1}
        )

        assert per_node(place(snapshot, a_gang(10, gpu=1))) == {"a0-r0-n1": 8, "a0-r0-n2": 2}

    def test_equally_tight_hosts(self):
        """Of hosts with room for equally many, the one in the tighter rack is taken, so that racks stay empty."""
        snapshot = with_free(RACKS, GPU, {"a0-r2-n0": 0})

        assert per_node(place(snapshot, a_gang(1, gpu=4))) == {"a0-r2-n1": 1}

    def test_fewest_racks(self):
        """A gang that no rack holds spans as few racks as possible."""
        snapshot = with_free(a_cluster(racks=4, nodes=2, gpu=4), GPU, {"a0-r0-n0": 1, "a0-r1-n0": 0})

        decision = place(snapshot, a_gang(12, gpu=1))

        assert per_domain(snapshot, decision, "rack") == {"a0/a0-r2": 8, "a0/a0-r1": 4}

    def test_next_coarser_level(self):
        """A gang that no rack holds stays in one area where one holds it, though fewer racks would do elsewhere."""
        snapshot = a_snapshot(
            [
                *(a_node(f"m{i}", gpu=4, rack=f"m{i}", area="m") for i in range(3)),
                *(a_node(f"x{i}", gpu=8, rack=f"x{i}", area=f"x{i}") for i in range(2)),
            ]
        )

        assert set(place(snapshot, a_gang(10, gpu=1)).seats.values()) == {"m0", "m1", "m2"}

    def test_nodes_without_the_label_come_last(self):
        """A node in no rack is used only when the racks together do not hold the gang."""
        snapshot = a_snapshot([*some_nodes(racks=2, gpu=2), a_node("bare", gpu=8, area="a0")])

        assert per_node(place(snapshot, a_gang(4, gpu=1))) == {"a0-r0-n0": 2, "a0-r1-n0": 2}
        assert per_node(place(snapshot, a_gang(5, gpu=1))) == {"bare": 5}
        assert per_node(place(snapshot, a_gang(9, gpu=1))) == {"a0-r0-n0": 2, "a0-r1-n0": 2, "bare": 5}

    def test_level_that_no_node_has(self):
        """Where no node has the label, the next coarser level takes its place."""
        nodes = [a_node(f"{area}{i}", gpu=2, area=area) for area in "xy" for i in range(3)]

        assert set(place(a_snapshot(nodes), a_gang(6, gpu=1)).seats.values()) == {"x0", "x1", "x2"}

    def test_cluster_without_labels(self):
        """Where no node has any label the gang still sits on the fewest hosts."""
        nodes = [a_node(f"n{i}", gpu=i, host=False) for i in range(1, 5)]

        assert per_node(place(a_snapshot(nodes), a_gang(6, gpu=1))) == {"n4": 4, "n2": 2}
        assert per_node(place(a_snapshot(nodes), a_gang(2, gpu=1))) == {"n2": 2}


class TestPackRequired:
    """One domain, or wait."""

    def test_one_rack(self):
        """The gang sits in the tightest rack that holds it."""
        snapshot = with_free(RACKS, GPU, {"a0-r0-n0": 0, "a0-r1-n0": 3})

        assert per_domain(snapshot, place(snapshot, a_gang(7, gpu=1, required=True)), "rack") == {
            "a0/a0-r1": 7
        }

    def test_waits_and_names_the_nearest(self):
        """When no rack holds it, the gang waits, and is told which rack comes nearest and by how much."""
        snapshot = with_free(RACKS, GPU, {"a0-r0-n0": 0, "a0-r1-n0": 2, "a0-r2-n0": 1})
        reason, short = wait(snapshot, a_gang(8, gpu=1, required=True))

        assert reason == Reason.TOPOLOGY_UNSATISFIED
        assert (short.needed, short.demand, short.level, short.domain, short.best, short.blocked) == (
            8,
            "1 nvidia.com/gpu",
            "rack",
            "a0/a0-r1",
            6,
            {"resources": 1},
        )

    def test_nodes_without_the_label_are_no_use(self):
        """A node in no rack cannot hold a gang that requires one."""
        snapshot = a_snapshot([*some_nodes(racks=2, gpu=2), a_node("bare", gpu=8)])
        reason, short = wait(snapshot, a_gang(4, gpu=1, required=True))

        assert reason == Reason.EXCEEDS_CLUSTER
        assert short.blocked == {"level": 1}

    def test_host(self):
        """Requiring a host, the gang sits on one machine or waits."""
        assert len(per_node(place(RACKS, a_gang(4, gpu=1, level="host", required=True)))) == 1
        assert (
            wait(
                with_free(RACKS, GPU, dict.fromkeys(RACKS.names, 3)),
                a_gang(4, gpu=1, level="host", required=True),
            )[0]
            == Reason.TOPOLOGY_UNSATISFIED
        )

    def test_racks_of_one_name(self):
        """Racks of one name in two areas are two racks."""
        snapshot = a_snapshot([a_node(area, gpu=2, rack="r", area=area) for area in ("east", "west")])

        assert wait(snapshot, a_gang(4, gpu=1, required=True))[0] == Reason.EXCEEDS_CLUSTER


class TestSpread:
    """Members per domain differ by at most one."""

    @pytest.mark.parametrize("required", [False, True])
    @pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 24])
    def test_even(self, count, required):
        """Room permitting, the racks' shares differ by at most one; one each where the racks suffice."""
        decision = place(RACKS, a_gang(count, gpu=1, strategy="spread", required=required))
        shares = per_domain(RACKS, decision, "rack")

        assert sum(shares.values()) == count
        assert len(shares) == min(count, 3)
        assert max(shares.values()) - min(shares.values()) <= 1

    def test_packed_inside_the_domain(self):
        """Within a rack the members share hosts."""
        assert len(per_node(place(RACKS, a_gang(12, gpu=1, strategy="spread")))) == 3

    def test_preferred_as_even_as_room_allows(self):
        """Where a rack is short of room, the others take its share evenly."""
        snapshot = with_free(RACKS, GPU, {"a0-r0-n0": 1, "a0-r0-n1": 0})
        decision = place(snapshot, a_gang(8, gpu=1, strategy="spread"))

        assert sorted(per_domain(snapshot, decision, "rack").values()) == [1, 3, 4]

    def test_required_waits(self):
        """Required, the same gang waits, and is told how many could sit evenly."""
        snapshot = with_free(RACKS, GPU, {"a0-r0-n0": 1, "a0-r0-n1": 0})
        reason, short = wait(snapshot, a_gang(8, gpu=1, strategy="spread", required=True))

        assert (reason, short.needed, short.best) == (Reason.TOPOLOGY_UNSATISFIED, 8, 5)
        assert len(place(snapshot, a_gang(5, gpu=1, strategy="spread", required=True)).seats) == 5

    def test_required_over_full_domains_too(self):
        """A rack without any room now still counts: only one member each of the others is even."""
        snapshot = with_free(RACKS, GPU, {"a0-r0-n0": 0, "a0-r0-n1": 0})

        assert len(place(snapshot, a_gang(2, gpu=1, strategy="spread", required=True)).seats) == 2
        assert (
            wait(snapshot, a_gang(3, gpu=1, strategy="spread", required=True))[0]
            == Reason.TOPOLOGY_UNSATISFIED
        )

    def test_domains_that_could_never_hold_one_do_not_count(self):
        """Racks that the selector, a cordon or their size rules out are not waited for."""
        snapshot = a_snapshot(
            [
                *some_nodes(racks=2, gpu=4, labels={"pool": "x"}),
                a_node("other", gpu=4, rack="z1"),
                a_node("small", gpu=0, rack="z2", labels={"pool": "x"}),
                a_node("closed", gpu=4, rack="z3", labels={"pool": "x"}, schedulable=False),
            ]
        )
        gang = a_gang(4, gpu=1, strategy="spread", required=True, selector={"pool": "x"})

        assert sorted(per_domain(snapshot, place(snapshot, gang), "rack").values()) == [2, 2]

    def test_never_even(self):
        """A gang that could not sit evenly in the empty cluster never fits."""
        snapshot = a_snapshot([a_node("a", gpu=1, rack="a"), a_node("b", gpu=8, rack="b")])

        assert wait(snapshot, a_gang(5, gpu=1, strategy="spread", required=True))[0] == Reason.EXCEEDS_CLUSTER
        assert per_node(place(snapshot, a_gang(5, gpu=1, strategy="spread"))) == {"a": 1, "b": 4}

    def test_nodes_without_the_label_come_last(self):
        """Preferred, nodes in no rack take what the racks cannot; required, they are no use."""
        snapshot = a_snapshot([*some_nodes(racks=2, gpu=2), a_node("bare", gpu=8)])

        assert per_node(place(snapshot, a_gang(5, gpu=1, strategy="spread")))["bare"] == 1
        assert wait(snapshot, a_gang(5, gpu=1, strategy="spread", required=True))[0] == Reason.EXCEEDS_CLUSTER

    def test_level_that_no_node_has(self):
        """Where nobody has any label, members are spread over single nodes."""
        nodes = [a_node(f"n{i}", gpu=4, host=False) for i in range(4)]

        assert len(per_node(place(a_snapshot(nodes), a_gang(4, gpu=1, strategy="spread")))) == 4

    def test_roles_are_spread_together(self):
        """Members of all roles together are even over the racks."""
        roles = [a_role("ps", 2, cpu=4), a_role("worker", 4, gpu=4)]
        decision = place(RACKS, a_gang(roles=roles, strategy="spread", required=True))

        assert per_domain(RACKS, decision, "rack") == {"a0/a0-r0": 2, "a0/a0-r1": 2, "a0/a0-r2": 2}


class TestAligned:
    """Inside the domain the node whose free room has the shape of the demand."""

    SHAPES = a_snapshot(
        [
            a_node("flat", cpu=64, memory=64, gpu=8, rack="r"),
            a_node("lean", cpu=64, memory=512, gpu=8, rack="r"),
            a_node("wide", cpu=8, memory=512, gpu=1, rack="r"),
        ]
    )

    @pytest.mark.parametrize(
        ("demand", "node"), [({"cpu": 8, "memory": 8, "gpu": 1}, "flat"), ({"memory": 64}, "wide")]
    )
    def test_shape(self, demand, node):
        """The best aligned node is taken, not the tightest."""
        assert place(self.SHAPES, a_gang(1, strategy="cosine", **demand)).seats == {"pod-0": node}

    def test_equal_alignment_goes_to_the_tightest(self):
        """Alignment that differs by less than a step of 5 % is a tie, and the tie goes to the fuller node."""
        snapshot = a_snapshot(
            [a_node(f"n{i}", cpu=64, memory=256, gpu=8, rack="r") for i in range(3)],
            used={"n1": a_demand(cpu=33, memory=128, gpu=4)},
        )
        gang = a_gang(1, strategy="cosine", cpu=8, memory=32, gpu=1)

        assert set(place(snapshot, gang).seats.values()) == {"n1"}

    @pytest.mark.parametrize("strategy", ["pack", "cosine"])
    def test_scarce_flavors_stay_free(self, strategy):
        """A pod that may use two products gets the one of which more is free, and not the tightest node."""
        snapshot = a_snapshot(
            [
                *(a_node(f"a{i}", gpu=4, labels={"nvidia.com/gpu.product": "A100"}) for i in range(4)),
                *(a_node(f"t{i}", gpu=4, labels={"nvidia.com/gpu.product": "T4"}) for i in range(4)),
            ],
            used={**{f"a{i}": a_demand(gpu=3) for i in range(4)}, "t0": a_demand(gpu=1)},
        )

        assert place(snapshot, a_gang(1, gpu=1, strategy=strategy)).seats == {"pod-0": "t0"}
        assert place(snapshot, a_gang(1, gpu=4, strategy=strategy)).seats == {"pod-0": "t1"}

    @pytest.mark.parametrize("strategy", ["pack", "cosine"])
    def test_a_node_in_use_before_an_idle_one(self, strategy):
        """No idle node is opened for a pod that fits on a node in use."""
        snapshot = a_snapshot(
            [a_node(f"n{i}", cpu=64, gpu=8) for i in range(4)], used={"n2": a_demand(cpu=48, gpu=6)}
        )

        assert place(snapshot, a_gang(1, gpu=2, cpu=8, strategy=strategy)).seats == {"pod-0": "n2"}

    def test_pack_fills_nodes_that_keep_spare_cpu(self):
        """With pack, little requested CPU is no reason to avoid the last devices of a node. With cosine it is."""
        snapshot = a_snapshot(
            [a_node(f"n{i}", cpu=64, gpu=8) for i in range(2)], used={"n1": a_demand(cpu=14, gpu=7)}
        )

        assert place(snapshot, a_gang(1, gpu=1, cpu=2, strategy="pack")).seats == {"pod-0": "n1"}
        assert place(snapshot, a_gang(1, gpu=1, cpu=2, strategy="cosine")).seats == {"pod-0": "n0"}

    @pytest.mark.parametrize("strategy", ["pack", "cosine"])
    def test_devices_that_would_be_stranded(self, strategy):
        """A pod avoids a node whose last CPU it would take from free devices."""
        snapshot = a_snapshot(
            [a_node(f"n{i}", cpu=64, gpu=8) for i in range(2)],
            used={"n0": a_demand(cpu=60, gpu=2), "n1": a_demand(cpu=24, gpu=1)},
        )

        assert place(snapshot, a_gang(1, gpu=1, cpu=4, strategy=strategy)).seats == {"pod-0": "n1"}

    @pytest.mark.parametrize("strategy", ["pack", "cosine"])
    def test_pods_without_devices(self, strategy):
        """A pod without devices goes to a node without devices, even if nodes with devices are in use."""
        snapshot = a_snapshot(
            [a_node("a", cpu=64, gpu=8), a_node("b", cpu=64, gpu=8), a_node("plain", cpu=64)],
            used={"a": a_demand(cpu=8, gpu=1)},
        )

        assert place(snapshot, a_gang(1, cpu=8, strategy=strategy)).seats == {"pod-0": "plain"}

    @pytest.mark.parametrize("strategy", ["pack", "cosine"])
    def test_the_ranking_agrees(self, strategy):
        """The best node of the ranking is the node that a gang of one gets."""
        chance = random.Random(7)
        for _ in range(60):
            nodes = [
                a_node(
                    f"n{i}",
                    cpu=chance.choice([32, 64]),
                    gpu=chance.choice([2, 8]),
                    labels={"nvidia.com/gpu.product": chance.choice(["T4", "A100"])},
                )
                for i in range(6)
            ]
            used = {
                node.name: a_demand(cpu=chance.randrange(0, 30), gpu=chance.randrange(0, 3)) for node in nodes
            }
            snapshot = a_snapshot(nodes, used=used)
            gang = a_gang(1, cpu=chance.choice([1, 4, 9]), gpu=chance.choice([1, 2]), strategy=strategy)
            decision = decide(snapshot, gang)
            _, scores = planner.rank(snapshot, gang, POLICY, np.ones(len(nodes), dtype=bool))
            if isinstance(decision, Place):
                assert snapshot.names[scores.argmax()] == decision.seats["pod-0"]

    def test_each_seat_changes_the_next(self):
        """The second member is looked at in the room that the first has left."""
        snapshot = a_snapshot(
            [a_node("a", cpu=4, memory=8, rack="r"), a_node("b", cpu=8, memory=4, rack="r")]
        )
        gang = a_gang(2, strategy="cosine", cpu=4, memory=2, level="rack")

        assert per_node(place(snapshot, gang)) == {"b": 2}
        assert per_node(place(snapshot, a_gang(3, strategy="cosine", cpu=4, memory=2))) == {"a": 1, "b": 2}

    def test_one_domain_or_wait(self):
        """Domains are chosen as by pack: the tightest that holds all, required: that or none."""
        snapshot = with_free(RACKS, GPU, {"a0-r0-n0": 0, "a0-r1-n0": 3})
        gang = a_gang(7, gpu=1, strategy="cosine", required=True)

        assert per_domain(snapshot, place(snapshot, gang), "rack") == {"a0/a0-r1": 7}
        assert wait(snapshot, a_gang(9, gpu=1, strategy="cosine", required=True))[0] == Reason.EXCEEDS_CLUSTER

    def test_fewest_racks_when_none_holds_all(self):
        """A gang that no rack holds spans as few racks as by pack."""
        decision = place(RACKS, a_gang(12, gpu=1, strategy="cosine"))

        assert sorted(per_domain(RACKS, decision, "rack").values()) == [4, 8]

    def test_roles_that_alignment_would_part(self):
        """When the best aligned seats of one role leave the other none, the gang sits as by pack."""
        snapshot = a_snapshot(
            [a_node("a", cpu=8, memory=16, gpu=2, rack="r"), a_node("b", cpu=16, memory=16, rack="r")]
        )
        roles = [a_role("gpu", 2, cpu=4, gpu=1), a_role("cpu", 4, cpu=4)]

        assert per_node(place(snapshot, a_gang(roles=roles, strategy="cosine", required=True))) == {
            "a": 2,
            "b": 4,
        }


def test_gangs_that_meet_never_half_sit():
    """Eight GPUs, gangs of four: two sit, the third waits, and none sits in part."""
    half = with_free(a_cluster(nodes=2, gpu=4), GPU, {"a0-r0-n0": 2, "a0-r0-n1": 1})

    assert wait(half, a_gang(4, gpu=1))[0] == Reason.INSUFFICIENT_RESOURCES
    assert decide(half, a_gang(3, gpu=1)).seats.keys() == {"pod-0", "pod-1", "pod-2"}
