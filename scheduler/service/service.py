"""The loop: facts in, plans made, effects out, outcomes back in as facts.

One task plans. It is woken by every fact and by the ledger's next deadline, and between two gangs it lets the
event loop turn. A question that takes long is worked out on a thread, on a picture that does not change; its
answer comes back with the generation it was made from.
"""

import asyncio
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import structlog

from scheduler.clock import steady
from scheduler.engine import INLINE_LIMIT, Engine, Fault, Question, attempt
from scheduler.engine import Answer as Made
from scheduler.kube.actions import Actions
from scheduler.model.decision import Reason
from scheduler.model.effects import Effect
from scheduler.model.events import Event, LostSight, PodSeen, SawAgain, Synced, Tick, TookOver
from scheduler.model.verbs import Answer, Failed, FilterCall, PreemptCall, PrioritizeCall, Victims
from scheduler.model.workload import Uid

PLANNING_SLICE: Final = 0.001
"""Seconds of planning after which the event loop turns: what a verb waits for at most, beside one gang's own time."""

YIELDS: Final = 8
"""Turns of the event loop between two spells of planning: from its first byte to its reply a verb takes about five, and
would otherwise wait for a spell in each of them. A turn in which nothing happens costs some 15 µs."""

SWITCH: Final = 0.0005
"""Seconds after which a thread that plans lets the event loop go on. A verb asks for its turn after each of its three
system calls; with Python's 5 ms that alone makes 15."""

SHARE: Final = 0.25
"""Of all time, how much may be spent on looking at gangs that events have touched. A gang of 500 takes milliseconds to
look at, and every one of its members brings events of its own: they are taken in one by one and looked at together.
What comes after a quiet moment is never put off."""

PAUSE: Final = 0.01
"""Seconds between two such looks at least: while a gang is let go, its members' events come a millisecond apart."""

SHORTEST: Final = 0.01
"""Seconds that the loop rests at least when only an answer is due again."""

IDLE: Final = 0.5
"""Seconds after which the loop looks whether we act, when nothing else wakes it."""

_log = structlog.get_logger("service")


class Service:
    """The engine, at work. `clock` never goes back, in seconds since the epoch.

    acting: whether it is we who may act.  passed_on: a count that grows when another replica may have acted.
    blind: seconds for which what we know may be the past; above `blind_after` nothing is done by it.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        acting: Callable[[float], bool],
        blind: Callable[[float], float],
        blind_after: float,
        passed_on: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = steady,
        planned: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.last_turn = float("-inf")
        """When the planning loop last turned; a probe asks."""
        self.actions: Actions | None = None
        self._acting = acting
        self._passed_on = passed_on
        self._term = 0
        """What `passed_on` was when we took over."""
        self._blind = blind
        self._blind_after = blind_after
        self._planned = planned
        self._woken = asyncio.Event()
        self._settling: asyncio.TimerHandle | None = None
        self._settle_at = float("-inf")
        self._expected: dict[Uid, list[asyncio.Event]] = {}

    # ── facts ───────────────────────────────────────────────────────────────────────────────────────────

    def observe(self, events: Sequence[Event]) -> None:
        """Take in what happened at once; what follows from it begins soon (see `SHARE`)."""
        self.engine.ledger.take(events, self.clock())
        if self._settling is None:
            loop = asyncio.get_running_loop()
            self._settling = loop.call_at(max(loop.time(), self._settle_at), self._settle)
        if self._expected:
            for event in events:
                if isinstance(event, PodSeen):
                    for waiter in self._expected.pop(event.pod.uid, ()):
                        waiter.set()

    def _settle(self) -> None:
        """Begin with what follows from all that was taken in. A replica that may not act leaves it to the loop's next
        turn.
        """
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
        if self.engine.ledger.ready and not self.may_act():
            self._woken.set()
            return
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.submit(self.engine.ledger.settle(self.clock()))
        ended = loop.time()
        self._settle_at = ended + max(PAUSE, (ended - began) * (1 / SHARE - 1))
        self._woken.set()

    def synced(self) -> None:
        """Every list has been read."""
        self.observe([Synced()])
        self._settle()
        _log.info(
            "cluster read", nodes=len(self.engine.ledger.nodes), gangs=len(self.engine.ledger.registry.gangs)
        )

    def submit(self, effects: Iterable[Effect]) -> None:
        """Have these done, and log on which gangs a step failed meanwhile."""
        for fault in self.engine.ledger.faults.drain():
            _log.error(
                "a step failed on one gang; the others go on",
                gang=str(fault.gang),
                error=repr(fault.error),
                exc_info=None if fault.again else fault.error,
                kind=("a step failed", fault.gang),
            )
        if self.actions is not None:
            self.actions.submit(effects)

    # ── the loop ────────────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Plan until cancelled, or until another replica acts: then this process must start afresh."""
        sys.setswitchinterval(SWITCH)
        while self._follow_lease():
            self.last_turn = self.clock()
            self._woken.clear()
            if self.engine.ledger.ready:
                await self._plan()
            await self._rest()

    def _follow_lease(self) -> bool:
        """Begin to act when it is our turn, and put it off while we cannot; False when another may have acted since."""
        ledger, now = self.engine.ledger, self.clock()
        if not self._unreplaced():
            return False
        if not self._sees(now):
            return True
        if ledger.blind:
            self.observe([SawAgain()])
            self._settle()
            _log.info("the picture is fresh again, and the lease is ours")
        elif self._acting(now) and ledger.synced and not ledger.acting:
            self._term = self._passed_on()
            self.observe([TookOver()])
            self._settle()
            _log.info("acting", gangs=len(ledger.registry.gangs), holds=ledger.holds())
        elif ledger.acting and ledger.next_deadline() <= now:
            self.observe([Tick()])
            self._settle()
        return True

    def _unreplaced(self) -> bool:
        """Since we began to act no other replica can have acted; true before we did."""
        return not self.engine.ledger.acting or self._passed_on() == self._term

    def leads(self) -> bool:
        """Asked before every call to the API server: the process may have slept since the loop last turned."""
        return self._acting(self.clock()) and self._unreplaced()

    def may_act(self) -> bool:
        """Asked before every step, a person's drain too: we lead, and what we know is the present."""
        now = self.clock()
        return self.leads() and self._sees(now)

    def _sees(self, now: float) -> bool:
        """What we know is the present; where it is not, gangs are not looked at any more.

        That holds for a Lease that has run out as well: what comes to be known meanwhile may be about to change.
        """
        blind = self._blind(now)
        held = not self.engine.ledger.acting or self._acting(now)
        if held and blind <= self._blind_after:
            return True
        if self.engine.ledger.ready:
            self.observe([LostSight()])
            _log.warning(
                "nothing is done: the lease ran out, or the picture is stale", held=held, seconds=round(blind)
            )
        return False

    async def _plan(self) -> None:
        """Ask about all gangs that wait, in order."""
        began = turned = self.clock()
        asked = False
        while self.may_act() and (question := self.engine.ask(self.clock())) is not None:
            asked = True
            decision = await self._decision(question)
            if not self.may_act():
                self.engine.away = None
                break
            self.submit(self.engine.settle(question, decision, self.clock()))
            if self.clock() - turned > PLANNING_SLICE:
                for _ in range(YIELDS):
                    await asyncio.sleep(0)
                turned = self.last_turn = self.clock()
        if asked:
            self._planned(self.clock() - began)

    async def _decision(self, question: Question) -> Made | Fault:
        """The planner's answer; a large question is worked out beside the event loop."""
        if question.size <= INLINE_LIMIT:
            return self.engine.answer(question)
        self.engine.away = question
        return await asyncio.to_thread(attempt, question, self.engine.policy)

    async def _rest(self) -> None:
        """Until something happens, a deadline comes, or it is time to look at the lease."""
        pause = min(IDLE, self.engine.next_deadline() - self.clock()) if self.engine.ledger.ready else IDLE
        if pause <= 0 and self.engine.ledger.next_deadline() <= self.clock():
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(max(pause, SHORTEST)):
                await self._woken.wait()
        except TimeoutError:
            pass

    # ── kube-scheduler's questions ──────────────────────────────────────────────────────────────────────

    def filter(self, call: FilterCall) -> Answer:
        now = self.clock()
        ours = call.scheduler in self.engine.policy.scheduler_names and not call.native_group
        if ours and not self.may_act():
            return Failed(Reason.CACHE_NOT_SYNCED)
        answer, effects = self.engine.filter(call, now)
        if effects:
            self.submit(effects)
            self._woken.set()
        return answer

    def prioritize(self, call: PrioritizeCall) -> Sequence[int]:
        return self.engine.prioritize(call)

    def preempt(self, call: PreemptCall) -> dict[str, Victims]:
        return dict(self.engine.preempt(call))

    async def seen(self, uid: Uid, timeout: float) -> bool:  # noqa: ASYNC109 - waiting is its meaning
        """Wait until a watch has delivered this pod, at most `timeout` seconds; whether it has."""
        if self.engine.ledger.registry.knows(uid):
            return True
        waiter = asyncio.Event()
        self._expected.setdefault(uid, []).append(waiter)
        try:
            async with asyncio.timeout(timeout):
                await waiter.wait()
        except TimeoutError:
            return False
        finally:
            waiters = self._expected.get(uid, [])
            if waiter in waiters:
                waiters.remove(waiter)
            if not waiters:
                self._expected.pop(uid, None)
        return True
