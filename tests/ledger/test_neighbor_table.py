"""The counts of placed pods: kept current pod by pod, the same as counted anew, and nothing without rules."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.ledger.neighbor_table import NAMESPACES_KEPT, SELECTORS_KEPT, NeighborTable
from scheduler.model.demand import Operator, Requirement
from scheduler.model.neighbors import Neighbors, PodLabels, PodSelector, PodTerm, TopologySpread
from scheduler.model.workload import Pod, PodKey, Uid
from tests.support.builders import HOST, RACK, a_demand, a_gang, a_node, a_role, a_snapshot

NODES = [a_node(f"n{number}") for number in range(3)]


def selector(value: str, *, of_labels=None, namespaces=("team",)) -> PodSelector:
    return PodSelector(namespaces, of_labels, (Requirement("app", Operator.IN, (value,)),))


APART = Neighbors(anti_affinity=(PodTerm(HOST, selector("a")),))
RULES = Neighbors(
    affinity=(PodTerm(RACK, selector("b")),),
    anti_affinity=APART.anti_affinity,
    spread=(TopologySpread(RACK, selector("a"), 1),),
)


def a_pod(name: str, app: str = "a", *, namespace: str = "team", **fields) -> Pod:
    return Pod(Uid(name), PodKey(namespace, name), a_demand(cpu=1), labels=f"app={app}", **fields)


class Cluster:
    """Pods on nodes, and the table that hears of them."""

    def __init__(self) -> None:
        self.placed: dict[Uid, tuple[Pod, str]] = {}
        self.table = NeighborTable(
            lambda: list(self.placed.values()), lambda: [pod for pod, _ in self.placed.values()]
        )

    def put(self, pod: Pod, node: str) -> bool:
        self.table.note(pod.neighbors, list)
        self.placed[pod.uid] = (pod, node)
        return self.table.put(pod, node)

    def take(self, uid: str) -> None:
        self.placed.pop(Uid(uid), None)
        self.table.take(Uid(uid))

    def picture(self, rules: Neighbors = RULES):
        self.table.note(rules, list)
        role = replace(a_role("", 1), neighbors=rules, labels=PodLabels("team", (("app", "a"),)))
        return self.table.picture(a_snapshot(NODES), [a_gang(roles=[role])])

    def counts(self, rules: Neighbors = RULES) -> np.ndarray:
        snapshot = self.picture(rules)
        assert snapshot.neighbors is not None
        return -snapshot.free[:, snapshot.neighbors.first :]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "put", "delete", "take"]),
            st.sampled_from(["p0", "p1", "p2"]),
            st.sampled_from(["a", "b"]),
            st.sampled_from(["n0", "n1", "gone"]),
            st.sampled_from(["team", "other"]),
        ),
        max_size=12,
    )
)
def test_counts_follow_every_pod(story):
    """After any story of pods that come, change, terminate and go, the counts are those of a fresh table."""
    cluster = Cluster()
    cluster.counts()  # asked about from the start, so that everything is kept current
    for what, name, app, node, namespace in story:
        pod = a_pod(name, app, namespace=namespace, neighbors=APART if name == "p2" else Neighbors())
        if what == "take":
            cluster.take(name)
        else:
            cluster.put(replace(pod, deleting=what == "delete"), node)
    fresh = Cluster()
    for pod, node in cluster.placed.values():
        fresh.put(pod, node)
    assert (cluster.counts() == fresh.counts()).all()


def test_without_rules_a_snapshot_has_no_columns():
    """A gang without rules in a cluster without rules gets the very snapshot that there is."""
    cluster, snapshot = Cluster(), a_snapshot(NODES)
    cluster.put(a_pod("p"), "n0")
    assert cluster.table.picture(snapshot, [a_gang(2)]) is snapshot
    assert cluster.table.keys("team") is None


def test_terminating_pods_count_for_affinity_and_not_for_spread():
    """kube-scheduler leaves terminating pods out of spread constraints alone."""
    cluster = Cluster()
    cluster.put(a_pod("p", deleting=True), "n1")
    near, apart, spread = cluster.counts()[1][:3]
    assert (near, apart, spread) == (0, 1, 0)


def test_a_pod_that_helps_others_is_reported():
    """A pod that a known selector selects may let others in, another one not."""
    cluster = Cluster()
    cluster.counts()
    assert cluster.put(a_pod("p", "b"), "n0")
    assert not cluster.put(a_pod("p", "b"), "n0")
    assert not cluster.put(a_pod("q", "c"), "n0")


def test_labels_of_namespaces_decide():
    """A namespace that gets the label counts from then on; one that loses it or goes does not."""
    cluster = Cluster()
    rules = Neighbors(
        anti_affinity=(
            PodTerm(HOST, selector("a", namespaces=(), of_labels=(Requirement("x", Operator.EXISTS),))),
        )
    )
    cluster.put(a_pod("p", namespace="other"), "n0")
    assert cluster.counts(rules)[0, 0] == 0
    assert cluster.table.namespace_seen("other", {"x": "1"})
    assert cluster.counts(rules)[0, 0] == 1
    assert cluster.table.keys("other") == {"app"}
    assert not cluster.table.namespace_seen("other", {"x": "1"})
    assert cluster.table.namespace_seen("other", None)
    assert cluster.counts(rules)[0, 0] == 0


def test_waiting_gangs_of_a_namespace_are_told_of_labels_that_are_read_now():
    """Only a label that no selector read before changes what requests say of the pods."""
    table = Cluster().table
    assert table.note(APART, lambda: ["team", "other"]) == {"team"}
    assert table.note(Neighbors(anti_affinity=(PodTerm(HOST, selector("b")),)), lambda: ["team"]) == set()


def test_selectors_of_pods_that_are_gone_are_forgotten():
    """Thousands of jobs, each with a selector of its own, leave no trace."""
    cluster = Cluster()
    for number in range(4 * SELECTORS_KEPT):
        rules = Neighbors(anti_affinity=(PodTerm(HOST, selector(str(number))),))
        cluster.put(a_pod("p", neighbors=rules), "n0")
        cluster.counts(rules)
        cluster.take("p")
    table = cluster.table
    assert len(table._known) <= SELECTORS_KEPT + 2
    assert len(table._selected) <= SELECTORS_KEPT
    assert not table._repelling
    for number in range(2 * NAMESPACES_KEPT):
        table.keys(f"team-{number}")
    assert len(table._keys) <= NAMESPACES_KEPT


def test_uses_are_widened_by_what_a_pod_counts_for():
    """A victim's row says in which columns it counts, so that its going is seen like freed resources."""
    cluster = Cluster()
    cluster.put(a_pod("p", neighbors=APART), "n0")
    cluster.put(a_pod("q", "b"), "n1")
    snapshot = cluster.picture()
    base = len(a_snapshot(NODES).axis)
    wide = cluster.table.widened(snapshot, [Uid("p"), Uid("q")], np.zeros((2, base)))
    assert wide[:, base:].tolist() == [[0, 1, 1, 1], [1, 0, 0, 0]]
    freed = snapshot.freed((np.array([0, 1]), wide))
    assert not freed.free[:, base:].any()


def test_a_picture_is_stale_as_soon_as_other_pods_count():
    """An answer from it may break a rule by now. A pod that counts nowhere changes nothing."""
    cluster = Cluster()
    snapshot = cluster.picture()
    cluster.put(a_pod("q", "c"), "n0")
    assert not cluster.table.is_stale(snapshot)
    cluster.put(a_pod("p", "b"), "n0")
    assert cluster.table.is_stale(snapshot)
    snapshot = cluster.picture()
    cluster.take("p")
    assert cluster.table.is_stale(snapshot)


def test_forgetting_keeps_the_selectors_of_the_pod_that_is_noted():
    """Its pod is not among the known pods yet."""
    table = Cluster().table
    old, new = (PodTerm(HOST, selector(app, namespaces=("team",))) for app in ("old", "new"))
    table.note(Neighbors(anti_affinity=(old,)), list)
    for number in range(2 * SELECTORS_KEPT):
        table.note(Neighbors(anti_affinity=(PodTerm(HOST, selector(str(number), namespaces=("x",))),)), list)
    table.note(Neighbors(anti_affinity=(old, new)), list)
    assert {old.pods, new.pods} <= set(table._known)


def test_one_gang_reads_all_of_its_rules_and_a_forecast_only_some():
    """Forty placed pods keep its members away, each by a term of its own. None is left out of the question about it."""
    cluster = Cluster()
    apart = [PodTerm(f"key-{number}", selector("a")) for number in range(40)]
    for number, term in enumerate(apart):
        cluster.put(a_pod(f"p{number}", "b", neighbors=Neighbors(anti_affinity=(term,))), "n0")
    role = replace(a_role("", 1), labels=PodLabels("team", (("app", "a"),)))
    gang, snapshot = a_gang(roles=[role]), a_snapshot(NODES)
    assert len(cluster.table.picture(snapshot, [gang]).neighbors.counted) == 40
    assert len(cluster.table.picture(snapshot, [gang], 32).neighbors.counted) == 32
