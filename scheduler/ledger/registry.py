"""The mapping of pods to gangs, in both directions."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final

from scheduler.ledger.gang import GangRecord, Member
from scheduler.ledger.gang_parts import Backoff, Health, Pinning, Preemption, RuntimeLimit
from scheduler.model.workload import Asleep, GangKey, Owner, OwnerTraits, Pod, Uid

SCARS_KEPT: Final = 4096
"""Gangs with scars that are remembered after their last pod. The oldest are forgotten first."""

CHANGES_KEPT: Final = 64
"""Changed gangs that are noted beyond twice the number of gangs. If no pass reads them, all are read by the next."""

Scars = tuple[Pinning, Health, Backoff, Preemption, RuntimeLimit]


class SuspendedJobs:
    """The last state of every suspended Job."""

    def __init__(self) -> None:
        self._gang_of: dict[str, GangKey] = {}
        self._gangs: dict[GangKey, dict[str, Asleep]] = {}

    def seen(self, traits: OwnerTraits) -> None:
        """An owner was added or updated, and may have resumed."""
        self.gone(traits.uid)
        if traits.asleep is not None:
            key = self._gang_of[traits.uid] = traits.asleep.membership.gang
            self._gangs.setdefault(key, {})[traits.uid] = traits.asleep

    def gone(self, uid: str) -> None:
        """An owner was deleted."""
        key = self._gang_of.pop(uid, None)
        if key is not None:
            del self._gangs[key][uid]
            if not self._gangs[key]:
                del self._gangs[key]

    def of(self, key: GangKey) -> list[Asleep]:
        """The suspended Jobs of one gang, by name."""
        return sorted(self._gangs.get(key, {}).values(), key=lambda own: own.job)

    def __iter__(self) -> Iterator[GangKey]:
        return iter(self._gangs)

    def __contains__(self, key: GangKey) -> bool:
        return key in self._gangs


class Registry:
    """Every known pod: members in their gangs, and foreign pods."""

    def __init__(self) -> None:
        self.gangs: dict[GangKey, GangRecord] = {}
        self.gang_of: dict[Uid, GangKey] = {}
        self.foreign_pods: dict[Uid, Pod] = {}
        """Unended pods of other schedulers and of native groups. Only their use of nodes counts."""
        self._changed: dict[GangKey, None] | None = {}
        """Gangs that were reconciled or deleted since `changed`. None: too many."""
        self.asleep = SuspendedJobs()
        """Gangs with a suspended Job, whether or not others of their pods exist."""
        self._owned: dict[str, dict[GangKey, int]] = {}
        self._turns: dict[str, GangKey] = {}
        """By the controller that has the turn, gangs in which another controller waits."""
        self._met = 0
        self._scars: OrderedDict[str, Scars] = OrderedDict()

    def member(self, uid: Uid) -> Member | None:
        key = self.gang_of.get(uid)
        return self.gangs[key].members.get(uid) if key is not None else None

    def pod(self, uid: Uid) -> Pod | None:
        member = self.member(uid)
        return member.pod if member else self.foreign_pods.get(uid)

    def is_gone(self, uid: Uid) -> bool:
        """This pod is deleted or terminating."""
        pod = self.pod(uid)
        return pod is None or pod.deleting

    @property
    def count(self) -> int:
        return len(self.gang_of) + len(self.foreign_pods)

    def knows(self, uid: Uid) -> bool:
        return uid in self.gang_of or uid in self.foreign_pods

    def give_turn(self, record: GangRecord, owner: Owner | None) -> None:
        """The run of this controller goes first; None: no other waits."""
        if record.turn is not None:
            self._turns.pop(record.turn.uid, None)
        record.turn = owner
        if owner is not None:
            self._turns[owner.uid] = record.key

    def concerned(self, owner: str) -> list[GangKey]:
        """Gangs with a pod of this controller, and the one in which it keeps its turn without a pod."""
        owned, turn = list(self.owned_by(owner)), self._turns.get(owner)
        return owned if turn is None or turn in owned else [*owned, turn]

    def owned_by(self, owner: str) -> Iterable[GangKey]:
        """Gangs with a member of the controller with this uid."""
        return self._owned.get(owner, ())

    def note_change(self, key: GangKey) -> None:
        """This gang was reconciled or deleted."""
        if self._changed is not None:
            self._changed[key] = None
            if len(self._changed) > 2 * len(self.gangs) + CHANGES_KEPT:
                self._changed = None

    def changed(self) -> Iterable[GangKey] | None:
        """Gangs that were reconciled or deleted since the last call, which one caller makes. None: any may be."""
        found, self._changed = self._changed, {}
        return found

    def enter(self, pod: Pod, key: GangKey, member: Member | None = None) -> tuple[GangRecord, Member]:
        record = self.gangs.get(key)
        if record is None:
            self._met += 1
            record = self.gangs[key] = GangRecord(key, self._met)
            self._remember_scars(record, pod)
        record.members[pod.uid] = member = member or Member(pod)
        record.spec = None
        self.gang_of[pod.uid] = key
        self._own(member.pod, key)
        return record, member

    def renew(self, member: Member, pod: Pod) -> None:
        """Update a member. Its controller may have changed."""
        key = self.gang_of[pod.uid]
        if member.pod.owner != pod.owner:
            self._disown(member.pod, key)
            self._own(pod, key)
        member.see(pod)

    def leave(self, uid: Uid) -> GangKey | None:
        """Remove a pod. A gang without pods is deleted. Returns the gang it was in."""
        self.foreign_pods.pop(uid, None)
        key = self.gang_of.pop(uid, None)
        if key is None:
            return None
        record = self.gangs[key]
        member = record.members.pop(uid)
        self._disown(member.pod, key)
        if not record.members:
            del self.gangs[key]
            self.give_turn(record, None)
            if (
                record.pinning.barred
                or record.pinning.broken
                or record.health.setbacks
                or record.preemption.gave_way
                or record.preemption.at > float("-inf")
                or record.runtime_limit.exceeded is not None
            ):
                self.keep_scars(record, member.pod)
        return key

    def _own(self, pod: Pod, key: GangKey) -> None:
        if pod.owner is not None:
            gangs = self._owned.setdefault(pod.owner.uid, {})
            gangs[key] = gangs.get(key, 0) + 1

    def _disown(self, pod: Pod, key: GangKey) -> None:
        if pod.owner is None:
            return
        gangs = self._owned.get(pod.owner.uid, {})
        gangs[key] = gangs.get(key, 0) - 1
        if gangs[key] <= 0:
            del gangs[key]
        if not gangs:
            self._owned.pop(pod.owner.uid, None)

    def keep_scars(self, record: GangRecord, pod: Pod) -> None:
        """Keep the nodes where a gang's pins broke beyond its end: its owner recreates it, and the obstacle may remain.

        Also the time of the last preemption for it, and that its max-runtime ended it.
        """
        line = lineage(record.key, pod)
        self._scars[line] = _scars(*_outliving(record))
        self._scars.move_to_end(line)
        if len(self._scars) > SCARS_KEPT:
            self._scars.popitem(last=False)

    def _remember_scars(self, record: GangRecord, pod: Pod) -> None:
        if (before := self._scars.get(lineage(record.key, pod))) is not None:
            own = _scars(*before)
            record.pinning, record.health, record.backoff, record.preemption, record.runtime_limit = own


def _outliving(record: GangRecord) -> Scars:
    return record.pinning, record.health, record.backoff, record.preemption, record.runtime_limit


def _scars(
    pinning: Pinning, health: Health, backoff: Backoff, preemption: Preemption, limit: RuntimeLimit
) -> Scars:
    """A copy of what survives a gang. Nothing more, because a plan names every seat and every victim."""
    return (
        Pinning(pinning.soft, pinning.broken, dict(pinning.barred)),
        Health(health.setbacks),
        Backoff(not_before=backoff.not_before),
        Preemption(preemption.at, preemption.gave_way),
        RuntimeLimit(exceeded=limit.exceeded, makers=limit.makers),
    )


def lineage(key: GangKey, pod: Pod) -> str:
    """What survives a gang's recreation: its name, or the controller of a gang of one."""
    return pod.owner.uid if ":" in key.name and pod.owner is not None else str(key)
