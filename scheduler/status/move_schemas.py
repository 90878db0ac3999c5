"""The JSON of moves that make room, as frozen structs; a part of `schemas`, whose rules hold here too.

Lives here: names and types. Never here: where a value comes from. No name is null: only those are answered that may list
the pods of all namespaces.
"""

from msgspec import field

from scheduler.status.schemas import Asked, Part


class PodMove(Part, frozen=True):
    """One pod of a gang that moves: where it runs, and the node that is for the pod that its owner makes in its place."""

    namespace: str
    gang: str
    """Of a pod that is no gang's: the pod's name."""
    pod: str
    source: str = field(name="from")
    target: str = field(name="to")


class DefragHead(Part, frozen=True):
    """The first gang that waits for room."""

    namespace: str
    gang: str
    seats: dict[str, str]
    """By pod the node that it has once the others have moved; empty where no moves were found."""


class DefragAnswer(Part, frozen=True):
    """Moves that make room for the first gang that waits."""

    head: DefragHead | None
    """Null where no gang waits for room."""
    moves: list[PodMove]
    message: str
    """Why no moves were found; empty where they were."""
    started: bool
    """The moves have begun: their seats, and those of the first gang, are kept."""


class DefragRequest(Asked, frozen=True):
    """Whether moves are made, or shown alone."""

    dry_run: bool
    """Nothing is moved. It has no default: moves stop pods."""
