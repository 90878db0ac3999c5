"""What each namespace uses, compared with its share and its ResourceQuotas.

Lives here: the sums, whether a gang stays within a share, and gangs with pods that a quota prevents.
Never here: the consequences. Only managed pods count for a share, bound or with a held seat, and seats reserved for
their replacements in their place. Pods of other schedulers don't count.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping

from scheduler.ledger import quorum
from scheduler.ledger.gang import GangRecord, Spec, arrival
from scheduler.ledger.phase import State
from scheduler.model.demand import Demand
from scheduler.model.preemption_units import Limit
from scheduler.model.queueing import Share, Usage
from scheduler.model.resources import is_shown, written
from scheduler.model.sharded_dict import ShardedDict
from scheduler.model.workload import Gang, GangKey, Quota, Uid

Sums = dict[str, float]


class ShareUsage:
    """Amounts by namespace and resource, updated with every seat."""

    def __init__(self, shares: Mapping[str, Share]) -> None:
        self.shares = shares
        self.version = 0
        """Changes with the use or share of any namespace."""
        self._places: ShardedDict[Uid, tuple[str, Demand]] = ShardedDict()
        self._kept: dict[Uid, tuple[Uid, str, Demand]] = {}
        """What counts instead of a pod that no longer uses resources, and under which name."""
        self._used: dict[str, Sums] = {}
        self._excess: tuple[int, Mapping[str, Sums]] = -1, {}

    def adopt(self, shares: Mapping[str, Share]) -> None:
        """These shares apply from now on."""
        self.shares = shares
        self.version += 1

    def put(self, uid: Uid, namespace: str, demand: Demand) -> None:
        """This pod uses resources. Repeated calls count once."""
        before = self._places.get(uid)
        if before is not None:
            if before[1].requests == demand.requests:
                return
            self.take(uid)
        self._places[uid] = (namespace, demand)
        self._add(namespace, demand, 1.0)
        if uid in self._kept:
            self.take(self._kept[uid][0])

    def take(self, uid: Uid) -> None:
        """This pod no longer uses resources."""
        place = self._places.pop(uid, None)
        if place is not None:
            self._add(*place, -1.0)
        if uid in self._kept:
            self.put(*self._kept[uid])

    def keep(self, name: Uid, old: Uid, namespace: str, demand: Demand) -> None:
        """A seat is reserved for the replacement of `old`. At any time, exactly one of the two counts."""
        self._kept[old] = (name, namespace, demand)
        if old not in self._places:
            self.put(name, namespace, demand)

    def keep_no_longer(self, old: Uid) -> None:
        """That seat is no longer reserved."""
        kept = self._kept.pop(old, None)
        if kept is not None:
            self.take(kept[0])

    def _add(self, namespace: str, demand: Demand, sign: float) -> None:
        self.version += 1
        sums = self._used.setdefault(namespace, {})
        for name, value in demand.requests:
            if not is_shown(name):
                continue
            sums[name] = sums.get(name, 0.0) + sign * value
            if not sums[name]:
                del sums[name]
        if not sums:
            del self._used[namespace]

    @property
    def used(self) -> Mapping[str, Mapping[str, float]]:
        """By namespace and resource, the amounts in use."""
        return self._used

    def of(self, namespace: str) -> Usage:
        return Usage(dict(self._used.get(namespace, {})), self.shares.get(namespace, Share()))

    def below(self, namespace: str) -> Usage | None:
        """The namespace's use and share; None: unlimited."""
        share = self.shares.get(namespace)
        return self.of(namespace) if share is not None and share.ceiling else None

    def over_ceiling(self, gang: Gang) -> tuple[str, float, float, float] | None:
        """The first resource for which the quorum would exceed its namespace's ceiling.

        Its name, the namespace's use, the quorum's needs, the ceiling.
        """
        share = self.shares.get(gang.key.namespace)
        if share is None or not share.ceiling:
            return None
        used, needs = self._used.get(gang.key.namespace, {}), _needs(gang)
        for name, most in share.ceiling:
            if needs.get(name) and used.get(name, 0.0) + needs[name] > most:
                return name, used.get(name, 0.0), needs[name], most
        return None

    def is_over_ceiling(self, gang: Gang) -> bool:
        """The quorum would exceed its namespace's ceiling."""
        return self.over_ceiling(gang) is not None

    def claims(self, gang: Gang) -> frozenset[str]:
        """The gang's requested resources that its namespace is guaranteed. Empty unless the quorum stays within all of
        them.
        """
        share = self.shares.get(gang.key.namespace)
        if share is None or not share.guaranteed:
            return frozenset()
        used, needs = self._used.get(gang.key.namespace, {}), _needs(gang)
        named = [(name, least) for name, least in share.guaranteed if needs.get(name)]
        within = all(used.get(name, 0.0) + needs[name] <= least for name, least in named)
        return frozenset(name for name, _ in named) if within else frozenset()

    def excess(self) -> Mapping[str, Sums]:
        """By namespace and resource, its use above its guarantee. Without a share, nothing is guaranteed.

        Only resources that some namespace is guaranteed: nothing else is lent.
        """
        if self._excess[0] != self.version:
            self._excess = self.version, dict(self._exceeding())
        return self._excess[1]

    def _exceeding(self) -> Iterator[tuple[str, Sums]]:
        named = {name for share in self.shares.values() for name, _ in share.guaranteed}
        for namespace, used in self._used.items():
            least = dict(self.shares.get(namespace, Share()).guaranteed)
            above = {name: used[name] - least.get(name, 0) for name in used if name in named}
            above = {name: value for name, value in above.items() if value > 0}
            if above:
                yield namespace, above

    def guards(self, namespace: str, demand: Demand) -> bool:
        """The pod uses a resource of which its namespace is guaranteed some and uses no more than that."""
        share = self.shares.get(namespace)
        if share is None or not share.guaranteed:
            return False
        wants, above = dict(demand.requests), self.excess().get(namespace, {})
        return any(least and wants.get(name) and name not in above for name, least in share.guaranteed)

    def borrowers(self, names: Collection[str], but: str) -> frozenset[str]:
        """Namespaces that exceed their guarantee of one of these resources."""
        return frozenset(
            namespace
            for namespace, above in self.excess().items()
            if namespace != but and any(name in above for name in names)
        )

    def uses(self, uids: Iterable[Uid], names: Collection[str]) -> bool:
        """One of these pods uses some of these resources."""
        return any(
            name in names and value
            for uid in uids
            if uid in self._places
            for name, value in self._places[uid][1].requests
        )

    def limits(self, uids: Iterable[Uid], going: Iterable[Uid], own: str) -> tuple[Limit, ...]:
        """How much these pods may free for the namespace `own` before other namespaces fall below their guarantees.

        going: pods that already leave.  Only limits that these pods could exceed.
        """
        theirs: dict[tuple[str, str], dict[Uid, float]] = {}
        for uid in uids:
            for limit, value in self._guarded(uid):
                if limit[0] != own:
                    theirs.setdefault(limit, {})[uid] = value
        less: dict[tuple[str, str], float] = {}
        for uid in going if theirs else ():
            for limit, value in self._guarded(uid):
                less[limit] = less.get(limit, 0.0) + value
        found: list[Limit] = []
        for (namespace, name), uses in sorted(theirs.items()):
            above = self.excess().get(namespace, {}).get(name, 0.0) - less.get((namespace, name), 0.0)
            if sum(uses.values()) > above:
                found.append(Limit(max(0.0, above), uses))
        return tuple(found)

    def _guarded(self, uid: Uid) -> Iterator[tuple[tuple[str, str], float]]:
        """The pod's use of resources that its namespace is guaranteed."""
        place = self._places.get(uid)
        share = self.shares.get(place[0]) if place is not None else None
        if place is None or share is None:
            return
        wants = dict(place[1].requests)
        for name, least in share.guaranteed:
            if least and wants.get(name):
                yield (place[0], name), float(wants[name])


def beyond_ceiling(
    usage: Usage, gang: Gang, seats: Container[Uid]
) -> dict[Uid, tuple[str, float, float, float]]:
    """Placed surplus members that would exceed their namespace's ceiling after the quorum is placed: resource, use at
    that point, the member's need, the ceiling.
    """
    used, needs = dict(usage.used), _needs(gang)
    used |= {name: used.get(name, 0.0) + value for name, value in needs.items()}
    beyond: dict[Uid, tuple[str, float, float, float]] = {}
    for role in gang.roles if usage.share.ceiling else ():
        own = dict(role.demand.requests)
        for uid in (uid for uid in role.surplus if uid in seats):
            over = [
                (name, used.get(name, 0.0), float(own[name]), float(most))
                for name, most in usage.share.ceiling
                if own.get(name) and used.get(name, 0.0) + own[name] > most
            ]
            if over:
                beyond[uid] = over[0]
            else:
                used |= {name: used.get(name, 0.0) + value for name, value in own.items()}
    return beyond


def _needs(gang: Gang) -> Sums:
    needs: Sums = {}
    for role in gang.roles:
        for name, value in role.demand.requests:
            needs[name] = needs.get(name, 0.0) + value * len(role.quorum)
    return needs


class Quotas:
    """The quotas of every namespace."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, Quota]] = {}
        self._gathering: dict[str, dict[GangKey, None]] = {}

    def seen(self, quota: Quota) -> bool:
        """Whether it differs from before."""
        own = self._by_namespace.setdefault(quota.namespace, {})
        before, own[quota.name] = own.get(quota.name), quota
        return before != quota

    def gone(self, namespace: str, name: str) -> None:
        own = self._by_namespace.get(namespace, {})
        own.pop(name, None)
        if not own:
            self._by_namespace.pop(namespace, None)

    def note(self, record: GangRecord) -> None:
        """Record whether this gang waits for members, and which quotas are too full for them."""
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
        """A message for every limit that the gang's quorum alone exceeds."""
        own = self._by_namespace.get(record.key.namespace)
        if not own or not isinstance(record.spec, Spec):
            return
        needs = _lacking(record, record.spec, record.spec.quorum)
        for quota in sorted(own.values(), key=lambda q: q.name):
            for resource, hard in quota.hard:
                if needs.get(resource, 0) > hard:
                    yield (
                        f"ResourceQuota {quota.name} allows {written(resource, hard)} {resource}, but the gang's "
                        f"quorum needs {written(resource, needs[resource])}; its last pods cannot be created"
                    )

    def _full(self, record: GangRecord) -> str:
        """Quotas that leave too little for the missing pods of the quorum. Empty if none.

        A limit that the whole quorum exceeds is reported by `too_small`.
        """
        own = self._by_namespace.get(record.key.namespace)
        if not own or not isinstance(record.spec, Spec):
            return ""
        needs = _lacking(record, record.spec, quorum.absent(record, record.spec))
        whole = _lacking(record, record.spec, record.spec.quorum)
        found = [
            f"; ResourceQuota {quota.name} is full: {written(name, used[name])} of {written(name, hard)} {name} are "
            f"in use, and the missing pods need {written(name, needs[name])}"
            for quota in sorted(own.values(), key=lambda q: q.name)
            for used in [dict(quota.used)]
            for name, hard in quota.hard
            if name in used and needs.get(name) and used[name] + needs[name] > hard >= whole[name]
        ]
        return "".join(found)


def _lacking(record: GangRecord, spec: Spec, counts: Mapping[str, int]) -> dict[str, int]:
    """By resource: the requests of this many members per role. The first existing member stands for its role."""
    needs: dict[str, int] = {}
    counted: set[str] = set()
    for member in sorted(record.live(), key=arrival):
        role = quorum.role_of(member, spec)
        if role in counted:
            continue
        counted.add(role)
        for resource, amount in member.pod.demand.requests:
            needs[resource] = needs.get(resource, 0) + amount * counts.get(role, 0)
    return needs
