"""What people are told of a gang: the reason, with numbers, and not too often."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model import events as ev
from scheduler.model.decision import TEXT, Reason, Shortfall, Wait
from scheduler.model.effects import Announce, Effect
from scheduler.model.workload import Complaint, OwnerTraits, Phase
from tests.engine.support.cast import a_gang_of_pods, an_owner, with_membership
from tests.ledger.support.desk import POLICY, QUICK, Desk, told

SHORT = Shortfall(4, "1 nvidia.com/gpu", "rack", "area-1/rack-2", 3, {"resources": 2})


def said(effects: list[Effect]) -> list[tuple[Reason, bool | None]]:
    return [(e.reason, e.seated) for e in effects if isinstance(e, Announce)]


def a_desk(count: int = 2, quorum: int = 2) -> Desk:
    desk = Desk()
    desk.see(*a_gang_of_pods("train", count, quorum=quorum, gpu=1, owner=an_owner()))
    return desk


def test_most_gangs_hear_nothing_while_they_gather() -> None:
    """Members come within two seconds, as a rule; only then is it said that some are missing."""
    desk = a_desk(count=1)
    assert said(desk.wait(1.9)) == []
    assert said(desk.wait(0.2)) == [(Reason.MISSING_MEMBERS, False)]


def test_the_numbers_are_in_the_message() -> None:
    """How many are there; what is needed, and how near the nearest domain comes."""
    desk = a_desk(count=1)
    (missing,) = told(desk.wait(3), Announce)
    assert isinstance(missing, Announce)
    assert missing.message.endswith("1 of 2 exist")
    desk.see(*a_gang_of_pods("train", 2, gpu=1, owner=an_owner()))
    (short,) = told(desk.decide("train", Wait(Reason.INSUFFICIENT_RESOURCES, SHORT)), Announce)
    assert isinstance(short, Announce)
    assert short.message.startswith(TEXT[Reason.INSUFFICIENT_RESOURCES])
    assert "needs 4 × 1 nvidia.com/gpu" in short.message
    assert "area-1/rack-2, fits 3" in short.message


def test_gates_of_others_are_told() -> None:
    """Who is there and waits for somebody else is not missing: the message counts them, and says where to look."""
    desk = a_desk(count=2)
    (held_back, _) = pods = a_gang_of_pods("train", 2, gpu=1, owner=an_owner())
    desk.see(replace(held_back, held_back=True), pods[1])
    (missing,) = told(desk.wait(3), Announce)
    assert isinstance(missing, Announce)
    assert missing.message.endswith("1 of 2 exist; 1 member has scheduling gates of another controller")


def test_it_is_said_of_one_member_and_its_owner() -> None:
    """The first to arrive speaks for the gang."""
    desk = a_desk()
    (told_,) = told(desk.refuse("train"), Announce)
    assert isinstance(told_, Announce)
    assert (told_.key.name, told_.owner) == ("train-0", an_owner())


def test_the_same_is_said_at_growing_distance() -> None:
    """After 10, 20, 40 … seconds, and every five minutes in the end."""
    desk = a_desk()
    desk.refuse("train")
    times = []
    for _ in range(20000):
        due = desk.ledger.next_deadline()
        if due > 2000:
            break
        if said(desk.wait(due - desk.now)):
            times.append(desk.now)
    gaps = [later - sooner for sooner, later in zip([0.0, *times], times, strict=False)]
    assert gaps[:5] == [10, 20, 40, 80, 160]
    assert set(gaps[5:]) == {300}


def series(effects: list[Effect]) -> list[tuple[str, float | None, int]]:
    return [(e.key.name, e.since, e.count) for e in effects if isinstance(e, Announce)]


def test_the_same_words_are_counted_since_they_were_first_said() -> None:
    """So that they are one Event. Other words begin another, and so do the same ones on another member."""
    desk = a_desk(count=3)
    desk.wait(100)
    began = desk.now

    said = series([*desk.refuse("train"), *desk.wait(80)])
    assert said == [("train-0", began, count) for count in (1, 2, 3, 4)]
    other = desk.now
    assert series(desk.decide("train", Wait(Reason.INSUFFICIENT_RESOURCES, SHORT))) == [("train-0", other, 1)]
    assert series(desk.wait(15)) == [("train-0", other, 2)]
    desk.lose("train-0")
    first, second = [one for one in series(desk.wait(100)) if one[0] == "train-1"][-2:]
    assert (first[1], first[2] + 1) == second[1:]
    assert second[2] < 4


def test_what_is_told_beside_a_gang_is_one_series_too() -> None:
    """Pods of a later run that wait: what is repeated unchanged is one Event that counts."""
    desk = a_desk()
    desk.bring_on_its_way("train", train_0="n1", train_1="n1")
    desk.bind("train-0", "train-1")
    later = a_gang_of_pods("train", 4, quorum=2, gpu=1, owner=an_owner("Job", "later"), created=5.0)[2:]
    desk.see(*later)
    told_so = [e for e in desk.wait(100) if isinstance(e, Announce) and e.reason is Reason.NAME_CONFLICT]
    assert [(e.key.name, e.since, e.count) for e in told_so[:3]] == [("train-2", 2.0, n) for n in (1, 2, 3)]
    assert [e.turned for e in told_so[:2]] == [True, False]


def test_news_is_said_after_ten_seconds_at_the_latest() -> None:
    """Other numbers wait for the interval alone, and need no further event."""
    desk = a_desk()
    desk.refuse("train")
    desk.wait(25)
    assert said(desk.decide("train", Wait(Reason.INSUFFICIENT_RESOURCES, SHORT))) == [
        (Reason.INSUFFICIENT_RESOURCES, False)
    ]
    assert said(desk.decide("train", Wait(Reason.INSUFFICIENT_RESOURCES))) == []
    assert said(desk.wait(POLICY.announce_every)) == [(Reason.INSUFFICIENT_RESOURCES, False)]


def test_it_is_said_that_a_gang_is_seated_only_if_it_was_said_that_it_waits() -> None:
    """The condition is turned once; a gang that never waited long is not talked about."""
    for waits in (False, True):
        desk = a_desk()
        if waits:
            desk.refuse("train")
            desk.wait(1)
        desk.bring_on_its_way("train", train_0="n1", train_1="n1")
        effects = desk.bind("train-0", "train-1")
        assert said(effects) == ([(Reason.SEATED, True)] if waits else [])


def test_what_the_owner_cannot_do_is_said_as_a_warning() -> None:
    """It is no reason for the wait, so the condition stays as it is."""
    desk = a_desk()
    doubt = Complaint("spec.podManagementPolicy", "OrderedReady", "use Parallel", fatal=False)
    effects = desk.tell(ev.OwnerSeen(OwnerTraits(an_owner().uid, remakes_freely=True, warnings=(doubt,))))
    assert said(effects) == [(Reason.IGNORED_FIELD, None)]


def slip(key: str, value: str = "x") -> Complaint:
    return Complaint(key, value, "write the annotation y", fatal=False)


def warned(effects: list[Effect]) -> list[str]:
    return [e.message for e in effects if isinstance(e, Announce) and e.reason is Reason.IGNORED_FIELD]


def test_what_is_overlooked_of_many_members_is_said_once() -> None:
    """Each field once a gang, with the eldest's word for it; whoever alone says it is named."""
    eldest, *others = a_gang_of_pods("train", 40, gpu=1, owner=an_owner())
    first, last = slip("stratgy", "pack"), slip("tiemout", "5m")
    desk = Desk()
    effects = desk.see(
        replace(eldest, complaints=(first,)),
        *(replace(own, complaints=(slip("stratgy", "spread"), last)) for own in others),
    )
    assert warned(effects) == [f"{first}; train-1: {last}"]


def test_a_gang_that_runs_is_told_once_of_a_field() -> None:
    """What a member writes while it runs is said, and not again when it writes something else that is overlooked."""
    desk = a_desk()
    desk.bring_on_its_way("train", train_0="n1", train_1="n1")
    desk.bind("train-0", "train-1")
    told_ = warned(desk.change("train-1", complaints=(slip("saved", "noon"),)))
    told_ += warned(desk.change("train-1", complaints=(slip("saved", "one"),)))
    told_ += warned(desk.change("train-0", complaints=(slip("saved", "one"),)))
    told_ += warned(desk.wait(2000))
    assert told_ == [f"train-1: {slip('saved', 'noon')}"]


def test_what_a_gang_that_runs_is_not_told_yet_is_told_by_time_alone() -> None:
    """Two fields within ten seconds are two notices, and the second needs no further event."""
    desk = a_desk()
    desk.bring_on_its_way("train", train_0="n1", train_1="n1")
    desk.bind("train-0", "train-1")
    assert len(warned(desk.change("train-0", complaints=(slip("one"),)))) == 1
    assert warned(desk.change("train-0", complaints=(slip("one"), slip("two")))) == []
    assert warned(desk.wait(POLICY.announce_every)) == [str(slip("two"))]


changes = st.lists(
    st.tuples(
        st.sampled_from(["refuse", "news", "seat", "bind", "lose", "come", "wait"]), st.integers(0, 12)
    ),
    max_size=40,
)


@pytest.mark.slow
@QUICK
@given(changes)
def test_nothing_is_said_twice_in_ten_seconds(story) -> None:
    """At most one event a gang and reason in `announce_every`, whatever happens to the gang."""
    desk = a_desk()
    last: dict[Reason, float] = {}
    born = 2

    def listen(effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Announce):
                assert desk.now - last.get(effect.reason, -100.0) >= POLICY.announce_every
                last[effect.reason] = desk.now
        if not desk.ledger.registry.gangs:
            last.clear()  # the next one of this name is another gang

    for what, number in story:
        wanted = desk.wanted("train") if desk.ledger.registry.gangs else None
        gang = desk.record("train") if desk.ledger.registry.gangs else None
        if what in {"refuse", "news"} and wanted is not None:
            shortfall = Shortfall(4, "1 cpu", "rack", "r", number, {})
            listen(
                desk.decide(
                    "train", Wait(Reason.INSUFFICIENT_RESOURCES, shortfall if what == "news" else None)
                )
            )
        elif what == "seat" and wanted is not None:
            uids = [uid for role in wanted.roles for uid in (*role.quorum, *role.surplus)]
            pods = {pod.uid: name for name, pod in desk.pods.items()}
            desk.bring_on_its_way("train", **{pods[uid].replace("-", "_"): "n1" for uid in uids})
        elif what == "bind" and gang is not None:
            for member in [m for m in gang.members.values() if m.hold is not None]:
                listen(desk.bind(member.pod.key.name))
        elif what == "lose" and gang is not None:
            listen(desk.lose(next(iter(gang.members.values())).pod.key.name))
        elif what == "come":
            born += 1
            listen(desk.see(*a_gang_of_pods("train", born, quorum=2, gpu=0, owner=an_owner())[-1:]))
        else:
            # Step by step: what is said is timed by the step at which it is said.
            while (due := desk.ledger.next_deadline()) <= desk.now + number:
                listen(desk.wait(max(0.0, due - desk.now)))
                number -= 1


def test_a_partly_bound_gang_says_how_many_are_bound() -> None:
    """Of a gang that lost a member after it ran, people are told how many are bound, not how many exist."""
    desk = a_desk()
    desk.bring_on_its_way("train", **{"train-0": "n1", "train-1": "n1"})
    desk.bind("train-0", "train-1")
    desk.lose("train-1")
    (partly,) = told(desk.wait(5), Announce)
    assert isinstance(partly, Announce)
    assert partly.reason is Reason.PARTIALLY_BOUND
    assert partly.message.endswith("1 of 2 are bound; reserved for missing members: n1")


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("surplus", [False, True])
def test_only_whom_the_quorum_needs_is_counted(*, bound: bool, surplus: bool) -> None:
    """Not who is above it, and of a role nobody beyond what it needs: a gang that waits lacks somebody."""
    desk = Desk()
    pods = a_gang_of_pods("train", 5, quorum=4, gpu=1)
    for number, pod in enumerate(pods):
        above = {"surplus": number > 2} if surplus else {"role": "worker", "quorum": {"ps": 1, "worker": 3}}
        there = {"node": "n1", "gated": False, "phase": Phase.RUNNING, "bound_at": 0.0} if bound else {}
        desk.see(replace(with_membership(pod, **above), **there))
    (said, *_) = told(desk.wait(5), Announce)
    assert isinstance(said, Announce)
    assert said.message.endswith("3 of 4 are bound" if bound else "3 of 4 exist")


@pytest.mark.parametrize(
    ("count", "text"),
    [(1, "; a failed placement excludes its node for 300 s"), (2, "(2 node(s) were excluded after failed")],
)
def test_nodes_that_are_barred_are_told_of(count: int, text: str) -> None:
    """Room that a person sees and the gang is not given: how many nodes, for how long, and why."""
    desk = Desk()
    desk.see(*a_gang_of_pods("train", 2, gpu=1))
    desk.bring_on_its_way("train", train_0="n1", train_1="n1")
    desk.tell(ev.NodeGone("n1"))
    assert desk.record("train").pinning.barred_nodes == {"n1"}
    short = Wait(Reason.INSUFFICIENT_RESOURCES, Shortfall(4, "1 cpu", "rack", "", 3, {"excluded": count}))
    (announced,) = told(desk.decide("train", short), Announce)
    assert isinstance(announced, Announce)
    assert text in announced.message


@pytest.mark.parametrize("bearer", ["train-0", "train-1"])
def test_what_was_said_before_a_restart_is_taken_back_when_the_gang_is_seated(bearer: str) -> None:
    """The condition on the pod tells that people were told, and on which pod it is to be turned."""
    desk = Desk(acting=False)
    pods = a_gang_of_pods("train", 2, gpu=1)
    bound = [
        replace(pod, gated=False, node="n1", told="InsufficientResources" if pod.key.name == bearer else None)
        for pod in pods
    ]
    desk.see(*bound)
    effects = [*desk.tell(ev.Synced()), *desk.tell(ev.TookOver()), *desk.wait(100)]
    assert [(e.key.name, e.reason, e.seated) for e in effects if isinstance(e, Announce)] == [
        (bearer, Reason.SEATED, True)
    ]
