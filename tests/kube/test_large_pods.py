"""450 pods of 1.2 MB each at a real API server, as one tenant may make them: Gangwright that is started again reads them,
and has its memory for it.
"""

import asyncio
import time
from pathlib import Path

import pytest

from bench.plane import Plane
from bench.plane.client import where
from bench.plane.installation import Installation

pytestmark = [
    pytest.mark.plane,
    pytest.mark.extended,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:Sending a large body"),  # of the admin's client, which makes the pods
]

PODS = 450
BYTES = 1_200_000
MOST = 300
"""MiB that the extender may have at its peak; its container has 512."""


def peak(pid: int) -> float:
    """MiB; proc_pid_status(5)."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/{pid}/status has no VmHWM")


async def large_pods(plane: Plane, scheduler: str) -> None:
    """Pods of a scheduler that is not there, in a namespace of their own."""
    env = [{"name": "LARGE", "value": "x" * BYTES}]
    spec = {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i", "env": env}]}
    turn = asyncio.Semaphore(4)
    async with plane.client() as api:
        await api.create(where("namespaces"), {"metadata": {"name": "large"}})
        await api.until(where("serviceaccounts", "large", "default"), bool)

        async def one(number: int) -> None:
            async with turn:
                await api.create(
                    where("pods", "large"), {"metadata": {"name": f"large-{number}"}, "spec": spec}
                )

        await asyncio.gather(*(one(number) for number in range(PODS)))


def test_a_restart_beside_large_pods() -> None:
    """Half a gigabyte of pods of one tenant costs a restarted extender some seconds, and no more memory than it has.

    It has a plane of its own, whose API server takes 2.5 GB.
    """
    with (
        Plane(scheduler=False, controllers=True, kwok=False) as plane,
        Installation(plane, scheduler=False) as gangwright,
    ):
        asyncio.run(large_pods(plane, "absent"))
        while_they_came = peak(gangwright.extender.pid)
        began = time.monotonic()
        gangwright.restart(within=240)
        took, again = time.monotonic() - began, peak(gangwright.extender.pid)
        lag = gangwright.metrics().value("gangwright_loop_lag_seconds")
        print(
            f"ready after {took:.1f} s, peak {again:.0f} MiB (before: {while_they_came:.0f}), lag {lag:.3f} s"
        )
        while gangwright.metrics().value("gangwright_cache_objects", resource="pods") < PODS:
            time.sleep(0.2)  # the gauge follows every few seconds
        assert while_they_came <= MOST
        assert again <= MOST
