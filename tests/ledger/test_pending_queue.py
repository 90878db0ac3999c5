"""The queue, against a list that is sorted anew each time."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.scheduling_queue import Pass
from scheduler.ledger.gang import GangRecord
from scheduler.ledger.pending_queue import REORDER, PendingQueue
from scheduler.model.queueing import Waiting
from scheduler.model.workload import GangKey
from tests.support.builders import a_gang

PATIENCE = 30.0
SPACES = ("a", "b", "c")


class World:
    """A queue by weight of namespace, in which who has waited for PATIENCE goes first."""

    def __init__(self) -> None:
        self.now = 0.0
        self.weights = dict.fromkeys(SPACES, 0)
        self.told = dict(self.weights)
        self.records: dict[GangKey, tuple[GangRecord, Waiting]] = {}
        self.queue = PendingQueue(self)

    def turn(self, waiting: Waiting, now: float) -> tuple[object, ...]:
        aged = now >= waiting.arrived + PATIENCE
        key = waiting.gang.key
        return (not aged, 0 if aged else self.told[key.namespace], waiting.arrived, key)

    def ages_at(self, waiting: Waiting) -> float:
        return waiting.arrived + PATIENCE

    def group(self, waiting: Waiting) -> str:
        return waiting.gang.key.namespace

    def shifted(self, turn: tuple[object, ...], by: float) -> tuple[object, ...]:
        return (*turn[:1], by, *turn[2:]) if turn[0] else turn

    def at_once(self, _queued: int) -> bool:
        return False

    def moved(self, _groups: object) -> dict[str, float]:
        found = {name: weight for name, weight in self.weights.items() if self.told[name] != weight}
        self.told = dict(self.weights)
        return found

    def comes(self, key: GangKey, *, again: bool) -> None:
        """again: another gang of this name, if there is one."""
        record, waiting = self.records.get(key, (None, None))
        if record is None or again:
            record = GangRecord(key)
        waiting = waiting or Waiting(replace(a_gang(), key=key), self.now)
        self.records[key] = record, waiting
        self.queue.note(record, waiting, self.now)

    def goes(self, key: GangKey) -> None:
        self.records.pop(key, None)
        self.queue.strike(key)

    def check(self) -> None:
        """After everybody was looked at: in order, everybody once, and nobody else."""
        self.now += REORDER
        self.queue.reorder(self.now)
        naive = sorted(self.records.values(), key=lambda own: self.turn(own[1], self.now))
        assert [id(record) for record in self.queue.queue()] == [id(record) for record, _ in naive]
        assert self.queue.waiting() == [waiting for _, waiting in naive]


KEYS = st.builds(GangKey, st.sampled_from(SPACES), st.sampled_from([f"g{number}" for number in range(12)]))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("comes"), KEYS, st.booleans()),
        st.tuples(st.just("goes"), KEYS),
        st.tuples(st.just("weighs"), st.sampled_from(SPACES), st.integers(0, 3)),
        st.tuples(st.just("waits"), st.sampled_from((0.5, REORDER, PATIENCE))),
        st.tuples(st.just("looks")),
    ),
    max_size=60,
)


@pytest.mark.slow
@settings(max_examples=400)
@given(STEPS)
def test_the_queue_is_in_order_whatever_happened(steps):
    """Gangs come, go, are another one of the same name; namespaces gain and lose; time passes; some look in between."""
    world = World()
    for step in steps:
        match step:
            case ("comes", key, again):
                world.comes(key, again=again)
            case ("goes", key):
                world.goes(key)
            case ("weighs", name, weight):
                world.weights[name] = weight
                for key in [key for key in world.records if key.namespace != name]:
                    world.comes(key, again=False)  # others are looked at for reasons of their own
            case ("waits", seconds):
                world.now += seconds
            case _:
                world.queue.reorder(world.now)
                world.queue.queue()
    world.check()


def test_who_reads_the_queue_reads_it_to_its_end():
    """A list that was given is not changed by what happens while it is read."""
    world = World()
    for name in "xyz":
        world.comes(GangKey("a", name), again=False)
    read = [record.key.name for record in world.queue.queue() if world.goes(record.key) is None]

    assert read == ["x", "y", "z"]
    assert list(world.queue.queue()) == []


def test_the_version_changes_with_the_order():
    """Who was asked about in another order has to be asked again; who was not, has not."""
    world = World()
    for namespace in "ab":
        world.comes(GangKey(namespace, "x"), again=False)
    world.queue.reorder(world.now)
    before = world.queue.version
    world.queue.reorder(REORDER)
    assert world.queue.version == before
    world.weights["a"] = 1
    world.queue.reorder(2 * REORDER)
    assert world.queue.version > before
    assert [record.key.namespace for record in world.queue.queue()] == ["b", "a"]


class Asked:
    """A pass, and beside it one that looks at everybody each time. Gangs are open until they are asked about."""

    def __init__(self) -> None:
        self.world = World()
        self.passes = [Pass(), Pass()]
        self.open: set[GangKey] = set()
        self.late: set[GangKey] = set()
        """Who was there and opened since the pass began: perhaps behind where it had come to."""
        self.began: int | None = None
        """How often places were worked out anew before this pass; None: none is on."""
        self.room = 0
        self.looks = 0

    def comes(self, key: GangKey) -> None:
        if key in self.world.records:
            self.late.add(key)
        self.open.add(key)
        self.world.comes(key, again=False)

    def goes(self, key: GangKey) -> None:
        self.world.goes(key)
        self.open.discard(key)

    def opens(self, key: GangKey) -> None:
        """Something of this gang alone is new."""
        if key in self.world.records:
            self.open.add(key)
            self.late.add(key)
            self.world.queue.touch(self.world.records[key][0])

    def weighs(self, name: str, weight: int) -> None:
        """Gangs of this namespace have another turn, as soon as that is asked for."""
        self.world.weights[name] = weight

    def waits(self, seconds: float) -> None:
        self.world.now += seconds

    def grows(self) -> None:
        """Everybody may be seated now."""
        self.room += 1
        self.open |= set(self.world.records)

    def first_open(self, records: Iterable[GangRecord]) -> GangRecord | None:
        for record in records:
            self.looks += 1
            if record.key in self.open:
                return record
        return None

    def next(self) -> GangRecord | None:
        """Both say the same; who looks at everybody is asked first, since the other one forgets who was touched."""
        queue, (sparing, thorough) = self.world.queue, self.passes
        if self.began is None:
            self.began, self.late = queue.rekeyed, set()
        queue.reorder(self.world.now)
        touched = dict(queue.touched)
        thorough.doubt()
        every = thorough.next(queue, self.room, (), self.first_open)
        queue.touched = touched
        self.looks = 0
        found = sparing.next(queue, self.room, self.room, self.first_open)
        assert (found and found.key) == (every and every.key)
        if found is not None:
            self.open.discard(found.key)
            queue.touch(found)
        else:
            assert self.began != queue.rekeyed or self.open <= self.late
            self.began = None
        return found

    def to_the_end(self) -> None:
        """The pass that is on, or a new one, until nobody is found any more."""
        while self.next() is not None:
            pass


@pytest.mark.slow
@settings(max_examples=400)
@given(
    st.integers(0, 12),
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(("comes", "goes", "opens")), KEYS),
            st.tuples(st.just("weighs"), st.sampled_from(SPACES), st.integers(0, 3)),
            st.tuples(st.just("waits"), st.sampled_from((0.5, REORDER, PATIENCE))),
            st.just(("grows",)),
            st.just(("asks",)),
            st.just(("asks",)),
        ),
        max_size=80,
    ),
)
def test_a_pass_finds_whoever_a_look_at_everybody_finds(crowd, steps):
    """In the same order, whatever happens between two questions. A pass leaves open nobody but who opened meanwhile;
    one in which places were worked out anew may end early, and the next one leaves nobody.
    """
    asked = Asked()
    for number in range(crowd):
        asked.comes(GangKey(SPACES[number % len(SPACES)], f"g{number}"))
    for name, *about in steps:
        getattr(asked, "next" if name == "asks" else name)(*about)
    asked.to_the_end()
    asked.to_the_end()
    assert not asked.open


def test_a_pass_that_ends_early_is_made_good_by_the_next():
    """Half of them are asked about when all come of age, which gives every place another name: nobody is found any
    more, and the next pass begins with whoever was left.
    """
    asked = Asked()
    for number in range(10):
        asked.comes(GangKey("a", f"g{number}"))
    asked.waits(0.5)
    for _ in range(5):
        asked.next()
    asked.waits(PATIENCE)

    assert asked.next() is None
    assert len(asked.open) == 5
    asked.to_the_end()
    assert not asked.open


def test_a_pass_costs_what_has_changed():
    """After everybody was looked at once, only who came, or was touched, and the head are looked at."""
    asked = Asked()
    for number in range(100):
        asked.comes(GangKey("a", f"g{number:03}"))
    for _ in range(2):
        asked.to_the_end()
    asked.comes(GangKey("a", "late"))
    asked.opens(GangKey("a", "g050"))

    assert [asked.next().key.name, asked.looks] == ["g050", 1]
    asked.next()
    assert asked.looks < 10
    assert asked.next() is None
    assert asked.looks < 10


def test_who_is_first_is_asked_again_before_the_pass_goes_on() -> None:
    """Room came back in the middle of a pass: nobody younger overtakes a gang at the head that it may do for."""
    asked = Asked()
    keys = [GangKey("a", name) for name in "bcd"]
    for key in keys:
        asked.comes(key)
    first, second = asked.next(), asked.next()
    assert first is not None
    assert second is not None
    asked.grows()
    third = asked.next()
    assert third is not None
    assert (third.key, second.key) == (first.key, keys[1])
