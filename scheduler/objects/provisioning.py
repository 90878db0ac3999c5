"""Where a volume that does not exist yet can be created: storage classes, CSI drivers and their storage capacity.

Never here: existing volumes (`local_volumes`) or claims (`volumes`).
Source: the plugin VolumeBinding of kube-scheduler 1.37. It compares each claim with the capacity on its own and never
adds claims up.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from scheduler.model.demand import AnyOf, Operator, Requirement, Term
from scheduler.model.resources import EPHEMERAL_STORAGE, InvalidQuantity, amount
from scheduler.objects import api, storage_kinds
from scheduler.objects.affinity import NOWHERE, label_requirements

LATE: Final = "WaitForFirstConsumer"
"""The binding mode in which kube-scheduler chooses the node first."""

_STATIC: Final = frozenset({"", "kubernetes.io/no-provisioner"})
"""Provisioners that create no volume."""


SIZES: Final = 1024
"""Sizes of claims whose nodes are cached for each class."""


def bytes_of(text: api.Quantity | None) -> int | None:
    """Whole bytes, rounded up. None: no quantity, or an invalid one."""
    try:
        return None if text is None else amount(EPHEMERAL_STORAGE, str(text))
    except InvalidQuantity:
        return None


class Class(NamedTuple):
    """A storage class.  topologies: the terms that it allows; empty: all nodes."""

    provisioner: str
    late: bool
    topologies: AnyOf

    @property
    def creates(self) -> bool:
        """It has a provisioner, which creates volumes."""
        return self.provisioner not in _STATIC


class _Capacity(NamedTuple):
    """Storage that the nodes with these labels reach.  limit: bytes of the largest volume."""

    klass: str
    limit: int
    where: tuple[Requirement, ...]


class Provisioning:
    """The classes, drivers and capacities that exist, as far as seen. Each change returns the names of the classes whose
    unbound claims it may affect.
    """

    def __init__(self) -> None:
        self._classes: dict[str, Class] = {}
        self._tracking: set[str] = set()
        """Drivers that report their capacity."""
        self._capacities: dict[str, dict[tuple[str, str], _Capacity]] = {}
        self._places: dict[tuple[str, str], str] = {}
        """The class of each capacity, by its namespace and name."""
        self._terms: dict[str, dict[int | None, tuple[AnyOf, ...]]] = {}

    def get(self, name: str) -> Class | None:
        return self._classes.get(name)

    def nodes(self, name: str, size: int | None) -> tuple[AnyOf, ...]:
        """Terms for the nodes that can have a new volume of a class that creates volumes.  size: bytes; None: any."""
        terms = self._terms.setdefault(name, {})
        found = terms.get(size)
        if found is None:
            found = self._nodes(name, size)
            if len(terms) < SIZES:
                terms[size] = found
        return found

    def _nodes(self, name: str, size: int | None) -> tuple[AnyOf, ...]:
        known = self._classes[name]
        found = [known.topologies]
        if size is not None and known.provisioner in self._tracking:
            capacities = self._capacities.get(name, {}).values()
            found.append(_any_of([own.where for own in capacities if own.limit >= size]))
        return tuple(own for own in found if own)

    def see_class(self, found: storage_kinds.StorageClass) -> set[str]:
        terms = tuple(map(_term, found.allowed_topologies or ()))
        new = Class(found.provisioner, found.volume_binding_mode == LATE, terms)
        return self._put_class(found.metadata.name, new)

    def lose_class(self, name: str) -> set[str]:
        return self._put_class(name, None)

    def _put_class(self, name: str, new: Class | None) -> set[str]:
        if self._classes.get(name) == new:
            return set()
        if new is None:
            del self._classes[name]
        else:
            self._classes[name] = new
        return self._changed({name})

    def see_driver(self, found: storage_kinds.CSIDriver) -> set[str]:
        return self._track(found.metadata.name, bool(found.spec.storage_capacity))

    def lose_driver(self, name: str) -> set[str]:
        return self._track(name, False)

    def _track(self, driver: str, tracks: bool) -> set[str]:
        if (driver in self._tracking) == tracks:
            return set()
        (self._tracking.add if tracks else self._tracking.discard)(driver)
        return self._changed({name for name, own in self._classes.items() if own.provisioner == driver})

    def see_capacity(self, found: storage_kinds.CSIStorageCapacity) -> set[str]:
        limit = bytes_of(found.capacity if found.maximum_volume_size is None else found.maximum_volume_size)
        where = label_requirements(found.node_topology)
        new = None if limit is None or where is None else _Capacity(found.storage_class_name, limit, where)
        return self._put_capacity((found.metadata.namespace, found.metadata.name), new)

    def lose_capacity(self, namespace: str, name: str) -> set[str]:
        return self._put_capacity((namespace, name), None)

    def _put_capacity(self, key: tuple[str, str], new: _Capacity | None) -> set[str]:
        before = self._capacities.get(self._places.get(key, ""), {}).pop(key, None)
        self._places.pop(key, None)
        if new is not None:
            self._places[key] = new.klass
            self._capacities.setdefault(new.klass, {})[key] = new
        if before is not None and new is not None and before[::2] == new[::2]:
            # A capacity that grows or shrinks affects only the sizes in between.
            low, high = sorted((before.limit, new.limit))
            sizes = self._terms.get(new.klass, {})
            asked = len(sizes) >= SIZES or any(size is not None and low < size <= high for size in sizes)
            if not asked:
                return set()
        return self._changed({own.klass for own in (before, new) if own is not None})

    def _changed(self, classes: set[str]) -> set[str]:
        for name in classes:
            self._terms.pop(name, None)
        return classes


def _term(said: storage_kinds.TopologyTerm) -> Term:
    """The term. One that is empty or invalid matches nothing."""
    own = tuple(
        Requirement(one.key, Operator.IN, tuple(one.values or ()))
        for one in said.match_label_expressions or ()
    )
    return Term(own) if all(one.key and one.values for one in own) else Term()


def _any_of(found: Iterable[tuple[Requirement, ...]]) -> AnyOf:
    """Terms for nodes that match one of these. Empty: all nodes. Most capacities name one value of one label, and those
    become one requirement.
    """
    values: dict[str, set[str]] = {}
    terms: set[Term] = set()
    for own in found:
        if not own:
            return ()
        if len(own) == 1 and own[0].operator is Operator.IN:
            values.setdefault(own[0].key, set()).update(own[0].values)
        else:
            terms.add(Term(own))
    merged = [
        Term((Requirement(key, Operator.IN, tuple(sorted(some))),)) for key, some in sorted(values.items())
    ]
    return (*merged, *sorted(terms, key=repr)) or NOWHERE
