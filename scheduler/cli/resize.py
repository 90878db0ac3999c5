"""`gangwright resize`: the size of an elastic job, while it trains, with the caller's own rights."""

import asyncio
from typing import Annotated, Any, Final

import msgspec
import typer

from scheduler import errors
from scheduler.cli import screen
from scheduler.cli.options import NO, Context, Kubeconfig, Namespace, Reach, split
from scheduler.elastic.controller.requests import JOBS, inside
from scheduler.elastic.job.validation import policy_of
from scheduler.errors import SettingsError
from scheduler.objects import labels, patches

AUTO: Final = "auto"
MANAGER: Final = f"{labels.FIELD_MANAGER}-resize"
MOST: Final = 10_000
"""Workers of one job; the bound of `spec.workers`."""


def resize(
    job: Annotated[str, typer.Argument(metavar="[NAMESPACE/]JOB", help="The ElasticJob.")],
    workers: Annotated[
        str, typer.Argument(metavar="N|auto", help="How many workers; auto: the job's own policy decides.")
    ],
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Set how many workers an elastic job has, within its bounds, or let its policy decide again.

    It goes on training meanwhile. Ends with 1 when there is no such ElasticJob.
    """
    wanted = _count(workers)
    reach = Reach(kubeconfig, context)
    inside_, name = split(job, namespace, reach)
    raise typer.Exit(asyncio.run(_resize(reach, inside_, name, wanted)))


def _count(said: str) -> int | None:
    """None for `auto`. Raises SettingsError."""
    if said == AUTO:
        return None
    if not said.isdecimal() or int(said) > MOST:
        raise SettingsError("workers", said, f"write a whole number up to {MOST}, or {AUTO}")
    return int(said)


async def _resize(reach: Reach, namespace: str, name: str, wanted: int | None) -> int:
    path = inside(JOBS, namespace, name)
    body = msgspec.json.encode({"spec": {"workers": wanted}})
    async with await reach.client() as client:
        try:
            answer = await client.request(
                "PATCH", path, params={"fieldManager": MANAGER}, body=body, content_type=patches.MERGE
            )
        except errors.NotFound:
            screen.note(f"no ElasticJob {name} in namespace {namespace}")
            return NO
    screen.line(f"elasticjob/{name} {_told(msgspec.json.decode(answer), wanted)}")
    return 0


def _told(job: dict[str, Any], wanted: int | None) -> str:
    """What follows, in words; the job's bounds count."""
    spec, status = job.get("spec") or {}, job.get("status") or {}
    now = status.get("workers", 0)
    if wanted is None:
        return f"is sized by its policy, {policy_of(spec)}; {now} workers now"
    low, high = spec.get("minWorkers", 1), spec.get("maxWorkers", MOST)
    goal = max(low, min(high, wanted))
    bounds = "" if goal == wanted else f" (asked for {wanted}; {low} to {high} are allowed)"
    return f"goes to {goal} workers{bounds}; {now} now"
