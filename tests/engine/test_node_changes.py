"""Changes of nodes, one by one: what is kept through them gives the answers that nothing kept would give."""

from dataclasses import replace
from random import Random

import pytest

from scheduler.engine import Engine, attempt
from scheduler.model import events as ev
from scheduler.model.cluster import PRODUCTS, Node
from scheduler.model.decision import Place
from scheduler.model.demand import Operator, Requirement, Term
from scheduler.model.neighbors import Neighbors, PodSelector, PodTerm, TopologySpread
from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill
from scheduler.model.workload import GangKey, Membership, Phase, Pod, Strategy, Uid, Wish
from tests.engine.support import kept
from tests.engine.support.cast import a_pod
from tests.ledger.support.invariants import broken
from tests.support.builders import AREA, HOST, RACK, a_node, a_taint

POLICY = Policy(backfill=Backfill.FREE)
ROW, POOL, SIZE, NOTE = "example.com/row", "pool", "size", "example.com/note"
LABELS = {
    HOST: ("h0", "h1", "h2"),
    RACK: ("r0", "r1", "r2"),
    AREA: ("a0", "a1"),
    ROW: ("x", "y"),
    POOL: ("train", "serve"),
    SIZE: ("1", "5", "big"),
    PRODUCTS[0]: ("A100", "H100"),
    NOTE: ("one", "two"),
}
OTHERS = ("example.com/npu", "hugepages-2Mi", "attachable-volumes-disk")
OWN = PodSelector(("default",), None, (Requirement("app", Operator.EXISTS),))
RULES = (
    Neighbors(),
    Neighbors(),
    Neighbors(anti_affinity=(PodTerm(ROW, OWN),)),
    Neighbors(spread=(TopologySpread(ROW, OWN, 1),)),
)
LARGE = (Term(labels=(Requirement(SIZE, Operator.GREATER, ("2",)),)),)


class Cluster:
    """An engine, and what it was told."""

    def __init__(self, seed: int) -> None:
        self.chance, self.now, self.born = Random(seed), 0.0, 0
        self.engine = Engine(POLICY)
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.tell(ev.Synced(), ev.TookOver())
        for _ in range(5):
            self.add()

    def tell(self, *events: ev.Event) -> None:
        self.now += 1.0
        self.engine.observe(events, self.now)

    def put(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.tell(ev.NodeSeen(node))

    # ── what happens ────────────────────────────────────────────────────────────────────────────────────

    def add(self) -> None:
        name = f"n{self.chance.randrange(9)}"
        labels = {
            key: self.chance.choice(values) for key, values in LABELS.items() if self.chance.random() < 0.8
        }
        self.put(a_node(name, gpu=self.chance.randint(1, 4), labels=labels, more=self._others(0.2)))

    def remove(self) -> None:
        if len(self.nodes) > 2:
            name = self.chance.choice(sorted(self.nodes))
            del self.nodes[name]
            self.tell(ev.NodeGone(name))

    def relabel(self) -> None:
        node, key = self._node(), self.chance.choice(list(LABELS))
        labels = {own: value for own, value in node.labels.items() if own != key}
        if self.chance.random() < 0.8:
            labels[key] = self.chance.choice(LABELS[key])
        self.put(replace(node, labels=labels))

    def cordon(self) -> None:
        node = self._node()
        self.put(replace(node, schedulable=not node.schedulable))

    def taint(self) -> None:
        node = self._node()
        self.put(replace(node, taints=() if node.taints else (a_taint("reserved"),)))

    def resize(self) -> None:
        node = self._node()
        gpu, more = self.chance.randint(1, 4), self._others(0.2)
        self.put(replace(a_node(node.name, gpu=gpu, more=more), labels=node.labels))

    def run(self) -> None:
        """A pod is bound beside all rules."""
        pod = self._pod(1, None)
        node = self._node().name
        self._see(replace(pod, node=node, phase=Phase.RUNNING, bound_at=self.now, gated=False))

    def submit(self) -> None:
        count = self.chance.randint(1, 3)
        wish = Wish(
            strategy=self.chance.choice(list(Strategy)),
            level=self.chance.choice(["host", "rack", "area"]),
            required=self.chance.random() < 0.5,
        )
        self.born += 1
        membership = Membership(
            GangKey("default", f"g{self.born}"), "gangwright", quorum={"": count}, wish=wish
        )
        pod = self._pod(self.chance.randint(1, 4), membership)
        for member in range(count):
            name = f"{pod.key.name}-{member}"
            self._see(replace(pod, uid=Uid(name), key=pod.key._replace(name=name)))

    def end(self) -> None:
        if bound := [pod for pod in self.pods.values() if pod.node is not None]:
            pod = self.chance.choice(bound)
            self.tell(ev.PodSeen(replace(pod, phase=Phase.SUCCEEDED)))
            self._gone(pod)

    def delete(self) -> None:
        if self.pods:
            self._gone(self.chance.choice(list(self.pods.values())))

    def _others(self, share: float) -> dict[str, int]:
        return {name: self.chance.randint(1, 3) for name in OTHERS if self.chance.random() < share}

    def _node(self) -> Node:
        return self.nodes[self.chance.choice(sorted(self.nodes))]

    def _pod(self, gpu: int, membership: Membership | None) -> Pod:
        self.born += 1
        more = self._others(0.05)
        pod = a_pod(f"p{self.born}", gpu=gpu, more=more, gated=True, membership=membership)
        demand = pod.demand
        if self.chance.random() < 0.3:
            demand = replace(demand, selector=((POOL, "train"),))
        if self.chance.random() < 0.3:
            demand = replace(demand, constraints=(LARGE,))
        return replace(pod, demand=demand, neighbors=self.chance.choice(RULES), labels="app=x")

    def _see(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self.tell(ev.PodSeen(pod))

    def _gone(self, pod: Pod) -> None:
        del self.pods[pod.uid]
        self.tell(ev.PodGone(pod.uid, pod.key))

    # ── what must be true ───────────────────────────────────────────────────────────────────────────────

    def check(self) -> int:
        """Returns how many waiting gangs were compared."""
        self.engine.plan(self.now)
        assert broken(self.engine.ledger) == []
        assert kept.wrong(self.engine) == []
        self.engine.outlook(self.now)  # looks at every running gang
        compared = 0
        for record in self.engine.ledger.pending.queue():
            told = record.verdict.decision
            if record.wanted is None or record.backoff.not_before > self.now:
                continue
            fresh = attempt(self.engine.cycle.about(record, record.wanted, self.now), POLICY)
            assert not isinstance(fresh, Place), f"{record.key} is told {told} and would fit"
            assert told is not None
            assert told.reason is fresh.reason, f"{record.key} is told {told}, and {fresh} is true"
            compared += 1
        return compared


ACTS = {
    Cluster.relabel: 8,
    Cluster.submit: 4,
    Cluster.add: 2,
    Cluster.remove: 1,
    Cluster.cordon: 2,
    Cluster.taint: 2,
    Cluster.resize: 2,
    Cluster.run: 2,
    Cluster.end: 1,
    Cluster.delete: 2,
}


@pytest.mark.parametrize("seed", range(6))
def test_every_waiting_gang_has_the_answer_of_the_full_computation(seed: int) -> None:
    """After any change of nodes and pods, and a pass. What is kept of nodes, masks and running gangs is right, too."""
    cluster, compared = Cluster(seed), 0
    for act in cluster.chance.choices(list(ACTS), list(ACTS.values()), k=150):
        act(cluster)
        if cluster.chance.random() < 0.7:
            compared += cluster.check()
    assert compared > 100


def test_a_gang_on_a_node_that_is_gone_is_looked_at_again() -> None:
    """What is kept of it names rows, and a row that no longer exists is no place, even before the gang is reconciled."""
    engine = Engine(POLICY)
    nodes = [ev.NodeSeen(a_node(f"n{number}", gpu=1)) for number in range(3)]
    pods = [replace(a_pod(f"p{n}", gpu=1), node=f"n{n}", phase=Phase.RUNNING, bound_at=0.0) for n in range(3)]
    engine.observe([*nodes, *map(ev.PodSeen, pods), ev.Synced(), ev.TookOver()], 1.0)

    def rows() -> list[list[int]]:
        return [stay.rows.tolist() for stay in engine.cycle.candidates.stays(1.0)]

    assert rows() == [[0], [1], [2]]
    engine.ledger.take([ev.NodeGone("n1")], 2.0)
    assert rows() == [[0], [1]]
    assert engine.ledger.snapshot().names == ("n0", "n2")
