"""Jobs that are suspended, by the gang that their pods would be of: a gang without pods is known by nothing else.

Never here: which of them we suspended and resume (`resuming`).
"""

from collections.abc import Iterator

from scheduler.model.workload import Asleep, GangKey, OwnerTraits


class Sleepers:
    """What every suspended Job said last."""

    def __init__(self) -> None:
        self._gang_of: dict[str, GangKey] = {}
        self._gangs: dict[GangKey, dict[str, Asleep]] = {}

    def seen(self, traits: OwnerTraits) -> None:
        """What is known of an owner now, who may have woken."""
        self.gone(traits.uid)
        if traits.asleep is not None:
            key = self._gang_of[traits.uid] = traits.asleep.membership.gang
            self._gangs.setdefault(key, {})[traits.uid] = traits.asleep

    def gone(self, uid: str) -> None:
        """An owner is no more."""
        key = self._gang_of.pop(uid, None)
        if key is not None:
            del self._gangs[key][uid]
            if not self._gangs[key]:
                del self._gangs[key]

    def of(self, key: GangKey) -> list[Asleep]:
        """Those of one gang, by name."""
        return sorted(self._gangs.get(key, {}).values(), key=lambda own: own.job)

    def __iter__(self) -> Iterator[GangKey]:
        return iter(self._gangs)

    def __contains__(self, key: GangKey) -> bool:
        return key in self._gangs
