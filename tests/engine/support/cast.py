"""Who plays in the fake world: pods, their owners and their gangs, each in one line.

    pods = a_gang_of_pods("train", 4, gpu=1)
    job = an_owner("Job", "train")

A pod carries our gate unless told otherwise, as everybody does on the main road.
"""

from dataclasses import replace

from scheduler.model.demand import AnyOf, Demand
from scheduler.model.neighbors import NO_NEIGHBORS, Neighbors
from scheduler.model.workload import (
    Complaint,
    GangKey,
    GiveWay,
    Membership,
    Owner,
    OwnerTraits,
    Phase,
    Pin,
    Pod,
    PodKey,
    Strategy,
    Uid,
    Wish,
)
from tests.support.builders import a_demand

OURS = "gangwright"
FREELY = frozenset({"ReplicaSet", "StatefulSet"})
"""Kinds whose controllers make a pod again at no cost."""


def an_owner(kind: str = "ReplicaSet", name: str = "set") -> Owner:
    return Owner(kind, name, f"{kind}/{name}", "apps/v1")


def traits_of(owner: Owner, namespace: str = "default", created: float = 0.0) -> OwnerTraits:
    freely, suspends = owner.kind in FREELY, owner.kind == "Job"
    return OwnerTraits(
        owner.uid,
        remakes_freely=freely,
        suspends=suspends,
        namespace=namespace,
        created=created if suspends else None,
    )


def a_membership(
    gang: str,
    quorum: int | dict[str, int] | None,
    *,
    namespace: str = "default",
    said_by: str = "gangwright",
    role: str = "",
    size: int | None = None,
    surplus: bool = False,
    strategy: Strategy | None = None,
    level: str | None = None,
    required: bool | None = None,
    timeout: float | None = None,
    pin: Pin | None = None,
    runtime: float | None = None,
    max_runtime: float | None = None,
    give_way: GiveWay | None = None,
) -> Membership:
    """`quorum`: a number for a gang without roles, numbers by role, or None where a group object tells it."""
    return Membership(
        GangKey(namespace, gang),
        said_by,
        role,
        {"": quorum} if isinstance(quorum, int) else quorum,
        size,
        surplus,
        wish=Wish(
            strategy=strategy,
            level=level,
            required=required,
            timeout=timeout,
            expected_runtime=runtime,
            max_runtime=max_runtime,
            pin=pin,
            give_way=give_way,
        ),
    )


def a_pod(
    name: str = "pod",
    *,
    namespace: str = "default",
    uid: str | None = None,
    membership: Membership | None = None,
    scheduler: str = OURS,
    node: str | None = None,
    phase: Phase = Phase.PENDING,
    priority: int = 0,
    created: float = 0.0,
    gated: bool = True,
    held_back: bool = False,
    native_group: bool = False,
    owner: Owner | None = None,
    demand: Demand | None = None,
    affinity: AnyOf = (),
    pinned: str | None = None,
    complaints: tuple[Complaint, ...] = (),
    preempts: bool = True,
    neighbors: Neighbors = NO_NEIGHBORS,
    labels: str = "",
    **needs,
) -> Pod:
    """One pod; `needs` as a_demand takes them. A pod that is bound is not gated."""
    demand = demand or a_demand(**needs, constraints=(affinity,) if affinity else ())
    return Pod(
        uid=Uid(uid or f"{namespace}/{name}"),
        key=PodKey(namespace, name),
        demand=demand,
        scheduler=scheduler,
        node=node,
        phase=phase,
        priority=priority,
        created=created,
        gated=gated and node is None and scheduler == OURS and not native_group,
        held_back=held_back,
        native_group=native_group,
        membership=membership,
        affinity=affinity,
        pinned=pinned,
        owner=owner,
        complaints=complaints,
        preempts=preempts,
        neighbors=neighbors,
        labels=labels,
    )


def a_gang_of_pods(
    gang: str,
    count: int,
    *,
    quorum: int | None = None,
    namespace: str = "default",
    wish: dict[str, object] | None = None,
    size: int | None = None,
    **each,
) -> list[Pod]:
    """`count` pods that name one gang; its quorum is all of them unless told otherwise. `wish`: as a_membership."""
    membership = a_membership(
        gang, count if quorum is None else quorum, namespace=namespace, size=size, **(wish or {})
    )
    return [
        a_pod(f"{gang}-{number}", namespace=namespace, membership=membership, **each)
        for number in range(count)
    ]


def with_membership(pod: Pod, **changes) -> Pod:
    """The same pod, saying something else of its gang."""
    assert pod.membership is not None
    return replace(pod, membership=replace(pod.membership, **changes))
