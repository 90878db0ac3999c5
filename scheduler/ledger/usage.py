"""What each namespace uses, held against its share.

Lives here: the sums, and whether a gang stays within a share. Never here: what follows from it.
Only pods that are given room through us count, bound or with a seat held: what another scheduler places is not ours to
share out.
"""

from collections.abc import Container, Iterable, Mapping

from scheduler.model.demand import Demand
from scheduler.model.queueing import Share, Usage
from scheduler.model.workload import Gang, Uid

Sums = dict[str, float]


class Usages:
    """Amounts by namespace and resource, kept with every seat that is given and given back."""

    def __init__(self, shares: Mapping[str, Share]) -> None:
        self.shares = shares
        self.version = 0
        """Changes whenever anybody's use or share does."""
        self._places: dict[Uid, tuple[str, Demand]] = {}
        self._used: dict[str, Sums] = {}

    def adopt(self, shares: Mapping[str, Share]) -> None:
        """These shares count from now on."""
        self.shares = shares
        self.version += 1

    def put(self, uid: Uid, namespace: str, demand: Demand) -> None:
        """This pod uses room, once, however often it is told."""
        before = self._places.get(uid)
        if before is not None and before[1].requests == demand.requests:
            return
        self.take(uid)
        self._places[uid] = (namespace, demand)
        self._add(namespace, demand, 1.0)

    def take(self, uid: Uid) -> None:
        """This pod uses no room any more."""
        place = self._places.pop(uid, None)
        if place is not None:
            self._add(*place, -1.0)

    def _add(self, namespace: str, demand: Demand, sign: float) -> None:
        self.version += 1
        sums = self._used.setdefault(namespace, {})
        for name, value in demand.requests:
            sums[name] = sums.get(name, 0.0) + sign * value
            if not sums[name]:
                del sums[name]
        if not sums:
            del self._used[namespace]

    def of(self, namespace: str) -> Usage:
        return Usage(dict(self._used.get(namespace, {})), self.shares.get(namespace, Share()))

    def over_ceiling(self, gang: Gang) -> tuple[str, float, float, float] | None:
        """The first resource of which the quorum would take its namespace above its ceiling.

        Its name, what the namespace uses, what the quorum needs, the ceiling.
        """
        share = self.shares.get(gang.key.namespace)
        if share is None or not share.ceiling:
            return None
        used, needs = self._used.get(gang.key.namespace, {}), _needs(gang)
        for name, most in share.ceiling:
            if needs.get(name) and used.get(name, 0.0) + needs[name] > most:
                return name, used.get(name, 0.0), needs[name], most
        return None

    def beyond_ceiling(self, gang: Gang, seats: Container[Uid]) -> dict[Uid, tuple[str, float, float, float]]:
        """Surplus members with a seat that would take their namespace, quorum seated, above its ceiling: resource, what is
        used by then, what the member needs, the ceiling.
        """
        share = self.shares.get(gang.key.namespace, Share())
        used, needs = dict(self._used.get(gang.key.namespace, {})), _needs(gang)
        used |= {name: used.get(name, 0.0) + value for name, value in needs.items()}
        beyond: dict[Uid, tuple[str, float, float, float]] = {}
        for role in gang.roles if share.ceiling else ():
            own = dict(role.demand.requests)
            for uid in (uid for uid in role.surplus if uid in seats):
                over = [
                    (name, used.get(name, 0.0), float(own[name]), float(most))
                    for name, most in share.ceiling
                    if own.get(name) and used.get(name, 0.0) + own[name] > most
                ]
                if over:
                    beyond[uid] = over[0]
                else:
                    used |= {name: used.get(name, 0.0) + value for name, value in own.items()}
        return beyond

    def within_guarantee(self, gang: Gang) -> bool:
        """With the quorum its namespace uses no more than is guaranteed to it, of everything that it is guaranteed any of."""
        share = self.shares.get(gang.key.namespace)
        if share is None or not share.guaranteed:
            return False
        used, needs = self._used.get(gang.key.namespace, {}), _needs(gang)
        named = [(name, least) for name, least in share.guaranteed if needs.get(name)]
        return bool(named) and all(used.get(name, 0.0) + needs[name] <= least for name, least in named)

    def excess(self) -> dict[str, Sums]:
        """By namespace and resource, what it uses above its guarantee; a namespace without a share is guaranteed nothing.

        Only resources that somebody is guaranteed: of anything else nothing is lent.
        """
        named = {name for share in self.shares.values() for name, _ in share.guaranteed}
        found: dict[str, Sums] = {}
        for namespace, used in self._used.items():
            least = dict(self.shares.get(namespace, Share()).guaranteed)
            above = {name: used[name] - least.get(name, 0) for name in used if name in named}
            above = {name: value for name, value in above.items() if value > 0}
            if above:
                found[namespace] = above
        return found

    def guards(self, namespace: str, demand: Demand) -> bool:
        """Something that a pod of this demand uses is guaranteed to the namespace."""
        share = self.shares.get(namespace)
        if share is None or not share.guaranteed:
            return False
        wants = dict(demand.requests)
        return any(least and wants.get(name) for name, least in share.guaranteed)

    def guards_any(self, namespace: str, uids: Iterable[Uid]) -> bool:
        """Something that one of these pods uses is guaranteed to the namespace."""
        return any(uid in self._places and self.guards(namespace, self._places[uid][1]) for uid in uids)

    def borrowers(self, but: str) -> frozenset[str]:
        """Namespaces that use more than is guaranteed to them of anything that is guaranteed to somebody."""
        return frozenset(self.excess()) - {but}

    def take_from(self, excess: dict[str, Sums], namespace: str, uids: Iterable[Uid]) -> bool:
        """Take these pods off what their namespace has in excess; False, and nothing is taken, when it is less than that."""
        left = excess.get(namespace)
        if left is None:
            return False
        sums: Sums = {}
        for uid in uids:
            for name, value in self._places[uid][1].requests if uid in self._places else ():
                sums[name] = sums.get(name, 0.0) + value
        if any(name in left and left[name] < value for name, value in sums.items()):
            return False
        for name in left:
            left[name] -= sums.get(name, 0.0)
        return True

    def check(self, places: Mapping[Uid, tuple[str, Demand]]) -> list[str]:
        """Sentences about what must never be true: the sums are those of exactly these pods."""
        return [] if places == self._places else ["the use of namespaces is not that of their pods"]


def _needs(gang: Gang) -> Sums:
    needs: Sums = {}
    for role in gang.roles:
        for name, value in role.demand.requests:
            needs[name] = needs.get(name, 0.0) + value * len(role.quorum)
    return needs
