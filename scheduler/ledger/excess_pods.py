"""Pods beyond the stated size of the gang that they name: plain pods until a place in the gang is free.

A rolling update makes the new pod before the old one goes, and it may run alone by then; whether it does or not, it
takes the old one's place.
"""

from collections.abc import Iterable
from heapq import nsmallest

from scheduler.ledger.gang import Member
from scheduler.ledger.registry import Roll
from scheduler.model.workload import GangKey, Uid, gang_of_one


class Spares:
    """Who was counted out of which gang, in the order in which it happened."""

    def __init__(self) -> None:
        self._of: dict[GangKey, dict[Uid, None]] = {}
        self._called: set[GangKey] = set()

    def put(self, key: GangKey, uids: Iterable[Uid]) -> None:
        for uid in uids:
            self._of.setdefault(key, {})[uid] = None

    def drop(self, key: GangKey, uid: Uid) -> None:
        """This pod is gone, or names another gang."""
        own = self._of.get(key, {})
        own.pop(uid, None)
        if not own:
            self._forget(key)

    def has(self, key: GangKey) -> bool:
        return key in self._of

    @property
    def any_called(self) -> bool:
        return bool(self._called)

    def is_called(self, key: GangKey, uid: Uid) -> bool:
        """The gang has a place for this pod, which could not be taken while a seat was on its way to it."""
        return key in self._called and uid in self._of[key]

    def take(self, key: GangKey, room: int | None, roll: Roll) -> list[Uid]:
        """So many of the gang's spares (None: all), those that are bound and then the eldest first: they are no more.

        One to whom a seat is on its way is left until it is bound, or has lost it.
        """
        own = self._of.get(key, {})
        there = [(uid, member) for uid in own if (member := _alone(roll, key, uid)) is not None]
        free = [(not member.bound, member.arrival, uid) for uid, member in there if member.hold is None]
        taken = [uid for _, _, uid in (sorted(free) if room is None else nsmallest(room, free))]
        for uid in taken:
            del own[uid]
        wants_more = room is None or len(taken) < room
        if wants_more and len(free) < len(there):
            self._called.add(key)
        else:
            self._called.discard(key)
        if not own:
            self._forget(key)
        return taken

    def check(self, roll: Roll) -> list[str]:
        """Sentences about what must never be true."""
        return [f"spare {uid} is gone" for own in self._of.values() for uid in own if uid not in roll.gang_of]

    def _forget(self, key: GangKey) -> None:
        self._of.pop(key, None)
        self._called.discard(key)


def _alone(roll: Roll, key: GangKey, uid: Uid) -> Member | None:
    """The pod, if it still is one to be counted on, and a gang of its own."""
    if roll.gang_of.get(uid) != gang_of_one(key.namespace, uid):
        return None
    member = roll.member(uid)
    return member if member is not None and member.live else None
