"""The values that the members of a round exchange, such as where each listens.

Lives here: one name space a job and round, so that nothing of one round is ever read in another; and the wait for a
value that is not there yet. Never here: who may read it, or what a value means: it is bytes.

The newest round and the two before it are kept: a member may still read the last one's while the next begins. All jobs
together have a bound too. A round whose members have all met needs its values no more, nor does one that another has
followed, and these make room first, so that what jobs at work have laid down keeps nobody from meeting. Then it is a
job's share that is bounded: whoever holds most makes room, so that nobody who fills it does. A round that is cut off so
while its members meet is over: they are told at once, and lay nothing more down.
"""

import asyncio
import string
from typing import Final

from scheduler.elastic.rendezvous.worker_messages import Reason, Refused

OLD: Final = 2
"""Rounds kept beside the newest."""

ENTRY: Final = 256
"""Bytes that a value takes beside itself and its key: an entry of a table and two objects."""


def weight(key: str, value: bytes) -> int:
    """Bytes of memory that a value takes with its key."""
    return ENTRY + len(key.encode()) + len(value)


class Round:
    """Values by key. keys, size: how many there may be, and how many bytes together."""

    def __init__(self, keys: int, size: int) -> None:
        self._most_keys = keys
        self._most_size = size
        self._values: dict[str, bytes] = {}
        self._awaited: dict[str, set[asyncio.Future[None]]] = {}
        self._over = False
        self._broken = False
        self.size = 0

    def __len__(self) -> int:
        return len(self._values)

    def growth(self, key: str, value: bytes) -> int:
        """Bytes that the round would grow by. Raises Refused when it would have too many, or is over."""
        if self._over:
            raise _over()
        old = self._values.get(key)
        grown = weight(key, value) - (weight(key, old) if old is not None else 0)
        if self.size + grown > self._most_size or (old is None and len(self._values) >= self._most_keys):
            bounds = f"{self._most_keys} values and {self._most_size} bytes"
            raise Refused(Reason.TOO_MANY_VALUES, f"a round holds at most {bounds}")
        return grown

    def put(self, key: str, value: bytes) -> None:
        """Set a value; a later one replaces it. Raises Refused when there are too many."""
        self.size += self.growth(key, value)
        self._values[key] = value
        self._wake(self._awaited.pop(key, set()))

    async def get(self, key: str, wait: float) -> bytes | None:
        """The value as soon as it is there, None after `wait` seconds. Raises Refused when the round ends meanwhile, or
        is broken and has no such value.
        """
        if key not in self._values and wait > 0 and not (self._over or self._broken):
            await self._until(key, wait)
        if self._over:
            raise _over()
        if self._broken and key not in self._values:
            raise Refused(
                Reason.ROUND_OVER, "a member has ended before all had met: nobody meets in this round"
            )
        return self._values.get(key)

    def beside(self, key: str, most: int, size: int) -> dict[str, bytes]:
        """What is there of the `most` keys that follow this one by its last number, up to `size` bytes: `global/7` is
        followed by `global/8`. Whoever asks for the address of one member asks for those of the others next.
        """
        stem = key.rstrip(string.digits)
        number = key[len(stem) :]
        if not number or len(number) > 9 or number != str(int(number)):
            return {}
        first = int(number) + 1
        found = {}
        for one in (f"{stem}{rank}" for rank in range(first, first + most)):
            value = self._values.get(one)
            if value is not None and len(value) <= size:
                found[one] = value
                size -= len(value)
        return found

    def break_off(self) -> None:
        """A member's process has ended, and nobody meets without it: who waits for a value waits no longer."""
        self._broken = True
        self._wake_all()

    def close(self) -> None:
        """Its values are gone, and nobody waits any longer."""
        self._over = True
        self._values.clear()
        self.size = 0
        self._wake_all()

    def _wake_all(self) -> None:
        for waiting in self._awaited.values():
            self._wake(waiting)
        self._awaited.clear()

    async def _until(self, key: str, wait: float) -> None:
        bell: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._awaited.setdefault(key, set())
        waiting.add(bell)
        try:
            await asyncio.wait((bell,), timeout=wait)
        finally:
            waiting.discard(bell)
            if not waiting and self._awaited.get(key) is waiting:
                del self._awaited[key]

    @staticmethod
    def _wake(waiting: "set[asyncio.Future[None]]") -> None:
        for bell in waiting:
            if not bell.done():
                bell.set_result(None)


def _over() -> Refused:
    return Refused(Reason.ROUND_OVER, "the values of this round are gone: other rounds needed their room")


class Values:
    """The rounds of all jobs. keys, size: bounds of each round. total: bytes of all of them together."""

    def __init__(self, *, keys: int, size: int, total: int) -> None:
        self._bounds = keys, size
        self._total = total
        self._jobs: dict[str, dict[int, Round]] = {}
        self._met: dict[str, int] = {}
        """The newest round of a job in which all members train."""
        self.size = 0
        """Bytes of memory that all values take."""

    def round(self, job: str, number: int) -> Round:
        """A round's values; a round that is new ends those that are too old. Raises Refused for one of these."""
        rounds = self._jobs.setdefault(job, {})
        newest = max(rounds, default=number)
        if number < newest - OLD:
            raise Refused(
                Reason.ROUND_OVER, f"round {number}: the values of {newest - OLD} and later are kept"
            )
        if number not in rounds:
            rounds[number] = Round(*self._bounds)
            for old in [one for one in rounds if one < number - OLD]:
                self._drop(job, old)
        return rounds[number]

    def put(self, job: str, number: int, key: str, value: bytes) -> None:
        """Set a value of a round. Raises Refused when the round is over, or full, or there is no room for this job."""
        one = self.round(job, number)
        grown = one.growth(key, value)
        self._make_room(job, number, grown)
        one.put(key, value)
        self.size += grown

    def met(self, job: str, number: int) -> None:
        """All members of this round train in it: they read and write no more, but for process sets that they make
        later.
        """
        if job in self._jobs:
            self._met[job] = max(number, self._met.get(job, 0))

    def broken(self, job: str, number: int) -> None:
        """The process of a member of this round has ended. Where not all have met it never had come to the end of its
        `init`, for which it needs every value there is; so nobody else comes to the end of it.
        """
        newest = max(self._jobs.get(job, ()), default=number)
        if max(self._met.get(job, 0), newest - OLD - 1) < number:
            self.round(job, number).break_off()

    def _make_room(self, job: str, number: int, more: int) -> None:
        """Rounds in which members have met go first, and of other jobs those that a newer one has followed. Then the
        job that holds most gives up its oldest one; when that is the one that asks, it is refused.
        """
        while self.size + more > self._total:
            if spent := self._spent(job, number):
                self._drop(*spent)
                continue
            largest = max(self._jobs, key=self._held)
            if largest == job or self._held(largest) <= self._held(job) + more:
                bound = f"the values of all jobs take at most {self._total} bytes (rendezvous.valuesLimit)"
                raise Refused(Reason.NO_ROOM, f"{bound}, and no job holds more of them than this one")
            oldest = min(one for one, room in self._jobs[largest].items() if room.size)
            self.size -= self._jobs[largest][oldest].size
            self._jobs[largest][oldest].close()

    def _spent(self, job: str, number: int) -> tuple[str, int] | None:
        """The oldest round that nobody needs, of the job that holds most; never the one that grows."""
        spent = [
            (-self._held(name), name, one)
            for name, rounds in self._jobs.items()
            for one, room in rounds.items()
            if room.size and (name, one) != (job, number) and self._is_spent(job, name, one)
        ]
        return min(spent)[1:] if spent else None

    def _is_spent(self, asking: str, job: str, number: int) -> bool:
        followed = job != asking and number < max(self._jobs[job])
        return followed or number <= self._met.get(job, 0)

    def _held(self, job: str) -> int:
        return sum(one.size for one in self._jobs[job].values())

    def _drop(self, job: str, number: int) -> None:
        gone = self._jobs[job].pop(number)
        self.size -= gone.size
        gone.close()
        if not self._jobs[job]:
            del self._jobs[job]

    def forget(self, job: str) -> None:
        """The job is gone."""
        self._met.pop(job, None)
        for number in list(self._jobs.get(job, ())):
            self._drop(job, number)

    @property
    def count(self) -> int:
        """Values held."""
        return sum(len(one) for rounds in self._jobs.values() for one in rounds.values())
