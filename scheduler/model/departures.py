"""Gangs that change their places: what is to be done, and what people are told of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.model.workload import GangKey, PodKey


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

    seats: by pod its node then; empty where no moves were found, and `told` says why.
    """

    gang: GangKey
    seats: Mapping[PodKey, str] = field(default_factory=dict)
    moves: tuple[Departure, ...] = ()
    told: str = ""
