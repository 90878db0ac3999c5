"""The sizes of all jobs, decided together every few seconds, and every second while one of them looks for its size.

Lives here: the picture that the policies get, and what their answer is told to. Never here: a policy. Growth goes where
it gains most, so one call sees every job; it works on frozen values and on a thread of its own, for beats do not wait.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Never

import msgspec
import structlog

from scheduler.elastic.controller.job_controller import JobController
from scheduler.elastic.controller.job_registry import Master
from scheduler.elastic.controller.pod_template import Kit, Worker, manifest
from scheduler.elastic.reconciler.job_events import Sized
from scheduler.elastic.sizing import size
from scheduler.elastic.sizing.job_view import Free, JobView, Want

UNLIMITED: Final = Free(unlimited=True)

SOON: Final = 1.0
"""Seconds between two decisions while a job looks for its size: a round that is new is measured as often."""

SHARE: Final = 0.2
"""Part of the time that decisions may take."""

_log = structlog.get_logger("elastic")


async def keep_sizing(
    master: Master,
    kit: Kit,
    every: float,
    took: Callable[[float], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Never:
    """Decide until cancelled, every so many seconds at the latest. took: told how long each decision took."""
    loop = asyncio.get_running_loop()
    while True:
        began, soon = loop.time(), False
        try:
            wants = await decide(master, kit)
            soon = any(want.soon for want in wants.values())
        except Exception:  # noqa: BLE001 - whatever a policy stumbled over, sizes stay as they are until the next time
            _log.exception("sizing failed", kind="sizing failed")
        spent = loop.time() - began
        took(spent)
        await sleep(min(every, max(SOON, spent / SHARE)) if soon else every)


async def decide(master: Master, kit: Kit) -> Mapping[str, Want]:
    """Decide once, and tell every job."""
    charges = {charge.owner.key: charge for charge in master.charges.values()}
    views = {key: view for key, charge in charges.items() if (view := charge.wishes()) is not None}
    free, pictures = _picture(master, kit, charges, views)
    wants = await asyncio.to_thread(_sized, pictures, free)
    for key, want in wants.items():
        charges[key].feed(Sized(want.size, want.by, want.reason))
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


def _picture(
    master: Master, kit: Kit, charges: Mapping[str, JobController], views: Mapping[str, JobView]
) -> tuple[Free, list[JobView]]:
    if not master.whole:
        return UNLIMITED, list(views.values())
    pods = {key: probe for key in views if (probe := _probe(charges[key], kit)) is not None}
    free, takes = master.room.offer(pods)
    return free, [
        msgspec.structs.replace(
            view, worker=takes.get(key, view.worker), held=view.held + _unbound(master, charges[key])
        )
        for key, view in views.items()
    ]


def _unbound(master: Master, charge: JobController) -> int:
    """Workers that the scheduler has seated, and that have no node yet: their room is taken, and the job's own."""
    unplaced = (uid for uid, known in charge.workers.items() if not (known.seen.node or known.seen.deleting))
    return sum(master.room.holds(uid) for uid in unplaced)


def _probe(charge: JobController, kit: Kit) -> Mapping[str, object] | None:
    """A worker of this job as it would be made."""
    if charge.spec is None:
        return None
    return manifest(charge.owner, charge.spec, Worker("probe", 0), kit)
