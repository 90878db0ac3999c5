"""What is submitted: Jobs of 2 to 24 members of 1 to 8 GPUs that run some seconds, so many that some always wait."""

import asyncio
import random
from collections.abc import Collection
from contextlib import suppress
from http import HTTPStatus
from itertools import count
from typing import Any, Final

import aiohttp

from bench.plane import ApiError, Client, where
from tests.stories.support.workloads import gang, made_by

JOBS: Final = where("jobs", "default")

NODES, GPUS = 16, 8

LARGEST: Final = 64
"""GPUs of one Job: half of the cluster. Before a larger one the cluster empties, and no bind would come meanwhile."""

BACKLOG: Final = 3 * NODES * GPUS
"""GPUs of the Jobs that have not ended: two thirds of them wait."""

PASSING: Final = {
    HTTPStatus.FORBIDDEN,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}
"""What an API server answers that has not read its roles and policies yet, or has no etcd."""

TROUBLE: Final = (ApiError, aiohttp.ClientError, OSError)
"""What a call meets while the API server is away."""


def job(name: str, members: int, gpus: int, seconds: float) -> dict[str, Any]:
    """A Job of one gang; each member runs so long. Ended, it is kept for a while, so that it is seen."""
    made = made_by("Job", name, members, gpus=gpus, annotations=_runs(seconds))
    return made | {"spec": made["spec"] | {"ttlSecondsAfterFinished": 20}}


def _runs(seconds: float) -> dict[str, str]:
    return {"plane.gangwright.io/runs-for": f"{seconds:.1f}s"}


def drawn(chance: random.Random, number: int) -> dict[str, Any]:
    while True:
        members, gpus = chance.randint(2, 24), chance.randint(1, GPUS)
        if members * gpus <= LARGEST:
            return job(f"job-{number}", members, gpus, chance.uniform(2, 6))


def over(job: dict[str, Any]) -> bool:
    said = job.get("status", {}).get("conditions", ())
    return any(one["type"] in {"Complete", "Failed"} and one["status"] == "True" for one in said)


async def submit(api: Client, chance: random.Random, known: Collection[dict[str, Any]]) -> None:
    """Goes on without end. known: the Jobs as a watch sees them."""
    for number in count():
        with suppress(*TROUBLE):
            await api.create(JOBS, drawn(chance, number))
        await asyncio.sleep(0.1)
        while sum(gpus_of(job) for job in known if not over(job)) > BACKLOG:
            await asyncio.sleep(0.1)


async def submit_gang(api: Client, name: str) -> None:
    """Two pods that need no GPU, so that there is room for them, and no controller, which may be away.

    An API server that was started a moment ago may refuse them for a while. Raises what else it says.
    """
    for member in gang(name, 2, gpus=0, annotations=_runs(1.0)):
        made = False
        while not made:
            try:
                await api.create(where("pods", "default"), member)
                made = True
            except ApiError as error:
                made = error.status == HTTPStatus.CONFLICT
                if not made and error.status not in PASSING:
                    raise
            except (aiohttp.ClientError, OSError):
                pass
            await asyncio.sleep(0.1)


def gpus_of(job: dict[str, Any]) -> int:
    container = job["spec"]["template"]["spec"]["containers"][0]
    return int(job["spec"]["parallelism"]) * int(container["resources"]["limits"]["nvidia.com/gpu"])
