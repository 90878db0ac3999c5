"""By which programs pods come to their nodes: one row a road.

All roads have the same API server, the same policies, the same kube-scheduler under the same account with the same
limit of calls (so high that it is never reached), and the same pods but for our gate.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.load.work import SCHEDULER
from bench.plane import Plane
from bench.plane.installation import GANGWRIGHT, ROOT, SCHEDULER_CONFIG, Installation

MANIFESTS: Final = ROOT / "manifests" / "overlays" / "without-gate-policy"
"""Accounts, rights and the policies of trust. Not the policy that adds the gate: here pods come with it or without."""

ALL_NODES_CONFIG: Final = ROOT / "extender_config" / "kube-scheduler-without-policy.yaml"

UNLIMITED: Final = {"clientConnection": {"qps": 5000, "burst": 10000}}

NO_EXTENDER: Final = {"extenders": [], "profiles": [{"schedulerName": SCHEDULER}]}
ALONE: Final = {"leaderElect": False}
BY_LEASE: Final = {"leaderElect": True}


@dataclass(frozen=True)
class Road:
    """One way for pods to their nodes.

    extender: Gangwright runs beside kube-scheduler. gated: pods wait behind our gate. by_hand: the bench itself takes
    it away (see `bare`). native: pods are members of kube-scheduler's own gangs. config: of kube-scheduler. settings:
    of Gangwright, laid over the shipped ones.
    """

    extender: bool = True
    gated: bool = True
    by_hand: bool = False
    native: bool = False
    config: Path = SCHEDULER_CONFIG
    settings: Mapping[str, str] = field(default_factory=dict)


ROADS: Final[Mapping[str, Road]] = {
    "none": Road(extender=False, gated=False),
    "native": Road(extender=False, gated=False, native=True),
    "bare": Road(extender=False, by_hand=True),
    "pinned": Road(),
    "gangwright": Road(),
    "nominated": Road(settings={"gangs.pin": "soft"}),
    "side": Road(gated=False, config=ALL_NODES_CONFIG),
}


@asynccontextmanager
async def running(plane: Plane, road: Road, *, waiting: bool) -> AsyncIterator[None]:
    """The road's programs, ready. waiting: whoever makes the first move waits for the Lease (see `start`)."""
    election: Mapping[str, Any] = {"leaderElection": BY_LEASE if waiting else ALONE}
    changes = {**UNLIMITED, **election}
    if not road.extender:
        async with _plain(plane, road.config, {**NO_EXTENDER, **changes}):
            yield
        return
    # Ungated pods are kube-scheduler's to begin with: there the extender acts already and answers at once.
    installed = Installation(
        plane,
        manifests=None,
        config=road.config,
        changes=changes,
        set_=road.settings,
        lease=waiting and road.gated,
    )
    await asyncio.to_thread(installed.start)
    try:
        yield
    finally:
        await asyncio.to_thread(installed.stop)


@asynccontextmanager
async def _plain(plane: Plane, config: Path, changes: Mapping[str, Any]) -> AsyncIterator[None]:
    name = "plain-kube-scheduler"
    await asyncio.to_thread(lambda: plane.start_scheduler(name, config, changes=changes, identity=GANGWRIGHT))
    try:
        yield
    finally:
        await asyncio.to_thread(plane.end, name)
