"""Gangs that ended: how long each waited and ran, what it used, and how it ended.

Lives here: when a gang counts as ended, and a bounded memory of those that did. Never here: who may read it (`status`).

A gang has ended when all its pods have and no owner makes more, when its last pod is gone, or when its last bound pod
left for another gang or for its `max-runtime`. A gang whose last pod Gangwright evicts for another reason has not ended:
its owner makes it again, and what it had by then counts on. A gang of one begins again with the next pod.
Only the replica that acts looks at gangs, so only that one records. Another replica that takes over, or a restart,
begins with an empty memory.
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
"""Gangs; the oldest are forgotten first."""

BYTES: Final = 8 * 2**20
"""Of memory for all of them together, by `size`: 8 MiB, which are 2,048 bytes for each of MOST. Names of 32 characters and
one device take some 1,200. Where names are so long that an entry takes more than 2,048, fewer are kept.
"""

LONGEST: Final = 253
"""Characters of an owner's kind and name. The API server bounds neither; Kubernetes bounds all other names here."""

RESOURCES: Final = 8
"""Resources of one gang, those it used most of first."""


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
"""How a gang ended of which the last bound pod was evicted for this. After any other eviction it goes on."""


class EndedGang(NamedTuple):
    """A gang that ended. Times are seconds since the epoch."""

    key: GangKey
    name: str
    """What people call it: of a gang of one the pod's name."""
    owner: str
    """The controller of its pods as `Kind/name`; empty where they have none."""
    arrived: float
    """When the first of its pods was made."""
    began: float | None
    """When its quorum was first bound; None: it never was."""
    ended: float
    used: tuple[tuple[str, float], ...]
    """Seconds times amount, by device; of pods without a device, by thousandths of a core."""
    outcome: Outcome
    winner: GaveWay | None
    """The gang it left for; None: it left for none, or that is not known."""

    @property
    def waited(self) -> float:
        """Seconds from its first pod to the bind of its quorum, or to its end."""
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
        """By gang and uid of its controller: what it had when its last pod was evicted to be made again. At most MOST."""
        self.since: float | None = None
        """Every gang that ended since then is here; None: this replica has not begun to act."""

    def __len__(self) -> int:
        return len(self._gangs)

    def __iter__(self) -> Iterator[EndedGang]:
        return iter(self._gangs)

    def begin(self, now: float) -> None:
        """This replica acts from now on."""
        self.since = now if self.since is None else self.since

    def note(self, record: GangRecord, owners: Mapping[str, OwnerTraits], now: float) -> None:
        """Take in where the gang is, each time it is looked at."""
        if record.state is not State.LEAVING and not _waits_for_more_time(record):
            account = record.account or self._taken_up(record) or Account(min(record.arrived, now))
            record.account = account
            if account.began is None and record.state in QUORUM_BOUND:
                account.began, account.quorum = record.observed.since, record.whole
        elif record.account is not None and is_over(record, owners):
            members = list(record.members.values())
            self._end(record, members, _outcome(members, record.account.quorum), now)

    def replaced(self, record: GangRecord, members: Sequence[Member], now: float) -> None:
        """Another run takes the gang's name over from these members."""
        account = record.account
        if account is None or account.began is None:
            return
        if all(member.pod.phase.ended for member in members):
            self._end(record, members, _outcome(members, account.quorum), now)

    def ended(self, record: GangRecord, member: Member, now: float) -> None:
        """A member ended: it gives its node back."""
        self._leaves(record, member, now)

    def gone(self, record: GangRecord, member: Member, now: float, *, suspended: bool) -> None:
        """A member is gone, and about to be struck off. suspended: a Job of its gang is."""
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
        """What it used is known now. The last that was evicted for good ends its gang."""
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
        """Its controller makes it again. Of several gangs of one it cannot be told which pod takes the place of which."""
        if pod.owner is not None and not gang_spec.is_gang_of_one(key):
            self._interrupted[key, pod.owner.uid] = account
            if len(self._interrupted) > MOST:
                del self._interrupted[next(iter(self._interrupted))]

    def _taken_up(self, record: GangRecord) -> Account | None:
        """What it had before it was made again."""
        owners = (
            [m.pod.owner.uid for m in record.members.values() if m.pod.owner] if self._interrupted else []
        )
        found = (self._interrupted.pop((record.key, uid), None) for uid in owners)
        return next(filter(None, found), None)

    def _end(self, record: GangRecord, members: Sequence[Member], outcome: Outcome, now: float) -> None:
        """Remember how it ended. What it does from now on, under this record, is another run."""
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
    """It was ended for its max-runtime: what its owner made since has not begun, and does not unless it asks for more."""
    spec = record.spec
    exceeded = isinstance(spec, Refuse) and spec.reason is Reason.RUNTIME_EXCEEDED
    return exceeded and record.account is None and not any(m.bound for m in record.members.values())


def _evicted_for(member: Member) -> Reason | None:
    """Why it was evicted; None: it was not, or succeeded before it was told to go."""
    pod = member.pod
    return None if pod.phase is Phase.SUCCEEDED and not pod.deleting else member.evicting


def is_over(record: GangRecord, owners: Mapping[str, OwnerTraits]) -> bool:
    """Its pods have all ended, and no owner that is known makes more of them."""
    if not all(member.pod.phase.ended for member in record.members.values()):
        return False
    uids = {member.pod.owner.uid for member in record.members.values() if member.pod.owner is not None}
    return not any(traits is not None and not traits.ended for traits in map(owners.get, uids))


def size(gang: EndedGang) -> int:
    """Bytes that it takes at most: 592 for its numbers and what holds them, 112 a resource, and its texts."""
    texts = [*gang.key, gang.name, gang.owner, *(name for name, _ in gang.used)]
    if gang.winner is not None:
        texts += [*gang.winner.gang, gang.winner.name]
    return 592 + 112 * len(gang.used) + sum(map(_text, texts))


def _text(text: str) -> int:
    return 64 + len(text) if text.isascii() else 96 + 4 * len(text)


def _outcome(members: Sequence[Member], quorum: int) -> Outcome:
    """As the pods ended that nothing deleted: enough of them well, or one of them badly."""
    ends = Counter(member.pod.phase for member in members if not member.pod.deleting)
    well = ends[Phase.SUCCEEDED]
    if well and (not ends[Phase.FAILED] or well >= quorum > 0):
        return Outcome.SUCCEEDED
    return Outcome.FAILED if ends[Phase.FAILED] else Outcome.DELETED


def _owner(members: Sequence[Member]) -> str:
    owner = next((member.pod.owner for member in members if member.pod.owner is not None), None)
    return f"{owner.kind[:LONGEST]}/{owner.name[:LONGEST]}" if owner is not None else ""


def _charge(account: Account, pod: Pod, now: float) -> None:
    """A pod gives its node back. Where it does not say since when it had it, it is since its gang was bound."""
    since = pod.bound_at if pod.bound_at is not None else account.began
    seconds = max(0.0, now - since) if since is not None else 0.0
    devices = [own for own in pod.demand.requests if is_device(own[0])]
    used = dict(account.used)
    for name, amount in devices or [own for own in pod.demand.requests if own[0] == CPU]:
        used[name] = used.get(name, 0.0) + amount * seconds
    account.used = tuple(used.items())
