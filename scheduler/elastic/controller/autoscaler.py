"""The sizes of all jobs, decided together: when capacity appears, every second while a job searches for its size, and
every few seconds in any case.

Lives here: the input of the policies, and which jobs receive the answer. Never here: a policy. Free capacity goes to
the largest gain, so one call sees every job. It works on frozen values in its own thread, because beats must not wait.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Never

import msgspec
import structlog

from scheduler.clock import steady
from scheduler.elastic.controller.job_controller import JobController
from scheduler.elastic.controller.job_registry import JobRegistry
from scheduler.elastic.controller.pod_template import Kit, Worker, manifest
from scheduler.elastic.reconciler.job_events import Sized
from scheduler.elastic.sizing import UNLIMITED, Free, JobView, Want, size

SOON: Final = 1.0
"""Seconds between two decisions while a job searches for its size; a new round is measured as often."""

GATHER: Final = 0.2
"""Seconds from when capacity appears until the decision, which is also the minimum between two decisions. Pods of one
job end within some tenths of a second, and one decision covers them all."""

SHARE: Final = 0.2
"""Maximum fraction of time spent on decisions."""

_log = structlog.get_logger("elastic")


async def keep_sizing(
    master: JobRegistry,
    kit: Kit,
    every: float,
    took: Callable[[float], None],
    clock: Callable[[], float] = steady,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    *,
    short_first: bool = True,
) -> Never:
    """Decide until cancelled, at least once in `every` seconds. took: receives the duration of each decision."""
    freed = master.usage.freed
    while True:
        began, soon = clock(), False
        freed.clear()
        try:
            wants = await decide(master, kit, short_first=short_first)
            soon = any(want.soon for want in wants.values())
        except Exception:  # noqa: BLE001 - whatever fails in a policy, sizes stay as they are until the next time
            _log.exception("sizing failed", kind="sizing failed")
        spent = clock() - began
        took(spent)
        await _either(freed.wait(), sleep(min(every, max(SOON, spent / SHARE)) if soon else every))
        if freed.is_set():
            await sleep(min(every, max(GATHER, spent / SHARE)))


async def _either(*waits: Awaitable[object]) -> None:
    """Wait until one of them is done."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


async def decide(master: JobRegistry, kit: Kit, *, short_first: bool = True) -> Mapping[str, Want]:
    """Decide once, and send the result to every job."""
    controllers = {controller.owner.key: controller for controller in master.controllers.values()}
    views = {
        key: view for key, controller in controllers.items() if (view := controller.wishes()) is not None
    }
    free, pictures = UNLIMITED, list(views.values())
    if master.whole:
        free, asked = master.usage.offer({key: _probe(controllers[key], kit) for key in views})
        pictures = [
            msgspec.structs.replace(
                view,
                worker=asked[key].amounts,
                kind=asked[key].kind,
                held=view.held + _unbound(master, controllers[key]),
            )
            for key, view in views.items()
        ]
    wants = await asyncio.to_thread(_sized, pictures, free, short_first)
    for key, want in wants.items():
        controllers[key].feed(Sized(want.size, want.by, want.reason))
    return wants


def _sized(pictures: list[JobView], free: Free, short_first: bool) -> Mapping[str, Want]:
    """If the policies fail, log the jobs that cause it, and size the others without them."""
    try:
        return size(pictures, free, short_first=short_first)
    except Exception:  # noqa: BLE001 - sizing each job alone finds the cause
        sound = [picture for picture in pictures if _sound(picture, free)]
        return size(sound, free, short_first=short_first)


def _sound(picture: JobView, free: Free) -> bool:
    try:
        size([picture], free)
    except Exception:  # noqa: BLE001 - the job keeps its size until the next time
        _log.exception("sizing failed", job=picture.name, kind=("sizing failed", picture.name))
        return False
    return True


def _unbound(master: JobRegistry, controller: JobController) -> int:
    """Workers with a planned node that are not bound yet: what they take belongs to the job already."""
    unplaced = (
        uid for uid, known in controller.workers.items() if not (known.seen.node or known.seen.deleting)
    )
    return sum(master.usage.holds(uid) for uid in unplaced)


def _probe(controller: JobController, kit: Kit) -> Mapping[str, object]:
    """A worker pod of this job as it would be created."""
    assert controller.spec is not None  # noqa: S101 - otherwise it has no view
    return manifest(controller.owner, controller.spec, Worker("probe", 0), kit)
