"""The loop: facts in, plans created, effects out, outcomes back in as facts.

One task plans. Every fact and the ledger's next deadline wake it, and it lets the event loop turn between two gangs. A
long computation runs on a thread, on a snapshot that does not change. Its answer comes back with the generation of that
snapshot.
"""

import asyncio
import gc
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import structlog

from scheduler.clock import steady
from scheduler.engine import Answer as Made
from scheduler.engine import Engine, Fault, Question, attempt
from scheduler.kube.actions import Actions
from scheduler.ledger.ledger import FEW
from scheduler.model.decision import Reason
from scheduler.model.effects import Effect
from scheduler.model.events import Event, LostSight, PodSeen, SawAgain, Synced, Tick, TookOver
from scheduler.model.verbs import Answer, Failed, FilterCall, PreemptCall, PrioritizeCall, Victims
from scheduler.model.workload import Uid

PLANNING_SLICE: Final = 0.001
"""Seconds of planning after which the event loop turns. A call waits at most this long, plus the time of one gang. What
grows with nodes, running pods or waiting gangs is done before, in turns of their own (`Engine.prepare`)."""

YIELDS: Final = 8
"""Turns of the event loop between two spells of planning. A call takes about five turns from its first byte to its
reply, and would otherwise wait for a spell in each of them. A turn in which nothing happens costs about 15 µs."""

SWITCH: Final = 0.0005
"""Seconds after which a planning thread lets the event loop run. A call waits for the interpreter after each of its
three system calls. With Python's default of 5 ms that alone takes 15 ms."""

SHARE: Final = 0.25
"""Maximum share of time for reviewing gangs that events have changed. Reviewing a gang of 500 takes milliseconds, and
each of its members causes events. They are taken in one by one and reviewed together. Events after a quiet moment are
never delayed."""

REVIEWED: Final = 256
"""Members of the gangs that one turn of the event loop lets catch up or reviews at most, about five milliseconds. For
example after a takeover every gang is adopted and then reviewed, and nothing is planned before all of them were."""

PAUSE: Final = 0.01
"""Minimum seconds between two such reviews. While a gang is ungated, its members' events come every millisecond."""

SHORTEST: Final = 0.01
"""Minimum seconds that the loop rests when only an answer is due again."""

IDLE: Final = 0.5
"""Seconds after which the loop checks whether this replica is active, if nothing else wakes it."""

COLLECTIONS: Final = (700, 3, 1)
"""The thresholds of `gc.set_threshold`. A full collection is tried for each 4,000 new objects, which takes 5 ms beside 150,000
pods. With Python's defaults it is tried for each 70,000, and takes 100 ms. All collections together take as long."""

LONG_LIVED: Final = 2_500
"""Objects that have outlived a full collection and are not looked at again. Otherwise later collections grow with the pods
that come."""

_log = structlog.get_logger("service")


def _collected(phase: str, of: dict[str, int]) -> None:
    if phase == "stop" and of["generation"] == 2 and len(gc.get_objects(generation=2)) > LONG_LIVED:
        gc.freeze()


class Service:
    """The running engine. `clock` is in seconds since the epoch and never goes back.

    acting: whether this replica may act. passed_on: a count that grows when another replica may have been active.
    blind: seconds for which the cache may be stale. Above `blind_after`, scheduling pauses.
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
        """When the planning loop last turned. A probe reads it."""
        self.actions: Actions | None = None
        self._acting = acting
        self._passed_on = passed_on
        self._term = 0
        """The value of `passed_on` when this replica became active."""
        self._blind = blind
        self._blind_after = blind_after
        self._planned = planned
        self._woken = asyncio.Event()
        self._settling: asyncio.TimerHandle | None = None
        self._settle_at = float("-inf")
        self._reviews = False
        """A review stopped before its end, and goes on in another turn of the event loop."""
        self._took = 0.0
        """Seconds of that review so far."""
        self._takes_over = False
        """Gangs are adopted, and reviewed for the first time."""
        self._expected: dict[Uid, list[asyncio.Event]] = {}

    # ── facts ───────────────────────────────────────────────────────────────────────────────────────────

    def observe(self, events: Sequence[Event]) -> None:
        """Take in events at once. Their consequences follow soon (see `SHARE`)."""
        self.engine.ledger.take(events, self.clock())
        if self._settling is None:
            loop = asyncio.get_running_loop()
            # Nothing is answered before the last catch-up has ended.
            due = 0.0 if self.engine.ledger.catch_ups else self._settle_at
            self._settling = loop.call_at(max(loop.time(), due), self._settle)
        if self._expected:
            for event in events:
                if isinstance(event, PodSeen):
                    for waiter in self._expected.pop(event.pod.uid, ()):
                        waiter.set()

    def _settle(self) -> None:
        """Start the consequences of the events that were taken in; those that come during a review in turns follow it. A
        replica that may not act leaves this to the loop's next turn.
        """
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
        ledger, loop = self.engine.ledger, asyncio.get_running_loop()
        if (ledger.ready or ledger.catch_ups) and not self.may_act():
            self._woken.set()
            return
        if ledger.nodes.renew():  # a step of its own, also while nodes are listed
            self._settling = loop.call_at(loop.time(), self._settle)
            return
        began = loop.time()
        self.submit(self.engine.review(self.clock(), REVIEWED))
        ended = loop.time()
        self._took += ended - began
        self._reviews = ledger.unsettled
        if self._reviews:
            gc.freeze()  # what it makes lives long, and no collection is due while it takes the place of other objects
        if self._takes_over:
            self._took = 0.0
            if not self._reviews:
                self._takes_over = False
                _log.info("active", gangs=len(ledger.registry.gangs), holds=ledger.holds())
        if self._reviews:
            self._settling = loop.call_at(ended, self._settle)
            return
        self._settle_at = ended + max(PAUSE, self._took * (1 / SHARE - 1))
        self._took = 0.0
        if ledger.marked:  # during a review in turns
            self._settling = loop.call_at(self._settle_at, self._settle)
        self._woken.set()

    def synced(self) -> None:
        """Every list has been read."""
        self.observe([Synced()])
        self._settle()
        _log.info(
            "cluster read", nodes=len(self.engine.ledger.nodes), gangs=len(self.engine.ledger.registry.gangs)
        )

    def submit(self, effects: Iterable[Effect]) -> None:
        """Carry out these effects, and log the gangs on which a step failed meanwhile."""
        for fault in self.engine.ledger.faults.drain():
            _log.error(
                "a step failed on one gang; other gangs are not affected",
                gang=str(fault.gang),
                error=repr(fault.error),
                exc_info=None if fault.again else fault.error,
                kind=("a step failed", fault.gang),
            )
        if self.actions is not None:
            self.actions.submit(effects)

    # ── the loop ────────────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Plan until canceled, or until another replica is active: then this process must restart."""
        sys.setswitchinterval(SWITCH)
        gc.set_threshold(*COLLECTIONS)
        gc.callbacks.append(_collected)
        try:
            await self._turn()
        finally:
            gc.callbacks.remove(_collected)

    async def _turn(self) -> None:
        while self._follow_lease():
            self.last_turn = self.clock()
            await asyncio.sleep(0)  # what a deadline or a takeover brings is a step of its own
            self._woken.clear()
            if self._is_behind and self._settling is None and self.may_act():
                self._settle()  # this replica could not act meanwhile
            if self.engine.ledger.ready and not self._reviews:
                await self._plan()
            await self._rest()

    def _follow_lease(self) -> bool:
        """Become active when the Lease allows it, pause while the cache is stale. False: another may have acted."""
        ledger, now = self.engine.ledger, self.clock()
        if not self._unreplaced():
            return False
        if not self._sees(now):
            return True
        if ledger.blind:
            self.observe([SawAgain()])
            self._settle()
            _log.info("cache is current, scheduling resumed")
        elif self._acting(now) and ledger.synced and not ledger.acting:
            self._term = self._passed_on()
            self._takes_over = True
            self.observe([TookOver()])
            self._settle()
        elif ledger.acting and ledger.next_deadline() <= now:
            self.observe([Tick()])
            self._settle()
        return True

    def _unreplaced(self) -> bool:
        """Whether no other replica can have been active since this one became active. True before that."""
        return not self.engine.ledger.acting or self._passed_on() == self._term

    def leads(self) -> bool:
        """Whether this replica leads. Checked before every call to the API server: the process may have slept."""
        return self._acting(self.clock()) and self._unreplaced()

    def may_act(self) -> bool:
        """Whether this replica leads and its cache is current. Checked before every step, also of a user's drain."""
        now = self.clock()
        return self.leads() and self._sees(now)

    def _sees(self, now: float) -> bool:
        """Whether the cache is current. If it is not, gangs are no longer reviewed.

        The same applies to an expired Lease: facts that arrive meanwhile may be about to change.
        """
        blind = self._blind(now)
        held = not self.engine.ledger.acting or self._acting(now)
        if held and blind <= self._blind_after:
            return True
        if self.engine.ledger.acting and not self.engine.ledger.blind:
            self.observe([LostSight()])
            why = "cache is stale" if held else "lease expired"
            _log.warning(f"{why}, scheduling paused", held=held, seconds=round(blind))
        return False

    async def _plan(self) -> None:
        """Plan all pending gangs, in order."""
        began = turned = self.clock()
        asked = False
        while True:
            for _ in self.engine.prepare(self.clock()):
                await asyncio.sleep(0)
            if not self.may_act() or (question := self.engine.ask(self.clock())) is None:
                break
            asked = True
            decision = await self._decision(question)
            while self.may_act() and self._is_behind:
                if not self._reviews or self._settling is None:
                    self._settle()  # in turns, because the answer would make one step of what is left
                await asyncio.sleep(0)
            if not self.may_act():
                self.engine.away = None
                break
            self.submit(self.engine.settle(question, decision, self.clock()))
            del question, decision  # so that the engine forgets what they hold in portions
            if self.clock() - turned > PLANNING_SLICE:
                for _ in range(YIELDS):
                    await asyncio.sleep(0)
                turned = self.last_turn = self.clock()
        if asked:
            self._planned(self.clock() - began)

    @property
    def _is_behind(self) -> bool:
        """Gangs have to catch up, a review has to go on, or one of many gangs is due."""
        ledger = self.engine.ledger
        return self._reviews or bool(ledger.catch_ups) or (ledger.ready and ledger.marked > FEW)

    async def _decision(self, question: Question) -> Made | Fault:
        """The planner's answer. A large question is computed on a thread."""
        if self.engine.is_quick(question):
            return self.engine.answer(question)
        self.engine.away = question
        return await asyncio.to_thread(attempt, question, self.engine.policy)

    async def _rest(self) -> None:
        """Wait until an event arrives, a deadline comes, or it is time to check the Lease."""
        pause = min(IDLE, self.engine.next_deadline() - self.clock()) if self.engine.ledger.ready else IDLE
        if pause <= 0 and self.engine.ledger.next_deadline() <= self.clock():
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(max(pause, SHORTEST)):
                await self._woken.wait()
        except TimeoutError:
            pass

    # ── calls from kube-scheduler ───────────────────────────────────────────────────────────────────────

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
        """Wait at most `timeout` seconds until a watch has delivered this pod. Returns whether it has."""
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
