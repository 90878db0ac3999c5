"""Gangs that are alike get one answer: which of those that wait are worth a question.

A shape is all of a gang that decides its placement, as a number: it is compared for every gang in every pass, and to hash
a gang's demands takes ten times as long. kube-scheduler and Kueue call gangs of one shape an equivalence class.

A gang that needs no less than one that was refused for room is refused too. The nodes that a gang may have hold so many
members of its demand, in one domain where the level is required, else in all. A node holds no more members of a demand
that asks for more of anything. So at the same nodes, domains and priority a gang of no fewer members, each of which needs
no less, finds no more room. Gangs of several demands do not compare, nor gangs that must be spread evenly. The least that
many gangs ask for, resource by resource, is asked about like a gang: where even that is refused, all of them are.

Lives here: shapes, what was answered to each, what was refused, and the look at those that wait. Never here: when to ask (cycle), or how the answer is worked out (planning).
"""

import operator
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeAlias

from scheduler.engine.preemption_candidates import BLOCKED
from scheduler.ledger.gang import GangRecord
from scheduler.model.decision import LASTING, Reason, Wait
from scheduler.model.workload import Gang, GangKey, Role, Strategy, Uid

LEAST: Final = 16
"""Refusals remembered of one kind, of which none covers another; the oldest goes first."""

ALL: Final = 1 << 20
"""Gangs that one such request stands for at first: more than any queue has."""

Amounts: TypeAlias = tuple[int, ...]
"""Members of the quorum, then what each member requests of each resource."""


class Size(NamedTuple):
    """How much a gang asks for. Sizes of one kind compare; kinds are numbers, because they are hashed so often."""

    kind: int
    amounts: Amounts


def size_of(gang: Gang, number: Callable[[Hashable], int]) -> Size | None:
    """None: whether this gang fits says nothing about others.

    number: a number of its own for all that decides about a gang's seats beside the amounts.
    """
    role = _only(gang)
    if role is None or (gang.required and gang.strategy is Strategy.SPREAD):
        return None
    demand = role.demand
    names = tuple(name for name, _ in demand.requests)
    how = (gang.strategy, gang.level, gang.required, gang.priority, gang.anchors, gang.barred)
    kind = (names, demand.where, demand.ports, how)
    return Size(number(kind), (len(role.quorum), *(amount for _, amount in demand.requests)))


def shrunk(gang: Gang, amounts: Amounts) -> Gang:
    """A gang of this one's kind that asks for these amounts, and for no surplus. Only to ask about, never to seat."""
    role = _only(gang)
    if role is None:
        return gang
    names = (name for name, _ in role.demand.requests)
    demand = replace(role.demand, requests=tuple(zip(names, amounts[1:], strict=True)))
    members = tuple(Uid(str(number)) for number in range(amounts[0]))
    return replace(gang, roles=(Role("", demand, members),))


def _only(gang: Gang) -> Role | None:
    """The one role with a quorum."""
    found = [role for role in gang.roles if role.quorum]
    return found[0] if len(found) == 1 else None


class Refused:
    """What was refused for room since there is so much, by kind: sizes of which none covers another."""

    def __init__(self) -> None:
        self._found: dict[int, list[tuple[Amounts, Wait]]] = {}
        self._reach: dict[int, int] = {}

    def add(self, size: Size, wait: Wait) -> None:
        """wait: the answer. The reason RESERVED says that there would be room, were none of it kept."""
        own = size.amounts
        kept = [
            (amounts, other)
            for amounts, other in self._found.get(size.kind, ())
            if not (covers(own, amounts) and other.reason in {wait.reason, Reason.CAPACITY_RESERVED})
        ]
        self._found[size.kind] = [*kept, (own, wait)][-LEAST:]

    def why(self, size: Size) -> Wait | None:
        """What was answered to a gang that needs no more than this size; None: nothing says that it is refused.
        RESERVED only where no more is known.
        """
        found, own = None, size.amounts
        for amounts, wait in self._found.get(size.kind, ()):
            if all(map(operator.le, amounts, own)):  # `covers`, spelled out: asked for every gang of a pass
                if wait.reason is not Reason.CAPACITY_RESERVED:
                    return wait
                found = wait
        return found

    def reach(self, kind: int) -> int:
        """How many gangs of the queue the next request for the least stands for."""
        return self._reach.get(kind, ALL)

    def ask_for_the_least(
        self, kind: int, gangs: int, sizes: Iterable[Size | None], ask: Callable[[Amounts], Wait | None]
    ) -> None:
        """Ask about the least of each that these sizes of the kind need, but for those that are known to be refused.

        gangs: how many it stands for. The next request stands for more where this one is refused, else for fewer.
        ask: the refusal of these amounts, if they are refused.
        """
        found = [own.amounts for own in sizes if own and own.kind == kind and self.why(own) is None]
        hopeless = len(found) <= 1  # to ask about that one itself costs no more
        if not hopeless:
            amounts = tuple(map(min, zip(*found, strict=True)))
            if (wait := ask(amounts)) is not None:
                self.add(Size(kind, amounts), wait)
                hopeless = True
        self._reach[kind] = min(ALL, 2 * gangs) if hopeless else max(1, gangs // 2)


def covers(small: Amounts, large: Amounts) -> bool:
    """A gang that cannot have the small one cannot have the large one."""
    return all(map(operator.le, small, large))


KEPT: Final = 1024
"""Shapes numbered, or four times as many as gangs wait. Then numbering starts over above all numbers that were given, and
no gang is answered by an old one. A shape of a torn gang names every node on which it has a member."""

KINDS: Final = 4096
"""Kinds of gangs remembered for which no pod's leaving makes room; then each is asked about once more."""


@dataclass(frozen=True, slots=True)
class KnownAnswers:
    """What is known without a question: the answers by shape, and what was refused to less."""

    alike: dict[int, Wait] = field(default_factory=dict)
    refused: Refused = field(default_factory=Refused)


class Shapes:
    """Numbers for shapes, and the answers that are still true."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._next = 0
        self._sizes: dict[int, Size] = {}
        self._kinds: dict[Hashable, int] = {}
        self._answers: defaultdict[tuple[int, bool], KnownAnswers] = defaultdict(KnownAnswers)
        self._fence = 0
        """The newest fence: older ones are no more, and no gang is answered by what was answered under them."""
        self._no_room: set[Hashable] = set()
        self._no_room_at: Hashable = None
        self._at: tuple[int, int] = (-1, -1)

    def number(self, gang: Gang, waiting: int = 0) -> int:
        """The number of this gang's shape, where so many gangs wait."""
        shape = _shape(gang)
        number = self._numbers.get(shape)
        if number is None:
            if len(self._numbers) >= max(KEPT, 4 * waiting):
                self._numbers.clear()
                self._sizes.clear()
                self._kinds.clear()
                self._answers = defaultdict(KnownAnswers)
            number = self._numbers[shape] = self._next
            self._next += 1
            size = size_of(gang, lambda kind: self._kinds.setdefault(kind, len(self._kinds)))
            if size is not None:
                self._sizes[number] = size
        return number

    @property
    def sizes(self) -> Mapping[int, Size]:
        """By shape, how much it asks for, where that compares with others."""
        return self._sizes

    def no_room(self, at: Hashable) -> set[Hashable]:
        """Gangs of one kind for which no pod's leaving makes room; forgotten when `at` changes."""
        if self._no_room_at != at or len(self._no_room) >= KINDS:
            self._no_room, self._no_room_at = set(), at
        return self._no_room

    def answers(self, at: tuple[int, int], fence: int) -> tuple[KnownAnswers, KnownAnswers]:
        """The answers to gangs under this fence: those that are not short of it, and those that are. Forgotten when `at`
        changes, or with another fence after this one: on a full cluster that alone happens for weeks.
        """
        if self._at != at:
            self._answers, self._at = defaultdict(KnownAnswers), at
        if fence > self._fence:
            self._fence = fence
            for older in [own for own in self._answers if 0 < own[0] < fence]:
                del self._answers[older]
        return self._answers[fence, False], self._answers[fence, True]


def _shape(gang: Gang) -> Hashable:
    """Beside what decides its placement, what keeps it from room that is promised to others, and its roles by name."""
    return gang.shape, gang.priority, tuple(role.name for role in gang.roles)


@dataclass(frozen=True, slots=True)
class Candidacy:
    """One step of a pass: what is the same for all gangs that wait, looked up once."""

    now: float
    only: GangRecord | None
    """With the strict order no other gang is open."""
    first: GangRecord | None
    """It waits for room, and is always asked about itself."""
    fence: int
    """The number of the reservation that all gangs behind `order` leave alone; 0: there is none."""
    order: tuple[Any, ...]
    spare: float
    """Seconds until the reservation begins; who leaves before that is short."""
    above: float
    """Pods might have to give way to a gang of a priority above this."""
    room: int
    version: int
    victims_version: int
    """The counters of now, of room, of nodes and of those who could be asked to leave."""
    told: KnownAnswers
    """What was answered since there is so much room, where no reservation stands in the way."""
    told_behind: KnownAnswers
    told_short: KnownAnswers
    """The same for those behind the reservation, and for the short ones of them."""
    sizes: Mapping[int, Size]
    """By shape, how much it asks for, where that compares with others."""
    highest: int
    """No gang has a priority above this."""
    longest: Callable[[GangRecord], float]
    """Seconds that a gang runs at the longest."""
    may_try: Callable[[GangRecord, float], bool]
    """A pod that was not asked about yet may give way to this gang."""
    mark: Callable[[GangKey], None]
    """Another reason is to be told of this gang than before."""
    has_turn: Callable[[GangRecord], bool]
    """Its namespace may ask once more in this pass."""
    before: Callable[[GangRecord], GangKey | None]
    """The gang that this one lets pass; None: none."""

    @property
    def under(self) -> Hashable:
        """A skipped gang stays skipped until this key or the gang changes, or a deadline of its own comes."""
        apart = [None if record is None else record.number for record in (self.only, self.first)]
        place = (self.fence, self.order, self.above, self.highest)
        return (*apart, *place, self.room, self.version, self.victims_version)

    def first_open(self, records: Iterable[GangRecord]) -> GangRecord | None:
        """The first of these, which are in the order of the queue, about which an answer would tell something new, and
        whose turn it is.
        """
        return next(filter(self._is_next, self.open(records)), None)

    def _is_next(self, record: GangRecord) -> bool:
        """Strict order goes before turns, and so does the first that waits: others depend on their answers."""
        return record is self.only or record is self.first or self.has_turn(record)

    def _lets_pass(self, record: GangRecord, told: Wait) -> bool:
        """A gang goes before this one still, or another one does by now: it is told so without being asked."""
        first = self.before(record)
        if first is None:
            return False
        other = Wait(Reason.QUEUED, behind=first) if told.behind != first else None
        if other is not None:
            self.mark(record.key)
        record.verdict.wait_unasked(other, record.wanted, self.room)
        return True

    def _no_less(self, record: GangRecord, less: Wait | None) -> Wait | None:
        """The answer to a gang that needs no less than one that got this one: its own last one, with another reason
        where that is known. So its figures are its own, as they were when it was last asked about itself.

        Only to one that was told to wait for room on the nodes as they are: of another it is not known whether it
        fits the empty cluster.
        """
        own = record.verdict.decision
        if less is None or record.verdict.version != self.version:
            return None
        if not isinstance(own, Wait) or own.reason not in BLOCKED:
            return None
        unsure = less.reason is Reason.CAPACITY_RESERVED and own.reason is not Reason.CAPACITY_RESERVED
        if unsure or (less.reason is own.reason and less.held_for == own.held_for):
            return own
        return Wait(less.reason, own.shortfall, held_for=less.held_for)

    def open(self, records: Iterable[GangRecord]) -> Iterator[GangRecord]:
        """Those of them about which an answer would tell something new, and is not known from a gang like it.

        A gang that is not open is given the answer that is known of its shape or of less. All in one piece, and what it
        looks up at hand, since thousands pass through it while a verb waits.
        """
        now, only, first, room, sizes = self.now, self.only, self.first, self.room, self.sizes
        fence, spare, longest = self.fence, self.spare, self.longest
        above, some_take, may_try = self.above, self.highest > self.above, self.may_try
        # Before the reservation, behind it, and behind it but short of it: what is known of each shape, and of less.
        # Nothing is refused while this runs, so less is looked up once for each shape.
        answers = (self.told, self.told_behind, self.told_short)
        less: tuple[dict[int, Wait | None], ...] = ({}, {}, {})
        behind = False
        for record in records:
            wanted, verdict = record.wanted, record.verdict
            if wanted is None or record.backoff.not_before > now or (only is not None and record is not only):
                continue
            decision, under = verdict.decision, 0
            # 1. A gang with rules that the planner does not model waits while another of them goes.
            queued = decision is not None and decision.reason is Reason.QUEUED and only is None
            if queued and isinstance(decision, Wait) and decision.behind is not None:
                if not self._lets_pass(record, decision):
                    yield record
                continue
            # 2. It asks for something else than before.
            if verdict.request is not wanted:
                yield record
                continue
            # 3. What it was told holds under this reservation, these nodes, this room, these victims.
            if fence and (behind or record.order > self.order):
                behind, under = True, fence
            takes = some_take and wanted.priority > above
            if verdict.fence == under:
                if decision is not None and decision.reason in LASTING:
                    if verdict.version != self.version:
                        yield record
                    continue
                if verdict.room == room and verdict.until > now:
                    if takes and verdict.victims_version != self.victims_version and may_try(record, now):
                        yield record
                    continue
            # 4. Nothing is known: pods may give way to it, or no gang of its shape or of less was asked about.
            shape = verdict.shape
            if shape is None or verdict.until <= now or record is first or (takes and may_try(record, now)):
                yield record
                continue
            short, place = False, 0
            if under:
                seconds = record.observed.reach.high
                short = (longest(record) if seconds is None else seconds) <= spare
                place = 1 + short
            known = answers[place].alike.get(shape)
            if known is None and (size := sizes.get(shape)) is not None:
                found = less[place]
                if shape not in found:
                    found[shape] = answers[place].refused.why(size)
                known = self._no_less(record, found[shape])
            if known is None:
                yield record
                continue
            # 5. It is told what is known, and people are told when the reason is another.
            if decision is None or decision.reason is not known.reason:
                self.mark(record.key)
            verdict.copy_answer(known, room=room, fence=under, short=short)
