"""Which placed pods count for rules about neighbors: those that a selector selects, and those that keep others away.

Lives here: the pods of each selector that was asked about, and of each anti-affinity term that a placed pod carries; the
labels that selectors read; the labels of namespaces. Never here: a rule's outcome (`placement`).

Why per question: most clusters have few such rules. A selector is counted over all pods when it is first asked about,
and kept current from then on. Without rules, a pod's event costs nothing here.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np

from scheduler.model.cluster import Matrix, Snapshot
from scheduler.model.neighbors import (
    Counted,
    NeighborColumns,
    Neighbors,
    PodLabels,
    PodSelector,
    PodTerm,
    Repelling,
    Selected,
    counted_for,
)
from scheduler.model.workload import Gang, Pod, Uid

SELECTORS_KEPT: Final = 256
"""Selectors whose pods are kept current. The one that was not asked about for longest is dropped first."""

FORECAST_COLUMNS: Final = 32
"""Columns that a forecast reads at most: it is about many gangs, and each may have selectors of its own. Counting hundreds
of selectors at once would delay kube-scheduler's calls. A question about one gang reads all of its own."""

NAMESPACES_KEPT: Final = 1024
"""Namespaces with cached label keys."""

Placed: TypeAlias = Iterable[tuple[Pod, str]]
"""Pods that use resources, each with its node."""

Members: TypeAlias = dict[Uid, str]
"""Pods that count, each with its node."""


class NeighborTable:
    """The placed pods by selector and by anti-affinity term.  placed: all pods that use resources now.  pods: all."""

    def __init__(self, placed: Callable[[], Placed], pods: Callable[[], Iterable[Pod]]) -> None:
        self._placed: Final = placed
        self._pods: Final = pods
        self._forget_at = SELECTORS_KEPT
        self._selected: Final[OrderedDict[Selected, Members]] = OrderedDict()
        self._repelling: Final[dict[PodTerm, Members]] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._known: Final[dict[PodSelector, None]] = {}
        self._keys: Final[dict[str, frozenset[str] | None]] = {}
        self.changes = 0
        """Grows with every change of what counts: an answer from an older picture may be wrong."""

    # ── facts ───────────────────────────────────────────────────────────────────────────────────────────

    def namespace_seen(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """The namespace has these labels; None: it was deleted. Returns whether selectors may select other pods now."""
        before = self._namespaces.get(name)
        if before == labels:
            return False
        if labels is None:
            del self._namespaces[name]
        else:
            self._namespaces[name] = labels
        self._keys.clear()
        cached = (own for what in self._selected for own in what.selectors)
        by_labels = any(own.namespace_labels is not None for own in (*self._known, *cached))
        if by_labels:
            self._selected.clear()
            self.changes += 1
        return by_labels

    def note(self, rules: Neighbors, namespaces: Callable[[], Iterable[str]]) -> set[str]:
        """Note the selectors of these rules. Returns which of the namespaces have pods with other labels to be read."""
        fresh = [own for own in rules.selectors if own not in self._known]
        if not fresh:
            return set()
        reached = {name for name in namespaces() if any(own.reaches(name, self._namespaces) for own in fresh)}
        before = {name: self.keys(name) for name in reached}
        if len(self._known) >= self._forget_at:
            self._known.clear()
            self._known.update((own, None) for pod in self._pods() for own in pod.neighbors.selectors)
            self._forget_at = SELECTORS_KEPT + 2 * len(self._known)
            self._keys.clear()
        self._known.update(dict.fromkeys(rules.selectors))
        for name in [
            name for name in self._keys if any(own.reaches(name, self._namespaces) for own in fresh)
        ]:
            del self._keys[name]
        return {name for name, keys in before.items() if self.keys(name) != keys}

    def put(self, pod: Pod, node: str) -> bool:
        """This pod uses resources on this node. Returns whether that may let other pods in: affinity, a fuller domain."""
        changed = False
        if self._selected:
            labels = PodLabels.of(pod.key.namespace, pod.labels)
            for what, members in self._selected.items():
                counts = what.counts(labels, (), self._namespaces) and not (what.living and pod.deleting)
                before = members.get(pod.uid)
                if counts:
                    members[pod.uid] = node
                elif before is not None:
                    del members[pod.uid]
                changed = changed or before != members.get(pod.uid)
        self.changes += changed
        for term in pod.neighbors.anti_affinity:
            carriers = self._repelling.setdefault(term, {})
            self.changes += carriers.get(pod.uid) != node
            carriers[pod.uid] = node
        return changed

    def take(self, uid: Uid) -> None:
        """This pod no longer uses resources."""
        for members in self._selected.values():
            self.changes += members.pop(uid, None) is not None
        for term in [
            term for term, members in self._repelling.items() if members.pop(uid, None) and not members
        ]:
            del self._repelling[term]

    # ── questions ───────────────────────────────────────────────────────────────────────────────────────

    def keys(self, namespace: str) -> frozenset[str] | None:
        """The labels that selectors read of pods of this namespace. None: no selector selects any of them."""
        if not self._known:
            return None
        if namespace not in self._keys:
            if len(self._keys) >= NAMESPACES_KEPT:
                self._keys.clear()
            reaching = [own.keys for own in self._known if own.reaches(namespace, self._namespaces)]
            self._keys[namespace] = frozenset().union(*reaching) if reaching else None
        return self._keys[namespace]

    def picture(self, snapshot: Snapshot, gangs: Iterable[Gang], most: int | None = None) -> Snapshot:
        """The snapshot with the columns that the rules about these gangs read. The same object if there are none.

        most: how many columns at most. None: all.
        """
        roles = [(role.labels, role.neighbors) for gang in gangs for role in gang.roles]
        if not any(labels is not None or rules for labels, rules in roles):
            return snapshot
        counted = counted_for(roles, self._repelling, self._namespaces)[:most]
        if not counted:
            return snapshot
        self._count_all(counted)
        first, names = len(snapshot.axis), tuple(f"neighbors:{number}" for number in range(len(counted)))
        free = np.zeros((len(snapshot.names), len(counted)))
        for column, what in enumerate(counted):
            nodes = self._members(what).values()
            rows = [row for node in nodes if (row := snapshot.index.get(node)) is not None]
            free[:, column] = -np.bincount(np.array(rows, dtype=np.int64), minlength=len(free))
        wide = [np.hstack((snapshot.free, free)), np.hstack((snapshot.capacity, np.zeros_like(free)))]
        for array in wide:
            array.flags.writeable = False
        return replace(
            snapshot,
            axis=replace(snapshot.axis, names=snapshot.axis.names + names),
            free=wide[0],
            capacity=wide[1],
            nominations=tuple(
                replace(own, needs=np.append(own.needs, np.zeros(len(counted))))
                for own in snapshot.nominations
            ),
            neighbors=NeighborColumns(first, counted, dict(self._namespaces), self.changes),
        )

    def concerns(self, gang: Gang) -> bool:
        """Some rule about these members, their own or of a placed pod, reads counts of pods."""
        roles = [(role.labels, role.neighbors) for role in gang.roles]
        return bool(counted_for(roles, self._repelling, self._namespaces))

    def is_stale(self, snapshot: Snapshot) -> bool:
        """Other pods count by now than in the snapshot's columns of neighbors."""
        return snapshot.neighbors is not None and snapshot.neighbors.changes != self.changes

    def widened(self, snapshot: Snapshot, uids: Sequence[Uid], uses: Matrix) -> Matrix:
        """float64[k, r]: these uses with the snapshot's columns of neighbors. The result is the same without any.

        uids: the placed pod of each row.
        """
        (wide,) = self.all_widened(snapshot, [(uids, uses)])
        return wide

    def all_widened(
        self, snapshot: Snapshot, pods: Iterable[tuple[Sequence[Uid], Matrix]]
    ) -> Iterator[Matrix]:
        """The same for many: what counts is looked up once."""
        known = snapshot.neighbors
        columns = [self._members(what) for what in known.counted] if known is not None else []
        for uids, uses in pods:
            if known is None:
                yield uses
                continue
            more = [[uid in members for members in columns] for uid in uids]
            yield np.hstack((uses, np.array(more, dtype=np.float64).reshape(len(uses), len(columns))))

    def _members(self, what: Counted) -> Members:
        if isinstance(what, Repelling):
            return self._repelling.get(what.term, {})
        self._count_all((what,))
        return self._selected[what]

    def _count_all(self, counted: Sequence[Counted]) -> None:
        """Keep the pods of these selectors. New ones are counted in one pass over all placed pods."""
        wanted = [what for what in counted if isinstance(what, Selected)]
        fresh: dict[Selected, Members] = {what: {} for what in wanted if what not in self._selected}
        for pod, node in self._placed() if fresh else ():
            namespace, labels = pod.key.namespace, None
            for what, members in fresh.items():
                if all(own.reaches(namespace, self._namespaces) for own in what.selectors):
                    labels = labels or PodLabels.of(namespace, pod.labels)
                    if what.counts(labels, (), self._namespaces) and not (what.living and pod.deleting):
                        members[pod.uid] = node
        self._selected.update(fresh)
        for what in wanted:
            self._selected.move_to_end(what)
        while len(self._selected) > max(SELECTORS_KEPT, len(wanted)):
            self._selected.popitem(last=False)
