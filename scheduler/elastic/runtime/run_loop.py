"""Replaces Horovod's elastic loop: a worker that joins is warm, and long waits happen only in Python.

In stock Horovod a change stops all workers, then newcomers start, and Horovod's C++ waits for them. Here a newcomer
warms up alone and waits at the barrier, and only then the others are interrupted. The round is complete before `init`
is entered. The master decides whether all ranks synchronize the state; it is saved after every synchronization.

    warm up ── ready ──── barrier ─── init ── sync ── train ──┬─ returns: done
                  ▲                                           ├─ announced: keep the state as it is
                  └───────────────────────────────────────────┴─ a collective failed: back to the last commit

Never here: details of a framework (`frameworks`), messages to the agent (`agent_client`, `training_progress`).
"""

from __future__ import annotations

import functools
import os
import queue
import threading
import time
from typing import Any, Callable, Mapping, Optional, Sequence

from . import (
    barrier,
    checkpointing,
    frameworks,
    horovod_environment,
    script_setup,
    state_codec,
    warmup,
    worker_context,
)
from .agent_client import FIRST_PAUSE
from .interrupt import Pace
from .round_assignment import Assignment
from .runtime_errors import Interrupted
from .training_progress import Idle, say

HELD = 2.0
"""Seconds at the barrier after which the state is saved. A change with all workers present takes a tenth of it."""

TURN = 10.0
"""Additional seconds that each rank of the last round waits to save, compared to the previous rank."""

FAREWELL = 30.0
"""Maximum seconds to report the end of the training to the agent, which decides the fate of the job. It is the default
grace period of a pod."""

TOLD = 300
"""Characters of a failed collective's error that are logged, from its end: that part names the operation."""


class _Removed(Exception):  # noqa: N818 - a condition, not an error
    """The job continues without this worker."""


def patch(module: Any) -> None:
    """`horovod.common.elastic`: replaces loop, commit and check."""
    module.run_fn, module.State.commit, module.State.check_host_updates = run_fn, commit, check


def patch_tensorflow(module: Any) -> None:
    """`horovod.tensorflow.elastic`: its `run` would turn an `UnknownError` of another library into a silent end."""
    module.run = lambda func: run_fn(func, module._reset)  # noqa: SLF001 - a seam of Horovod's Python layer


def run_fn(func: Callable[..., Any], reset: Callable[[], None]) -> Callable[..., Any]:
    """Replaces `horovod.common.elastic.run_fn`."""

    @functools.wraps(func)
    def wrapper(state: Any, *args: Any, **words: Any) -> Any:
        global _loop  # noqa: PLW0603 - one training at a time in a process
        _loop = Loop(state, func, reset)
        try:
            return _loop.run(args, words)
        finally:
            _loop = None

    return wrapper


def commit(state: Any) -> None:
    """Replaces `State.commit`: saves, then checks whether a newer round is announced."""
    if _loop is None:
        state.save()
    else:
        _loop.commit(state)


def check(state: Any) -> None:
    """Replaces `State.check_host_updates`."""
    if _loop is not None:
        _loop.check(state)


class Loop:
    """One call of a function decorated with `hvd.elastic.run`."""

    def __init__(self, state: Any, func: Callable[..., Any], reset: Callable[[], None]) -> None:
        self._state, self._func, self._reset = state, func, reset
        self._framework = frameworks.of(state)
        self._worker = worker_context.begin()
        self._progress = self._worker.progress
        self._disk = checkpointing.Disk(self._framework, self._progress)
        self._pace, self._idle = Pace(), Idle()
        self._first = True
        """This training function of the script has entered no round yet."""
        self._another = False
        """The script has begun another training and entered no round since. So other workers may not have its state,
        whatever rounds were announced meanwhile.
        """

    def run(self, args: Sequence[Any], words: Mapping[str, Any]) -> Any:
        """Trains until the function returns; ends the process if the job continues without this worker."""
        self._progress.setup = False
        try:
            self._warm_up(args, words)
            result = self._rounds(args, words)
        except _Removed:
            self._end(0, "removed")
            raise SystemExit(0) from None
        except BaseException as error:
            self._end(1, f"{type(error).__name__}: {error}"[:500])
            raise
        self._end(0, "the training function returned")
        return result

    def commit(self, state: Any) -> None:
        """A step is complete and committed."""
        if not self._worker.warming:
            self._stepped()
            state.save()
            self._progress.saved()
            self._disk.perhaps(self._worker.assignment.rank)
        self._ask()

    def check(self, _state: Any) -> None:
        """A step is complete."""
        if not self._worker.warming:
            self._stepped()
        self._ask()

    def _warm_up(self, args: Sequence[Any], words: Mapping[str, Any]) -> None:
        """Warms up alone. A second training of this process leaves the ring of the first one, because the others may be
        in the next training already.
        """
        self._progress.phase = "WarmingUp"
        begun = time.monotonic()
        if self._worker.assignment.round:
            self._framework.shutdown()
            self._let_go()
        self._progress.stamp = self._framework.stamp()
        warmup.run(self._worker, self._framework, self._func, args, words)
        self._progress.stamp.begin()  # discards the marks of the warm-up
        say(f"warmed up alone in {time.monotonic() - begun:.2f} s")

    def _rounds(self, args: Sequence[Any], words: Mapping[str, Any]) -> Any:
        self._another = bool(self._worker.assignment.round)
        why = "another" if self._another else "newcomer"
        while True:
            before, assignment = self._worker.assignment, self._barrier(why)
            self._leave_something(before, assignment)
            try:
                self._enter(assignment)
                return self._func(self._state, *args, **words)
            except barrier.Overtaken:
                why = "failure"
            except Interrupted:
                self._keep()
                why = "announced"
            except Exception as error:
                if not self._framework.failed(error):
                    raise
                say(f"round {assignment.round}: a collective failed: {_last(error)}")
                self._framework.go_back()
                self._progress.rolled_back()
                why = "failure"
            finally:
                self._progress.in_check = False

    def _keep(self) -> None:
        """Commits the current state. All ranks are interrupted after the same step, so nothing is lost.

        Without it the tensors would stay, but the plain values would go back to the last commit of the script.
        """
        progress = self._progress
        if (progress.step, progress.samples) != (progress.committed, progress.committed_samples):
            self._state.save()
            progress.saved()

    def _barrier(self, why: str) -> Assignment:
        """Waits at the barrier until there is an assignment; meanwhile Horovod is shut down."""
        self._progress.phase = "Ready"
        card, known = self._card(), script_setup.asked()
        body = {
            "round": self._worker.assignment.round,
            "step": self._progress.step,
            "committed": self._progress.committed,
            "samples": float(self._progress.samples),
            "why": why,
            "another": self._another,
            "fingerprint": card.fingerprint,
            "place": list(known) if known and not self._worker.assignment.round else None,
            "again": script_setup.again(),
        }
        answer: queue.Queue[Any] = queue.Queue()

        def arrive() -> None:
            try:
                self._worker.reporter.report()  # the times of the last steps must arrive first
                answer.put(self._worker.shim.ready(body))
            except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
                answer.put(error)

        threading.Thread(target=arrive, daemon=True).start()
        self._framework.shutdown()
        if why == "failure":
            self._let_go()
        assignment = self._wait(answer)
        if isinstance(assignment, BaseException):
            raise assignment
        return assignment  # type: ignore[no-any-return]

    def _wait(self, answer: queue.Queue[Any]) -> Any:
        """The answer. If it takes long, one of the workers that have the state saves it to disk."""
        place = self._worker.assignment
        try:
            return answer.get(timeout=HELD + TURN * place.rank if place.round else None)
        except queue.Empty:
            self._disk.hold()
            return answer.get()

    def _let_go(self) -> None:
        """Closes the connections of the failed round, so that all members detect the failure.

        After a failed collective Horovod keeps its connections until its next `init`. A member that waits for this
        worker (not for the dead one) would wait until the gloo timeout. An `init` alone takes 15 ms, in a time of
        waiting. `HOROVOD_ELASTIC` is off meanwhile, because a re-init would look for a rendezvous otherwise.
        """
        horovod_environment.apply({**horovod_environment.solo(os.environ), "HOROVOD_ELASTIC": "0"})
        self._reset()
        horovod_environment.apply(horovod_environment.solo(os.environ))

    def _leave_something(self, before: Assignment, assignment: Assignment) -> None:
        """Writes a requested checkpoint, and leaves if the job continues without this worker.

        The worker that the master asks has the newest state, regardless of its rank. An exception here ends the
        process: a worker that cannot save must not appear to have left in order.
        """
        if assignment.checkpoint and before.round:
            self._disk.write()
        if assignment.removed:
            self._progress.phase = "Leaving"
            say(f"round {assignment.round} excludes this worker: leaving")
            raise _Removed

    def _enter(self, assignment: Assignment) -> None:
        """Enters the round: environment, barrier, init, and the same state on all ranks."""
        marks = [time.monotonic()]
        scale, former = self._worker.lr_scale(), self._worker.stands or script_setup.asked()
        self._worker.take(assignment)
        mine = (assignment.rank, assignment.size)
        if assignment.restore and assignment.rank == 0:
            self._disk.read(assignment.restore)
        moved = former is not None and former != mine
        heard = self._pass_barrier(assignment, scale, resets=not self._first or moved)
        marks.append(time.monotonic())
        self._reset()
        marks.append(time.monotonic())
        dealt = self._framework.entered(former, mine)
        self._reset_state(mine, dealt=dealt, moved=moved, heard=heard)
        if assignment.sync:
            self._take_over(heard)
        self._worker.entered(assignment, heard["scale"])
        self._another = False
        marks.append(time.monotonic())
        self._pace.begin()
        self._progress.phase = "Training"
        self._say_round(assignment, marks)
        self._idle.resumed()
        self._progress.stamp.begin()

    def _reset_state(
        self, mine: tuple[int, int], *, dealt: bool, moved: bool, heard: Mapping[str, Any]
    ) -> None:
        """Runs the script's reset callbacks, and records whether a rank or size that it read is outdated.

        Stock Horovod runs no callbacks in the first round of a process, because the process has set up for that round.
        If it has not, and joins workers that run theirs, it runs them too. That is the case if it did not read its
        place, or was alone in a collective of its setup.
        """
        first, self._first = self._first, False
        self._worker.stands = mine
        unprepared = script_setup.answered_alone or script_setup.asked() is None
        if not first or moved or (unprepared and heard.get("resets")):
            self._state.on_reset()
        taken_over = not first and (dealt or bool(getattr(self._state, "_reset_callbacks", ())))
        self._progress.stale = "" if taken_over else script_setup.differs(*mine)

    def _pass_barrier(self, assignment: Assignment, scale: float, *, resets: bool) -> Mapping[str, Any]:
        """Rank 0's counters and plain values, when all members are at the barrier."""
        watch, progress = self._worker.watch, self._progress
        mine = {"step": progress.step, "samples": progress.samples, "epoch_length": progress.epoch_length}
        leading = assignment.rank == 0 and assignment.sync
        word = {
            **mine,
            "scale": scale,
            "resets": resets,
            "plain": self._framework.plain() if leading else None,
        }

        def overtaken() -> bool:
            return watch.target > assignment.round

        return barrier.pass_through(self._worker.shim, assignment, self._card(word), overtaken)

    def _take_over(self, heard: Mapping[str, Any]) -> None:
        """Takes over rank 0's state as state and last commit. If that fails, the last commit stays unchanged."""
        progress = self._progress
        progress.in_check = True
        self._framework.sync(heard["plain"])
        progress.epoch_length = heard["epoch_length"]
        progress.moved(heard["step"], heard["samples"])
        progress.in_check = False

    def _card(self, word: Mapping[str, Any] | None = None) -> barrier.Card:
        """The card that the agent and the other members see."""
        shapes, attributes = self._framework.shapes(), self._framework.attributes()
        described = state_codec.describe(shapes, attributes)
        return barrier.Card(state_codec.digest(shapes, attributes), described, word or {})

    def _stepped(self) -> None:
        seconds = self._idle.stepped()
        compute = self._progress.stamp.compute() if seconds is not None else None
        if seconds is not None:
            self._pace.stepped(seconds)
        self._progress.ours.update(self._idle.told)
        self._progress.stepped(seconds, compute)
        self._progress.stamp.begin()

    def _ask(self) -> None:
        """Raises Interrupted on all ranks at the same step if a newer round is announced."""
        mine, wanted = self._worker.assignment, self._worker.watch.target
        if self._worker.warming:
            raise Interrupted
        if mine.size > 1:
            if not self._pace.due():
                return
            wanted = self._hear(wanted)
        if wanted > mine.round:
            raise Interrupted

    def _hear(self, wanted: int) -> int:
        begun = time.monotonic()
        self._progress.in_check = True
        wanted, steps = self._framework.broadcast([wanted, self._pace.wish()])
        self._progress.in_check = False
        self._pace.agreed(steps, time.monotonic() - begun)
        self._progress.stamp.begin()
        return wanted

    def _say_round(self, assignment: Assignment, marks: Sequence[float]) -> None:
        door, init, sync = (1000 * (after - before) for before, after in zip(marks, marks[1:]))
        batch = assignment.batch
        told = f", batch {batch.total} ({batch.local} here, {batch.mode})" if batch else ""
        say(
            f"round {assignment.round}: rank {assignment.rank} of {assignment.size}{told}, learning rate × "
            f"{assignment.lr_scale:g}, step {self._progress.step} "
            f"(doorstep {door:.0f} ms, init {init:.0f} ms, {'sync' if assignment.sync else 'no sync'} {sync:.0f} ms)"
        )

    def _end(self, code: int, why: str) -> None:
        self._disk.finish()
        self._worker.stop()
        until = time.monotonic() + FAREWELL
        while not self._worker.shim.tell("/gone", {"code": code, "why": why}) and time.monotonic() < until:
            time.sleep(FIRST_PAUSE)
        self._worker.shim.close()


_loop: Optional[Loop] = None  # noqa: UP045


def _last(error: BaseException) -> str:
    said = " ".join(str(error).split())
    return said if len(said) <= TOLD else "… " + said[-TOLD:].partition(" ")[2]
