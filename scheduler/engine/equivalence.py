"""Gangs of equal shape get one answer: which waiting gangs are worth a question.

A shape is a number for everything that decides a gang's placement. Every pass compares it for every gang, and hashing
a gang's demands takes ten times as long. kube-scheduler and Kueue call gangs of one shape an equivalence class.

A gang that needs at least as much as one that was rejected for lack of capacity is rejected too. A gang's nodes hold a
certain number of members of its demand: in one domain if the level is required, otherwise in all. A node never holds
more members of a demand that requests more of anything. So with the same nodes, domains and priority, a gang that has
as many members or more, and each needs as much or more, fits no better. Gangs with several demands, and gangs that
must be spread evenly, do not compare. The least that many gangs request, resource by resource, is asked about like a
gang. If even that is rejected, all of them are.

Lives here: shapes, the answer to each, what was rejected, and the scan of the waiting gangs. Never here: when to ask
(cycle), or how to compute the answer (planning).
"""

import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from scheduler.engine.preemption_candidates import BLOCKED
from scheduler.ledger.gang import GangRecord
from scheduler.model.decision import LASTING, Reason, Wait
from scheduler.model.workload import Gang, GangKey, Role, Strategy, Uid

LEAST: Final = 16
"""Rejections cached per kind, none of which covers another. The oldest is dropped first."""

ALL: Final = 1 << 20
"""The gangs that a request for the least covers at first: more than any queue has."""

Amounts: TypeAlias = tuple[int, ...]
"""Members of the quorum, then the request of each member for each resource."""


class Size(NamedTuple):
    """How much a gang requests. Sizes of one kind compare. Kinds are numbers, because they are hashed often."""

    kind: int
    amounts: Amounts


def size_of(gang: Gang, number: Callable[[Hashable], int]) -> Size | None:
    """The size of this gang. None: whether it fits says nothing about other gangs.

    number: returns a distinct number for everything but the amounts that decides a gang's seats.
    """
    role = _only(gang)
    if role is None or (gang.required and gang.strategy is Strategy.SPREAD):
        return None
    demand = role.demand
    names = tuple(name for name, _ in demand.requests)
    how = (gang.strategy, gang.level, gang.required, gang.priority, gang.anchors, gang.barred)
    kind = (names, demand.where, demand.ports, role.neighbors, role.labels, how)
    return Size(number(kind), (len(role.quorum), *(amount for _, amount in demand.requests)))


def shrunk(gang: Gang, amounts: Amounts) -> Gang:
    """A gang of the same kind that requests these amounts and no surplus. Only for questions, never to be seated."""
    role = _only(gang)
    if role is None:
        return gang
    names = (name for name, _ in role.demand.requests)
    demand = replace(role.demand, requests=tuple(zip(names, amounts[1:], strict=True)))
    members = tuple(Uid(str(number)) for number in range(amounts[0]))
    return replace(gang, roles=(replace(role, name="", demand=demand, quorum=members, surplus=()),))


def _only(gang: Gang) -> Role | None:
    """The one role with a quorum."""
    found = [role for role in gang.roles if role.quorum]
    return found[0] if len(found) == 1 else None


class Refused:
    """The rejections at the current free capacity, by kind: sizes none of which covers another."""

    def __init__(self) -> None:
        self._found: dict[int, list[tuple[Amounts, Wait]]] = {}
        self._reach: dict[int, int] = {}

    def add(self, size: Size, wait: Wait) -> None:
        """wait: the answer. CAPACITY_RESERVED means that the gang would fit if nothing were reserved."""
        own = size.amounts
        kept = [
            (amounts, other)
            for amounts, other in self._found.get(size.kind, ())
            if not (covers(own, amounts) and other.reason in {wait.reason, Reason.CAPACITY_RESERVED})
        ]
        self._found[size.kind] = [*kept, (own, wait)][-LEAST:]

    def why(self, size: Size) -> Wait | None:
        """The answer to a gang that needs no more than this size. None: no rejection is known. CAPACITY_RESERVED only if
        no other reason is known.
        """
        found, own = None, size.amounts
        for amounts, wait in self._found.get(size.kind, ()):
            if all(map(operator.le, amounts, own)):  # `covers`, inlined: it runs for every gang of a pass
                if wait.reason is not Reason.CAPACITY_RESERVED:
                    return wait
                found = wait
        return found

    def reach(self, kind: int) -> int:
        """How many gangs of the queue the next request for the least covers."""
        return self._reach.get(kind, ALL)

    def ask_for_the_least(
        self, kind: int, gangs: int, sizes: Iterable[Size | None], ask: Callable[[Amounts], Wait | None]
    ) -> None:
        """Ask about the minimum of each amount over these sizes of the kind, without sizes that are known to be rejected.

        gangs: how many gangs it covers. The next request covers more if this one is rejected, otherwise fewer.
        ask: returns the rejection of these amounts, if they are rejected.
        """
        found = [own.amounts for own in sizes if own and own.kind == kind and self.why(own) is None]
        hopeless = len(found) <= 1  # asking about that one itself costs no more
        if not hopeless:
            amounts = tuple(map(min, zip(*found, strict=True)))
            if (wait := ask(amounts)) is not None:
                self.add(Size(kind, amounts), wait)
                hopeless = True
        self._reach[kind] = min(ALL, 2 * gangs) if hopeless else max(1, gangs // 2)


def covers(small: Amounts, large: Amounts) -> bool:
    """If the small amounts do not fit, the large ones do not fit either."""
    return all(map(operator.le, small, large))


KEPT: Final = 1024
"""The most shapes with a number, or four times the number of waiting gangs. Beyond that, numbering starts over above all
earlier numbers, so no gang gets the answer of an old shape. The shape of a partly bound gang lists every node with a
member of it."""

KINDS: Final = 4096
"""The most kinds of gangs cached for which preemption does not help. Beyond that, each is asked about once more."""


class KnownAnswers:
    """What is known without a question: the answers by shape, and the rejections of smaller sizes."""

    def __init__(self, standing: Callable[[], dict[int, Wait]] = dict) -> None:
        """standing: returns the answers of earlier passes that still hold. It is called when they are needed."""
        self.refused = Refused()
        self._standing = standing
        self._alike: dict[int, Wait] = {}
        self._stale = True

    @property
    def alike(self) -> dict[int, Wait]:
        """The answers by shape."""
        if self._stale:
            self._stale = False
            self._alike |= self._standing()
        return self._alike

    def doubt(self) -> None:
        """Less capacity is free now. All answers hold, but their figures may differ."""
        self._stale = True


class Shapes:
    """Numbers for shapes, and the answers that are still valid."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._next = 0
        self._sizes: dict[int, Size] = {}
        self._kinds: dict[Hashable, int] = {}
        self._answers: dict[tuple[int, bool], KnownAnswers] = {}
        self._fence = 0
        """The newest fence. Older ones no longer exist, and their answers are not used."""
        self._no_room: set[Hashable] = set()
        self._no_room_at: Hashable = None
        self._at: tuple[int, int] = (-1, -1)
        self._generation = -1

    def number(self, gang: Gang, waiting: int = 0) -> int:
        """The number of this gang's shape. waiting: how many gangs wait."""
        shape = _shape(gang)
        number = self._numbers.get(shape)
        if number is None:
            if len(self._numbers) >= max(KEPT, 4 * waiting):
                self._numbers.clear()
                self._sizes.clear()
                self._kinds.clear()
                self._answers = {}
            number = self._numbers[shape] = self._next
            self._next += 1
            size = size_of(gang, lambda kind: self._kinds.setdefault(kind, len(self._kinds)))
            if size is not None:
                self._sizes[number] = size
        return number

    @property
    def sizes(self) -> Mapping[int, Size]:
        """The size of each shape that compares with others."""
        return self._sizes

    def no_room(self, at: Hashable) -> set[Hashable]:
        """The kinds of gangs for which preemption does not help. Reset when `at` changes."""
        if self._no_room_at != at or len(self._no_room) >= KINDS:
            self._no_room, self._no_room_at = set(), at
        return self._no_room

    def answers(
        self,
        at: tuple[int, int],
        fence: int,
        generation: int = 0,
        standing: Callable[[int, bool], dict[int, Wait]] = lambda _fence, _short: {},
    ) -> tuple[KnownAnswers, KnownAnswers]:
        """The answers to gangs under this fence: to those that are not short of it, and to those that are. Dropped when
        `at` changes, or with the next fence. On a full cluster only the latter may happen for weeks.

        generation: of the snapshot.  standing: returns the answers of earlier passes that still hold, for a fence and for
        gangs that are short of it or not.
        """
        if self._at != at:
            self._answers, self._at = {}, at
        if fence > self._fence:
            self._fence = fence
            for older in [own for own in self._answers if 0 < own[0] < fence]:
                del self._answers[older]
        if self._generation != generation:
            self._generation = generation
            for known in self._answers.values():
                known.doubt()
        for short in (False, True):
            if (fence, short) not in self._answers:
                self._answers[fence, short] = KnownAnswers(partial(standing, fence, short))
        return self._answers[fence, False], self._answers[fence, True]


def _shape(gang: Gang) -> Hashable:
    """What decides its placement, its priority (which decides what nominations keep from it), and its roles' names."""
    return gang.shape, gang.priority, tuple(role.name for role in gang.roles)


@dataclass(frozen=True, slots=True)
class Candidacy:
    """One step of a pass: the values that are the same for all waiting gangs, looked up once."""

    now: float
    only: GangRecord | None
    """With the strict order, the only gang that is open."""
    first: GangRecord | None
    """The first gang that waits for capacity. It always gets a question of its own."""
    fence: int
    """The number of the reservation that all gangs behind `order` must not touch. 0: none."""
    order: tuple[Any, ...]
    spare: float
    """Seconds until the reservation begins. A gang that ends before that is short."""
    above: float
    """Only a gang with a priority above this may preempt pods."""
    room: int
    version: int
    victims_version: int
    """The current counters of free capacity, of nodes and of possible victims."""
    told: KnownAnswers
    """The answers at the current free capacity, for gangs that no reservation affects."""
    told_behind: KnownAnswers
    told_short: KnownAnswers
    """The same for gangs behind the reservation, and for the short ones among them."""
    sizes: Mapping[int, Size]
    """The size of each shape that compares with others."""
    highest: int
    """The highest priority of all gangs."""
    longest: Callable[[GangRecord], float]
    """The seconds that a gang runs at most."""
    may_try: Callable[[GangRecord, float], bool]
    """Whether the gang may preempt a pod that was not considered yet."""
    mark: Callable[[GangKey], None]
    """Records that the reason to report for this gang has changed."""
    has_turn: Callable[[GangRecord], bool]
    """Whether the gang's namespace has a question left in this pass."""
    before: Callable[[GangRecord], GangKey | None]
    """The gang that must go before this one. None: none."""
    is_over: Callable[[Gang], bool] | None
    """Whether the quorum would exceed its namespace's ceiling, which is an answer of its own. None: there are no ceilings."""

    @property
    def under(self) -> Hashable:
        """A skipped gang stays skipped until this key or the gang changes, or a deadline of its own passes."""
        apart = [None if record is None else record.number for record in (self.only, self.first)]
        place = (self.fence, self.order, self.above, self.highest)
        return (*apart, *place, self.room, self.version, self.victims_version)

    def first_open(self, records: Iterable[GangRecord]) -> GangRecord | None:
        """The first of these that is open and has its turn. records: in the order of the queue."""
        return next(filter(self._is_next, self.open(records)), None)

    def _is_next(self, record: GangRecord) -> bool:
        """The strictly first and the first waiting gang need no turn, because others depend on their answers."""
        return record is self.only or record is self.first or self.has_turn(record)

    def _lets_pass(self, record: GangRecord, told: Wait) -> bool:
        """Another gang still goes before this one, or a different one does now. It gets that answer without a question."""
        first = self.before(record)
        if first is None:
            return False
        other = Wait(Reason.QUEUED, behind=first) if told.behind != first else None
        if other is not None:
            self.mark(record.key)
        record.verdict.wait_unasked(other, record.wanted, self.room)
        return True

    def _no_less(self, record: GangRecord, less: Wait | None) -> Wait | None:
        """The answer to a gang that needs at least as much as one that got `less`: its own last answer, with the other
        reason if that is certain. So its figures are its own, from its last question.

        Only for a gang whose last answer is to wait for capacity on the current nodes. For others it is not known
        whether they fit the empty cluster.
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
        """The gangs for which a question may bring a new answer that is not known from a similar gang.

        A gang that is not open gets the known answer for its shape or for less. This is one function with local
        variables, because it scans thousands of gangs while an extender call waits.
        """
        now, only, first, room, sizes = self.now, self.only, self.first, self.room, self.sizes
        fence, spare, longest, is_over = self.fence, self.spare, self.longest, self.is_over
        above, some_take, may_try = self.above, self.highest > self.above, self.may_try
        # The known answers before the reservation, behind it, and behind it but short of it. No rejection is added while
        # this runs, so `less` is looked up once per shape.
        answers = (self.told, self.told_behind, self.told_short)
        less: tuple[dict[int, Wait | None], ...] = ({}, {}, {})
        behind = False
        for record in records:
            wanted, verdict = record.wanted, record.verdict
            if wanted is None or record.backoff.not_before > now or (only is not None and record is not only):
                continue
            decision, under = verdict.decision, 0
            # 1. A gang with rules that the planner does not model waits while another such gang is placed.
            queued = decision is not None and decision.reason is Reason.QUEUED and only is None
            if queued and isinstance(decision, Wait) and decision.behind is not None:
                if not self._lets_pass(record, decision):
                    yield record
                continue
            # 2. Its request has changed.
            if verdict.request is not wanted:
                yield record
                continue
            # 3. Its last answer holds for these nodes, or for this reservation, this capacity and these victims.
            if fence and (behind or record.order > self.order):
                behind, under = True, fence
            takes = some_take and wanted.priority > above
            if decision is not None and decision.reason in LASTING:
                if verdict.version != self.version:
                    yield record
                continue
            if verdict.fence == under and verdict.room == room and verdict.until > now:
                if takes and verdict.victims_version != self.victims_version and may_try(record, now):
                    yield record
                continue
            # 4. Nothing is known: it may preempt pods, or there is no answer for its shape or for less.
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
            if known is None or (is_over is not None and is_over(wanted)):
                yield record
                continue
            # 5. It gets the known answer, and a changed reason is reported.
            if decision is None or decision.reason is not known.reason:
                self.mark(record.key)
            verdict.copy_answer(known, room=room, fence=under, short=short)
