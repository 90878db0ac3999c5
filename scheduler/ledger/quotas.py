"""What a namespace may ask for, and gangs that ask for more: they never have all their pods."""

from collections.abc import Iterator

from scheduler.ledger import roster
from scheduler.ledger.records import GangRecord, Spec
from scheduler.model.resources import written
from scheduler.model.workload import Quota


class Quotas:
    """The quotas of every namespace."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, Quota]] = {}

    def seen(self, quota: Quota) -> None:
        self._by_namespace.setdefault(quota.namespace, {})[quota.name] = quota

    def gone(self, namespace: str, name: str) -> None:
        own = self._by_namespace.get(namespace, {})
        own.pop(name, None)
        if not own:
            self._by_namespace.pop(namespace, None)

    def too_small(self, record: GangRecord) -> Iterator[str]:
        """A sentence for every limit that the gang's quorum alone goes beyond."""
        own = self._by_namespace.get(record.key.namespace)
        if not own or not isinstance(record.spec, Spec):
            return
        needs = _quorum_needs(record, record.spec)
        for quota in sorted(own.values(), key=lambda q: q.name):
            for resource, hard in quota.hard:
                if needs.get(resource, 0) > hard:
                    yield (
                        f"ResourceQuota {quota.name}: {resource}: {written(resource, hard)}: the gang's quorum "
                        f"needs {written(resource, needs[resource])}, so its last pods are never created"
                    )


def _quorum_needs(record: GangRecord, spec: Spec) -> dict[str, int]:
    """By resource: what the whole quorum asks for, each role's members being like the first of them that is there."""
    needs: dict[str, int] = {}
    counted: set[str] = set()
    for member in sorted(record.live(), key=lambda m: m.arrival):
        role = roster.role_of(member, spec)
        if role in counted:
            continue
        counted.add(role)
        for resource, amount in member.pod.demand.requests:
            needs[resource] = needs.get(resource, 0) + amount * spec.quorum.get(role, 0)
    return needs
