"""Ended gangs: how long each waited and ran, what it used, and how it ended.

Lives here: when a gang counts as ended, and a bounded memory of ended gangs. Never here: who may read it (`status`).

A gang has ended when all its pods have and no owner creates more, when its last pod is deleted, or when its last bound
pod was preempted or reached its `max-runtime`. A gang whose last pod Gangwright evicts for another reason has not
ended: its owner recreates it, and its account continues. A gang of one starts over with the next pod.
Only the active replica reconciles gangs, so only that one records. After a failover or a restart the memory is empty.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from scheduler.ledger import gang_spec
from scheduler.ledger.gang import GangRecord, Member
from scheduler.ledger.gang_parts import Account
from scheduler.ledger.messages import GaveWay
from scheduler.ledger.phase import QUORUM_BOUND, State
from scheduler.model.decision import Reason, Refuse
from scheduler.model.resources import CPU, is_device
from scheduler.model.workload import GangKey, OwnerTraits, Phase, Pod

MOST: Final = 4_096
"""Gangs. The oldest are forgotten first."""

BYTES: Final = 8 * 2**20
"""Memory for all of them together, by `size`: 8 MiB, or 2,048 bytes for each of MOST. Names of 32 characters and one
device take about 1,200. If long names take more than 2,048 per entry, fewer entries are kept."""

LONGEST: Final = 253
"""Characters of an owner's kind and name. The API server bounds neither; Kubernetes bounds all other names here."""

RESOURCES: Final = 8
"""Resources per gang, the most used first."""


class Outcome(StrEnum):
    """How a gang ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PREEMPTED = "preempted"
    RUNTIME_EXCEEDED = "runtime exceeded"
    SUSPENDED = "suspended"
    DELETED = "deleted"


_EVICTED: Final = {
    Reason.PREEMPTED: Outcome.PREEMPTED,
    Reason.RUNTIME_EXCEEDED: Outcome.RUNTIME_EXCEEDED,
}
"""The outcome if the last bound pod was evicted for this reason. After any other eviction the gang goes on."""


class EndedGang(NamedTuple):
    """An ended gang. Times are seconds since the epoch."""

    key: GangKey
    name: str
    """The displayed name. For a gang of one, the pod's name."""
    owner: str
    """The controller of its pods as `Kind/name`. Empty if they have none."""
    arrived: float
    """Creation of its first pod."""
    began: float | None
    """When its quorum was first bound; None if never."""
    ended: float
    used: tuple[tuple[str, float], ...]
    """Seconds times amount, by device. For pods without devices, in thousandths of a core."""
    outcome: Outcome
    winner: GaveWay | None
    """The preempting gang. None: it was not preempted, or the gang is unknown."""

    @property
    def waited(self) -> float:
        """Seconds from the creation of its first pod to the bind of its quorum, or to its end."""
        return max(0.0, (self.ended if self.began is None else self.began) - self.arrived)

    @property
    def ran(self) -> float:
        """Seconds from the bind of its quorum to its end."""
        return 0.0 if self.began is None else max(0.0, self.ended - self.began)


class GangHistory:
    """The gangs that ended last, the oldest first."""

    def __init__(self) -> None:
        self._gangs: deque[EndedGang] = deque()
        self._bytes = 0
        self._interrupted: dict[tuple[GangKey, str], Account] = {}
        """By gang and controller uid: its account when its last pod was evicted to be recreated. At most MOST."""
        self.since: float | None = None
        """All gangs that ended since then are included. None: this replica never was active."""

    def __len__(self) -> int:
        return len(self._gangs)

    def __iter__(self) -> Iterator[EndedGang]:
        return iter(self._gangs)

    def begin(self, now: float) -> None:
        """This replica becomes active."""
        self.since = now if self.since is None else self.since

    def note(self, record: GangRecord, owners: Mapping[str, OwnerTraits], now: float) -> None:
        """Record the gang's state at each reconciliation."""
        if record.state is not State.LEAVING and not _waits_for_more_time(record):
            account = record.account or self._taken_up(record) or Account(min(record.arrived, now))
            record.account = account
            if account.began is None and record.state in QUORUM_BOUND:
                account.began, account.quorum = record.observed.since, record.whole
        elif record.account is not None and is_over(record, owners):
            members = list(record.members.values())
            self._end(record, members, _outcome(members, record.account.quorum), now)

    def replaced(self, record: GangRecord, members: Sequence[Member], now: float) -> None:
        """Another run takes over the gang's name from these members."""
        account = record.account
        if account is None or account.began is None:
            return
        if all(member.pod.phase.ended for member in members):
            self._end(record, members, _outcome(members, account.quorum), now)

    def ended(self, record: GangRecord, member: Member, now: float) -> None:
        """A member ended and frees its node."""
        self._leaves(record, member, now)

    def gone(self, record: GangRecord, member: Member, now: float, *, suspended: bool) -> None:
        """A member is deleted and about to be removed. suspended: a Job of its gang is suspended."""
        if not member.pod.phase.ended:
            self._leaves(record, member, now)
        if len(record.members) == 1 and record.account is not None and _evicted_for(member) is not None:
            self._interrupt(record.key, member.pod, record.account)
        elif len(record.members) == 1 and record.account is not None:
            found = _outcome([member], record.account.quorum)
            if found is Outcome.DELETED:
                told = record.runtime_limit.told
                exceeded = told is not None and told[0] is Reason.RUNTIME_EXCEEDED
                gone = Outcome.SUSPENDED if suspended else Outcome.DELETED
                found = Outcome.RUNTIME_EXCEEDED if exceeded else gone
            self._end(record, [member], found, now)

    def _leaves(self, record: GangRecord, member: Member, now: float) -> None:
        """Charge its use. If it is the last member that was evicted for good, its gang ends."""
        if record.account is None or member.pod.node is None:
            return
        _charge(record.account, member.pod, now)
        why = _evicted_for(member)
        outcome = _EVICTED.get(why) if why is not None else None
        if outcome is not None:
            others = (other for other in record.members.values() if other is not member)
            if not any(other.bound for other in others):
                self._end(record, [member], outcome, now)

    def _interrupt(self, key: GangKey, pod: Pod, account: Account) -> None:
        """Its controller recreates it. Among several gangs of one, replacements cannot be matched to pods."""
        if pod.owner is not None and not gang_spec.is_gang_of_one(key):
            self._interrupted[key, pod.owner.uid] = account
            if len(self._interrupted) > MOST:
                del self._interrupted[next(iter(self._interrupted))]

    def _taken_up(self, record: GangRecord) -> Account | None:
        """Its account from before it was recreated."""
        owners = (
            [m.pod.owner.uid for m in record.members.values() if m.pod.owner] if self._interrupted else []
        )
        found = (self._interrupted.pop((record.key, uid), None) for uid in owners)
        return next(filter(None, found), None)

    def _end(self, record: GangRecord, members: Sequence[Member], outcome: Outcome, now: float) -> None:
        """Record how it ended. Anything under this record from now on is another run."""
        account, record.account = record.account, None
        if account is None:
            return
        name = members[0].pod.key.name if gang_spec.is_gang_of_one(record.key) else record.key.name
        most = sorted(account.used, key=lambda own: (-own[1], own[0]))[:RESOURCES]
        winner = record.preemption.gave_way if outcome is Outcome.PREEMPTED else None
        arrived, began, owner = account.arrived, account.began, _owner(members)
        self._add(EndedGang(record.key, name, owner, arrived, began, now, tuple(most), outcome, winner))

    def _add(self, gang: EndedGang) -> None:
        self._gangs.append(gang)
        self._bytes += size(gang)
        while len(self._gangs) > MOST or self._bytes > BYTES:
            oldest = self._gangs.popleft()
            self._bytes -= size(oldest)
            self.since = oldest.ended


def _waits_for_more_time(record: GangRecord) -> bool:
    """It reached its max-runtime. Pods created since have not started, and only start with a longer max-runtime."""
    spec = record.spec
    exceeded = isinstance(spec, Refuse) and spec.reason is Reason.RUNTIME_EXCEEDED
    return exceeded and record.account is None and not any(m.bound for m in record.members.values())


def _evicted_for(member: Member) -> Reason | None:
    """Why it was evicted. None: it was not, or it succeeded before its deletion."""
    pod = member.pod
    return None if pod.phase is Phase.SUCCEEDED and not pod.deleting else member.evicting


def is_over(record: GangRecord, owners: Mapping[str, OwnerTraits]) -> bool:
    """All its pods ended, and no known owner creates more of them."""
    if not all(member.pod.phase.ended for member in record.members.values()):
        return False
    uids = {member.pod.owner.uid for member in record.members.values() if member.pod.owner is not None}
    return not any(traits is not None and not traits.ended for traits in map(owners.get, uids))


def size(gang: EndedGang) -> int:
    """Upper bound of its bytes: 592 for its numbers and containers, 112 per resource, and its texts."""
    texts = [*gang.key, gang.name, gang.owner, *(name for name, _ in gang.used)]
    if gang.winner is not None:
        texts += [*gang.winner.gang, gang.winner.name]
    return 592 + 112 * len(gang.used) + sum(map(_text, texts))


def _text(text: str) -> int:
    return 64 + len(text) if text.isascii() else 96 + 4 * len(text)


def _outcome(members: Sequence[Member], quorum: int) -> Outcome:
    """By the phases of pods that were not deleted: enough succeeded, or one failed."""
    ends = Counter(member.pod.phase for member in members if not member.pod.deleting)
    well = ends[Phase.SUCCEEDED]
    if well and (not ends[Phase.FAILED] or well >= quorum > 0):
        return Outcome.SUCCEEDED
    return Outcome.FAILED if ends[Phase.FAILED] else Outcome.DELETED


def _owner(members: Sequence[Member]) -> str:
    owner = next((member.pod.owner for member in members if member.pod.owner is not None), None)
    return f"{owner.kind[:LONGEST]}/{owner.name[:LONGEST]}" if owner is not None else ""


def _charge(account: Account, pod: Pod, now: float) -> None:
    """A pod frees its node. If its bind time is unknown, the bind of its gang counts."""
    since = pod.bound_at if pod.bound_at is not None else account.began
    seconds = max(0.0, now - since) if since is not None else 0.0
    devices = [own for own in pod.demand.requests if is_device(own[0])]
    used = dict(account.used)
    for name, amount in devices or [own for own in pod.demand.requests if own[0] == CPU]:
        used[name] = used.get(name, 0.0) + amount * seconds
    account.used = tuple(used.items())
