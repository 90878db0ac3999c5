"""Effects → calls to the API server, and their outcomes → events.

Lives here: the number of concurrent calls, their order, and which are retried. Never here: the content of a call
(`objects.patches` knows) or whether to make it.

Order: effects on one pod are carried out one after the other, in the order in which they were decided. Effects on
different pods run concurrently. Events and conditions have a queue of their own, so that a burst of them never delays a
gang. Every call is a compare-and-swap on the pod's uid, so repeating it is harmless, and transient failures are
retried.

Each call first checks again that this replica may act: a process that slept, or lost the API server, may have been
replaced since the effect was decided. An effect that is not sent for this reason comes back as failed.

The state of a gang is written to one of its pods. If that pod no longer exists when the call would be made, the call is
skipped and counts as done: with many short gangs, half of these writes would come too late.

An API server that does not answer is not flooded: the first call without an answer makes all others wait, and one call
a second tests whether it is back.
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
"""Errors that may be gone a moment later."""

TRIES: Final = 4
RETRY_WITHIN: Final = 8.0
"""Tries and seconds for one call. Then the failure goes to the ledger, which decides when to retry."""

CALL_LIMIT: Final = 10.0
"""Seconds for one call. An API server that needs longer for a PATCH has other problems."""

ASK_EVERY: Final = 1.0
"""Seconds between two calls to an API server that does not answer, for all effects together."""

ANNOUNCERS: Final = 2
"""Concurrent calls for events and conditions."""

BROKEN: Final = "Gangwright failed to write this pod; report this bug with the traceback from its log"
"""The message for a call that could not be made. Repeating it does not help, so the gang waits for a while."""

Outcome = EffectDone | EffectFailed
Report = Callable[[Sequence[Outcome]], None]
Told = Announce | SetCondition
"""Effects that inform users: events and conditions."""

_log = structlog.get_logger("actions")


def wall_clock() -> float:
    """Seconds since the epoch, only for times that are shown to users."""
    return datetime.now(UTC).timestamp()


class Actions:
    """Carries out effects. `report` receives the outcomes, in batches, on the event loop."""

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
        """Carry these out. Returns at once."""
        for effect in effects:
            (self._people if isinstance(effect, Told) else self._gangs).put(effect)

    async def run(self) -> None:
        """Work until canceled."""
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
            # For users. The message may hold anything; its end, which names the fix, is kept.
            words = errors.abridged(parsing.printable(error.words))
            self._tell(EffectFailed(effect, _kind(error), words))
        except Exception:  # noqa: BLE001 - the fault of one effect must not affect others
            _log.exception("an effect broke", gang=str(effect.gang), kind=("an effect broke", effect.gang))
            self._tell(EffectFailed(effect, FailureKind.INVALID, BROKEN))
        else:
            self._tell(EffectDone(effect))

    async def _call(self, call: patches.Call) -> None:
        """The first try is separate: nearly all succeed, and setting up the retries costs a third of a call."""
        try:
            await self._send(call)
        except PASSING as error:
            await self._try_again(call, error)

    async def _try_again(self, call: patches.Call, first: errors.KubeError) -> None:
        """Retry the call, as if the loop itself had met the `first` failure."""
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
            raise errors.Fenced(f"{call.method} {call.path}", "not sent: this replica lost the Lease")
        try:
            await send(self._client, call, CALL_LIMIT)
        except errors.KubeError as error:
            self._silent = isinstance(error, errors.Unreachable)  # every other error is an answer
            raise
        self._silent = False

    async def _wait_for_a_turn(self) -> None:
        """Wait for a turn: one call after the other, a moment apart. After the first answer, all others go at once."""
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
    """One queue per pod. The queues are worked off concurrently, `width` at a time."""

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
        elif line[-1] != effect:  # an effect equal to an earlier one may undo those in between
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
    """Whether a disruption budget blocked an eviction (429). Such a call is not retried here."""
    return isinstance(error, errors.TooManyRequests) and "DisruptionBudget" in error.causes


def _passes(error: Exception) -> bool:
    return isinstance(error, PASSING) and not _refused_by_budget(error)


def _kind(error: errors.KubeError) -> FailureKind:
    if _refused_by_budget(error):
        return FailureKind.BUDGET
    if isinstance(error, errors.Invalid) and error.of_another:
        return FailureKind.NOT_FOUND
    return FailureKind(word_of(error))
