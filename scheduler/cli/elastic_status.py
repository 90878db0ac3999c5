"""What the status of an ElasticJob says of its workers: nodes and pods alone do not tell why a worker was lost.

Lives here: one look at it, with the caller's own rights. Never here: how it is shown.
"""

import asyncio

import msgspec

from scheduler.cli.options import Reach
from scheduler.elastic.controller.requests import JOBS, inside
from scheduler.elastic.job.status import Status
from scheduler.elastic.job.status_json import UnreadableStatus, decode_status
from scheduler.errors import KubeError
from scheduler.kube.client import Client
from scheduler.kube.credentials import find_access


def elastic_status(reach: Reach, namespace: str, name: str) -> Status | None:
    """The status of the ElasticJob of this name; None where there is none, or none that can be read."""
    return asyncio.run(_found(reach, inside(JOBS, namespace, name)))


async def _found(reach: Reach, path: str) -> Status | None:
    async with Client(await find_access(reach.kubeconfig, reach.context)) as client:
        try:
            job = msgspec.json.decode(await client.request("GET", path), type=dict)
            return decode_status(job.get("status"))
        except (KubeError, msgspec.MsgspecError, UnreadableStatus):
            return None
