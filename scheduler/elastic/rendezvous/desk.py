"""Who answers the workers: the master, through this door.

Lives here: the questions. Never here: an answer, or whether somebody is who he says; that is settled before the desk is
asked, and `uid` is the pod's own.
"""

from typing import NamedTuple, Protocol

from scheduler.elastic.membership.effects import Assignment
from scheduler.elastic.rendezvous.bodies import Beat, BeatAnswer, Exit, Leave, Ready


class Worker(NamedTuple):
    """A live worker. job: `namespace/name`. rounds: the published ones of which it is a member, the newest included."""

    job: str
    rounds: frozenset[int]


class Desk(Protocol):
    """What the master does for the rendezvous. Every method may raise `Refused`.

    A wait may be cancelled at any moment (the worker is gone, or asked again); what was told by then stays told.
    """

    def worker(self, uid: str) -> Worker | None:
        """The live worker whose pod this is; None for any other pod."""
        ...

    async def beat(self, uid: str, beat: Beat) -> BeatAnswer:
        """Note the sign of life."""
        ...

    async def ready(self, uid: str, ready: Ready, wait: float) -> Assignment | None:
        """Note that it stands at the barrier. Its assignment as soon as there is one, None after `wait` seconds.

        Asked again, the same assignment again.
        """
        ...

    async def announced(self, uid: str, known: int, wait: float) -> int:
        """The newest round that is announced to it, as soon as it is beyond `known`, else after `wait` seconds."""
        ...

    async def leave(self, uid: str, leave: Leave) -> None:
        """Note that it goes: the next round is without it."""
        ...

    async def exit(self, uid: str, ended: Exit) -> bool:
        """Note that its child ended; whether the child is to be started again."""
        ...
