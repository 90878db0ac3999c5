"""Pods that run on the stand-in kubelet, as its tests ask for them: their states, their words and their processes."""

import asyncio
from pathlib import Path

from bench.plane import Fleet, NeverCameError

FLEET = Fleet(prefix="real-", nodes_per_rack=2, gpus=1, cpu="8")
NODES = FLEET.names()


def in_phase(*phases):
    return lambda pod: pod["status"].get("phase") in phases


def only(pod, part="containerStatuses"):
    (found,) = pod["status"][part]
    return found


def conditions(pod):
    return {own["type"]: own["status"] for own in pod["status"]["conditions"]}


async def logged(kubelet, pod, text, within=20.0):
    try:
        async with asyncio.timeout(within):
            while text not in kubelet.log(pod):
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise NeverCameError(f"{text!r} was not logged; there is: {kubelet.log(pod)!r}") from None


def runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def ended(pids):
    async with asyncio.timeout(20):
        while any(map(runs, pids)):
            await asyncio.sleep(0.02)


async def processes(kubelet, pod):
    """Every process of the pod, of which there is at least one: it may speak before its kubelet knows of it."""
    await asyncio.to_thread(kubelet.until_runs, pod)
    pids = kubelet.pids(pod)
    assert pids
    return pids
