"""The values that the members of a round exchange, for example the addresses at which they listen.

Lives here: one namespace per job and round, so that no value of one round is read in another; and the wait for a value
that does not exist yet. Never here: permission to read it, or its meaning: it is bytes.

The newest round of each job is kept. A newer round ends it, because it is published after all members have left the
previous one. When all members have met, the values of a round are dropped, because they are no longer needed. So are
the values of a job that is over or has no members left. Each round has a bound, and so have all rounds together: values
beyond a bound are rejected.
"""

import asyncio
import string
from contextlib import suppress
from itertools import chain
from typing import Final

from scheduler.elastic.rendezvous.worker_messages import Reason, Refused

ENTRY: Final = 256
"""Bytes that a value takes in addition to itself and its key: a table entry and two objects."""


def weight(key: str, value: bytes) -> int:
    """Bytes of memory that a value takes with its key."""
    return ENTRY + len(key.encode()) + len(value)


class Round:
    """Values by key. keys, size: maximum number of values, and of bytes in total."""

    def __init__(self, number: int, keys: int, size: int) -> None:
        self.number = number
        self._most_keys = keys
        self._most_size = size
        self._values: dict[str, bytes] = {}
        self._awaited: dict[str, set[asyncio.Event]] = {}
        self._over = self._broken = self._met = False
        self.size = 0

    def __len__(self) -> int:
        return len(self._values)

    def growth(self, key: str, value: bytes) -> int:
        """Bytes by which the round would grow. Raises Refused if that exceeds a bound."""
        old = self._values.get(key)
        grown = weight(key, value) - (weight(key, old) if old is not None else 0)
        if self.size + grown > self._most_size or (old is None and len(self._values) >= self._most_keys):
            bounds = f"{self._most_keys} values and {self._most_size} bytes"
            raise Refused(Reason.TOO_MANY_VALUES, f"a round holds at most {bounds}")
        return grown

    def put(self, key: str, value: bytes) -> None:
        """Set a value; a later one replaces it. Raises Refused if there are too many."""
        self.size += self.growth(key, value)
        self._values[key] = value
        for bell in self._awaited.pop(key, ()):
            bell.set()

    async def get(self, key: str, wait: float) -> bytes | None:
        """The value as soon as it exists, None after `wait` seconds. Raises Refused if the round ends meanwhile, or is
        broken and has no such value.
        """
        if key not in self._values and wait > 0 and not (self._over or self._broken):
            await self._until(key, wait)
        if self._over:
            raise _over()
        if self._broken and key not in self._values:
            raise Refused(
                Reason.ROUND_OVER, "a member ended before all had met, so this round cannot complete"
            )
        return self._values.get(key)

    def beside(self, key: str, most: int, size: int) -> dict[str, bytes]:
        """The existing values of the `most` keys that follow this one by its last number, up to `size` bytes:
        `global/8` follows `global/7`. A member that reads the address of one member reads those of the others next.
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

    def meets(self) -> None:
        """All members train in it, so its values are no longer needed. A process set created later has its own."""
        self._met = True
        self._values.clear()
        self.size = 0

    def break_off(self) -> None:
        """A member's process has ended. If not all members have met, it has not completed its `init`, which needs every
        value. So no other member can complete its `init`, and their waits end.
        """
        if not self._met:
            self._broken = True
            self._wake_all()

    def close(self) -> None:
        """Delete its values, and end the waits of its members."""
        self._over = True
        self._values.clear()
        self.size = 0
        self._wake_all()

    def _wake_all(self) -> None:
        for bell in chain.from_iterable(self._awaited.values()):
            bell.set()

    async def _until(self, key: str, wait: float) -> None:
        bell = asyncio.Event()
        waiting = self._awaited.setdefault(key, set())
        waiting.add(bell)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await bell.wait()
        finally:
            waiting.discard(bell)
            if not waiting and self._awaited.get(key) is waiting:
                del self._awaited[key]


def _over() -> Refused:
    return Refused(
        Reason.ROUND_OVER, "the values of this round are deleted: a newer round has begun, or the job is over"
    )


class Values:
    """The newest round of each job. keys, size: bounds of each round. total: maximum bytes of all rounds together."""

    def __init__(self, *, keys: int, size: int, total: int) -> None:
        self._bounds = keys, size
        self._total = total
        self._newest: dict[str, Round] = {}

    def round(self, job: str, number: int) -> Round:
        """The values of a round; a new round ends the previous one. Raises Refused for a round that has ended."""
        found = self._newest.get(job)
        if found is not None and number < found.number:
            raise _over()
        if found is None or number > found.number:
            self.forget(job)
            found = self._newest[job] = Round(number, *self._bounds)
        return found

    def put(self, job: str, number: int, key: str, value: bytes) -> None:
        """Set a value of a round. Raises Refused if the round is over or full, or if all values take too much."""
        room = self.round(job, number)
        if self.size + room.growth(key, value) > self._total:
            bound = f"the values of all jobs may take at most {self._total} bytes (rendezvous.valuesLimit)"
            raise Refused(Reason.NO_ROOM, f"{bound}. Try again when members of other jobs have met")
        room.put(key, value)

    def met(self, job: str, number: int) -> None:
        """All members of this round train in it."""
        with suppress(Refused):
            self.round(job, number).meets()

    def broken(self, job: str, number: int) -> None:
        """The process of a member of this round has ended."""
        with suppress(Refused):
            self.round(job, number).break_off()

    def forget(self, job: str) -> None:
        """The job is deleted or over, or has no members left."""
        if job in self._newest:
            self._newest.pop(job).close()

    @property
    def size(self) -> int:
        """Bytes of memory that all values take."""
        return sum(one.size for one in self._newest.values())

    @property
    def count(self) -> int:
        """Values held."""
        return sum(map(len, self._newest.values()))
