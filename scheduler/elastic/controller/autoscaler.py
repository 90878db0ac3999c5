"""The sizes of all jobs, decided together: when capacity appears, every second while a job searches for its size, and
every few seconds in any case.

Lives here: the picture that the policies get, and which jobs are told the answer. Never here: a policy. Growth goes where
it gains most, so one call sees every job. It works on frozen values and on a thread of its own, for beats do not wait.
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
"""Seconds between two decisions while a job looks for its size: a round that is new is measured as often."""

GATHER: Final = 0.2
"""Seconds from when capacity appears until the decision, and so between two decisions at least. Pods of one job end
within some tenths of a second, and one decision takes them all."""

SHARE: Final = 0.2
"""Part of the time that decisions may take."""

_log = structlog.get_logger("elastic")


async def keep_sizing(
    master: JobRegistry,
    kit: Kit,
    every: float,
    took: Callable[[float], None],
    clock: Callable[[], float] = steady,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Never:
    """Decide until cancelled, every so many seconds at the latest. took: told how long each decision took."""
    freed = master.usage.freed
    while True:
        began, soon = clock(), False
        freed.clear()
        try:
            wants = await decide(master, kit)
            soon = any(want.soon for want in wants.values())
        except Exception:  # noqa: BLE001 - whatever a policy stumbled over, sizes stay as they are until the next time
            _log.exception("sizing failed", kind="sizing failed")
        spent = clock() - began
        took(spent)
        await _either(freed.wait(), sleep(min(every, max(SOON, spent / SHARE)) if soon else every))
        if freed.is_set():
            await sleep(min(every, max(GATHER, spent / SHARE)))


async def _either(*waits: Awaitable[object]) -> None:
    """Until one of them is over."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


async def decide(master: JobRegistry, kit: Kit) -> Mapping[str, Want]:
    """Decide once, and tell every job."""
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
    wants = await asyncio.to_thread(_sized, pictures, free)
    for key, want in wants.items():
        controllers[key].feed(Sized(want.size, want.by, want.reason))
    return wants


def _sized(pictures: list[JobView], free: Free) -> Mapping[str, Want]:
    """What a policy stumbles over at one job is told, and the others are sized without it."""
    try:
        return size(pictures, free)
    except Exception:  # noqa: BLE001 - whose fault it is shows when each is alone
        return size([picture for picture in pictures if _sound(picture, free)], free)


def _sound(picture: JobView, free: Free) -> bool:
    try:
        size([picture], free)
    except Exception:  # noqa: BLE001 - the job keeps its size until the next time
        _log.exception("sizing failed", job=picture.name, kind=("sizing failed", picture.name))
        return False
    return True


def _unbound(master: JobRegistry, controller: JobController) -> int:
    """Workers that the scheduler has seated, and that have no node yet: what they take is the job's own."""
    unplaced = (
        uid for uid, known in controller.workers.items() if not (known.seen.node or known.seen.deleting)
    )
    return sum(master.usage.holds(uid) for uid in unplaced)


def _probe(controller: JobController, kit: Kit) -> Mapping[str, object]:
    """A worker of this job as it would be made."""
    assert controller.spec is not None  # noqa: S101 - else it has no wishes
    return manifest(controller.owner, controller.spec, Worker("probe", 0), kit)
