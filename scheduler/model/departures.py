"""Gangs that change their places: what is to be done, and what people are told of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.model.events import MoveFound
from scheduler.model.workload import GangKey, Pod, PodKey, Uid


@dataclass(frozen=True, slots=True)
class Departure:
    """What becomes of one gang's pods that were to leave their nodes.

    seats: by pod the node that is kept for the pod that its owner makes in its place.  stays: by pod why it stays.
    whole: all of the gang moves, also what was elsewhere.  leaving: pods that are on their way out already.
    """

    gang: GangKey
    seats: Mapping[PodKey, str] = field(default_factory=dict)
    stays: Mapping[PodKey, str] = field(default_factory=dict)
    whole: bool = False
    leaving: tuple[PodKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Drain:
    """What becomes of the gangs on a node."""

    node: str
    departures: tuple[Departure, ...] = ()

    @property
    def done(self) -> bool:
        """Nothing of ours is left on the node."""
        return not self.departures


@dataclass(frozen=True, slots=True)
class Defrag:
    """Moves that would make room for a gang.

    seats: by member its node then; empty where no moves were found, and `told` says why.  moves: of each gang that
    moves, all of it.  pods: those that are named in both, as they were.  nodes_version: of the picture that proved it.
    """

    gang: GangKey
    seats: Mapping[Uid, str] = field(default_factory=dict)
    moves: tuple[MoveFound, ...] = ()
    told: str = ""
    pods: Mapping[Uid, Pod] = field(default_factory=dict)
    nodes_version: int = -1
