"""Members that never start, and members that are lost: told, and mended where that costs nothing."""

from dataclasses import replace

import pytest

from scheduler.ledger import healing
from scheduler.model import events as ev
from scheduler.model.decision import Reason
from scheduler.model.demand import Taint, TaintEffect
from scheduler.model.effects import Announce, Effect, Evict
from scheduler.model.events import FailureKind
from scheduler.model.policy import Policy
from scheduler.model.workload import Complaint, OnMemberLoss, Phase, Pod, PodKey, gang_of_one
from tests.engine.support.cast import a_gang_of_pods, a_pod, an_owner
from tests.ledger.support.desk import POLICY, Desk, names, told
from tests.support.builders import a_node

NODES = tuple(a_node(f"n{number}", gpu=4) for number in range(1, 5))
SEATS = {"train_0": "n1", "train_1": "n2", "train_2": "n3"}
TAINT = Taint(healing.UNREACHABLE, "", TaintEffect.NO_EXECUTE)


def wishing(pods: list[Pod], **wish: object) -> list[Pod]:
    """The same pods, saying something more of how their gang is to be treated."""
    return [
        replace(pod, membership=replace(pod.membership, wish=replace(pod.membership.wish, **wish)))
        for pod in pods
        if pod.membership is not None
    ]


def a_desk(
    *,
    kind: str | None = "ReplicaSet",
    freely: bool = True,
    policy: Policy = POLICY,
    quorum: int = 3,
    **wish: object,
) -> Desk:
    """Three members on n1, n2 and n3, bound and running."""
    desk = Desk(*NODES, policy=policy)
    owner = an_owner(kind, "set") if kind else None
    pods = wishing(a_gang_of_pods("train", 3, quorum=quorum, owner=owner, gpu=1), **wish)
    if owner is not None:
        desk.own(pods[0], freely=freely)
    desk.see(*pods)
    desk.bring_on_its_way("train", **SEATS)
    desk.bind("train-0", "train-1", "train-2")
    return desk


def stuck(desk: Desk, *members: str, why: str = "") -> None:
    """These members were just bound and do not start."""
    for name in members:
        desk.change(name, phase=Phase.PENDING, stuck=why)


def said(effects: list[Effect], reason: Reason) -> list[str]:
    return [effect.message for effect in effects if isinstance(effect, Announce) and effect.reason is reason]


# ── refused by kubelet ──────────────────────────────────────────────────────────────────────────────────


def test_a_node_whose_kubelet_refuses_a_pod_is_barred_for_its_gang() -> None:
    """The event names pod, node and kubelet's reason, once; the successor's question leaves the node out."""
    desk = a_desk()
    effects = desk.change("train-1", phase=Phase.FAILED, refused="UnexpectedAdmissionError")
    (message,) = said(effects, Reason.NOT_STARTED)
    assert "train-1 on n2: the kubelet rejected the pod: UnexpectedAdmissionError" in message
    assert desk.record("train").pinning.barred == {"n2": (POLICY.barred, POLICY.barred)}
    assert desk.ledger.counters.decisions[Reason.NOT_STARTED] == 1
    again = desk.change("train-1", complaints=(Complaint("x", "y", "z", fatal=False),))
    assert said([*again, *desk.wait(60)], Reason.NOT_STARTED) == []
    first = desk.pods["train-0"]
    desk.see(
        replace(
            first,
            uid="next",
            key=PodKey("default", "next"),
            gated=True,
            node=None,
            phase=Phase.PENDING,
            seat=None,
        )
    )
    wanted = desk.wanted("train")
    assert wanted is not None
    assert wanted.barred == {"n2"}


def test_a_pod_that_failed_by_itself_bars_no_node() -> None:
    """It ran: what went wrong may be its own doing."""
    desk = a_desk()
    desk.change("train-1", phase=Phase.FAILED)
    assert desk.record("train").pinning.barred == {}


def test_what_follows_a_refused_pod_of_a_gang_of_one_goes_elsewhere() -> None:
    """Each is a gang of its own, and the one before it is still there: its owner is what they share."""
    desk = Desk(*NODES)
    first = a_pod("one-x1", owner=an_owner("ReplicaSet", "one"), gpu=1)
    desk.own(first)
    desk.see(first)
    desk.change("one-x1", node="n2", gated=False, phase=Phase.FAILED, refused="OutOfcpu")
    desk.see(a_pod("one-x2", owner=first.owner, gpu=1), a_pod("other", owner=an_owner(name="b"), gpu=1))
    barred = {
        name: desk.ledger.registry.gangs[gang_of_one("default", pod.uid)].pinning.barred_nodes
        for name, pod in desk.pods.items()
    }
    assert (barred["one-x2"], barred["other"]) == ({"n2"}, frozenset())


def test_after_a_restart_a_node_is_barred_for_a_refused_pod_that_is_still_there() -> None:
    """Of what was told before, people are not told once more."""
    desk = Desk(*NODES, acting=False)
    pods = a_gang_of_pods("train", 2, owner=an_owner(), gpu=1)
    desk.see(pods[0], replace(pods[1], node="n2", gated=False, phase=Phase.FAILED, refused="OutOfcpu"))
    effects = desk.tell(ev.Synced(), ev.TookOver())
    assert desk.record("train").pinning.barred_nodes == {"n2"}
    assert said(effects, Reason.NOT_STARTED) == []


# ── never started ───────────────────────────────────────────────────────────────────────────────────────


def test_a_member_that_does_not_start_is_named_and_made_again_elsewhere() -> None:
    """When its time is up: an event with member, reason and node; the node is barred; the pod is evicted."""
    desk = a_desk()
    stuck(desk, "train-1")
    assert told(desk.wait(POLICY.start_timeout - 1)) == []
    effects = desk.wait(2)
    assert names(effects) == ["train-1"]
    (message,) = said(effects, Reason.NOT_STARTED)
    assert "train-1 on n2 for 600 s: ContainerCreating" in message
    assert desk.record("train").pinning.barred_nodes == {"n2"}
    assert desk.ledger.counters.decisions[Reason.NOT_STARTED] == 1


@pytest.mark.parametrize("why", ["ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError"])
def test_what_is_wrong_with_the_pod_bars_no_node(why: str) -> None:
    """An image that nobody can have, a Secret that is missing: every node is as good as the next."""
    desk = a_desk()
    stuck(desk, "train-0", "train-1", "train-2", why=why)
    effects = desk.wait(POLICY.start_timeout + 1)
    assert names(effects) == ["train-0", "train-1", "train-2"]
    assert why in said(effects, Reason.NOT_STARTED)[0]
    assert desk.record("train").pinning.barred_nodes == frozenset()


def test_an_image_that_others_of_the_gang_have_is_the_fault_of_the_node() -> None:
    """Its twin runs elsewhere, so the image is there: it is this node that cannot pull it."""
    desk = a_desk()
    stuck(desk, "train-1", why="ImagePullBackOff")
    desk.wait(POLICY.start_timeout + 1)
    assert desk.record("train").pinning.barred_nodes == {"n2"}


def test_the_gang_says_how_long_its_members_may_take() -> None:
    """The annotation goes before the setting."""
    desk = a_desk(start_timeout=30.0)
    stuck(desk, "train-1")
    assert names(desk.wait(31)) == ["train-1"]


def test_every_time_takes_twice_as_long() -> None:
    """A gang whose image is missing is restarted after 10, 20, 40 … minutes, and not in a loop."""
    desk = a_desk()
    spans = []
    for generation in range(4):
        began = desk.now
        name = "train-1" if generation == 0 else f"next-{generation}"
        stuck(desk, name, why="ErrImagePull")
        while not names(desk.wait(10)):
            assert desk.now < began + 100_000, "nothing comes of it"
        spans.append(desk.now - began)
        successor = replace(
            desk.pods["train-0"],
            uid=f"new-{generation}",
            key=desk.pods["train-0"].key._replace(name=f"next-{generation + 1}"),
        )
        desk.lose(name)
        desk.see(replace(successor, node="n4", phase=Phase.PENDING))
    assert [round(span / 600) for span in spans] == [1, 2, 4, 8]


def test_who_ran_well_meanwhile_begins_anew() -> None:
    """Once the gang has run for the limit of the back-off, the next setback counts as the first."""
    desk = a_desk()
    record = desk.record("train")
    record.health.setbacks = 5
    desk.wait(POLICY.backoff_limit - 1)
    stuck(desk, "train-1")
    assert healing.patience(desk.ledger, record) == 32 * POLICY.start_timeout
    desk.change("train-1", phase=Phase.RUNNING)
    desk.wait(POLICY.backoff_limit + 1)
    stuck(desk, "train-1")
    assert healing.patience(desk.ledger, record) == POLICY.start_timeout


def test_what_nobody_makes_again_is_left_alone_and_told_of_again() -> None:
    """A plain Job counts an evicted pod as failed: people are told at doubling distances, and nothing is evicted."""
    desk = a_desk(kind="Job", freely=False)
    stuck(desk, "train-1", why="ErrImagePull")
    times = []
    for _ in range(800):
        effects = desk.wait(10)
        assert names(effects) == []
        times += [desk.now] * len(said(effects, Reason.NOT_STARTED))
    assert [round(at / 600) for at in times] == [1, 2, 4, 8]


def test_seats_that_are_held_for_the_rest_are_let_go() -> None:
    """While nobody can restart the gang, others may use what is kept for those who still have their gate."""
    desk = a_desk(kind="Job", freely=False, quorum=2)
    stuck(desk, "train-1", why="ErrImagePull")
    (late,) = wishing(a_gang_of_pods("train", 1, quorum=2, owner=an_owner("Job", "set"), gpu=1))
    late = replace(late, uid="late", key=late.key._replace(name="late"))
    desk.wait(POLICY.start_timeout - 1)
    desk.see(late)
    desk.place("train", late="n4")
    assert desk.seat("late") == "n4"
    desk.wait(2)
    assert desk.seat("late") is None
    assert desk.wanted("train") is None


def test_a_gang_that_is_being_bound_has_its_own_limit() -> None:
    """Before the quorum was bound `timeout` decides, not `start-timeout`."""
    desk = Desk(*NODES)
    pods = a_gang_of_pods("train", 3, owner=an_owner(), gpu=1)
    desk.own(pods[0])
    desk.see(*pods)
    desk.bring_on_its_way("train", **SEATS)
    desk.change("train-0", node="n1", phase=Phase.PENDING)
    assert said(desk.wait(POLICY.timeout - 1), Reason.NOT_STARTED) == []


# ── lost with a node ────────────────────────────────────────────────────────────────────────────────────


def test_a_member_on_a_node_that_is_gone_is_evicted_so_that_it_is_made_again() -> None:
    """Two seconds after the node is known to be gone, and people are told."""
    desk = a_desk()
    assert told(desk.tell(ev.NodeGone("n2"))) == []
    effects = desk.wait(healing.GONE_FOR + 0.1)
    (evicted,) = told(effects)
    assert isinstance(evicted, Evict)
    assert (evicted.key.name, evicted.reason) == ("train-1", Reason.MEMBER_LOST)
    assert said(effects, Reason.MEMBER_LOST) == [
        "train-1 was lost with its node n2; the replacement joins the gang if there is free capacity"
    ]
    assert "train-1" in {m.pod.key.name for m in desk.record("train").members.values() if not m.live}


def test_a_node_that_comes_back_at_once_was_never_gone() -> None:
    """A node made anew under its name, and lists read after a broken watch, cost nobody anything."""
    desk = a_desk()
    desk.tell(ev.NodeGone("n2"))
    desk.wait(1)
    desk.tell(ev.NodeSeen(NODES[1]))
    assert told(desk.wait(60)) == []


def test_a_budget_does_not_keep_a_dead_member() -> None:
    """429: it does not count any more, and is asked for again every few seconds; back with its node, it counts
    again.
    """
    desk = a_desk()
    desk.tell(ev.NodeGone("n2"))
    (evicted,) = told(desk.wait(3))
    desk.failed(evicted, FailureKind.BUDGET)
    assert told(desk.wait(6)) == [evicted]
    desk.failed(evicted, FailureKind.BUDGET)
    desk.tell(ev.NodeSeen(NODES[1]))
    assert told(desk.wait(60)) == []
    assert desk.record("train").state == "running"


@pytest.mark.parametrize(("kind", "wish"), [(None, None), ("ReplicaSet", OnMemberLoss.NONE)])
def test_nobody_is_evicted_whom_nobody_makes_again_or_who_asked_to_be_left(kind, wish) -> None:
    """The event alone, once."""
    desk = a_desk(kind=kind, on_member_loss=wish)
    desk.tell(ev.NodeGone("n2"))
    effects = desk.wait(600)
    assert names(effects) == []
    assert len(said(effects, Reason.MEMBER_LOST)) == 1


def test_the_next_one_joins_the_gang_where_it_is() -> None:
    """The pod that its owner makes is asked about with the places of the others as anchors."""
    desk = a_desk()
    desk.tell(ev.NodeGone("n2"))
    desk.wait(3)
    new = replace(
        desk.pods["train-1"], uid="new", key=desk.pods["train-1"].key._replace(name="new"), node=None
    )
    desk.see(replace(new, gated=True, seat=None, pinned=None, phase=Phase.PENDING))
    wanted = desk.wanted("train")
    assert wanted is not None
    assert (wanted.quorum, wanted.anchors) == (1, ("n1", "n3"))
    assert desk.record("train").health.bereft


def test_a_member_that_is_sent_away_from_an_unreachable_node_is_lost() -> None:
    """The taint that Kubernetes puts on a node of which nothing is heard, and the pod on its way out."""
    desk = a_desk()
    desk.tell(ev.NodeSeen(replace(NODES[1], taints=(TAINT,))))
    assert told(desk.wait(60)) == []
    effects = desk.change("train-1", deleting=True)
    assert len(said(effects, Reason.MEMBER_LOST)) == 1
    assert names(effects) == []


# ── restart ─────────────────────────────────────────────────────────────────────────────────────────────


def _node_gone(desk: Desk) -> list[Effect]:
    desk.tell(ev.NodeGone("n2"))
    return desk.wait(healing.GONE_FOR + 0.1)


def _failed(desk: Desk) -> list[Effect]:
    return desk.change("train-1", phase=Phase.FAILED)


def _evicted_by_others(desk: Desk) -> list[Effect]:
    return desk.change("train-1", deleting=True, disrupted=True)


def _vanished(desk: Desk) -> list[Effect]:
    return desk.tell(ev.NodeGone("n2"), ev.PodGone(desk.pods["train-1"].uid, desk.pods["train-1"].key))


@pytest.mark.parametrize("loss", [_node_gone, _failed, _evicted_by_others, _vanished])
def test_restart_takes_the_whole_gang_down_at_once(loss) -> None:
    """All others are evicted together, so that all begin again together."""
    desk = a_desk(on_member_loss=OnMemberLoss.RESTART)
    effects = loss(desk)
    assert {"train-0", "train-2"} <= set(names(effects))
    assert any("whole gang is restarted" in text for text in said(effects, Reason.MEMBER_LOST))


def test_no_more_are_evicted_at_a_time_than_a_namespace_may_lose() -> None:
    """A gang of three that is restarted where one at a time may go: the others follow, a second apart."""
    policy = replace(POLICY, evictions_per_namespace=1)
    desk = a_desk(policy=policy, on_member_loss=OnMemberLoss.RESTART)
    assert names(_failed(desk)) == ["train-0"]
    assert names(desk.wait(healing.BATCH_EVERY)) == ["train-2"]


def test_who_is_kept_from_a_restart_by_a_budget_is_told_of() -> None:
    """That the gang is restarted whole was told before anybody knew of the budget: who runs on counts, and is named."""
    desk = a_desk(on_member_loss=OnMemberLoss.RESTART)
    for effect in told(_failed(desk), Evict):
        desk.failed(effect, FailureKind.BUDGET)
    (text,) = said(desk.wait(POLICY.announce_every + 1), Reason.MEMBER_LOST)
    assert text.startswith("2 members: train-0, train-2; not restarted with the gang: a disruption budget")
    assert sorted(m.pod.key.name for m in desk.record("train").live()) == ["train-0", "train-2"]


def test_those_who_are_evicted_for_a_restart_are_no_further_losses() -> None:
    """They carry the mark of a disruption, which is our own: the gang is restarted once."""
    desk = a_desk(on_member_loss=OnMemberLoss.RESTART)
    _failed(desk)
    effects = [
        *desk.change("train-0", deleting=True, disrupted=True),
        *desk.change("train-2", deleting=True, disrupted=True),
        *desk.change("train-2", phase=Phase.FAILED),
        *desk.lose("train-0", "train-2"),
    ]
    assert said(effects, Reason.MEMBER_LOST) == []
    assert desk.record("train").health.setbacks == 1


@pytest.mark.parametrize("loss", [_failed, _evicted_by_others])
@pytest.mark.parametrize("wish", [None, OnMemberLoss.REPLACE, OnMemberLoss.NONE])
def test_otherwise_the_others_run_on(loss, wish) -> None:
    """Nothing is evicted for what happens to one member."""
    desk = a_desk(on_member_loss=wish)
    assert names([*loss(desk), *desk.wait(60)]) == []


def test_who_is_dismissed_by_its_owner_is_not_lost() -> None:
    """A pod that is deleted without the mark of a disruption: scaled down, or removed by hand."""
    desk = a_desk(on_member_loss=OnMemberLoss.RESTART)
    assert names(desk.change("train-1", deleting=True)) == []
    assert names(desk.lose("train-1")) == []


def test_surplus_is_no_reason_to_restart() -> None:
    """The quorum does not need it."""
    desk = a_desk(on_member_loss=OnMemberLoss.RESTART, quorum=2)
    assert names(desk.change("train-2", phase=Phase.FAILED)) == []


def test_a_gang_that_costs_something_is_not_restarted() -> None:
    """A plain Job would count every member as a failure: it is said, and nothing is evicted."""
    desk = a_desk(kind="Job", freely=False, on_member_loss=OnMemberLoss.RESTART)
    effects = _failed(desk)
    assert names(effects) == []
    assert any("not restarted" in text for text in said(effects, Reason.MEMBER_LOST))


def test_a_gang_that_fails_again_and_again_is_restarted_ever_more_slowly() -> None:
    """The second restart in a row waits for the back-off, and each further one twice as long."""
    desk = a_desk(on_member_loss=OnMemberLoss.RESTART)
    record = desk.record("train")
    pauses = []
    for _ in range(4):
        record.health.restart_for = "train-1 failed"
        desk.ledger.mark(record.key)
        desk.tell()
        pauses.append(max(0.0, record.backoff.not_before - desk.now))
        for member in record.members.values():
            member.set_evicting(None)
    assert pauses == [0.0, 5.0, 10.0, 20.0]


def test_a_member_that_ended_before_we_came_is_no_loss() -> None:
    """What is read in the first list happened to an earlier run of ours, or to an earlier try of the Job."""
    desk = Desk(*NODES, acting=False)
    pods = wishing(a_gang_of_pods("train", 3, owner=an_owner(), gpu=1), on_member_loss=OnMemberLoss.RESTART)
    desk.own(pods[0])
    desk.see(
        *(replace(pod, node=f"n{n + 1}", gated=False, phase=Phase.RUNNING) for n, pod in enumerate(pods[:2])),
        replace(pods[2], node="n3", gated=False, phase=Phase.FAILED),
    )
    assert names(desk.tell(ev.Synced(), ev.TookOver())) == []
