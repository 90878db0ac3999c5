"""Waiting gangs of which none is like another: how many questions a pass takes, that each is still told what is true of
it, and that the order of the queue stays what it is.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scheduler.engine import Engine, equivalence, scheduling_queue, standing
from scheduler.engine.equivalence import Refused, Size, covers, size_of
from scheduler.engine.preemption_candidates import BLOCKED
from scheduler.engine.scheduling_queue import FIRST, ROUND
from scheduler.model import events as ev
from scheduler.model.cluster import Nomination
from scheduler.model.decision import Place, Reason, Wait
from scheduler.model.demand import Demand, Toleration
from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill
from scheduler.model.workload import GangKey, Phase, Pod, Strategy, Wish
from scheduler.placement import planner
from scheduler.placement.seating import describe
from scheduler.placement.standing_answers import StandingAnswers
from tests.engine.support.cast import a_gang_of_pods, with_membership
from tests.engine.support.stage import an_engine, runs
from tests.engine.support.untrue import untrue_answers
from tests.support.builders import RACK, a_demand, a_gang, a_node, a_role, a_snapshot, some_amounts

MANY = 1_000
GPUS = 4
NOW = 100.0
FREE = Policy(backfill=Backfill.FREE)
RESERVE = Policy(backfill=Backfill.RESERVE)


@pytest.fixture
def asked(monkeypatch) -> list[object]:
    """Everything that the planner was asked to seat."""
    found: list[object] = []
    decide = planner.decide

    def counted(snapshot, gang, *more):
        found.append(gang)
        return decide(snapshot, gang, *more)

    monkeypatch.setattr(planner, "decide", counted)
    return found


def a_queue(waits: Callable[[int], Pod], many: int = MANY, policy: Policy = FREE, *others: Pod) -> Engine:
    """A full node, and gangs that were each told to wait for it."""
    engine = an_engine(
        GPUS, policy, NOW, *map(runs, range(GPUS)), *(waits(number) for number in range(many)), *others
    )
    list(planned_out(engine, NOW))
    return engine


def planned_out(engine: Engine, now: float) -> Iterator[GangKey]:
    """Pass after pass, until all have been asked."""
    for question in engine.questions(now):
        engine.settle(question, engine.answer(question), now)
        yield question.gang.key


def a_pass(engine: Engine, now: float) -> list[GangKey]:
    """The gangs that are asked about in one pass, in order."""
    found = []
    while (question := engine.ask(now)) is not None:
        engine.settle(question, engine.answer(question), now)
        found.append(question.gang.key)
    return found


def one(name: str, number: int = 0, **needs) -> Pod:
    (pod,) = a_gang_of_pods(name, 1, created=float(number), **{"gpu": 2, **needs})
    return pod


def ends(engine: Engine, number: int, now: float) -> None:
    engine.observe([ev.PodSeen(replace(runs(number), phase=Phase.SUCCEEDED))], now)


def up(number: int) -> Pod:
    return one(f"w{number}", number, cpu=0.1 + number / 1000)


def down(number: int) -> Pod:
    return one(f"w{number}", number, cpu=2.1 - number / 1000)


def both_ways(number: int) -> Pod:
    """Of two of these each needs more of something than the other."""
    return one(f"w{number}", number, cpu=0.1 + number / 1000, memory=2 - number / 1024)


def alone(number: int, namespace: str = "default") -> Pod:
    """It says nothing about any other: no two of these may go to the same nodes by the same words."""
    pod = one(f"w{number}", number, namespace=namespace)
    tolerations = (Toleration(f"own-{number}", exists=True),)
    return replace(pod, demand=replace(pod.demand, tolerations=tolerations))


# ── what needs no less than what was refused ────────────────────────────────────────────────────────────


@pytest.mark.parametrize("waits", [up, down, both_ways])
@pytest.mark.parametrize("policy", [FREE, RESERVE])
def test_a_pass_over_unlike_gangs_takes_a_few_questions(asked, waits, policy) -> None:
    """Room came back that suffices for none of them: the least that all of them need is asked about once."""
    engine = a_queue(waits, MANY, policy)
    ends(engine, 0, 110.0)
    asked.clear()

    list(planned_out(engine, 110.0))

    assert len(asked) <= 12


def test_each_is_told_its_own_figures() -> None:
    """A gang that was not asked about is refused in its own words, at the room that there is now."""
    engine = a_queue(both_ways)
    ends(engine, 0, 110.0)
    list(planned_out(engine, 110.0))

    for record in engine.ledger.registry.gangs.values():
        if record.wanted is None:
            continue
        assert isinstance(record.verdict.decision, Wait)
        assert record.verdict.decision.shortfall is not None
        (role,) = record.wanted.roles
        assert record.verdict.decision.shortfall.demand == describe(role.demand)
        assert (record.verdict.decision.shortfall.needed, record.verdict.decision.shortfall.best) == (1, 0)
        assert record.verdict.room == engine.ledger.nodes.room_version


def test_the_first_that_fits_is_seated_and_not_the_least() -> None:
    """Room for two devices comes back; all need two, and those behind need less CPU than those before."""
    engine = a_queue(down)
    for number in (0, 1):
        ends(engine, number, 110.0)
    list(planned_out(engine, 110.0))

    assert {key.name for key, record in engine.ledger.registry.gangs.items() if record.plan} == {"w0"}


def test_one_that_fits_behind_those_that_do_not_is_found(asked) -> None:
    """In the middle of a thousand one gang needs one device: a few questions find it, and it alone is seated."""
    engine = a_queue(lambda number: one(f"w{number}", number, gpu=1) if number == 700 else down(number))
    ends(engine, 0, 110.0)
    asked.clear()
    list(planned_out(engine, 110.0))

    assert {key.name for key, record in engine.ledger.registry.gangs.items() if record.plan} == {"w700"}
    assert len(asked) <= 50


@pytest.mark.parametrize("needs", [1.0, 2.0])
def test_room_that_is_promised_to_a_gang_is_no_room_for_those_that_need_less(needs) -> None:
    """kube-scheduler nominates it for a node, so it has room where one that needs as much or less is refused."""
    mine = one("mine", 1, gpu=1, cpu=needs)
    engine = an_engine(GPUS, FREE, NOW, *map(runs, range(GPUS)), one("less", 0, gpu=1, cpu=1.0), mine)
    engine.plan(NOW)
    engine.observe([ev.PodSeen(replace(mine, nominated="n0"))], 110.0)
    ends(engine, 0, 110.0)

    engine.plan(110.0)

    assert {key.name for key, record in engine.ledger.registry.gangs.items() if record.plan} == {"mine"}


def test_a_reason_is_another_where_it_is_known_to_be() -> None:
    """That none of the room is reserved for another counts for more than that some is: it is sure of less."""
    refused = Refused()
    reserved, none = Wait(Reason.CAPACITY_RESERVED), Wait(Reason.INSUFFICIENT_RESOURCES)
    refused.add(Size(1, (1, 2)), reserved)
    assert refused.why(Size(1, (1, 2))) is reserved
    assert refused.why(Size(1, (1, 1))) is None
    assert refused.why(Size(2, (1, 2))) is None

    refused.add(Size(1, (1, 3)), none)
    assert refused.why(Size(1, (2, 2))) is reserved
    assert refused.why(Size(1, (2, 3))) is none


def test_refusals_are_bounded() -> None:
    """However many cover none of the others."""
    refused = Refused()
    for number in range(1_000):
        refused.add(Size(1, (number, 1_000 - number)), Wait(Reason.INSUFFICIENT_RESOURCES))
    assert sum(refused.why(Size(1, (n, 1_000 - n))) is not None for n in range(1_000)) == equivalence.LEAST


LEVELS = ("host", "rack", "area")


@st.composite
def a_pair(draw):
    """A cluster, and two gangs of which the second needs no less than the first."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    nodes = [
        a_node(
            f"n{number}",
            cpu=chance.randint(1, 8),
            memory=chance.randint(1, 8),
            gpu=chance.randint(number == 0, 4),
            rack=chance.choice(["r0", "r1", None]),
            area=chance.choice(["a0", "a1"]),
        )
        for number in range(chance.randint(1, 6))
    ]
    names = [node.name for node in nodes]
    used = {
        node.name: some_amounts(chance.randint(0, 4), chance.randint(0, 4), chance.randint(0, 2))
        for node in nodes
    }
    snapshot = a_snapshot(nodes, used=used)
    needs = snapshot.axis.vector(some_amounts(gpu=1))
    nominations = tuple(
        Nomination(chance.randrange(len(nodes)), chance.randint(-1, 1), needs)
        for _ in range(chance.randint(0, 2))
    )
    amounts = [chance.randint(1, 4), chance.randint(1, 2), chance.randint(1, 2), chance.randint(1, 2)]
    more = [amount + chance.choice([0, 0, 1, 2]) for amount in amounts]
    small, large = (
        a_gang(
            roles=(
                a_role("w", count, demand=a_demand(cpu, memory, gpu)),
                a_role("late", 0, surplus=chance.randint(0, 2), demand=a_demand(1)),
            ),
            strategy=strategy,
            level=level,
            required=required,
            priority=0,
            anchors=anchors,
            barred=barred,
        )
        for strategy, level, required, anchors, barred in [
            (
                chance.choice(list(Strategy)),
                chance.choice(LEVELS),
                chance.random() < 0.5,
                tuple(chance.sample(names, chance.choice([0, 0, 1]))),
                frozenset(chance.sample(names, chance.choice([0, 0, 1]))),
            )
        ]
        for count, cpu, memory, gpu in (amounts, more)
    )
    return replace(snapshot, nominations=nominations), small, large


@settings(max_examples=600)
@given(a_pair())
def test_what_is_refused_to_less_is_refused_to_more(case) -> None:
    """Whenever a size covers another, and the planner refuses that for room, it seats neither."""
    snapshot, small, large = case
    numbers: dict[object, int] = {}
    sizes = [size_of(gang, lambda kind: numbers.setdefault(kind, len(numbers))) for gang in (small, large)]
    assume(None not in sizes)
    less, more = sizes
    assert less is not None
    assert more is not None
    assert less.kind == more.kind
    assert covers(less.amounts, more.amounts)

    refused = planner.decide(snapshot, small, Policy())

    if isinstance(refused, Wait) and refused.reason in BLOCKED:
        assert not isinstance(planner.decide(snapshot, large, Policy()), Place)


def test_gangs_that_must_be_spread_evenly_do_not_compare() -> None:
    """Small members would be at home on the small node too, which is full: beside it none is even. Large ones are at
    home on the large node alone.
    """
    nodes = [a_node("small", cpu=2), a_node("large", cpu=8)]
    snapshot = a_snapshot(nodes, used={"small": some_amounts(cpu=2)})
    small, large = (a_gang(2, cpu=cpu, strategy="spread", level="host", required=True) for cpu in (2, 4))

    assert isinstance(planner.decide(snapshot, small, Policy()), Wait)
    assert isinstance(planner.decide(snapshot, large, Policy()), Place)
    assert size_of(small, hash) is size_of(large, hash) is None


def test_gangs_of_several_demands_do_not_compare() -> None:
    """Whether many demands fit together is searched for, and not always found."""
    roles = (a_role("ps", 1, demand=a_demand(1)), a_role("worker", 2, demand=a_demand(2)))
    assert size_of(a_gang(roles=roles), hash) is None


def a_story(seed: int, policy: Policy) -> tuple[list[set[str]], dict[str, Reason]]:
    """Room comes back bit by bit to gangs that are unlike: which are seated after each step, and why the others wait."""
    chance = random.Random(seed)
    waiting = [
        pod
        for number in range(25)
        for pod in a_gang_of_pods(
            f"w{number}",
            chance.randint(1, 3),
            gpu=chance.randint(1, 4),
            cpu=chance.randint(1, 9) / 3,
            memory=chance.randint(1, 4),
            created=float(number),
            namespace=chance.choice(["red", "blue"]),
            priority=chance.choice([0, 0, 0, 1]),
            wish={"runtime": chance.choice([10.0, 1_000.0])},
        )
    ]
    engine = an_engine(16, policy, NOW, *map(runs, range(16)), *waiting)
    list(planned_out(engine, NOW))
    steps = []
    for number in range(12):
        now = NOW + 10 * number
        ends(engine, number, now)
        list(planned_out(engine, now))
        steps.append({key.name for key, record in engine.ledger.registry.gangs.items() if record.plan})
    return steps, {
        key.name: record.verdict.decision.reason
        for key, record in engine.ledger.registry.gangs.items()
        if isinstance(record.verdict.decision, Wait)
    }


def _told(why: Reason) -> Reason:
    """Whether room would be there, were none reserved, is only known of a gang that was asked about itself."""
    return Reason.INSUFFICIENT_RESOURCES if why is Reason.CAPACITY_RESERVED else why


@pytest.mark.parametrize("backfill", Backfill)
@pytest.mark.parametrize("seed", range(20))
def test_the_same_are_seated_as_when_all_are_asked(monkeypatch, backfill, seed) -> None:
    """An answer without a question is the answer to the question, so the same gangs have their seats after each step."""
    policy = Policy(backfill=backfill)
    quick, whys = a_story(seed, policy)
    monkeypatch.setattr(equivalence, "size_of", lambda _gang, _number: None)
    monkeypatch.setattr(scheduling_queue, "FIRST", 1_000)
    slow, truly = a_story(seed, policy)

    assert quick == slow
    assert {name: _told(why) for name, why in whys.items()} == {
        name: _told(why) for name, why in truly.items()
    }


@pytest.mark.parametrize("event", ["rack", "came", "left"])
def test_none_is_asked_about_again_because_of_one_node(asked, event) -> None:
    """The rack of a node changes, or a full node comes or leaves: few of 100 gangs need a question to be told what is true."""
    nodes = {name: a_node(name, gpu=2, rack=f"r{name[-1]}") for name in map("n{:02}".format, range(40))}
    pods = [replace(runs(number), node=f"n{number // 2:02}") for number in range(80)]
    engine = Engine(FREE)
    engine.observe([ev.NodeSeen(node) for node in nodes.values()], NOW)
    waiting = [alone(number) for number in range(MANY // 10)]
    engine.observe([*map(ev.PodSeen, [*pods, *waiting]), ev.Synced(), ev.TookOver()], NOW)
    list(planned_out(engine, NOW))
    change = {
        "rack": ev.NodeSeen(replace(nodes["n02"], labels={**nodes["n02"].labels, RACK: "r7"})),
        "came": ev.NodeSeen(a_node("n99", cpu=0, gpu=2)),
        "left": ev.NodeGone("n02"),
    }[event]
    asked.clear()
    engine.observe([change], NOW + 1)
    list(planned_out(engine, NOW + 1))

    assert len(asked) <= 12
    assert untrue_answers(engine) == []


def test_answers_to_gangs_that_no_longer_wait_are_dropped(monkeypatch) -> None:
    """One gang waits at a time, each of another shape: only so many answers are kept."""
    monkeypatch.setattr(standing, "KEPT", 8)
    engine = a_queue(alone, 0)
    for number in range(40):
        pod = alone(number)
        engine.observe([ev.PodSeen(pod)], NOW + number)
        list(planned_out(engine, NOW + number))
        assert len(engine.cycle.standing.kept._shapes) <= 9
        engine.observe([ev.PodGone(pod.uid, pod.key)], NOW + number)


# ── turns ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_namespace_is_refused_so_many_a_pass(asked) -> None:
    """Those that say nothing about each other are asked about in turns; after enough passes all have been."""
    engine = an_engine(GPUS, FREE, NOW, *map(runs, range(GPUS)), *map(alone, range(200)))
    passes = []
    while found := a_pass(engine, NOW):
        passes.append(len(set(found)))

    assert max(passes) <= ROUND
    assert sum(passes) == 200
    assert a_pass(engine, NOW) == []


def test_one_of_another_namespace_is_asked_about_in_the_same_pass() -> None:
    """It stands behind a thousand of one namespace that are all unlike, and what it needs is free."""
    bob = one("bob", 5_000, gpu=1, namespace="bob")
    engine = a_queue(lambda number: alone(number, "eve"))
    ends(engine, 0, 110.0)
    engine.observe([ev.PodSeen(bob)], 110.0)

    found = a_pass(engine, 110.0)

    assert found.index(bob.membership.gang) <= ROUND
    assert len(found) <= 2 * ROUND + 1  # its seat is news, so the pass is followed by another
    assert engine.ledger.registry.gangs[GangKey("bob", "bob")].plan is not None


def test_each_has_its_turn_though_room_changes_all_the_time(monkeypatch) -> None:
    """Where counting does not tell: the first ones are asked about whenever room comes back, and the others by turns."""
    monkeypatch.setattr(StandingAnswers, "learn", lambda *_: None)
    many = 100
    engine = an_engine(
        64, FREE, NOW, *map(runs, range(63)), *(replace(alone(n), demand=_whole(n)) for n in range(many))
    )
    list(planned_out(engine, NOW))
    found: set[GangKey] = set()
    for number in range(-(-(many - FIRST) // (ROUND - FIRST)) + 1):
        ends(engine, number, NOW + number)
        heard = a_pass(engine, NOW + number)
        assert {key.name for key in heard} >= {f"w{first}" for first in range(FIRST)}
        found |= set(heard)

    assert len(found) == many


def _whole(number: int, gpu: int = 64) -> Demand:
    return replace(a_demand(gpu=gpu), tolerations=(Toleration(f"own-{number}", exists=True),))


def test_questions_about_victims_count_as_well() -> None:
    """Gangs that may make others leave ask twice in vain, for a seat and for room; both count."""
    waits = (replace(alone(number), priority=1, preempts=True) for number in range(100))
    stay = [replace(runs(number), priority=2) for number in range(GPUS)]
    low = replace(one("low", gpu=0), node="n0", gated=False, phase=Phase.RUNNING, bound_at=1.0)
    engine = an_engine(GPUS, FREE, NOW, *stay, low, *waits)

    found = a_pass(engine, NOW)

    assert len(found) <= ROUND + 1
    assert len(set(found)) < len(found)


# ── what stands in front ─────────────────────────────────────────────────────────────────────────────────


def eve(number: int) -> Pod:
    """Of one namespace, each unlike all others, and in need of the whole node."""
    pod = alone(number, "eve")
    return replace(pod, demand=_whole(number, GPUS))


def behind_eve(policy: Policy, seconds: float) -> str | None:
    """One of another namespace behind a hundred that all need the node whole: was it given the device that is free?"""
    bob = one("bob", 5_000, gpu=1, namespace="bob", wish={"runtime": seconds})
    full = [with_membership(runs(number), wish=Wish(expected_runtime=500.0)) for number in range(GPUS)]
    engine = an_engine(GPUS, policy, NOW, *full, *map(eve, range(100)))
    engine.plan(NOW)
    engine.observe([ev.PodSeen(replace(full[0], phase=Phase.SUCCEEDED)), ev.PodSeen(bob)], 110.0)
    a_pass(engine, 110.0)
    record = engine.ledger.registry.gangs[GangKey("bob", "bob")]
    return "seated" if record.plan else record.verdict.decision and record.verdict.decision.reason


def test_strictly_nothing_passes_those_who_wait() -> None:
    """Backfill `none`: the first is asked about, and nothing behind it."""
    assert behind_eve(Policy(backfill=Backfill.NONE), 1.0) is None


def test_behind_the_reservation_passes_what_leaves_in_time() -> None:
    """Backfill `reserve`: the first keeps its reservation, however many behind it have not had their turn."""
    assert behind_eve(RESERVE, 1.0) == "seated"
    assert behind_eve(RESERVE, 1e7) == Reason.CAPACITY_RESERVED


def test_freely_passes_what_fits() -> None:
    """Backfill `free`: whatever fits passes what does not."""
    assert behind_eve(FREE, 1e7) == "seated"


def test_strict_order_goes_before_turns() -> None:
    """Those at the head fit no node, each in its own way; the one behind them does not wait for many passes."""
    vain = (replace(pod, demand=_whole(n, 2 * GPUS)) for n, pod in enumerate(map(alone, range(100))))
    bob = one("bob", 5_000, gpu=1, namespace="bob")
    engine = an_engine(GPUS, Policy(backfill=Backfill.NONE), NOW, *vain, bob)

    a_pass(engine, NOW)

    assert engine.ledger.registry.gangs[GangKey("bob", "bob")].plan is not None


@pytest.mark.parametrize("policy", [FREE, RESERVE])
def test_one_that_fits_beside_many_that_do_not_is_asked_about_soon(asked, policy) -> None:
    """Hundreds want nodes whole that are half full, each with CPU of its own. A short pod ends, and one of another
    namespace comes that needs half a node.
    """
    nodes = [ev.NodeSeen(a_node(f"n{number}", cpu=64, gpu=8)) for number in range(4)]
    half = [
        replace(
            one(f"half{number}", gpu=4), node=f"n{number}", gated=False, phase=Phase.RUNNING, bound_at=1.0
        )
        for number in range(4)
    ]
    short = replace(half[0], uid="short", demand=a_demand(0.1))
    many = [one(f"w{n}", n, namespace="eve", gpu=8, cpu=1 + n / 1000) for n in range(600)]
    engine = Engine(policy)
    engine.observe([*nodes, *map(ev.PodSeen, [*half, short, *many]), ev.Synced(), ev.TookOver()], NOW)
    engine.plan(NOW)
    bob = one("bob", 5_000, namespace="bob", gpu=4)
    engine.observe([ev.PodSeen(replace(short, phase=Phase.SUCCEEDED)), ev.PodSeen(bob)], 110.0)
    asked.clear()

    found = a_pass(engine, 110.0)

    assert engine.ledger.registry.gangs[GangKey("bob", "bob")].plan is not None
    assert found.index(GangKey("bob", "bob")) <= 4
    assert len(asked) <= 16
