"""The preempt verb: kube-scheduler may take whom it names, but never part of a gang below its quorum."""

from dataclasses import replace

import pytest

from scheduler.engine import Engine
from scheduler.model import events as ev
from scheduler.model.cluster import Node
from scheduler.model.demand import Demand
from scheduler.model.policy import Policy
from scheduler.model.verbs import PreemptCall, Victims
from scheduler.model.workload import Membership, Phase, Pod, PodKey, Uid
from tests.engine.support.cast import a_membership

NEEDS = Demand((("nvidia.com/gpu", 1), ("pods", 1)))


def a_pod(name: str, membership: Membership | None = None, **fields: object) -> Pod:
    given = {"scheduler": "gangwright", "membership": membership, **fields}
    return Pod(uid=Uid(name), key=PodKey("default", name), demand=NEEDS, **given)


def running(name: str, membership: Membership | None = None, **fields: object) -> Pod:
    return a_pod(name, membership, node="n1", phase=Phase.RUNNING, **fields)


def an_engine(*pods: Pod) -> Engine:
    engine = Engine(Policy())
    node = ev.NodeSeen(Node("n1", (("nvidia.com/gpu", 16), ("pods", 110))))
    engine.observe([node, *(ev.PodSeen(pod) for pod in pods), ev.Synced(), ev.TookOver()], 0.0)
    return engine


def remaining(engine: Engine, preemptor: str, *victims: str, scheduler: str = "gangwright") -> bool:
    """Node n1 with these victims is left as a candidate."""
    call = PreemptCall(
        Uid(preemptor),
        PodKey("default", preemptor),
        scheduler,
        native_group=False,
        candidates={"n1": Victims(tuple(Uid(v) for v in victims))},
    )
    return dict(engine.preempt(call)) == dict(call.candidates)


FOUR = [running(f"g{i}", a_membership("g", 4)) for i in range(4)]
FIVE = [running(f"g{i}", a_membership("g", 4)) for i in range(5)]
ROLES = [
    running("ps", a_membership("g", {"ps": 1, "worker": 2}, role="ps")),
    *(running(f"w{i}", a_membership("g", {"ps": 1, "worker": 2}, role="worker")) for i in range(3)),
]
SPARE = running("spare", a_membership("g", 4, surplus=True))

CASES = {
    "one of a quorum": (FOUR, ["g0"], False),
    "the whole gang": (FOUR, ["g0", "g1", "g2", "g3"], False),
    "one above the quorum": (FIVE, ["g0"], True),
    "two, of which one is of the quorum": (FIVE, ["g0", "g1"], False),
    "a surplus member": ([*FOUR, SPARE], ["spare"], True),
    "a surplus member and one of the quorum": ([*FOUR, SPARE], ["spare", "g0"], False),
    "one of a quorum beside which surplus runs": ([*FOUR, SPARE], ["g0"], False),
    "the only one of its role": (ROLES, ["ps"], False),
    "one of a role that has more": (ROLES, ["w0"], True),
    "a pod of its own": ([running("single")], ["single"], True),
    "a pod of another scheduler": ([running("foreign", scheduler="default-scheduler")], ["foreign"], True),
    "a pod nobody has seen": ([], ["ghost"], False),
    "a pod of the cluster's own": (
        [replace(running("dns"), key=PodKey("kube-system", "dns"))],
        ["dns"],
        False,
    ),
    "nobody, as 1.38 asks": (FOUR, [], True),
}


@pytest.mark.parametrize("case", CASES)
def test_a_candidate_stays_unless_it_breaks_a_gang(case: str):
    """An ordinary preemptor keeps every candidate whose victims leave each gang its quorum in every role."""
    pods, victims, stays = CASES[case]

    assert remaining(an_engine(*pods, a_pod("preemptor", priority=10)), "preemptor", *victims) is stays


@pytest.mark.parametrize("case", CASES)
def test_a_pod_that_is_not_ours_breaks_no_gang_either(case: str):
    """Nothing is chosen for it; a candidate on which it would take a gang below its quorum is left out."""
    pods, victims, stays = CASES[case]

    assert remaining(an_engine(*pods), "stranger", *victims, scheduler="other") is stays


PREEMPTORS = {
    "a member that waits": a_pod("p", a_membership("other", 2), gated=True),
    "a member without our gate": a_pod("p", a_membership("other", 2)),
    "a gang of one behind our gate": a_pod("p", gated=True),
}


@pytest.mark.parametrize("case", PREEMPTORS)
def test_a_member_of_a_gang_preempts_nobody(case: str):
    """Room for a gang is made by its plan: kube-scheduler gets no candidate, not even an empty one."""
    engine = an_engine(running("single"), PREEMPTORS[case])

    assert not remaining(engine, "p", "single")
    assert not remaining(engine, "p")


def test_a_preemptor_that_nobody_has_seen_gets_nothing():
    """A pod of ours that our watch has not delivered might be of any gang."""
    assert not remaining(an_engine(running("single")), "unseen", "single")


def test_a_node_that_is_not_known_is_no_candidate():
    """It came or went a moment ago; the others are answered all the same."""
    engine = an_engine(running("single"), a_pod("preemptor", priority=10))
    offers = {"n1": Victims((Uid("single"),)), "new": Victims(()), "gone": Victims((Uid("single"),))}
    call = PreemptCall(
        Uid("preemptor"), PodKey("default", "preemptor"), "gangwright", native_group=False, candidates=offers
    )

    assert dict(engine.preempt(call)) == {"n1": offers["n1"]}
