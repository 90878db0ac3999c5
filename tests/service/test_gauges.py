"""Gauges: what the ledger counted and the engine sees, as a scrape shows it."""

from collections import Counter

import pytest

from scheduler.engine import Engine
from scheduler.model import events as ev
from scheduler.model.decision import Quality
from scheduler.model.effects import Effect
from scheduler.model.policy import Policy
from scheduler.model.queueing import Share
from scheduler.model.workload import Pod, PodKey, Uid
from scheduler.service.gauges import Gauges
from scheduler.telemetry.metrics import Metrics
from tests.service.test_service import a_member, nodes
from tests.support.builders import GPU, a_demand


class Heard:
    """As much of a reflector as is shown."""

    def __init__(self, count: int, age: float) -> None:
        self.count = count
        self.age = age
        self.restarts: Counter[str] = Counter()

    def last_event_age(self, _now: float) -> float:
        return self.age


class World:
    """An engine on a clock of the test, and what a scrape says of it."""

    def __init__(self, *, acting: bool = True) -> None:
        self.engine = Engine(Policy())
        self.metrics = Metrics()
        self.reflectors = {"pods": Heard(3, 1.5), "podgroups": Heard(0, float("inf"))}
        self.gauges = Gauges(self.engine, self.metrics, self.reflectors)
        self.engine.observe([ev.Synced(), *([ev.TookOver()] if acting else [])], 0.0)

    def sees(self, *events: ev.Event, now: float = 0.0) -> list[Effect]:
        return self.engine.observe(events, now)

    def plan(self, now: float = 0.0) -> None:
        """Plan, and do all that follows."""
        effects = self.engine.plan(now)
        while effects:
            effects = self.sees(*map(ev.EffectDone, effects), now=now)

    def shows(self, name: str, now: float = 0.0, **labels: str) -> float | None:
        self.gauges.refresh(now)
        return self.metrics.registry.get_sample_value(f"gangwright_{name}", labels)

    def gangs(self, now: float = 0.0) -> dict[tuple[str, str], float]:
        self.gauges.refresh(now)
        return {
            (sample.labels["state"], sample.labels["reason"]): sample.value
            for family in self.metrics.gangs.collect()
            for sample in family.samples
        }


def bound(number: int, of: int) -> ev.PodSeen:
    pod = a_member(number, of).pod
    return ev.PodSeen(
        Pod(uid=pod.uid, key=pod.key, demand=pod.demand, scheduler=pod.scheduler, node="n0000",
            membership=pod.membership)
    )  # fmt: skip


def test_gangs_are_shown_by_state_and_reason():
    """A gang that misses a member gathers, a gang without room waits; a gang that left is no longer shown."""
    world = World()
    world.sees(*nodes(1, gpus=1), a_member(0, of=2))
    (gathering,) = world.gangs()
    world.sees(a_member(1, of=2))
    world.plan()
    (waiting,) = world.gangs()
    world.sees(*(ev.PodGone(Uid(f"u{i}"), PodKey("team", f"g-{i}")) for i in range(2)))

    assert gathering[1] == "MissingMembers"
    assert waiting[1] == "ExceedsCluster"
    assert waiting[0] != gathering[0]
    assert world.gangs() == {}


def test_a_replica_that_does_not_act_shows_no_gangs():
    """It judges nobody, so it neither counts gangs nor lets them wait; what it caches it shows."""
    world = World(acting=False)
    world.engine.ledger.take([*nodes(1), a_member(0, of=1)], 0.0)

    assert world.gangs(now=60.0) == {}
    assert world.shows("gang_oldest_wait_seconds", now=60.0) == 0
    assert world.shows("acting") == 0
    assert world.shows("cache_objects", resource="pods") == 3

    world.sees(ev.TookOver(), now=60.0)

    assert sum(world.gangs(now=61.0).values()) == 1
    assert world.shows("gang_oldest_wait_seconds", now=61.0) > 0
    assert world.shows("acting") == 1


def test_a_leader_that_may_do_nothing_does_not_act():
    """Its Lease ran out, or its picture is stale: an alert tells when that lasts."""
    world = World()
    world.sees(ev.LostSight(), now=1.0)
    assert world.shows("acting", now=1.0) == 0

    world.sees(ev.SawAgain(), now=2.0)
    assert world.shows("acting", now=2.0) == 1


def test_a_wait_begins_when_the_quorum_is_there():
    """A gang that gathers does not wait yet; what it waited is counted once, when its quorum is bound."""
    world = World()
    world.sees(*nodes(1, gpus=1), a_member(0, of=2))
    gathering = world.shows("gang_oldest_wait_seconds", now=50.0)
    world.sees(a_member(1, of=2), now=100.0)
    waiting = world.shows("gang_oldest_wait_seconds", now=130.0)
    world.sees(*nodes(1, gpus=8), now=130.0)
    world.plan(130.0)
    holds = world.shows("holds", now=130.0)
    world.sees(bound(0, 2), bound(1, 2), now=140.0)

    assert (gathering, waiting, holds) == (0, 30, 2)
    assert world.shows("gang_wait_seconds_count", now=141.0) == 1
    assert world.shows("gang_wait_seconds_sum", now=142.0) == 40
    assert world.shows("gang_oldest_wait_seconds", now=143.0) == 0
    assert world.shows("holds") == 0


def test_counters_grow_by_what_is_new():
    """Refreshing again counts nothing again; each reason and cause counts for itself."""
    world = World()
    tally = world.engine.ledger.counters
    tally.decisions["InsufficientResources"] += 2
    tally.pins_broken["refused"] += 1
    tally.reseats += 3
    world.gauges.refresh(0.0)
    tally.decisions["InsufficientResources"] += 1
    tally.reseats += 1

    assert world.shows("decisions_total", reason="InsufficientResources") == 3
    assert world.shows("decisions_total", reason="InsufficientResources") == 3
    assert world.shows("pins_broken_total", cause="refused") == 1
    assert world.shows("reseats_total") == 4


def test_placements_are_observed_once():
    """Alignment and span of each placement; a level at which nothing could be compared is left out."""
    world = World()
    world.engine.ledger.counters.placements.append(Quality({"rack": (3, 2), "area": (1, 0)}, 0.75))

    assert world.shows("alignment_sum") == 0.75
    assert world.shows("domains_spanned_ratio_sum", level="rack") == 1.5
    assert world.shows("domains_spanned_ratio_count", level="rack") == 1
    assert world.shows("domains_spanned_ratio_count", level="area") is None


def test_watches_are_shown_by_kind():
    """Age, count and restarts; a kind that was never heard has no age."""
    world = World()
    world.gauges.refresh(0.0)
    world.reflectors["pods"].restarts["closed"] += 2

    assert world.shows("watch_restarts_total", resource="pods", cause="closed") == 2
    assert world.shows("cache_age_seconds", resource="pods") == 1.5
    assert world.shows("cache_age_seconds", resource="podgroups") is None
    assert world.shows("cache_objects", resource="podgroups") == 0


def test_the_share_in_use_is_that_of_the_allocatable_amount():
    """Half the devices of the cluster are bound."""
    world = World()
    world.sees(*nodes(2), ev.PodSeen(
        Pod(uid=Uid("x"), key=PodKey("other", "x"), demand=a_demand(gpu=8), scheduler="default-scheduler",
            node="n0000")
    ))  # fmt: skip

    assert world.shows("resource_use_ratio", resource=GPU) == pytest.approx(0.5)


def test_fragmentation_is_of_the_demands_that_are_here():
    """One free device that a pod of two cannot use is a fragment; when nobody asks any more, nothing is."""
    world = World()
    world.sees(*nodes(2, gpus=3), a_member(0, of=2, gpus=3))
    usable = world.shows("fragmentation_ratio", resource=GPU)
    world.sees(ev.PodGone(Uid("u0"), PodKey("team", "g-0")), a_member(1, of=2, gpus=4))
    useless = world.shows("fragmentation_ratio", resource=GPU)
    world.sees(ev.PodGone(Uid("u1"), PodKey("team", "g-1")))

    assert (usable, useless) == (0, 1)
    assert world.shows("fragmentation_ratio", resource=GPU) == 0


SHARES = {"team": Share(((GPU, 2),), ((GPU, 8), ("cpu", 16_000))), "idle": Share(((GPU, 4),))}


def shares_of(world: World, name: str) -> dict[tuple[str, str], float]:
    world.gauges.refresh(0.0)
    return {
        (sample.labels["namespace"], sample.labels["resource"]): sample.value
        for family in getattr(world.metrics, f"share_{name}").collect()
        for sample in family.samples
    }


def test_shares_are_shown_by_namespace_and_resource():
    """Of namespaces and resources that `queue.shares` names, and no others; processors in cores."""
    world = World()
    world.sees(*nodes(1), bound(0, of=1), ev.PodSeen(
        Pod(uid=Uid("x"), key=PodKey("other", "x"), demand=a_demand(gpu=2), scheduler="gangwright", node="n0000")
    ))  # fmt: skip
    world.engine.observe([ev.PolicyChanged(Policy(shares=SHARES))], 0.0)
    gpus = a_member(0, of=1).pod.demand.requests
    used = dict(gpus)[GPU]

    assert shares_of(world, "used") == {
        ("team", GPU): used, ("team", "cpu"): pytest.approx(dict(gpus).get("cpu", 0) / 1000),
        ("idle", GPU): 0, ("idle", "cpu"): 0,
    }  # fmt: skip
    assert shares_of(world, "ceiling") == {("team", GPU): 8, ("team", "cpu"): 16}
    assert shares_of(world, "guaranteed")["idle", GPU] == 4
    assert shares_of(world, "borrowed")["team", GPU] == max(0, used - 2)


def test_what_waits_is_shown_until_it_is_placed():
    """A gang without room waits; one that is gone does not."""
    world = World()
    world.engine.observe([ev.PolicyChanged(Policy(shares=SHARES))], 0.0)
    world.sees(*nodes(1, gpus=1), a_member(0, of=1, gpus=3))
    world.plan()
    assert shares_of(world, "waiting")["team", GPU] == 3

    world.sees(ev.PodGone(Uid("u0"), PodKey("team", "g-0")))
    assert shares_of(world, "waiting")["team", GPU] == 0


def test_a_namespace_that_leaves_the_settings_leaves_the_metrics():
    """Its series end, and so do all of a replica that acts no more."""
    world = World()
    world.engine.observe([ev.PolicyChanged(Policy(shares=SHARES))], 0.0)
    assert {namespace for namespace, _ in shares_of(world, "used")} == {"team", "idle"}

    world.engine.observe([ev.PolicyChanged(Policy(shares={"idle": SHARES["idle"]}))], 0.0)
    assert shares_of(world, "used") == {("idle", GPU): 0}
    assert shares_of(world, "ceiling") == {}

    world.engine.ledger.acting = False
    assert shares_of(world, "used") == {}
