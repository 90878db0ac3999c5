"""The agent: one loop that reads events and decides what happens to the child.

Lives here: the life of a worker, from the first start of its child to the agent's own exit code. Every wait (for ended
processes, the master, the child's output) has a thread of its own, which puts its event into one queue. Only this loop
starts, kills and ends. Never here: calls of the master, the child's reports, the rules of a verdict.

    running ── the child ends ──▶ reporting ── the master: restart ──▶ resting ──▶ running
       │                             └── the master: no restart ──▶ the agent ends with the child's code
       └── SIGTERM ──▶ leaving: the master removes the worker from the next round, and the child ends by itself.
                       It is killed shortly before the grace period is over, or when its job no longer exists
"""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
import time
from typing import Any, Callable, Mapping, Sequence

from .agent_errors import MasterError, Refused
from .agent_settings import Settings
from .child import Child, Reaper
from .heartbeat import Announcements, Heartbeat, Listener
from .http_client import Connections
from .init_unblock import unblock
from .kv_proxy import Store
from .liveness import Ending, Known, Watchdog, judge, never_started
from .local_api import LocalAPI
from .local_server import Shim
from .master_client import Answer, Master
from .procfs import adopt_orphans, listen, memory_kills
from .retry import BackgroundCalls, Backoff, Outage, Over, Patience, Say
from .training_run import TrainingRun

TICK = 1.25
"""Seconds between two checks of a child that does not report; each report also triggers a check. Each wakeup takes a
third of a millisecond from the training (`heartbeat.EARLY`).
"""

STACKS = 5.0
"""Seconds for a hung child to print the stacks of its threads; milliseconds, unless the machine hangs as well."""

STRANGER = 1.0
"""Seconds of `NoWorker` answers after which an agent that has to leave assumes that its job no longer exists."""

UNPLACED = 2.0
"""Seconds for a place in a round that was decided before the master learned that a READY newcomer leaves; the master
publishes within tens of milliseconds.
"""

REPORT_FINISHED = 30.0
"""Seconds to report a successful training to the master; the pod's phase reports it too."""

SETTLED = 60.0
"""Seconds that a child must live until its restart pause is reset."""


class Agent:
    """One worker. `run` returns its exit code."""

    def __init__(
        self,
        settings: Settings,
        command: Sequence[str],
        environment: Mapping[str, str],
        say: Say,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._command, self._environment = settings, command, environment
        self._say, self._clock = say, clock
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        """Event handlers, which the loop runs."""
        self._stop, self._errands = threading.Event(), BackgroundCalls()
        self._connections = Connections(settings.master, settings.ca)
        self._master = Master(self._connections, settings.token_file)
        self._outage = Outage(say, clock)
        self._patience = Patience(self._outage, self._stop)
        self._announcements = Announcements()
        doors = LocalAPI(self._master, self._patience, self._announcements, say, clock, self._child_told)
        store = Store(self._master, self._patience, settings.gloo_timeout, clock)
        self._shim = Shim(doors, store, lambda: self._incarnation)
        self._reaper = Reaper(lambda pid, status: self._events.put(lambda: self._bury(pid, status)))
        self._beats = Heartbeat(self._master, self._outage, self._stop, self._report, self._heard)
        self._listener = Listener(self._master, self._patience, self._stop, self._announcements)
        self._watchdog = Watchdog(settings.stopped_limit, settings.silent_limit)
        self._rest = Backoff(first=0.1, most=10.0)
        self._number = 0
        self._incarnation = TrainingRun(0, clock, settings.finish_limit)
        self._child: Child | None = None
        self._started = 0.0
        self._memory_kills = 0
        self._killed: str | None = None
        self._kill_at: float | None = None
        self._start_at: float | None = None
        self._leave_until: float | None = None
        self._leave_heard: float | None = None
        self._ending: Ending | None = None
        self._code: int | None = None

    # the loop

    def run(self) -> int:
        """Run until the worker ends; the exit code."""
        if not adopt_orphans():
            self._say("cannot adopt orphaned processes of the training")
        self._start_at = self._clock()  # a signal that came before prevents the start
        listen(lambda name: self._events.put(lambda: self._leave(name)))
        for thread in (self._reaper, self._shim, self._beats, self._listener):
            thread.start()
        while self._code is None:
            self._step()
        self._stop.set()
        self._announcements.close()
        return self._code  # the shim and its open requests end with the process

    def _step(self) -> None:
        try:
            event = self._events.get(timeout=self._pause(self._clock()))
        except queue.Empty:
            event = None
        self._errands.again()
        if event is not None:
            event()
        if self._code is None:
            self._look(self._clock())

    def _pause(self, now: float) -> float:
        """Seconds until something is due."""
        unplaced = None if self._leave_heard is None else self._leave_heard + UNPLACED
        stands = self._watchdog.due if self._child is not None and self._killed is None else None
        times = (self._start_at, self._kill_at, self._leave_until, unplaced, stands)
        due = [one for one in times if one is not None]
        return min(TICK, max(0.01, min(due) - now)) if due else TICK

    def _look(self, now: float) -> None:
        """Do what is due."""
        if self._leave_until is not None and self._beats.unknown() >= STRANGER:
            self._nobody_cares()
        elif self._leave_heard is not None and self._expected_nowhere(now - self._leave_heard):
            self._just_go()
        elif self._leave_until is not None and now >= self._leave_until:
            self._time_is_over(now)
        elif self._child is not None:
            self._watch(self._child, now)
        elif self._start_at is not None and now >= self._start_at:
            self._start()

    # the child's life

    def _start(self) -> None:
        self._start_at = None
        self._number += 1
        self._killed = self._kill_at = self._ending = None
        self._watchdog.renew()
        self._memory_kills = memory_kills()
        child = TrainingRun(self._number, self._clock, self._settings.finish_limit)
        self._incarnation = child
        self._started = self._clock()
        environment = {
            **self._environment,
            "GANGWRIGHT_SHIM": f"http://127.0.0.1:{self._shim.port}",
            "GANGWRIGHT_SHIM_KEY": child.key,
            "GANGWRIGHT_GLOO_ADDR": f"127.0.0.1:{self._shim.port}/{child.key}",
            "GANGWRIGHT_INCARNATION": str(self._number),
        }
        prefix = f"[{self._settings.pod}] ".encode() if self._settings.prefix else b""
        try:
            self._child = Child(self._reaper, self._command, environment, prefix)
        except OSError as error:
            self._conclude(never_started(self._command[0], error, self._settings.pod), [])

    def _bury(self, pid: int, status: int) -> None:
        child, incarnation = self._child, self._incarnation
        if child is None or child.pid != pid:
            return
        self._child, incarnation.ended = None, True
        self._kill_at = None
        child.drain()
        tail = child.tail.lines()
        known = Known(
            pod=self._settings.pod,
            killed=self._killed,
            gone=incarnation.gone,
            removed=incarnation.removed,
            returned=incarnation.returned,
            out_of_memory=memory_kills() > self._memory_kills,
        )
        self._conclude(judge(status, tail, known), tail)

    def _conclude(self, ending: Ending, tail: Sequence[str]) -> None:
        """The child has ended: report it to the master, which decides about a restart."""
        self._ending = ending
        self._say(f"the training exited with code {ending.exit_code}: {ending.why}")
        report = {
            **ending.report(tail, self._incarnation.round),
            **self._incarnation.end(),
            "process": self._number,
        }
        until = self._clock() + REPORT_FINISHED if ending.code == 0 else float("inf")

        def last_words() -> bool:
            """Send the child's last report first, for example the step that it saved."""
            with contextlib.suppress(MasterError):
                self._master.beat(self._report()[1])
            return self._master.exit(report)

        def tell() -> None:
            restart = False
            with contextlib.suppress(Refused, Over):
                restart = self._patience.ask(last_words, lambda: self._clock() >= until)
            self._events.put(lambda: self._answered(restart=restart))

        self._errands.run("exit", tell)

    def _answered(self, *, restart: bool) -> None:
        if not restart or self._leave_until is not None:
            self._finish()
            return
        if self._clock() - self._started >= SETTLED:
            self._rest.reset()
        pause = self._rest.pause()
        self._start_at = self._clock() + pause
        self._say(f"restarting the training in {pause:.1f} s")

    def _finish(self) -> None:
        """End with the child's code. A worker that left its job in order ends with 0, unless it had to save first."""
        ending, incarnation = self._ending, self._incarnation
        orderly = incarnation.removed and self._killed is None and not incarnation.saves
        self._code = 0 if ending is None or orderly else ending.exit_code

    # killing

    def _watch(self, child: Child, now: float) -> None:
        incarnation = self._incarnation
        if self._kill_at is not None:
            if now >= self._kill_at:
                child.kill()
            return
        sight = incarnation.sight(stopped=child.stopped)
        doubt = self._watchdog.doubt(sight)
        if doubt:
            self._say(doubt)
        condemned = self._watchdog.condemn(sight, now)
        if condemned:
            self._kill(condemned, stacks=not sight.stopped)

    def _abort(self, number: int, why: str) -> None:
        """The master requests to kill this run of the child."""
        child, incarnation = self._child, self._incarnation
        if child is None or number != self._number or self._killed is not None:
            return
        sight = incarnation.sight(stopped=child.stopped)
        hangs = not sight.stopped and sight.silent >= self._watchdog.limit(sight)
        self._kill(f"the master: {why}", stacks=hangs)

    def _kill(self, why: str, *, stacks: bool = False) -> None:
        """Kill the child. A hung child prints its stacks first."""
        if self._child is None or self._killed is not None:
            return
        self._killed = why
        self._say(f"killing the training: {why}")
        if stacks:
            self._child.ask_for_stacks()
        else:
            self._child.kill()
        self._kill_at = self._clock() + (STACKS if stacks else 0.0)

    # leaving

    def _leave(self, name: str) -> None:
        """A signal of the kernel or the kubelet requests the agent to end."""
        if self._leave_until is not None:
            return
        grace = self._settings.grace
        self._say(f"{name}: leaving the training within {grace:g} s")
        self._leave_until = self._clock() + grace - _reserve(grace)
        if self._child is None and self._start_at is not None:
            self._finish()
            return
        until = self._leave_until

        def tell() -> None:
            with contextlib.suppress(Refused, Over):
                self._patience.ask(lambda: self._master.leave(name, grace), lambda: self._clock() >= until)
            self._events.put(self._left)

        self._errands.run("leave", tell)

    def _left(self) -> None:
        """The master knows that this worker leaves, or does not accept the report."""
        self._leave_heard = self._clock()

    def _expected_nowhere(self, since: float) -> bool:
        """Whether neither this round nor the next includes this worker, `since` seconds after its leave was heard."""
        child = self._incarnation
        return self._child is not None and child.assignment is None and (child.newcomer or since >= UNPLACED)

    def _just_go(self) -> None:
        """Kill a newcomer that is in no round yet: it needs no orderly end."""
        if self._child is not None:
            self._code = 0
            self._child.kill()

    def _nobody_cares(self) -> None:
        """The job no longer exists, so an orderly end is neither possible nor needed."""
        if self._child is None:
            self._finish()
            return
        self._say("the job no longer exists: killing the training")
        self._just_go()

    def _time_is_over(self, now: float) -> None:
        """The grace period ends: kill the child, then use the remaining time for its report."""
        if self._child is not None:
            self._killed = self._killed or "the grace period is over"
            self._child.kill()
        if now < (self._leave_until or now) + 0.9 * _reserve(self._settings.grace):
            return
        if self._child is not None:
            self._code = 128 + signal.SIGKILL
        else:
            self._finish()

    # what the threads ask

    def _report(self) -> tuple[int, Mapping[str, Any]]:
        """The child's number, and the beat's body."""
        incarnation, child = self._incarnation, self._child
        report = incarnation.beat()
        if self._leave_until is not None:
            report["phase"] = "Leaving"
        report["child"] = "none" if child is None else "stopped" if child.stopped else "running"
        return incarnation.number, report

    def _child_told(self) -> None:
        self._events.put(lambda: None)  # triggers a check of the child
        self._beats.child_told()

    def _heard(self, number: int, answer: Answer) -> None:
        self._announcements.saw(answer.round)
        if (why := answer.abort) is not None:
            self._events.put(lambda: self._abort(number, str(why)))
        # The master repeats this with every beat until the round is over: the child may begin its second mesh later.
        if doors := self._incarnation.heard(number, answer.place, answer.broken):
            self._errands.run("unblock", lambda: unblock(answer.broken, doors, self._say))


def _reserve(grace: float) -> float:
    """Seconds of the grace period reserved for the kill and its report, before the kubelet kills the pod."""
    return min(2.0, 0.4 * grace)
