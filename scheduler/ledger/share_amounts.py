"""Shares as users see them: each namespace's use, guarantee, borrowing, ceiling and waiting requests.

Lives here: which namespaces are listed, and their amounts. Never here: what follows from them (`namespace_usage`), or
who may read them.
"""

from typing import Final, NamedTuple

from scheduler.ledger.cache import Cache
from scheduler.model.resources import is_device


class ShareAmount(NamedTuple):
    """One resource of a namespace, in the units of the ResourceAxis."""

    used: float
    """By bound pods and held seats."""
    guaranteed: float
    borrowed: float
    """Use beyond the guarantee, of a resource that some namespace is guaranteed. It may be reclaimed."""
    ceiling: float | None
    """None: unlimited."""
    waiting: float
    """Requests of pods without a seat, for gangs with their whole quorum waiting. Only known to the active replica."""


NOTHING: Final = ShareAmount(0.0, 0, 0.0, None, 0)


def namespaces(cache: Cache) -> list[str]:
    """The namespaces in `queue.shares`, and others that use or wait for devices, sorted."""
    usage = cache.share_usage
    others = (
        namespace
        for amounts in (usage.used, cache.wanted())
        for namespace, own in amounts.items()
        if any(map(is_device, own))
    )
    return sorted({*usage.shares, *others})


def amounts(cache: Cache, namespace: str) -> dict[str, ShareAmount]:
    """By resource, sorted: everything that the namespace uses, waits for, or has in its share."""
    found, above = cache.share_usage.of(namespace), cache.share_usage.excess().get(namespace, {})
    least, most = dict(found.share.guaranteed), dict(found.share.ceiling)
    wanted = cache.wanted().get(namespace, {})
    return {
        name: ShareAmount(
            found.used.get(name, 0.0),
            least.get(name, 0),
            above.get(name, 0.0),
            most.get(name),
            wanted.get(name, 0),
        )
        for name in sorted({*found.used, *least, *most, *wanted})
    }
