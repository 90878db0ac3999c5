"""Gangs as people see them, from an engine that has lived a little."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from scheduler.engine import Engine
from scheduler.model import events as ev
from scheduler.model.decision import TEXT, Reason
from scheduler.model.preemption_units import Kind, Unit
from scheduler.model.queueing import Estimate, Share
from scheduler.model.workload import GangKey, Phase, Uid
from scheduler.status import gang_views, node_views
from scheduler.status.authorization import Sight
from scheduler.status.gang_views import Outlook, Page, at_once
from tests.engine.support.cast import a_gang_of_pods, a_pod, an_owner
from tests.engine.support.stage import a_set, a_world
from tests.engine.support.world import World
from tests.status.support.scene import ALIAS, EVERYTHING, HOSTILE, NOBODY, POLICY, a_scene
from tests.support.builders import GPU, a_node, some_nodes

ALL = Page(0, 1000)


@pytest.fixture(scope="module")
def world():
    return a_scene()


def listed(world, view=gang_views.queue, sight=EVERYTHING, page=ALL, **more):
    return at_once(view(world.engine, sight, world.now, page, **more))


def by_name(rows):
    return {row.name: row for row in rows}


def test_the_queue_shows_who_waits_in_order(world):
    """Gangs with seats to be given come first with their positions, then those that cannot be placed yet."""
    found = listed(world)

    assert [(row.name, row.position, row.state) for row in found.gangs] == [
        ("huge", 1, "waiting"),
        ("wrong", None, "refused"),
        ("late", None, "gathering"),
    ]
    assert (found.total, found.next, found.acting) == (3, None, True)


def test_a_waiting_gang_says_what_it_lacks(world):
    """Reason, numbers, wait and members of a gang that no rack can hold."""
    huge = by_name(listed(world).gangs)["huge"]

    assert huge.reason == Reason.INSUFFICIENT_RESOURCES
    assert huge.message.startswith(TEXT[Reason(huge.reason)])
    assert "12 ×" in huge.message
    assert huge.wait_seconds == pytest.approx(30, abs=2)
    assert (huge.members.present, huge.members.needed, huge.members.bound) == (12, 12, 0)


def test_an_incomplete_gang_says_how_many_are_there(world):
    """The count stands in the message."""
    late = by_name(listed(world).gangs)["late"]

    assert late.message == f"{TEXT[Reason.MISSING_MEMBERS]}: 2 of 3 exist"
    assert (late.members.present, late.members.needed) == (2, 3)


def test_all_gangs_are_listed_by_name(world):
    """Also those that run; a pod that is no gang's goes by its own name."""
    found = listed(world, gang_views.gangs)

    assert [(row.namespace, row.name, row.state, row.alone) for row in found.gangs] == [
        ("team-a", "train", "running", False),
        ("team-a", "solo", "running", True),
        ("team-a", "wrong", "refused", False),
        ("team-b", "huge", "waiting", False),
        ("team-b", "late", "gathering", False),
    ]


def test_one_namespace_of_all(world):
    """A namespace that is asked for is shown alone."""
    found = listed(world, gang_views.gangs, namespace="team-b")

    assert {row.namespace for row in found.gangs} == {"team-b"}
    assert found.total == 2


def test_lists_come_in_pages(world):
    """Every gang is on one page, in the same order as without pages."""
    whole = [row.id for row in listed(world, gang_views.gangs).gangs]
    rows, offset = [], 0
    while offset is not None:
        page = listed(world, gang_views.gangs, page=Page(offset, 2))
        rows += page.gangs
        offset = page.next

    assert [row.id for row in rows] == whole


def test_names_of_others_are_left_out_and_numbers_stay(world):
    """Neither namespace, name, key nor message of a hidden gang is anywhere; state, reason and members are."""
    sight = Sight(frozenset({"team-a"}), ALIAS)
    shown, hidden = listed(world), listed(world, sight=sight)
    text = msgspec.json.encode(hidden).decode()

    assert "team-b" not in text
    assert "huge" not in text
    assert "late" not in text
    for with_name, without in zip(shown.gangs, hidden.gangs, strict=True):
        assert (with_name.id, with_name.state, with_name.reason) == (
            without.id,
            without.state,
            without.reason,
        )
        assert (with_name.members, with_name.wait_seconds) == (without.members, without.wait_seconds)
    assert by_name(hidden.gangs)["wrong"].namespace == "team-a"


def test_the_order_of_hidden_gangs_tells_nothing_of_their_names(world):
    """They are sorted by what stands for them."""
    ids = [row.id for row in listed(world, gang_views.gangs, NOBODY).gangs]

    assert ids == sorted(ids)


def test_everything_about_one_gang(world):
    """What it asked for, where its pods are, and what was told about it."""
    found = gang_views.find(world.engine, "team-a", "train")
    detail = gang_views.detail(world.engine, found, EVERYTHING, world.now)

    assert detail.quorum == {"": 4}
    assert (detail.wishes.strategy, detail.wishes.level, detail.wishes.required) == ("pack", "rack", False)
    assert [member.state for member in detail.members] == ["bound"] * 4
    assert all(member.node is not None for member in detail.members)
    assert detail.gang.wait_seconds is None
    assert detail.shortfalls == []


def test_who_waits_behind_a_reservation_hears_whose_it_is():
    """By name and from when on; who may not read the name gets an alias."""
    world = World([a_node(f"n{i}", gpu=4) for i in range(2)], POLICY)
    world.submit(a_gang_of_pods("runs", 4, gpu=1, wish={"runtime": 100.0}))
    world.settle(5)
    world.submit(a_gang_of_pods("first", 8, gpu=1))
    world.settle(5)
    world.submit(a_gang_of_pods("late", 2, gpu=1, wish={"runtime": 1000.0}))
    world.settle(5)
    found = gang_views.find(world.engine, "default", "late")
    told = [gang_views.detail(world.engine, found, sight, world.now).behind for sight in (EVERYTHING, NOBODY)]

    assert [(one.namespace, one.gang) for one in told] == [("default", "first"), (None, None)]
    assert told[0].start == pytest.approx(100, abs=20)
    assert told[0].id == told[1].id


def test_a_shortfall_is_told_in_numbers(world):
    """How many it needs, and how many the best domain holds."""
    found = gang_views.find(world.engine, "team-b", "huge")
    detail = gang_views.detail(world.engine, found, EVERYTHING, world.now)

    (lack,) = detail.shortfalls
    assert (lack.needed, lack.best) == (12, 11)
    assert detail.wishes.required is False


def test_a_refusal_names_field_value_and_remedy(world):
    """As the user wrote it, whatever that was."""
    found = gang_views.find(world.engine, "team-a", "wrong")
    detail = gang_views.detail(world.engine, found, EVERYTHING, world.now)

    assert detail.refusal.value == HOSTILE
    assert "pack" in detail.refusal.remedy
    assert HOSTILE in detail.gang.message


def test_a_gang_with_an_end_says_when():
    """While it runs; then it is refused with the reason, without a place in the queue."""
    own = a_world(2)
    a_set(own, "train", 2, max_runtime=100.0)
    own.settle(1)
    detail = gang_views.detail(own.engine, own.record("train"), EVERYTHING, own.now)
    assert (detail.wishes.max_runtime, detail.ends_by) == (100.0, 100.0)

    own.settle(110)
    detail = gang_views.detail(own.engine, own.record("train"), EVERYTHING, own.now)
    assert (detail.gang.state, detail.gang.reason) == ("refused", Reason.RUNTIME_EXCEEDED)
    assert (detail.gang.position, detail.gang.forecast, detail.ends_by) == (None, None, None)
    assert detail.refusal.value == "1m40s"


def test_a_pod_alone_is_found_by_its_name(world):
    """And by the key that the list gives."""
    found = gang_views.find(world.engine, "team-a", "solo")

    assert gang_views.find(world.engine, *found.key) is found
    assert gang_views.find(world.engine, "team-b", "solo") is None


def test_forecasts_and_victims_are_shown_where_they_are_known(world):
    """A victim of another tenant is a number without a name."""
    huge, train = GangKey("team-b", "huge"), GangKey("team-a", "train")
    unit = Unit(
        train, Kind.GANG, (Uid("a"), Uid("b")), np.array([0, 1]), np.zeros((2, 1)), priority=3, lost=120.0
    )
    outlook = Outlook({huge: Estimate(130.0, 110.0, 190.0)}, lambda gang: [unit] if gang == huge else [])
    record = gang_views.find(world.engine, *huge)

    detail = gang_views.detail(world.engine, record, EVERYTHING, world.now, outlook)
    blind = gang_views.detail(world.engine, record, Sight(frozenset({"team-b"}), ALIAS), world.now, outlook)

    assert (detail.gang.forecast.middle, detail.gang.forecast.high) == (130.0, 190.0)
    assert [(v.gang, v.kind, v.pods, v.lost, v.way) for v in detail.victims] == [
        ("train", "gang", 2, 120.0, "evict")
    ]
    assert [(v.namespace, v.gang, v.pods, v.id) for v in blind.victims] == [(None, None, 2, ALIAS(train))]


def test_who_is_leaving_for_a_gang_is_told():
    """Room is being made: the gang waits in state freeing, and the pods that leave are named to whoever may read
    them.
    """
    own = World([a_node("n0", gpu=8)], POLICY)
    owner = an_owner("ReplicaSet", "low")
    own.submit(a_gang_of_pods("low", 2, gpu=4, namespace="team-a", owner=owner))
    own.settle(10)
    own.submit(a_gang_of_pods("high", 1, gpu=8, namespace="team-b", priority=100))
    own.watch()
    own.plan()

    record = gang_views.find(own.engine, "team-b", "high")
    detail = gang_views.detail(own.engine, record, EVERYTHING, own.now)
    blind = gang_views.detail(own.engine, record, Sight(frozenset({"team-b"}), ALIAS), own.now)
    waits = listed(own)

    assert (detail.gang.state, detail.gang.reason, detail.plan.step) == (
        "freeing",
        Reason.WAITING_FOR_PREEMPTION,
        "free",
    )
    assert {(row.namespace, row.pod, row.way) for row in detail.leaving} == {
        ("team-a", "low-0", "evict"),
        ("team-a", "low-1", "evict"),
    }
    assert [(row.namespace, row.pod) for row in blind.leaving] == [(None, None)] * 2
    assert "high" in by_name(waits.gangs)


def test_the_gang_that_a_gang_gave_way_to_is_told():
    """By name to people who may read that; to others by its number, with priority and time."""
    own = World([a_node("n0", gpu=8)], POLICY)
    owner = an_owner("ReplicaSet", "low")
    own.submit(a_gang_of_pods("low", 2, gpu=4, namespace="team-a", owner=owner))
    own.settle(10)
    low = gang_views.find(own.engine, "team-a", "low")
    assert gang_views.detail(own.engine, low, EVERYTHING, own.now).preempted is None
    own.api.grace = lambda _pod: 30.0
    own.submit(a_gang_of_pods("high", 1, gpu=8, namespace="team-b", priority=100))
    own.settle(1)

    told, blind = (
        gang_views.detail(own.engine, low, sight, own.now).preempted
        for sight in (EVERYTHING, Sight(frozenset({"team-a"}), ALIAS))
    )

    assert (told.namespace, told.gang, told.priority) == ("team-b", "high", 100)
    assert 10 <= told.at <= own.now
    assert (blind.namespace, blind.gang, blind.priority) == (None, None, 100)
    assert blind.id == ALIAS(GangKey("team-b", "high"))


def test_room_that_is_kept_for_the_first_is_told():
    """From when on; and of nobody else."""
    own = World([a_node(f"n{i}", gpu=8) for i in range(2)], POLICY)
    own.submit(a_gang_of_pods("runs", 1, gpu=8))
    own.settle(10)
    own.submit(a_gang_of_pods("first", 2, gpu=8))
    own.settle(10)
    own.submit(a_gang_of_pods("second", 2, gpu=8))
    own.settle(10)
    first, second = (
        gang_views.detail(own.engine, gang_views.find(own.engine, "default", name), EVERYTHING, own.now)
        for name in ("first", "second")
    )

    assert first.reserved_from is not None
    assert first.reserved_from > own.now
    assert second.reserved_from is None


def test_a_replica_that_looks_on_judges_nothing():
    """It says that it does not act; states and counts are there, reasons, messages and positions are not."""
    engine = Engine(POLICY)
    pods = [*a_gang_of_pods("train", 2, gpu=1), replace(a_pod("solo", gpu=1), node="a0-r0-n0", gated=False)]
    engine.observe(
        [*(ev.NodeSeen(node) for node in some_nodes()), *(ev.PodSeen(pod) for pod in pods), ev.Synced()], 0.0
    )

    found = at_once(gang_views.queue(engine, EVERYTHING, 10.0, ALL))

    assert found.acting is False
    assert [(r.name, r.state, r.reason, r.message, r.position) for r in found.gangs] == [
        ("train", "waiting", None, None, None)
    ]


def test_a_gang_that_goes_between_two_steps_is_left_out(world):
    """A view that is left between its steps meets a ledger that has changed, and does not mind."""
    crowd = a_scene()
    crowd.submit([a_pod(f"one-{number}", gpu=8, namespace="team-c") for number in range(40)])
    crowd.settle(5)
    steps = gang_views.gangs(crowd.engine, EVERYTHING, crowd.now, ALL)
    for _ in range(9):
        next(steps)
    for pod in list(crowd.api.pods.values()):
        crowd.api.remove(pod.key)
    crowd.watch()

    found = at_once(steps)

    assert found.total == 45
    assert 0 < len(found.gangs) < 45


def test_who_waits_in_vain_has_neither_place_nor_forecast():
    """Too large for the cluster, or for its ceiling alone: it waits behind the gangs that waiting helps."""
    shares = {"team-a": Share(ceiling=((GPU, 4),))}
    world = World([a_node("n0", gpu=8)], replace(POLICY, shares=shares))
    for name, count, namespace in (("huge", 9, "team-b"), ("greedy", 5, "team-a"), ("runs", 8, "team-b")):
        world.submit(a_gang_of_pods(name, count, gpu=1, namespace=namespace))
        world.settle(2)
    world.submit(a_gang_of_pods("waits", 4, gpu=1, namespace="team-b"))
    world.settle(5)
    soon = Estimate(world.now + 60, world.now + 30, world.now + 90)
    every = {record.key: soon for record in world.engine.ledger.pending.queue()}

    rows = listed(world, outlook=Outlook(every)).gangs
    greedy = gang_views.detail(
        world.engine, gang_views.find(world.engine, "team-a", "greedy"), EVERYTHING, world.now, Outlook(every)
    )

    assert [(row.name, row.position, row.reason, row.forecast is None) for row in rows] == [
        ("waits", 1, Reason.INSUFFICIENT_RESOURCES, False),
        ("huge", None, Reason.EXCEEDS_CLUSTER, True),
        ("greedy", None, Reason.QUOTA_EXCEEDED, True),
    ]
    assert (greedy.gang.position, greedy.gang.forecast) == (None, None)
    assert greedy.gang.message == (
        "The gang would exceed its namespace's ceiling: needs 5 of nvidia.com/gpu, above the ceiling of 4; "
        "waiting does not help"
    )


def test_a_start_that_has_passed_is_not_told(world):
    """What was foretold for a moment ago, and did not come, says nothing about when it comes."""
    record = gang_views.find(world.engine, "team-b", "huge")
    past = Outlook({record.key: Estimate(world.now - 8, world.now - 9, world.now - 1)})

    assert gang_views.detail(world.engine, record, EVERYTHING, world.now, past).gang.forecast is None


def test_a_gang_that_runs_has_no_start(world):
    """The forecast of a moment ago stays until the next one: it says nothing of a gang that has started since."""
    record = gang_views.find(world.engine, "team-a", "train")
    earlier = Outlook({record.key: Estimate(world.now + 60, world.now + 50, world.now + 90)})

    detail = gang_views.detail(world.engine, record, EVERYTHING, world.now, earlier)

    assert (detail.gang.state, detail.gang.forecast) == ("running", None)


def test_a_gang_that_runs_says_since_when(world):
    """From the time its quorum was bound; a gang that waits has not started."""
    rows = by_name(listed(world, gang_views.gangs).gangs)

    assert 0 <= rows["train"].started < world.now
    assert rows["huge"].started is None


def test_a_gang_that_is_over_leaves_the_lists_and_is_told_how_it_ended():
    """All of its pods have ended. One of which a pod lives stays in them."""
    world = World([a_node("n0", gpu=8)], POLICY)
    for name, count in (("done", 3), ("runs", 2)):
        world.submit(a_gang_of_pods(name, count, gpu=1))
    world.submit([a_pod("alone", gpu=1)])
    world.settle(30)
    ends = [Phase.SUCCEEDED, Phase.SUCCEEDED, Phase.FAILED]
    for pod, phase in zip(
        [*world.pods("done"), world.pods("runs")[0]], [*ends, Phase.SUCCEEDED], strict=True
    ):
        world.api.write(replace(world.api.pods[pod.key], phase=phase))
    (alone,) = (pod for pod in world.api.pods.values() if pod.key.name == "alone")
    world.api.write(replace(alone, phase=Phase.SUCCEEDED))
    world.settle(5)

    rows = listed(world, gang_views.gangs).gangs
    cluster = at_once(node_views.cluster(world.engine, world.now, "jane", {}))
    told = gang_views.detail(
        world.engine, gang_views.find(world.engine, "default", "done"), EVERYTHING, world.now
    ).gang

    assert [row.name for row in rows] == ["runs"]
    assert sum(cluster.gangs.values()) == 1
    assert (told.state, told.reason) == ("over", Reason.FINISHED)
    assert told.message == "All pods of the gang have finished: 2 succeeded, 1 failed"
    assert (told.members.present, told.members.needed, told.members.bound) == (0, 3, 2)


def test_the_devices_of_a_gang(world):
    """What its pods hold, and what they want with those that the quorum still lacks. CPUs are no devices."""
    rows = by_name(listed(world, gang_views.gangs).gangs)

    assert (rows["train"].devices_held, rows["train"].devices_wanted) == ({GPU: 16}, {GPU: 16})
    assert (rows["huge"].devices_held, rows["huge"].devices_wanted) == ({}, {GPU: 48})
    assert (rows["late"].devices_held, rows["late"].devices_wanted) == ({}, {GPU: 3})


def test_a_pod_that_leaves_is_not_wanted_twice():
    """As long as it has its place it counts there, and its successor is not missing yet."""
    own = World([a_node("n0", gpu=8)], POLICY)
    own.submit(a_gang_of_pods("train", 2, gpu=4, owner=an_owner()))
    own.settle(10)
    own.api.write(replace(own.pods("train")[0], deleting=True))
    own.watch()

    (row,) = listed(own, gang_views.gangs).gangs

    assert (row.devices_held, row.devices_wanted) == ({GPU: 8}, {GPU: 8})


def test_the_owner_and_the_age_of_a_gang():
    """Those of its first pod; the owner's name is hidden with the gang's, the age is a number."""
    own = World([a_node("n0", gpu=8)], POLICY)
    pods = a_gang_of_pods("train", 2, gpu=1, size=2)
    for pod, job in ((pods[1], "first"), (pods[0], "second")):
        own.settle(3)
        own.submit([replace(pod, owner=an_owner("Job", job))])
    own.settle(5)
    _, first = own.pods("train")

    (row,), (hidden,) = (listed(own, gang_views.gangs, sight).gangs for sight in (EVERYTHING, NOBODY))

    assert (row.owner, row.created) == ("Job/first", first.created)
    assert (hidden.owner, hidden.created, hidden.devices_held) == (None, first.created, {GPU: 2})


def test_the_gang_that_waits_for_its_victims_is_named_to_those_behind():
    """It has free nodes already: a gang without room hears for whom they are kept, and since when."""
    own = World([a_node("n0", gpu=8), a_node("n1", gpu=8)], POLICY)
    own.submit(a_gang_of_pods("low", 2, gpu=4, owner=an_owner("ReplicaSet", "low")))
    own.settle(10)
    own.api.grace = lambda _pod: 60.0
    own.submit(a_gang_of_pods("high", 2, gpu=8, namespace="team-b", priority=100))
    own.settle(5)
    own.submit(a_gang_of_pods("late", 1, gpu=8))
    own.settle(5)

    late, high = (gang_views.find(own.engine, *name) for name in (("default", "late"), ("team-b", "high")))
    told, blind = (
        gang_views.detail(own.engine, late, sight, own.now)
        for sight in (EVERYTHING, Sight(frozenset({"default"}), ALIAS))
    )

    assert (told.gang.reason, told.behind.namespace, told.behind.gang) == (
        Reason.INSUFFICIENT_RESOURCES,
        "team-b",
        "high",
    )
    assert 10 <= told.behind.start <= own.now
    assert (blind.behind.namespace, blind.behind.gang, blind.behind.id) == (None, None, told.behind.id)
    assert gang_views.detail(own.engine, high, EVERYTHING, own.now).behind is None
