"""Gangs on their way from seats to other seats: the new ones are kept before anybody is evicted.

Lives here: the leases, for pods that their owners have not made yet; the order of the evictions; and who takes a lease.
A lease uses room under a name of its own, so nobody else gets it, and counts for its namespace as soon as the pod that
it is to follow does not. Who moves is bound, or waits without a seat: what either asks of nodes holds no pin of ours,
so the next of its owner asks the same. Never here: which seats (engine.draining). Everything ends by itself: a lease
that nobody takes is given back, and an eviction that is refused ends a move of which nothing has happened yet. All of
it is memory: a restart forgets the leases, and whoever was evicted waits in the queue.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from scheduler.ledger import faults, healing, pins, plans, roster
from scheduler.ledger.records import GangRecord, Member, Plan, Spec
from scheduler.ledger.roll import lineage
from scheduler.ledger.timers import Timers
from scheduler.model import events as ev
from scheduler.model.decision import TEXT, Reason
from scheduler.model.demand import Demand
from scheduler.model.effects import Announce, Effect
from scheduler.model.workload import Gang, GangKey, Owner, Role, Uid

if TYPE_CHECKING:
    from scheduler.ledger.ledger import Ledger

AGAIN: Final = 5.0
"""Seconds until a member whose gang is half way is asked to leave once more; a disruption budget changes slowly."""


SHOWN: Final = 8
"""Nodes that are told by name."""


REFUSED: Final = 300.0
"""Seconds for which a gang whose first member might not be evicted is not moved again, unless a person asks."""


@dataclass(slots=True)
class Lease:
    """A seat kept for whoever takes the place of `old`."""

    old: Uid
    node: str
    role: str
    demand: Demand
    owner: Owner | None = None
    """Of `old`, where that was lost."""

    @property
    def name(self) -> Uid:
        """Under which it uses room."""
        return Uid(f"lease:{self.old}")


@dataclass(slots=True)
class Move:
    """One gang on its way. `going`: members that are not evicted yet; of a whole gang the first of them goes alone."""

    gang: GangKey
    line: str
    whole: bool
    leases: list[Lease]
    going: list[Uid]
    by: float
    """When it is over, unless somebody is on his way out then."""
    asked: list[Uid] = field(default_factory=list)
    vacancy: bool = False
    """Its members were lost rather than moved: see `vacancies`."""


class Moves:
    """All gangs that move. What one gang asks of them costs the same, however many there are."""

    def __init__(self) -> None:
        self._moves: dict[GangKey, Move] = {}
        self._by_line: dict[str, dict[GangKey, Move]] = {}
        self._drains: dict[GangKey, Move] = {}
        """Those that go on by themselves, which vacancies do not."""
        self._ends = Timers()
        self._refused: dict[GangKey, float] = {}

    def __len__(self) -> int:
        return len(self._moves)

    def __iter__(self) -> Iterator[Move]:
        return iter(list(self._moves.values()))

    def __contains__(self, key: object) -> bool:
        """This gang is asked to move."""
        move = self._moves.get(key) if isinstance(key, GangKey) else None
        return move is not None and not move.vacancy

    def vacancy(self, key: GangKey) -> Move | None:
        """Places that are kept for successors of this gang's members."""
        move = self._moves.get(key)
        return move if move is not None and move.vacancy else None

    def put(self, move: Move) -> None:
        self._moves[move.gang] = move
        self._by_line.setdefault(move.line, {})[move.gang] = move
        if not move.vacancy:
            self._drains[move.gang] = move
        self._ends.set(move.gang, move.by)

    def drop(self, move: Move) -> None:
        if self._moves.get(move.gang) is not move:
            return
        del self._moves[move.gang]
        self._drains.pop(move.gang, None)
        self._ends.forget(move.gang)
        own = self._by_line[move.line]
        del own[move.gang]
        if not own:
            del self._by_line[move.line]

    def last(self, move: Move, by: float) -> None:
        """It is over then."""
        move.by = by
        self._ends.set(move.gang, by)

    def to_see_to(self, now: float) -> list[Move]:
        """Gangs that are asked to move, and vacancies that are over."""
        due = list(self._ends.due(now))
        for key in due:
            self._ends.set(key, self._moves[key].by)
        return [self._moves[key] for key in dict.fromkeys([*self._drains, *due])]

    def refuse(self, key: GangKey, now: float) -> None:
        """Nobody of this gang may be evicted now."""
        self._refused = {own: until for own, until in self._refused.items() if until > now}
        self._refused[key] = now + REFUSED

    def is_refused(self, key: GangKey, now: float) -> bool:
        """So it is of no use to try again of our own accord."""
        return self._refused.get(key, now) > now

    def names(self) -> set[Uid]:
        """Under which leases use room."""
        return {lease.name for move in self for lease in move.leases}

    def of(self, record: GangRecord) -> list[Move]:
        """Moves whose leases are for this gang."""
        pod = next(iter(record.members.values())).pod if self._moves and record.members else None
        return list(self._by_line.get(lineage(record.key, pod), {}).values()) if pod is not None else []

    def extend(self, by: float) -> None:
        """None of them is over before this."""
        for move in self:
            self.last(move, max(move.by, by))

    def next_due(self) -> float:
        return self._ends.next()


# ── begin ───────────────────────────────────────────────────────────────────────────────────────────────


def begin(ledger: "Ledger", event: ev.MoveFound, now: float) -> None:
    """Keep the seats, and begin; nothing happens when the gang is no longer what it was."""
    record = ledger.roll.gangs.get(event.gang)
    members = [record.members.get(uid) for uid in event.seats] if record is not None else []
    there = all(m is not None and m.live for m in members) and all(
        node in ledger.nodes for node in event.seats.values()
    )
    if record is None or not isinstance(record.spec, Spec) or not there or record.key in ledger.moves:
        return
    leases = [
        Lease(uid, node, roster.role_of(record.members[uid], record.spec), record.members[uid].pod.demand)
        for uid, node in event.seats.items()
    ]
    going = [
        uid for uid in event.leaving if (m := record.members.get(uid)) is not None and m.bound and m.live
    ]
    line = lineage(record.key, next(iter(record.members.values())).pod)
    if (vacancy := ledger.moves.vacancy(record.key)) is not None:
        _is_over(ledger, record, vacancy, now)
    move = Move(record.key, line, event.whole, [], going, now + ledger.policy.timeout)
    ledger.moves.put(move)
    for lease in leases:
        keep(ledger, move, lease)
    ledger.tally.decisions[Reason.MOVED] += 1
    ledger.do(_tell(record, going, event))
    ledger.mark(record.key)


def keep(ledger: "Ledger", move: Move, lease: Lease) -> None:
    """The seat uses room from now on, and counts for the gang's namespace."""
    move.leases.append(lease)
    ledger.nodes.put(lease.name, lease.node, lease.demand)
    ledger.usage.keep(lease.name, lease.old, move.gang.namespace, lease.demand)


def _tell(record: GangRecord, going: list[Uid], event: ev.MoveFound) -> Iterator[Effect]:
    if going:
        pod = record.members[going[0]].pod
        nodes = ", ".join(sorted(set(event.seats.values()))[:SHOWN])
        text = f"{TEXT[Reason.MOVED]}: {len(going)} pods are evicted, from {pod.node} first; kept: {nodes}"
        yield Announce(record.key, pod.uid, pod.key, pod.owner, Reason.MOVED, text)


def gang_of(
    ledger: "Ledger",
    record: GangRecord,
    spec: Spec,
    quorum: Iterable[Member],
    surplus: Iterable[Member],
    without: str,
) -> Gang:
    """What is asked of the planner for members that are to have other seats, but none on the node `without`.

    Whoever of the gang stays is an anchor.
    """
    roles: dict[tuple[str, Demand], tuple[list[Uid], list[Uid]]] = {}
    moving: set[Uid] = set()
    for which, members in enumerate((quorum, surplus)):
        for member in members:
            role = (roster.role_of(member, spec), member.pod.demand)
            roles.setdefault(role, ([], []))[which].append(member.pod.uid)
            moving.add(member.pod.uid)
    anchors = tuple(
        sorted(m.pod.node for m in record.live() if m.pod.node is not None and m.pod.uid not in moving)
    )
    asked = roster.asked(
        record,
        spec,
        ledger.policy,
        tuple(Role(name, demand, tuple(core), tuple(more)) for (name, demand), (core, more) in roles.items()),
        anchors,
    )
    return replace(asked, barred=asked.barred | {without} if without else asked.barred)


# ── go ──────────────────────────────────────────────────────────────────────────────────────────────────


def carry_on(ledger: "Ledger", now: float) -> list[Effect]:
    """The next evictions of all moves; moves that are over end."""
    effects: list[Effect] = []
    for move in ledger.moves.to_see_to(now):
        record = ledger.roll.gangs.get(move.gang)
        with faults.guard(ledger, move.gang, now):
            if record is not None and record.rests_until <= now:
                effects += _go(ledger, record, move, now)
            if now >= move.by:
                _is_over(ledger, record, move, now)
                ledger.mark(move.gang)
            if not move.leases and not move.going:
                ledger.moves.drop(move)
    return effects


def _go(ledger: "Ledger", record: GangRecord, move: Move, now: float) -> list[Effect]:
    """Of a whole gang one goes first: where a disruption budget forbids that, nothing has happened."""
    begun = _has_begun(record, move)
    for uid in [uid for uid in move.asked if (m := record.members.get(uid)) is not None and m.live]:
        if begun and move.whole:
            _ask_again(ledger, record, record.members[uid], now)
        else:
            _stay(ledger, move, uid, now)
    if not move.going or (move.asked and not begun):
        return []
    first = move.whole and not begun
    going, move.going = (move.going[:1], move.going[1:]) if first else (move.going, [])
    move.asked += going
    members = [m for uid in going if (m := record.members.get(uid)) is not None and m.live]
    ledger.mark(record.key, anew=True)
    return list(healing.evict_all(ledger, record, members, Reason.MOVED, now))


def _ask_again(ledger: "Ledger", record: GangRecord, member: Member, now: float) -> None:
    """Half of the gang is gone: the rest has to follow, as soon as its budget allows."""
    pins.evict(record, member, Reason.MOVED, ledger.policy, now)
    member.evict_again = now + AGAIN
    ledger.mark(record.key)


def _has_begun(record: GangRecord, move: Move) -> bool:
    return any(_leaves(record.members.get(uid)) for uid in move.asked)


def _may_not_be(record: GangRecord, move: Move) -> bool:
    """Of a gang that moves whole somebody is yet to be asked, or the first was asked and may be refused."""
    return move.whole and bool(move.going or (move.asked and not _has_begun(record, move)))


def _leaves(member: Member | None) -> bool:
    return member is None or member.pod.deleting or member.pod.phase.ended


def _stay(ledger: "Ledger", move: Move, uid: Uid, now: float) -> None:
    """Its eviction was refused: the seats that were kept for it, or for the whole gang, are not needed."""
    move.asked.remove(uid)
    for lease in list(move.leases):
        if lease.old == uid or move.whole:
            give_back(ledger, move, lease)
    if move.whole:
        move.going = []
        ledger.moves.refuse(move.gang, now)


def _is_over(ledger: "Ledger", record: GangRecord | None, move: Move, now: float) -> None:
    """Unless somebody is still on his way out: his owner may make the next one only then."""
    members = [record.members.get(lease.old) for lease in move.leases] if record is not None else []
    if any(m is not None and m.pod.deleting and not m.pod.phase.ended for m in members):
        ledger.moves.last(move, now + ledger.policy.timeout)
        return
    for uid in move.asked:
        member = record.members.get(uid) if record is not None else None
        if member is not None and member.evicting is Reason.MOVED and not _leaves(member):
            member.evicting = None
            ledger.mark(move.gang, anew=True)
    move.going = []
    for lease in list(move.leases):
        give_back(ledger, move, lease)


def give_back(ledger: "Ledger", move: Move, lease: Lease) -> None:
    """The seat is no longer kept; a vacancy without seats is no more."""
    move.leases.remove(lease)
    if move.vacancy and not move.leases:
        ledger.moves.drop(move)
    ledger.nodes.take(lease.name)
    ledger.usage.keep_no_longer(lease.old)


# ── arrive ──────────────────────────────────────────────────────────────────────────────────────────────


def match(ledger: "Ledger", record: GangRecord, gang: Gang) -> dict[Uid, tuple[Move, Lease]] | None:
    """A lease for each member of the quorum, and for surplus as far as they go; None: some have none."""
    free = [(move, lease) for move in ledger.moves.of(record) for lease in move.leases]
    if not free:
        return None
    found: dict[Uid, tuple[Move, Lease]] = {}
    for role in gang.roles:
        for uid in (*role.quorum, *role.surplus):
            suiting = [pair for pair in free if _suits(ledger, pair[1], role, uid)]
            if suiting:
                own = min(suiting, key=lambda pair: pair[1].old != uid)
                found[uid] = own
                free.remove(own)
            elif uid in role.quorum:
                return None
    return found or None


def _suits(ledger: "Ledger", lease: Lease, role: Role, uid: Uid) -> bool:
    old, new = lease.demand, role.demand
    alike = (old.requests, old.selector, old.ports) == (new.requests, new.selector, new.ports)
    if lease.owner is not None:  # what replaces a lost pod may ask to keep away from its node
        alike = old == new
    there = ledger.nodes.admits(lease.node, new)
    waits = ledger.roll.member(lease.old)
    own = lease.old == uid or _leaves(waits)
    return alike and there and own and lease.role == role.name


def arrive(ledger: "Ledger", record: GangRecord, now: float) -> list[Effect]:
    """Members that came take the seats that are kept for them, as soon as those who had the room have left."""
    if not ledger.moves.of(record) or not isinstance(record.spec, Spec) or not ledger.is_idle(record, now):
        return []
    gang = roster.request(record, record.spec, ledger.policy)
    found = match(ledger, record, gang) if gang is not None else None
    if not found or any(_may_not_be(record, move) for move, _ in found.values()):
        return []
    if any(ledger.nodes.is_overdrawn(own.node, own.demand) for _, own in found.values()):
        return []
    for move, lease in found.values():
        give_back(ledger, move, lease)
    seats = {uid: lease.node for uid, (_, lease) in found.items()}
    return _sit_down(ledger, record, seats, now)


def _sit_down(ledger: "Ledger", record: GangRecord, seats: Mapping[Uid, str], now: float) -> list[Effect]:
    if not plans.take_seats(ledger, record, seats, now):
        return []
    record.verdict, record.verdict_for = None, None
    plan = Plan(plans.name_of(record, seats), dict(seats))
    ledger.mark(record.key)
    return plans.start(record, plan, now, ledger.policy)
