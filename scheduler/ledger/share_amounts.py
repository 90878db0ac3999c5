"""Shares as people see them: what each namespace uses, is guaranteed, borrows, may use at most, and waits for.

Lives here: which namespaces have something to tell, and their amounts. Never here: what follows from them
(`namespace_usage`), or who may read them.
"""

from typing import Final, NamedTuple

from scheduler.ledger.cache import Cache
from scheduler.model.resources import is_device


class ShareAmount(NamedTuple):
    """One resource of a namespace, in the units of the ResourceAxis."""

    used: float
    """By bound pods, and by seats that are kept."""
    guaranteed: float
    borrowed: float
    """Used beyond what is guaranteed, of a resource that some namespace is guaranteed: it may be taken back."""
    ceiling: float | None
    """None: nothing limits it."""
    waiting: float
    """Asked for by pods without a seat, of gangs that wait with their whole quorum. Of a replica that acts alone."""


NOTHING: Final = ShareAmount(0.0, 0, 0.0, None, 0)


def namespaces(cache: Cache) -> list[str]:
    """Those of `queue.shares`, and those without a share that use devices or wait for some; in order."""
    usage = cache.share_usage
    others = (
        namespace
        for amounts in (usage.used, cache.wanted())
        for namespace, own in amounts.items()
        if any(map(is_device, own))
    )
    return sorted({*usage.shares, *others})


def amounts(cache: Cache, namespace: str) -> dict[str, ShareAmount]:
    """By resource, in order: of all that the namespace uses, waits for, or that its share names."""
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
