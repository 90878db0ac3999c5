"""Levels of the cluster and their domains.

A level is a node label: host, rack, area by default, from the finest to the coarsest.  A domain is its whole
path from the coarsest level down (`area/rack/host`), so two racks of one name in two areas are two domains.
A node without a level's label is in no domain of that level.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

NOWHERE: Final = -1
"""The domain number of a node that lacks the level's label."""

Coords: TypeAlias = NDArray[np.int32]
"""int32[n, l]: column l is the node's domain number at level l, or NOWHERE."""


@dataclass(frozen=True, slots=True)
class Level:
    """One level: the word people say, and the node label that carries it."""

    name: str
    label: str


DEFAULT_LEVELS: Final = (
    Level("host", "kubernetes.io/hostname"),
    Level("rack", "gangwright.io/rack"),
    Level("area", "topology.kubernetes.io/zone"),
)
"""Finest first.  The keys are those in common use; no shared key for racks exists, hence one of our own."""


@dataclass(frozen=True)
class Topology:
    """Where every node stands: coords[n, l], and the path of every domain.

    `domains[l][d]` is the path of domain d of level l, e.g. "area-1/rack-7".  Domains are numbered in the
    order of their paths, so numbers do not depend on the order in which nodes were met.
    """

    levels: tuple[Level, ...]
    coords: Coords
    domains: tuple[tuple[str, ...], ...]

    @cached_property
    def columns(self) -> NDArray[np.int64]:
        """int64[l, n]: coords turned, so that the numbers of one level lie in one piece; write-protected."""
        turned = np.ascontiguousarray(self.coords.T, dtype=np.int64)
        turned.flags.writeable = False
        return turned

    @cached_property
    def known(self) -> tuple[bool, ...]:
        """For each level: some node has its label."""
        return tuple(bool((codes != NOWHERE).any()) for codes in self.columns)

    @cached_property
    def lone(self) -> tuple[bool, ...]:
        """For each level: no two nodes share a domain of it, as is the rule for hosts."""
        counts = [np.bincount(codes + 1)[1:] for codes in self.columns]
        return tuple(bool((count <= 1).all()) for count in counts)

    def level(self, name: str) -> int | None:
        """The column of a level, or None where no level of that name is configured."""
        return next((i for i, level in enumerate(self.levels) if level.name == name), None)


def survey(levels: tuple[Level, ...], labels: Sequence[Mapping[str, str]]) -> Topology:
    """The topology of nodes whose labels are given, one mapping a node, in the order of the node axis."""
    coords = np.full((len(labels), len(levels)), NOWHERE, dtype=np.int32)
    domains: list[tuple[str, ...]] = []
    for column, level in enumerate(levels):
        upwards = tuple(reversed(levels[column:]))
        paths = [
            "/".join(own.get(up.label, "") for up in upwards) if level.label in own else None
            for own in labels
        ]
        names = sorted({path for path in paths if path is not None})
        number = {name: position for position, name in enumerate(names)}
        coords[:, column] = [NOWHERE if path is None else number[path] for path in paths]
        domains.append(tuple(names))
    coords.flags.writeable = False
    return Topology(levels, coords, tuple(domains))
