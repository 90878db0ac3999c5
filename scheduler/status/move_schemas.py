"""The JSON of moves that free capacity, as frozen structs. The rules of `schemas` apply.

Lives here: names and types. Never here: the source of a value. No name is null: only users who may list pods in all
namespaces get an answer.
"""

from msgspec import field

from scheduler.status.schemas import Asked, Part


class PodMove(Part, frozen=True):
    """One pod of a gang that moves: its node, and the node that is reserved for its replacement."""

    namespace: str
    gang: str
    """The pod's name for a pod without a gang."""
    pod: str
    source: str = field(name="from")
    target: str = field(name="to")


class DefragHead(Part, frozen=True):
    """The first gang that waits for capacity."""

    namespace: str
    gang: str
    seats: dict[str, str]
    """By pod, its node once the others have moved; empty if no moves were found."""


class DefragAnswer(Part, frozen=True):
    """Moves that free capacity for the first pending gang."""

    head: DefragHead | None
    """Null if no gang waits for capacity."""
    moves: list[PodMove]
    message: str
    """Why no moves were found; empty if they were."""
    started: bool
    """The moves have started: their nodes, and those of the first gang, are reserved."""


class DefragRequest(Asked, frozen=True):
    """Whether to make the moves or only show them."""

    dry_run: bool
    """If true, nothing moves. There is no default, because moves stop pods."""
