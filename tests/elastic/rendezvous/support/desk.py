"""An honest desk in memory: it does for workers what the master promises, decided by the test.

    desk = HonestDesk()
    desk.hire("uid-a", "team/job"), desk.hire("uid-b", "team/job")
    desk.announce("team/job")                                   # members come to the barrier
    desk.publish("team/job", ["uid-a", "uid-b"])                # ready is answered, in this order of ranks
    desk.dismiss("uid-b")

Rounds only grow; a published assignment is given again to whoever asks again; what workers told is kept to be looked
at.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler.elastic.reconciler.job_effects import Assignment, Place
from scheduler.elastic.reconciler.job_events import Arrived, Beat, Exited, Leaving
from scheduler.elastic.rendezvous.worker_messages import BeatAnswer
from scheduler.elastic.rendezvous.worker_requests import Worker


@dataclass
class Job:
    announced: int = 0
    members: dict[int, list[str]] = field(default_factory=dict)
    assignments: dict[str, Assignment] = field(default_factory=dict)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)


@dataclass
class HonestDesk:
    """interval: seconds between beats, as workers are told."""

    interval: float = 1.0
    jobs: dict[str, Job] = field(default_factory=lambda: defaultdict(Job))
    workers: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    beats: dict[str, Beat] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    arrived: dict[str, Arrived] = field(default_factory=dict)
    left: dict[str, Leaving] = field(default_factory=dict)
    ended: dict[str, Exited] = field(default_factory=dict)
    aborts: dict[str, str] = field(default_factory=dict)
    """By uid, why a child is to be killed."""
    broken: int = 0
    """The round in which nobody meets any more."""
    restarts: Callable[[Exited], bool] = lambda _: False

    def hire(self, uid: str, job: str, name: str = "") -> None:
        """A worker pod of the job, alive from now on."""
        self.workers[uid] = job
        self.names[uid] = name or uid

    def dismiss(self, uid: str) -> None:
        """The pod is gone."""
        del self.workers[uid]

    async def announce(self, job: str) -> int:
        """Members are to come to the barrier for the next round."""
        room = self.jobs[job]
        async with room.changed:
            room.announced = max(room.announced, *room.members, 0) + 1
            room.changed.notify_all()
        return room.announced

    async def publish(self, job: str, uids: Sequence[str], **fields: Any) -> int:
        """A round of these, by rank; members of the last round that are not among them are told that they are
        removed.
        """
        room = self.jobs[job]
        async with room.changed:
            number = max(room.announced, max(room.members, default=0) + 1)
            removed = [uid for uid in room.assignments if uid not in uids]
            names = tuple(self.names[uid] for uid in uids)
            for uid in (*uids, *removed):
                room.assignments[uid] = Assignment(
                    number,
                    uids.index(uid) if uid in uids else -1,
                    len(uids),
                    names,
                    **{"sync": True, "removed": uid in removed} | fields,
                )
            room.members[number] = list(uids)
            room.announced = number
            room.changed.notify_all()
        return number

    def worker(self, uid: str) -> Worker | None:
        job = self.workers.get(uid)
        if job is None:
            return None
        members = self.jobs[job].members
        return Worker(job, frozenset(number for number, uids in members.items() if uid in uids))

    async def beat(self, beat: Beat) -> BeatAnswer:
        uid = beat.uid
        self.beats[uid] = beat
        newest = self.jobs[self.workers[uid]].announced
        return BeatAnswer(
            newest, self.aborts.pop(uid, None), self.interval, self.broken, self.places.get(uid)
        )

    async def ready(self, arrived: Arrived, wait: float) -> Assignment | None:
        uid = arrived.uid
        self.arrived[uid] = arrived
        room = self.jobs[self.workers[uid]]

        def mine() -> Assignment | None:
            found = room.assignments.get(uid)
            return found if found is not None and found.round > arrived.round else None

        await self._until(room, lambda: mine() is not None, wait)
        return mine()

    async def announced(self, uid: str, known: int, wait: float) -> int:
        room = self.jobs[self.workers[uid]]
        await self._until(room, lambda: room.announced > known, wait)
        return room.announced

    async def leave(self, leaving: Leaving) -> None:
        self.left[leaving.uid] = leaving

    async def exit(self, exited: Exited) -> bool:
        self.ended[exited.uid] = exited
        return self.restarts(exited)

    @staticmethod
    async def _until(room: Job, true: Callable[[], bool], wait: float) -> None:
        try:
            async with asyncio.timeout(wait), room.changed:
                await room.changed.wait_for(true)
        except TimeoutError:
            return
