"""Effects → calls to the API server, and what became of them → events.

Lives here: how many calls are under way at once, in which order, and which are tried again. Never here: what a
call says (`objects.patches` knows) or whether it should be made.

Order: effects on one pod are carried out one after the other, in the order in which they were decided; those on
different pods side by side. What people are told goes by a line of its own, so that a burst of events never
delays a gang. Every call is a compare-and-swap on the pod's uid, so doing it twice is harmless, and passing
failures are simply tried again.

Before each call it is asked once more whether we may act: who slept, or lost the API server, may have been replaced
since the effect was decided. What is not sent for that comes back as not done.

How a gang waits, or that it has its seats, is told on one of its pods. Where that pod is gone by the time that the call
would be made, it is left unsaid and counts as done: under many short gangs, half of all that is told would come too late.

An API server that does not answer is not stormed: the first call that finds it silent makes all others wait, and one
a second asks whether it is back.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import stamina
import structlog

from scheduler import errors
from scheduler.kube.api_errors import word_of
from scheduler.kube.client import Client, send
from scheduler.model.effects import Announce, Effect, SetCondition
from scheduler.model.events import EffectDone, EffectFailed, FailureKind
from scheduler.model.workload import Uid
from scheduler.objects import parsing, patches

PASSING: Final = (errors.Unreachable, errors.TooManyRequests, errors.ServerError, errors.Garbled)
"""What may be different a moment later."""

TRIES: Final = 4
RETRY_WITHIN: Final = 8.0
"""Seconds and tries for one call; then the ledger hears of the failure and decides when to try again."""

CALL_LIMIT: Final = 10.0
"""Seconds for one call; an API server that needs longer for a PATCH has other troubles."""

ASK_EVERY: Final = 1.0
"""Seconds between two calls to an API server that does not answer, whatever there is to do."""

ANNOUNCERS: Final = 2
"""Calls at once for what people are told."""

BROKEN: Final = "gangwright failed to write this pod; please report this, with the traceback in its log"
"""What people are told of a call that could not be made. It is of no use twice, so the gang waits for a while."""

Outcome = EffectDone | EffectFailed
Report = Callable[[Sequence[Outcome]], None]
Told = Announce | SetCondition
"""What people are told."""

_log = structlog.get_logger("actions")


def wall_clock() -> float:
    """Seconds since the epoch: for the times that people are shown, and for nothing else."""
    return datetime.now(UTC).timestamp()


class Actions:
    """The effects on their way. `report` is told of outcomes, in batches, on the event loop."""

    def __init__(
        self,
        client: Client,
        report: Report,
        *,
        at_once: int = 16,
        epoch: Callable[[], float] = wall_clock,
        ask_every: float = ASK_EVERY,
        acting: Callable[[], bool] = lambda: True,
        gone: Callable[[Uid], bool] = lambda _uid: False,
    ) -> None:
        """gone: whether a pod is deleted or being deleted, as far as is known."""
        self._client = client
        self._epoch = epoch
        self._ask_every = ask_every
        self._acting = acting
        self._gone = gone
        self._silent = False
        self._turn = asyncio.Lock()
        self._report = report
        self._gangs = _Lines(at_once, self._carry_out)
        self._people = _Lines(ANNOUNCERS, self._carry_out)
        self._outcomes: list[Outcome] = []

    def submit(self, effects: Iterable[Effect]) -> None:
        """Carry these out; returns at once."""
        for effect in effects:
            (self._people if isinstance(effect, Told) else self._gangs).put(effect)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for line in (self._gangs, self._people):
                for number in range(line.width):
                    group.create_task(line.work(), name=f"actions-{number}")

    async def _carry_out(self, effect: Effect) -> None:
        try:
            for call in patches.calls(effect, self._epoch()):
                if isinstance(effect, Told) and effect.seated is not None and self._gone(effect.uid):
                    break
                await self._call(call)
        except errors.KubeError as error:
            # For people. A refusal may hold anything; its end, which says what would be right, is kept.
            words = errors.abridged(parsing.printable(error.words))
            self._tell(EffectFailed(effect, _kind(error), words))
        except Exception:  # noqa: BLE001 - whatever it was, it is the fault of this one effect
            _log.exception("an effect broke", gang=str(effect.gang), kind=("an effect broke", effect.gang))
            self._tell(EffectFailed(effect, FailureKind.INVALID, BROKEN))
        else:
            self._tell(EffectDone(effect))

    async def _call(self, call: patches.Call) -> None:
        """The first try is made by itself: nearly all succeed, and the set-up of the others costs a third of a call."""
        try:
            await self._send(call)
        except PASSING as error:
            await self._try_again(call, error)

    async def _try_again(self, call: patches.Call, first: errors.KubeError) -> None:
        """The same once more, as if the loop itself had met the `first` failure."""
        failures = [first]
        async for attempt in stamina.retry_context(
            on=_passes, attempts=TRIES, timeout=RETRY_WITHIN, wait_initial=0.2
        ):
            with attempt:
                if failures:
                    raise failures.pop()
                await self._send(call)

    async def _send(self, call: patches.Call) -> None:
        if self._silent:
            await self._wait_for_a_turn()
        if not self._acting():
            raise errors.Fenced(f"{call.method} {call.path}", "not sent: the Lease is no longer ours")
        try:
            await send(self._client, call, CALL_LIMIT)
        except errors.KubeError as error:
            self._silent = isinstance(error, errors.Unreachable)  # every other one is an answer
            raise
        self._silent = False

    async def _wait_for_a_turn(self) -> None:
        """One after the other, a moment apart; when the API server answers one, all others go at once."""
        async with self._turn:
            if self._silent:
                await asyncio.sleep(self._ask_every)

    def _tell(self, outcome: Outcome) -> None:
        """Outcomes of one turn of the event loop are reported together."""
        if isinstance(outcome, EffectFailed):
            _log.warning(
                "effect failed",
                effect=type(outcome.effect).__name__,
                pod=str(outcome.effect.key),
                failure=outcome.kind.value,
                message=outcome.message,
            )
        if not self._outcomes:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outcomes.append(outcome)

    def _flush(self) -> None:
        outcomes, self._outcomes = self._outcomes, []
        self._report(outcomes)


class _Lines:
    """One line a pod; the pods' lines move side by side, `width` at a time."""

    def __init__(self, width: int, carry_out: Callable[[Effect], Awaitable[None]]) -> None:
        self.width = width
        self._carry_out = carry_out
        self._waiting: dict[str, deque[Effect]] = {}
        self._ready: asyncio.Queue[str] = asyncio.Queue()

    def put(self, effect: Effect) -> None:
        line = self._waiting.get(effect.uid)
        if line is None:
            self._waiting[effect.uid] = deque((effect,))
            self._ready.put_nowait(effect.uid)
        elif line[-1] != effect:  # equal to an earlier one, it may be there to undo what came between
            line.append(effect)

    async def work(self) -> None:
        while True:
            uid = await self._ready.get()
            line = self._waiting[uid]
            try:
                await self._carry_out(line[0])
            finally:
                line.popleft()
                if line:
                    self._ready.put_nowait(uid)
                else:
                    del self._waiting[uid]


def _refused_by_budget(error: Exception) -> bool:
    """429 of an eviction means that a disruption budget says no, which is not pressed."""
    return isinstance(error, errors.TooManyRequests) and "DisruptionBudget" in error.causes


def _passes(error: Exception) -> bool:
    return isinstance(error, PASSING) and not _refused_by_budget(error)


def _kind(error: errors.KubeError) -> FailureKind:
    if _refused_by_budget(error):
        return FailureKind.BUDGET
    if isinstance(error, errors.Invalid) and error.of_another:
        return FailureKind.NOT_FOUND
    return FailureKind(word_of(error))
