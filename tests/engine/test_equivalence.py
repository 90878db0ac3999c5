"""Which gangs are worth a question, by a quick look at the whole queue and by the rules."""

import random
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.equivalence import Candidacy, KnownAnswers, Size
from scheduler.engine.preemption_candidates import BLOCKED
from scheduler.ledger.gang import GangRecord
from scheduler.ledger.gang_parts import UNASKED, Backoff, ObservedRun
from scheduler.ledger.runtimes import Reach
from scheduler.ledger.verdict import Verdict
from scheduler.model.decision import LASTING, Reason, Shortfall, Wait
from scheduler.model.workload import GangKey
from tests.engine.support.cast import a_gang_of_pods
from tests.engine.support.stage import a_world
from tests.ledger.support.invariants import broken
from tests.support.builders import a_gang

T = TypeVar("T")

NOW = 100.0
FENCE, SPARE = 3, 50.0
REASONS = (
    Reason.INSUFFICIENT_RESOURCES,
    Reason.TOPOLOGY_UNSATISFIED,
    Reason.EXCEEDS_CLUSTER,
    Reason.CAPACITY_RESERVED,
)
WAITS = [Wait(reason) for reason in REASONS]
FRONT = GangKey("red", "front")
BEHIND = [Wait(Reason.QUEUED, behind=FRONT), Wait(Reason.QUEUED, behind=GangKey("red", "then"))]
NAMESPACES = ("red", "blue")
WANTED = {priority: a_gang(priority=priority) for priority in (0, 5)}
OTHER = a_gang(priority=0)
LONGEST = {"red": 20.0, "blue": 80.0}
"""Seconds, as far as anybody knows by now; a record may remember them, or nobody has asked since it was looked at."""


class Dice:
    """Throws that depend on a seed alone: a strategy for each field would take far longer than the test."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def one_of(self, *things: T) -> T:
        return self._random.choice(things)

    def mostly(self, usual: T, *odd: T) -> T:
        """One of the odd ones now and then: whoever is odd in everything is like nobody else."""
        return self.one_of(*odd) if self._random.random() < 0.1 else usual

    def record(self, number: int) -> GangRecord:
        wanted = self.mostly(WANTED[0], WANTED[5], None)
        namespace, fresh = self.one_of(*NAMESPACES), self.one_of(True, False)
        return GangRecord(
            GangKey(namespace, f"g{number}"),
            wanted=wanted,
            order=(number,),
            backoff=Backoff(not_before=self.mostly(0.0, NOW, NOW + 1)),
            verdict=Verdict(
                decision=self.mostly(self.one_of(*WAITS), None, *BEHIND),
                request=self.mostly(wanted, OTHER),
                fence=self.one_of(0, FENCE - 1, FENCE),
                room=self.one_of(6, 7),
                version=self.one_of(1, 2),
                victims_version=self.one_of(8, 9),
                until=self.mostly(float("inf"), NOW, NOW + 1),
                shape=self.mostly(self.one_of(0, 1), None, 2),
            ),
            observed=ObservedRun(reach=Reach(LONGEST[namespace]) if fresh else self.one_of(UNASKED, Reach())),
            pulse=4,
        )


@dataclass
class Scene:
    """Records in the order of the queue, and what holds for all of them."""

    queue: list[GangRecord]
    fence: int
    before: int
    above: float
    first: int | None
    only: int | None
    marked: list[GangKey] = field(default_factory=list)

    def sieve(self) -> Candidacy:
        known = [{shape: WAITS[(shape + skip) % 4] for shape in (0, 1)} for skip in range(3)]
        told = [KnownAnswers(own.copy) for own in known]
        for own, reason in zip(
            told,
            (Reason.INSUFFICIENT_RESOURCES, Reason.TOPOLOGY_UNSATISFIED, Reason.CAPACITY_RESERVED),
            strict=True,
        ):
            own.refused.add(Size(0, (2,)), Wait(reason))
        return Candidacy(
            now=NOW,
            only=None if self.only is None else self.queue[self.only],
            first=None if self.first is None else self.queue[self.first],
            fence=self.fence,
            order=(self.before,),
            spare=SPARE,
            above=self.above,
            room=7,
            version=2,
            victims_version=9,
            told=told[0],
            told_behind=told[1] if self.fence else told[0],
            told_short=told[2],
            sizes={shape: Size(0, (shape,)) for shape in (1, 2)},
            highest=5,
            longest=lambda record: LONGEST[record.key.namespace],
            may_try=lambda record, _now: record.verdict.shape == 1,
            mark=self.marked.append,
            has_turn=lambda _record: True,
            before=lambda record: FRONT if record.key.namespace == "red" else None,
            is_over=lambda gang: gang.priority == 5,
        )


def a_scene(seed: int) -> Scene:
    dice = Dice(seed)
    count = dice.one_of(*range(2, 13))
    return Scene(
        [dice.record(number) for number in range(count)],
        fence=dice.one_of(0, FENCE, FENCE),
        before=dice.mostly(-1, 0, 1, count),
        above=dice.mostly(0.0, float("-inf"), float("inf")),
        first=dice.one_of(None, *range(count)),
        only=dice.mostly(None, 0, count - 1),
    )


def opened(sieve: Candidacy, record: GangRecord) -> bool:
    """Whether this gang is open, rule by rule, with nothing kept at hand. It is told what is known, as by `open`."""
    wanted, own = record.wanted, record.verdict
    if wanted is None or record.backoff.not_before > sieve.now:
        return False
    if sieve.only is not None and record is not sieve.only:
        return False
    if sieve.only is None and isinstance(own.decision, Wait) and own.decision.reason is Reason.QUEUED:
        first = sieve.before(record)
        if first is not None and own.decision.behind != first:
            sieve.mark(record.key)
        if first is not None:
            said = Wait(Reason.QUEUED, behind=first) if own.decision.behind != first else None
            own.wait_unasked(said, wanted, sieve.room)
        return first is None
    if own.request is not wanted:
        return True
    fence = sieve.fence if sieve.fence and record.order > sieve.order else 0
    takes = wanted.priority > sieve.above and sieve.may_try(record, sieve.now)
    if own.decision is not None and own.decision.reason in LASTING:
        return own.version != sieve.version
    if own.fence == fence and own.room == sieve.room and own.until > sieve.now:
        return takes and own.victims_version != sieve.victims_version
    if own.shape is None or own.until <= sieve.now or record is sieve.first or takes:
        return True
    remembered = record.observed.reach.high
    short = fence > 0 and (sieve.longest(record) if remembered is None else remembered) <= sieve.spare
    told = sieve.told_short if short else sieve.told_behind if fence else sieve.told
    known = told.alike.get(own.shape) or less(sieve, record, told)
    known = None if sieve.is_over is not None and sieve.is_over(wanted) else known
    if known is not None:
        if own.decision is None or own.decision.reason is not known.reason:
            sieve.mark(record.key)
        own.copy_answer(known, room=sieve.room, fence=fence, short=short)
    return known is None


def less(sieve: Candidacy, record: GangRecord, told: KnownAnswers) -> Wait | None:
    """What is known of a gang that needs no less than one that was refused, in its own figures."""
    size, own = sieve.sizes.get(record.verdict.shape), record.verdict.decision
    refused = None if size is None else told.refused.why(size)
    blocked = isinstance(own, Wait) and own.reason in BLOCKED and record.verdict.version == sieve.version
    if refused is None or not blocked:
        return None
    if refused.reason is Reason.CAPACITY_RESERVED and own.reason is not Reason.CAPACITY_RESERVED:
        return own
    same = (refused.reason, refused.held_for) == (own.reason, own.held_for)
    return own if same else Wait(refused.reason, own.shortfall, held_for=refused.held_for)


@settings(max_examples=500)
@given(st.integers(0, 2**32).map(a_scene))
def test_the_queue_is_looked_at_as_gang_by_gang(scene: Scene) -> None:
    """The gangs that are open are those that the rules name, and every other is told what the rules say."""
    other = replace(scene, queue=[record.copy() for record in scene.queue], marked=[])
    rules = other.sieve()

    found = [record.key for record in scene.sieve().open(scene.queue)]

    assert found == [record.key for record in other.queue if opened(rules, record)]
    assert scene.queue == other.queue
    assert scene.marked == other.marked


def test_who_is_like_another_is_told_the_same() -> None:
    """It is not asked about, and people hear of it when the reason is another."""
    record = GangRecord(
        GangKey("red", "g"), wanted=WANTED[0], order=(1,), verdict=Verdict(WAITS[1], WANTED[0])
    )
    record.verdict.shape, record.verdict.room = 0, 6
    scene = Scene([record], fence=0, before=0, above=float("inf"), first=None, only=None)

    assert scene.sieve().first_open([record]) is None
    assert (record.verdict.decision, record.verdict.room, scene.marked) == (WAITS[0], 7, [record.key])


def test_a_gang_that_needs_no_less_is_told_in_its_own_figures() -> None:
    """Less was refused: it is not asked about, people hear of another reason, and the figures stay its own."""
    own = Shortfall(1, "2 cpu", "host", "", 0, {"resources": 4})
    record = GangRecord(GangKey("red", "g"), wanted=WANTED[0], order=(1,), verdict=Verdict(request=WANTED[0]))
    record.verdict.decision, record.verdict.shape, record.verdict.version = (
        Wait(Reason.CAPACITY_RESERVED, own),
        2,
        2,
    )
    scene = Scene([record], fence=0, before=0, above=float("inf"), first=None, only=None)

    assert scene.sieve().first_open([record]) is None
    assert (record.verdict.decision, record.verdict.room, scene.marked) == (
        Wait(Reason.INSUFFICIENT_RESOURCES, own),
        7,
        [record.key],
    )


def test_a_gang_that_needs_no_less_is_told_for_which_gang_room_is_held_now() -> None:
    """The room that it waits for was held for another gang when it was asked about itself."""
    scene = Scene([], fence=0, before=0, above=float("inf"), first=None, only=None)
    sieve, now = scene.sieve(), Wait(Reason.CAPACITY_RESERVED, held_for=GangKey("red", "now"))
    record = GangRecord(GangKey("red", "g"), wanted=WANTED[0], order=(1,), verdict=Verdict(request=WANTED[0]))
    record.verdict.decision = Wait(Reason.CAPACITY_RESERVED, held_for=GangKey("red", "then"))
    record.verdict.shape, record.verdict.version = 2, 2
    told = KnownAnswers()
    told.refused.add(Size(0, (1,)), now)

    assert replace(sieve, told=told).first_open([record]) is None
    assert record.verdict.decision == now


def test_a_gang_that_was_asked_about_on_other_nodes_is_asked_about_again() -> None:
    """It may fit none of these, however much of them is free, and is to be told so."""
    record = GangRecord(GangKey("red", "g"), wanted=WANTED[0], order=(1,), verdict=Verdict(request=WANTED[0]))
    record.verdict.decision, record.verdict.shape, record.verdict.version = (
        Wait(Reason.INSUFFICIENT_RESOURCES),
        2,
        1,
    )
    scene = Scene([record], fence=0, before=0, above=float("inf"), first=None, only=None)

    assert scene.sieve().first_open([record]) is record


def test_another_reason_is_announced_to_everybody_it_is_true_for() -> None:
    """Room comes that is kept for the first gang: none of ten alike behind it is asked about, and all hear of it at once."""
    world = a_world(4)
    for name, count, runtime in (("half", 2, 100.0), ("quarter", 1, 100.0), ("first", 4, 50.0)):
        world.submit(a_gang_of_pods(name, count, gpu=1, wish={"runtime": runtime}))
        world.settle(3)
    alike = [f"g{number}" for number in range(10)]
    for name in alike:
        world.submit(a_gang_of_pods(name, 2, gpu=1, wish={"runtime": 500.0}))
    world.settle(20)
    before = {world.announced(name)[-1][1].reason for name in alike}
    looked = {name: world.record(name).pulse for name in alike}
    world.api.delete(world.pods("quarter")[0].key)
    world.settle(2)

    assert before == {Reason.INSUFFICIENT_RESOURCES}
    assert len({world.record(name).pulse - looked[name] for name in alike}) == 1
    assert broken(world.engine.ledger) == []
    assert {world.announced(name)[-1][1].reason for name in alike} == {Reason.CAPACITY_RESERVED}
