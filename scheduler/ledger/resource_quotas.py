"""What a namespace may ask for, and gangs that ask for more than that, or than is left of it: they lack pods."""

from collections.abc import Iterable, Iterator, Mapping

from scheduler.ledger import quorum
from scheduler.ledger.gang import GangRecord, Spec
from scheduler.ledger.phase import State
from scheduler.model.resources import written
from scheduler.model.workload import GangKey, Quota


class Quotas:
    """The quotas of every namespace."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, Quota]] = {}
        self._gathering: dict[str, dict[GangKey, None]] = {}

    def seen(self, quota: Quota) -> bool:
        """Whether it is another than before."""
        own = self._by_namespace.setdefault(quota.namespace, {})
        before, own[quota.name] = own.get(quota.name), quota
        return before != quota

    def gone(self, namespace: str, name: str) -> None:
        own = self._by_namespace.get(namespace, {})
        own.pop(name, None)
        if not own:
            self._by_namespace.pop(namespace, None)

    def note(self, record: GangRecord) -> None:
        """Take in whether this gang waits for members, and which quotas are too full for them."""
        if record.state == State.GATHERING:
            self._gathering.setdefault(record.key.namespace, {})[record.key] = None
            record.quota_full = self._full(record)
        else:
            self.forget(record.key)
            record.quota_full = ""

    def forget(self, key: GangKey) -> None:
        """This gang waits for no members."""
        own = self._gathering.get(key.namespace, {})
        own.pop(key, None)
        if not own:
            self._gathering.pop(key.namespace, None)

    def gathering(self, namespace: str) -> Iterable[GangKey]:
        """Gangs of this namespace that wait for members."""
        return self._gathering.get(namespace, ())

    def too_small(self, record: GangRecord) -> Iterator[str]:
        """A sentence for every limit that the gang's quorum alone goes beyond."""
        own = self._by_namespace.get(record.key.namespace)
        if not own or not isinstance(record.spec, Spec):
            return
        needs = _needs(record, record.spec, record.spec.quorum)
        for quota in sorted(own.values(), key=lambda q: q.name):
            for resource, hard in quota.hard:
                if needs.get(resource, 0) > hard:
                    yield (
                        f"ResourceQuota {quota.name}: {resource}: {written(resource, hard)}: the gang's quorum "
                        f"needs {written(resource, needs[resource])}, so its last pods are never created"
                    )

    def _full(self, record: GangRecord) -> str:
        """Which quotas leave too little for the pods that the quorum lacks; empty: none.

        A limit that the whole quorum goes beyond is told by `too_small`.
        """
        own = self._by_namespace.get(record.key.namespace)
        if not own or not isinstance(record.spec, Spec):
            return ""
        needs = _needs(record, record.spec, quorum.absent(record, record.spec))
        whole = _needs(record, record.spec, record.spec.quorum)
        found = [
            f"; ResourceQuota {quota.name} is full: {written(name, used[name])} of {written(name, hard)} {name} are "
            f"in use, and the missing pods need {written(name, needs[name])}"
            for quota in sorted(own.values(), key=lambda q: q.name)
            for used in [dict(quota.used)]
            for name, hard in quota.hard
            if name in used and needs.get(name) and used[name] + needs[name] > hard >= whole[name]
        ]
        return "".join(found)


def _needs(record: GangRecord, spec: Spec, counts: Mapping[str, int]) -> dict[str, int]:
    """By resource: what so many of each role ask for, its members being like the first of them that is there."""
    needs: dict[str, int] = {}
    counted: set[str] = set()
    for member in sorted(record.live(), key=lambda m: m.arrival):
        role = quorum.role_of(member, spec)
        if role in counted:
            continue
        counted.add(role)
        for resource, amount in member.pod.demand.requests:
            needs[resource] = needs.get(resource, 0) + amount * counts.get(role, 0)
    return needs
