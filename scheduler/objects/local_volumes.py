"""Available volumes without a provisioner, counted by node.

Lives here: the volumes that no claim has, the kinds of claims that wait for them, and how many volumes of each node fit
each kind. Never here: which claim is bound to which volume (`volumes`).

A kind of claims is a resource of the nodes. A claim takes one of its own kind and one of each looser kind, because its
volume also fits those. Where the kinds of a class are nested, as sizes are, this count is exact: kube-scheduler gives
each claim the smallest volume that fits. Kinds that overlap in part, for example by selectors, are counted apart.
"""

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, islice
from typing import Final, NamedTuple

from scheduler.model.demand import AnyOf, Operator, Requirement
from scheduler.model.resources import LOCAL_VOLUMES

HOSTNAME: Final = "kubernetes.io/hostname"

KINDS: Final = 32
"""Kinds that are counted at a time, the oldest first. Each is a column of the cluster, and users choose the sizes."""


class Kind(NamedTuple):
    """Claims that fit the same volumes.  size: bytes.  selector: requirements on labels of the volume."""

    klass: str
    size: int
    modes: frozenset[str]
    mode: str
    attributes: str
    selector: tuple[Requirement, ...]

    @property
    def resource(self) -> str:
        """The name of the resource: a hash, because users choose the parts of a kind."""
        return _resource(self)

    def is_looser(self, other: "Kind") -> bool:
        """Each volume that fits the other kind fits this one."""
        same = (self.klass, self.mode, self.attributes) == (other.klass, other.mode, other.attributes)
        narrower = self.size <= other.size and self.modes <= other.modes
        return same and narrower and set(self.selector) <= set(other.selector)


@lru_cache(maxsize=4 * KINDS)
def _resource(kind: Kind) -> str:
    text = repr(kind._replace(modes=frozenset())) + repr(sorted(kind.modes))
    return LOCAL_VOLUMES + blake2b(text.encode(), digest_size=8).hexdigest()


class LocalVolume(NamedTuple):
    """An available volume.  host: the value of the host label of the only node that reaches it; None: several."""

    host: str | None
    klass: str
    size: int
    modes: frozenset[str]
    mode: str
    attributes: str
    labels: Mapping[str, str]

    def fits(self, kind: Kind) -> bool:
        same = (self.klass, self.mode, self.attributes) == (kind.klass, kind.mode, kind.attributes)
        fits = self.size >= kind.size and self.modes >= kind.modes
        return same and fits and all(own.holds(self.labels) for own in kind.selector)


def host_of(any_of: AnyOf) -> str | None:
    """The host of a volume whose affinity is one value of the host label. None: other nodes may reach it too."""
    if len(any_of) != 1 or any_of[0].fields or len(any_of[0].labels) != 1:
        return None
    (own,) = any_of[0].labels
    one = own.key == HOSTNAME and own.operator is Operator.IN and len(own.values) == 1
    return own.values[0] if one else None


class LocalVolumes:
    """The available volumes and the kinds that wait for them, as far as seen."""

    def __init__(self) -> None:
        self._volumes: dict[str, LocalVolume] = {}
        self._at: dict[str, dict[str, LocalVolume]] = {}
        self._shared: dict[str, dict[str, LocalVolume]] = {}
        """By class: volumes that several nodes may reach."""
        self._kinds: dict[str, dict[Kind, int]] = {}
        """By class, the number of claims of each kind."""
        self._static: dict[str, None] = {}
        """Classes whose claims wait for existing volumes."""
        self._counted: tuple[Kind, ...] = ()

    def columns(self, host: str) -> dict[str, int]:
        """By resource, how many volumes of this host fit its kind. Kinds without any are left out."""
        here = self._at.get(host)
        if not here:
            return {}
        fits = {kind.resource: sum(own.fits(kind) for own in here.values()) for kind in self._counted}
        return {name: count for name, count in fits.items() if count}

    def takes(self, kind: Kind) -> list[str]:
        """The resources of which a claim of this kind takes one each. Empty: it is not counted."""
        counted = self._counted
        return [own.resource for own in counted if own.is_looser(kind)] if kind in counted else []

    def is_shared(self, kind: Kind) -> bool:
        """A volume that fits the kind may be reached from several nodes, so it belongs to no count."""
        return any(own.fits(kind) for own in self._shared.get(kind.klass, {}).values())

    def hosts(self) -> list[str]:
        """The hosts with available volumes."""
        return list(self._at)

    def wait(self, kind: Kind, claims: int) -> set[str]:
        """`claims` more claims of this kind wait, or fewer. Returns the classes with other counted kinds than before."""
        group = self._kinds.setdefault(kind.klass, {})
        group[kind] = now = group.get(kind, 0) + claims
        if now <= 0:
            del group[kind]
        if not group:
            del self._kinds[kind.klass]
        return self._recount() if now in {0, claims} else set()

    def serve(self, klass: str, *, static: bool) -> set[str]:
        """Claims of this class wait for existing volumes, or not. Returns the classes with other counted kinds."""
        if static:
            self._static[klass] = None
        else:
            self._static.pop(klass, None)
        return self._recount()

    def _recount(self) -> set[str]:
        before = self._counted
        kinds = chain.from_iterable(self._kinds.get(klass, ()) for klass in self._static)
        self._counted = tuple(islice(kinds, KINDS))
        return {own.klass for own in {*before} ^ {*self._counted}}

    def put(self, name: str, new: LocalVolume | None) -> list[LocalVolume]:
        """This volume is available, or no longer (None). Returns it as it was and is, if that differs."""
        before = self._volumes.pop(name, None)
        if before is not None:
            self._group(before).pop(name)
            if not self._group(before):
                self._at.pop(before.host or "", None)
                self._shared.pop(before.klass, None)
        if new is not None:
            self._volumes[name] = new
            self._group(new)[name] = new
        return [] if before == new else [own for own in (before, new) if own is not None]

    def _group(self, own: LocalVolume) -> dict[str, LocalVolume]:
        if own.host is None:
            return self._shared.setdefault(own.klass, {})
        return self._at.setdefault(own.host, {})
