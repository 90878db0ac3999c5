"""The service that a gang attained and the work that a preemption would lose, in device-seconds.

A device is one piece of any extended resource, for example a GPU. A pod without devices counts by its cores, with CORES
of them as one device, so that work on CPUs has some weight beside work on GPUs.
"""

from collections.abc import Mapping
from typing import Final

from scheduler.ledger.gang import GangRecord, Spec
from scheduler.ledger.registry import Registry
from scheduler.model.demand import Demand
from scheduler.model.resources import CPU, NATIVE
from scheduler.model.workload import GiveWay, OwnerTraits, Pod

CORES: Final = 16
"""Cores that count as one device: training servers commonly have this many for each GPU."""


def devices(demand: Demand) -> float:
    """How many devices a pod of this demand uses."""
    pieces = sum(value for name, value in demand.requests if name not in NATIVE and "/" in name)
    cores = next((value for name, value in demand.requests if name == CPU), 0) / 1000
    return float(pieces) if pieces else cores / CORES


def unsaved(pod: Pod, now: float) -> float:
    """Device-seconds since the pod's start, or since its last reported checkpoint."""
    since = max(pod.bound_at if pod.bound_at is not None else now, pod.saved_at or 0.0)
    return devices(pod.demand) * max(0.0, now - since)


def so_far(record: GangRecord, owners: Mapping[str, OwnerTraits], now: float) -> float:
    """Device-seconds of all running members, and of those before the last suspension."""
    return before(record, owners) + sum(held * max(0.0, now - at) for held, at in running(record))


def running(record: GangRecord) -> tuple[tuple[float, float], ...]:
    """For each running member, its devices and start time, if its bind time is known."""
    began = [(m.pod, m.pod.bound_at) for m in record.live() if m.bound]
    return tuple((devices(pod.demand), at) for pod, at in began if at is not None)


def before(record: GangRecord, owners: Mapping[str, OwnerTraits]) -> float:
    """Device-seconds before the last suspension, as recorded on its Jobs."""
    owned = {m.pod.owner.uid for m in record.members.values() if m.pod.owner is not None}
    return sum(owners[uid].attained for uid in sorted(owned) if uid in owners)


def born(record: GangRecord, owners: Mapping[str, OwnerTraits]) -> float:
    """Creation of the first Job of its pods, which a suspension does not change. Without a Job, its arrival."""
    owned = {m.pod.owner.uid for m in record.members.values() if m.pod.owner is not None}
    made = [owners[uid].created for uid in owned if uid in owners]
    return min((at for at in made if at is not None), default=record.arrived)


def way(record: GangRecord, owners: Mapping[str, OwnerTraits]) -> GiveWay:
    """How it is preempted: suspended if it asks for that and one Job owns all of it, otherwise evicted."""
    wish = record.spec.wish.give_way if isinstance(record.spec, Spec) else None
    suspends = wish is GiveWay.SUSPEND and job_of(record, owners) is not None
    return GiveWay.SUSPEND if suspends else GiveWay.EVICT


def job_of(record: GangRecord, owners: Mapping[str, OwnerTraits]) -> OwnerTraits | None:
    """The single Job that owns all of it, if any."""
    owned = {m.pod.owner.uid if m.pod.owner else "" for m in record.live()}
    traits = owners.get(next(iter(owned), "")) if len(owned) == 1 else None
    return traits if traits is not None and traits.suspends else None


def leaves_alone(record: GangRecord, registry: Registry) -> bool:
    """Suspending the controllers of its pods would stop no other gang."""
    owners = {m.pod.owner.uid for m in record.live() if m.pod.owner is not None}
    return all(key == record.key for owner in owners for key in registry.owned_by(owner))


def leaves_as_one(record: GangRecord, owners: Mapping[str, OwnerTraits], registry: Registry) -> bool:
    """It would be suspended, and no other gang with it."""
    return way(record, owners) is GiveWay.SUSPEND and leaves_alone(record, registry)
