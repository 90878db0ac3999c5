"""The moment at which all may begin: a Lease that the bench holds until then.

Every kube-scheduler here elects its leader by one Lease, and the extender acts only beside the leader. While the
bench holds the Lease, whoever would make the first move stands by with full caches: kube-scheduler reads everything
before it waits for leadership. So on every road nothing is counted but the work itself: no start of a process, no
first list, no backlog of a watch that was held up (as it would be after SIGSTOP). It is the same trick for all of
them, and the one by which a second replica stands by in a cluster.
"""

from typing import Any, Final

from bench.plane import Client, where

NAMESPACE: Final = "gangwright-system"
NAME: Final = "gangwright"
PATH: Final = where("leases", NAMESPACE, NAME)

LONG: Final = 24 * 3600
"""Seconds of the bench's own lease: it never runs out by itself."""

HOLDER: Final = "bench"


async def hold(api: Client) -> None:
    """Nobody leads until `release`. Before the programs start."""
    lease: dict[str, Any] = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "holderIdentity": HOLDER,
            "leaseDurationSeconds": LONG,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    }
    await api.delete(PATH)
    await api.create(where("leases", NAMESPACE), lease)


async def release(api: Client) -> None:
    """The Lease is anybody's; kube-scheduler looks at it every two seconds (`retryPeriod`)."""
    await api.patch(PATH, {"spec": {"holderIdentity": ""}}, how="merge")


async def taken(api: Client) -> None:
    """Waits until somebody leads: kube-scheduler binds from here on. Raises NeverCameError."""
    await api.until(PATH, lambda lease: lease["spec"].get("holderIdentity"))
