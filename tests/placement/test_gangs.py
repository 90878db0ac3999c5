"""Roles, anchors, surplus, ports, nominations, barred and allowed nodes."""

import numpy as np
import pytest

from scheduler.model.cluster import Level
from scheduler.model.decision import Place, Reason, Refuse, Shortfall
from scheduler.model.demand import HostPort
from tests.placement.support.asking import decide, per_domain, per_node, place, wait
from tests.support.builders import (
    GPU,
    a_cluster,
    a_demand,
    a_gang,
    a_mask,
    a_node,
    a_role,
    a_snapshot,
    some_nodes,
    some_uids,
    with_free,
)

RACKS = a_cluster(racks=3, nodes=2, gpu=4)


class TestRoles:
    def test_largest_demand_first(self):
        """Large members are seated before small ones can block them."""
        snapshot = a_cluster(nodes=2, cpu=16)
        roles = [a_role("small", 4, cpu=4), a_role("large", 1, cpu=16)]

        assert sorted(per_node(place(snapshot, a_gang(roles=roles))).values()) == [1, 4]

    def test_scarce_room_first_when_that_fails(self):
        """A smaller role that only few nodes can hold gets them when the larger one fits elsewhere."""
        snapshot = a_snapshot([a_node("only", cpu=16, labels={"disk": "ssd"}), a_node("other", cpu=15)])
        roles = [
            a_role("large", 1, cpu=15),
            a_role("picky", 1, demand=a_demand(cpu=14, selector={"disk": "ssd"})),
        ]

        assert place(snapshot, a_gang(roles=roles)).seats == {"picky-0": "only", "large-0": "other"}

    def test_last_resort(self):
        """A seating that fills the tightest nodes first is found when filling the roomiest first finds none."""
        snapshot = a_snapshot(
            [
                a_node("a", cpu=8, memory=7, gpu=2, labels={"pool": "x"}),
                a_node("b", cpu=6, memory=2, gpu=1),
                a_node("c", cpu=3, memory=8, labels={"pool": "x"}),
            ]
        )
        picky = a_demand(cpu=3, memory=1, selector={"pool": "x"})
        roles = [a_role("worker", 2, cpu=3, memory=1, gpu=1), a_role("picky", 2, demand=picky)]

        assert per_node(place(snapshot, a_gang(roles=roles))) == {"a": 2, "b": 1, "c": 1}
        assert per_node(place(snapshot, a_gang(roles=roles, strategy="spread"))) == {"a": 2, "b": 1, "c": 1}

    def test_last_resort_of_a_spread(self):
        """Where no even seating exists, one that every role finds its room in is taken as it was found."""
        snapshot = a_snapshot([a_node("a", cpu=3, rack="x"), a_node("b", cpu=6, rack="y")])
        roles = [a_role("large", 1, cpu=3), a_role("small", 3, cpu=2)]

        assert per_node(place(snapshot, a_gang(roles=roles, strategy="spread"))) == {"a": 1, "b": 3}

    def test_all_or_nothing_over_roles(self):
        """When one role finds no room, nobody of the others sits, and the short one is named."""
        snapshot = a_cluster(nodes=2, gpu=4)
        roles = [a_role("ps", 2, cpu=4), a_role("worker", 9, gpu=1)]
        reason, short = wait(snapshot, a_gang(roles=roles))

        assert reason == Reason.EXCEEDS_CLUSTER
        assert (short.needed, short.demand, short.best) == (9, "1 nvidia.com/gpu", 8)

    def test_roles_share_the_domain(self):
        """Roles of different demands lie in one rack, where one holds them together."""
        snapshot = with_free(RACKS, GPU, {"a0-r0-n0": 0, "a0-r1-n0": 0})
        roles = [a_role("ps", 2, cpu=16), a_role("worker", 6, gpu=1)]
        decision = place(snapshot, a_gang(roles=roles, required=True))

        assert per_domain(snapshot, decision, "rack") == {"a0/a0-r2": 8}

    def test_neighbouring_members_are_neighbours(self):
        """Members in their order fill node after node."""
        decision = place(RACKS, a_gang(12, gpu=1))

        assert [decision.seats[uid] for uid in some_uids(12)] == sorted(decision.seats.values())


class TestAnchors:
    def test_required_joins_the_domain(self):
        """Newcomers join the rack of those who sit, or wait."""
        snapshot = with_free(RACKS, GPU, {"a0-r1-n0": 0, "a0-r1-n1": 2})
        gang = {"gpu": 1, "required": True, "anchors": ["a0-r1-n0"]}

        assert per_node(place(snapshot, a_gang(2, **gang))) == {"a0-r1-n1": 2}
        assert wait(snapshot, a_gang(3, **gang))[0] == Reason.TOPOLOGY_UNSATISFIED

    def test_preferred_nearest_first(self):
        """Newcomers sit as near as possible: same host, same rack, same area, then anywhere."""
        snapshot = with_free(a_cluster(areas=2, racks=2, nodes=2, gpu=2), GPU, {"a1-r0-n0": 1})

        decision = place(snapshot, a_gang(4, gpu=1, anchors=["a1-r0-n0"]))

        assert per_node(decision) == {"a1-r0-n0": 1, "a1-r0-n1": 2, "a1-r1-n0": 1}

    def test_gone_anchor(self):
        """An anchor whose node is gone ties nobody."""
        assert isinstance(decide(RACKS, a_gang(2, gpu=1, required=True, anchors=["gone"])), Place)

    def test_spread_counts_them(self):
        """Those who sit count in their racks: a newcomer goes where nobody is."""
        gang = {"gpu": 1, "strategy": "spread", "anchors": ["a0-r0-n0", "a0-r1-n1", "a0-r1-n1"]}

        assert per_domain(RACKS, place(RACKS, a_gang(1, **gang)), "rack") == {"a0/a0-r2": 1}
        assert per_domain(RACKS, place(RACKS, a_gang(3, required=True, **gang)), "rack") == {
            "a0/a0-r2": 2,
            "a0/a0-r0": 1,
        }

    def test_aligned_newcomers_join_too(self):
        """Cosine chooses within the domain of those who sit."""
        gang = a_gang(2, gpu=1, strategy="cosine", anchors=["a0-r2-n0"])

        assert per_domain(RACKS, place(RACKS, gang), "rack") == {"a0/a0-r2": 2}


class TestSurplus:
    def test_seated_where_room_is(self):
        """Surplus sits as far as there is room, in the order given; the rest is named."""
        snapshot = a_cluster(nodes=2, gpu=2)
        decision = place(snapshot, a_gang(2, gpu=1, surplus=4))

        assert decision.seats.keys() == {"pod-0", "pod-1", "pod-surplus-0", "pod-surplus-1"}
        assert decision.unseated == ("pod-surplus-2", "pod-surplus-3")

    @pytest.mark.parametrize("strategy", ["pack", "cosine"])
    def test_nearest_to_the_core(self, strategy):
        """Surplus sits in the rack of the quorum before it goes elsewhere."""
        decision = place(RACKS, a_gang(4, gpu=1, surplus=5, strategy=strategy))

        assert sorted(per_domain(RACKS, decision, "rack").values()) == [1, 8]

    def test_required_stays_in_the_domain(self):
        """Where the level is required, surplus finds room in the domain or none."""
        decision = place(RACKS, a_gang(4, gpu=1, surplus=5, required=True))

        assert list(per_domain(RACKS, decision, "rack").values()) == [8]
        assert decision.unseated == ("pod-surplus-4",)

    def test_required_spread_stays_even(self):
        """Where an even spread is required, surplus sits only as long as it stays even."""
        snapshot = with_free(RACKS, GPU, {"a0-r0-n0": 1, "a0-r0-n1": 0})
        decision = place(snapshot, a_gang(2, gpu=1, surplus=9, strategy="spread", required=True))

        assert sorted(per_domain(snapshot, decision, "rack").values()) == [1, 2, 2]

    def test_alone(self):
        """A gang whose quorum sits already has its surplus seated beside it, or not at all, without waiting."""
        gang = a_gang(0, gpu=1, surplus=2, anchors=["a0-r1-n0"])

        assert set(place(RACKS, gang).seats.values()) == {"a0-r1-n0"}
        assert place(with_free(RACKS, GPU, dict.fromkeys(RACKS.names, 0)), gang).unseated == some_uids(
            2, "pod-surplus"
        )

    def test_never_at_the_cost_of_the_quorum(self):
        """Surplus of one role is looked at only after the quorum of all."""
        snapshot = a_cluster(nodes=1, cpu=8)
        roles = [a_role("a", 1, surplus=3, cpu=2), a_role("b", 2, cpu=2)]
        decision = place(snapshot, a_gang(roles=roles))

        assert {"a-0", "b-0", "b-1", "a-surplus-0"} == decision.seats.keys()


class TestPorts:
    def test_members_do_not_share_a_node(self):
        """Members that want the same host port sit on different nodes."""
        assert len(per_node(place(RACKS, a_gang(4, ports=[8080])))) == 4
        assert wait(RACKS, a_gang(7, ports=[8080]))[0] == Reason.EXCEEDS_CLUSTER

    def test_across_roles(self):
        """Also members of different roles, whose ports clash by the unspecified address."""
        roles = [
            a_role("a", 3, demand=a_demand(ports=[80])),
            a_role("b", 3, demand=a_demand(cpu=1, ports=[HostPort("TCP", 80, "10.0.0.1")])),
            a_role("c", 6, demand=a_demand(ports=[HostPort("UDP", 80)])),
        ]
        decision = place(RACKS, a_gang(roles=roles))

        assert sorted(per_node(decision).values()) == [2] * 6

    def test_ports_in_use(self):
        """A node on which the port is in use is closed."""
        snapshot = a_snapshot(some_nodes(nodes=2), ports={"a0-r0-n0": [HostPort("TCP", 80)]})

        assert set(place(snapshot, a_gang(1, ports=[80])).seats.values()) == {"a0-r0-n1"}
        assert wait(snapshot, a_gang(2, ports=[80]))[1].blocked == {"ports": 1}


class TestWhoMayGoWhere:
    @pytest.mark.parametrize(("priority", "seated"), [(0, False), (10, False), (11, True)])
    def test_nominations(self, priority, seated):
        """Room promised to others counts as taken for gangs of equal and lower priority."""
        snapshot = a_snapshot(some_nodes(gpu=4), nominations=[("a0-r0-n0", 10, a_demand(gpu=3))])

        assert isinstance(decide(snapshot, a_gang(2, gpu=1, priority=priority)), Place) == seated

    def test_nominations_add_up(self):
        """Two promises on one node take room twice."""
        snapshot = a_snapshot(some_nodes(gpu=4), nominations=[("a0-r0-n0", 0, a_demand(gpu=1))] * 2)

        assert isinstance(decide(snapshot, a_gang(2, gpu=1)), Place)
        assert wait(snapshot, a_gang(3, gpu=1))[0] == Reason.INSUFFICIENT_RESOURCES

    def test_barred(self):
        """A gang is not given the nodes it is barred from; names that are gone do not matter."""
        gang = a_gang(4, gpu=4, barred=["a0-r0-n0", "gone"])

        assert "a0-r0-n0" not in place(RACKS, gang).seats.values()
        assert wait(RACKS, a_gang(6, gpu=4, barred=["a0-r0-n0"]))[1].blocked == {"excluded": 1}

    def test_allowed(self):
        """A member goes only where its mask allows; members without a mask go anywhere."""
        gang = a_gang(3, gpu=4)
        masks = {"pod-0": a_mask(RACKS, "a0-r1-n0", "a0-r1-n1"), "pod-1": a_mask(RACKS, "a0-r1-n0")}
        decision = place(RACKS, gang, masks)

        assert decision.seats["pod-1"] == "a0-r1-n0"
        assert decision.seats["pod-0"] == "a0-r1-n1"

    def test_what_never_fits_is_told_of_the_whole_role(self):
        """In an empty cluster nobody is kept to some nodes: who may go where is of no account, and all of them are
        missing.
        """
        masks = {"pod-0": a_mask(RACKS, "a0-r1-n0"), "pod-1": a_mask(RACKS, "a0-r1-n1")}
        reason, short = wait(RACKS, a_gang(7, gpu=4), masks)

        assert (reason, short.needed, short.best) == (Reason.EXCEEDS_CLUSTER, 7, 6)

    def test_nothing_allowed(self):
        """Where candidates rule out every node the gang waits, and says so."""
        none = np.zeros(len(RACKS.names), dtype=bool)
        reason, short = wait(RACKS, a_gang(1), {"pod-0": none})

        assert (reason, short.blocked) == (Reason.INSUFFICIENT_RESOURCES, {"candidates": 6})

    def test_amounts_are_exact(self):
        """Room is counted to the last byte of a large node."""
        huge = 2**53 - 1
        snapshot = a_snapshot([a_node(memory=0, cpu=1, more={"memory": huge})])

        assert isinstance(decide(snapshot, a_gang(1, more={"memory": huge})), Place)
        assert wait(snapshot, a_gang(1, more={"memory": huge + 1}))[0] == Reason.EXCEEDS_CLUSTER
        assert isinstance(decide(snapshot, a_gang(3, more={"memory": huge // 3})), Place)
        assert wait(snapshot, a_gang(3, more={"memory": huge // 3 + 1}))[0] == Reason.EXCEEDS_CLUSTER

    def test_overdrawn_nodes(self):
        """A node on which others took more than there is holds nobody who asks for that, and may hold others."""
        snapshot = with_free(a_cluster(nodes=1, gpu=4), GPU, {"a0-r0-n0": -2})

        assert wait(snapshot, a_gang(1, gpu=1))[0] == Reason.INSUFFICIENT_RESOURCES
        assert isinstance(decide(snapshot, a_gang(1, cpu=1)), Place)


class TestAnswers:
    def test_level_nobody_configured(self):
        """A level that is not configured is refused with the ones that are."""
        decision = decide(RACKS, a_gang(1, level="row"))

        assert isinstance(decision, Refuse)
        assert (decision.reason, decision.field, decision.value) == (
            Reason.UNKNOWN_LEVEL,
            "gangwright.io/level",
            "row",
        )
        assert "host, rack, area" in decision.remedy

    def test_level_nobody_has(self):
        """A required level whose label no node has is refused with the label and the levels that nodes have."""
        decision = decide(a_snapshot([a_node(area="x")]), a_gang(1, level="rack", required=True))

        assert isinstance(decision, Refuse)
        assert decision.reason == Reason.UNKNOWN_LEVEL
        assert "gangwright.io/rack" in decision.remedy
        assert "host, area" in decision.remedy

    def test_no_node_matches(self):
        """Where selector or taints exclude every node, the gang is told so, with the counts."""
        snapshot = a_snapshot(some_nodes(nodes=3))
        reason, short = wait(snapshot, a_gang(2, selector={"no": "where"}))

        assert (reason, short.blocked, short.needed, short.best) == (
            Reason.NO_MATCHING_NODES,
            {"selector": 3},
            2,
            0,
        )

    def test_cordoned_cluster(self):
        """Where every node is cordoned the gang waits for room: a cordon is lifted some day."""
        reason, short = wait(a_cluster(nodes=3, schedulable=False), a_gang(1))

        assert (reason, short.blocked) == (Reason.INSUFFICIENT_RESOURCES, {"cordon": 3})

    def test_empty_cluster_counts_cordoned_nodes(self):
        """A gang that needs the cordoned nodes fits the empty cluster."""
        snapshot = a_snapshot([a_node("a", gpu=4), a_node("b", gpu=4, schedulable=False)])

        assert wait(snapshot, a_gang(8, gpu=1))[0] == Reason.INSUFFICIENT_RESOURCES
        assert wait(snapshot, a_gang(9, gpu=1))[0] == Reason.EXCEEDS_CLUSTER

    def test_unknown_resource(self):
        """A resource that no node has never fits."""
        reason, short = wait(RACKS, a_gang(1, more={"example.com/fpga": 1}))

        assert (reason, short.demand, short.blocked) == (
            Reason.EXCEEDS_CLUSTER,
            "1 example.com/fpga",
            {"example.com/fpga": 6},
        )
        assert str(short).endswith("(no node has example.com/fpga)")

    def test_parts_of_a_device(self):
        """What counts parts of a device for another scheduler is named when no node has it, with what to ask for."""
        hami = {"nvidia.com/gpumem": 3000}
        reason, short = wait(RACKS, a_gang(1, gpu=1, more=hami))

        assert reason == Reason.EXCEEDS_CLUSTER
        assert "(no node has nvidia.com/gpumem). Request whole devices, or a MIG" in str(short)
        assert place(a_snapshot([a_node("a", gpu=2, more=hami)]), a_gang(1, gpu=1, more=hami)).seats

    def test_no_nodes_at_all(self):
        """A cluster without nodes is called that: the gang's selector, its level and its size are not to blame."""
        empty = a_snapshot([])

        for gang in (a_gang(2, gpu=4), a_gang(2, gpu=4, level="rack", required=True)):
            reason, short = wait(empty, gang)
            assert reason == Reason.EXCEEDS_CLUSTER
            assert str(short) == (
                "needs 2 × 4 nvidia.com/gpu; the cluster fits 0 (Gangwright sees no nodes in the cluster)"
            )
        assert place(empty, a_gang(0, surplus=1)).unseated == ("pod-surplus-0",)

    def test_sentence(self):
        """The numbers read as a sentence."""
        snapshot = with_free(RACKS, GPU, {"a0-r0-n0": 0, "a0-r1-n0": 0, "a0-r2-n0": 0})
        _, short = wait(snapshot, a_gang(2, gpu=4, cpu=0.5, memory=2, required=True))

        assert str(short) == (
            "needs 2 × 4 nvidia.com/gpu, 0.5 cpu, 2Gi memory; "
            "the best rack, a0/a0-r0, fits 1 (3 node(s) had insufficient resources)"
        )

    def test_sentence_about_one_node(self):
        """One is not "1 nodes"."""
        short = Shortfall(2, "1 nvidia.com/gpu", "rack", "", 1, {"cordon": 1, "resources": 2})

        assert str(short).endswith("fits 1 (1 node(s) were cordoned, 2 node(s) had insufficient resources)")

    def test_level_by_another_name(self):
        """Levels are configuration: any label, any word, any number of them."""
        levels = (Level("node", "kubernetes.io/hostname"), Level("row", "example.com/row"))
        nodes = [a_node(f"n{i}", gpu=1, labels={"example.com/row": f"row-{i % 2}"}) for i in range(4)]
        snapshot = a_snapshot(nodes, levels=levels)

        assert set(place(snapshot, a_gang(2, gpu=1, level="row", required=True)).seats.values()) == {
            "n0",
            "n2",
        }
