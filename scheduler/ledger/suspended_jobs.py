"""Suspended Jobs: those that Gangwright suspended to free capacity, and the gangs of all suspended Jobs.

A Job that Gangwright suspended is resumed as soon as its pods are deleted. Its new pods are gated and queue like all
others, so only the queue decides when they run again. A note on the Job records the suspension, so a restart forgets
none. If an operator marks the Job to stay suspended, Gangwright never resumes it. If an operator resumes it, Gangwright
removes its note. A gang without pods is known from its suspended Jobs only.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from scheduler.ledger import attained_service
from scheduler.ledger.gang import GangRecord, Spec
from scheduler.ledger.registry import Registry
from scheduler.model.effects import Effect, ResumeJob
from scheduler.model.workload import GangKey, GiveWay, OwnerTraits, PodKey, Uid

EVERY: Final = 5.0
"""Seconds until the resumption of a Job that is still suspended is retried."""


class JobsToResume:
    """Owners that Gangwright suspended, and when each is checked next."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def seen(self, traits: OwnerTraits, now: float) -> None:
        if traits.paused is None:
            self._due.pop(traits.uid, None)
        else:
            self._due.setdefault(traits.uid, now)

    def gone(self, uid: str) -> None:
        self._due.pop(uid, None)

    def next_due(self) -> float:
        return min(self._due.values(), default=float("inf"))

    def resume(self, owners: Mapping[str, OwnerTraits], registry: Registry, now: float) -> Iterator[Effect]:
        """Those without unended pods, and those that an operator resumed."""
        for uid, due in list(self._due.items()):
            if due > now:
                continue
            self._due[uid] = now + EVERY
            traits = owners[uid]
            if traits.paused is not None and not (traits.suspended and _has_pods(registry, uid)):
                gang = GangKey(traits.namespace, f"job:{uid}")
                key = PodKey(traits.namespace, traits.paused.name)
                yield ResumeJob(gang, Uid(uid), key, traits.paused, traits.version)

    def hurry(self, uid: str, now: float) -> None:
        """A pod of this owner was deleted: it may have been the last."""
        if uid in self._due:
            self._due[uid] = now

    def __len__(self) -> int:
        return len(self._due)


def _has_pods(registry: Registry, uid: str) -> bool:
    return any(
        member.pod.owner is not None and member.pod.owner.uid == uid and not member.pod.phase.ended
        for key in registry.owned_by(uid)
        for member in registry.gangs[key].members.values()
    )


def note_suspendable(
    suspendable: dict[GangKey, GangRecord], record: GangRecord, owners: Mapping[str, OwnerTraits]
) -> None:
    """Keep this gang among those that a preemption would suspend, also on its way to its seats: its turn starts."""
    wish = record.spec.wish.give_way if isinstance(record.spec, Spec) else None
    if (
        wish is GiveWay.SUSPEND
        and attained_service.way(record, owners) is wish
        and any(m.has_seat for m in record.live())
    ):
        suspendable[record.key] = record
    else:
        suspendable.pop(record.key, None)
