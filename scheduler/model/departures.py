"""Moves of gangs: what happens to their pods, and what operators see."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.model.events import MoveFound
from scheduler.model.workload import GangKey, Pod, PodKey, Uid


@dataclass(frozen=True, slots=True)
class Departure:
    """The outcome for one gang's pods that should leave their nodes.

    seats: by pod, the node reserved for its replacement.  stays: by pod, why it stays.
    whole: the entire gang moves, including pods on other nodes.  leaving: pods that already terminate.
    """

    gang: GangKey
    seats: Mapping[PodKey, str] = field(default_factory=dict)
    stays: Mapping[PodKey, str] = field(default_factory=dict)
    whole: bool = False
    leaving: tuple[PodKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Drain:
    """The outcome for all gangs on a node."""

    node: str
    departures: tuple[Departure, ...] = ()

    @property
    def done(self) -> bool:
        """No pod managed by Gangwright is left on the node."""
        return not self.departures


@dataclass(frozen=True, slots=True)
class Defrag:
    """Moves that free capacity for a gang.

    seats: by member, its future node; empty if no moves were found, and `told` says why.  moves: all members of each
    gang that moves.
    pods: the pods named in both, as they were.  nodes_version: of the snapshot that proved the moves.
    """

    gang: GangKey
    seats: Mapping[Uid, str] = field(default_factory=dict)
    moves: tuple[MoveFound, ...] = ()
    told: str = ""
    pods: Mapping[Uid, Pod] = field(default_factory=dict)
    nodes_version: int = -1
